/* Usage: ports server|client left|killed|again|self|late|never
 * Two jobs that meet by MPI_Comm_connect, through the file ./port. left: the client's ranks disconnect and are killed then, which the
 * server does not notice, who is waiting all the time; then it disconnects, and the next client comes. killed: they are killed while the
 * server waits for them, which is an error. again: the same two jobs connect and disconnect many times. self: two
 * ranks meet as MPI_COMM_SELF and make a window over both. late: the server accepts only after the client has asked a few times, and
 * then once more. never: the server accepts nobody, and is killed when the client has given up, which is none of the client's business
 * any more. */
#include "expect.h"
#include <signal.h>
#include <unistd.h>

static char port[MPI_MAX_PORT_NAME];

static int rounds(const char *what)
{
    return strcmp(what, "again") == 0 ? 200 : strcmp(what, "late") == 0 ? 3 : 1;
}

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

/* What is exchanged for it must be the same at both, though one may have devices that the other has not. */
static void share_window(MPI_Comm other, int is_server)
{
    MPI_Comm both;
    MPI_Win window;
    int place = -1, mine, its;
    MPI_Intercomm_merge(other, is_server, &both);
    MPI_Comm_rank(both, &mine);
    its = 1 - mine;
    MPI_Win_create(&place, sizeof place, sizeof place, MPI_INFO_NULL, both, &window);
    MPI_Win_fence(0, window);
    MPI_Put(&mine, 1, MPI_INT, its, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    EXPECT(place == its, "%d was put, not %d", place, its);
    MPI_Win_free(&window);
    MPI_Comm_free(&both);
}

static void serve(const char *what)
{
    MPI_Comm client;
    int value = 0, first = 0;
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        write_port();
    }
    if (strcmp(what, "never") == 0) {
        while (access("given-up", F_OK) != 0)
            usleep(1000);
        raise(SIGKILL);
    }
    for (int i = 0; i < rounds(what); i++) {
        int self = strcmp(what, "self") == 0;
        if (i == 0 && strcmp(what, "late") == 0)
            sleep(4);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, self ? MPI_COMM_SELF : MPI_COMM_WORLD, &client);
        talk(client);
        if (self)
            share_window(client, 1);
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

/* Rank 0 waits while the server ends, for longer than it takes to notice. */
static void give_up(void)
{
    MPI_Comm server;
    MPI_Info info;
    int value = 0;
    MPI_Info_create(&info);
    MPI_Info_set(info, "timeout", "1");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    expect_class(MPI_Comm_connect(port, info, 0, MPI_COMM_WORLD, &server), MPI_ERR_PORT, "MPI_Comm_connect");
    MPI_Info_free(&info);
    if (rank == 0) {
        fclose(fopen("given-up", "w"));
        EXPECT(MPI_Recv(&value, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS, "an error, though nobody of ours has ended");
    } else if (rank == 1) {
        while (access("gone", F_OK) != 0)
            usleep(1000);
        sleep(3);
        MPI_Send(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
    }
}

static void visit(const char *what)
{
    MPI_Comm server;
    read_port();
    if (strcmp(what, "never") == 0) {
        give_up();
        return;
    }
    for (int i = 0; i < rounds(what); i++) {
        int self = strcmp(what, "self") == 0;
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, self ? MPI_COMM_SELF : MPI_COMM_WORLD, &server);
        talk(server);
        if (self)
            share_window(server, 0);
        if (strcmp(what, "killed") == 0) {
            /* mpiexec ends those who have not talked yet with the first that is killed. */
            MPI_Barrier(MPI_COMM_WORLD);
            raise(SIGKILL);
        }
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
