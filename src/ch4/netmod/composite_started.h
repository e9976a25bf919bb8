#ifndef COMPOSITE_STARTED_H_INCLUDED
#define COMPOSITE_STARTED_H_INCLUDED

#include "composite_team.h"

/* Collectives that were started (composite_started.c): whether one of them could go on; those of ranks that have gone end. */
int MPIDI_COMPOSITE_started_init(void); /* PM_OK or PM_FAILED */
bool MPIDI_COMPOSITE_started_have_news(void);
void MPIDI_COMPOSITE_attend_started(void);
void MPIDI_COMPOSITE_started_finalize(void);

/* Persistent ones. Which way it would go if it were started without a request, which all ranks ask and are answered the same. By a team: then a
 * request has one of its own (MPIDI_COMPOSITE_team_of_request); by leaders: then it has a tag, and one for the host, if the host has a team. What
 * this thread starts goes there, until it is told NULL. That team ends, or will when what is in flight has. */
typedef enum { MPIDI_COMPOSITE_BY_SCHEDULES, MPIDI_COMPOSITE_BY_TEAM, MPIDI_COMPOSITE_BY_LEADERS } MPIDI_COMPOSITE_kept_way_t;
typedef struct {
    MPIDI_COMPOSITE_team_t *team;
    int tag;
} MPIDI_COMPOSITE_of_request_t;
MPIDI_COMPOSITE_kept_way_t MPIDI_COMPOSITE_could_start(MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective, MPI_Aint count, MPI_Datatype type,
                                                       MPI_Op op);
void MPIDI_COMPOSITE_start_on(const MPIDI_COMPOSITE_of_request_t * request);
void MPIDI_COMPOSITE_started_team_free(MPIDI_COMPOSITE_team_t * team);

#endif
