/* Who waits for long sleeps, whichever function it waits in: its processor time is a small part of the time that passed. Two ranks, with
 * MPIR_CVAR_CH4_COMPOSITE_WAIT=sleep. */
#include <time.h>
#include "expect.h"

static double time_of(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static int word;

static MPI_Request *receives(MPI_Request requests[2])
{
    requests[0] = MPI_REQUEST_NULL;
    MPI_Irecv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &requests[1]);
    return requests;
}

static void by_wait(void)
{
    MPI_Request requests[2];
    MPI_Wait(receives(requests) + 1, MPI_STATUS_IGNORE);
}

static void by_waitall(void)
{
    MPI_Request requests[2];
    MPI_Waitall(2, receives(requests), MPI_STATUSES_IGNORE);
}

static void by_waitany(void)
{
    MPI_Request requests[2];
    int which = -1;
    MPI_Waitany(2, receives(requests), &which, MPI_STATUS_IGNORE);
    EXPECT(which == 1, "MPI_Waitany chose %d", which);
}

static void by_waitsome(void)
{
    MPI_Request requests[2];
    int count = -1, which[2];
    MPI_Waitsome(2, receives(requests), &count, which, MPI_STATUSES_IGNORE);
    EXPECT(count == 1 && which[0] == 1, "MPI_Waitsome found %d", count);
}

static void by_recv(void) { MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }

static void by_probe(void)
{
    MPI_Probe(1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    by_recv();
}

static void all(void)
{
    static const struct {
        const char *name;
        void (*wait)(void);
    } ways[] = { { "MPI_Wait", by_wait }, { "MPI_Waitall", by_waitall }, { "MPI_Waitany", by_waitany }, { "MPI_Waitsome", by_waitsome },
        { "MPI_Recv", by_recv }, { "MPI_Probe", by_probe } };
    for (int way = 0; way < (int) (sizeof ways / sizeof ways[0]); way++) {
        double began, at_work;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            nanosleep(&(struct timespec) { .tv_nsec = 300000000 }, NULL);
            MPI_Send(&way, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        } else if (rank == 0) {
            began = time_of(CLOCK_MONOTONIC);
            at_work = time_of(CLOCK_PROCESS_CPUTIME_ID);
            ways[way].wait();
            at_work = time_of(CLOCK_PROCESS_CPUTIME_ID) - at_work;
            began = time_of(CLOCK_MONOTONIC) - began;
            EXPECT(word == way, "%s: what came is wrong", ways[way].name);
            EXPECT(at_work < began / 3, "%s was at work for %.3f s of %.3f", ways[way].name, at_work, began);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct part parts[] = { { "all", all, 2, 0 } };
    int status;
    MPI_Init(&argc, &argv);
    status = run_parts(parts, 1, argc, argv);
    MPI_Finalize();
    return status;
}
