/* Usage: huge PART, by two ranks or more
 *
 * One operation of more than 2^31 bytes. The buffers are that large and take little memory: the same few pages again and again, of
 * a number that no power of two is a multiple of, so that bytes that land 2^31 or 2^32 away from their place are noticed; the end has pages of its
 * own, so that bytes that do not come are, too. The part `late` is multicast to a rank that has no memory for what it does not receive, and must fail. */
#define _GNU_SOURCE
#include "expect.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { tag = 5, period = 63 << 20 };
static const MPI_Count size = ((MPI_Count) 1 << 31) + 12347;

/* Where the pages of `length` bytes end: behind them there is one that is there only once. */
static size_t behind(size_t length)
{
    return (length + period - 1) / period * period;
}

/* Where the pages begin that the end has for itself. */
static size_t tail_of(size_t length)
{
    return (length - (64 << 10)) / 4096 * 4096;
}

static unsigned char *folded(size_t length)
{
    const size_t tail = tail_of(length);
    int file = memfd_create("huge", 0);
    unsigned char *start = mmap(NULL, behind(length) + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int bad = file < 0 || ftruncate(file, period) != 0 || start == MAP_FAILED;

    for (size_t at = 0; !bad && at < behind(length); at += period)
        bad = mmap(start + at, period, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED;
    if (!bad)
        bad = mmap(start + tail, length / 4096 * 4096 + 4096 - tail, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED;
    if (bad) {
        perror("huge: a buffer of 2 GB of address space");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    close(file);
    return start;
}

static unsigned char byte_at(size_t place)
{
    place %= period;
    return (unsigned char) (mix(place / 4096) >> place % 8);
}

/* As if its first byte were the one at `shift`. */
static void fill_from(unsigned char *buffer, size_t length, size_t shift)
{
    for (size_t i = 0; i < period; i++)
        buffer[i] = byte_at(i + shift);
    for (size_t i = tail_of(length); i < length; i++)
        buffer[i] = byte_at(i + shift);
}

static void check_from(const unsigned char *buffer, size_t length, size_t shift)
{
    size_t i = 0, end = tail_of(length);

    while (i < period && buffer[i] == byte_at(i + shift))
        i++;
    EXPECT(i == period, "byte %zu of every %d is wrong", i, period);
    while (end < length && buffer[end] == byte_at(end + shift))
        end++;
    EXPECT(end == length, "byte %zu of %zu is wrong", end, length);
    while (end % 4096 != 0 && buffer[end] == 0)
        end++;
    EXPECT(end % 4096 == 0 || end < length, "byte %zu is written, behind all %zu", end, length);
}

static void fill(unsigned char *buffer)
{
    fill_from(buffer, size, 0);
}

static void empty(unsigned char *buffer)
{
    memset(buffer, 0, period);
    memset(buffer + tail_of(size), 0, size - tail_of(size));
}

static void check(const unsigned char *buffer)
{
    check_from(buffer, size, 0);
}

static void check_size(MPI_Status *status)
{
    MPI_Count got = -1;

    MPI_Get_elements_x(status, MPI_BYTE, &got);
    EXPECT(got == size, "the status has %lld bytes, not %lld", (long long) got, (long long) size);
}

static volatile int came;

static void *on_place(const MPIX_Am_message *message, void *state)
{
    EXPECT(message->size == size, "%lld bytes are announced", (long long) message->size);
    return state;
}

static void on_huge(const MPIX_Am_message *message, void *state)
{
    EXPECT(message->data == state, "the bytes are elsewhere");
    __atomic_store_n(&came, 1, __ATOMIC_RELEASE);
}

/* The parts on windows; false when it is none. Rank 1 gets it, and in wbcast all do. */
static int one_sided(unsigned char *buffer, MPI_Datatype large)
{
    static const char *const parts[] = { "put", "get", "flag", "countup", "copy", "wbcast", "offer", "mpi_put", "mpi_get", "accumulate", "get_accumulate" };
    enum { PARTS = sizeof parts / sizeof parts[0] };
    const MPI_Aint flag_at = (MPI_Aint) behind(size);
    volatile int sent = 0, there = 0, *word = (volatile int *) (buffer + flag_at);
    int which = 0, flag = 0;
    MPI_Win win;

    while (which < PARTS && strcmp(part, parts[which]) != 0)
        which++;
    if (which == PARTS)
        return 0;
    MPI_Win_create(buffer, flag_at + 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && which == 0)
        MPIX_Put_notify(buffer, 1, large, 1, 0, 1, large, win, 3);
    else if (rank == 1 && which == 1)
        MPIX_Get_notify(buffer, 1, large, 0, 0, 1, large, win, 3);
    else if (rank == 0 && which == 2)
        MPIX_Put_flag(buffer, 1, large, 1, 0, 1, large, win, flag_at, 1);
    else if (rank == 0 && which == 3)
        MPIX_Put_countup(buffer, 1, large, 1, 0, 1, large, win, 3);
    else if (rank == 0 && which == 4)
        MPIX_Win_copy(0, 0, 1, 0, 1, large, win, 3);
    else if (rank == 0 && which == 5)
        MPIX_Win_bcast(buffer, 1, large, 0, flag_at, 1, win);
    else if (rank == 0 && which == 6)
        MPIX_Win_offer(buffer, 1, large, 1, 9, win, &sent);
    else if (rank == 1 && which == 6)
        MPIX_Win_accept(0, 9, 0, 1, large, win, &there);
    else if (rank == 0 && which == 7)
        MPI_Put(buffer, 1, large, 1, 0, 1, large, win);
    else if (rank == 1 && which == 8)
        MPI_Get(buffer, 1, large, 0, 0, 1, large, win);
    else if (rank == 0 && which == 9)
        MPI_Accumulate(buffer, 1, large, 1, 0, 1, large, MPI_BOR, win);
    else if (rank == 1 && which == 10)
        MPI_Get_accumulate(NULL, 0, MPI_BYTE, buffer, 1, large, 0, 0, 1, large, MPI_NO_OP, win);

    if (rank == 1 && (which == 0 || which == 4))
        MPIX_Win_wait_notify(win, 3);
    else if (rank == 1 && which == 1)
        MPI_Win_flush(0, win);
    else if (rank == 1 && which == 3)
        MPIX_Win_wait_counter(win, 3, 1);
    if (which > 6) {
        MPI_Win_flush_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (which == 6 && rank < 2)
        word = rank == 0 ? &sent : &there;
    if (which == 5 || (which == 6 && rank < 2) || (which == 2 && rank == 1))
        while (load(word) == 0)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    if (rank == 1 || which == 5)
        check(buffer);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    return 1;
}

/* More of them. What is to be looked at then is in `*buffer`, so many bytes, as if the first were the one at `*shift`. */
static int other_collective(unsigned char **buffer, MPI_Datatype large, int *all, size_t *length, size_t *shift)
{
    MPI_Count counts[ranks], none[ranks];
    MPI_Aint places[ranks];
    MPI_Request request;
    unsigned char nothing = 0, *result;

    for (int i = 0; i < ranks; i++)
        counts[i] = none[i] = places[i] = 0;
    *all = 1;
    if (strcmp(part, "alltoallv") == 0) {
        /* Rank 0 has something for rank 1, and nobody else has anything for anyone. */
        *all = 0;
        counts[rank == 0 ? 1 : 0] = size;
        if (rank == 0)
            MPI_Alltoallv_c(*buffer, counts, places, MPI_BYTE, &nothing, none, places, MPI_BYTE, MPI_COMM_WORLD);
        else
            MPI_Alltoallv_c(&nothing, none, places, MPI_BYTE, *buffer, rank == 1 ? counts : none, places, MPI_BYTE, MPI_COMM_WORLD);
    } else if (strcmp(part, "reduce_scatter") == 0) {
        *all = 0;
        counts[1] = size;
        result = folded(size);
        MPI_Reduce_scatter_c(*buffer, result, counts, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        *buffer = result;
    } else if (strcmp(part, "reduce_scatter_block") == 0) {
        /* Together they are that many, or a few less. */
        const size_t block = (size_t) size / (size_t) ranks;
        *length = block, *shift = block * (size_t) rank % period;
        result = folded(block);
        MPI_Reduce_scatter_block_c(*buffer, result, (MPI_Count) block, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        *buffer = result;
    } else if (strcmp(part, "scan") == 0) {
        result = folded(size);
        MPI_Scan_c(*buffer, result, size, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        *buffer = result;
    } else if (strcmp(part, "iallreduce") == 0) {
        result = folded(size);
        MPI_Iallreduce_c(*buffer, result, size, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        *buffer = result;
    } else if (strcmp(part, "ibcast") == 0) {
        MPI_Ibcast(*buffer, 1, large, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(part, "persistent") == 0) {
        /* Started twice, and the second time it must all come again. */
        MPI_Bcast_init(*buffer, 1, large, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        for (int start = 0; start < 2; start++) {
            if (rank != 0)
                empty(*buffer);
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            if (start == 0)
                check(*buffer);
        }
        MPI_Request_free(&request);
    } else {
        return 0;
    }
    return 1;
}

/* The parts that are collectives of MPI; false when it is none. Rank 0 has it, and rank 1 gets it, or all do. */
static int collective(unsigned char *buffer, MPI_Datatype large)
{
    int counts[ranks], places[ranks], from_first = rank == 0, to_second = rank == 1, all = 0;
    size_t length = size, shift = 0;

    for (int i = 0; i < ranks; i++)
        counts[i] = places[i] = 0;
    if (strcmp(part, "mpi_bcast") == 0) {
        MPI_Bcast(buffer, 1, large, 0, MPI_COMM_WORLD);
        all = 1;
    } else if (strcmp(part, "gatherv") == 0) {
        counts[0] = 1;
        MPI_Gatherv(buffer, from_first, large, buffer, counts, places, large, 1, MPI_COMM_WORLD);
    } else if (strcmp(part, "scatterv") == 0) {
        counts[1] = 1;
        MPI_Scatterv(buffer, counts, places, large, buffer, to_second, large, 0, MPI_COMM_WORLD);
    } else if (strcmp(part, "allgatherv") == 0) {
        counts[0] = 1;
        MPI_Allgatherv(from_first ? MPI_IN_PLACE : buffer, 0, large, buffer, counts, places, large, MPI_COMM_WORLD);
        all = 1;
    } else if (strcmp(part, "reduce") == 0 || strcmp(part, "allreduce") == 0) {
        /* Others have zeros, and each page is written the same many times. */
        unsigned char *result = folded(size);
        all = part[0] == 'a';
        if (all)
            MPI_Allreduce_c(buffer, result, size, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        else
            MPI_Reduce_c(buffer, result, size, MPI_BYTE, MPI_BOR, 1, MPI_COMM_WORLD);
        buffer = result;
    } else if (!other_collective(&buffer, large, &all, &length, &shift)) {
        return 0;
    }
    if (all || to_second)
        check_from(buffer, length, shift);
    return 1;
}

/* The parts that are collectives of a bitmap; false when it is none. All are members. What a block has begins where the block will begin. In an
 * alltoall blocks arrive with gaps between them, so that what the rank has itself is wrong at every place. */
static int bitmap_collective(unsigned char *buffer, MPI_Datatype large, const MPIX_Bitmap * all)
{
    const size_t blocks = (size_t) size * (size_t) ranks, mine = (size_t) size * (size_t) rank % period;
    unsigned char *result;

    if (strcmp(part, "bitmap_reduce") == 0 || strcmp(part, "bitmap_allreduce") == 0) {
        result = folded(size);
        if (strcmp(part, "bitmap_reduce") == 0)
            MPIX_Bitmap_reduce(buffer, result, size, MPI_BYTE, MPI_BOR, 1, all, MPI_COMM_WORLD);
        else
            MPIX_Bitmap_allreduce(buffer, result, size, MPI_BYTE, MPI_BOR, all, MPI_COMM_WORLD);
        if (rank == 1 || strcmp(part, "bitmap_allreduce") == 0)
            check(result);
        return 1;
    }
    if (strncmp(part, "bitmap_", 7) != 0)
        return 0;
    buffer = folded(blocks + period);
    result = folded(blocks);
    fill_from(buffer, blocks + period, 0);
    if (strcmp(part, "bitmap_gather") == 0) {
        MPIX_Bitmap_gather(buffer + mine, 1, large, result, 1, large, 0, all, MPI_COMM_WORLD);
        if (rank == 0)
            check_from(result, blocks, 0);
    } else if (strcmp(part, "bitmap_allgather") == 0) {
        MPIX_Bitmap_allgather(buffer + mine, 1, large, result, 1, large, all, MPI_COMM_WORLD);
        check_from(result, blocks, 0);
    } else if (strcmp(part, "bitmap_scatter") == 0) {
        result = folded(size);
        MPIX_Bitmap_scatter(buffer, 1, large, result, 1, large, 0, all, MPI_COMM_WORLD);
        check_from(result, size, mine);
    } else if (strcmp(part, "bitmap_alltoall") == 0) {
        const size_t stride = (size_t) size + 12288;
        MPI_Datatype apart;

        MPI_Type_create_resized(large, 0, (MPI_Aint) stride, &apart);
        MPI_Type_commit(&apart);
        result = folded(stride * (size_t) (ranks - 1) + (size_t) size);
        fill_from(buffer, blocks + period, stride * (size_t) rank % period);
        MPIX_Bitmap_alltoall(buffer, 1, large, result, 1, apart, all, MPI_COMM_WORLD);
        check_from(result, stride * (size_t) (ranks - 1) + (size_t) size, mine);
        MPI_Type_free(&apart);
    } else {
        fault("there is no such collective of a bitmap");
    }
    return 1;
}

int main(int argc, char **argv)
{
    MPIX_Bitmap others[16] = { 0 }, all[16] = { 0 };
    MPI_Datatype block, large;
    MPI_Status status;
    MPI_Request request;
    unsigned char *buffer;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    part = argc == 2 ? argv[1] : "";
    for (int i = 0; i < ranks; i++) {
        MPIX_Bitmap_set(all, i);
        if (i != 0)
            MPIX_Bitmap_set(others, i);
    }
    /* One element that is larger than an int can say. */
    MPI_Type_contiguous((int) (size / 5), MPI_BYTE, &block);
    MPI_Type_contiguous(5, block, &large);
    MPI_Type_commit(&large);
    buffer = folded(size);
    if (rank == 0)
        fill(buffer);
    MPI_Barrier(MPI_COMM_WORLD);

    if (strcmp(part, "mcast") == 0) {
        if (rank == 0) {
            MPIX_Mcast(buffer, size, MPI_BYTE, others, tag, MPI_COMM_WORLD);
        } else {
            MPIX_Mcast_recv(buffer, size, MPI_BYTE, 0, tag, MPI_COMM_WORLD, NULL, &status);
            check_size(&status);
        }
        check(buffer);
    } else if (strcmp(part, "imcast") == 0) {
        if (rank == 0)
            MPIX_Imcast(buffer, 1, large, others, tag, MPI_COMM_WORLD, MPIX_MCAST_DELIVERED, &request);
        else
            MPIX_Mcast_irecv(buffer, 1, large, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, NULL, &request);
        MPI_Wait(&request, &status);
        if (rank != 0)
            check_size(&status);
        check(buffer);
    } else if (strcmp(part, "truncated") == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        if (rank == 0) {
            MPIX_Mcast(buffer, size, MPI_BYTE, others, tag, MPI_COMM_WORLD);
        } else {
            char text[MPI_MAX_ERROR_STRING];
            int length, error = MPIX_Mcast_recv(buffer, size - 1, MPI_BYTE, 0, tag, MPI_COMM_WORLD, NULL, &status);
            expect_class(error, MPI_ERR_TRUNCATE, "one byte too many");
            MPI_Error_string(error, text, &length);
            EXPECT(strstr(text, "2147495995 bytes were multicast, but the buffer has room for 2147495994"), "%s", text);
        }
    } else if (strcmp(part, "bcast") == 0) {
        MPIX_Bitmap_bcast(buffer, size, MPI_BYTE, 0, all, MPI_COMM_WORLD);
        check(buffer);
    } else if (collective(buffer, large) || one_sided(buffer, large) || bitmap_collective(buffer, large, all)) {
        /* has been done */
    } else if (strcmp(part, "send") == 0) {
        if (rank == 0)
            MPI_Send(buffer, 1, large, 1, tag, MPI_COMM_WORLD);
        if (rank == 1) {
            MPI_Recv(buffer, 1, large, 0, tag, MPI_COMM_WORLD, &status);
            check_size(&status);
            check(buffer);
        }
    } else if (strcmp(part, "am") == 0) {
        int handler;
        MPIX_Am_register("huge", on_huge, on_place, buffer, MPI_COMM_WORLD, &handler);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            MPIX_Am_send(NULL, 0, buffer, size, 1, handler, MPI_COMM_WORLD);
        if (rank == 1) {
            MPIX_Am_wait(&came);
            check(buffer);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPIX_Am_deregister(handler, MPI_COMM_WORLD);
    } else if (strcmp(part, "late") == 0) {
        int found = 0;
        if (rank == 1) {
            struct rlimit limit = { (rlim_t) 3 << 30, (rlim_t) 3 << 30 };
            setrlimit(RLIMIT_AS, &limit);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            MPIX_Mcast(buffer, size, MPI_BYTE, others, tag, MPI_COMM_WORLD);
        while (rank == 1)
            MPIX_Mcast_iprobe(0, tag, MPI_COMM_WORLD, &found, &status);
    } else {
        fault("the parts are mcast, imcast, truncated, bcast, put, get, flag, countup, copy, wbcast, offer, mpi_put, mpi_get, accumulate, get_accumulate, mpi_bcast, gatherv, scatterv, allgatherv, reduce,"
              " allreduce, alltoallv, reduce_scatter, reduce_scatter_block, scan, iallreduce, ibcast, persistent, bitmap_reduce, bitmap_allreduce, bitmap_gather, bitmap_scatter, bitmap_allgather, bitmap_alltoall, send, am, late");
    }
    long mine = atomic_load(&wrong), sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("huge: %s, %d ranks, %ld wrong\n", part, ranks, sum);
    MPI_Type_free(&block);
    MPI_Type_free(&large);
    MPI_Finalize();
    return sum != 0;
}
