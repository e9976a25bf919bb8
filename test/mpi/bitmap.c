/* The collectives on bitmaps: every set of a seeded choice, every root, sizes on both sides of where algorithms change, types with
 * gaps, operations that mind the order, MPI_IN_PLACE, overlapping sets in one order everywhere, other traffic in between, wrong
 * arguments. Exit status 0 only when every result is right. SEED=... chooses other sets. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { most_ranks = 256, large = 25000, gap = 0x7eeeeeee };

static MPI_Comm comm;
static int rank, ranks;
static long wrong;
static uint64_t state;
static unsigned call;           /* makes the data of every collective different; the same at all ranks */

static unsigned random_below(unsigned limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned) ((state >> 33) % limit);
}

/* A failure is told once; the rest is only counted. */
static void expect(int fine, const char *what)
{
    static int told;

    if (!fine && told++ < 3)
        fprintf(stderr, "bitmap: rank %d of %d, call %u: %s\n", rank, ranks, call, what);
    wrong += !fine;
}

/* A set of ranks, and our number among its members or -1. */
typedef struct {
    MPIX_Bitmap bits[MPIX_BITMAP_WORDS(most_ranks)];
    int size, me, list[most_ranks];
} set_t;

static void add(set_t * set, int member)
{
    MPIX_Bitmap_set(set->bits, member);
}

static set_t *counted(set_t * set)
{
    set->size = 0;
    set->me = -1;
    for (int r = MPIX_Bitmap_next(set->bits, ranks, -1); r >= 0; r = MPIX_Bitmap_next(set->bits, ranks, r)) {
        if (r == rank)
            set->me = set->size;
        set->list[set->size++] = r;
    }
    expect(set->size == MPIX_Bitmap_count(set->bits, ranks), "the members are counted");
    return set;
}

static set_t empty_set(void)
{
    set_t set;

    memset(&set, 0, sizeof set);
    MPIX_Bitmap_zero(set.bits, ranks);
    return set;
}

static set_t single(int member)
{
    set_t set = empty_set();

    add(&set, member);
    return *counted(&set);
}

static set_t every(int step)
{
    set_t set = empty_set();

    for (int r = 0; r < ranks; r += step)
        add(&set, r);
    return *counted(&set);
}

static set_t any(void)
{
    set_t set = empty_set();
    unsigned share = 1 + random_below(8);

    add(&set, (int) random_below(ranks));
    for (int r = 0; r < ranks; r++)
        if (random_below(8) < share)
            add(&set, r);
    return *counted(&set);
}

/* An element: which ints of its extent belong to it. */
typedef struct {
    MPI_Datatype type;
    int ints, offsets[3], extent;
} layout_t;

enum { whole, vector, shifted, pair, displaced, layout_count };
static layout_t layouts[layout_count] = {
    [whole] = {.ints = 1,.offsets = {0},.extent = 1},
    [vector] = {.ints = 3,.offsets = {0, 2, 4},.extent = 5},
    [shifted] = {.ints = 2,.offsets = {3, 5},.extent = 7},      /* lower bound 1, begins at 3 */
    [pair] = {.ints = 2,.offsets = {0, 1},.extent = 2},
    [displaced] = {.ints = 2,.offsets = {2, 3},.extent = 2}     /* without gaps, but not where the buffer begins */
};

static void make_layouts(void)
{
    MPI_Datatype unshifted;

    layouts[whole].type = MPI_INT;
    MPI_Type_vector(3, 1, 2, MPI_INT, &layouts[vector].type);
    MPI_Type_create_indexed_block(2, 1, layouts[shifted].offsets, MPI_INT, &unshifted);
    MPI_Type_create_resized(unshifted, sizeof(int), 7 * sizeof(int), &layouts[shifted].type);
    MPI_Type_free(&unshifted);
    MPI_Type_contiguous(2, MPI_INT, &layouts[pair].type);
    MPI_Type_create_indexed_block(1, 2, layouts[displaced].offsets, MPI_INT, &layouts[displaced].type);
    for (int i = vector; i < layout_count; i++)
        MPI_Type_commit(&layouts[i].type);
}

/* Room for elements, with one extent more because of the shifted; all of it gaps. */
static int *room(const layout_t * layout, int elements)
{
    long ints = (long) (elements + 1) * layout->extent;
    int *buffer = malloc(ints * sizeof(int));

    for (long i = 0; i < ints; i++)
        buffer[i] = gap;
    return buffer;
}

/* Small numbers: their sums fit. */
static int value(int from, int to, long i)
{
    return (int) ((from * 7919u + to * 104729u + call * 31u + (unsigned) i * 17u) % 100003u);
}

/* Elements from..., of block `to`. */
static void fill(int *buffer, const layout_t * layout, long first, int elements, int from, int to)
{
    for (long i = 0; i < elements; i++)
        for (int k = 0; k < layout->ints; k++)
            buffer[(first + i) * layout->extent + layout->offsets[k]] = value(from, to, i * layout->ints + k);
}

static int *filled(const layout_t * layout, int elements, int from, int to)
{
    int *buffer = room(layout, elements);

    fill(buffer, layout, 0, elements, from, to);
    return buffer;
}

/* Everything is as in `right`, the gaps too. Frees both. */
static void compare(int *buffer, int *right, const layout_t * layout, int elements, const char *what)
{
    long ints = (long) (elements + 1) * layout->extent, i = 0;

    while (i < ints && buffer[i] == right[i])
        i++;
    expect(i == ints, what);
    free(buffer);
    free(right);
}

static void success(int result, const char *what)
{
    expect(result == MPI_SUCCESS, what);
}

static void check_bcast(const set_t * set, int root, const layout_t * layout, int count)
{
    int *right = filled(layout, count, root, 0);
    int *buffer = rank == root ? filled(layout, count, root, 0) : room(layout, count);

    success(MPIX_Bitmap_bcast(buffer, count, layout->type, root, set->bits, comm), "bcast");
    compare(buffer, right, layout, count, "result of bcast");
}

/* (a, b) stands for x -> a x + b; one after the other: the order counts. */
static void compose(void *left, void *right, int *count, MPI_Datatype * type)
{
    const layout_t *layout = layouts;

    while (layout->type != *type)
        layout++;
    for (int i = 0; i < *count; i++) {
        unsigned *l = (unsigned *) left + (long) i * layout->extent, *r = (unsigned *) right + (long) i * layout->extent;
        unsigned a = l[layout->offsets[0]], b = l[layout->offsets[1]];
        r[layout->offsets[1]] += r[layout->offsets[0]] * b;
        r[layout->offsets[0]] *= a;
    }
}

static void add_up(void *left, void *right, int *count, MPI_Datatype * type)
{
    for (int i = 0; i < *count; i++)
        for (int k = 0; k < 3; k++) {
            long at = (long) i * layouts[vector].extent + layouts[vector].offsets[k];
            ((int *) right)[at] += ((int *) left)[at];
        }
    (void) type;
}

static MPI_Op compose_op, add_up_op;

/* Sums where the layout is whole or vector, compositions elsewhere. */
static int *reduced(const set_t * set, const layout_t * layout, int count)
{
    int *result = filled(layout, count, set->list[0], 0);
    MPI_Datatype type = layout->type;

    for (int m = 1; m < set->size; m++) {
        int *next = filled(layout, count, set->list[m], 0);
        if (layout == &layouts[vector])
            add_up(result, next, &count, &type);
        else if (layout == &layouts[whole])
            for (int i = 0; i < count; i++)
                next[i] += result[i];
        else
            compose(result, next, &count, &type);
        free(result);
        result = next;
    }
    return result;
}

static MPI_Op op_for(const layout_t * layout)
{
    return layout == &layouts[whole] ? MPI_SUM : layout == &layouts[vector] ? add_up_op : compose_op;
}

static void check_reduce(const set_t * set, int root, const layout_t * layout, int count, int in_place)
{
    int *own = filled(layout, count, rank, 0);

    if (rank != root) {
        success(MPIX_Bitmap_reduce(own, NULL, count, layout->type, op_for(layout), root, set->bits, comm), "reduce");
        compare(own, filled(layout, count, rank, 0), layout, count, "operand of reduce");
    } else if (in_place) {
        success(MPIX_Bitmap_reduce(MPI_IN_PLACE, own, count, layout->type, op_for(layout), root, set->bits, comm),
                "reduce in place");
        compare(own, reduced(set, layout, count), layout, count, "result of reduce in place");
    } else {
        int *result = room(layout, count);
        success(MPIX_Bitmap_reduce(own, result, count, layout->type, op_for(layout), root, set->bits, comm), "reduce");
        compare(result, reduced(set, layout, count), layout, count, "result of reduce");
        compare(own, filled(layout, count, rank, 0), layout, count, "operand of reduce");
    }
}

static void check_allreduce(const set_t * set, const layout_t * layout, int count, int in_place)
{
    int *own = filled(layout, count, rank, 0), *result = in_place ? own : room(layout, count);

    success(MPIX_Bitmap_allreduce(in_place ? MPI_IN_PLACE : own, result, count, layout->type, op_for(layout), set->bits, comm),
            "allreduce");
    compare(result, reduced(set, layout, count), layout, count, "result of allreduce");
    if (!in_place)
        free(own);
}

/* Sums of doubles depend on the order of the additions: all must have added in the same one. */
static void check_same_bits(const set_t * set, int count)
{
    double *own = calloc(count, sizeof(double)), *result = calloc(count, sizeof(double)), all[most_ranks], mine = 0;

    for (int i = 0; i < count; i++)
        own[i] = 1.0 / (value(rank, 1, i) + 1) - 1e-7 * rank;
    success(MPIX_Bitmap_allreduce(own, result, count, MPI_DOUBLE, MPI_SUM, set->bits, comm), "allreduce");
    for (int i = 0; i < count; i++)
        mine += (i % 101 + 1) * result[i];
    success(MPIX_Bitmap_allgather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, set->bits, comm), "allgather");
    for (int m = 0; m < set->size; m++)
        expect(memcmp(&all[m], &mine, sizeof mine) == 0, "the bits of a sum of doubles");
    free(own);
    free(result);

    struct { double number; int from; } place = { (rank * 7 + call) % ranks, rank }, best;
    double highest = -1;
    success(MPIX_Bitmap_allreduce(&place, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, set->bits, comm), "allreduce");
    for (int m = 0; m < set->size; m++)
        if ((set->list[m] * 7 + call) % ranks > highest)
            highest = (set->list[m] * 7 + call) % ranks;
    expect(best.number == highest && MPIX_Bitmap_test(set->bits, best.from), "the place of the maximum");
}

/* Gather and the like send elements of one layout and receive them as ints of another: `whole`, as many of them. */
static void check_gather(const set_t * set, int root, const layout_t * layout, int count, int in_place)
{
    int ints = count * layout->ints;
    int *own = filled(layout, count, rank, 0);

    if (rank != root) {
        success(MPIX_Bitmap_gather(own, count, layout->type, NULL, -1, MPI_DATATYPE_NULL, root, set->bits, comm), "gather");
    } else {
        int *all = room(&layouts[whole], ints * set->size), *right = room(&layouts[whole], ints * set->size);
        for (int m = 0; m < set->size; m++)
            fill(right, &layouts[whole], (long) m * ints, ints, set->list[m], 0);
        if (in_place)
            fill(all, &layouts[whole], (long) set->me * ints, ints, rank, 0);
        success(MPIX_Bitmap_gather(in_place ? MPI_IN_PLACE : own, count, layout->type, all, ints, MPI_INT, root, set->bits, comm),
                "gather at the root");
        compare(all, right, &layouts[whole], ints * set->size, "result of gather");
    }
    free(own);
}

static void check_scatter(const set_t * set, int root, const layout_t * layout, int count, int in_place)
{
    int ints = count * layout->ints;
    int *own = room(&layouts[whole], ints), *right = filled(&layouts[whole], ints, root, rank);

    if (rank != root) {
        success(MPIX_Bitmap_scatter(NULL, -1, MPI_DATATYPE_NULL, own, ints, MPI_INT, root, set->bits, comm), "scatter");
        compare(own, right, &layouts[whole], ints, "result of scatter");
        return;
    }
    int *all = room(layout, count * set->size);
    for (int m = 0; m < set->size; m++)
        fill(all, layout, (long) m * count, count, rank, set->list[m]);
    success(MPIX_Bitmap_scatter(all, count, layout->type, in_place ? MPI_IN_PLACE : (void *) own, ints, MPI_INT, root, set->bits,
                                comm), "scatter at the root");
    if (in_place) {
        free(own);
        own = filled(&layouts[whole], ints, root, rank);
    }
    compare(own, right, &layouts[whole], ints, "result of scatter at the root");
    free(all);
}

static void check_allgather(const set_t * set, const layout_t * layout, int count, int in_place)
{
    int ints = count * layout->ints;
    int *own = filled(&layouts[whole], ints, rank, 0);
    int *all = room(layout, count * set->size), *right = room(layout, count * set->size);

    for (int m = 0; m < set->size; m++)
        fill(right, layout, (long) m * count, count, set->list[m], 0);
    if (in_place)
        fill(all, layout, (long) set->me * count, count, rank, 0);
    success(MPIX_Bitmap_allgather(in_place ? MPI_IN_PLACE : own, ints, MPI_INT, all, count, layout->type, set->bits, comm),
            "allgather");
    compare(all, right, layout, count * set->size, "result of allgather");
    free(own);
}

static void check_alltoall(const set_t * set, const layout_t * layout, int count, int in_place)
{
    int ints = count * layout->ints;
    int *out = room(&layouts[whole], ints * set->size);
    int *in = room(layout, count * set->size), *right = room(layout, count * set->size);

    for (int m = 0; m < set->size; m++) {
        fill(out, &layouts[whole], (long) m * ints, ints, rank, set->list[m]);
        fill(right, layout, (long) m * count, count, set->list[m], rank);
        if (in_place)
            fill(in, layout, (long) m * count, count, rank, set->list[m]);
    }
    success(MPIX_Bitmap_alltoall(in_place ? MPI_IN_PLACE : out, ints, MPI_INT, in, count, layout->type, set->bits, comm),
            "alltoall");
    compare(in, right, layout, count * set->size, "result of alltoall");
    free(out);
}

enum { kinds = 8 };

/* One collective of a kind, by a member. Ranks that are no members only count. */
static void check_one(int kind, const set_t * set, int root, const layout_t * layout, int count, int in_place)
{
    call++;
    if (set->me < 0)
        return;
    switch (kind) {
        case 0: success(MPIX_Bitmap_barrier(set->bits, comm), "barrier"); break;
        case 1: check_bcast(set, root, layout, count); break;
        case 2: check_reduce(set, root, layout, count, in_place); break;
        case 3: check_allreduce(set, layout, count, in_place); break;
        case 4: check_gather(set, root, layout, count, in_place); break;
        case 5: check_scatter(set, root, layout, count, in_place); break;
        case 6: check_allgather(set, layout, count, in_place); break;
        case 7: check_alltoall(set, layout, count, in_place); break;
    }
}

static int has_root(int kind)
{
    return kind == 1 || kind == 2 || kind == 4 || kind == 5;
}

/* Everything on one set, by every root that is asked for. */
static void check_set(const set_t * set, int all_roots)
{
    static const int counts[] = { 0, 1, 7, 301 };

    for (int kind = 0; kind < kinds; kind++) {
        int roots = !has_root(kind) ? 1 : all_roots ? set->size : 2;
        for (int i = 0; i < roots; i++) {
            int root = set->list[all_roots ? i : (int) random_below(set->size)];
            for (int c = 0; c < 4; c++)
                check_one(kind, set, root, &layouts[(c + i) % layout_count], counts[c], (c + i / 4) % 2);
        }
    }
    call++;
    if (set->me >= 0)
        check_same_bits(set, 3);
}

static void check_large(const set_t * set)
{
    for (int i = 0; i < layout_count; i++)
        check_one(1, set, set->list[random_below(set->size)], &layouts[i], large / layouts[i].ints, 0);
    for (int kind = 1; kind < kinds; kind++) {
        int first = (int) random_below(layout_count);
        check_one(kind, set, set->list[random_below(set->size)], &layouts[first], large / layouts[first].ints, kind % 2);
        /* 20 to 60 KB: by tree and doubling still, but not in one piece everywhere */
        check_one(kind, set, set->list[random_below(set->size)], &layouts[(first + 1) % layout_count], 5000, 1 - kind % 2);
    }
    call++;
    if (set->me >= 0)
        check_same_bits(set, 4001);
}

/* Nobody may leave a barrier before the last has come. Arrivals are counted at rank 0, a counter a set. */
static void check_barriers(void)
{
    enum { sets = 6, rounds = 5 };
    MPI_Win win;
    int *counters;

    MPI_Win_allocate(sets * sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &counters, &win);
    for (int s = 0; s < sets; s++)
        counters[s] = 0;
    MPI_Win_lock_all(0, win);
    MPI_Barrier(comm);
    for (int s = 0; s < sets; s++) {
        set_t set = s == 0 ? every(1) : any();
        for (int i = 1; i <= rounds; i++) {
            int one = 1, zero = 0, seen = 0;
            int late = set.list[random_below(set.size)];
            if (set.me < 0)
                continue;
            for (volatile long spin = 0; rank == late && spin < 100000; spin++) ;
            MPI_Accumulate(&one, 1, MPI_INT, 0, s, 1, MPI_INT, MPI_SUM, win);
            MPI_Win_flush(0, win);
            success(MPIX_Bitmap_barrier(set.bits, comm), "barrier");
            MPI_Fetch_and_op(&zero, &seen, MPI_INT, 0, s, MPI_NO_OP, win);
            MPI_Win_flush(0, win);
            expect(seen >= i * set.size, "a barrier was left before all had come");
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* Collectives on overlapping sets, one after the other without a pause, in the same order everywhere. Meanwhile a receive for
 * anything is open that only its own message may match, and the whole communicator broadcasts, also without blocking. */
static void check_overlap(int rounds)
{
    for (int i = 0; i < rounds; i++) {
        MPI_Request requests[3];
        int right = (rank + 1) % ranks, left = (rank - 1 + ranks) % ranks, got = -1, sent = rank + i;
        int news = -1, later = rank == i % ranks ? i : -1;
        MPI_Status status;

        MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
        MPI_Ibcast(&later, 1, MPI_INT, i % ranks, comm, &requests[1]);
        for (int k = 0; k < 6; k++) {
            set_t set = any();
            int kind = (int) random_below(kinds), root = set.list[random_below(set.size)];
            const layout_t *layout = &layouts[random_below(layout_count)];
            int count = (int) random_below(40), in_place = (int) random_below(2);
            check_one(kind, &set, root, layout, count, in_place);
            if (k == 2) {
                news = rank == i % ranks ? i : -1;
                MPI_Bcast(&news, 1, MPI_INT, i % ranks, comm);
                expect(news == i, "a broadcast in between");
            }
        }
        /* also with numbers that collectives use as tags */
        MPI_Isend(&sent, 1, MPI_INT, right, (257 + i) % 300, comm, &requests[2]);
        MPI_Wait(&requests[0], &status);
        MPI_Waitall(2, &requests[1], MPI_STATUSES_IGNORE);
        expect(got == left + i && status.MPI_TAG == (257 + i) % 300 && status.MPI_SOURCE == left, "a message in between");
        expect(later == i, "a broadcast that does not block, in between");
    }
}

static void expect_class(int result, int class, const char *what)
{
    int got = MPI_SUCCESS;

    if (result != MPI_SUCCESS)
        MPI_Error_class(result, &got);
    expect(got == class, what);
}

/* A call of each kind with good arguments, but for those given. */
static int call_of(int kind, void *buffer, int count, MPI_Datatype type, int root, const MPIX_Bitmap * bits, MPI_Comm on)
{
    static int other[64];

    switch (kind) {
        case 0: return MPIX_Bitmap_barrier(bits, on);
        case 1: return MPIX_Bitmap_bcast(buffer, count, type, root, bits, on);
        case 2: return MPIX_Bitmap_reduce(other, buffer, count, type, MPI_SUM, root, bits, on);
        case 3: return MPIX_Bitmap_allreduce(buffer, other, count, type, MPI_SUM, bits, on);
        case 4: return MPIX_Bitmap_gather(other, 1, MPI_INT, buffer, count, type, root, bits, on);
        case 5: return MPIX_Bitmap_scatter(buffer, count, type, other, 1, MPI_INT, root, bits, on);
        case 6: return MPIX_Bitmap_allgather(buffer, count, type, other, 1, MPI_INT, bits, on);
        default: return MPIX_Bitmap_alltoall(other, 1, MPI_INT, buffer, count, type, bits, on);
    }
}

/* Nothing may be sent for these: each rank makes them alone, and the collectives that follow would notice. */
static void check_errors(void)
{
    set_t mine = single(rank), other = single((rank + 1) % ranks), beyond = mine, none = empty_set();
    int buffer[4] = { 1, 2, 3, 4 }, elsewhere[4] = { 5, 6, 7, 8 };
    MPI_Datatype uncommitted, nothing;
    MPI_Comm between = MPI_COMM_NULL;

    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    if (ranks > 1) {
        MPI_Comm half;
        MPI_Comm_split(comm, rank % 2, rank, &half);
        MPI_Intercomm_create(half, 0, comm, 1 - rank % 2, 5, &between);
        MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN);
        MPI_Comm_free(&half);
    }
    MPIX_Bitmap_set(beyond.bits, ranks);
    for (int kind = 0; kind < kinds; kind++) {
        call++;
        expect_class(call_of(kind, buffer, 1, MPI_INT, rank, mine.bits, comm), MPI_SUCCESS, "alone");
        expect_class(call_of(kind, buffer, 1, MPI_INT, rank, none.bits, comm), MPI_SUCCESS, "an empty set");
        if (ranks % 64 != 0)
            expect_class(call_of(kind, buffer, 1, MPI_INT, rank, beyond.bits, comm), MPI_ERR_RANK, "a bit too far");
        if (ranks > 1) {
            expect_class(call_of(kind, buffer, 1, MPI_INT, (rank + 1) % ranks, other.bits, comm), MPI_ERR_RANK,
                         "a set without the caller");
            if (has_root(kind))
                expect_class(call_of(kind, buffer, 1, MPI_INT, (rank + 1) % ranks, mine.bits, comm), MPI_ERR_ROOT,
                             "a set without the root");
            expect_class(call_of(kind, buffer, 1, MPI_INT, 0, mine.bits, between), MPI_ERR_COMM, "an intercommunicator");
        }
        expect_class(call_of(kind, buffer, 1, MPI_INT, rank, NULL, comm), MPI_ERR_ARG, "no bitmap");
        if (has_root(kind)) {
            expect_class(call_of(kind, buffer, 1, MPI_INT, -1, mine.bits, comm), MPI_ERR_ROOT, "root -1");
            expect_class(call_of(kind, buffer, 1, MPI_INT, ranks, mine.bits, comm), MPI_ERR_ROOT, "a root too far");
        }
        if (kind == 0)
            continue;
        expect_class(call_of(kind, buffer, -1, MPI_INT, rank, mine.bits, comm), MPI_ERR_COUNT, "count -1");
        expect_class(call_of(kind, buffer, 1, MPI_DATATYPE_NULL, rank, mine.bits, comm), MPI_ERR_TYPE, "no datatype");
        expect_class(call_of(kind, buffer, 1, uncommitted, rank, mine.bits, comm), MPI_ERR_TYPE, "a datatype not committed");
        expect_class(call_of(kind, NULL, 1, MPI_INT, rank, mine.bits, comm), MPI_ERR_BUFFER, "no buffer");
        if (kind != 3 && kind != 6)
            expect_class(call_of(kind, MPI_IN_PLACE, 1, MPI_INT, rank, mine.bits, comm), MPI_ERR_BUFFER, "a wrong MPI_IN_PLACE");
    }
    expect_class(MPIX_Bitmap_bcast(buffer, 3000000000, nothing, rank, mine.bits, comm), MPI_SUCCESS, "a large count");
    expect_class(MPIX_Bitmap_allreduce(buffer, elsewhere, 1, MPI_INT, MPI_OP_NULL, mine.bits, comm), MPI_ERR_OP, "no operation");
    expect_class(MPIX_Bitmap_allreduce(buffer, elsewhere, 1, layouts[pair].type, MPI_SUM, mine.bits, comm), MPI_ERR_OP,
                 "a sum of a datatype that has none");
    expect_class(MPIX_Bitmap_allreduce(buffer, buffer, 1, MPI_INT, MPI_SUM, mine.bits, comm), MPI_ERR_BUFFER, "one buffer");
    MPI_Type_free(&uncommitted);
    MPI_Type_free(&nothing);
    if (ranks > 1) {
        /* Different sizes are told to the one who misses something, and are over then. */
        set_t both = single(0);
        add(&both, 1);
        counted(&both);
        if (rank == 0)
            success(MPIX_Bitmap_bcast(buffer, 2, MPI_INT, 0, both.bits, comm), "bcast of two");
        if (rank == 1)
            expect(MPIX_Bitmap_bcast(buffer, 3, MPI_INT, 0, both.bits, comm) != MPI_SUCCESS, "two are not three");
        MPI_Comm_free(&between);
    }
    set_t all = every(1);
    for (int kind = 0; kind < kinds; kind++)
        check_one(kind, &all, 0, &layouts[whole], 5, 0);
}

static void check_all(void)
{
    set_t all = every(1), thirds = every(3), ends = single(0);

    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    add(&ends, ranks - 1);
    counted(&ends);
    for (int r = 0; r < ranks; r++) {
        set_t one = single(r);
        check_set(&one, 1);
    }
    check_set(&all, 1);
    check_set(&thirds, 1);
    check_set(&ends, 1);
    for (int i = 0; i < 6; i++) {
        set_t set = any();
        check_set(&set, 0);
    }
    check_large(&all);
    check_large(&thirds);
    for (int i = 0; i < 2; i++) {
        set_t set = any();
        check_large(&set);
    }
    check_barriers();
    check_overlap(30);
    check_errors();
}

int main(int argc, char **argv)
{
    const char *seed = getenv("SEED");

    MPI_Init(&argc, &argv);
    make_layouts();
    MPI_Op_create(compose, 0, &compose_op);
    MPI_Op_create(add_up, 1, &add_up_op);
    state = seed ? strtoull(seed, NULL, 0) : 20;
    comm = MPI_COMM_WORLD;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    if (ranks >= most_ranks) {
        fprintf(stderr, "bitmap: up to %d ranks\n", most_ranks - 1);
        MPI_Abort(comm, 1);
    }
    check_all();

    /* Ranks in another order than in MPI_COMM_WORLD. */
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    MPI_Comm_rank(comm, &rank);
    check_overlap(10);
    MPI_Comm_free(&comm);

    MPI_Op_free(&compose_op);
    MPI_Op_free(&add_up_op);
    for (int i = vector; i < layout_count; i++)
        MPI_Type_free(&layouts[i].type);
    long all = 0;
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("bitmap: %d ranks, %ld wrong\n", ranks, all);
    MPI_Finalize();
    return all != 0;
}
