/* Hangs in the way that is named: each is a mistake that programs make. test/why/run asks `mpicomposite why` what is wrong. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;
static char large[1 << 20];
static char word[8];

static void leave(void)
{
    MPI_Finalize();
    exit(0);
}

static void receive(int source, int tag, MPI_Comm comm)
{
    MPI_Recv(word, sizeof word, MPI_CHAR, source, tag, comm, MPI_STATUS_IGNORE);
}

static void transmit(int destination, int tag, MPI_Comm comm)
{
    MPI_Send(word, sizeof word, MPI_CHAR, destination, tag, comm);
}

static void missing_send(void)
{
    if (rank == 1)
        receive(0, 5, MPI_COMM_WORLD);
}

static void missing_receive(void)
{
    if (rank == 0)
        MPI_Ssend(word, sizeof word, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
}

static void wrong_tag(void)
{
    if (rank == 0)
        transmit(1, 6, MPI_COMM_WORLD);
    else if (rank == 1)
        receive(0, 5, MPI_COMM_WORLD);
}

static void wrong_communicator(void)
{
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_set_name(other, "other");
    if (rank == 0)
        transmit(1, 5, other);
    else if (rank == 1)
        receive(0, 5, MPI_COMM_WORLD);
}

static void wrong_source(void)
{
    if (rank == 2)
        transmit(1, 5, MPI_COMM_WORLD);
    else if (rank == 1)
        receive(0, 5, MPI_COMM_WORLD);
}

static void one_receive_too_many(void)
{
    if (rank == 0)
        transmit(1, 5, MPI_COMM_WORLD);
    if (rank == 1)
        for (int i = 0; i < 2; i++)
            receive(0, 5, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void collective_order(void)
{
    int in = rank, out, all[16];
    if (rank == 1)
        MPI_Allgather(&in, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank != 1)
        MPI_Allgather(&in, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
}

static void different_roots(void)
{
    MPI_Bcast(word, sizeof word, MPI_CHAR, rank == 1 ? 2 : 1, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void different_counts(void)
{
    static char result[sizeof large];
    MPI_Reduce(large, result, rank == 0 ? (int) sizeof large : 1, MPI_CHAR, MPI_MAX, 0, MPI_COMM_WORLD);
}

static void missing_in_collective(void)
{
    if (rank != 2)
        MPI_Barrier(MPI_COMM_WORLD);
}

static void stopped(void)
{
    if (rank == 1)
        raise(SIGSTOP);
    else
        receive(1, 5, MPI_COMM_WORLD);
}

static void send_ring(void)
{
    MPI_Send(large, sizeof large, MPI_CHAR, (rank + 1) % size, 5, MPI_COMM_WORLD);
    MPI_Recv(large, sizeof large, MPI_CHAR, (rank + size - 1) % size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void receive_ring(void)
{
    receive((rank + size - 1) % size, 5, MPI_COMM_WORLD);
    transmit((rank + 1) % size, 5, MPI_COMM_WORLD);
}

static void lock_held(void)
{
    MPI_Win win;
    int *memory;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (rank == 1)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Win_unlock(0, win);
    MPI_Win_free(&win);
}

static void missing_fence(void)
{
    MPI_Win win;
    int *memory;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (rank != 1)
        MPI_Win_fence(0, win);
}

/* A window, and the group of the other rank. */
static MPI_Win window_with(MPI_Group *one)
{
    MPI_Win win;
    MPI_Group world;
    int *memory, other = !rank;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &other, one);
    return win;
}

static void missing_post(void)
{
    MPI_Group one;
    MPI_Win win = window_with(&one);
    if (rank == 0) {
        MPI_Win_start(one, 0, win);
        MPI_Win_complete(win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void missing_complete(void)
{
    MPI_Group one;
    MPI_Win win = window_with(&one);
    if (rank == 0) {
        MPI_Win_post(one, 0, win);
        MPI_Win_wait(win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void probe(void)
{
    if (rank == 1)
        MPI_Probe(0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void any_source(void)
{
    if (rank == 0)
        receive(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD);
}

static void computes(void)
{
    if (rank == 1)
        for (volatile int i = 0;; i ^= 1);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void sleeps(void)
{
    int pipes[2];
    if (rank == 1 && pipe(pipes) == 0 && read(pipes[0], word, 1) < 0)
        perror("read");
    MPI_Barrier(MPI_COMM_WORLD);
}

static void wait_receive(void)
{
    MPI_Request requests[2];
    if (rank != 1)
        return;
    MPI_Irecv(word, 1, MPI_CHAR, 0, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(word + 1, 1, MPI_CHAR, 1, 6, MPI_COMM_WORLD, &requests[1]);
    transmit(1, 6, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void wait_send(void)
{
    MPI_Request request;
    if (rank != 0)
        return;
    MPI_Issend(word, sizeof word, MPI_CHAR, 1, 8, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void polls(void)
{
    MPI_Request request;
    int flag = 0;
    if (rank != 1)
        return;
    MPI_Irecv(word, sizeof word, MPI_CHAR, 0, 5, MPI_COMM_WORLD, &request);
    while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
}

static void different_communicators(void)
{
    MPI_Comm first, second;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    MPI_Barrier(rank == 0 ? first : second);
    MPI_Barrier(rank == 0 ? second : first);
}

static void accepts(void)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm other;
    if (rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
}

static void missing_nonblocking(void)
{
    MPI_Request request;
    if (rank == 1)
        return;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*hang)(void);
} kinds[] = {
    {"missing_send", missing_send},
    {"missing_receive", missing_receive},
    {"wrong_tag", wrong_tag},
    {"wrong_communicator", wrong_communicator},
    {"wrong_source", wrong_source},
    {"one_receive_too_many", one_receive_too_many},
    {"collective_order", collective_order},
    {"different_roots", different_roots},
    {"different_counts", different_counts},
    {"missing_in_collective", missing_in_collective},
    {"stopped", stopped},
    {"send_ring", send_ring},
    {"receive_ring", receive_ring},
    {"lock_held", lock_held},
    {"missing_fence", missing_fence},
    {"missing_post", missing_post},
    {"missing_complete", missing_complete},
    {"probe", probe},
    {"any_source", any_source},
    {"computes", computes},
    {"sleeps", sleeps},
    {"wait_receive", wait_receive},
    {"wait_send", wait_send},
    {"polls", polls},
    {"different_communicators", different_communicators},
    {"accepts", accepts},
    {"missing_nonblocking", missing_nonblocking},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (argc == 2 && strcmp(argv[1], kinds[i].name) == 0) {
            kinds[i].hang();
            leave();
        }
    fprintf(stderr, "hangs: which way?\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
}
