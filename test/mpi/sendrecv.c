/* MPI_Sendrecv: of every length at which it goes another way, around a ring, with nobody, to oneself, into too little room, and in the order of other
 * messages. Any number of ranks. */
#include "expect.h"

enum { tag = 7, lengths = 9, longest = 300000 };

static const int length_of[lengths] = { 0, 1, 40, 4096, 16384, 16385, 65536, 262144, longest };
static char out[longest], in[longest];

static char byte_of(int from, int length, int i)
{
    return (char) (from * 31 + length + i);
}

static void prepare(int length)
{
    for (int i = 0; i < length; i++)
        out[i] = byte_of(rank, length, i);
    memset(in, 0, sizeof in);
}

static void expect_from(int from, int length, const MPI_Status *status)
{
    int count, others = 0;
    MPI_Get_count(status, MPI_CHAR, &count);
    for (int i = 0; i < length; i++)
        others += in[i] != byte_of(from, length, i);
    EXPECT(count == length && status->MPI_SOURCE == from && status->MPI_TAG == tag, "%d bytes of rank %d, not %d of %d", count, status->MPI_SOURCE, length, from);
    EXPECT(others == 0, "%d of %d bytes are wrong", others, length);
}

/* `named`: the source is. */
static void around(int right, int left, int named)
{
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < lengths; i++) {
            MPI_Status status;
            prepare(length_of[i]);
            MPI_Sendrecv(out, length_of[i], MPI_CHAR, right, tag, in, longest, MPI_CHAR, named ? left : MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
            expect_from(left, length_of[i], &status);
        }
}

static void ring(void)
{
    around((rank + 1) % ranks, (rank + ranks - 1) % ranks, 1);
    around((rank + 1) % ranks, (rank + ranks - 1) % ranks, 0);
}

static void oneself(void)
{
    around(rank, rank, 1);
}

static void nobody(void)
{
    MPI_Status status;
    const int length = 100, peer = rank ^ 1;
    prepare(length);
    MPI_Sendrecv(out, length, MPI_CHAR, MPI_PROC_NULL, tag, in, longest, MPI_CHAR, MPI_PROC_NULL, tag, MPI_COMM_WORLD, &status);
    EXPECT(status.MPI_SOURCE == MPI_PROC_NULL, "nobody is rank %d", status.MPI_SOURCE);
    if (peer >= ranks)
        return;
    MPI_Sendrecv(out, length, MPI_CHAR, rank < peer ? peer : MPI_PROC_NULL, tag, in, longest, MPI_CHAR, rank < peer ? MPI_PROC_NULL : peer, tag,
                 MPI_COMM_WORLD, &status);
    if (rank > peer)
        expect_from(peer, length, &status);
}

/* Behind the room there is what no message has there. */
static void too_long(void)
{
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (int i = 1; i < lengths; i++) {
        const int room = length_of[i] - 1;
        int error, written = 0;
        prepare(length_of[i]);
        for (int j = room; j < longest; j++)
            in[j] = ~byte_of(left, length_of[i], j);
        error = MPI_Sendrecv(out, length_of[i], MPI_CHAR, right, tag, in, room, MPI_CHAR, left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_class(error, MPI_ERR_TRUNCATE, "too little room");
        for (int j = room; j < longest; j++)
            written += in[j] != (char) ~byte_of(left, length_of[i], j);
        EXPECT(written == 0, "%d bytes are written behind a room of %d", written, room);
    }
}

/* Of the first of two messages: at each place another byte than the second one has, whatever the lengths. */
static char first_byte(int from, int first, int second, int i)
{
    return (char) (byte_of(from, second, i) + 1 + first % 251);
}

/* What was sent before comes before it, however long each is. */
static void order(void)
{
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (int first = 0; first < lengths; first++)
        for (int second = 0; second < lengths; second++) {
            static char before[longest];
            static char came[longest];
            MPI_Request requests[2];
            MPI_Status status, statuses[2];
            int count, others = 0;
            prepare(length_of[second]);
            memset(came, 0, sizeof came);
            for (int i = 0; i < length_of[first]; i++)
                before[i] = first_byte(rank, length_of[first], length_of[second], i);
            MPI_Irecv(came, longest, MPI_CHAR, left, tag, MPI_COMM_WORLD, &requests[0]);
            MPI_Isend(before, length_of[first], MPI_CHAR, right, tag, MPI_COMM_WORLD, &requests[1]);
            MPI_Sendrecv(out, length_of[second], MPI_CHAR, right, tag, in, longest, MPI_CHAR, left, tag, MPI_COMM_WORLD, &status);
            MPI_Waitall(2, requests, statuses);
            MPI_Get_count(&statuses[0], MPI_CHAR, &count);
            EXPECT(count == length_of[first], "%d bytes first, not %d", count, length_of[first]);
            for (int i = 0; i < length_of[first]; i++)
                others += came[i] != first_byte(left, length_of[first], length_of[second], i);
            EXPECT(others == 0, "%d of the %d bytes that come first are wrong", others, length_of[first]);
            expect_from(left, length_of[second], &status);
        }
}

static void with_gaps(void)
{
    const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, blocks = 1000;
    MPI_Datatype type;
    int others = 0;
    MPI_Type_vector(blocks, 8, 16, MPI_CHAR, &type);
    MPI_Type_commit(&type);
    prepare(16 * blocks);
    MPI_Sendrecv(out, 1, type, right, tag, in, 1, type, left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 16 * blocks; i++)
        others += in[i] != (i % 16 < 8 ? byte_of(left, 16 * blocks, i) : 0);
    EXPECT(others == 0, "%d bytes are wrong", others);
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        { "ring", ring, 1, 0 },
        { "oneself", oneself, 1, 0 },
        { "nobody", nobody, 1, 0 },
        { "too long", too_long, 1, 0 },
        { "order", order, 1, 0 },
        { "with gaps", with_gaps, 1, 0 },
    };
    int status;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
