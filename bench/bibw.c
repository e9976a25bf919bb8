/* Bi-directional bandwidth of all pairs together: both ranks of a pair send and receive a window of messages at the same time; the result counts
 * the bytes of both directions. Every message of a window has a buffer of its own. */
#include "bench.h"

enum { WINDOW = 4 };

struct exchange {
    char *outgoing;
    char *incoming;
    int size;
};

static void both_ways(const struct bench *bench, long iterations, void *context)
{
    struct exchange *exchange = context;
    const int peer = bench_partner(bench);
    MPI_Request requests[2 * WINDOW];
    for (long i = 0; i < iterations; i++) {
        for (int slot = 0; slot < WINDOW; slot++)
            MPI_Irecv(exchange->incoming + (size_t) slot * (size_t) exchange->size, exchange->size, MPI_CHAR, peer, 0,
                      MPI_COMM_WORLD, &requests[slot]);
        for (int slot = 0; slot < WINDOW; slot++)
            MPI_Isend(exchange->outgoing + (size_t) slot * (size_t) exchange->size, exchange->size, MPI_CHAR, peer, 0,
                      MPI_COMM_WORLD, &requests[WINDOW + slot]);
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "bibw", "1,64,1024,2048,4096,8192,16384,32768,65536,131072,262144,524288,1048576,2097152,4194304", 2, 4096, &argc, &argv);
    bench_even(&bench);
    const size_t room = bench_largest(&bench) * WINDOW;
    struct exchange exchange = { bench_buffer(&bench, room), bench_buffer(&bench, room), 0 };

    for (int i = 0; i < bench.size_count; i++) {
        const size_t size = bench.sizes[i], bytes = size * WINDOW;
        exchange.size = (int) size;
        bench_fill(exchange.outgoing, bytes, (unsigned) bench.rank);
        memset(exchange.incoming, 0, bytes);
        both_ways(&bench, 1, &exchange);
        bench_verify(&bench, exchange.incoming, bytes, (unsigned) bench_partner(&bench));

        const double seconds = bench_measure(&bench, both_ways, &exchange, BENCH_TIME_OF_SLOWEST);
        bench_emit(&bench, "bandwidth", size, (double) bench.ranks * (double) bytes / seconds * 1e-9, "GB/s");
    }
    free(exchange.outgoing);
    free(exchange.incoming);
    bench_finalize(&bench);
    return 0;
}
