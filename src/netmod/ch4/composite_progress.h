#ifndef COMPOSITE_PROGRESS_H_INCLUDED
#define COMPOSITE_PROGRESS_H_INCLUDED

#include "composite_impl.h"
#include "coll/barrier/barrier.h"
#include "coll/mcast/mcast.h"
#include "coll/window/window.h"

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_progress(int vci, int blocking)
{
    if (unlikely(pm_progress() < 0))
        return MPIDI_COMPOSITE_lost();
    /* What others do in shared memory comes with no message. */
    if (unlikely(pm_barriers_in_flight))
        pm_barrier_poll();
    if (unlikely(pm_counters_armed))
        pm_windows_poll();
    if (unlikely(pm_mcast_watches))
        pm_mcast_poll();
    return MPI_SUCCESS;
}

#endif
