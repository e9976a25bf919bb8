/* Memory that peers read and write without its owner, where the device between them can do that (UCX). Under the caller's lock, as
 * core.h. */
#ifndef PM_MEMORY_H_INCLUDED
#define PM_MEMORY_H_INCLUDED

#include "netmod/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pm_memory pm_memory;     /* of this process */
typedef struct pm_remote pm_remote;     /* of a peer */

/* Whether that process has a device for it: everybody comes to the same answer about everybody. */
int pm_may_be_one_sided(const pm_peer *peer);

int pm_one_sided_networks(const pm_core *core);  /* how many there are at this process */

/* NULL when no device of this process can. What others need for it is copied into PM_MEMORY_KEY_MAX bytes. */
#define PM_MEMORY_KEY_MAX 232
pm_memory *pm_register(pm_core *core, void *base, size_t size);
size_t pm_memory_key(const pm_memory *memory, void *key);
void pm_unregister(pm_memory *memory);

/* NULL when the peer's memory is not reached without the peer. */
pm_remote *pm_open_remote(pm_peer *peer, const void *key, size_t size);
void pm_close_remote(pm_remote *remote);

/* PM_OK: under way; the local memory must stay until pm_one_sided_done(). PM_QUEUED: nothing happened, send a message instead
 * (nothing was ever sent to the peer, perhaps). */
int pm_put(pm_remote *remote, uint64_t address, const void *data, size_t size);
int pm_get(pm_remote *remote, uint64_t address, void *data, size_t size);

int pm_writes_by_itself(const pm_remote *remote);        /* without the peer's processor */

/* Adds to 4 bytes, atomically for all who do it this way; whoever sees that sees what was put before. As pm_put(). */
int pm_add_behind(pm_remote *remote, uint64_t address, uint32_t value);

/* 1 once everything so far has reached its target; call pm_progress() until then. */
int pm_one_sided_done(pm_core *core);

#ifdef __cplusplus
}
#endif
#endif
