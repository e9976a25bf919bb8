/* What a blocked rank costs: rank 0 stays outside MPI for the given time, the others wait for its message in MPI_Recv and
 * account their own CPU time, all threads included. The result is the rank that used most, in percent of one core. */
#include "bench.h"

#include <errno.h>

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "idle", "", 2, 4096, &argc, &argv);
    double percent = 0, most;

    MPI_Barrier(MPI_COMM_WORLD);
    if (bench.rank == 0) {
        struct timespec left = { (time_t) bench.duration, 0 };
        left.tv_nsec = (long) ((bench.duration - (double) left.tv_sec) * 1e9);
        while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
        }
        for (int to = 1; to < bench.ranks; to++)
            MPI_Send(NULL, 0, MPI_CHAR, to, 0, MPI_COMM_WORLD);
    } else {
        const double start = bench_now(), cpu = bench_cpu_seconds();
        MPI_Recv(NULL, 0, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        const double waited = bench_now() - start;
        if (waited < bench.duration / 2)
            bench_fail(&bench, "the wait was too short to measure");
        percent = 100 * (bench_cpu_seconds() - cpu) / waited;
    }
    MPI_Reduce(&percent, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    bench_emit(&bench, "recv", 0, most, "%");
    bench_finalize(&bench);
    return 0;
}
