/* MPI_Init: how long it takes (the slowest rank; and from the last rank's call to the last return, which leaves out how long the
 * launcher took to start them all, and means something where all hosts have one clock). Then, unless `--operation init`, what
 * memory a rank has (the mean over the ranks), once after the first barrier and once after every pair of ranks has talked. RSS
 * counts a shared page fully in every rank, PSS divides it among them, HWM is the highest RSS so far. Also says which library
 * it runs on. */
#include "bench.h"

/* A field of /proc/self/status or smaps_rollup, in KiB; -1 when this kernel does not have it. */
static double proc_kib(const char *file, const char *field)
{
    FILE *stream = fopen(file, "r");
    char line[256];
    double kib = -1;
    if (stream == NULL)
        return kib;
    while (fgets(line, sizeof line, stream) != NULL)
        if (strncmp(line, field, strlen(field)) == 0) {
            kib = atof(line + strlen(field));
            break;
        }
    fclose(stream);
    return kib;
}

static void emit_memory(const struct bench *bench, const char *metric, const char *file, const char *field)
{
    MPI_Barrier(MPI_COMM_WORLD);        /* all ranks are alive and in the same place: PSS depends on it */
    double mine = proc_kib(file, field), least, sum;
    MPI_Allreduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (least >= 0)
        bench_emit(bench, metric, 0, sum / bench->ranks, "KiB");
}

static void emit_library(const struct bench *bench)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(library, &length);
    if (bench->rank != 0)
        return;
    printf("{\"bench\": \"%s\", \"library\": \"", bench->name);
    for (const char *c = library; *c != '\0'; c++)
        if (*c == '\n')
            printf("\\n");
        else if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if ((unsigned char) *c >= ' ')
            putchar(*c);
        else
            putchar(' ');
    printf("\"}\n");
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_arguments(&bench, "init", "", argc, argv);
    const double start = bench_now();
    MPI_Init(&argc, &argv);
    const double end = bench_now();
    bench_ranks(&bench, 1, 4096);
    emit_library(&bench);

    double mine[] = { end - start, start, end }, most[3];
    MPI_Allreduce(mine, most, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    bench_emit(&bench, "init", 0, most[0] * 1e3, "ms");
    bench_emit(&bench, "init_last", 0, (most[2] - most[1]) * 1e3, "ms");
    if (bench.operation != NULL && strcmp(bench.operation, "init") == 0) {
        bench_finalize(&bench);
        return 0;
    }
    emit_memory(&bench, "rss", "/proc/self/status", "VmRSS:");
    emit_memory(&bench, "pss", "/proc/self/smaps_rollup", "Pss:");

    bench_all_pairs(&bench);
    emit_memory(&bench, "rss_all_pairs", "/proc/self/status", "VmRSS:");
    emit_memory(&bench, "pss_all_pairs", "/proc/self/smaps_rollup", "Pss:");
    emit_memory(&bench, "hwm", "/proc/self/status", "VmHWM:");
    bench_finalize(&bench);
    return 0;
}
