/* Writes that notify: MPI's windows and datatypes for the engine in coll/window. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_rma.h"
#include "composite_win.h"
#include "coll/window/window.h"

/* --- writing and reading -------------------------------------------------------------------------------------------------- */

/* What an operation moves, as runs of bytes; most have one. */
typedef struct {
    struct iovec one;
    struct iovec *runs;
    MPI_Aint count;
    size_t size;
} layout_t;

static int make_layout(const void *base, MPI_Aint count, MPI_Datatype datatype, layout_t * layout)
{
    int mpi_errno = MPI_SUCCESS, contiguous;
    MPI_Aint true_lb, made;
    MPIR_Datatype *type ATTRIBUTE((unused));

    MPIDI_Datatype_get_info(count, datatype, contiguous, layout->size, type, true_lb);
    layout->runs = &layout->one;
    layout->count = 1;
    layout->one.iov_base = MPIR_get_contig_ptr(base, true_lb);
    layout->one.iov_len = layout->size;
    if (likely(contiguous || layout->size == 0))
        return MPI_SUCCESS;
    MPIR_Typerep_iov_len(count, datatype, layout->size, &layout->count);
    layout->runs = MPL_malloc(MPL_MAX(layout->count, 1) * sizeof(struct iovec), MPL_MEM_RMA);
    MPIR_ERR_CHKANDJUMP(layout->runs == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    MPIR_Typerep_to_iov_offset(base, count, datatype, 0, layout->runs, layout->count, &made);
    layout->count = made;

  fn_fail:
    return mpi_errno;
}

static void free_layout(layout_t * layout)
{
    if (layout->runs != &layout->one)
        MPL_free(layout->runs);
}

enum direction { THERE, BACK };

/* One run: the whole operation, or a part; then the last one tells the target, and must not overtake those before. */
static int move(enum direction direction, MPIR_Win * win, int target, uint64_t offset, void *data, size_t size, bool whole,
                const pm_after * after)
{
    int mpi_errno = MPI_SUCCESS, moved;
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    int notification = after->kind == PM_AFTER_NOTIFY ? after->value : -1;
    bool done = direction == THERE ? pm_window_store(window, target, offset, data, size, after) :
        pm_window_load(window, target, offset, data, size, notification);

    if (!done) {
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
        moved = direction == THERE ? pm_window_put(window, target, offset, data, size, after, whole) :
            pm_window_get(window, target, offset, data, size, notification);
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
        if (moved == PM_FAILED)
            mpi_errno = MPIDI_COMPOSITE_lost();
    }
    return mpi_errno;
}

static int check_inside(pm_window * window, int target, uint64_t offset, uint64_t size)
{
    int mpi_errno = MPI_SUCCESS;

    if (unlikely(!pm_window_holds(window, target, offset, size)))
        MPIR_ERR_SET2(mpi_errno, MPI_ERR_RMA_RANGE, "**rma_outside", "**rma_outside %L %d", (long long) offset, target);
    return mpi_errno;
}

/* Both layouts have the same size; they are cut where either of them is. */
static int move_layouts(enum direction direction, MPIR_Win * win, int target, uint64_t base, const layout_t * origin,
                        const layout_t * there, const pm_after * after)
{
    static const pm_after nothing = { PM_AFTER_NOTHING, 0, 0, 0 };
    int mpi_errno = MPI_SUCCESS;
    size_t done = 0, mine = 0, its = 0;

    for (MPI_Aint i = 0; i < there->count && mpi_errno == MPI_SUCCESS; i++)
        mpi_errno = check_inside(MPIDI_COMPOSITE_WIN(win).window, target, base + (uintptr_t) there->runs[i].iov_base,
                                 there->runs[i].iov_len);
    for (MPI_Aint i = 0, j = 0; mpi_errno == MPI_SUCCESS;) {
        const struct iovec *from = &origin->runs[i], *to = &there->runs[j];
        size_t size = MPL_MIN(from->iov_len - mine, to->iov_len - its);
        bool last = done + size == origin->size;
        mpi_errno = move(direction, win, target, base + (uintptr_t) to->iov_base + its, (char *) from->iov_base + mine, size, false,
                         last ? after : &nothing);
        if (last)
            break;
        done += size;
        mine += size;
        its += size;
        if (mine == from->iov_len) {
            i++;
            mine = 0;
        }
        if (its == to->iov_len) {
            j++;
            its = 0;
        }
    }
    return mpi_errno;
}

static int transfer(enum direction direction, const void *origin_addr, int origin_count, MPI_Datatype origin_datatype,
                    int target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPIR_Win * win,
                    const pm_after * after)
{
    int mpi_errno = MPI_SUCCESS;
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    uint64_t base;
    layout_t origin = { 0 }, there = { 0 };

    origin.runs = &origin.one;
    there.runs = &there.one;
    if (target_rank == MPI_PROC_NULL)
        return MPI_SUCCESS;
    MPIDIG_RMA_OP_CHECK_SYNC(target_rank, win);
    base = pm_window_offset(window, target_rank, target_disp);
    if (after->kind == PM_AFTER_FLAG) {
        mpi_errno = check_inside(window, target_rank, after->offset, sizeof(int));
        MPIR_ERR_CHECK(mpi_errno);
        MPIR_ERR_CHKANDJUMP(!pm_window_is_aligned(window, target_rank, after->offset), mpi_errno, MPI_ERR_DISP, "**rma_flag");
    }
    mpi_errno = make_layout(origin_addr, origin_count, origin_datatype, &origin);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = make_layout(NULL, target_count, target_datatype, &there);
    MPIR_ERR_CHECK(mpi_errno);
    MPIR_ERR_CHKANDJUMP(origin.size != there.size, mpi_errno, MPI_ERR_SIZE, "**rma_sizes");
    if (likely(origin.count == 1 && there.count == 1)) {
        base += (uintptr_t) there.one.iov_base;
        mpi_errno = check_inside(window, target_rank, base, there.size);
        if (likely(mpi_errno == MPI_SUCCESS))
            mpi_errno = move(direction, win, target_rank, base, origin.runs->iov_base, origin.size, true, after);
    } else {
        mpi_errno = move_layouts(direction, win, target_rank, base, &origin, &there, after);
    }

  fn_fail:
    free_layout(&origin);
    free_layout(&there);
    return mpi_errno;
}

int MPIR_Put_notify_impl(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                         MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPIR_Win * win,
                         int notification_id)
{
    pm_after after = { PM_AFTER_NOTIFY, notification_id, 0, 0 };

    return transfer(THERE, origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count, target_datatype,
                    win, &after);
}

int MPIR_Get_notify_impl(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                         MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPIR_Win * win,
                         int notification_id)
{
    pm_after after = { PM_AFTER_NOTIFY, notification_id, 0, 0 };

    return transfer(BACK, origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count, target_datatype,
                    win, &after);
}

static uint64_t flag_offset(MPIR_Win * win, int rank, MPI_Aint flag_disp)
{
    return rank == MPI_PROC_NULL ? 0 : pm_window_offset(MPIDI_COMPOSITE_WIN(win).window, rank, flag_disp);
}

int MPIR_Put_flag_impl(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                       MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPIR_Win * win, MPI_Aint flag_disp,
                       int value)
{
    pm_after after = { PM_AFTER_FLAG, value, flag_offset(win, target_rank, flag_disp), 0 };

    return transfer(THERE, origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count, target_datatype,
                    win, &after);
}

int MPIR_Put_countup_impl(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                          MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPIR_Win * win, int counter_id)
{
    pm_after after = { PM_AFTER_COUNT, counter_id, 0, 0 };

    return transfer(THERE, origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count, target_datatype,
                    win, &after);
}

int MPIR_Write1_impl(int target_rank, MPI_Aint target_disp, int value, MPIR_Win * win)
{
    pm_after after = { PM_AFTER_FLAG, value, flag_offset(win, target_rank, target_disp), 0 };

    return transfer(THERE, NULL, 0, MPI_BYTE, target_rank, 0, 0, MPI_BYTE, win, &after);
}

/* Of calls that take one run of bytes only. */
static int one_run(const void *address, MPI_Aint count, MPI_Datatype datatype, struct iovec *run)
{
    int mpi_errno = MPI_SUCCESS, contiguous;
    MPI_Aint true_lb;
    size_t size;
    MPIR_Datatype *type ATTRIBUTE((unused));

    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    MPIR_ERR_CHKANDJUMP(!contiguous, mpi_errno, MPI_ERR_TYPE, "**rma_contiguous");
    run->iov_base = MPIR_get_contig_ptr(address, true_lb);
    run->iov_len = size;

  fn_fail:
    return mpi_errno;
}

int MPIR_Win_copy_impl(int source_rank, MPI_Aint source_disp, int target_rank, MPI_Aint target_disp, int count,
                       MPI_Datatype datatype, MPIR_Win * win, int notification_id)
{
    int mpi_errno, started;
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    pm_after after = { PM_AFTER_NOTIFY, notification_id, 0, 0 };
    uint64_t from, to;
    struct iovec run;

    mpi_errno = one_run(NULL, count, datatype, &run);
    MPIR_ERR_CHECK(mpi_errno);
    MPIDIG_RMA_OP_CHECK_SYNC(source_rank, win);
    from = pm_window_offset(window, source_rank, source_disp) + (uintptr_t) run.iov_base;
    to = pm_window_offset(window, target_rank, target_disp) + (uintptr_t) run.iov_base;
    mpi_errno = check_inside(window, source_rank, from, run.iov_len);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = check_inside(window, target_rank, to, run.iov_len);
    MPIR_ERR_CHECK(mpi_errno);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    started = pm_window_copy(window, source_rank, from, target_rank, to, run.iov_len, &after);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (started == PM_FAILED)
        mpi_errno = MPIDI_COMPOSITE_lost();

  fn_fail:
    return mpi_errno;
}

/* All are checked before anything is written. */
int MPIR_Win_bcast_impl(const void *origin_addr, int count, MPI_Datatype datatype, MPI_Aint target_disp, MPI_Aint flag_disp,
                        int value, MPIR_Win * win)
{
    int mpi_errno;
    int ranks = win->comm_ptr->local_size;
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    struct iovec run, there;

    mpi_errno = one_run(origin_addr, count, datatype, &run);
    MPIR_ERR_CHECK(mpi_errno);
    one_run(NULL, count, datatype, &there);
    for (int rank = 0; rank < ranks; rank++) {
        uint64_t flag = flag_offset(win, rank, flag_disp);
        MPIDIG_RMA_OP_CHECK_SYNC(rank, win);
        mpi_errno = check_inside(window, rank, pm_window_offset(window, rank, target_disp) + (uintptr_t) there.iov_base, run.iov_len);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = check_inside(window, rank, flag, sizeof(int));
        MPIR_ERR_CHECK(mpi_errno);
        MPIR_ERR_CHKANDJUMP(!pm_window_is_aligned(window, rank, flag), mpi_errno, MPI_ERR_DISP, "**rma_flag");
    }
    for (int i = 0; i < ranks && mpi_errno == MPI_SUCCESS; i++) {
        int rank = (win->comm_ptr->rank + i) % ranks;
        pm_after after = { PM_AFTER_FLAG, value, flag_offset(win, rank, flag_disp), 1 };
        mpi_errno = move(THERE, win, rank, pm_window_offset(window, rank, target_disp) + (uintptr_t) there.iov_base,
                         run.iov_base, run.iov_len, true, &after);
    }

  fn_fail:
    return mpi_errno;
}

int MPIR_Win_bcast_discard_impl(MPIR_Win * win, int discard)
{
    pm_window_discard(MPIDI_COMPOSITE_WIN(win).window, discard);
    return MPI_SUCCESS;
}

int MPIR_Win_offer_impl(const void *origin_addr, int count, MPI_Datatype datatype, int target_rank, int key, MPIR_Win * win,
                        volatile int *flag)
{
    int mpi_errno, started;
    struct iovec run;

    if (target_rank == MPI_PROC_NULL) {
        *flag = 1;
        return MPI_SUCCESS;
    }
    mpi_errno = one_run(origin_addr, count, datatype, &run);
    MPIR_ERR_CHECK(mpi_errno);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    started = pm_window_offer(MPIDI_COMPOSITE_WIN(win).window, target_rank, key, run.iov_base, run.iov_len, flag);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (started == PM_FAILED)
        mpi_errno = MPIDI_COMPOSITE_lost();

  fn_fail:
    return mpi_errno;
}

int MPIR_Win_accept_impl(int source_rank, int key, MPI_Aint target_disp, int count, MPI_Datatype datatype, MPIR_Win * win,
                         volatile int *flag)
{
    int mpi_errno, started, rank = win->comm_ptr->rank;
    pm_window *window = MPIDI_COMPOSITE_WIN(win).window;
    uint64_t offset;
    struct iovec run;

    mpi_errno = one_run(NULL, count, datatype, &run);
    MPIR_ERR_CHECK(mpi_errno);
    offset = pm_window_offset(window, rank, target_disp) + (uintptr_t) run.iov_base;
    mpi_errno = check_inside(window, rank, offset, run.iov_len);
    MPIR_ERR_CHECK(mpi_errno);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    started = pm_window_accept(window, source_rank, key, offset, run.iov_len, flag);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (started == PM_FAILED)
        mpi_errno = MPIDI_COMPOSITE_lost();

  fn_fail:
    return mpi_errno;
}

int MPIR_Win_sync_flag_impl(MPIR_Win * win, volatile int *flag)
{
    int mpi_errno = MPI_SUCCESS;

    /* What a device put is completed by waiting: for that nobody sets a flag. */
    mpi_errno = MPIDI_COMPOSITE_complete_alone(win);
    MPIR_ERR_CHECK(mpi_errno);
    if (MPIDI_COMPOSITE_WIN(win).direct != NULL)
        mpi_errno = MPIDI_COMPOSITE_direct_settle(win);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIDI_COMPOSITE_start_sync(win, flag);

  fn_fail:
    return mpi_errno;
}

/* --- what the target sees ------------------------------------------------------------------------------------------------- */

/* Looks for something that another process or a message of its brings. */
typedef struct {
    MPIR_Win *win;
    int first, count;
    int *which;
} look_t;

static bool take_any(const look_t * look)
{
    bool taken;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    taken = pm_window_take_any(MPIDI_COMPOSITE_WIN(look->win).window, look->first, look->count, look->which);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return taken;
}

static bool take_count(const look_t * look)
{
    bool taken;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    taken = pm_window_take_count(MPIDI_COMPOSITE_WIN(look->win).window, look->first, look->count);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return taken;
}

/* Nobody rings for a notification when we do not sleep: between arming the doorbell and sleeping we look again. A device that counts
 * by itself rings never: where there may be one we sleep for a short time. */
static int wait_until(bool(*look) (const look_t *), const look_t * what)
{
    int mpi_errno = MPI_SUCCESS;
    bool found = look(what);
    int looks = found ? 0 : pm_window_looks(MPIDI_COMPOSITE_WIN(what->win).window);

    while (!found) {
        mpi_errno = MPID_Progress_test(NULL);
        if (mpi_errno)
            break;
        for (int i = 0; i < looks && !found; i++)
            found = look(what);
        if (!found && pm_wait_step(MPIDI_COMPOSITE_global.core)) {
            if (pm_wait_arm(MPIDI_COMPOSITE_global.core) && !(found = look(what)))
                pm_wait_sleep(MPIDI_COMPOSITE_global.core, MPIR_ThreadInfo.isThreaded || MPIDI_COMPOSITE_WIN(what->win).one_sided);
            pm_wait_disarm(MPIDI_COMPOSITE_global.core);
        }
    }
    return mpi_errno;
}

int MPIR_Win_wait_notify_impl(MPIR_Win * win, int notification_id)
{
    int which;
    look_t look = { win, notification_id, 1, &which };

    return wait_until(take_any, &look);
}

int MPIR_Win_waitany_notify_impl(MPIR_Win * win, int first_id, int count, int *notification_id)
{
    look_t look = { win, first_id, count, notification_id };

    return wait_until(take_any, &look);
}

int MPIR_Win_testany_notify_impl(MPIR_Win * win, int first_id, int count, int *notification_id, int *flag)
{
    int mpi_errno = MPI_SUCCESS;
    look_t look = { win, first_id, count, notification_id };

    *flag = take_any(&look);
    if (!*flag) {
        mpi_errno = MPID_Progress_test(NULL);
        MPIR_ERR_CHECK(mpi_errno);
        *flag = take_any(&look);
    }

  fn_fail:
    return mpi_errno;
}

int MPIR_Win_test_notify_impl(MPIR_Win * win, int notification_id, int *flag)
{
    int which;

    return MPIR_Win_testany_notify_impl(win, notification_id, 1, &which, flag);
}

int MPIR_Win_set_counter_impl(MPIR_Win * win, int counter_id, int arrivals, volatile int *flag)
{
    int mpi_errno = MPI_SUCCESS;
    bool armed;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    armed = pm_window_arm(MPIDI_COMPOSITE_WIN(win).window, counter_id, arrivals, flag);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    MPIR_ERR_CHKANDJUMP1(!armed, mpi_errno, MPI_ERR_ARG, "**counter_armed", "**counter_armed %d", counter_id);

  fn_fail:
    return mpi_errno;
}

int MPIR_Win_wait_counter_impl(MPIR_Win * win, int counter_id, int arrivals)
{
    int mpi_errno = MPI_SUCCESS;
    bool armed;
    look_t look = { win, counter_id, arrivals, NULL };

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    armed = pm_window_is_armed(MPIDI_COMPOSITE_WIN(win).window, counter_id);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    MPIR_ERR_CHKANDJUMP1(armed, mpi_errno, MPI_ERR_ARG, "**counter_armed", "**counter_armed %d", counter_id);
    mpi_errno = wait_until(take_count, &look);

  fn_fail:
    return mpi_errno;
}
