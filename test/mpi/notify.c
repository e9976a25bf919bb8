/* Usage: notify [--rounds N] [PART...]
 *
 * Writes that notify, count or set flags, part by part; without PART all but `threads` and `all_threads` (MPI_THREAD_MULTIPLE) and
 * `computing` (needs a progress thread). N of --rounds is how often the litmus tests exchange. Exit status 0 only when all was as it must be. */
#include "expect.h"

#include <pthread.h>

static long rounds = 20000;
enum { bytes = 1 << 20 };

/* A call that lets everything go on. */
static void let_go_on(void)
{
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void wait_for(const volatile int *flag)
{
    while (!load(flag))
        let_go_on();
}

/* --- windows ------------------------------------------------------------------------------------------------------------- */

enum flavor { ALLOCATED, CREATED, DYNAMIC, flavors };
static const char *const flavor_names[flavors] = { "allocated", "created", "dynamic" };

struct window {
    MPI_Win win;
    char *memory;
    MPI_Aint *bases;            /* of each rank: 0, or an address where the window is dynamic */
};

static struct window open_window(enum flavor flavor)
{
    struct window window = { MPI_WIN_NULL, NULL, calloc((size_t) ranks, sizeof(MPI_Aint)) };
    if (flavor == ALLOCATED) {
        MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.memory, &window.win);
    } else {
        window.memory = malloc(bytes);
        if (flavor == CREATED) {
            MPIX_Win_create_notify(window.memory, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
        } else {
            MPI_Aint base;
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
            MPI_Win_attach(window.win, window.memory, bytes);
            MPI_Get_address(window.memory, &base);
            MPI_Allgather(&base, 1, MPI_AINT, window.bases, 1, MPI_AINT, MPI_COMM_WORLD);
        }
    }
    memset(window.memory, 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window.win);
    return window;
}

static void close_window(struct window *window, enum flavor flavor)
{
    MPI_Win_unlock_all(window->win);
    if (flavor == DYNAMIC) {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_detach(window->win, window->memory);
    }
    MPI_Win_free(&window->win);
    if (flavor != ALLOCATED)
        free(window->memory);
    free(window->bases);
}

/* --- litmus: whoever sees the notification sees the data ------------------------------------------------------------------ */

static void litmus_pair(const struct window *window, int peer, int first)
{
    enum { words = 16, places = 64 };
    volatile uint64_t *memory = (volatile uint64_t *) window->memory;
    for (long i = 1; i <= rounds; i++) {
        uint64_t data[words];
        int place = (int) (mix((uint64_t) i) % places);
        for (int side = 0; side < 2; side++) {
            if (side == first) {
                for (int j = 0; j < words; j++)
                    data[j] = (uint64_t) i * words + (uint64_t) j;
                MPIX_Put_notify(data, words, MPI_UINT64_T, peer, window->bases[peer] + place * words * 8, words, MPI_UINT64_T,
                                window->win, place);
                MPI_Win_flush_local(peer, window->win);
            } else {
                MPIX_Win_wait_notify(window->win, place);
                for (int j = words - 1; j >= 0; j--)
                    if (memory[place * words + j] != (uint64_t) i * words + (uint64_t) j) {
                        fault("round %ld: word %d is %llu", i, j, (unsigned long long) memory[place * words + j]);
                        break;
                    }
            }
        }
    }
}

static void litmus(void)
{
    for (int flavor = 0; flavor < flavors; flavor++) {
        struct window window = open_window(flavor);
        if (rank < ranks / 2 * 2)
            litmus_pair(&window, rank ^ 1, rank & 1);
        close_window(&window, flavor);
    }
}

/* The same with a flag that the target reads as plain memory. Several writes are under way: each has a flag of its own. */
static void litmus_flag(void)
{
    enum { words = 8, places = 32, stride = 128 };
    struct window window = open_window(ALLOCATED);
    int peer = rank ^ 1, first = rank & 1;
    for (long i = 0; i < rounds / places && peer < ranks; i++)
        for (int side = 0; side < 2; side++)
            for (int place = 0; place < places; place++) {
                char *here = window.memory + place * stride;
                int value = (int) i + 1;
                if (side == first) {
                    uint64_t data[places][words];
                    for (int j = 0; j < words; j++)
                        data[place][j] = (uint64_t) value * words + (uint64_t) j;
                    MPIX_Put_flag(data[place], words, MPI_UINT64_T, peer, place * stride, words, MPI_UINT64_T, window.win,
                                  place * stride + words * 8, value);
                    MPI_Win_flush_local(peer, window.win);
                } else {
                    while (load((volatile int *) (here + words * 8)) != value)
                        let_go_on();
                    for (int j = 0; j < words; j++)
                        EXPECT(((volatile uint64_t *) here)[j] == (uint64_t) value * words + (uint64_t) j, "round %ld: word %d is wrong", i, j);
                }
            }
    MPI_Barrier(MPI_COMM_WORLD);
    close_window(&window, ALLOCATED);
}

/* --- sizes and datatypes -------------------------------------------------------------------------------------------------- */

static void fill(char *buffer, size_t size, uint64_t key)
{
    for (size_t i = 0; i < size; i++)
        buffer[i] = (char) (mix(key) >> i % 8 * 8 ^ i * 131);
}

static void sizes(void)
{
    static const int all[] = { 0, 1, 7, 8, 100, 1024, 4096, 16384, 16385, 100000, 524288 };
    char *data = malloc(bytes), *expected = malloc(bytes);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int flavor = 0; flavor < flavors; flavor++) {
        struct window window = open_window(flavor);
        for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
            const int size = all[i], offset = (int) i * 8;
            fill(data, (size_t) size, (uint64_t) (rank * 100) + i);
            MPIX_Put_notify(data, size, MPI_BYTE, next, window.bases[next] + offset, size, MPI_BYTE, window.win, 1);
            MPIX_Win_wait_notify(window.win, 1);
            fill(expected, (size_t) size, (uint64_t) (before * 100) + i);
            EXPECT(memcmp(window.memory + offset, expected, (size_t) size) == 0, "%s: %d bytes are wrong", flavor_names[flavor], size);
            MPI_Win_flush(next, window.win);
            MPI_Barrier(MPI_COMM_WORLD);
            memset(data, 0, (size_t) size);
            MPIX_Get_notify(data, size, MPI_BYTE, next, window.bases[next] + offset, size, MPI_BYTE, window.win, 2);
            MPI_Win_flush(next, window.win);
            fill(expected, (size_t) size, (uint64_t) (rank * 100) + i);
            EXPECT(memcmp(data, expected, (size_t) size) == 0, "%s: %d bytes read back are wrong", flavor_names[flavor], size);
            MPIX_Win_wait_notify(window.win, 2);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        close_window(&window, flavor);
    }
    free(data);
    free(expected);
}

/* Columns of a matrix become rows, and columns of another one. */
static void datatypes(void)
{
    enum { n = 20 };
    int matrix[n][n], next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Datatype column, wide;
    MPI_Type_vector(n, 1, n, MPI_INT, &column);
    MPI_Type_vector(n, 1, 2 * n, MPI_INT, &wide);
    MPI_Type_commit(&column);
    MPI_Type_commit(&wide);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            matrix[i][j] = rank * 1000 + i * n + j;
    for (int flavor = 0; flavor < flavors; flavor++) {
        struct window window = open_window(flavor);
        int *memory = (int *) window.memory;
        MPIX_Put_notify(&matrix[0][3], 1, column, next, window.bases[next], n, MPI_INT, window.win, 10);
        MPIX_Put_notify(&matrix[4][0], n, MPI_INT, next, window.bases[next] + 4096, 1, wide, window.win, 11);
        MPIX_Put_notify(&matrix[0][5], 1, column, next, window.bases[next] + 16384, 1, wide, window.win, 12);
        MPIX_Win_wait_notify(window.win, 12);
        MPIX_Win_wait_notify(window.win, 11);
        MPIX_Win_wait_notify(window.win, 10);
        for (int i = 0; i < n; i++) {
            EXPECT(memory[i] == before * 1000 + i * n + 3, "%s: column to row, %d", flavor_names[flavor], i);
            EXPECT(memory[1024 + i * 2 * n] == before * 1000 + 4 * n + i, "%s: row to column, %d", flavor_names[flavor], i);
            EXPECT(memory[4096 + i * 2 * n] == before * 1000 + i * n + 5, "%s: column to column, %d", flavor_names[flavor], i);
        }
        MPI_Win_flush_all(window.win);
        MPI_Barrier(MPI_COMM_WORLD);
        int back[n][n];
        memset(back, 0, sizeof back);
        MPIX_Get_notify(&back[0][7], 1, column, next, window.bases[next] + 16384, 1, wide, window.win, 13);
        MPI_Win_flush(next, window.win);
        for (int i = 0; i < n; i++)
            EXPECT(back[i][7] == rank * 1000 + i * n + 5, "%s: a column read back, %d", flavor_names[flavor], i);
        MPIX_Win_wait_notify(window.win, 13);
        close_window(&window, flavor);
    }
    MPI_Type_free(&column);
    MPI_Type_free(&wide);
}

/* --- counters under contention -------------------------------------------------------------------------------------------- */

static void counters(void)
{
    enum { times = 200 };
    for (int flavor = 0; flavor < flavors; flavor++) {
        struct window window = open_window(flavor);
        volatile int fired = 7;
        int expected = (ranks - 1) * times;
        if (rank == 0 && expected > 0) {
            MPIX_Win_set_counter(window.win, 3, expected, &fired);
            EXPECT(fired == 0 || fired == 1, "the flag is %d", fired);
        }
        for (int i = 0; i < times && rank != 0; i++) {
            int value = rank * times + i;
            MPIX_Put_countup(&value, 1, MPI_INT, 0, window.bases[0] + 4 * value, 1, MPI_INT, window.win, 3);
            MPI_Win_flush_local(0, window.win);
            MPIX_Put_countup(NULL, 0, MPI_INT, 0, window.bases[0], 0, MPI_INT, window.win, 4 + rank % 2);
        }
        if (rank == 0 && expected > 0) {
            wait_for(&fired);
            for (int i = times; i < ranks * times; i++)
                EXPECT(((int *) window.memory)[i] == i, "%s: word %d is not there although all have counted", flavor_names[flavor], i);
            int odd = ranks / 2 * times, even = (ranks - 1) / 2 * times;
            for (int i = 0; i < times; i++)
                MPIX_Win_wait_counter(window.win, 5, odd / times);
            MPIX_Win_wait_counter(window.win, 4, even);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        close_window(&window, flavor);
    }
}

/* --- any of a range; one word; everything has happened ------------------------------------------------------------------- */

static void any(void)
{
    struct window window = open_window(ALLOCATED);
    int flag, which = -1;
    MPIX_Win_testany_notify(window.win, 0, MPIX_MAX_NOTIFICATIONS, &which, &flag);
    EXPECT(!flag, "there is a notification before any was sent");
    MPI_Barrier(MPI_COMM_WORLD);
    for (int target = 0; target < ranks; target++)
        for (int i = 0; i < 3; i++)
            MPIX_Put_notify(NULL, 0, MPI_BYTE, target, 0, 0, MPI_BYTE, window.win, 100 + rank);
    int seen[64] = { 0 };
    for (int i = 0; i < 3 * ranks; i++) {
        MPIX_Win_waitany_notify(window.win, 100, ranks, &which);
        EXPECT(which >= 100 && which < 100 + ranks, "notification %d", which);
        seen[which - 100]++;
    }
    for (int i = 0; i < ranks; i++)
        EXPECT(seen[i] == 3, "%d notifications of rank %d", seen[i], i);
    MPIX_Win_test_notify(window.win, 100 + rank, &flag);
    EXPECT(!flag, "one too many");
    MPI_Barrier(MPI_COMM_WORLD);
    close_window(&window, ALLOCATED);
}

static void one_word(void)
{
    for (int flavor = 0; flavor < flavors; flavor++) {
        struct window window = open_window(flavor);
        for (int i = 1; i <= 100; i++) {
            volatile int done = 7;
            for (int target = 0; target < ranks; target++)
                MPIX_Write1(target, window.bases[target] + 4 * rank, i, window.win);
            MPIX_Win_sync_flag(window.win, &done);
            wait_for(&done);
            MPI_Barrier(MPI_COMM_WORLD);
            for (int source = 0; source < ranks; source++)
                EXPECT(((volatile int *) window.memory)[source] == i, "%s: a word is not there although its writer has synced", flavor_names[flavor]);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        close_window(&window, flavor);
    }
}

/* Everything an epoch wrote is there at its end. */
static void epochs(void)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int flavor = 0; flavor < flavors; flavor++) {
        struct window window = open_window(flavor);
        MPI_Win_unlock_all(window.win);
        MPI_Win_fence(0, window.win);
        for (int i = 1; i <= 20; i++) {
            int value = rank * 100 + i;
            MPIX_Put_flag(&value, 1, MPI_INT, next, window.bases[next], 1, MPI_INT, window.win, window.bases[next] + 64, i);
            MPI_Win_fence(0, window.win);
            EXPECT(((volatile int *) window.memory)[0] == before * 100 + i && ((volatile int *) window.memory)[16] == i,
                   "%s: not there after the fence", flavor_names[flavor]);
            MPI_Win_fence(0, window.win);
        }
        MPI_Win_fence(MPI_MODE_NOSUCCEED, window.win);
        MPI_Win_lock_all(0, window.win);
        close_window(&window, flavor);
    }
}

/* --- the rest of the table ------------------------------------------------------------------------------------------------ */

static void copies(void)
{
    for (int flavor = 0; flavor < flavors; flavor++) {
        struct window window = open_window(flavor);
        int *memory = (int *) window.memory;
        int source = (rank + 1) % ranks, target = (rank + 2) % ranks;
        int from = (rank + ranks - 1) % ranks;  /* whose memory comes to us: the one before */
        for (int i = 0; i < 5000; i++)
            memory[i] = rank * 10000 + i;
        MPI_Barrier(MPI_COMM_WORLD);
        MPIX_Win_copy(source, window.bases[source], target, window.bases[target] + 40000, 5000, MPI_INT, window.win, 5);
        MPIX_Win_wait_notify(window.win, 5);
        for (int i = 0; i < 5000; i++)
            EXPECT(memory[10000 + i] == from * 10000 + i, "%s: word %d is %d", flavor_names[flavor], i, memory[10000 + i]);
        MPI_Win_flush_all(window.win);
        MPI_Barrier(MPI_COMM_WORLD);
        close_window(&window, flavor);
    }
}

static void broadcasts(void)
{
    struct window window = open_window(ALLOCATED);
    volatile int *flag = (volatile int *) (window.memory + 8000);
    for (int root = 0; root < ranks; root++) {
        char data[1000];
        fill(data, sizeof data, (uint64_t) root);
        MPIX_Win_bcast_discard(window.win, rank == 1 && root % 2 == 1);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == root) {
            MPIX_Win_bcast(data, sizeof data, MPI_BYTE, 100, 8000, root + 1, window.win);
            MPI_Win_flush_all(window.win);
        }
        if (rank == 1 && root % 2 == 1) {
            MPI_Barrier(MPI_COMM_WORLD);
            EXPECT(*flag == root, "a broadcast was not discarded");
        } else {
            while (load(flag) != root + 1)
                let_go_on();
            EXPECT(memcmp(window.memory + 100, data, sizeof data) == 0, "what rank %d broadcast is wrong", root);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    MPIX_Win_bcast_discard(window.win, 0);
    close_window(&window, ALLOCATED);
}

static void rendezvous(void)
{
    enum { keys = 10, size = 30000 };
    for (int flavor = 0; flavor < CREATED + 1; flavor++) {
        struct window window = open_window(flavor);
        static char data[keys][size], expected[size];
        volatile int sent[keys], there[keys];
        int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
        for (int key = 0; key < keys; key++) {
            fill(data[key], size, (uint64_t) (rank * keys + key));
            if (rank % 2 == 0)
                MPIX_Win_offer(data[key], size, MPI_BYTE, next, key, window.win, &sent[key]);
        }
        for (int key = keys - 1; key >= 0; key--)
            MPIX_Win_accept(before, key, key * size, size, MPI_BYTE, window.win, &there[key]);
        for (int key = 0; key < keys && rank % 2 == 1; key++)
            MPIX_Win_offer(data[key], size, MPI_BYTE, next, key, window.win, &sent[key]);
        for (int key = 0; key < keys; key++) {
            wait_for(&there[key]);
            fill(expected, size, (uint64_t) (before * keys + key));
            EXPECT(memcmp(window.memory + key * size, expected, size) == 0, "what came under key %d is wrong", key);
            wait_for(&sent[key]);
        }
        close_window(&window, flavor);
    }
}

/* --- mistakes: an error, and nothing is written --------------------------------------------------------------------------- */

static void mistakes(void)
{
    struct window window = open_window(ALLOCATED);
    MPI_Win win = window.win;
    int value = 1, flag, target = (rank + 1) % ranks;
    volatile int fired, again;
    MPI_Datatype column;
    MPI_Type_vector(4, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    expect_class(MPIX_Put_notify(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win, -1), MPI_ERR_ARG, "notification -1");
    expect_class(MPIX_Put_notify(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win, MPIX_MAX_NOTIFICATIONS), MPI_ERR_ARG, "notification 1024");
    expect_class(MPIX_Win_wait_notify(win, MPIX_MAX_NOTIFICATIONS), MPI_ERR_ARG, "waiting for notification 1024");
    expect_class(MPIX_Win_test_notify(win, -1, &flag), MPI_ERR_ARG, "testing notification -1");
    expect_class(MPIX_Win_waitany_notify(win, 1000, 100, &flag), MPI_ERR_ARG, "a range beyond the last");
    expect_class(MPIX_Put_countup(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win, MPIX_MAX_COUNTERS), MPI_ERR_ARG, "counter 256");
    expect_class(MPIX_Put_notify(&value, 1, MPI_INT, target, bytes - 2, 1, MPI_INT, win, 0), MPI_ERR_RMA_RANGE, "data beyond the window");
    expect_class(MPIX_Put_flag(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win, bytes, 1), MPI_ERR_RMA_RANGE, "a flag beyond the window");
    expect_class(MPIX_Put_flag(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win, 2, 1), MPI_ERR_DISP, "a flag between words");
    expect_class(MPIX_Write1(target, bytes, 1, win), MPI_ERR_RMA_RANGE, "a word beyond the window");
    MPI_Win wide;
    MPI_Win_create(window.memory + 1, 64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &wide);
    MPI_Win_set_errhandler(wide, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, wide);
    expect_class(MPIX_Write1(target, (MPI_Aint) 1 << 61, 1, wide), MPI_ERR_RMA_RANGE, "a displacement beyond all memory");
    expect_class(MPIX_Write1(target, 0, 1, wide), MPI_ERR_DISP, "a flag between words, in a window that begins there");
    MPI_Win_unlock_all(wide);
    MPI_Win_free(&wide);
    expect_class(MPIX_Put_notify(&value, 1, MPI_INT, target, 0, 2, MPI_INT, win, 0), MPI_ERR_SIZE, "different sizes");
    expect_class(MPIX_Put_notify(&value, 1, MPI_INT, ranks, 0, 1, MPI_INT, win, 0), MPI_ERR_RANK, "no such rank");
    expect_class(MPIX_Put_notify(&value, -1, MPI_INT, target, 0, 1, MPI_INT, win, 0), MPI_ERR_COUNT, "a negative count");
    expect_class(MPIX_Put_notify(&value, 1, MPI_DATATYPE_NULL, target, 0, 1, MPI_INT, win, 0), MPI_ERR_TYPE, "no datatype");
    expect_class(MPIX_Win_copy(target, 0, target, bytes, 1, MPI_INT, win, 0), MPI_ERR_RMA_RANGE, "a copy beyond the window");
    expect_class(MPIX_Win_copy(target, 0, target, 0, 1, column, win, 0), MPI_ERR_TYPE, "a copy of a column");
    expect_class(MPIX_Win_bcast(&value, 1, MPI_INT, 0, bytes, 1, win), MPI_ERR_RMA_RANGE, "a broadcast's flag beyond the window");
    expect_class(MPIX_Win_accept(target, 1, bytes, 1, MPI_INT, win, &fired), MPI_ERR_RMA_RANGE, "room beyond the window");
    expect_class(MPIX_Win_set_counter(win, 1, 1, NULL), MPI_ERR_ARG, "no flag");
    MPIX_Win_set_counter(win, 1, 1, &fired);
    expect_class(MPIX_Win_set_counter(win, 1, 1, &again), MPI_ERR_ARG, "a counter armed twice");
    expect_class(MPIX_Win_wait_counter(win, 1, 1), MPI_ERR_ARG, "waiting for an armed counter");
    expect_class(MPIX_Put_notify(&value, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_WIN_NULL, 0), MPI_ERR_WIN, "no window");
    EXPECT(MPIX_Put_notify(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, 0) == MPI_SUCCESS, "MPI_PROC_NULL");
    MPIX_Win_test_notify(win, 0, &flag);
    EXPECT(!flag, "a mistake notified");
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT(((volatile int *) window.memory)[0] == 0 && fired == 0, "a mistake wrote");
    MPI_Win_unlock_all(win);
    expect_class(MPIX_Put_notify(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win, 0), MPI_ERR_RMA_SYNC, "no epoch");
    MPI_Win_lock_all(0, win);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Type_free(&column);
    close_window(&window, ALLOCATED);
}

/* A window outlives the communicator it was made from, whose number another one gets. */
static void outliving(void)
{
    MPI_Win wins[2];
    int *memories[2], next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int i = 0; i < 2; i++) {
        MPI_Comm copy;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, copy, &memories[i], &wins[i]);
        MPI_Comm_free(&copy);
        MPI_Win_lock_all(0, wins[i]);
    }
    for (int i = 0; i < 2; i++) {
        int value = rank * 2 + i;
        MPIX_Put_notify(&value, 1, MPI_INT, next, 0, 1, MPI_INT, wins[i], i);
        MPIX_Win_wait_notify(wins[i], i);
        EXPECT(*memories[i] == before * 2 + i, "window %d has %d", i, *memories[i]);
        MPI_Win_flush_all(wins[i]);
    }
    for (int i = 0; i < 2; i++) {
        MPI_Win_unlock_all(wins[i]);
        MPI_Win_free(&wins[i]);
    }
}

/* Columns with long runs over UCX: the last run must not overtake the others. */
static void long_runs(void)
{
    enum { runs = 4, run = 80000 };
    static char data[2 * runs * run], expected[2 * runs * run];
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Datatype spread;
    MPI_Type_vector(runs, run, 2 * run, MPI_BYTE, &spread);
    MPI_Type_commit(&spread);
    struct window window = open_window(ALLOCATED);
    for (int i = 0; i < 30; i++) {
        fill(data, sizeof data, (uint64_t) (rank * 1000 + i));
        fill(expected, sizeof expected, (uint64_t) (before * 1000 + i));
        MPIX_Put_notify(data, 1, spread, next, 0, 1, spread, window.win, 3);
        MPIX_Win_wait_notify(window.win, 3);
        for (int j = 0; j < runs; j++)
            EXPECT(memcmp(window.memory + 2 * j * run, expected + 2 * j * run, run) == 0, "round %d: run %d is not there", i, j);
        MPI_Win_flush(next, window.win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    close_window(&window, ALLOCATED);
    MPI_Type_free(&spread);
}

/* More windows than there is room for in shared memory; their numbers are used again. */
static void many_windows(void)
{
    enum { most = 500 };
    static MPI_Win wins[most];
    static int *memories[most];
    int next = (rank + 1) % ranks, flag;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < most; i++) {
            MPI_Win_allocate(sizeof(int), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memories[i], &wins[i]);
            MPI_Win_lock_all(0, wins[i]);
            MPIX_Win_test_notify(wins[i], 7, &flag);
            EXPECT(!flag, "a window has the notification of another");
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < most; i++) {
            int value = i + rank;
            MPIX_Put_notify(&value, 1, MPI_INT, next, 0, 1, MPI_INT, wins[i], 7);
            MPIX_Win_wait_notify(wins[i], 7);
            EXPECT(*memories[i] == i + (rank + ranks - 1) % ranks, "window %d has %d", i, *memories[i]);
            MPIX_Put_notify(NULL, 0, MPI_INT, next, 0, 0, MPI_INT, wins[i], 7);      /* never taken */
            MPI_Win_flush(next, wins[i]);
        }
        for (int i = 0; i < most; i++) {
            MPI_Win_unlock_all(wins[i]);
            MPI_Win_free(&wins[i]);
        }
    }
}

/* --- threads -------------------------------------------------------------------------------------------------------------- */

static struct window thread_window;

static void *exchange(void *which)
{
    int id = *(int *) which, peer = rank ^ 1;
    for (int i = 0; i < 2000 && peer < ranks; i++) {
        int value = i;
        MPIX_Put_notify(&value, 1, MPI_INT, peer, id * 64, 1, MPI_INT, thread_window.win, id);
        MPIX_Win_wait_notify(thread_window.win, id);
        EXPECT(((volatile int *) thread_window.memory)[id * 16] >= i, "thread %d: %d in round %d", id,
               ((volatile int *) thread_window.memory)[id * 16], i);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t threads[3];
    int ids[3];
    thread_window = open_window(ALLOCATED);
    for (int i = 0; i < 3; i++) {
        ids[i] = i;
        pthread_create(&threads[i], NULL, exchange, &ids[i]);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    close_window(&thread_window, ALLOCATED);
}

/* Each kind of call in a thread of its own, all on one window: places, numbers and keys of a kind are its own, too. */
enum { turns = 40, words = 64, row = words * (int) sizeof(int), share = turns * row };

static void check_row(const int *here, int first, const char *what, int turn)
{
    for (int i = 0; i < words; i++)
        if (here[i] != first + i) {
            fault("%s, turn %d: word %d is %d, not %d", what, turn, i, here[i], first + i);
            return;
        }
}

static void make_row(int *here, int first)
{
    for (int i = 0; i < words; i++)
        here[i] = first + i;
}

static void *copying(void *unused)
{
    int source = (rank + 1) % ranks, target = (rank + 2) % ranks, from = (rank + ranks - 1) % ranks;
    for (int turn = 0; turn < turns; turn++) {
        MPIX_Win_copy(source, 4 * share, target, turn * row, words, MPI_INT, thread_window.win, 10);
        MPIX_Win_wait_notify(thread_window.win, 10);
        check_row((int *) (thread_window.memory + turn * row), from * 1000, "copy", turn);
    }
    return unused;
}

static void *broadcasting(void *unused)
{
    for (int turn = 0; turn < turns / 2; turn++) {
        int data[words], place = share + turn * 2 * row;
        make_row(data, turn * 7);
        if (turn % ranks == rank)
            MPIX_Win_bcast(data, words, MPI_INT, place, place + row, turn + 1, thread_window.win);
        while (load((volatile int *) (thread_window.memory + place + row)) != turn + 1)
            let_go_on();
        check_row((int *) (thread_window.memory + place), turn * 7, "broadcast", turn);
        if (turn % ranks == rank)
            MPI_Win_flush_all(thread_window.win);
    }
    return unused;
}

static void *offering(void *unused)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int turn = 0; turn < turns; turn++) {
        volatile int sent = 0, there = 0;
        int data[words];
        make_row(data, rank * 100 + turn);
        MPIX_Win_offer(data, words, MPI_INT, next, turn, thread_window.win, &sent);
        MPIX_Win_accept(before, turn, 2 * share + turn * row, words, MPI_INT, thread_window.win, &there);
        wait_for(&there);
        check_row((int *) (thread_window.memory + 2 * share + turn * row), before * 100 + turn, "offer", turn);
        wait_for(&sent);
    }
    return unused;
}

static void *counting(void *unused)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int turn = 0; turn < turns; turn++) {
        int data[words];
        make_row(data, rank * 10 + turn);
        MPIX_Put_countup(data, words, MPI_INT, next, 3 * share + turn * row, words, MPI_INT, thread_window.win, 11);
        MPIX_Put_countup(NULL, 0, MPI_INT, next, 0, 0, MPI_INT, thread_window.win, 11);
        MPI_Win_flush_local(next, thread_window.win);
        MPIX_Win_wait_counter(thread_window.win, 11, 2);
        check_row((int *) (thread_window.memory + 3 * share + turn * row), before * 10 + turn, "counter", turn);
    }
    return unused;
}

static void all_threads(void)
{
    static void *(*const kinds[]) (void *) = { copying, broadcasting, offering, counting };
    enum { count = sizeof kinds / sizeof kinds[0] };
    for (int flavor = 0; flavor < DYNAMIC; flavor++) {
        pthread_t threads[count];
        thread_window = open_window(flavor);
        make_row((int *) (thread_window.memory + 4 * share), rank * 1000);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < count; i++)
            pthread_create(&threads[i], NULL, kinds[i], NULL);
        for (int i = 0; i < count; i++)
            pthread_join(threads[i], NULL);
        MPI_Barrier(MPI_COMM_WORLD);
        close_window(&thread_window, flavor);
    }
}

/* With a progress thread counters fire and words come although nobody makes a call, for ever. */
static void computing(void)
{
    struct window window = open_window(CREATED);
    volatile int fired, *word = (volatile int *) window.memory;
    MPIX_Win_set_counter(window.win, 0, ranks, &fired);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int target = 0; target < ranks; target++)
        MPIX_Put_countup(NULL, 0, MPI_BYTE, target, 0, 0, MPI_BYTE, window.win, 0);
    MPIX_Write1((rank + 1) % ranks, 0, 5, window.win);
    while (!load(&fired) || load(word) != 5) {
    }
    MPI_Barrier(MPI_COMM_WORLD);
    close_window(&window, CREATED);
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        { "litmus", litmus, 2, 0 },
        { "litmus_flag", litmus_flag, 2, 0 },
        { "sizes", sizes, 1, 0 },
        { "datatypes", datatypes, 1, 0 },
        { "counters", counters, 1, 0 },
        { "any", any, 1, 0 },
        { "one_word", one_word, 1, 0 },
        { "epochs", epochs, 1, 0 },
        { "copies", copies, 1, 0 },
        { "broadcasts", broadcasts, 2, 0 },
        { "rendezvous", rendezvous, 1, 0 },
        { "mistakes", mistakes, 1, 0 },
        { "outliving", outliving, 1, 0 },
        { "long_runs", long_runs, 1, 0 },
        { "many_windows", many_windows, 1, 0 },
        { "threads", threads, 2, 1 },
        { "all_threads", all_threads, 2, 1 },
        { "computing", computing, 1, 1 },
    };
    int status, provided;
    MPI_Init_thread(&argc, &argv, is_named("threads", argc, argv) || is_named("all_threads", argc, argv) ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = atol(argv[i + 1]);
    status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
