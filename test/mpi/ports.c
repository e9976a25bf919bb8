/* Usage: ports server|client left|killed|again|self|late|never
 * Two jobs that meet by MPI_Comm_connect, through the file ./port. left: the client's ranks disconnect and are killed then, which the
 * server does not notice, who is waiting all the time; then it disconnects, and the next client comes. killed: they are killed while the
 * server waits for them, which is an error. again: the same two jobs connect and disconnect many times. self: two
 * ranks meet as MPI_COMM_SELF and make a window over both. late: the server accepts only after the client has asked a few times, as the
 * client's second thread sees and tells by the file ./asked, and then once more. never: the server accepts nobody, and is killed when
 * the client has given up, which is none of the client's business any more. */
#include "counters.h"
#include "expect.h"
#include <pthread.h>
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

/* For two minutes at most. */
static void wait_for_file(const char *name)
{
    for (int turns = 0; turns < 120000; turns++) {
        if (access(name, F_OK) == 0)
            return;
        usleep(1000);
    }
    printf("ports: there is no file %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void read_port(void)
{
    FILE *file;
    wait_for_file("port");
    if (!(file = fopen("port", "r")) || !fgets(port, sizeof port, file))
        MPI_Abort(MPI_COMM_WORLD, 1);
    fclose(file);
}

/* How often `late` asks in vain: the first time, and each second again. Before it is answered nothing else is sent. */
enum { asked_in_vain = 4 };
static atomic_int connected;
static MPI_T_pvar_session session;
static unsigned long long sent_before;

static unsigned long long all_sent(void)
{
    unsigned long long sum = 0;
    for (int i = 0; i < DEVICES; i++)
        sum += carried(session, i, "messages_sent");
    return sum;
}

static void *tell_what_was_asked(void *unused)
{
    (void) unused;
    while (!atomic_load(&connected) && all_sent() < sent_before + asked_in_vain)
        usleep(1000);
    fclose(fopen("asked", "w"));
    return NULL;
}

/* Everybody sends to everybody of the other side: who it is, by side and rank. */
static void talk(MPI_Comm other, int is_server)
{
    int count, mine = 2 * rank + is_server, value = -1;
    MPI_Comm_remote_size(other, &count);
    for (int i = 0; i < count; i++) {
        MPI_Sendrecv(&mine, 1, MPI_INT, i, 1, &value, 1, MPI_INT, i, 1, other, MPI_STATUS_IGNORE);
        EXPECT(value == 2 * i + !is_server, "from rank %d of the other side: %d", i, value);
    }
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
        wait_for_file("given-up");
        raise(SIGKILL);
    }
    for (int i = 0; i < rounds(what); i++) {
        int self = strcmp(what, "self") == 0;
        if (i == 0 && strcmp(what, "late") == 0)
            wait_for_file("asked");
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, self ? MPI_COMM_SELF : MPI_COMM_WORLD, &client);
        talk(client, 1);
        if (self)
            share_window(client, 1);
        if (i == 0 && strcmp(what, "again") == 0)
            first = descriptors();
        EXPECT(first == 0 || descriptors() <= first + 2, "%d descriptors after %d clients, %d with the first", descriptors(), i + 1, first);
        if (strcmp(what, "killed") == 0)
            MPI_Recv(&value, 1, MPI_INT, rank, 2, client, MPI_STATUS_IGNORE);
        if (strcmp(what, "left") == 0) {
            /* One sees the end of the client, and waits for longer than it takes to notice that; the others wait for this one in MPI.
             * Nothing but time can tell that nobody notices. */
            if (rank == ranks - 1) {
                wait_for_file("gone");
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
        talk(client, 1);
        MPI_Comm_disconnect(&client);
    }
    if (rank == 0)
        MPI_Close_port(port);
}

/* Rank 0 waits while the server ends, for longer than it takes to notice: nothing but time can tell that it does not. */
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
        wait_for_file("gone");
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
        int self = strcmp(what, "self") == 0, is_watched = rank == 0 && i == 0 && strcmp(what, "late") == 0;
        pthread_t watcher;
        if (is_watched) {
            sent_before = all_sent();
            pthread_create(&watcher, NULL, tell_what_was_asked, NULL);
        }
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, self ? MPI_COMM_SELF : MPI_COMM_WORLD, &server);
        if (is_watched) {
            atomic_store(&connected, 1);
            pthread_join(watcher, NULL);
        }
        talk(server, 0);
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
    int provided;
    MPI_Init_thread(&argc, &argv, strcmp(argv[2], "late") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_T_init_thread(provided, &provided);
    MPI_T_pvar_session_create(&session);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    (strcmp(argv[1], "server") == 0 ? serve : visit) (argv[2]);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return wrong != 0;
}
