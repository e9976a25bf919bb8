/* Requests of MPIX_ functions that somebody would rather not have: MPI_Cancel and MPI_Request_free either do what MPI says of them, or
 * are errors that leave the request as it was, to be completed. Two ranks or more. */
#include "expect.h"

enum { tag = 5, elements = 100000 };
static MPIX_Bitmap others[16];
static int sent[elements], got[elements];

static void prepare(void)
{
    for (int i = 0; i < elements; i++) {
        sent[i] = i * 3 + 1;
        got[i] = 0;
    }
    for (int i = 1; i < ranks; i++)
        MPIX_Bitmap_set(others, i);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_got(const char *what)
{
    EXPECT(memcmp(sent, got, sizeof got) == 0, "%s: what came is wrong", what);
}

/* An error, and the request is still the one it was. */
static void refused(int error, const MPI_Request *request, const char *what)
{
    EXPECT(error != MPI_SUCCESS, "%s is no error", what);
    EXPECT(*request != MPI_REQUEST_NULL, "%s took the request away", what);
}

static void complete(MPI_Request *request, const char *what)
{
    MPI_Status status;
    int cancelled = 1, error = MPI_Wait(request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    EXPECT(error == MPI_SUCCESS && !cancelled, "%s: error %d, cancelled %d", what, error, cancelled);
}

/* A receive can be neither cancelled nor freed, whether the message is there or not. */
static void receives(void)
{
    MPI_Request request;
    for (int early = 0; early < 2; early++) {
        prepare();
        if (rank == 0 && early)
            MPIX_Mcast(sent, elements, MPI_INT, others, tag, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank > 0) {
            MPIX_Mcast_irecv(got, elements, MPI_INT, 0, tag, MPI_COMM_WORLD, NULL, &request);
            refused(MPI_Cancel(&request), &request, "MPI_Cancel of a receive");
            refused(MPI_Request_free(&request), &request, "MPI_Request_free of a receive");
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0 && !early)
            MPIX_Mcast(sent, elements, MPI_INT, others, tag, MPI_COMM_WORLD);
        if (rank > 0) {
            complete(&request, "a receive");
            check_got("a receive");
        }
    }
}

/* A send that is cancelled arrives all the same, and says that it was not cancelled. One that is freed arrives, too. */
static void sends(void)
{
    MPI_Request request;
    for (int flags = 0; flags <= MPIX_MCAST_DELIVERED; flags += MPIX_MCAST_DELIVERED)
        for (int freed = 0; freed < 2; freed++) {
            prepare();
            if (rank == 0) {
                MPIX_Imcast(sent, elements, MPI_INT, others, tag, MPI_COMM_WORLD, flags, &request);
                if (freed) {
                    EXPECT(MPI_Request_free(&request) == MPI_SUCCESS && request == MPI_REQUEST_NULL, "MPI_Request_free of a send");
                } else {
                    MPI_Cancel(&request);
                    complete(&request, "a send");
                }
            } else {
                MPIX_Mcast_recv(got, elements, MPI_INT, 0, tag, MPI_COMM_WORLD, NULL, MPI_STATUS_IGNORE);
                check_got(freed ? "a send that was freed" : "a send that was cancelled");
            }
        }
    MPI_Barrier(MPI_COMM_WORLD);
}

static int started;

/* A barrier is neither: nobody is out of it before all have come. */
static void barriers(void)
{
    MPI_Request request;
    MPI_Win win;
    int all = 0, one = 1;
    started = 0;
    MPI_Win_create(&started, sizeof started, sizeof started, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    for (int i = 1; i <= 20; i++) {
        MPI_Fetch_and_op(&one, &all, MPI_INT, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        MPIX_Barrier_istart(MPI_COMM_WORLD, &request);
        refused(MPI_Cancel(&request), &request, "MPI_Cancel of a barrier");
        refused(MPI_Request_free(&request), &request, "MPI_Request_free of a barrier");
        complete(&request, "a barrier");
        MPI_Fetch_and_op(NULL, &all, MPI_INT, 0, 0, MPI_NO_OP, win);
        MPI_Win_flush(0, win);
        EXPECT(all >= i * ranks, "out of barrier %d when %d had come", i, all);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static long arrived;

static void count_arrival(const MPIX_Am_message *message, void *state)
{
    (void) state;
    if (message->size == (MPI_Count) sizeof sent && memcmp(message->data, sent, sizeof sent) == 0)
        arrived++;
}

/* Active messages: whatever becomes of the request, each arrives once. */
static void messages(void)
{
    enum { times = 10 };
    MPI_Request request;
    int handler, next = (rank + 1) % ranks;
    prepare();
    MPIX_Am_register("requests", count_arrival, NULL, NULL, MPI_COMM_WORLD, &handler);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < times; i++) {
        MPIX_Am_isend(NULL, 0, sent, sizeof sent, next, handler, MPI_COMM_WORLD, &request);
        if (MPI_Cancel(&request) != MPI_SUCCESS)
            EXPECT(request != MPI_REQUEST_NULL, "MPI_Cancel took the request of a message away");
        if (i % 2 == 0 || MPI_Request_free(&request) != MPI_SUCCESS)
            complete(&request, "a message");
    }
    while (arrived < times)
        MPIX_Am_progress(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPIX_Am_progress(MPI_COMM_WORLD);
    EXPECT(arrived == times, "%ld messages came, not %d", arrived, times);
    MPIX_Am_deregister(handler, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        { "receives", receives, 2, 0 },
        { "sends", sends, 2, 0 },
        { "barriers", barriers, 1, 0 },
        { "messages", messages, 1, 0 },
    };
    int status;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
