/* Teams of communicators: how one comes about, and waiting in it. */
#include <sys/resource.h>

#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll_life.h"
#include "composite_team.h"
#include "base/tuning.h"
#include "netmod/core/setup.h"
#include "netmod/core/shared.h"

/* All ranks are of this job and on this host: then all of them answer the same here, and to pm_crowded(). */
static bool on_one_host(MPIR_Comm * comm)
{
    if (comm->comm_kind != MPIR_COMM_KIND__INTRACOMM || MPIDI_COMM(comm, map).mode == MPIDI_RANK_MAP_MLUT ||
        MPIDI_COMM(comm, map).avtid != 0)
        return false;
    return comm->hierarchy_kind == MPIR_COMM_HIERARCHY_KIND__NODE ||
        (comm->node_comm != NULL && comm->node_comm->local_size == comm->local_size);
}

/* Boards of ours that others may still look at. Under the lock. */
typedef struct left {
    struct left *next;
    void *board;
    int ranks;
} left_t;

static left_t *left_boards;
static size_t board_bytes;      /* of all boards of ours */

static void free_left_boards(void)
{
    for (left_t **link = &left_boards; *link;) {
        left_t *left = *link;
        if (!pm_team_all_have_left(left->board, left->ranks)) {
            link = &left->next;
            continue;
        }
        *link = left->next;
        pm_mapped_free(MPIDI_COMPOSITE_global.core, left->board);
        board_bytes -= 2 * pm_team_board_size(left->ranks);
        MPL_free(left);
    }
}

/* The arena takes much of the address space: not where that is limited. */
static bool is_limited(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

static void *make_board(int ranks)
{
    size_t size = 2 * pm_team_board_size(ranks);
    void *board = NULL;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    free_left_boards();
    if (board_bytes + size <= PM_TEAM_BOARDS_LIMIT && !is_limited())
        board = pm_mapped_alloc(MPIDI_COMPOSITE_global.core, size);
    if (board) {
        board_bytes += size;
        pm_team_lay_out(board, ranks);
        pm_team_lay_out((char *) board + size / 2, ranks);
    }
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return board;
}

static void *see_board(MPIR_Comm * comm, uint64_t address)
{
    void *board;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    board = pm_shared_view(MPIDI_COMPOSITE_peer(comm, 0), address, 2 * pm_team_board_size(comm->local_size));
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return board;
}

static void leave(MPIDI_COMPOSITE_team_t * team)
{
    left_t *left;

    /* After MPI_Finalize the boards are gone. */
    if (MPIDI_COMPOSITE_global.core) {
        pm_team_leave(team->second->team);
        pm_team_leave(team->team);
    }
    pm_team_free(team->second->team);
    pm_team_free(team->team);
    MPL_free(team->second);
    left = team->board && MPIDI_COMPOSITE_global.core ? MPL_malloc(sizeof *left, MPL_MEM_COLL) : NULL;
    if (left) {
        left->board = team->board;
        left->ranks = team->ranks;
        left->next = left_boards;
        left_boards = left;
    }
    MPL_free(team);
}

/* Whether we may read the memory of all others, and all others that of all others: two steps. */
static int try_reading(MPIDI_COMPOSITE_team_t * team)
{
    int mpi_errno;
    volatile uint64_t word = 0x7465616d00000000u + (uint64_t) team->rank;
    uint64_t address = (uint64_t) (uintptr_t) & word, seen, works = pm_may_read_memory(MPIDI_COMPOSITE_global.core);

    memcpy(pm_team_place(team->team, sizeof address), &address, sizeof address);
    pm_team_enter(team->team, sizeof address, team->collective);
    mpi_errno = MPIDI_COMPOSITE_team_await_all(team);
    MPIR_ERR_CHECK(mpi_errno);
    for (int rank = 0; works && rank < team->ranks; rank++) {
        memcpy(&address, pm_team_said(team->team, rank), sizeof address);
        seen = 0;
        works = rank == team->rank || (pm_team_read(team->team, rank, address, &seen, sizeof seen) &&
                                       seen == 0x7465616d00000000u + (uint64_t) rank);
    }
    memcpy(pm_team_place(team->team, sizeof works), &works, sizeof works);
    pm_team_enter(team->team, sizeof works, team->collective);
    mpi_errno = MPIDI_COMPOSITE_team_await_all(team);
    MPIR_ERR_CHECK(mpi_errno);
    team->reads = true;
    for (int rank = 0; rank < team->ranks; rank++) {
        memcpy(&works, pm_team_said(team->team, rank), sizeof works);
        team->reads = team->reads && works;
    }

  fn_fail:
    return mpi_errno;
}

/* Rank 0 makes the board, all say whether they see it: by messages. */
static MPIDI_COMPOSITE_team_t *make_team(MPIR_Comm * comm)
{
    pm_group_setup group = MPIDI_COMPOSITE_group_setup(comm);
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    MPIDI_COMPOSITE_team_t *team = MPL_calloc(1, sizeof *team, MPL_MEM_COLL), *second = MPL_calloc(1, sizeof *team, MPL_MEM_COLL);
    uint64_t address = 0;
    void *board = NULL;
    int seen = 0, all_see = 0;

    if (comm->rank == 0)
        address = (uint64_t) (uintptr_t) (board = make_board(comm->local_size));
    if (MPIR_Bcast_intra_binomial(&address, sizeof address, MPI_BYTE, 0, comm, &errflag) != MPI_SUCCESS)
        address = 0;
    if (comm->rank != 0 && address)
        board = see_board(comm, address);
    if (team && second && board) {
        team->team = pm_team_join(&group, board);
        second->team = pm_team_join(&group, (char *) board + pm_team_board_size(comm->local_size));
    }
    seen = team && second && team->team && second->team;
    if (MPIR_Allreduce_intra_recursive_doubling(&seen, &all_see, 1, MPI_INT, MPI_MIN, comm, &errflag) != MPI_SUCCESS)
        all_see = 0;
    if (team) {
        team->rank = comm->rank;
        team->ranks = comm->local_size;
        team->gone = -1;
        team->board = comm->rank == 0 ? board : NULL;
        team->second = second;
    }
    if (!all_see) {
        /* Nobody has used it. */
        if (team)
            pm_team_free(team->team);
        if (second)
            pm_team_free(second->team);
        MPL_free(team);
        MPL_free(second);
        if (comm->rank == 0 && board) {
            MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
            pm_mapped_free(MPIDI_COMPOSITE_global.core, board);
            board_bytes -= 2 * pm_team_board_size(comm->local_size);
            MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
        }
        return NULL;
    }
    (void) try_reading(team);   /* if it fails, so does what comes after it */
    second->rank = team->rank;
    second->ranks = team->ranks;
    second->reads = team->reads;
    second->gone = team->gone;
    second->behind = true;
    MPIDI_COMPOSITE_choose(team);
    MPIDI_COMPOSITE_choose(second);
    return team;
}

MPIDI_COMPOSITE_team_t *MPIDI_COMPOSITE_team_of(MPIR_Comm * comm)
{
    MPIDI_COMPOSITE_comm_t *state = &MPIDI_COMPOSITE_COMM(comm);

    if (likely(state->team_is_known))
        return state->team;
    if (!on_one_host(comm) || comm->local_size < 2 || comm->local_size > PM_TEAM_RANKS_LIMIT) {
        state->team_is_known = true;
    } else if (comm == MPIR_Process.comm_world || state->team_calls++ == PM_TEAM_CALLS_BEFORE) {
        state->team = make_team(comm);
        state->team_is_known = true;
    }
    return state->team;
}

void MPIDI_COMPOSITE_team_comm_free(MPIR_Comm * comm)
{
    MPIDI_COMPOSITE_team_t *team = MPIDI_COMPOSITE_COMM(comm).team;

    MPIDI_COMPOSITE_COMM(comm).team = NULL;
    if (team)
        leave(team);
    if (MPIDI_COMPOSITE_global.core)
        free_left_boards();
}

void MPIDI_COMPOSITE_team_finalize(void)
{
    while (left_boards) {
        left_t *left = left_boards;
        left_boards = left->next;
        MPL_free(left);
    }
    board_bytes = 0;
}

/* ---- waiting ---- */

static int is_here(pm_team * team, size_t rank)
{
    return pm_team_is_here(team, (int) rank);
}

void MPIDI_COMPOSITE_team_give_up(MPIDI_COMPOSITE_team_t * team, int rank)
{
    if (team->gone >= 0)
        return;
    team->gone = rank;
    pm_team_give_up(team->team);
}

int MPIDI_COMPOSITE_team_lost(MPIDI_COMPOSITE_team_t * team, int rank)
{
    char text[80];

    MPIDI_COMPOSITE_team_give_up(team, rank);
    snprintf(text, sizeof text, "rank %d has ended, or a collective failed there", rank);
    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__, MPIX_ERR_PROC_FAILED, "**composite",
                                "**composite %s", text);
}

static int wait_until(MPIDI_COMPOSITE_team_t * team, int (*ready) (pm_team *, size_t), size_t what)
{
    int mpi_errno = MPI_SUCCESS;
    pm_core *core = MPIDI_COMPOSITE_global.core;
    bool crowded = pm_crowded(core);

    for (unsigned looks = 1; !ready(team->team, what); looks++) {
        bool slept = false;
        int rank;

        if (!crowded && looks % PM_LOOKS_BETWEEN_PROGRESS)
            continue;
        mpi_errno = MPID_Progress_test(NULL);
        MPIR_ERR_CHECK(mpi_errno);
        rank = ready == is_here ? (int) what : pm_team_last(team->team, what);
        if (rank < 0)
            continue;
        if (pm_wait_step(core)) {
            pm_team_sleeps_for(team->team, rank);
            if (pm_wait_arm(core) && !ready(team->team, what)) {
                pm_wait_sleep(core, MPIR_ThreadInfo.isThreaded);
                slept = true;
            }
            pm_wait_disarm(core);
            pm_team_is_awake(team->team);
        }
        if ((slept || looks % 65536 == 0) && pm_team_is_gone(team->team, rank) && !ready(team->team, what))
            return MPIDI_COMPOSITE_team_lost(team, rank);
    }
    pm_wait_restart();

  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_team_room(MPIDI_COMPOSITE_team_t * team, size_t size)
{
    if (unlikely(team->gone >= 0))
        return MPIDI_COMPOSITE_team_lost(team, team->gone);
    if (team->behind)
        return MPI_SUCCESS;     /* its callers have looked */
    return likely(pm_team_has_room(team->team, size)) ? MPI_SUCCESS : wait_until(team, pm_team_has_room, size);
}

const char *const MPIDI_COMPOSITE_collective_names[] = { "none", "MPI_Barrier", "MPI_Bcast", "MPI_Gather", "MPI_Gatherv", "MPI_Scatter",
    "MPI_Scatterv", "MPI_Allgather", "MPI_Allgatherv", "MPI_Alltoall", "MPI_Alltoallv", "MPI_Alltoallw", "MPI_Reduce", "MPI_Allreduce",
    "MPI_Reduce_scatter", "MPI_Reduce_scatter_block", "MPI_Scan", "MPI_Exscan"
};

static int in_another(MPIDI_COMPOSITE_team_t * team, int rank)
{
    const char *const *names = MPIDI_COMPOSITE_collective_names;
    int theirs = pm_team_collective_of(team->team, rank);
    char text[160];

    MPIDI_COMPOSITE_team_give_up(team, rank);
    snprintf(text, sizeof text, "rank %d is in another collective of this communicator, %s, while this rank is in %s", rank,
             theirs < MPIDI_COMPOSITE_COLLECTIVES ? names[theirs] : "none", names[team->collective]);
    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__, MPI_ERR_OTHER, "**composite", "**composite %s",
                                text);
}

int MPIDI_COMPOSITE_team_await(MPIDI_COMPOSITE_team_t * team, int rank)
{
    int mpi_errno = wait_until(team, is_here, (size_t) rank);

    if (mpi_errno == MPI_SUCCESS && unlikely(pm_team_collective_of(team->team, rank) != (int) team->collective))
        mpi_errno = in_another(team, rank);
    return mpi_errno;
}

int MPIDI_COMPOSITE_team_await_all(MPIDI_COMPOSITE_team_t * team)
{
    int mpi_errno;

    for (int i = 1; i < team->ranks; i++) {
        int rank = team->rank + i < team->ranks ? team->rank + i : team->rank + i - team->ranks;
        mpi_errno = MPIDI_COMPOSITE_team_await(team, rank);
        MPIR_ERR_CHECK(mpi_errno);
    }
    pm_team_all_are_here(team->team);

  fn_fail:
    return mpi_errno;
}
