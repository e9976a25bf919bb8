/* The threads that called MPI, and what is done seldom in a call. */
#include <mpidimpl.h>
#include "composite_calls.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The section of all functions. */
extern const MPIDI_COMPOSITE_function __start_composite_functions[] __attribute__ ((visibility("hidden")));
extern const MPIDI_COMPOSITE_function __stop_composite_functions[] __attribute__ ((visibility("hidden")));

static const MPIDI_COMPOSITE_function *functions[MPIDI_COMPOSITE_FUNCTIONS_MOST];       /* by number; before a thread is listed */

/* Every call of a thread that has this is told of: it is new, or is to find out whether it is profiled. Never written. */
static int every_call[MPIDI_COMPOSITE_FUNCTIONS_MOST];

__thread MPIDI_COMPOSITE_thread MPIDI_COMPOSITE_this_thread = {.untold = every_call };

static MPIDI_COMPOSITE_thread *threads;
static int threads_busy;        /* a lock that a signal handler may try */
static int told;                /* calls are profiled; changed with the lock held */
static pthread_key_t thread_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int lock_threads(int tries)
{
    while (__atomic_exchange_n(&threads_busy, 1, __ATOMIC_ACQUIRE)) {
        if (--tries == 0)
            return 0;
        sched_yield();
    }
    return 1;
}

static void unlock_threads(void)
{
    __atomic_store_n(&threads_busy, 0, __ATOMIC_RELEASE);
}

/* The record is in the thread's memory, which is gone after this. */
static void unlist_thread(void *ended)
{
    MPIDI_COMPOSITE_thread *thread = ended;
    lock_threads(0);
    for (MPIDI_COMPOSITE_thread **link = &threads; *link; link = &(*link)->next) {
        if (*link == thread) {
            *link = thread->next;
            break;
        }
    }
    unlock_threads();
    thread->listed = 0;
    thread->untold = every_call;        /* a destructor of the program may still call MPI */
}

static void prepare(void)
{
    for (const MPIDI_COMPOSITE_function * each = __start_composite_functions; each < __stop_composite_functions; each++)
        if (each->number > 0 && each->number < MPIDI_COMPOSITE_FUNCTIONS_MOST)
            functions[each->number] = each;
    (void) pthread_key_create(&thread_key, unlist_thread);
}

static void list_thread(MPIDI_COMPOSITE_thread * thread)
{
    thread->id = syscall(SYS_gettid);
    thread->listed = 1;
    (void) pthread_once(&once, prepare);
    if (pthread_setspecific(thread_key, thread) != 0)
        return;                 /* nobody would take it from the list */
    lock_threads(0);
    thread->next = threads;
    threads = thread;
    unlock_threads();
}

/* Finds out whether the thread is profiled. Who changes that, with the lock held, has all threads that are listed do this again. */
static void settle(MPIDI_COMPOSITE_thread * thread)
{
    int *mine = NULL;
    int profiled;

    if (!thread->listed)
        list_thread(thread);
    lock_threads(0);
    profiled = told;
    __atomic_store_n(&thread->untold, NULL, __ATOMIC_RELAXED);
    unlock_threads();
    if (profiled && (mine = MPIDI_COMPOSITE_profile_thread()) != NULL)
        __atomic_store_n(&thread->untold, mine, __ATOMIC_RELAXED);
}

void MPIDI_COMPOSITE_call_told(MPIDI_COMPOSITE_thread * thread)
{
    if (thread->untold == every_call)
        settle(thread);
    /* What is called within a call is part of it. */
    if (thread->untold && MPIDI_COMPOSITE_depth_of(thread->now) == 1 && MPIDI_COMPOSITE_profile_begins(thread->call[0].what))
        thread->now |= MPIDI_COMPOSITE_END_IS_TOLD;
}

void MPIDI_COMPOSITE_end_told(MPIDI_COMPOSITE_thread * thread)
{
    if (MPIDI_COMPOSITE_depth_of(thread->now) > 0)
        return;
    thread->now &= ~MPIDI_COMPOSITE_END_IS_TOLD;
    MPIDI_COMPOSITE_profile_ends();
}

void MPIDI_COMPOSITE_tell_calls(int on)
{
    lock_threads(0);
    told = on;
    for (MPIDI_COMPOSITE_thread * thread = threads; thread; thread = thread->next)
        __atomic_store_n(&thread->untold, every_call, __ATOMIC_RELAXED);
    unlock_threads();
}

const MPIDI_COMPOSITE_function *MPIDI_COMPOSITE_function_of(uint64_t what)
{
    static const MPIDI_COMPOSITE_function none = { "", 0, 0 };
    const MPIDI_COMPOSITE_function *function = functions[what % MPIDI_COMPOSITE_FUNCTIONS_MOST];

    return function ? function : &none;
}

static const MPIDI_COMPOSITE_function *name_call(MPIDI_COMPOSITE_call * call, uint64_t what)
{
    const MPIDI_COMPOSITE_function *function = MPIDI_COMPOSITE_function_of(what);

    call->name = function->name;
    call->number = MPIDI_COMPOSITE_number_of(what);
    return function;
}

size_t MPIDI_COMPOSITE_look(MPIDI_COMPOSITE_thread * thread, MPIDI_COMPOSITE_call * call)
{
    size_t depth = MPIDI_COMPOSITE_depth_of(__atomic_load_n(&thread->now, __ATOMIC_RELAXED));

    /* [K2] the record is that of the call, or of one that came later; pairs with [K1] in call_begin(). The kernel has other threads place a fence
     * where they are: base/fence.h. Where it cannot, a call that has just begun may be told as the one before it. */
    (void) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    name_call(call, __atomic_load_n(&MPIDI_COMPOSITE_kept_at(thread, depth ? depth - 1 : 0)->what, __ATOMIC_RELAXED));
    return depth;
}

void MPIDI_COMPOSITE_own_call(size_t depth, MPIDI_COMPOSITE_call * call)
{
    const MPIDI_COMPOSITE_kept *kept = MPIDI_COMPOSITE_kept_at(&MPIDI_COMPOSITE_this_thread, depth - 1);
    int keeps = name_call(call, kept->what)->keeps;

    call->object = keeps & MPIDI_COMPOSITE_KEEPS_OBJECT ? kept->object : 0;
    call->peer = keeps & MPIDI_COMPOSITE_KEEPS_PEER ? kept->peer : MPIDI_COMPOSITE_CALL_NONE;
    call->tag = keeps & MPIDI_COMPOSITE_KEEPS_TAG ? kept->tag : MPIDI_COMPOSITE_CALL_NONE;
    call->source = keeps & MPIDI_COMPOSITE_KEEPS_SOURCE ? kept->source : MPIDI_COMPOSITE_CALL_NONE;
    call->source_tag = keeps & MPIDI_COMPOSITE_KEEPS_SOURCE_TAG ? kept->source_tag : MPIDI_COMPOSITE_CALL_NONE;
    call->count = keeps & MPIDI_COMPOSITE_KEEPS_LARGE_COUNT ? kept->large_count : keeps & MPIDI_COMPOSITE_KEEPS_COUNT ? kept->count : -1;
    call->datatype = call->count >= 0 ? kept->datatype : MPI_DATATYPE_NULL;
    call->group = keeps & MPIDI_COMPOSITE_KEEPS_GROUP ? kept->group : 0;
    call->requests = keeps & MPIDI_COMPOSITE_KEEPS_REQUESTS ? kept->requests : NULL;
    call->requests_count = call->requests ? kept->requests_count : 0;
}

int MPIDI_COMPOSITE_each_thread(void (*visit) (MPIDI_COMPOSITE_thread *, void *), void *context)
{
    if (!lock_threads(1000))
        return 0;
    for (MPIDI_COMPOSITE_thread * thread = threads; thread; thread = thread->next)
        visit(thread, context);
    unlock_threads();
    return 1;
}
