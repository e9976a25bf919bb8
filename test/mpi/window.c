/* Windows of every kind with every synchronisation, values compared. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { length = 50000 };
static int rank, ranks;
static long wrong;

static void expect(const int *memory, int from, int add)
{
    for (int i = 0; i < length; i++)
        wrong += memory[i] != from * 1000 + i + add;
}

/* By the names of the hosts. */
static int ranks_on_this_host(void)
{
    char mine[MPI_MAX_PROCESSOR_NAME] = "", *all = malloc((size_t) ranks * sizeof mine);
    int name_length, count = 0;

    MPI_Get_processor_name(mine, &name_length);
    MPI_Allgather(mine, sizeof mine, MPI_CHAR, all, sizeof mine, MPI_CHAR, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        count += strcmp(mine, all + (size_t) i * sizeof mine) == 0;
    free(all);
    return count;
}

int main(int argc, char **argv)
{
    MPI_Win win;
    int *memory, *mine = malloc(length * sizeof(int)), *got = malloc(length * sizeof(int));
    MPI_Comm host;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (int i = 0; i < length; i++)
        mine[i] = rank * 1000 + i;

    int host_ranks = ranks_on_this_host();
    if (host_ranks != ranks) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        int class = MPI_SUCCESS, error = MPI_Win_allocate_shared(100, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        MPI_Error_class(error, &class);
        if (class != MPI_ERR_RMA_SHARED) {
            printf("rank %d: memory is shared by ranks of several hosts\n", rank);
            wrong++;
        }
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    }
    for (int kind = 0; kind < (host_ranks == ranks ? 3 : 2); kind++) {
        if (kind == 0)
            MPI_Win_allocate(length * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        else if (kind == 1)
            MPI_Win_create(memory = malloc(length * sizeof(int)), length * sizeof(int), sizeof(int), MPI_INFO_NULL,
                           MPI_COMM_WORLD, &win);
        else
            MPI_Win_allocate_shared(length * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);

        MPI_Win_fence(0, win);
        MPI_Put(mine, length, MPI_INT, right, 0, length, MPI_INT, win);
        MPI_Win_fence(0, win);
        expect(memory, left, 0);

        MPI_Win_fence(0, win);
        MPI_Accumulate(mine, length, MPI_INT, right, 0, length, MPI_INT, MPI_REPLACE, win);
        MPI_Win_fence(0, win);
        expect(memory, left, 0);

        MPI_Win_lock_all(0, win);
        MPI_Get(got, length, MPI_INT, right, 0, length, MPI_INT, win);
        MPI_Win_flush(right, win);
        expect(got, rank, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        int one = 1, before;
        for (int i = 0; i < 100; i++)
            MPI_Fetch_and_op(&one, &before, MPI_INT, right, 0, MPI_SUM, win);
        MPI_Win_flush_all(win);
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
        wrong += memory[0] != left * 1000 + 100;
        MPI_Win_unlock(rank, win);

        MPI_Group world, to, from;
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_incl(world, 1, &right, &to);
        MPI_Group_incl(world, 1, &left, &from);
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(mine, length, MPI_INT, right, 0, length, MPI_INT, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        expect(memory, left, 0);
        MPI_Group_free(&world);
        MPI_Group_free(&to);
        MPI_Group_free(&from);
        MPI_Win_free(&win);
        if (kind == 1)
            free(memory);
    }

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    int shared_ranks;
    MPI_Comm_size(host, &shared_ranks);
    wrong += shared_ranks != host_ranks;
    MPI_Comm_free(&host);

    long all = 0;
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("window: %d ranks, %ld wrong\n", ranks, all);
    MPI_Finalize();
    return all != 0;
}
