/* MPI's windows for the engine in coll/window: every window is one of its, whose parts others reach by stores, by a device alone, or by
 * messages. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll_life.h"
#include "composite_rma.h"
#include "composite_win.h"
#include "coll/window/window.h"
#include "netmod/core/shared.h"

int MPIDI_COMPOSITE_windows_init(void)
{
    MPL_COMPILE_TIME_ASSERT(PM_NOTIFICATIONS == MPIX_MAX_NOTIFICATIONS);
    MPL_COMPILE_TIME_ASSERT(PM_COUNTERS == MPIX_MAX_COUNTERS);
    return pm_windows_open(MPIDI_COMPOSITE_global.core, MPIR_CVAR_CH4_COMPOSITE_NOTIFY);
}

static pm_peer *peer_of(void *context, int rank)
{
    return MPIDI_COMPOSITE_peer(((MPIR_Win *) context)->comm_ptr, rank);
}

/* MPICH knows where the parts of its own shared windows are; memory of MPI_Alloc_mem is shared as well. */
static void *memory_of(void *context, int rank, uint64_t base, uint64_t bytes)
{
    MPIR_Win *win = context;
    int *places = win->comm_ptr->intranode_table;

    if (MPIDIG_WIN(win, shared_table) != NULL && places != NULL && places[rank] >= 0)
        return MPIDIG_WIN(win, shared_table)[places[rank]].shm_base_addr;
    return win->create_flavor == MPI_WIN_FLAVOR_DYNAMIC ? NULL : pm_shared_view(peer_of(context, rank), base, bytes);
}

int MPIDI_COMPOSITE_window_open(MPIR_Win * win, bool registers)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Comm *comm = win->comm_ptr;
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    bool dynamic = win->create_flavor == MPI_WIN_FLAVOR_DYNAMIC;
    pm_window_setup setup;
    pm_window *window;
    size_t card_size;
    char mine[PM_WINDOW_CARD_MAX], *all = NULL;

    memset(&setup, 0, sizeof setup);
    setup.id = comm->context_id;        /* the window's own: nobody else has it while the window is */
    setup.size = comm->local_size;
    setup.rank = comm->rank;
    setup.base = dynamic ? NULL : win->base;
    setup.bytes = dynamic ? UINT64_MAX : (uint64_t) win->size;
    setup.unit = dynamic ? 1 : (uint64_t) win->disp_unit;
    setup.context = win;
    setup.peer = peer_of;
    setup.memory = memory_of;
    setup.is_of_program = win->create_flavor == MPI_WIN_FLAVOR_CREATE;
    setup.registers = registers;
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    window = pm_window_open(&setup, mine, &card_size);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    MPIDI_COMPOSITE_WIN(win).window = window;
    MPIDI_COMPOSITE_WIN(win).one_sided = pm_window_is_one_sided(window);
    all = MPL_malloc((size_t) comm->local_size * card_size, MPL_MEM_RMA);
    MPIR_ERR_CHKANDJUMP(all == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = MPIR_Allgather(mine, card_size, MPI_BYTE, all, card_size, MPI_BYTE, comm, &errflag);
    MPIR_ERR_CHECK(mpi_errno);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    for (int rank = 0; rank < comm->local_size; rank++)
        pm_window_meet(window, rank, all + (size_t) rank * card_size);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    /* All ranks see all of it, or it is for messages: a lock must be the same for everybody. Dynamic windows have no parts. */
    MPIDI_COMPOSITE_WIN(win).direct = NULL;
    MPIDI_COMPOSITE_WIN(win).access = MPIDI_COMPOSITE_WIN(win).exposure = NULL;
    mpi_errno = dynamic ? MPI_SUCCESS : MPIDI_COMPOSITE_direct_agree(win);

  fn_fail:
    MPL_free(all);
    return mpi_errno;
}

void MPIDI_COMPOSITE_window_close(MPIR_Win * win)
{
    if (MPIDI_COMPOSITE_WIN(win).window == NULL)
        return;
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    pm_window_close(MPIDI_COMPOSITE_WIN(win).window);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    MPIDI_COMPOSITE_WIN(win).window = NULL;
    MPIDI_COMPOSITE_direct_free(win);
    MPIDI_COMPOSITE_WIN(win).direct = NULL;
}

bool MPIDI_COMPOSITE_moved_alone(MPIDI_COMPOSITE_move_t move, void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                 int target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype,
                                 MPIR_Win * win, int *mpi_errno_ptr)
{
    int mpi_errno = MPI_SUCCESS, contiguous, target_contiguous, started = PM_QUEUED;
    MPI_Aint true_lb, target_true_lb;
    size_t size, target_size;
    MPIR_Datatype *type ATTRIBUTE((unused));
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    uint64_t offset;
    void *data;

    MPIDI_Datatype_get_info(origin_count, origin_datatype, contiguous, size, type, true_lb);
    MPIDI_Datatype_get_info(target_count, target_datatype, target_contiguous, target_size, type, target_true_lb);
    if (!contiguous || !target_contiguous || size == 0 || size != target_size)
        return false;
    MPIDIG_RMA_OP_CHECK_SYNC(target_rank, win);
    data = MPIR_get_contig_ptr(origin_addr, true_lb);
    offset = pm_window_offset(window, target_rank, target_disp) + target_true_lb;
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    started = move == MPIDI_COMPOSITE_PUT ? pm_window_put_alone(window, target_rank, offset, data, size) :
        pm_window_get_alone(window, target_rank, offset, data, size);
    if (started == PM_FAILED)
        mpi_errno = MPIDI_COMPOSITE_lost();
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);

  fn_fail:
    *mpi_errno_ptr = mpi_errno;
    return mpi_errno || started == PM_OK;
}

int MPIDI_COMPOSITE_complete_alone(MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;

    while (MPIDI_COMPOSITE_WIN(win).one_sided && mpi_errno == MPI_SUCCESS) {
        bool done;
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
        done = pm_window_alone_done(MPIDI_COMPOSITE_WIN(win).window);
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
        if (done)
            break;
        mpi_errno = MPID_Progress_test(NULL);
        MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    return mpi_errno;
}

int MPIDI_COMPOSITE_start_sync(MPIR_Win * win, volatile int *flag)
{
    int started;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    started = pm_window_sync(MPIDI_COMPOSITE_WIN(win).window, flag);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return started == PM_FAILED ? MPIDI_COMPOSITE_lost() : MPI_SUCCESS;
}

/* Of writes that notify. */
static int complete_messages(MPIR_Win * win)
{
    int mpi_errno;
    volatile int done = 0;
    bool clean;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    clean = pm_window_is_clean(MPIDI_COMPOSITE_WIN(win).window);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (clean)
        return MPI_SUCCESS;
    mpi_errno = MPIDI_COMPOSITE_start_sync(win, &done);
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = MPIDI_COMPOSITE_wait_for_flag(&done);
    if (mpi_errno) {
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
        pm_window_forget(MPIDI_COMPOSITE_WIN(win).window, &done);
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    }
    return mpi_errno;
}

/* At the end of every epoch, and in MPI_Win_flush: everything has happened. */
int MPIDI_COMPOSITE_complete(MPIR_Win * win)
{
    int mpi_errno = MPIDI_COMPOSITE_complete_alone(win);

    return mpi_errno ? mpi_errno : complete_messages(win);
}
