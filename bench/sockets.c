/* How many sockets a rank has open when every pair of ranks has talked: the most of any rank, UDP and TCP by themselves. A socket
 * counts when the kernel lists it in /proc/net of this host and a descriptor of this process leads to it. */
#include "bench.h"

#include <dirent.h>

/* Whether this process has a descriptor of that socket. */
static int is_open(unsigned long inode)
{
    char wanted[64], path[300], target[64];
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *descriptors = opendir("/proc/self/fd");
    int found = 0;
    for (struct dirent *entry; descriptors != NULL && !found && (entry = readdir(descriptors)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        const ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        found = strcmp(target, wanted) == 0;
    }
    if (descriptors != NULL)
        closedir(descriptors);
    return found;
}

static int count_in(const char *table)
{
    FILE *stream = fopen(table, "r");
    char line[512];
    int count = 0;
    if (stream == NULL)
        return 0;               /* a kernel without IPv6 */
    while (fgets(line, sizeof line, stream) != NULL) {
        unsigned long inode;    /* the tenth field; the line of titles has no number there */
        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %lu", &inode) == 1 && inode != 0)
            count += is_open(inode);
    }
    fclose(stream);
    return count;
}

static void emit_most(const struct bench *bench, const char *metric, const char *table, const char *table6)
{
    int mine = count_in(table) + count_in(table6), most;
    MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    bench_emit(bench, metric, 0, most, "sockets");
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_init(&bench, "sockets", "", 2, 4096, &argc, &argv);
    bench_all_pairs(&bench);
    MPI_Barrier(MPI_COMM_WORLD);
    emit_most(&bench, "udp", "/proc/self/net/udp", "/proc/self/net/udp6");
    emit_most(&bench, "tcp", "/proc/self/net/tcp", "/proc/self/net/tcp6");
    bench_finalize(&bench);
    return 0;
}
