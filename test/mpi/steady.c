/* Usage: steady SECONDS
 * All ranks pass checked messages around a ring for so long, whatever happens to the network meanwhile; before that, everybody has met
 * everybody. Exit status 0 only when every message arrived once, in order, with all its bytes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { longest = 200000 };

static unsigned char byte_of(int from, long round, long position)
{
    return (unsigned char) (from * 31 + round * 7 + position + (position >> 8));
}

int main(int argc, char **argv)
{
    int rank, ranks, go_on = 1;
    long wrong = 0, all_wrong;
    unsigned char *out = malloc(longest), *in = malloc(longest);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int other = 0; other < ranks; other++)
        MPI_Sendrecv(out, 1, MPI_BYTE, other, 2, in, 1, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("started\n");
        fflush(stdout);
    }
    double end = MPI_Wtime() + (argc > 1 ? atof(argv[1]) : 1);
    int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    long round;
    for (round = 0; go_on; round++) {
        int size = (int) (round * 997 % longest);
        MPI_Status status;
        int count;

        for (long i = 0; i < size; i++)
            out[i] = byte_of(rank, round, i);
        MPI_Sendrecv(out, size, MPI_BYTE, to, 1, in, longest, MPI_BYTE, from, 1, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        wrong += count != size;
        for (long i = 0; i < size; i++)
            wrong += in[i] != byte_of(from, round, i);
        go_on = MPI_Wtime() < end;
        MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%ld rounds, %ld wrong\n", round, all_wrong);
    MPI_Finalize();
    return all_wrong != 0;
}
