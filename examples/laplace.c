/* Jacobi iteration for Laplace's equation on 1024 x 1024 points, in blocks of rows: the exchange of border rows before the
 * computation, and behind it.
 *
 *     laplace [iterations]        1 to 1000, default 100
 *
 * Every rank writes its first and its last row into the ghost rows of its neighbours with MPIX_Put_notify, and waits for what
 * its neighbours write. Two ways, in turn:
 *
 *   exchange   write the rows, wait for those of the neighbours, then compute everything;
 *   overlap    write the rows, compute all but the first and the last row, wait, then compute these two.
 *
 * There is no barrier between the iterations. A block has two grids, each with ghost rows of its own, and iteration k reads grid
 * k mod 2 and writes the other one. A neighbour writes into the ghost rows of grid k mod 2 for iteration k, and again for
 * iteration k+2. Before that it has ended iteration k+1, for which it needed our rows, and these we wrote when we had ended
 * iteration k: nobody reads those ghost rows any more. For the same reason a neighbour is one iteration ahead at most, and two
 * numbers for the notifications of each neighbour tell which iteration they are of. Our own rows may be overwritten when they
 * have left: a flag (MPIX_Win_sync_flag) says so, which is 1 long before we look at it.
 *
 * The grid at the end is the same for both ways, bit for bit, and that of a serial computation. Exit status 1 if it is not. Each
 * way is timed 5 times, the median counts.
 *
 * Compile: mpicc -O2 -o laplace laplace.c */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MPIX_MAX_NOTIFICATIONS
#error "This program needs MPIX_Put_notify: compile it with the mpicc of MPICH-Composite"
#endif

enum {
    N = 1024,                   /* points a side, boundary included */
    INTERIOR = N - 2,           /* rows to be divided among the ranks */
    DEFAULT_ITERATIONS = 100,
    MAX_ITERATIONS = 1000,
    ROUNDS = 5,
    FROM_ABOVE = 0,             /* notifications; and the next number, for iterations that are odd */
    FROM_BELOW = 2
};

enum way { EXCHANGE, OVERLAP, WAYS };
static const char *const names[WAYS] = { "exchange", "overlap" };

/* The part of a rank. Row 0 and row rows+1 of a grid are ghosts, or the boundary. */
struct block {
    int rows, first;            /* the number of row 1 in the whole grid */
    int above, below;           /* ranks, or MPI_PROC_NULL */
    int rows_above, rows_below; /* of these ranks: where their ghost rows are */
    MPI_Win window;
    double *grid[2];
    volatile int written[2];    /* the rows of this grid have left */
};

static double *allocate(size_t rows)
{
    double *grid = malloc(rows * N * sizeof *grid);
    if (!grid) {
        fprintf(stderr, "laplace: no memory for %zu rows of %d points\n", rows, N);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return grid;
}

static int rows_of(int rank, int size)
{
    return INTERIOR / size + (rank < INTERIOR % size);
}

/* A hot edge, and inside something that is different everywhere. `first` is the number of the first row. */
static void fill(double *grid, int first, int rows)
{
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < N; j++)
            grid[r * N + j] = first + r == 0 ? 100.0 : (double) (((first + r) * 31 + j * 17) % 101);
}

/* Rows `begin` to `end`, without the latter. */
static void compute(const double *restrict from, double *restrict to, int begin, int end)
{
    for (int r = begin; r < end; r++) {
        const double *above = from + (size_t) (r - 1) * N;
        const double *here = above + N;
        const double *below = here + N;
        double *out = to + (size_t) r * N;
        for (int j = 1; j < N - 1; j++)
            out[j] = 0.25 * ((above[j] + below[j]) + (here[j - 1] + here[j + 1]));
    }
}

/* Nobody but MPI writes the flag, in calls that make progress. */
static void wait_for(volatile int *flag)
{
    int arrived;
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
}

/* The window of a rank has its two grids one after the other. */
static void give_rows(struct block *block, int parity)
{
    const double *grid = block->grid[parity];
    const MPI_Aint its_last = ((MPI_Aint) parity * (block->rows_above + 2) + block->rows_above + 1) * N;
    const MPI_Aint its_first = (MPI_Aint) parity * (block->rows_below + 2) * N;
    MPIX_Put_notify(grid + N, N, MPI_DOUBLE, block->above, its_last, N, MPI_DOUBLE, block->window, FROM_BELOW + parity);
    MPIX_Put_notify(grid + (size_t) block->rows * N, N, MPI_DOUBLE, block->below, its_first, N, MPI_DOUBLE, block->window,
                    FROM_ABOVE + parity);
    MPIX_Win_sync_flag(block->window, &block->written[parity]);
}

static void take_rows(struct block *block, int parity)
{
    if (block->above != MPI_PROC_NULL)
        MPIX_Win_wait_notify(block->window, FROM_ABOVE + parity);
    if (block->below != MPI_PROC_NULL)
        MPIX_Win_wait_notify(block->window, FROM_BELOW + parity);
}

static void iterate(struct block *block, enum way way, int parity)
{
    const double *from = block->grid[parity];
    double *to = block->grid[1 - parity];
    const int rows = block->rows;
    give_rows(block, parity);
    if (way == EXCHANGE) {
        take_rows(block, parity);
        wait_for(&block->written[1 - parity]);
        compute(from, to, 1, rows + 1);
    } else {
        compute(from, to, 2, rows);
        take_rows(block, parity);
        wait_for(&block->written[1 - parity]);
        compute(from, to, 1, 2);
        if (rows > 1)
            compute(from, to, rows, rows + 1);
    }
}

/* Seconds that the slowest rank took. Begins and ends with all ranks at rest. */
static double run(struct block *block, enum way way, int iterations)
{
    for (int i = 0; i < 2; i++) {
        fill(block->grid[i], block->first - 1, block->rows + 2);
        block->written[i] = 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int k = 0; k < iterations; k++)
        iterate(block, way, k % 2);
    double elapsed = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &elapsed, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++)
        wait_for(&block->written[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    return elapsed;
}

static double run_serially(double *grid[2], int iterations)
{
    for (int i = 0; i < 2; i++)
        fill(grid[i], 0, N);
    const double start = MPI_Wtime();
    for (int k = 0; k < iterations; k++)
        compute(grid[k % 2], grid[1 - k % 2], 1, INTERIOR + 1);
    return MPI_Wtime() - start;
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *) left, b = *(const double *) right;
    return (a > b) - (a < b);
}

static double median(double *times)
{
    qsort(times, ROUNDS, sizeof *times, ascending);
    return times[ROUNDS / 2];
}

static void print(const char *name, int ranks, double seconds, int iterations)
{
    printf("laplace: %s, %d x %d points, %d rank%s, %.4f us\n", name, N, N, ranks, ranks > 1 ? "s" : "",
           seconds / iterations * 1e6);
    fflush(stdout);
}

static int parse_iterations(int argc, char **argv)
{
    if (argc < 2)
        return DEFAULT_ITERATIONS;
    char *end;
    const long n = strtol(argv[1], &end, 10);
    return argc == 2 && end != argv[1] && *end == '\0' && n >= 1 && n <= MAX_ITERATIONS ? (int) n : -1;
}

int main(int argc, char **argv)
{
    int rank, size, failures = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int iterations = parse_iterations(argc, argv);
    if (iterations < 0 || size > INTERIOR) {
        if (rank == 0)
            fprintf(stderr, "usage: laplace [iterations], a number from 1 to %d, on up to %d ranks\n", MAX_ITERATIONS, INTERIOR);
        MPI_Finalize();
        return 1;
    }

    int *counts = malloc((size_t) size * sizeof *counts), *offsets = malloc((size_t) size * sizeof *offsets);
    if (!counts || !offsets) {
        fprintf(stderr, "laplace: no memory for a table of %d ranks\n", size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int r = 0, next_row = 1; r < size; r++) {
        counts[r] = rows_of(r, size) * N;
        offsets[r] = next_row * N;
        next_row += rows_of(r, size);
    }
    struct block block = { .rows = rows_of(rank, size), .first = offsets[rank] / N,
                           .above = rank > 0 ? rank - 1 : MPI_PROC_NULL, .below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL,
                           .rows_above = rows_of(rank - 1, size), .rows_below = rows_of(rank + 1, size) };
    const size_t points = (size_t) (block.rows + 2) * N;
    MPI_Win_allocate((MPI_Aint) (2 * points * sizeof(double)), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &block.grid[0],
                     &block.window);
    block.grid[1] = block.grid[0] + points;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, block.window);

    /* Rank 0: what it computes alone, and the grids of both ways. */
    double *serial[2] = { NULL, NULL }, *whole[WAYS] = { NULL, NULL };
    double serial_times[ROUNDS], times[WAYS][ROUNDS];
    for (int i = 0; rank == 0 && i < 2; i++)
        serial[i] = allocate(N);
    for (int way = 0; rank == 0 && way < WAYS; way++) {
        whole[way] = allocate(N);
        fill(whole[way], 0, N);         /* for its boundary rows; the ranks' blocks replace the rest */
    }

    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0)
            serial_times[round] = run_serially(serial, iterations);
        for (int i = 0; i < WAYS; i++) {
            const enum way way = (enum way) ((round + i) % WAYS);
            times[way][round] = run(&block, way, iterations);
            MPI_Gatherv(block.grid[iterations % 2] + N, counts[rank], MPI_DOUBLE, whole[way], counts, offsets, MPI_DOUBLE, 0,
                        MPI_COMM_WORLD);
            if (rank == 0 && memcmp(whole[way], serial[iterations % 2], (size_t) N * N * sizeof(double)) != 0) {
                fprintf(stderr, "laplace: the grid of '%s' differs from the serial computation\n", names[way]);
                failures = 1;
            }
        }
        if (rank == 0 && memcmp(whole[EXCHANGE], whole[OVERLAP], (size_t) N * N * sizeof(double)) != 0) {
            fprintf(stderr, "laplace: the grids of the two ways differ\n");
            failures = 1;
        }
    }
    if (rank == 0) {
        const double exchange = median(times[EXCHANGE]), overlap = median(times[OVERLAP]), alone = median(serial_times);
        print("serial", 1, alone, iterations);
        print(names[EXCHANGE], size, exchange, iterations);
        print(names[OVERLAP], size, overlap, iterations);
        printf("laplace: overlap/exchange %.3f; speed-up %.2f and %.2f\n", overlap / exchange, alone / overlap, alone / exchange);
    }
    MPI_Bcast(&failures, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("laplace: %s\n", failures ? "FAIL" : "PASS");

    MPI_Win_unlock_all(block.window);
    MPI_Win_free(&block.window);
    for (int i = 0; i < 2; i++) {
        free(serial[i]);
        free(whole[i]);
    }
    free(counts);
    free(offsets);
    MPI_Finalize();
    return failures;
}
