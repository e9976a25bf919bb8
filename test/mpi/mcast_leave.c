/* A member that has received leaves at once, for MPI_Finalize, while the acknowledgement of another one has still to pass it: the
 * master must learn that all have it. The other one comes late, so that the first is in MPI_Finalize then; were it not, nothing would
 * be wrong. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

int main(int argc, char **argv)
{
    MPIX_Bitmap members[1] = { 0 };
    MPI_Request request;
    int rank, ranks, value, wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    value = rank == 0 ? 7 : 0;
    for (int member = 1; member < ranks; member++)
        MPIX_Bitmap_set(members, member);
    if (rank == 0) {
        MPIX_Imcast(&value, 1, MPI_INT, members, 0, MPI_COMM_WORLD, MPIX_MCAST_DELIVERED, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        printf("mcast_leave: %d ranks\n", ranks);
    } else {
        struct timespec late = { 0, 300000000 };
        if (rank == ranks - 1)
            nanosleep(&late, NULL);
        MPIX_Mcast_recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL, MPI_STATUS_IGNORE);
        wrong = value != 7;
        if (wrong)
            printf("mcast_leave: rank %d got %d\n", rank, value);
    }
    MPI_Finalize();
    return wrong;
}
