// All ranks are on one host, and their numbers there, also those that mpiexec tells, are those in MPI_COMM_WORLD. Rank 0 says how many.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int told(const char *name)
{
    const char *value = getenv(name);
    return value ? atoi(value) : -1;
}

int main(int argc, char **argv)
{
    int rank, size, host_rank, host_size;
    MPI_Comm host;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &host_rank);
    MPI_Comm_size(host, &host_size);
    if (host_rank != rank || host_size != size || told("MPI_LOCALRANKID") != rank || told("MPI_LOCALNRANKS") != size) {
        fprintf(stderr, "rank %d of %d is %d of %d on its host, where mpiexec says %d of %d\n", rank, size, host_rank, host_size,
                told("MPI_LOCALRANKID"), told("MPI_LOCALNRANKS"));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("%d ranks on the host\n", size);
    MPI_Comm_free(&host);
    return MPI_Finalize();
}
