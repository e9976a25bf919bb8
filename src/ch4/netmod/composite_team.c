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
    if (comm->comm_kind != MPIR_COMM_KIND__INTRACOMM || !MPIDI_COMPOSITE_knows_hosts(comm))
        return false;
    return comm->hierarchy_kind == MPIR_COMM_HIERARCHY_KIND__NODE ||
        (comm->node_comm != NULL && comm->node_comm->local_size == comm->local_size);
}

/* Of the boards of a team, one behind the other. */
typedef struct {
    int ranks, pages;
    int boards;
} form_t;

/* One for what is waited for, one for what ends later; that of a host in a communicator of several one for each direction of that, since what
 * comes from other hosts comes in an order of its own. A persistent request has one. */
static int boards_for(const MPIR_Comm * comm)
{
    return comm->hierarchy_kind == MPIR_COMM_HIERARCHY_KIND__NODE ? 3 : 2;
}

/* Boards of ours that others may still look at. Under the lock. */
typedef struct MPIDI_COMPOSITE_left {
    struct MPIDI_COMPOSITE_left *next;
    void *board;
    form_t form;
    uint64_t end;               /* nobody has come to this step */
    pm_peer *peers[];
} left_t;

static left_t *left_boards;
static left_t *kept_boards;     /* that nobody looks at any more: the next communicator of so many ranks has one of them */
static size_t board_bytes, kept_bytes;  /* of all boards of ours, and of those */

/* Where ranks share cores each does much in one turn; but many ranks have few pages each. */
static int pages_wanted(int ranks)
{
    if (!pm_crowded(MPIDI_COMPOSITE_global.core))
        return PM_TEAM_PAGES;
    return MPL_MAX(MPL_MIN(PM_TEAM_PAGES_CROWD, 16 * PM_TEAM_PAGES_CROWD / ranks), PM_TEAM_PAGES);
}

static int steps_ahead(int pages)
{
    return pages > 2 * PM_TEAM_PAGES ? pages / 2 : 2;
}

/* Of those behind the first. */
static int pages_behind(int pages)
{
    return MPL_MAX(pages / 2, PM_TEAM_PAGES);
}

static size_t size_of(const form_t * form)
{
    size_t size = pm_team_board_size(form->ranks, form->pages);

    return size + (size_t) (form->boards - 1) * pm_team_board_size(form->ranks, pages_behind(form->pages));
}

/* All of them, from 0 on. */
static void *board_at(void *first, const form_t * form, int index)
{
    form_t before = { form->ranks, form->pages, index };

    return index == 0 ? first : (char *) first + size_of(&before);
}

static bool lay_out(void *board, const form_t * form, bool is_zero)
{
    for (int i = 0; i < form->boards; i++)
        if (!pm_team_lay_out(board_at(board, form, i), form->ranks, is_zero))
            return false;
    return true;
}

static void lay_out_again(void *board, const form_t * form, uint64_t begin)
{
    for (int i = 0; i < form->boards; i++)
        pm_team_lay_out_again(board_at(board, form, i), form->ranks, begin);
}

static void free_board(void *board, const form_t * form)
{
    pm_mapped_free(MPIDI_COMPOSITE_global.core, board);
    board_bytes -= size_of(form);
}

static void free_kept_boards(void)
{
    while (kept_boards) {
        left_t *kept = kept_boards;
        kept_boards = kept->next;
        free_board(kept->board, &kept->form);
        MPL_free(kept);
    }
    kept_bytes = 0;
}

static bool is_like(const form_t * one, const form_t * other)
{
    return one->ranks == other->ranks && one->pages == other->pages && one->boards == other->boards;
}

static void *take_kept_board(const form_t * form, uint64_t * begin)
{
    for (left_t **link = &kept_boards; *link; link = &(*link)->next) {
        left_t *kept = *link;
        void *board = kept->board;
        if (!is_like(&kept->form, form))
            continue;
        *begin = kept->end;
        lay_out_again(board, form, kept->end);
        kept_bytes -= size_of(form);
        *link = kept->next;
        MPL_free(kept);
        return board;
    }
    return NULL;
}

/* Whether somebody has ended, and so will not leave, takes system calls to find out. */
static void free_left_boards(bool asks)
{
    for (left_t **link = &left_boards; *link;) {
        left_t *left = *link;
        if (!pm_team_all_have_left(left->board, left->form.ranks, asks ? left->peers : NULL)) {
            link = &left->next;
            continue;
        }
        *link = left->next;
        if (kept_bytes + size_of(&left->form) <= PM_TEAM_BOARDS_KEPT) {
            kept_bytes += size_of(&left->form);
            left->next = kept_boards;
            kept_boards = left;
        } else {
            free_board(left->board, &left->form);
            MPL_free(left);
        }
    }
}

/* The arena takes much of the address space: not where that is limited. */
static bool is_limited(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/* What rank 0 says of a board. */
typedef struct {
    uint64_t address;           /* 0: there is none */
    uint64_t begin;             /* its first step is the next one */
    int32_t pages;
    int32_t agreed;
} made_t;

static void *new_board(const form_t * form, size_t limit)
{
    size_t size = size_of(form);
    void *board = NULL;

    if (board_bytes + size > limit)
        free_kept_boards();
    if (board_bytes + size <= limit && !is_limited())
        board = pm_mapped_alloc_part(MPIDI_COMPOSITE_global.core, size, pm_team_can_grow() ? pm_team_notes_size(form->ranks) : size);
    if (!board)
        return NULL;
    board_bytes += size;
    if (!lay_out(board, form, true)) {
        free_board(board, form);
        return NULL;
    }
    return board;
}

/* With fewer pages, when there are many boards. Memory is taken for what is used. */
static void *make_board(form_t * form, made_t * made, size_t limit)
{
    void *board;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    free_left_boards(false);
    form->pages = form->boards == 1 ? pages_behind(pages_wanted(form->ranks)) : pages_wanted(form->ranks);
    if (board_bytes - kept_bytes + size_of(form) > PM_TEAM_BOARDS_LARGE)
        form->pages = PM_TEAM_PAGES;
    made->begin = 0;
    made->pages = form->pages;
    board = take_kept_board(form, &made->begin);
    if (!board) {
        free_left_boards(true);
        board = new_board(form, limit);
    }
    made->address = (uint64_t) (uintptr_t) board;
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return board;
}

static void *see_board(MPIR_Comm * comm, uint64_t address, const form_t * form)
{
    void *board;

    MPID_THREAD_CS_ENTER_REC_VCI(MPIDI_VCI(0).lock);    /* held where a communicator is freed */
    board = pm_shared_view(MPIDI_COMPOSITE_peer(comm, 0), address, size_of(form));
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return board;
}

/* What is needed of a board of ours when its communicator is gone. */
static left_t *note_board(MPIR_Comm * comm, void *board, const form_t * form)
{
    left_t *left = MPL_malloc(sizeof *left + sizeof left->peers[0] * (size_t) comm->local_size, MPL_MEM_COLL);

    if (!left)
        return NULL;
    left->board = board;
    left->form = *form;
    for (int rank = 0; rank < comm->local_size; rank++)
        left->peers[rank] = MPIDI_COMPOSITE_peer(comm, rank);
    return left;
}

/* After MPI_Finalize the boards are gone. */
static void leave_board(MPIDI_COMPOSITE_team_t * team)
{
    if (MPIDI_COMPOSITE_global.core)
        pm_team_leave(team->team);
    pm_team_free(team->team);
    MPL_free(team->started);
}

/* Who has left the first one has left all. */
static void leave_from(MPIDI_COMPOSITE_team_t * team)
{
    if (team->second)
        leave_from(team->second);
    leave_board(team);
    MPL_free(team);
}

void MPIDI_COMPOSITE_team_leave(MPIDI_COMPOSITE_team_t * team)
{
    struct MPIDI_COMPOSITE_left *board = team->board;
    void *alone = team->alone;

    for (MPIDI_COMPOSITE_team_t * each = board ? team : NULL; each; each = each->second)
        board->end = each == team ? pm_team_behind_all(each->team) : MPL_MAX(board->end, pm_team_behind_all(each->team));
    leave_from(team);
    MPL_free(alone);
    if (board && MPIDI_COMPOSITE_global.core) {
        board->next = left_boards;
        left_boards = board;
    } else {
        MPL_free(board);
    }
    if (MPIDI_COMPOSITE_global.core)
        free_left_boards(false);
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

static bool all_are_on_host(MPIR_Comm * comm)
{
    for (int rank = 0; rank < comm->local_size; rank++)
        if (rank != comm->rank && !pm_on_host(MPIDI_COMPOSITE_peer(comm, rank)))
            return false;
    return true;
}

static void join(MPIR_Comm * comm, MPIDI_COMPOSITE_team_t * team, void *board, const form_t * form, uint64_t begin)
{
    pm_group_setup group = MPIDI_COMPOSITE_group_setup(comm);
    int pages = form->pages, index = 1;

    if (form->boards == 1) {
        team->team = pm_team_join(&group, board, pages, 1, begin);
        return;
    }
    team->ahead = (unsigned) steps_ahead(pages);
    team->team = pm_team_join(&group, board, pages, steps_ahead(pages), begin);
    for (MPIDI_COMPOSITE_team_t * each = team->second; each; each = each->second)
        each->team = pm_team_join(&group, board_at(board, form, index++), pages_behind(pages), 1, begin);
    if (team->team && begin == 0)
        pm_team_look_around(team->team);        /* of one that is used again it is mapped */
}

static bool has_joined(const MPIDI_COMPOSITE_team_t * team)
{
    while (team && team->team)
        team = team->second;
    return team == NULL;
}

static MPIDI_COMPOSITE_team_t *new_one(MPIR_Comm * comm)
{
    MPIDI_COMPOSITE_team_t *team = MPL_calloc(1, sizeof *team, MPL_MEM_COLL);

    if (!team)
        return NULL;
    team->rank = comm->rank;
    team->ranks = comm->local_size;
    team->gone = -1;
    return team;
}

static void free_unused(MPIDI_COMPOSITE_team_t * team)
{
    for (MPIDI_COMPOSITE_team_t * next; team; team = next) {
        next = team->second;
        pm_team_free(team->team);
        MPL_free(team->board);
        MPL_free(team);
    }
}

static MPIDI_COMPOSITE_team_t *new_team(MPIR_Comm * comm, int boards)
{
    MPIDI_COMPOSITE_team_t *team = NULL;

    for (int i = boards - 1; i >= 0; i--) {
        MPIDI_COMPOSITE_team_t *one = new_one(comm);
        if (!one) {
            free_unused(team);
            return NULL;
        }
        one->behind = i > 0 || boards == 1;
        one->second = team;
        team = one;
    }
    return team;
}

static void free_unused_board(void *board, const form_t * form)
{
    if (!board)
        return;
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    free_board(board, form);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

/* Who has ended; where nobody is known to have, this rank, where a collective failed. */
static int who_is_gone(MPIR_Comm * comm)
{
    for (int rank = 0; rank < comm->local_size; rank++)
        if (rank != comm->rank && pm_has_ended(MPIDI_COMPOSITE_peer(comm, rank)))
            return rank;
    return comm->rank;
}

static void use(MPIDI_COMPOSITE_team_t * team, bool reads)
{
    for (MPIDI_COMPOSITE_team_t * each = team; each; each = each->second) {
        each->reads = reads;
        MPIDI_COMPOSITE_choose(each);
    }
}

/* It is not known whether all see the board. Others may think so and wait for us: they are told, if we see it; if we do not, they do not
 * think so, or see that we have not joined and that somebody has ended. */
static void give_up_all(MPIR_Comm * comm, MPIDI_COMPOSITE_team_t * team)
{
    const form_t form = { comm->local_size, PM_TEAM_PAGES, boards_for(comm) };
    int gone = team->gone >= 0 ? team->gone : who_is_gone(comm);

    if (!has_joined(team)) {
        for (MPIDI_COMPOSITE_team_t * each = team; each; each = each->second) {
            pm_team_free(each->team);
            each->team = NULL;
        }
        team->alone = MPL_aligned_alloc(64, size_of(&form), MPL_MEM_COLL);
        if (!team->alone || !lay_out(team->alone, &form, false))
            return;
        join(comm, team, team->alone, &form, 0);
    }
    if (has_joined(team)) {
        /* Whatever its length, a collective goes by the team, and fails. */
        use(team, true);
        for (MPIDI_COMPOSITE_team_t * each = team; each; each = each->second)
            MPIDI_COMPOSITE_team_give_up(each, gone);
    }
}

/* What all ranks of this host have agreed on, in a collective of all of them: they see each other's boards and, where it is READING, memory.
 * Then a new communicator of some of them has nothing to agree on. */
typedef enum { NOT_AGREED, SEEING, READING } agreed_t;
static int agreed;

static bool is_of_world(MPIR_Comm * comm)
{
    return comm == MPIR_Process.comm_world || comm == MPIR_Process.comm_world->node_comm;
}

/* Of a communicator whose ranks all are on this host. */
static bool has_all_of_host(MPIR_Comm * comm)
{
    MPIR_Comm *world = MPIR_Process.comm_world;

    return comm->local_size == (world->node_comm ? world->node_comm : world)->local_size;
}

/* On a board that rank 0 has made. */
static MPIDI_COMPOSITE_team_t *team_on(MPIR_Comm * comm, const made_t * made, void *board, int boards)
{
    const form_t form = { comm->local_size, made->pages, boards };
    MPIDI_COMPOSITE_team_t *team = new_team(comm, boards);

    if (comm->rank != 0 && made->address)
        board = see_board(comm, made->address, &form);
    if (team && comm->rank == 0 && board)
        team->board = note_board(comm, board, &form);
    if (team && board && (team->board || comm->rank != 0) && all_are_on_host(comm))
        join(comm, team, board, &form, made->begin);
    return team;
}

/* Rank 0 makes the board, all say whether they see it: by messages. A rank that ends meanwhile is an error at those who need to hear from
 * it. The others may find that all see the board, or hear of the error and not know; so an error does not mean that there is no team, but
 * that it has lost somebody: then the collective that it was made for fails at all, instead of going different ways. */
static MPIDI_COMPOSITE_team_t *agree_on_team(MPIR_Comm * comm)
{
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    MPIDI_COMPOSITE_team_t *team;
    form_t form = { comm->local_size, PM_TEAM_PAGES, boards_for(comm) };
    made_t made = { 0, 0, PM_TEAM_PAGES, NOT_AGREED };
    void *board = NULL;
    int seen, all_see = 0;
    bool failed;

    if (comm->rank == 0)
        board = make_board(&form, &made, PM_TEAM_BOARDS_LIMIT);
    failed = MPIR_Bcast_intra_binomial(&made, sizeof made, MPI_BYTE, 0, comm, &errflag) != MPI_SUCCESS;
    if (failed && comm->rank != 0)
        made.address = 0;
    team = team_on(comm, &made, board, form.boards);
    seen = team && has_joined(team) && !is_limited();
    /* After an error, too: it tells the others. */
    failed = MPIR_Allreduce_intra_recursive_doubling(&seen, &all_see, 1, MPI_INT, MPI_MIN, comm, &errflag) != MPI_SUCCESS || failed ||
        errflag != MPIR_ERR_NONE;
    if (team && failed) {
        give_up_all(comm, team);
        if (has_joined(team))
            return team;
    }
    if (!all_see || failed) {
        /* Nobody has used it. */
        free_unused(team);
        free_unused_board(board, &form);
        return NULL;
    }
    if (try_reading(team) != MPI_SUCCESS) {
        give_up_all(comm, team);       /* what comes after it fails, too */
        return team;
    }
    use(team, team->reads);
    if (has_all_of_host(comm))
        __atomic_store_n(&agreed, team->reads ? READING : SEEING, __ATOMIC_RELAXED);
    return team;
}

/* ---- of a new communicator ---- */

/* Nobody waits in what ends later: what rank 0 says comes when it comes. Under the lock. */
typedef struct unheard {
    struct unheard *next;
    MPIR_Comm *comm;
    made_t made;                /* no pages: it has not come */
} unheard_t;

static unheard_t *unheards;

static unheard_t *remove_unheard(MPIR_Comm * comm)
{
    unheard_t **link = &unheards, *found;

    while (*link && (*link)->comm != comm)
        link = &(*link)->next;
    found = *link;
    if (found)
        *link = found->next;
    return found;
}

/* At rank 0, before others hear of it: on a board that is there only with it. NULL: neither is. */
static MPIDI_COMPOSITE_team_t *make_first(MPIR_Comm * comm, form_t * form, made_t * made, void **board)
{
    MPIDI_COMPOSITE_team_t *team;

    *board = pm_team_can_grow() ? make_board(form, made, PM_TEAM_BOARDS_EARLY) : NULL;
    if (!*board)
        return NULL;
    team = team_on(comm, made, *board, form->boards);
    if (team && has_joined(team))
        return team;
    free_unused(team);
    free_unused_board(*board, form);
    *board = NULL;
    made->address = 0;
    return NULL;
}

/* Where rank 0 knows that all others will see it, there is a board. They are not waited for. */
static MPIDI_COMPOSITE_team_t *make_early(MPIR_Comm * comm, made_t * made)
{
    form_t form = { comm->local_size, PM_TEAM_PAGES, boards_for(comm) };
    MPIDI_COMPOSITE_team_t *team;
    void *board;

    made->agreed = __atomic_load_n(&agreed, __ATOMIC_RELAXED);
    team = made->agreed != NOT_AGREED ? make_first(comm, &form, made, &board) : NULL;
    if (team)
        use(team, made->agreed == READING);
    return team;
}

/* Both of a pair answer the same. Who cannot see a board need not hear of one: what is said to it over a network may still be under way when the
 * communicator is freed, and would keep it. */
static bool may_see_board(MPIR_Comm * comm, int rank)
{
    return pm_is_beside(MPIDI_COMPOSITE_peer(comm, rank));
}

/* What is sent stays where it is while the communicator is there. One that has ended will be missed later. */
static void tell(MPIR_Comm * comm)
{
    static const made_t none = { 0, 0, PM_TEAM_PAGES, NOT_AGREED };
    made_t made = none;
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    MPIDI_COMPOSITE_team_t *team = make_early(comm, &made);
    MPL_COMPILE_TIME_ASSERT(sizeof team->said == sizeof made);
    const void *said = team ? memcpy(team->said, &made, sizeof made) : &none;

    for (int rank = 1; rank < comm->local_size; rank++) {
        MPIR_Request *request = NULL;
        if (may_see_board(comm, rank) &&
            MPIC_Isend(said, sizeof made, MPI_BYTE, rank, MPIR_BCAST_TAG, comm, &request, &errflag) == MPI_SUCCESS)
            MPIR_Request_free(request);
    }
    MPIDI_COMPOSITE_COMM(comm).team = team;
}

/* Others may be on the board by now: who does not see it has a team that has lost somebody, and answers false. */
static bool take(MPIR_Comm * comm, const made_t * made, bool heard)
{
    MPIDI_COMPOSITE_team_t *team;
    bool sees;

    if (heard && !made->address)
        return true;
    team = team_on(comm, made, NULL, boards_for(comm));
    sees = team && has_joined(team);
    if (sees)
        use(team, made->agreed == READING);
    else if (team)
        give_up_all(comm, team);
    if (team && !has_joined(team)) {
        free_unused(team);
        team = NULL;
    }
    MPIDI_COMPOSITE_COMM(comm).team = team;
    return sees;
}

static int hear(MPIR_Comm * comm)
{
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    made_t made = { 0, 0, 0, NOT_AGREED };
    bool heard = MPIC_Recv(&made, sizeof made, MPI_BYTE, 0, MPIR_BCAST_TAG, comm, MPI_STATUS_IGNORE, &errflag) == MPI_SUCCESS && made.pages;

    /* That rank 0 has ended is an error of its collectives. */
    if (take(comm, &made, heard) || !heard)
        return MPI_SUCCESS;
    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__, MPI_ERR_OTHER, "**composite", "**composite %s",
                                "shared memory of rank 0 of a new communicator, which all of its ranks use in collectives, cannot be mapped");
}

static int hear_later(MPIR_Comm * comm)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Request *request = NULL;
    unheard_t *unheard = MPL_calloc(1, sizeof *unheard, MPL_MEM_COLL);

    MPIR_ERR_CHKANDJUMP(!unheard, mpi_errno, MPI_ERR_OTHER, "**nomem");
    unheard->comm = comm;
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    unheard->next = unheards;
    unheards = unheard;
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    mpi_errno = MPIC_Irecv(&unheard->made, sizeof unheard->made, MPI_BYTE, 0, MPIR_BCAST_TAG, comm, &request);
    MPIR_ERR_CHECK(mpi_errno);
    MPIR_Request_free(request);

  fn_fail:
    return mpi_errno;
}

/* In a collective, by which time all may wait. */
static void hear_now(MPIR_Comm * comm)
{
    unheard_t *unheard;
    made_t made;
    bool lost = false;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    for (unheard = unheards; unheard && unheard->comm != comm;)
        unheard = unheard->next;
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (!unheard)
        return;
    for (unsigned looks = 1; !__atomic_load_n(&unheard->made.pages, __ATOMIC_RELAXED) && !lost; looks++) {
        lost = looks % 1024 == 0 && pm_has_ended(MPIDI_COMPOSITE_peer(comm, 0));
        lost = MPID_Progress_test(NULL) != MPI_SUCCESS || lost;
        MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    /* Whoever wrote it held the lock. */
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    made = unheard->made;
    if (made.pages)
        MPL_free(remove_unheard(comm));
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    (void) take(comm, &made, made.pages);
}

static bool may_have_team(MPIR_Comm * comm)
{
    return on_one_host(comm) && comm->local_size > 1 && comm->local_size <= PM_TEAM_RANKS_LIMIT;
}

/* Of the user's, but for those that are made in a call that must not wait. All ranks answer the same. */
static bool is_told_of(MPIR_Comm * comm)
{
    return may_have_team(comm) && !HANDLE_IS_BUILTIN(comm->handle) && comm->hierarchy_kind != MPIR_COMM_HIERARCHY_KIND__NODE && !comm->tainted;
}

int MPIDI_COMPOSITE_team_comm_commit(MPIR_Comm * comm)
{
    if (!is_told_of(comm))
        return MPI_SUCCESS;
    if (comm->rank > 0 && !may_see_board(comm, 0))
        return MPI_SUCCESS;
    if (comm->rank > 0)
        /* MPI_Comm_idup makes it in a schedule. */
        return MPIDU_Sched_are_pending() ? hear_later(comm) : hear(comm);
    tell(comm);
    return MPI_SUCCESS;
}

/* That which it has from the beginning: what ends later makes none. Of one made by MPI_Comm_idup this waits until rank 0 has made it, too. */
MPIDI_COMPOSITE_team_t *MPIDI_COMPOSITE_team_at_hand(MPIR_Comm * comm)
{
    MPIDI_COMPOSITE_comm_t *state = &MPIDI_COMPOSITE_COMM(comm);

    if (likely(state->team_is_known))
        return state->team;
    if (unlikely(unheards))
        hear_now(comm);
    state->team_is_known = state->team != NULL;
    return state->team;
}

MPIDI_COMPOSITE_team_t *MPIDI_COMPOSITE_team_of(MPIR_Comm * comm)
{
    MPIDI_COMPOSITE_comm_t *state = &MPIDI_COMPOSITE_COMM(comm);
    MPIDI_COMPOSITE_team_t *team = MPIDI_COMPOSITE_team_at_hand(comm);

    if (likely(state->team_is_known))
        return team;
    if (!may_have_team(comm)) {
        state->team_is_known = true;
    } else if (is_of_world(comm) || state->team_calls++ == PM_TEAM_CALLS_BEFORE) {
        state->team = agree_on_team(comm);
        state->team_is_known = true;
    }
    return state->team;
}

/* ---- of a persistent request ---- */

/* What rank 0 has made, on the team of the communicator. */
static int hear_on_team(MPIDI_COMPOSITE_team_t * team, made_t * made)
{
    int mpi_errno = MPIDI_COMPOSITE_team_room(team, sizeof *made);

    MPIR_ERR_CHECK(mpi_errno);
    memcpy(pm_team_place(team->team, sizeof *made), made, sizeof *made);
    pm_team_enter(team->team, sizeof *made, team->collective);
    if (team->rank == 0)
        return MPI_SUCCESS;
    mpi_errno = MPIDI_COMPOSITE_team_await(team, 0);
    MPIR_ERR_CHECK(mpi_errno);
    memcpy(made, pm_team_said(team->team, 0), sizeof *made);

  fn_fail:
    return mpi_errno;
}

/* Whether all say so. */
static int agree_on_yes(MPIDI_COMPOSITE_team_t * team, bool yes, bool * all)
{
    int mpi_errno = MPIDI_COMPOSITE_team_room(team, sizeof yes);

    MPIR_ERR_CHECK(mpi_errno);
    memcpy(pm_team_place(team->team, sizeof yes), &yes, sizeof yes);
    pm_team_enter(team->team, sizeof yes, team->collective);
    mpi_errno = MPIDI_COMPOSITE_team_await_all(team);
    MPIR_ERR_CHECK(mpi_errno);
    *all = true;
    for (int rank = 0; rank < team->ranks; rank++)
        *all = *all && *(const bool *) pm_team_said(team->team, rank);

  fn_fail:
    return mpi_errno;
}

/* Others may think that all have it. */
static void give_up_single(MPIDI_COMPOSITE_team_t * team, int gone)
{
    MPIDI_COMPOSITE_team_give_up(team, gone);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    MPIDI_COMPOSITE_team_leave(team);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

int MPIDI_COMPOSITE_team_of_request(MPIR_Comm * comm, MPIDI_COMPOSITE_team_t ** its)
{
    int mpi_errno;
    MPIDI_COMPOSITE_team_t *all = MPIDI_COMPOSITE_COMM(comm).team, *team = NULL;
    form_t form = { comm->local_size, 0, 1 };
    made_t made = { 0, 0, 0, NOT_AGREED };
    void *board = NULL;
    bool told, all_have = false;

    *its = NULL;
    if (all->gone >= 0)
        return MPIDI_COMPOSITE_team_lost(all, all->gone);
    all->collective = MPIDI_COMPOSITE_IN_NONE;
    if (comm->rank == 0)
        team = make_first(comm, &form, &made, &board);
    mpi_errno = hear_on_team(all, &made);
    told = mpi_errno == MPI_SUCCESS;
    if (told && made.address) {
        if (comm->rank != 0)
            team = team_on(comm, &made, NULL, 1);
        mpi_errno = agree_on_yes(all, team && has_joined(team), &all_have);
    }
    if (mpi_errno) {
        MPIDI_COMPOSITE_team_give_up(all, all->rank);
        if (told && team && has_joined(team)) {
            give_up_single(team, all->gone);
        } else {
            /* Of rank 0's nobody has heard. */
            free_unused(team);
            free_unused_board(board, &form);
        }
        return mpi_errno;
    }
    if (!all_have) {
        free_unused(team);
        free_unused_board(board, &form);
        return MPI_SUCCESS;
    }
    team->reads = all->reads;
    memcpy(team->ways, all->ways, sizeof team->ways);
    *its = team;
    return MPI_SUCCESS;
}

void MPIDI_COMPOSITE_team_comm_free(MPIR_Comm * comm)
{
    MPIDI_COMPOSITE_team_t *team;
    unheard_t *unheard = remove_unheard(comm);

    /* What was not heard in time has come by now, or never will: it keeps the communicator. */
    if (unheard && unheard->made.pages && MPIDI_COMPOSITE_global.core)
        (void) take(comm, &unheard->made, true);
    MPL_free(unheard);
    team = MPIDI_COMPOSITE_COMM(comm).team;
    MPIDI_COMPOSITE_COMM(comm).team = NULL;
    if (team)
        MPIDI_COMPOSITE_team_leave(team);
}

void MPIDI_COMPOSITE_team_finalize(void)
{
    while (left_boards) {
        left_t *left = left_boards;
        left_boards = left->next;
        MPL_free(left);
    }
    while (kept_boards) {
        left_t *kept = kept_boards;
        kept_boards = kept->next;
        MPL_free(kept);
    }
    board_bytes = kept_bytes = 0;
    agreed = NOT_AGREED;
}

/* ---- waiting ---- */

/* Each of them answers for whom it waits: -1, for nobody any more. */
static int for_rank(MPIDI_COMPOSITE_team_t * team, const void *what)
{
    const int rank = *(const int *) what;

    return pm_team_is_here(team->team, rank) ? -1 : rank;
}

static int for_room(MPIDI_COMPOSITE_team_t * team, const void *what)
{
    const size_t size = *(const size_t *) what;

    return pm_team_has_room(team->team, size) ? -1 : pm_team_last(team->team, size, false);
}

static int for_much_room(MPIDI_COMPOSITE_team_t * team, const void *what)
{
    const size_t size = *(const size_t *) what;

    return pm_team_has_much_room(team->team, size) ? -1 : pm_team_last(team->team, size, true);
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

int MPIDI_COMPOSITE_team_wait(MPIDI_COMPOSITE_team_t * team, int (*awaited) (MPIDI_COMPOSITE_team_t *, const void *), const void *what)
{
    int mpi_errno = MPI_SUCCESS, rank;
    pm_core *core = MPIDI_COMPOSITE_global.core;
    bool crowded = pm_crowded(core);

    if (unlikely(pm_team_step(team->team) <= team->apart))
        pm_wait_long(core);
    for (unsigned looks = 1; (rank = awaited(team, what)) >= 0; looks++) {
        bool slept = false;

        if (!crowded && looks % PM_LOOKS_BETWEEN_PROGRESS)
            continue;
        mpi_errno = MPID_Progress_test(NULL);
        MPIR_ERR_CHECK(mpi_errno);
        rank = awaited(team, what);
        if (rank < 0)
            break;
        if (pm_wait_step(core)) {
            pm_team_sleeps_for(team->team, rank);
            if (pm_wait_arm(core) && awaited(team, what) == rank) {
                pm_wait_sleep(core, MPIR_ThreadInfo.isThreaded);
                slept = true;
            }
            pm_wait_disarm(core);
            pm_team_is_awake(team->team);
        }
        /* Who has come meanwhile may have done all, and left. */
        if ((slept || looks % 65536 == 0) && pm_team_is_gone(team->team, rank) && awaited(team, what) == rank)
            return MPIDI_COMPOSITE_team_lost(team, rank);
    }
    pm_wait_restart();

  fn_fail:
    return mpi_errno;
}

static int no_memory(void)
{
    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__, MPI_ERR_OTHER, "**composite", "**composite %s",
                                "there is no memory left for what ranks of this host say to each other in collectives");
}

int MPIDI_COMPOSITE_team_room(MPIDI_COMPOSITE_team_t * team, size_t size)
{
    if (unlikely(team->gone >= 0))
        return MPIDI_COMPOSITE_team_lost(team, team->gone);
    /* Of the second one its callers have looked. */
    if (unlikely(!team->behind && !pm_team_has_room(team->team, size))) {
        int mpi_errno = MPIDI_COMPOSITE_team_wait(team, pm_crowded(MPIDI_COMPOSITE_global.core) ? for_much_room : for_room, &size);
        if (mpi_errno)
            return mpi_errno;
    }
    return likely(pm_team_back(team->team, size)) ? MPI_SUCCESS : no_memory();
}

const char *const MPIDI_COMPOSITE_collective_names[] = { "that for a persistent request", "MPI_Barrier", "MPI_Bcast", "MPI_Gather", "MPI_Gatherv", "MPI_Scatter",
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
    int mpi_errno = MPIDI_COMPOSITE_team_wait(team, for_rank, &rank);

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
