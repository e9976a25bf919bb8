/* Barrier, bcast, reduce and allreduce at the sizes where their algorithm changes, from every root, on communicators that come and go, with
 * ranks of different speed. Exit status 0 only when every result is right. */
#include <complex.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static long wrong;

static void all_on(MPI_Comm comm, int round)
{
    static const int sizes[] = { 1, 8, 64, 65, 4096, 16384, 16385, 65536, 262144, 262145, 1000000 };
    static unsigned char buffer[1000000];
    int me, all;

    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    for (int root = 0; root < all; root++) {
        for (unsigned s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            unsigned char value = (unsigned char) (root * 16 + s + round);
            memset(buffer, me == root ? value : 0xee, sizes[s]);
            MPI_Bcast(buffer, sizes[s], MPI_BYTE, root, comm);
            for (int i = 0; i < sizes[s]; i++)
                wrong += buffer[i] != value;
            if (me == root)
                memset(buffer, 0xdd, sizes[s]); /* a root may reuse its buffer at once */
        }
    }

    /* sums, in place and not; a maximum; one vector too long for the short way, one for the middle */
    static const int counts[] = { 1, 8, 9, 512, 513, 5000 };
    for (unsigned c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        static long in[5000], out[5000];
        for (int i = 0; i < counts[c]; i++)
            in[i] = out[i] = me * 1000L + i + round;
        MPI_Allreduce(in, out, counts[c], MPI_LONG, MPI_SUM, comm);
        for (int i = 0; i < counts[c]; i++)
            wrong += out[i] != all * (all - 1) / 2 * 1000L + (long) all * (i + round);
        MPI_Allreduce(MPI_IN_PLACE, in, counts[c], MPI_LONG, MPI_MAX, comm);
        for (int i = 0; i < counts[c]; i++)
            wrong += in[i] != (all - 1) * 1000L + i + round;
    }

    /* A barrier: nobody may leave before the last has come, even when some are an operation ahead. */
    MPI_Win win;
    int *arrivals;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &arrivals, &win);
    *arrivals = 0;
    MPI_Win_lock_all(0, win);
    MPI_Barrier(comm);
    for (int i = 1; i <= 20; i++) {
        int one = 1, zero = 0, seen = 0;
        MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win);
        MPI_Win_flush(0, win);
        MPI_Barrier(comm);
        MPI_Fetch_and_op(&zero, &seen, MPI_INT, 0, 0, MPI_NO_OP, win);
        MPI_Win_flush(0, win);
        wrong += seen < i * all;
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* Rank 0 exchanges long parts with each, in place, and the others nothing among them: some have all on one page, and some have not. */
static void exchange_with_first(void)
{
    static unsigned char buffer[40 * 20000];
    int counts[64] = { 0 }, places[64], size = 20000;

    if (ranks < 2 || ranks > 40)
        return;
    for (int i = 0; i < ranks; i++) {
        places[i] = i * size;
        counts[i] = rank == i ? 0 : rank == 0 || i == 0 ? size : 0;
        for (int k = 0; k < counts[i]; k++)
            buffer[places[i] + k] = (unsigned char) (rank * 7 + i * 3 + k % 251);
    }
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_BYTE, buffer, counts, places, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        for (int k = 0; k < counts[i]; k++)
            wrong += buffer[places[i] + k] != (unsigned char) (i * 7 + rank * 3 + k % 251);
}

/* In place and not, at the first two roots and the last, of datatypes that we combine ourselves and of those that MPICH does: the order of the ranks is kept where it
 * shows, and what is combined does not lie where the result does. */
static void reduce_to_all(void)
{
    enum { longest = 100000 };
    static const int counts[] = { 1, 2000, 5000, 20000, longest };
    static int in[2 * longest], out[2 * longest];
    static double complex from[longest], to[longest];

    for (int root = 0; root < ranks; root += root > 0 && root < ranks - 1 ? ranks - 1 - root : 1)
        for (int place = 0; place < 2; place++)
            for (unsigned c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                int count = counts[c], in_place = place == 1 && rank == root;
                for (int i = 0; i < count; i++) {
                    in[i] = out[i] = rank * 1000 + i;
                    from[i] = to[i] = i + rank * I;
                }
                MPI_Reduce(in_place ? MPI_IN_PLACE : in, out, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
                MPI_Reduce(in_place ? MPI_IN_PLACE : from, to, count, MPI_C_DOUBLE_COMPLEX, MPI_SUM, root, MPI_COMM_WORLD);
                for (int i = 0; rank == root && i < count; i++)
                    wrong += (out[i] != ranks * (ranks - 1) / 2 * 1000 + ranks * i) + (to[i] != ranks * (double) i + ranks * (ranks - 1) / 2 * I);
                /* The last rank has the largest of odd places, and all have the same of even ones: then it is the first. */
                for (int i = 0; i < count; i++) {
                    in[2 * i] = out[2 * i] = i % 2 ? rank : 7;
                    in[2 * i + 1] = out[2 * i + 1] = rank;
                }
                MPI_Reduce(in_place ? MPI_IN_PLACE : in, out, count, MPI_2INT, MPI_MAXLOC, root, MPI_COMM_WORLD);
                for (int i = 0; rank == root && i < count; i++)
                    wrong += (out[2 * i] != (i % 2 ? ranks - 1 : 7)) + (out[2 * i + 1] != (i % 2 ? ranks - 1 : 0));
            }
}

/* A root that nobody holds up, and a rank that is late: nothing may be lost by way of a reduction of nothing. */
static void reduce_nothing(void)
{
    for (int round = 0; round < 500; round++) {
        int value = round;
        MPI_Allreduce(MPI_IN_PLACE, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == ranks - 1 && round % 100 == 3)
            for (volatile int i = 0; i < 1000000; i++) {
            }
        MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
        wrong += value != round;
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    all_on(MPI_COMM_WORLD, 0);
    exchange_with_first();
    reduce_to_all();
    reduce_nothing();
    for (int round = 1; round <= 5; round++) {
        /* Members change, ids are used again, and whoever is first sends before the others have made the communicator. */
        MPI_Comm part;
        MPI_Comm_split(MPI_COMM_WORLD, (rank * round) % 3, -rank, &part);
        all_on(part, round);
        MPI_Comm_free(&part);
        MPI_Comm_dup(MPI_COMM_WORLD, &part);
        for (int i = 0; i < 50; i++)
            MPI_Barrier(part);
        MPI_Comm_free(&part);
    }
    long all = 0;
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("collectives: %d ranks, %ld wrong\n", ranks, all);
    MPI_Finalize();
    return all != 0;
}
