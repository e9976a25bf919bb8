/* All ranks start, tell that they did, and stay until they are killed: rank 0 waits in MPI_Recv, the others too. With an argument,
 * rank 1 kills itself after the start; the others must not stay. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, message;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("started %d\n", (int) getpid());
    fflush(stdout);
    if (argc > 1 && rank == 1)
        kill(getpid(), strcmp(argv[1], "segv") == 0 ? SIGSEGV : SIGKILL);
    MPI_Recv(&message, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
