/* Messages that come before anybody has asked for them, in pieces where the device cuts them, shorter and longer than what leaves without a
 * grant: received from whoever comes, probed, synchronous, too long for their buffer, into a type with gaps, and behind each other. Each
 * must say who sent it, its tag and its size, whenever the receive is posted: before, after, or while it arrives. The last word is the number of
 * faults. */
#include "expect.h"

enum { most = 400000, rounds = 40 };

static const int sizes[] = { 0, 1, 1000, 1500, 4096, 4097, 9000, 16384, 16385, 30000, 65535, 65536, 65537, 150000, 262143, 262144, 262145, 400000 };
enum { size_count = sizeof sizes / sizeof sizes[0] };

static unsigned char buffer[most], sent[size_count][most];

static void fill(unsigned char *bytes, int size, int number)
{
    for (int i = 0; i < size; i++)
        bytes[i] = (unsigned char) (number * 37 + i * 7 + (i >> 8));
}

static void check(const MPI_Status * status, int from, int number, int size)
{
    int count;

    MPI_Get_count(status, MPI_BYTE, &count);
    EXPECT(status->MPI_SOURCE == from && status->MPI_TAG == number && count == size, "message %d: source %d, tag %d, %d bytes of %d",
           number, status->MPI_SOURCE, status->MPI_TAG, count, size);
    for (int i = 0; i < size; i++)
        if (buffer[i] != (unsigned char) (number * 37 + i * 7 + (i >> 8))) {
            fault("message %d: byte %d is wrong", number, i);
            break;
        }
}

/* Looks around for a while, so that some of what comes has come. */
static void look(int times)
{
    int flag;

    for (int i = 0; i < times; i++)
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void send_all(int to, int round)
{
    MPI_Request requests[size_count];

    for (int i = 0; i < size_count; i++) {
        fill(sent[i], sizes[i], i);
        if ((round + i) % 5 == 4)
            MPI_Issend(sent[i], sizes[i], MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Isend(sent[i], sizes[i], MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(size_count, requests, MPI_STATUSES_IGNORE);
}

static void receive_all(int from, int round)
{
    MPI_Status status, probed;

    for (int i = 0; i < size_count; i++) {
        look(round % 4 * 8);
        memset(buffer, 0, sizeof buffer);
        if (round % 3 == 1) {
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &probed);
            MPI_Recv(buffer, most, MPI_BYTE, probed.MPI_SOURCE, probed.MPI_TAG, MPI_COMM_WORLD, &status);
        } else if (round % 3 == 2) {
            MPI_Message message;
            MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &probed);
            MPI_Mrecv(buffer, most, MPI_BYTE, &message, &status);
        } else {
            MPI_Recv(buffer, most, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        }
        check(&status, from, i, sizes[i]);
    }
}

/* The receiver's buffer is shorter than what comes, which is an error, and takes nothing from the next one. */
static void too_long(int peer)
{
    MPI_Status status;
    int count;

    if (rank == 0) {
        fill(sent[0], 40000, 7);
        fill(sent[1], 100, 8);
        MPI_Send(sent[0], 40000, MPI_BYTE, peer, 7, MPI_COMM_WORLD);
        MPI_Send(sent[1], 100, MPI_BYTE, peer, 8, MPI_COMM_WORLD);
        return;
    }
    look(100);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    expect_class(MPI_Recv(buffer, 10000, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE, "too long");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    memset(buffer, 0, sizeof buffer);
    MPI_Recv(buffer, most, MPI_BYTE, peer, 8, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    check(&status, peer, 8, 100);
}

/* Both sides have gaps. */
static void with_gaps(int peer)
{
    MPI_Datatype type;
    static int numbers[60000];

    MPI_Type_vector(10000, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 20000; i++)
        numbers[i] = rank == 0 ? i : -1;
    if (rank == 0) {
        MPI_Send(numbers, 1, type, peer, 3, MPI_COMM_WORLD);
    } else {
        look(50);
        MPI_Recv(numbers, 1, type, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 20000; i++)
            EXPECT(numbers[i] == (i % 2 == 0 ? i : -1), "number %d is %d", i, numbers[i]);
    }
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    long faults, mine;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < rounds && rank < 2; round++) {
        part = "all sizes";
        if (rank == 0)
            send_all(1, round);
        else
            receive_all(0, round);
        part = "all sizes, back";
        if (rank == 1)
            send_all(0, round);
        else
            receive_all(1, round);
        part = "too long";
        too_long(1 - rank);
        part = "with gaps";
        with_gaps(1 - rank);
    }
    mine = wrong;
    MPI_Allreduce(&mine, &faults, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%ld faults\n", faults);
    MPI_Finalize();
    return faults != 0;
}
