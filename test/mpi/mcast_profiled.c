/* A tool between program and MPI: the functions of multicast are defined here again, count their calls and call their PMPIX_ twins.
 * Exit status 0 only when each call came by here and did what it should. */
#include <mpi.h>
#include <stdio.h>

static int calls[5];

int MPIX_Mcast(const void *buf, MPI_Count count, MPI_Datatype datatype, const MPIX_Bitmap members[], int tag, MPI_Comm comm)
{
    calls[0]++;
    return PMPIX_Mcast(buf, count, datatype, members, tag, comm);
}

int MPIX_Imcast(const void *buf, MPI_Count count, MPI_Datatype datatype, const MPIX_Bitmap members[], int tag, MPI_Comm comm, int flags,
    MPI_Request *request)
{
    calls[1]++;
    return PMPIX_Imcast(buf, count, datatype, members, tag, comm, flags, request);
}

int MPIX_Mcast_recv(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPIX_Bitmap members[],
    MPI_Status *status)
{
    calls[2]++;
    return PMPIX_Mcast_recv(buf, count, datatype, source, tag, comm, members, status);
}

int MPIX_Mcast_irecv(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPIX_Bitmap members[],
    MPI_Request *request)
{
    calls[3]++;
    return PMPIX_Mcast_irecv(buf, count, datatype, source, tag, comm, members, request);
}

int MPIX_Mcast_iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    calls[4]++;
    return PMPIX_Mcast_iprobe(source, tag, comm, flag, status);
}

int main(int argc, char **argv)
{
    enum { rounds = 10, tag = 3 };
    int rank, ranks, wrong = 0, all;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPIX_Bitmap members[MPIX_BITMAP_WORDS(ranks)];
    MPIX_Bitmap_zero(members, ranks);
    for (int member = 0; member < ranks; member++)
        MPIX_Bitmap_set(members, member);

    for (int round = 0; round < rounds; round++) {
        int one = round, two = -round, got[2] = { -1, -1 }, there;
        MPI_Request requests[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };

        if (rank == 0) {
            MPIX_Mcast(&one, 1, MPI_INT, members, tag, MPI_COMM_WORLD);
            MPIX_Imcast(&two, 1, MPI_INT, members, tag, MPI_COMM_WORLD, 0, &requests[0]);
        }
        MPIX_Mcast_iprobe(0, tag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        MPIX_Mcast_recv(&got[0], 1, MPI_INT, 0, tag, MPI_COMM_WORLD, NULL, MPI_STATUS_IGNORE);
        MPIX_Mcast_irecv(&got[1], 1, MPI_INT, 0, tag, MPI_COMM_WORLD, NULL, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        wrong += got[0] != one || got[1] != two;
    }
    for (int i = 0; i < 5; i++)
        wrong += calls[i] != (i < 2 && rank != 0 ? 0 : rounds);
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("mcast_profiled: %d ranks, %d wrong\n", ranks, all);
    MPI_Finalize();
    return all != 0;
}
