/* Usage: spawn [PART...] [--rounds N]
 * Spawns that work, and spawns that cannot: an error of class MPI_ERR_SPAWN on every rank, with a sentence, after which all goes on.
 * The same program is the child. */
#include "expect.h"
#include <signal.h>
#include <unistd.h>

static const char *program;
static int rounds = 60;

/* Everybody is alive and hears everybody. */
static void go_on(void)
{
    int all = 0, one = 1;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(all == ranks, "%d of %d ranks go on", all, ranks);
}

static void expect_refused(int error, const int *codes, int count, const char *word)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    expect_class(error, MPI_ERR_SPAWN, "spawn");
    if (error == MPI_SUCCESS)
        return;
    MPI_Error_string(error, text, &length);
    EXPECT(strstr(text, "No process was spawned") && strstr(text, word), "no \"%s\" in: %s", word, text);
    for (int i = 0; i < count; i++)
        EXPECT(codes[i] == MPI_ERR_SPAWN, "code %d of process %d", codes[i], i);
    go_on();
}

static void cannot(const char *command, char **arguments, MPI_Info info, int count, const char *word)
{
    MPI_Comm children;
    int codes[8] = { 0 };
    int error = MPI_Comm_spawn(command, arguments, count, info, ranks - 1, MPI_COMM_WORLD, &children, codes);
    expect_refused(error, codes, count, word);
}

/* Every child adds its rank to what the root sends. */
static void talk(MPI_Comm children, int expected)
{
    int count, sum = 0, ours = 7;
    MPI_Comm_remote_size(children, &count);
    EXPECT(count == expected, "%d children, not %d", count, expected);
    MPI_Bcast(&ours, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
    MPI_Reduce(&ours, &sum, 1, MPI_INT, MPI_SUM, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, children);
    if (rank == 0)
        EXPECT(sum == 7 * count + count * (count - 1) / 2, "%d children sent %d", count, sum);
    MPI_Comm_disconnect(&children);
}

static int child(MPI_Comm parent, int argc, char **argv)
{
    int value, unused;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1 && strcmp(argv[1], "crash") == 0)
        raise(SIGSEGV);
    MPI_Bcast(&value, 1, MPI_INT, 0, parent);
    value += rank;
    MPI_Reduce(&value, &unused, 1, MPI_INT, MPI_SUM, 0, parent);
    MPI_Comm_disconnect(&parent);
    return MPI_Finalize();
}

static void works(void)
{
    MPI_Comm children;
    for (int count = 1; count <= 3; count++) {
        int codes[3] = { 1, 1, 1 };
        int error = MPI_Comm_spawn(program, MPI_ARGV_NULL, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
        expect_class(error, MPI_SUCCESS, "spawn");
        for (int i = 0; i < count; i++)
            EXPECT(codes[i] == MPI_SUCCESS, "code %d of process %d", codes[i], i);
        if (error == MPI_SUCCESS)
            talk(children, count);
    }
}

/* How many lines a file of ours has. */
static int mappings(void)
{
    int count = 0, byte;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file && (byte = getc(file)) != EOF)
        count += byte == '\n';
    fclose(file);
    return count;
}

/* Children come and go, and nothing of them stays. */
static void again(void)
{
    MPI_Comm children;
    int files = 0, maps = 0;
    for (int round = 0; round < rounds && wrong == 0; round++) {
        int error = MPI_Comm_spawn(program, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        expect_class(error, MPI_SUCCESS, "spawn");
        if (error == MPI_SUCCESS)
            talk(children, 2);
        if (round == 9)
            files = descriptors(), maps = mappings();
        EXPECT(files == 0 || descriptors() <= files + 2, "%d descriptors after %d rounds, %d after 10", descriptors(), round + 1, files);
        EXPECT(maps == 0 || mappings() <= maps + 16, "%d mappings after %d rounds, %d after 10", mappings(), round + 1, maps);
    }
}

/* A script in between, which takes its time. */
static void slow(void)
{
    char line[600], *arguments[] = { "-c", line, NULL };
    MPI_Comm children;
    snprintf(line, sizeof line, "sleep 1; exec %s", program);
    int error = MPI_Comm_spawn("/bin/sh", arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    expect_class(error, MPI_SUCCESS, "spawn");
    if (error == MPI_SUCCESS)
        talk(children, 2);
}

static void missing(void)
{
    cannot("./no-such-program", MPI_ARGV_NULL, MPI_INFO_NULL, 2, "no-such-program (No such file or directory)");
    cannot("no-such-program-in-path", MPI_ARGV_NULL, MPI_INFO_NULL, 1, "no-such-program-in-path (No such file or directory)");
    works();
}

static void silent(void)
{
    cannot("/bin/true", MPI_ARGV_NULL, MPI_INFO_NULL, 1, "/bin/true on host");
    cannot("/bin/false", MPI_ARGV_NULL, MPI_INFO_NULL, 3, "ended with status 1");
    works();
}

static void dies(void)
{
    char *arguments[] = { "-c", "echo the last words >&2; kill -SEGV $$", NULL };
    cannot("/bin/sh", arguments, MPI_INFO_NULL, 2, "signal 11 before all new processes were through MPI_Init; it said: the last words");
    works();
}

/* A child whose MPI_Init fails, alone or with others, of which one alone cannot start. */
static void init_fails(void)
{
    char setting[] = "MPIR_CVAR_CH4_COMPOSITE_WAIT=nonsense", *arguments[] = { setting, (char *) program, NULL };
    char *commands[] = { (char *) program, "/usr/bin/env" }, **all_arguments[] = { MPI_ARGV_NULL, arguments };
    int counts[] = { 2, 1 }, codes[3] = { 0 };
    MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL };
    MPI_Comm children;
    for (int count = 1; count <= 3; count++)
        cannot("/usr/bin/env", arguments, MPI_INFO_NULL, count, "unknown wait policy \"nonsense\"");
    int error = MPI_Comm_spawn_multiple(2, commands, all_arguments, counts, infos, 0, MPI_COMM_WORLD, &children, codes);
    expect_refused(error, codes, 3, "before all new processes were through MPI_Init");
    works();
}

static void folder(void)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "wdir", "/no/such folder");
    cannot(program, MPI_ARGV_NULL, info, 2, "cannot enter the folder /no/such folder: No such file or directory");
    MPI_Info_free(&info);
    works();
}

/* Needs a launcher that fails. */
static void host(void)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "host", "no-such-host");
    cannot(program, MPI_ARGV_NULL, info, 2, "nothing can be started on host no-such-host");
    MPI_Info_free(&info);
    works();
}

/* Those that could begin wait for those that cannot. */
static void some(void)
{
    static const char *const others[] = { "/bin/false", "./no-such-program" };
    MPI_Comm children;
    for (int i = 0; i < 2; i++) {
        char *commands[] = { (char *) program, (char *) others[i] };
        int counts[] = { 2, 1 }, codes[3] = { 0 };
        MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL };
        int error = MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, counts, infos, 0, MPI_COMM_WORLD, &children, codes);
        expect_refused(error, codes, 3, others[i]);
    }
    works();
}

/* All at once, each for itself. */
static void everyone(void)
{
    MPI_Comm child;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int codes[1];
    int error = MPI_Comm_spawn("./no-such-program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, codes);
    expect_refused(error, codes, 1, "no-such-program");
    works();
}

static void fatal(void)
{
    MPI_Comm children;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_spawn("./no-such-program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
}

/* One that has begun and dies takes its parents along. */
static void crash(void)
{
    char *arguments[] = { "crash", NULL };
    MPI_Comm children;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    talk(children, 1);
}

/* A process manager that would never answer is not asked. */
static void refused(void)
{
    cannot(program, MPI_ARGV_NULL, MPI_INFO_NULL, 2, "process manager");
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        { "works", works }, { "slow", slow }, { "missing", missing }, { "silent", silent }, { "dies", dies }, { "init_fails", init_fails },
        { "folder", folder },
        { "some", some }, { "everyone", everyone }, { "again", again, .on_demand = 1 },
        { "host", host, .on_demand = 1 }, { "fatal", fatal, .on_demand = 1 },
        { "crash", crash, .on_demand = 1 }, { "refused", refused, .on_demand = 1 },
    };
    MPI_Comm parent;
    program = argv[0];
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = atoi(argv[i + 1]);
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        return child(parent, argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int status = run_parts(parts, sizeof parts / sizeof *parts, argc, argv);
    MPI_Finalize();
    return status;
}
