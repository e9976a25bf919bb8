/* Ping-pong of vectors between ranks 0 and 1: blocks of 64 bytes, each followed by as many that are left out. The size is that of the data. */
#include "bench.h"

enum { BLOCK = 64 };

/* What is between the blocks is left as it was. */
static void verify(const struct bench *bench, const char *buffer, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char expected = i / BLOCK % 2 == 0 ? bench_pattern(i, (unsigned) (1 - bench->rank)) : 0;
        if (buffer[i] != expected)
            bench_fail(bench, "received data are wrong");
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "strided", "4096,16384,65536,262144,1048576", 2, 2, &argc, &argv);
    const size_t largest = 2 * bench_largest(&bench);
    struct bench_exchange exchange = { bench_buffer(&bench, largest), bench_buffer(&bench, largest), 1, MPI_DATATYPE_NULL };

    for (int i = 0; i < bench.size_count; i++) {
        const size_t bytes = 2 * bench.sizes[i];
        MPI_Type_vector((int) (bench.sizes[i] / BLOCK), BLOCK, 2 * BLOCK, MPI_CHAR, &exchange.type);
        MPI_Type_commit(&exchange.type);
        bench_fill(exchange.outgoing, bytes, (unsigned) bench.rank);
        memset(exchange.incoming, 0, bytes);
        bench_pingpong(&bench, 1, &exchange);
        verify(&bench, exchange.incoming, bytes);

        const double one_way = bench_measure(&bench, bench_pingpong, &exchange, BENCH_TIME_OF_ROOT) / 2;
        bench_emit(&bench, "latency", bench.sizes[i], one_way * 1e6, "us");
        MPI_Type_free(&exchange.type);
    }
    free(exchange.outgoing);
    free(exchange.incoming);
    bench_finalize(&bench);
    return 0;
}
