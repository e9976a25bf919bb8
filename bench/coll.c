/* Collectives on any number of ranks: time per operation.
 *
 * Honest on more ranks than cores: the operations follow each other without a barrier between them, the time is that of
 * the slowest rank over the whole batch, and the mean over the batch is one result. The root of the broadcast moves
 * by one each time, so that no root can run ahead of its receivers: it must have received the last broadcast first.
 *
 * --sizes replaces the sizes of the operations: bytes of the message, of the vector, of the block for each pair of ranks. */
#include "bench.h"

struct blocks {
    char *outgoing;
    char *incoming;
    int size;
};

static void barrier(const struct bench *bench, long iterations, void *context)
{
    (void) bench;
    (void) context;
    for (long i = 0; i < iterations; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(const struct bench *bench, long iterations, void *context)
{
    struct blocks *blocks = context;
    for (long i = 0; i < iterations; i++)
        MPI_Bcast(blocks->outgoing, blocks->size, MPI_CHAR, (int) (i % bench->ranks), MPI_COMM_WORLD);
}

static void allreduce(const struct bench *bench, long iterations, void *context)
{
    (void) bench;
    struct blocks *blocks = context;
    for (long i = 0; i < iterations; i++)
        MPI_Allreduce(blocks->outgoing, blocks->incoming, blocks->size / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(const struct bench *bench, long iterations, void *context)
{
    (void) bench;
    struct blocks *blocks = context;
    for (long i = 0; i < iterations; i++)
        MPI_Alltoall(blocks->outgoing, blocks->size, MPI_CHAR, blocks->incoming, blocks->size, MPI_CHAR, MPI_COMM_WORLD);
}

static void verify_bcast(const struct bench *bench, struct blocks *blocks)
{
    memset(blocks->outgoing, 0, (size_t) blocks->size);
    if (bench->rank == 0)
        bench_fill(blocks->outgoing, (size_t) blocks->size, 5);
    bcast(bench, 1, blocks);
    bench_verify(bench, blocks->outgoing, (size_t) blocks->size, 5);
}

static void verify_allreduce(const struct bench *bench, struct blocks *blocks)
{
    double *outgoing = (double *) blocks->outgoing, *incoming = (double *) blocks->incoming;
    const double sum = 0.5 * bench->ranks * (bench->ranks + 1);
    for (int i = 0; i < blocks->size / 8; i++)
        outgoing[i] = bench->rank + 1;
    allreduce(bench, 1, blocks);
    for (int i = 0; i < blocks->size / 8; i++)
        if (incoming[i] != sum)
            bench_fail(bench, "MPI_Allreduce gave a wrong sum");
}

static void verify_alltoall(const struct bench *bench, struct blocks *blocks)
{
    const size_t size = (size_t) blocks->size;
    memset(blocks->incoming, 0, size * (size_t) bench->ranks);
    for (int to = 0; to < bench->ranks; to++)
        bench_fill(blocks->outgoing + (size_t) to * size, size, (unsigned) (bench->rank * bench->ranks + to));
    alltoall(bench, 1, blocks);
    for (int from = 0; from < bench->ranks; from++)
        bench_verify(bench, blocks->incoming + (size_t) from * size, size, (unsigned) (from * bench->ranks + bench->rank));
}

static const struct operation {
    const char *name;
    size_t size;                /* unless --sizes gives others */
    bench_body body;
    void (*verify)(const struct bench *bench, struct blocks *blocks);
} operations[] = {
    { "barrier", 0, barrier, NULL },
    { "allreduce", 8, allreduce, verify_allreduce },
    { "bcast", 65536, bcast, verify_bcast },
    { "alltoall", 4096, alltoall, verify_alltoall },
};

static void measure(const struct bench *bench, const struct operation *operation, size_t size)
{
    const size_t room = size * (size_t) bench->ranks;
    struct blocks blocks = { bench_buffer(bench, room), bench_buffer(bench, room), (int) size };
    if (operation->verify != NULL)
        operation->verify(bench, &blocks);
    const double seconds = bench_measure(bench, operation->body, &blocks, BENCH_TIME_OF_SLOWEST);
    bench_emit(bench, operation->name, size, seconds * 1e6, "us");
    free(blocks.outgoing);
    free(blocks.incoming);
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "coll", "", 2, 4096, &argc, &argv);
    int found = 0;
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        const struct operation *operation = &operations[i];
        if (bench.operation != NULL && strcmp(bench.operation, operation->name) != 0)
            continue;
        found = 1;
        for (int j = 0; j < bench.size_count; j++)
            measure(&bench, operation, bench.sizes[j]);
        if (bench.size_count == 0)
            measure(&bench, operation, operation->size);
    }
    if (!found)
        bench_fail(&bench, "no such --operation; known: barrier, allreduce, bcast, alltoall");
    bench_finalize(&bench);
    return 0;
}
