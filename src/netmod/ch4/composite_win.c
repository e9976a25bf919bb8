/* The memory of windows, where a device reaches it without its owner. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_rma.h"
#include "composite_win.h"
#include "netmod/composite/memory.h"

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

struct MPIDI_COMPOSITE_shared {
    pm_memory *mine;
    bool used;                  /* since the last completion */
    target_t targets[];
};

static bool any_one_sided(MPIR_Comm * comm)
{
    for (int rank = 0; rank < comm->local_size; rank++)
        if (pm_may_be_one_sided(MPIDI_COMPOSITE_peer(comm, rank)))
            return true;
    return false;
}

int MPIDI_COMPOSITE_share_window(MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Comm *comm = win->comm_ptr;
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    struct MPIDI_COMPOSITE_shared *shared = NULL;
    offer_t mine, *all = NULL;

    MPIDI_COMPOSITE_WIN(win).shared = NULL;
    if (!any_one_sided(comm))
        return MPI_SUCCESS;
    shared = MPL_calloc(1, sizeof *shared + comm->local_size * sizeof(target_t), MPL_MEM_RMA);
    all = MPL_malloc(comm->local_size * sizeof *all, MPL_MEM_RMA);
    MPIR_ERR_CHKANDJUMP(shared == NULL || all == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    memset(&mine, 0, sizeof mine);
    shared->mine = pm_register(win->base, win->size);
    mine.base = (uint64_t) (uintptr_t) win->base;
    mine.disp_unit = win->disp_unit;
    mine.key_size = shared->mine ? (int64_t) pm_memory_key(shared->mine, mine.key) : 0;
    mpi_errno = MPIR_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, comm, &errflag);
    MPIR_ERR_CHECK(mpi_errno);
    for (int rank = 0; rank < comm->local_size; rank++) {
        target_t *target = &shared->targets[rank];
        target->base = all[rank].base;
        target->disp_unit = all[rank].disp_unit;
        if (rank != comm->rank && all[rank].key_size > 0)
            target->memory = pm_open_remote(MPIDI_COMPOSITE_peer(comm, rank), all[rank].key, all[rank].key_size);
    }
    MPIDI_COMPOSITE_WIN(win).shared = shared;
    shared = NULL;

  fn_fail:
    MPL_free(shared);
    MPL_free(all);
    return mpi_errno;
}

void MPIDI_COMPOSITE_unshare_window(MPIR_Win * win)
{
    struct MPIDI_COMPOSITE_shared *shared = MPIDI_COMPOSITE_WIN(win).shared;

    if (shared == NULL)
        return;
    for (int rank = 0; rank < win->comm_ptr->local_size; rank++)
        if (shared->targets[rank].memory)
            pm_close_remote(shared->targets[rank].memory);
    if (shared->mine)
        pm_unregister(shared->mine);
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
    const target_t *target = &shared->targets[target_rank];
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

/* Until everything that was started has reached its target. */
int MPIDI_COMPOSITE_complete_one_sided(MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;
    bool done = !MPIDI_COMPOSITE_WIN(win).shared->used;

    while (!done && mpi_errno == MPI_SUCCESS) {
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
        done = pm_one_sided_done();
        if (!done && pm_progress() < 0)
            mpi_errno = MPIDI_COMPOSITE_lost();
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
        if (!done)
            MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    MPIDI_COMPOSITE_WIN(win).shared->used = false;
    return mpi_errno;
}

int MPIDI_COMPOSITE_complete(MPIR_Win * win)
{
    int mpi_errno = MPIDI_COMPOSITE_WIN(win).shared ? MPIDI_COMPOSITE_complete_one_sided(win) : MPI_SUCCESS;

    return mpi_errno ? mpi_errno : MPIDI_COMPOSITE_notify_complete(win);
}
