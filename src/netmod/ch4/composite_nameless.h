/* Shared memory of windows without a name: stands in for mkstemp() and unlink() in MPICH's portability layer.
 *
 * A named file in /dev/shm survives when its job is killed between creating and removing it, and touching it raises SIGBUS when
 * /dev/shm is full. A memfd does neither. Peers find it as /proc/PROCESS/fd/FILE, which fits the name's buffer and works
 * as long as its creator keeps the descriptor: until it removes the "name". */
#ifndef COMPOSITE_NAMELESS_H_INCLUDED
#define COMPOSITE_NAMELESS_H_INCLUDED

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* `name` is a template for mkstemp() and becomes what peers open. */
static inline int composite_nameless_create(char *name)
{
    char path[64];
    int keep = (int) syscall(SYS_memfd_create, "mpich-composite-window", 1u /* MFD_CLOEXEC */);
    int file = keep < 0 ? -1 : fcntl(keep, F_DUPFD_CLOEXEC, 0);

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int) getpid(), keep);
    if (file < 0 || strlen(path) > strlen(name)) {
        if (keep >= 0)
            close(keep);
        if (file >= 0)
            close(file);
        return mkstemp(name);
    }
    strcpy(name, path);
    return file;
}

static inline int composite_nameless_remove(const char *name)
{
    int process, file;

    if (name == NULL)
        return 0;               /* an empty window of a rank that is alone on its host */
    if (sscanf(name, "/proc/%d/fd/%d", &process, &file) != 2)
        return unlink(name);
    return process == (int) getpid() ? close(file) : 0;
}

#endif
