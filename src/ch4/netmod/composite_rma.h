/* Windows. Where all ranks see all of its memory, everything is done there (composite_direct.h). Otherwise, where the target is reached by a
 * device that writes its memory without it, a contiguous put or get goes that way; all else goes through MPICH's generic layer.
 * Accumulates then always do: between ranks of a host and across a network the same location may be meant, and only the target's own
 * process can make them atomic for both. */
#ifndef COMPOSITE_RMA_H_INCLUDED
#define COMPOSITE_RMA_H_INCLUDED

#include "composite_impl.h"
#include "composite_direct.h"

/* The generic layer's own, under other names. */
#define MPIDI_NM_mpi_win_start MPIDI_COMPOSITE_generic_win_start
#define MPIDI_NM_mpi_win_complete MPIDI_COMPOSITE_generic_win_complete
#define MPIDI_NM_mpi_win_post MPIDI_COMPOSITE_generic_win_post
#define MPIDI_NM_mpi_win_wait MPIDI_COMPOSITE_generic_win_wait
#define MPIDI_NM_mpi_win_test MPIDI_COMPOSITE_generic_win_test
#define MPIDI_NM_mpi_win_lock MPIDI_COMPOSITE_generic_win_lock
#define MPIDI_NM_mpi_win_unlock MPIDI_COMPOSITE_generic_win_unlock
#define MPIDI_NM_mpi_win_fence MPIDI_COMPOSITE_generic_win_fence
#define MPIDI_NM_mpi_win_flush MPIDI_COMPOSITE_generic_win_flush
#define MPIDI_NM_mpi_win_flush_local MPIDI_COMPOSITE_generic_win_flush_local
#define MPIDI_NM_mpi_win_flush_all MPIDI_COMPOSITE_generic_win_flush_all
#define MPIDI_NM_mpi_win_flush_local_all MPIDI_COMPOSITE_generic_win_flush_local_all
#define MPIDI_NM_mpi_win_lock_all MPIDI_COMPOSITE_generic_win_lock_all
#define MPIDI_NM_mpi_win_unlock_all MPIDI_COMPOSITE_generic_win_unlock_all
#define MPIDI_NM_mpi_win_sync MPIDI_COMPOSITE_generic_win_sync
#define MPIDI_NM_mpi_put MPIDI_COMPOSITE_generic_put
#define MPIDI_NM_mpi_get MPIDI_COMPOSITE_generic_get
#define MPIDI_NM_mpi_rput MPIDI_COMPOSITE_generic_rput
#define MPIDI_NM_mpi_rget MPIDI_COMPOSITE_generic_rget
#define MPIDI_NM_mpi_accumulate MPIDI_COMPOSITE_generic_accumulate
#define MPIDI_NM_mpi_raccumulate MPIDI_COMPOSITE_generic_raccumulate
#define MPIDI_NM_mpi_get_accumulate MPIDI_COMPOSITE_generic_get_accumulate
#define MPIDI_NM_mpi_rget_accumulate MPIDI_COMPOSITE_generic_rget_accumulate
#define MPIDI_NM_mpi_fetch_and_op MPIDI_COMPOSITE_generic_fetch_and_op
#define MPIDI_NM_mpi_compare_and_swap MPIDI_COMPOSITE_generic_compare_and_swap
#define MPIDI_NM_rma_win_cmpl_hook MPIDI_COMPOSITE_generic_win_cmpl_hook
#define MPIDI_NM_rma_win_local_cmpl_hook MPIDI_COMPOSITE_generic_win_local_cmpl_hook
#define MPIDI_NM_rma_target_cmpl_hook MPIDI_COMPOSITE_generic_target_cmpl_hook
#define MPIDI_NM_rma_target_local_cmpl_hook MPIDI_COMPOSITE_generic_target_local_cmpl_hook
#include "netmod_am_fallback_rma.h"
#undef MPIDI_NM_mpi_win_start
#undef MPIDI_NM_mpi_win_complete
#undef MPIDI_NM_mpi_win_post
#undef MPIDI_NM_mpi_win_wait
#undef MPIDI_NM_mpi_win_test
#undef MPIDI_NM_mpi_win_lock
#undef MPIDI_NM_mpi_win_unlock
#undef MPIDI_NM_mpi_win_fence
#undef MPIDI_NM_mpi_win_flush
#undef MPIDI_NM_mpi_win_flush_local
#undef MPIDI_NM_mpi_win_flush_all
#undef MPIDI_NM_mpi_win_flush_local_all
#undef MPIDI_NM_mpi_win_lock_all
#undef MPIDI_NM_mpi_win_unlock_all
#undef MPIDI_NM_mpi_win_sync
#undef MPIDI_NM_mpi_put
#undef MPIDI_NM_mpi_get
#undef MPIDI_NM_mpi_rput
#undef MPIDI_NM_mpi_rget
#undef MPIDI_NM_mpi_accumulate
#undef MPIDI_NM_mpi_raccumulate
#undef MPIDI_NM_mpi_get_accumulate
#undef MPIDI_NM_mpi_rget_accumulate
#undef MPIDI_NM_mpi_fetch_and_op
#undef MPIDI_NM_mpi_compare_and_swap
#undef MPIDI_NM_rma_win_cmpl_hook
#undef MPIDI_NM_rma_win_local_cmpl_hook
#undef MPIDI_NM_rma_target_cmpl_hook
#undef MPIDI_NM_rma_target_local_cmpl_hook

#define MPIDI_COMPOSITE_IS_DIRECT(win) (MPIDI_COMPOSITE_WIN(win).direct != NULL)

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

    if (likely(MPIDI_COMPOSITE_IS_DIRECT(win)))
        return MPIDI_COMPOSITE_direct_put_or_get(true, (void *) origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                                                 target_count, target_datatype, win);
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

    if (likely(MPIDI_COMPOSITE_IS_DIRECT(win)))
        return MPIDI_COMPOSITE_direct_put_or_get(false, (void *) origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                                                 target_count, target_datatype, win);
    if (unlikely(MPIDI_COMPOSITE_WIN(win).one_sided) &&
        MPIDI_COMPOSITE_moved_alone(MPIDI_COMPOSITE_GET, origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                                    target_count, target_datatype, win, &mpi_errno))
        return mpi_errno;
    return MPIDI_COMPOSITE_generic_get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                                       target_datatype, win, addr, winattr);
}

/* The request of an operation that has happened. */
#define MPIDI_COMPOSITE_WITH_REQUEST(operation, request)                                                       \
    do {                                                                                                       \
        int mpi_errno = (operation);                                                                           \
        if (mpi_errno == MPI_SUCCESS)                                                                          \
            mpi_errno = MPIDI_COMPOSITE_direct_settle(win);                                                    \
        if (mpi_errno == MPI_SUCCESS)                                                                          \
            mpi_errno = MPIDI_COMPOSITE_direct_progress();                                                     \
        if (mpi_errno == MPI_SUCCESS)                                                                          \
            MPIDI_RMA_REQUEST_CREATE_COMPLETE(*(request));                                                     \
      fn_fail:                                                                                                 \
        return mpi_errno;                                                                                      \
    } while (0)

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rput(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                               int target_rank, MPI_Aint target_disp, int target_count,
                                               MPI_Datatype target_datatype, MPIR_Win * win, MPIDI_av_entry_t * addr,
                                               MPIDI_winattr_t winattr, MPIR_Request ** request)
{
    if (!MPIDI_COMPOSITE_IS_DIRECT(win))
        return MPIDI_COMPOSITE_generic_rput(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                                            target_datatype, win, addr, winattr, request);
    MPIDI_COMPOSITE_WITH_REQUEST(MPIDI_COMPOSITE_direct_put_or_get(true, (void *) origin_addr, origin_count, origin_datatype,
                                                                   target_rank, target_disp, target_count, target_datatype, win),
                                 request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rget(void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                               int target_rank, MPI_Aint target_disp, int target_count,
                                               MPI_Datatype target_datatype, MPIR_Win * win, MPIDI_av_entry_t * addr,
                                               MPIDI_winattr_t winattr, MPIR_Request ** request)
{
    if (!MPIDI_COMPOSITE_IS_DIRECT(win))
        return MPIDI_COMPOSITE_generic_rget(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                                            target_datatype, win, addr, winattr, request);
    MPIDI_COMPOSITE_WITH_REQUEST(MPIDI_COMPOSITE_direct_put_or_get(false, origin_addr, origin_count, origin_datatype, target_rank,
                                                                   target_disp, target_count, target_datatype, win), request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                                     int target_rank, MPI_Aint target_disp, int target_count,
                                                     MPI_Datatype target_datatype, MPI_Op op, MPIR_Win * win, MPIDI_av_entry_t * addr,
                                                     MPIDI_winattr_t winattr)
{
    if (!MPIDI_COMPOSITE_IS_DIRECT(win))
        return MPIDI_COMPOSITE_generic_accumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                                                  target_datatype, op, win, addr, winattr);
    return MPIDI_COMPOSITE_direct_accumulate(origin_addr, origin_count, origin_datatype, NULL, 0, MPI_DATATYPE_NULL, target_rank,
                                             target_disp, target_count, target_datatype, op, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_raccumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                                      int target_rank, MPI_Aint target_disp, int target_count,
                                                      MPI_Datatype target_datatype, MPI_Op op, MPIR_Win * win,
                                                      MPIDI_av_entry_t * addr, MPIDI_winattr_t winattr, MPIR_Request ** request)
{
    if (!MPIDI_COMPOSITE_IS_DIRECT(win))
        return MPIDI_COMPOSITE_generic_raccumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                                                   target_count, target_datatype, op, win, addr, winattr, request);
    MPIDI_COMPOSITE_WITH_REQUEST(MPIDI_COMPOSITE_direct_accumulate(origin_addr, origin_count, origin_datatype, NULL, 0,
                                                                   MPI_DATATYPE_NULL, target_rank, target_disp, target_count,
                                                                   target_datatype, op, win), request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_get_accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                                         void *result_addr, int result_count, MPI_Datatype result_datatype,
                                                         int target_rank, MPI_Aint target_disp, int target_count,
                                                         MPI_Datatype target_datatype, MPI_Op op, MPIR_Win * win,
                                                         MPIDI_av_entry_t * addr, MPIDI_winattr_t winattr)
{
    if (!MPIDI_COMPOSITE_IS_DIRECT(win))
        return MPIDI_COMPOSITE_generic_get_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
                                                      result_datatype, target_rank, target_disp, target_count, target_datatype, op,
                                                      win, addr, winattr);
    return MPIDI_COMPOSITE_direct_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count, result_datatype,
                                             target_rank, target_disp, target_count, target_datatype, op, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rget_accumulate(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
                                                          void *result_addr, int result_count, MPI_Datatype result_datatype,
                                                          int target_rank, MPI_Aint target_disp, int target_count,
                                                          MPI_Datatype target_datatype, MPI_Op op, MPIR_Win * win,
                                                          MPIDI_av_entry_t * addr, MPIDI_winattr_t winattr, MPIR_Request ** request)
{
    if (!MPIDI_COMPOSITE_IS_DIRECT(win))
        return MPIDI_COMPOSITE_generic_rget_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
                                                       result_datatype, target_rank, target_disp, target_count, target_datatype, op,
                                                       win, addr, winattr, request);
    MPIDI_COMPOSITE_WITH_REQUEST(MPIDI_COMPOSITE_direct_accumulate(origin_addr, origin_count, origin_datatype, result_addr,
                                                                   result_count, result_datatype, target_rank, target_disp,
                                                                   target_count, target_datatype, op, win), request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_fetch_and_op(const void *origin_addr, void *result_addr, MPI_Datatype datatype,
                                                       int target_rank, MPI_Aint target_disp, MPI_Op op, MPIR_Win * win,
                                                       MPIDI_av_entry_t * addr, MPIDI_winattr_t winattr)
{
    if (!MPIDI_COMPOSITE_IS_DIRECT(win))
        return MPIDI_COMPOSITE_generic_fetch_and_op(origin_addr, result_addr, datatype, target_rank, target_disp, op, win, addr,
                                                    winattr);
    return MPIDI_COMPOSITE_direct_fetch_and_op(origin_addr, result_addr, datatype, target_rank, target_disp, op, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_compare_and_swap(const void *origin_addr, const void *compare_addr, void *result_addr,
                                                           MPI_Datatype datatype, int target_rank, MPI_Aint target_disp,
                                                           MPIR_Win * win, MPIDI_av_entry_t * addr, MPIDI_winattr_t winattr)
{
    if (!MPIDI_COMPOSITE_IS_DIRECT(win))
        return MPIDI_COMPOSITE_generic_compare_and_swap(origin_addr, compare_addr, result_addr, datatype, target_rank, target_disp,
                                                        win, addr, winattr);
    return MPIDI_COMPOSITE_direct_swap(origin_addr, compare_addr, result_addr, datatype, target_rank, target_disp, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_start(MPIR_Group * group, int assert, MPIR_Win * win)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_start(group, assert, win) : MPIDI_COMPOSITE_generic_win_start(group, assert, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_complete(MPIR_Win * win)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_complete(win) : MPIDI_COMPOSITE_generic_win_complete(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_post(MPIR_Group * group, int assert, MPIR_Win * win)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_post(group, assert, win) : MPIDI_COMPOSITE_generic_win_post(group, assert, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_wait(MPIR_Win * win)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_wait(win) : MPIDI_COMPOSITE_generic_win_wait(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_test(MPIR_Win * win, int *flag)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_test(win, flag) : MPIDI_COMPOSITE_generic_win_test(win, flag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_lock(int lock_type, int rank, int assert, MPIR_Win * win, MPIDI_av_entry_t * addr)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_lock(lock_type, rank, assert, win) : MPIDI_COMPOSITE_generic_win_lock(lock_type, rank, assert, win, addr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_unlock(int rank, MPIR_Win * win, MPIDI_av_entry_t * addr)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_unlock(rank, win) : MPIDI_COMPOSITE_generic_win_unlock(rank, win, addr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_lock_all(int assert, MPIR_Win * win)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_lock_all(assert, win) : MPIDI_COMPOSITE_generic_win_lock_all(assert, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_unlock_all(MPIR_Win * win)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_unlock_all(win) : MPIDI_COMPOSITE_generic_win_unlock_all(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_fence(int assert, MPIR_Win * win)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_fence(assert, win) : MPIDI_COMPOSITE_generic_win_fence(assert, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush(int rank, MPIR_Win * win, MPIDI_av_entry_t * addr)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_flush(rank, win) : MPIDI_COMPOSITE_generic_win_flush(rank, win, addr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush_local(int rank, MPIR_Win * win, MPIDI_av_entry_t * addr)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_flush(rank, win) : MPIDI_COMPOSITE_generic_win_flush_local(rank, win, addr);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush_all(MPIR_Win * win)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_flush(-1, win) : MPIDI_COMPOSITE_generic_win_flush_all(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_flush_local_all(MPIR_Win * win)
{
    return MPIDI_COMPOSITE_IS_DIRECT(win) ? MPIDI_COMPOSITE_direct_flush(-1, win) : MPIDI_COMPOSITE_generic_win_flush_local_all(win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_win_sync(MPIR_Win * win)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return MPIDI_COMPOSITE_generic_win_sync(win);
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
