/* What every benchmark program shares: the clock, the arguments, the adaptive measurement and the output line.
 *
 * Promise: a measurement ends in bounded time on any MPI. The number of iterations is found by running, never fixed:
 * an operation that takes 30 ms is run a few times, one that takes 100 ns a few million times. All ranks take every
 * decision from the same agreed number, so they always run the same iterations.
 *
 * Only functions of the MPI standard are used: the same source is compiled by every MPI under comparison. */
#ifndef BENCH_H
#define BENCH_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    BENCH_MAX_SIZES = 64,
    BENCH_BATCHES = 5,          /* a result is the median of this many batches */
    BENCH_PAGE = 4096
};

struct bench {
    const char *name;           /* of the program, as it appears in every output line */
    int rank;
    int ranks;
    MPI_Comm comm;              /* who measures together: all, unless the program takes some out */
    double budget;              /* seconds one measurement may take, calibration included, if the operation is fast enough */
    size_t sizes[BENCH_MAX_SIZES];
    int size_count;
    const char *operation;      /* run this one only; NULL: all */
    double duration;            /* seconds, for programs that observe for a fixed time */
};

static inline double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/* CPU time of this process, all threads included. */
static inline double bench_cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double) usage.ru_utime.tv_sec + (double) usage.ru_stime.tv_sec
        + 1e-6 * ((double) usage.ru_utime.tv_usec + (double) usage.ru_stime.tv_usec);
}

static inline void bench_fail(const struct bench *bench, const char *what)
{
    fprintf(stderr, "%s: rank %d: %s\n", bench->name, bench->rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

/* Read the arguments; the defaults of the sizes are the caller's. Called before MPI_Init, so that the time limit
 * covers a hang in MPI_Init too: SIGALRM ends the process, whatever it is doing. */
static inline void bench_arguments(struct bench *bench, const char *name, const char *default_sizes, int argc, char **argv)
{
    const char *sizes = default_sizes;
    memset(bench, 0, sizeof *bench);
    bench->name = name;
    bench->budget = 0.15;
    bench->duration = 3.0;
    unsigned limit = 120;
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--time") == 0)
            bench->budget = atof(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--limit") == 0)
            limit = (unsigned) atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--sizes") == 0)
            sizes = argv[++i];
        else if (i + 1 < argc && strcmp(argv[i], "--operation") == 0)
            bench->operation = argv[++i];
        else if (i + 1 < argc && strcmp(argv[i], "--duration") == 0)
            bench->duration = atof(argv[++i]);
        else {
            fprintf(stderr, "%s: unknown argument '%s'\n"
                    "usage: %s [--time SECONDS] [--limit SECONDS] [--sizes BYTES,...] [--operation NAME] "
                    "[--duration SECONDS]\n", name, argv[i], name);
            exit(1);
        }
    }
    while (*sizes != '\0' && bench->size_count < BENCH_MAX_SIZES) {
        char *end;
        bench->sizes[bench->size_count++] = strtoul(sizes, &end, 10);
        if (end == sizes) {
            fprintf(stderr, "%s: '%s' is not a list of sizes\n", name, sizes);
            exit(1);
        }
        sizes = *end == ',' ? end + 1 : end;
    }
    alarm(limit);
}

static inline void bench_ranks(struct bench *bench, int least, int most)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &bench->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench->ranks);
    bench->comm = MPI_COMM_WORLD;
    if (bench->ranks < least || bench->ranks > most) {
        if (bench->rank == 0)
            fprintf(stderr, "%s: needs %d to %d ranks, started with %d\n", bench->name, least, most, bench->ranks);
        MPI_Finalize();
        exit(1);
    }
}

static inline void bench_init(struct bench *bench, const char *name, const char *default_sizes, int least, int most,
                              int *argc, char ***argv)
{
    bench_arguments(bench, name, default_sizes, *argc, *argv);
    MPI_Init(argc, argv);
    bench_ranks(bench, least, most);
}

/* One result, one line, at once: what was measured before a time limit struck is not lost. */
static inline void bench_emit(const struct bench *bench, const char *metric, size_t size, double value, const char *unit)
{
    if (bench->rank != 0)
        return;
    printf("{\"bench\": \"%s\", \"metric\": \"%s\", \"size\": %zu, \"ranks\": %d, \"value\": %.6g, \"unit\": \"%s\"}\n",
           bench->name, metric, size, bench->ranks, value, unit);
    fflush(stdout);
}

/* The end of every program. Says so first: some MPIs do not come back from MPI_Finalize, and then the results count. */
static inline void bench_finalize(const struct bench *bench)
{
    if (bench->rank == 0) {
        printf("{\"bench\": \"%s\", \"finished\": true}\n", bench->name);
        fflush(stdout);
    }
    MPI_Finalize();
}

/* Every pair of ranks talks once: pair by pair, because a collective may route around most pairs. */
static inline void bench_all_pairs(const struct bench *bench)
{
    for (int distance = 1; distance < bench->ranks; distance++) {
        const int to = (bench->rank + distance) % bench->ranks;
        const int from = (bench->rank - distance + bench->ranks) % bench->ranks;
        int outgoing = bench->rank, incoming = -1;
        MPI_Sendrecv(&outgoing, 1, MPI_INT, to, 0, &incoming, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (incoming != from)
            bench_fail(bench, "received data are wrong");
    }
}

static inline size_t bench_largest(const struct bench *bench)
{
    size_t largest = 0;
    for (int i = 0; i < bench->size_count; i++)
        if (bench->sizes[i] > largest)
            largest = bench->sizes[i];
    return largest;
}

/* Page-aligned and touched, so that no page fault is part of a measurement. */
static inline char *bench_buffer(const struct bench *bench, size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, BENCH_PAGE, bytes + BENCH_PAGE) != 0)
        bench_fail(bench, "out of memory");
    memset(memory, 0, bytes + BENCH_PAGE);
    return memory;
}

/* A pattern that differs by seed and by position: a message in the wrong place or cut short does not pass. */
static inline char bench_pattern(size_t position, unsigned seed)
{
    return (char) (position * 31 + (position >> 8) * 7 + seed * 101 + 1);
}

static inline void bench_fill(char *buffer, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        buffer[i] = bench_pattern(i, seed);
}

static inline void bench_verify(const struct bench *bench, const char *buffer, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (buffer[i] != bench_pattern(i, seed))
            bench_fail(bench, "received data are wrong");
}

/* `iterations` times the operation under measurement; called by all ranks of bench->comm with the same number. */
typedef void (*bench_body)(const struct bench *bench, long iterations, void *context);

enum bench_time_of {
    BENCH_TIME_OF_ROOT,         /* the operation is over when rank 0 says so: ping-pong, put */
    BENCH_TIME_OF_SLOWEST       /* the operation is over when the last rank is done: collectives */
};

static inline double bench_batch(const struct bench *bench, bench_body body, long iterations, void *context,
                                 enum bench_time_of whose)
{
    MPI_Barrier(bench->comm);
    double start = bench_now();
    body(bench, iterations, context);
    double elapsed = bench_now() - start;
    double agreed = elapsed;
    if (whose == BENCH_TIME_OF_ROOT)
        MPI_Bcast(&agreed, 1, MPI_DOUBLE, 0, bench->comm);
    else
        MPI_Allreduce(&elapsed, &agreed, 1, MPI_DOUBLE, MPI_MAX, bench->comm);
    return agreed;
}

static inline int bench_compare(const void *left, const void *right)
{
    double a = *(const double *) left, b = *(const double *) right;
    return (a > b) - (a < b);
}

/* A batch to find out how many iterations are enough. One that took long is tried again, for a single disturbance would end the search with
 * too few of them. */
static inline double bench_try(const struct bench *bench, bench_body body, long iterations, void *context, enum bench_time_of whose,
                               double enough)
{
    const double first = bench_batch(bench, body, iterations, context, whose);
    if (first < enough)
        return first;
    const double second = bench_batch(bench, body, iterations, context, whose);
    return second < first ? second : first;
}

/* Seconds per iteration: the median of BENCH_BATCHES batches that together take about the budget. The same value on all
 * ranks. If a single iteration takes longer than the budget, that iteration is the result. */
static inline double bench_measure(const struct bench *bench, bench_body body, void *context, enum bench_time_of whose)
{
    const double target = bench->budget / BENCH_BATCHES;
    long iterations = 1;
    body(bench, 1, context);    /* connections, first rendezvous */
    double elapsed = bench_try(bench, body, iterations, context, whose, target / 2);
    while (elapsed < target / 2) {
        double growth = target / (elapsed > 1e-9 ? elapsed : 1e-9);
        growth = growth < 2 ? 2 : growth > 16 ? 16 : growth;
        iterations = (long) ((double) iterations * growth);
        elapsed = bench_try(bench, body, iterations, context, whose, target / 2);
    }
    if (elapsed > bench->budget)
        return elapsed / (double) iterations;

    double batches[BENCH_BATCHES];
    for (int i = 0; i < BENCH_BATCHES; i++)
        batches[i] = bench_batch(bench, body, iterations, context, whose) / (double) iterations;
    qsort(batches, BENCH_BATCHES, sizeof batches[0], bench_compare);
    return batches[BENCH_BATCHES / 2];
}

/* Each even rank and the one after it play and stream with each other; on the hosts of a cluster, to which ranks are dealt out in turn, they are
 * on different ones. */
static inline int bench_partner(const struct bench *bench)
{
    return bench->rank ^ 1;
}

static inline void bench_even(const struct bench *bench)
{
    if (bench->ranks % 2 != 0)
        bench_fail(bench, "needs an even number of ranks");
}

/* Ping-pong of a pair. */
struct bench_exchange {
    char *outgoing;
    char *incoming;
    int count;
    MPI_Datatype type;
};

static inline void bench_pingpong(const struct bench *bench, long iterations, void *context)
{
    const struct bench_exchange *exchange = context;
    const int peer = bench_partner(bench);
    if (bench->rank < peer) {
        for (long i = 0; i < iterations; i++) {
            MPI_Send(exchange->outgoing, exchange->count, exchange->type, peer, 0, MPI_COMM_WORLD);
            MPI_Recv(exchange->incoming, exchange->count, exchange->type, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else {
        for (long i = 0; i < iterations; i++) {
            MPI_Recv(exchange->incoming, exchange->count, exchange->type, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(exchange->outgoing, exchange->count, exchange->type, peer, 0, MPI_COMM_WORLD);
        }
    }
}

#endif
