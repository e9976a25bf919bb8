/* Collectives of a team that end later: MPI_Ibarrier and others. Each is a step on the second board of the team, where a step is entered
 * when there is room, and may be entered before those before it are finished. All is done by whoever makes progress. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll.h"
#include "composite_progress.h"
#include "composite_started.h"
#include "composite_team_data.h"
#include "composite_team_exchange.h"

typedef enum { BARRIER, BCAST, ALLREDUCE, ALLTOALL } kind_t;

static const MPIDI_COMPOSITE_collective_t collectives[] = { MPIDI_COMPOSITE_IN_BARRIER, MPIDI_COMPOSITE_IN_BCAST, MPIDI_COMPOSITE_IN_ALLREDUCE,
    MPIDI_COMPOSITE_IN_ALLTOALL
};

typedef struct op {
    struct op *next;            /* of the same communicator, in the order of starting */
    kind_t kind;
    MPIR_Request *request;
    int root;
    data_t mine;                /* what is broadcast, or reduced */
    parts_t from, to;
    void *result;
    MPI_Op op;
    bool in_place;
    size_t room;                /* what it enters with */
    exchange_t *exchange;       /* what is longer than a page: then it has more than one step */
    size_t limit;               /* what is longer stays where it is */

    uint64_t step, pages, entered;      /* the first of its steps, how many it has, and how many were entered */
    bool lent, heard_all;
    int mpi_errno;
    uint64_t page;              /* the step that is read, */
    int heard;                  /* and the ranks whose part of it is here, in the order of reading */
    char *copy;
} op_t;

/* Of a communicator with some that have not ended. */
struct MPIDI_COMPOSITE_started {
    struct MPIDI_COMPOSITE_started *next;
    team_t *team;
    op_t *first, **end;
    uint64_t finished;          /* of its steps, all up to this one */
    bool is_woken;              /* others wake us */
};
typedef struct MPIDI_COMPOSITE_started started_t;

int MPIDI_COMPOSITE_started;    /* how many operations */
static started_t *active;
static op_t *unused;            /* memory for operations */

/* Whose part is read next; -1: nobody's. */
static int awaited(const team_t * team, const op_t * op)
{
    if (op->heard_all)
        return -1;
    switch (op->kind) {
        case BCAST:
            return op->root;
        case ALLREDUCE:
            return team->ranks - 1 - op->heard;
        default:
            return (team->rank + 1 + op->heard) % team->ranks;
    }
}

static size_t room_of_next(const team_t * team, const op_t * op)
{
    return op->exchange ? page_size(team, op->exchange, op->entered) : op->room;
}

/* The next of its steps. */
static int enter(team_t * team, op_t * op)
{
    int mpi_errno = MPI_SUCCESS;

    if (op->exchange) {
        mpi_errno = enter_with_slices(team, op->exchange, op->entered, op->pages);
    } else if (op->kind == ALLTOALL) {
        mpi_errno = enter_with_parts(team, &op->from, true, op->in_place, &op->lent, &op->copy);
    } else if (op->kind == BARRIER || (op->kind == BCAST && team->rank != op->root)) {
        mpi_errno = enter_with_nothing(team);
    } else {
        mpi_errno = enter_with_whole(team, &op->mine, &op->lent, &op->copy);
    }
    if (op->entered++ == 0) {
        op->step = pm_team_step(team->team);
        op->heard_all = op->kind == BCAST && team->rank == op->root;
        if (op->kind == ALLTOALL && mpi_errno == MPI_SUCCESS)
            mpi_errno = copy_own(team, &op->from, &op->to, op->in_place);
    }
    return mpi_errno;
}

/* The part of a rank that is here. */
static int take(team_t * team, op_t * op, int rank)
{
    int mpi_errno = MPI_SUCCESS;
    const char *said;
    data_t part;

    switch (op->kind) {
        case BARRIER:
            mpi_errno = MPIDI_COMPOSITE_team_await(team, rank);
            break;
        case BCAST:
            mpi_errno = take_whole(team, rank, &op->mine);
            break;
        case ALLREDUCE:
            mpi_errno = hear(team, rank, op->mine.bytes, &said);
            MPIR_ERR_CHECK(mpi_errno);
            if (rank == team->ranks - 1)
                memcpy(op->result, said, op->mine.bytes);
            else
                mpi_errno = MPIR_Reduce_local(said, op->result, op->mine.count, op->mine.type, op->op);
            break;
        case ALLTOALL:
            if (op->exchange) {
                mpi_errno = take_slice(team, op->exchange, rank, op->page);
                break;
            }
            part = part_of(&op->to, rank);
            mpi_errno = take_part(team, rank, true, &part);
            break;
    }

  fn_fail:
    return mpi_errno;
}

static int parts_to_hear(const team_t * team, const op_t * op)
{
    return op->kind == BCAST ? 1 : op->kind == ALLREDUCE ? team->ranks : team->ranks - 1;
}

/* All have read what was left where it is. */
static bool is_given_back(const team_t * team, const op_t * op)
{
    for (int rank = 0; op->lent && rank < team->ranks; rank++)
        if (rank != team->rank && !pm_team_has_finished(team->team, rank, op->step))
            return false;
    return true;
}

/* What others have entered with, as far as it is here. */
static void read_what_is_here(team_t * team, op_t * op)
{
    while (op->mpi_errno == MPI_SUCCESS && !op->heard_all && op->page < op->entered) {
        int rank = awaited(team, op);
        pm_team_look_at(team->team, op->step + op->page);
        if (!pm_team_is_here(team->team, rank))
            return;
        op->mpi_errno = take(team, op, rank);
        if (++op->heard == parts_to_hear(team, op)) {
            op->heard = 0;
            op->heard_all = ++op->page == op->pages;
        }
    }
}

static bool may_enter(const team_t * team, const op_t * op)
{
    return op->entered < op->pages && pm_team_has_room_behind(team->team, room_of_next(team, op));
}

/* As far as it goes. True when it has ended. */
static bool advance(team_t * team, op_t * op)
{
    team->collective = collectives[op->kind];
    team->limit = op->limit;
    while (op->mpi_errno == MPI_SUCCESS && may_enter(team, op))
        op->mpi_errno = enter(team, op);
    read_what_is_here(team, op);
    if (op->mpi_errno) {
        MPIDI_COMPOSITE_team_give_up(team, team->rank);
        return true;
    }
    return op->heard_all && is_given_back(team, op);
}

/* Those that have ended, one after the other. Their communicator may be gone afterwards. */
static void end(op_t * ended)
{
    while (ended) {
        op_t *op = ended;
        ended = op->next;
        if (op->exchange)
            op->mpi_errno = end_exchange(&op->to, op->exchange, op->mpi_errno);
        op->request->status.MPI_ERROR = op->mpi_errno;
        MPIR_Datatype_release_if_not_builtin(op->mine.type);
        MPIR_Datatype_release_if_not_builtin(op->from.type);
        MPIR_Datatype_release_if_not_builtin(op->to.type);
        MPID_Request_complete(op->request);
        MPL_free(op->copy);
        MPL_free(op->exchange);
        op->next = unused;
        unused = op;
        MPIDI_COMPOSITE_started--;
    }
}

/* All steps up to the first one of which we have not read all. */
static uint64_t finished(const started_t * started)
{
    for (op_t * op = started->first; op; op = op->next)
        if (!op->heard_all)
            return op->entered ? op->step + op->page - 1 : pm_team_step(started->team->team);
    return pm_team_step(started->team->team);
}

/* All of a communicator. Answers those that have ended. */
static op_t *advance_all(started_t * started)
{
    team_t *team = started->team;
    op_t *ended = NULL, **last = &ended;

    for (op_t ** link = &started->first; *link;) {
        op_t *op = *link;
        if (advance(team, op)) {
            *link = op->next;
            op->next = NULL;
            *last = op;
            last = &op->next;
        } else {
            link = &op->next;
            if (op->entered < op->pages)
                break;          /* nor do those behind it */
        }
    }
    for (started->end = &started->first; *started->end; started->end = &(*started->end)->next) {
    }
    if (finished(started) > started->finished) {
        started->finished = finished(started);
        pm_team_finish(team->team, started->finished);
    }
    return ended;
}

/* Others wake us only when we are about to sleep. Of several threads one may sleep while another begins: then they do all the time. */
static void be_woken(started_t * started)
{
    if (!started->is_woken)
        pm_team_sleeps_for(started->team->team, PM_TEAM_EVERYBODY);
    started->is_woken = true;
}

static void be_left_alone(started_t * started)
{
    if (started->is_woken)
        pm_team_is_awake(started->team->team);
    started->is_woken = false;
}

static void rest(started_t * started)
{
    started_t **link = &active;

    while (*link != started)
        link = &(*link)->next;
    *link = started->next;
    started->next = NULL;
    be_left_alone(started);
}

int MPIDI_COMPOSITE_advance_started(void)
{
    for (started_t * each = active, *next; each; each = next) {
        if (!MPIR_ThreadInfo.isThreaded)
            be_left_alone(each);
        op_t *ended = advance_all(each);
        next = each->next;
        if (!each->first)
            rest(each);
        end(ended);
    }
    return MPI_SUCCESS;
}

/* Asked before we sleep. */
bool MPIDI_COMPOSITE_started_have_news(void)
{
    for (started_t * each = active; each; each = each->next) {
        be_woken(each);
        for (op_t * op = each->first; op; op = op->next) {
            int rank = awaited(each->team, op);
            pm_team_look_at(each->team->team, op->step + op->page);
            if (may_enter(each->team, op))
                return true;
            if (op->page < op->entered || op->heard_all)
                if (rank >= 0 ? pm_team_is_here(each->team->team, rank) : is_given_back(each->team, op))
                    return true;
            if (op->entered < op->pages)
                break;
        }
    }
    return false;
}

/* One that has gone before it has done its part of what we have started; -1: nobody. A rank that freed its communicator had done all. */
static int gone_from(const started_t * started)
{
    const team_t *team = started->team;

    for (int rank = 0; rank < team->ranks; rank++)
        if (rank != team->rank && pm_team_is_gone(team->team, rank) && !pm_team_has_finished(team->team, rank, pm_team_step(team->team)))
            return rank;
    return team->gone;
}

/* Whoever waits for one that has gone is told. Under the lock, now and then. */
void MPIDI_COMPOSITE_attend_started(void)
{
    for (started_t * each = active, *next; each; each = next) {
        op_t *ended = advance_all(each);
        int gone = each->first ? gone_from(each) : -1;
        next = each->next;
        op_t *failed = NULL;
        if (gone >= 0) {
            for (op_t * op = each->first; op; op = op->next)
                op->mpi_errno = MPIDI_COMPOSITE_team_lost(each->team, gone);
            failed = each->first;
            each->first = NULL;
            each->end = &each->first;
        }
        if (!each->first)
            rest(each);
        end(ended);
        end(failed);
    }
}

void MPIDI_COMPOSITE_started_finalize(void)
{
    while (unused) {
        op_t *op = unused;
        unused = op->next;
        MPL_free(op);
    }
}

void MPIDI_COMPOSITE_started_comm_free(MPIR_Comm * comm)
{
    MPL_free(MPIDI_COMPOSITE_COMM(comm).started);
    MPIDI_COMPOSITE_COMM(comm).started = NULL;
}

/* ---- starting ---- */

/* Where the data of an operation may be: also where it is, or only on the board. */
static const pm_collective operations[] = { PM_COLL_BARRIER, PM_COLL_BCAST, PM_COLL_ALLREDUCE, PM_COLL_ALLTOALL };
static const bool lends[] = { false, true, false, true };

/* The second team of a communicator that has one; only a blocking collective makes one. */
static team_t *team_for(MPIR_Comm * comm, kind_t kind, bool chosen, size_t bytes)
{
    team_t *team = MPIDI_COMPOSITE_COMM(comm).team;
    pm_way way = PM_BY_MESSAGES;

    if (team && !chosen && (lends[kind] || bytes <= PM_TEAM_PAGE)) {
        pm_switch its = team->ways[operations[kind]];
        if (kind != ALLTOALL)
            its = pm_switch_in_one_step(&its);
        way = pm_way_of(&its, bytes);
        way = way == PM_BY_MEMORY && !lends[kind] ? PM_BY_BOARD : way;
    }
    if (way == PM_BY_MESSAGES)
        return NULL;
    MPIDI_COMPOSITE_coll_counts[collectives[kind]][way]++;
    return team->second;
}

static size_t room_for(const op_t * op, size_t bytes)
{
    return bytes <= MPL_MIN(op->limit, PM_TEAM_PAGE) ? bytes : PM_TEAM_ELSEWHERE;
}

static op_t *make_op(MPIR_Comm * comm, const team_t * team, kind_t kind, MPIR_Request ** request)
{
    op_t *op = NULL;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    if (unused) {
        op = unused;
        unused = op->next;
    }
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (!op)
        op = MPL_malloc(sizeof *op, MPL_MEM_COLL);
    if (!op)
        return NULL;
    *request = MPIR_Request_create(MPIR_REQUEST_KIND__COLL);
    if (!*request) {
        MPL_free(op);
        return NULL;
    }
    memset(op, 0, sizeof *op);
    MPIR_Request_add_ref(*request);     /* given back when it is complete */
    (*request)->comm = comm;
    MPIR_Comm_add_ref(comm);
    op->kind = kind;
    op->pages = 1;
    op->limit = lends[kind] ? team->ways[operations[kind]].board : PM_TEAM_PAGE;
    op->request = *request;
    op->mine = data_of(NULL, 0, MPI_BYTE);
    op->from.type = op->to.type = MPI_BYTE;
    return op;
}

static int start(MPIR_Comm * comm, team_t * team, op_t * op)
{
    int mpi_errno = MPI_SUCCESS;
    started_t *started;

    MPIR_Datatype_add_ref_if_not_builtin(op->mine.type);
    MPIR_Datatype_add_ref_if_not_builtin(op->from.type);
    MPIR_Datatype_add_ref_if_not_builtin(op->to.type);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    MPIDI_COMPOSITE_started++;
    started = MPIDI_COMPOSITE_COMM(comm).started;
    if (!started) {
        started = MPIDI_COMPOSITE_COMM(comm).started = MPL_calloc(1, sizeof *started, MPL_MEM_COLL);
        if (!started) {
            MPIR_ERR_SET(mpi_errno, MPI_ERR_OTHER, "**nomem");
            op->mpi_errno = mpi_errno;
            end(op);
            goto fn_exit;
        }
        started->team = team;
        started->end = &started->first;
    }
    if (!started->first) {
        started->next = active;
        active = started;
        if (MPIR_ThreadInfo.isThreaded)
            be_woken(started);
    }
    *started->end = op;
    started->end = &op->next;
    if (unlikely(team->gone >= 0)) {
        MPIDI_COMPOSITE_attend_started();
    } else {
        op_t *ended = advance_all(started);
        if (!started->first)
            rest(started);
        end(ended);
    }

  fn_exit:
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return mpi_errno;
}

static int no_memory(void)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_SET(mpi_errno, MPI_ERR_OTHER, "**nomem");
    return mpi_errno;
}

#define CHOSEN(OPERATION) (MPIR_CVAR_##OPERATION##_INTRA_ALGORITHM != MPIR_CVAR_##OPERATION##_INTRA_ALGORITHM_auto)

int MPIDI_COMPOSITE_ibarrier(MPIR_Comm * comm, MPIR_Request ** request)
{
    team_t *team = team_for(comm, BARRIER, CHOSEN(IBARRIER), 0);
    op_t *op;

    if (!team) {
        MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_BARRIER);
        return MPIR_Ibarrier_impl(comm, request);
    }
    op = make_op(comm, team, BARRIER, request);
    return op ? start(comm, team, op) : no_memory();
}

int MPIDI_COMPOSITE_ibcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root, MPIR_Comm * comm, MPIR_Request ** request)
{
    team_t *team = MPIDI_COMPOSITE_COMM(comm).team;
    data_t data;
    op_t *op;

    if (team) {
        data = data_of(buffer, count, datatype);
        team = team_for(comm, BCAST, CHOSEN(IBCAST), data.bytes);
    }
    if (!team) {
        MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_BCAST);
        return MPIR_Ibcast_impl(buffer, count, datatype, root, comm, request);
    }
    op = make_op(comm, team, BCAST, request);
    if (!op)
        return no_memory();
    op->mine = data;
    op->root = root;
    op->room = team->rank == root ? room_for(op, data.bytes) : 0;
    return start(comm, team, op);
}

int MPIDI_COMPOSITE_iallreduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op, MPIR_Comm * comm,
                               MPIR_Request ** request)
{
    data_t data = data_of(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, datatype);
    MPI_Aint extent;
    team_t *team = NULL;
    op_t *started;

    MPIR_Datatype_get_extent_macro(datatype, extent);
    if (HANDLE_IS_BUILTIN(datatype) && HANDLE_IS_BUILTIN(op) && data.bytes == (size_t) (extent * count))
        team = team_for(comm, ALLREDUCE, CHOSEN(IALLREDUCE), data.bytes);
    if (!team) {
        MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_ALLREDUCE);
        return MPIR_Iallreduce_impl(sendbuf, recvbuf, count, datatype, op, comm, request);
    }
    started = make_op(comm, team, ALLREDUCE, request);
    if (!started)
        return no_memory();
    started->mine = data;
    started->result = recvbuf;
    started->op = op;
    started->room = data.bytes;
    return start(comm, team, started);
}

int MPIDI_COMPOSITE_ialltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                              MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Request ** request)
{
    team_t *team = MPIDI_COMPOSITE_COMM(comm).team;
    size_t bytes = 0;
    op_t *op;
    int mpi_errno;

    if (team) {
        bytes = data_of(recvbuf, recvcount, recvtype).bytes * (size_t) comm->local_size;
        /* A rank whose count is 0 does not come here: of nothing there is no step. */
        team = bytes == 0 ? NULL : team_for(comm, ALLTOALL, CHOSEN(IALLTOALL), bytes);
    }
    if (!team) {
        MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_ALLTOALL);
        return MPIR_Ialltoall_impl(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request);
    }
    op = make_op(comm, team, ALLTOALL, request);
    if (!op)
        return no_memory();
    op->in_place = sendbuf == MPI_IN_PLACE;
    op->to = equal_parts(recvbuf, recvcount, recvtype);
    op->from = op->in_place ? op->to : equal_parts(sendbuf, sendcount, sendtype);
    op->room = room_for(op, part_of(&op->from, 0).bytes * (size_t) comm->local_size);
    if (bytes > PM_TEAM_PAGE && bytes <= team->ways[PM_COLL_ALLTOALL].board) {
        op->exchange = MPL_malloc(sizeof *op->exchange, MPL_MEM_COLL);
        mpi_errno = op->exchange ? begin_exchange(team, &op->from, &op->to, true, false, op->exchange) : no_memory();
        if (mpi_errno == MPI_SUCCESS)
            op->pages = pages_for(op->exchange, bytes / (size_t) comm->local_size);
        op->mpi_errno = mpi_errno;
    }
    return start(comm, team, op);
}
