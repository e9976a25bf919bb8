/* Windows of ranks of one host, all of whose parts every rank reaches by itself. MPI's synchronisation on them is words in shared memory
 * (epochs.h). Its operations are loads, stores and atomic instructions where the memory is shared; memory of the program's own is read
 * and written by the kernel (CMA), and then all who change elements there enter and leave. No lock is needed for anything here but for what
 * the caller keeps for itself; nothing waits, but for pm_direct_enter(). */
#ifndef PM_DIRECT_H_INCLUDED
#define PM_DIRECT_H_INCLUDED

#include "coll/window/window.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pm_direct_part {
    char *memory;               /* NULL: it is reached by pm_direct_write() and pm_direct_read() only */
    uint64_t bytes;
    uint64_t unit;              /* of displacements */
} pm_direct_part;

typedef enum pm_hold { PM_HOLDS_NOTHING, PM_HOLDS_SHARED, PM_HOLDS_EXCLUSIVE, PM_HOLDS_UNCHECKED } pm_hold;

typedef struct pm_direct {
    pm_direct_part *parts;      /* by rank */
    unsigned char *holds;       /* by rank: a pm_hold, which lock of it this rank has */
    unsigned char *started;     /* by rank: it is in the group of MPI_Win_start */
    int by_instructions;        /* all of it is shared: elements are changed by atomic instructions */
    uint32_t *posts_used, *completes_used;      /* by rank: how many of its have met a call of ours */
} pm_direct;

/* After all have been met. Whether this rank reaches the parts and sees the boards of all; if it is so at all ranks, they make it direct.
 * Whether it sees the parts as well; if it is so at all ranks, elements are changed by instructions. */
int pm_window_may_be_direct(const pm_window *window);
int pm_window_is_seen(const pm_window *window);
pm_direct *pm_window_make_direct(pm_window *window, int by_instructions);

/* 1 when we have it. An exclusive one is wanted from the first try in vain until it is got or given up. */
int pm_direct_try_lock(pm_window *window, int target, int exclusive);
void pm_direct_want_lock(pm_window *window, int target, int wants);
void pm_direct_unlock(pm_window *window, int target, int exclusive);
/* Before the last try and the sleep: who unlocks wakes us. */
void pm_direct_falls_asleep(pm_window *window, int target);

/* To a rank, and how often it has come from one. */
void pm_direct_post(pm_window *window, int origin);
uint32_t pm_direct_posts(pm_window *window, int target);
void pm_direct_complete(pm_window *window, int target);
uint32_t pm_direct_completes(pm_window *window, int origin);

/* Collective. The fence that we have come to is over when as many are as it says. */
uint32_t pm_direct_arrive(pm_window *window);
uint32_t pm_direct_fences(const pm_window *window);

/* Of a part that is not shared. 0: its rank has died, or does not let us any more. */
int pm_direct_write(pm_window *window, int target, uint64_t offset, const void *data, size_t size);
int pm_direct_read(pm_window *window, int target, uint64_t offset, void *data, size_t size);

/* Whether the process of some rank has ended, who may hold what others wait for. A few microseconds for each rank. */
int pm_direct_has_lost_one(const pm_window *window);

/* Elements that the processor does not change as a whole: nobody else is at those that begin near this offset of the target's part, which
 * are those up to the answer. 0: who was at it has died there. */
#define PM_DIRECT_STRIPES 32    /* of so many bytes each; then they begin again */
#define PM_DIRECT_STRIPE_BYTES 256
uint64_t pm_direct_enter(pm_window *window, int target, uint64_t offset);
void pm_direct_leave(pm_window *window, int target, uint64_t offset);

#ifdef __cplusplus
}
#endif
#endif
