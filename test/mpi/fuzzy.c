/* Usage: fuzzy [--seed N] [PART...]
 *
 * Fuzzy barriers, part by part; without PART all but `computing`, which needs a progress thread, and `threads`, which asks for
 * MPI_THREAD_MULTIPLE. Exit status 0 only when all was as it must be. */
#include "expect.h"

#include <pthread.h>
#include <time.h>

static uint64_t seed = 1;

/* No barrier may end before all ranks have started it. Each rank counts what it has started in a window of rank 0, where all look, with a
 * row for each communicator: MPI's own atomics, so that the barriers under test have nothing to do with it. */
enum { rows = 3 };
static MPI_Win counts;
static int *count_memory;

static void open_counts(void)
{
    const size_t size = (size_t) (rows * ranks) * sizeof(int);
    MPI_Win_allocate((MPI_Aint) size, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &count_memory, &counts);
    memset(count_memory, 0, size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, counts);
}

static void close_counts(void)
{
    MPI_Win_unlock_all(counts);
    MPI_Win_free(&counts);
}

static void note_started(int row, int number)
{
    MPI_Accumulate(&number, 1, MPI_INT, 0, row * ranks + rank, 1, MPI_INT, MPI_REPLACE, counts);
    MPI_Win_flush(0, counts);
}

/* Of the ranks from `first` on, each `step` of them. */
static int least_started(int row, int first, int step)
{
    int all[64], least;
    MPI_Get_accumulate(NULL, 0, MPI_INT, all, ranks, MPI_INT, 0, row * ranks, ranks, MPI_INT, MPI_NO_OP, counts);
    MPI_Win_flush(0, counts);
    least = all[first];
    for (int i = first; i < ranks; i += step)
        least = all[i] < least ? all[i] : least;
    return least;
}

static void expect_started(int row, int number)
{
    EXPECT(least_started(row, 0, 1) >= number, "barrier %d of communicator %d ended before all had started it", number, row);
}

/* So that ranks come at different times: now and then, for up to 300 us. */
static void rest(uint64_t number)
{
    const uint64_t drawn = mix(seed * 31 + number * (uint64_t) ranks + (uint64_t) rank);
    struct timespec pause = { 0, (long) (mix(drawn) % 300000) };
    if (drawn % 16 == 0)
        nanosleep(&pause, NULL);
}

static void one_at_a_time(void)
{
    volatile int flag = 7;
    open_counts();
    for (int i = 1; i <= 50; i++) {
        note_started(0, i);
        MPIX_Barrier_start(MPI_COMM_WORLD, &flag);
        MPIX_Barrier_wait(MPI_COMM_WORLD, &flag);
        EXPECT(flag == 1, "the flag is %d after the wait", flag);
        expect_started(0, i);
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
        note_started(0, i + 1);
        requests[i] = MPI_REQUEST_NULL;
        if (mix(seed + (uint64_t) i) % 4 == 0)
            MPIX_Barrier_istart(MPI_COMM_WORLD, &requests[i]);
        else
            MPIX_Barrier_start(MPI_COMM_WORLD, &flags[i]);
        rest((uint64_t) i);
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
            expect_started(0, completed);
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
    enum { of_copy, of_half };
    open_counts();
    for (int round = 0; round < 40; round++) {
        MPI_Comm half, copy;
        volatile int one, two, three;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        for (int i = 0; i < 4; i++)
            rest((uint64_t) (round * 4 + i));
        note_started(of_copy, 2 * round + 1);
        MPIX_Barrier_start(copy, &one);
        note_started(of_half, round + 1);
        MPIX_Barrier_start(half, &two);
        note_started(of_copy, 2 * round + 2);
        MPIX_Barrier_start(copy, &three);
        if (round % 2 == 0) {
            MPIX_Barrier_wait(half, &two);
            EXPECT(least_started(of_half, rank % 2, 2) > round, "a barrier ended before all of its half had started it, round %d", round);
            MPIX_Barrier_wait(copy, &three);
            EXPECT(one == 1, "the first barrier had not ended with the second");
        }
        MPI_Comm_free(&half);
        MPI_Comm_free(&copy);
        while (!load(&one) || !load(&two) || !load(&three))
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &(int) { 0 }, MPI_STATUS_IGNORE);
        EXPECT(least_started(of_half, rank % 2, 2) > round, "a barrier ended before all of its half had started it, round %d", round);
        expect_started(of_copy, 2 * round + 2);
    }
    close_counts();
}

/* It goes on inside other calls: with a message on its way it is waited for, or nobody waits for it and others go on until all have it. */
static void other_calls(void)
{
    volatile int flag;
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    open_counts();
    for (int i = 1; i <= 60; i++) {
        MPI_Request request;
        int got = 0, all = 0;
        rest((uint64_t) i);
        note_started(0, i);
        MPIX_Barrier_start(MPI_COMM_WORLD, &flag);
        MPI_Isend(&i, 1, MPI_INT, next, 0, MPI_COMM_WORLD, &request);
        if (i % 2 == 0) {
            MPIX_Barrier_wait(MPI_COMM_WORLD, &flag);
            expect_started(0, i);
        }
        MPI_Recv(&got, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT(got == i, "the message of barrier %d is of %d", i, got);
        if (load(&flag))
            expect_started(0, i);
        for (int turn = 0; !all && turn < 100000; turn++) {
            int mine = load(&flag);
            MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        }
        EXPECT(all, "barrier %d does not end in other calls", i);
        MPIX_Barrier_wait(MPI_COMM_WORLD, &flag);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    close_counts();
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

/* Threads have communicators of their own, whose barriers have nothing to do with each other: some threads are late, one after the other. */
static MPI_Comm thread_comms[rows];

static void *barriers_of_a_thread(void *which)
{
    enum { in_flight = 8 };
    volatile int flags[in_flight];
    MPI_Comm comm = *(MPI_Comm *) which;
    const int row = (int) ((MPI_Comm *) which - thread_comms);
    for (int i = 0; i < 300; i++) {
        for (int j = 0; j < in_flight; j++) {
            rest((uint64_t) ((i * in_flight + j) * rows + row));
            note_started(row, i * in_flight + j + 1);
            MPIX_Barrier_start(comm, &flags[j]);
        }
        for (int j = 0; j < in_flight; j++) {
            MPIX_Barrier_wait(comm, &flags[j]);
            EXPECT(flags[j] == 1, "the flag is %d after the wait", flags[j]);
            expect_started(row, i * in_flight + j + 1);
        }
    }
    return NULL;
}

static void threads(void)
{
    pthread_t ids[rows];
    open_counts();
    for (int i = 0; i < rows; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &thread_comms[i]);
    for (int i = 0; i < rows; i++)
        pthread_create(&ids[i], NULL, barriers_of_a_thread, &thread_comms[i]);
    for (int i = 0; i < rows; i++) {
        pthread_join(ids[i], NULL);
        MPI_Comm_free(&thread_comms[i]);
    }
    close_counts();
}

/* With a progress thread a barrier ends although nobody makes a call: the flag is all that is looked at, for ever. */
static void computing(void)
{
    enum { in_flight = 10 };
    volatile int flags[in_flight];
    open_counts();
    for (int i = 0; i < 100; i++) {
        rest((uint64_t) i);
        note_started(0, i + 1);
        MPIX_Barrier_start(MPI_COMM_WORLD, &flags[i % in_flight]);
        if (i % in_flight < in_flight - 1)
            continue;
        while (!load(&flags[in_flight - 1])) {
        }
        for (int j = 0; j < in_flight; j++)
            EXPECT(load(&flags[j]), "barrier %d ended, and not %d before it", i + 1, i + 2 - in_flight + j);
        expect_started(0, i + 1);
    }
    close_counts();
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
