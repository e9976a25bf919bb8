/* Who stands where: of some ranks, who speaks for each host, and who is beside us. The same at all of them. For barriers, multicast and collectives
 * of a bitmap; those of a communicator order its hosts by clusters, too (leaders.h). For C and C++. */
#ifndef PM_PLACES_H_INCLUDED
#define PM_PLACES_H_INCLUDED

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pm_places {
    int hosts;
    int *first;                 /* of each host, in the order of these: the first rank there, who speaks for it */
    int ours;                   /* the place of our host in it */
    int mates;
    int *mate;                  /* the others on our host */
} pm_places;

/* Of the ranks 0 to `count` - 1, of which we are `self`. `host` answers a number for each, the same at all; NULL: each has a host of its own. `memory` stays the
 * caller's. */
static inline size_t pm_places_ints(int count)
{
    return 2 * (size_t) count;
}

void pm_places_of(pm_places * places, int *memory, int count, int self, int (*host)(void *context, int rank), void *context);

#ifdef __cplusplus
}
#endif

#endif
