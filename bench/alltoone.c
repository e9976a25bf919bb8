/* Everyone sends to rank 0: how many messages a second it receives. A sender sends blocks of 64 messages and waits for an answer
 * after each; rank 0 receives from MPI_ANY_SOURCE and has room for a block of every sender. On two ranks this is the rate of one
 * pair. */
#include "bench.h"

enum { BLOCK = 64, TAG_MESSAGE = 0, TAG_GO_ON = 1 };

struct crowd {
    char *buffer;               /* a block; on rank 0 a block of every sender */
    int size;
    int verify;
    MPI_Request *requests;      /* as many as messages in the buffer */
    long *received;             /* on rank 0: messages of each rank */
};

static void send_blocks(struct crowd *crowd, long blocks)
{
    for (long i = 0; i < blocks; i++) {
        for (int slot = 0; slot < BLOCK; slot++)
            MPI_Isend(crowd->buffer + (size_t) slot * (size_t) crowd->size, crowd->size, MPI_CHAR, 0, TAG_MESSAGE,
                      MPI_COMM_WORLD, &crowd->requests[slot]);
        MPI_Waitall(BLOCK, crowd->requests, MPI_STATUSES_IGNORE);
        MPI_Recv(NULL, 0, MPI_CHAR, 0, TAG_GO_ON, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void receive_blocks(const struct bench *bench, struct crowd *crowd, long blocks)
{
    const long slots = (long) BLOCK * (bench->ranks - 1), total = blocks * slots;
    memset(crowd->received, 0, (size_t) bench->ranks * sizeof *crowd->received);
    for (long posted = 0, done = 0; done < total; done++) {
        for (; posted < total && posted < done + slots; posted++)
            MPI_Irecv(crowd->buffer + (size_t) (posted % slots) * (size_t) crowd->size, crowd->size, MPI_CHAR, MPI_ANY_SOURCE,
                      TAG_MESSAGE, MPI_COMM_WORLD, &crowd->requests[posted % slots]);
        MPI_Status status;
        MPI_Wait(&crowd->requests[done % slots], &status);
        if (crowd->verify)
            bench_verify(bench, crowd->buffer + (size_t) (done % slots) * (size_t) crowd->size, (size_t) crowd->size,
                         (unsigned) status.MPI_SOURCE);
        if (++crowd->received[status.MPI_SOURCE] % BLOCK == 0)
            MPI_Send(NULL, 0, MPI_CHAR, status.MPI_SOURCE, TAG_GO_ON, MPI_COMM_WORLD);
    }
}

static void all_to_one(const struct bench *bench, long iterations, void *context)
{
    if (bench->rank == 0)
        receive_blocks(bench, context, iterations);
    else
        send_blocks(context, iterations);
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "alltoone", "1024", 2, 4096, &argc, &argv);
    const size_t slots = bench.rank == 0 ? (size_t) BLOCK * (size_t) (bench.ranks - 1) : BLOCK;
    struct crowd crowd = { bench_buffer(&bench, bench_largest(&bench) * slots), 0, 0,
                           calloc(slots, sizeof(MPI_Request)), calloc((size_t) bench.ranks, sizeof(long)) };
    if (crowd.requests == NULL || crowd.received == NULL)
        bench_fail(&bench, "out of memory");

    for (int i = 0; i < bench.size_count; i++) {
        crowd.size = (int) bench.sizes[i];
        if (bench.rank != 0)
            for (int slot = 0; slot < BLOCK; slot++)
                bench_fill(crowd.buffer + (size_t) slot * bench.sizes[i], bench.sizes[i], (unsigned) bench.rank);
        crowd.verify = 1;
        all_to_one(&bench, 1, &crowd);
        crowd.verify = 0;
        MPI_Barrier(MPI_COMM_WORLD);    /* rank 0 receives from anybody: nobody may begin before all have ended */
        const double seconds = bench_measure(&bench, all_to_one, &crowd, BENCH_TIME_OF_ROOT);
        bench_emit(&bench, "rate", bench.sizes[i], (double) BLOCK * (bench.ranks - 1) / seconds, "msg/s");
    }
    free(crowd.buffer);
    free(crowd.requests);
    free(crowd.received);
    bench_finalize(&bench);
    return 0;
}
