/* Collectives on bitmaps by three threads of each rank at once, each with a communicator of its own; what comes is compared. */
#include "expect.h"

#include <pthread.h>

enum { threads = 3, turns = 150, elements = 40, most = 32 };
static MPI_Comm comms[threads];

static int value(int id, int turn, int from, int to, int at)
{
    return (int) (mix((uint64_t) (((id * turns + turn) * most + from) * most + to)) % 100000) + at;
}

static void make(int *here, int id, int turn, int from, int to)
{
    for (int i = 0; i < elements; i++)
        here[i] = value(id, turn, from, to, i);
}

static void compare(const int *here, int id, int turn, int from, int to, const char *what)
{
    for (int i = 0; i < elements; i++)
        if (here[i] != value(id, turn, from, to, i)) {
            fault("thread %d, turn %d: %s of rank %d, element %d is %d", id, turn, what, from, i, here[i]);
            return;
        }
}

/* Members of this turn, in their order; everybody draws the same. */
static int choose(int id, int turn, MPIX_Bitmap *bits, int *members)
{
    int count = 0;
    MPIX_Bitmap_zero(bits, ranks);
    for (int i = 0; i < ranks; i++)
        if (i == turn % ranks || mix((uint64_t) (id * 7919 + turn * 31 + i)) % 3 != 0) {
            MPIX_Bitmap_set(bits, i);
            members[count++] = i;
        }
    return count;
}

static void *all_kinds(void *which)
{
    int id = *(int *) which, members[most], out[most * elements], in[most * elements], sum[elements];
    MPIX_Bitmap bits[1];
    MPI_Comm comm = comms[id];
    for (int turn = 0; turn < turns; turn++) {
        int count = choose(id, turn, bits, members), root = members[turn % count];
        if (!MPIX_Bitmap_test(bits, rank))
            continue;
        MPIX_Bitmap_barrier(bits, comm);
        make(in, id, turn, root, rank == root ? 0 : 1);
        MPIX_Bitmap_bcast(in, elements, MPI_INT, root, bits, comm);
        compare(in, id, turn, root, 0, "a broadcast");

        make(out, id, turn, rank, 2);
        memset(in, 0, sizeof in);
        MPIX_Bitmap_allgather(out, elements, MPI_INT, in, elements, MPI_INT, bits, comm);
        for (int i = 0; i < count; i++)
            compare(in + i * elements, id, turn, members[i], 2, "an allgather");
        memset(in, 0, sizeof in);
        MPIX_Bitmap_gather(out, elements, MPI_INT, in, elements, MPI_INT, root, bits, comm);
        for (int i = 0; i < count && rank == root; i++)
            compare(in + i * elements, id, turn, members[i], 2, "a gather");

        for (int i = 0; i < count; i++)
            make(out + i * elements, id, turn, rank, members[i]);
        memset(in, 0, sizeof in);
        MPIX_Bitmap_alltoall(out, elements, MPI_INT, in, elements, MPI_INT, bits, comm);
        for (int i = 0; i < count; i++)
            compare(in + i * elements, id, turn, members[i], rank, "an alltoall");
        memset(in, 0, sizeof in);
        MPIX_Bitmap_scatter(out, elements, MPI_INT, in, elements, MPI_INT, root, bits, comm);
        compare(in, id, turn, root, rank, "a scatter");

        memset(sum, 0, sizeof sum);
        for (int i = 0; i < count; i++)
            for (int j = 0; j < elements; j++)
                sum[j] += value(id, turn, members[i], 3, j);
        make(out, id, turn, rank, 3);
        MPIX_Bitmap_allreduce(out, in, elements, MPI_INT, MPI_SUM, bits, comm);
        EXPECT(memcmp(in, sum, sizeof sum) == 0, "thread %d, turn %d: an allreduce is wrong", id, turn);
        MPIX_Bitmap_reduce(out, in, elements, MPI_INT, MPI_SUM, root, bits, comm);
        EXPECT(rank != root || memcmp(in, sum, sizeof sum) == 0, "thread %d, turn %d: a reduction is wrong", id, turn);
    }
    return NULL;
}

static void kinds_at_once(void)
{
    pthread_t running[threads];
    int ids[threads];
    if (ranks > most) {
        fault("up to %d ranks", most);
        return;
    }
    for (int i = 0; i < threads; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < threads; i++) {
        ids[i] = i;
        pthread_create(&running[i], NULL, all_kinds, &ids[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(running[i], NULL);
    for (int i = 0; i < threads; i++)
        MPI_Comm_free(&comms[i]);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = { { "kinds", kinds_at_once, 1, 0 } };
    int status, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    status = run_parts(parts, 1, argc, argv);
    MPI_Finalize();
    return status;
}
