/* Every collective at every size: time per call.
 *
 * As the OSU benchmarks do: a barrier before each call, the call alone is timed, and the mean over the calls and the ranks is the result; the
 * root is rank 0. --operation NAME_written: the caller writes its buffer before each call, outside the time, as a program would.
 * The median of five batches, since a batch in which the scheduler took a core away says nothing.
 * --operation first: the first call of each operation on a new communicator (`NAME first`), and the tenth (`NAME later`), medians over several
 * communicators, or over those that a second allows.
 *
 * A size is the bytes of the message or vector, and of a block where every rank has one for each or from each. */
#include "bench.h"

enum { MOST = 500, FRESH = 7, LATER = 10 };

struct call {
    const struct bench *bench;
    MPI_Comm comm;
    char *out, *in;
    int size;                   /* bytes */
    int *counts, *places;       /* of the blocks; for reduce_scatter of its parts */
    MPI_Datatype number;        /* what is reduced, and how many */
    int elements;
};

static void wait(MPI_Request *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void barrier(struct call *c) { MPI_Barrier(c->comm); }
static void bcast(struct call *c) { MPI_Bcast(c->bench->rank == 0 ? c->out : c->in, c->size, MPI_CHAR, 0, c->comm); }
static void reduce(struct call *c) { MPI_Reduce(c->out, c->in, c->elements, c->number, MPI_SUM, 0, c->comm); }
static void allreduce(struct call *c) { MPI_Allreduce(c->out, c->in, c->elements, c->number, MPI_SUM, c->comm); }
static void gather(struct call *c) { MPI_Gather(c->out, c->size, MPI_CHAR, c->in, c->size, MPI_CHAR, 0, c->comm); }
static void scatter(struct call *c) { MPI_Scatter(c->out, c->size, MPI_CHAR, c->in, c->size, MPI_CHAR, 0, c->comm); }
static void allgather(struct call *c) { MPI_Allgather(c->out, c->size, MPI_CHAR, c->in, c->size, MPI_CHAR, c->comm); }
static void allgatherv(struct call *c) { MPI_Allgatherv(c->out, c->size, MPI_CHAR, c->in, c->counts, c->places, MPI_CHAR, c->comm); }
static void alltoall(struct call *c) { MPI_Alltoall(c->out, c->size, MPI_CHAR, c->in, c->size, MPI_CHAR, c->comm); }
static void alltoallv(struct call *c) { MPI_Alltoallv(c->out, c->counts, c->places, MPI_CHAR, c->in, c->counts, c->places, MPI_CHAR, c->comm); }
static void reduce_scatter(struct call *c) { MPI_Reduce_scatter(c->out, c->in, c->counts, c->number, MPI_SUM, c->comm); }
static void scan(struct call *c) { MPI_Scan(c->out, c->in, c->elements, c->number, MPI_SUM, c->comm); }
static void ibarrier(struct call *c) { MPI_Request r; MPI_Ibarrier(c->comm, &r); wait(&r); }
static void ibcast(struct call *c) { MPI_Request r; MPI_Ibcast(c->bench->rank == 0 ? c->out : c->in, c->size, MPI_CHAR, 0, c->comm, &r); wait(&r); }
static void iallreduce(struct call *c) { MPI_Request r; MPI_Iallreduce(c->out, c->in, c->elements, c->number, MPI_SUM, c->comm, &r); wait(&r); }
static void ialltoall(struct call *c) { MPI_Request r; MPI_Ialltoall(c->out, c->size, MPI_CHAR, c->in, c->size, MPI_CHAR, c->comm, &r); wait(&r); }
static void igather(struct call *c) { MPI_Request r; MPI_Igather(c->out, c->size, MPI_CHAR, c->in, c->size, MPI_CHAR, 0, c->comm, &r); wait(&r); }
static void iscatter(struct call *c) { MPI_Request r; MPI_Iscatter(c->out, c->size, MPI_CHAR, c->in, c->size, MPI_CHAR, 0, c->comm, &r); wait(&r); }
static void iallgather(struct call *c) { MPI_Request r; MPI_Iallgather(c->out, c->size, MPI_CHAR, c->in, c->size, MPI_CHAR, c->comm, &r); wait(&r); }
static void ialltoallv(struct call *c)
{
    MPI_Request r;
    MPI_Ialltoallv(c->out, c->counts, c->places, MPI_CHAR, c->in, c->counts, c->places, MPI_CHAR, c->comm, &r);
    wait(&r);
}
static void ireduce(struct call *c) { MPI_Request r; MPI_Ireduce(c->out, c->in, c->elements, c->number, MPI_SUM, 0, c->comm, &r); wait(&r); }
static void ireduce_scatter(struct call *c) { MPI_Request r; MPI_Ireduce_scatter(c->out, c->in, c->counts, c->number, MPI_SUM, c->comm, &r); wait(&r); }
static void iscan(struct call *c) { MPI_Request r; MPI_Iscan(c->out, c->in, c->elements, c->number, MPI_SUM, c->comm, &r); wait(&r); }
static void neighbor_allgather(struct call *c) { MPI_Neighbor_allgather(c->out, c->size, MPI_CHAR, c->in, c->size, MPI_CHAR, c->comm); }
static void neighbor_alltoall(struct call *c) { MPI_Neighbor_alltoall(c->out, c->size, MPI_CHAR, c->in, c->size, MPI_CHAR, c->comm); }
static void ineighbor_alltoall(struct call *c)
{
    MPI_Request r;
    MPI_Ineighbor_alltoall(c->out, c->size, MPI_CHAR, c->in, c->size, MPI_CHAR, c->comm, &r);
    wait(&r);
}

/* What is in the buffers: every byte, or every number, of rank r is r + 1. */
enum kind { NOTHING, FROM_ROOT, SUM_AT_ROOT, SUM, PART_OF_SUM, PREFIX, BLOCKS, BLOCKS_AT_ROOT, NEIGHBOURS };

static const struct operation {
    const char *name;
    void (*run)(struct call *call);
    enum kind kind;
    int blocks;                 /* buffers have one for each rank */
} operations[] = {
    { "barrier", barrier, NOTHING, 0 }, { "bcast", bcast, FROM_ROOT, 0 }, { "reduce", reduce, SUM_AT_ROOT, 0 }, { "allreduce", allreduce, SUM, 0 },
    { "gather", gather, BLOCKS_AT_ROOT, 1 }, { "scatter", scatter, FROM_ROOT, 1 }, { "allgather", allgather, BLOCKS, 1 },
    { "allgatherv", allgatherv, BLOCKS, 1 }, { "alltoall", alltoall, BLOCKS, 1 }, { "alltoallv", alltoallv, BLOCKS, 1 },
    { "reduce_scatter", reduce_scatter, PART_OF_SUM, 0 }, { "scan", scan, PREFIX, 0 }, { "ibarrier", ibarrier, NOTHING, 0 },
    { "ibcast", ibcast, FROM_ROOT, 0 }, { "iallreduce", iallreduce, SUM, 0 }, { "ialltoall", ialltoall, BLOCKS, 1 },
    /* Only when they are named: */
    { "igather", igather, BLOCKS_AT_ROOT, 1 }, { "iscatter", iscatter, FROM_ROOT, 1 }, { "iallgather", iallgather, BLOCKS, 1 },
    { "ialltoallv", ialltoallv, BLOCKS, 1 }, { "ireduce", ireduce, SUM_AT_ROOT, 0 }, { "ireduce_scatter", ireduce_scatter, PART_OF_SUM, 0 },
    { "iscan", iscan, PREFIX, 0 }, { "neighbor_allgather", neighbor_allgather, NEIGHBOURS, 1 },
    { "neighbor_alltoall", neighbor_alltoall, NEIGHBOURS, 1 }, { "ineighbor_alltoall", ineighbor_alltoall, NEIGHBOURS, 1 },
};
enum { OPERATIONS = sizeof operations / sizeof operations[0], TABLE = OPERATIONS - 10, AROUND = 4 };

static int adds(const struct operation *operation)
{
    return operation->kind >= SUM_AT_ROOT && operation->kind <= PREFIX;
}

/* As many doubles as fit, or floats, or bytes. */
static void put_numbers(const struct call *call, char *buffer, int value)
{
    for (int i = 0; i < call->elements; i++)
        if (call->number == MPI_DOUBLE)
            ((double *) buffer)[i] = value;
        else if (call->number == MPI_FLOAT)
            ((float *) buffer)[i] = (float) value;
        else
            buffer[i] = (char) value;
}

static struct call prepare(const struct bench *bench, const struct operation *operation, MPI_Comm comm, size_t size)
{
    const size_t room = size * (size_t) (operation->kind == NEIGHBOURS ? AROUND : operation->blocks ? bench->ranks : 1);
    struct call call = { bench, comm, bench_buffer(bench, room), bench_buffer(bench, room), (int) size, NULL, NULL, MPI_SIGNED_CHAR, (int) size };
    if (size % 8 == 0 && size > 0)
        call.number = MPI_DOUBLE, call.elements = (int) size / 8;
    else if (size % 4 == 0 && size > 0)
        call.number = MPI_FLOAT, call.elements = (int) size / 4;
    call.counts = malloc((size_t) bench->ranks * sizeof(int));
    call.places = malloc((size_t) bench->ranks * sizeof(int));
    for (int i = 0; i < bench->ranks; i++) {
        call.counts[i] = operation->kind == PART_OF_SUM ? call.elements / bench->ranks + (i < call.elements % bench->ranks) : (int) size;
        call.places[i] = i * (int) size;
    }
    if (adds(operation))
        put_numbers(&call, call.out, bench->rank + 1);
    else
        memset(call.out, bench->rank + 1, room);
    return call;
}

static void release(struct call *call)
{
    free(call->out);
    free(call->in);
    free(call->counts);
    free(call->places);
}

static void verify(struct call *call, const struct operation *operation)
{
    const struct bench *bench = call->bench;
    const int rank = bench->rank, ranks = bench->ranks;
    if (operation->kind == NEIGHBOURS) {
        int from[AROUND];
        operation->run(call);
        for (int i = 0; i < AROUND; i += 2)
            MPI_Cart_shift(call->comm, i / 2, 1, &from[i], &from[i + 1]);
        for (int i = 0; i < AROUND; i++)
            if (call->in[(size_t) i * (size_t) call->size] != from[i] + 1)
                bench_fail(bench, operation->name);
        return;
    }
    int blocks = operation->kind == BLOCKS || operation->kind == BLOCKS_AT_ROOT ? ranks : 1, bytes = call->size;
    char *expected;

    operation->run(call);
    if (operation->kind == NOTHING || ((operation->kind == SUM_AT_ROOT || operation->kind == BLOCKS_AT_ROOT) && rank != 0) ||
        (operation->kind == FROM_ROOT && rank == 0 && !operation->blocks))
        return;
    expected = malloc((size_t) blocks * (size_t) bytes);
    for (int from = 0; from < blocks; from++)
        memset(expected + (size_t) from * (size_t) bytes, from + 1, (size_t) bytes);
    if (adds(operation))
        put_numbers(call, expected, operation->kind == PREFIX ? (rank + 1) * (rank + 2) / 2 : ranks * (ranks + 1) / 2);
    if (operation->kind == PART_OF_SUM)
        bytes = call->counts[rank] * (call->elements > 0 ? call->size / call->elements : 0);
    if (memcmp(expected, call->in, (size_t) blocks * (size_t) bytes) != 0)
        bench_fail(bench, operation->name);
    free(expected);
}

/* Seconds of a call, and how long each takes with what is around it. */
static double timed(struct call *call, const struct operation *operation, int written, long calls, double *with_barrier)
{
    double all = 0, began = bench_now(), mean, both[2], sums[2];
    for (long i = 0; i < calls; i++) {
        if (written)
            memset(call->out, call->bench->rank + 1, (size_t) call->size);
        MPI_Barrier(call->bench->comm);
        double start = bench_now();
        operation->run(call);
        all += bench_now() - start;
    }
    both[0] = all / (double) calls;
    both[1] = (bench_now() - began) / (double) calls;
    MPI_Allreduce(both, sums, 2, MPI_DOUBLE, MPI_SUM, call->bench->comm);
    mean = sums[0] / call->bench->ranks;
    *with_barrier = sums[1] / call->bench->ranks;
    return mean;
}

/* Each has a neighbour on each of four sides. */
static MPI_Comm grid(const struct bench *bench)
{
    int sides[2] = { 0, 0 }, periodic[2] = { 1, 1 };
    MPI_Comm comm;
    MPI_Dims_create(bench->ranks, 2, sides);
    MPI_Cart_create(MPI_COMM_WORLD, 2, sides, periodic, 0, &comm);
    return comm;
}

static void measure(const struct bench *bench, const struct operation *operation, size_t size, int written)
{
    MPI_Comm comm = operation->kind == NEIGHBOURS ? grid(bench) : MPI_COMM_WORLD;
    struct call call = prepare(bench, operation, comm, size);
    char name[64];
    double each, seconds;

    verify(&call, operation);
    seconds = timed(&call, operation, written, 1, &each);
    /* One that takes longer than its time has been measured. */
    if (each < bench->budget / 2) {
        timed(&call, operation, written, 1, &each);
        const double calls = bench->budget / BENCH_BATCHES / (each > 1e-9 ? each : 1e-9);
        double batches[BENCH_BATCHES];
        for (int i = 0; i < BENCH_BATCHES; i++)
            batches[i] = timed(&call, operation, written, calls > MOST ? MOST : calls < 1 ? 1 : (long) calls, &each);
        qsort(batches, BENCH_BATCHES, sizeof batches[0], bench_compare);
        seconds = batches[BENCH_BATCHES / 2];
    }
    snprintf(name, sizeof name, "%s%s", operation->name, written ? " written" : "");
    bench_emit(bench, name, operation->kind == NOTHING ? 0 : size, seconds * 1e6, "us");
    release(&call);
    if (comm != MPI_COMM_WORLD)
        MPI_Comm_free(&comm);
}

static void first_calls(const struct bench *bench, const struct operation *operation, size_t size)
{
    double times[2][FRESH], each, taken = 0;
    char name[64];
    int made = 0;

    for (; made < FRESH && taken < 1; made++) {
        struct call call = prepare(bench, operation, MPI_COMM_NULL, size);
        MPI_Comm_dup(MPI_COMM_WORLD, &call.comm);
        times[0][made] = timed(&call, operation, 0, 1, &each);
        timed(&call, operation, 0, LATER - 2, &each);
        taken += LATER * each;
        times[1][made] = timed(&call, operation, 0, 1, &each);
        MPI_Comm_free(&call.comm);
        release(&call);
    }
    for (int later = 0; later < 2; later++) {
        qsort(times[later], (size_t) made, sizeof(double), bench_compare);
        snprintf(name, sizeof name, "%s %s", operation->name, later ? "later" : "first");
        bench_emit(bench, name, operation->kind == NOTHING ? 0 : size, times[later][made / 2] * 1e6, "us");
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "colltable", "1,4,16,64,256,1024,4096,16384,65536,262144,1048576", 2, 126, &argc, &argv);
    const char *wanted = bench.operation ? bench.operation : "";
    const char *end = strstr(wanted, "_written");
    const size_t length = end ? (size_t) (end - wanted) : strlen(wanted);
    const int first = strcmp(wanted, "first") == 0, written = end != NULL;
    int found = 0;
    /* As a program that computes: so that the ranks are spread over the cores before the first call. */
    for (double start = bench_now(); bench_now() - start < 0.05;)
        ;
    for (int i = 0; i < (*wanted && !first ? OPERATIONS : TABLE); i++) {
        const struct operation *operation = &operations[i];
        if (*wanted && !first && (strlen(operation->name) != length || strncmp(operation->name, wanted, length) != 0))
            continue;
        found = 1;
        for (int j = 0; j < (operation->kind == NOTHING ? 1 : bench.size_count); j++)
            if (first)
                first_calls(&bench, operation, bench.sizes[j]);
            else
                measure(&bench, operation, bench.sizes[j], written);
    }
    if (!found)
        bench_fail(&bench, "there is no such --operation");
    bench_finalize(&bench);
    return 0;
}
