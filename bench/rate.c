/* Message rate in one direction, of all pairs together: one rank keeps a window of 64 messages in flight, the other one has 64 receives posted
 * and answers each full window with an empty message. Every message of a window has a buffer of its own. */
#include "bench.h"

enum { WINDOW = 64 };

struct stream {
    char *buffer;
    int size;
};

static void window(const struct bench *bench, long iterations, void *context)
{
    struct stream *stream = context;
    const int peer = bench_partner(bench);
    MPI_Request requests[WINDOW];
    for (long i = 0; i < iterations; i++) {
        if (bench->rank < peer) {
            for (int slot = 0; slot < WINDOW; slot++)
                MPI_Isend(stream->buffer + (size_t) slot * (size_t) stream->size, stream->size, MPI_CHAR, peer, 0,
                          MPI_COMM_WORLD, &requests[slot]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(NULL, 0, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            for (int slot = 0; slot < WINDOW; slot++)
                MPI_Irecv(stream->buffer + (size_t) slot * (size_t) stream->size, stream->size, MPI_CHAR, peer, 0,
                          MPI_COMM_WORLD, &requests[slot]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Send(NULL, 0, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "rate", "1,8,64,256,1024,2048,4096,8192,16384,32768,65536,131072,262144,524288,1048576", 2, 4096, &argc, &argv);
    bench_even(&bench);
    struct stream stream = { bench_buffer(&bench, bench_largest(&bench) * WINDOW), 0 };

    for (int i = 0; i < bench.size_count; i++) {
        const size_t size = bench.sizes[i], bytes = size * WINDOW;
        stream.size = (int) size;
        if (bench.rank % 2 == 0)
            bench_fill(stream.buffer, bytes, 0);
        else
            memset(stream.buffer, 0, bytes);
        window(&bench, 1, &stream);
        bench_verify(&bench, stream.buffer, bytes, 0);

        const double one_window = bench_measure(&bench, window, &stream, BENCH_TIME_OF_SLOWEST);
        bench_emit(&bench, "rate", size, WINDOW * bench.ranks / 2 / one_window, "msg/s");
    }
    free(stream.buffer);
    bench_finalize(&bench);
    return 0;
}
