/* Every pair of ranks exchanges messages of every interesting size, both ways at once, contiguous and strided, in order, and
 * compares each byte. Exit status 0 only when all arrived as sent. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int sizes[] = { 0, 1, 8, 64, 71, 72, 73, 120, 1000, 4096, 8191, 16383, 16384, 16385, 32768, 65536, 100001, 262144,
    300000, 1048576, 3000001
};
enum { size_count = sizeof sizes / sizeof sizes[0], largest = 3000001 };

static int rank, ranks;
static long wrong;

static unsigned char byte_of(int from, int to, int size, long position)
{
    return (unsigned char) (from * 31 + to * 17 + size * 7 + position + (position >> 8));
}

static void fill(unsigned char *buffer, int to, int size)
{
    for (long i = 0; i < size; i++)
        buffer[i] = byte_of(rank, to, size, i);
}

static void compare(const unsigned char *buffer, int from, int size, long stride)
{
    for (long i = 0; i < size; i++)
        wrong += buffer[i * stride] != byte_of(from, rank, size, i);
}

/* How many numbers the message of that number has, where order is looked at. */
static int order_length(int number)
{
    return number % 50 == 49 ? 10000 : 1;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    unsigned char *out = malloc(largest), *in = malloc(2L * largest), *spread = malloc(2L * largest);

    for (int s = 0; s < size_count; s++) {
        int size = sizes[s];
        for (int shift = 0; shift < ranks; shift++) {   /* shift 0: to itself */
            int to = (rank + shift) % ranks, from = (rank - shift + ranks) % ranks;
            MPI_Request requests[2];
            MPI_Status status;
            int count;

            fill(out, to, size);
            memset(in, 0xee, size + 1);
            MPI_Irecv(in, size, MPI_BYTE, from, s, MPI_COMM_WORLD, &requests[0]);
            MPI_Isend(out, size, MPI_BYTE, to, s, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            compare(in, from, size, 1);
            wrong += in[size] != 0xee;

            /* strided on both sides, and unexpected: the probe makes sure that it came before the receive */
            MPI_Datatype strided;
            MPI_Type_vector(size, 1, 2, MPI_BYTE, &strided);
            MPI_Type_commit(&strided);
            for (long i = 0; i < size; i++)
                spread[2 * i] = out[i];
            MPI_Isend(spread, 1, strided, to, 1000 + s, MPI_COMM_WORLD, &requests[0]);
            MPI_Probe(MPI_ANY_SOURCE, 1000 + s, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            wrong += count != size;
            MPI_Recv(in, 1, strided, status.MPI_SOURCE, 1000 + s, MPI_COMM_WORLD, &status);
            compare(in, status.MPI_SOURCE, size, 2);
            MPI_Type_free(&strided);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }

    /* Order: many small ones and a large one in between, received from anyone, must come in order from each. */
    int next[ranks], total = 200;
    memset(next, 0, sizeof next);
    MPI_Request requests[total];
    int *numbers = malloc(sizeof(int) * total * 10000);
    for (int i = 0; i < total; i++) {
        for (int j = 0; j < order_length(i); j++)
            numbers[i * 10000L + j] = rank * 100 + i + j * 1000;
        MPI_Isend(&numbers[i * 10000L], order_length(i), MPI_INT, (rank + 1) % ranks, 7, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = 0; i < total; i++) {
        MPI_Status status;
        int count, number;
        MPI_Recv(in, 10000, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        number = next[status.MPI_SOURCE]++;
        wrong += count != order_length(number);
        for (int j = 0; j < count; j++)
            wrong += ((int *) in)[j] != status.MPI_SOURCE * 100 + number + j * 1000;
    }
    MPI_Waitall(total, requests, MPI_STATUSES_IGNORE);

    long all = 0;
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("exchange: %d ranks, %ld wrong\n", ranks, all);
    MPI_Finalize();
    return all != 0;
}
