/* Ping-pong between ranks 0 and 1: one-way latency, and the bandwidth that follows from it, by message size. Further ranks, if
 * there are any, sleep in MPI_Recv until it is over, and tell what share of a core the busiest of them used: it should be
 * nothing. */
#include "bench.h"

enum { TAG_OVER = 1 };

static void measure(const struct bench *bench)
{
    const size_t largest = bench_largest(bench);
    struct bench_exchange exchange = { bench_buffer(bench, largest), bench_buffer(bench, largest), 0, MPI_CHAR };

    for (int i = 0; i < bench->size_count; i++) {
        const size_t size = bench->sizes[i];
        exchange.count = (int) size;
        bench_fill(exchange.outgoing, size, (unsigned) bench->rank);
        memset(exchange.incoming, 0, size);
        bench_pingpong(bench, 1, &exchange);
        bench_verify(bench, exchange.incoming, size, (unsigned) (1 - bench->rank));

        const double one_way = bench_measure(bench, bench_pingpong, &exchange, BENCH_TIME_OF_ROOT) / 2;
        bench_emit(bench, "latency", size, one_way * 1e6, "us");
        if (size >= 1024)
            bench_emit(bench, "bandwidth", size, (double) size / one_way * 1e-9, "GB/s");
    }
    free(exchange.outgoing);
    free(exchange.incoming);
}

/* Percent of a core that waiting until the end took. */
static double wait_until_over(void)
{
    const double start = bench_now(), cpu = bench_cpu_seconds();
    MPI_Recv(NULL, 0, MPI_CHAR, 0, TAG_OVER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return 100 * (bench_cpu_seconds() - cpu) / (bench_now() - start);
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "pingpong", "0,1,8,64,256,512,1024,2048,4096,8192,16384,32768,65536,131072,262144,524288,1048576,"
               "2097152,4194304", 2, 4096, &argc, &argv);
    if (bench.ranks == 2) {
        measure(&bench);
    } else {
        double idle = 0, most;
        const int plays = bench.rank < 2;
        bench_all_pairs(&bench);        /* every device has its peers */
        MPI_Comm_split(MPI_COMM_WORLD, plays, bench.rank, &bench.comm);
        if (plays)
            measure(&bench);
        else
            idle = wait_until_over();
        for (int to = 2; bench.rank == 0 && to < bench.ranks; to++)
            MPI_Send(NULL, 0, MPI_CHAR, to, TAG_OVER, MPI_COMM_WORLD);
        MPI_Reduce(&idle, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        bench_emit(&bench, "idle", 0, most, "%");
        MPI_Comm_free(&bench.comm);
    }
    bench_finalize(&bench);
    return 0;
}
