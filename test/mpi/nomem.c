/* Memory that is not there: an error of every rank, soon, after which there is as much as before, and everything works. */
#include "expect.h"
#include <sys/resource.h>

static const MPI_Aint terabyte = (MPI_Aint)1 << 40, megabyte = 1 << 20;

/* A number of /proc/self/status, in KiB. */
static long status_of(const char *key)
{
    char line[200];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && value < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            value = atol(line + strlen(key));
    if (file)
        fclose(file);
    return value;
}

/* 1: the kernel promises what is asked for, and means it to be so. */
static int promises_everything(void)
{
    int mode = 0;
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
    if (file) {
        if (fscanf(file, "%d", &mode) != 1)
            mode = 0;
        fclose(file);
    }
    return mode == 1;
}

/* Or as if: ranks that MPICH takes for those of several hosts have no shared windows. */
static int on_one_host(void)
{
    static int there = -1;
    if (there < 0) {
        MPI_Comm host;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
        MPI_Comm_size(host, &there);
        MPI_Comm_free(&host);
    }
    return there == ranks;
}

static int allocate(int shared, int apart, MPI_Aint size, int **memory, MPI_Win *win)
{
    int error;
    MPI_Info info;
    MPI_Info_create(&info);
    if (apart)
        MPI_Info_set(info, "alloc_shared_noncontig", "true");
    error = shared && on_one_host() ? MPI_Win_allocate_shared(size, 1, info, MPI_COMM_WORLD, memory, win)
                                    : MPI_Win_allocate(size, 1, info, MPI_COMM_WORLD, memory, win);
    MPI_Info_free(&info);
    return error;
}

/* A window of normal size can be had, and works. */
static void usual(int shared)
{
    MPI_Win win;
    int *memory = NULL, error = allocate(shared, 0, megabyte, &memory, &win);
    EXPECT(error == MPI_SUCCESS && memory, "a window of a megabyte could not be had");
    if (error)
        return;
    memory[1] = -1;
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % ranks, sizeof(int), 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    EXPECT(memory[1] == (rank + ranks - 1) % ranks, "the value is %d", memory[1]);
    MPI_Win_free(&win);
}

/* All ranks ask for too much, or one does: in every way. */
static void too_much(void)
{
    int before = 0;
    long size = 0;
    if (promises_everything())
        return;
    usual(0);
    for (int round = 0; round < 4; round++) {
        for (int way = 0; way < 16; way++) {
            MPI_Win win = MPI_WIN_NULL;
            int *memory, shared = way & 1, apart = way >> 1 & 1, everybody = way >> 2 & 1;
            MPI_Aint much = everybody || rank == ranks - 1 ? terabyte + (way & 8) : megabyte;
            char text[MPI_MAX_ERROR_STRING];
            int length, error = allocate(shared, apart, much, &memory, &win);
            expect_class(error, MPI_ERR_NO_MEM, shared ? "MPI_Win_allocate_shared" : "MPI_Win_allocate");
            MPI_Error_string(error, text, &length);
            EXPECT(strstr(text, "has not enough memory or address space (ulimit -v)"), "what is told is: %s", text);
            EXPECT(win == MPI_WIN_NULL, "there is a window");
            usual(shared);
        }
        if (round == 0)
            before = descriptors(), size = status_of("VmSize:");
    }
    EXPECT(descriptors() <= before, "%d descriptors, and there were %d", descriptors(), before);
    EXPECT(status_of("VmSize:") <= size + 65536, "%ld KiB mapped, and there were %ld", status_of("VmSize:"), size);
}

static void alloc_mem(void)
{
    void *memory = NULL;
    if (promises_everything())
        return;
    expect_class(MPI_Alloc_mem(terabyte, MPI_INFO_NULL, &memory), MPI_ERR_NO_MEM, "MPI_Alloc_mem");
    EXPECT(MPI_Alloc_mem(megabyte, MPI_INFO_NULL, &memory) == MPI_SUCCESS, "MPI_Alloc_mem of a megabyte");
    memset(memory, 1, megabyte);
    MPI_Free_mem(memory);
}

/* One rank has little address space (ulimit -v). */
static void limited(void)
{
    struct rlimit all, little;
    int before = 0;
    getrlimit(RLIMIT_AS, &all);
    little = all;
    little.rlim_cur = (rlim_t)status_of("VmSize:") * 1024 + 100 * megabyte;
    if (rank == ranks - 1 && setrlimit(RLIMIT_AS, &little) != 0)
        fault("address space cannot be limited");
    for (int round = 0; round < 4; round++) {
        for (int way = 0; way < 4; way++) {
            MPI_Win win;
            int *memory;
            expect_class(allocate(way & 1, way >> 1, 200 * megabyte + way * 8, &memory, &win), MPI_ERR_NO_MEM, "a window for a limited rank");
            usual(way & 1);
        }
        if (round == 0)
            before = descriptors();
    }
    if (rank == ranks - 1)
        setrlimit(RLIMIT_AS, &all);
    EXPECT(descriptors() <= before, "%d descriptors, and there were %d", descriptors(), before);
    usual(0);
}

/* What can be had is not taken before it is written to. */
static void not_touched(void)
{
    MPI_Win win;
    int *memory;
    for (int shared = 0; shared < 2; shared++) {
        long before = status_of("VmRSS:");
        EXPECT(allocate(shared, 0, 512 * megabyte, &memory, &win) == MPI_SUCCESS, "half a gigabyte could not be had");
        EXPECT(status_of("VmRSS:") < before + 100 * 1024, "%ld KiB are resident, and there were %ld", status_of("VmRSS:"), before);
        memory[512 * megabyte / sizeof(int) - 1] = 1;
        MPI_Win_free(&win);
    }
}

int main(int argc, char **argv)
{
    const struct part parts[] = {
        { "too_much", too_much, 1, 0 },
        { "alloc_mem", alloc_mem, 1, 0 },
        { "limited", limited, 1, 0 },
        { "not_touched", not_touched, 1, 0 },
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
