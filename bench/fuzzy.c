/* Barriers on any number of ranks: time of one, when it is waited for at once and when several are in flight.
 *
 * As in coll.c, they follow each other without anything between them, the time is that of the slowest rank over the whole batch, and
 * the mean over the batch is one result. The ways follow each other in this one program, so that their ratios are fair:
 *   barrier       MPI_Barrier
 *   ibarrier      MPI_Ibarrier and MPI_Wait
 *   ibarrier_8    8 times MPI_Ibarrier, then MPI_Waitall
 *   fuzzy         MPIX_Barrier_start and MPIX_Barrier_wait
 *   fuzzy_8       8 times MPIX_Barrier_start, then as often MPIX_Barrier_wait
 *   fuzzy_64      the same with 64
 *   bitmap        MPIX_Bitmap_barrier of a bitmap that has all ranks
 *
 * --operation runs one of them only. An MPI without MPIX_Barrier_start runs the other ones. */
#include "bench.h"

enum { MOST_IN_FLIGHT = 64, MOST_RANKS = 4096 };

struct flight {
    int count;                  /* barriers in flight at once */
};

static void barrier(const struct bench *bench, long iterations, void *context)
{
    (void) bench;
    (void) context;
    for (long i = 0; i < iterations; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void ibarrier(const struct bench *bench, long iterations, void *context)
{
    const struct flight *flight = context;
    MPI_Request requests[MOST_IN_FLIGHT];
    (void) bench;
    for (long i = 0; i < iterations; i++) {
        for (int j = 0; j < flight->count; j++)
            MPI_Ibarrier(MPI_COMM_WORLD, &requests[j]);
        if (flight->count == 1)
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        else
            MPI_Waitall(flight->count, requests, MPI_STATUSES_IGNORE);
    }
}

#ifdef MPIX_MAX_NOTIFICATIONS
static void fuzzy(const struct bench *bench, long iterations, void *context)
{
    const struct flight *flight = context;
    volatile int flags[MOST_IN_FLIGHT];
    (void) bench;
    for (long i = 0; i < iterations; i++) {
        for (int j = 0; j < flight->count; j++)
            MPIX_Barrier_start(MPI_COMM_WORLD, &flags[j]);
        for (int j = 0; j < flight->count; j++)
            MPIX_Barrier_wait(MPI_COMM_WORLD, &flags[j]);
    }
}

static void bitmap(const struct bench *bench, long iterations, void *context)
{
    MPIX_Bitmap all[MPIX_BITMAP_WORDS(MOST_RANKS)] = { 0 };
    (void) context;
    for (int rank = 0; rank < bench->ranks; rank++)
        MPIX_Bitmap_set(all, rank);
    for (long i = 0; i < iterations; i++)
        MPIX_Bitmap_barrier(all, MPI_COMM_WORLD);
}

/* They end in the order in which they were started: with the last one all of them. */
static void verify_fuzzy(const struct bench *bench)
{
    volatile int flags[MOST_IN_FLIGHT];
    for (int i = 0; i < MOST_IN_FLIGHT; i++)
        MPIX_Barrier_start(MPI_COMM_WORLD, &flags[i]);
    MPIX_Barrier_wait(MPI_COMM_WORLD, &flags[MOST_IN_FLIGHT - 1]);
    for (int i = 0; i < MOST_IN_FLIGHT; i++)
        if (!flags[i])
            bench_fail(bench, "a barrier ended before one that was started earlier");
}
#endif

static const struct way {
    const char *name;
    bench_body body;
    int in_flight;
} ways[] = {
    { "barrier", barrier, 1 },
    { "ibarrier", ibarrier, 1 },
#ifdef MPIX_MAX_NOTIFICATIONS
    { "bitmap", bitmap, 1 },
    { "fuzzy", fuzzy, 1 },
    { "fuzzy_8", fuzzy, 8 },
    { "fuzzy_64", fuzzy, MOST_IN_FLIGHT },
#endif
    { "ibarrier_8", ibarrier, 8 },
};

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "fuzzy", "", 2, MOST_RANKS, &argc, &argv);
    int found = 0;
#ifdef MPIX_MAX_NOTIFICATIONS
    verify_fuzzy(&bench);
#endif
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const struct way *way = &ways[i];
        if (bench.operation != NULL && strcmp(bench.operation, way->name) != 0)
            continue;
        found = 1;
        struct flight flight = { way->in_flight };
        const double seconds = bench_measure(&bench, way->body, &flight, BENCH_TIME_OF_SLOWEST) / way->in_flight;
        bench_emit(&bench, way->name, 0, seconds * 1e6, "us");
    }
    if (!found)
        bench_fail(&bench, "no such --operation; known: barrier, ibarrier, ibarrier_8, bitmap, fuzzy, fuzzy_8, fuzzy_64, the "
                   "last four only where the MPI has them");
    bench_finalize(&bench);
    return 0;
}
