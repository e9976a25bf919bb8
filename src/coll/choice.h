/* Which way a collective goes: what is known of a call goes in, the way comes out. Pure functions; all ranks of a call know the same and so
 * choose the same.
 *
 * Ranks that share memory are a team (coll/team), and go through its board: one copy in and one out, or one from memory to memory, and as
 * few turns as there can be. Everything else goes by MPICH's own algorithms, which are messages. */
#ifndef PM_CHOICE_H_INCLUDED
#define PM_CHOICE_H_INCLUDED

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pm_call {
    int chosen;                 /* the user has chosen an algorithm of MPICH's */
    int reads;                  /* the ranks of the team may read each other's memory */
    int plain;                  /* what is reduced: operation and datatype are MPI's own, and that has no gaps; otherwise 1 */
    int known;                  /* all ranks know what all others have */
    size_t bytes;               /* the most that one rank enters with; if that is known */
} pm_call;

int pm_goes_by_team(const pm_call *call);

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
