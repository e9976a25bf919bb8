/* Usage: random_collectives [random] [many] [--seed N] [--steps N] [--step N] [--only NAME] [--live N] [--kill N] [--all MODE]
 *     [--largest BYTES] [--late N] [--patience SECONDS]
 * Random collectives against a model: every rank computes by itself what must come out, from values that are a function of seed, step,
 * rank and index. Everything is drawn from the seed: operation, communicator, root, datatypes (with gaps, and others on other ranks with
 * the same signature), counts, MPI_IN_PLACE, operators, blocking or in flight or persistent, and who comes late. A buffer is compared as a
 * whole: gaps in it and guards around it must be what they were.
 * What fails prints the seed and the step; `--seed S --step N --steps 1` does that step again. A step that does not end in 120 seconds, or in those of --patience, says so, too.
 * --all flight: every step has several in flight, some of them long.
 * many: as many communicators as --live, all in use. --kill N: in step N one rank kills itself between others that go on.
 * --largest BYTES: of all that a call moves. --late N: one of N ranks comes late to a step; 0: none does.
 * The last line has a hash of all sums of fractions, which depend on the order in which they are added, but on nothing that differs between runs. */
#define _GNU_SOURCE
#include "expect.h"
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { GUARD = 64, IN_FLIGHT_LIMIT = 5, UNIT_LIMIT = 4, REBUILD = 64 };

static uint64_t seed = 1;
static long steps = 300, first_step, step, kill_step = -1;
static int live = 2000, late = 12, largest = 1 << 20;
static unsigned patience = 120;  /* seconds for a step */
static const char *only;
static int in_flight;           /* always */

/* ---- decisions ---- */

typedef struct {
    uint64_t state;
} stream;

static uint64_t draw(stream *from)
{
    return mix(from->state++);
}

static int below(stream *from, int limit)
{
    return (int) (draw(from) % (uint64_t) limit);
}

/* ---- datatypes that move: some elements of a base type, with or without gaps ---- */

static const struct {
    const char *name;
    MPI_Datatype type;
    int bytes;
} bases[] = {{"byte", MPI_BYTE, 1}, {"short", MPI_SHORT, 2}, {"int", MPI_INT, 4}, {"double", MPI_DOUBLE, 8}, {"complex", MPI_C_DOUBLE_COMPLEX, 16}};
enum { BASES = sizeof bases / sizeof bases[0], LAYOUTS = 5 };

typedef struct {
    MPI_Datatype type;
    int unit;                   /* elements of the base in one */
    int extent;
    int inner[UNIT_LIMIT];      /* where they are */
} layout;

static layout make_layout(int base, int unit, int kind)
{
    int bytes = bases[base].bytes, lengths[UNIT_LIMIT];
    MPI_Aint places[UNIT_LIMIT];
    MPI_Datatype inside = MPI_DATATYPE_NULL;
    layout made = { bases[base].type, kind == 0 ? 1 : unit, 0, {0} };

    made.extent = bytes * (kind == 2 ? 2 * unit : kind == 4 ? unit + 2 : made.unit);
    for (int i = 0; i < made.unit; i++) {
        made.inner[i] = bytes * (kind == 2 ? 2 * i : kind == 3 ? unit - 1 - i : kind == 4 ? i + 1 : i);
        places[i] = made.inner[i];
        lengths[i] = 1;
    }
    if (kind == 0)
        return made;
    if (kind == 1)
        MPI_Type_contiguous(unit, bases[base].type, &made.type);
    else if (kind == 2)
        MPI_Type_vector(unit, 1, 2, bases[base].type, &inside);
    else
        MPI_Type_create_hindexed(unit, lengths, places, bases[base].type, &inside);
    if (kind > 1) {
        MPI_Type_create_resized(inside, 0, made.extent, &made.type);
        MPI_Type_free(&inside);
    }
    MPI_Type_commit(&made.type);
    return made;
}

static layout layouts[BASES][UNIT_LIMIT][LAYOUTS];

/* ---- numbers that are reduced; one of any kind is eight bytes for the model ---- */

static uint64_t pair(uint32_t a, uint32_t b) { return (uint64_t) b << 32 | a; }
static uint64_t of_double(double value) { uint64_t bits; memcpy(&bits, &value, 8); return bits; }
static double as_double(uint64_t bits) { double value; memcpy(&value, &bits, 8); return value; }
static uint64_t of_float(float value) { uint32_t bits; memcpy(&bits, &value, 4); return bits; }
static float as_float(uint64_t bits) { uint32_t low = (uint32_t) bits; float value; memcpy(&value, &low, 4); return value; }

static uint64_t any_long(uint64_t hash) { return hash; }
static uint64_t any_byte(uint64_t hash) { return hash & 0xff; }
static uint64_t any_unsigned(uint64_t hash) { return hash & 0xffffffff; }
static uint64_t small_int(uint64_t hash) { return hash % 100000; }
static uint64_t truth(uint64_t hash) { return hash % 8 != 0; }
static uint64_t whole_double(uint64_t hash) { return of_double((double) (hash % 1000000)); }
static uint64_t any_double(uint64_t hash) { return of_double((double) (hash % 1000000007) / 999983.0); }
static uint64_t whole_float(uint64_t hash) { return of_float((float) (hash % 1000)); }
static uint64_t few_located(uint64_t hash) { return pair((uint32_t) (hash % 4), (uint32_t) (hash >> 40)); }

static uint64_t add(uint64_t a, uint64_t b) { return (uint32_t) (a + b); }
static uint64_t multiply(uint64_t a, uint64_t b) { return (uint32_t) (a * b); }
static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t bits_and(uint64_t a, uint64_t b) { return a & b; }
static uint64_t bits_or(uint64_t a, uint64_t b) { return a | b; }
static uint64_t bits_xor(uint64_t a, uint64_t b) { return a ^ b; }
static uint64_t add_double(uint64_t a, uint64_t b) { return of_double(as_double(a) + as_double(b)); }
static uint64_t larger_double(uint64_t a, uint64_t b) { return as_double(a) > as_double(b) ? a : b; }
static uint64_t add_float(uint64_t a, uint64_t b) { return of_float(as_float(a) + as_float(b)); }
static uint64_t least_place(uint64_t a, uint64_t b) { return pair((uint32_t) a, (uint32_t) (a >> 32 < b >> 32 ? a >> 32 : b >> 32)); }
static uint64_t largest_at(uint64_t a, uint64_t b)
{
    return (uint32_t) a == (uint32_t) b ? least_place(a, b) : (uint32_t) a > (uint32_t) b ? a : b;
}
static uint64_t smallest_at(uint64_t a, uint64_t b)
{
    return (uint32_t) a == (uint32_t) b ? least_place(a, b) : (uint32_t) a < (uint32_t) b ? a : b;
}
static uint64_t add_pair(uint64_t a, uint64_t b) { return pair((uint32_t) (a + b), (uint32_t) ((a >> 32) + (b >> 32))); }
/* x -> a1 x + a2, and then x -> b1 x + b2: the order counts */
static uint64_t chain(uint64_t a, uint64_t b)
{
    return pair((uint32_t) a * (uint32_t) b, (uint32_t) b * (uint32_t) (a >> 32) + (uint32_t) (b >> 32));
}

enum { FORM_BYTE = 1, FORM_WORD = 4, FORM_LONG = 8, FORM_APART = 16 };

static void store(unsigned char *at, int form, uint64_t value)
{
    uint32_t low = (uint32_t) value, high = (uint32_t) (value >> 32);
    if (form == FORM_BYTE)
        *at = (unsigned char) value;
    else if (form == FORM_LONG)
        memcpy(at, &value, 8);
    else
        memcpy(at, &low, 4);
    if (form == FORM_APART)
        memcpy(at + 8, &high, 4);
}

static uint64_t fetch(const unsigned char *at, int form)
{
    uint32_t low, high;
    uint64_t value;
    if (form == FORM_LONG)
        return memcpy(&value, at, 8), value;
    memcpy(&low, at, 4);
    memcpy(&high, at + 8, 4);
    return pair(low, high);
}

static MPI_Datatype two_words, two_apart;
static MPI_Op op_add_pair, op_chain;

static void by_user(void *in, void *inout, int count, MPI_Datatype type, uint64_t combine(uint64_t, uint64_t))
{
    int form = type == two_apart ? FORM_APART : FORM_LONG, extent = form;
    for (int i = 0; i < count; i++)
        store((unsigned char *) inout + (size_t) i * extent, form,
              combine(fetch((unsigned char *) in + (size_t) i * extent, form), fetch((unsigned char *) inout + (size_t) i * extent, form)));
}
static void user_add(void *in, void *inout, int *count, MPI_Datatype *type) { by_user(in, inout, *count, *type, add_pair); }
static void user_chain(void *in, void *inout, int *count, MPI_Datatype *type) { by_user(in, inout, *count, *type, chain); }

typedef struct {
    const char *name;
    MPI_Datatype type;
    MPI_Op op;
    int form;
    uint64_t (*make)(uint64_t hash);
    uint64_t (*combine)(uint64_t left, uint64_t right);
    int rough;                  /* the result depends on the order: near the model's, and the same on all ranks of an allreduce */
} number;

static number numbers[20];
static int number_kinds;

static void make_types(void)
{
    MPI_Aint places[] = { 0, 8 };
    int lengths[] = { 1, 1 };
    MPI_Datatype words[] = { MPI_UINT32_T, MPI_UINT32_T }, inside;

    for (int base = 0; base < BASES; base++)
        for (int unit = 1; unit <= UNIT_LIMIT; unit++)
            for (int kind = 0; kind < LAYOUTS; kind++)
                layouts[base][unit - 1][kind] = make_layout(base, unit, kind);
    MPI_Type_contiguous(2, MPI_UINT32_T, &two_words);
    MPI_Type_create_struct(2, lengths, places, words, &inside);
    MPI_Type_create_resized(inside, 0, 16, &two_apart);
    MPI_Type_free(&inside);
    MPI_Type_commit(&two_words);
    MPI_Type_commit(&two_apart);
    MPI_Op_create(user_add, 1, &op_add_pair);
    MPI_Op_create(user_chain, 0, &op_chain);
    const number all[] = {
        {"byte, bxor", MPI_BYTE, MPI_BXOR, FORM_BYTE, any_byte, bits_xor, 0}, {"int, sum", MPI_INT, MPI_SUM, FORM_WORD, small_int, add, 0},
        {"unsigned, prod", MPI_UNSIGNED, MPI_PROD, FORM_WORD, any_unsigned, multiply, 0}, {"int, max", MPI_INT, MPI_MAX, FORM_WORD, small_int, larger, 0},
        {"int, min", MPI_INT, MPI_MIN, FORM_WORD, small_int, smaller, 0}, {"long, band", MPI_LONG, MPI_BAND, FORM_LONG, any_long, bits_and, 0},
        {"long, bor", MPI_UINT64_T, MPI_BOR, FORM_LONG, any_long, bits_or, 0}, {"int, land", MPI_INT, MPI_LAND, FORM_WORD, truth, bits_and, 0},
        {"int, lor", MPI_INT, MPI_LOR, FORM_WORD, truth, bits_or, 0}, {"double, sum", MPI_DOUBLE, MPI_SUM, FORM_LONG, whole_double, add_double, 0},
        {"double, max", MPI_DOUBLE, MPI_MAX, FORM_LONG, whole_double, larger_double, 0}, {"float, sum", MPI_FLOAT, MPI_SUM, FORM_WORD, whole_float, add_float, 0},
        {"2int, maxloc", MPI_2INT, MPI_MAXLOC, FORM_LONG, few_located, largest_at, 0}, {"2int, minloc", MPI_2INT, MPI_MINLOC, FORM_LONG, few_located, smallest_at, 0},
        {"two words, user's sum", two_words, op_add_pair, FORM_LONG, any_long, add_pair, 0}, {"two apart, user's sum", two_apart, op_add_pair, FORM_APART, any_long, add_pair, 0},
        {"two words, user's chain", two_words, op_chain, FORM_LONG, any_long, chain, 0}, {"two apart, user's chain", two_apart, op_chain, FORM_APART, any_long, chain, 0},
        {"long, user's chain", MPI_UINT64_T, op_chain, FORM_LONG, any_long, chain, 0}, {"double, sum of fractions", MPI_DOUBLE, MPI_SUM, FORM_LONG, any_double, add_double, 1},
    };
    number_kinds = sizeof all / sizeof all[0];
    memcpy(numbers, all, sizeof all);
}

static void free_types(void)
{
    for (int base = 0; base < BASES; base++)
        for (int unit = 0; unit < UNIT_LIMIT; unit++)
            for (int kind = 1; kind < LAYOUTS; kind++)
                MPI_Type_free(&layouts[base][unit][kind].type);
    MPI_Type_free(&two_words);
    MPI_Type_free(&two_apart);
    MPI_Op_free(&op_add_pair);
    MPI_Op_free(&op_chain);
}

/* ---- communicators ---- */

enum { WORLD, DUPLICATE, REVERSED, HALVES, THIRDS, SOME, SELF, PAIRS, LINE, GRAPH, SHAPES };

static const char *const shape_names[] = { "world", "duplicate", "reversed", "halves", "thirds", "some", "self", "pairs", "line", "graph" };
static struct {
    MPI_Comm comm;
    int color;
} shapes[SHAPES];
static uint64_t graph_key;
static int line_is_ring;

/* Up to EDGES of them. */
enum { EDGES = 2 };
static int edges(int from, int to)
{
    uint64_t hash = mix(graph_key + (uint64_t) from * 4096 + (uint64_t) to) % 6;
    return hash < 2 ? (int) hash + 1 : 0;
}

static void make_shape(int shape, int color, int key)
{
    shapes[shape].color = color;
    MPI_Comm_split(MPI_COMM_WORLD, color, key, &shapes[shape].comm);
}

static void make_shapes(uint64_t key)
{
    shapes[WORLD].comm = MPI_COMM_WORLD;
    shapes[SELF].comm = MPI_COMM_SELF;
    shapes[SELF].color = rank;
    MPI_Comm_dup(MPI_COMM_WORLD, &shapes[DUPLICATE].comm);
    make_shape(REVERSED, 0, -rank);
    make_shape(HALVES, rank % 2, rank);
    make_shape(THIRDS, (int) (mix(key + (uint64_t) rank) % 3), -rank);
    make_shape(SOME, mix(key + 1000 + (uint64_t) rank) % 2 ? 0 : MPI_UNDEFINED, (int) (mix(key + 2000 + (uint64_t) rank) % 100));
    make_shape(PAIRS, rank / 2, -rank);
    line_is_ring = key % 2;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &line_is_ring, 0, &shapes[LINE].comm);

    int me, sources[EDGES * ranks], targets[EDGES * ranks], in = 0, out = 0;
    graph_key = key;
    MPI_Comm_rank(shapes[REVERSED].comm, &me);
    for (int i = 0; i < EDGES * ranks; i++) {
        int other = key % 2 ? ranks - 1 - i % ranks : i % ranks;
        if (edges(other, me) > i / ranks)
            sources[in++] = other;
        if (edges(me, other) > i / ranks)
            targets[out++] = other;
    }
    MPI_Dist_graph_create_adjacent(shapes[REVERSED].comm, in, sources, MPI_UNWEIGHTED, out, targets, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &shapes[GRAPH].comm);
}

static void free_shapes(void)
{
    for (int shape = 0; shape < SHAPES; shape++)
        if (shape != WORLD && shape != SELF && shapes[shape].comm != MPI_COMM_NULL)
            MPI_Comm_free(&shapes[shape].comm);
}

/* ---- operations ---- */

enum { BARRIER, BCAST, REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER,
    ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, NEAR_ALLGATHER, NEAR_ALLGATHERV, NEAR_ALLTOALL, NEAR_ALLTOALLV, NEAR_ALLTOALLW, KINDS
};
static const char *const kind_names[] = { "barrier", "bcast", "reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan", "gather",
    "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "neighbor_allgather", "neighbor_allgatherv",
    "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw"
};
enum { BLOCKING, IN_FLIGHT, PERSISTENT };
static const char *const mode_names[] = { "blocking", "in flight", "persistent" };

/* What goes to, or comes from, one other rank. */
typedef struct {
    int peer;
    int way;                    /* of several from the same rank to the same one */
    int count;                  /* of the base */
    long place;                 /* bytes from the start of the buffer */
    const layout *form;
} piece;

typedef struct {
    int pieces;
    piece *piece;
    int *counts, *places, *byte_places;
    MPI_Aint *far_places;
    MPI_Datatype *types;
    size_t bytes;
    unsigned char *memory, *expected;   /* with guards on both sides */
} side;

typedef struct {
    int kind, mode, shape, me, size, root, in_place, unit, base;
    int most;                   /* elements of one piece, at most */
    MPI_Comm comm;
    uint64_t key;
    const number *number;
    layout reduced;             /* how a number lies in memory */
    side send, receive;
    MPI_Request request;
    double came, went;          /* of a barrier */
    uint64_t round;
} operation;

static const char *describe(const operation *op)
{
    static char text[300];
    snprintf(text, sizeof text, "%s, %s, on %s, %d ranks, root %d, at most %d of %s in units of %d%s", kind_names[op->kind], mode_names[op->mode],
             shape_names[op->shape], op->size, op->root, op->most, op->number ? op->number->name : bases[op->base].name, op->unit,
             op->in_place ? ", in place" : "");
    return text;
}

static int is_reduction(int kind) { return kind >= REDUCE && kind <= EXSCAN; }
static int is_near(int kind) { return kind >= NEAR_ALLGATHER; }
static int is_alltoall(int kind) { return (kind >= ALLTOALL && kind <= ALLTOALLW) || kind >= NEAR_ALLTOALL; }
static int is_uneven(int kind)
{
    return kind == GATHERV || kind == SCATTERV || kind == ALLGATHERV || kind == ALLTOALLV || kind == ALLTOALLW || kind == NEAR_ALLGATHERV ||
        kind == NEAR_ALLTOALLV || kind == NEAR_ALLTOALLW || kind == REDUCE_SCATTER;
}
static int has_root(int kind) { return kind == BCAST || kind == REDUCE || (kind >= GATHER && kind <= SCATTERV); }

/* Elements that `from` has for `to`; where everybody gets the same, or there is a root, `to` is 0. */
static int count_of(const operation *op, int from, int to)
{
    if (!is_uneven(op->kind) || op->most == 0)
        return op->most;
    if (op->in_place && from > to && is_alltoall(op->kind))
        return count_of(op, to, from);
    uint64_t hash = mix(op->key + 7 + (uint64_t) from * 65536 + (uint64_t) to);
    return hash % 4 == 0 ? 0 : (int) (hash / 4 % (uint64_t) (op->most / op->unit + 1)) * op->unit;
}

static uint64_t value_of(const operation *op, int from, int to, int index)
{
    return mix(op->key + op->round * 1000003 + ((uint64_t) from << 20) + ((uint64_t) (to + 1) << 40) + (uint64_t) index * 31);
}

static const layout *any_layout(const operation *op, stream *own)
{
    return is_reduction(op->kind) ? &op->reduced : &layouts[op->base][op->unit - 1][below(own, LAYOUTS)];
}

/* Puts the pieces into the buffer, with gaps between them where a call can say so, and makes the arrays that it says it with. */
static void lay_out(const operation *op, side *side, stream *own)
{
    int each = op->kind == ALLTOALLW || op->kind == NEAR_ALLTOALLW, gaps = is_uneven(op->kind) && side->pieces > 1;
    const layout *one = any_layout(op, own);
    long place = 0;

    size_t slots = side->pieces > 0 ? (size_t) side->pieces : 1;
    side->counts = calloc(slots, sizeof(int));
    side->places = calloc(slots, sizeof(int));
    side->byte_places = calloc(slots, sizeof(int));
    side->far_places = calloc(slots, sizeof(MPI_Aint));
    side->types = calloc(slots, sizeof(MPI_Datatype));
    for (int i = 0; i < side->pieces; i++) {
        piece *piece = &side->piece[i];
        piece->form = each ? any_layout(op, own) : one;
        if (each)
            place = (place + 15) / 16 * 16;
        if (gaps)
            place += below(own, 3) * (each ? 16 : piece->form->extent);
        piece->place = place;
        side->counts[i] = piece->count / piece->form->unit;
        side->places[i] = (int) (place / piece->form->extent);
        side->byte_places[i] = (int) place;
        side->far_places[i] = place;
        side->types[i] = piece->form->type;
        place += (long) side->counts[i] * piece->form->extent;
    }
    if (side->pieces == 0)
        side->types[0] = one->type;
    side->bytes = (size_t) place;
    side->memory = malloc(side->bytes + 2 * GUARD);
    side->expected = malloc(side->bytes + 2 * GUARD);
}

static void add_piece_on(side *side, int peer, int way, int count)
{
    side->piece = realloc(side->piece, (size_t) (side->pieces + 1) * sizeof *side->piece);
    side->piece[side->pieces++] = (piece) { peer, way, count, 0, NULL };
}

static void add_piece(side *side, int peer, int count)
{
    add_piece_on(side, peer, 0, count);
}

/* As the receiver of a piece. */
static int rank_on(int to, int way)
{
    return to + way * 4096;
}

/* The peers of a communicator with a topology; the order is that of the calls. On a line what goes to the lower one comes from the upper one, also where
 * both are the same; in a graph the first one to a rank is the first one from it there. */
static void add_neighbours(operation *op, side *side, int sending)
{
    int spread = is_alltoall(op->kind), line = op->shape == LINE;
    for (int i = 0; i < (line ? 2 : EDGES * op->size); i++) {
        int peer = line ? op->me + 2 * i - 1 : graph_key % 2 ? op->size - 1 - i % op->size : i % op->size, way = line ? i : i / op->size;
        if (line && !sending)
            way = !way;
        if (line)
            peer = line_is_ring ? (peer + op->size) % op->size : peer < 0 || peer >= op->size ? MPI_PROC_NULL : peer;
        else if ((sending ? edges(op->me, peer) : edges(peer, op->me)) <= way)
            continue;
        int other = peer == MPI_PROC_NULL ? 0 : peer, from = sending ? op->me : other, to = sending ? other : op->me;
        add_piece_on(side, peer, way, count_of(op, from, spread ? rank_on(to, way) : 0));
    }
}

static void add_pieces(operation *op)
{
    int at_root = op->me == op->root, sum = 0;

    if (is_near(op->kind)) {
        if (is_alltoall(op->kind))
            add_neighbours(op, &op->send, 1);
        else
            add_piece(&op->send, op->me, count_of(op, op->me, 0));
        add_neighbours(op, &op->receive, 0);
        return;
    }
    switch (op->kind) {
        case BARRIER:
            break;
        case BCAST:
            add_piece(&op->receive, op->root, op->most);
            break;
        case REDUCE_SCATTER:
        case REDUCE_SCATTER_BLOCK:
            for (int i = 0; i < op->size; i++)
                sum += count_of(op, i, 0);
            add_piece(&op->send, op->me, sum);
            add_piece(&op->receive, op->me, op->in_place ? sum : count_of(op, op->me, 0));
            break;
        case GATHER:
        case GATHERV:
            add_piece(&op->send, op->me, count_of(op, op->me, 0));
            for (int i = 0; at_root && i < op->size; i++)
                add_piece(&op->receive, i, count_of(op, i, 0));
            break;
        case SCATTER:
        case SCATTERV:
            for (int i = 0; at_root && i < op->size; i++)
                add_piece(&op->send, i, count_of(op, i, 0));
            add_piece(&op->receive, op->root, count_of(op, op->me, 0));
            break;
        case ALLGATHER:
        case ALLGATHERV:
            add_piece(&op->send, op->me, count_of(op, op->me, 0));
            for (int i = 0; i < op->size; i++)
                add_piece(&op->receive, i, count_of(op, i, 0));
            break;
        case ALLTOALL:
        case ALLTOALLV:
        case ALLTOALLW:
            for (int i = 0; i < op->size; i++) {
                add_piece(&op->send, i, count_of(op, op->me, i));
                add_piece(&op->receive, i, count_of(op, i, op->me));
            }
            break;
        default:
            add_piece(&op->send, op->me, op->most);
            add_piece(&op->receive, op->me, op->most);
    }
}

/* What `from` has for `to`; -1: for everybody. */
static void write_values(const operation *op, unsigned char *memory, const piece *piece, int from, int to)
{
    int bytes = bases[op->base].bytes;
    const layout *form = piece->form;

    for (int i = 0; i < piece->count; i++) {
        unsigned char *at = memory + GUARD + piece->place + (long) (i / form->unit) * form->extent + form->inner[i % form->unit];
        uint64_t value[2] = { value_of(op, from, to, i), 0 };
        if (bytes == 16)
            value[1] = ~value[0];
        memcpy(at, value, (size_t) bytes);
    }
}

/* Numbers from `first` on, of the first `members` ranks, reduced; or those of `only_rank` when that is not negative. */
static void write_numbers(const operation *op, unsigned char *memory, int first, int count, int members, int only_rank)
{
    for (int i = 0; i < count; i++) {
        int from = only_rank >= 0 ? only_rank : 0;
        uint64_t value = op->number->make(value_of(op, from, 0, first + i));
        for (from = 1; only_rank < 0 && from < members; from++)
            value = op->number->combine(value, op->number->make(value_of(op, from, 0, first + i)));
        store(memory + GUARD + (long) i * op->reduced.extent, op->number->form, value);
    }
}

/* Fills both buffers, and writes what must be in them at the end. */
static void fill(operation *op)
{
    side *sides[] = { &op->send, &op->receive };
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < sides[s]->bytes + 2 * GUARD; i++)
            sides[s]->memory[i] = sides[s]->expected[i] = (unsigned char) (0xa5 + i * 7 + op->key);

    int all_to_all = is_alltoall(op->kind), scatters = op->kind == SCATTER || op->kind == SCATTERV;
    if (is_reduction(op->kind)) {
        side *result = &op->receive, *given = op->in_place ? result : &op->send;
        int first = 0, has_result = op->kind != REDUCE || op->me == op->root;
        int members = op->kind == SCAN ? op->me + 1 : op->kind == EXSCAN ? op->me : op->size;
        int count = result->piece[0].count;
        write_numbers(op, given->memory, 0, given->piece[0].count, 0, op->me);
        memcpy(given->expected, given->memory, given->bytes + 2 * GUARD);
        if (op->kind == REDUCE_SCATTER || op->kind == REDUCE_SCATTER_BLOCK) {
            for (int i = 0; i < op->me; i++)
                first += count_of(op, i, 0);
            count = count_of(op, op->me, 0);
        }
        if (has_result && members > 0)
            write_numbers(op, result->expected, first, count, members, -1);
        return;
    }
    for (int i = 0; i < op->send.pieces; i++)
        if (op->send.piece[i].peer != MPI_PROC_NULL) {
            int to = all_to_all || scatters ? rank_on(op->send.piece[i].peer, op->send.piece[i].way) : -1;
            write_values(op, op->send.memory, &op->send.piece[i], op->me, to);
            write_values(op, op->send.expected, &op->send.piece[i], op->me, to);
        }
    for (int i = 0; i < op->receive.pieces; i++) {
        piece *piece = &op->receive.piece[i];
        if (piece->peer == MPI_PROC_NULL)
            continue;
        if (op->kind == BCAST ? op->me == op->root : op->in_place && all_to_all)
            write_values(op, op->receive.memory, piece, op->me, all_to_all ? piece->peer : -1);
        else if (op->in_place && !scatters && piece->peer == op->me)
            write_values(op, op->receive.memory, piece, op->me, -1);
        if (!(op->in_place && scatters))
            write_values(op, op->receive.expected, piece, piece->peer, all_to_all || scatters ? rank_on(op->me, piece->way) : -1);
    }
}

static operation prepare(int mode, int shape, uint64_t key)
{
    stream shared = { mix(key + 17 + (uint64_t) shapes[shape].color * 7919) };
    operation op = { 0 };

    op.mode = mode;
    op.shape = shape;
    op.comm = shapes[shape].comm;
    op.key = draw(&shared);
    op.request = MPI_REQUEST_NULL;
    MPI_Comm_rank(op.comm, &op.me);
    MPI_Comm_size(op.comm, &op.size);
    do
        op.kind = below(&shared, shape >= LINE ? KINDS : NEAR_ALLGATHER);
    while (only && !strstr(kind_names[op.kind], only));
    op.root = below(&shared, op.size);
    if (is_near(op.kind))
        op.root = -1;
    op.in_place = !is_near(op.kind) && op.kind != BARRIER && op.kind != BCAST && below(&shared, 3) == 0 &&
        (!has_root(op.kind) || op.me == op.root);
    op.base = below(&shared, BASES);
    op.unit = is_reduction(op.kind) ? 1 : 1 + below(&shared, UNIT_LIMIT);
    if (is_reduction(op.kind)) {
        op.number = &numbers[below(&shared, number_kinds)];
        op.reduced = (layout) { op.number->type, 1, op.number->form, {0} };
    }
    int parts = op.kind == BCAST || op.kind == SCAN || op.kind == EXSCAN || op.kind == REDUCE || op.kind == ALLREDUCE ? 1 : op.size;
    int limit = (mode == BLOCKING ? largest : in_flight ? largest / 2 : largest / 8) / parts / op.unit / (is_reduction(op.kind) ? op.number->form : bases[op.base].bytes);
    int choice = below(&shared, 20), bits = 0, units;
    while (limit >> (bits + 1))
        bits++;
    if (choice < 3)
        units = choice > 0;
    else if (choice < 10)
        units = 2 + below(&shared, 15);
    else if (choice < 16)
        units = (1 << below(&shared, 13)) - 1 + below(&shared, 3);
    else
        units = (1 << below(&shared, bits + 1)) + below(&shared, 1 << below(&shared, bits + 1));
    op.most = (units > limit ? limit : units) * op.unit;

    stream own = { mix(op.key + 99 + (uint64_t) op.me) };
    add_pieces(&op);
    lay_out(&op, &op.send, &own);
    lay_out(&op, &op.receive, &own);
    fill(&op);
    return op;
}

#define CALL(large, small, ...) \
    (op->mode == BLOCKING ? MPI_##large(__VA_ARGS__) : op->mode == IN_FLIGHT ? MPI_I##small(__VA_ARGS__, &op->request) : \
     MPI_##large##_init(__VA_ARGS__, MPI_INFO_NULL, &op->request))

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double) time.tv_sec + (double) time.tv_nsec * 1e-9;
}

static void call(operation *op)
{
    side *s = &op->send, *r = &op->receive;
    void *out = op->in_place ? MPI_IN_PLACE : s->memory + GUARD, *in = r->memory + GUARD;
    int *rc = r->counts;
    MPI_Datatype st = s->types[0], rt = r->types[0];
    int n = op->most, sc = s->counts[0];

    op->came = now();
    switch (op->kind) {
        case BARRIER: CALL(Barrier, barrier, op->comm); break;
        case BCAST: CALL(Bcast, bcast, in, rc[0], rt, op->root, op->comm); break;
        case REDUCE: CALL(Reduce, reduce, out, in, n, rt, op->number->op, op->root, op->comm); break;
        case ALLREDUCE: CALL(Allreduce, allreduce, out, in, n, rt, op->number->op, op->comm); break;
        case REDUCE_SCATTER: {
            /* the counts of all, which must stay as long as the request: where the pieces of others would be */
            r->places = realloc(r->places, (size_t) op->size * sizeof(int));
            for (int i = 0; i < op->size; i++)
                r->places[i] = count_of(op, i, 0);
            CALL(Reduce_scatter, reduce_scatter, out, in, r->places, rt, op->number->op, op->comm);
            break;
        }
        case REDUCE_SCATTER_BLOCK: CALL(Reduce_scatter_block, reduce_scatter_block, out, in, n, rt, op->number->op, op->comm); break;
        case SCAN: CALL(Scan, scan, out, in, n, rt, op->number->op, op->comm); break;
        case EXSCAN: CALL(Exscan, exscan, out, in, n, rt, op->number->op, op->comm); break;
        case GATHER: CALL(Gather, gather, out, sc, st, in, rc[0], rt, op->root, op->comm); break;
        case GATHERV: CALL(Gatherv, gatherv, out, sc, st, in, rc, r->places, rt, op->root, op->comm); break;
        case SCATTER: CALL(Scatter, scatter, s->memory + GUARD, sc, st, op->in_place ? MPI_IN_PLACE : in, rc[0], rt, op->root, op->comm); break;
        case SCATTERV: CALL(Scatterv, scatterv, s->memory + GUARD, s->counts, s->places, st, op->in_place ? MPI_IN_PLACE : in, rc[0], rt, op->root,
                            op->comm); break;
        case ALLGATHER: CALL(Allgather, allgather, out, sc, st, in, rc[0], rt, op->comm); break;
        case ALLGATHERV: CALL(Allgatherv, allgatherv, out, sc, st, in, rc, r->places, rt, op->comm); break;
        case ALLTOALL: CALL(Alltoall, alltoall, out, sc, st, in, rc[0], rt, op->comm); break;
        case ALLTOALLV: CALL(Alltoallv, alltoallv, out, s->counts, s->places, st, in, rc, r->places, rt, op->comm); break;
        case ALLTOALLW: CALL(Alltoallw, alltoallw, out, s->counts, s->byte_places, s->types, in, rc, r->byte_places, r->types, op->comm); break;
        case NEAR_ALLGATHER: CALL(Neighbor_allgather, neighbor_allgather, out, sc, st, in, rc[0], rt, op->comm); break;
        case NEAR_ALLGATHERV: CALL(Neighbor_allgatherv, neighbor_allgatherv, out, sc, st, in, rc, r->places, rt, op->comm); break;
        case NEAR_ALLTOALL: CALL(Neighbor_alltoall, neighbor_alltoall, out, sc, st, in, rc[0], rt, op->comm); break;
        case NEAR_ALLTOALLV: CALL(Neighbor_alltoallv, neighbor_alltoallv, out, s->counts, s->places, st, in, rc, r->places, rt, op->comm); break;
        default: CALL(Neighbor_alltoallw, neighbor_alltoallw, out, s->counts, s->far_places, s->types, in, rc, r->far_places, r->types, op->comm);
    }
    op->went = now();
}

static void compare(const operation *op, const side *side, const char *what)
{
    for (size_t i = 0; i < side->bytes + 2 * GUARD; i++)
        if (side->memory[i] != side->expected[i]) {
            fault("--seed %llu --step %ld: %s: in the %s buffer byte %ld of %zu is %02x, not %02x", (unsigned long long) seed, step, describe(op), what,
                  (long) i - GUARD, side->bytes, side->memory[i], side->expected[i]);
            return;
        }
}

static uint64_t sums;

/* Near the model's; taken for it from then on. */
static void compare_roughly(operation *op)
{
    double *got = (double *) (op->receive.memory + GUARD), *model = (double *) (op->receive.expected + GUARD);
    for (int i = 0; i < count_of(op, op->me, 0); i++) {
        EXPECT(fabs(got[i] - model[i]) <= 1e-9 * fabs(model[i]), "--seed %llu --step %ld: %s: number %d is %.17g, not %.17g", (unsigned long long) seed,
               step, describe(op), i, got[i], model[i]);
        sums = mix(sums ^ of_double(got[i]));
        model[i] = got[i];
    }
    /* All have what the first one has. */
    if (op->kind == ALLREDUCE)
        MPI_Bcast(model, op->receive.piece[0].count, MPI_DOUBLE, 0, op->comm);
}

static void verify(operation *op)
{
    if (op->kind == BARRIER) {
        /* Hosts of namespaces have one clock. */
        double last;
        MPI_Allreduce(&op->came, &last, 1, MPI_DOUBLE, MPI_MAX, op->comm);
        EXPECT(op->went >= last, "--seed %llu --step %ld: %s: left %g us before the last came", (unsigned long long) seed, step, describe(op),
               1e6 * (last - op->went));
    }
    /* What MPI leaves open. */
    if (op->kind == EXSCAN && op->me == 0)
        memcpy(op->receive.expected + GUARD, op->receive.memory + GUARD, op->receive.bytes);
    if ((op->kind == REDUCE_SCATTER || op->kind == REDUCE_SCATTER_BLOCK) && op->in_place) {
        size_t mine = (size_t) count_of(op, op->me, 0) * (size_t) op->reduced.extent;
        memcpy(op->receive.expected + GUARD + mine, op->receive.memory + GUARD + mine, op->receive.bytes - mine);
    }
    if (op->number && op->number->rough && (op->kind != REDUCE || op->me == op->root) && (op->kind != EXSCAN || op->me > 0))
        compare_roughly(op);
    compare(op, &op->send, "send");
    compare(op, &op->receive, "receive");
}

static void release(side *side)
{
    free(side->piece);
    free(side->counts);
    free(side->places);
    free(side->byte_places);
    free(side->far_places);
    free(side->types);
    free(side->memory);
    free(side->expected);
}

/* Waits for all that is in flight, each rank in an order of its own. */
static void complete(operation *ops, int count, stream *own)
{
    MPI_Request requests[IN_FLIGHT_LIMIT];
    int way = below(own, 4), index, done, some[IN_FLIGHT_LIMIT];

    for (int i = 0; i < count; i++)
        requests[i] = ops[i].request;
    if (way == 0) {
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    } else if (way == 1) {
        while (MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE), index != MPI_UNDEFINED)
            ;
    } else if (way == 2) {
        do
            MPI_Testsome(count, requests, &done, some, MPI_STATUSES_IGNORE);
        while (done != MPI_UNDEFINED);
    } else {
        int first = below(own, count), stride = below(own, 2) ? 1 : count - 1;
        for (int i = 0; i < count; i++)
            MPI_Wait(&requests[(first + i * stride) % count], MPI_STATUS_IGNORE);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < count; i++) {
        if (ops[i].mode != BLOCKING)
            ops[i].went = now();
        if (ops[i].mode == IN_FLIGHT)
            ops[i].request = MPI_REQUEST_NULL;
    }
}

static operation ops[IN_FLIGHT_LIMIT];
static int op_count;

/* Where a step hangs is known by this. */
static void too_long(int signal)
{
    (void) signal;
    fprintf(stderr, "rank %d: --seed %llu --step %ld did not end:", rank, (unsigned long long) seed, step);
    for (int i = 0; i < op_count; i++)
        fprintf(stderr, " %s;", describe(&ops[i]));
    fprintf(stderr, "\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Persistent ones, each rank in an order of its own. */
static void start(stream *own, uint64_t round)
{
    int first = below(own, op_count), stride = below(own, 2) ? 1 : op_count - 1;
    for (int k = 0; k < op_count; k++) {
        operation *op = &ops[(first + (op_count > 1 ? k * stride : k)) % op_count];
        op->round = round;
        fill(op);
        op->came = now();
        MPI_Start(&op->request);
    }
}

static void one_step(void)
{
    stream shared = { mix(seed * 1000003 + (uint64_t) step) }, own = { mix(shared.state + 5 + (uint64_t) rank) };
    int style = in_flight ? 10 + below(&shared, 7) : below(&shared, 20), wanted = style < 10 ? 1 : 2 + below(&shared, IN_FLIGHT_LIMIT - 1), rounds = style >= 17 ? 3 : 1;

    op_count = 0;
    for (int i = 0; i < wanted; i++) {
        int mode = style < 10 ? BLOCKING : style >= 17 ? PERSISTENT : below(&shared, 4) == 0 ? BLOCKING : IN_FLIGHT;
        int shape = below(&shared, SHAPES);
        uint64_t key = draw(&shared);
        if (only && strstr(only, "neighbor"))
            shape = LINE + shape % 2;
        if (shapes[shape].comm != MPI_COMM_NULL)
            ops[op_count++] = prepare(mode, shape, key);
    }
    if (late > 0 && below(&own, late) == 0)
        usleep((useconds_t) below(&own, 2000));
    int dies = step == kill_step && rank == below(&shared, ranks), dies_at = dies ? below(&own, op_count + 1) : -1;
    for (int i = 0; i < op_count; i++) {
        if (i == dies_at)
            raise(SIGKILL);
        call(&ops[i]);
    }
    if (dies)
        raise(SIGKILL);
    for (int round = 0; round < rounds; round++) {
        if (rounds > 1 && op_count > 0)
            start(&own, (uint64_t) round);
        if (op_count > 0)
            complete(ops, op_count, &own);
        for (int i = 0; i < op_count; i++)
            verify(&ops[i]);
    }
    for (int i = 0; i < op_count; i++) {
        if (ops[i].mode == PERSISTENT)
            MPI_Request_free(&ops[i].request);
        release(&ops[i].send);
        release(&ops[i].receive);
    }
}

static void random_ones(void)
{
    signal(SIGALRM, too_long);
    for (step = first_step; step < first_step + steps; step++) {
        alarm(patience);
        if (step == first_step || step % REBUILD == 0) {
            if (step > first_step)
                free_shapes();
            make_shapes(mix(seed + (uint64_t) (step / REBUILD)));
        }
        one_step();
    }
    alarm(0);
    free_shapes();

    uint64_t mine = mix(sums + (uint64_t) rank), all;
    MPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("sums %016llx\n", (unsigned long long) all);
}

/* All at once, of several shapes, each used when it is made, and again when all are there. */
static void many(void)
{
    MPI_Comm *comms = malloc((size_t) live * sizeof *comms);
    int *sums = malloc((size_t) live * sizeof *sums);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < live; i++) {
            int c = round == 1 ? live - 1 - i : i, me, size, all = 0, told;
            if (round == 0)
                MPI_Comm_split(MPI_COMM_WORLD, i % 3 == 0 ? 0 : (rank / (1 + i % 3)) % 2, i % 2 ? -rank : rank, &comms[c]);
            MPI_Comm_rank(comms[c], &me);
            MPI_Comm_size(comms[c], &size);
            MPI_Barrier(comms[c]);
            MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, comms[c]);
            told = me == c % size ? all + c : -1;
            MPI_Bcast(&told, 1, MPI_INT, c % size, comms[c]);
            EXPECT(told == all + c, "communicator %d, round %d: %d, not %d", c, round, told, all + c);
            if (round == 0)
                sums[c] = all;
            EXPECT(all == sums[c], "communicator %d, round %d: a sum of %d, which was %d", c, round, all, sums[c]);
            if (round == 2)
                MPI_Comm_free(&comms[c]);
        }
    free(comms);
    free(sums);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = { {"random", random_ones, 1, 0}, {"many", many, 1, 1} };

    for (int i = 1; i + 1 < argc; i++) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--seed") == 0)
            seed = strtoull(value, NULL, 10);
        else if (strcmp(name, "--steps") == 0)
            steps = atol(value);
        else if (strcmp(name, "--step") == 0)
            first_step = atol(value);
        else if (strcmp(name, "--kill") == 0)
            kill_step = atol(value);
        else if (strcmp(name, "--live") == 0)
            live = atoi(value);
        else if (strcmp(name, "--late") == 0)
            late = atoi(value);
        else if (strcmp(name, "--patience") == 0)
            patience = (unsigned) atoi(value);
        else if (strcmp(name, "--largest") == 0)
            largest = atoi(value);
        else if (strcmp(name, "--only") == 0)
            only = value;
        else if (strcmp(name, "--all") == 0)
            in_flight = strcmp(value, "flight") == 0;
    }
    MPI_Init(&argc, &argv);
    make_types();
    int status = run_parts(parts, 2, argc, argv);
    free_types();
    MPI_Finalize();
    return status;
}
