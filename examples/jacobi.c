/* Jacobi iteration for Laplace's equation on a grid of 1024 x 1024 points, in blocks of rows. Plain MPI, any
 * number of ranks.
 *
 *     jacobi [iterations]        1 to 1000, default 300
 *
 * The boundary holds u(i,j) = i*i - j*j. This is harmonic, and the five-point stencil reproduces it exactly, so the
 * solution is known at every point. The interior starts as that solution plus a bump,
 *
 *     amplitude * sin(pi*p*i/m) * sin(pi*q*j/m),   m = 1023,
 *
 * which is an eigenvector of the iteration: each step multiplies it by (cos(pi*p/m) + cos(pi*q/m)) / 2. So the grid
 * after any number of steps is known too, by formula. Three checks, and exit status 1 when one of them fails:
 *
 *   1. the residual (largest change in a step) falls between one report and the next;
 *   2. every point agrees with the formula, up to rounding;
 *   3. the gathered grid equals, bit for bit, a serial computation of rank 0. Hence the checksum printed at the end is
 *      the same for any number of ranks (of one executable: compilers differ in how they round).
 *
 * Compile: mpicc -O2 -o jacobi jacobi.c -lm */

#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 1024,                   /* points a side, boundary included */
    INTERIOR = N - 2,           /* rows to be divided among the ranks */
    DEFAULT_ITERATIONS = 300,
    MAX_ITERATIONS = 1000,      /* beyond this the residual is rounding noise and check 1 means nothing */
    REPORT_EVERY = 50,
    TAG_UP = 1,
    TAG_DOWN = 2
};

static const double pi = 3.14159265358979323846;
static const double amplitude = 1000.0;
static const int wave_rows = 64, wave_columns = 32;     /* p and q above */

static double *allocate(size_t rows)
{
    double *grid = malloc(rows * N * sizeof *grid);
    if (!grid) {
        fprintf(stderr, "jacobi: no memory for %zu rows of %d points\n", rows, N);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return grid;
}

static double exact(int i, int j)
{
    return (double) i * i - (double) j * j;
}

static double bump(int i, int j)
{
    return amplitude * sin(pi * wave_rows * i / (N - 1)) * sin(pi * wave_columns * j / (N - 1));
}

static int is_boundary(int i, int j)
{
    return i == 0 || i == N - 1 || j == 0 || j == N - 1;
}

/* Fills `rows` rows, the first of which is row `first` of the whole grid. */
static void fill(double *grid, int first, int rows)
{
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < N; j++)
            grid[(size_t) r * N + j] = exact(first + r, j) + (is_boundary(first + r, j) ? 0.0 : bump(first + r, j));
}

/* One step on rows 1 .. rows of a block whose rows 0 and rows+1 belong to someone else. */
static void step(const double *restrict from, double *restrict to, int rows)
{
    for (int r = 1; r <= rows; r++) {
        const double *above = from + (size_t) (r - 1) * N;
        const double *here = above + N;
        const double *below = here + N;
        double *out = to + (size_t) r * N;
        for (int j = 1; j < N - 1; j++)
            out[j] = 0.25 * ((above[j] + below[j]) + (here[j - 1] + here[j + 1]));
    }
}

static double largest_change(const double *a, const double *b, int rows)
{
    double largest = 0.0;
    for (int r = 1; r <= rows; r++)
        for (int j = 1; j < N - 1; j++)
            largest = fmax(largest, fabs(a[(size_t) r * N + j] - b[(size_t) r * N + j]));
    return largest;
}

/* FNV-1a over the bit patterns. */
static uint64_t checksum(const double *grid, size_t points)
{
    uint64_t sum = UINT64_C(14695981039346656037);
    for (size_t k = 0; k < points; k++) {
        uint64_t bits;
        memcpy(&bits, &grid[k], sizeof bits);
        sum = (sum ^ bits) * UINT64_C(1099511628211);
    }
    return sum;
}

/* The largest distance of any point from the formula after `iterations` steps. A point that is not a number counts
 * as infinitely far. */
static double distance_from_formula(const double *grid, int iterations)
{
    const double factor = 0.5 * (cos(pi * wave_rows / (N - 1)) + cos(pi * wave_columns / (N - 1)));
    const double decay = pow(factor, iterations);
    double largest = 0.0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            const double expected = exact(i, j) + (is_boundary(i, j) ? 0.0 : decay * bump(i, j));
            const double distance = fabs(grid[(size_t) i * N + j] - expected);
            if (isnan(distance))
                return INFINITY;
            largest = fmax(largest, distance);
        }
    return largest;
}

/* The same iteration on one process; returns the grid, which the caller frees. */
static double *solve_serially(int iterations)
{
    double *now = allocate(N), *next = allocate(N);
    fill(now, 0, N);
    fill(next, 0, N);
    for (int n = 0; n < iterations; n++) {
        step(now, next, INTERIOR);
        double *swap = now;
        now = next;
        next = swap;
    }
    free(next);
    return now;
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
    if (iterations < 0) {
        if (rank == 0)
            fprintf(stderr, "usage: jacobi [iterations], a number from 1 to %d\n", MAX_ITERATIONS);
        MPI_Finalize();
        return 1;
    }

    /* Rows 1 .. INTERIOR are dealt out in blocks; with more ranks than rows the last ranks have none. */
    const int working = size < INTERIOR ? size : INTERIOR;
    int *counts = malloc(size * sizeof *counts), *offsets = malloc(size * sizeof *offsets);
    if (!counts || !offsets) {
        fprintf(stderr, "jacobi: no memory for a table of %d ranks\n", size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int r = 0, next_row = 1; r < size; r++) {
        const int rows_of_r = INTERIOR / size + (r < INTERIOR % size);
        counts[r] = rows_of_r * N;
        offsets[r] = next_row * N;
        next_row += rows_of_r;
    }
    const int rows = counts[rank] / N;
    const int first = offsets[rank] / N;
    const int above = rank > 0 && rank < working ? rank - 1 : MPI_PROC_NULL;
    const int below = rank + 1 < working ? rank + 1 : MPI_PROC_NULL;

    double *now = allocate(rows + 2), *next = allocate(rows + 2);
    if (rows > 0) {
        fill(now, first - 1, rows + 2);
        fill(next, first - 1, rows + 2);
    }

    if (rank == 0)
        printf("jacobi: %d x %d points, %d ranks, %d iterations\n", N, N, size, iterations);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    double previous = INFINITY;
    for (int n = 1; n <= iterations; n++) {
        double *last_row = now + (size_t) rows * N;
        MPI_Sendrecv(now + N, N, MPI_DOUBLE, above, TAG_UP, last_row + N, N, MPI_DOUBLE, below, TAG_UP,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(last_row, N, MPI_DOUBLE, below, TAG_DOWN, now, N, MPI_DOUBLE, above, TAG_DOWN,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        step(now, next, rows);

        if (n % REPORT_EVERY == 0 || n == 1 || n == iterations) {
            const double mine = largest_change(now, next, rows);
            double residual;
            MPI_Allreduce(&mine, &residual, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            if (rank == 0)
                printf("jacobi: iteration %4d  residual %.6e\n", n, residual);
            if (!(residual < previous)) {
                if (rank == 0)
                    fprintf(stderr, "jacobi: the residual did not fall: %.6e after %.6e\n", residual, previous);
                failures = 1;
            }
            previous = residual;
        }
        double *swap = now;
        now = next;
        next = swap;
    }
    const double elapsed = MPI_Wtime() - start;

    double *whole = rank == 0 ? allocate(N) : NULL;
    if (rank == 0)
        fill(whole, 0, N);      /* for its boundary rows; the ranks' blocks replace the rest */
    MPI_Gatherv(now + N, counts[rank], MPI_DOUBLE, whole, counts, offsets, MPI_DOUBLE, 0, MPI_COMM_WORLD);

    if (rank == 0) {
        printf("jacobi: solved in %.3f s; checking\n", elapsed);

        /* A value is below 2^20, so one step rounds by less than 2^-32. */
        const double tolerance = iterations * 0x1p-32;
        const double distance = distance_from_formula(whole, iterations);
        printf("jacobi: largest distance from the formula %.3e, allowed %.3e\n", distance, tolerance);
        if (!(distance <= tolerance)) {
            fprintf(stderr, "jacobi: the grid is not what the formula says\n");
            failures = 1;
        }

        double *serial = solve_serially(iterations);
        const uint64_t sum = checksum(whole, (size_t) N * N), serial_sum = checksum(serial, (size_t) N * N);
        printf("jacobi: checksum %016llx, serial %016llx\n", (unsigned long long) sum, (unsigned long long) serial_sum);
        if (sum != serial_sum || memcmp(whole, serial, (size_t) N * N * sizeof *whole) != 0) {
            fprintf(stderr, "jacobi: the grid differs from the serial computation\n");
            failures = 1;
        }
        free(serial);
    }

    MPI_Bcast(&failures, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("jacobi: %s\n", failures ? "FAIL" : "PASS");

    free(whole);
    free(now);
    free(next);
    free(counts);
    free(offsets);
    MPI_Finalize();
    return failures;
}
