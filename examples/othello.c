/* Othello: the best move of a fixed opening, by a search of the game tree to a fixed depth. Everyone talks to one rank: rank 0
 * hands out positions and collects their values, the others search. Plain MPI, any number of ranks; one searches alone.
 *
 *     othello [depth]        moves to look ahead, 5 to 12, default 8
 *
 * Rank 0 expands the first moves of the tree into a list of positions. Whenever a rank returns a value it gets the next
 * position, so that fast ranks do more of them: many small messages, a request and an answer each. Every position is searched
 * for its exact value, whatever the others found; so the values do not depend on who searched, or when.
 *
 * At the end rank 0 searches the whole tree once more in another way, with alpha-beta bounds from the root on. Exit status 1
 * when the best value or move differs.
 *
 * Compile: mpicc -O2 -o othello othello.c */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEFAULT_DEPTH = 8, LEAST_DEPTH = 5, MOST_DEPTH = 12, SPLIT_DEPTH = 4, MOST_JOBS = 4096, INFINITE = 1 << 20,
       TAG_JOB = 1, TAG_VALUE = 2 };

static const char opening[] = "f5d6c3d3c4";

/* One bit a square: bit 0 is a1, bit 7 is h1, bit 63 is h8. */
struct position {
    uint64_t mine;              /* of the side that moves next */
    uint64_t theirs;
};

/* --- the game ------------------------------------------------------------------------------------------------------- */

static const uint64_t not_a_file = UINT64_C(0xfefefefefefefefe), not_h_file = UINT64_C(0x7f7f7f7f7f7f7f7f);

/* All squares one step further in a direction, 0 to 7; those that leave the board are gone. */
static uint64_t shift(uint64_t squares, int direction)
{
    switch (direction) {
        case 0: return squares << 8;
        case 1: return squares >> 8;
        case 2: return squares << 1 & not_a_file;
        case 3: return squares >> 1 & not_h_file;
        case 4: return squares << 9 & not_a_file;
        case 5: return squares << 7 & not_h_file;
        case 6: return squares >> 7 & not_a_file;
        default: return squares >> 9 & not_h_file;
    }
}

static uint64_t legal_moves(struct position p)
{
    const uint64_t empty = ~(p.mine | p.theirs);
    uint64_t moves = 0;
    for (int direction = 0; direction < 8; direction++) {
        uint64_t run = shift(p.mine, direction) & p.theirs;
        for (int i = 0; i < 5; i++)
            run |= shift(run, direction) & p.theirs;
        moves |= shift(run, direction) & empty;
    }
    return moves;
}

/* The position after a move, seen by the other side. */
static struct position play(struct position p, uint64_t move)
{
    uint64_t flipped = 0;
    for (int direction = 0; direction < 8; direction++) {
        uint64_t run = 0, square = shift(move, direction);
        for (; square & p.theirs; square = shift(square, direction))
            run |= square;
        if (square & p.mine)
            flipped |= run;
    }
    return (struct position) { p.theirs & ~flipped, p.mine | move | flipped };
}

static struct position pass(struct position p)
{
    return (struct position) { p.theirs, p.mine };
}

static int count(uint64_t squares)
{
    return __builtin_popcountll(squares);
}

/* At the end of the game what counts is discs; before it, moves to choose from and corners. */
static int evaluate(struct position p, int over)
{
    static const uint64_t corners = UINT64_C(0x8100000000000081);
    if (over)
        return 1000 * (count(p.mine) - count(p.theirs));
    return 10 * (count(legal_moves(p)) - count(legal_moves(pass(p)))) + 100 * (count(p.mine & corners) - count(p.theirs & corners))
           - (count(p.mine) - count(p.theirs));
}

/* The value of a position for the side that moves, exact between alpha and beta. A pass takes a move of the depth. */
static int search(struct position p, int depth, int alpha, int beta)
{
    uint64_t moves = legal_moves(p);
    if (moves == 0 && legal_moves(pass(p)) == 0)
        return evaluate(p, 1);
    if (depth == 0)
        return evaluate(p, 0);
    if (moves == 0)
        return -search(pass(p), depth - 1, -beta, -alpha);
    for (; moves != 0 && alpha < beta; moves &= moves - 1) {
        const int value = -search(play(p, moves & -moves), depth - 1, -beta, -alpha);
        if (value > alpha)
            alpha = value;
    }
    return alpha;
}

/* --- the tree above the jobs: built and valued in the same order ----------------------------------------------------- */

struct jobs {
    struct position positions[MOST_JOBS];
    int values[MOST_JOBS];
    int count;
};

static void add_jobs(struct jobs *jobs, struct position p, int levels)
{
    uint64_t moves = legal_moves(p);
    if (levels == 0 || (moves == 0 && legal_moves(pass(p)) == 0)) {
        if (jobs->count == MOST_JOBS) {
            fprintf(stderr, "othello: more than %d positions after %d moves\n", MOST_JOBS, SPLIT_DEPTH);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        jobs->positions[jobs->count++] = p;
    } else if (moves == 0)
        add_jobs(jobs, pass(p), levels - 1);
    else
        for (; moves != 0; moves &= moves - 1)
            add_jobs(jobs, play(p, moves & -moves), levels - 1);
}

/* The value of a position from those of the jobs below it; *next is the first of them and becomes the one after the last. */
static int combine(const struct jobs *jobs, struct position p, int levels, int *next)
{
    uint64_t moves = legal_moves(p);
    if (levels == 0 || (moves == 0 && legal_moves(pass(p)) == 0))
        return jobs->values[(*next)++];
    if (moves == 0)
        return -combine(jobs, pass(p), levels - 1, next);
    int best = -INFINITE;
    for (; moves != 0; moves &= moves - 1) {
        const int value = -combine(jobs, play(p, moves & -moves), levels - 1, next);
        best = value > best ? value : best;
    }
    return best;
}

/* --- the ranks ------------------------------------------------------------------------------------------------------ */

/* A position and the moves to look ahead from it; an answer is the number of the job and its value. */
struct request {
    uint64_t mine, theirs;
    int64_t job, depth;
};
enum { REQUEST_WORDS = sizeof(struct request) / 8, NO_MORE = -1 };

/* Rank 0: a position to each rank, then the next one to whoever answers. */
static void hand_out(struct jobs *jobs, int depth, int size)
{
    int next = 0, working = 0;
    for (int rank = 1; rank < size || working > 0;) {
        MPI_Status status;
        int64_t answer[2];
        int idle = rank++;      /* first all get one without having answered */
        if (idle >= size) {
            MPI_Recv(answer, 2, MPI_INT64_T, MPI_ANY_SOURCE, TAG_VALUE, MPI_COMM_WORLD, &status);
            jobs->values[answer[0]] = (int) answer[1];
            idle = status.MPI_SOURCE;
            working--;
        }
        struct request request = { .job = NO_MORE };
        if (next < jobs->count) {
            request = (struct request) { jobs->positions[next].mine, jobs->positions[next].theirs, next, depth };
            next++;
            working++;
        }
        MPI_Send(&request, REQUEST_WORDS, MPI_INT64_T, idle, TAG_JOB, MPI_COMM_WORLD);
    }
}

static void search_for_rank_0(void)
{
    for (;;) {
        struct request request;
        MPI_Recv(&request, REQUEST_WORDS, MPI_INT64_T, 0, TAG_JOB, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (request.job == NO_MORE)
            return;
        const struct position p = { request.mine, request.theirs };
        const int64_t answer[2] = { request.job, search(p, (int) request.depth, -INFINITE, INFINITE) };
        MPI_Send(answer, 2, MPI_INT64_T, 0, TAG_VALUE, MPI_COMM_WORLD);
    }
}

static struct position after_opening(void)
{
    struct position p = { UINT64_C(1) << 28 | UINT64_C(1) << 35, UINT64_C(1) << 27 | UINT64_C(1) << 36 };
    for (const char *move = opening; *move != '\0'; move += 2)
        p = play(p, UINT64_C(1) << ((move[1] - '1') * 8 + (move[0] - 'a')));
    return p;
}

/* The best move, the first of those with the best value, and the value; from the jobs, or by a search from the root. */
static int choose(struct position p, int depth, const struct jobs *jobs, uint64_t *best_move)
{
    int best = -INFINITE, next = 0;
    for (uint64_t moves = legal_moves(p); moves != 0; moves &= moves - 1) {
        const struct position after = play(p, moves & -moves);
        const int value = jobs ? -combine(jobs, after, SPLIT_DEPTH - 1, &next) : -search(after, depth - 1, -INFINITE, -best);
        if (value > best) {
            best = value;
            *best_move = moves & -moves;
        }
    }
    return best;
}

static int parse_depth(int argc, char **argv)
{
    if (argc < 2)
        return DEFAULT_DEPTH;
    char *end;
    const long n = strtol(argv[1], &end, 10);
    return argc == 2 && end != argv[1] && *end == '\0' && n >= LEAST_DEPTH && n <= MOST_DEPTH ? (int) n : -1;
}

int main(int argc, char **argv)
{
    static struct jobs jobs;
    int rank, size, failed = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int depth = parse_depth(argc, argv);
    if (depth < 0) {
        if (rank == 0)
            fprintf(stderr, "usage: othello [depth], a number from %d to %d\n", LEAST_DEPTH, MOST_DEPTH);
        MPI_Finalize();
        return 1;
    }

    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    if (rank != 0) {
        search_for_rank_0();
    } else {
        const struct position root = after_opening();
        add_jobs(&jobs, root, SPLIT_DEPTH);
        if (size > 1)
            hand_out(&jobs, depth - SPLIT_DEPTH, size);
        else
            for (int i = 0; i < jobs.count; i++)
                jobs.values[i] = search(jobs.positions[i], depth - SPLIT_DEPTH, -INFINITE, INFINITE);
        uint64_t move = 0, check_move = 0;
        const int value = choose(root, depth, &jobs, &move);
        const double elapsed = MPI_Wtime() - start;
        const int square = __builtin_ctzll(move);
        printf("othello: depth %d, %d ranks, %d positions in %.6f s\n", depth, size, jobs.count, elapsed);
        printf("othello: after %s the best move is %c%c, value %d\n", opening, 'a' + square % 8, '1' + square / 8, value);

        failed = choose(root, depth, NULL, &check_move) != value || check_move != move;
        printf("othello: %s\n", failed ? "FAIL" : "PASS");
    }
    MPI_Bcast(&failed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return failed;
}
