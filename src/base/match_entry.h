/* One receive that is posted, or one message that nobody has asked for yet (matching.h), inside whatever it stands for. For C and C++. */
#ifndef PM_MATCH_ENTRY_H_INCLUDED
#define PM_MATCH_ENTRY_H_INCLUDED

#include <stdint.h>

struct pm_match_entry;

typedef struct pm_match_links {
    struct pm_match_entry *next, *previous;
} pm_match_links;

enum { PM_MATCH_KINDS = 4 };    /* a source and a tag, any source, any tag, both any */

/* What is looked at for every one comes first, and lies in one cache line if the entry begins with one. */
typedef struct pm_match_entry {
    pm_match_links all;         /* in the order in which they came */
    uint64_t number;            /* in that order; 0: in no queue */
    uint32_t context;
    int32_t source, tag;
    int32_t owner;              /* what it is inside of: for the owner of the queue */
    pm_match_links of_kind[PM_MATCH_KINDS];
} pm_match_entry;

#endif
