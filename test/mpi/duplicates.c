/* A thousand duplicates of a communicator at once: messages on one are not received on another, all can be made again after they
 * are freed, and each takes no more messages than one allreduce by recursive doubling does. By two or four ranks. */
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
        /* A few are made beside them, and the last ones that fit take two steps. */
        EXPECT(sent <= (unsigned long long) rounds * count * 5 / 4, "%d duplicates took %llu messages of this rank", count, sent);
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
    MPI_T_finalize();
    long mine = atomic_load(&wrong), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("duplicates: %d ranks, %ld wrong\n", ranks, all);
    MPI_Finalize();
    return all != 0;
}
