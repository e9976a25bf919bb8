#ifndef COMPOSITE_STARTED_H_INCLUDED
#define COMPOSITE_STARTED_H_INCLUDED

#include "composite_team.h"

/* Collectives that were started (composite_started.c): whether one of them could go on; those of ranks that have gone end. */
bool MPIDI_COMPOSITE_started_have_news(void);
void MPIDI_COMPOSITE_attend_started(void);
void MPIDI_COMPOSITE_started_finalize(void);

/* Persistent ones. Whether the team of the communicator would do it, which all ranks ask and are answered the same: then a request has a team of
 * its own (MPIDI_COMPOSITE_team_of_request). What this thread starts goes there, until it is told NULL. That team ends, or will when what is
 * in flight has. */
bool MPIDI_COMPOSITE_could_start(MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective, MPI_Aint count, MPI_Datatype type, MPI_Op op);
void MPIDI_COMPOSITE_start_on(MPIDI_COMPOSITE_team_t * team);
void MPIDI_COMPOSITE_started_team_free(MPIDI_COMPOSITE_team_t * team);

#endif
