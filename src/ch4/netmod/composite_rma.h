/* Windows. Where the target is reached by a device that writes its memory without it, a contiguous put or get goes that way; all
 * else goes through MPICH's generic layer. Accumulates always do: between ranks of a host and across a network the same location
 * may be meant, and only the target's own process can make them atomic for both. */
#ifndef COMPOSITE_RMA_H_INCLUDED
#define COMPOSITE_RMA_H_INCLUDED

#include "composite_impl.h"

/* The generic layer's own, under other names. */
#define MPIDI_NM_mpi_put MPIDI_COMPOSITE_generic_put
#define MPIDI_NM_mpi_get MPIDI_COMPOSITE_generic_get
#define MPIDI_NM_rma_win_cmpl_hook MPIDI_COMPOSITE_generic_win_cmpl_hook
#define MPIDI_NM_rma_win_local_cmpl_hook MPIDI_COMPOSITE_generic_win_local_cmpl_hook
#define MPIDI_NM_rma_target_cmpl_hook MPIDI_COMPOSITE_generic_target_cmpl_hook
#define MPIDI_NM_rma_target_local_cmpl_hook MPIDI_COMPOSITE_generic_target_local_cmpl_hook
#include "netmod_am_fallback_rma.h"
#undef MPIDI_NM_mpi_put
#undef MPIDI_NM_mpi_get
#undef MPIDI_NM_rma_win_cmpl_hook
#undef MPIDI_NM_rma_win_local_cmpl_hook
#undef MPIDI_NM_rma_target_cmpl_hook
#undef MPIDI_NM_rma_target_local_cmpl_hook

/* composite_win.c */
typedef enum { MPIDI_COMPOSITE_PUT, MPIDI_COMPOSITE_GET } MPIDI_COMPOSITE_move_t;
/* By a device alone; false, and nothing has happened, when the operation should go the generic way. */
bool MPIDI_COMPOSITE_moved_alone(MPIDI_COMPOSITE_move_t move, void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                 int target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype,
                                 MPIR_Win * win, int *mpi_errno);
int MPIDI_COMPOSITE_complete(MPIR_Win * win);

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_put(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                              int target_rank, MPI_Aint target_disp, int target_count,
                                              MPI_Datatype target_datatype, MPIR_Win * win, MPIDI_av_entry_t * addr,
                                              MPIDI_winattr_t winattr)
{
    int mpi_errno;

    if (unlikely(MPIDI_COMPOSITE_WIN(win).one_sided) &&
        MPIDI_COMPOSITE_moved_alone(MPIDI_COMPOSITE_PUT, (void *) origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                                    target_count, target_datatype, win, &mpi_errno))
        return mpi_errno;
    return MPIDI_COMPOSITE_generic_put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                                       target_datatype, win, addr, winattr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_get(void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                              int target_rank, MPI_Aint target_disp, int target_count,
                                              MPI_Datatype target_datatype, MPIR_Win * win, MPIDI_av_entry_t * addr,
                                              MPIDI_winattr_t winattr)
{
    int mpi_errno;

    if (unlikely(MPIDI_COMPOSITE_WIN(win).one_sided) &&
        MPIDI_COMPOSITE_moved_alone(MPIDI_COMPOSITE_GET, origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                                    target_count, target_datatype, win, &mpi_errno))
        return mpi_errno;
    return MPIDI_COMPOSITE_generic_get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                                       target_datatype, win, addr, winattr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_win_cmpl_hook(MPIR_Win * win)
{
    return MPIDI_COMPOSITE_complete(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_win_local_cmpl_hook(MPIR_Win * win)
{
    return MPIDI_NM_rma_win_cmpl_hook(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_target_cmpl_hook(int rank, MPIR_Win * win)
{
    return MPIDI_NM_rma_win_cmpl_hook(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rma_target_local_cmpl_hook(int rank, MPIR_Win * win)
{
    return MPIDI_NM_rma_win_cmpl_hook(win);
}

#endif
