/* Collectives of ranks on one host at the edges of what a step promises: those that are started end in another order than they began in,
 * more are in flight than there is room for, a communicator is freed while others go on, and ranks that do not agree on sizes, or on
 * which collective it is, get an error and nobody hangs. */
#define _DEFAULT_SOURCE
#include "expect.h"
#include <unistd.h>

enum { LONG = 100000, IN_FLIGHT = 40 };

static char *bytes;

/* A duplicate with its team: a few collectives have gone by. */
static MPI_Comm duplicate(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 4; i++)
        MPI_Barrier(comm);
    return comm;
}

/* The second one is read before the first has begun; its root waits until all have read it. */
static void out_of_order(void)
{
    part = "out of order";
    for (int round = 0; round < 100; round++) {
        char few[8];
        MPI_Request requests[2];
        if (rank == 0 && round % 10 == 0)
            usleep(5000);
        memset(bytes, rank == 1 ? round : -1, LONG);
        memset(few, rank == 0 ? round : -1, sizeof few);
        MPI_Ibcast(few, sizeof few, MPI_CHAR, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Ibcast(bytes, LONG, MPI_CHAR, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        EXPECT(few[7] == (char) round && bytes[LONG - 1] == (char) round, "round %d: %d, %d", round, few[7], bytes[LONG - 1]);
    }
}

/* Short and long ones of changing roots, more than a rank has places, with blocking ones between. */
static void many_in_flight(void)
{
    part = "many in flight";
    MPI_Request requests[IN_FLIGHT];
    static char block[IN_FLIGHT][4096];
    int sums[IN_FLIGHT], ones[IN_FLIGHT];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < IN_FLIGHT; i++) {
            int root = (i + round) % ranks, size = i % 3 == 0 ? 4096 : 16;
            if (rank == (round + 1) % ranks && i == IN_FLIGHT / 2)
                usleep(2000);
            if (i % 4 == 3) {
                ones[i] = i + rank;
                MPI_Iallreduce(&ones[i], &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
                continue;
            }
            memset(block[i], rank == root ? i : -1, sizeof block[i]);
            MPI_Ibcast(block[i], size, MPI_CHAR, root, MPI_COMM_WORLD, &requests[i]);
            if (i % 8 == 0) {
                int one = 1, sum;
                MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                EXPECT(sum == ranks, "a blocking one between: %d", sum);
            }
        }
        MPI_Waitall(IN_FLIGHT, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < IN_FLIGHT; i++) {
            if (i % 4 == 3)
                EXPECT(sums[i] == i * ranks + ranks * (ranks - 1) / 2, "round %d, sum %d: %d", round, i, sums[i]);
            else
                EXPECT(block[i][15] == i && block[i][i % 3 == 0 ? 4095 : 0] == i, "round %d, block %d: %d", round, i, block[i][15]);
        }
    }
}

/* Whoever has read frees the communicator while others have not come yet. */
static void freed_early(void)
{
    part = "freed early";
    for (int round = 0; round < 10; round++) {
        MPI_Comm comm = duplicate();
        MPI_Request request;
        memset(bytes, rank == 1 ? round : -1, LONG);
        if (rank == 2)
            usleep(30000);
        MPI_Ibcast(bytes, LONG, MPI_CHAR, 1, comm, &request);
        MPI_Comm_free(&comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        EXPECT(bytes[LONG - 1] == (char) round, "round %d: %d", round, bytes[LONG - 1]);
    }
}

/* Short ones are only wrong; after a longer one the communicator may be of no use any more, but says so. */
static void sizes_differ(void)
{
    part = "sizes differ";
    MPI_Comm comm = duplicate();
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int error = MPI_Bcast(bytes, rank == 0 ? 16 : 8, MPI_CHAR, 0, comm);
    EXPECT(rank == 0 || error != MPI_SUCCESS, "a broadcast of 16 bytes into 8");
    error = MPI_Barrier(comm);
    EXPECT(error == MPI_SUCCESS, "a barrier after it");
    error = MPI_Gather(bytes, rank == 0 ? LONG / 8 : LONG / 2, MPI_CHAR, rank == 0 ? bytes + LONG : NULL, LONG / 8, MPI_CHAR, 0, comm);
    EXPECT(error != MPI_SUCCESS || (ranks == 2 && rank == 1), "a gather of %d bytes, where there is room for %d", LONG / 2, LONG / 8);
    error = MPI_Barrier(comm);
    EXPECT(error != MPI_SUCCESS, "a barrier among ranks that gave up");
    MPI_Comm_free(&comm);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Of what goes page by page: sizes of which one begins as the other does. */
static void pages_differ(void)
{
    static const int pages[][2] = { {2, 1}, {1, 2}, {4, 2}, {2, 4} };
    enum { PAGE = 32768 };
    char *out = calloc(8, PAGE), *in = calloc(8, PAGE);
    part = "pages differ";
    for (int what = 0; what < (ranks == 2 ? 3 : 1); what++)
        for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
            const int given = pages[i][0] * PAGE, taken = pages[i][1] * PAGE;
            MPI_Comm comm = duplicate();
            int error;
            MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
            if (what == 0)
                error = MPI_Bcast(out, rank == 0 ? given : taken, MPI_CHAR, 0, comm);
            else if (what == 1)
                error = MPI_Scatter(out, given, MPI_CHAR, in, rank == 0 ? given : taken, MPI_CHAR, 0, comm);
            else
                error = MPI_Gather(out, rank == 1 ? taken : given, MPI_CHAR, in, taken, MPI_CHAR, 1, comm);
            EXPECT(error != MPI_SUCCESS || rank == 0, "%d bytes into %d", given, taken);
            MPI_Comm_free(&comm);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    free(out);
    free(in);
}

/* One is in another collective than the others: all who see it are told. */
static void another_collective(void)
{
    part = "another collective";
    MPI_Comm comm = duplicate();
    char text[MPI_MAX_ERROR_STRING] = "";
    int length, value = 0, sum, error;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    error = rank == 0 ? MPI_Barrier(comm) : MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    EXPECT(error != MPI_SUCCESS, "a barrier and an allreduce");
    MPI_Error_string(error, text, &length);
    EXPECT(strstr(text, "another collective") || strstr(text, "failed there"), "said: %s", text);
    MPI_Comm_free(&comm);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Long blocks, two at once. */
static void long_alltoalls(void)
{
    enum { BLOCK = 16384 };
    char *out = malloc((size_t) ranks * BLOCK), *in[2] = { malloc((size_t) ranks * BLOCK), malloc((size_t) ranks * BLOCK) };
    part = "long alltoalls";
    for (int round = 0; round < 3; round++) {
        MPI_Request requests[2];
        for (int to = 0; to < ranks; to++)
            memset(out + (size_t) to * BLOCK, 7 * rank + to + round, BLOCK);
        for (int i = 0; i < 2; i++)
            MPI_Ialltoall(out, BLOCK, MPI_CHAR, in[i], BLOCK, MPI_CHAR, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 2; i++)
            for (int from = 0; from < ranks; from++) {
                const char *block = in[i] + (size_t) from * BLOCK, expected = (char) (7 * from + rank + round);
                EXPECT(block[0] == expected && block[BLOCK - 1] == expected, "round %d, from %d: %d, %d, not %d", round, from, block[0], block[BLOCK - 1],
                       expected);
            }
    }
    free(out);
    free(in[0]);
    free(in[1]);
}

/* Until so many have said so, for a minute at most; no call of MPI. */
static void wait_until(atomic_int *said, int count, const char *what)
{
    for (int turns = 0; turns < 600000 && atomic_load(said) < count; turns++)
        usleep(100);
    EXPECT(atomic_load(said) >= count, "%s: %d instead of %d", what, atomic_load(said), count);
}

/* A rank has all of the first one, and gives up in the second before others have come to read the first: they have what was right, or an
 * error. What is in shared memory tells them, as a call of MPI would read. */
static void withdrawn(void)
{
    MPI_Comm comm = duplicate();
    MPI_Request first, second = MPI_REQUEST_NULL;
    MPI_Win window;
    MPI_Aint size;
    char *in = calloc((size_t) ranks, LONG);
    atomic_int *begun, *given_up;
    int error, unit;
    part = "withdrawn";
    MPI_Win_allocate_shared(rank == 0 ? 2 * sizeof(atomic_int) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &begun, &window);
    MPI_Win_shared_query(window, 0, &size, &unit, &begun);
    given_up = begun + 1;
    if (rank == 0)
        begun[0] = begun[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    memset(bytes, 1, (size_t) ranks * LONG);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (rank == 0)
        wait_until(begun, ranks - 1, "others that have begun");
    MPI_Ialltoall(bytes, LONG, MPI_CHAR, in, LONG, MPI_CHAR, comm, &first);
    if (rank == 0) {
        char few[2], *many = calloc((size_t) ranks, 16);
        int ended;
        MPI_Test(&first, &ended, MPI_STATUS_IGNORE);
        error = MPI_Ialltoall(many, 16, MPI_CHAR, few, 1, MPI_CHAR, comm, &second);
        if (error == MPI_SUCCESS)
            error = MPI_Wait(&second, MPI_STATUS_IGNORE);
        EXPECT(error != MPI_SUCCESS, "16 bytes for each into one");
        atomic_fetch_add(given_up, 1);
        if (!ended)
            MPI_Wait(&first, MPI_STATUS_IGNORE);
        memset(bytes, 2, (size_t) ranks * LONG);
        free(many);
    } else {
        atomic_fetch_add(begun, 1);
        wait_until(given_up, 1, "rank 0 has given up");
        error = MPI_Wait(&first, MPI_STATUS_IGNORE);
        EXPECT(error != MPI_SUCCESS || (in[0] == 1 && in[LONG - 1] == 1), "what rank 0 had withdrawn: %d, %d", in[0], in[LONG - 1]);
    }
    MPI_Comm_free(&comm);
    MPI_Win_free(&window);
    MPI_Barrier(MPI_COMM_WORLD);
    free(in);
}

/* The first collective of a new communicator is one that ends later. */
static void first_of_new(void)
{
    part = "first of a new communicator";
    for (int round = 0; round < 50; round++) {
        MPI_Comm comm;
        MPI_Request request;
        int in = rank + round, out = -1;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        EXPECT(out == ranks * (ranks - 1) / 2 + ranks * round, "round %d: %d", round, out);
        MPI_Comm_free(&comm);
    }
}

/* Without arguments, all; `first`, the first of new communicators alone; anything else, long alltoalls alone. */
int main(int count, char **arguments)
{
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bytes = calloc((size_t) ranks + 2, LONG);
    MPI_Barrier(MPI_COMM_WORLD);
    if (count == 1) {
        out_of_order();
        many_in_flight();
        freed_early();
        sizes_differ();
        pages_differ();
        another_collective();
    }
    if (count == 1 || strcmp(arguments[1], "first") == 0)
        first_of_new();
    if (count == 1 || strcmp(arguments[1], "first") != 0)
        long_alltoalls();
    if (count == 1)
        withdrawn();
    long mine = wrong, all;
    MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        puts(all ? "failed" : "ok");
    free(bytes);
    MPI_Finalize();
    return all != 0;
}
