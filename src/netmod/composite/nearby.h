/* What processes of one host tell each other in shared memory, where no message does. */
#ifndef PM_NEARBY_H_INCLUDED
#define PM_NEARBY_H_INCLUDED

#include "netmod/composite/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Something has changed that the peer should look at. pm_ring() always tells it; pm_nudge() only when it sleeps: for one that looks by
 * itself while it waits, the last time between pm_wait_arm() and pm_wait_sleep(). No lock needed. */
void pm_ring(pm_peer *peer);
void pm_nudge(pm_peer *peer);

/* What this thread waited for has come: its next wait begins with polling, as after a message. */
void pm_wait_restart(void);

#ifdef __cplusplus
}
#endif
#endif
