/* Usage: am [PART...]
 *
 * Active messages, part by part; without PART all but `threads`, which asks for MPI_THREAD_MULTIPLE, and `computing`, which needs a
 * progress thread. Exit status 0 only when all was as it must be. */
#include "expect.h"

#include <pthread.h>

#define LARGEST (4 << 20)

static MPI_Comm comm;           /* a new one for each part */

static unsigned char byte_of(long number, size_t at)
{
    return (unsigned char) (mix((uint64_t) number) + at * 7);
}

static void fill(void *bytes, size_t size, long number)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *) bytes)[i] = byte_of(number, i);
}

static int is_filled(const void *bytes, size_t size, long number)
{
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *) bytes)[i] != byte_of(number, i))
            return 0;
    return 1;
}

static int handler_called(const char *name, MPIX_Am_function *arrived, MPIX_Am_place_function *place, void *state)
{
    int number = -1;
    EXPECT(MPIX_Am_register(name, arrived, place, state, comm, &number) == MPI_SUCCESS, "%s was not registered", name);
    EXPECT(number >= 0, "the number of %s is %d", name, number);
    return number;
}

/* Until a handler has counted so many. */
static void await(const long *count, long enough)
{
    while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < enough)
        if (MPIX_Am_progress(comm) != MPI_SUCCESS) {
            fault("no progress");
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

static void count_up(long *count)
{
    __atomic_store_n(count, *count + 1, __ATOMIC_RELEASE);
}

/* ---- every size, in the order of each source, by views and by places ---- */

typedef struct {
    int number;
    int header_size;
    int64_t size;
    unsigned char rest[MPIX_AM_MAX_HEADER - 16];
} header_t;

static struct {
    int next[128];              /* by source */
    unsigned char *places[128];
    long handled, asked;
    int places_handler;
} heard;

static void check_message(const MPIX_Am_message *message, int placed)
{
    const header_t *header = message->header;
    EXPECT(message->comm == comm, "another communicator");
    EXPECT(((uintptr_t) message->header & 7) == 0, "the header is at %p", message->header);
    EXPECT(message->header_size >= 16 && message->header_size == header->header_size, "a header of %d bytes", message->header_size);
    EXPECT(header->number == heard.next[message->source], "%d of rank %d came when %d was next", header->number, message->source,
           heard.next[message->source]);
    heard.next[message->source]++;
    EXPECT(is_filled(header->rest, (size_t) message->header_size - 16, header->number), "the header of %d is spoilt", header->number);
    EXPECT(message->size == header->size, "%lld bytes instead of %lld", (long long) message->size, (long long) header->size);
    if (message->size == 0)
        EXPECT(message->data == NULL, "no payload at %p", message->data);
    else if (placed)
        EXPECT(message->data == heard.places[message->source], "the payload is not where it belongs");
    else
        EXPECT(((uintptr_t) message->data & 7) == 0, "the payload is at %p", message->data);
    EXPECT(is_filled(message->data, (size_t) message->size, header->number), "the payload of %d, %lld bytes, is spoilt", header->number,
           (long long) message->size);
    count_up(&heard.handled);
}

static void viewed(const MPIX_Am_message *message, void *state)
{
    EXPECT(state == &heard, "another state");
    check_message(message, 0);
}

static void *placing(const MPIX_Am_message *message, void *state)
{
    EXPECT(state == &heard, "another state");
    EXPECT(message->size > 0 && message->data == NULL, "asked for the place of nothing");
    heard.asked++;
    /* One that is asked for while another is on its way from the same rank gets its own. */
    free(heard.places[message->source]);
    return heard.places[message->source] = malloc((size_t) message->size);
}

static void placed(const MPIX_Am_message *message, void *state)
{
    EXPECT(state == &heard, "another state");
    check_message(message, 1);
}

static void send_one(int number, size_t size, int to, int handler, unsigned char *data)
{
    header_t header;
    header.number = number;
    header.header_size = 16 + number % (MPIX_AM_MAX_HEADER - 16 + 1);
    header.size = (int64_t) size;
    fill(header.rest, (size_t) header.header_size - 16, number);
    fill(data, size, number);
    EXPECT(MPIX_Am_send(&header, header.header_size, data, (MPI_Count) size, to, handler, comm) == MPI_SUCCESS, "%zu bytes were not sent",
           size);
    memset(data, 0xee, size);   /* it may be used again */
}

/* The place of each source is used by one message at a time: the next large one for a place follows the answer of a barrier. */
static void sizes(void)
{
    static const size_t around[] = { 0, 1, 8, 80, 100, 1000, 4096, 8192, 16384, 65536, 262144, 1 << 20, LARGEST };
    unsigned char *data = malloc(LARGEST + 1);
    int views = handler_called("views", viewed, NULL, &heard), places = handler_called("places", placed, placing, &heard), number = 0;
    memset(&heard, 0, sizeof heard);
    MPI_Barrier(comm);
    for (size_t i = 0; i < sizeof around / sizeof *around; i++)
        for (int more = -1; more <= 1; more++) {
            size_t size = around[i] + (size_t) more;
            if ((around[i] == 0 && more < 0) || size > LARGEST)
                continue;
            for (int step = 0; step < ranks; step++)
                send_one(number, size, (rank + step) % ranks, number % 2 ? places : views, data);
            await(&heard.handled, (long) ranks * ++number);
            MPI_Barrier(comm);
        }
    EXPECT(MPIX_Am_deregister(views, comm) == MPI_SUCCESS && MPIX_Am_deregister(places, comm) == MPI_SUCCESS, "not deregistered");
    for (int i = 0; i < ranks; i++)
        free(heard.places[i]);
    free(data);
}

/* Small ones do not overtake large ones, nor the other way round, and nobody waits. */
static void order(void)
{
    enum { count = 300 };
    unsigned char *data = malloc(LARGEST);
    int views = handler_called("views", viewed, NULL, &heard);
    memset(&heard, 0, sizeof heard);
    MPI_Barrier(comm);
    for (int number = 0; number < count; number++)
        for (int step = 0; step < ranks; step++) {
            uint64_t random = mix((uint64_t) (number * 1000 + rank));
            size_t size = random % 8 == 0 ? random / 8 % (random % 64 ? 200000 : 1000000) : random / 8 % 200;
            send_one(number, size, (rank + step) % ranks, views, data);
        }
    await(&heard.handled, (long) ranks * count);
    MPI_Barrier(comm);
    free(data);
}

/* ---- replies ---- */

static struct {
    int ask, answer;
    long asked, answered;
    volatile int done;
} talk;

static void asked(const MPIX_Am_message *message, void *state)
{
    talk.asked++;
    /* Small ones and large ones: what cannot leave at once is copied. */
    EXPECT(MPIX_Am_reply(message, talk.answer, message->header, message->header_size, message->data, message->size) == MPI_SUCCESS,
           "no reply");
}

static void answered(const MPIX_Am_message *message, void *state)
{
    long number;
    memcpy(&number, message->header, sizeof number);
    EXPECT(number == talk.answered, "answer %ld came when %ld was next", number, talk.answered);
    EXPECT(is_filled(message->data, (size_t) message->size, number), "answer %ld is spoilt", number);
    count_up(&talk.answered);
    if (number == 99)
        __atomic_store_n(&talk.done, 1, __ATOMIC_RELEASE);
}

static void replies(void)
{
    unsigned char *data = malloc(300000);
    memset(&talk, 0, sizeof talk);
    talk.ask = handler_called("ask", asked, NULL, NULL);
    talk.answer = handler_called("answer", answered, NULL, NULL);
    MPI_Barrier(comm);
    for (long number = 0; number < 100; number++) {
        size_t size = number % 10 == 9 ? 300000 : (size_t) number;
        fill(data, size, number);
        MPIX_Am_send(&number, sizeof number, data, (MPI_Count) size, (rank + 1) % ranks, talk.ask, comm);
    }
    EXPECT(MPIX_Am_wait(&talk.done) == MPI_SUCCESS, "the wait failed");
    EXPECT(talk.answered == 100, "%ld answers", talk.answered);
    EXPECT(MPIX_Am_wait(&talk.done) == MPI_SUCCESS, "the second wait failed");
    MPI_Barrier(comm);
    EXPECT(talk.asked == 100, "asked %ld times", talk.asked);
    free(data);
}

/* ---- requests, flags, oneself, nobody ---- */

static long counted, bytes_counted;
static int inside;
static __thread int sending;    /* of the thread that does */

static void counts(const MPIX_Am_message *message, void *state)
{
    EXPECT(inside++ == 0, "a handler inside a handler");
    EXPECT(!sending, "a handler inside a send to oneself");
    bytes_counted += message->size;
    EXPECT(is_filled(message->data, (size_t) message->size, 5), "a payload is spoilt");
    inside--;
    count_up(&counted);
}

static void completion(void)
{
    enum { each = 5 };
    static const size_t lengths[each] = { 0, 100, 16384, 100000, LARGEST };
    unsigned char *data = malloc(LARGEST);
    MPI_Request requests[each];
    volatile int flags[each];
    int to = (rank + 1) % ranks, handler = handler_called("count", counts, NULL, NULL);
    long expected = 0;
    counted = bytes_counted = 0;
    fill(data, LARGEST, 5);
    MPI_Barrier(comm);
    for (int i = 0; i < each; i++) {
        EXPECT(MPIX_Am_isend(NULL, 0, data, (MPI_Count) lengths[i], to, handler, comm, requests + i) == MPI_SUCCESS, "isend %d", i);
        EXPECT(MPIX_Am_isend_flag(NULL, 0, data, (MPI_Count) lengths[i], to, handler, comm, flags + i) == MPI_SUCCESS, "isend_flag %d", i);
        expected += 2 * (long) lengths[i];
    }
    EXPECT(MPI_Waitall(each, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS, "the requests failed");
    for (int i = 0; i < each; i++) {
        EXPECT(MPIX_Am_wait(flags + i) == MPI_SUCCESS, "the wait for flag %d failed", i);
        EXPECT(flags[i] == 1, "flag %d is %d", i, flags[i]);
    }
    await(&counted, 2 * each);
    EXPECT(bytes_counted == expected, "%ld bytes instead of %ld", bytes_counted, expected);
    /* To oneself: not inside the call. */
    counted = 0;
    sending = 1;
    EXPECT(MPIX_Am_send(NULL, 0, data, 100, rank, handler, comm) == MPI_SUCCESS, "to myself");
    EXPECT(MPIX_Am_isend(NULL, 0, data, LARGEST, rank, handler, comm, requests) == MPI_SUCCESS, "to myself");
    sending = 0;
    EXPECT(MPI_Wait(requests, MPI_STATUS_IGNORE) == MPI_SUCCESS, "the request failed");
    await(&counted, 2);
    /* To nobody. */
    EXPECT(MPIX_Am_send(NULL, 0, data, 100, MPI_PROC_NULL, handler, comm) == MPI_SUCCESS, "to nobody");
    MPI_Barrier(comm);
    EXPECT(counted == 2, "%ld messages came", counted);
    MPI_Barrier(comm);
    free(data);
}

/* ---- multicasts ---- */

static void multicast(void)
{
    enum { rounds = 40 };
    int words = MPIX_BITMAP_WORDS(ranks), handler = handler_called("views", viewed, NULL, &heard);
    unsigned char *data = malloc(LARGEST);
    MPIX_Bitmap members[2] = { 0, 0 };
    memset(&heard, 0, sizeof heard);
    EXPECT(words <= 2, "too many ranks for this test");
    for (int member = 0; member < ranks; member++)
        if (member % 3 != 1)
            MPIX_Bitmap_set(members, member);
    MPI_Barrier(comm);
    for (int number = 0; number < rounds; number++) {
        header_t header;
        size_t size = number % 10 == 0 ? LARGEST / 4 : (size_t) number * 37;
        header.number = number;
        header.header_size = 16;
        header.size = (int64_t) size;
        fill(data, size, number);
        EXPECT(MPIX_Am_mcast(&header, 16, data, (MPI_Count) size, members, handler, comm) == MPI_SUCCESS, "multicast %d", number);
        memset(data, 0xee, size);
    }
    await(&heard.handled, MPIX_Bitmap_test(members, rank) ? (long) ranks * rounds : 0);
    MPI_Barrier(comm);
    EXPECT(heard.handled == (MPIX_Bitmap_test(members, rank) ? (long) ranks * rounds : 0), "%ld came", heard.handled);
    free(data);
}

/* ---- what comes before its handler or its communicator ---- */

static void late(void)
{
    unsigned char *data = malloc(100000);
    int handler, other;
    long token = 0;
    MPI_Comm outer = comm;
    counted = bytes_counted = 0;
    fill(data, 100000, 5);
    other = handler_called("other", counts, NULL, NULL);
    MPI_Barrier(comm);
    /* The number of a name is the same everywhere: rank 0 is told it by registering, others register when all has come. */
    if (rank == 0) {
        handler = handler_called("late", counts, NULL, NULL);
        for (int to = 1; to < ranks; to++) {
            MPIX_Am_send(NULL, 0, data, 10, to, handler, comm);
            MPIX_Am_send(NULL, 0, data, 100000, to, handler, comm);
            MPIX_Am_send(NULL, 0, data, 1, to, other, comm);
        }
    } else {
        await(&counted, 1);
        EXPECT(bytes_counted == 1, "the message of another name had to wait");
        handler = handler_called("late", counts, NULL, NULL);
        EXPECT(counted == 3 && bytes_counted == 100011, "%ld messages, %ld bytes", counted, bytes_counted);
    }
    MPI_Barrier(comm);
    /* A communicator that rank 0 has earlier than others. */
    counted = bytes_counted = 0;
    MPI_Comm_dup(outer, &comm);
    if (rank == 0) {
        handler = handler_called("late", counts, NULL, NULL);
        for (int to = 1; to < ranks; to++)
            MPIX_Am_send(NULL, 0, data, 10, to, handler, comm);
    } else {
        handler = handler_called("late", counts, NULL, NULL);
        await(&counted, 1);
    }
    MPI_Allreduce(MPI_IN_PLACE, &token, 1, MPI_LONG, MPI_SUM, comm);
    MPI_Comm_free(&comm);
    comm = outer;
    free(data);
}

/* Communicators come and go; what is sent over one is handled there, or is gone with it. */
static void freed(void)
{
    MPI_Comm outer = comm;
    unsigned char data[1000];
    fill(data, sizeof data, 5);
    for (int round = 0; round < 50; round++) {
        int handler, nobody;
        counted = 0;
        MPI_Comm_dup(outer, &comm);
        handler = handler_called("count", counts, NULL, NULL);
        nobody = handler_called("nobody", counts, NULL, NULL);
        EXPECT(MPIX_Am_deregister(nobody, comm) == MPI_SUCCESS, "not deregistered");
        MPI_Barrier(comm);
        MPIX_Am_send(NULL, 0, data, round, (rank + 1) % ranks, handler, comm);
        /* Nobody will ever handle these. */
        MPIX_Am_send(NULL, 0, data, sizeof data, (rank + 1) % ranks, nobody, comm);
        MPIX_Am_send(NULL, 0, data, sizeof data, rank, nobody, comm);
        await(&counted, 1);
        MPI_Comm_free(&comm);
    }
    comm = outer;
    MPI_Barrier(comm);
}

/* ---- what is wrong ---- */

static int inside_errors[4];
static volatile int inside_done;

static void calls_what_it_must_not(const MPIX_Am_message *message, void *state)
{
    int number;
    volatile int flag = 0;
    inside_errors[0] = MPIX_Am_register("inside", counts, NULL, NULL, comm, &number);
    inside_errors[1] = MPIX_Am_deregister(message->handler, comm);
    inside_errors[2] = MPIX_Am_progress(comm);
    inside_errors[3] = MPIX_Am_wait(&flag);
    inside_done = 1;
}

static void mistakes(void)
{
    char name[MPIX_AM_MAX_NAME + 1], header[MPIX_AM_MAX_HEADER + 1] = "";
    int number = -1, other = -1;
    MPIX_Bitmap members[2] = { 0, 0 };
    MPIX_Am_message message = { 0 };
    MPI_Request request;
    volatile int flag = 1;
    long before;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    memset(name, 'n', sizeof name);
    name[MPIX_AM_MAX_NAME] = 0;
    expect_class(MPIX_Am_register(name, counts, NULL, NULL, comm, &number), MPI_ERR_ARG, "a long name");
    name[MPIX_AM_MAX_NAME - 1] = 0;
    expect_class(MPIX_Am_register(name, counts, NULL, NULL, comm, &number), MPI_SUCCESS, "a name that is just short enough");
    expect_class(MPIX_Am_register("", counts, NULL, NULL, comm, &other), MPI_ERR_ARG, "an empty name");
    expect_class(MPIX_Am_register(NULL, counts, NULL, NULL, comm, &other), MPI_ERR_ARG, "no name");
    expect_class(MPIX_Am_register("null", NULL, NULL, NULL, comm, &other), MPI_ERR_ARG, "no function");
    expect_class(MPIX_Am_register(name, counts, NULL, NULL, comm, &other), MPI_ERR_ARG, "a name for the second time");
    expect_class(MPIX_Am_register("null", counts, NULL, NULL, MPI_COMM_NULL, &other), MPI_ERR_COMM, "no communicator");
    expect_class(MPIX_Am_deregister(number ^ 1, comm), MPI_ERR_ARG, "a number that is none");
    expect_class(MPIX_Am_deregister(-1, comm), MPI_ERR_ARG, "a negative number");
    MPI_Barrier(comm);
    before = counted;
    expect_class(MPIX_Am_send(header, 1, NULL, 0, ranks, number, comm), MPI_ERR_RANK, "a rank that is none");
    expect_class(MPIX_Am_send(header, 1, NULL, 0, -77, number, comm), MPI_ERR_RANK, "a negative rank");
    expect_class(MPIX_Am_send(header, 1, NULL, 0, 0, -1, comm), MPI_ERR_ARG, "a handler that is none");
    expect_class(MPIX_Am_send(header, sizeof header, NULL, 0, 0, number, comm), MPI_ERR_ARG, "a long header");
    expect_class(MPIX_Am_send(header, -1, NULL, 0, 0, number, comm), MPI_ERR_ARG, "a negative header");
    expect_class(MPIX_Am_send(NULL, 1, NULL, 0, 0, number, comm), MPI_ERR_ARG, "no header");
    expect_class(MPIX_Am_send(header, 1, NULL, 1, 0, number, comm), MPI_ERR_ARG, "no payload");
    expect_class(MPIX_Am_send(header, 1, header, -1, 0, number, comm), MPI_ERR_COUNT, "a negative size");
    expect_class(MPIX_Am_send(header, 1, NULL, 0, 0, number, MPI_COMM_NULL), MPI_ERR_COMM, "no communicator");
    expect_class(MPIX_Am_isend(header, 1, NULL, 0, ranks, number, comm, &request), MPI_ERR_RANK, "isend to a rank that is none");
    expect_class(MPIX_Am_isend_flag(header, 1, NULL, 0, ranks, number, comm, &flag), MPI_ERR_RANK, "isend_flag to a rank that is none");
    expect_class(MPIX_Am_isend_flag(header, 1, NULL, 0, 0, number, comm, NULL), MPI_ERR_ARG, "no flag");
    expect_class(MPIX_Am_reply(NULL, number, header, 1, NULL, 0), MPI_ERR_ARG, "a reply to nothing");
    expect_class(MPIX_Am_reply(&message, -1, header, 1, NULL, 0), MPI_ERR_ARG, "a reply to no handler");
    expect_class(MPIX_Am_wait(NULL), MPI_ERR_ARG, "a wait for nothing");
    expect_class(MPIX_Am_mcast(header, 1, NULL, 0, NULL, number, comm), MPI_ERR_ARG, "no members");
    MPIX_Bitmap_set(members, ranks);
    if (ranks % 64)
        expect_class(MPIX_Am_mcast(header, 1, NULL, 0, members, number, comm), MPI_ERR_RANK, "a member that is none");
    other = handler_called("inside", calls_what_it_must_not, NULL, NULL);
    MPIX_Am_send(NULL, 0, NULL, 0, rank, other, comm);
    MPIX_Am_wait(&inside_done);
    for (int i = 0; i < 4; i++)
        expect_class(inside_errors[i], MPI_ERR_OTHER, "a call inside a handler");
    MPI_Barrier(comm);
    EXPECT(counted == before, "something wrong was sent");
}

/* ---- threads ---- */

enum { threads_each = 4, sends_each = 2000 };
static struct {
    int next[64][threads_each]; /* by source and thread */
    long handled;
    int active;
} threaded;

/* Numbers of a thread are in order at each receiver, which gets every ranks-th of them. */
static void of_thread(const MPIX_Am_message *message, void *state)
{
    const int *words = message->header;
    int *next = &threaded.next[message->source][words[0]];
    EXPECT(__atomic_fetch_add(&threaded.active, 1, __ATOMIC_ACQ_REL) == 0, "two handlers at a time");
    EXPECT(words[1] >= *next && words[1] < *next + ranks && (message->source + words[1]) % ranks == rank,
           "%d of thread %d of rank %d came when %d was next", words[1], words[0], message->source, *next);
    *next = words[1] + 1;
    EXPECT(is_filled(message->data, (size_t) message->size, 5), "a payload is spoilt");
    __atomic_fetch_sub(&threaded.active, 1, __ATOMIC_ACQ_REL);
    count_up(&threaded.handled);
}

static int thread_handler;

static void *send_from_thread(void *argument)
{
    int words[2] = { (int) (intptr_t) argument, 0 };
    unsigned char *data = malloc(50000);
    fill(data, 50000, 5);
    for (; words[1] < sends_each; words[1]++) {
        size_t size = words[1] % 50 == 0 ? 50000 : (size_t) words[1] % 300;
        EXPECT(MPIX_Am_send(words, sizeof words, data, (MPI_Count) size, (rank + words[1]) % ranks, thread_handler, comm) == MPI_SUCCESS,
               "not sent");
    }
    free(data);
    return NULL;
}

static void threads(void)
{
    pthread_t all[threads_each];
    long expected = 0;
    memset(&threaded, 0, sizeof threaded);
    for (int source = 0; source < ranks; source++)
        for (int number = 0; number < sends_each; number++)
            expected += (source + number) % ranks == rank;
    thread_handler = handler_called("thread", of_thread, NULL, NULL);
    MPI_Barrier(comm);
    for (intptr_t i = 0; i < threads_each; i++)
        pthread_create(all + i, NULL, send_from_thread, (void *) i);
    await(&threaded.handled, expected * threads_each);
    for (int i = 0; i < threads_each; i++)
        pthread_join(all[i], NULL);
    MPI_Barrier(comm);
}

/* Rank 0 asks and the others compute: the progress thread answers. */
static volatile int stop;

static void stops(const MPIX_Am_message *message, void *state)
{
    stop = 1;
}

static void computing(void)
{
    memset(&talk, 0, sizeof talk);
    stop = 0;
    talk.ask = handler_called("ask", asked, NULL, NULL);
    talk.answer = handler_called("answer", answered, NULL, NULL);
    thread_handler = handler_called("stop", stops, NULL, NULL);
    MPI_Barrier(comm);
    if (rank == 0) {
        for (long number = 0; number < 100; number++)
            MPIX_Am_send(&number, sizeof number, NULL, 0, ranks - 1, talk.ask, comm);
        MPIX_Am_wait(&talk.done);
        for (int to = 0; to < ranks; to++)
            MPIX_Am_send(NULL, 0, NULL, 0, to, thread_handler, comm);
        MPIX_Am_wait(&stop);
    } else {
        while (!load(&stop))
            continue;
    }
    MPI_Barrier(comm);
}

/* Every part has a communicator of its own. */
#define PART(name) static void name##_apart(void) { MPI_Comm_dup(MPI_COMM_WORLD, &comm); name(); MPI_Comm_free(&comm); }
PART(sizes) PART(order) PART(replies) PART(completion) PART(multicast) PART(late) PART(freed) PART(mistakes) PART(threads) PART(computing)

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        { "sizes", sizes_apart, 1, 0 }, { "order", order_apart, 1, 0 }, { "replies", replies_apart, 1, 0 },
        { "completion", completion_apart, 1, 0 }, { "multicast", multicast_apart, 1, 0 }, { "late", late_apart, 2, 0 },
        { "freed", freed_apart, 1, 0 }, { "mistakes", mistakes_apart, 1, 0 }, { "threads", threads_apart, 1, 1 },
        { "computing", computing_apart, 2, 1 },
    };
    int provided, result;
    MPI_Init_thread(&argc, &argv, is_named("threads", argc, argv) ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    result = run_parts(parts, sizeof parts / sizeof *parts, argc, argv);
    MPI_Finalize();
    return result;
}
