/* MPI_Put followed by MPI_Win_flush, inside one MPI_Win_lock_all epoch: the time until the data are at the target. The
 * target takes no part in it but waits inside MPI. Once for memory that MPI allocates (MPI_Win_allocate, which may
 * be shared memory) and once for memory of the user (MPI_Win_create). */
#include "bench.h"

struct epoch {
    MPI_Win window;
    char *origin;
    int size;
};

static void put_flush(const struct bench *bench, long iterations, void *context)
{
    struct epoch *epoch = context;
    if (bench->rank != 0)
        return;
    for (long i = 0; i < iterations; i++) {
        MPI_Put(epoch->origin, epoch->size, MPI_CHAR, 1, 0, epoch->size, MPI_CHAR, epoch->window);
        MPI_Win_flush(1, epoch->window);
    }
}

static void measure_window(const struct bench *bench, MPI_Win window, char *target, char *origin,
                           const char *latency, const char *bandwidth)
{
    struct epoch epoch = { window, origin, 0 };
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < bench->size_count; i++) {
        const size_t size = bench->sizes[i];
        epoch.size = (int) size;
        bench_fill(origin, size, (unsigned) i);
        put_flush(bench, 1, &epoch);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(window);
        if (bench->rank == 1)
            bench_verify(bench, target, size, (unsigned) i);

        const double seconds = bench_measure(bench, put_flush, &epoch, BENCH_TIME_OF_ROOT);
        bench_emit(bench, latency, size, seconds * 1e6, "us");
        if (size >= 1024)
            bench_emit(bench, bandwidth, size, (double) size / seconds * 1e-9, "GB/s");
    }
    MPI_Win_unlock_all(window);
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "put", "8,1024,65536,1048576,4194304", 2, 2, &argc, &argv);
    const size_t largest = bench_largest(&bench);
    char *origin = bench_buffer(&bench, largest);
    MPI_Win window;

    char *allocated;
    /* Whole pages: where the sizes of windows are no multiples of 16, MPICH 4.0.2 puts into another place than the target's. */
    MPI_Win_allocate((MPI_Aint) ((largest + BENCH_PAGE - 1) / BENCH_PAGE * BENCH_PAGE), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &allocated, &window);
    memset(allocated, 0, largest);
    MPI_Barrier(MPI_COMM_WORLD);
    measure_window(&bench, window, allocated, origin, "latency_allocate", "bandwidth_allocate");
    MPI_Win_free(&window);

    char *own = bench_buffer(&bench, largest);
    MPI_Win_create(own, (MPI_Aint) largest, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    measure_window(&bench, window, own, origin, "latency_create", "bandwidth_create");
    MPI_Win_free(&window);

    free(own);
    free(origin);
    bench_finalize(&bench);
    return 0;
}
