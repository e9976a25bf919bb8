/* MPI's one-sided operations, rank 0 on memory of rank 1, with each way of synchronising; 8 B and more; on memory that MPI allocates and on
 * memory of the user (`_create`). The target waits inside MPI, or takes part where the synchronisation asks it to. With more than two ranks:
 * all ranks but the last on the memory of the last, one counter and 1 KB at different places. */
#include "bench.h"

struct window {
    MPI_Win win;
    char *origin, *result;
    int size;
    MPI_Group other;
};

#define BODY(name) static void name(const struct bench *bench, long iterations, void *context)
#define AS_ORIGIN struct window *w = context; const int count = w->size / 8; (void) count; if (bench->rank != 0) return

BODY(put_flush) { AS_ORIGIN; for (long i = 0; i < iterations; i++) { MPI_Put(w->origin, w->size, MPI_CHAR, 1, 0, w->size, MPI_CHAR, w->win); MPI_Win_flush(1, w->win); } }
BODY(get_flush) { AS_ORIGIN; for (long i = 0; i < iterations; i++) { MPI_Get(w->origin, w->size, MPI_CHAR, 1, 0, w->size, MPI_CHAR, w->win); MPI_Win_flush(1, w->win); } }
BODY(acc_flush) { AS_ORIGIN; for (long i = 0; i < iterations; i++) { MPI_Accumulate(w->origin, count, MPI_LONG, 1, 0, count, MPI_LONG, MPI_SUM, w->win); MPI_Win_flush(1, w->win); } }
BODY(get_acc_flush) { AS_ORIGIN; for (long i = 0; i < iterations; i++) { MPI_Get_accumulate(w->origin, count, MPI_LONG, w->result, count, MPI_LONG, 1, 0, count, MPI_LONG, MPI_SUM, w->win); MPI_Win_flush(1, w->win); } }
BODY(fetch_flush) { AS_ORIGIN; for (long i = 0; i < iterations; i++) { MPI_Fetch_and_op(w->origin, w->result, MPI_LONG, 1, 0, MPI_SUM, w->win); MPI_Win_flush(1, w->win); } }
BODY(swap_flush) { AS_ORIGIN; static long nothing; for (long i = 0; i < iterations; i++) { MPI_Compare_and_swap(w->origin, &nothing, w->result, MPI_LONG, 1, 0, w->win); MPI_Win_flush(1, w->win); } }
/* Many, then one flush: bandwidth. */
enum { in_flight = 64 };
BODY(put_stream) { AS_ORIGIN; for (long i = 0; i < iterations; i++) { for (int j = 0; j < in_flight; j++) MPI_Put(w->origin, w->size, MPI_CHAR, 1, 0, w->size, MPI_CHAR, w->win); MPI_Win_flush(1, w->win); } }
BODY(get_stream) { AS_ORIGIN; for (long i = 0; i < iterations; i++) { for (int j = 0; j < in_flight; j++) MPI_Get(w->origin, w->size, MPI_CHAR, 1, 0, w->size, MPI_CHAR, w->win); MPI_Win_flush(1, w->win); } }

#define LOCKED(name, operation) BODY(name) { AS_ORIGIN; for (long i = 0; i < iterations; i++) { MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, w->win); operation; MPI_Win_unlock(1, w->win); } }
#define FENCED(name, operation) BODY(name) { struct window *w = context; for (long i = 0; i < iterations; i++) { if (bench->rank == 0) operation; MPI_Win_fence(0, w->win); } }
#define PUT_8 MPI_Put(w->origin, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, w->win)
#define GET_8 MPI_Get(w->origin, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, w->win)
#define ACC_8 MPI_Accumulate(w->origin, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, w->win)
LOCKED(put_lock, PUT_8)
LOCKED(get_lock, GET_8)
LOCKED(acc_lock, ACC_8)
FENCED(put_fence, PUT_8)
FENCED(get_fence, GET_8)
BODY(put_pscw)
{
    struct window *w = context;
    for (long i = 0; i < iterations; i++) {
        if (bench->rank == 0) {
            MPI_Win_start(w->other, 0, w->win);
            PUT_8;
            MPI_Win_complete(w->win);
        } else {
            MPI_Win_post(w->other, 0, w->win);
            MPI_Win_wait(w->win);
        }
    }
}

static void measure(const struct bench *bench, struct window *w, const char *suffix)
{
    static const struct {
        const char *name;
        bench_body body;
        int only_8;
        int lock_all;
        int when_named;         /* Debian's Open MPI dies in it: it is run by itself */
    } rows[] = {
        {"put_flush", put_flush, 0, 1, 0}, {"get_flush", get_flush, 0, 1, 0}, {"acc_flush", acc_flush, 1, 1, 0}, {"get_acc_flush", get_acc_flush, 1, 1, 0},
        {"fetch_flush", fetch_flush, 1, 1, 0}, {"swap_flush", swap_flush, 1, 1, 1}, {"put_lock", put_lock, 1, 0, 0}, {"get_lock", get_lock, 1, 0, 0},
        {"acc_lock", acc_lock, 1, 0, 0}, {"put_fence", put_fence, 1, 0, 0}, {"get_fence", get_fence, 1, 0, 0}, {"put_pscw", put_pscw, 1, 0, 0},
        {"put_stream", put_stream, 0, 1, 0}, {"get_stream", get_stream, 0, 1, 0},
    };
    char metric[64];

    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        snprintf(metric, sizeof metric, "%s%s", rows[row].name, suffix);
        if (bench->operation != NULL ? strcmp(bench->operation, metric) != 0 : rows[row].when_named)
            continue;
        if (rows[row].lock_all)
            MPI_Win_lock_all(0, w->win);
        else if (strstr(rows[row].name, "fence") != NULL)
            MPI_Win_fence(0, w->win);
        for (int i = 0; i < bench->size_count; i++) {
            const int is_stream = strstr(rows[row].name, "stream") != NULL;
            w->size = (int) bench->sizes[i];
            if (rows[row].only_8 && w->size != 8)
                continue;
            const double seconds = bench_measure(bench, rows[row].body, w, BENCH_TIME_OF_ROOT);
            if (is_stream)
                bench_emit(bench, metric, bench->sizes[i], in_flight * (double) w->size / seconds * 1e-9, "GB/s");
            else
                bench_emit(bench, metric, bench->sizes[i], seconds * 1e6, "us");
        }
        if (rows[row].lock_all)
            MPI_Win_unlock_all(w->win);
        else if (strstr(rows[row].name, "fence") != NULL)
            MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
    }
}

/* All but the last on the last. */
BODY(all_fetch) { struct window *w = context; if (bench->rank == bench->ranks - 1) return; for (long i = 0; i < iterations; i++) { MPI_Fetch_and_op(w->origin, w->result, MPI_LONG, bench->ranks - 1, 0, MPI_SUM, w->win); MPI_Win_flush(bench->ranks - 1, w->win); } }
BODY(all_acc) { struct window *w = context; if (bench->rank == bench->ranks - 1) return; for (long i = 0; i < iterations; i++) { MPI_Accumulate(w->origin, 128, MPI_LONG, bench->ranks - 1, 1024 * bench->rank, 128, MPI_LONG, MPI_SUM, w->win); MPI_Win_flush(bench->ranks - 1, w->win); } }

static void measure_crowd(const struct bench *bench, struct window *w)
{
    MPI_Win_lock_all(0, w->win);
    bench_emit(bench, "fetch_crowd", 8, bench_measure(bench, all_fetch, w, BENCH_TIME_OF_SLOWEST) * 1e6, "us");
    bench_emit(bench, "acc_crowd", 1024, bench_measure(bench, all_acc, w, BENCH_TIME_OF_SLOWEST) * 1e6, "us");
    MPI_Win_unlock_all(w->win);
}

int main(int argc, char **argv)
{
    struct bench bench;
    struct window w;
    MPI_Group all;
    char *memory;

    bench_init(&bench, "rma", "8,64,1024,4096,65536,1048576,4194304", 2, 64, &argc, &argv);
    size_t largest = bench_largest(&bench);
    if (largest < 1024 * (size_t) bench.ranks)
        largest = 1024 * (size_t) bench.ranks;
    w.origin = bench_buffer(&bench, largest);
    w.result = bench_buffer(&bench, largest);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    int other = 1 - bench.rank;
    if (bench.ranks == 2)
        MPI_Group_incl(all, 1, &other, &w.other);

    MPI_Win_allocate((MPI_Aint) largest, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &w.win);
    memset(memory, 0, largest);
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench.ranks == 2)
        measure(&bench, &w, "");
    else
        measure_crowd(&bench, &w);
    MPI_Win_free(&w.win);
    if (bench.ranks == 2) {
        memory = bench_buffer(&bench, largest);
        MPI_Win_create(memory, (MPI_Aint) largest, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
        measure(&bench, &w, "_create");
        MPI_Win_free(&w.win);
        free(memory);
        MPI_Group_free(&w.other);
    }
    MPI_Group_free(&all);
    free(w.origin);
    free(w.result);
    bench_finalize(&bench);
    return 0;
}
