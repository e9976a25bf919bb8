/* MPI's one-sided calls on windows whose parts are all in memory that every rank sees (coll/window/direct.h): by load, store and atomic
 * instruction, at once. Whatever is short and simple is done here; the rest in composite_direct.c. */
#ifndef COMPOSITE_DIRECT_H_INCLUDED
#define COMPOSITE_DIRECT_H_INCLUDED

#include "composite_impl.h"
#include "composite_combine.h"
#include "coll/window/atomics.h"
#include "coll/window/direct.h"

/* What others were asked to do has happened (coll/window/errands.h). */
int MPIDI_COMPOSITE_direct_settle(MPIR_Win * win);

/* Now and then a round of it. */
int MPIDI_COMPOSITE_direct_progress(void);

int MPIDI_COMPOSITE_direct_wrong_epoch(void);
int MPIDI_COMPOSITE_direct_outside(MPIR_Win * win, MPI_Aint disp, int rank);

/* Types that are not predefined. */
int MPIDI_COMPOSITE_direct_copy(bool put, void *origin_addr, MPI_Aint origin_count, MPI_Datatype origin_datatype, int target_rank,
                                MPI_Aint target_disp, MPI_Aint target_count, MPI_Datatype target_datatype, MPIR_Win * win);
/* Predefined ones, to or from memory that only the kernel reaches. */
int MPIDI_COMPOSITE_direct_far(bool put, void *origin_addr, size_t size, int target_rank, uint64_t offset, MPIR_Win * win);
/* With or without a result; any types and operations. */
int MPIDI_COMPOSITE_direct_accumulate(const void *origin_addr, MPI_Aint origin_count, MPI_Datatype origin_datatype, void *result_addr,
                                      MPI_Aint result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp,
                                      MPI_Aint target_count, MPI_Datatype target_datatype, MPI_Op op, MPIR_Win * win);
int MPIDI_COMPOSITE_direct_swap(const void *origin_addr, const void *compare_addr, void *result_addr, MPI_Datatype datatype,
                                int target_rank, MPI_Aint target_disp, MPIR_Win * win);

int MPIDI_COMPOSITE_direct_lock(int lock_type, int rank, int assert, MPIR_Win * win);
int MPIDI_COMPOSITE_direct_unlock(int rank, MPIR_Win * win);
int MPIDI_COMPOSITE_direct_lock_all(int assert, MPIR_Win * win);
int MPIDI_COMPOSITE_direct_unlock_all(MPIR_Win * win);
int MPIDI_COMPOSITE_direct_fence(int assert, MPIR_Win * win);
int MPIDI_COMPOSITE_direct_start(MPIR_Group * group, int assert, MPIR_Win * win);
int MPIDI_COMPOSITE_direct_complete(MPIR_Win * win);
int MPIDI_COMPOSITE_direct_post(MPIR_Group * group, int assert, MPIR_Win * win);
int MPIDI_COMPOSITE_direct_wait(MPIR_Win * win);
int MPIDI_COMPOSITE_direct_test(MPIR_Win * win, int *flag);
int MPIDI_COMPOSITE_direct_flush(int rank, MPIR_Win * win);     /* negative: of all */
void MPIDI_COMPOSITE_direct_free(MPIR_Win * win);

/* Collective: all ranks say what they can do, and the window is direct if all can. */
int MPIDI_COMPOSITE_direct_agree(MPIR_Win * win);

/* Whether the epoch that we are in allows to access the target. */
MPL_STATIC_INLINE_PREFIX bool MPIDI_COMPOSITE_direct_allowed(MPIR_Win * win, int rank)
{
    const struct pm_direct *direct = MPIDI_COMPOSITE_WIN(win).direct;

    switch (MPIDIG_WIN(win, sync).access_epoch_type) {
        case MPIDIG_EPOTYPE_LOCK_ALL:
        case MPIDIG_EPOTYPE_FENCE:
            return true;
        case MPIDIG_EPOTYPE_LOCK:
            return direct->holds[rank] != PM_HOLDS_NOTHING;
        case MPIDIG_EPOTYPE_START:
            return direct->started[rank] != 0;
        case MPIDIG_EPOTYPE_REFENCE:
            if (MPIDIG_WIN(win, sync).exposure_epoch_type == MPIDIG_EPOTYPE_REFENCE) {
                MPIDIG_WIN(win, sync).access_epoch_type = MPIDIG_EPOTYPE_FENCE;
                MPIDIG_WIN(win, sync).exposure_epoch_type = MPIDIG_EPOTYPE_FENCE;
            }
            return true;
        default:
            return false;
    }
}

/* Whether that is in the window, and where in the target's part. */
MPL_STATIC_INLINE_PREFIX bool MPIDI_COMPOSITE_direct_holds(MPIR_Win * win, int rank, MPI_Aint disp, uint64_t size, uint64_t * offset)
{
    const pm_direct_part *part = &MPIDI_COMPOSITE_WIN(win).direct->parts[rank];

    return likely(!__builtin_mul_overflow((uint64_t) disp, part->unit, offset) && *offset <= part->bytes && size <= part->bytes - *offset);
}

MPL_STATIC_INLINE_PREFIX void MPIDI_COMPOSITE_direct_move(void *to, const void *from, size_t size)
{
    if (likely(size == 8))
        memcpy(to, from, 8);
    else if (to != from)
        memcpy(to, from, size);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_COMPOSITE_direct_put_or_get(bool put, void *origin_addr, MPI_Aint origin_count,
                                                               MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
                                                               MPI_Aint target_count, MPI_Datatype target_datatype, MPIR_Win * win)
{
    char *memory;
    uint64_t offset;
    size_t size;

    if (unlikely(!IS_BUILTIN(origin_datatype) || !IS_BUILTIN(target_datatype)))
        return MPIDI_COMPOSITE_direct_copy(put, origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                                           target_datatype, win);
    if (unlikely(!MPIDI_COMPOSITE_direct_allowed(win, target_rank)))
        return MPIDI_COMPOSITE_direct_wrong_epoch();
    size = (size_t) origin_count * MPIR_Datatype_get_basic_size(origin_datatype);
    if (unlikely(size == 0))
        return MPI_SUCCESS;
    memory = MPIDI_COMPOSITE_WIN(win).direct->parts[target_rank].memory;
    if (unlikely(size != (size_t) target_count * MPIR_Datatype_get_basic_size(target_datatype)))
        return MPIDI_COMPOSITE_direct_copy(put, origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                                           target_datatype, win);
    if (unlikely(!MPIDI_COMPOSITE_direct_holds(win, target_rank, target_disp, size, &offset)))
        return MPIDI_COMPOSITE_direct_outside(win, target_disp, target_rank);
    if (unlikely(memory == NULL))
        return MPIDI_COMPOSITE_direct_far(put, origin_addr, size, target_rank, offset, win);
    if (put)
        MPIDI_COMPOSITE_direct_move(memory + offset, origin_addr, size);
    else
        MPIDI_COMPOSITE_direct_move(origin_addr, memory + offset, size);
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_COMPOSITE_direct_fetch_and_op(const void *origin_addr, void *result_addr, MPI_Datatype datatype,
                                                                 int target_rank, MPI_Aint target_disp, MPI_Op op, MPIR_Win * win)
{
    const struct pm_direct *direct = MPIDI_COMPOSITE_WIN(win).direct;
    pm_element element = IS_BUILTIN(datatype) ? (pm_element) MPIDI_COMPOSITE_elements[datatype & 0xff] : PM_ELEMENT_OTHER;
    pm_operation operation = (pm_operation) MPIDI_COMPOSITE_operations[op & 0xff];
    uint64_t offset;
    char *place;

    if (unlikely(element == PM_ELEMENT_OTHER || !direct->by_instructions))
        return MPIDI_COMPOSITE_direct_accumulate(origin_addr, 1, datatype, result_addr, 1, datatype, target_rank, target_disp, 1,
                                                 datatype, op, win);
    if (unlikely(!MPIDI_COMPOSITE_direct_allowed(win, target_rank)))
        return MPIDI_COMPOSITE_direct_wrong_epoch();
    if (unlikely(!MPIDI_COMPOSITE_direct_holds(win, target_rank, target_disp, MPIR_Datatype_get_basic_size(datatype), &offset)))
        return MPIDI_COMPOSITE_direct_outside(win, target_disp, target_rank);
    place = direct->parts[target_rank].memory + offset;
    if (unlikely(!pm_is_atomic(element, operation, place)))
        return MPIDI_COMPOSITE_direct_accumulate(origin_addr, 1, datatype, result_addr, 1, datatype, target_rank, target_disp, 1,
                                                 datatype, op, win);
    if (unlikely(!pm_direct_begin(direct, target_rank)))
        return MPIDI_COMPOSITE_direct_accumulate(origin_addr, 1, datatype, result_addr, 1, datatype, target_rank, target_disp, 1,
                                                 datatype, op, win);
    pm_atomic_apply(element, operation, place, origin_addr, result_addr, 1);
    pm_direct_end(direct);
    return MPI_SUCCESS;
}

#endif
