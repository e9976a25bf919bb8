/* A token goes round a ring of ranks; every rank adds its own number to it. Plain MPI, any number of ranks.
 *
 * Two tokens are sent: one of 8 bytes, which travels as an eager message, and one of 1 MiB, which needs a
 * rendezvous. Rank 0 checks every element after the last lap. Exit status: 0 when all is right, 1 otherwise. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG = 7 };

static void add(int64_t *token, int count, int64_t amount)
{
    for (int i = 0; i < count; i++)
        token[i] += amount;
}

/* Sends the token `laps` times round. Rank 0 starts each lap; it sends without blocking, so that a ring of one
 * rank, whose left neighbour is itself, works too. Returns on rank 0 how many elements are wrong, elsewhere 0. */
static int go_round(int64_t *token, int64_t *arriving, int count, int laps, int rank, int size)
{
    const int left = (rank + size - 1) % size;
    const int right = (rank + 1) % size;

    for (int i = 0; i < count; i++)
        token[i] = i;

    for (int lap = 0; lap < laps; lap++) {
        if (rank == 0) {
            MPI_Request sent;
            MPI_Isend(token, count, MPI_INT64_T, right, TAG, MPI_COMM_WORLD, &sent);
            MPI_Recv(arriving, count, MPI_INT64_T, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Wait(&sent, MPI_STATUS_IGNORE);
            int64_t *swap = token;
            token = arriving;
            arriving = swap;
        } else {
            MPI_Recv(token, count, MPI_INT64_T, left, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            add(token, count, rank);
            MPI_Send(token, count, MPI_INT64_T, right, TAG, MPI_COMM_WORLD);
        }
    }

    int wrong = 0;
    if (rank == 0) {
        const int64_t sum_of_ranks = (int64_t) size * (size - 1) / 2;
        for (int i = 0; i < count; i++)
            wrong += token[i] != i + laps * sum_of_ranks;
    }
    return wrong;
}

int main(int argc, char **argv)
{
    static const struct {
        int count;
        int laps;
    } tokens[] = { {1, 20}, {131072, 5} };
    int rank, size, wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    for (size_t t = 0; t < sizeof tokens / sizeof tokens[0]; t++) {
        const int count = tokens[t].count;
        int64_t *token = malloc(count * sizeof *token);
        int64_t *arriving = malloc(count * sizeof *arriving);
        if (!token || !arriving) {
            fprintf(stderr, "ring: no memory for a token of %zu bytes\n", count * sizeof *token);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }

        const double start = MPI_Wtime();
        const int wrong_here = go_round(token, arriving, count, tokens[t].laps, rank, size);
        const double elapsed = MPI_Wtime() - start;
        if (rank == 0)
            printf("ring: %7zu bytes, %2d laps of %d ranks in %.3f ms, %d elements wrong\n",
                   count * sizeof *token, tokens[t].laps, size, elapsed * 1e3, wrong_here);
        wrong += wrong_here;
        free(token);
        free(arriving);
    }

    MPI_Bcast(&wrong, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ring: %s\n", wrong ? "FAIL" : "PASS");
    MPI_Finalize();
    return wrong ? 1 : 0;
}
