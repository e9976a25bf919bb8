/* After everybody has talked to everybody: how many sockets of the internet a rank has. One for UDP, and that to the process manager. */
#include <mpi.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static int datagram_sockets(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");

    for (struct dirent * entry = readdir(folder); entry; entry = readdir(folder)) {
        int type = 0;
        struct sockaddr_storage name;
        socklen_t size = sizeof type, name_size = sizeof name;
        int file = atoi(entry->d_name);
        if (getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM &&
            getsockname(file, (struct sockaddr *) &name, &name_size) == 0 &&
            (name.ss_family == AF_INET || name.ss_family == AF_INET6))
            count++;
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    int rank, ranks, most, mine, *in, *out;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    in = calloc(ranks, sizeof *in);
    out = calloc(ranks, sizeof *out);
    MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD);
    mine = datagram_sockets();
    MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, at most %d datagram sockets in one\n", ranks, most);
    MPI_Finalize();
    return most != 1;
}
