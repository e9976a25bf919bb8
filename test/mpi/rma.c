/* Usage: rma [PART...] [--rounds N] [--seed N] [--create] [--alloc]
 * MPI's one-sided operations and synchronisation: totals under contention, sequences by seed against a model, what is visible when, errors.
 * --create: on memory of the program's own instead of MPI_Win_allocate's; --alloc: on that of MPI_Alloc_mem. Exit status 0 only when all is right. */
#include "expect.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static long rounds = 2000;
static unsigned long seed = 1;
static int create, alloc;

static char *memory;
static MPI_Win win;

static void open_window(MPI_Aint bytes, int unit)
{
    if (create) {
        memory = malloc((size_t) bytes + 1);
        MPI_Win_create(memory, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    } else if (alloc) {
        MPI_Alloc_mem(bytes + 1, MPI_INFO_NULL, &memory);
        MPI_Win_create(memory, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    } else {
        MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    }
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    memset(memory, 0, (size_t) bytes);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void close_window(void)
{
    MPI_Win_free(&win);
    if (create)
        free(memory);
    if (alloc)
        MPI_Free_mem(memory);
}

/* --- everything is counted ---------------------------------------------------------------------------------------------- */

typedef struct {
    long counter, spinning, guarded, swapped;
    int shorts[3];
    double real;
    long double wide;
    struct { double value; int where; } best;
    short small[5];
    float array[100];
} shared_t;

/* All ranks do everything to the same places of one target at once; nothing may be lost. */
static void totals(void)
{
    shared_t *mine;
    const int target = ranks - 1;
    long one = 1, before, last = -1;
    double half = 0.5;
    long double quarter = 0.25L;
    float ones[100], by_itself = 1;
    short minus[5] = { -1, -2, -3, -4, -5 };
    struct { double value; int where; } candidate;

    open_window(sizeof(shared_t), 1);
    mine = (shared_t *) memory;
    if (rank == target)
        mine->best.value = -1;
    for (int i = 0; i < 100; i++)
        ones[i] = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (long i = 0; i < rounds; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_LONG, target, offsetof(shared_t, counter), MPI_SUM, win);
        MPI_Accumulate(&half, 1, MPI_DOUBLE, target, offsetof(shared_t, real), 1, MPI_DOUBLE, MPI_SUM, win);
        MPI_Accumulate(&quarter, 1, MPI_LONG_DOUBLE, target, offsetof(shared_t, wide), 1, MPI_LONG_DOUBLE, MPI_SUM, win);
        MPI_Accumulate(minus, 5, MPI_SHORT, target, offsetof(shared_t, small), 5, MPI_SHORT, MPI_SUM, win);
        candidate.value = (double) (i * ranks + rank);
        candidate.where = rank;
        MPI_Accumulate(&candidate, 1, MPI_DOUBLE_INT, target, offsetof(shared_t, best), 1, MPI_DOUBLE_INT, MPI_MAXLOC, win);
        MPI_Accumulate(ones, 100, MPI_FLOAT, target, offsetof(shared_t, array), 100, MPI_FLOAT, MPI_SUM, win);
        /* One of those that others change many at a time. */
        MPI_Accumulate(&by_itself, 1, MPI_FLOAT, target, offsetof(shared_t, array[7]), 1, MPI_FLOAT, MPI_SUM, win);
        MPI_Win_flush(target, win);
        EXPECT(before > last, "the counter went from %ld to %ld", last, before);
        last = before;
        /* A lock of the program's own. */
        if (i % 10 == 0) {
            long free_value = 0, mark = rank + 1, seen, value;
            do {
                MPI_Compare_and_swap(&mark, &free_value, &seen, MPI_LONG, target, offsetof(shared_t, spinning), win);
                MPI_Win_flush(target, win);
            } while (seen != 0);
            MPI_Get(&value, 1, MPI_LONG, target, offsetof(shared_t, guarded), 1, MPI_LONG, win);
            MPI_Win_flush(target, win);
            value++;
            MPI_Put(&value, 1, MPI_LONG, target, offsetof(shared_t, guarded), 1, MPI_LONG, win);
            MPI_Win_flush(target, win);
            MPI_Accumulate(&free_value, 1, MPI_LONG, target, offsetof(shared_t, spinning), 1, MPI_LONG, MPI_REPLACE, win);
            MPI_Win_flush(target, win);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == target) {
        long all = rounds * ranks;
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        EXPECT(mine->counter == all, "counter %ld of %ld", mine->counter, all);
        EXPECT(mine->guarded == (rounds + 9) / 10 * ranks, "guarded %ld of %ld", mine->guarded, (rounds + 9) / 10 * ranks);
        EXPECT(mine->real == 0.5 * (double) all, "real %g of %g", mine->real, 0.5 * (double) all);
        EXPECT(mine->wide == 0.25L * (long double) all, "wide %Lg of %g", mine->wide, 0.25 * (double) all);
        for (int i = 0; i < 5; i++)
            EXPECT(mine->small[i] == (short) (minus[i] * all), "small[%d] is %d, not %d", i, mine->small[i], (short) (minus[i] * all));
        EXPECT(mine->best.value == (double) (all - 1) && mine->best.where == ranks - 1, "best is %g of rank %d", mine->best.value,
               mine->best.where);
        for (int i = 0; i < 100; i++)
            EXPECT(mine->array[i] == (float) (i == 7 ? 2 * all : all), "array[%d] is %g, of %g", i, (double) mine->array[i], (double) all);
        MPI_Win_unlock(rank, win);
    }
    close_window();
}

/* Who has an exclusive lock is alone; who shares sees nothing half done. */
static void locks(void)
{
    enum { words = 16 };
    long *mine, values[words];

    open_window(words * sizeof(long), sizeof(long));
    mine = (long *) memory;
    for (long i = 0; i < rounds; i++) {
        int target = (int) (i % ranks);
        if ((i + rank) % 3 != 0) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
            MPI_Get(values, words, MPI_LONG, target, 0, words, MPI_LONG, win);
            MPI_Win_flush(target, win);
            for (int w = 0; w < words; w++)
                values[w]++;
            MPI_Put(values, words, MPI_LONG, target, 0, words, MPI_LONG, win);
        } else {
            MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
            MPI_Get(values, words, MPI_LONG, target, 0, words, MPI_LONG, win);
            MPI_Win_flush(target, win);
        }
        for (int w = 1; w < words; w++)
            EXPECT(values[w] == values[0], "word %d is %ld, word 0 is %ld", w, values[w], values[0]);
        MPI_Win_unlock(target, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    long written = 0;
    for (int r = 0; r < ranks; r++)
        for (long i = rank; i < rounds; i += ranks)
            written += (i + r) % 3 != 0;
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    EXPECT(mine[0] == written, "%ld of %ld writes", mine[0], written);
    MPI_Win_unlock(rank, win);
    close_window();
}

/* Locks of all and of some, in any order: nobody waits for ever, and who is alone is. */
static void lock_some(int some)
{
    long *mine, seen[2];

    open_window(2 * sizeof(long), sizeof(long));
    mine = (long *) memory;
    for (long i = 0; i < rounds / 4; i++) {
        if ((i + rank) % 2 == 0) {
            MPI_Win_lock_all(0, win);
            for (int target = 0; target < ranks; target++) {
                MPI_Get(seen, 2, MPI_LONG, target, 0, 2, MPI_LONG, win);
                MPI_Win_flush(target, win);
                EXPECT(seen[0] == seen[1], "%ld and %ld", seen[0], seen[1]);
            }
            MPI_Win_unlock_all(win);
        } else {
            int first = (int) (i % ranks), second = some == 2 ? (int) ((i + 1) % ranks) : first;
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first < second ? first : second, 0, win);
            if (first != second)
                MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first < second ? second : first, 0, win);
            MPI_Get(seen, 2, MPI_LONG, first, 0, 2, MPI_LONG, win);
            MPI_Win_flush(first, win);
            seen[0]++;
            seen[1]++;
            MPI_Put(seen, 1, MPI_LONG, first, 0, 1, MPI_LONG, win);
            MPI_Put(seen + 1, 1, MPI_LONG, first, 1, 1, MPI_LONG, win);
            MPI_Win_unlock(first, win);
            if (first != second)
                MPI_Win_unlock(second, win);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT(mine[0] == mine[1], "%ld and %ld at the end", mine[0], mine[1]);
    close_window();
}

static void lock_all(void)
{
    lock_some(1);
}

/* Who waits for all others must hold none of them: MPICH's generic layer does, and two may wait for each other. */
static void lock_two(void)
{
    lock_some(2);
}

/* What was put before is seen after, by fence and by post, start, complete, wait. */
static void litmus(void)
{
    enum { words = 16 };
    int *mine, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, values[words];
    MPI_Group all, to, from;

    open_window(words * sizeof(int), sizeof(int));
    mine = (int *) memory;
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &next, &to);
    MPI_Group_incl(all, 1, &before, &from);
    MPI_Win_fence(0, win);
    for (int i = 1; i <= rounds; i++) {
        for (int w = 0; w < words; w++)
            values[w] = i * ranks + rank;
        MPI_Put(values, words, MPI_INT, next, 0, words, MPI_INT, win);
        MPI_Win_fence(0, win);
        for (int w = 0; w < words; w++)
            EXPECT(mine[w] == i * ranks + before, "fence %d: word %d is %d", i, w, mine[w]);
        MPI_Win_fence(0, win);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    for (int i = 1; i <= rounds; i++) {
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        for (int w = 0; w < words; w++)
            values[w] = -i * ranks - rank;
        MPI_Put(values, words, MPI_INT, next, 0, words, MPI_INT, win);
        MPI_Win_complete(win);
        if (i % 2 == 0) {
            MPI_Win_wait(win);
        } else {
            int flag = 0;
            while (!flag)
                MPI_Win_test(win, &flag);
        }
        for (int w = 0; w < words; w++)
            EXPECT(mine[w] == -i * ranks - before, "epoch %d: word %d is %d", i, w, mine[w]);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    close_window();
}

/* --- random operations against a model ---------------------------------------------------------------------------------- */

static unsigned long state;
static unsigned below(unsigned limit)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned) (state >> 33) % limit;
}

enum { part_bytes = 2048 };

static int apply(MPI_Op op, int there, int value)
{
    return op == MPI_SUM ? there + value : op == MPI_MAX ? (there > value ? there : value) : op == MPI_BXOR ? there ^ value :
        op == MPI_REPLACE ? value : op == MPI_LAND ? there && value : there;
}

/* Where element i is. A vector is as long as from its first to its last element. */
static int place_of(int i, int strided)
{
    return strided ? i / 8 * 15 + i % 8 * 2 : i;
}

/* Every rank knows what every rank does, and when: one operation at a time, by one rank. */
static void against_model(void)
{
    static const MPI_Op ops[] = { MPI_SUM, MPI_MAX, MPI_BXOR, MPI_REPLACE, MPI_LAND, MPI_NO_OP };
    int (*model)[part_bytes / 4] = calloc((size_t) ranks, sizeof *model);
    int origin[part_bytes / 4], result[part_bytes / 4];
    MPI_Datatype every_other;
    int *mine;

    MPI_Type_vector(8, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    open_window(part_bytes, sizeof(int));
    mine = (int *) memory;
    state = seed * 77;
    for (long round = 0; round < rounds; round++) {
        int who = (int) below((unsigned) ranks), target = (int) below((unsigned) ranks), how = (int) below(3), what = (int) below(6);
        int strided = below(3) == 0, there_strided = below(3) == 0, count = 8 * (1 + (int) below(8)), at = (int) below(part_bytes / 4 - 128);
        int lock = below(2) ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE;
        MPI_Op op = ops[below(6)];
        for (int i = 0; i < part_bytes / 4; i++) {
            origin[i] = (int) below(1000) - 500;
            result[i] = -1;
        }
        MPI_Datatype type = strided ? every_other : MPI_INT, there = there_strided ? every_other : MPI_INT;
        int n = strided ? count / 8 : count, there_n = there_strided ? count / 8 : count;
        if (what >= 4)
            count = n = there_n = 1, type = there = MPI_INT, strided = there_strided = 0;
        int compare = below(2) ? model[target][at] : 12345;
        if (how == 2)
            MPI_Win_fence(0, win);
        else if (rank == who && how == 1)
            MPI_Win_lock_all(0, win);
        else if (rank == who)
            MPI_Win_lock(lock, target, 0, win);
        if (rank == who) {
            MPI_Request request = MPI_REQUEST_NULL;
            int by_request = how != 2 && round % 5 == 0;
            if (what == 0 && by_request)
                MPI_Rput(origin, n, type, target, at, there_n, there, win, &request);
            else if (what == 0)
                MPI_Put(origin, n, type, target, at, there_n, there, win);
            else if (what == 1 && by_request)
                MPI_Rget(result, n, type, target, at, there_n, there, win, &request);
            else if (what == 1)
                MPI_Get(result, n, type, target, at, there_n, there, win);
            else if (what == 2 && by_request)
                MPI_Raccumulate(origin, n, type, target, at, there_n, there, op, win, &request);
            else if (what == 2)
                MPI_Accumulate(origin, n, type, target, at, there_n, there, op, win);
            else if (what == 3 && by_request)
                MPI_Rget_accumulate(origin, n, type, result, n, type, target, at, there_n, there, op, win, &request);
            else if (what == 3)
                MPI_Get_accumulate(origin, n, type, result, n, type, target, at, there_n, there, op, win);
            else if (what == 4)
                MPI_Fetch_and_op(origin, result, MPI_INT, target, at, op, win);
            else
                MPI_Compare_and_swap(origin, &compare, result, MPI_INT, target, at, win);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            if (how == 0)
                MPI_Win_unlock(target, win);
            else if (how == 1) {
                MPI_Win_flush_local(target, win);
                MPI_Win_unlock_all(win);
            }
        }
        if (how == 2)
            MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        for (int i = 0; i < count; i++) {
            int *place = &model[target][at + place_of(i, there_strided)], old = *place;
            int fetches = what == 1 || what >= 3;
            if (what == 0)
                *place = origin[place_of(i, strided)];
            else if (what == 2 || what == 3 || what == 4)
                *place = apply(op, old, origin[place_of(i, strided)]);
            else if (what == 5 && old == compare)
                *place = origin[0];
            if (rank == who && fetches)
                EXPECT(result[place_of(i, strided)] == old, "round %ld, operation %d: element %d was %d, got %d", round, what, i, old, result[place_of(i, strided)]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        EXPECT(memcmp(mine, model[rank], part_bytes) == 0, "round %ld: operation %d (way %d) of rank %d at %d of rank %d, %d elements", round,
               what, how, who, at, target, count);
        MPI_Win_unlock(rank, win);
        MPI_Barrier(MPI_COMM_WORLD);
        if (wrong)
            break;
    }
    MPI_Type_free(&every_other);
    close_window();
    free(model);
}

/* --- errors --------------------------------------------------------------------------------------------------------------- */

static void errors(void)
{
    int value = 7, other = (rank + 1) % ranks;

    open_window(4 * sizeof(int), sizeof(int));
    expect_class(MPI_Put(&value, 1, MPI_INT, other, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC, "MPI_Put in no epoch");
    expect_class(MPI_Win_unlock(other, win), MPI_ERR_RMA_SYNC, "MPI_Win_unlock without a lock");
    MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
    expect_class(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win), MPI_ERR_RMA_SYNC, "a second MPI_Win_lock");
    expect_class(MPI_Put(&value, 1, MPI_INT, other, 4, 1, MPI_INT, win), MPI_ERR_RMA_RANGE, "MPI_Put behind the window");
    expect_class(MPI_Get(&value, 1, MPI_INT, other, 1000000000, 1, MPI_INT, win), MPI_ERR_RMA_RANGE, "MPI_Get far behind it");
    expect_class(MPI_Fetch_and_op(&value, &value, MPI_INT, other, 4, MPI_SUM, win), MPI_ERR_RMA_RANGE, "MPI_Fetch_and_op behind it");
    expect_class(MPI_Accumulate(&value, 2, MPI_SHORT, other, 4, 2, MPI_SHORT, MPI_SUM, win), MPI_ERR_RMA_RANGE,
                     "MPI_Accumulate behind it");
    if (ranks > 1)
        expect_class(MPI_Put(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC, "MPI_Put to a rank that is not locked");
    MPI_Win_unlock(other, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 4; i++)
        EXPECT(((int *) memory)[i] == 0, "word %d is %d", i, ((int *) memory)[i]);
    close_window();
}

/* What is put is what the origin has; what is too much is refused. */
static void sizes(void)
{
    int two[2] = { 1, 2 }, four[4] = { -1, -1, -1, -1 }, other = (rank + 1) % ranks;

    open_window(4 * sizeof(int), sizeof(int));
    MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
    MPI_Put(two, 2, MPI_INT, other, 0, 3, MPI_INT, win);
    MPI_Accumulate(two, 1, MPI_INT, other, 3, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_flush(other, win);
    MPI_Get(four, 4, MPI_INT, other, 0, 3, MPI_INT, win);
    MPI_Win_unlock(other, win);
    EXPECT(four[0] == 1 && four[1] == 2 && four[2] == 0 && four[3] == -1, "got %d %d %d %d", four[0], four[1], four[2], four[3]);
    MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
    expect_class(MPI_Put(four, 3, MPI_INT, other, 0, 2, MPI_INT, win), MPI_ERR_TRUNCATE, "MPI_Put of more than there is room for");
    expect_class(MPI_Get(two, 1, MPI_INT, other, 0, 2, MPI_INT, win), MPI_ERR_TRUNCATE, "MPI_Get of more than there is room for");
    expect_class(MPI_Accumulate(four, 3, MPI_INT, other, 0, 2, MPI_INT, MPI_SUM, win), MPI_ERR_TRUNCATE, "MPI_Accumulate of too much");
    MPI_Win_unlock(other, win);
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT(((int *) memory)[3] == 1, "the last word is %d", ((int *) memory)[3]);
    close_window();
}

/* Pairs with others between them, which somebody else writes: each keeps its own. */
static void between_pairs(void)
{
    typedef struct { double value; int where; } pair_t;
    enum { count = 20 };
    pair_t pairs[count], others[count];
    MPI_Datatype every_other;

    MPI_Type_vector(count, 1, 2, MPI_DOUBLE_INT, &every_other);
    MPI_Type_commit(&every_other);
    open_window(2 * count * sizeof(pair_t), sizeof(pair_t));
    MPI_Win_lock_all(0, win);
    for (long round = 1; round <= rounds / 4; round++) {
        for (int i = 0; i < count; i++) {
            pairs[i].value = others[i].value = (double) round;
            pairs[i].where = others[i].where = rank;
        }
        if (rank == 0)
            for (int i = 0; i < count; i++)
                MPI_Put(&others[i], 1, MPI_DOUBLE_INT, ranks - 1, 2 * i + 1, 1, MPI_DOUBLE_INT, win);
        else
            MPI_Accumulate(pairs, count, MPI_DOUBLE_INT, ranks - 1, 0, 1, every_other, MPI_MAXLOC, win);
        MPI_Win_flush_all(win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == ranks - 1 && ranks > 1)
        for (int i = 0; i < 2 * count; i++)
            EXPECT(((pair_t *) memory)[i].value == (double) (rounds / 4), "pair %d is %g", i, ((pair_t *) memory)[i].value);
    close_window();
    MPI_Type_free(&every_other);
}

/* A rank that does nothing but lock, get and unlock answers others all the same. */
static void progress(void)
{
    int flag = 0, other = 1 - rank, token = 7;
    MPI_Request request;

    if (ranks != 2)
        return;
    open_window(sizeof(int), sizeof(int));
    if (rank == 0) {
        MPI_Irecv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
        while (flag == 0) {
            MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
            MPI_Get(&flag, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
            MPI_Win_unlock(0, win);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Ssend(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win);
        MPI_Put(&token, 1, MPI_INT, other, 0, 1, MPI_INT, win);
        MPI_Win_unlock(other, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    close_window();
}

/* Windows come and go, several at a time; nothing is left of them. */
static void many(void)
{
    enum { at_once = 4 };
    int before = 0, after, other = (rank + 1) % ranks;

    for (long i = 0; i < rounds / 10; i++) {
        MPI_Win wins[at_once];
        char *memories[at_once];
        for (int w = 0; w < at_once; w++) {
            open_window(64 + 1000 * w, 1);
            wins[w] = win;
            memories[w] = memory;
        }
        for (int w = 0; w < at_once; w++) {
            long value = i * at_once + w;
            MPI_Win_lock(MPI_LOCK_SHARED, other, 0, wins[w]);
            MPI_Put(&value, 1, MPI_LONG, other, 8, 1, MPI_LONG, wins[w]);
            MPI_Win_unlock(other, wins[w]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int w = 0; w < at_once; w++) {
            EXPECT(((long *) memories[w])[1] == i * at_once + w, "window %ld has %ld", i * at_once + w, ((long *) memories[w])[1]);
            win = wins[w];
            memory = memories[w];
            close_window();
        }
        if (i == 0)
            before = descriptors();
    }
    after = descriptors();
    EXPECT(after == before || rounds < 10, "%d descriptors, then %d", before, after);
}

/* Puts and gets of all lengths, several before a flush, each to a place of its own: what both copy, and what is gathered for one call of the kernel, is
 * all there after it. */
static void lengths(void)
{
    enum { whole = 600000, longest = 150000 };
    const int target = (rank + 1) % ranks, source = (rank + ranks - 1) % ranks;
    char *sent = malloc(whole), *seen = malloc(whole);

    state = seed * 77 + (unsigned) rank;
    open_window(whole, 1);
    for (long i = 0; i < rounds && i < 50; i++) {
        long wrong = 0;
        memset(memory, -1, whole);
        memset(seen, -1, whole);
        for (int at = 0; at < whole; at++)
            sent[at] = (char) ((at * 7 + i + rank) % 113);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, win);
        for (int get = 0; get < 2; get++) {
            for (int at = 0, size; at < whole; at += size) {
                size = 1 + (int) below(below(4) != 0 ? 6000 : longest);
                size = at + size < whole ? size : whole - at;
                if (get)
                    MPI_Get(seen + at, size, MPI_CHAR, target, at, size, MPI_CHAR, win);
                else
                    MPI_Put(sent + at, size, MPI_CHAR, target, at, size, MPI_CHAR, win);
            }
            MPI_Win_flush(target, win);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Win_unlock_all(win);
        MPI_Win_sync(win);
        for (int at = 0; at < whole; at++) {
            wrong += memory[at] != (char) ((at * 7 + i + source) % 113);
            wrong += seen[at] != sent[at];
        }
        EXPECT(wrong == 0, "round %ld: %ld bytes", i, wrong);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    close_window();
    free(sent);
    free(seen);
}

/* Rank 1 dies with the lock: rank 0 is told so and does not wait for ever. Not among all: the job is not whole after it. */
static void killed(void)
{
    int error;

    open_window(4 * sizeof(int), sizeof(int));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        raise(SIGKILL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    error = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    printf("rank %d: %s\n", rank, error == MPI_SUCCESS ? "got the lock" : "MPI_Win_lock failed");
    fflush(stdout);
    _exit(error == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"totals", totals, 1, 0}, {"locks", locks, 1, 0}, {"lock_all", lock_all, 1, 0}, {"lock_two", lock_two, 1, 1}, {"litmus", litmus, 1, 0},
        {"model", against_model, 1, 0}, {"progress", progress, 1, 0}, {"between_pairs", between_pairs, 1, 0}, {"many", many, 1, 0}, {"lengths", lengths, 1, 0}, {"sizes", sizes, 1, 1}, {"errors", errors, 1, 1},
        {"killed", killed, 2, 1},
    };
    int status;

    MPI_Init(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            rounds = atol(argv[++i]);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--create") == 0)
            create = 1;
        else if (strcmp(argv[i], "--alloc") == 0)
            alloc = 1;
    }
    status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
