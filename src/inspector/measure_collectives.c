/* What `mpicomposite collectives` runs: how long collectives of some lengths take, by whatever way is set. Rank 0 prints a line for each:
 * operation, bytes, microseconds. The bytes are those that a rank puts in, for which ways are chosen (coll/choice.h). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 2048, PAGE = 32768, MOST = 262144, BATCHES = 3, REPEATS_MOST = 2000 };
static const double batch_seconds = 0.004;

static char *in, *out;          /* of MOST bytes for each rank */
static int rank, ranks;

static void do_bcast(int bytes, int root)
{
    MPI_Bcast(in, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void do_gather(int bytes, int root)
{
    MPI_Gather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void do_scatter(int bytes, int root)
{
    MPI_Scatter(in, bytes / ranks, MPI_BYTE, out, bytes / ranks, MPI_BYTE, root, MPI_COMM_WORLD);
}

static void do_allgather(int bytes, int root)
{
    (void) root;
    MPI_Allgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void do_alltoall(int bytes, int root)
{
    (void) root;
    MPI_Alltoall(in, bytes / ranks, MPI_BYTE, out, bytes / ranks, MPI_BYTE, MPI_COMM_WORLD);
}

static void do_reduce(int bytes, int root)
{
    MPI_Reduce(in, out, bytes / (int) sizeof(double), MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
}

static void do_allreduce(int bytes, int root)
{
    (void) root;
    MPI_Allreduce(in, out, bytes / (int) sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* Those that have no pieces do not go on the board when they are longer than a page. */
static const struct {
    const char *name;
    void (*call)(int bytes, int root);
    int most;
} operations[] = { {"bcast", do_bcast, MOST}, {"reduce", do_reduce, MOST}, {"allreduce", do_allreduce, PAGE}, {"gather", do_gather, PAGE},
    {"scatter", do_scatter, PAGE}, {"allgather", do_allgather, PAGE}, {"alltoall", do_alltoall, PAGE} };

/* Seconds of one; roots take turns, so that none runs ahead. */
static double time_of(void (*call)(int, int), int bytes, int repeats)
{
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    for (int i = 0; i < repeats; i++)
        call(bytes, i % ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    return (MPI_Wtime() - start) / repeats;
}

static double measure(void (*call)(int, int), int bytes)
{
    double best = time_of(call, bytes, 3);
    int repeats = best * REPEATS_MOST < batch_seconds ? REPEATS_MOST : (int) (batch_seconds / best) + 3;

    MPI_Bcast(&repeats, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int batch = 0; batch < BATCHES; batch++) {
        double now = time_of(call, bytes, repeats);
        best = now < best || batch == 0 ? now : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    in = calloc((size_t) ranks, MOST);
    out = calloc((size_t) ranks, MOST);
    if (in == NULL || out == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        for (int bytes = LEAST; bytes <= operations[i].most; bytes *= 2) {
            double seconds = measure(operations[i].call, bytes);
            if (rank == 0)
                printf("%s %d %.3f\n", operations[i].name, bytes, seconds * 1e6);
        }
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
