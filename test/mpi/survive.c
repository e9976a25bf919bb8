/* Usage: survive recv|send|flow|barrier|allreduce|long_allreduce|alltoall|ibarrier|iallreduce|bcast|gather|scatter|allgather|reduce_scatter|scan|persistent|partitions|init|mcast|fuzzy|notify|am|handled|win_handled|leave|first_bcast|making [MICROSECONDS]
 * With MPI_ERRORS_RETURN, ranks talk to the last one, which is going to vanish. Every other rank must get an MPI error from the call
 * it is in, of class MPIX_ERR_PROC_FAILED, and prints it. In flow the last one takes what the others send, so that data is on its way when it vanishes. Nobody
 * leaves, which would be another error for others, until the job is ended. In handled and win_handled the error goes to a handler of the
 * program's, which is told of the right communicator or window, once for a call. In leave they end with MPI_Finalize. In first_bcast the last one is missing in the first
 * collective of all, in which ranks agree on a team; in making it comes, and kills itself so much later, in the middle of it. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static int many[50000];
static char large[1 << 20];

static void die(int signal_number)
{
    (void) signal_number;
    raise(SIGKILL);
}

/* In so many microseconds, whatever this rank does then. */
static void die_in(long time)
{
    struct itimerval timer = { {0, 0}, {time / 1000000, time % 1000000} };

    signal(SIGALRM, die);
    if (time == 0)
        die(SIGALRM);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static int handled, handled_error, handled_right;

static void on_comm_error(MPI_Comm *comm, int *error, ...)
{
    int same = MPI_UNEQUAL;

    MPI_Comm_compare(*comm, MPI_COMM_WORLD, &same);
    handled++;
    handled_error = *error;
    handled_right = same == MPI_IDENT;
}

static MPI_Win window_of_errors = MPI_WIN_NULL;

static void on_win_error(MPI_Win *win, int *error, ...)
{
    handled++;
    handled_error = *error;
    handled_right = *win == window_of_errors;
}

int main(int argc, char **argv)
{
    int rank, ranks, error = MPI_SUCCESS, message = 0, length;
    char text[MPI_MAX_ERROR_STRING], name[MPI_MAX_PROCESSOR_NAME];
    const char *how = argc > 1 ? argv[1] : "recv";

    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(name, &length);
    int last = ranks - 1;
    MPIX_Bitmap others[1] = { ((MPIX_Bitmap) 1 << ranks) - 2 };
    MPI_Request request, persistent;
    volatile int flag = 0;
    int *memory;
    MPI_Win win;
    int calls = 0, first = strcmp(how, "first_bcast") == 0 || strcmp(how, "making") == 0;
    long later = argc > 2 ? strtol(argv[2], NULL, 10) : 0;

    if (!first) {
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        MPI_Win_lock_all(0, win);
        MPI_Allreduce_init(MPI_IN_PLACE, &message, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &persistent);
    }
    MPI_Errhandler handler;
    if (strcmp(how, "handled") == 0) {
        MPI_Comm_create_errhandler(on_comm_error, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    } else if (strcmp(how, "win_handled") == 0) {
        window_of_errors = win;
        MPI_Win_create_errhandler(on_win_error, &handler);
        MPI_Win_set_errhandler(win, handler);
    }
    if (strcmp(how, "mcast") == 0) {
        /* Nobody has talked to the last one but the one before it: rank 0, who sends to all, has not. */
        if (rank > 0)
            MPI_Recv(&message, 1, MPI_INT, rank - 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank < last)
            MPI_Send(&message, 1, MPI_INT, rank + 1, 2, MPI_COMM_WORLD);
    } else {
        /* So that everybody has talked to the last one. */
        int all[64];
        if (!first)
            MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
        for (int other = 0; other < ranks; other++)
            MPI_Sendrecv(&rank, 1, MPI_INT, other, 2, &message, 1, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("started %d on %s\n", (int) getpid(), name);
    if (rank == last)
        printf("last %d\n", (int) getpid());
    fflush(stdout);
    if (rank == last && strcmp(how, "making") == 0) {
        die_in(later);
        while (1)
            MPI_Bcast(&message, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (; error == MPI_SUCCESS; calls++) {
        if (rank == last && strcmp(how, "flow") == 0)
            error = MPI_Recv(large, sizeof large, MPI_BYTE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (rank == last)
            pause();
        else if (strcmp(how, "flow") == 0)
            error = MPI_Send(large, sizeof large, MPI_BYTE, last, 3, MPI_COMM_WORLD);
        else if (first)
            error = MPI_Bcast(&message, 1, MPI_INT, 0, MPI_COMM_WORLD);
        else if (strcmp(how, "recv") == 0 || strcmp(how, "handled") == 0 || strcmp(how, "leave") == 0)
            error = MPI_Recv(&message, 1, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (strcmp(how, "send") == 0)
            error = MPI_Ssend(&message, 1, MPI_INT, last, 1, MPI_COMM_WORLD);
        else if (strcmp(how, "barrier") == 0)
            error = MPI_Barrier(MPI_COMM_WORLD);
        else if (strcmp(how, "allreduce") == 0)
            error = MPI_Allreduce(MPI_IN_PLACE, &message, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        else if (strcmp(how, "long_allreduce") == 0)
            error = MPI_Allreduce(MPI_IN_PLACE, many, sizeof many / sizeof many[0], MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        else if (strcmp(how, "alltoall") == 0)
            error = MPI_Alltoall(MPI_IN_PLACE, 1, MPI_INT, many, 1, MPI_INT, MPI_COMM_WORLD);
        else if (strcmp(how, "bcast") == 0)
            error = MPI_Bcast(&message, 1, MPI_INT, last, MPI_COMM_WORLD);
        else if (strcmp(how, "gather") == 0)
            error = MPI_Gather(&rank, 1, MPI_INT, many, 1, MPI_INT, last, MPI_COMM_WORLD);
        else if (strcmp(how, "scatter") == 0)
            error = MPI_Scatter(many, 1, MPI_INT, &message, 1, MPI_INT, last, MPI_COMM_WORLD);
        else if (strcmp(how, "allgather") == 0)
            error = MPI_Allgather(&rank, 1, MPI_INT, many, 1, MPI_INT, MPI_COMM_WORLD);
        else if (strcmp(how, "reduce_scatter") == 0)
            error = MPI_Reduce_scatter_block(many, &message, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        else if (strcmp(how, "scan") == 0)
            error = MPI_Scan(&rank, &message, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        else if (strcmp(how, "ibarrier") == 0)
            error = (error = MPI_Ibarrier(MPI_COMM_WORLD, &request)) ? error : MPI_Wait(&request, MPI_STATUS_IGNORE);
        else if (strcmp(how, "iallreduce") == 0)
            error = (error = MPI_Iallreduce(MPI_IN_PLACE, &message, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request)) ? error :
                MPI_Wait(&request, MPI_STATUS_IGNORE);
        else if (strcmp(how, "persistent") == 0)
            error = (error = MPI_Start(&persistent)) ? error : MPI_Wait(&persistent, MPI_STATUS_IGNORE);
        else if (strcmp(how, "partitions") == 0 && rank == 0)
            error = (error = MPI_Precv_init(&message, 1, 1, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request)) ? error :
                (error = MPI_Start(&request)) ? error : MPI_Wait(&request, MPI_STATUS_IGNORE);
        else if (strcmp(how, "partitions") == 0)
            error = (error = MPI_Psend_init(&message, 1, 1, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &request)) ? error :
                (error = MPI_Start(&request)) ? error : (error = MPI_Pready(0, request)) ? error : MPI_Wait(&request, MPI_STATUS_IGNORE);
        else if (strcmp(how, "init") == 0)
            error = MPI_Bcast_init(&message, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        else if (strcmp(how, "fuzzy") == 0)
            error = (error = MPIX_Barrier_start(MPI_COMM_WORLD, &flag)) ? error : MPIX_Barrier_wait(MPI_COMM_WORLD, &flag);
        else if (strcmp(how, "notify") == 0 || strcmp(how, "win_handled") == 0)
            error = MPIX_Win_wait_notify(win, 0);
        else if (strcmp(how, "am") == 0)
            error = (error = MPIX_Am_send(NULL, 0, large, sizeof large, last, 1, MPI_COMM_WORLD)) ? error : MPIX_Am_wait(&flag);
        else if (rank > 0)
            error = MPIX_Mcast_recv(&message, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, NULL, MPI_STATUS_IGNORE);
        else if ((error = MPIX_Imcast(&message, 1, MPI_INT, others, 1, MPI_COMM_WORLD, MPIX_MCAST_DELIVERED, &request)) == MPI_SUCCESS)
            error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    int class;
    MPI_Error_class(error, &class);
    MPI_Error_string(error, text, &length);
    printf("rank %d got an MPI error in call %d%s: %s\n", rank, calls, class == MPIX_ERR_PROC_FAILED ? "" : ", of another class", text);
    if (handled == 1 && handled_error == error && handled_right)
        printf("the handler saw it\n");
    fflush(stdout);
    if (strcmp(how, "leave") == 0 && MPI_Finalize() == MPI_SUCCESS) {
        printf("rank %d has left\n", rank);
        return 0;
    }
    while (1)
        pause();
}
