/* Everybody in a group tells everybody up to PM_EXCHANGE_BYTES_LIMIT bytes, among at most PM_EXCHANGE_RANKS_LIMIT ranks, as MPICH's C code
 * sees it. Messages of its own, without requests or matching: one needs a tenth of the time of an MPI message. Called under the
 * caller's lock, as the functions of core.h. */
#ifndef PM_EXCHANGE_H_INCLUDED
#define PM_EXCHANGE_H_INCLUDED

#include "base/tuning.h"
#include "coll/group.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pm_exchange pm_exchange;

int pm_exchange_open(pm_core *core);    /* PM_OK or PM_FAILED */
void pm_exchange_close(void);

/* One at a time in a group. NULL: a message could not be sent. */
pm_exchange *pm_exchange_start(const pm_group_setup *group, const void *bytes, size_t size);
int pm_exchange_is_done(const pm_exchange *exchange);
/* When it is done: what each rank said, we included; until the next one of the group is started. */
const char (*pm_exchange_end(pm_exchange *exchange))[PM_EXCHANGE_BYTES_LIMIT];
/* The group is no more. Its id is not used again before. */
void pm_exchange_forget(uint32_t group);

#ifdef __cplusplus
}
#endif
#endif
