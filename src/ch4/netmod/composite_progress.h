#ifndef COMPOSITE_PROGRESS_H_INCLUDED
#define COMPOSITE_PROGRESS_H_INCLUDED

#include "composite_impl.h"
#include "coll/am/am.h"
#include "coll/barrier/barrier.h"
#include "coll/mcast/mcast.h"
#include "coll/progress.h"
#include "coll/window/window.h"

/* Collectives of teams that were started and have not ended (composite_started.c). */
extern int MPIDI_COMPOSITE_started;
int MPIDI_COMPOSITE_advance_started(void);

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_progress(int vci, int blocking)
{
    if (unlikely(pm_progress(MPIDI_COMPOSITE_global.core) < 0))
        return MPIDI_COMPOSITE_lost();
    if (unlikely(pm_barriers_in_flight || pm_counters_armed || pm_mcast_watches || pm_am_pending))
        pm_coll_poll();
    if (unlikely(MPIDI_COMPOSITE_started))
        return MPIDI_COMPOSITE_advance_started();
    return MPI_SUCCESS;
}

#endif
