/* The performance variables of devices: found by name, and they count what a rank sends and receives. */
#include "counters.h"

#include <string.h>

#define BYTES 100

static unsigned long long sum_of(MPI_T_pvar_session session, const char *kind)
{
    unsigned long long sum = 0;

    for (int i = 0; i < DEVICES; i++)
        sum += carried(session, i, kind);
    return sum;
}

int main(int argc, char **argv)
{
    int rank, size, provided, wrong = 0, all_wrong;
    char bytes[BYTES] = "";
    unsigned long long sent, received, sent_bytes, received_bytes;
    MPI_T_pvar_session session;

    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_T_pvar_session_create(&session);

    sent = sum_of(session, "messages_sent");
    sent_bytes = sum_of(session, "bytes_sent");
    received = sum_of(session, "messages_received");
    received_bytes = sum_of(session, "bytes_received");
    MPI_Barrier(MPI_COMM_WORLD);        /* nobody sends before all have looked */
    for (int i = 0; i < 10; i++)
        MPI_Sendrecv_replace(bytes, BYTES, MPI_BYTE, (rank + 1) % size, 0, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    /* Whatever else MPI sends comes on top. */
    wrong += sum_of(session, "messages_sent") < sent + 10;
    wrong += sum_of(session, "bytes_sent") < sent_bytes + 10 * BYTES;
    wrong += sum_of(session, "messages_received") < received + 10;
    wrong += sum_of(session, "bytes_received") < received_bytes + 10 * BYTES;
    wrong += sum_of(session, "bytes_sent") > sent_bytes + 100 * BYTES;

    MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("pvars: %d ranks, %d wrong\n", size, all_wrong);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return wrong != 0;
}
