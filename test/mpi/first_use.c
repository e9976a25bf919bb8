/* What the first long message of a job touches, and the pool of requests that it is the first to need: some thousand of them in flight, which take more
 * than a block of it, given back in another order. Two ranks. */
#include "expect.h"

#include <sys/resource.h>

enum { tag = 3, longer = 20 * 1024, many = 2500, rounds = 3 };

static long page_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* Each of the thousand elements of a block that is made at once would be touched: 68 pages. */
static void first(void)
{
    static char data[longer];
    const int most = 40;
    long before, after;
    memset(data, rank + 1, sizeof data);
    before = page_faults();
    if (rank == 0)
        MPI_Send(data, longer, MPI_CHAR, 1, tag, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Recv(data, longer, MPI_CHAR, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    after = page_faults();
    EXPECT(after - before < most, "%ld page faults", after - before);
    EXPECT(rank > 1 || (data[0] == 1 && data[longer - 1] == 1), "what came is wrong");
}

static void in_flight(void)
{
    static MPI_Request requests[many];
    static int values[many];
    for (int round = 0; round < rounds && rank < 2; round++) {
        for (int i = 0; i < many; i++) {
            if (rank == 0) {
                values[i] = round * many + i;
                MPI_Issend(values + i, 1, MPI_INT, 1, i, MPI_COMM_WORLD, requests + i);
            } else {
                values[i] = -1;
            }
        }
        for (int i = many - 1; i >= 0 && rank == 1; i--) {
            MPI_Recv(values + i, 1, MPI_INT, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            EXPECT(values[i] == round * many + i, "message %d has %d", i, values[i]);
        }
        if (rank == 0)
            MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
    }
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        { "first", first, 2, 0 },
        { "in flight", in_flight, 2, 0 },
    };
    int status;
    MPI_Init(&argc, &argv);
    status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}
