/* Teams of communicators (composite_team.c), for the collectives that go by them (composite_team_coll.c). */
#ifndef COMPOSITE_TEAM_H_INCLUDED
#define COMPOSITE_TEAM_H_INCLUDED

#include "mpidimpl.h"
#include "coll/choice.h"
#include "coll/team/team.h"

/* What a rank is in: all must be in the same. */
typedef enum {
    MPIDI_COMPOSITE_IN_NONE, MPIDI_COMPOSITE_IN_BARRIER, MPIDI_COMPOSITE_IN_BCAST, MPIDI_COMPOSITE_IN_GATHER, MPIDI_COMPOSITE_IN_GATHERV,
    MPIDI_COMPOSITE_IN_SCATTER, MPIDI_COMPOSITE_IN_SCATTERV, MPIDI_COMPOSITE_IN_ALLGATHER, MPIDI_COMPOSITE_IN_ALLGATHERV,
    MPIDI_COMPOSITE_IN_ALLTOALL, MPIDI_COMPOSITE_IN_ALLTOALLV, MPIDI_COMPOSITE_IN_ALLTOALLW, MPIDI_COMPOSITE_IN_REDUCE,
    MPIDI_COMPOSITE_IN_ALLREDUCE, MPIDI_COMPOSITE_IN_REDUCE_SCATTER, MPIDI_COMPOSITE_IN_REDUCE_SCATTER_BLOCK, MPIDI_COMPOSITE_IN_SCAN,
    MPIDI_COMPOSITE_IN_EXSCAN, MPIDI_COMPOSITE_COLLECTIVES
} MPIDI_COMPOSITE_collective_t;
extern const char *const MPIDI_COMPOSITE_collective_names[];

typedef struct MPIDI_COMPOSITE_team {
    pm_team *team;
    int rank, ranks;
    bool reads;                 /* everybody may read everybody's memory */
    unsigned ahead;             /* so many steps may be entered before the first of them is finished */
    pm_switch ways[PM_COLLECTIVES];
    size_t limit;               /* of the collective that we are in: what is longer stays where it is; more than a page goes in pieces */
    uint64_t apart;             /* up to this step others may be far behind: it follows a long collective, or is one */
    const void *in_memory;      /* the collective that goes from memory to memory and ends later; there is one at a time */
    int gone;                   /* who is: nothing goes on any more; -1: nobody */
    MPIDI_COMPOSITE_collective_t collective;    /* that we are in */
    bool harmless;              /* what went wrong last: a rank said another number of bytes than it should, and nothing else */
    struct MPIDI_COMPOSITE_left *board; /* if it is ours */
    uint64_t said[3];           /* what rank 0 says of its board */
    void *alone;                /* instead of a board that others see, where that could not be had because somebody is gone */
    bool behind;                /* for what ends later: steps are entered before those before them are finished */
    struct MPIDI_COMPOSITE_team *second;        /* for that; of a host among several its own is for what comes down to it */
    struct MPIDI_COMPOSITE_started *started;    /* composite_started.c: of one for what ends later, what has not ended */
} MPIDI_COMPOSITE_team_t;

/* Of a communicator whose ranks all share memory, from its first collectives on. NULL: it has none, and that is so at all of its ranks.
 * Where a rank ended before that was agreed on there is one in which somebody is gone, so that the collective fails. Most have one from
 * the beginning on, which those that end later use at once (at_hand); where it has none only collectives that wait make one. */
int MPIDI_COMPOSITE_team_comm_commit(MPIR_Comm * comm);
MPIDI_COMPOSITE_team_t *MPIDI_COMPOSITE_team_at_hand(MPIR_Comm * comm);
MPIDI_COMPOSITE_team_t *MPIDI_COMPOSITE_team_of(MPIR_Comm * comm);
void MPIDI_COMPOSITE_team_comm_free(MPIR_Comm * comm);
/* One more of the same ranks, for what is started and ends later, where the communicator has a team: that of a persistent request, since its
 * starts have an order of their own. All ranks make one at the same time, and wait for each other. NULL: there is no board for it, at all of
 * them. It ends under the lock. */
int MPIDI_COMPOSITE_team_of_request(MPIR_Comm * comm, MPIDI_COMPOSITE_team_t ** its);
void MPIDI_COMPOSITE_team_leave(MPIDI_COMPOSITE_team_t * team);
void MPIDI_COMPOSITE_team_finalize(void);

/* composite_coll.c: its ways, of which all ranks have the same; whether the leaders of hosts do so much; how often this rank went which. The last
 * one counts, and is false. */
bool MPIDI_COMPOSITE_by_leaders(MPIDI_COMPOSITE_collective_t collective, size_t bytes);
void MPIDI_COMPOSITE_choose(MPIDI_COMPOSITE_team_t * team);
extern uint64_t MPIDI_COMPOSITE_coll_counts[MPIDI_COMPOSITE_COLLECTIVES][PM_WAYS];
bool MPIDI_COMPOSITE_coll_by_messages(const MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective);

/* Nothing goes on here any more because of this rank; others who wait for us are told. The second one answers the error. */
void MPIDI_COMPOSITE_team_give_up(MPIDI_COMPOSITE_team_t * team, int rank);
int MPIDI_COMPOSITE_team_lost(MPIDI_COMPOSITE_team_t * team, int rank);
/* Until `awaited` says -1, instead of a rank that is waited for. */
int MPIDI_COMPOSITE_team_wait(MPIDI_COMPOSITE_team_t * team, int (*awaited) (MPIDI_COMPOSITE_team_t *, const void *), const void *what);
/* Room for so many bytes of the next step. */
int MPIDI_COMPOSITE_team_room(MPIDI_COMPOSITE_team_t * team, size_t size);
/* Until a rank, or all, have entered the step that we have entered. */
int MPIDI_COMPOSITE_team_await(MPIDI_COMPOSITE_team_t * team, int rank);
int MPIDI_COMPOSITE_team_await_all(MPIDI_COMPOSITE_team_t * team);

#endif
