/* Every rank sends to rank 0 without pause; rank 0 receives from MPI_ANY_SOURCE and tells all to stop once it has heard each of them
 * `enough` times. Nobody may starve: that must have come to pass after `patience` messages, however quick others are. Exit
 * status 0 only when so, and when all that was sent arrived, once, in order, with all its bytes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { enough = 50, patience = 200000, in_flight = 4, longest = 40000 };
enum { tag_data, tag_stop, tag_end };

/* Short ones that go at once, and from time to time one that must ask first. */
static int size_of(long number)
{
    return number % 16 == 15 ? longest : 8 + (int) (number * 97 % 1000);
}

static unsigned char byte_of(int from, long number, long position)
{
    return (unsigned char) (from * 31 + number * 7 + position);
}

/* A sender cannot be further ahead than in_flight messages: a synchronous send ends when it is received. */
static void send_until_stopped(int rank)
{
    MPI_Request stop, sends[in_flight];
    unsigned char *buffers = malloc((size_t) in_flight * longest);
    long number = 0;

    for (int i = 0; i < in_flight; i++)
        sends[i] = MPI_REQUEST_NULL;
    MPI_Irecv(NULL, 0, MPI_BYTE, 0, tag_stop, MPI_COMM_WORLD, &stop);
    for (int stopped = 0; !stopped; number++) {
        int slot = (int) (number % in_flight);
        unsigned char *buffer = buffers + (size_t) slot * longest;

        MPI_Wait(&sends[slot], MPI_STATUS_IGNORE);
        for (int i = 0; i < size_of(number); i++)
            buffer[i] = byte_of(rank, number, i);
        MPI_Issend(buffer, size_of(number), MPI_BYTE, 0, tag_data, MPI_COMM_WORLD, &sends[slot]);
        MPI_Test(&stop, &stopped, MPI_STATUS_IGNORE);
    }
    MPI_Send(&number, 1, MPI_LONG, 0, tag_end, MPI_COMM_WORLD);
    MPI_Waitall(in_flight, sends, MPI_STATUSES_IGNORE);
    free(buffers);
}

static void stop_all(int ranks)
{
    for (int rank = 1; rank < ranks; rank++)
        MPI_Send(NULL, 0, MPI_BYTE, rank, tag_stop, MPI_COMM_WORLD);
}

static long receive_from_anyone(int ranks)
{
    long *heard = calloc(ranks, sizeof *heard), wrong = 0, total = 0, most = 0;
    int hungry = ranks - 1, talking = ranks - 1;
    static unsigned char buffer[longest];

    while (talking > 0) {
        MPI_Status status;
        int size;

        MPI_Recv(buffer, longest, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &size);
        int from = status.MPI_SOURCE;
        if (status.MPI_TAG == tag_end) {
            long sent;
            memcpy(&sent, buffer, sizeof sent);
            wrong += heard[from] != sent;
            most = sent > most ? sent : most;
            talking--;
            continue;
        }
        long number = heard[from]++;
        wrong += size != size_of(number);
        for (int i = 0; i < size; i++)
            wrong += buffer[i] != byte_of(from, number, i);
        hungry -= heard[from] == enough;
        total++;
        if ((hungry == 0 && heard[from] == enough) || (hungry > 0 && total == patience))
            stop_all(ranks);
        if (hungry > 0 && total == patience) {
            wrong++;
            for (int rank = 1; rank < ranks; rank++)
                if (heard[rank] < enough)
                    printf("of the first %d messages only %ld are from rank %d\n", patience, heard[rank], rank);
            hungry = 0;
        }
    }
    printf("anysource: %d ranks, %ld messages, at most %ld from one, %ld wrong\n", ranks, total, most, wrong);
    free(heard);
    return wrong;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    long wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank == 0)
        wrong = receive_from_anyone(ranks);
    else
        send_until_stopped(rank);
    MPI_Bcast(&wrong, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return wrong != 0;
}
