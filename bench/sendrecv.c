/* Both ranks send and receive at once, and wait for both: a message each by MPI_Sendrecv (`sendrecv`), and one to each neighbour of a ring, of
 * which there are two even if they are the same rank (`exchange`), as the Intel MPI Benchmarks do. Time of an exchange. */
#include "bench.h"

struct both {
    char *outgoing, *incoming[2];
    int size;
    int left, right;
};

static void sendrecv(const struct bench *bench, long iterations, void *context)
{
    const struct both *both = context;

    (void) bench;
    for (long i = 0; i < iterations; i++)
        MPI_Sendrecv(both->outgoing, both->size, MPI_CHAR, both->right, 0, both->incoming[0], both->size, MPI_CHAR, both->left, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void exchange(const struct bench *bench, long iterations, void *context)
{
    const struct both *both = context;

    (void) bench;
    for (long i = 0; i < iterations; i++) {
        MPI_Request sends[2];
        MPI_Isend(both->outgoing, both->size, MPI_CHAR, both->right, 0, MPI_COMM_WORLD, &sends[0]);
        MPI_Isend(both->outgoing, both->size, MPI_CHAR, both->left, 1, MPI_COMM_WORLD, &sends[1]);
        MPI_Recv(both->incoming[0], both->size, MPI_CHAR, both->left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(both->incoming[1], both->size, MPI_CHAR, both->right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
    }
}

static void measure(const struct bench *bench, const char *name, bench_body body, int messages, struct both *both)
{
    for (int i = 0; i < bench->size_count; i++) {
        const size_t size = bench->sizes[i];
        const int from[] = { both->left, both->right };
        both->size = (int) size;
        bench_fill(both->outgoing, size, (unsigned) bench->rank);
        for (int j = 0; j < messages; j++)
            memset(both->incoming[j], 0, size);
        body(bench, 1, both);
        for (int j = 0; j < messages; j++)
            bench_verify(bench, both->incoming[j], size, (unsigned) from[j]);
        bench_emit(bench, name, size, bench_measure(bench, body, both, BENCH_TIME_OF_SLOWEST) * 1e6, "us");
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "sendrecv", "1,8,64,256,1024,4096,8192,16384,32768,65536,131072,262144,524288,1048576,4194304", 2, 4096, &argc, &argv);
    const size_t largest = bench_largest(&bench);
    struct both both = { bench_buffer(&bench, largest), {bench_buffer(&bench, largest), bench_buffer(&bench, largest)}, 0,
                         (bench.rank + bench.ranks - 1) % bench.ranks, (bench.rank + 1) % bench.ranks };

    measure(&bench, "sendrecv", sendrecv, 1, &both);
    measure(&bench, "exchange", exchange, 2, &both);
    free(both.outgoing);
    free(both.incoming[0]);
    free(both.incoming[1]);
    bench_finalize(&bench);
    return 0;
}
