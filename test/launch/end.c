// Usage: end abort CODE | all CODE | compute | wait | finalize | closed | talk | copy
//
// How a job ends. `abort`: the last rank calls MPI_Abort at once, the others wait for it; `all`: each of them does. `compute`: no
// MPI call is made any more; `wait`: a message never comes; `finalize`: all but the last wait in MPI_Finalize; `closed`: like
// compute, without standard output and error; `talk`: each exchanges messages with its neighbours for ever. `copy`: rank 0 copies its input to its output.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, nothing;
    const char *how = argc > 1 ? argv[1] : "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(how, "copy")) {
        for (int c; rank == 0 && (c = getchar()) != EOF;)
            putchar(c);
        MPI_Finalize();
        return 0;
    }
    if (!strcmp(how, "all") || (!strcmp(how, "abort") && rank == size - 1))
        MPI_Abort(MPI_COMM_WORLD, atoi(argv[2]));
    if (strcmp(how, "abort")) {
        printf("started %d\n", (int) getpid());
        fflush(stdout);
    }
    if (!strcmp(how, "finalize") && rank < size - 1)
        MPI_Finalize();
    if (!strcmp(how, "wait") || !strcmp(how, "abort"))
        MPI_Recv(&nothing, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (!strcmp(how, "talk"))
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &nothing, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    if (!strcmp(how, "closed")) {
        close(1);
        close(2);
    }
    for (;;)
        sleep(1000);
}
