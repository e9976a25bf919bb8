/* Writes that tell the target of them, on the windows of MPI, as MPICH's C code sees them. Called under the caller's lock, as the
 * functions of core.h, but for those that say otherwise.
 *
 * A write is followed by what it tells (pm_after): whoever sees that sees the data. Between ranks of one host that see each
 * other's memory both are plain stores; elsewhere they are one message. Nobody acknowledges a write: pm_window_sync() asks
 * the targets, and they answer in order. */
#ifndef PM_WINDOW_H_INCLUDED
#define PM_WINDOW_H_INCLUDED

#include "netmod/core/core.h"
#include "netmod/core/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PM_NOTIFICATIONS 1024
#define PM_COUNTERS 256

/* `way` is auto, message or put: how writes that notify go where a device could do it. PM_FAILED: it has no meaning. */
int pm_windows_open(pm_core *core, const char *way);
void pm_windows_close(void);

typedef struct pm_window pm_window;
typedef struct pm_window_setup {
    uint64_t id;                /* the same at all ranks */
    int size;
    int rank;
    void *base;
    uint64_t bytes;
    uint64_t unit;              /* of displacements */
    void *context;
    pm_peer *(*peer)(void *context, int rank);
    /* Where that rank's part, which is at `base` there, is here; NULL when it cannot be seen. */
    void *(*memory)(void *context, int rank, uint64_t base, uint64_t bytes);
    int is_of_program;          /* the memory was the program's before: peers may not see it. The same at all ranks */
    int registers;              /* devices may reach the parts by themselves, where they can; the same at all ranks */
} pm_window_setup;
/* What the others need of our part is written into `card`, with a size that is the same at all ranks; theirs are given by
 * pm_window_meet() before anything is written. */
#define PM_WINDOW_CARD 40
#define PM_WINDOW_CARD_MAX (PM_WINDOW_CARD + 2 * (16 + PM_MEMORY_KEY_MAX))
pm_window *pm_window_open(const pm_window_setup *setup, void *card, size_t *card_size);
void pm_window_meet(pm_window *window, int rank, const void *card);
void pm_window_close(pm_window *window);

/* Some rank's part may be reached by a device alone. Nobody wakes who waits for a notification from there: it sleeps for short times. */
int pm_window_is_one_sided(const pm_window *window);
/* By a device alone, as pm_put() and pm_get(): PM_QUEUED when nothing has happened, and a message should do it. */
int pm_window_put_alone(pm_window *window, int target, uint64_t offset, const void *data, size_t size);
int pm_window_get_alone(pm_window *window, int target, uint64_t offset, void *data, size_t size);
/* 1 once all that devices do alone has happened; call pm_progress() until then. */
int pm_window_alone_done(pm_window *window);

/* What happens at the target when the data is there. */
typedef enum pm_after_kind { PM_AFTER_NOTHING, PM_AFTER_NOTIFY, PM_AFTER_COUNT, PM_AFTER_FLAG } pm_after_kind;
typedef struct pm_after {
    pm_after_kind kind;
    int value;                  /* notification, counter, or value of the flag */
    uint64_t offset;            /* of the flag, an int, in the target's part */
    int may_be_discarded;       /* when the target has said that it does not want it */
} pm_after;

/* Where a displacement is in the target's part, beyond its end if it is no place in memory; and 1 when that has such bytes. */
uint64_t pm_window_offset(const pm_window *window, int target, int64_t displacement);
int pm_window_is_aligned(const pm_window *window, int target, uint64_t offset);  /* as an int is */
int pm_window_holds(const pm_window *window, int target, uint64_t offset, uint64_t size);

/* 1 when that was all by stores. Needs no lock. */
int pm_window_store(pm_window *window, int target, uint64_t offset, const void *data, size_t size, const pm_after *after);
int pm_window_load(pm_window *window, int target, uint64_t offset, void *data, size_t size, int notification); /* -1: none */
/* Otherwise: PM_OK or PM_FAILED. `data` must stay until a sync that was started later has ended. `whole`: there are no other parts of
 * the same operation, which the target may be told of only when all of them are there. */
int pm_window_put(pm_window *window, int target, uint64_t offset, const void *data, size_t size, const pm_after *after, int whole);
int pm_window_get(pm_window *window, int target, uint64_t offset, void *data, size_t size, int notification);
/* Done by `source`: from its part of the window to that of `target`. */
int pm_window_copy(pm_window *window, int source, uint64_t source_offset, int target, uint64_t target_offset, size_t size,
                   const pm_after *after);

/* `*flag` is 0 now, and 1 when everything issued before, to all targets, has happened there, but for what devices do alone. */
int pm_window_sync(pm_window *window, volatile int *flag);
int pm_window_is_clean(const pm_window *window);        /* there is nothing to wait for */
void pm_window_forget(pm_window *window, const volatile int *flag);     /* of a sync that nobody waits for any more */

/* 1 when there was one, which is gone now: the notification, or any of a range of them (`*which`). */
int pm_window_take_any(pm_window *window, int first, int count, int *which);
int pm_window_take_count(pm_window *window, int counter, int arrivals);
/* How often to look for one between two rounds of progress. */
int pm_window_looks(const pm_window *window);

/* `*flag` is 0 now, and 1 when so many have arrived, which are gone then. 0: the counter is armed already. */
int pm_window_arm(pm_window *window, int counter, int arrivals, volatile int *flag);
int pm_window_is_armed(const pm_window *window, int counter);
/* Armed counters of all windows, and whether others may leave errands for us; while there are some, pm_windows_poll() must be called after pm_progress(). */
extern size_t pm_counters_armed;
void pm_windows_poll(void);

void pm_window_discard(pm_window *window, int discard);

/* Rendezvous: data for a rank that says itself where it goes, under the same key. `*flag` is 0 now, and 1 when the data may be
 * reused; or is there. What is longer than the room is cut off. */
int pm_window_offer(pm_window *window, int target, int key, const void *data, size_t size, volatile int *flag);
int pm_window_accept(pm_window *window, int source, int key, uint64_t offset, size_t room, volatile int *flag);

#ifdef __cplusplus
}
#endif
#endif
