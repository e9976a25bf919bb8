/* Large messages that are received in another order than they were sent in, into memory of all kinds; small ones pass them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 6
#define INTS 100000

static int value(int from, int tag, int i)
{
    return from * 1000003 + tag * 7919 + i;
}

int main(int argc, char **argv)
{
    int rank, size, wrong = 0, all_wrong;
    int *out[COUNT], *in = malloc(2 * INTS * sizeof(int));
    MPI_Request requests[COUNT + 1];
    MPI_Datatype strided;
    MPI_Status status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_vector(INTS, 1, 2, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    for (int tag = 0; tag < COUNT; tag++)
        out[tag] = malloc(INTS * sizeof(int));

    for (int distance = 0; distance < size; distance++) {
        int to = (rank + distance) % size, from = (rank + size - distance) % size, small = rank, got;
        for (int tag = 0; tag < COUNT; tag++) {
            for (int i = 0; i < INTS; i++)
                out[tag][i] = value(rank, tag, i);
            if (tag % 2)
                MPI_Issend(out[tag], INTS, MPI_INT, to, tag, MPI_COMM_WORLD, &requests[tag]);
            else
                MPI_Isend(out[tag], INTS, MPI_INT, to, tag, MPI_COMM_WORLD, &requests[tag]);
        }
        MPI_Isend(&small, 1, MPI_INT, to, COUNT, MPI_COMM_WORLD, &requests[COUNT]);
        MPI_Recv(&got, 1, MPI_INT, from, COUNT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        wrong += got != from;
        for (int tag = COUNT - 1; tag >= 0; tag--) {
            int error, received, step = 1;
            memset(in, 0, 2 * INTS * sizeof(int));
            MPI_Probe(from, tag, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_INT, &received);
            wrong += received != INTS;
            if (tag == 0) {
                /* Too small: an error, and nothing is written behind the end. */
                error = MPI_Recv(in, INTS / 2, MPI_INT, from, tag, MPI_COMM_WORLD, &status);
                MPI_Error_class(error, &error);
                wrong += error != MPI_ERR_TRUNCATE;
                wrong += in[INTS / 2] != 0;
                continue;
            }
            if (tag == 3)
                step = 2;
            error = tag == 3 ? MPI_Recv(in, 1, strided, tag == 3 ? MPI_ANY_SOURCE : from, tag, MPI_COMM_WORLD, &status)
                : tag == 4 ? MPI_Recv(in, 2 * INTS, MPI_INT, from, tag, MPI_COMM_WORLD, &status)
                : MPI_Recv(in, INTS, MPI_INT, from, tag, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_INT, &received);
            wrong += error != MPI_SUCCESS || received != INTS || status.MPI_SOURCE != from;
            for (int i = 0; i < INTS && error == MPI_SUCCESS; i++)
                if (in[i * step] != value(from, tag, i)) {
                    wrong++;
                    break;
                }
        }
        MPI_Waitall(COUNT + 1, requests, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }

    MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("reversed: %d ranks, %d wrong\n", size, all_wrong);
    MPI_Type_free(&strided);
    for (int tag = 0; tag < COUNT; tag++)
        free(out[tag]);
    free(in);
    MPI_Finalize();
    return wrong != 0;
}
