/* Usage: fuzzy [--seed N] [PART...]
 *
 * Fuzzy barriers, part by part; without PART all but `computing`, which needs a progress thread, and `threads`, which asks for
 * MPI_THREAD_MULTIPLE. Exit status 0 only when all was as it must be. */
#include "expect.h"

#include <pthread.h>
#include <time.h>

static uint64_t seed = 1;

/* No barrier may end before all ranks have started it. Each rank counts what it has started in a window of rank 0, where all look:
 * MPI's own atomics, so that the barriers under test have nothing to do with it. */
static MPI_Win counts;
static int *count_memory;

static void open_counts(void)
{
    MPI_Win_allocate(ranks * (MPI_Aint) sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &count_memory, &counts);
    memset(count_memory, 0, (size_t) ranks * sizeof(int));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, counts);
}

static void close_counts(void)
{
    MPI_Win_unlock_all(counts);
    MPI_Win_free(&counts);
}

static void note_started(int number)
{
    MPI_Accumulate(&number, 1, MPI_INT, 0, rank, 1, MPI_INT, MPI_REPLACE, counts);
    MPI_Win_flush(0, counts);
}

static int least_started(void)
{
    int all[64], least;
    MPI_Get_accumulate(NULL, 0, MPI_INT, all, ranks, MPI_INT, 0, 0, ranks, MPI_INT, MPI_NO_OP, counts);
    MPI_Win_flush(0, counts);
    least = all[0];
    for (int i = 1; i < ranks; i++)
        least = all[i] < least ? all[i] : least;
    return least;
}

static void one_at_a_time(void)
{
    volatile int flag = 7;
    open_counts();
    for (int i = 1; i <= 50; i++) {
        note_started(i);
        MPIX_Barrier_start(MPI_COMM_WORLD, &flag);
        MPIX_Barrier_wait(MPI_COMM_WORLD, &flag);
        EXPECT(flag == 1, "the flag is %d after the wait", flag);
        EXPECT(least_started() >= i, "barrier %d ended before all had started it", i);
    }
    close_counts();
}

/* Many in flight, with random pauses; looked at, waited for and requested in turn. */
static void skew(void)
{
    enum { barriers = 400, window = 64 };
    static volatile int flags[barriers];
    MPI_Request requests[barriers];
    int completed = 0;
    open_counts();
    for (int i = 0; i < barriers; i++) {
        note_started(i + 1);
        requests[i] = MPI_REQUEST_NULL;
        if (mix(seed + (uint64_t) i) % 4 == 0)
            MPIX_Barrier_istart(MPI_COMM_WORLD, &requests[i]);
        else
            MPIX_Barrier_start(MPI_COMM_WORLD, &flags[i]);
        if (mix(seed + (uint64_t) (i * ranks + rank)) % 16 == 0) {
            struct timespec pause = { 0, (long) (mix((uint64_t) i + seed * 31 + (uint64_t) rank) % 300000) };
            nanosleep(&pause, NULL);
        }
        while (completed + window <= i || (completed <= i && mix((uint64_t) (i + completed) * 7 + (uint64_t) rank) % 3 == 0)) {
            if (requests[completed] != MPI_REQUEST_NULL) {
                MPI_Wait(&requests[completed], MPI_STATUS_IGNORE);
            } else {
                int done = 0;
                for (int look = 0; look < 3 && !done; look++)
                    MPIX_Barrier_test(MPI_COMM_WORLD, &flags[completed], &done);
                if (!done && completed + window > i)
                    break;
                MPIX_Barrier_wait(MPI_COMM_WORLD, &flags[completed]);
            }
            completed++;
            EXPECT(least_started() >= completed, "barrier %d ended before all had started it", completed);
        }
        for (int j = completed + 1; j <= i; j++)
            EXPECT(requests[j] != MPI_REQUEST_NULL || requests[j - 1] != MPI_REQUEST_NULL || !load(&flags[j]) || load(&flags[j - 1]),
                   "barrier %d ended before the one before", j);
    }
    for (; completed < barriers; completed++) {
        if (requests[completed] != MPI_REQUEST_NULL)
            MPI_Wait(&requests[completed], MPI_STATUS_IGNORE);
        else
            MPIX_Barrier_wait(MPI_COMM_WORLD, &flags[completed]);
    }
    close_counts();
}

/* On several communicators at once, which are made and freed again and again, also while barriers are in flight. */
static void communicators(void)
{
    for (int round = 0; round < 20; round++) {
        MPI_Comm half, copy;
        volatile int one, two, three;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPIX_Barrier_start(copy, &one);
        MPIX_Barrier_start(half, &two);
        MPIX_Barrier_start(copy, &three);
        if (round % 2 == 0) {
            MPIX_Barrier_wait(half, &two);
            MPIX_Barrier_wait(copy, &three);
            EXPECT(one == 1, "the first barrier had not ended with the second");
        }
        MPI_Comm_free(&half);
        MPI_Comm_free(&copy);
        while (!load(&one) || !load(&two) || !load(&three))
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &(int) { 0 }, MPI_STATUS_IGNORE);
    }
}

/* It goes on inside other calls of MPI. */
static void other_calls(void)
{
    volatile int flag;
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int i = 0; i < 20; i++) {
        MPIX_Barrier_start(MPI_COMM_WORLD, &flag);
        MPI_Sendrecv(&i, 1, MPI_INT, next, 0, &(int) { 0 }, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        MPIX_Barrier_wait(MPI_COMM_WORLD, &flag);
    }
}

static void mistakes(void)
{
    volatile int flag, never = 0;
    int done;
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (ranks > 1) {
        if (rank == 0) {
            MPIX_Barrier_start(copy, &flag);
            expect_class(MPIX_Barrier_start(copy, &flag), MPI_ERR_ARG, "a flag in flight");
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank != 0)
            MPIX_Barrier_start(copy, &flag);
        MPIX_Barrier_wait(copy, &flag);
    }
    expect_class(MPIX_Barrier_wait(copy, &never), MPI_ERR_ARG, "a flag of no barrier");
    expect_class(MPIX_Barrier_test(copy, &never, &done), MPI_ERR_ARG, "a flag of no barrier");
    expect_class(MPIX_Barrier_start(copy, NULL), MPI_ERR_ARG, "no flag");
    expect_class(MPIX_Barrier_start(MPI_COMM_NULL, &flag), MPI_ERR_COMM, "no communicator");
    if (ranks > 1) {
        MPI_Comm half, inter;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &inter);
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        expect_class(MPIX_Barrier_start(inter, &flag), MPI_ERR_COMM, "an intercommunicator");
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free(&copy);
}

/* A thread that makes no call sees the flags of the main thread change, in their order. */
enum { watched = 2000 };
static volatile int watched_flags[watched];
static atomic_int watched_started;

static void *watch(void *unused)
{
    (void) unused;
    for (int i = 0; i < watched; i++) {
        while (atomic_load(&watched_started) <= i || !load(&watched_flags[i])) {
        }
        EXPECT(i == 0 || load(&watched_flags[i - 1]), "flag %d was set before the one before", i);
    }
    return NULL;
}

static void watched_by_a_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, watch, NULL);
    for (int i = 0; i < watched; i++) {
        MPIX_Barrier_start(MPI_COMM_WORLD, &watched_flags[i]);
        atomic_store(&watched_started, i + 1);
        if (i >= 16)
            MPIX_Barrier_wait(MPI_COMM_WORLD, &watched_flags[i - 16]);
    }
    for (int i = watched - 16; i < watched; i++)
        MPIX_Barrier_wait(MPI_COMM_WORLD, &watched_flags[i]);
    pthread_join(thread, NULL);
}

/* Threads have communicators of their own. */
static MPI_Comm thread_comms[3];

static void *barriers_of_a_thread(void *which)
{
    volatile int flags[8];
    MPI_Comm comm = *(MPI_Comm *) which;
    for (int i = 0; i < 300; i++) {
        for (int j = 0; j < 8; j++)
            MPIX_Barrier_start(comm, &flags[j]);
        for (int j = 0; j < 8; j++)
            MPIX_Barrier_wait(comm, &flags[j]);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t ids[3];
    for (int i = 0; i < 3; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &thread_comms[i]);
    for (int i = 0; i < 3; i++)
        pthread_create(&ids[i], NULL, barriers_of_a_thread, &thread_comms[i]);
    for (int i = 0; i < 3; i++) {
        pthread_join(ids[i], NULL);
        MPI_Comm_free(&thread_comms[i]);
    }
}

/* With a progress thread a barrier ends although nobody makes a call: the flag is all that is looked at, for ever. */
static void computing(void)
{
    volatile int flags[10];
    for (int i = 0; i < 10; i++)
        MPIX_Barrier_start(MPI_COMM_WORLD, &flags[i]);
    for (int i = 0; i < 10; i++)
        while (!load(&flags[i])) {
        }
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        { "one_at_a_time", one_at_a_time, 1, 0 },
        { "skew", skew, 1, 0 },
        { "communicators", communicators, 1, 0 },
        { "other_calls", other_calls, 1, 0 },
        { "mistakes", mistakes, 1, 0 },
        { "watched", watched_by_a_thread, 1, 0 },
        { "threads", threads, 1, 1 },
        { "computing", computing, 1, 1 },
    };
    int status, provided;
    MPI_Init_thread(&argc, &argv, is_named("threads", argc, argv) ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, &provided);
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 0);
    status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
