/* What the first use costs: the means of the first 1, 10 and 100 ping-pongs of a job, and of many later ones; all pairs play at once, and the time
 * is that of the slowest. One size for each job. */
#include "bench.h"

/* Seconds from the start of the job to the first message, more than any MPI_Init takes here; if one does take longer, twice as many. */
static const double START = 1.5;

/* When all ranks of a machine begin, who have sent no message to agree on it: bench/run tells each when it started the job. Without it whole
 * numbers of START count, and ranks that come to one from both sides are a START apart. */
static double beginning(void)
{
    const char *job = getenv("MPICH_COMPOSITE_BENCH_JOB");
    const char *started = job ? strchr(job, '.') : NULL;
    const double begin = started ? strtod(started + 1, NULL) * 1e-9 : 0;
    return begin + START * (double) (1 + (long) ((bench_now() - begin) / START));
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "first", "first 10", "first 100" };
    struct bench bench;
    bench_init(&bench, "cold", "8", 2, 4096, &argc, &argv);
    bench_even(&bench);
    const size_t size = bench.sizes[0];
    struct bench_exchange exchange = { bench_buffer(&bench, size), bench_buffer(&bench, size), (int) size, MPI_CHAR };
    double taken[3], slowest[3];
    bench_fill(exchange.outgoing, size, (unsigned) bench.rank);

    for (const double begin = beginning(); bench_now() < begin;)
        ;
    long done = 0;
    const double start = bench_now();
    for (long i = 0, until = 1; i < 3; i++, until *= 10) {
        bench_pingpong(&bench, until - done, &exchange);
        done = until;
        taken[i] = (bench_now() - start) / (double) done;
    }
    bench_verify(&bench, exchange.incoming, size, (unsigned) bench_partner(&bench));
    MPI_Reduce(taken, slowest, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++)
        bench_emit(&bench, names[i], size, slowest[i] / 2 * 1e6, "us");
    bench_emit(&bench, "later", size, bench_measure(&bench, bench_pingpong, &exchange, BENCH_TIME_OF_SLOWEST) / 2 * 1e6, "us");
    free(exchange.outgoing);
    free(exchange.incoming);
    bench_finalize(&bench);
    return 0;
}
