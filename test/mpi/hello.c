/* Usage: hello [SECONDS [met]]
 * Starts, adds the ranks up, ends. The last rank computes for so long before it calls MPI again; with `met` all have met before. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, ranks, sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 2)
        MPI_Barrier(MPI_COMM_WORLD);
    double end = MPI_Wtime() + (argc > 1 && rank == ranks - 1 ? atof(argv[1]) : 0);
    while (MPI_Wtime() < end) {
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("hello: %d ranks, sum %d\n", ranks, sum);
    MPI_Finalize();
    return sum != ranks * (ranks - 1) / 2;
}
