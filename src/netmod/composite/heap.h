/* Memory that peers on this host read without a system call, for what many of them will pull. Under the caller's lock, as core.h.
 * Apart from core.h, which all of MPICH includes: a change here recompiles little. */
#ifndef PM_HEAP_H_INCLUDED
#define PM_HEAP_H_INCLUDED

#include "netmod/composite/core.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PM_SHARED_LIMIT (260 * 1024)

void *pm_shared_alloc(size_t size);     /* at most PM_SHARED_LIMIT; NULL when there is none left */
void pm_shared_free(void *block);

/* From now on pm_progress() fails with this. */
void pm_give_up(const char *text);

/* Whether a peer is reached over shared memory; then [address, address + size) of its shared memory is at the answer here, or NULL. */
int pm_on_host(const pm_peer *peer);
int pm_has_ended(const pm_peer *peer);  /* a process of this host has; 0 when that is not known */
void *pm_shared_view(pm_peer *peer, uint64_t address, size_t size);

#ifdef __cplusplus
}
#endif
#endif
