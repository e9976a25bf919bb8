/* Which MPI function each thread is in. Every function of the bindings begins and ends with a few stores into a record of the thread
 * (maint/graft-mpich, composite_calls.py), which `mpicomposite why` and the profile read.
 *
 * What a call was given is read by its own thread only, while it is in the call. Others, and handlers of signals, read two words: `now`, and
 * `what` of a record. Each of them makes sense by itself, whenever it is read. */
#ifndef COMPOSITE_CALLS_H_INCLUDED
#define COMPOSITE_CALLS_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is known of a function beforehand; all of them are in one section. The size is a power of two: no compiler leaves gaps. */
typedef struct MPIDI_COMPOSITE_function {
    char name[56];              /* "MPI_Send" */
    int number;                 /* from 1 on */
    int keeps;                  /* of a call */
} MPIDI_COMPOSITE_function;

enum { MPIDI_COMPOSITE_FUNCTIONS_MOST = 1024 };

/* Which members of MPIDI_COMPOSITE_kept there are. */
enum {
    MPIDI_COMPOSITE_KEEPS_OBJECT = 1,
    MPIDI_COMPOSITE_KEEPS_PEER = 2,
    MPIDI_COMPOSITE_KEEPS_TAG = 4,
    MPIDI_COMPOSITE_KEEPS_SOURCE = 8,
    MPIDI_COMPOSITE_KEEPS_SOURCE_TAG = 16,
    MPIDI_COMPOSITE_KEEPS_COUNT = 32,   /* and datatype */
    MPIDI_COMPOSITE_KEEPS_LARGE_COUNT = 64,     /* and datatype */
    MPIDI_COMPOSITE_KEEPS_GROUP = 128,
    MPIDI_COMPOSITE_KEEPS_REQUESTS = 256
};

/* A call as it is kept; what its function does not keep is left over from another. Handles are MPICH's, an int each. */
typedef struct MPIDI_COMPOSITE_kept {
    uint64_t what;              /* `now` when it began, and the number of its function */
    int object, datatype;       /* next to each other: what is stored together */
    int peer, tag;
    int source, source_tag;
    int count, requests_count;
    int64_t large_count;
    const int *requests;
    int group;
} MPIDI_COMPOSITE_kept;

/* Calls may be within calls: those of MPI-IO, user functions, callbacks of attributes. What is deeper takes the place of the outermost. */
enum { MPIDI_COMPOSITE_CALLS_DEEP = 4 };

/* `now`: 12 bits of zeros, 4 with how deep the thread is in calls, 47 with how many it has made, and one that says that the end of the outermost
 * is to be told. A call is added, and only its depth is taken away again. */
#define MPIDI_COMPOSITE_FUNCTION_BITS 12
#define MPIDI_COMPOSITE_DEPTH_BITS 4
#define MPIDI_COMPOSITE_ONE_DEEPER (UINT64_C(1) << MPIDI_COMPOSITE_FUNCTION_BITS)
#define MPIDI_COMPOSITE_ONE_CALL (UINT64_C(1) << (MPIDI_COMPOSITE_FUNCTION_BITS + MPIDI_COMPOSITE_DEPTH_BITS))
#define MPIDI_COMPOSITE_END_IS_TOLD (UINT64_C(1) << 63)

typedef struct MPIDI_COMPOSITE_thread {
    uint64_t now;               /* written by the thread only */
    /* By number of the function: how many more calls of it nobody asks for. NULL: nobody asks for any. */
    int *untold;
    MPIDI_COMPOSITE_kept call[MPIDI_COMPOSITE_CALLS_DEEP];
    int listed;
    long id;                    /* gettid() */
    struct MPIDI_COMPOSITE_thread *next;
} MPIDI_COMPOSITE_thread;

extern __thread MPIDI_COMPOSITE_thread MPIDI_COMPOSITE_this_thread
    __attribute__ ((tls_model("initial-exec"), visibility("hidden")));

/* The first call of a thread, and calls that are profiled; the end of one that is. */
void MPIDI_COMPOSITE_call_told(MPIDI_COMPOSITE_thread *) __attribute__ ((cold, visibility("hidden")));
void MPIDI_COMPOSITE_end_told(MPIDI_COMPOSITE_thread *) __attribute__ ((cold, visibility("hidden")));

static inline size_t MPIDI_COMPOSITE_depth_of(uint64_t now)
{
    return (size_t) (now / MPIDI_COMPOSITE_ONE_DEEPER) % (1U << MPIDI_COMPOSITE_DEPTH_BITS);
}

static inline unsigned long MPIDI_COMPOSITE_number_of(uint64_t what)
{
    return (unsigned long) ((what & ~MPIDI_COMPOSITE_END_IS_TOLD) / MPIDI_COMPOSITE_ONE_CALL);
}

static inline MPIDI_COMPOSITE_kept *MPIDI_COMPOSITE_kept_at(MPIDI_COMPOSITE_thread *thread, size_t depth)
{
    return thread->call + depth % MPIDI_COMPOSITE_CALLS_DEEP;
}

/* A word that another thread may look at: as a relaxed atomic, but compilers still choose how to address it. */
#define MPIDI_COMPOSITE_WORD(type, word) (*(type volatile *) &(word))
/* Computed here, and not once more for each use. */
#define MPIDI_COMPOSITE_ONCE(value) __asm__("" : "+r"(value))

/* `now` as it was, and where the call keeps what it was given: that has been stored. */
static inline void MPIDI_COMPOSITE_call_begin(MPIDI_COMPOSITE_thread *thread, uint64_t now, MPIDI_COMPOSITE_kept *its, int function)
{
    int *untold = MPIDI_COMPOSITE_WORD(int *, thread->untold);
    now += MPIDI_COMPOSITE_ONE_CALL + MPIDI_COMPOSITE_ONE_DEEPER;
    MPIDI_COMPOSITE_ONCE(now);
    MPIDI_COMPOSITE_WORD(uint64_t, its->what) = now + (uint64_t) function;
    /* [K1] Whoever sees it finds `what`; pairs with [K2], which does the work of both. A release here would cost: on ARM every acquiring load
     * behind it waits until all that this rank has stored before has arrived, messages as well. */
    __asm__ volatile ("":::"memory");
    MPIDI_COMPOSITE_WORD(uint64_t, thread->now) = now;
    if (__builtin_expect(untold != NULL, 0)) {
        int left = untold[function] - 1;
        if (__builtin_expect(MPIDI_COMPOSITE_depth_of(now) != 1 || left < 0, 0))
            MPIDI_COMPOSITE_call_told(thread);
        else
            untold[function] = left;
    }
}

/* A function begins; `stores` puts what it was given into `its`. */
#define MPIDI_COMPOSITE_CALL_BEGINS(function, text, keeps, stores) \
    do { \
        static const MPIDI_COMPOSITE_function its_function \
            __attribute__ ((section("composite_functions"), used, aligned(8))) = { text, function, keeps }; \
        MPIDI_COMPOSITE_thread *its_thread = &MPIDI_COMPOSITE_this_thread; \
        uint64_t its_now = its_thread->now; \
        MPIDI_COMPOSITE_kept *its = MPIDI_COMPOSITE_kept_at(its_thread, MPIDI_COMPOSITE_depth_of(its_now)); \
        (void) its_function; \
        MPIDI_COMPOSITE_ONCE(its); \
        stores; \
        MPIDI_COMPOSITE_call_begin(its_thread, its_now, its, function); \
    } while (0)

static inline void MPIDI_COMPOSITE_call_end(void)
{
    MPIDI_COMPOSITE_thread *thread = &MPIDI_COMPOSITE_this_thread;
    uint64_t now = thread->now - MPIDI_COMPOSITE_ONE_DEEPER;
    MPIDI_COMPOSITE_WORD(uint64_t, thread->now) = now;  /* nothing is found by it that was not there before */
    if (__builtin_expect((int64_t) now < 0, 0))
        MPIDI_COMPOSITE_end_told(thread);
}

/* The how-many-th collective of its communicator a call is. */
#define MPIDI_COMPOSITE_CALL_IS_COLLECTIVE(comm) ((comm)->dev.ch4.netmod.composite.collectives++)

/* ---- for those who read it ---- */

#define MPIDI_COMPOSITE_CALL_NONE (-32766)      /* MPI_UNDEFINED: a function without peer or tag */

typedef struct MPIDI_COMPOSITE_call {
    const char *name;
    unsigned long number;       /* of the call among those of its thread */
    const int *requests;        /* that it waits for, in memory of the caller */
    int requests_count;
    int64_t count;              /* of elements of `datatype`; -1: it has none, or one for each peer */
    int datatype;
    int group;                  /* as of MPI_Win_start; 0: none */
    int object;                 /* communicator or window; 0: none */
    int peer, tag;              /* to whom: destination, target, root */
    int source, source_tag;     /* from whom */
} MPIDI_COMPOSITE_call;

/* The function of a call; one without a name when there is none. */
const MPIDI_COMPOSITE_function *MPIDI_COMPOSITE_function_of(uint64_t what) __attribute__ ((visibility("hidden")));
/* The innermost call of a thread, or the last one it made: its name and its number. How deep the thread is in calls: 0, it computes. */
size_t MPIDI_COMPOSITE_look(MPIDI_COMPOSITE_thread * thread, MPIDI_COMPOSITE_call * call) __attribute__ ((visibility("hidden")));
/* A call of this thread that it is in, from 1 for the outermost, with all that is known. */
void MPIDI_COMPOSITE_own_call(size_t depth, MPIDI_COMPOSITE_call * call) __attribute__ ((visibility("hidden")));

/* All threads that called MPI: `visit` is called with each, and must not wait. False: the list is being changed by somebody who does not
 * come to an end, as when a signal interrupted him. */
int MPIDI_COMPOSITE_each_thread(void (*visit) (MPIDI_COMPOSITE_thread *, void *), void *context) __attribute__ ((visibility("hidden")));

/* Whether calls are profiled, from the next one of each thread on. */
void MPIDI_COMPOSITE_tell_calls(int on) __attribute__ ((visibility("hidden")));

/* composite_profile.c: the profile of this thread, as `untold`, or NULL. Its outermost call begins: whether the end is to be told; and ends. */
int *MPIDI_COMPOSITE_profile_thread(void) __attribute__ ((visibility("hidden")));
int MPIDI_COMPOSITE_profile_begins(uint64_t what) __attribute__ ((visibility("hidden")));
void MPIDI_COMPOSITE_profile_ends(void) __attribute__ ((visibility("hidden")));

#ifdef __cplusplus
}
#endif

#endif
