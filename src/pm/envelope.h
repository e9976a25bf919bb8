/* What every message tells whoever it is for: who sent it, and its header with its size. For C and C++. */
#ifndef PM_ENVELOPE_H_INCLUDED
#define PM_ENVELOPE_H_INCLUDED

#include <stddef.h>

struct pm_peer;                 /* of the core; to a device it is just what introduce() said */

typedef struct pm_envelope {
    struct pm_peer *source;     /* NULL: a process that nobody here has connected to */
    void *header;
    size_t header_size;
    int tag;                    /* 0 to 255 */
} pm_envelope;

#endif
