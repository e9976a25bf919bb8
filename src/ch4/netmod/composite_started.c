/* Collectives of a team that end later: MPI_Ibarrier and others. Each takes steps on the second board of the team (composite_started_op.h),
 * where a step is entered when there is room, and may be entered before those before it are finished. All is done by whoever makes progress. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll.h"
#include "composite_progress.h"
#include "composite_started.h"
#include "composite_started_op.h"
#include "netmod/core/setup.h"

/* Of a team with some that have not ended. */
struct MPIDI_COMPOSITE_started {
    struct MPIDI_COMPOSITE_started *next;
    team_t *team;
    op_t *first, **end;
    uint64_t finished;          /* of its steps, all up to this one */
    bool is_woken;              /* others wake us */
    bool is_last;               /* the persistent request that has the team is freed: it ends with what is in flight */
};
typedef struct MPIDI_COMPOSITE_started started_t;

int MPIDI_COMPOSITE_started;    /* how many operations */
static started_t *active;
static bool laters_have_news(void);     /* composite_started_leaders.h */
static op_t *unused;            /* memory for operations */

/* All have read what was left where it is. */
static bool is_given_back(const team_t * team, const op_t * op)
{
    if (op->in_memory) {
        pm_team_look_at(team->team, op->step);
        return errands_wait_for(team, op->exchange) == team->rank;
    }
    for (int rank = 0; op->lent && rank < team->ranks; rank++)
        if (rank != team->rank && !pm_team_has_finished(team->team, rank, op->step))
            return false;
    return true;
}

/* Whose part of the step that is read is here, and its turn; -1: nobody's. */
static int next_here(team_t * team, const op_t * op)
{
    int rank;

    pm_team_look_at(team->team, op->step + op->page);
    if (op->in_memory)
        return unseen(team, op, true);
    rank = awaited(team, op);
    return pm_team_is_here(team->team, rank) ? rank : -1;
}

/* What others have entered with, as far as it is here. */
static void read_what_is_here(team_t * team, op_t * op)
{
    while (op->mpi_errno == MPI_SUCCESS && !op->heard_all && op->page < op->entered) {
        int rank = next_here(team, op);
        if (rank < 0)
            return;
        op->mpi_errno = take(team, op, rank);
        if (op->in_memory) {
            op->seen |= (uint64_t) 1 << rank;
            pm_wait_long(MPIDI_COMPOSITE_global.core);
        }
        if (++op->heard == parts_to_hear(team, op)) {
            op->heard = 0;
            op->heard_all = ++op->page == op->pages;
        }
    }
}

static bool may_enter(const team_t * team, const op_t * op)
{
    if (op->held)
        return false;
    if (op->in_memory && team->in_memory && team->in_memory != op)
        return false;
    return op->entered < op->pages && pm_team_has_room_behind(team->team, room_of_next(team, op));
}

/* All steps of all its stages: those behind it may enter theirs. */
static bool has_entered_all(const op_t * op)
{
    return op->entered == op->pages && !op->more_pages && op->wanted_by == NOBODY;
}

static void enter_and_read(team_t * team, op_t * op)
{
    while (op->mpi_errno == MPI_SUCCESS && may_enter(team, op)) {
        op->mpi_errno = enter(team, op);
        if (op->in_memory)
            pm_wait_long(MPIDI_COMPOSITE_global.core);
    }
    read_what_is_here(team, op);
}

/* As far as it goes. True when it has ended. */
static bool advance(team_t * team, op_t * op)
{
    team->collective = op->collective;
    team->limit = op->limit;
    enter_and_read(team, op);
    if (op->heard_all && op->wanted_by != NOBODY && op->mpi_errno == MPI_SUCCESS) {
        begin_second_stage(team, op);
        enter_and_read(team, op);
    }
    if (op->mpi_errno)
        MPIDI_COMPOSITE_team_give_up(team, team->rank);
    else if (!op->heard_all || !has_entered_all(op) || !is_given_back(team, op))
        return false;
    end_in_memory(team, op);
    return true;
}

/* Those that have ended, one after the other. Their communicator may be gone afterwards. */
static void end(op_t * ended)
{
    while (ended) {
        op_t *op = ended;
        ended = op->next;
        free_op_data(op);
        op->request->status.MPI_ERROR = op->mpi_errno;
        MPID_Request_complete(op->request);
        op->next = unused;
        unused = op;
        MPIDI_COMPOSITE_started--;
    }
}

/* All steps up to the first one of which we have not read all, or that we would withdraw from others if a later one failed. */
static uint64_t finished(const started_t * started)
{
    for (op_t * op = started->first; op; op = op->next) {
        if (!op->heard_all)
            return op->entered ? op->step + op->page - 1 : pm_team_step(started->team->team);
        if (op->in_memory && !is_given_back(started->team, op))
            return op->step - 1;
    }
    return pm_team_step(started->team->team);
}

/* All of a team. Answers those that have ended. */
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
            if (!has_entered_all(op))
                break;          /* nor do those behind it */
        }
    }
    for (started->end = &started->first; *started->end; started->end = &(*started->end)->next) {
    }
    /* After a failure others must not take us for one that has done its part. */
    if (team->gone < 0) {
        const uint64_t now = finished(started);
        if (now > started->finished)
            pm_team_finish(team->team, started->finished = now);
    }
    return ended;
}

/* By whom we are woken: by all, since there is little that does not concern us. But what goes from memory to memory takes others long, and if
 * nothing else is under way we wait for one after the other. */
static int by_whom(const started_t * started)
{
    const team_t *team = started->team;
    const op_t *op = started->first;

    if (MPIR_ThreadInfo.isThreaded || !op || op->next || team->in_memory != op)
        return PM_TEAM_EVERYBODY;
    pm_team_look_at(team->team, op->step);
    return op->heard_all ? errands_wait_for(team, op->exchange) : awaited(team, op);
}

/* Others wake us only when we are about to sleep. Of several threads one may sleep while another begins: then they do all the time. */
static void be_woken(started_t * started)
{
    if (!started->is_woken)
        pm_team_sleeps_for(started->team->team, by_whom(started));
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
    if (started->is_last)
        MPIDI_COMPOSITE_team_leave(started->team);
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

/* What it waits for is here. */
static bool could_go_on(team_t * team, const op_t * op)
{
    if (op->heard_all)
        return has_entered_all(op) && is_given_back(team, op);
    if (op->page == op->entered)
        return false;
    return next_here(team, op) >= 0;
}

/* Asked before we sleep. */
bool MPIDI_COMPOSITE_started_have_news(void)
{
    if (laters_have_news())
        return true;
    for (started_t * each = active; each; each = each->next) {
        be_woken(each);
        for (op_t * op = each->first; op; op = op->next) {
            if (may_enter(each->team, op) || could_go_on(each->team, op))
                return true;
            if (!has_entered_all(op))
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
            for (op_t * op = each->first; op; op = op->next) {
                op->mpi_errno = MPIDI_COMPOSITE_team_lost(each->team, gone);
                end_in_memory(each->team, op);
            }
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

void MPIDI_COMPOSITE_started_team_free(team_t * team)
{
    /* Where a request that is freed is the last to hold something, the lock is held. */
    MPID_THREAD_CS_ENTER_REC_VCI(MPIDI_VCI(0).lock);
    if (team->started && team->started->first)
        team->started->is_last = true;
    else
        MPIDI_COMPOSITE_team_leave(team);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

/* ---- starting ---- */

static int no_memory(void)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_SET(mpi_errno, MPI_ERR_OTHER, "**nomem");
    return mpi_errno;
}

/* Others wait for what cannot be started here: they are told. */
static int cannot_start(team_t * team)
{
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    MPIDI_COMPOSITE_team_give_up(team, team->rank);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return no_memory();
}

/* Many pages take those who are called now and then longer than to read all at once, where they may. */
static pm_switch switch_of(const team_t * team, pm_collective operation)
{
    pm_switch its = team->ways[operation];

    if (operation == PM_COLL_BCAST && its.memory)
        its.board = MPL_MIN(its.board, PM_TEAM_STARTED_BCAST);
    return its;
}

static pm_way way_of(const team_t * team, const plan_t * plan, size_t bytes)
{
    pm_switch its = switch_of(team, plan->operation);

    if (!plan->lends)
        return its.messages ? PM_BY_MESSAGES : PM_BY_BOARD;     /* what is long goes page by page */
    if (plan->unknown)
        return pm_way_of_unknown(&its);
    if (plan->operation != PM_COLL_ALLTOALL && plan->operation != PM_COLL_BCAST)
        its = pm_switch_in_one_step(&its);
    return pm_way_of(&its, bytes);
}

static size_t bytes_of(MPI_Aint count, MPI_Datatype type)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(type, size);
    return (size_t) (count * size);
}

static MPI_Aint sum_of(const MPI_Aint * counts, int ranks)
{
    MPI_Aint sum = 0;

    for (int rank = 0; rank < ranks; rank++)
        sum += counts[rank];
    return sum;
}

/* Which of MPICH's algorithms the user has chosen for each, and what says that it is none. */
#define ALGORITHM(OPERATION) [MPIDI_COMPOSITE_IN_##OPERATION] = {&MPIR_CVAR_I##OPERATION##_INTRA_ALGORITHM, MPIR_CVAR_I##OPERATION##_INTRA_ALGORITHM_auto}
static const struct {
    const int *chosen;
    int none;
} algorithms[MPIDI_COMPOSITE_COLLECTIVES] = {
    ALGORITHM(BARRIER), ALGORITHM(BCAST), ALGORITHM(GATHER), ALGORITHM(GATHERV), ALGORITHM(SCATTER), ALGORITHM(SCATTERV), ALGORITHM(ALLGATHER),
    ALGORITHM(ALLGATHERV), ALGORITHM(ALLTOALL), ALGORITHM(ALLTOALLV), ALGORITHM(ALLTOALLW), ALGORITHM(REDUCE), ALGORITHM(ALLREDUCE),
    ALGORITHM(REDUCE_SCATTER), ALGORITHM(REDUCE_SCATTER_BLOCK), ALGORITHM(SCAN), ALGORITHM(EXSCAN)
};

/* A page has slices of whole elements. */
static bool is_added_here(MPI_Datatype type, MPI_Op op)
{
    MPI_Aint size, extent;

    MPIR_Datatype_get_size_macro(type, size);
    MPIR_Datatype_get_extent_macro(type, extent);
    return HANDLE_IS_BUILTIN(type) && HANDLE_IS_BUILTIN(op) && size == extent && 64 % size == 0;
}

/* The persistent request that this thread starts; NULL: it starts none. Its way was chosen when it was made. */
static _Thread_local const MPIDI_COMPOSITE_of_request_t *of_request;

/* What each rank has, or has for each, where all know it; and the operation of a reduction. */
static pm_way way_for(const team_t * team, MPIDI_COMPOSITE_collective_t collective, MPI_Aint count, MPI_Datatype type, MPI_Op op)
{
    const plan_t *plan = &plans[collective];

    if ((!of_request && *algorithms[collective].chosen != algorithms[collective].none) || (plan->adds && !is_added_here(type, op)))
        return PM_BY_MESSAGES;
    return way_of(team, plan, plan->unknown ? 0 : bytes_of(count, type) * (size_t) (plan->parts ? team->ranks : 1));
}

void MPIDI_COMPOSITE_start_on(const MPIDI_COMPOSITE_of_request_t * request)
{
    of_request = request;
}

/* That of the request; or the second team of a communicator that has one, if it does this. */
static team_t *team_to_add(MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective, MPI_Aint count, MPI_Datatype type, MPI_Op op)
{
    team_t *team = of_request ? of_request->team : MPIDI_COMPOSITE_team_at_hand(comm);
    pm_way way = PM_BY_MESSAGES;

    if (team && !of_request)
        team = team->second;
    if (team)
        way = way_for(team, collective, count, type, op);
    if (way == PM_BY_MESSAGES) {
        MPIDI_COMPOSITE_coll_by_messages(comm, collective);
        return NULL;
    }
    MPIDI_COMPOSITE_coll_counts[collective][way]++;
    return team;
}

static team_t *team_for(MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective, MPI_Aint count, MPI_Datatype type)
{
    return team_to_add(comm, collective, count, type, MPI_OP_NULL);
}

/* Of nothing: a rank whose count is 0 does not come here, so there is no step. */
static bool is_nothing(const MPIR_Comm * comm, MPI_Aint count, MPI_Datatype type, MPIR_Request ** request)
{
    if (comm->comm_kind != MPIR_COMM_KIND__INTRACOMM || bytes_of(count, type) != 0)
        return false;
    *request = MPIR_Request_create_complete(MPIR_REQUEST_KIND__COLL);
    return true;
}

static op_t *make_op(MPIR_Comm * comm, const team_t * team, MPIDI_COMPOSITE_collective_t collective, int root, MPIR_Request ** request)
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
    op->collective = collective;
    op->plan = plans[collective];
    op->root = root;
    op->pages = 1;
    op->limit = op->plan.lends ? switch_of(team, op->plan.operation).board : PM_TEAM_PAGE;
    op->request = *request;
    op->mine = data_of(NULL, 0, MPI_BYTE);
    op->from.type = op->to.type = MPI_BYTE;
    return op;
}

static void hold_types(const op_t * op, int ranks)
{
    for (int rank = 0; rank < (op->to.types ? ranks : 0); rank++) {
        MPIR_Datatype_add_ref_if_not_builtin(op->from.types[rank]);
        MPIR_Datatype_add_ref_if_not_builtin(op->to.types[rank]);
    }
    MPIR_Datatype_add_ref_if_not_builtin(op->mine.type);
    MPIR_Datatype_add_ref_if_not_builtin(op->from.type);
    MPIR_Datatype_add_ref_if_not_builtin(op->to.type);
}

/* What goes wrong is told by its request. */
static int start(team_t * team, op_t * op)
{
    started_t *started;

    hold_types(op, team->ranks);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    MPIDI_COMPOSITE_started++;
    started = team->started;
    if (!started) {
        started = team->started = MPL_calloc(1, sizeof *started, MPL_MEM_COLL);
        if (!started) {
            MPIDI_COMPOSITE_team_give_up(team, team->rank);
            op->mpi_errno = no_memory();
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
    return MPI_SUCCESS;
}

/* Counts, displacements and datatypes of the caller's, of which none means the same for all. */
static int keep(parts_t * parts, int ranks, void **kept)
{
    size_t numbers = sizeof(MPI_Aint) * (size_t) ranks;
    MPI_Aint *copy = *kept = MPL_malloc(2 * numbers + sizeof(MPI_Datatype) * (size_t) ranks, MPL_MEM_COLL);
    MPI_Datatype *types;

    if (!copy) {
        *parts = (parts_t) { .type = MPI_BYTE };
        return no_memory();
    }
    parts->counts = memcpy(copy, parts->counts, numbers);
    if (parts->displacements)
        parts->displacements = memcpy(copy + ranks, parts->displacements, numbers);
    if (!parts->types)
        return MPI_SUCCESS;
    types = (MPI_Datatype *) (copy + 2 * ranks);
    for (int rank = 0; rank < ranks; rank++)
        types[rank] = parts->counts[rank] ? parts->types[rank] : MPI_BYTE;      /* what was given may be none */
    parts->types = types;
    parts->type = MPI_BYTE;
    return MPI_SUCCESS;
}

static size_t room_for(const op_t * op, size_t bytes)
{
    return bytes <= MPL_MIN(op->limit, PM_TEAM_PAGE) ? bytes : PM_TEAM_ELSEWHERE;
}

/* As enter_with_parts() will do it: with a table of where those of different lengths are. */
static size_t bytes_of_parts(const team_t * team, const parts_t * parts, bool unknown)
{
    size_t bytes = unknown ? sizeof(uint64_t) * (size_t) team->ranks : 0;

    for (int rank = 0; rank < team->ranks; rank++)
        if (!unknown || rank != team->rank)
            bytes += part_of(parts, rank).bytes;
    return bytes;
}

/* Gathers: what we have, and where that of all goes, if we want it. */
static int start_to_gather(team_t * team, op_t * op, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                           const parts_t * to)
{
    size_t longest;

    op->mine = data_or_none(sendbuf, sendcount, sendtype);
    if (to) {
        op->to = *to;
        op->copies_own = sendbuf != MPI_IN_PLACE;
        if (to->counts)
            op->mpi_errno = keep(&op->to, team->ranks, &op->kept[1]);
    }
    if (op->plan.hears == ALL && sendbuf == MPI_IN_PLACE)
        op->mine = part_of(&op->to, team->rank);
    longest = op->mine.bytes;
    for (int rank = 0; to && rank < team->ranks; rank++)
        longest = MPL_MAX(longest, part_of(&op->to, rank).bytes);
    op->room = room_for(op, op->mine.bytes);
    if (!op->plan.lends && longest > PM_TEAM_PAGE && op->mpi_errno == MPI_SUCCESS)
        op->mpi_errno = exchange_pieces(team, op);
    return start(team, op);
}

/* Scatters: what goes to each, if it is ours, and where ours goes. */
static int start_to_scatter(team_t * team, op_t * op, const parts_t * from, void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype)
{
    op->mine = data_or_none(recvbuf, recvcount, recvtype);
    if (from) {
        op->from = *from;
        op->copies_own = recvbuf != MPI_IN_PLACE;
        if (from->counts)
            op->mpi_errno = keep(&op->from, team->ranks, &op->kept[0]);
        op->room = room_for(op, bytes_of_parts(team, &op->from, op->plan.unknown));
    }
    return start(team, op);
}

/* What goes to each, NULL if it is in place, and where that of each goes. */
static int start_to_exchange(MPIR_Comm * comm, team_t * team, op_t * op, const parts_t * from, const parts_t * to)
{
    size_t bytes;

    op->in_place = !from;
    op->copies_own = from;
    op->to = *to;
    if (to->counts)
        op->mpi_errno = keep(&op->to, team->ranks, &op->kept[1]);
    op->from = from ? *from : op->to;
    if (from && from->counts && op->mpi_errno == MPI_SUCCESS)
        op->mpi_errno = keep(&op->from, team->ranks, &op->kept[0]);
    if (op->mpi_errno) {
        op->from = op->to = (parts_t) { .type = MPI_BYTE };
        return start(team, op);
    }
    bytes = part_of(&op->from, 0).bytes * (size_t) team->ranks;
    op->room = room_for(op, bytes);
    if (op->plan.unknown)
        op->mpi_errno = exchange_any(team, op);
    else if (bytes > op->limit && team->ranks <= EXCHANGES_IN_MEMORY_LIMIT) {
        op->mpi_errno = exchange_long_blocks(team, op);
        MPIDI_COMPOSITE_COMM(comm).team->apart = pm_team_step(MPIDI_COMPOSITE_COMM(comm).team->team) + 1;
    }
    else if (bytes > PM_TEAM_PAGE && bytes <= op->limit)
        op->mpi_errno = exchange_blocks(team, op, bytes / (size_t) team->ranks);
    return start(team, op);
}

/* Each reduces a slice; those who want all of it read them afterwards. */
static int add_in_slices(team_t * team, op_t * op, char *recvbuf)
{
    op->whole = recvbuf;
    op->result = recvbuf + op->at;
    if (op->plan.operation == PM_COLL_REDUCE_SCATTER) {
        /* In place others may still need what is at the beginning. */
        if (op->in_place)
            op->moved = recvbuf;
        else
            op->result = recvbuf;
        return exchange_slices(team, op);
    }
    op->wanted_by = op->plan.hears;
    op->plan.hears = ALL;
    if (!is_one_of(op->wanted_by, team, op)) {
        op->result = op->copy = MPL_malloc(op->bytes + 1, MPL_MEM_COLL);
        if (!op->result)
            return no_memory();
    }
    return exchange_slices(team, op);
}

/* Reductions of the ranks up to `last`. */
static int start_to_add(team_t * team, op_t * op, const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type,
                        MPI_Op operator, int last)
{
    pm_collective operation = op->plan.operation;
    bool whole, in_slices;

    op->in_place = sendbuf == MPI_IN_PLACE;
    op->mine = data_of(op->in_place ? recvbuf : sendbuf, count, type);
    op->op = operator;
    op->last = last;
    op->result = recvbuf;
    op->room = op->bytes = op->mine.bytes;
    whole = operation == PM_COLL_SCAN || (operation == PM_COLL_REDUCE && (are_two(team) || op->bytes <= team->ways[operation].board));
    in_slices = !whole && (op->bytes > PM_TEAM_PAGE ||
                           (operation == PM_COLL_ALLREDUCE && op->bytes * (size_t) team->ranks > PM_TEAM_STARTED_WHOLE));
    if (operation == PM_COLL_REDUCE_SCATTER || in_slices) {
        op->at = begin_of(team, op, team->rank);
        op->bytes = begin_of(team, op, team->rank + 1) - op->at;
    }
    if (in_slices)
        op->mpi_errno = add_in_slices(team, op, recvbuf);
    else if (op->mine.bytes > PM_TEAM_PAGE)
        op->mpi_errno = exchange_pieces(team, op);
    op->to = (parts_t) { .type = MPI_BYTE };    /* has told whose what is */
    return start(team, op);
}

/* What the root has. */
static int start_bcast(team_t * team, op_t * op, data_t data)
{
    op->mine = data;
    op->room = room_for(op, op->mine.bytes);
    if (op->mine.bytes > PM_TEAM_PAGE && op->mine.bytes <= op->limit)
        op->mpi_errno = exchange_of_root(team, op);
    return start(team, op);
}

#include "composite_started_leaders.h"

int MPIDI_COMPOSITE_started_init(void)
{
    return MPIR_Progress_hook_register(advance_laters, &hook) == MPI_SUCCESS ? get_reserve() : PM_FAILED;
}

void MPIDI_COMPOSITE_started_finalize(void)
{
    MPIR_Progress_hook_deregister(hook);
    free_reserve();
    while (unused) {
        op_t *op = unused;
        unused = op->next;
        MPL_free(op);
    }
}

MPIDI_COMPOSITE_kept_way_t MPIDI_COMPOSITE_could_start(MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective, MPI_Aint count, MPI_Datatype type,
                                                       MPI_Op op)
{
    const team_t *team = MPIDI_COMPOSITE_team_of(comm);

    if (is_led(comm, collective, count, type, op))
        return MPIDI_COMPOSITE_BY_LEADERS;
    return team && way_for(team, collective, count, type, op) != PM_BY_MESSAGES ? MPIDI_COMPOSITE_BY_TEAM : MPIDI_COMPOSITE_BY_SCHEDULES;
}

/* ---- the calls ---- */

#define IN(OPERATION) MPIDI_COMPOSITE_IN_##OPERATION

int MPIDI_COMPOSITE_ibarrier(MPIR_Comm * comm, MPIR_Request ** request)
{
    team_t *team;
    op_t *op;

    if (is_led(comm, IN(BARRIER), 0, MPI_BYTE, MPI_OP_NULL))
        return led_ibarrier(comm, request);
    team = team_for(comm, IN(BARRIER), 0, MPI_BYTE);
    if (!team)
        return MPIR_Ibarrier_impl(comm, request);
    op = make_op(comm, team, IN(BARRIER), 0, request);
    return op ? start(team, op) : cannot_start(team);
}

int MPIDI_COMPOSITE_ibcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root, MPIR_Comm * comm, MPIR_Request ** request)
{
    team_t *team;
    op_t *op;

    if (is_led(comm, IN(BCAST), count, datatype, MPI_OP_NULL))
        return led_ibcast(buffer, count, datatype, root, comm, request);
    team = team_for(comm, IN(BCAST), count, datatype);
    if (!team)
        return MPIR_Ibcast_impl(buffer, count, datatype, root, comm, request);
    op = make_op(comm, team, IN(BCAST), root, request);
    return op ? start_bcast(team, op, data_of(buffer, count, datatype)) : cannot_start(team);
}

int MPIDI_COMPOSITE_igather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                            MPI_Datatype recvtype, int root, MPIR_Comm * comm, MPIR_Request ** request)
{
    bool at_root = comm->rank == root;
    MPI_Aint count = at_root ? recvcount : sendcount;
    MPI_Datatype type = at_root ? recvtype : sendtype;
    team_t *team;
    parts_t to;
    op_t *op;

    if (is_nothing(comm, count, type, request))
        return *request ? MPI_SUCCESS : no_memory();
    if (is_led(comm, IN(GATHER), count, type, MPI_OP_NULL)) {
        data_t mine = data_or_none(sendbuf, sendcount, sendtype);
        to = at_root ? equal_parts(recvbuf, recvcount, recvtype) : equal_parts(NULL, (MPI_Aint) bytes_of(count, type), MPI_BYTE);
        return led_igather(sendbuf == MPI_IN_PLACE ? NULL : &mine, &to, root, comm, request);
    }
    team = team_for(comm, IN(GATHER), count, type);
    if (!team)
        return MPIR_Igather_impl(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request);
    op = make_op(comm, team, IN(GATHER), root, request);
    if (!op)
        return cannot_start(team);
    if (at_root)
        to = equal_parts(recvbuf, recvcount, recvtype);
    return start_to_gather(team, op, sendbuf, sendcount, sendtype, at_root ? &to : NULL);
}

int MPIDI_COMPOSITE_igatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                             const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype, int root,
                             MPIR_Comm * comm, MPIR_Request ** request)
{
    team_t *team = team_for(comm, IN(GATHERV), 0, MPI_BYTE);
    bool at_root = comm->rank == root;
    parts_t to;
    op_t *op;

    if (!team)
        return MPIR_Igatherv_impl(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm, request);
    op = make_op(comm, team, IN(GATHERV), root, request);
    if (!op)
        return cannot_start(team);
    if (at_root)
        to = parts_of(recvbuf, recvcounts, displs, recvtype);
    return start_to_gather(team, op, sendbuf, sendcount, sendtype, at_root ? &to : NULL);
}

int MPIDI_COMPOSITE_iallgather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                               MPI_Aint recvcount, MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Request ** request)
{
    team_t *team;
    parts_t to;
    op_t *op;

    if (is_nothing(comm, recvcount, recvtype, request))
        return *request ? MPI_SUCCESS : no_memory();
    to = equal_parts(recvbuf, recvcount, recvtype);
    if (is_led(comm, IN(ALLGATHER), recvcount, recvtype, MPI_OP_NULL)) {
        data_t mine = data_or_none(sendbuf, sendcount, sendtype);
        return led_iallgather(sendbuf == MPI_IN_PLACE ? NULL : &mine, &to, comm, IN(ALLGATHER), request);
    }
    team = team_for(comm, IN(ALLGATHER), recvcount, recvtype);
    if (!team)
        return MPIR_Iallgather_impl(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request);
    op = make_op(comm, team, IN(ALLGATHER), 0, request);
    if (!op)
        return cannot_start(team);
    return start_to_gather(team, op, sendbuf, sendcount, sendtype, &to);
}

int MPIDI_COMPOSITE_iallgatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype, MPIR_Comm * comm,
                                MPIR_Request ** request)
{
    team_t *team;
    parts_t to = parts_of(recvbuf, recvcounts, displs, recvtype);
    op_t *op;

    if (comm->comm_kind == MPIR_COMM_KIND__INTRACOMM && is_led(comm, IN(ALLGATHERV), sum_of(recvcounts, comm->local_size), recvtype, MPI_OP_NULL)) {
        data_t mine = data_or_none(sendbuf, sendcount, sendtype);
        return led_iallgather(sendbuf == MPI_IN_PLACE ? NULL : &mine, &to, comm, IN(ALLGATHERV), request);
    }
    team = team_for(comm, IN(ALLGATHERV), 0, MPI_BYTE);
    if (!team)
        return MPIR_Iallgatherv_impl(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, request);
    op = make_op(comm, team, IN(ALLGATHERV), 0, request);
    if (!op)
        return cannot_start(team);
    return start_to_gather(team, op, sendbuf, sendcount, sendtype, &to);
}

int MPIDI_COMPOSITE_iscatter(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                             MPI_Datatype recvtype, int root, MPIR_Comm * comm, MPIR_Request ** request)
{
    bool at_root = comm->rank == root;
    MPI_Aint count = at_root ? sendcount : recvcount;
    MPI_Datatype type = at_root ? sendtype : recvtype;
    team_t *team;
    parts_t from;
    op_t *op;

    if (is_nothing(comm, count, type, request))
        return *request ? MPI_SUCCESS : no_memory();
    if (is_led(comm, IN(SCATTER), count, type, MPI_OP_NULL)) {
        data_t mine = data_or_none(recvbuf, recvcount, recvtype);
        from = at_root ? equal_parts(sendbuf, sendcount, sendtype) : equal_parts(NULL, (MPI_Aint) bytes_of(count, type), MPI_BYTE);
        return led_iscatter(&from, recvbuf == MPI_IN_PLACE ? NULL : &mine, root, comm, request);
    }
    team = team_for(comm, IN(SCATTER), count, type);
    if (!team)
        return MPIR_Iscatter_impl(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, request);
    op = make_op(comm, team, IN(SCATTER), root, request);
    if (!op)
        return cannot_start(team);
    if (at_root)
        from = equal_parts(sendbuf, sendcount, sendtype);
    return start_to_scatter(team, op, at_root ? &from : NULL, recvbuf, recvcount, recvtype);
}

int MPIDI_COMPOSITE_iscatterv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * displs, MPI_Datatype sendtype,
                              void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype, int root, MPIR_Comm * comm,
                              MPIR_Request ** request)
{
    team_t *team = team_for(comm, IN(SCATTERV), 0, MPI_BYTE);
    bool at_root = comm->rank == root;
    parts_t from;
    op_t *op;

    if (!team)
        return MPIR_Iscatterv_impl(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm, request);
    op = make_op(comm, team, IN(SCATTERV), root, request);
    if (!op)
        return cannot_start(team);
    if (at_root)
        from = parts_of(sendbuf, sendcounts, displs, sendtype);
    return start_to_scatter(team, op, at_root ? &from : NULL, recvbuf, recvcount, recvtype);
}

int MPIDI_COMPOSITE_ialltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                              MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Request ** request)
{
    bool in_place = sendbuf == MPI_IN_PLACE;
    team_t *team;
    parts_t from, to;
    op_t *op;

    if (is_nothing(comm, recvcount, recvtype, request))
        return *request ? MPI_SUCCESS : no_memory();
    if (is_led(comm, IN(ALLTOALL), recvcount, recvtype, MPI_OP_NULL)) {
        data_t all_to = data_of(recvbuf, recvcount * comm->local_size, recvtype);
        data_t all_from = in_place ? all_to : data_of(sendbuf, sendcount * comm->local_size, sendtype);
        return led_ialltoall(&all_from, &all_to, comm, request);
    }
    team = team_for(comm, IN(ALLTOALL), recvcount, recvtype);
    if (!team)
        return MPIR_Ialltoall_impl(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, request);
    op = make_op(comm, team, IN(ALLTOALL), 0, request);
    if (!op)
        return cannot_start(team);
    to = equal_parts(recvbuf, recvcount, recvtype);
    if (!in_place)
        from = equal_parts(sendbuf, sendcount, sendtype);
    return start_to_exchange(comm, team, op, in_place ? NULL : &from, &to);
}

int MPIDI_COMPOSITE_ialltoallv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls, MPI_Datatype sendtype,
                               void *recvbuf, const MPI_Aint * recvcounts, const MPI_Aint * rdispls, MPI_Datatype recvtype,
                               MPIR_Comm * comm, MPIR_Request ** request)
{
    bool in_place = sendbuf == MPI_IN_PLACE;
    team_t *team = team_for(comm, IN(ALLTOALLV), 0, MPI_BYTE);
    parts_t from, to;
    op_t *op;

    if (!team)
        return MPIR_Ialltoallv_impl(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm, request);
    op = make_op(comm, team, IN(ALLTOALLV), 0, request);
    if (!op)
        return cannot_start(team);
    to = parts_of(recvbuf, recvcounts, rdispls, recvtype);
    if (!in_place)
        from = parts_of(sendbuf, sendcounts, sdispls, sendtype);
    return start_to_exchange(comm, team, op, in_place ? NULL : &from, &to);
}

int MPIDI_COMPOSITE_ialltoallw(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                               const MPI_Datatype * sendtypes, void *recvbuf, const MPI_Aint * recvcounts,
                               const MPI_Aint * rdispls, const MPI_Datatype * recvtypes, MPIR_Comm * comm, MPIR_Request ** request)
{
    bool in_place = sendbuf == MPI_IN_PLACE;
    team_t *team = team_for(comm, IN(ALLTOALLW), 0, MPI_BYTE);
    parts_t from, to;
    op_t *op;

    if (!team)
        return MPIR_Ialltoallw_impl(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm, request);
    op = make_op(comm, team, IN(ALLTOALLW), 0, request);
    if (!op)
        return cannot_start(team);
    to = typed_parts(recvbuf, recvcounts, rdispls, recvtypes);
    if (!in_place)
        from = typed_parts(sendbuf, sendcounts, sdispls, sendtypes);
    return start_to_exchange(comm, team, op, in_place ? NULL : &from, &to);
}

int MPIDI_COMPOSITE_ireduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op, int root,
                            MPIR_Comm * comm, MPIR_Request ** request)
{
    team_t *team;
    op_t *started;

    if (is_led(comm, IN(REDUCE), count, datatype, op))
        return led_ireduce(sendbuf, recvbuf, count, datatype, op, root, comm, request);
    team = team_to_add(comm, IN(REDUCE), count, datatype, op);
    if (!team)
        return MPIR_Ireduce_impl(sendbuf, recvbuf, count, datatype, op, root, comm, request);
    started = make_op(comm, team, IN(REDUCE), root, request);
    return started ? start_to_add(team, started, sendbuf, recvbuf, count, datatype, op, team->ranks - 1) : cannot_start(team);
}

int MPIDI_COMPOSITE_iallreduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op, MPIR_Comm * comm,
                               MPIR_Request ** request)
{
    team_t *team;
    op_t *started;

    if (is_led(comm, IN(ALLREDUCE), count, datatype, op))
        return led_ireduce(sendbuf, recvbuf, count, datatype, op, -1, comm, request);
    team = team_to_add(comm, IN(ALLREDUCE), count, datatype, op);
    if (!team)
        return MPIR_Iallreduce_impl(sendbuf, recvbuf, count, datatype, op, comm, request);
    started = make_op(comm, team, IN(ALLREDUCE), 0, request);
    return started ? start_to_add(team, started, sendbuf, recvbuf, count, datatype, op, team->ranks - 1) : cannot_start(team);
}

int MPIDI_COMPOSITE_ireduce_scatter(const void *sendbuf, void *recvbuf, const MPI_Aint * recvcounts, MPI_Datatype datatype,
                                    MPI_Op op, MPIR_Comm * comm, MPIR_Request ** request)
{
    MPI_Aint count = sum_of(recvcounts, comm->local_size);
    team_t *team;
    op_t *started;

    if (is_led(comm, IN(REDUCE_SCATTER), count, datatype, op))
        return led_ireduce_scatter_counts(sendbuf, recvbuf, recvcounts, datatype, op, comm, request);
    team = team_to_add(comm, IN(REDUCE_SCATTER), count, datatype, op);
    if (!team)
        return MPIR_Ireduce_scatter_impl(sendbuf, recvbuf, recvcounts, datatype, op, comm, request);
    started = make_op(comm, team, IN(REDUCE_SCATTER), 0, request);
    if (!started)
        return cannot_start(team);
    started->to.counts = recvcounts;
    return start_to_add(team, started, sendbuf, recvbuf, count, datatype, op, team->ranks - 1);
}

int MPIDI_COMPOSITE_ireduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Aint recvcount, MPI_Datatype datatype,
                                          MPI_Op op, MPIR_Comm * comm, MPIR_Request ** request)
{
    MPI_Aint count = recvcount * comm->local_size;
    team_t *team;
    op_t *started;

    if (is_led(comm, IN(REDUCE_SCATTER_BLOCK), recvcount, datatype, op)) {
        parts_t all = equal_parts(NULL, recvcount, datatype);
        return led_ireduce_scatter(sendbuf, recvbuf, count, &all, op, comm, IN(REDUCE_SCATTER_BLOCK), request);
    }
    team = team_to_add(comm, IN(REDUCE_SCATTER_BLOCK), count, datatype, op);
    if (!team)
        return MPIR_Ireduce_scatter_block_impl(sendbuf, recvbuf, recvcount, datatype, op, comm, request);
    started = make_op(comm, team, IN(REDUCE_SCATTER_BLOCK), 0, request);
    if (!started)
        return cannot_start(team);
    started->to.count = recvcount;
    return start_to_add(team, started, sendbuf, recvbuf, count, datatype, op, team->ranks - 1);
}

int MPIDI_COMPOSITE_iscan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op, MPIR_Comm * comm,
                          MPIR_Request ** request)
{
    team_t *team;
    op_t *started;

    if (is_led(comm, IN(SCAN), count, datatype, op))
        return led_iscan(sendbuf, recvbuf, count, datatype, op, true, comm, request);
    team = team_to_add(comm, IN(SCAN), count, datatype, op);
    if (!team)
        return MPIR_Iscan_impl(sendbuf, recvbuf, count, datatype, op, comm, request);
    started = make_op(comm, team, IN(SCAN), 0, request);
    return started ? start_to_add(team, started, sendbuf, recvbuf, count, datatype, op, team->rank) : cannot_start(team);
}

int MPIDI_COMPOSITE_iexscan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                            MPIR_Comm * comm, MPIR_Request ** request)
{
    team_t *team;
    op_t *started;

    if (is_led(comm, IN(EXSCAN), count, datatype, op))
        return led_iscan(sendbuf, recvbuf, count, datatype, op, false, comm, request);
    team = team_to_add(comm, IN(EXSCAN), count, datatype, op);
    if (!team)
        return MPIR_Iexscan_impl(sendbuf, recvbuf, count, datatype, op, comm, request);
    started = make_op(comm, team, IN(EXSCAN), 0, request);
    return started ? start_to_add(team, started, sendbuf, recvbuf, count, datatype, op, team->rank - 1) : cannot_start(team);
}
