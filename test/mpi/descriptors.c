/* Usage: descriptors MOST [closed]
 * All ranks talk to all, by small and by large messages and by broadcasts; no rank has more than MOST descriptors then. `closed`: after
 * MPI_Init nobody may look into the processes any more, as in a program that holds secrets. */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static int rank, ranks;
static long wrong;

static void fault(const char *what, int number)
{
    if (wrong++ < 3)
        printf("rank %d: %s %d\n", rank, what, number);
}

static int open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = -3;             /* itself, . and .. */

    if (directory == NULL)
        return 1 << 20;
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static void exchange(int size)
{
    char *out = malloc((size_t) size * ranks), *in = calloc(ranks, size);

    for (int to = 0; to < ranks; to++)
        memset(out + (size_t) to * size, rank * 7 + to, size);
    MPI_Alltoall(out, size, MPI_CHAR, in, size, MPI_CHAR, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < size; i += size > 1 ? size - 1 : 1)
            if (in[(size_t) from * size + i] != (char) (from * 7 + rank)) {
                fault("wrong bytes from rank", from);
                break;
            }
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    int most = argc > 1 ? atoi(argv[1]) : 32, before = open_descriptors(), after;
    long all;
    static char words[20000];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 2 && strcmp(argv[2], "closed") == 0)
        prctl(PR_SET_DUMPABLE, 0);
    exchange(8);
    exchange(2000);
    if (ranks <= 16)
        exchange(200000);
    for (int root = 0; root < ranks && root < 4; root++) {
        memset(words, rank == root ? 'a' + root : 0, sizeof words);
        MPI_Bcast(words, sizeof words, MPI_CHAR, root, MPI_COMM_WORLD);
        if (words[0] != 'a' + root || words[sizeof words - 1] != 'a' + root)
            fault("wrong words of rank", root);
    }
    after = open_descriptors();
    if (after > most)
        fault("too many descriptors:", after);
    long mine = wrong;
    MPI_Reduce(&mine, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks: rank 0 has %d descriptors, %d of them from the start; %ld wrong\n", ranks, after, before, all);
    MPI_Finalize();
    return mine != 0;
}
