#include "coll/messages.h"

#include "coll/barrier/barrier.h"
#include "coll/mcast/mcast.h"
#include "coll/window/window.h"

static_assert(PM_WINDOW_TAG == PM_COLL_FIRST_TAG && PM_BARRIER_TAG > PM_WINDOW_TAG && PM_MCAST_TAG > PM_BARRIER_TAG);

extern "C" {

void *pm_coll_arrived(int tag, void *header, void *piece, size_t piece_size, size_t total)
{
    if (tag == PM_WINDOW_TAG)
        return pm_window_arrived(header, piece, piece_size, total);
    if (tag == PM_MCAST_TAG)
        return pm_mcast_arrived(header, piece, piece_size, total);
    pm_barrier_arrived(header);
    return nullptr;
}

void pm_coll_more(void *cookie, void *piece, size_t piece_size)
{
    (PM_WINDOW_IS_OURS(cookie) ? pm_window_more : pm_mcast_more)(cookie, piece, piece_size);
}

void *pm_coll_place(void *cookie)
{
    return (PM_WINDOW_IS_OURS(cookie) ? pm_window_place : pm_mcast_place)(cookie);
}

void pm_coll_placed(void *cookie)
{
    (PM_WINDOW_IS_OURS(cookie) ? pm_window_placed : pm_mcast_placed)(cookie);
}

void pm_coll_taken(void *cookie)
{
    (PM_WINDOW_IS_OURS(cookie) ? pm_window_taken : pm_mcast_taken)(cookie);
}

void pm_coll_poll(void)
{
    if (pm_barriers_in_flight)
        pm_barrier_poll();
    if (pm_counters_armed)
        pm_windows_poll();
    if (pm_mcast_watches)
        pm_mcast_poll();
}

void pm_coll_attend(void)
{
    pm_mcast_attend();
    pm_barrier_attend();
}

}  // extern "C"
