/* Collectives that fail at one rank. It finds no memory: nobody waits for ever, and who is told of no error has the right result; each
 * allocation that a call makes fails once, at the first rank of a host and at the last one. Or it expects another size: that is an error of
 * this call, and not of the next. What is said of an error names the call and a reason.
 * Those with counts for each rank are left out: MPICH does not look whether it has memory for its copies of them.
 * With several hosts, or what MPICH takes for them (MPIR_CVAR_NUM_CLIQUES), the first rank speaks for its host. */
#include "expect.h"
#include <limits.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static __thread long until = -1;        /* allocations before the one that fails; -1: none does */

static int fails(void)
{
    return until >= 0 && until-- == 0;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return fails() ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __libc_memalign(alignment, size);
}

/* C++: what lies below collectives ends the process when it has no memory. */
void *_Znwm(size_t size);
void *_Znwm(size_t size)
{
    return __libc_malloc(size);
}

enum { longest = 60000, ranks_max = 8, piece = 131072 };
static int from[ranks_max * longest * 2], to[ranks_max * longest * 2];
static MPI_Comm comm;
static MPI_Request request;
static int count;
static MPI_Datatype type;

static int barrier(void) { return MPI_Barrier(comm); }
static int bcast(void) { return MPI_Bcast(to, count, type, 0, comm); }
static int gather(void) { return MPI_Gather(from, count, type, to, count, type, 0, comm); }
static int scatter(void) { return MPI_Scatter(from, count, type, to, count, type, 0, comm); }
static int allgather(void) { return MPI_Allgather(from, count, type, to, count, type, comm); }
static int alltoall(void) { return MPI_Alltoall(from, count, type, to, count, type, comm); }
static int reduce(void) { return MPI_Reduce(from, to, count, MPI_INT, MPI_SUM, 0, comm); }
static int allreduce(void) { return MPI_Allreduce(from, to, count, MPI_INT, MPI_SUM, comm); }
static int reduce_scatter_block(void) { return MPI_Reduce_scatter_block(from, to, count, MPI_INT, MPI_SUM, comm); }

static int scan(void) { return MPI_Scan(from, to, count, MPI_INT, MPI_SUM, comm); }
static int exscan(void) { return MPI_Exscan(from, to, count, MPI_INT, MPI_SUM, comm); }

static int ended(int error) { return error ? error : MPI_Wait(&request, MPI_STATUS_IGNORE); }
static int ibarrier(void) { return ended(MPI_Ibarrier(comm, &request)); }
static int ibcast(void) { return ended(MPI_Ibcast(to, count, type, 0, comm, &request)); }
static int igather(void) { return ended(MPI_Igather(from, count, type, to, count, type, 0, comm, &request)); }
static int iscatter(void) { return ended(MPI_Iscatter(from, count, type, to, count, type, 0, comm, &request)); }
static int iallgather(void) { return ended(MPI_Iallgather(from, count, type, to, count, type, comm, &request)); }
static int ialltoall(void) { return ended(MPI_Ialltoall(from, count, type, to, count, type, comm, &request)); }
static int ireduce(void) { return ended(MPI_Ireduce(from, to, count, MPI_INT, MPI_SUM, 0, comm, &request)); }
static int iallreduce(void) { return ended(MPI_Iallreduce(from, to, count, MPI_INT, MPI_SUM, comm, &request)); }
static int ireduce_scatter_block(void) { return ended(MPI_Ireduce_scatter_block(from, to, count, MPI_INT, MPI_SUM, comm, &request)); }
static int persistent(void)
{
    int error = MPI_Allreduce_init(from, to, count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
    if (error)
        return error;
    error = MPI_Start(&request);
    if (error == MPI_SUCCESS)
        error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    return error;
}
static int iscan(void) { return ended(MPI_Iscan(from, to, count, MPI_INT, MPI_SUM, comm, &request)); }

static const struct {
    const char *name;
    int (*call)(void);
    int waits;                  /* all ranks for all: the first that fails at one fails at all */
} blocking[] = {
    { "barrier", barrier, 1 },
    { "bcast", bcast, 0 },
    { "gather", gather, 0 },
    { "scatter", scatter, 0 },
    { "allgather", allgather, 0 },
    { "alltoall", alltoall, 0 },
    { "reduce", reduce, 0 },
    { "allreduce", allreduce, 1 },
    { "reduce_scatter_block", reduce_scatter_block, 1 },
    { "scan", scan, 0 },
    { "exscan", exscan, 0 },
}, later[] = {
    { "ibarrier", ibarrier, 1 },
    { "ibcast", ibcast, 0 },
    { "igather", igather, 0 },
    { "iscatter", iscatter, 0 },
    { "iallgather", iallgather, 1 },
    { "ialltoall", ialltoall, 1 },
    { "ireduce", ireduce, 0 },
    { "iallreduce", iallreduce, 1 },
    { "ireduce_scatter_block", ireduce_scatter_block, 1 },
    { "iscan", iscan, 0 },
    { "allreduce_init", persistent, 0 },
};

/* The allocation of that number fails at `victim`. Whether there was one. */
static int once(int (*call)(void), const char *name, int waits, int victim, int which)
{
    int error, all[2], mine[2] = { 0, 0 };
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    /* By now it has all that it will need later. */
    for (int i = 0; i < 3; i++)
        MPI_Barrier(comm);
    /* What an allreduce leaves must be its own. */
    to[0] = -1;
    until = rank == victim ? which : -1;
    error = call();
    mine[0] = rank == victim && until < 0;
    mine[1] = error != MPI_SUCCESS;
    until = -1;
    MPI_Allreduce(mine, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(error || strstr(name, "allreduce") == NULL || to[0] == ranks, "%s: the result is %d", name, to[0]);
    EXPECT(all[0] || !all[1], "%s: an error, though nothing failed", name);
    EXPECT(!waits || !all[1] || which > 0 || all[1] == ranks, "%s: %d of %d ranks have an error", name, all[1], ranks);
    MPI_Comm_free(&comm);
    return all[0];
}

static void each(int (*call)(void), const char *name, int waits)
{
    /* A longer alltoall or scan goes between hosts by MPICH's algorithms, which leave others waiting. */
    const int has_limit = strcmp(name, "alltoall") == 0 || strstr(name, "scan") || (strstr(name, "alltoall") && getenv("MPIR_CVAR_NUM_CLIQUES"));
    const int victims[] = { 0, ranks - 1 }, sizes[] = { 1, 2000, has_limit ? 10000 : longest };
    MPI_Datatype with_gaps;
    MPI_Type_vector(1, 1, 2, MPI_INT, &type);
    MPI_Type_create_resized(type, 0, 2 * sizeof(int), &with_gaps);
    MPI_Type_free(&type);
    MPI_Type_commit(&with_gaps);
    for (int victim = 0; victim < 2; victim++)
        for (int size = 0; size < 3; size++)
            for (int gaps = 0; gaps < 2; gaps++) {
                count = sizes[size] / (strstr(name, "alltoall") || strstr(name, "gather") || strstr(name, "scatter") ? ranks : 1);
                count = count ? count : 1;
                type = gaps ? with_gaps : MPI_INT;
                for (int which = 0; once(call, name, waits, victims[victim], which); which++) {
                }
            }
    MPI_Type_free(&with_gaps);
}

static void all_blocking(void)
{
    for (unsigned i = 0; i < sizeof blocking / sizeof blocking[0]; i++)
        each(blocking[i].call, blocking[i].name, blocking[i].waits);
}

static void all_later(void)
{
    /* Between hosts nobody hears of a request that could not be made. */
    const unsigned made = getenv("MPIR_CVAR_NUM_CLIQUES") != NULL;
    for (unsigned i = 0; i < sizeof later / sizeof later[0] - made; i++)
        each(later[i].call, later[i].name, later[i].waits);
}

/* The call with a count that is another one at one rank; -1: at none. How many ranks have an error. */
static int errors_of(int (*call)(void), int wrong, const char *name)
{
    int all, failed;
    count = rank == wrong ? 3 : 2;
    for (int i = 0; i < ranks * count; i++)
        to[i] = -1;
    failed = call() != MPI_SUCCESS;
    MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(failed || wrong >= 0 || (to[0] == 1 && to[1] == 1), "%s: the result is %d %d", name, to[0], to[1]);
    return all;
}

static void other_sizes(void)
{
    const char *names[] = { "scatter", "alltoall" };
    int (*calls[])(void) = { scatter, alltoall };
    type = MPI_INT;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < 3; i++)
        MPI_Barrier(comm);
    for (int which = 0; which < 2; which++)
        for (int wrong = 0; wrong < ranks; wrong++) {
            int failed = errors_of(calls[which], wrong, names[which]);
            EXPECT(failed > 0, "%s: no error, though rank %d expects another size", names[which], wrong);
            failed = errors_of(calls[which], -1, names[which]);
            EXPECT(failed == 0, "%s: %d ranks have an error after rank %d had expected another size", names[which], failed, wrong);
        }
    MPI_Comm_free(&comm);
}

/* What is short at one rank and long at the others, or the other way round, or long at all but not as long: somebody is told, and nobody waits for steps that
 * others do not take. Those who are not told go on with messages. */
static void other_lengths(void)
{
    const int lengths[][2] = { {1000, longest}, {longest, 1000}, {longest, longest - 5000}, {3000, 5000}, {4096, 2048}, {8692, 8442}, {14336, 8192},
        {100000, 30000}, {30000, 100000}, {100000, 90000}, {5000, 90000} };
    /* Between hosts longer ones go by other algorithms, and who is on the other side of that waits for ever (doc/collectives.md). */
    const struct { const char *name; int (*call)(void); long limit; } calls[] = { {"bcast", bcast, LONG_MAX}, {"reduce", reduce, 1 << 20},
        {"gather", gather, (1 << 20) / ranks}, {"scan", scan, (1 << 18) / ranks} };
    const int has_hosts = getenv("MPIR_CVAR_NUM_CLIQUES") != NULL;

    type = MPI_INT;
    for (unsigned which = 0; which < sizeof calls / sizeof calls[0]; which++)
        for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            int failed, all, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, heard;
            if (has_hosts && (lengths[i][0] * 4L > calls[which].limit || lengths[i][1] * 4L > calls[which].limit))
                continue;
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
            MPI_Barrier(comm);
            count = lengths[i][rank == 0];
            failed = calls[which].call() != MPI_SUCCESS;
            MPI_Sendrecv(&rank, 1, MPI_INT, next, 0, &heard, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            EXPECT(heard == before, "%s: not the message of rank %d", calls[which].name, before);
            MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            EXPECT(all > 0, "%s: no error, though rank 0 has %d, others %d", calls[which].name, lengths[i][1], lengths[i][0]);
            MPI_Comm_free(&comm);
        }
}

static int mix_of(int turn, int at)
{
    return turn * 1000003 + at * 7;
}

/* A broadcast in pieces, of which rank 0, or the last one, has another number: that is an error, somewhere, and the next ones have their own data, if they
 * have any. On four hosts and more short ones go by another tree, so there who expects a short one may wait for ever (doc/collectives.md). */
static void other_pieces(void)
{
    const int lengths[][2] = { {piece, 2 * piece}, {2 * piece, piece}, {2 * piece, 3 * piece}, {3 * piece, 2 * piece}, {1, 2 * piece}, {4, 2 * piece},
        {2 * piece, 4}, {2 * piece, 1000}, {1000, 2 * piece}, {piece, 5 * piece}, {5 * piece, piece}, {3 * piece, 5 * piece}, {5 * piece, 3 * piece},
        {2 * piece, 2 * piece - 1}, {piece - 16, 2 * piece}, {2 * piece, piece - 16} };
    const char *hosts = getenv("MPIR_CVAR_NUM_CLIQUES");
    const int least = hosts && atoi(hosts) > 3 ? piece / 32 + 1 : 0;

    type = MPI_INT;
    for (unsigned i = 0; i < 2 * sizeof lengths / sizeof lengths[0]; i++) {
        const int *length = lengths[i / 2], wrong = i % 2 ? 0 : ranks - 1;
        int failed = 0, all;
        if (length[0] < least || length[1] < least)
            continue;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        for (int turn = 0; turn < 3; turn++)
            MPI_Barrier(comm);
        for (int turn = 0; turn < 4; turn++) {
            count = turn > 0 ? 2 * piece : length[rank == wrong];
            for (int at = 0; at < count; at++)
                to[at] = rank == 0 ? mix_of(turn, at) : -1;
            failed = bcast() != MPI_SUCCESS;
            for (int at = 0; turn > 0 && !failed && at < count; at++)
                if (to[at] != mix_of(turn, at)) {
                    fault("%d and %d numbers, broadcast %d: number %d is %d", length[0], length[1], turn, at, to[at]);
                    break;
                }
            MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            EXPECT(turn > 0 || all > 0, "no error, though rank %d has %d numbers, others %d", wrong, length[1], length[0]);
        }
        MPI_Comm_free(&comm);
    }
}

/* One rank has another count: who has an error can say which. Afterwards the ranks of a host have no team any more, and what is long goes on piece by
 * piece, all of which fail. */
static void texts(void)
{
    const struct { const char *name; int (*call)(void); } calls[] = { {"MPI_Allreduce", allreduce}, {"MPI_Allgather", allgather}, {"MPI_Bcast", bcast},
        {"MPI_Reduce", reduce}, {"MPI_Reduce_scatter_block", reduce_scatter_block} };
    const int counts[] = { 2, 1000, 50000 };
    const size_t pieces = (size_t) 80 << 20;
    const char *hosts = getenv("MPIR_CVAR_NUM_CLIQUES");
    const int alone = hosts && atoi(hosts) >= ranks;    /* on their hosts */
    char text[8192];

    type = MPI_INT;
    for (unsigned which = 0; which < sizeof calls / sizeof calls[0]; which++)
        for (unsigned size = 0; size < sizeof counts / sizeof counts[0]; size++)
            for (int wrong = 0; wrong < ranks; wrong += ranks - 1) {
                int error, failed, all, class = MPI_SUCCESS, length, lines = 0;
                size_t behind = MPI_MAX_ERROR_STRING;

                MPI_Comm_dup(MPI_COMM_WORLD, &comm);
                MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
                for (int i = 0; i < 3; i++)
                    MPI_Barrier(comm);
                count = (strstr(calls[which].name, "block") ? counts[size] / ranks + 1 : counts[size]) + (rank == wrong);
                error = calls[which].call();
                failed = error != MPI_SUCCESS;
                MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
                EXPECT(all > 0, "%s: no error, though rank %d has another count", calls[which].name, wrong);
                memset(text, '#', sizeof text);
                MPI_Error_string(error, text, &length);
                while (behind < sizeof text && text[behind] == '#')
                    behind++;
                EXPECT(behind == sizeof text && length < MPI_MAX_ERROR_STRING, "%s: byte %zu of the text of %d is written", calls[which].name, behind, length);
                for (const char *at = text; failed && (at = strchr(at, '\n')) != NULL; at++)
                    lines++;
                MPI_Error_class(error, &class);
                EXPECT(!failed || (strstr(text, calls[which].name) && lines >= 2 && !strstr(text, "Unknown")), "%s: class %d, \"%s\"", calls[which].name, class,
                       text);
                MPI_Comm_free(&comm);
            }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < 3; i++)
        MPI_Barrier(comm);
    count = longest - (rank == ranks - 1);
    int failed[2], all[2];
    failed[0] = allreduce() != MPI_SUCCESS;
    char *long_one = calloc(pieces, 1);
    EXPECT(long_one, "there is no memory for %zu bytes", pieces);
    failed[1] = MPI_Bcast(long_one, (int) pieces, MPI_CHAR, 0, comm) != MPI_SUCCESS;
    free(long_one);
    MPI_Allreduce(failed, all, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(all[0] > 0, "no error, though the last rank has another count");
    EXPECT(all[1] > 0 || alone, "no error in a broadcast by ranks that have no team any more");
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    const struct part parts[] = {
        { "blocking", all_blocking, 2, 0 },
        { "later", all_later, 2, 0 },
        { "other_sizes", other_sizes, 2, 0 },
        { "other_lengths", other_lengths, 2, 0 },
        { "other_pieces", other_pieces, 2, 0 },
        { "texts", texts, 2, 0 },
    };
    MPI_Init(&argc, &argv);
    for (int i = 0; i < ranks_max * longest * 2; i++)
        from[i] = 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
