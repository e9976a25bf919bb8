/* MPI_Ssend and its kin: complete when they are received, and not before; of every length at which they go another way, found by every kind of receive,
 * in the order of other messages. Ranks send to their right neighbours, so that one rank sends to itself. */
#include "expect.h"
#include <pthread.h>

enum { tag = 9, lengths = 10, longest = 70000, many = 3000 };

static const int length_of[lengths] = { 0, 1, 40, 1000, 8184, 8185, 8192, 16384, 16385, longest };
static char out[longest], in[2 * longest + 1];
static int right, left, provided;

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

/* Every `stride`th byte of memory. */
static void expect_apart(const char *how, int length, int stride, const MPI_Status *status)
{
    int count, others = 0;
    MPI_Get_count(status, MPI_CHAR, &count);
    for (int i = 0; i < length; i++)
        others += in[stride * i] != byte_of(left, length, i) || (stride > 1 && in[stride * i + 1] != 0);
    EXPECT(count == length && status->MPI_SOURCE == left && status->MPI_TAG == tag, "%s: %d bytes of rank %d, not %d of %d", how, count,
           status->MPI_SOURCE, length, left);
    EXPECT(others == 0 && in[stride * length] == 0, "%s: %d of %d bytes are wrong", how, others, length);
}

static void expect_it(const char *how, int length, const MPI_Status *status)
{
    expect_apart(how, length, 1, status);
}

static void expect_incomplete(MPI_Request *request, const char *how)
{
    for (int look = 0; look < 50; look++) {
        int flag;
        MPI_Test(request, &flag, MPI_STATUS_IGNORE);
        EXPECT(!flag, "%s: complete before it was received", how);
    }
}

/* Nobody receives before all have looked at their sends. */
static void unreceived(void)
{
    static const char *const ways[] = { "MPI_Recv", "MPI_Irecv", "any source and tag", "MPI_Mprobe", "bytes with gaps" };
    MPI_Datatype gap;
    MPI_Type_create_resized(MPI_CHAR, 0, 2, &gap);
    MPI_Type_commit(&gap);
    for (int way = 0; way < 5; way++)
        for (int i = 0; i < lengths; i++) {
            const int length = length_of[i];
            MPI_Request send, receive;
            MPI_Status status;
            MPI_Message message;
            prepare(length);
            MPI_Issend(out, length, MPI_CHAR, right, tag, MPI_COMM_WORLD, &send);
            expect_incomplete(&send, ways[way]);
            MPI_Barrier(MPI_COMM_WORLD);
            expect_incomplete(&send, ways[way]);
            if (way == 3)
                MPI_Mprobe(left, tag, MPI_COMM_WORLD, &message, &status);
            MPI_Barrier(MPI_COMM_WORLD);
            switch (way) {
                case 0:
                    MPI_Recv(in, longest, MPI_CHAR, left, tag, MPI_COMM_WORLD, &status);
                    break;
                case 1:
                    MPI_Irecv(in, longest, MPI_CHAR, left, tag, MPI_COMM_WORLD, &receive);
                    MPI_Wait(&receive, &status);
                    break;
                case 2:
                    MPI_Recv(in, longest, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
                    break;
                case 3:
                    expect_incomplete(&send, "MPI_Mprobe");
                    MPI_Barrier(MPI_COMM_WORLD);
                    MPI_Mrecv(in, longest, MPI_CHAR, &message, &status);
                    break;
                default:
                    MPI_Recv(in, longest, gap, left, tag, MPI_COMM_WORLD, &status);
            }
            MPI_Wait(&send, MPI_STATUS_IGNORE);
            expect_apart(ways[way], length, way == 4 ? 2 : 1, &status);
        }
    MPI_Type_free(&gap);
}

/* The receive is there first. */
static void awaited(void)
{
    for (int wildcards = 0; wildcards < 2; wildcards++)
        for (int i = 0; i < lengths; i++) {
            MPI_Request receive;
            MPI_Status status;
            prepare(length_of[i]);
            MPI_Irecv(in, longest, MPI_CHAR, wildcards ? MPI_ANY_SOURCE : left, wildcards ? MPI_ANY_TAG : tag, MPI_COMM_WORLD, &receive);
            MPI_Barrier(MPI_COMM_WORLD);
            if (ranks > 1) {
                MPI_Ssend(out, length_of[i], MPI_CHAR, right, tag, MPI_COMM_WORLD);
            } else {
                MPI_Request send;
                MPI_Issend(out, length_of[i], MPI_CHAR, right, tag, MPI_COMM_WORLD, &send);
                MPI_Wait(&send, MPI_STATUS_IGNORE);
            }
            MPI_Wait(&receive, &status);
            expect_it("MPI_Ssend", length_of[i], &status);
        }
}

/* Both at once: one waits in MPI_Recv while the other sends. */
static void turns(void)
{
    for (int round = 0; round < 300; round++)
        for (int i = 0; i < lengths - 3 && ranks > 1; i++) {
            MPI_Status status;
            prepare(length_of[i]);
            if (rank % 2 == 0 && rank + 1 < ranks)
                MPI_Ssend(out, length_of[i], MPI_CHAR, rank + 1, tag, MPI_COMM_WORLD);
            else if (rank % 2 == 1) {
                MPI_Recv(in, longest, MPI_CHAR, left, tag, MPI_COMM_WORLD, &status);
                expect_it("MPI_Recv that waits", length_of[i], &status);
            }
        }
}

/* Too little room is the receiver's error; the sender is done. */
static void too_little(void)
{
    for (int kept = 0; kept < 2; kept++)
        for (int i = 1; i < lengths; i++) {
            MPI_Request send, receive = MPI_REQUEST_NULL;
            int error;
            prepare(length_of[i]);
            if (!kept)
                MPI_Irecv(in, length_of[i] - 1, MPI_CHAR, left, tag, MPI_COMM_WORLD, &receive);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Issend(out, length_of[i], MPI_CHAR, right, tag, MPI_COMM_WORLD, &send);
            MPI_Barrier(MPI_COMM_WORLD);
            if (kept)
                error = MPI_Recv(in, length_of[i] - 1, MPI_CHAR, left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            else
                error = MPI_Wait(&receive, MPI_STATUS_IGNORE);
            expect_class(error, MPI_ERR_TRUNCATE, "a receive of one byte less");
            MPI_Wait(&send, MPI_STATUS_IGNORE);
            EXPECT(in[length_of[i] - 1] == 0, "a byte was written behind the room");
        }
}

/* Among ordinary sends of one tag, in order; and received by tag, from the last to the first. */
static void among_others(void)
{
    static MPI_Request sends[many];
    static int numbers[many];
    for (int reverse = 0; reverse < 2; reverse++) {
        for (int i = 0; i < many; i++) {
            numbers[i] = rank + i;
            if (i % 3 == 1)
                MPI_Issend(&numbers[i], 1, MPI_INT, right, reverse ? i : tag, MPI_COMM_WORLD, &sends[i]);
            else
                MPI_Isend(&numbers[i], 1, MPI_INT, right, reverse ? i : tag, MPI_COMM_WORLD, &sends[i]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int at = 0; at < many; at++) {
            int i = reverse ? many - 1 - at : at, got = -1;
            MPI_Recv(&got, 1, MPI_INT, left, reverse ? i : tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            EXPECT(got == left + i, "message %d is %d, not %d", i, got, left + i);
        }
        MPI_Waitall(many, sends, MPI_STATUSES_IGNORE);
    }
}

/* Persistent ones, and those that are freed before they are received. */
static void kinds(void)
{
    MPI_Request send;
    MPI_Status status;
    for (int i = 0; i < lengths; i++) {
        prepare(length_of[i]);
        MPI_Ssend_init(out, length_of[i], MPI_CHAR, right, tag, MPI_COMM_WORLD, &send);
        for (int round = 0; round < 3; round++) {
            MPI_Start(&send);
            expect_incomplete(&send, "MPI_Ssend_init");
            MPI_Barrier(MPI_COMM_WORLD);
            memset(in, 0, sizeof in);
            MPI_Recv(in, longest, MPI_CHAR, left, tag, MPI_COMM_WORLD, &status);
            MPI_Wait(&send, MPI_STATUS_IGNORE);
            expect_it("MPI_Ssend_init", length_of[i], &status);
        }
        MPI_Request_free(&send);
        MPI_Issend(out, length_of[i], MPI_CHAR, right, tag, MPI_COMM_WORLD, &send);
        MPI_Request_free(&send);
        memset(in, 0, sizeof in);
        MPI_Recv(in, longest, MPI_CHAR, left, tag, MPI_COMM_WORLD, &status);
        expect_it("a send whose request was freed", length_of[i], &status);
        MPI_Barrier(MPI_COMM_WORLD);    /* its memory */
    }
}

static void *sends_of_thread(void *argument)
{
    const int own = *(int *) argument;
    for (int i = 0; i < 500; i++)
        MPI_Ssend(&i, 1, MPI_INT, right, own, MPI_COMM_WORLD);
    return NULL;
}

static void *receives_of_thread(void *argument)
{
    const int own = *(int *) argument;
    for (int i = 0; i < 500; i++) {
        int got = -1;
        MPI_Recv(&got, 1, MPI_INT, left, own, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        EXPECT(got == i, "thread %d received %d, not %d", own, got, i);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t all[6];
    int numbers[6];
    EXPECT(provided == MPI_THREAD_MULTIPLE, "threads may not call");
    for (int i = 0; i < 6 && provided == MPI_THREAD_MULTIPLE; i++) {
        numbers[i] = i / 2;
        pthread_create(&all[i], NULL, i % 2 ? sends_of_thread : receives_of_thread, &numbers[i]);
    }
    for (int i = 0; i < 6 && provided == MPI_THREAD_MULTIPLE; i++)
        pthread_join(all[i], NULL);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        { "unreceived", unreceived, 1, 0 },
        { "awaited", awaited, 1, 0 },
        { "turns", turns, 2, 0 },
        { "too_little", too_little, 1, 0 },
        { "among_others", among_others, 1, 0 },
        { "kinds", kinds, 1, 0 },
        { "threads", threads, 1, 1 },
    };
    MPI_Init_thread(&argc, &argv, is_named("threads", argc, argv) ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    right = (rank + 1) % ranks;
    left = (rank + ranks - 1) % ranks;
    int status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
