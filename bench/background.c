/* What the progress thread (MPIR_CVAR_ASYNC_PROGRESS=1) costs and brings, between two ranks. The program does not start one: it is
 * run without it and with it, and the two are compared.
 *
 *   latency     8 B one way in a ping-pong: what it costs a program that makes calls all the time
 *   computing   a fixed amount of computing in both ranks at once, without a call: what it costs a program that makes none
 *   seen        how long a rank that computes does not know that the other one has started a fuzzy barrier: what it brings;
 *               median over the rounds, and as seen_most the time that 9 of 10 rounds do not exceed
 *
 * A round of `seen`: both call MPIX_Barrier_start, rank 1 later than rank 0 by up to 2 ms of computing, and compute until 5 ms are
 * over, so that on two cores none is idle. Rank 0 makes no call, but looks at the flag of the barrier every few microseconds. The
 * result is the time from the other's start until the flag is 1, or until MPIX_Barrier_wait after the computing has returned, if it
 * was 0 until then. How late rank 1 is changes from round to round: the thread naps for a while after a call, and one and the same
 * time would always find it at that, or never. Both ranks are on one machine and read one clock.
 *
 * --operation runs one of them only. An MPI without MPIX_Barrier_start runs the first two. */
#include "bench.h"

enum { TAG_PINGPONG = 0, TAG_STARTED = 1 };
enum { MESSAGE = 8, STEPS_OF_A_PIECE = 2048, PIECES = 500 };

/* About 2 us that nothing but the core takes part in: every step needs the one before it. */
static void compute_piece(void)
{
    static volatile uint64_t result = 1;
    uint64_t value = result;
    for (int i = 0; i < STEPS_OF_A_PIECE; i++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    result = value;
}

/* --- latency --------------------------------------------------------------------------------------------------------------- */

struct exchange {
    char outgoing[MESSAGE];
    char incoming[MESSAGE];
};

static void send_message(struct exchange *exchange, int peer)
{
    MPI_Send(exchange->outgoing, MESSAGE, MPI_CHAR, peer, TAG_PINGPONG, MPI_COMM_WORLD);
}

static void receive_message(struct exchange *exchange, int peer)
{
    MPI_Recv(exchange->incoming, MESSAGE, MPI_CHAR, peer, TAG_PINGPONG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void pingpong(const struct bench *bench, long iterations, void *context)
{
    struct exchange *exchange = context;
    const int peer = 1 - bench->rank;
    for (long i = 0; i < iterations; i++) {
        if (bench->rank == 0)
            send_message(exchange, peer);
        receive_message(exchange, peer);
        if (bench->rank != 0)
            send_message(exchange, peer);
    }
}

static void measure_latency(const struct bench *bench)
{
    struct exchange exchange = { { 0 }, { 0 } };
    bench_fill(exchange.outgoing, MESSAGE, (unsigned) bench->rank);
    pingpong(bench, 1, &exchange);
    bench_verify(bench, exchange.incoming, MESSAGE, (unsigned) (1 - bench->rank));
    bench_emit(bench, "latency", MESSAGE, bench_measure(bench, pingpong, &exchange, BENCH_TIME_OF_ROOT) / 2 * 1e6, "us");
}

/* --- computing ------------------------------------------------------------------------------------------------------------- */

static void compute(const struct bench *bench, long iterations, void *context)
{
    (void) bench;
    (void) context;
    for (long i = 0; i < iterations; i++)
        for (int piece = 0; piece < PIECES; piece++)
            compute_piece();
}

static void measure_computing(const struct bench *bench)
{
    bench_emit(bench, "computing", 0, bench_measure(bench, compute, NULL, BENCH_TIME_OF_SLOWEST) * 1e6, "us");
}

/* --- seen ------------------------------------------------------------------------------------------------------------------ */

#ifdef MPIX_MAX_NOTIFICATIONS
enum { ROUNDS_LEAST = 20, ROUNDS_MOST = 1000, LATENESSES = 20 };
static const double until_end = 5e-3, latest = 2e-3;   /* seconds from the beginning of a round */

/* Computes until `end`; the time at which `flag` was first seen to be 1, or 0. */
static double compute_and_look(double end, const volatile int *flag)
{
    double seen = 0, now = bench_now();
    while (now < end) {
        compute_piece();
        const int is_set = __atomic_load_n(flag, __ATOMIC_ACQUIRE);
        now = bench_now();
        if (is_set && seen == 0)
            seen = now;
    }
    return seen;
}

/* Seconds from the start of rank 1, which is so late, until rank 0 has seen it; on rank 0. */
static double look_for_other(const struct bench *bench, double lateness)
{
    volatile int flag = 0, nothing = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = bench_now();
    if (bench->rank == 1)
        compute_and_look(begin + lateness, &nothing);
    double started = bench_now();
    MPIX_Barrier_start(MPI_COMM_WORLD, &flag);
    double seen = compute_and_look(begin + until_end, &flag);
    MPIX_Barrier_wait(MPI_COMM_WORLD, &flag);
    if (seen == 0)
        seen = bench_now();
    if (bench->rank == 1)
        MPI_Send(&started, 1, MPI_DOUBLE, 0, TAG_STARTED, MPI_COMM_WORLD);
    else
        MPI_Recv(&started, 1, MPI_DOUBLE, 1, TAG_STARTED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return seen - started;
}

static void measure_seen(const struct bench *bench)
{
    static double times[ROUNDS_MOST];
    const double affordable = bench->budget / until_end;
    const int rounds = affordable < ROUNDS_LEAST ? ROUNDS_LEAST : affordable > ROUNDS_MOST ? ROUNDS_MOST : (int) affordable;
    look_for_other(bench, latest);      /* the first barrier */
    for (int i = 0; i < rounds; i++) {
        times[i] = look_for_other(bench, latest * (1 + i % LATENESSES) / LATENESSES);
        if (bench->rank == 0 && times[i] < 0)
            bench_fail(bench, "a barrier ended before the other rank had started it");
    }
    qsort(times, (size_t) rounds, sizeof times[0], bench_compare);
    bench_emit(bench, "seen", 0, times[rounds / 2] * 1e6, "us");
    bench_emit(bench, "seen_most", 0, times[rounds * 9 / 10] * 1e6, "us");
}
#endif

static const struct part {
    const char *name;
    void (*measure)(const struct bench *bench);
} parts[] = {
    { "latency", measure_latency },
    { "computing", measure_computing },
#ifdef MPIX_MAX_NOTIFICATIONS
    { "seen", measure_seen },
#endif
};

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "background", "", 2, 2, &argc, &argv);
    int found = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (bench.operation == NULL || strcmp(bench.operation, parts[i].name) == 0) {
            found = 1;
            parts[i].measure(&bench);
        }
    if (!found)
        bench_fail(&bench, "no such --operation; known: latency, computing, and seen where the MPI has MPIX_Barrier_start");
    bench_finalize(&bench);
    return 0;
}
