// Usage: spawn_end PROGRAM ARGUMENT: spawns two of `PROGRAM ARGUMENT` again and again, and tells of each.
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Comm children;

    MPI_Init(&argc, &argv);
    printf("started %d\n", (int) getpid());
    fflush(stdout);
    for (;;)
        MPI_Comm_spawn(argv[1], argv + 2, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
}
