#ifndef COMPOSITE_STARTED_H_INCLUDED
#define COMPOSITE_STARTED_H_INCLUDED

#include "mpidimpl.h"

/* Collectives that were started (composite_started.c): whether one of them could go on; those of ranks that have gone end. */
bool MPIDI_COMPOSITE_started_have_news(void);
void MPIDI_COMPOSITE_attend_started(void);
void MPIDI_COMPOSITE_started_comm_free(MPIR_Comm * comm);
void MPIDI_COMPOSITE_started_finalize(void);

#endif
