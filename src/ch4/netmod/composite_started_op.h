/* One collective that ends later: what it enters its steps with, and what it does with what others have entered with. For
 * composite_started.c, which drives them.
 *
 * All that is short has one step. What is longer stays where it is, and the step says where (`lends`); or it has several steps, of pages
 * (exchange_t): a page is a piece of what all may read, or has a slice for each rank. A reduction in slices is followed by a second stage, in
 * which those who want all of it read the slices of the others. */
#ifndef COMPOSITE_STARTED_OP_H_INCLUDED
#define COMPOSITE_STARTED_OP_H_INCLUDED

#include "composite_team_data.h"
#include "composite_team_exchange.h"

typedef enum { NOBODY, ROOT, OTHERS, ALL } who_t;

typedef struct {
    pm_collective operation;    /* that the user chooses a way for */
    who_t says, hears;          /* who enters with data, and who reads it */
    bool parts;                 /* one for each rank, not the same for all */
    bool unknown;               /* how long those of others are: each rank decides for its own */
    bool adds;                  /* what is heard is reduced */
    bool lends;                 /* what is long stays where it is, otherwise it goes page by page */
} plan_t;

static const plan_t plans[MPIDI_COMPOSITE_COLLECTIVES] = {
    [MPIDI_COMPOSITE_IN_BARRIER] = {PM_COLL_BARRIER, NOBODY, ALL, false, false, false, false},
    [MPIDI_COMPOSITE_IN_BCAST] = {PM_COLL_BCAST, ROOT, OTHERS, false, false, false, true},
    [MPIDI_COMPOSITE_IN_GATHER] = {PM_COLL_GATHER, OTHERS, ROOT, false, false, false, false},
    [MPIDI_COMPOSITE_IN_GATHERV] = {PM_COLL_GATHER, OTHERS, ROOT, false, true, false, true},
    [MPIDI_COMPOSITE_IN_SCATTER] = {PM_COLL_SCATTER, ROOT, OTHERS, true, false, false, true},
    [MPIDI_COMPOSITE_IN_SCATTERV] = {PM_COLL_SCATTER, ROOT, OTHERS, true, true, false, true},
    [MPIDI_COMPOSITE_IN_ALLGATHER] = {PM_COLL_ALLGATHER, ALL, ALL, false, false, false, false},
    [MPIDI_COMPOSITE_IN_ALLGATHERV] = {PM_COLL_ALLGATHER, ALL, ALL, false, false, false, false},
    [MPIDI_COMPOSITE_IN_ALLTOALL] = {PM_COLL_ALLTOALL, ALL, ALL, true, false, false, true},
    [MPIDI_COMPOSITE_IN_ALLTOALLV] = {PM_COLL_ALLTOALL, ALL, ALL, true, true, false, false},
    [MPIDI_COMPOSITE_IN_ALLTOALLW] = {PM_COLL_ALLTOALL, ALL, ALL, true, true, false, false},
    [MPIDI_COMPOSITE_IN_REDUCE] = {PM_COLL_REDUCE, ALL, ROOT, false, false, true, false},
    [MPIDI_COMPOSITE_IN_ALLREDUCE] = {PM_COLL_ALLREDUCE, ALL, ALL, false, false, true, false},
    [MPIDI_COMPOSITE_IN_REDUCE_SCATTER] = {PM_COLL_REDUCE_SCATTER, ALL, ALL, false, false, true, false},
    [MPIDI_COMPOSITE_IN_REDUCE_SCATTER_BLOCK] = {PM_COLL_REDUCE_SCATTER, ALL, ALL, false, false, true, false},
    [MPIDI_COMPOSITE_IN_SCAN] = {PM_COLL_SCAN, ALL, ALL, false, false, true, false},
    [MPIDI_COMPOSITE_IN_EXSCAN] = {PM_COLL_SCAN, ALL, ALL, false, false, true, false}
};

typedef struct op {
    struct op *next;            /* of the same communicator, in the order of starting */
    MPIDI_COMPOSITE_collective_t collective;
    plan_t plan;                /* of the stage that it is in */
    MPIR_Request *request;
    int root;
    data_t mine;                /* what is entered with as a whole, and where what comes from a root goes */
    parts_t from, to;           /* what goes to each, and where what comes from each goes */
    void *kept[2];              /* their counts and displacements, which the caller may take back */
    bool in_place;
    bool copies_own;            /* our part for ourselves has not been copied yet */
    size_t room;                /* what it enters its only step with */
    size_t limit;               /* what is longer stays where it is */

    /* what is reduced */
    MPI_Op op;
    int last;                   /* the ranks from this one down to 0 */
    size_t at, bytes;           /* our part of the result in that of all, */
    char *result;               /* where it is made, */
    char *moved;                /* and where it is moved at the end, if it is made somewhere else */
    char *whole;                /* where all of it is wanted, after a reduction in slices */
    who_t wanted_by;

    exchange_t *exchange;       /* what is longer than a page: then it has more than one step */
    bool in_slices;             /* its pages have one for each rank */
    bool in_memory;             /* instead of pages: errands, in one step, */
    uint64_t seen;              /* of which those of these ranks are not ours any more: EXCHANGES_IN_MEMORY_LIMIT bits */
    bool more_pages;            /* others may have more: they say so on the first one */
    uint64_t step, pages, entered;      /* the first step of its stage, how many it has, and how many were entered */
    bool lent, heard_all;
    bool held;                  /* what it enters with is not there yet, and it has its turn */
    int mpi_errno;
    uint64_t page;              /* the step that is read, */
    int heard;                  /* and the ranks whose part of it is here, in the order of reading */
    char *copy;
} op_t;

/* ---- who ---- */

static bool is_one_of(who_t who, const team_t * team, const op_t * op)
{
    return who == ALL || (who == ROOT && team->rank == op->root) || (who == OTHERS && team->rank != op->root);
}

static int parts_to_hear(const team_t * team, const op_t * op)
{
    if (!is_one_of(op->plan.hears, team, op))
        return 0;
    return op->plan.adds ? op->last + 1 : op->plan.says == ROOT ? 1 : team->ranks - 1;
}

/* The next one whose errands have not been looked at, or that is here. */
static int unseen(const team_t * team, const op_t * op, bool here)
{
    for (int i = 1; i < team->ranks; i++) {
        int rank = (team->rank + i) % team->ranks;
        if (!(op->seen >> rank & 1) && (!here || pm_team_is_here(team->team, rank)))
            return rank;
    }
    return -1;
}

/* Whose part is read next; -1: nobody's. */
static int awaited(const team_t * team, const op_t * op)
{
    if (op->heard_all)
        return -1;
    if (op->plan.adds)
        return op->last - op->heard;
    if (op->in_memory)
        return unseen(team, op, false);
    return op->plan.says == ROOT ? op->root : (team->rank + 1 + op->heard) % team->ranks;
}

/* ---- entering ---- */

static size_t room_of_next(const team_t * team, const op_t * op)
{
    if (!is_one_of(op->plan.says, team, op))
        return 0;
    if (!op->exchange)
        return op->room;
    if (op->in_memory)
        return PM_TEAM_ELSEWHERE;
    if (op->more_pages && op->pages == 1)
        return size_behind_table(op->exchange);
    return op->in_slices ? page_size(team, op->exchange, op->entered) : slice_of(op->exchange, op->exchange->sent[team->rank], op->entered);
}

/* Our part for ourselves, while others read theirs. */
static int copy_own_part(team_t * team, op_t * op)
{
    data_t own;

    op->copies_own = false;
    if (!op->plan.parts) {
        own = part_of(&op->to, team->rank);
        return copy_between(&op->mine, &own);
    }
    if (op->plan.hears == ALL)
        return copy_own(team, &op->from, &op->to, false);
    own = part_of(&op->from, team->rank);
    return copy_between(&own, &op->mine);
}

/* The next of its steps. */
static int enter(team_t * team, op_t * op)
{
    int mpi_errno;
    exchange_t *exchange = op->exchange;

    if (!is_one_of(op->plan.says, team, op)) {
        mpi_errno = enter_with_nothing(team);
    } else if (op->in_memory) {
        team->in_memory = op;
        mpi_errno = enter_with_errands(team, exchange);
    } else if (op->more_pages && op->entered == 0) {
        mpi_errno = enter_with_first(team, exchange, op->pages);
    } else if (op->in_slices) {
        mpi_errno = enter_with_slices(team, exchange, op->entered, op->pages);
    } else if (exchange) {
        data_t piece = piece_of(exchange->sources[team->rank], exchange->sent[team->rank], op->entered * exchange->slice, exchange->slice);
        mpi_errno = enter_with(team, &piece);
    } else if (op->plan.parts) {
        mpi_errno = enter_with_parts(team, &op->from, !op->plan.unknown, op->in_place, &op->lent, &op->copy);
    } else {
        mpi_errno = enter_with_whole(team, &op->mine, &op->lent, &op->copy);
    }
    if (op->entered++ == 0) {
        op->step = pm_team_step(team->team);
        op->heard_all = parts_to_hear(team, op) == 0;
    }
    if (op->copies_own && mpi_errno == MPI_SUCCESS)
        mpi_errno = copy_own_part(team, op);
    return mpi_errno;
}

/* ---- reading ---- */

/* Of the page that is read, what a rank has for us. */
static int hear_page(team_t * team, const op_t * op, int rank, const char **said, size_t * bytes)
{
    const exchange_t *exchange = op->exchange;
    int mpi_errno;

    *bytes = slice_of(exchange, exchange->received[rank], op->page);
    if (!op->in_slices)
        return hear(team, rank, *bytes, said);
    mpi_errno = hear(team, rank, page_size(team, exchange, op->page), said);
    if (mpi_errno)
        return mpi_errno;
    *said += (exchange->equal ? 0 : PAGES_SAID) + stride_of(team, exchange, op->page) * (size_t) team->rank;
    /* What is ours is not on the board, unless the result takes its place. */
    if (rank == team->rank && exchange->sent[rank] == 0)
        *said = exchange->sources[rank] + op->page * exchange->slice;
    return MPI_SUCCESS;
}

static int add(team_t * team, op_t * op, int rank)
{
    const char *said;
    char *result = op->result;
    size_t bytes = op->bytes, at = op->exchange ? 0 : op->at;
    MPI_Aint size;
    int mpi_errno;

    if (op->exchange) {
        mpi_errno = hear_page(team, op, rank, &said, &bytes);
        result += op->page * op->exchange->slice;
    } else {
        mpi_errno = hear(team, rank, op->mine.bytes, &said);
    }
    MPIR_ERR_CHECK(mpi_errno);
    said += at;
    if (bytes == 0)
        return MPI_SUCCESS;
    MPIR_Datatype_get_size_macro(op->mine.type, size);
    if (rank != op->last)
        mpi_errno = MPIR_Reduce_local(said, result, (MPI_Aint) bytes / size, op->mine.type, op->op);
    else if (said != result)
        memcpy(result, said, bytes);

  fn_fail:
    return mpi_errno;
}

static int take_first_page(team_t * team, op_t * op, int rank)
{
    uint64_t pages = 1;
    int mpi_errno = take_first(team, op->exchange, rank, &pages);

    op->pages = MPL_MAX(op->pages, pages);
    op->more_pages = op->heard + 1 < parts_to_hear(team, op);
    return mpi_errno;
}

/* The part of a rank that is here. */
static int take(team_t * team, op_t * op, int rank)
{
    int mpi_errno;
    const char *said;
    size_t bytes;
    data_t part;

    if (op->plan.says == NOBODY)
        return MPIDI_COMPOSITE_team_await(team, rank);
    if (op->plan.adds)
        return add(team, op, rank);
    if (op->in_memory) {
        mpi_errno = MPIDI_COMPOSITE_team_await(team, rank);     /* it may be in another collective */
        return mpi_errno ? mpi_errno : run_errands(team, op->exchange, rank, true);
    }
    if (op->more_pages)
        return take_first_page(team, op, rank);
    if (op->exchange) {
        mpi_errno = hear_page(team, op, rank, &said, &bytes);
        if (mpi_errno == MPI_SUCCESS && bytes)
            memcpy(op->exchange->targets[rank] + op->page * op->exchange->slice, said, bytes);
        return mpi_errno;
    }
    part = op->plan.says == ROOT ? op->mine : part_of(&op->to, rank);
    return op->plan.parts ? take_part(team, rank, !op->plan.unknown, &part) : take_whole(team, rank, &part);
}

/* ---- pages ---- */

static int make_exchange(const team_t * team, op_t * op)
{
    int mpi_errno = MPI_SUCCESS;

    op->exchange = MPL_calloc(1, sizeof *op->exchange, MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!op->exchange, mpi_errno, MPI_ERR_OTHER, "**nomem");
    op->exchange->ranks = team->ranks;
    op->exchange->slice = PM_TEAM_PAGE;

  fn_fail:
    return mpi_errno;
}

/* Blocks of as many bytes, in slices. */
static int exchange_blocks(team_t * team, op_t * op, size_t bytes)
{
    int mpi_errno = make_exchange(team, op);

    MPIR_ERR_CHECK(mpi_errno);
    op->in_slices = true;
    mpi_errno = begin_exchange(team, &op->from, &op->to, true, false, op->exchange);
    op->pages = pages_for(op->exchange, bytes);

  fn_fail:
    return mpi_errno;
}

/* Blocks of as many bytes, from memory to memory. */
static int exchange_long_blocks(team_t * team, op_t * op)
{
    int mpi_errno = make_exchange(team, op);

    MPIR_ERR_CHECK(mpi_errno);
    op->in_memory = true;
    mpi_errno = begin_exchange(team, &op->from, &op->to, true, op->in_place, op->exchange);

  fn_fail:
    return mpi_errno;
}

/* Blocks of any length, of which nobody knows what others have for others. */
static int exchange_any(team_t * team, op_t * op)
{
    int mpi_errno = make_exchange(team, op);

    MPIR_ERR_CHECK(mpi_errno);
    op->in_slices = op->more_pages = true;
    mpi_errno = begin_exchange(team, &op->from, &op->to, false, false, op->exchange);
    MPIR_ERR_CHECK(mpi_errno);
    op->pages = pages_to_say(op->exchange, op->in_place);

  fn_fail:
    return mpi_errno;
}

/* What each has, piece by piece: all that others have is as long as ours, or a part of `to`. */
static int exchange_pieces(team_t * team, op_t * op)
{
    int mpi_errno = make_exchange(team, op);
    exchange_t *exchange = op->exchange;
    size_t longest = op->mine.bytes;

    MPIR_ERR_CHECK(mpi_errno);
    exchange->sent[team->rank] = op->mine.bytes;
    mpi_errno = flatten(&op->mine, true, &exchange->sources[team->rank], &exchange->copies[team->rank]);
    MPIR_ERR_CHECK(mpi_errno);
    for (int rank = 0; rank < team->ranks; rank++) {
        data_t part = op->plan.adds ? op->mine : part_of(&op->to, rank);
        exchange->received[rank] = part.bytes;
        longest = MPL_MAX(longest, part.bytes);
        if (!op->plan.adds && rank != team->rank)
            mpi_errno = flatten(&part, false, &exchange->targets[rank], &exchange->copies[team->ranks + rank]);
        MPIR_ERR_CHECK(mpi_errno);
    }
    op->pages = pages_for(exchange, longest);

  fn_fail:
    return mpi_errno;
}

/* What the root has, piece by piece; the parts of all ranks are in the same place. */
static int exchange_of_root(team_t * team, op_t * op)
{
    int mpi_errno = make_exchange(team, op);
    exchange_t *exchange = op->exchange;
    MPI_Aint *displacements = op->kept[1] = MPL_calloc((size_t) team->ranks, sizeof *displacements, MPL_MEM_COLL);

    MPIR_ERR_CHECK(mpi_errno);
    MPIR_ERR_CHKANDJUMP(!displacements, mpi_errno, MPI_ERR_OTHER, "**nomem");
    op->to = parts_of(op->mine.buffer, NULL, displacements, op->mine.type);
    op->to.count = op->mine.count;
    exchange->sent[op->root] = exchange->received[op->root] = op->mine.bytes;
    op->pages = pages_for(exchange, op->mine.bytes);
    if (team->rank == op->root)
        mpi_errno = flatten(&op->mine, true, &exchange->sources[op->root], &exchange->copies[op->root]);
    else
        mpi_errno = flatten(&op->mine, false, &exchange->targets[op->root], &exchange->copies[team->ranks + op->root]);

  fn_fail:
    return mpi_errno;
}

/* Where the part of a rank begins in what is reduced in slices. */
static size_t begin_of(const team_t * team, const op_t * op, int rank)
{
    MPI_Aint size, before = 0;

    MPIR_Datatype_get_size_macro(op->mine.type, size);
    if (op->plan.operation != PM_COLL_REDUCE_SCATTER)
        return slice(team, rank, op->mine.count, size);
    for (int i = 0; i < rank; i++)
        before += op->to.counts ? op->to.counts[i] : op->to.count;
    return (size_t) (before * size);
}

/* Each has a slice for each, who reduces what comes. In place ours is on the board, too, since the result takes its place. */
static int exchange_slices(team_t * team, op_t * op)
{
    int mpi_errno = make_exchange(team, op);
    exchange_t *exchange = op->exchange;

    MPIR_ERR_CHECK(mpi_errno);
    op->in_slices = true;
    exchange->slice = (PM_TEAM_PAGE - PAGES_SAID) / (size_t) team->ranks / 64 * 64;
    op->pages = 1;
    for (int rank = 0; rank < team->ranks; rank++) {
        size_t begin = begin_of(team, op, rank), bytes = begin_of(team, op, rank + 1) - begin;
        exchange->sources[rank] = op->mine.plain + begin;
        exchange->sent[rank] = rank != team->rank || op->in_place ? bytes : 0;
        exchange->received[rank] = op->bytes;
        op->pages = MPL_MAX(op->pages, pages_for(exchange, bytes));
    }

  fn_fail:
    return mpi_errno;
}

/* The slices have been reduced: those who want all read them. */
static void begin_second_stage(team_t * team, op_t * op)
{
    exchange_t *exchange = op->exchange;

    op->pages = 1;
    exchange->slice = PM_TEAM_PAGE;
    for (int rank = 0; rank < team->ranks; rank++) {
        size_t begin = begin_of(team, op, rank), bytes = begin_of(team, op, rank + 1) - begin;
        exchange->targets[rank] = op->whole + begin;
        exchange->received[rank] = bytes;
        op->pages = MPL_MAX(op->pages, pages_for(exchange, bytes));
    }
    exchange->sources[team->rank] = op->result;
    exchange->sent[team->rank] = op->bytes;
    op->in_slices = false;
    op->plan.adds = false;
    op->plan.hears = op->wanted_by;
    op->wanted_by = NOBODY;
    op->entered = op->page = 0;
    op->heard_all = false;
}

/* Nobody comes to its memory any more; after a failure in it, too. */
static void end_in_memory(team_t * team, op_t * op)
{
    if (team->in_memory != op)
        return;
    pm_team_look_at(team->team, op->step);
    if (op->mpi_errno)
        withdraw(team);
    team->in_memory = NULL;
}

static void free_op_data(op_t * op)
{
    if (op->exchange)
        op->mpi_errno = end_exchange(&op->to, op->exchange, op->mpi_errno);
    if (op->moved && op->mpi_errno == MPI_SUCCESS)
        memmove(op->moved, op->result, op->bytes);
    for (int rank = 0; rank < (op->to.types ? op->request->comm->local_size : 0); rank++) {
        MPIR_Datatype_release_if_not_builtin(op->from.types[rank]);
        MPIR_Datatype_release_if_not_builtin(op->to.types[rank]);
    }
    MPIR_Datatype_release_if_not_builtin(op->mine.type);
    MPIR_Datatype_release_if_not_builtin(op->from.type);
    MPIR_Datatype_release_if_not_builtin(op->to.type);
    MPL_free(op->kept[0]);
    MPL_free(op->kept[1]);
    MPL_free(op->copy);
    MPL_free(op->exchange);
}

#endif
