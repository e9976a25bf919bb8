/* Usage: mcast [--seed N] [--count N] [PART...]
 *
 * Multicasts on bitmaps, part by part; without PART all but `threads`, which asks for MPI_THREAD_MULTIPLE, `computing`, which
 * needs a progress thread, and `wraparound`, which is long. Every rank computes from the seed who sends what to whom, so each byte,
 * status and member set is compared. N of --count is how many multicasts the part `random` makes. Exit status 0 only when all was as
 * it must be. */
#include "expect.h"

#include <pthread.h>
#include <stddef.h>
#include <time.h>

enum { most_words = 16, guard = 0xee };
static uint64_t seed = 1;
static long total = 10000;

/* ---- bytes that can be checked without having them ---- */

/* The same at all ranks: a random number for these three in this part. */
static uint64_t random_of(uint64_t one, uint64_t two, uint64_t three)
{
    uint64_t value = seed;
    for (const char *letter = part; *letter != '\0'; letter++)
        value = value * 31 + (uint64_t) *letter;
    return mix(mix(mix(mix(value) + one) + two) + three);
}

static uint64_t word_of(uint64_t key, long index)
{
    uint64_t word = (key + (uint64_t) index) * 0xbf58476d1ce4e5b9u;
    return word ^ word >> 29;
}

static void fill(void *buffer, uint64_t key, long size)
{
    for (long at = 0; at < size; at += 8) {
        uint64_t word = word_of(key, at / 8);
        memcpy((char *) buffer + at, &word, size - at < 8 ? size - at : 8);
    }
}

/* The place of the first byte that is not as filled, or -1. */
static long first_difference(const void *buffer, uint64_t key, long size)
{
    for (long at = 0; at < size; at += 8) {
        uint64_t word = word_of(key, at / 8);
        long length = size - at < 8 ? size - at : 8;
        if (memcmp((const char *) buffer + at, &word, length) != 0) {
            for (long i = 0; i < length; i++)
                if (((const char *) buffer)[at + i] != ((const char *) &word)[i])
                    return at + i;
        }
    }
    return -1;
}

/* ---- multicasts that all ranks know ---- */

struct message {
    int master, tag;
    long number, size;
    MPIX_Bitmap members[most_words];
};
enum kind { all_of_them, one_of_them, two_of_them, some_of_them, kinds };

static uint64_t key_of(const struct message *message)
{
    return random_of(message->master, message->number, 1000);
}

static void choose_members(MPIX_Bitmap *members, int of, enum kind kind, uint64_t random)
{
    memset(members, 0, most_words * sizeof *members);
    switch (kind) {
        case all_of_them:
            for (int member = 0; member < of; member++)
                MPIX_Bitmap_set(members, member);
            break;
        case two_of_them:
            MPIX_Bitmap_set(members, (int) (mix(random) % of));
            /* fall through */
        case one_of_them:
            MPIX_Bitmap_set(members, (int) (random % of));
            break;
        default:
            for (int member = 0; member < of; member++)
                if (mix(random + member) % 4 < 1 + random % 3)
                    MPIX_Bitmap_set(members, member);
    }
}

/* of: how many ranks the communicator has. */
static struct message make_of(int of, int master, long number, int tag, long size, enum kind kind)
{
    struct message message = {.master = master,.tag = tag,.number = number,.size = size };
    choose_members(message.members, of, kind, random_of(master, number, 2000));
    return message;
}

static struct message make(int master, long number, int tag, long size, enum kind kind)
{
    return make_of(ranks, master, number, tag, size, kind);
}

static int is_member(const struct message *message)
{
    return MPIX_Bitmap_test(message->members, rank);
}

/* Room for so many bytes and the guard behind them. */
static void *room(long size)
{
    void *buffer = malloc(size + 1);
    if (buffer == NULL) {
        fprintf(stderr, "mcast: no memory for %ld bytes\n", size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return buffer;
}

static void send(const struct message *message, void *buffer, MPI_Comm comm)
{
    fill(buffer, key_of(message), message->size);
    MPIX_Mcast(buffer, message->size, MPI_BYTE, message->members, message->tag, comm);
    memset(buffer, 0xdd, message->size);        /* which is allowed at once */
}

static void start(const struct message *message, void *buffer, MPI_Comm comm, int flags, MPI_Request *request)
{
    fill(buffer, key_of(message), message->size);
    MPIX_Imcast(buffer, message->size, MPI_BYTE, message->members, message->tag, comm, flags, request);
}

static void check_bytes(const unsigned char *buffer, const struct message *message)
{
    long at = first_difference(buffer, key_of(message), message->size);
    EXPECT(at < 0, "number %ld from %d, tag %d: byte %ld of %ld is wrong", message->number, message->master, message->tag, at,
        message->size);
    EXPECT(buffer[message->size] == guard, "number %ld from %d: more than %ld bytes written", message->number, message->master,
        message->size);
}

static void check_status(const MPI_Status *status, const struct message *message)
{
    int count = -1, elements = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    MPI_Get_elements(status, MPI_BYTE, &elements);
    EXPECT(status->MPI_SOURCE == message->master && status->MPI_TAG == message->tag && count == message->size && elements == count,
        "number %ld: status has source %d, tag %d, count %d, elements %d, not source %d, tag %d, count %ld", message->number,
        status->MPI_SOURCE, status->MPI_TAG, count, elements, message->master, message->tag, message->size);
}

static void check_members(const MPIX_Bitmap *got, const struct message *message, int of)
{
    for (int word = 0; word < MPIX_BITMAP_WORDS(of); word++)
        EXPECT(got[word] == message->members[word], "number %ld from %d: word %d of the members is %016llx, not %016llx",
            message->number, message->master, word, (unsigned long long) got[word], (unsigned long long) message->members[word]);
    EXPECT(got[MPIX_BITMAP_WORDS(of)] == guard, "number %ld from %d: more members written than ranks", message->number, message->master);
}

/* Where a receive may write: the guards are behind the end. */
static void prepare(unsigned char *buffer, long size, MPIX_Bitmap *members, int of)
{
    buffer[size] = guard;
    memset(members, 0x55, MPIX_BITMAP_WORDS(of) * sizeof *members);
    members[MPIX_BITMAP_WORDS(of)] = guard;
}

/* receive: this one, with source and tag as given, and all about it is compared. */
static void receive_of(int of, const struct message *message, unsigned char *buffer, int source, int tag, MPI_Comm comm)
{
    MPIX_Bitmap members[most_words + 1];
    MPI_Status status;

    prepare(buffer, message->size, members, of);
    MPIX_Mcast_recv(buffer, message->size, MPI_BYTE, source, tag, comm, members, &status);
    check_status(&status, message);
    check_members(members, message, of);
    check_bytes(buffer, message);
}

static void receive(const struct message *message, unsigned char *buffer, MPI_Comm comm)
{
    receive_of(ranks, message, buffer, message->master, message->tag, comm);
}

/* Between two looks at something: there may be more ranks than cores, and the one that is looked for needs one. */
static void breathe(void)
{
    struct timespec moment = {.tv_nsec = 20000 };
    nanosleep(&moment, NULL);
}

/* Returns when one can be received, and compares what the probe says of it. */
static void wait_for_arrival(const struct message *message, int source, int tag, MPI_Comm comm)
{
    MPI_Status status;
    int there = 0;

    while (MPIX_Mcast_iprobe(source, tag, comm, &there, &status), !there)
        breathe();
    check_status(&status, message);
}

/* After all have come here nothing that was sent is left, of either kind. */
static void nothing_left(MPI_Comm comm, const char *where)
{
    int there = 0;
    MPI_Status status;

    MPI_Barrier(comm);
    MPIX_Mcast_iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &status);
    EXPECT(!there, "%s: a multicast is left, from %d with tag %d", where, status.MPI_SOURCE, status.MPI_TAG);
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &status);
    EXPECT(!there, "%s: a message is left, from %d with tag %d", where, status.MPI_SOURCE, status.MPI_TAG);
    MPI_Barrier(comm);
}

/* ---- the helpers of mpi.h ---- */

static void bitmaps(void)
{
    enum { longest = 200 };
    for (int size = 1; size <= longest; size++) {
        MPIX_Bitmap bitmap[MPIX_BITMAP_WORDS(longest)];
        char in[longest];
        int count = 0, member = -1;

        EXPECT(MPIX_BITMAP_WORDS(size) == (size + 63) / 64, "words for %d ranks: %d", size, (int) MPIX_BITMAP_WORDS(size));
        memset(bitmap, 0xff, sizeof bitmap);
        MPIX_Bitmap_zero(bitmap, size);
        EXPECT(MPIX_Bitmap_count(bitmap, size) == 0 && MPIX_Bitmap_next(bitmap, size, -1) == -1, "%d ranks: not empty", size);
        for (int i = 0; i < size; i++) {
            in[i] = random_of(size, i, 0) % 3 == 0;
            MPIX_Bitmap_set(bitmap, i);
            if (!in[i])
                MPIX_Bitmap_clear(bitmap, i);
            count += in[i];
        }
        EXPECT(MPIX_Bitmap_count(bitmap, size) == count, "%d ranks: count is not %d", size, count);
        for (int i = 0; i < size; i++) {
            EXPECT(!MPIX_Bitmap_test(bitmap, i) == !in[i], "%d ranks: rank %d is wrong", size, i);
            if (in[i]) {
                member = MPIX_Bitmap_next(bitmap, size, member);
                EXPECT(member == i, "%d ranks: the next is %d, not %d", size, member, i);
            }
        }
        EXPECT(MPIX_Bitmap_next(bitmap, size, member) == -1, "%d ranks: there is one behind the last", size);
    }
}

/* ---- every size, every rank as master, all ways to receive ---- */

enum mode { posted, blocking, arrived, modes };

static void pass(const struct message *message, enum mode mode, unsigned char *out, unsigned char *in)
{
    int member = is_member(message);
    MPI_Request sending = MPI_REQUEST_NULL, receiving = MPI_REQUEST_NULL;
    MPIX_Bitmap members[most_words + 1];
    MPI_Status status;

    if (mode == posted) {
        prepare(in, message->size, members, ranks);
        if (member)
            MPIX_Mcast_irecv(in, message->size, MPI_BYTE, message->master, message->tag, MPI_COMM_WORLD, members, &receiving);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == message->master) {
        if (mode == blocking)
            send(message, out, MPI_COMM_WORLD);
        else
            start(message, out, MPI_COMM_WORLD, message->number % 2 ? MPIX_MCAST_DELIVERED : 0, &sending);
    }
    if (member && mode == posted) {
        MPI_Wait(&receiving, &status);
        check_status(&status, message);
        check_members(members, message, ranks);
        check_bytes(in, message);
    } else if (member) {
        if (mode == arrived)
            wait_for_arrival(message, message->master, message->tag, MPI_COMM_WORLD);
        receive(message, in, MPI_COMM_WORLD);
    }
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
}

static void sizes(void)
{
    enum { kilo = 1024, mega = kilo * kilo, largest = 3 * mega + 5, long_ones = 64 * kilo };
    static const long list[] = { 0, 1, 8, 1000, 4 * kilo, 16 * kilo - 1, 16 * kilo, 16 * kilo + 1, 80 * kilo, 256 * kilo - 65,
        256 * kilo - 64, 256 * kilo - 63, 256 * kilo, 256 * kilo + 1, mega, largest
    };
    unsigned char *out = room(largest), *in = room(largest);
    long number = 0;

    for (unsigned s = 0; s < sizeof list / sizeof list[0]; s++) {
        for (int master = 0; master < ranks; master++)
            for (int kind = 0; kind < kinds; kind++)
                for (int mode = 0; mode < modes; mode++, number++) {
                    /* Of long ones every master sends only one. */
                    if (list[s] > long_ones && (kind != (master + (int) s) % kinds || mode != (master / kinds + (int) s) % modes))
                        continue;
                    struct message message = make(master, number, (int) (number % 7), list[s], kind);
                    pass(&message, mode, out, in);
                }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(out);
    free(in);
}

/* ---- wildcards: all ranks are masters at once ---- */

static void wildcards(void)
{
    enum { rounds = 20, largest = 40000, any_source = 0, any_tag = 1, any_of_both = 2 };
    unsigned char *out = room(largest), *in = room(largest);

    for (int round = 0; round < rounds; round++) {
        struct message messages[ranks];
        MPI_Request sending;
        int expected = 0, how = round % 3;

        for (int master = 0; master < ranks; master++) {
            long size = random_of(master, round, 1) % (round % 5 == 4 ? largest : 300);
            messages[master] = make(master, round, how == any_source ? round : round * 1000 + master, size, some_of_them);
            expected += is_member(&messages[master]);
        }
        start(&messages[rank], out, MPI_COMM_WORLD, 0, &sending);
        if (how == any_tag) {
            for (int master = ranks - 1; master >= 0; master--)
                if (is_member(&messages[master]))
                    receive_of(ranks, &messages[master], in, master, MPI_ANY_TAG, MPI_COMM_WORLD);
        } else {
            char seen[ranks];
            memset(seen, 0, sizeof seen);
            for (; expected > 0; expected--) {
                MPIX_Bitmap members[most_words + 1];
                MPI_Status status;

                prepare(in, largest, members, ranks);
                MPIX_Mcast_recv(in, largest, MPI_BYTE, MPI_ANY_SOURCE, how == any_source ? round : MPI_ANY_TAG, MPI_COMM_WORLD, members,
                    &status);
                int from = status.MPI_SOURCE;
                if (from < 0 || from >= ranks || seen[from]++ || !is_member(&messages[from])) {
                    fault("nothing to come from %d", from);
                    continue;
                }
                check_status(&status, &messages[from]);
                check_members(members, &messages[from], ranks);
                EXPECT(first_difference(in, key_of(&messages[from]), messages[from].size) < 0, "bytes from %d are wrong", from);
            }
        }
        MPI_Wait(&sending, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);    /* or who is quick is heard twice */
    }
    free(out);
    free(in);
}

/* ---- multicasts and other requests are waited for together ---- */

static void together(void)
{
    enum { rounds = 24, largest = 100000 };
    enum { to_receive, to_send, barrier, sends, others, receives = others };
    int count = receives + ranks, ring_tag = 99;
    unsigned char *out = room(largest);

    for (int round = 0; round < rounds; round++) {
        struct message messages[ranks];
        unsigned char *in[ranks];
        MPIX_Bitmap members[ranks][most_words + 1];
        MPI_Request requests[count];
        MPI_Status statuses[count];
        int value = rank * 1000 + round, left = (rank + ranks - 1) % ranks, got = -1;

        MPI_Irecv(&got, 1, MPI_INT, left, ring_tag, MPI_COMM_WORLD, &requests[to_receive]);
        for (int master = 0; master < ranks; master++) {
            long size = random_of(master, round, 1) % (round % 6 == 5 ? largest : 2000);
            messages[master] = make(master, round, ring_tag, size, some_of_them);
            in[master] = room(size);
            requests[receives + master] = MPI_REQUEST_NULL;
            prepare(in[master], size, members[master], ranks);
            if (is_member(&messages[master]))
                MPIX_Mcast_irecv(in[master], size, MPI_BYTE, master, ring_tag, MPI_COMM_WORLD, members[master],
                    &requests[receives + master]);
        }
        MPI_Isend(&value, 1, MPI_INT, (rank + 1) % ranks, ring_tag, MPI_COMM_WORLD, &requests[to_send]);
        start(&messages[rank], out, MPI_COMM_WORLD, round % 2 ? MPIX_MCAST_DELIVERED : 0, &requests[sends]);
        MPI_Ibarrier(MPI_COMM_WORLD, &requests[barrier]);

        int index, some, done = 0, indices[count];
        MPI_Status few[count];
        switch (round % 4) {
            case 0:
                MPI_Waitall(count, requests, statuses);
                break;
            case 1:
                while (MPI_Waitany(count, requests, &index, few), index != MPI_UNDEFINED)
                    statuses[index] = few[0];
                break;
            case 2:
                while (MPI_Testall(count, requests, &done, statuses), !done)
                    breathe();
                break;
            default:
                while (MPI_Waitsome(count, requests, &some, indices, few), some != MPI_UNDEFINED)
                    for (int i = 0; i < some; i++)
                        statuses[indices[i]] = few[i];
        }
        EXPECT(got == left * 1000 + round, "round %d: %d from %d", round, got, left);
        for (int master = 0; master < ranks; master++) {
            if (is_member(&messages[master])) {
                check_status(&statuses[receives + master], &messages[master]);
                check_members(members[master], &messages[master], ranks);
                check_bytes(in[master], &messages[master]);
            }
            free(in[master]);
        }
    }

    /* A request that nobody waits for. */
    struct message message = make(0, rounds, 7, largest, all_of_them);
    unsigned char *in = room(largest);
    MPI_Request request;
    if (rank == 0) {
        start(&message, out, MPI_COMM_WORLD, 0, &request);
        MPI_Request_free(&request);
    }
    receive(&message, in, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    free(in);
    free(out);
}

/* ---- delivered means that all members have it ---- */

/* Members of odd rank have posted the receive. When a message that was sent afterwards tells them that all have it, there is nothing to
 * wait for any more. */
static void delivered(void)
{
    static const long list[] = { 0, 1000, 100000, 1048576 };
    enum { largest = 1048576, tag = 3 };
    unsigned char *out = room(largest), *in = room(largest);
    long number = 0;

    for (unsigned s = 0; s < sizeof list / sizeof list[0]; s++)
        for (int master = 0; master < ranks; master++, number++) {
            struct message message = make(master, number, tag, list[s], number % 3 ? all_of_them : some_of_them);
            MPIX_Bitmap members[most_words + 1];
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Status status;
            int there = 0, member = is_member(&message);

            prepare(in, message.size, members, ranks);
            if (member && rank % 2)
                MPIX_Mcast_irecv(in, message.size, MPI_BYTE, master, tag, MPI_COMM_WORLD, members, &request);
            if (rank == master) {
                MPI_Request sending;
                start(&message, out, MPI_COMM_WORLD, MPIX_MCAST_DELIVERED, &sending);
                MPI_Wait(&sending, MPI_STATUS_IGNORE);
                for (int other = 0; other < ranks; other++)
                    if (other != master)
                        MPI_Send(NULL, 0, MPI_BYTE, other, tag, MPI_COMM_WORLD);
            } else
                MPI_Recv(NULL, 0, MPI_BYTE, master, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (!member)
                continue;
            if (rank % 2 == 0) {
                MPIX_Mcast_iprobe(master, tag, MPI_COMM_WORLD, &there, &status);
                EXPECT(there, "%ld bytes from %d: delivered, but not seen", message.size, master);
                if (there)
                    check_status(&status, &message);
                MPIX_Mcast_irecv(in, message.size, MPI_BYTE, master, tag, MPI_COMM_WORLD, members, &request);
            }
            MPI_Request_get_status(request, &there, &status);
            if (there)
                check_status(&status, &message);
            MPI_Test(&request, &there, &status);
            EXPECT(there, "%ld bytes from %d: delivered, but not there", message.size, master);
            if (!there)
                MPI_Wait(&request, &status);
            check_status(&status, &message);
            check_members(members, &message, ranks);
            check_bytes(in, &message);
        }
    free(out);
    free(in);
}

/* ---- datatypes ---- */

/* Three doubles of five are sent, and nothing between them is read or written: to doubles side by side, or every other one. */
static void vectors(long blocks, int number)
{
    enum { block = 3, stride = 5 };
    long elements = blocks * block;
    double *out = room(blocks * stride * sizeof(double)), *in = room(2 * elements * sizeof(double)), untouched = -1;
    struct message message = make(number % ranks, number, 1, elements, some_of_them);
    MPI_Datatype gaps, other;
    MPI_Request request = MPI_REQUEST_NULL;
    int spread = (rank + number) % 3, step = spread == 0 ? 1 : 2, got = -1, basic = -1;

    if (rank == message.master) {
        for (long i = 0; i < blocks * stride; i++)
            out[i] = i % stride < block ? number * 1e6 + i / stride * block + i % stride : untouched;
        MPI_Type_vector((int) blocks, block, stride, MPI_DOUBLE, &gaps);
        MPI_Type_commit(&gaps);
        MPIX_Imcast(out, 1, gaps, message.members, message.tag, MPI_COMM_WORLD, 0, &request);
        MPI_Type_free(&gaps);   /* in use until it is sent */
    }
    if (is_member(&message)) {
        MPI_Status status;
        if (spread == 0)
            MPI_Type_contiguous(block, MPI_DOUBLE, &other);
        else if (spread == 1)
            MPI_Type_vector(block, 1, 2, MPI_DOUBLE, &gaps);
        else
            MPI_Type_create_hvector(block, 1, 2 * sizeof(double), MPI_DOUBLE, &gaps);
        if (spread != 0) {
            MPI_Type_create_resized(gaps, 0, 2 * block * sizeof(double), &other);
            MPI_Type_free(&gaps);
        }
        MPI_Type_commit(&other);
        for (long i = 0; i < 2 * elements; i++)
            in[i] = untouched;
        if (number % 2) {
            MPI_Request receiving;
            MPIX_Mcast_irecv(in, blocks, other, message.master, message.tag, MPI_COMM_WORLD, NULL, &receiving);
            MPI_Wait(&receiving, &status);
        } else
            MPIX_Mcast_recv(in, blocks, other, message.master, message.tag, MPI_COMM_WORLD, NULL, &status);
        MPI_Get_count(&status, other, &got);
        MPI_Get_elements(&status, other, &basic);
        EXPECT(got == blocks && basic == elements, "%ld blocks of %d: count %d, elements %d", blocks, block, got, basic);
        for (long i = 0; i < 2 * elements; i++) {
            double expected = i % step == 0 && i / step < elements ? number * 1e6 + i / step : untouched;
            if (in[i] != expected) {
                fault("%ld blocks from %d: element %ld is %g, not %g", blocks, message.master, i, in[i], expected);
                break;
            }
        }
        MPI_Type_free(&other);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(out);
    free(in);
}

/* An int and a double each time, in structures that have them in another order. */
static void structures(int count, int number)
{
    struct there { int one; double two; } *out = room(count * sizeof *out);
    struct here { double two; unsigned char gap[24]; int one; } *in = room(count * sizeof *in);
    struct message message = make(number % ranks, number, 2, count, all_of_them);
    int lengths[] = { 1, 1 };
    MPI_Aint from[] = { offsetof(struct there, one), offsetof(struct there, two) };
    MPI_Aint to[] = { offsetof(struct here, one), offsetof(struct here, two) };
    MPI_Datatype parts[] = { MPI_INT, MPI_DOUBLE }, bare, type;

    memset(in, guard, count * sizeof *in);
    if (rank == message.master) {
        for (int i = 0; i < count; i++) {
            out[i].one = number + i;
            out[i].two = i * 0.5;
        }
        MPI_Type_create_struct(2, lengths, from, parts, &bare);
        MPI_Type_create_resized(bare, 0, sizeof *out, &type);
        MPI_Type_commit(&type);
        MPIX_Mcast(out, count, type, message.members, message.tag, MPI_COMM_WORLD);
        memset(out, 0, count * sizeof *out);
        MPI_Type_free(&bare);
        MPI_Type_free(&type);
    }
    MPI_Type_create_struct(2, lengths, to, parts, &bare);
    MPI_Type_create_resized(bare, 0, sizeof *in, &type);
    MPI_Type_commit(&type);
    MPIX_Mcast_recv(in, count, type, MPI_ANY_SOURCE, message.tag, MPI_COMM_WORLD, NULL, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++)
        if (in[i].one != number + i || in[i].two != i * 0.5 || in[i].gap[0] != guard || in[i].gap[23] != guard) {
            fault("%d structures from %d: number %d is wrong", count, message.master, i);
            break;
        }
    MPI_Type_free(&bare);
    MPI_Type_free(&type);
    MPI_Barrier(MPI_COMM_WORLD);
    free(out);
    free(in);
}

static void datatypes(void)
{
    static const long list[] = { 0, 1, 10, 170, 171, 682, 700, 4000, 10922, 44000, 100000 };
    int number = 0;

    for (unsigned s = 0; s < sizeof list / sizeof list[0]; s++)
        for (int i = 0; i < 5; i++)
            vectors(list[s], number++);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 4; i++) {
        structures(1, number++);
        structures(1000, number++);
        structures(30000, number++);
    }

    /* Less than there is room for, and no whole number of pairs. */
    int seven[7] = { 0, 1, 2, 3, 4, 5, 6 }, in[20], got, elements;
    struct message message = make(ranks - 1, number, 3, 7, all_of_them);
    MPI_Datatype pair;
    MPI_Status status;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    if (rank == message.master)
        MPIX_Mcast(seven, 7, MPI_INT, message.members, message.tag, MPI_COMM_WORLD);
    memset(in, 0xff, sizeof in);
    MPIX_Mcast_recv(in, 10, pair, message.master, message.tag, MPI_COMM_WORLD, NULL, &status);
    MPI_Get_count(&status, pair, &got);
    MPI_Get_elements(&status, pair, &elements);
    EXPECT(got == MPI_UNDEFINED && elements == 7, "7 ints as pairs: count %d, elements %d", got, elements);
    EXPECT(memcmp(in, seven, sizeof seven) == 0 && in[7] == -1, "7 ints as pairs are wrong");
    MPI_Type_free(&pair);
}

/* ---- order ---- */

static void order(void)
{
    enum { rounds = 30, largest = 1048576, many = 40, tags = 8 };
    static const long before[] = { largest, 300000, 17000 }, mixed[] = { largest, 1, 70000, 8, 0, 20000, 300, 2 };
    unsigned char *out = room(largest), *in = room(largest), *small = room(8);

    /* Two, the second of which would be quicker. */
    for (int round = 0; round < rounds; round++) {
        int master = (int) (random_of(round, 0, 0) % ranks);
        struct message first = make(master, 2 * round, 5, before[round % 3], round % 2 ? some_of_them : all_of_them);
        struct message second = make(master, 2 * round + 1, 5, 1 + round % 8, some_of_them);
        MPI_Request sending[2];

        if (rank == master) {
            start(&first, out, MPI_COMM_WORLD, 0, &sending[0]);
            start(&second, small, MPI_COMM_WORLD, 0, &sending[1]);
        }
        if (is_member(&first))
            receive_of(ranks, &first, in, round % 4 < 2 ? master : MPI_ANY_SOURCE, 5, MPI_COMM_WORLD);
        if (is_member(&second))
            receive_of(ranks, &second, in, round % 4 < 2 ? master : MPI_ANY_SOURCE, 5, MPI_COMM_WORLD);
        if (rank == master)
            MPI_Waitall(2, sending, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }

    /* Many, from two masters at once; some ranks have posted all receives before, others none. */
    int masters[2] = { 0, ranks - 1 }, master_count = ranks > 1 ? 2 : 1;
    for (int ahead = 0; ahead < 2; ahead++) {
        struct message messages[2][many];
        MPI_Request sending[many], receiving[2][many];
        MPI_Status statuses[many];
        unsigned char *sent[many], *got[2][many];
        int post = (rank + ahead) % 2;

        for (int m = 0; m < master_count; m++)
            for (int n = 0; n < many; n++) {
                messages[m][n] = make(masters[m], 1000 * (ahead + 1) + n, 6, mixed[(n + m) % 8], n % 3 ? some_of_them : all_of_them);
                receiving[m][n] = MPI_REQUEST_NULL;
                got[m][n] = NULL;
                if (post && is_member(&messages[m][n])) {
                    got[m][n] = room(messages[m][n].size);
                    got[m][n][messages[m][n].size] = guard;
                    MPIX_Mcast_irecv(got[m][n], messages[m][n].size, MPI_BYTE, masters[m], 6, MPI_COMM_WORLD, NULL, &receiving[m][n]);
                }
            }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int m = 0; m < master_count; m++)
            if (rank == masters[m])
                for (int n = 0; n < many; n++) {
                    sent[n] = room(messages[m][n].size);
                    start(&messages[m][n], sent[n], MPI_COMM_WORLD, n % 2 ? MPIX_MCAST_DELIVERED : 0, &sending[n]);
                }
        for (int m = 0; m < master_count; m++) {
            if (post)
                MPI_Waitall(many, receiving[m], statuses);
            for (int n = 0; n < many; n++) {
                if (post && is_member(&messages[m][n])) {
                    check_status(&statuses[n], &messages[m][n]);
                    check_bytes(got[m][n], &messages[m][n]);
                } else if (is_member(&messages[m][n]))
                    receive(&messages[m][n], in, MPI_COMM_WORLD);
                free(got[m][n]);
            }
        }
        for (int m = 0; m < master_count; m++)
            if (rank == masters[m]) {
                MPI_Waitall(many, sending, MPI_STATUSES_IGNORE);
                for (int n = 0; n < many; n++)
                    free(sent[n]);
            }
        MPI_Barrier(MPI_COMM_WORLD);
    }

    /* Different tags: the last first. */
    for (int master = 0; master < ranks; master += ranks > 4 ? ranks / 4 : 1) {
        struct message messages[tags];
        MPI_Request sending[tags];
        unsigned char *sent[tags];

        for (int n = 0; n < tags; n++) {
            messages[n] = make(master, 5000 + n, 100 + n, mixed[n], n % 2 ? some_of_them : all_of_them);
            sent[n] = room(messages[n].size);
            if (rank == master)
                start(&messages[n], sent[n], MPI_COMM_WORLD, 0, &sending[n]);
        }
        for (int n = tags - 1; n >= 0; n--)
            if (is_member(&messages[n]))
                receive(&messages[n], in, MPI_COMM_WORLD);
        if (rank == master)
            MPI_Waitall(tags, sending, MPI_STATUSES_IGNORE);
        for (int n = 0; n < tags; n++)
            free(sent[n]);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(out);
    free(in);
    free(small);
}

/* More of one master than 16 bits can count, with one member that gets only every other one. */
static void wraparound(void)
{
    enum { count = 140000, tag = 7, barrier_every = 1000 };
    int master = 0, last = ranks - 1;
    struct message to_all = make(master, 0, tag, sizeof(int), all_of_them), but_last = to_all;
    MPIX_Bitmap_clear(to_all.members, master);
    MPIX_Bitmap_clear(but_last.members, master);
    MPIX_Bitmap_clear(but_last.members, last);

    for (int i = 0; i < count; i++) {
        const struct message *message = i % 2 ? &but_last : &to_all;
        int got = -1;

        if (rank == master && i % 64 == 0) {
            MPI_Request request;
            MPIX_Imcast(&i, 1, MPI_INT, message->members, tag, MPI_COMM_WORLD, MPIX_MCAST_DELIVERED, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else if (rank == master)
            MPIX_Mcast(&i, 1, MPI_INT, message->members, tag, MPI_COMM_WORLD);
        if (is_member(message)) {
            MPIX_Mcast_recv(&got, 1, MPI_INT, master, tag, MPI_COMM_WORLD, NULL, MPI_STATUS_IGNORE);
            EXPECT(got == i, "%d instead of %d", got, i);
        }
        if (i % barrier_every == 0)
            MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* ---- nothing but multicasts is received as one, and no multicast as anything else ---- */

static void apart(void)
{
    enum { rounds = 48, largest = 50000, ordinary = -7, tag = 11 };
    unsigned char *out = room(largest), *in = room(largest);
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);

    for (int round = 0; round < rounds; round++) {
        int master = round % ranks, how = round / ranks % 3, value = ordinary, got = 0, order = (int) (random_of(round, 0, 0) % 2);
        long size = random_of(round, 1, 0) % (round % 8 == 7 ? largest : 100);
        struct message message = make(master, round, tag, size, some_of_them);
        MPI_Request sends[ranks + 1], receives[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
        MPIX_Bitmap members[most_words + 1];
        MPI_Status statuses[2];

        prepare(in, largest, members, ranks);
        if (is_member(&message) && how == 2) {
            MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receives[order]);
            MPIX_Mcast_irecv(in, largest, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, members, &receives[!order]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == master) {
            int count = 0;
            if (order)
                start(&message, out, MPI_COMM_WORLD, 0, &sends[count++]);
            for (int member = 0; member < ranks; member++)
                if (MPIX_Bitmap_test(message.members, member))
                    MPI_Isend(&value, 1, MPI_INT, member, tag, MPI_COMM_WORLD, &sends[count++]);
            if (!order)
                start(&message, out, MPI_COMM_WORLD, 0, &sends[count++]);
            if (!is_member(&message))
                MPI_Waitall(count, sends, MPI_STATUSES_IGNORE);
            else
                for (; count < ranks + 1; count++)
                    sends[count] = MPI_REQUEST_NULL;
        }
        if (is_member(&message)) {
            if (how == 2) {
                MPI_Waitall(2, receives, statuses);
            } else if (how == 1) {
                MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &statuses[order]);
                MPIX_Mcast_recv(in, largest, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, members, &statuses[!order]);
            } else {
                MPIX_Mcast_recv(in, largest, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, members, &statuses[!order]);
                MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &statuses[order]);
            }
            EXPECT(got == ordinary && statuses[order].MPI_SOURCE == master, "round %d: the message is %d", round, got);
            check_status(&statuses[!order], &message);
            check_members(members, &message, ranks);
            EXPECT(first_difference(in, key_of(&message), size) < 0, "round %d: the multicast is wrong", round);
            if (rank == master)
                MPI_Waitall(ranks + 1, sends, MPI_STATUSES_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }

    /* Probes see their own kind, and their own communicator. */
    for (int master = 0; master < ranks; master++) {
        struct message message = make(master, rounds + master, tag, 100, all_of_them);
        struct message on_twin = make(master, 2000 + master, tag, 10, all_of_them);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Message matched;
        int there = 0;

        if (rank == master)
            start(&message, out, MPI_COMM_WORLD, 0, &request);
        wait_for_arrival(&message, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        EXPECT(!there, "MPI_Iprobe sees a multicast from %d", master);
        MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &matched, MPI_STATUS_IGNORE);
        EXPECT(!there, "MPI_Improbe sees a multicast from %d", master);
        MPIX_Mcast_iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, twin, &there, MPI_STATUS_IGNORE);
        EXPECT(!there, "a multicast from %d is seen on another communicator", master);
        MPIX_Mcast_iprobe(MPI_ANY_SOURCE, tag + 1, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        EXPECT(!there, "a multicast from %d is seen with another tag", master);
        if (ranks > 1) {
            MPIX_Mcast_iprobe((master + 1) % ranks, tag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
            EXPECT(!there, "a multicast from %d is seen from another rank", master);
        }
        receive_of(ranks, &message, in, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);

        if (rank == master)
            for (int other = 0; other < ranks; other++)
                if (other != master)
                    MPI_Send(NULL, 0, MPI_BYTE, other, tag, MPI_COMM_WORLD);
        if (rank != master) {
            MPI_Probe(master, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPIX_Mcast_iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
            EXPECT(!there, "MPIX_Mcast_iprobe sees a message from %d", master);
            MPI_Recv(NULL, 0, MPI_BYTE, master, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);

        /* One on each communicator: that of the other one is there first. */
        if (rank == master)
            start(&on_twin, out, twin, 0, &request);
        wait_for_arrival(&on_twin, master, tag, twin);
        MPIX_Mcast_iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        EXPECT(!there, "a multicast from %d on another communicator is seen", master);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == master)
            start(&message, out, MPI_COMM_WORLD, 0, &request);
        receive_of(ranks, &message, in, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD);
        receive_of(ranks, &on_twin, in, MPI_ANY_SOURCE, MPI_ANY_TAG, twin);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    nothing_left(twin, "on the other communicator");
    MPI_Comm_free(&twin);
    free(out);
    free(in);
}

/* ---- communicators come and go ---- */

/* Time that passes without MPI, for some ranks more: so that they come late to what follows. */
static void dawdle(uint64_t amount)
{
    volatile uint64_t value = amount;
    for (uint64_t i = 0; i < amount; i++)
        value = mix(value);
}

static void communicators(void)
{
    enum { rounds = 200, largest = 300000 };
    unsigned char *out = room(largest), *in = room(largest);

    /* Ids come again; the master sends while others are on their way out of MPI_Comm_dup; all leave at once. */
    for (int round = 0; round < rounds; round++) {
        long size = round % 16 == 15 ? largest : (long) (random_of(round, 0, 0) % 2000);
        struct message message = make(round % ranks, round, 1, size, round % 2 ? some_of_them : all_of_them);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Comm comm;

        dawdle(random_of(round, rank, 1) % 4 == 0 ? 20000 : 0);
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (rank == message.master)
            start(&message, out, comm, round % 3 ? 0 : MPIX_MCAST_DELIVERED, &request);
        if (is_member(&message))
            receive_of(ranks, &message, in, round % 4 ? message.master : MPI_ANY_SOURCE, 1, comm);
        if (round % 5 == 0)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Comm_free(&comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }

    /* Ranks that count in another way than those of the world, on three communicators at once. */
    MPI_Comm parts[3];
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &parts[0]);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 3, (rank * 7) % 5, &parts[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank ^ 1, &parts[2]);
    for (int round = 0; round < 10; round++)
        for (int p = 0; p < 3; p++) {
            int me, of, colour = p == 0 ? rank % 2 : p == 1 ? rank / 3 : 0;
            MPI_Comm_rank(parts[p], &me);
            MPI_Comm_size(parts[p], &of);
            for (int master = 0; master < of; master++) {
                long number = (round * 3 + p) * 1000L + colour;
                struct message message = make_of(of, master, number, 1, 1 + random_of(round, p, master) % 30000, round % kinds);
                MPI_Request request = MPI_REQUEST_NULL;
                if (me == master)
                    start(&message, out, parts[p], round % 2 ? MPIX_MCAST_DELIVERED : 0, &request);
                if (MPIX_Bitmap_test(message.members, me))
                    receive_of(of, &message, in, master, 1, parts[p]);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
        }
    for (int p = 0; p < 3; p++) {
        nothing_left(parts[p], "on a part");
        MPI_Comm_free(&parts[p]);
    }

    struct message message = make_of(1, 0, 9999, 1, 1000, all_of_them);
    send(&message, out, MPI_COMM_SELF);
    receive_of(1, &message, in, 0, 1, MPI_COMM_SELF);
    free(out);
    free(in);
}

/* ---- a receive that is too short is this member's problem alone ---- */

static void truncation(void)
{
    static const long list[] = { 1024, 102400, 1048576 };
    enum { largest = 1048576, tag = 21, short_one = 10 };
    unsigned char *out = room(largest), *in = room(largest);
    long number = 0;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (unsigned s = 0; s < sizeof list / sizeof list[0]; s++)
        for (int unlucky = 0; unlucky < ranks; unlucky++)
            for (int own = 0; own < 2; own++) {
                int master = own ? unlucky : (unlucky + 1 + (int) s) % ranks, how = (int) (number / 2 % 3);
                struct message message = make(master, number, tag, list[s], all_of_them);
                struct message after = make(master, number + 1, tag, short_one, all_of_them);
                MPI_Request sending[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL }, receiving[2];
                long space = rank == unlucky ? (how == 2 ? 0 : message.size / 2 + unlucky) : message.size;
                MPIX_Bitmap members[most_words + 1];
                MPI_Status statuses[2];
                unsigned char next[short_one + 1], next_out[short_one];
                int error;

                number += 2;
                prepare(in, space, members, ranks);
                next[short_one] = guard;
                if (how == 0) { /* posted, and the error is in a status */
                    MPIX_Mcast_irecv(in, space, MPI_BYTE, master, tag, MPI_COMM_WORLD, members, &receiving[0]);
                    MPIX_Mcast_irecv(next, short_one, MPI_BYTE, master, tag, MPI_COMM_WORLD, NULL, &receiving[1]);
                    MPI_Barrier(MPI_COMM_WORLD);
                }
                if (rank == master)
                    start(&message, out, MPI_COMM_WORLD, own ? MPIX_MCAST_DELIVERED : 0, &sending[0]);
                if (how == 0) {
                    if (rank == master)
                        start(&after, next_out, MPI_COMM_WORLD, 0, &sending[1]);
                    error = MPI_Waitall(2, receiving, statuses);
                    if (error != MPI_SUCCESS) {
                        expect_class(error, MPI_ERR_IN_STATUS, "MPI_Waitall");
                        error = statuses[0].MPI_ERROR;
                        if (statuses[1].MPI_ERROR == MPI_ERR_PENDING)
                            statuses[1].MPI_ERROR = MPI_Wait(&receiving[1], &statuses[1]);
                        expect_class(statuses[1].MPI_ERROR, MPI_SUCCESS, "the next");
                    }
                } else {
                    if (how == 1)
                        wait_for_arrival(&message, master, tag, MPI_COMM_WORLD);
                    error = MPIX_Mcast_recv(in, space, MPI_BYTE, master, tag, MPI_COMM_WORLD, members, &statuses[0]);
                    if (rank == master)
                        start(&after, next_out, MPI_COMM_WORLD, 0, &sending[1]);
                    expect_class(MPIX_Mcast_recv(next, short_one, MPI_BYTE, master, tag, MPI_COMM_WORLD, NULL, &statuses[1]), MPI_SUCCESS,
                        "the next");
                }
                if (rank == unlucky) {
                    expect_class(error, MPI_ERR_TRUNCATE, "a receive that is too short");
                    EXPECT(in[space] == guard, "%ld bytes into %ld: more is written", message.size, space);
                    EXPECT(statuses[0].MPI_SOURCE == master && statuses[0].MPI_TAG == tag, "truncated: source %d, tag %d",
                        statuses[0].MPI_SOURCE, statuses[0].MPI_TAG);
                } else {
                    expect_class(error, MPI_SUCCESS, "a receive while another is too short");
                    check_status(&statuses[0], &message);
                    check_members(members, &message, ranks);
                    check_bytes(in, &message);
                }
                check_status(&statuses[1], &after);
                check_bytes(next, &after);
                expect_class(MPI_Wait(&sending[0], MPI_STATUS_IGNORE), MPI_SUCCESS, "the master");
                expect_class(MPI_Wait(&sending[1], MPI_STATUS_IGNORE), MPI_SUCCESS, "the master");
                MPI_Barrier(MPI_COMM_WORLD);
            }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    free(out);
    free(in);
}

/* ---- a member relays although it does not receive ---- */

static void busy(void)
{
    static const long list[] = { 1000, 102400, 1048576 };
    enum { largest = 1048576, tag = 31 };
    unsigned char *out = room(largest), *in = room(largest);
    long number = 0;

    for (unsigned s = 0; s < sizeof list / sizeof list[0]; s++)
        for (int lazy = 0; lazy < ranks; lazy++, number++) {
            int master = (lazy + (int) s + (lazy % 2)) % ranks, done = 0, there;
            struct message message = make(master, number, tag, list[s], all_of_them);
            MPI_Request sending = MPI_REQUEST_NULL, got[ranks];

            if (rank == lazy)
                for (int other = 0; other < ranks; other++) {
                    got[other] = MPI_REQUEST_NULL;
                    if (other != lazy)
                        MPI_Irecv(NULL, 0, MPI_BYTE, other, tag, MPI_COMM_WORLD, &got[other]);
                }
            if (rank == master)
                start(&message, out, MPI_COMM_WORLD, 0, &sending);
            if (rank == lazy) {
                while (!done) {
                    if (s % 2)
                        MPI_Iprobe(MPI_ANY_SOURCE, tag + 1, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
                    MPI_Testall(ranks, got, &done, MPI_STATUSES_IGNORE);
                    breathe();
                }
                receive(&message, in, MPI_COMM_WORLD);
            } else {
                receive(&message, in, MPI_COMM_WORLD);
                MPI_Send(NULL, 0, MPI_BYTE, lazy, tag, MPI_COMM_WORLD);
            }
            MPI_Wait(&sending, MPI_STATUS_IGNORE);
        }
    free(out);
    free(in);
}

/* With a progress thread even one that makes no MPI call: it waits, by shared memory, until all others on its host have the bytes. */
static void computing(void)
{
    static const long list[] = { 1000, 102400, 1048576 };
    enum { largest = 1048576, tag = 1 };
    unsigned char *out = room(largest), *in = room(largest);
    MPI_Comm host;
    MPI_Win window;
    MPI_Aint size;
    int me, of, unit;
    long number = 0, others = 0;
    atomic_long *received;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &me);
    MPI_Comm_size(host, &of);
    MPI_Win_allocate_shared(me == 0 ? sizeof *received : 0, 1, MPI_INFO_NULL, host, &received, &window);
    MPI_Win_shared_query(window, 0, &size, &unit, &received);
    if (me == 0)
        atomic_init(received, 0);
    for (unsigned s = 0; s < sizeof list / sizeof list[0]; s++)
        for (int lazy = 0; lazy < of; lazy++, number++) {
            struct message message = make_of(of, (lazy + 1) % of, number, tag, list[s], all_of_them);
            MPI_Request sending = MPI_REQUEST_NULL;

            MPI_Barrier(host);
            others += of - 1;
            if (me == message.master)
                start(&message, out, host, 0, &sending);
            if (me == lazy)
                while (atomic_load(received) < others)
                    breathe();
            receive_of(of, &message, in, message.master, tag, host);
            if (me != lazy)
                atomic_fetch_add(received, 1);
            MPI_Wait(&sending, MPI_STATUS_IGNORE);
        }
    MPI_Win_free(&window);
    nothing_left(host, "on a host");
    MPI_Comm_free(&host);
    free(out);
    free(in);
}

/* ---- bad input: the error a user would expect, and nothing is sent ---- */

static void mistakes(void)
{
    enum { tag = 41 };
    int value[2] = { 1, 2 }, got = 0, there, beyond = -1;
    MPIX_Bitmap good[most_words + 1], bad[most_words + 1];
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype uncommitted;
    MPI_Status status;
    MPI_Comm comm;
    int *tag_limit, found;

    memset(good, 0, sizeof good);
    MPIX_Bitmap_zero(good, ranks);
    for (int member = 0; member < ranks; member++)
        MPIX_Bitmap_set(good, member);
    memcpy(bad, good, sizeof bad);
    if (ranks % 64 != 0) {
        beyond = ranks + (int) (random_of(0, 0, 0) % (64 - ranks % 64));
        MPIX_Bitmap_set(bad, beyond);
    }
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_limit, &found);

    for (int master = 0; master < ranks; master += ranks > 1 ? ranks - 1 : 1) {
        if (rank == master) {
#define BOTH(expected, what, buffer, count, type, members, tag, comm) do { \
    expect_class(MPIX_Mcast(buffer, count, type, members, tag, comm), expected, "MPIX_Mcast, " what); \
    expect_class(MPIX_Imcast(buffer, count, type, members, tag, comm, 0, &request), expected, "MPIX_Imcast, " what); \
    expect_class(MPIX_Imcast(buffer, count, type, members, tag, comm, MPIX_MCAST_DELIVERED, &request), expected, \
        "MPIX_Imcast, delivered, " what); \
} while (0)
            if (beyond >= 0) {
                BOTH(MPI_ERR_RANK, "a bit beyond the communicator", value, 1, MPI_INT, bad, tag, comm);
                MPIX_Bitmap_zero(bad, ranks);
                MPIX_Bitmap_set(bad, beyond);
                BOTH(MPI_ERR_RANK, "only a bit beyond the communicator", value, 1, MPI_INT, bad, tag, comm);
            }
            BOTH(MPI_ERR_ARG, "no bitmap", value, 1, MPI_INT, NULL, tag, comm);
            BOTH(MPI_ERR_TYPE, "an uncommitted datatype", value, 1, uncommitted, good, tag, comm);
            BOTH(MPI_ERR_TYPE, "no datatype", value, 1, MPI_DATATYPE_NULL, good, tag, comm);
            BOTH(MPI_ERR_COUNT, "a negative count", value, -1, MPI_INT, good, tag, comm);
            BOTH(MPI_ERR_TAG, "a negative tag", value, 1, MPI_INT, good, -5, comm);
            BOTH(MPI_ERR_TAG, "any tag", value, 1, MPI_INT, good, MPI_ANY_TAG, comm);
            if (found && *tag_limit < INT32_MAX)
                BOTH(MPI_ERR_TAG, "a tag too large", value, 1, MPI_INT, good, *tag_limit + 1, comm);
            BOTH(MPI_ERR_COMM, "no communicator", value, 1, MPI_INT, good, tag, MPI_COMM_NULL);
            BOTH(MPI_ERR_BUFFER, "no buffer", NULL, 1, MPI_INT, good, tag, comm);
            expect_class(MPIX_Imcast(value, 1, MPI_INT, good, tag, comm, MPIX_MCAST_DELIVERED << 1, &request), MPI_ERR_ARG,
                "unknown flags");
            expect_class(MPIX_Imcast(value, 1, MPI_INT, good, tag, comm, -1, &request), MPI_ERR_ARG, "all flags");

            /* Nobody: nothing is sent, which is no mistake. */
            MPIX_Bitmap_zero(bad, ranks);
            expect_class(MPIX_Mcast(value, 1, MPI_INT, bad, tag, comm), MPI_SUCCESS, "an empty set");
            for (int flags = 0; flags <= MPIX_MCAST_DELIVERED; flags += MPIX_MCAST_DELIVERED) {
                expect_class(MPIX_Imcast(value, 1, MPI_INT, bad, tag, comm, flags, &request), MPI_SUCCESS, "an empty set");
                expect_class(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS, "an empty set, waited for");
            }
        }
        MPI_Barrier(comm);
        MPIX_Mcast_iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &status);
        EXPECT(!there, "something arrived from %d with tag %d, of what must not be sent", status.MPI_SOURCE, status.MPI_TAG);
        MPI_Barrier(comm);
        /* Had anything been sent, it would be before this. */
        int right = 1000 + master;
        if (rank == master)
            MPIX_Mcast(&right, 1, MPI_INT, good, tag, comm);
        MPIX_Mcast_recv(&got, 1, MPI_INT, master, tag, comm, NULL, &status);
        EXPECT(got == right, "after all mistakes %d is received, not %d", got, right);
        MPI_Barrier(comm);
    }

#define RECEIVES(expected, what, buffer, count, type, source, tag, comm) do { \
    expect_class(MPIX_Mcast_recv(buffer, count, type, source, tag, comm, NULL, &status), expected, "MPIX_Mcast_recv, " what); \
    expect_class(MPIX_Mcast_irecv(buffer, count, type, source, tag, comm, NULL, &request), expected, "MPIX_Mcast_irecv, " what); \
} while (0)
    RECEIVES(MPI_ERR_RANK, "a source beyond the communicator", &got, 1, MPI_INT, ranks, tag, comm);
    RECEIVES(MPI_ERR_RANK, "a negative source", &got, 1, MPI_INT, -77, tag, comm);
    RECEIVES(MPI_ERR_TAG, "a negative tag", &got, 1, MPI_INT, 0, -77, comm);
    RECEIVES(MPI_ERR_COUNT, "a negative count", &got, -1, MPI_INT, 0, tag, comm);
    RECEIVES(MPI_ERR_TYPE, "no datatype", &got, 1, MPI_DATATYPE_NULL, 0, tag, comm);
    RECEIVES(MPI_ERR_TYPE, "an uncommitted datatype", value, 1, uncommitted, 0, tag, comm);
    RECEIVES(MPI_ERR_COMM, "no communicator", &got, 1, MPI_INT, 0, tag, MPI_COMM_NULL);
    expect_class(MPIX_Mcast_iprobe(ranks, tag, comm, &there, &status), MPI_ERR_RANK, "MPIX_Mcast_iprobe, a source too large");
    expect_class(MPIX_Mcast_iprobe(0, -77, comm, &there, &status), MPI_ERR_TAG, "MPIX_Mcast_iprobe, a negative tag");

    /* From nobody: as from MPI_Recv. */
    for (int i = 0; i < 2; i++) {
        int count = -1;
        memset(&status, 0x55, sizeof status);
        if (i == 0)
            MPIX_Mcast_recv(&got, 1, MPI_INT, MPI_PROC_NULL, tag, comm, NULL, &status);
        else {
            MPIX_Mcast_irecv(&got, 1, MPI_INT, MPI_PROC_NULL, tag, comm, NULL, &request);
            MPI_Wait(&request, &status);
        }
        MPI_Get_count(&status, MPI_INT, &count);
        EXPECT(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && count == 0,
            "from nobody: source %d, tag %d, count %d", status.MPI_SOURCE, status.MPI_TAG, count);
    }
    MPIX_Mcast_iprobe(MPI_PROC_NULL, tag, comm, &there, &status);
    EXPECT(there && status.MPI_SOURCE == MPI_PROC_NULL, "a probe of nobody: flag %d, source %d", there, status.MPI_SOURCE);

    if (ranks > 1) {
        MPI_Comm half, both;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, tag, &both);
        MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN);
        memset(bad, 0, sizeof bad);
        MPIX_Bitmap_set(bad, 0);
        BOTH(MPI_ERR_COMM, "an intercommunicator", value, 1, MPI_INT, bad, tag, both);
        RECEIVES(MPI_ERR_COMM, "an intercommunicator", &got, 1, MPI_INT, 0, tag, both);
        expect_class(MPIX_Mcast_iprobe(0, tag, both, &there, &status), MPI_ERR_COMM, "MPIX_Mcast_iprobe, an intercommunicator");
        MPI_Comm_free(&half);
        MPI_Comm_free(&both);
    }
    nothing_left(comm, "after mistakes");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free(&comm);
    MPI_Type_free(&uncommitted);
}

/* ---- many at random, from four masters at once ---- */

/* A master's multicasts are of three streams. Those of the first are received from anyone, in order from each; those of the second
 * by the name of the master; those of the third, on a communicator of its own, from anyone with any tag: the tag is the number.
 * They are sent block by block. A rank receives as many as the block has for it, which may be some of the next block instead; it sends
 * no third block before all ranks have done so, so that memory is bounded however slow one is. */
enum { masters_at_most = 4, window = 16, depth = 3, block = 64, random_largest = 300000, stream_tag = 50, number_tag = 100 };
enum { from_anyone, by_name, any_tag, streams };

static int stream_of(int master, long number)
{
    return (int) (random_of(master, number, 1) % streams);
}

static struct message random_message(int master, long number)
{
    uint64_t random = random_of(master, number, 2);
    long size = (long) (mix(random) % (random % 100 < 80 ? 1000 : random % 100 < 97 ? 20000 : random_largest));
    int stream = stream_of(master, number);
    int density = (int) (random >> 32) % 8;
    return make(master, number, stream == any_tag ? number_tag + (int) number : stream_tag + stream, size,
        density == 0 ? all_of_them : density == 1 ? one_of_them : density == 2 ? two_of_them : some_of_them);
}

/* The next one of a stream that this rank gets from the master, after that number; or -1 if that was the last. */
static long next_for_me(int master, int stream, long after, long each)
{
    for (long number = after + 1; number < each; number++)
        if (stream_of(master, number) == stream) {
            struct message message = random_message(master, number);
            if (is_member(&message))
                return number;
        }
    return -1;
}

/* Receives that are posted ahead, used in the order in which they were posted. */
struct lane {
    MPI_Comm comm;
    int stream, source, tag;
    long to_post, posted, used;
    int done[depth];
    MPI_Status statuses[depth];
    unsigned char *buffers[depth];
    MPIX_Bitmap members[depth][most_words + 1];
};

/* What has come, and how many are still to come in this block. */
struct account {
    int masters;
    long each, left;            /* each: how many multicasts a master makes */
    long last[masters_at_most][streams];
    char *seen[masters_at_most];        /* by number */
};

static void compare(struct account *account, const MPI_Status *status, const unsigned char *buffer, const MPIX_Bitmap *members,
    int stream)
{
    int master = status->MPI_SOURCE;
    long number = -1;

    account->left--;
    if (master >= 0 && master < account->masters)
        number = stream == any_tag ? status->MPI_TAG - number_tag
            : next_for_me(master, stream, account->last[master][stream], account->each);
    if (number < 0 || number >= account->each || account->seen[master][number]++) {
        fault("nothing to come from %d with tag %d", master, status->MPI_TAG);
        return;
    }
    struct message message = random_message(master, number);
    account->last[master][stream] = number;
    EXPECT(is_member(&message) && stream_of(master, number) == stream, "number %ld of %d is not for this rank", number, master);
    check_status(status, &message);
    check_members(members, &message, ranks);
    long at = first_difference(buffer, key_of(&message), message.size);
    EXPECT(at < 0, "number %ld of %d, stream %d: byte %ld of %ld is wrong", number, master, stream, at, message.size);
}

/* Whoever only receives, and has an odd rank, looks for what is there and receives that. */
static void receive_by_probe(struct account *account, MPI_Comm twin, unsigned char *buffer)
{
    while (account->left > 0)
        for (int i = 0; i < 2 && account->left > 0; i++) {
            MPI_Comm comm = i == 0 ? MPI_COMM_WORLD : twin;
            MPI_Status status, again;
            MPIX_Bitmap members[most_words + 1];
            int there, size;

            MPIX_Mcast_iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &there, &status);
            if (!there) {
                breathe();
                continue;
            }
            MPI_Get_count(&status, MPI_BYTE, &size);
            prepare(buffer, size, members, ranks);
            MPIX_Mcast_recv(buffer, size, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm, members, &again);
            EXPECT(again.MPI_SOURCE == status.MPI_SOURCE && again.MPI_TAG == status.MPI_TAG, "not what was probed");
            compare(account, &again, buffer, members, i == 1 ? any_tag : again.MPI_TAG - stream_tag);
        }
}

static void at_random(void)
{
    int masters = ranks < masters_at_most ? ranks : masters_at_most, lanes = masters + 2;
    long each = (total + masters - 1) / masters;
    int by_probe = rank >= masters && rank % 2;
    MPI_Comm twin, turns;
    MPI_Request turn[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    MPI_Request requests[(masters_at_most + 2) * depth + window];
    struct lane *lane = calloc(lanes, sizeof *lane);
    unsigned char *out[window], *in = room(random_largest);
    struct account account;
    int request_count = lanes * depth + window;

    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_dup(MPI_COMM_WORLD, &turns);
    account.masters = masters;
    account.each = each;
    memset(account.last, 0xff, sizeof account.last);
    for (int master = 0; master < masters; master++)
        account.seen[master] = calloc(each, 1);
    for (int i = 0; i < request_count; i++)
        requests[i] = MPI_REQUEST_NULL;
    for (int l = 0; l < lanes; l++) {
        lane[l].stream = l == 0 ? from_anyone : l == lanes - 1 ? any_tag : by_name;
        lane[l].comm = lane[l].stream == any_tag ? twin : MPI_COMM_WORLD;
        lane[l].source = lane[l].stream == by_name ? l - 1 : MPI_ANY_SOURCE;
        lane[l].tag = lane[l].stream == any_tag ? MPI_ANY_TAG : stream_tag + lane[l].stream;
        for (int d = 0; d < depth; d++)
            lane[l].buffers[d] = room(random_largest);
    }
    for (int slot = 0; slot < window; slot++)
        out[slot] = room(random_largest);

    for (long begin = 0; begin < each; begin += block) {
        long end = begin + block < each ? begin + block : each, next = rank < masters ? begin : end;

        account.left = 0;
        for (int l = 0; l < lanes; l++)
            lane[l].to_post = lane[l].posted = lane[l].used = 0;
        for (int master = 0; master < masters; master++)
            for (long number = begin; number < end; number++) {
                struct message message = random_message(master, number);
                int stream = stream_of(master, number);
                if (is_member(&message)) {
                    lane[stream == from_anyone ? 0 : stream == any_tag ? lanes - 1 : 1 + master].to_post++;
                    account.left++;
                }
            }
        if (by_probe)
            receive_by_probe(&account, twin, in);
        else
            for (;;) {
                int index;
                MPI_Status status;

                for (int l = 0; l < lanes; l++)
                    while (lane[l].posted < lane[l].to_post && lane[l].posted < lane[l].used + depth) {
                        int d = (int) (lane[l].posted++ % depth);
                        lane[l].done[d] = 0;
                        prepare(lane[l].buffers[d], random_largest, lane[l].members[d], ranks);
                        MPIX_Mcast_irecv(lane[l].buffers[d], random_largest, MPI_BYTE, lane[l].source, lane[l].tag, lane[l].comm,
                            lane[l].members[d], &requests[l * depth + d]);
                    }
                for (int slot = 0; slot < window && next < end; slot++)
                    if (requests[lanes * depth + slot] == MPI_REQUEST_NULL) {
                        struct message message = random_message(rank, next);
                        start(&message, out[slot], stream_of(rank, next) == any_tag ? twin : MPI_COMM_WORLD,
                            next % 8 == 7 ? 0 : MPIX_MCAST_DELIVERED, &requests[lanes * depth + slot]);
                        next++;
                    }
                MPI_Waitany(request_count, requests, &index, &status);
                if (index == MPI_UNDEFINED)
                    break;
                if (index >= lanes * depth)
                    continue;
                struct lane *that = &lane[index / depth];
                that->statuses[index % depth] = status;
                that->done[index % depth] = 1;
                while (that->used < that->posted && that->done[that->used % depth]) {
                    int d = (int) (that->used++ % depth);
                    compare(&account, &that->statuses[d], that->buffers[d], that->members[d], that->stream);
                }
            }
        EXPECT(account.left == 0, "%ld of the block that ends with %ld are missing", account.left, end);
        MPI_Ibarrier(turns, &turn[begin / block % 2]);
        MPI_Wait(&turn[(begin / block + 1) % 2], MPI_STATUS_IGNORE);
    }
    MPI_Waitall(2, turn, MPI_STATUSES_IGNORE);
    nothing_left(twin, "on the third stream");
    for (int l = 0; l < lanes; l++)
        for (int d = 0; d < depth; d++)
            free(lane[l].buffers[d]);
    for (int slot = 0; slot < window; slot++)
        free(out[slot]);
    for (int master = 0; master < masters; master++)
        free(account.seen[master]);
    free(lane);
    free(in);
    MPI_Comm_free(&turns);
    MPI_Comm_free(&twin);
}

/* ---- threads ---- */

/* Two threads a rank, each with a tag of its own, are masters and members at once: the first with blocking calls and by name, the
 * second with requests and from anyone. */
enum { thread_rounds = 150, thread_largest = 40000, thread_tag = 60 };

static struct message thread_message(int thread, int master, int round)
{
    long size = (long) (random_of(thread, master, round) % (round % 10 == 9 ? thread_largest : 500));
    return make(master, round * 2L + thread, thread_tag + thread, size, some_of_them);
}

static void *talk(void *argument)
{
    int thread = (int) (intptr_t) argument, next[ranks];
    unsigned char *out = room(thread_largest), *in = room(thread_largest);

    memset(next, 0, sizeof next);
    for (int round = 0; round < thread_rounds; round++) {
        struct message mine = thread_message(thread, rank, round);
        MPI_Request sending = MPI_REQUEST_NULL;

        if (thread == 0)
            send(&mine, out, MPI_COMM_WORLD);
        else
            start(&mine, out, MPI_COMM_WORLD, round % 2 ? MPIX_MCAST_DELIVERED : 0, &sending);
        for (int master = 0; master < ranks; master++) {
            struct message message = thread_message(thread, master, round);
            if (!is_member(&message))
                continue;
            if (thread == 0) {
                receive(&message, in, MPI_COMM_WORLD);
                continue;
            }
            MPI_Request receiving;
            MPI_Status status;
            MPIX_Mcast_irecv(in, thread_largest, MPI_BYTE, MPI_ANY_SOURCE, thread_tag + thread, MPI_COMM_WORLD, NULL, &receiving);
            MPI_Wait(&receiving, &status);
            /* Of whoever it is, the next that is for us. */
            int from = status.MPI_SOURCE;
            do
                message = thread_message(thread, from, next[from]++);
            while (!is_member(&message) && next[from] < thread_rounds);
            check_status(&status, &message);
            EXPECT(first_difference(in, key_of(&message), message.size) < 0, "thread %d: bytes from %d are wrong", thread, from);
        }
        MPI_Wait(&sending, MPI_STATUS_IGNORE);
    }
    free(out);
    free(in);
    return NULL;
}

static void threads(void)
{
    pthread_t second;
    int provided;

    MPI_Query_thread(&provided);
    EXPECT(provided == MPI_THREAD_MULTIPLE, "threads are not provided for");
    pthread_create(&second, NULL, talk, (void *) 1);
    talk((void *) 0);
    pthread_join(second, NULL);
}

/* ---- all parts ---- */

static const struct {
    const char *name;
    void (*run) (void);
    int only_when_named;
} parts[] = {
    { "bitmaps", bitmaps, 0 }, { "sizes", sizes, 0 }, { "wildcards", wildcards, 0 }, { "together", together, 0 },
    { "delivered", delivered, 0 }, { "datatypes", datatypes, 0 }, { "order", order, 0 }, { "apart", apart, 0 },
    { "communicators", communicators, 0 }, { "truncation", truncation, 0 }, { "busy", busy, 0 }, { "mistakes", mistakes, 0 },
    { "random", at_random, 0 }, { "wraparound", wraparound, 1 }, { "threads", threads, 1 }, { "computing", computing, 1 }
};
enum { part_count = sizeof parts / sizeof parts[0] };

int main(int argc, char **argv)
{
    char chosen[part_count] = { 0 };
    int any = 0, provided, usage = 0, level = MPI_THREAD_SINGLE;

    for (int i = 1; i < argc; i++) {
        int p = 0;
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc)
            total = atol(argv[++i]);
        else {
            while (p < part_count && strcmp(argv[i], parts[p].name) != 0)
                p++;
            if (p == part_count)
                usage = 1;
            else
                any = chosen[p] = 1;
            if (p < part_count && parts[p].run == threads)
                level = MPI_THREAD_MULTIPLE;
        }
    }
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (usage || ranks > 64 * most_words) {
        fprintf(stderr, "Usage: mcast [--seed N] [--count N] [PART...], by at most %d ranks; the parts are", 64 * most_words);
        for (int p = 0; p < part_count; p++)
            fprintf(stderr, " %s", parts[p].name);
        fprintf(stderr, "\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int p = 0; p < part_count; p++) {
        if (any ? !chosen[p] : parts[p].only_when_named)
            continue;
        part = parts[p].name;
        if (rank == 0) {
            printf("mcast: part %s\n", part);
            fflush(stdout);
        }
        parts[p].run();
        nothing_left(MPI_COMM_WORLD, "at the end");
    }
    long mine = atomic_load(&wrong), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("mcast: %d ranks, seed %llu, %ld wrong\n", ranks, (unsigned long long) seed, all);
    MPI_Finalize();
    return all != 0;
}
