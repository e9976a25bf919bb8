/* Many receives that are posted before the first message comes, and many messages that wait before the first receive: time of one of them, which should not depend
 * on how many they are. Each has a tag of its own, and they are asked for in the order in which they are sent or in reverse.
 *
 * Rank 1 sends a round when rank 0 says so. `posted`: rank 0 has posted all its receives by then. `unexpected`: it posts them when it has the message that rank 1
 * sends behind all others, which came earlier. An MPI that walks along its queues takes minutes here. */
#include "bench.h"

enum { FEW = 100, TAG_OF_ROUND = 0, TAG_OF_FIRST = 1 };

struct round {
    MPI_Request *requests;
    int *data;
    int count;
    int posted;
    int reverse;
};

static void receive(struct round *round)
{
    for (int i = 0; i < round->count; i++) {
        const int number = round->reverse ? round->count - 1 - i : i;
        MPI_Irecv(&round->data[number], 1, MPI_INT, 1, TAG_OF_FIRST + number, MPI_COMM_WORLD, &round->requests[i]);
    }
}

static void rounds(const struct bench *bench, long iterations, void *context)
{
    struct round *round = context;
    for (long i = 0; i < iterations; i++) {
        if (bench->rank == 1) {
            MPI_Recv(NULL, 0, MPI_INT, 0, TAG_OF_ROUND, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int number = 0; number < round->count; number++)
                MPI_Send(&number, 1, MPI_INT, 0, TAG_OF_FIRST + number, MPI_COMM_WORLD);
            MPI_Send(NULL, 0, MPI_INT, 0, TAG_OF_ROUND, MPI_COMM_WORLD);
            continue;
        }
        if (round->posted)
            receive(round);
        MPI_Send(NULL, 0, MPI_INT, 1, TAG_OF_ROUND, MPI_COMM_WORLD);
        if (!round->posted) {
            MPI_Recv(NULL, 0, MPI_INT, 1, TAG_OF_ROUND, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            receive(round);
        }
        MPI_Waitall(round->count, round->requests, MPI_STATUSES_IGNORE);
        if (round->posted)
            MPI_Recv(NULL, 0, MPI_INT, 1, TAG_OF_ROUND, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void measure(const struct bench *bench, const char *kind, int count)
{
    struct round round = { malloc((size_t) count * sizeof(MPI_Request)), malloc((size_t) count * sizeof(int)), count, strcmp(kind, "posted") == 0, 0 };
    if (round.requests == NULL || round.data == NULL)
        bench_fail(bench, "out of memory");
    for (round.reverse = 0; round.reverse < 2; round.reverse++) {
        char metric[64];
        memset(round.data, -1, (size_t) count * sizeof(int));
        rounds(bench, 1, &round);
        for (int i = 0; bench->rank == 0 && i < count; i++)
            if (round.data[i] != i)
                bench_fail(bench, "received data are wrong");
        snprintf(metric, sizeof metric, "%s %s", kind, round.reverse ? "in reverse" : "in order");
        bench_emit(bench, metric, (size_t) count, bench_measure(bench, rounds, &round, BENCH_TIME_OF_ROOT) / count * 1e6, "us");
    }
    free(round.requests);
    free(round.data);
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "queues", "", 2, 2, &argc, &argv);
    measure(&bench, "posted", FEW);
    measure(&bench, "posted", 10000);
    measure(&bench, "unexpected", FEW);
    measure(&bench, "unexpected", 100000);
    bench_finalize(&bench);
    return 0;
}
