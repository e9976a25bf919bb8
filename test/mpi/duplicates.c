/* A thousand duplicates of a communicator at once: messages on one are not received on another, all can be made again after they
 * are freed, and all ranks together take no more messages for each than an allreduce by recursive doubling and a broadcast do. Some that end later
 * are used in any order, or not at all. By two or four ranks. */
#include "expect.h"

enum { count = 1000 };

static unsigned long long messages_sent(void)
{
    static const char *names[] = { "composite_shmem_messages_sent", "composite_ucx_messages_sent", "composite_udp_messages_sent" };
    unsigned long long sum = 0;
    MPI_T_pvar_session session;

    MPI_T_pvar_session_create(&session);
    for (int i = 0; i < 3; i++) {
        int number, elements;
        unsigned long long value = 0;
        MPI_T_pvar_handle handle;
        EXPECT(MPI_T_pvar_get_index(names[i], MPI_T_PVAR_CLASS_COUNTER, &number) == MPI_SUCCESS, "there is no %s", names[i]);
        MPI_T_pvar_handle_alloc(session, number, NULL, &handle, &elements);
        MPI_T_pvar_read(session, handle, &value);
        MPI_T_pvar_handle_free(session, &handle);
        sum += value;
    }
    MPI_T_pvar_session_free(&session);
    return sum;
}

static void use(MPI_Comm comm, int salt)
{
    for (int i = 0; i < 3; i++) {
        int root = (salt + i) % ranks, value = rank == root ? salt * 10 + i : -1, sum = 0;
        MPI_Request request;
        MPI_Bcast(&value, 1, MPI_INT, root, comm);
        EXPECT(value == salt * 10 + i, "a broadcast of %d, not %d", value, salt * 10 + i);
        MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        EXPECT(sum == value * ranks, "a sum of %d, not %d", sum, value * ranks);
    }
}

/* Of those that are made while others go on, and while something else does, some are used; that a rank hears of what it has not used is
 * no matter of the next one with its number. */
static void ending_later(int round)
{
    enum { AT_ONCE = 6 };
    MPI_Comm comms[AT_ONCE], beside;
    MPI_Request requests[AT_ONCE], barrier;
    int sum = 0;

    for (int i = 0; i < AT_ONCE; i++)
        MPI_Comm_idup(MPI_COMM_WORLD, &comms[i], &requests[i]);
    MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
    MPI_Ibarrier(comms[0], &barrier);
    MPI_Comm_split(MPI_COMM_WORLD, 0, round % 2 ? -rank : rank, &beside);
    if (rank % 2)
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comms[4], &requests[4]);
    use(comms[5], round);
    use(comms[1 + round % 3], round + 1);
    MPI_Wait(&requests[4], MPI_STATUS_IGNORE);
    EXPECT(sum == ranks * (ranks - 1) / 2, "a sum of %d", sum);
    use(comms[4], round + 2);
    if (rank % 2 == 0)
        MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    /* Nor need it have been used before it is freed, with its ranks in another order. */
    if (round % 4 < 2)
        MPI_Bcast(&sum, 1, MPI_INT, 0, beside);
    for (int i = 0; i < AT_ONCE; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Comm_free(&beside);
}

int main(int argc, char **argv)
{
    static MPI_Comm comms[count];
    static MPI_Request requests[count];
    static int values[count];
    int provided, rounds = 0;
    unsigned long long before, sent;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    while (1 << rounds < ranks)
        rounds++;
    for (int round = 0; round < 2; round++) {
        part = round == 0 ? "first" : "again";
        MPI_Barrier(MPI_COMM_WORLD);
        before = messages_sent();
        for (int i = 0; i < count; i++)
            MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        sent = messages_sent() - before;
        MPI_Allreduce(MPI_IN_PLACE, &sent, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        /* A few are made beside them, and the last ones that fit take two steps. */
        EXPECT(sent <= (unsigned long long) (rounds * ranks + ranks - 1) * count * 5 / 4, "%d duplicates took %llu messages", count, sent);
        for (int i = 0; i < count; i++) {
            values[i] = (int) (mix(i) >> 40);
            MPI_Isend(&values[i], 1, MPI_INT, (rank + 1) % ranks, 0, comms[i], &requests[i]);
        }
        for (int i = count - 1; i >= 0; i--) {
            int value = -1;
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i], MPI_STATUS_IGNORE);
            EXPECT(value == values[i], "duplicate %d received what was sent on another", i);
        }
        expect_class(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS, "MPI_Waitall");
        for (int i = 0; i < count; i++)
            MPI_Comm_free(&comms[i]);
    }
    part = "ending later";
    for (int round = 0; round < 40; round++)
        ending_later(round);
    MPI_T_finalize();
    long mine = atomic_load(&wrong), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("duplicates: %d ranks, %ld wrong\n", ranks, all);
    MPI_Finalize();
    return all != 0;
}
