/* Receives and messages meet in MPI's order, whichever came first, by whichever call: a random schedule that every rank of a pair can
 * compute. Then what a blocked MPI_Recv may meet, probes, cancelled receives, and many of each in reverse. SEED=n draws other schedules. */
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "expect.h"

#define CHECK(condition) EXPECT(condition, "not so: %s", #condition)

/* ---- a random schedule: rank 1 sends numbered messages, rank 0 knows by a model which receive gets which ---- */

enum { TAGS = 3, MOST = 400, LONGEST = 40000 };
static uint64_t state;

static unsigned below(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned) (state >> 33) % n;
}

typedef struct {
    int tag, count;             /* of ints */
} message_t;

static int size_of_message(void)
{
    static const int counts[] = { 0, 1, 2, 9, 10, 11, 30, 200, 1000, 4096, 5000, LONGEST };

    return counts[below(sizeof counts / sizeof counts[0])];
}

static void check_data(const int *data, int count, int number)
{
    for (int i = 0; i < count; i++)
        CHECK(data[i] == number * 31 + i);
}

static void schedule(unsigned seed)
{
    message_t messages[MOST];
    int how[MOST], wanted[MOST], order[MOST], matched[MOST] = { 0 };
    static int data[MOST][8];
    int *large = malloc(LONGEST * sizeof *large);

    state = seed;
    int total = 1 + below(MOST), early = below(2), blocking = below(3);
    for (int i = 0; i < total; i++) {
        messages[i] = (message_t) { below(TAGS), blocking ? size_of_message() : (int) below(8) };
        how[i] = below(8);
        wanted[i] = below(4) == 0 ? MPI_ANY_TAG : -2;   /* -2: the tag of the message that it gets */
    }
    /* Receives in an order that MPI's rules give a meaning: each takes the first message left that fits its tag. */
    for (int i = 0; i < total; i++) {
        int tag = below(TAGS), first = -1;
        for (int m = 0; m < total && first < 0; m++)
            if (!matched[m] && (wanted[i] == MPI_ANY_TAG || messages[m].tag == tag))
                first = m;
        for (int m = 0; m < total && first < 0; m++)
            if (!matched[m])
                first = m;
        matched[first] = 1;
        if (wanted[i] == -2)
            wanted[i] = messages[first].tag;
        order[i] = first;
        /* A wildcard takes the first of all, a named one the first with that tag. */
        for (int m = 0; m < first; m++)
            if (!matched[m] && (wanted[i] == MPI_ANY_TAG || messages[m].tag == wanted[i]))
                abort();
    }
    if (rank == 1) {
        if (early == 0)
            MPI_Barrier(MPI_COMM_WORLD);
        MPI_Request *requests = malloc(total * sizeof *requests);
        int **copies = malloc(total * sizeof *copies);
        for (int i = 0; i < total; i++) {
            if (!blocking) {
                int numbers[8];
                for (int k = 0; k < messages[i].count; k++)
                    numbers[k] = i * 31 + k;
                MPI_Send(numbers, messages[i].count, MPI_INT, 0, messages[i].tag, MPI_COMM_WORLD);
                continue;
            }
            /* Not MPI_Send: the receiver takes them in another order. */
            copies[i] = malloc((messages[i].count + 1) * sizeof(int));
            for (int k = 0; k < messages[i].count; k++)
                copies[i][k] = i * 31 + k;
            if (how[i] == 0)
                MPI_Issend(copies[i], messages[i].count, MPI_INT, 0, messages[i].tag, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Isend(copies[i], messages[i].count, MPI_INT, 0, messages[i].tag, MPI_COMM_WORLD, &requests[i]);
        }
        if (early == 1)
            MPI_Barrier(MPI_COMM_WORLD);
        if (blocking) {
            MPI_Waitall(total, requests, MPI_STATUSES_IGNORE);
            for (int i = 0; i < total; i++)
                free(copies[i]);
        }
        free(copies);
        free(requests);
    } else if (rank == 0) {
        MPI_Request *requests = malloc(total * sizeof *requests);
        if (early == 1)
            MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < total; i++) {
            const message_t *message = &messages[order[i]];
            MPI_Status status;
            int count = -1;
            if (!blocking) {
                memset(data[i], -1, sizeof data[i]);
                MPI_Irecv(data[i], 8, MPI_INT, below(2) ? 1 : MPI_ANY_SOURCE, wanted[i], MPI_COMM_WORLD, &requests[i]);
                continue;
            }
            if (i == 0 && early == 0)
                MPI_Barrier(MPI_COMM_WORLD);
            memset(large, -1, LONGEST * sizeof *large);
            if (below(4) == 0) {
                MPI_Message handle;
                MPI_Mprobe(1, wanted[i], MPI_COMM_WORLD, &handle, &status);
                MPI_Get_count(&status, MPI_INT, &count);
                CHECK(count == message->count);
                MPI_Mrecv(large, LONGEST, MPI_INT, &handle, &status);
            } else if (below(4) == 0) {
                MPI_Probe(MPI_ANY_SOURCE, wanted[i], MPI_COMM_WORLD, &status);
                MPI_Get_count(&status, MPI_INT, &count);
                CHECK(count == message->count && status.MPI_TAG == message->tag && status.MPI_SOURCE == 1);
                MPI_Recv(large, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
            } else {
                MPI_Recv(large, LONGEST, MPI_INT, below(2) ? 1 : MPI_ANY_SOURCE, wanted[i], MPI_COMM_WORLD, &status);
            }
            MPI_Get_count(&status, MPI_INT, &count);
            CHECK(count == message->count && status.MPI_TAG == message->tag && status.MPI_SOURCE == 1);
            check_data(large, count, order[i]);
        }
        if (!blocking) {
            MPI_Status *statuses = malloc(total * sizeof *statuses);
            if (early == 0)
                MPI_Barrier(MPI_COMM_WORLD);
            MPI_Waitall(total, requests, statuses);
            for (int i = 0; i < total; i++) {
                int count;
                MPI_Get_count(&statuses[i], MPI_INT, &count);
                CHECK(count == messages[order[i]].count && statuses[i].MPI_TAG == messages[order[i]].tag && statuses[i].MPI_SOURCE == 1);
                check_data(data[i], count, order[i]);
            }
            free(statuses);
        }
        free(requests);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(large);
}

/* ---- what a blocked MPI_Recv may meet ---- */

static void blocked(void)
{
    int numbers[10] = { 0 }, spread[20] = { 0 }, count, error;
    MPI_Status status;
    MPI_Comm comm;
    MPI_Datatype gaps, six;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Type_vector(10, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Type_contiguous(3, MPI_SHORT, &six);
    MPI_Type_commit(&six);
    for (int late = 0; late < 2; late++) {
        for (int i = 0; i < 10; i++)
            numbers[i] = 100 + i;
        if (rank == 1) {
            for (int kind = 0; kind < 6; kind++) {
                if (late)
                    MPI_Recv(NULL, 0, MPI_INT, 0, 99, comm, MPI_STATUS_IGNORE);
                if (kind == 4)
                    MPI_Ssend(numbers, 10, MPI_INT, 0, kind, comm);
                else if (kind == 5)
                    MPI_Send(spread, 1, gaps, 0, kind, comm);
                else
                    MPI_Send(numbers, kind == 3 ? 0 : 10, MPI_INT, 0, kind, comm);
            }
        } else if (rank == 0) {
            for (int kind = 0; kind < 6; kind++) {
                memset(spread, 0, sizeof spread);
                if (late)
                    MPI_Send(NULL, 0, MPI_INT, 1, 99, comm);
                status.MPI_ERROR = 12345;
                switch (kind) {
                    case 0:    /* too long */
                        error = MPI_Recv(spread, 9, MPI_INT, 1, kind, comm, &status);
                        MPI_Error_class(error, &error);
                        CHECK(error == MPI_ERR_TRUNCATE && spread[9] == 0);
                        break;
                    case 1:    /* into gaps */
                        CHECK(MPI_Recv(spread, 1, gaps, MPI_ANY_SOURCE, kind, comm, &status) == MPI_SUCCESS);
                        CHECK(spread[0] == 100 && spread[1] == 0 && spread[18] == 109 && status.MPI_ERROR == 12345);
                        break;
                    case 2:    /* elements of another size */
                        CHECK(MPI_Recv(spread, 10, six, 1, kind, comm, &status) == MPI_SUCCESS);
                        MPI_Get_elements(&status, six, &count);
                        CHECK(count == 20 && spread[9] == 109);
                        break;
                    case 3:    /* nothing, to nowhere */
                        CHECK(MPI_Recv(NULL, 0, MPI_DOUBLE, 1, kind, comm, &status) == MPI_SUCCESS);
                        MPI_Get_count(&status, MPI_DOUBLE, &count);
                        CHECK(count == 0 && status.MPI_SOURCE == 1 && status.MPI_TAG == 3 && status.MPI_ERROR == 12345);
                        break;
                    default:
                        CHECK(MPI_Recv(spread, 20, MPI_INT, 1, MPI_ANY_TAG, comm, &status) == MPI_SUCCESS);
                        MPI_Get_count(&status, MPI_INT, &count);
                        CHECK(count == 10 && status.MPI_TAG == kind && (kind == 5 || spread[9] == 109));
                }
            }
        }
    }
    MPI_Type_free(&six);
    MPI_Type_free(&gaps);
    MPI_Comm_free(&comm);
}

/* ---- cancelled receives ---- */

static void cancelled(void)
{
    enum { MANY = 50 };
    MPI_Request requests[MANY];
    int data[MANY], flag;
    MPI_Status status;

    if (rank == 0) {
        for (int i = 0; i < MANY; i++)
            MPI_Irecv(&data[i], 1, MPI_INT, i % 3 ? 1 : MPI_ANY_SOURCE, i % 4 ? i / 2 : MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < MANY; i++)
            if (i != 20) {
                MPI_Cancel(&requests[i]);
                MPI_Wait(&requests[i], &status);
                MPI_Test_cancelled(&status, &flag);
                CHECK(flag);
            }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Wait(&requests[20], &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(!flag && data[20] == 77 && status.MPI_TAG == 10);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            int value = 77;
            MPI_Send(&value, 1, MPI_INT, 0, 10, MPI_COMM_WORLD);
        }
    }
}

/* ---- many, in order and in reverse ---- */

static double many(int count, bool posted, bool reverse, bool tags)
{
    MPI_Request *requests = malloc(count * sizeof *requests);
    int *data = malloc(count * sizeof *data);
    double time = 0;

    if (rank == 1) {
        if (posted)
            MPI_Barrier(MPI_COMM_WORLD);
        time = MPI_Wtime();
        for (int i = 0; i < count; i++) {
            int tag = !tags ? 0 : reverse ? count - 1 - i : i;
            MPI_Send(&tag, 1, MPI_INT, 0, tag, MPI_COMM_WORLD);
        }
        if (!posted)
            MPI_Barrier(MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        time = MPI_Wtime() - time;
    } else if (rank == 0) {
        if (!posted)
            MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < count; i++)
            MPI_Irecv(&data[i], 1, MPI_INT, 1, tags ? i : 0, MPI_COMM_WORLD, &requests[i]);
        if (posted)
            MPI_Barrier(MPI_COMM_WORLD);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; i++)
            CHECK(data[i] == (tags ? i : 0));
        MPI_Send(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(data);
    free(requests);
    return time / count;
}

/* ---- threads that are blocked at once ---- */

enum { THREADS = 4, ROUNDS = 300 };

static void *answer(void *argument)
{
    int tag = 1000 + (int) (intptr_t) argument;

    for (int i = 0; i < ROUNDS; i++) {
        int value = -1, peer = 1 - rank;
        if (rank == 0) {
            MPI_Send(&i, 1, MPI_INT, peer, tag, MPI_COMM_WORLD);
            MPI_Recv(&value, 1, MPI_INT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(value == i + tag);
        } else {
            MPI_Recv(&value, 1, MPI_INT, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(value == i);
            value += tag;
            MPI_Send(&value, 1, MPI_INT, peer, tag, MPI_COMM_WORLD);
        }
    }
    return NULL;
}

static void schedules(void)
{
    const char *seed = getenv("SEED");

    for (unsigned i = 0; i < 60; i++)
        schedule((seed ? (unsigned) atoi(seed) : 1) * 1000 + i);
}

/* What each took is told where somebody asks for the times. */
static void queues(void)
{
    for (int mode = 0; mode < 8; mode++) {
        double few = many(100, mode & 1, mode & 2, mode & 4), lots = many(mode & 1 ? 10000 : 100000, mode & 1, mode & 2, mode & 4);
        if (rank == 1 && getenv("TIMES"))
            printf("%s, %s, %s: %.3f us each of few, %.3f of many\n", mode & 1 ? "posted" : "unexpected", mode & 2 ? "reverse" : "in order",
                   mode & 4 ? "tags" : "one tag", few * 1e6, lots * 1e6);
    }
}

static void with_threads(void)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS && rank < 2; i++)
        pthread_create(&threads[i], NULL, answer, (void *) (intptr_t) i);
    for (int i = 0; i < THREADS && rank < 2; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    const struct part parts[] = {
        { "schedules", schedules, 2, 0 },
        { "blocked", blocked, 2, 0 },
        { "cancelled", cancelled, 2, 0 },
        { "queues", queues, 2, 0 },
        { "with_threads", with_threads, 2, 0 },
    };
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    int status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
