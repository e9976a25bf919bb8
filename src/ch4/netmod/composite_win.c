/* The memory of windows, where a device reaches it without its owner. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_rma.h"
#include "composite_win.h"
#include "netmod/core/memory.h"

/* What a rank tells the others of a window about its part. */
typedef struct {
    uint64_t base;
    int64_t disp_unit;
    int64_t key_size;
    char key[PM_MEMORY_KEY_MAX];
} offer_t;

typedef struct {
    pm_remote *memory;          /* NULL: by messages only */
    uint64_t base;
    int64_t disp_unit;
} target_t;

/* One piece of memory of each rank. */
typedef struct {
    pm_memory *mine;
    target_t *targets;
} parts_t;

struct MPIDI_COMPOSITE_shared {
    parts_t windows;
    parts_t counts;             /* of notifications */
    bool used;                  /* since the last completion */
};

static bool any_one_sided(MPIR_Comm * comm)
{
    for (int rank = 0; rank < comm->local_size; rank++)
        if (pm_may_be_one_sided(MPIDI_COMPOSITE_peer(comm, rank)))
            return true;
    return false;
}

/* Collective. */
static int share_parts(void *base, size_t size, int disp_unit, MPIR_Comm * comm, parts_t * parts)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    offer_t mine, *all = MPL_malloc(comm->local_size * sizeof *all, MPL_MEM_RMA);

    parts->targets = MPL_calloc(comm->local_size, sizeof(target_t), MPL_MEM_RMA);
    MPIR_ERR_CHKANDJUMP(parts->targets == NULL || all == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    memset(&mine, 0, sizeof mine);
    parts->mine = pm_register(base, size);
    mine.base = (uint64_t) (uintptr_t) base;
    mine.disp_unit = disp_unit;
    mine.key_size = parts->mine ? (int64_t) pm_memory_key(parts->mine, mine.key) : 0;
    mpi_errno = MPIR_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, comm, &errflag);
    MPIR_ERR_CHECK(mpi_errno);
    for (int rank = 0; rank < comm->local_size; rank++) {
        target_t *target = &parts->targets[rank];
        target->base = all[rank].base;
        target->disp_unit = all[rank].disp_unit;
        if (rank != comm->rank && all[rank].key_size > 0)
            target->memory = pm_open_remote(MPIDI_COMPOSITE_peer(comm, rank), all[rank].key, all[rank].key_size);
    }

  fn_fail:
    MPL_free(all);
    return mpi_errno;
}

static void forget_parts(MPIR_Comm * comm, parts_t * parts)
{
    for (int rank = 0; rank < comm->local_size && parts->targets; rank++)
        if (parts->targets[rank].memory)
            pm_close_remote(parts->targets[rank].memory);
    if (parts->mine)
        pm_unregister(parts->mine);
    MPL_free(parts->targets);
}

int MPIDI_COMPOSITE_share_window(MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;
    struct MPIDI_COMPOSITE_shared *shared;

    if (!any_one_sided(win->comm_ptr))
        return MPI_SUCCESS;
    shared = MPL_calloc(1, sizeof *shared, MPL_MEM_RMA);
    MPIR_ERR_CHKANDJUMP(shared == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    MPIDI_COMPOSITE_WIN(win).shared = shared;
    mpi_errno = share_parts(win->base, win->size, win->disp_unit, win->comm_ptr, &shared->windows);

  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_share_counts(MPIR_Win * win, void *counts, size_t size)
{
    struct MPIDI_COMPOSITE_shared *shared = MPIDI_COMPOSITE_WIN(win).shared;

    /* What two devices add to one place is not atomic: where there are several, messages do it. */
    return shared ? share_parts(counts, pm_one_sided_networks() == 1 ? size : 0, 1, win->comm_ptr, &shared->counts) : MPI_SUCCESS;
}

void MPIDI_COMPOSITE_unshare_window(MPIR_Win * win)
{
    struct MPIDI_COMPOSITE_shared *shared = MPIDI_COMPOSITE_WIN(win).shared;

    if (shared == NULL)
        return;
    forget_parts(win->comm_ptr, &shared->windows);
    forget_parts(win->comm_ptr, &shared->counts);
    MPL_free(shared);
    MPIDI_COMPOSITE_WIN(win).shared = NULL;
}

/* Where the bytes are, if they are in one piece at both ends; NULL if not. */
static void *origin_place(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, MPI_Aint target_disp,
                          int target_count, MPI_Datatype target_datatype, const target_t * target, size_t *size,
                          uint64_t * address)
{
    int contiguous, target_contiguous;
    MPI_Aint true_lb, target_true_lb;
    size_t target_size;
    MPIR_Datatype *type ATTRIBUTE((unused));

    MPIDI_Datatype_get_info(origin_count, origin_datatype, contiguous, *size, type, true_lb);
    MPIDI_Datatype_get_info(target_count, target_datatype, target_contiguous, target_size, type, target_true_lb);
    if (!contiguous || !target_contiguous || *size == 0 || *size != target_size)
        return NULL;
    *address = target->base + target_disp * target->disp_unit + target_true_lb;
    return MPIR_get_contig_ptr(origin_addr, true_lb);
}

static int start(bool is_put, const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                 MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPIR_Win * win, bool * taken)
{
    int mpi_errno = MPI_SUCCESS, started;
    struct MPIDI_COMPOSITE_shared *shared = MPIDI_COMPOSITE_WIN(win).shared;
    const target_t *target = &shared->windows.targets[target_rank];
    uint64_t address;
    size_t size;
    void *data;

    *taken = false;
    if (target->memory == NULL)
        return MPI_SUCCESS;
    data = origin_place(origin_addr, origin_count, origin_datatype, target_disp, target_count, target_datatype, target, &size,
                        &address);
    if (data == NULL)
        return MPI_SUCCESS;
    MPIDIG_RMA_OP_CHECK_SYNC(target_rank, win);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    started = is_put ? pm_put(target->memory, address, data, size) : pm_get(target->memory, address, data, size);
    if (started == PM_FAILED)
        mpi_errno = MPIDI_COMPOSITE_lost();
    *taken = started == PM_OK;
    shared->used |= *taken;
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);

  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_put(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                        MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPIR_Win * win, bool * taken)
{
    return start(true, origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count, target_datatype, win, taken);
}

int MPIDI_COMPOSITE_get(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                        MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPIR_Win * win, bool * taken)
{
    return start(false, origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count, target_datatype, win, taken);
}

bool MPIDI_COMPOSITE_writes_by_itself(MPIR_Win * win, int target_rank)
{
    const pm_remote *memory = MPIDI_COMPOSITE_WIN(win).shared->windows.targets[target_rank].memory;

    return memory && pm_writes_by_itself(memory);
}

/* The data, and behind it one more at `count` of the target's counts: a device that can does both without the target. */
int MPIDI_COMPOSITE_put_and_count(MPIR_Win * win, int target_rank, uint64_t offset, const void *data, size_t size,
                                  uint64_t count, bool * taken)
{
    struct MPIDI_COMPOSITE_shared *shared = MPIDI_COMPOSITE_WIN(win).shared;
    const target_t *target = &shared->windows.targets[target_rank], *counts = &shared->counts.targets[target_rank];
    int started;

    *taken = false;
    if (target->memory == NULL || counts->memory == NULL)
        return MPI_SUCCESS;
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    started = pm_put(target->memory, target->base + offset, data, size);
    *taken = started == PM_OK;
    if (*taken) {
        shared->used = true;
        started = pm_add_behind(counts->memory, counts->base + count, 1);
    }
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    /* Where a put went, an addition goes, too. */
    return started == PM_FAILED || (*taken && started != PM_OK) ? MPIDI_COMPOSITE_lost() : MPI_SUCCESS;
}

/* Until everything that was started has reached its target. */
int MPIDI_COMPOSITE_complete_one_sided(MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;
    struct MPIDI_COMPOSITE_shared *shared = MPIDI_COMPOSITE_WIN(win).shared;

    while (mpi_errno == MPI_SUCCESS) {
        bool done;
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
        done = !shared->used || pm_one_sided_done();
        if (done)
            shared->used = false;
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
        if (done)
            break;
        mpi_errno = MPID_Progress_test(NULL);
        MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    return mpi_errno;
}

int MPIDI_COMPOSITE_complete(MPIR_Win * win)
{
    int mpi_errno = MPIDI_COMPOSITE_WIN(win).shared ? MPIDI_COMPOSITE_complete_one_sided(win) : MPI_SUCCESS;

    return mpi_errno ? mpi_errno : MPIDI_COMPOSITE_notify_complete(win);
}
