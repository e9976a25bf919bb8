/* For test programs of parts: what is wrong is told, the first of it, and counted. */
#ifndef EXPECT_H_INCLUDED
#define EXPECT_H_INCLUDED

#include <dirent.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static const char *part = "start";
static atomic_long wrong;

__attribute__((format(printf, 1, 2)))
static void fault(const char *format, ...)
{
    if (atomic_fetch_add(&wrong, 1) < 10) {
        char text[400];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        printf("part %s, rank %d: %s\n", part, rank, text);
        fflush(stdout);
    }
}

#define EXPECT(condition, ...) do { if (!(condition)) fault(__VA_ARGS__); } while (0)

static inline void expect_class(int error, int expected, const char *what)
{
    int class;
    MPI_Error_class(error, &class);
    EXPECT(class == expected, "%s: error class %d, not %d", what, class, expected);
}

static inline uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* How many are open, and a few more: to be compared. */
static inline int descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* A flag that another thread or process sets. */
static inline int load(const volatile int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

struct part {
    const char *name;
    void (*run)(void);
    int least_ranks;
    int on_demand;              /* only when it is named */
};

static inline int is_named(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return 0;
}

/* Runs the parts that are named, or all. The exit status of the program. */
static inline int run_parts(const struct part *parts, int count, int argc, char **argv)
{
    long all = 0, mine;
    int named = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 0; i < count; i++)
        named += is_named(parts[i].name, argc, argv);
    for (int i = 0; i < count; i++) {
        if (ranks < parts[i].least_ranks || (named ? !is_named(parts[i].name, argc, argv) : parts[i].on_demand))
            continue;
        part = parts[i].name;
        MPI_Barrier(MPI_COMM_WORLD);
        parts[i].run();
    }
    part = "end";
    mine = atomic_load(&wrong);
    MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf(all == 0 ? "ok\n" : "%ld wrong\n", all);
    return all != 0;
}

#endif
