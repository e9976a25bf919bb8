/* Ping-pong in which both ranks receive from MPI_ANY_SOURCE, and the same, just before, in which they name the other. */
#include "bench.h"

struct exchange {
    char *outgoing;
    char *incoming;
    int size;
    int source;                 /* to receive from: the other rank, or MPI_ANY_SOURCE */
};

static void pingpong(const struct bench *bench, long iterations, void *context)
{
    struct exchange *exchange = context;
    const int peer = 1 - bench->rank;
    if (bench->rank == 0) {
        for (long i = 0; i < iterations; i++) {
            MPI_Send(exchange->outgoing, exchange->size, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
            MPI_Recv(exchange->incoming, exchange->size, MPI_CHAR, exchange->source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else {
        for (long i = 0; i < iterations; i++) {
            MPI_Recv(exchange->incoming, exchange->size, MPI_CHAR, exchange->source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(exchange->outgoing, exchange->size, MPI_CHAR, peer, 0, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "anysource", "8,1024,65536,1048576", 2, 2, &argc, &argv);
    const size_t largest = bench_largest(&bench);
    struct exchange exchange = { bench_buffer(&bench, largest), bench_buffer(&bench, largest), 0, MPI_ANY_SOURCE };

    for (int i = 0; i < bench.size_count; i++) {
        const size_t size = bench.sizes[i];
        exchange.size = (int) size;
        bench_fill(exchange.outgoing, size, (unsigned) bench.rank);
        memset(exchange.incoming, 0, size);
        pingpong(&bench, 1, &exchange);
        bench_verify(&bench, exchange.incoming, size, (unsigned) (1 - bench.rank));

        exchange.source = 1 - bench.rank;
        const double named = bench_measure(&bench, pingpong, &exchange, BENCH_TIME_OF_ROOT) / 2;
        exchange.source = MPI_ANY_SOURCE;
        const double one_way = bench_measure(&bench, pingpong, &exchange, BENCH_TIME_OF_ROOT) / 2;
        bench_emit(&bench, "named", size, named * 1e6, "us");
        bench_emit(&bench, "latency", size, one_way * 1e6, "us");
    }
    free(exchange.outgoing);
    free(exchange.incoming);
    bench_finalize(&bench);
    return 0;
}
