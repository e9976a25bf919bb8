/* Threads of two ranks talk pairwise at once; one pair sends to itself inside a rank. Nobody may miss a wake-up. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>

enum { thread_count = 4, rounds = 2000 };
static int rank, ranks;

static void *talk(void *argument)
{
    long tag = (long) argument, wrong = 0;
    int peer = tag == 0 ? rank : (rank ^ 1) < ranks ? rank ^ 1 : rank;

    for (int i = 0; i < rounds; i++) {
        int out[2] = { rank, i }, in[2];
        MPI_Sendrecv(out, 2, MPI_INT, peer, (int) tag, in, 2, MPI_INT, peer, (int) tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        wrong += in[0] != peer || in[1] != i;
    }
    return (void *) wrong;
}

int main(int argc, char **argv)
{
    int provided;
    long wrong = 0, all;
    pthread_t threads[thread_count];

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (provided != MPI_THREAD_MULTIPLE)
        wrong++;
    for (long i = 0; i < thread_count; i++)
        pthread_create(&threads[i], NULL, talk, (void *) i);
    for (int i = 0; i < thread_count; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (long) result;
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("threads: %d ranks of %d threads, %ld wrong\n", ranks, thread_count, all);
    MPI_Finalize();
    return all != 0;
}
