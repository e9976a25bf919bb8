/* Two ranks that send each other streams of short messages under MPI_THREAD_MULTIPLE: how many messages a second go both ways
 * together, when a rank has one thread that sends and receives in turn, and when it has a thread for each. Sending and
 * receiving help each other only as far as they do not take the same locks.
 *
 * A stream is windows of 64 messages, and an answer to each window. Rank 1 has two threads only in the last measurement, so that
 * the first two differ in rank 0 alone.
 *
 * A thread lives for at least WINDOWS_OF_A_THREAD of them: on shared cores making it takes longer than a window.
 *
 * Then the same with some threads in both ranks, each of which sends and receives in turn on a communicator of its own. */
#include "bench.h"

#include <pthread.h>

enum { WINDOW = 64, WINDOWS_OF_A_THREAD = 64, MOST_THREADS = 8, TAG_MESSAGE = 0, TAG_ANSWER = 1 };

struct streams {
    const struct bench *bench;
    char *outgoing;             /* a window each */
    char *incoming;
    int size;
    MPI_Comm comm;
    int ranks_with_threads;     /* 0; 1: rank 0; 2: both */
    long windows;
};

static void start_sends(const struct streams *streams, MPI_Request *requests)
{
    for (int slot = 0; slot < WINDOW; slot++)
        MPI_Isend(streams->outgoing + (size_t) slot * (size_t) streams->size, streams->size, MPI_CHAR, 1 - streams->bench->rank,
                  TAG_MESSAGE, streams->comm, &requests[slot]);
}

static void start_receives(const struct streams *streams, MPI_Request *requests)
{
    for (int slot = 0; slot < WINDOW; slot++)
        MPI_Irecv(streams->incoming + (size_t) slot * (size_t) streams->size, streams->size, MPI_CHAR, 1 - streams->bench->rank,
                  TAG_MESSAGE, streams->comm, &requests[slot]);
}

static void send_answer(const struct streams *streams)
{
    MPI_Send(NULL, 0, MPI_CHAR, 1 - streams->bench->rank, TAG_ANSWER, streams->comm);
}

static void receive_answer(const struct streams *streams)
{
    MPI_Recv(NULL, 0, MPI_CHAR, 1 - streams->bench->rank, TAG_ANSWER, streams->comm, MPI_STATUS_IGNORE);
}

static void *in_turn(void *context)
{
    const struct streams *streams = context;
    MPI_Request requests[2 * WINDOW];
    for (long i = 0; i < streams->windows; i++) {
        start_receives(streams, requests);
        start_sends(streams, requests + WINDOW);
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
        send_answer(streams);
        receive_answer(streams);
    }
    return NULL;
}

static void send_stream(const struct streams *streams)
{
    MPI_Request requests[WINDOW];
    for (long i = 0; i < streams->windows; i++) {
        start_sends(streams, requests);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        receive_answer(streams);
    }
}

static void *receive_stream(void *context)
{
    const struct streams *streams = context;
    MPI_Request requests[WINDOW];
    for (long i = 0; i < streams->windows; i++) {
        start_receives(streams, requests);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        send_answer(streams);
    }
    return NULL;
}

static void both_ways(const struct bench *bench, long iterations, void *context)
{
    struct streams *streams = context;
    streams->windows = iterations * WINDOWS_OF_A_THREAD;
    if (bench->rank >= streams->ranks_with_threads) {
        in_turn(streams);
        return;
    }
    pthread_t receiver;
    if (pthread_create(&receiver, NULL, receive_stream, streams) != 0)
        bench_fail(bench, "no thread could be made");
    send_stream(streams);
    pthread_join(receiver, NULL);
}

struct team {
    struct streams each[MOST_THREADS];
    int threads;
};

static void side_by_side(const struct bench *bench, long iterations, void *context)
{
    struct team *team = context;
    pthread_t threads[MOST_THREADS];
    for (int i = 0; i < team->threads; i++) {
        team->each[i].windows = iterations * WINDOWS_OF_A_THREAD;
        if (pthread_create(&threads[i], NULL, in_turn, &team->each[i]) != 0)
            bench_fail(bench, "no thread could be made");
    }
    for (int i = 0; i < team->threads; i++)
        pthread_join(threads[i], NULL);
}

static void measure_own_communicators(struct bench *bench, size_t size)
{
    const size_t bytes = size * WINDOW;
    struct team team;
    for (int i = 0; i < MOST_THREADS; i++) {
        team.each[i] = (struct streams) { bench, bench_buffer(bench, bytes), bench_buffer(bench, bytes), (int) size, MPI_COMM_NULL, 0, 0 };
        bench_fill(team.each[i].outgoing, bytes, (unsigned) (2 * i + bench->rank));
        MPI_Comm_dup(MPI_COMM_WORLD, &team.each[i].comm);
    }
    for (team.threads = 2; team.threads <= MOST_THREADS; team.threads *= 2) {
        char metric[64];
        for (int i = 0; i < team.threads; i++)
            memset(team.each[i].incoming, 0, bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        side_by_side(bench, 1, &team);
        for (int i = 0; i < team.threads; i++)
            bench_verify(bench, team.each[i].incoming, bytes, (unsigned) (2 * i + 1 - bench->rank));
        const double window = bench_measure(bench, side_by_side, &team, BENCH_TIME_OF_SLOWEST) / WINDOWS_OF_A_THREAD;
        snprintf(metric, sizeof metric, "%d threads with communicators", team.threads);
        bench_emit(bench, metric, size, team.threads * 2 * WINDOW / window, "msg/s");
    }
    for (int i = 0; i < MOST_THREADS; i++) {
        MPI_Comm_free(&team.each[i].comm);
        free(team.each[i].outgoing);
        free(team.each[i].incoming);
    }
}

int main(int argc, char **argv)
{
    static const char *const metrics[] = { "one thread", "two threads", "two threads in both" };
    struct bench bench;
    int provided;
    bench_arguments(&bench, "threads", "8", argc, argv);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    bench_ranks(&bench, 2, 2);
    struct streams streams = { &bench, NULL, NULL, 0, MPI_COMM_WORLD, 0, 0 };
    if (provided < MPI_THREAD_MULTIPLE) {
        bench.size_count = 0;
        if (bench.rank == 0)
            printf("{\"bench\": \"threads\", \"metric\": \"rate\", \"skipped\": \"no MPI_THREAD_MULTIPLE\"}\n");
    }
    for (int i = 0; i < bench.size_count; i++) {
        const size_t bytes = bench.sizes[i] * WINDOW;
        streams.size = (int) bench.sizes[i];
        streams.outgoing = bench_buffer(&bench, bytes);
        streams.incoming = bench_buffer(&bench, bytes);
        bench_fill(streams.outgoing, bytes, (unsigned) bench.rank);
        for (int ranks = 0; ranks <= 2; ranks++) {
            streams.ranks_with_threads = ranks;
            memset(streams.incoming, 0, bytes);
            MPI_Barrier(MPI_COMM_WORLD);
            both_ways(&bench, 1, &streams);
            bench_verify(&bench, streams.incoming, bytes, (unsigned) (1 - bench.rank));
            const double window = bench_measure(&bench, both_ways, &streams, BENCH_TIME_OF_SLOWEST) / WINDOWS_OF_A_THREAD;
            bench_emit(&bench, metrics[ranks], bench.sizes[i], 2 * WINDOW / window, "msg/s");
        }
        free(streams.outgoing);
        free(streams.incoming);
        measure_own_communicators(&bench, bench.sizes[i]);
    }
    bench_finalize(&bench);
    return 0;
}
