/* Persistent collectives: every start does what the blocking collective does with the data of that moment. All of them, of several
 * datatypes, lengths and operations, in place, within and between groups, started in different orders, after what they use is freed.
 * persistent many N: N requests, all of them there at the same time. */
#include "expect.h"
#include <pthread.h>

enum { starts = 3, extra = 3, gap = 2 };

/* What a collective is called with. */
static MPI_Comm comm;
static MPI_Datatype type;
static MPI_Op op;
static MPI_Aint extent;
static int count, root, in_place, inter, me, others;    /* others: of whom there are blocks */
static int *counts, *displacements, *sendcounts, *senddisplacements, *byte_displacements;
static MPI_Aint *neighbor_displacements;
static MPI_Datatype *types;
static char *sent, *got, *expected;
static size_t bytes;

static int at_root(void) { return inter ? root == MPI_ROOT : root == me; }
static const void *s(void) { return in_place ? MPI_IN_PLACE : sent; }
/* In place at the root alone. */
static const void *root_s(void) { return in_place && at_root() ? MPI_IN_PLACE : sent; }
static void *root_r(void *to) { return in_place && at_root() ? MPI_IN_PLACE : to; }

enum { for_inter = 1, can_in_place = 2, reduces = 4, topology = 8, rooted = 16 };
#define COLLECTIVE(name, ...)                                                                                            \
    static void init_##name(void *r, MPI_Request *request) { MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, request); }   \
    static void call_##name(void *r) { MPI_##name(__VA_ARGS__); }

static void init_Barrier(void *r, MPI_Request *request) { (void)r; MPI_Barrier_init(comm, MPI_INFO_NULL, request); }
static void call_Barrier(void *r) { (void)r; MPI_Barrier(comm); }
COLLECTIVE(Bcast, r, count, type, root, comm)
COLLECTIVE(Gather, root_s(), count, type, r, count, type, root, comm)
COLLECTIVE(Gatherv, root_s(), counts[inter ? 0 : me], type, r, counts, displacements, type, root, comm)
COLLECTIVE(Scatter, sent, count, type, root_r(r), count, type, root, comm)
COLLECTIVE(Scatterv, sent, counts, displacements, type, root_r(r), counts[inter ? 0 : me], type, root, comm)
COLLECTIVE(Allgather, s(), count, type, r, count, type, comm)
COLLECTIVE(Allgatherv, s(), counts[me], type, r, counts, displacements, type, comm)
COLLECTIVE(Alltoall, s(), count, type, r, count, type, comm)
COLLECTIVE(Alltoallv, s(), sendcounts, senddisplacements, type, r, sendcounts, senddisplacements, type, comm)
COLLECTIVE(Alltoallw, s(), sendcounts, byte_displacements, types, r, sendcounts, byte_displacements, types, comm)
COLLECTIVE(Reduce, root_s(), r, count, type, op, root, comm)
COLLECTIVE(Allreduce, s(), r, count, type, op, comm)
COLLECTIVE(Reduce_scatter, s(), r, counts, type, op, comm)
COLLECTIVE(Reduce_scatter_block, s(), r, count, type, op, comm)
COLLECTIVE(Scan, s(), r, count, type, op, comm)
COLLECTIVE(Exscan, s(), r, count, type, op, comm)
COLLECTIVE(Neighbor_allgather, sent, count, type, r, count, type, comm)
COLLECTIVE(Neighbor_allgatherv, sent, count, type, r, counts, displacements, type, comm)
COLLECTIVE(Neighbor_alltoall, sent, count, type, r, count, type, comm)
COLLECTIVE(Neighbor_alltoallv, sent, counts, displacements, type, r, counts, displacements, type, comm)
COLLECTIVE(Neighbor_alltoallw, sent, counts, neighbor_displacements, types, r, counts, neighbor_displacements, types, comm)

#define NAMED(name, what) { #name, init_##name, call_##name, what }
static const struct collective {
    const char *name;
    void (*init)(void *r, MPI_Request *request);
    void (*call)(void *r);
    int what;
} collectives[] = {
    NAMED(Barrier, for_inter),
    NAMED(Bcast, for_inter | rooted),
    NAMED(Gather, for_inter | can_in_place | rooted),
    NAMED(Gatherv, can_in_place | rooted),
    NAMED(Scatter, for_inter | can_in_place | rooted),
    NAMED(Scatterv, can_in_place | rooted),
    NAMED(Allgather, for_inter | can_in_place),
    NAMED(Allgatherv, can_in_place),
    NAMED(Alltoall, for_inter | can_in_place),
    NAMED(Alltoallv, can_in_place),
    NAMED(Alltoallw, can_in_place),
    NAMED(Reduce, for_inter | can_in_place | reduces | rooted),
    NAMED(Allreduce, for_inter | can_in_place | reduces),
    NAMED(Reduce_scatter, can_in_place | reduces),
    NAMED(Reduce_scatter_block, can_in_place | reduces),
    NAMED(Scan, can_in_place | reduces),
    NAMED(Exscan, can_in_place | reduces),
    NAMED(Neighbor_allgather, topology),
    NAMED(Neighbor_allgatherv, topology),
    NAMED(Neighbor_alltoall, topology),
    NAMED(Neighbor_alltoallv, topology),
    NAMED(Neighbor_alltoallw, topology),
};
enum { collective_count = sizeof collectives / sizeof collectives[0] };

static int *ints(int n) { return calloc(n + 1, sizeof(int)); }

/* For blocks from `n` ranks, of which the datatype, count, communicator and root are set. */
static void prepare(int n)
{
    MPI_Aint lower;
    int flag;

    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Comm_test_inter(comm, &flag);
    inter = flag;
    MPI_Comm_rank(comm, &me);
    others = n;
    counts = ints(n), displacements = ints(n), sendcounts = ints(n), senddisplacements = ints(n);
    byte_displacements = ints(n);
    neighbor_displacements = calloc(n + 1, sizeof(MPI_Aint));
    types = calloc(n + 1, sizeof(MPI_Datatype));
    for (int i = 0; i < n; i++) {
        counts[i] = count + i % extra;
        sendcounts[i] = count + (i + me) % extra;
        displacements[i] = senddisplacements[i] = i * (count + extra + gap);
        byte_displacements[i] = (int)(displacements[i] * extent);
        neighbor_displacements[i] = displacements[i] * extent;
        types[i] = type;
    }
    bytes = (size_t)(n + 1) * (count + extra + gap) * extent + 64;
    sent = malloc(bytes), got = malloc(bytes), expected = malloc(bytes);
}

static void finish(void)
{
    free(counts), free(displacements), free(sendcounts), free(senddisplacements);
    free(byte_displacements), free(neighbor_displacements), free(types);
    free(sent), free(got), free(expected);
}

static void fill(int round)
{
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t value = (uint32_t)mix((uint64_t)round << 40 ^ (uint64_t)rank << 32 ^ i) & 0xffff, other = value * 3 & 0xffff;
        memcpy(sent + i, &value, 4);
        memcpy(got + i, &other, 4);
    }
    memcpy(expected, got, bytes);
}

static void compare(const struct collective *c, int round)
{
    size_t i = 0, defined = bytes;
    if (in_place && strncmp(c->name, "Reduce_scatter", 14) == 0)
        defined = (size_t)(strcmp(c->name, "Reduce_scatter") == 0 ? counts[me] : count) * extent;      /* the rest was the input */
    else if (me == 0 && strcmp(c->name, "Exscan") == 0)
        defined = 0;
    if (memcmp(got, expected, defined) == 0)
        return;
    while (got[i] == expected[i])
        i++;
    fault("%s, start %d, %d of %d bytes, root %d%s%s: byte %zu of %zu differs", c->name, round, count, (int)extent, root,
          in_place ? ", in place" : "", inter ? ", between groups" : "", i, bytes);
}

static void try(const struct collective *c)
{
    MPI_Request request;
    fill(100);
    c->init(got, &request);
    EXPECT(memcmp(got, expected, bytes) == 0, "%s_init wrote into the receive buffer", c->name);
    for (int round = 0; round < starts; round++) {
        fill(round);
        MPI_Start(&request);
        if (round % 2) {
            int done = 0;
            while (!done)
                MPI_Testall(1, &request, &done, MPI_STATUSES_IGNORE);
        } else {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        c->call(expected);
        compare(c, round);
        EXPECT(request != MPI_REQUEST_NULL, "%s: the request is gone", c->name);
    }
    MPI_Request_free(&request);
}

/* Maps x -> ax + b: their composition is associative, but not commutative. */
static void compose(void *in, void *inout, int *length, MPI_Datatype *datatype)
{
    uint32_t *a = in, *b = inout;
    (void)datatype;
    for (int i = 0; i < *length; i++, a += 2, b += 2) {
        b[1] = b[0] * a[1] + b[1];
        b[0] *= a[0];
    }
}

static void all_with(int what_is_there)
{
    int size = inter ? others : 0;
    if (!inter)
        MPI_Comm_size(comm, &size);
    for (int i = 0; i < collective_count; i++) {
        const struct collective *c = &collectives[i];
        if ((c->what & reduces) != (what_is_there & reduces) || (c->what & topology) != (what_is_there & topology) ||
            (inter && !(c->what & for_inter)))
            continue;
        for (in_place = 0; in_place <= (!inter && c->what & can_in_place ? 1 : 0); in_place++)
            for (int r = 0; r <= (c->what & rooted && size > 1 ? 1 : 0); r++) {
                if (!inter)
                    root = r ? size - 1 : 0;
                if (c->what & can_in_place && in_place && strcmp(c->name, "Alltoallw") == 0 && count > 100)
                    continue;
                try(c);
            }
    }
    in_place = 0;
}

static const int lengths[] = { 0, 1, 7, 3000 };

static void within(void)
{
    MPI_Datatype gapped, resized, pair;
    MPI_Comm reversed;
    MPI_Op composition;
    int size;

    MPI_Type_vector(2, 3, 5, MPI_INT, &gapped);
    MPI_Type_create_resized(gapped, 0, 44, &resized);
    MPI_Type_commit(&resized);
    MPI_Type_contiguous(2, MPI_UNSIGNED, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(compose, 0, &composition);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int which = 0; which < 2; which++) {
            count = lengths[i];
            comm = which ? reversed : MPI_COMM_WORLD;
            MPI_Comm_size(comm, &size);
            type = which ? resized : MPI_INT;
            prepare(size);
            all_with(0);
            finish();
            type = which ? pair : MPI_INT;
            op = which ? composition : MPI_SUM;
            prepare(size);
            all_with(reduces);
            finish();
        }
    MPI_Comm_free(&reversed);
    MPI_Op_free(&composition);
    MPI_Type_free(&pair);
    MPI_Type_free(&resized);
    MPI_Type_free(&gapped);
}

/* Every rank has two neighbours, in a ring. */
static void neighbours(void)
{
    int dimension = ranks, periodic = 1;
    MPI_Comm ring;

    MPI_Cart_create(MPI_COMM_WORLD, 1, &dimension, &periodic, 0, &ring);
    comm = ring;
    type = MPI_INT;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        count = lengths[i];
        prepare(2);
        for (int k = 0; k < 2; k++)
            counts[k] = count;
        all_with(topology);
        finish();
    }
    MPI_Comm_free(&ring);
}

static void between(void)
{
    MPI_Comm half, across;
    int upper = rank >= ranks / 2, mine, theirs;

    MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : ranks / 2, 7, &across);
    MPI_Comm_size(across, &mine);
    MPI_Comm_remote_size(across, &theirs);
    comm = across;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int root_above = 0; root_above < 2; root_above++) {
            count = lengths[i];
            type = MPI_INT;
            op = MPI_SUM;
            prepare(theirs > mine ? theirs : mine);
            root = upper != root_above ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL;
            all_with(0);
            all_with(reduces);
            finish();
        }
    inter = 0;
    MPI_Comm_free(&across);
    MPI_Comm_free(&half);
}

/* Requests are made in one order and started in any. */
static void any_order(void)
{
    enum { n = 6, many = 5000 };
    static int in[n][many], out[n][many], by[n][8 * 64];
    MPI_Request requests[n];

    for (int i = 0; i < n; i++)
        if (i % 3 == 0)
            MPI_Allreduce_init(in[i], out[i], many, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
        else if (i % 3 == 1)
            MPI_Bcast_init(out[i], many, MPI_INT, ranks - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
        else
            MPI_Allgather_init(in[i], 8, MPI_INT, by[i], 8, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
    for (int round = 0; round < 20; round++) {
        int sum_of_ranks = ranks * (ranks - 1) / 2;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < many; k++)
                in[i][k] = rank + i + k + round, out[i][k] = rank == ranks - 1 ? 5 * i + k + round : -1;
        if (rank % 2 == 0)
            MPI_Startall(n, requests);
        else
            for (int i = n - 1; i >= 0; i--)
                MPI_Start(&requests[i]);
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < many; k++)
                if (i % 3 == 0)
                    EXPECT(out[i][k] == sum_of_ranks + ranks * (i + k + round), "sum %d is %d in round %d", i, out[i][k], round);
                else if (i % 3 == 1)
                    EXPECT(out[i][k] == 5 * i + k + round, "broadcast %d is %d in round %d", i, out[i][k], round);
                else if (k < 8 * ranks)
                    EXPECT(by[i][k] == k / 8 + i + k % 8 + round, "gathered %d is %d in round %d", i, by[i][k], round);
    }
    for (int i = 0; i < n; i++)
        MPI_Request_free(&requests[i]);
}

/* Each rank starts them in an order of its own, another one each time, and nobody waits for others between two starts: some are far ahead. */
static void often(void)
{
    enum { n = 7, longest = 20000, rounds = 1000 };
    static const int lengths_of[n] = { 1, 0, 700, 2, 1, longest, 9 };
    static int in[n][longest], out[n][longest];
    MPI_Request requests[n];
    int order[n];

    for (int i = 0; i < n; i++)
        if (i == 1)
            MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
        else if (i % 2)
            MPI_Bcast_init(out[i], lengths_of[i], MPI_INT, i % ranks, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
        else
            MPI_Allreduce_init(i == 4 ? MPI_IN_PLACE : in[i], out[i], lengths_of[i], MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
    for (int round = 0; round < rounds; round++) {
        int skipped = round % 50 ? 5 : n;       /* the long one now and then */
        for (int i = 0; i < n; i++) {
            order[i] = i;
            for (int k = 0; i != skipped && k < lengths_of[i]; k++)
                in[i][k] = rank + i + k + round, out[i][k] = i == 4 ? in[i][k] : i % 2 && rank == i % ranks ? 3 * i + k + round : -1;
        }
        for (int i = n - 1; i > 0; i--) {
            int other = (int) (mix((uint64_t) round * 100 + (uint64_t) rank * 7919 + (uint64_t) i) % (uint64_t) (i + 1)), one = order[i];
            order[i] = order[other], order[other] = one;
        }
        for (int i = 0; i < n; i++)
            if (order[i] != skipped)
                MPI_Start(&requests[order[i]]);
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n; i++)
            for (int k = 0; i != skipped && k < lengths_of[i]; k++)
                if (i % 2)
                    EXPECT(out[i][k] == 3 * i + k + round, "broadcast %d is %d in round %d", i, out[i][k], round);
                else
                    EXPECT(out[i][k] == ranks * (ranks - 1) / 2 + ranks * (i + k + round), "sum %d is %d in round %d", i, out[i][k], round);
    }
    for (int i = 0; i < n; i++)
        MPI_Request_free(&requests[i]);
}

/* More than there are boards for: some go another way, the same at all ranks. Freed in any order, and made again. */
static int live = 1000;
static void many(void)
{
    enum { at_once = 100 };
    MPI_Request *requests = malloc((size_t) live * sizeof *requests);
    int *values = malloc(2 * (size_t) live * sizeof *values);

    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < live; i++)
            if (i % 3)
                MPI_Allreduce_init(&values[2 * i], &values[2 * i + 1], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
            else
                MPI_Bcast_init(&values[2 * i + 1], 1, MPI_INT, i % ranks, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < live; i++) {
                values[2 * i] = rank + i + round;
                values[2 * i + 1] = i % 3 == 0 && rank == i % ranks ? i + round : -1;
            }
            for (int first = 0; first < live; first += at_once) {
                int n = live - first < at_once ? live - first : at_once;
                if (rank % 2)
                    for (int i = n - 1; i >= 0; i--)
                        MPI_Start(&requests[first + i]);
                else
                    MPI_Startall(n, requests + first);
                MPI_Waitall(n, requests + first, MPI_STATUSES_IGNORE);
            }
            for (int i = 0; i < live; i++)
                EXPECT(values[2 * i + 1] == (i % 3 ? ranks * (ranks - 1) / 2 + ranks * (i + round) : i + round), "request %d of %d, round %d: %d", i, live,
                       round, values[2 * i + 1]);
        }
        for (int i = 0; i < live; i++)
            MPI_Request_free(&requests[rank % 2 ? live - 1 - i : i]);
    }
    free(requests);
    free(values);
}

/* What a request uses may be freed by the user before it starts. */
static void freed(void)
{
    enum { n = 40 };
    MPI_Comm mine;
    MPI_Datatype pair;
    MPI_Op composition;
    MPI_Request requests[3];
    uint32_t in[2 * n], out[2 * n], reference[2 * n], gathered[2 * n * 64];
    int counts_of[64], displacements_of[64];

    MPI_Comm_dup(MPI_COMM_WORLD, &mine);
    MPI_Type_contiguous(2, MPI_UNSIGNED, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(compose, 0, &composition);
    for (int i = 0; i < ranks; i++)
        counts_of[i] = n, displacements_of[i] = i * n;
    MPI_Allreduce_init(in, out, n, pair, composition, mine, MPI_INFO_NULL, &requests[0]);
    MPI_Allgatherv_init(in, n, pair, gathered, counts_of, displacements_of, pair, mine, MPI_INFO_NULL, &requests[1]);
    MPI_Barrier_init(mine, MPI_INFO_NULL, &requests[2]);
    MPI_Type_free(&pair);
    MPI_Op_free(&composition);
    MPI_Comm_free(&mine);
    for (int round = 0; round < starts; round++) {
        MPI_Datatype same;
        MPI_Op again;
        for (int i = 0; i < 2 * n; i++)
            in[i] = (uint32_t)mix((uint64_t)round * 1000 + i + 7 * rank);
        MPI_Startall(3, requests);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        MPI_Type_contiguous(2, MPI_UNSIGNED, &same);
        MPI_Type_commit(&same);
        MPI_Op_create(compose, 0, &again);
        MPI_Allreduce(in, reference, n, same, again, MPI_COMM_WORLD);
        MPI_Op_free(&again);
        MPI_Type_free(&same);
        EXPECT(memcmp(out, reference, sizeof out) == 0, "start %d: wrong sum", round);
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i < 2 * n; i++)
                EXPECT(gathered[2 * n * r + i] == (uint32_t)mix((uint64_t)round * 1000 + i + 7 * r), "start %d: wrong element %d of %d", round, i, r);
    }
    /* One is freed while it runs. */
    MPI_Start(&requests[2]);
    for (int i = 0; i < 3; i++)
        MPI_Request_free(&requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Requests that are not active count for nobody, and one that was something else before is a collective, and starts. */
static void inactive(void)
{
    MPI_Request requests[2], nothing;
    MPI_Status status;
    int index, flag, value = rank == 0 ? 42 : 0, outcount, indices[2], sum = -1, one = 1;

    MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &nothing);
    MPI_Request_free(&nothing);
    MPI_Bcast_init(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Waitany(2, requests, &index, &status);
    EXPECT(index == MPI_UNDEFINED, "MPI_Waitany found request %d, and none is active", index);
    MPI_Waitsome(2, requests, &outcount, indices, MPI_STATUSES_IGNORE);
    EXPECT(outcount == MPI_UNDEFINED, "MPI_Waitsome found %d requests, and none is active", outcount);
    MPI_Testany(2, requests, &index, &flag, &status);
    EXPECT(flag && index == MPI_UNDEFINED, "MPI_Testany found request %d, and none is active", index);
    MPI_Start(&requests[1]);
    MPI_Waitany(2, requests, &index, &status);
    EXPECT(index == 1 && sum == ranks, "MPI_Waitany found request %d, sum %d", index, sum);
    MPI_Start(&requests[0]);
    MPI_Wait(&requests[0], &status);
    EXPECT(value == 42, "the value is %d", value);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* Threads start requests of one communicator at the same time. */
enum { threads = 4 };
static MPI_Request of_thread[threads];
static int thread_in[threads][500], thread_out[threads][500];

static void *start_often(void *argument)
{
    int me_too = (int)(intptr_t)argument;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 500; i++)
            thread_in[me_too][i] = rank * (me_too + 1) + i + round;
        MPI_Start(&of_thread[me_too]);
        MPI_Wait(&of_thread[me_too], MPI_STATUS_IGNORE);
        for (int i = 0; i < 500; i++)
            EXPECT(thread_out[me_too][i] == ranks * (ranks - 1) / 2 * (me_too + 1) + ranks * (i + round), "thread %d, round %d: element %d is %d",
                   me_too, round, i, thread_out[me_too][i]);
    }
    return NULL;
}

static void with_threads(void)
{
    pthread_t thread[threads];
    int level;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE)
        return;
    for (int i = 0; i < threads; i++)
        MPI_Allreduce_init(thread_in[i], thread_out[i], 500, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &of_thread[i]);
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, start_often, (void *)(intptr_t)i);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < threads; i++)
        MPI_Request_free(&of_thread[i]);
}

int main(int argc, char **argv)
{
    const struct part parts[] = {
        { "within", within, 1, 0 },
        { "neighbours", neighbours, 1, 0 },
        { "between", between, 2, 0 },
        { "any_order", any_order, 1, 0 },
        { "often", often, 1, 0 },
        { "many", many, 1, 1 },
        { "freed", freed, 1, 0 },
        { "inactive", inactive, 1, 0 },
        { "with_threads", with_threads, 1, 0 },
    };
    int provided;
    if (argc > 2 && strcmp(argv[1], "many") == 0)
        live = atoi(argv[2]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    int status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
