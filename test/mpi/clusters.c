/* Usage: clusters first|second|between SECOND BYTES
 * Two clusters of ranks: those below SECOND, and the others. Every rank sends BYTES to every other rank of its cluster, in the first or
 * the second one, or of the other cluster; nobody says anything else. Exit status 0 only when all arrived as sent. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int second;
static const char *how;

static int talk(int one, int other)
{
    if (strcmp(how, "between") == 0)
        return (one < second) != (other < second);
    return one != other && (one < second) == (strcmp(how, "first") == 0) && (other < second) == (strcmp(how, "first") == 0);
}

static unsigned char byte_of(int from, int to, long position)
{
    return (unsigned char) (from * 31 + to * 17 + position + (position >> 8));
}

int main(int argc, char **argv)
{
    int rank, ranks, size;
    long wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4) {
        fprintf(stderr, "Usage: clusters first|second|between SECOND BYTES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    how = argv[1];
    second = atoi(argv[2]);
    size = atoi(argv[3]);
    unsigned char *out = malloc(size), *in = malloc(size);
    for (int shift = 1; shift < ranks; shift++) {
        int to = (rank + shift) % ranks, from = (rank + ranks - shift) % ranks;
        MPI_Request requests[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };

        for (int i = 0; i < size; i++)
            out[i] = byte_of(rank, to, i);
        memset(in, 0xee, size);
        if (talk(from, rank))
            MPI_Irecv(in, size, MPI_BYTE, from, 0, MPI_COMM_WORLD, &requests[0]);
        if (talk(rank, to))
            MPI_Isend(out, size, MPI_BYTE, to, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; talk(from, rank) && i < size; i++)
            wrong += in[i] != byte_of(from, rank, i);
    }
    if (wrong != 0)
        printf("clusters: rank %d received %ld wrong bytes\n", rank, wrong);
    MPI_Finalize();
    return wrong != 0;
}
