#include "coll/progress.h"

#include "coll/am/am.h"
#include "coll/barrier/barrier.h"
#include "coll/mcast/mcast.h"
#include "coll/window/window.h"

extern "C" {

void pm_coll_poll(void)
{
    if (pm_barriers_in_flight)
        pm_barrier_poll();
    if (pm_counters_armed)
        pm_windows_poll();
    if (pm_mcast_watches)
        pm_mcast_poll();
    if (pm_am_pending)
        pm_am_poll();
}

void pm_coll_attend(void)
{
    pm_mcast_attend();
    pm_barrier_attend();
    pm_am_attend();
}

}  // extern "C"
