/* Shared memory of windows without a name: stands in for mkstemp() and unlink() in MPICH's portability layer.
 *
 * A named file in /dev/shm survives when its job is killed between creating and removing it, and touching it raises SIGBUS when
 * /dev/shm is full. A memfd does neither. Peers find it as /proc/PROCESS/fd/FILE, which fits the name's buffer and works
 * as long as its creator keeps the descriptor: until it removes the "name". */
#ifndef COMPOSITE_NAMELESS_H_INCLUDED
#define COMPOSITE_NAMELESS_H_INCLUDED

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The number after `key` in a file of /proc, or -1. */
static inline long long composite_proc_number(const char *path, const char *key)
{
    char line[128];
    long long number = -1;
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return -1;
    while (number < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0)
            number = strtoll(line + strlen(key), NULL, 10);
    fclose(file);
    return number;
}

/* Whether this host has `size` bytes to give, now: a file of memory may be made larger than that, and ends who writes it. Pages
 * are not taken in advance, which takes as long as writing them. Where everything may be promised (vm.overcommit_memory is 1)
 * nothing is refused. */
static inline bool composite_host_has(long long size)
{
    long long available = composite_proc_number("/proc/meminfo", "MemAvailable:"), swap = composite_proc_number("/proc/meminfo", "SwapFree:");

    if (available < 0 || composite_proc_number("/proc/sys/vm/overcommit_memory", "") == 1)
        return true;
    return size / 1024 <= available + (swap > 0 ? swap : 0);
}

static inline bool composite_file_system_has(int file, long long size)
{
    struct statvfs fs;

    return fstatvfs(file, &fs) != 0 || fs.f_blocks == 0 || size / (long long) fs.f_frsize <= (long long) fs.f_bavail;
}

/* `name` is a template for mkstemp() and becomes what peers open. -1 when there is no room for `size` bytes, either. */
static inline int composite_nameless_create(char *name, long long size)
{
    char path[64];
    int keep, file;

    if (!composite_host_has(size))
        return -1;
    keep = (int) syscall(SYS_memfd_create, "mpich-composite-window", 1u /* MFD_CLOEXEC */);
    file = keep < 0 ? -1 : fcntl(keep, F_DUPFD_CLOEXEC, 0);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int) getpid(), keep);
    if (file < 0 || strlen(path) > strlen(name)) {
        if (keep >= 0)
            close(keep);
        if (file >= 0)
            close(file);
        file = mkstemp(name);
        if (file >= 0 && !composite_file_system_has(file, size)) {
            unlink(name);
            close(file);
            return -1;
        }
        return file;
    }
    strcpy(name, path);
    return file;
}

/* Once: the name is empty afterwards, and an empty name is gone already. */
static inline int composite_nameless_remove(char *name)
{
    int process, file, result;

    if (name == NULL || name[0] == '\0')
        return 0;               /* also an empty window of a rank that is alone on its host */
    if (sscanf(name, "/proc/%d/fd/%d", &process, &file) != 2)
        result = unlink(name);
    else
        result = process == (int) getpid() ? close(file) : 0;
    name[0] = '\0';
    return result;
}

/* Whether nothing is mapped there and something could be, in one step however many pages it is. */
static inline bool composite_range_is_free(void *start, size_t size)
{
    void *there;

    if (start == NULL || size == 0 || (uintptr_t) start % (uintptr_t) sysconf(_SC_PAGESIZE) != 0)
        return false;
    /* MAP_FIXED_NOREPLACE; kernels that do not know it take the address as a hint, and say where they went instead. */
    there = mmap(start, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | 0x100000, -1, 0);
    if (there == MAP_FAILED)
        return false;
    munmap(there, size);
    return there == start;
}

#endif
