/* What processes of one host do in each other's memory, where no message tells it. Under the caller's lock, as core.h, but for what
 * says otherwise. Apart from core.h, which all of MPICH includes: a change here recompiles little. */
#ifndef PM_SHARED_H_INCLUDED
#define PM_SHARED_H_INCLUDED

#include "netmod/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks that peers on this host read without a system call, for what many of them will pull. */
#define PM_SHARED_LIMIT (260 * 1024)

void *pm_shared_alloc(pm_core *core, size_t size);      /* at most PM_SHARED_LIMIT; NULL when there is none left */
void pm_shared_free(pm_core *core, void *block);
/* Memory of any size that they see as well, zeroed; NULL when there is none. pm_mapped_free() answers 0 for what is other memory. */
void *pm_mapped_alloc(pm_core *core, size_t size);
/* Backed by memory are only so many bytes from its beginning; who uses the rest has that done first, page by page (MADV_POPULATE_WRITE). */
void *pm_mapped_alloc_part(pm_core *core, size_t size, size_t at_once);
int pm_mapped_free(pm_core *core, void *block);

/* Whether a peer is reached over shared memory; then [address, address + size) of its shared memory is at the answer here, or NULL. */
int pm_on_host(const pm_peer *peer);
/* And it reaches us there, whatever happens: both answer the same. */
int pm_is_beside(const pm_peer *peer);
int pm_has_ended(const pm_peer *peer);  /* a process of this host has; 0 when that is not known */
void *pm_shared_view(pm_peer *peer, uint64_t address, size_t size);

/* A large message that is pulled, by its sender, too, as far as that looks in time. The receiver opens it, tells the sender the number that it gets, and
 * pulls; 0: better alone. `busy`: others are to pull from this process, so that the sender, too, may have something to pull. The sender helps when it is told.
 * pm_joint_pull() is as pm_pull(). */
uint32_t pm_joint_open(const pm_peer *peer, size_t size, int busy);
int pm_joint_pull(pm_peer *peer, uint32_t number, uint64_t address, void *place, size_t size);
void pm_joint_help(const pm_peer *peer, uint32_t number, const void *data, uint64_t place, size_t size);

/* Any memory of a peer whose shared memory has been viewed, by the kernel: 1, or 0 when it is not allowed or the peer is gone. No lock needed. */
int pm_read_memory(const pm_peer *peer, uint64_t address, void *data, size_t size);
/* Whether the settings allow it; whether the kernel does is found out by trying. */
int pm_may_read_memory(const pm_core *core);
int pm_write_memory(const pm_peer *peer, uint64_t address, const void *data, size_t size);
/* Several pieces, of which each is as long here as there. */
int pm_read_pieces(const pm_peer *peer, const struct iovec *here, const struct iovec *there, size_t count);
int pm_write_pieces(const pm_peer *peer, const struct iovec *here, const struct iovec *there, size_t count);

/* Something has changed that the peer should look at. pm_ring() always tells it; pm_nudge() only when it sleeps: for one that looks by
 * itself while it waits, the last time between pm_wait_arm() and pm_wait_sleep(). No lock needed. */
void pm_ring(pm_peer *peer);
void pm_nudge(pm_peer *peer);
int pm_may_sleep(const pm_peer *peer);

#ifdef __cplusplus
}
#endif
#endif
