/* Hooks of objects, about most of which this netmod keeps nothing, and calls that MPICH's generic code serves as they are. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll_life.h"
#include "composite_team.h"
#include "composite_why.h"
#include "composite_win.h"
#include "netmod/core/setup.h"
#include "netmod/core/shared.h"

#define NOTHING_TO_DO(name, ...) \
    int MPIDI_COMPOSITE_##name(__VA_ARGS__) \
    { \
        return MPI_SUCCESS; \
    }

NOTHING_TO_DO(comm_set_hints, MPIR_Comm * comm, MPIR_Info * info)
NOTHING_TO_DO(mpi_comm_commit_pre_hook, MPIR_Comm * comm)
NOTHING_TO_DO(mpi_win_attach_hook, MPIR_Win * win, void *base, MPI_Aint size)
NOTHING_TO_DO(mpi_win_detach_hook, MPIR_Win * win, const void *base)
NOTHING_TO_DO(mpi_type_commit_hook, MPIR_Datatype * type)
NOTHING_TO_DO(mpi_type_free_hook, MPIR_Datatype * type)
NOTHING_TO_DO(mpi_op_commit_hook, MPIR_Op * op)
NOTHING_TO_DO(mpi_op_free_hook, MPIR_Op * op)

/* Memory of these is registered with devices; the other windows are reached by messages, or are shared memory already. */
int MPIDI_COMPOSITE_mpi_win_create_hook(MPIR_Win * win)
{
    return MPIDI_COMPOSITE_window_open(win, true);
}

int MPIDI_COMPOSITE_mpi_win_allocate_hook(MPIR_Win * win)
{
    return MPIDI_COMPOSITE_window_open(win, true);
}

int MPIDI_COMPOSITE_mpi_win_allocate_shared_hook(MPIR_Win * win)
{
    return MPIDI_COMPOSITE_window_open(win, false);
}

int MPIDI_COMPOSITE_mpi_win_create_dynamic_hook(MPIR_Win * win)
{
    return MPIDI_COMPOSITE_window_open(win, false);
}

int MPIDI_COMPOSITE_mpi_win_free_hook(MPIR_Win * win)
{
    MPIDI_COMPOSITE_window_close(win);
    MPL_free(MPIDI_COMPOSITE_WIN(win).posts.of_rank);
    MPL_free(MPIDI_COMPOSITE_WIN(win).completes.of_rank);
    return MPI_SUCCESS;
}

int MPIDI_COMPOSITE_mpi_comm_commit_post_hook(MPIR_Comm * comm)
{
    MPIDI_COMPOSITE_COMM(comm).collectives = 0;
    MPIDI_COMPOSITE_COMM(comm).team = NULL;
    MPIDI_COMPOSITE_COMM(comm).team_calls = 0;
    MPIDI_COMPOSITE_COMM(comm).team_is_known = false;
    MPIDI_COMPOSITE_group_commit(comm);
    return MPIDI_COMPOSITE_team_comm_commit(comm);
}

int MPIDI_COMPOSITE_mpi_comm_free_hook(MPIR_Comm * comm)
{
    if (comm == MPIR_Process.comm_world)
        MPIDI_COMPOSITE_why_ends(comm);
    MPIDI_COMPOSITE_coll_comm_free(comm);
    MPIDI_COMPOSITE_group_free(comm);
    return MPI_SUCCESS;
}

void *MPIDI_COMPOSITE_mpi_alloc_mem(MPI_Aint size, MPIR_Info * info)
{
    void *memory;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    memory = size > 0 ? pm_mapped_alloc(MPIDI_COMPOSITE_global.core, (size_t) size) : NULL;
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return memory != NULL ? memory : MPIDIG_mpi_alloc_mem(size, info);
}

int MPIDI_COMPOSITE_mpi_free_mem(void *ptr)
{
    int mapped;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    mapped = pm_mapped_free(MPIDI_COMPOSITE_global.core, ptr);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return mapped ? MPI_SUCCESS : MPIDIG_mpi_free_mem(ptr);
}

int MPIDI_COMPOSITE_mpi_win_set_info(MPIR_Win * win, MPIR_Info * info)
{
    return MPIDIG_mpi_win_set_info(win, info);
}

int MPIDI_COMPOSITE_mpi_win_get_info(MPIR_Win * win, MPIR_Info ** info)
{
    return MPIDIG_mpi_win_get_info(win, info);
}

int MPIDI_COMPOSITE_mpi_win_free(MPIR_Win ** win)
{
    return MPIDIG_mpi_win_free(win);
}

int MPIDI_COMPOSITE_mpi_win_create(void *base, MPI_Aint length, int disp_unit, MPIR_Info * info, MPIR_Comm * comm,
                                   MPIR_Win ** win)
{
    return MPIDIG_mpi_win_create(base, length, disp_unit, info, comm, win);
}

int MPIDI_COMPOSITE_mpi_win_attach(MPIR_Win * win, void *base, MPI_Aint size)
{
    return MPIDIG_mpi_win_attach(win, base, size);
}

int MPIDI_COMPOSITE_mpi_win_detach(MPIR_Win * win, const void *base)
{
    return MPIDIG_mpi_win_detach(win, base);
}

int MPIDI_COMPOSITE_mpi_win_allocate(MPI_Aint size, int disp_unit, MPIR_Info * info, MPIR_Comm * comm, void *baseptr,
                                     MPIR_Win ** win)
{
    return MPIDIG_mpi_win_allocate(size, disp_unit, info, comm, baseptr, win);
}

int MPIDI_COMPOSITE_mpi_win_allocate_shared(MPI_Aint size, int disp_unit, MPIR_Info * info, MPIR_Comm * comm,
                                            void **baseptr, MPIR_Win ** win)
{
    int mpi_errno = MPI_SUCCESS, mine, its;

    /* MPICH would hand out memory that is only called shared. */
    MPID_Get_node_id(comm, comm->rank, &mine);
    for (int rank = 0; rank < comm->local_size; rank++) {
        MPID_Get_node_id(comm, rank, &its);
        MPIR_ERR_CHKANDJUMP(its != mine, mpi_errno, MPI_ERR_RMA_SHARED, "**rmashared");
    }
    return MPIDIG_mpi_win_allocate_shared(size, disp_unit, info, comm, baseptr, win);

  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_mpi_win_create_dynamic(MPIR_Info * info, MPIR_Comm * comm, MPIR_Win ** win)
{
    return MPIDIG_mpi_win_create_dynamic(info, comm, win);
}

static int load(const volatile int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

int MPIDI_COMPOSITE_wait_for_flag(const volatile int *flag)
{
    int mpi_errno = MPI_SUCCESS;

    while (mpi_errno == MPI_SUCCESS && !load(flag)) {
        mpi_errno = MPID_Progress_test(NULL);
        if (!load(flag))
            MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    return mpi_errno;
}

void MPIDI_COMPOSITE_wait_any(int *completed, int count, MPIR_Request * requests[])
{
    int now = MPL_atomic_acquire_load_int(&MPIDI_VCI(0).progress_count);

    if (*completed != now) {
        *completed = now;
        return;
    }
    /* Nobody rings for what its user has to be asked about. */
    for (int i = 0; i < count; i++)
        if (requests[i] && MPIR_Request_has_poll_fn(requests[i]))
            return;
    MPIDI_COMPOSITE_WAIT_SINCE(*completed);
}

int MPIDI_COMPOSITE_free_complete(int first, int count, MPI_Request handles[], MPIR_Request * requests[])
{
    int i = first;

    if (!MPIR_ThreadInfo.isThreaded)
        return first;
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    for (; i < first + count && requests[i]->status.MPI_ERROR == MPI_SUCCESS; i++) {
        if (requests[i]->kind == MPIR_REQUEST_KIND__SEND)
            MPII_SENDQ_FORGET(requests[i]);
        MPIR_Request_free_unsafe(requests[i]);
        handles[i] = MPI_REQUEST_NULL;
    }
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return i;
}

void MPIDI_COMPOSITE_wait_in_background(void)
{
    if (!pm_wait_in_background(MPIDI_COMPOSITE_global.core))
        MPIDI_COMPOSITE_WAIT_MESSAGE();
}
