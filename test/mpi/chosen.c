/* Usage: chosen spawn|server|client DEVICE
 * Processes that meet later, by MPI_Comm_spawn or by MPI_Comm_connect through the file ./chosen-port, talk over the device that the
 * composite would have chosen at the start, by what the devices count: all that is sent goes over DEVICE, and nothing over others. The
 * same program is the child. The last rank of each side talks: what the two roots say to each other may go another way, as they met by
 * the name of a port, which has no room for all that a device of UCX tells. */
#include "expect.h"
#include "counters.h"

#include <unistd.h>

enum { times = 100, bytes = 3000 };
static MPI_T_pvar_session session;
static char port[MPI_MAX_PORT_NAME];

static void count_all(unsigned long long *sent)
{
    for (int i = 0; i < DEVICES; i++)
        sent[i] = carried(session, i, "messages_sent");
}

static void talk(MPI_Comm other, const char *device)
{
    unsigned long long before[DEVICES], after[DEVICES];
    static char out[bytes], in[bytes];
    MPI_Sendrecv(out, 1, MPI_BYTE, rank, 1, in, 1, MPI_BYTE, rank, 1, other, MPI_STATUS_IGNORE);
    count_all(before);
    for (int i = 0; i < times; i++) {
        memset(out, i, bytes);
        MPI_Sendrecv(out, bytes, MPI_BYTE, rank, 2, in, bytes, MPI_BYTE, rank, 2, other, MPI_STATUS_IGNORE);
        EXPECT(in[0] == (char) i && in[bytes - 1] == (char) i, "message %d is wrong", i);
    }
    count_all(after);
    for (int i = 0; i < DEVICES; i++) {
        int is_it = strcmp(device_names[i], device) == 0;
        EXPECT(is_it ? after[i] - before[i] >= times : after[i] == before[i], "%s carried %llu messages, and %s should have carried all",
               device_names[i], after[i] - before[i], device);
    }
}

/* What both found: the launcher tells only one status. */
static void part_ways(MPI_Comm *other)
{
    long mine = atomic_load(&wrong), theirs = 0;
    MPI_Sendrecv(&mine, 1, MPI_LONG, rank, 3, &theirs, 1, MPI_LONG, rank, 3, *other, MPI_STATUS_IGNORE);
    EXPECT(theirs == 0, "the other side found %ld wrong", theirs);
    MPI_Comm_disconnect(other);
}

static void meet(MPI_Comm *other, int is_server)
{
    FILE *file;
    if (is_server && rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        if (!(file = fopen("chosen-port.new", "w")) || fputs(port, file) < 0 || fclose(file) != 0 || rename("chosen-port.new", "chosen-port") != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (is_server) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, other);
    } else {
        while (!(file = fopen("chosen-port", "r")))
            usleep(1000);
        if (!fgets(port, sizeof port, file))
            MPI_Abort(MPI_COMM_WORLD, 1);
        fclose(file);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, other);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm other;
    int provided;
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    part = argv[1];
    MPI_Comm_get_parent(&other);
    if (strcmp(argv[1], "spawn") != 0)
        meet(&other, strcmp(argv[1], "server") == 0);
    else if (other == MPI_COMM_NULL)
        MPI_Comm_spawn(argv[0], argv + 1, ranks, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
    if (rank == ranks - 1)
        talk(other, argv[2]);
    part_ways(&other);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return wrong != 0;
}
