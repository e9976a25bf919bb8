/* Red-black successive over-relaxation for Laplace's equation on a square grid, in strips of rows: every rank talks to its
 * two neighbours only, twice in each sweep. Plain MPI, up to one rank for each inner row.
 *
 *     sor [points]        points a side of the grid, 4 to 4096, default 384
 *
 * The points are coloured like a chessboard. A sweep moves the red points towards the mean of their four neighbours, which
 * are all black, then the black ones; so before each half the first and last row of a strip go to the neighbours. The
 * result depends on the colours only, not on the strips.
 *
 * The boundary holds u(x,y) = x*x - y*y, for which the five-point formula is exact: the solution is known at every point.
 * Two checks, and exit status 1 when one of them fails:
 *
 *   1. every point agrees with the solution, up to what the iteration left;
 *   2. the gathered grid equals, bit for bit, that of the same iteration on one rank.
 *
 * Compile: mpicc -O2 -o sor sor.c -lm */

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_POINTS = 384, LEAST_POINTS = 4, MOST_POINTS = 4096, SWEEPS_BETWEEN_CHECKS = 10, TAG_UP = 1, TAG_DOWN = 2 };

static const double pi = 3.14159265358979323846;
static const double largest_last_change = 1e-9, largest_error = 1e-5;

/* Rows first .. first+rows-1 of the grid, between a row of the neighbour (or of the boundary) above and one below. */
struct strip {
    int points, first, rows;
    double *u;
};

static double exact(int points, int i, int j)
{
    const double x = (double) j / (points - 1), y = (double) i / (points - 1);
    return x * x - y * y;
}

static struct strip make_strip(int points, int first, int rows)
{
    struct strip strip = { points, first, rows, malloc((size_t) (rows + 2) * points * sizeof(double)) };
    if (!strip.u) {
        fprintf(stderr, "sor: no memory for %d rows of %d points\n", rows + 2, points);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int r = 0; r < rows + 2; r++)
        for (int j = 0; j < points; j++) {
            const int i = first - 1 + r;
            const int boundary = i == 0 || i == points - 1 || j == 0 || j == points - 1;
            strip.u[(size_t) r * points + j] = boundary ? exact(points, i, j) : 0.0;
        }
    return strip;
}

/* Moves the points of one colour and returns the largest change. */
static double half_sweep(const struct strip *strip, int colour, double omega)
{
    double largest = 0.0;
    for (int r = 1; r <= strip->rows; r++) {
        double *here = strip->u + (size_t) r * strip->points;
        const double *above = here - strip->points, *below = here + strip->points;
        for (int j = 1 + (strip->first + r + colour) % 2; j < strip->points - 1; j += 2) {
            const double change = omega * (0.25 * ((above[j] + below[j]) + (here[j - 1] + here[j + 1])) - here[j]);
            here[j] += change;
            largest = fmax(largest, fabs(change));
        }
    }
    return largest;
}

static void exchange_rows(const struct strip *strip, MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    const int n = strip->points;
    double *first_row = strip->u + n, *last_row = strip->u + (size_t) strip->rows * n;
    MPI_Sendrecv(first_row, n, MPI_DOUBLE, above, TAG_UP, last_row + n, n, MPI_DOUBLE, below, TAG_UP, comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(last_row, n, MPI_DOUBLE, below, TAG_DOWN, strip->u, n, MPI_DOUBLE, above, TAG_DOWN, comm, MPI_STATUS_IGNORE);
}

/* Sweeps until nothing moves any more; the ranks of `comm` hold the strips in their order. Returns the number of sweeps. */
static int solve(const struct strip *strip, MPI_Comm comm)
{
    const double omega = 2.0 / (1.0 + sin(pi / (strip->points - 1)));   /* the best factor for this equation */
    for (int sweep = 1;; sweep++) {
        double change = 0.0;
        for (int colour = 0; colour < 2; colour++) {
            exchange_rows(strip, comm);
            change = fmax(change, half_sweep(strip, colour, omega));
        }
        if (sweep % SWEEPS_BETWEEN_CHECKS == 0) {
            MPI_Allreduce(MPI_IN_PLACE, &change, 1, MPI_DOUBLE, MPI_MAX, comm);
            if (!(change > largest_last_change))
                return sweep;
        }
    }
}

/* The largest distance of any point from the solution; one that is not a number counts as infinitely far. */
static double error_of(const struct strip *strip)
{
    double largest = 0.0;
    for (int i = 0; i < strip->points; i++)
        for (int j = 0; j < strip->points; j++) {
            const double error = fabs(strip->u[(size_t) i * strip->points + j] - exact(strip->points, i, j));
            largest = fmax(largest, isnan(error) ? INFINITY : error);
        }
    return largest;
}

static int parse_points(int argc, char **argv)
{
    if (argc < 2)
        return DEFAULT_POINTS;
    char *end;
    const long n = strtol(argv[1], &end, 10);
    return argc == 2 && end != argv[1] && *end == '\0' && n >= LEAST_POINTS && n <= MOST_POINTS ? (int) n : -1;
}

int main(int argc, char **argv)
{
    int rank, size, failed = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int points = parse_points(argc, argv), inner = points - 2;
    if (points < 0 || inner < size) {
        if (rank == 0)
            fprintf(stderr, "usage: sor [points], a number from %d to %d and at least two more than ranks\n", LEAST_POINTS,
                    MOST_POINTS);
        MPI_Finalize();
        return 1;
    }

    /* Of each strip: how many points it has, and how many of the grid are before it. */
    int *counts = malloc(size * sizeof *counts), *offsets = malloc(size * sizeof *offsets);
    if (!counts || !offsets) {
        fprintf(stderr, "sor: no memory for a table of %d ranks\n", size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int r = 0, next_row = 1; r < size; r++) {
        counts[r] = (inner / size + (r < inner % size)) * points;
        offsets[r] = next_row * points;
        next_row += counts[r] / points;
    }
    const struct strip strip = make_strip(points, offsets[rank] / points, counts[rank] / points);

    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    const int sweeps = solve(&strip, MPI_COMM_WORLD);
    const double elapsed = MPI_Wtime() - start;

    struct strip whole = { 0 };
    if (rank == 0)
        whole = make_strip(points, 1, inner);
    MPI_Gatherv(strip.u + points, counts[rank], MPI_DOUBLE, whole.u, counts, offsets, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("sor: %d x %d points, %d ranks, %d sweeps in %.6f s\n", points, points, size, sweeps, elapsed);
        const double error = error_of(&whole);
        printf("sor: largest distance from the solution %.3e, allowed %.0e\n", error, largest_error);
        const struct strip alone = make_strip(points, 1, inner);
        solve(&alone, MPI_COMM_SELF);
        const int same = memcmp(whole.u, alone.u, (size_t) points * points * sizeof(double)) == 0;
        printf("sor: the grid is %s that of one rank\n", same ? "equal to" : "DIFFERENT from");
        failed = !(error <= largest_error) || !same;
        printf("sor: %s\n", failed ? "FAIL" : "PASS");
        free(alone.u);
    }
    MPI_Bcast(&failed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    free(whole.u);
    free(strip.u);
    free(counts);
    free(offsets);
    MPI_Finalize();
    return failed;
}
