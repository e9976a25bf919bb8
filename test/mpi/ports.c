/* Usage: ports server|client left|killed|again
 * Two jobs that meet by MPI_Comm_connect, through the file ./port. left: the client's ranks disconnect and are killed then, which the
 * server does not notice, who is waiting all the time; then it disconnects, and the next client comes. killed: they are killed while the
 * server waits for them, which is an error. again: the same two jobs connect and disconnect many times. */
#include "expect.h"
#include <signal.h>
#include <unistd.h>

#define AGAIN 200
static char port[MPI_MAX_PORT_NAME];

static void write_port(void)
{
    FILE *file = fopen("port.new", "w");
    if (!file || fputs(port, file) < 0 || fclose(file) != 0 || rename("port.new", "port") != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void read_port(void)
{
    FILE *file;
    while (!(file = fopen("port", "r")))
        usleep(1000);
    if (!fgets(port, sizeof port, file))
        MPI_Abort(MPI_COMM_WORLD, 1);
    fclose(file);
}

/* Everybody sends to everybody of the other side. */
static void talk(MPI_Comm other)
{
    int count, value;
    MPI_Comm_remote_size(other, &count);
    for (int i = 0; i < count; i++)
        MPI_Sendrecv(&rank, 1, MPI_INT, i, 1, &value, 1, MPI_INT, i, 1, other, MPI_STATUS_IGNORE);
}

static void serve(const char *what)
{
    MPI_Comm client;
    int value = 0, first = 0;
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        write_port();
    }
    for (int i = 0; i < (strcmp(what, "again") ? 1 : AGAIN); i++) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &client);
        talk(client);
        if (i == 0 && strcmp(what, "again") == 0)
            first = descriptors();
        EXPECT(first == 0 || descriptors() <= first + 2, "%d descriptors after %d clients, %d with the first", descriptors(), i + 1, first);
        if (strcmp(what, "killed") == 0)
            MPI_Recv(&value, 1, MPI_INT, rank, 2, client, MPI_STATUS_IGNORE);
        if (strcmp(what, "left") == 0) {
            /* One sees the end of the client, and that we would have seen it, too; the others wait. */
            if (rank == ranks - 1) {
                while (access("gone", F_OK) != 0)
                    usleep(1000);
                sleep(3);
                for (int other = 0; other < rank; other++)
                    MPI_Send(&value, 1, MPI_INT, other, 3, MPI_COMM_WORLD);
            } else
                MPI_Recv(&value, 1, MPI_INT, ranks - 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Comm_disconnect(&client);
    }
    if (strcmp(what, "left") == 0) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &client);
        talk(client);
        MPI_Comm_disconnect(&client);
    }
    if (rank == 0)
        MPI_Close_port(port);
}

static void visit(const char *what)
{
    MPI_Comm server;
    read_port();
    for (int i = 0; i < (strcmp(what, "again") ? 1 : AGAIN); i++) {
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &server);
        talk(server);
        if (strcmp(what, "killed") == 0)
            raise(SIGKILL);
        MPI_Comm_disconnect(&server);
    }
    if (strcmp(what, "left") == 0 && access("gone", F_OK) != 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        raise(SIGKILL);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    (strcmp(argv[1], "server") == 0 ? serve : visit) (argv[2]);
    MPI_Finalize();
    return wrong != 0;
}
