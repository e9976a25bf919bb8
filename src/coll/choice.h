/* Which way a collective goes: what is known of a call goes in, the way comes out. Pure functions; all ranks of a call know the same and so
 * choose the same.
 *
 * Ranks that share memory are a team (coll/team), and go through its board: one copy in and one out, or one from memory to memory, and as
 * few turns as there can be. Of several teams, on as many hosts, one rank of each sends messages (coll/team/leaders.h). Everything else goes by
 * MPICH's own algorithms, which are messages of all. */
#ifndef PM_CHOICE_H_INCLUDED
#define PM_CHOICE_H_INCLUDED

#include <stddef.h>

#include "coll/team/team.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a user chooses a way for; MPI's other collectives go as the one of these that they are a form of. */
typedef enum pm_collective {
    PM_COLL_BARRIER, PM_COLL_BCAST, PM_COLL_REDUCE, PM_COLL_ALLREDUCE, PM_COLL_GATHER, PM_COLL_SCATTER, PM_COLL_ALLGATHER, PM_COLL_ALLTOALL,
    PM_COLL_REDUCE_SCATTER, PM_COLL_SCAN, PM_COLLECTIVES
} pm_collective;

typedef enum pm_way {
    PM_BY_BOARD,                /* in pieces, if it is longer than a page */
    PM_BY_MEMORY,               /* it stays where it is, and others read it */
    PM_BY_MESSAGES,
    PM_BY_LEADERS,              /* between hosts by messages of one rank of each, inside them as above */
    PM_WAYS
} pm_way;

/* What the user has chosen: words[] are auto, messages, board or memory, by operation; `table` is the path of a file of switch points, or
 * "none". NULL: one of them makes no sense, pm_error_text(). */
typedef struct pm_choices pm_choices;
pm_choices *pm_choices_open(const char *const words[PM_COLLECTIVES], const char *table);
void pm_choices_close(pm_choices *choices);

/* The ways of an operation in a team, by length. */
typedef struct pm_switch {
    size_t board;               /* up to so many bytes: by the board */
    int memory;                 /* what is longer: by memory; otherwise by messages */
    int messages;               /* all of it by messages */
} pm_switch;

/* In a team of so many ranks; they may read each other's memory, or not; there are more of them than cores, or not. */
pm_switch pm_switch_of(const pm_choices *choices, pm_collective operation, int ranks, int reads, int crowded);

/* `bytes`: the most that one rank enters with. */
static inline pm_way pm_way_of(const pm_switch *its, size_t bytes)
{
    if (its->messages)
        return PM_BY_MESSAGES;
    return bytes <= its->board ? PM_BY_BOARD : its->memory ? PM_BY_MEMORY : PM_BY_MESSAGES;
}

/* Where not all ranks know it: each decides for its own, whatever its length. */
static inline pm_way pm_way_of_unknown(const pm_switch *its)
{
    if (its->messages || !its->memory)
        return PM_BY_MESSAGES;
    return its->board > 0 ? PM_BY_BOARD : PM_BY_MEMORY;
}

/* Where all is one step: there are no pieces. */
static inline pm_switch pm_switch_in_one_step(const pm_switch *its)
{
    pm_switch one = *its;

    one.board = one.board < PM_TEAM_PAGE ? one.board : PM_TEAM_PAGE;
    return one;
}

/* Of ranks on several hosts; `bytes` that a rank has in the end. */
int pm_by_leaders(const pm_choices *choices, pm_collective operation, size_t bytes);

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
