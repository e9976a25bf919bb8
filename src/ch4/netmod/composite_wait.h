/* What a rank does when a round of progress brought nothing. Called by MPICH's wait loops (maint/graft-mpich). */
#ifndef COMPOSITE_WAIT_H_INCLUDED
#define COMPOSITE_WAIT_H_INCLUDED

/* Which of MPICH's progress hooks have something to do: a bit of each. */
extern int MPIDI_COMPOSITE_hooks;
#define MPIDI_COMPOSITE_HAS_HOOKS() unlikely(__atomic_load_n(&MPIDI_COMPOSITE_hooks, __ATOMIC_ACQUIRE) != 0)

/* In MPI_Wait and everything built on it; `state` remembers how much had been completed before this round. Between that round
 * and the sleep another thread may have completed what we wait for: look again once the doorbell is armed. */
#define MPIDI_COMPOSITE_WAIT(state) MPIDI_COMPOSITE_WAIT_SINCE((state)->progress_counts[0])
#define MPIDI_COMPOSITE_WAIT_SINCE(completed)                                                                            \
    do {                                                                                                       \
        if (pm_wait_step(MPIDI_COMPOSITE_global.core)) {                                                       \
            if (pm_wait_arm(MPIDI_COMPOSITE_global.core) &&                                                    \
                (completed) == MPL_atomic_acquire_load_int(&MPIDI_VCI(0).progress_count))                      \
                pm_wait_sleep(MPIDI_COMPOSITE_global.core, MPIR_ThreadInfo.isThreaded);                        \
            pm_wait_disarm(MPIDI_COMPOSITE_global.core);                                                       \
        }                                                                                                      \
    } while (0)

/* After a poll, without the lock. */
#define MPIDI_COMPOSITE_POLLED()                                                                               \
    do {                                                                                                       \
        if (unlikely(MPIR_ThreadInfo.isThreaded))                                                              \
            pm_wait_unlocked();                                                                                \
    } while (0)

/* In loops that look for a message or for a remote completion without a request. */
#define MPIDI_COMPOSITE_WAIT_MESSAGE()                                                                         \
    do {                                                                                                       \
        if (pm_wait_step(MPIDI_COMPOSITE_global.core)) {                                                       \
            if (pm_wait_arm(MPIDI_COMPOSITE_global.core))                                                      \
                pm_wait_sleep(MPIDI_COMPOSITE_global.core, MPIR_ThreadInfo.isThreaded);                        \
            pm_wait_disarm(MPIDI_COMPOSITE_global.core);                                                       \
        }                                                                                                      \
    } while (0)

/* The same with the lock of the VCI held: other threads get it meanwhile. */
#define MPIDI_COMPOSITE_WAIT_LOCKED(vci)                                                                       \
    do {                                                                                                       \
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(vci).lock);                                                         \
        MPIDI_COMPOSITE_WAIT_MESSAGE();                                                                        \
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(vci).lock);                                                        \
    } while (0)

/* In MPI_Waitany and MPI_Waitsome, after a round of progress; `completed` is that of the state (composite_hooks.c). */
void MPIDI_COMPOSITE_wait_any(int *completed, int count, struct MPIR_Request *requests[]);

/* In MPI_Waitall without statuses, of sends and receives that are complete: where there are threads those from `first` on are freed, under one lock
 * instead of one for each. Answers the first that it left, which has an error (composite_hooks.c). */
int MPIDI_COMPOSITE_free_complete(int first, int count, MPI_Request handles[], struct MPIR_Request *requests[]);

/* In the progress thread (composite_hooks.c). */
void MPIDI_COMPOSITE_wait_in_background(void);

/* While the process manager spawns (composite_spawn.c): until it has answered on its socket. */
void MPIDI_COMPOSITE_await_reply(int fd);

#endif
