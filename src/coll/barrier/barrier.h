/* Fuzzy barriers as MPICH's C code sees them. Called under the caller's lock, as the functions of core.h.
 *
 * A barrier is started and goes on by itself whenever pm_barrier_poll() is called; any number of a group's barriers may be under
 * way, and they end in the order they were started. */
#ifndef PM_BARRIER_H_INCLUDED
#define PM_BARRIER_H_INCLUDED

#include "coll/group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* After pm_open(). */
void pm_barrier_open(pm_core *core, void (*ended)(void *cookie));
void pm_barrier_close(void);

void pm_barrier_group_open(const pm_group_setup *setup);
void pm_barrier_group_close(uint32_t id);

/* `*flag` is 0 now, and 1 as soon as all ranks of the group have started it. Then ended(cookie) is called, perhaps before this
 * returns. Either may be NULL. */
void pm_barrier_start(uint32_t id, volatile int *flag, void *cookie);
int pm_barrier_is_in_flight(uint32_t id, const volatile int *flag);

/* How many barriers of this process have not ended; while that is more than 0, pm_barrier_poll() must be called after pm_progress(). */
extern size_t pm_barriers_in_flight;
void pm_barrier_poll(void);

/* Called now and then: looks after those who do not come. */
void pm_barrier_attend(void);

#ifdef __cplusplus
}
#endif
#endif
