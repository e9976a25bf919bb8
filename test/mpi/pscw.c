/* Post, start, complete, wait: an epoch is of the ranks of its group, in whatever order the others come. */
#include "expect.h"

static MPI_Win win;
static int *memory;

static MPI_Group group_of(int n, const int members[])
{
    MPI_Group all, some;
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, n, members, &some);
    MPI_Group_free(&all);
    return some;
}

static void open_window(void)
{
    MPI_Win_allocate(64 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    for (int i = 0; i < 64; i++)
        memory[i] = -1;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void start_one(int target, int value)
{
    MPI_Group group = group_of(1, &target);
    MPI_Win_start(group, 0, win);
    MPI_Put(&value, 1, MPI_INT, target, rank, 1, MPI_INT, win);
    MPI_Win_complete(win);
    MPI_Group_free(&group);
}

/* Both targets have posted before the first of two epochs, each with one of them, starts: either order. */
static void two_targets(void)
{
    int origin = 0;
    open_window();
    for (int round = 0; round < 10; round++) {
        if (rank == 1 || rank == 2) {
            MPI_Group group = group_of(1, &origin);
            MPI_Win_post(group, 0, win);
            MPI_Group_free(&group);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            start_one(round % 2 ? 1 : 2, 10 + round);
            start_one(round % 2 ? 2 : 1, 10 + round);
        } else if (rank <= 2) {
            MPI_Win_wait(win);
            EXPECT(memory[0] == 10 + round, "the value is %d in round %d", memory[0], round);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&win);
}

/* Everybody is exposed to everybody, and goes to the others one by one, in an order of its own; then to all at once. */
static void everybody(void)
{
    int members[64], all_of_us = 0;
    open_window();
    for (int i = 0; i < ranks; i++)
        members[all_of_us++] = i;
    MPI_Group all = group_of(all_of_us, members);
    for (int round = 0; round < 30; round++) {
        int order[64], done = 0;
        for (int i = 0; i < ranks; i++)
            order[i] = i;
        for (int i = ranks - 1; i > 0; i--) {
            int k = (int)(mix((uint64_t)round << 32 ^ (uint64_t)rank << 8 ^ i) % (i + 1)), other = order[i];
            order[i] = order[k], order[k] = other;
        }
        MPI_Win_post(all, 0, win);
        if (round % 3 == 2) {
            MPI_Win_start(all, 0, win);
            for (int i = 0; i < ranks; i++)
                MPI_Put(&round, 1, MPI_INT, order[i], rank, 1, MPI_INT, win);
            MPI_Win_complete(win);
        } else {
            for (int i = 0; i < ranks; i++)
                start_one(order[i], round);
        }
        if (round % 2)
            MPI_Win_wait(win);
        else
            while (!done)
                MPI_Win_test(win, &done);
        for (int i = 0; i < ranks; i++)
            EXPECT(memory[i] == round, "round %d: the value of %d is %d", round, i, memory[i]);
    }
    MPI_Group_free(&all);
    MPI_Win_free(&win);
}

/* Rank 0 is exposed to one rank after another, all of which have come already; an empty group waits for nobody. */
static void one_after_another(void)
{
    int target = 0;
    MPI_Group nobody;
    open_window();
    nobody = group_of(0, &target);
    if (rank == 0) {
        for (int origin = ranks - 1; origin > 0; origin--) {
            MPI_Group group = group_of(1, &origin);
            MPI_Win_post(group, 0, win);
            MPI_Win_wait(win);
            for (int i = 1; i < ranks; i++)
                EXPECT(memory[i] == (i >= origin ? 7 : -1), "after %d the value of %d is %d", origin, i, memory[i]);
            MPI_Group_free(&group);
        }
    } else {
        start_one(0, 7);
    }
    MPI_Win_post(nobody, 0, win);
    MPI_Win_start(nobody, 0, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    MPI_Group_free(&nobody);
    MPI_Win_free(&win);
}

/* The collective needs a rank that waits for others to be done with its memory, and so do they: it advances it there. */
static void collective_meanwhile(void)
{
    int origin = ranks - 1, target = 0;
    open_window();
    for (int round = 0; round < 10; round++) {
        MPI_Request request;
        int one = 1, sum = 0;
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        if (rank == target) {
            MPI_Group group = group_of(1, &origin);
            MPI_Win_post(group, 0, win);
            MPI_Win_wait(win);
            MPI_Group_free(&group);
            EXPECT(memory[origin] == round, "the value is %d in round %d", memory[origin], round);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        EXPECT(sum == ranks, "the sum is %d in round %d", sum, round);
        if (rank == origin)
            start_one(target, round);
    }
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    const struct part parts[] = {
        { "two_targets", two_targets, 3, 0 },
        { "everybody", everybody, 1, 0 },
        { "one_after_another", one_after_another, 2, 0 },
        { "collective_meanwhile", collective_meanwhile, 2, 0 },
    };
    MPI_Init(&argc, &argv);
    int status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
