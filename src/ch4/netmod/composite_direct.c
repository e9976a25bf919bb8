/* See composite_direct.h: types of any kind, elements that no instruction changes as a whole, and synchronisation. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_direct.h"
#include "composite_why.h"
#include "composite_win.h"
#include "base/tuning.h"
#include "netmod/core/setup.h"
#include "coll/window/window.h"

/* --- errors ------------------------------------------------------------------------------------------------------------------ */

int MPIDI_COMPOSITE_direct_wrong_epoch(void)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_SET(mpi_errno, MPI_ERR_RMA_SYNC, "**rmasync");
    return mpi_errno;
}

int MPIDI_COMPOSITE_direct_outside(MPIR_Win * win, MPI_Aint disp, int rank)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_SET2(mpi_errno, MPI_ERR_RMA_RANGE, "**rma_outside", "**rma_outside %L %d",
                  (long long) disp * (long long) MPIDI_COMPOSITE_WIN(win).direct->parts[rank].unit, rank);
    return mpi_errno;
}

static int not_enough_memory(void)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_SET(mpi_errno, MPI_ERR_NO_MEM, "**nomem");
    return mpi_errno;
}

/* --- put and get ------------------------------------------------------------------------------------------------------------- */

/* The first byte of `count` elements, and the one behind the last, from where they begin. False: no numbers are large enough. */
static bool find_span(MPI_Aint count, MPI_Datatype datatype, MPI_Aint * low, MPI_Aint * high)
{
    MPI_Aint true_lb = 0, true_extent = 0, extent = 0, rest;

    MPIR_Type_get_true_extent_impl(datatype, &true_lb, &true_extent);
    MPIR_Datatype_get_extent_macro(datatype, extent);
    if (__builtin_mul_overflow(count - 1, extent, &rest) || __builtin_add_overflow(true_lb, MPL_MIN(rest, 0), low) ||
        __builtin_add_overflow(true_lb, true_extent, high) || __builtin_add_overflow(*high, MPL_MAX(rest, 0), high))
        return false;
    return true;
}

/* Whether elements of a type at a displacement are in the window, and where in the target's part they begin. */
static int find_place(MPIR_Win * win, int rank, MPI_Aint disp, MPI_Aint count, MPI_Datatype datatype, MPI_Aint * place)
{
    const pm_direct_part *part = &MPIDI_COMPOSITE_WIN(win).direct->parts[rank];
    MPI_Aint low, high, first, end;

    if (__builtin_mul_overflow(disp, (MPI_Aint) part->unit, place) || !find_span(count, datatype, &low, &high) ||
        __builtin_add_overflow(*place, low, &first) || __builtin_add_overflow(*place, high, &end) || first < 0 || (uint64_t) end > part->bytes)
        return MPIDI_COMPOSITE_direct_outside(win, disp, rank);
    return MPI_SUCCESS;
}

/* Runs of bytes of elements, from the beginning of the first; most types have one. To be freed, if it is not `one`. */
static struct iovec *find_runs(MPI_Aint place, MPI_Aint count, MPI_Datatype datatype, struct iovec *one, MPI_Aint * runs_count)
{
    int contiguous;
    MPI_Aint true_lb, made;
    size_t size;
    MPIR_Datatype *type ATTRIBUTE((unused));
    struct iovec *runs = one;

    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    *runs_count = 1;
    if (contiguous) {
        one->iov_base = (void *) (place + true_lb);
        one->iov_len = size;
        return one;
    }
    MPIR_Typerep_iov_len(count, datatype, (MPI_Aint) size, runs_count);
    runs = MPL_malloc((size_t) * runs_count * sizeof *runs, MPL_MEM_RMA);
    if (runs != NULL) {
        MPIR_Typerep_to_iov_offset((void *) place, count, datatype, 0, runs, *runs_count, &made);
        *runs_count = made;
    }
    return runs;
}

static int does_not_fit(MPI_Aint size, MPI_Aint room)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_SET2(mpi_errno, MPI_ERR_TRUNCATE, "**truncate", "**truncate %d %d", (int) size, (int) room);
    return mpi_errno;
}

static int unreachable(void)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_SET(mpi_errno, MPI_ERR_OTHER, "**rma_unreachable");
    return mpi_errno;
}

/* The elements without gaps: where they are, or packed into `*made`, which is to be freed. */
static int packed(const void *address, MPI_Aint count, MPI_Datatype datatype, bool fill, char **bytes, char **made)
{
    int contiguous;
    size_t size;
    MPI_Aint true_lb, done;
    MPIR_Datatype *type ATTRIBUTE((unused));

    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    *bytes = MPIR_get_contig_ptr(address, true_lb);
    *made = NULL;
    if (contiguous)
        return MPI_SUCCESS;
    *bytes = *made = MPL_malloc(size, MPL_MEM_RMA);
    if (*made == NULL)
        return not_enough_memory();
    return fill ? MPIR_Typerep_pack(address, count, datatype, 0, *made, (MPI_Aint) size, &done) : MPI_SUCCESS;
}

/* The target may do what is small, if it happens to look. Threads do not share what is needed for that. */
static bool may_ask(MPIR_Win * win, int rank)
{
    return MPIDI_COMPOSITE_WIN(win).direct->parts[rank].memory == NULL && !MPIR_ThreadInfo.isThreaded;
}

/* Also before we do something ourselves: what others were asked to do comes before it. */
int MPIDI_COMPOSITE_direct_settle(MPIR_Win * win)
{
    if (likely(!MPIDI_COMPOSITE_WIN(win).direct->unsettled))
        return MPI_SUCCESS;
    return pm_errands_settle(MPIDI_COMPOSITE_WIN(win).window) == 1 ? MPI_SUCCESS : unreachable();
}

int MPIDI_COMPOSITE_direct_far(bool put, void *origin_addr, size_t size, int target_rank, uint64_t offset, MPIR_Win * win)
{
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    int done = 0;

    if (may_ask(win, target_rank))
        done = put ? pm_errand_put(window, target_rank, offset, origin_addr, size) :
            pm_errand_get(window, target_rank, offset, origin_addr, size);
    if (done == 0)
        done = put ? pm_direct_write(window, target_rank, offset, origin_addr, size) :
            pm_direct_read(window, target_rank, offset, origin_addr, size);
    return done == 1 ? MPI_SUCCESS : unreachable();
}

/* To or from memory that only the kernel reaches: `size` bytes, which there are on both sides. */
static int copy_far(bool put, void *origin_addr, MPI_Aint origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint place,
                    MPI_Aint target_count, MPI_Datatype target_datatype, MPI_Aint size, MPIR_Win * win)
{
    int mpi_errno;
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    struct iovec one, *runs = NULL;
    MPI_Aint count, done;
    char *bytes, *made;

    mpi_errno = MPIDI_COMPOSITE_direct_settle(win);
    if (mpi_errno)
        return mpi_errno;
    mpi_errno = packed(origin_addr, origin_count, origin_datatype, put, &bytes, &made);
    MPIR_ERR_CHECK(mpi_errno);
    runs = find_runs(place, target_count, target_datatype, &one, &count);
    if (runs == NULL)
        mpi_errno = not_enough_memory();
    for (MPI_Aint i = 0, at = 0; i < count && at < size && mpi_errno == MPI_SUCCESS; i++) {
        uint64_t offset = (uint64_t) (uintptr_t) runs[i].iov_base;
        size_t some = MPL_MIN(runs[i].iov_len, (size_t) (size - at));
        if (!(put ? pm_direct_write(window, target_rank, offset, bytes + at, some) :
              pm_direct_read(window, target_rank, offset, bytes + at, some)))
            mpi_errno = unreachable();
        at += (MPI_Aint) some;
    }
    if (made != NULL && !put && mpi_errno == MPI_SUCCESS)
        mpi_errno = MPIR_Typerep_unpack(made, size, origin_addr, origin_count, origin_datatype, 0, &done);

  fn_fail:
    if (runs != &one)
        MPL_free(runs);
    MPL_free(made);
    return mpi_errno;
}

int MPIDI_COMPOSITE_direct_copy(bool put, void *origin_addr, MPI_Aint origin_count, MPI_Datatype origin_datatype, int target_rank,
                                MPI_Aint target_disp, MPI_Aint target_count, MPI_Datatype target_datatype, MPIR_Win * win)
{
    int mpi_errno;
    MPI_Aint place = 0, size, target_size;
    char *memory = MPIDI_COMPOSITE_WIN(win).direct->parts[target_rank].memory;

    if (!MPIDI_COMPOSITE_direct_allowed(win, target_rank))
        return MPIDI_COMPOSITE_direct_wrong_epoch();
    MPIDI_Datatype_check_size(origin_datatype, origin_count, size);
    MPIDI_Datatype_check_size(target_datatype, target_count, target_size);
    if (size == 0 || target_size == 0)
        return MPI_SUCCESS;
    mpi_errno = find_place(win, target_rank, target_disp, target_count, target_datatype, &place);
    if (mpi_errno)
        return mpi_errno;
    if (put ? size > target_size : target_size > size)
        return put ? does_not_fit(size, target_size) : does_not_fit(target_size, size);
    if (memory == NULL)
        return copy_far(put, origin_addr, origin_count, origin_datatype, target_rank, place, target_count, target_datatype,
                        MPL_MIN(size, target_size), win);
    return put ? MPIR_Localcopy(origin_addr, origin_count, origin_datatype, memory + place, target_count, target_datatype) :
        MPIR_Localcopy(memory + place, target_count, target_datatype, origin_addr, origin_count, origin_datatype);
}

/* --- accumulate -------------------------------------------------------------------------------------------------------------- */

static int died_there(void)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_SET(mpi_errno, MPI_ERR_OTHER, "**rma_died_inside");
    return mpi_errno;
}

/* Bytes of the target's part, while nobody else changes elements there: where they are, or a copy in `room`. */
static char *look_at(MPIR_Win * win, int rank, uint64_t offset, char *room, size_t size)
{
    char *memory = MPIDI_COMPOSITE_WIN(win).direct->parts[rank].memory;

    if (memory != NULL)
        return memory + offset;
    return pm_direct_read(MPIDI_COMPOSITE_WIN(win).window, rank, offset, room, size) ? room : NULL;
}

static bool write_back(MPIR_Win * win, int rank, uint64_t offset, const char *room, size_t size)
{
    return MPIDI_COMPOSITE_WIN(win).direct->parts[rank].memory != NULL ||
        pm_direct_write(MPIDI_COMPOSITE_WIN(win).window, rank, offset, room, size);
}

/* A run of elements of a predefined type, `origin` and `result` (or NULL) without gaps. */
static int accumulate_run(MPIR_Win * win, int rank, uint64_t offset, const char *origin, char *result, MPI_Aint count,
                          MPI_Datatype datatype, MPI_Op op)
{
    int mpi_errno = MPI_SUCCESS;
    const struct pm_direct *direct = MPIDI_COMPOSITE_WIN(win).direct;
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    pm_element element = (pm_element) MPIDI_COMPOSITE_elements[datatype & 0xff];
    pm_operation operation = (pm_operation) MPIDI_COMPOSITE_operations[op & 0xff];
    uint64_t size = MPIR_Datatype_get_basic_size(datatype);
    char room[2 * PM_DIRECT_STRIPE_BYTES];      /* elements that begin in a stripe */

    if (direct->by_instructions && pm_is_atomic(element, operation, direct->parts[rank].memory + offset)) {
        /* Many are quicker without an instruction for each. */
        int stripes = 0;
        while (stripes != 1) {
            if ((direct->parts[rank].mode == NULL || count < PM_FEW_ELEMENTS || stripes < 0) && pm_direct_begin(direct, rank)) {
                pm_atomic_apply(element, operation, direct->parts[rank].memory + offset, origin, result, (size_t) count);
                pm_direct_end(direct);
                return MPI_SUCCESS;
            }
            stripes = pm_direct_use_stripes(window, rank);
            if (stripes == 0)
                return died_there();
        }
    }
    if (may_ask(win, rank) && pm_is_atomic(element, operation, (const void *) (direct->parts[rank].base + offset))) {
        int done = pm_errand_apply(window, rank, offset, element, operation, origin, result, (size_t) count * size);
        if (done != 0)
            return done == 1 ? MPI_SUCCESS : unreachable();
    }
    mpi_errno = MPIDI_COMPOSITE_direct_settle(win);
    while (count > 0 && mpi_errno == MPI_SUCCESS) {
        uint64_t end = pm_direct_enter(window, rank, offset);
        MPI_Aint some;
        size_t bytes;
        char *place;

        if (end == 0)
            return died_there();
        some = MPL_MIN(count, (MPI_Aint) ((end - offset + size - 1) / size));
        bytes = (size_t) some *size;
        place = look_at(win, rank, offset, room, bytes);
        if (place == NULL) {
            mpi_errno = unreachable();
        } else {
            if (result != NULL) {
                memcpy(result, place, bytes);
                result += bytes;
            }
            if (op != MPI_NO_OP) {
                mpi_errno = MPIDIG_compute_acc_op((void *) origin, (int) some, datatype, place, (int) some, datatype, op,
                                                  MPIDIG_ACC_SRCBUF_PACKED);
                if (mpi_errno == MPI_SUCCESS && !write_back(win, rank, offset, place, bytes))
                    mpi_errno = unreachable();
                origin += bytes;
            }
        }
        pm_direct_leave(window, rank, offset);
        offset += bytes;
        count -= some;
    }
    return mpi_errno;
}

/* Back to where only the kernel reaches: what is of these elements, not what lies between. `there` is where they begin here. */
static bool write_back_runs(MPIR_Win * win, int rank, MPI_Aint place, const char *there, MPI_Aint count, MPI_Datatype datatype)
{
    struct iovec one, *runs;
    MPI_Aint runs_count;
    bool written = true;

    if (MPIDI_COMPOSITE_WIN(win).direct->parts[rank].memory != NULL)
        return true;
    runs = find_runs(0, count, datatype, &one, &runs_count);
    for (MPI_Aint i = 0; runs != NULL && i < runs_count && written; i++) {
        MPI_Aint at = (MPI_Aint) runs[i].iov_base;
        written = pm_direct_write(MPIDI_COMPOSITE_WIN(win).window, rank, (uint64_t) (place + at), there + at, runs[i].iov_len);
    }
    if (runs != &one)
        MPL_free(runs);
    return runs != NULL && written;
}

/* Pairs, which have gaps: nobody else is at any element of the target meanwhile. */
static int accumulate_pairs(MPIR_Win * win, int rank, MPI_Aint place, const char *origin, char *result, MPI_Aint size, MPI_Aint count,
                            MPI_Datatype datatype, MPI_Datatype basic, MPI_Op op)
{
    int mpi_errno = MPI_SUCCESS;
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    uint64_t entered = 0;
    MPI_Aint done, size_of_one, low = 0, high = 0;
    char *room = NULL, *there;

    mpi_errno = MPIDI_COMPOSITE_direct_settle(win);
    if (mpi_errno)
        return mpi_errno;
    MPIDI_Datatype_check_size(basic, 1, size_of_one);
    find_span(count, datatype, &low, &high);
    if (MPIDI_COMPOSITE_WIN(win).direct->parts[rank].memory == NULL) {
        room = MPL_malloc((size_t) (high - low), MPL_MEM_RMA);
        if (room == NULL)
            return not_enough_memory();
    }
    while (entered < PM_DIRECT_STRIPES && pm_direct_enter(window, rank, entered * PM_DIRECT_STRIPE_BYTES) != 0)
        entered++;
    if (entered < PM_DIRECT_STRIPES) {
        mpi_errno = died_there();
    } else {
        there = look_at(win, rank, (uint64_t) (place + low), room, (size_t) (high - low));
        if (there == NULL) {
            mpi_errno = unreachable();
        } else {
            there -= low;
            if (result != NULL)
                mpi_errno = MPIR_Typerep_pack(there, count, datatype, 0, result, size, &done);
            if (mpi_errno == MPI_SUCCESS && op != MPI_NO_OP) {
                mpi_errno = MPIDIG_compute_acc_op((void *) origin, (int) (size / size_of_one), basic, there, (int) count, datatype, op,
                                                  MPIDIG_ACC_SRCBUF_PACKED);
                if (mpi_errno == MPI_SUCCESS && !write_back_runs(win, rank, place, there, count, datatype))
                    mpi_errno = unreachable();
            }
        }
    }
    while (entered-- > 0)
        pm_direct_leave(window, rank, entered * PM_DIRECT_STRIPE_BYTES);
    MPL_free(room);
    return mpi_errno;
}

int MPIDI_COMPOSITE_direct_accumulate(const void *origin_addr, MPI_Aint origin_count, MPI_Datatype origin_datatype, void *result_addr,
                                      MPI_Aint result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp,
                                      MPI_Aint target_count, MPI_Datatype target_datatype, MPI_Op op, MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint size, origin_size = 0, result_size = 0, done, size_of_one, place = 0, count;
    MPI_Datatype basic = target_datatype;
    char *origin = NULL, *result = NULL, *packed_origin = NULL, *packed_result = NULL;
    struct iovec one, *runs = &one;

    if (!MPIDI_COMPOSITE_direct_allowed(win, target_rank))
        return MPIDI_COMPOSITE_direct_wrong_epoch();
    MPIDI_Datatype_check_size(target_datatype, target_count, size);
    if (op != MPI_NO_OP)
        MPIDI_Datatype_check_size(origin_datatype, origin_count, origin_size);
    if (result_datatype != MPI_DATATYPE_NULL)
        MPIDI_Datatype_check_size(result_datatype, result_count, result_size);
    if (size == 0 || (op != MPI_NO_OP && origin_size == 0))
        return MPI_SUCCESS;
    mpi_errno = find_place(win, target_rank, target_disp, target_count, target_datatype, &place);
    MPIR_ERR_CHECK(mpi_errno);
    /* As much as the origin has; of no operation, as much as there is room for. */
    if (origin_size > size)
        return does_not_fit(origin_size, size);
    if (op != MPI_NO_OP)
        size = origin_size;
    if (result_datatype != MPI_DATATYPE_NULL && size > result_size)
        return does_not_fit(size, result_size);
    if (!MPIR_DATATYPE_IS_PREDEFINED(target_datatype)) {
        MPIR_Datatype *type;
        MPIR_Datatype_get_ptr(target_datatype, type);
        basic = type->basic_type;
        MPIR_ERR_CHKANDJUMP(basic == MPI_DATATYPE_NULL, mpi_errno, MPI_ERR_TYPE, "**rmatypenotatomic");
    }
    if (op != MPI_NO_OP) {
        mpi_errno = packed(origin_addr, origin_count, origin_datatype, true, &origin, &packed_origin);
        MPIR_ERR_CHECK(mpi_errno);
    }
    if (result_datatype != MPI_DATATYPE_NULL) {
        mpi_errno = packed(result_addr, result_count, result_datatype, false, &result, &packed_result);
        MPIR_ERR_CHECK(mpi_errno);
    }
    if (!IS_BUILTIN(basic)) {
        mpi_errno = accumulate_pairs(win, target_rank, place, origin, result, size, target_count, target_datatype, basic, op);
        MPIR_ERR_CHECK(mpi_errno);
    } else {
        MPIDI_Datatype_check_size(basic, 1, size_of_one);
        runs = find_runs(place, target_count, target_datatype, &one, &count);
        if (runs == NULL)
            mpi_errno = not_enough_memory();
        MPIR_ERR_CHECK(mpi_errno);
        for (MPI_Aint i = 0, at = 0; i < count && at < size; i++) {
            MPI_Aint some = MPL_MIN((MPI_Aint) runs[i].iov_len, size - at);
            mpi_errno = accumulate_run(win, target_rank, (uint64_t) (uintptr_t) runs[i].iov_base, origin == NULL ? NULL : origin + at,
                                       result == NULL ? NULL : result + at, some / size_of_one, basic, op);
            MPIR_ERR_CHECK(mpi_errno);
            at += some;
        }
    }
    if (packed_result != NULL) {
        mpi_errno = MPIDI_COMPOSITE_direct_settle(win);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = MPIR_Typerep_unpack(packed_result, size, result_addr, result_count, result_datatype, 0, &done);
    }

  fn_fail:
    if (packed_result != NULL)
        (void) MPIDI_COMPOSITE_direct_settle(win);      /* nobody writes there any more */
    MPL_free(packed_origin);
    MPL_free(packed_result);
    if (runs != &one)
        MPL_free(runs);
    return mpi_errno;
}

int MPIDI_COMPOSITE_direct_swap(const void *origin_addr, const void *compare_addr, void *result_addr, MPI_Datatype datatype,
                                int target_rank, MPI_Aint target_disp, MPIR_Win * win)
{
    const struct pm_direct *direct = MPIDI_COMPOSITE_WIN(win).direct;
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    pm_element element = (pm_element) MPIDI_COMPOSITE_elements[datatype & 0xff];
    size_t size = MPIR_Datatype_get_basic_size(datatype);
    uint64_t offset;
    int mpi_errno = MPI_SUCCESS;
    char room[64], *place;

    if (unlikely(!MPIDI_COMPOSITE_direct_allowed(win, target_rank)))
        return MPIDI_COMPOSITE_direct_wrong_epoch();
    if (unlikely(!MPIDI_COMPOSITE_direct_holds(win, target_rank, target_disp, size, &offset)))
        return MPIDI_COMPOSITE_direct_outside(win, target_disp, target_rank);
    if (likely(direct->by_instructions && pm_is_atomic(element, PM_REPLACE, direct->parts[target_rank].memory + offset))) {
        int stripes = 0;
        while (stripes != 1) {
            if (likely(pm_direct_begin(direct, target_rank))) {
                pm_atomic_swap(element, direct->parts[target_rank].memory + offset, origin_addr, compare_addr, result_addr);
                pm_direct_end(direct);
                return MPI_SUCCESS;
            }
            stripes = pm_direct_use_stripes(window, target_rank);
            if (stripes == 0)
                return died_there();
        }
    }
    if (may_ask(win, target_rank) && pm_is_atomic(element, PM_REPLACE, (const void *) (direct->parts[target_rank].base + offset))) {
        int done = pm_errand_swap(window, target_rank, offset, element, origin_addr, compare_addr, result_addr);
        if (done != 0)
            return done == 1 ? MPI_SUCCESS : unreachable();
    }
    mpi_errno = MPIDI_COMPOSITE_direct_settle(win);
    if (mpi_errno)
        return mpi_errno;
    if (pm_direct_enter(window, target_rank, offset) == 0)
        return died_there();
    place = look_at(win, target_rank, offset, room, size);
    if (place == NULL) {
        mpi_errno = unreachable();
    } else {
        memcpy(result_addr, place, size);
        if (memcmp(place, compare_addr, size) == 0) {
            memcpy(place, origin_addr, size);
            if (!write_back(win, target_rank, offset, place, size))
                mpi_errno = unreachable();
        }
    }
    pm_direct_leave(window, target_rank, offset);
    return mpi_errno;
}

/* --- progress -----------------------------------------------------------------------------------------------------------------

 * Nothing here needs it, but others may wait for an answer of ours. */
int MPIDI_COMPOSITE_direct_progress(void)
{
    static unsigned calls;

    return __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % PM_CALLS_BETWEEN_PROGRESS == 0 ? MPID_Progress_test(NULL) : MPI_SUCCESS;
}

/* --- waiting ----------------------------------------------------------------------------------------------------------------- */

typedef struct {
    pm_window *window;
    int rank;
    bool exclusive;
    uint32_t count;
} awaited_t;

/* mpiexec ends the job of a rank that has died, unless it is told not to: nobody waits for ever for what that rank held. */
enum { ROUNDS_BEFORE_LOOKING_AFTER_OTHERS = 1 << 16, SLEEPS_BEFORE_IT = 16 };

typedef bool (*has_come_t) (const awaited_t * awaited);

/* Until it has come, which is asked for once only when it has. `falls_asleep`, or NULL, sees to it that somebody wakes us. No lock is held. */
static int await(has_come_t has_come, const awaited_t * awaited, void (*falls_asleep) (const awaited_t * awaited))
{
    int mpi_errno = MPI_SUCCESS, looks = pm_crowded(MPIDI_COMPOSITE_global.core) ? 1 : PM_LOOKS_BETWEEN_PROGRESS;
    bool come = false;
    unsigned rounds = 0;

    while (!come && mpi_errno == MPI_SUCCESS) {
        for (int i = 0; i < looks && !come; i++)
            come = has_come(awaited);
        if (come)
            break;
        mpi_errno = MPID_Progress_test(NULL);
        if (++rounds >= ROUNDS_BEFORE_LOOKING_AFTER_OTHERS) {
            rounds = 0;
            if (pm_direct_has_lost_one(awaited->window))
                return died_there();
        }
        if (mpi_errno == MPI_SUCCESS && pm_wait_step(MPIDI_COMPOSITE_global.core)) {
            if (falls_asleep != NULL)
                falls_asleep(awaited);
            if (pm_wait_arm(MPIDI_COMPOSITE_global.core)) {
                come = has_come(awaited);
                if (!come) {
                    rounds += ROUNDS_BEFORE_LOOKING_AFTER_OTHERS / SLEEPS_BEFORE_IT;
                    pm_wait_sleep(MPIDI_COMPOSITE_global.core, MPIR_ThreadInfo.isThreaded);
                }
            }
            pm_wait_disarm(MPIDI_COMPOSITE_global.core);
        }
    }
    pm_wait_restart();
    return mpi_errno;
}

static bool have_said(const awaited_t * awaited)
{
    return pm_window_agreed(awaited->window);
}

int MPIDI_COMPOSITE_direct_agree(MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;
    awaited_t awaited = { MPIDI_COMPOSITE_WIN(win).window, 0, false, 0 };

    if (!pm_window_say(awaited.window, MPIR_ThreadInfo.isThreaded))
        return MPI_SUCCESS;
    mpi_errno = await(have_said, &awaited, NULL);
    if (mpi_errno == MPI_SUCCESS)
        MPIDI_COMPOSITE_WIN(win).direct = pm_window_make_direct(awaited.window);
    return mpi_errno;
}

/* --- passive target ---------------------------------------------------------------------------------------------------------- */

static bool gets_lock(const awaited_t * awaited)
{
    return pm_direct_try_lock(awaited->window, awaited->rank, awaited->exclusive);
}

static void sleeps_for_lock(const awaited_t * awaited)
{
    pm_direct_falls_asleep(awaited->window, awaited->rank);
}

static int acquire(MPIR_Win * win, int rank, bool exclusive)
{
    int mpi_errno;
    awaited_t awaited = { MPIDI_COMPOSITE_WIN(win).window, rank, exclusive, 0 };

    if (likely(gets_lock(&awaited)))
        return MPI_SUCCESS;
    if (exclusive)
        pm_direct_want_lock(awaited.window, rank, 1);
    mpi_errno = await(gets_lock, &awaited, sleeps_for_lock);
    if (exclusive)
        pm_direct_want_lock(awaited.window, rank, 0);
    return mpi_errno;
}

/* What others were asked to do, and what writes that notify may have left to messages. */
static int complete_others(MPIR_Win * win)
{
    int mpi_errno = MPIDI_COMPOSITE_direct_settle(win);

    if (unlikely(mpi_errno))
        return mpi_errno;
    return pm_window_is_clean(MPIDI_COMPOSITE_WIN(win).window) ? MPI_SUCCESS : MPIDI_COMPOSITE_complete(win);
}

/* An epoch ends though something of it has failed: others wait for its end. */
static int end_of_epoch(int failed)
{
    int mpi_errno = MPIDI_COMPOSITE_direct_progress();

    return unlikely(failed) ? failed : mpi_errno;
}

static void end_access(MPIR_Win * win)
{
    MPIDIG_WIN(win, sync).access_epoch_type = MPIDIG_EPOTYPE_NONE;
}

/* [R9] the program has said that no lock is needed, but what it wrote before comes before what it writes later. */
static void order_without_lock(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

int MPIDI_COMPOSITE_direct_lock(int lock_type, int rank, int assert, MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS, epoch = MPIDIG_WIN(win, sync).access_epoch_type;
    unsigned char *hold = &MPIDI_COMPOSITE_WIN(win).direct->holds[rank];
    bool exclusive = lock_type == MPI_LOCK_EXCLUSIVE;

    if (unlikely((epoch != MPIDIG_EPOTYPE_NONE && epoch != MPIDIG_EPOTYPE_REFENCE && epoch != MPIDIG_EPOTYPE_LOCK) ||
                 *hold != PM_HOLDS_NOTHING))
        return MPIDI_COMPOSITE_direct_wrong_epoch();
    if (!(assert & MPI_MODE_NOCHECK))
        mpi_errno = acquire(win, rank, exclusive);
    if (unlikely(mpi_errno))
        return mpi_errno;
    if (assert & MPI_MODE_NOCHECK)
        order_without_lock();
    *hold = (assert & MPI_MODE_NOCHECK) ? PM_HOLDS_UNCHECKED : exclusive ? PM_HOLDS_EXCLUSIVE : PM_HOLDS_SHARED;
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    MPIDIG_WIN(win, sync).access_epoch_type = MPIDIG_EPOTYPE_LOCK;
    MPIDIG_WIN(win, sync).lock.count++;
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return MPI_SUCCESS;
}

static void give_back(MPIR_Win * win, int rank)
{
    unsigned char *hold = &MPIDI_COMPOSITE_WIN(win).direct->holds[rank];
    pm_hold held = (pm_hold) * hold;

    *hold = PM_HOLDS_NOTHING;
    if (held == PM_HOLDS_UNCHECKED)
        order_without_lock();
    if (held == PM_HOLDS_SHARED || held == PM_HOLDS_EXCLUSIVE)
        pm_direct_unlock(MPIDI_COMPOSITE_WIN(win).window, rank, held == PM_HOLDS_EXCLUSIVE);
}

int MPIDI_COMPOSITE_direct_unlock(int rank, MPIR_Win * win)
{
    int mpi_errno;

    if (unlikely(MPIDIG_WIN(win, sync).access_epoch_type != MPIDIG_EPOTYPE_LOCK ||
                 MPIDI_COMPOSITE_WIN(win).direct->holds[rank] == PM_HOLDS_NOTHING))
        return MPIDI_COMPOSITE_direct_wrong_epoch();
    mpi_errno = complete_others(win);
    give_back(win, rank);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    if (--MPIDIG_WIN(win, sync).lock.count == 0)
        end_access(win);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return end_of_epoch(mpi_errno);
}

int MPIDI_COMPOSITE_direct_lock_all(int assert, MPIR_Win * win)
{
    int mpi_errno, epoch = MPIDIG_WIN(win, sync).access_epoch_type, size = win->comm_ptr->local_size;
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    unsigned char *holds = MPIDI_COMPOSITE_WIN(win).direct->holds;

    if (epoch != MPIDIG_EPOTYPE_NONE && epoch != MPIDIG_EPOTYPE_REFENCE)
        return MPIDI_COMPOSITE_direct_wrong_epoch();
    /* Who waits for one has none: others may hold one and want another. */
    for (int rank = 0, waited_for = -1; rank < size && !(assert & MPI_MODE_NOCHECK); rank++) {
        if (rank == waited_for || holds[rank] != PM_HOLDS_NOTHING || pm_direct_try_lock(window, rank, 0)) {
            holds[rank] = PM_HOLDS_SHARED;
            continue;
        }
        for (int other = 0; other < size; other++)
            give_back(win, other);
        mpi_errno = acquire(win, rank, false);
        if (mpi_errno)
            return mpi_errno;
        holds[rank] = PM_HOLDS_SHARED;
        waited_for = rank;
        rank = -1;
    }
    for (int rank = 0; rank < size && (assert & MPI_MODE_NOCHECK); rank++)
        holds[rank] = PM_HOLDS_UNCHECKED;
    if (assert & MPI_MODE_NOCHECK)
        order_without_lock();
    MPIDIG_WIN(win, sync).access_epoch_type = MPIDIG_EPOTYPE_LOCK_ALL;
    return MPI_SUCCESS;
}

int MPIDI_COMPOSITE_direct_unlock_all(MPIR_Win * win)
{
    int mpi_errno;

    if (MPIDIG_WIN(win, sync).access_epoch_type != MPIDIG_EPOTYPE_LOCK_ALL)
        return MPIDI_COMPOSITE_direct_wrong_epoch();
    mpi_errno = complete_others(win);
    for (int rank = 0; rank < win->comm_ptr->local_size; rank++)
        give_back(win, rank);
    end_access(win);
    return end_of_epoch(mpi_errno);
}

/* All has happened. */
int MPIDI_COMPOSITE_direct_flush(int rank, MPIR_Win * win)
{
    int mpi_errno, epoch = MPIDIG_WIN(win, sync).access_epoch_type;

    if (unlikely(epoch != MPIDIG_EPOTYPE_LOCK_ALL &&
                 (epoch != MPIDIG_EPOTYPE_LOCK ||
                  (rank >= 0 && MPIDI_COMPOSITE_WIN(win).direct->holds[rank] == PM_HOLDS_NOTHING))))
        return MPIDI_COMPOSITE_direct_wrong_epoch();
    mpi_errno = complete_others(win);
    /* [R8] what was stored before is visible before what is stored or loaded later. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (unlikely(mpi_errno))
        return mpi_errno;
    return MPIDI_COMPOSITE_direct_progress();
}

/* --- active target ----------------------------------------------------------------------------------------------------------- */

static bool fence_is_over(const awaited_t * awaited)
{
    return (int32_t) (pm_direct_fences(awaited->window) - awaited->count) >= 0;
}

int MPIDI_COMPOSITE_direct_fence(int assert, MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS, failed = MPI_SUCCESS;
    awaited_t awaited = { MPIDI_COMPOSITE_WIN(win).window, 0, false, 0 };

    MPIDIG_FENCE_EPOCH_CHECK(win, mpi_errno, goto fn_fail);
    failed = complete_others(win);
    /* Also where MPICH does not check epochs: we do. */
    MPIDIG_WIN(win, sync).access_epoch_type = MPIDIG_WIN(win, sync).exposure_epoch_type =
        (assert & MPI_MODE_NOSUCCEED) ? MPIDIG_EPOTYPE_NONE : MPIDIG_EPOTYPE_REFENCE;
    awaited.count = pm_direct_arrive(awaited.window);
    mpi_errno = await(fence_is_over, &awaited, NULL);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = end_of_epoch(failed);

  fn_fail:
    return mpi_errno;
}

/* The ranks of a group in the window. */
struct MPIDI_COMPOSITE_ranks {
    MPIR_Group *group;
    int rank[];
};

MPIR_Group *MPIDI_COMPOSITE_direct_group(MPIR_Win * win, bool access)
{
    struct MPIDI_COMPOSITE_ranks *kept = access ? MPIDI_COMPOSITE_WIN(win).access : MPIDI_COMPOSITE_WIN(win).exposure;

    return kept ? kept->group : NULL;
}

static void forget(struct MPIDI_COMPOSITE_ranks **kept)
{
    if (*kept != NULL)
        MPIR_Group_release((*kept)->group);
    MPL_free(*kept);
    *kept = NULL;
}

/* Groups do not change, and most programs use the same ones again: the last one is kept. */
static int translate(MPIR_Win * win, MPIR_Group * group, struct MPIDI_COMPOSITE_ranks **kept)
{
    int mpi_errno;

    if (likely(*kept != NULL && (*kept)->group == group))
        return MPI_SUCCESS;
    forget(kept);
    *kept = MPL_malloc(sizeof **kept + (size_t) group->size * sizeof(int), MPL_MEM_RMA);
    if (*kept == NULL)
        return not_enough_memory();
    MPIR_Group_add_ref(group);
    (*kept)->group = group;
    mpi_errno = MPIDIG_fill_ranks_in_win_grp(win, group, (*kept)->rank);
    for (int i = 0; i < group->size && mpi_errno == MPI_SUCCESS; i++)
        if ((*kept)->rank[i] < 0)
            MPIR_ERR_SET(mpi_errno, MPI_ERR_GROUP, "**group");
    if (mpi_errno)
        forget(kept);
    return mpi_errno;
}

static bool is_posted(const awaited_t * awaited)
{
    return pm_direct_posts(awaited->window, awaited->rank) != awaited->count;
}

static bool is_completed(const awaited_t * awaited)
{
    return pm_direct_completes(awaited->window, awaited->rank) != awaited->count;
}

int MPIDI_COMPOSITE_direct_start(MPIR_Group * group, int assert, MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;
    struct pm_direct *direct = MPIDI_COMPOSITE_WIN(win).direct;

    MPIDIG_ACCESS_EPOCH_CHECK_NONE(win, mpi_errno, goto fn_fail);
    mpi_errno = translate(win, group, &MPIDI_COMPOSITE_WIN(win).access);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 0; i < group->size; i++) {
        int rank = MPIDI_COMPOSITE_WIN(win).access->rank[i];
        awaited_t awaited = { MPIDI_COMPOSITE_WIN(win).window, rank, false, direct->posts_used[rank] };
        direct->started[rank] = 1;
        if (assert & MPI_MODE_NOCHECK)
            continue;
        mpi_errno = await(is_posted, &awaited, NULL);
        if (mpi_errno) {
            memset(direct->started, 0, (size_t) win->comm_ptr->local_size);
            goto fn_fail;
        }
        direct->posts_used[rank]++;
    }
    MPIR_Group_add_ref(group);
    MPIDIG_WIN(win, sync).sc.group = group;
    MPIDIG_WIN(win, sync).access_epoch_type = MPIDIG_EPOTYPE_START;

  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_direct_complete(MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS, failed;
    struct pm_direct *direct = MPIDI_COMPOSITE_WIN(win).direct;
    MPIR_Group *group = MPIDIG_WIN(win, sync).sc.group;

    MPIDIG_ACCESS_EPOCH_CHECK(win, MPIDIG_EPOTYPE_START, mpi_errno, goto fn_fail);
    failed = complete_others(win);
    for (int i = 0; i < group->size; i++) {
        int rank = MPIDI_COMPOSITE_WIN(win).access->rank[i];
        direct->started[rank] = 0;
        pm_direct_complete(MPIDI_COMPOSITE_WIN(win).window, rank);
    }
    MPIDIG_WIN(win, sync).sc.group = NULL;
    MPIR_Group_release(group);
    end_access(win);
    mpi_errno = end_of_epoch(failed);

  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_direct_post(MPIR_Group * group, int assert, MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;

    MPIDIG_EXPOSURE_EPOCH_CHECK_NONE(win, mpi_errno, goto fn_fail);
    mpi_errno = translate(win, group, &MPIDI_COMPOSITE_WIN(win).exposure);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 0; i < group->size && !(assert & MPI_MODE_NOCHECK); i++)
        pm_direct_post(MPIDI_COMPOSITE_WIN(win).window, MPIDI_COMPOSITE_WIN(win).exposure->rank[i]);
    MPIR_Group_add_ref(group);
    MPIDIG_WIN(win, sync).pw.group = group;
    MPIDIG_WIN(win, sync).exposure_epoch_type = MPIDIG_EPOTYPE_POST;

  fn_fail:
    return mpi_errno;
}

static void end_exposure(MPIR_Win * win)
{
    struct pm_direct *direct = MPIDI_COMPOSITE_WIN(win).direct;
    MPIR_Group *group = MPIDIG_WIN(win, sync).pw.group;

    for (int i = 0; i < group->size; i++)
        direct->completes_used[MPIDI_COMPOSITE_WIN(win).exposure->rank[i]]++;
    MPIDIG_WIN(win, sync).pw.group = NULL;
    MPIR_Group_release(group);
    MPIDIG_WIN(win, sync).exposure_epoch_type = MPIDIG_EPOTYPE_NONE;
}

static awaited_t completion_of(MPIR_Win * win, int i)
{
    int rank = MPIDI_COMPOSITE_WIN(win).exposure->rank[i];
    awaited_t awaited = { MPIDI_COMPOSITE_WIN(win).window, rank, false, MPIDI_COMPOSITE_WIN(win).direct->completes_used[rank] };

    return awaited;
}

int MPIDI_COMPOSITE_direct_wait(MPIR_Win * win)
{
    int mpi_errno = MPI_SUCCESS;

    MPIDIG_EXPOSURE_EPOCH_CHECK(win, MPIDIG_EPOTYPE_POST, mpi_errno, goto fn_fail);
    for (int i = 0; i < MPIDIG_WIN(win, sync).pw.group->size; i++) {
        awaited_t awaited = completion_of(win, i);
        mpi_errno = await(is_completed, &awaited, NULL);
        MPIR_ERR_CHECK(mpi_errno);
    }
    end_exposure(win);
    mpi_errno = MPIDI_COMPOSITE_direct_progress();

  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_direct_test(MPIR_Win * win, int *flag)
{
    int mpi_errno = MPI_SUCCESS;

    *flag = 0;
    MPIDIG_EXPOSURE_EPOCH_CHECK(win, MPIDIG_EPOTYPE_POST, mpi_errno, goto fn_fail);
    for (int i = 0; i < MPIDIG_WIN(win, sync).pw.group->size; i++) {
        awaited_t awaited = completion_of(win, i);
        if (!is_completed(&awaited))
            return MPID_Progress_test(NULL);
    }
    end_exposure(win);
    *flag = 1;

  fn_fail:
    return mpi_errno;
}

void MPIDI_COMPOSITE_direct_free(MPIR_Win * win)
{
    forget(&MPIDI_COMPOSITE_WIN(win).access);
    forget(&MPIDI_COMPOSITE_WIN(win).exposure);
}
