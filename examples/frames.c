/* A real-time simulation with a master and its workers: every 10 ms begins a frame, for which rank 0 picks other workers than
 * for the last one. It multicasts the data of the frame to them with MPIX_Mcast, which the workers need not expect and the others
 * do not notice; no communicator is made. Each member computes its share and answers with a small message.
 *
 *     frames [--frames N] [--seed N]        default 200 frames; the seed chooses groups and data
 *
 * A frame is met when all its answers are there before the next one begins, otherwise it is missed; the master does not wait
 * for a missed frame, but goes on with the next one. How many are met depends on the machine and is no error. The answers are
 * checked: the shares of a frame must add up to what rank 0 computes alone. Exit status: 0 when all are right, 1 otherwise.
 *
 * Compile: mpicc -O2 -o frames frames.c */

#include <errno.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef MPIX_MCAST_DELIVERED
#error "This program needs MPIX_Mcast: compile it with the mpicc of MPICH-Composite"
#endif

enum { MASTER = 0, DEFAULT_FRAMES = 200, MOST_FRAMES = 1000000, WORDS = 1024, ROUNDS = 20, TAG_FRAME = 1, TAG_ANSWER = 2,
       THE_END = -1 };
static const int64_t period = 10 * 1000 * 1000, look_every = 100 * 1000;       /* nanoseconds: frames, looks for answers */

struct frame {
    int64_t number;             /* or THE_END */
    uint64_t data[WORDS];
};
struct answer {
    int64_t number;
    uint64_t share;
};
enum { FRAME_WORDS = sizeof(struct frame) / 8, ANSWER_WORDS = sizeof(struct answer) / 8 };

/* What the master keeps of a frame. */
struct record {
    int missing;                /* answers */
    int met;
    uint64_t expected;          /* less the shares that are there: 0 at the end */
};

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t) time.tv_sec * 1000000000 + time.tv_nsec;
}

static void sleep_until(int64_t when)
{
    const struct timespec time = { (time_t) (when / 1000000000), (long) (when % 1000000000) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) {
    }
}

/* splitmix64: the next number of a sequence. */
static uint64_t mix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* The work: every `step`-th word from `first` on. The sum of such shares does not depend on how many there are. */
static uint64_t compute(const uint64_t *data, int first, int step)
{
    uint64_t sum = 0;
    for (int i = first; i < WORDS; i += step) {
        uint64_t state = data[i];
        for (int round = 0; round < ROUNDS; round++)
            sum += mix(&state);
    }
    return sum;
}

/* --- workers --------------------------------------------------------------------------------------------------------- */

/* The position of a rank among the members. */
static int position(const MPIX_Bitmap *members, int size, int rank)
{
    int before = 0;
    for (int r = MPIX_Bitmap_next(members, size, -1); r >= 0 && r < rank; r = MPIX_Bitmap_next(members, size, r))
        before++;
    return before;
}

/* A worker learns from the frame itself who else has it, and so which share is its own. */
static void work(int rank, int size, MPIX_Bitmap *members)
{
    static struct frame frame;
    for (;;) {
        MPIX_Mcast_recv(&frame, FRAME_WORDS, MPI_UINT64_T, MPI_ANY_SOURCE, TAG_FRAME, MPI_COMM_WORLD, members, MPI_STATUS_IGNORE);
        if (frame.number == THE_END)
            return;
        const struct answer answer = { frame.number, compute(frame.data, position(members, size, rank),
                                                             MPIX_Bitmap_count(members, size)) };
        MPI_Send(&answer, ANSWER_WORDS, MPI_UINT64_T, MASTER, TAG_ANSWER, MPI_COMM_WORLD);
    }
}

/* --- the master ------------------------------------------------------------------------------------------------------ */

/* A new group, of one worker at least, and data for it. */
static void prepare(struct frame *frame, int64_t number, MPIX_Bitmap *members, int size, uint64_t *state)
{
    MPIX_Bitmap_zero(members, size);
    for (int worker = 1; worker < size; worker++)
        if (mix(state) & 1)
            MPIX_Bitmap_set(members, worker);
    MPIX_Bitmap_set(members, 1 + (int) (mix(state) % (uint64_t) (size - 1)));
    frame->number = number;
    for (int i = 0; i < WORDS; i++)
        frame->data[i] = mix(state);
}

static void note(struct record *records, const struct answer *answer, int64_t deadline_of_first)
{
    struct record *record = &records[answer->number];
    record->expected -= answer->share;
    if (--record->missing == 0)
        record->met = now() < deadline_of_first + answer->number * period;
}

/* Returns how many frames have wrong answers. */
static int master(int frames, uint64_t state, int size, MPIX_Bitmap *members)
{
    static struct frame frame;
    struct record *records = calloc((size_t) frames, sizeof *records);
    if (!records) {
        fprintf(stderr, "frames: no memory for %d frames\n", frames);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    struct answer answer;
    MPI_Request request;
    int outstanding = 0;        /* answers, of all frames */
    MPI_Irecv(&answer, ANSWER_WORDS, MPI_UINT64_T, MPI_ANY_SOURCE, TAG_ANSWER, MPI_COMM_WORLD, &request);

    const int64_t start = now();
    for (int number = 0; number < frames; number++) {
        prepare(&frame, number, members, size, &state);
        records[number].missing = MPIX_Bitmap_count(members, size);
        records[number].expected = compute(frame.data, 0, 1);
        outstanding += records[number].missing;
        sleep_until(start + number * period);
        MPIX_Mcast(&frame, FRAME_WORDS, MPI_UINT64_T, members, TAG_FRAME, MPI_COMM_WORLD);

        /* Answers of earlier frames may still come, too. */
        while (outstanding > 0 && now() < start + (number + 1) * period) {
            int arrived;
            MPI_Test(&request, &arrived, MPI_STATUS_IGNORE);
            if (!arrived) {
                sleep_until(now() + look_every);
                continue;
            }
            note(records, &answer, start + period);
            outstanding--;
            MPI_Irecv(&answer, ANSWER_WORDS, MPI_UINT64_T, MPI_ANY_SOURCE, TAG_ANSWER, MPI_COMM_WORLD, &request);
        }
    }
    for (; outstanding > 0; outstanding--) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        note(records, &answer, start + period);
        MPI_Irecv(&answer, ANSWER_WORDS, MPI_UINT64_T, MPI_ANY_SOURCE, TAG_ANSWER, MPI_COMM_WORLD, &request);
    }
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);

    MPIX_Bitmap_zero(members, size);
    for (int worker = 1; worker < size; worker++)
        MPIX_Bitmap_set(members, worker);
    frame.number = THE_END;
    MPIX_Mcast(&frame, FRAME_WORDS, MPI_UINT64_T, members, TAG_FRAME, MPI_COMM_WORLD);

    int met = 0, wrong = 0;
    for (int number = 0; number < frames; number++) {
        met += records[number].met;
        wrong += records[number].expected != 0;
    }
    printf("frames: %d ranks, %zu bytes every %d ms\n", size, sizeof frame, (int) (period / 1000000));
    printf("frames: %d frames, %d met, %d missed\n", frames, met, frames - met);
    if (wrong > 0)
        fprintf(stderr, "frames: wrong answers to %d frames\n", wrong);
    free(records);
    return wrong;
}

/* Whether the argument is there and a number from `least` to `most`. */
static int parse(const char *text, long long least, long long most, long long *value)
{
    char *end;
    if (!text)
        return 0;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && *value >= least && *value <= most;
}

int main(int argc, char **argv)
{
    int rank, size, usable = 1, wrong = 0;
    long long frames = DEFAULT_FRAMES, seed = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--frames") == 0)
            usable = usable && parse(argv[i + 1], 1, MOST_FRAMES, &frames);
        else
            usable = usable && strcmp(argv[i], "--seed") == 0 && parse(argv[i + 1], 0, INT64_MAX, &seed);
    }
    if (!usable || size < 2) {
        if (rank == 0)
            fprintf(stderr, "usage: frames [--frames N] [--seed N], with N up to %d frames, on 2 ranks or more\n", MOST_FRAMES);
        MPI_Finalize();
        return 1;
    }

    MPIX_Bitmap *members = calloc(MPIX_BITMAP_WORDS(size), sizeof *members);
    if (!members) {
        fprintf(stderr, "frames: no memory for a set of %d ranks\n", size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == MASTER)
        wrong = master((int) frames, (uint64_t) seed, size, members);
    else
        work(rank, size, members);
    MPI_Bcast(&wrong, 1, MPI_INT, MASTER, MPI_COMM_WORLD);
    if (rank == MASTER)
        printf("frames: %s\n", wrong ? "FAIL" : "PASS");
    free(members);
    MPI_Finalize();
    return wrong != 0;
}
