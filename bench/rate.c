/* Message rate in one direction: rank 0 keeps a window of 64 messages in flight, rank 1 has 64 receives posted and
 * answers each full window with an empty message. Every message of a window has a buffer of its own. */
#include "bench.h"

enum { WINDOW = 64 };

struct stream {
    char *buffer;
    int size;
};

static void window(const struct bench *bench, long iterations, void *context)
{
    struct stream *stream = context;
    MPI_Request requests[WINDOW];
    for (long i = 0; i < iterations; i++) {
        if (bench->rank == 0) {
            for (int slot = 0; slot < WINDOW; slot++)
                MPI_Isend(stream->buffer + (size_t) slot * (size_t) stream->size, stream->size, MPI_CHAR, 1, 0,
                          MPI_COMM_WORLD, &requests[slot]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(NULL, 0, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            for (int slot = 0; slot < WINDOW; slot++)
                MPI_Irecv(stream->buffer + (size_t) slot * (size_t) stream->size, stream->size, MPI_CHAR, 0, 0,
                          MPI_COMM_WORLD, &requests[slot]);
            MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
            MPI_Send(NULL, 0, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "rate", "8,64,1024,8192,65536", 2, 2, &argc, &argv);
    struct stream stream = { bench_buffer(&bench, bench_largest(&bench) * WINDOW), 0 };

    for (int i = 0; i < bench.size_count; i++) {
        const size_t size = bench.sizes[i], bytes = size * WINDOW;
        stream.size = (int) size;
        if (bench.rank == 0)
            bench_fill(stream.buffer, bytes, 0);
        else
            memset(stream.buffer, 0, bytes);
        window(&bench, 1, &stream);
        bench_verify(&bench, stream.buffer, bytes, 0);

        const double one_window = bench_measure(&bench, window, &stream, BENCH_TIME_OF_ROOT);
        bench_emit(&bench, "rate", size, WINDOW / one_window, "msg/s");
    }
    free(stream.buffer);
    bench_finalize(&bench);
    return 0;
}
