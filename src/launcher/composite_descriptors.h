/* Descriptors of Hydra's mpiexec and proxy, and of what they start (maint/graft-mpich). Both use as many as the hard limit allows;
 * what they start gets the limit that they were given, and of their descriptors what it is meant to have and what they had from
 * their own start: a rank has as many as the first one, and nobody has a copy of a connection, which would hide its end. */
#ifndef COMPOSITE_DESCRIPTORS_H_INCLUDED
#define COMPOSITE_DESCRIPTORS_H_INCLUDED

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

struct HYD_env;

/* In the child, before exec; descriptors that `env` names are for it. */
void composite_descriptors_of_child(struct HYD_env *env);

/* How many ranks a proxy that we fork can have, and whether we can have so many more proxies (composite_shares.h). */
int composite_most_ranks(void);
int composite_can_hold(int proxies);

/* Calls visit(fd, context) for each open descriptor, one of its own aside. Without /proc, or a descriptor for it, one after the other is tried. */
static inline void composite_each_descriptor(void (*visit)(int fd, void *context), void *context)
{
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;

    for (int fd = 0; !directory && fd < 65536; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            visit(fd, context);

    while (directory && (entry = readdir(directory)))
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory))
            visit(atoi(entry->d_name), context);
    if (directory)
        closedir(directory);
}

static inline void composite_count_descriptor(int fd, void *context)
{
    (void) fd;
    ++*(long *) context;
}

/* Whether a proxy can start so many ranks; if not, it says so. */
static inline int composite_descriptors_suffice(int ranks)
{
    /* Input, output, errors and PMI of each, the other ends of those of one, and some for us. */
    long needed = 4L * ranks + 16;
    char host[256] = "";
    struct rlimit limit;

    composite_each_descriptor(composite_count_descriptor, &needed);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || needed <= (long) limit.rlim_cur)
        return 1;
    gethostname(host, sizeof(host) - 1);
    fprintf(stderr, "mpiexec: on host %s the launcher needs %ld open files for %d ranks, but the limit is %ld (ulimit -Hn). Raise it "
            "(limits.conf, LimitNOFILE= of a service, docker run --ulimit nofile=), or use more hosts.\n", host, needed, ranks,
            (long) limit.rlim_cur);
    return 0;
}

#endif
