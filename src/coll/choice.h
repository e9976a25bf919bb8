/* Which algorithm a collective takes: what is known of a call goes in, the way comes out. Pure functions; all ranks of a call know the
 * same and so choose the same.
 *
 * On a host with more ranks than cores a message costs little and a turn on a core costs much: while a rank waits, every other rank of its
 * core has a turn. A tree or butterfly of log2(n) rounds needs as many turns of everybody. When all talk to one rank, two are enough;
 * when everybody tells everybody, one is, as long as n * n messages are cheap. Where every rank has a core, and between hosts,
 * MPICH's own algorithms are better. */
#ifndef PM_CHOICE_H_INCLUDED
#define PM_CHOICE_H_INCLUDED

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pm_way {
    PM_WAY_GENERIC,             /* what MPICH chooses */
    PM_WAY_DISSEMINATION,       /* of MPICH's, this one */
    PM_WAY_EXCHANGE,            /* everybody tells everybody (coll/exchange) */
    PM_WAY_FLAT,                /* all tell one, and one tells all */
} pm_way;

typedef struct pm_call {
    int chosen;                 /* the user has chosen an algorithm */
    int near;                   /* all ranks are of this job and on this host */
    int crowded;                /* pm_crowded() */
    int ranks;
    size_t bytes;               /* of one rank */
    int plain;                  /* the operation and the datatype are MPI's own, and that has no gaps */
} pm_call;

pm_way pm_barrier_way(const pm_call *call);
pm_way pm_bcast_way(const pm_call *call);
pm_way pm_allreduce_way(const pm_call *call);

/* Whether the root of a flat broadcast leaves a copy in memory that the others read when they come, and waits for nobody; `eager`: up to so
 * many bytes it would not wait anyway. */
int pm_bcast_leaves_copy(size_t bytes, int contiguous, size_t eager);

/* Collectives of some ranks of a communicator. Whole messages along the tree, which are few, or parts of them, so that nobody sends
 * much more than there is: where `bytes` are those that each member has in the end. */
int pm_some_in_whole(size_t bytes);
int pm_some_bcast_in_whole(size_t bytes, int members, int near);
/* Gather and scatter along a tree, instead of between the root and each; `bytes` of one member. */
int pm_some_by_tree(size_t bytes, int members);

#ifdef __cplusplus
}
#endif
#endif
