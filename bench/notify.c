/* Data and the news that they are there, between two ranks: one-way time, and the bandwidth that follows from it, by size.
 *
 * Every way is played as a ping-pong in this one program, and at each size they follow each other, so that what disturbs one disturbs
 * the others too and their ratios are fair. The ways:
 *   put_notify           MPIX_Put_notify, the other rank in MPIX_Win_wait_notify; memory that MPI allocates (MPI_Win_allocate)
 *   put_notify_created   the same; memory of the user (MPI_Win_create)
 *   put_flag             MPIX_Put_flag, the other rank looks at its own memory; it calls MPI now and then only, which is what brings
 *                        the data where they do not come by stores
 *   put_flush_send       MPI_Put, MPI_Win_flush and an empty message
 *   send                 MPI_Send, MPI_Recv
 * One MPI_Win_lock_all spans all of it. The data of a size do not change, so an origin needs no flush before it writes again.
 *
 * Besides, the time that rank 0 spends in one call when it does not wait, of the first size: `call` of MPIX_Put_notify, `call_put` of
 * MPI_Put, `call_isend` of MPI_Isend. 64 are issued, which alone is timed, and then completed.
 *
 * --operation runs one way only, or `call` the calls. An MPI without MPIX_Put_notify runs put_flush_send and send, and their calls. */
#include "bench.h"

enum { TAG_DATA = 0, TAG_NEWS = 1, TAG_OVER = 2 };
enum { NOTIFICATION = 0, LOOKS_WITHOUT_MPI = 64, CALLS = 64, LINE = 64 };

/* Where the data arrive. */
enum place { BUFFER, ALLOCATED, CREATED, PLACES };

struct exchange {
    int peer;
    char *outgoing;
    int size;
    char *incoming[PLACES];
    MPI_Win window[PLACES];     /* none for BUFFER */
    size_t flag_at;             /* in the windows, behind the data */
    int flags_given, flags_taken;
};

/* --- the ways: how one rank gives, and how the other takes ----------------------------------------------------------------- */

static void send_data(struct exchange *exchange)
{
    MPI_Send(exchange->outgoing, exchange->size, MPI_CHAR, exchange->peer, TAG_DATA, MPI_COMM_WORLD);
}

static void receive_data(struct exchange *exchange)
{
    MPI_Recv(exchange->incoming[BUFFER], exchange->size, MPI_CHAR, exchange->peer, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void put_flush_send(struct exchange *exchange)
{
    MPI_Put(exchange->outgoing, exchange->size, MPI_CHAR, exchange->peer, 0, exchange->size, MPI_CHAR, exchange->window[ALLOCATED]);
    MPI_Win_flush(exchange->peer, exchange->window[ALLOCATED]);
    MPI_Send(NULL, 0, MPI_CHAR, exchange->peer, TAG_NEWS, MPI_COMM_WORLD);
}

static void receive_news(struct exchange *exchange)
{
    MPI_Recv(NULL, 0, MPI_CHAR, exchange->peer, TAG_NEWS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

#ifdef MPIX_MAX_NOTIFICATIONS
static void put_notify(struct exchange *exchange)
{
    MPIX_Put_notify(exchange->outgoing, exchange->size, MPI_CHAR, exchange->peer, 0, exchange->size, MPI_CHAR,
                    exchange->window[ALLOCATED], NOTIFICATION);
}

static void wait_notify(struct exchange *exchange)
{
    MPIX_Win_wait_notify(exchange->window[ALLOCATED], NOTIFICATION);
}

static void put_notify_created(struct exchange *exchange)
{
    MPIX_Put_notify(exchange->outgoing, exchange->size, MPI_CHAR, exchange->peer, 0, exchange->size, MPI_CHAR,
                    exchange->window[CREATED], NOTIFICATION);
}

static void wait_notify_created(struct exchange *exchange)
{
    MPIX_Win_wait_notify(exchange->window[CREATED], NOTIFICATION);
}

/* The flag counts, so that nobody needs to clear it. */
static void put_flag(struct exchange *exchange)
{
    MPIX_Put_flag(exchange->outgoing, exchange->size, MPI_CHAR, exchange->peer, 0, exchange->size, MPI_CHAR,
                  exchange->window[ALLOCATED], (MPI_Aint) exchange->flag_at, ++exchange->flags_given);
}

static void look_at_flag(struct exchange *exchange)
{
    const int *flag = (const int *) (exchange->incoming[ALLOCATED] + exchange->flag_at);
    const int wanted = ++exchange->flags_taken;
    for (int looks = 1; __atomic_load_n(flag, __ATOMIC_ACQUIRE) != wanted; looks++) {
        int there;
        if (looks % LOOKS_WITHOUT_MPI == 0)
            MPI_Iprobe(exchange->peer, TAG_DATA, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    }
}
#endif

static const struct way {
    const char *name;
    enum place place;
    void (*give)(struct exchange *exchange);
    void (*take)(struct exchange *exchange);
} ways[] = {
#ifdef MPIX_MAX_NOTIFICATIONS
    { "put_notify", ALLOCATED, put_notify, wait_notify },
    { "put_notify_created", CREATED, put_notify_created, wait_notify_created },
    { "put_flag", ALLOCATED, put_flag, look_at_flag },
#endif
    { "put_flush_send", ALLOCATED, put_flush_send, receive_news },
    { "send", BUFFER, send_data, receive_data },
};
enum { WAYS = sizeof ways / sizeof ways[0] };

struct game {
    const struct way *way;
    struct exchange *exchange;
};

static void pingpong(const struct bench *bench, long iterations, void *context)
{
    const struct game *game = context;
    const struct way *way = game->way;
    struct exchange *exchange = game->exchange;
    if (bench->rank == 0) {
        for (long i = 0; i < iterations; i++) {
            way->give(exchange);
            way->take(exchange);
        }
    } else {
        for (long i = 0; i < iterations; i++) {
            way->take(exchange);
            way->give(exchange);
        }
    }
    if (way->place != BUFFER)
        MPI_Win_flush_local(exchange->peer, exchange->window[way->place]);
}

/* The other rank writes into the window between two barriers only. */
static void verify(const struct bench *bench, struct game *game)
{
    struct exchange *exchange = game->exchange;
    const enum place place = game->way->place;
    const size_t size = (size_t) exchange->size;
    bench_fill(exchange->outgoing, size, (unsigned) bench->rank);
    memset(exchange->incoming[place], 0, size);
    if (place != BUFFER)
        MPI_Win_sync(exchange->window[place]);
    MPI_Barrier(MPI_COMM_WORLD);
    pingpong(bench, 1, game);
    if (place != BUFFER)
        MPI_Win_sync(exchange->window[place]);
    bench_verify(bench, exchange->incoming[place], size, (unsigned) exchange->peer);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void measure(const struct bench *bench, const struct way *way, struct exchange *exchange)
{
    struct game game = { way, exchange };
    char bandwidth[64];
    const size_t size = (size_t) exchange->size;
    verify(bench, &game);
    const double one_way = bench_measure(bench, pingpong, &game, BENCH_TIME_OF_ROOT) / 2;
    bench_emit(bench, way->name, size, one_way * 1e6, "us");
    snprintf(bandwidth, sizeof bandwidth, "%s_bandwidth", way->name);
    if (size >= 1024)
        bench_emit(bench, bandwidth, size, (double) size / one_way * 1e-9, "GB/s");
}

/* --- calls that do not wait ------------------------------------------------------------------------------------------------ */

static void issue_isends(struct exchange *exchange, MPI_Request *requests)
{
    for (int i = 0; i < CALLS; i++)
        MPI_Isend(exchange->outgoing, exchange->size, MPI_CHAR, exchange->peer, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
}

static void receive_all(struct exchange *exchange)
{
    for (int i = 0; i < CALLS; i++)
        receive_data(exchange);
}

static void issue_puts(struct exchange *exchange, MPI_Request *requests)
{
    (void) requests;
    for (int i = 0; i < CALLS; i++)
        MPI_Put(exchange->outgoing, exchange->size, MPI_CHAR, exchange->peer, 0, exchange->size, MPI_CHAR,
                exchange->window[ALLOCATED]);
}

static void take_nothing(struct exchange *exchange)
{
    (void) exchange;
}

#ifdef MPIX_MAX_NOTIFICATIONS
static void issue_put_notifies(struct exchange *exchange, MPI_Request *requests)
{
    (void) requests;
    for (int i = 0; i < CALLS; i++)
        put_notify(exchange);
}

static void wait_for_all_notifications(struct exchange *exchange)
{
    for (int i = 0; i < CALLS; i++)
        wait_notify(exchange);
}
#endif

static const struct call {
    const char *name;
    void (*issue)(struct exchange *exchange, MPI_Request *requests);    /* CALLS of them; requests where the calls have any */
    void (*take)(struct exchange *exchange);
} calls[] = {
#ifdef MPIX_MAX_NOTIFICATIONS
    { "call", issue_put_notifies, wait_for_all_notifications },
#endif
    { "call_put", issue_puts, take_nothing },
    { "call_isend", issue_isends, receive_all },
};
enum { CALL_KINDS = sizeof calls / sizeof calls[0] };

/* Seconds of one call, on rank 0. It says at the end of each round whether that was the last one. */
static double call_batch(const struct bench *bench, const struct call *call, struct exchange *exchange, double budget)
{
    MPI_Request requests[CALLS];
    double issuing = 0;
    long rounds = 0;
    int over = 0;
    for (int i = 0; i < CALLS; i++)
        requests[i] = MPI_REQUEST_NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = bench_now();
    while (!over) {
        if (bench->rank == 0) {
            const double start = bench_now();
            call->issue(exchange, requests);
            issuing += bench_now() - start;
            MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE);
            MPI_Win_flush(exchange->peer, exchange->window[ALLOCATED]);
            over = bench_now() - begin > budget;
            MPI_Send(&over, 1, MPI_INT, exchange->peer, TAG_OVER, MPI_COMM_WORLD);
        } else {
            call->take(exchange);
            MPI_Recv(&over, 1, MPI_INT, exchange->peer, TAG_OVER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        rounds++;
    }
    return issuing / (double) rounds / CALLS;
}

static void measure_call(const struct bench *bench, const struct call *call, struct exchange *exchange)
{
    double batches[BENCH_BATCHES];
    call_batch(bench, call, exchange, 0);       /* connections */
    for (int i = 0; i < BENCH_BATCHES; i++)
        batches[i] = call_batch(bench, call, exchange, bench->budget / BENCH_BATCHES);
    qsort(batches, BENCH_BATCHES, sizeof batches[0], bench_compare);
    bench_emit(bench, call->name, (size_t) exchange->size, batches[BENCH_BATCHES / 2] * 1e6, "us");
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "notify", "8,64,1024,8192,65536,1048576,4194304", 2, 2, &argc, &argv);
    const size_t largest = bench_largest(&bench), flag_at = (largest + LINE - 1) / LINE * LINE, room = flag_at + LINE;
    struct exchange exchange = { .peer = 1 - bench.rank, .outgoing = bench_buffer(&bench, largest), .flag_at = flag_at };
    exchange.incoming[BUFFER] = bench_buffer(&bench, largest);
    exchange.incoming[CREATED] = bench_buffer(&bench, room);
    MPI_Win_create(exchange.incoming[CREATED], (MPI_Aint) room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &exchange.window[CREATED]);
    MPI_Win_allocate((MPI_Aint) room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &exchange.incoming[ALLOCATED], &exchange.window[ALLOCATED]);
    memset(exchange.incoming[ALLOCATED], 0, room);
    for (int place = ALLOCATED; place < PLACES; place++)
        MPI_Win_lock_all(0, exchange.window[place]);

    const char *wanted = bench.operation;
    int found = 0;
    for (int i = 0; i < bench.size_count; i++) {
        exchange.size = (int) bench.sizes[i];
        for (int j = 0; j < WAYS; j++)
            if (wanted == NULL || strcmp(wanted, ways[j].name) == 0) {
                found = 1;
                measure(&bench, &ways[j], &exchange);
            }
        for (int j = 0; i == 0 && j < CALL_KINDS; j++)
            if (wanted == NULL || strcmp(wanted, "call") == 0) {
                found = 1;
                measure_call(&bench, &calls[j], &exchange);
            }
    }
    if (!found)
        bench_fail(&bench, "no such --operation; known: put_notify, put_notify_created, put_flag, put_flush_send, send, call, those "
                   "with MPIX_Put_notify only where the MPI has it");

    for (int place = ALLOCATED; place < PLACES; place++) {
        MPI_Win_unlock_all(exchange.window[place]);
        MPI_Win_free(&exchange.window[place]);
    }
    free(exchange.outgoing);
    free(exchange.incoming[BUFFER]);
    free(exchange.incoming[CREATED]);
    bench_finalize(&bench);
    return 0;
}
