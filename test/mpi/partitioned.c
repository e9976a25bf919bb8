/* Usage: partitioned [PART...] [--seed N] [--steps N]
 * Partitioned communication: drawn from a seed against what is expected, and each promise by itself. Ranks send to their right neighbours, so that
 * one rank sends to itself. The same program is the child of `spawned`. */
#include "expect.h"
#include <pthread.h>

enum { tag = 5, most_partitions = 96, longest = 1 << 22 };

static const char *program;
static long seed = 1, steps = 60;
static int right, left, provided;

static unsigned drawn(uint64_t *state, unsigned limit)
{
    *state = mix(*state);
    return (unsigned) (*state >> 33) % limit;
}

static unsigned char byte_of(int from, int round, size_t i)
{
    return (unsigned char) (mix(i / 8) + i + (unsigned) from * 31 + (unsigned) round * 57);
}

/* ---- drawn from a seed ---- */

/* How `elements` bytes lie in memory: in one piece, with gaps, or in pairs that are the wrong way round. */
enum { plain, gaps, pairs, layouts };

static MPI_Datatype datatype_of(int layout, int bytes)
{
    MPI_Datatype type, vector;
    int lengths[2], displacements[2];
    switch (layout) {
        case plain:
            MPI_Type_contiguous(bytes, MPI_BYTE, &type);
            break;
        case gaps:
            MPI_Type_vector(bytes, 1, 2, MPI_BYTE, &vector);
            MPI_Type_create_resized(vector, 0, 2 * bytes, &type);
            MPI_Type_free(&vector);
            break;
        default:
            lengths[0] = bytes / 2, lengths[1] = bytes - bytes / 2;
            displacements[0] = bytes - bytes / 2 + 3, displacements[1] = 1;
            MPI_Type_indexed(2, lengths, displacements, MPI_BYTE, &vector);
            MPI_Type_create_resized(vector, 0, bytes + 5, &type);
            MPI_Type_free(&vector);
    }
    MPI_Type_commit(&type);
    return type;
}

static size_t room_of(int layout, int bytes)
{
    return layout == plain ? bytes : layout == gaps ? 2 * bytes : bytes + 5;
}

/* Where byte `i` of the data lies. */
static size_t place_of(int layout, int bytes, size_t i)
{
    size_t type = i / bytes * room_of(layout, bytes), within = i % bytes;
    if (layout == plain)
        return i;
    if (layout == gaps)
        return type + 2 * within;
    return type + (within < (size_t) bytes / 2 ? bytes - bytes / 2 + 3 + within : 1 + within - bytes / 2);
}

/* One side: so many partitions of so many types of so many bytes. */
struct side {
    int partitions, count, layout, bytes;
    unsigned char *memory;
    MPI_Datatype type;
};

static void make_side(struct side *side, size_t total, uint64_t *state)
{
    side->layout = drawn(state, layouts);
    side->bytes = 1 << drawn(state, 6);
    do
        side->partitions = 1 + drawn(state, most_partitions);
    while (total % ((size_t) side->partitions * side->bytes) != 0);
    side->count = (int) (total / side->partitions / side->bytes);
    side->memory = malloc(total / side->bytes * room_of(side->layout, side->bytes) + 1);
    side->type = datatype_of(side->layout, side->bytes);
}

static void end_side(struct side *side)
{
    MPI_Type_free(&side->type);
    free(side->memory);
}

/* In an order, and by calls, that are drawn. Every receive partition that is said to have arrived is looked at. */
static void make_ready(const struct side *out, MPI_Request send, uint64_t *state)
{
    int order[most_partitions], n = out->partitions;
    for (int i = 0; i < n; i++)
        order[i] = i;
    if (drawn(state, 3) != 0)
        for (int i = n - 1; i > 0; i--) {
            int j = drawn(state, i + 1), it = order[i];
            order[i] = order[j], order[j] = it;
        }
    for (int at = 0, some; at < n; at += some) {
        some = 1 + drawn(state, 4) * drawn(state, 4);
        some = some > n - at ? n - at : some;
        int neighbours = 1;
        while (neighbours < some && order[at + neighbours] == order[at] + neighbours)
            neighbours++;
        if (neighbours == some && drawn(state, 2))
            MPI_Pready_range(order[at], order[at] + some - 1, send);
        else if (drawn(state, 2))
            MPI_Pready_list(some, order + at, send);
        else
            for (int i = 0; i < some; i++)
                MPI_Pready(order[at + i], send);
    }
}

static void check_partition(const struct side *in, int partition, int round)
{
    size_t each = (size_t) in->count * in->bytes, wrong_ones = 0;
    for (size_t i = partition * each; i < (partition + 1) * each; i++)
        wrong_ones += in->memory[place_of(in->layout, in->bytes, i)] != byte_of(left, round, i);
    EXPECT(wrong_ones == 0, "round %d, partition %d of %d times %d times %d bytes, layout %d: %zu bytes are wrong", round, partition,
           in->partitions, in->count, in->bytes, in->layout, wrong_ones);
}

static void one_round(const struct side *out, const struct side *in, size_t total, MPI_Request *requests, int round, uint64_t *state)
{
    enum { first, second, last } receive_starts = drawn(state, 3);
    int flag, count, look = drawn(state, 3);
    uint64_t own = *state + (uint64_t) rank;
    MPI_Status statuses[2];
    for (size_t i = 0; i < total; i++)
        out->memory[place_of(out->layout, out->bytes, i)] = byte_of(rank, round, i);
    memset(in->memory, 0xee, total / in->bytes * room_of(in->layout, in->bytes));
    if (receive_starts == first)
        MPI_Start(&requests[1]);
    if (drawn(state, 2))
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Start(&requests[0]);
    if (receive_starts == second)
        MPI_Start(&requests[1]);
    make_ready(out, requests[0], &own);
    if (receive_starts == last)
        MPI_Start(&requests[1]);
    if (look)
        for (int i = 0; i < in->partitions; i++) {
            int partition = look == 1 ? i : in->partitions - 1 - i;
            for (flag = 0; !flag;)
                MPI_Parrived(requests[1], partition, &flag);
            check_partition(in, partition, round);
        }
    MPI_Waitall(2, requests, statuses);
    for (int i = 0; i < in->partitions; i++)
        check_partition(in, i, round);
    MPI_Get_count(&statuses[1], MPI_BYTE, &count);
    EXPECT(count == (int) total && statuses[1].MPI_SOURCE == left && statuses[1].MPI_TAG == tag, "%d bytes of %zu, source %d, tag %d", count, total,
           statuses[1].MPI_SOURCE, statuses[1].MPI_TAG);
}

/* All ranks draw the same, but for the order in which partitions become ready. */
static void random_ones(void)
{
    /* With many divisors. */
    static const size_t totals[] = { 96 * 32, 60 * 32 * 16, 96 * 32 * 64, 60 * 32 * 512, 72 * 32 * 1024 };
    uint64_t state = (uint64_t) seed;
    for (int step = 0; step < steps; step++) {
        struct side out, in;
        MPI_Request requests[2];
        size_t total = totals[drawn(&state, step % 8 == 0 ? 5 : 4)];
        make_side(&out, total, &state);
        make_side(&in, total, &state);
        if (drawn(&state, 2)) {
            MPI_Precv_init(in.memory, in.partitions, in.count, in.type, left, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
            MPI_Psend_init(out.memory, out.partitions, out.count, out.type, right, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        } else {
            MPI_Psend_init(out.memory, out.partitions, out.count, out.type, right, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
            if (drawn(&state, 2))
                MPI_Barrier(MPI_COMM_WORLD);
            MPI_Precv_init(in.memory, in.partitions, in.count, in.type, left, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
        }
        for (int round = 0, rounds = 1 + drawn(&state, 5); round < rounds; round++) {
            one_round(&out, &in, total, requests, round, &state);
        }
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
        end_side(&out);
        end_side(&in);
    }
}

/* ---- promises ---- */

static char *out, *in;

static void fill(size_t size, int round)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (char) byte_of(rank, round, i);
    memset(in, 0, size);
}

static void check(size_t first, size_t end, int round)
{
    size_t wrong_ones = 0;
    for (size_t i = first; i < end; i++)
        wrong_ones += in[i] != (char) byte_of(left, round, i);
    EXPECT(wrong_ones == 0, "round %d: %zu of bytes %zu to %zu are wrong", round, wrong_ones, first, end);
}

static void init_both(int sends, int receives, int total, MPI_Request *requests)
{
    MPI_Psend_init(out, sends, total / sends, MPI_CHAR, right, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, receives, total / receives, MPI_CHAR, left, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
}

static void free_both(MPI_Request *requests)
{
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* A partition arrives before others are ready, and those do not; what is in two partitions of the sender arrives with the second. Nobody makes
 * ready what comes next before all have seen it. */
static void early(void)
{
    static const int totals[] = { 48, 4800, 48 << 10, 3 << 20 };
    for (int i = 0; i < 4; i++)
        for (int finer = 0; finer < 3; finer++) {
            const int sends = finer == 1 ? 4 : 8, receives = finer == 2 ? 4 : 8, total = totals[i], order[] = { 5, 4, 0, 7, 1, 6, 3, 2 };
            MPI_Request requests[2];
            init_both(sends, receives, total, requests);
            for (int round = 0; round < 3; round++) {
                char there[8] = { 0 };
                int flag;
                fill(total, round);
                MPI_Startall(2, requests);
                for (int at = 0; at < 8; at++) {
                    if (order[at] >= sends)
                        continue;
                    MPI_Pready(order[at], requests[0]);
                    for (int eighth = order[at] * 8 / sends; eighth < (order[at] + 1) * 8 / sends; eighth++)
                        there[eighth] = 1;
                    for (int partition = 0; partition < receives; partition++) {
                        int whole = 1;
                        for (int eighth = partition * 8 / receives; eighth < (partition + 1) * 8 / receives; eighth++)
                            whole &= there[eighth];
                        do
                            MPI_Parrived(requests[1], partition, &flag);
                        while (whole && !flag);
                        EXPECT(flag == whole, "partition %d of %d has arrived before it was ready", partition, receives);
                        if (whole)
                            check((size_t) partition * total / receives, (size_t) (partition + 1) * total / receives, round);
                    }
                    MPI_Barrier(MPI_COMM_WORLD);
                }
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
                check(0, total, round);
            }
            free_both(requests);
        }
}

/* Of one tag: matched in the order in which they were made, started in another. A pair that is freed unused takes its turn. */
static void same_tag(void)
{
    enum { n = 40, each = 100 };
    MPI_Request sends[n], receives[n];
    for (int late = 0; late < 3; late++) {
        fill(n * each, late);
        for (int i = 0; i < n && late != 1; i++)
            MPI_Precv_init(in + i * each, 2, each / 2, MPI_CHAR, left, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[i]);
        if (late == 2) {
            for (int i = 3; i < n; i += 5)
                MPI_Request_free(&receives[i]);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        for (int i = 0; i < n; i++) {
            MPI_Psend_init(out + i * each, 4, each / 4, MPI_CHAR, right, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]);
            if (i % 5 == 3)
                MPI_Request_free(&sends[i]);
        }
        if (late == 1) {
            MPI_Barrier(MPI_COMM_WORLD);
            for (int i = 0; i < n; i++)
                MPI_Precv_init(in + i * each, 2, each / 2, MPI_CHAR, left, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[i]);
        }
        for (int i = 3; i < n && late != 2; i += 5)
            MPI_Request_free(&receives[i]);
        for (int round = 0; round < 3; round++) {
            fill(n * each, round);
            for (int i = n - 1; i >= 0; i--)
                if (i % 5 != 3) {
                    MPI_Start(&sends[i]);
                    MPI_Pready_range(0, 3, sends[i]);
                }
            for (int i = 0; i < n; i++)
                if (i % 5 != 3)
                    MPI_Start(&receives[i]);
            MPI_Waitall(n, sends, MPI_STATUSES_IGNORE);
            MPI_Waitall(n, receives, MPI_STATUSES_IGNORE);
            for (int i = 0; i < n; i++)
                if (i % 5 != 3)
                    check(i * each, (i + 1) * each, round);
        }
        for (int i = 0; i < n; i++)
            if (i % 5 != 3) {
                MPI_Request_free(&sends[i]);
                MPI_Request_free(&receives[i]);
            }
    }
}

/* Partitions of nothing, also without a buffer: the receive ends when all of them are ready, and no sooner. */
static void empty(void)
{
    for (int none = 0; none < 2; none++) {
        MPI_Request requests[2];
        MPI_Psend_init(none ? NULL : out, 4, 0, MPI_INT, right, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        MPI_Precv_init(none ? NULL : in, none ? 0 : 3, 0, MPI_INT, left, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
        for (int round = 0; round < 3; round++) {
            int flag, count;
            MPI_Status status;
            MPI_Startall(2, requests);
            /* What they tell each other is there, and what might leave now has left. */
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
            MPI_Pready_range(1, 3, requests[0]);
            MPI_Barrier(MPI_COMM_WORLD);
            for (int look = 0; look < 100; look++) {
                MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
                EXPECT(!flag, "nothing was received before it was sent");
                MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
                EXPECT(!flag, "a send of partitions that are not ready is complete");
            }
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Pready(0, requests[0]);
            MPI_Wait(&requests[1], &status);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            MPI_Get_count(&status, MPI_INT, &count);
            EXPECT(count == 0 && status.MPI_SOURCE == left, "%d ints of rank %d", count, status.MPI_SOURCE);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        free_both(requests);
    }
}

static void expect_other_sizes(MPI_Request *request, int sent, int received)
{
    char text[MPI_MAX_ERROR_STRING], expected[100];
    int length, error = MPI_Wait(request, MPI_STATUS_IGNORE);
    expect_class(error, MPI_ERR_OTHER, "MPI_Wait");
    MPI_Error_string(error, text, &length);
    snprintf(expected, sizeof expected, "MPI_Psend_init have %d bytes in all, those of MPI_Precv_init %d", sent, received);
    EXPECT(strstr(text, expected), "no \"%s\" in: %s", expected, text);
}

/* More than there is room for: an error for both, each time, after which all goes on. `apart`: the rounds of the receives are over before those of the sends begin. */
static void of_other_sizes(int sent, int received, int apart)
{
    MPI_Request requests[2];
    MPI_Psend_init(out, 1, sent, MPI_CHAR, right, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 1, received, MPI_CHAR, left, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    fill(longest / 8, 1);
    for (int round = 0; round < 3; round++) {
        if (!apart) {
            MPI_Start(&requests[0]);
            MPI_Pready(0, requests[0]);
        }
        MPI_Start(&requests[1]);
        expect_other_sizes(&requests[1], sent, received);
        if (!apart)
            expect_other_sizes(&requests[0], sent, received);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < 3 && apart; round++) {
        MPI_Start(&requests[0]);
        MPI_Pready(0, requests[0]);
        expect_other_sizes(&requests[0], sent, received);
    }
    for (int at = 0; at < longest / 8; at++)
        EXPECT(in[at] == 0, "byte %d was written", at);
    free_both(requests);
}

/* Less than there is room for arrives, with an error of the receiver, as with MPICH. */
static void less(int sent, int received)
{
    MPI_Datatype gap;
    MPI_Type_create_resized(MPI_CHAR, 0, 2, &gap);
    MPI_Type_commit(&gap);
    for (int apart = 1; apart < 3; apart++) {
        MPI_Request requests[2];
        MPI_Psend_init(out, 1, sent, MPI_CHAR, right, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        MPI_Precv_init(in, 5, received / 5, apart == 1 ? MPI_CHAR : gap, left, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
        for (int round = 0; round < 3; round++) {
            int wrong_ones = 0;
            fill(2 * received, round);
            MPI_Startall(2, requests);
            MPI_Pready(0, requests[0]);
            expect_other_sizes(&requests[1], sent, received);
            EXPECT(MPI_Wait(&requests[0], MPI_STATUS_IGNORE) == MPI_SUCCESS, "the send fails");
            for (int i = 0; i < received; i++)
                wrong_ones += in[i * apart] != (i < sent ? (char) byte_of(left, round, i) : 0) || (apart == 2 && in[2 * i + 1] != 0);
            EXPECT(wrong_ones == 0, "%d of %d bytes are wrong", wrong_ones, sent);
        }
        free_both(requests);
    }
    MPI_Type_free(&gap);
}

static void other_sizes(void)
{
    static const int sizes[][2] = { { 100, 99 }, { 1, 0 }, { 200000, 100 } };
    less(99, 100);
    less(0, 5);
    less(100000, 300000);
    for (int i = 0; i < 6; i++) {
        MPI_Request requests[2];
        of_other_sizes(sizes[i / 2][0], sizes[i / 2][1], i % 2);
        init_both(2, 1, 100, requests);
        fill(100, 7);
        MPI_Startall(2, requests);
        MPI_Pready_range(0, 1, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        check(0, 100, 7);
        free_both(requests);
    }
}

/* What is not allowed is an error, and nothing else happens. */
static void refused(void)
{
    MPI_Request requests[2], other;
    int flag;
    EXPECT(MPI_Precv_init(in, 1, 1, MPI_CHAR, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &other) != MPI_SUCCESS, "any source");
    EXPECT(MPI_Precv_init(in, 1, 1, MPI_CHAR, left, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &other) != MPI_SUCCESS, "any tag");
    init_both(2, 2, 1000, requests);
    fill(1000, 1);
    MPI_Startall(2, requests);
    EXPECT(MPI_Start(&requests[0]) != MPI_SUCCESS && MPI_Start(&requests[1]) != MPI_SUCCESS, "MPI_Start of one that is active");
    EXPECT(MPI_Cancel(&requests[0]) != MPI_SUCCESS && MPI_Cancel(&requests[1]) != MPI_SUCCESS, "MPI_Cancel");
    MPI_Pready(1, requests[0]);
    EXPECT(MPI_Pready(1, requests[0]) != MPI_SUCCESS, "MPI_Pready twice");
    MPI_Parrived(requests[1], 0, &flag);
    EXPECT(!flag, "partition 0 has arrived before it was ready");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pready(0, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check(0, 1000, 1);
    free_both(requests);
}

/* Many at once between two ranks, small and long, with other messages in between. */
static void together(void)
{
    enum { n = 30 };
    MPI_Request requests[2 * n], others[2];
    const int each = longest / n / 32 * 32;
    int word = rank, got = -1;
    for (int i = 0; i < n; i++) {
        const int bytes = i % 3 == 0 ? each : i % 3 == 1 ? 32 : 32 << 9;
        MPI_Psend_init(out + i * each, 32, bytes / 32, MPI_CHAR, right, i % 7, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
    }
    for (int i = 0; i < n; i++) {
        const int bytes = i % 3 == 0 ? each : i % 3 == 1 ? 32 : 32 << 9;
        MPI_Precv_init(in + i * each, 8, bytes / 8, MPI_CHAR, left, i % 7, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[n + i]);
    }
    for (int round = 0; round < 4; round++) {
        fill(longest, round);
        MPI_Startall(2 * n, requests);
        for (int partition = 0; partition < 32; partition++) {
            for (int i = 0; i < n; i++)
                MPI_Pready(partition % 2 ? 32 - partition : partition, requests[i]);
            MPI_Irecv(&got, 1, MPI_INT, left, 3, MPI_COMM_WORLD, &others[0]);
            MPI_Isend(&word, 1, MPI_INT, right, 3, MPI_COMM_WORLD, &others[1]);
            MPI_Waitall(2, others, MPI_STATUSES_IGNORE);
            EXPECT(got == left, "an ordinary message says %d, not %d", got, left);
        }
        MPI_Waitall(2 * n, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n; i++)
            check((size_t) i * each, (size_t) i * each + (i % 3 == 0 ? each : i % 3 == 1 ? 32 : 32 << 9), round);
    }
    for (int i = 0; i < 2 * n; i++)
        MPI_Request_free(&requests[i]);
}

/* ---- threads ---- */

enum { threads_of_each = 3, partitions_of_threads = 96 };

static pthread_barrier_t at_once;

struct thread {
    pthread_t thread;
    int number;
    MPI_Request *requests;
    int round, total;
};

static void *thread_sends(void *argument)
{
    struct thread *thread = argument;
    pthread_barrier_wait(&at_once);
    for (int i = thread->number; i < partitions_of_threads; i += threads_of_each)
        MPI_Pready(i, thread->requests[0]);
    return NULL;
}

static void *thread_receives(void *argument)
{
    struct thread *thread = argument;
    const int receives = partitions_of_threads / 2;
    pthread_barrier_wait(&at_once);
    for (int i = thread->number; i < receives; i += threads_of_each) {
        int flag = 0;
        while (!flag)
            MPI_Parrived(thread->requests[1], i, &flag);
        check((size_t) i * thread->total / receives, (size_t) (i + 1) * thread->total / receives, thread->round);
    }
    return NULL;
}

static void threads(void)
{
    static const int sizes[] = { 2, 600, 40000 };
    EXPECT(provided == MPI_THREAD_MULTIPLE, "threads may not call");
    pthread_barrier_init(&at_once, NULL, 2 * threads_of_each);
    for (int i = 0; i < 3 && provided == MPI_THREAD_MULTIPLE; i++) {
        const int total = partitions_of_threads * sizes[i];
        MPI_Request requests[2];
        init_both(partitions_of_threads, partitions_of_threads / 2, total, requests);
        for (int round = 0; round < (i == 0 ? 200 : 10); round++) {
            struct thread all[2 * threads_of_each];
            fill(total, round);
            MPI_Startall(2, requests);
            for (int t = 0; t < 2 * threads_of_each; t++) {
                all[t] = (struct thread) { .number = t / 2, .requests = requests, .round = round, .total = total };
                pthread_create(&all[t].thread, NULL, t % 2 ? thread_sends : thread_receives, &all[t]);
            }
            for (int t = 0; t < 2 * threads_of_each; t++)
                pthread_join(all[t].thread, NULL);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            check(0, total, round);
        }
        free_both(requests);
    }
}

/* ---- intercommunicators ---- */

/* So that what comes next has one number here and another one there. */
static MPI_Comm some_copies[5];

static void copy_some(MPI_Comm comm)
{
    for (int i = 0; i < 5; i++)
        MPI_Comm_dup(comm, &some_copies[i]);
}

static void free_copies(void)
{
    for (int i = 0; i < 5; i++)
        MPI_Comm_free(&some_copies[i]);
}

/* Both ways between ranks of the same number; `others` has as many as we are. */
static void talk_to(MPI_Comm others, int mine)
{
    MPI_Request requests[2];
    const int total = 60000;
    left = mine;
    MPI_Psend_init(out, 6, total / 6, MPI_CHAR, mine, tag, others, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 4, total / 4, MPI_CHAR, mine, tag, others, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < total; i++)
            out[i] = (char) byte_of(mine, round, i);
        memset(in, 0, total);
        MPI_Startall(2, requests);
        for (int i = 5; i >= 0; i--)
            MPI_Pready(i, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        check(0, total, round);
    }
    free_both(requests);
    left = (rank + ranks - 1) % ranks;
}

static void halves(void)
{
    const int half = ranks / 2, upper = rank >= half;
    MPI_Comm own, others;
    int size;
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 * half ? upper : MPI_UNDEFINED, rank, &own);
    if (own == MPI_COMM_NULL)
        return;
    if (upper)
        copy_some(own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, upper ? 0 : half, 1, &others);
    MPI_Comm_remote_size(others, &size);
    EXPECT(size == half, "%d others", size);
    talk_to(others, upper ? rank - half : rank);
    MPI_Comm_free(&others);
    if (upper)
        free_copies();
    MPI_Comm_free(&own);
}

static void spawned(void)
{
    MPI_Comm children;
    copy_some(MPI_COMM_WORLD);
    int error = MPI_Comm_spawn(program, MPI_ARGV_NULL, ranks, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    long wrong_there = 0, none = 0;
    expect_class(error, MPI_SUCCESS, "spawn");
    if (error != MPI_SUCCESS)
        return;
    talk_to(children, rank);
    MPI_Allreduce(&none, &wrong_there, 1, MPI_LONG, MPI_SUM, children);
    EXPECT(wrong_there == 0, "%ld wrong at the children", wrong_there);
    MPI_Comm_disconnect(&children);
    free_copies();
}

static int child(MPI_Comm parents)
{
    long mine, unused;
    part = "child";
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    talk_to(parents, rank);
    mine = atomic_load(&wrong);
    MPI_Allreduce(&mine, &unused, 1, MPI_LONG, MPI_SUM, parents);
    MPI_Comm_disconnect(&parents);
    return MPI_Finalize();
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        { "random", random_ones, 1, 0 },
        { "early", early, 1, 0 },
        { "same_tag", same_tag, 1, 0 },
        { "empty", empty, 1, 0 },
        { "other_sizes", other_sizes, 1, 0 },
        { "refused", refused, 1, 0 },
        { "together", together, 1, 0 },
        { "threads", threads, 1, 1 },
        { "halves", halves, 2, 0 },
        { "spawned", spawned, 1, 1 },
    };
    MPI_Comm parents;
    program = argv[0];
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--steps") == 0)
            steps = strtol(argv[i + 1], NULL, 10);
    }
    MPI_Init_thread(&argc, &argv, is_named("threads", argc, argv) ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    out = malloc(longest);
    in = malloc(longest);
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL)
        return child(parents);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    right = (rank + 1) % ranks;
    left = (rank + ranks - 1) % ranks;
    int status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    free(out);
    free(in);
    MPI_Finalize();
    return status;
}
