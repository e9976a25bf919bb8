/* A master sends to some of its workers: the experiment of the paper on dynamic multicast, and what it claims of the master and
 * of those who are not meant.
 *
 * Rank 0 is the master, the other P ranks are workers, and member i of r is worker P/r*i. A run begins with the master's call, when
 * each member has said by a message that its next call is the receive, and ends when each has said by another one that it has
 * the data, whichever way they came. A result is the mean of 100 runs without the top and bottom 10 %, or of those that --time
 * allows. Workers that are no members sleep in MPI_Recv. Three times of each way:
 *   NAME            until the master knows that all members have the data
 *   NAME_arrived    until the last member has them; where all ranks read the same clock, which those of one machine do
 *   NAME_call       until the master's call returns
 *
 * The ways (--operation, or all):
 *   mcast    MPIX_Mcast
 *   bcast    MPI_Bcast on a communicator of master and members that was made before
 *   create   MPI_Comm_create_group, MPI_Bcast on that, MPI_Comm_free
 *   send     MPI_Send to each of them
 *
 * Further operations:
 *   master   the time that the master itself spends in MPIX_Mcast, by the number of members: 2, 4, 8, ..., all workers
 *   idle     what 1000 multicasts are to a worker that is no member: messages it sent or received, and how many times more it
 *            woke up than in the same time without them
 *
 * --members N sets r, which is half of the workers otherwise. An MPI without MPIX_Mcast runs the other ways only. */
#define _GNU_SOURCE             /* RUSAGE_THREAD */
#include "bench.h"

#include <errno.h>
#include <pthread.h>

enum { MASTER = 0, RUNS = 100, TRIM = 10 /* one in that many, at each end */ };
enum { TAG_READY = 1, TAG_DONE, TAG_DATA, TAG_CREATE, TAG_OVER };

/* --- master and members ---------------------------------------------------------------------------------------------- */

struct group {
    int members;
    int *ranks;                 /* the master, then the members, ascending */
    int is_member;              /* this rank is one */
    int same_clock;             /* all ranks are on one machine */
    MPI_Comm comm;              /* master and members; MPI_COMM_NULL elsewhere */
    MPI_Group group;            /* the same; known everywhere */
#ifdef MPIX_MCAST_DELIVERED
    MPIX_Bitmap *bitmap;        /* the members */
#endif
};

static void *allocate(const struct bench *bench, size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        bench_fail(bench, "out of memory");
    return memory;
}

/* Hosts with the same boot id are one machine, and its monotonic clock is one. */
static int on_one_machine(void)
{
    char mine[64] = "", masters[64];
    FILE *stream = fopen("/proc/sys/kernel/random/boot_id", "r");
    int same = stream != NULL && fgets(mine, sizeof mine, stream) != NULL, all_same;
    if (stream != NULL)
        fclose(stream);
    memcpy(masters, mine, sizeof mine);
    MPI_Bcast(masters, sizeof masters, MPI_CHAR, MASTER, MPI_COMM_WORLD);
    same = same && memcmp(masters, mine, sizeof mine) == 0;
    MPI_Allreduce(&same, &all_same, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    return all_same;
}

/* Called by all ranks. */
static struct group make_group(const struct bench *bench, int members)
{
    const int workers = bench->ranks - 1;
    struct group group = { .members = members, .ranks = allocate(bench, 1 + (size_t) members, sizeof(int)) };
#ifdef MPIX_MCAST_DELIVERED
    group.bitmap = allocate(bench, MPIX_BITMAP_WORDS(bench->ranks), sizeof *group.bitmap);
#endif
    group.ranks[0] = MASTER;
    for (int i = 0; i < members; i++) {
        const int rank = 1 + (int) ((long) workers * i / members);
        group.ranks[1 + i] = rank;
        group.is_member |= rank == bench->rank;
#ifdef MPIX_MCAST_DELIVERED
        MPIX_Bitmap_set(group.bitmap, rank);
#endif
    }
    group.same_clock = on_one_machine();
    MPI_Group all;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1 + members, group.ranks, &group.group);
    MPI_Comm_create(MPI_COMM_WORLD, group.group, &group.comm);
    MPI_Group_free(&all);
    return group;
}

static void free_group(struct group *group)
{
    MPI_Group_free(&group->group);
    if (group->comm != MPI_COMM_NULL)
        MPI_Comm_free(&group->comm);
#ifdef MPIX_MCAST_DELIVERED
    free(group->bitmap);
#endif
    free(group->ranks);
}

/* The message is the time. */
static void tell_master(int tag)
{
    const double now = bench_now();
    MPI_Send(&now, 1, MPI_DOUBLE, MASTER, tag, MPI_COMM_WORLD);
}

/* The latest of these times. */
static double hear(int count, int tag)
{
    double time, latest = 0;
    for (int i = 0; i < count; i++) {
        MPI_Recv(&time, 1, MPI_DOUBLE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        latest = time > latest ? time : latest;
    }
    return latest;
}

/* What a worker does that is no member, until the master ends it. */
static void wait_until_over(void)
{
    MPI_Recv(NULL, 0, MPI_CHAR, MASTER, TAG_OVER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void end_wait(const struct bench *bench, const struct group *group)
{
    for (int rank = 0, i = 0; rank < bench->ranks; rank++) {
        if (i <= group->members && group->ranks[i] == rank)
            i++;
        else
            MPI_Send(NULL, 0, MPI_CHAR, rank, TAG_OVER, MPI_COMM_WORLD);
    }
}

/* --- the ways: each is called by the master and by the members -------------------------------------------------------- */

#ifdef MPIX_MCAST_DELIVERED
/* As in the paper, a worker does not know from whom a multicast comes. */
static void mcast(const struct bench *bench, const struct group *group, char *data, int size)
{
    if (bench->rank == MASTER)
        MPIX_Mcast(data, size, MPI_CHAR, group->bitmap, TAG_DATA, MPI_COMM_WORLD);
    else
        MPIX_Mcast_recv(data, size, MPI_CHAR, MPI_ANY_SOURCE, TAG_DATA, MPI_COMM_WORLD, NULL, MPI_STATUS_IGNORE);
}
#endif

static void bcast(const struct bench *bench, const struct group *group, char *data, int size)
{
    (void) bench;
    MPI_Bcast(data, size, MPI_CHAR, MASTER, group->comm);
}

static void create(const struct bench *bench, const struct group *group, char *data, int size)
{
    (void) bench;
    MPI_Comm comm;
    MPI_Comm_create_group(MPI_COMM_WORLD, group->group, TAG_CREATE, &comm);
    MPI_Bcast(data, size, MPI_CHAR, MASTER, comm);
    MPI_Comm_free(&comm);
}

static void send_to_each(const struct bench *bench, const struct group *group, char *data, int size)
{
    if (bench->rank != MASTER)
        MPI_Recv(data, size, MPI_CHAR, MASTER, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        for (int i = 1; i <= group->members; i++)
            MPI_Send(data, size, MPI_CHAR, group->ranks[i], TAG_DATA, MPI_COMM_WORLD);
}

static const struct way {
    const char *name;
    void (*body)(const struct bench *bench, const struct group *group, char *data, int size);
} ways[] = {
#ifdef MPIX_MCAST_DELIVERED
    { "mcast", mcast },
#endif
    { "bcast", bcast },
    { "create", create },
    { "send", send_to_each },
};
enum { WAYS = sizeof ways / sizeof ways[0] };

enum { KNOWN, ARRIVED, CALL, TIMES };
static const char *const time_names[TIMES] = { "", "_arrived", "_call" };

/* The seconds of the run, on the master. */
static void run(const struct bench *bench, const struct group *group, const struct way *way, char *data, int size,
                double seconds[TIMES])
{
    if (bench->rank != MASTER) {
        tell_master(TAG_READY);
        way->body(bench, group, data, size);
        tell_master(TAG_DONE);
        return;
    }
    hear(group->members, TAG_READY);
    const double start = bench_now();
    way->body(bench, group, data, size);
    const double returned = bench_now();
    const double arrived = hear(group->members, TAG_DONE);
    seconds[KNOWN] = bench_now() - start;
    seconds[ARRIVED] = arrived - start;
    seconds[CALL] = returned - start;
}

static double trimmed_mean(double *values, int count)
{
    const int cut = count / TRIM;
    double sum = 0;
    qsort(values, (size_t) count, sizeof values[0], bench_compare);
    for (int i = cut; i < count - cut; i++)
        sum += values[i];
    return sum / (count - 2 * cut);
}

/* How many runs come next: one, then as many as the time is expected to suffice for. Known to the master. */
static int next_runs(int done, double used, double budget)
{
    if (done == 0)
        return 1;
    const double expected = (budget - used) / (used / done);
    return expected < 1 ? 0 : expected > RUNS - done ? RUNS - done : (int) expected;
}

struct measured {
    double seconds[TIMES][RUNS];        /* known to the master */
    double used;                        /* so much time in these runs */
    int done;                           /* runs */
};

static int is_chosen(const struct bench *bench, const struct way *way)
{
    return bench->operation == NULL || strcmp(bench->operation, "all") == 0 || strcmp(bench->operation, way->name) == 0;
}

static void verify(const struct bench *bench, const struct group *group, int number, char *data, size_t size)
{
    double seconds[TIMES];
    memset(data, 0, size);
    if (bench->rank == MASTER)
        bench_fill(data, size, (unsigned) number);
    run(bench, group, &ways[number], data, (int) size, seconds);
    bench_verify(bench, data, size, (unsigned) number);
}

static void measure_run(const struct bench *bench, const struct group *group, const struct way *way, char *data, size_t size,
                        struct measured *result)
{
    double seconds[TIMES];
    const double start = bench_now();
    run(bench, group, way, data, (int) size, seconds);
    result->used += bench_now() - start;
    for (int time = 0; time < TIMES && bench->rank == MASTER; time++)
        result->seconds[time][result->done] = seconds[time];
    result->done++;
}

/* The ways take turns, forth and back, so that what disturbs one disturbs the others too, and none always comes after the same. */
static void measure(const struct bench *bench, const struct group *group, char *data, size_t size)
{
    static struct measured results[WAYS];
    memset(results, 0, sizeof results);
    for (int i = 0; i < WAYS; i++)
        if (is_chosen(bench, &ways[i]))
            verify(bench, group, i, data, size);
    for (;;) {
        int next[WAYS] = { 0 }, most = 0;
        for (int i = 0; i < WAYS; i++)
            if (is_chosen(bench, &ways[i]))
                next[i] = next_runs(results[i].done, results[i].used, bench->budget);
        MPI_Bcast(next, WAYS, MPI_INT, MASTER, group->comm);
        for (int i = 0; i < WAYS; i++)
            most = next[i] > most ? next[i] : most;
        if (most == 0)
            break;
        for (int turn = 0; turn < most; turn++)
            for (int i = 0; i < WAYS; i++) {
                const int way = turn % 2 == 0 ? i : WAYS - 1 - i;
                if (turn < next[way])
                    measure_run(bench, group, &ways[way], data, size, &results[way]);
            }
    }
    for (int i = 0; i < WAYS && bench->rank == MASTER; i++)
        for (int time = 0; time < TIMES && is_chosen(bench, &ways[i]); time++) {
            char metric[64];
            snprintf(metric, sizeof metric, "%s%s", ways[i].name, time_names[time]);
            if (time != ARRIVED || group->same_clock)
                bench_emit(bench, metric, size, trimmed_mean(results[i].seconds[time], results[i].done) * 1e6, "us");
        }
}

/* Returns whether there is such a way. */
static int measure_ways(const struct bench *bench, int members)
{
    struct group group = make_group(bench, members);
    char *data = bench_buffer(bench, bench_largest(bench));
    int found = 0;
    for (int i = 0; i < WAYS; i++)
        found |= is_chosen(bench, &ways[i]);
    for (int i = 0; i < bench->size_count && group.comm != MPI_COMM_NULL; i++)
        measure(bench, &group, data, bench->sizes[i]);
    if (group.comm == MPI_COMM_NULL)
        wait_until_over();
    if (bench->rank == MASTER)
        end_wait(bench, &group);
    free(data);
    free_group(&group);
    return found;
}

#ifdef MPIX_MCAST_DELIVERED
/* --- the master's own time -------------------------------------------------------------------------------------------- */

/* One call; its seconds, on the master. Before it all workers, members or not, have sent to the master and then wait: it always
 * comes to the call from the same work, with the same in its caches, however many are members. */
static double call_master(const struct bench *bench, const struct group *group, char *data, int size)
{
    int begin = 0;
    MPI_Bcast(&begin, 1, MPI_INT, MASTER, MPI_COMM_WORLD);      /* until then nobody sends */
    if (bench->rank != MASTER) {
        tell_master(TAG_READY);
        if (group->is_member) {
            mcast(bench, group, data, size);
            tell_master(TAG_DONE);
        }
        return 0;
    }
    hear(bench->ranks - 1, TAG_READY);
    const double start = bench_now();
    mcast(bench, group, data, size);
    const double seconds = bench_now() - start;
    hear(group->members, TAG_DONE);
    return seconds;
}

/* The numbers of members take turns, so that what disturbs one disturbs the others too. */
static void measure_master(const struct bench *bench)
{
    enum { MOST_GROUPS = 16 };
    struct group groups[MOST_GROUPS];
    static double seconds[MOST_GROUPS][RUNS];
    int group_count = 0;
    for (int members = 2; members < bench->ranks && group_count < MOST_GROUPS; members *= 2)
        groups[group_count++] = make_group(bench, members);
    if (group_count == 0)
        bench_fail(bench, "two workers are needed");

    char *data = bench_buffer(bench, bench_largest(bench));
    for (int i = 0; i < bench->size_count; i++) {
        const int size = (int) bench->sizes[i];
        double used = 0;
        int done = 0;
        for (;;) {
            int next = next_runs(done, used, bench->budget * group_count);
            MPI_Bcast(&next, 1, MPI_INT, MASTER, MPI_COMM_WORLD);
            if (next == 0)
                break;
            const double start = bench_now();
            for (const int last = done + next; done < last; done++)
                for (int g = 0; g < group_count; g++)
                    seconds[g][done] = call_master(bench, &groups[g], data, size);
            used += bench_now() - start;
        }
        for (int g = 0; g < group_count && bench->rank == MASTER; g++) {
            char metric[64];
            snprintf(metric, sizeof metric, "master, %d members", groups[g].members);
            bench_emit(bench, metric, bench->sizes[i], trimmed_mean(seconds[g], done) * 1e6, "us");
        }
    }
    free(data);
    for (int g = 0; g < group_count; g++)
        free_group(&groups[g]);
}

/* --- workers that are not meant --------------------------------------------------------------------------------------- */

enum { MULTICASTS = 1000, BURST = 10, ROUNDS = 5 };
static const double pause_between_bursts = 300e-6;

/* Such a worker waits in MPI_Recv for a message of the master, which comes after `duration`. In the middle of that is the time
 * under observation, and in the middle of this are the multicasts. Shares of the duration.
 *
 * It is watched without multicasts and with them: one that sleeps looks up by itself every 100 ms, and that is no fault of theirs.
 * In a time that is a multiple of this it does so equally often: choose --duration accordingly. Timers of a network come on top,
 * now and then, in both; so there are several rounds, and the mean difference of all of them counts. The greatest is told, too. */
static const double observed_from = 0.25, multicasts_from = 0.3, multicasts_until = 0.7, observed_until = 0.75;

static void sleep_until(double when)
{
    struct timespec time = { (time_t) when, 0 };
    time.tv_nsec = (long) ((when - (double) time.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) {
    }
}

/* How often the other threads of this process have gone to sleep so far. */
static long sleeps_of_others(void)
{
    struct rusage process, thread;
    getrusage(RUSAGE_SELF, &process);
    getrusage(RUSAGE_THREAD, &thread);
    return process.ru_nvcsw - thread.ru_nvcsw;
}

struct observation {
    double from, until;
    long sleeps;                /* a thread that sleeps again has woken up before */
};

static void *observe(void *context)
{
    struct observation *observation = context;
    sleep_until(observation->from);
    const long before = sleeps_of_others();
    sleep_until(observation->until);
    observation->sleeps = sleeps_of_others() - before;
    return NULL;
}

/* Messages that this rank has sent and received so far, by the counters of the devices. */
static double messages(const struct bench *bench, MPI_T_pvar_session session)
{
    static const char *devices[] = { "shmem", "ucx", "udp" }, *kinds[] = { "sent", "received" };
    double sum = 0;
    int found = 0;
    for (int i = 0; i < 6; i++) {
        char name[64];
        int number, count;
        unsigned long long value = 0;
        MPI_T_pvar_handle handle;
        snprintf(name, sizeof name, "composite_%s_messages_%s", devices[i / 2], kinds[i % 2]);
        if (MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &number) != MPI_SUCCESS)
            continue;           /* a device that is not built in */
        MPI_T_pvar_handle_alloc(session, number, NULL, &handle, &count);
        MPI_T_pvar_read(session, handle, &value);
        MPI_T_pvar_handle_free(session, &handle);
        sum += (double) value;
        found++;
    }
    if (found == 0)
        bench_fail(bench, "there are no performance variables composite_DEVICE_messages_sent");
    return sum;
}

struct idleness {
    double messages;            /* without the one that ended the wait */
    double wakeups;
};

/* Called by master and members. Several are on their way at once; then there is a pause, in which a worker that was woken could
 * fall asleep again, so that the next time counts, too. */
static void send_bursts(const struct bench *bench, const struct group *group, int multicasts, char *data, int size)
{
    for (int i = 1; i <= multicasts; i++) {
        mcast(bench, group, data, size);
        if (i % BURST != 0)
            continue;
        if (bench->rank == MASTER) {
            hear(group->members, TAG_DONE);
            sleep_until(bench_now() + pause_between_bursts);
        } else {
            tell_master(TAG_DONE);
        }
    }
}

/* Called by all ranks; the answer is that of a worker which is no member. */
static struct idleness watch_idle(const struct bench *bench, const struct group *group, MPI_T_pvar_session session, int multicasts,
                                  char *data, int size)
{
    struct idleness idleness = { 0, 0 };
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = bench_now();
    if (bench->rank == MASTER) {
        sleep_until(start + multicasts_from * bench->duration);
        send_bursts(bench, group, multicasts, data, size);
        if (bench_now() > start + multicasts_until * bench->duration)
            bench_fail(bench, "the multicasts took too long to be observed; give a longer --duration");
        sleep_until(start + bench->duration);
        end_wait(bench, group);
        hear(bench->ranks - 1 - group->members, TAG_DONE);
        for (int worker = 1; worker < bench->ranks; worker++)
            MPI_Send(NULL, 0, MPI_CHAR, worker, TAG_OVER, MPI_COMM_WORLD);
        return idleness;
    }
    if (group->is_member) {
        send_bursts(bench, group, multicasts, data, size);
    } else {
        struct observation observation = { start + observed_from * bench->duration, start + observed_until * bench->duration, 0 };
        pthread_t observer;
        if (pthread_create(&observer, NULL, observe, &observation) != 0)
            bench_fail(bench, "no thread could be made");
        const double before = messages(bench, session);
        wait_until_over();
        idleness.messages = messages(bench, session) - before - 1;
        pthread_join(observer, NULL);
        idleness.wakeups = (double) observation.sleeps;
        tell_master(TAG_DONE);
    }
    wait_until_over();          /* until all have counted, nobody begins what comes next and sends for it */
    return idleness;
}

static void emit_most(const struct bench *bench, const char *metric, size_t size, double mine, const char *unit)
{
    double most;
    MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MASTER, MPI_COMM_WORLD);
    bench_emit(bench, metric, size, most, unit);
}

static void measure_idle(const struct bench *bench, int members)
{
    MPI_T_pvar_session session;
    int provided;
    if (members >= bench->ranks - 1)
        bench_fail(bench, "a worker is needed that is no member");
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    struct group group = make_group(bench, members);
    char *data = bench_buffer(bench, bench_largest(bench));
    for (int i = 0; i < bench->size_count; i++) {
        double sum = 0, more = 0, most = 0, at_rest = 0;
        for (int round = 0; round < ROUNDS; round++) {
            const struct idleness quiet = watch_idle(bench, &group, session, 0, data, (int) bench->sizes[i]);
            const struct idleness meanwhile = watch_idle(bench, &group, session, MULTICASTS, data, (int) bench->sizes[i]);
            const double difference = meanwhile.wakeups - quiet.wakeups;
            sum += meanwhile.messages;
            more += difference / ROUNDS;
            at_rest += quiet.wakeups / ROUNDS;
            if (round == 0 || difference > most)
                most = difference;
        }
        emit_most(bench, "idle_messages", bench->sizes[i], sum, "messages");
        emit_most(bench, "idle_wakeups", bench->sizes[i], more, "wake-ups");
        emit_most(bench, "idle_wakeups_most", bench->sizes[i], most, "wake-ups");
        emit_most(bench, "idle_wakeups_at_rest", bench->sizes[i], at_rest, "wake-ups");
    }
    free(data);
    free_group(&group);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
}
#endif

/* --members is of this program alone: takes it out of the arguments. 0 when it is not there. */
static int take_members(int *argc, char **argv)
{
    int members = 0, kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (i + 1 < *argc && strcmp(argv[i], "--members") == 0)
            members = atoi(argv[++i]);
        else
            argv[kept++] = argv[i];
    }
    argv[kept] = NULL;
    *argc = kept;
    return members;
}

static int is_operation(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--operation") == 0 && strcmp(argv[i + 1], name) == 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    struct bench bench;
    int members = take_members(&argc, argv);
    const int master = is_operation(argc, argv, "master"), idle = is_operation(argc, argv, "idle");
    const char *sizes = master ? "8,1024" : idle ? "1024"
        : "8,32,128,512,1024,2048,4096,8192,16384,32768,81920,131072,262144,524288,1048576,2097152,4194304,8388608";
    bench_init(&bench, "mcast", sizes, 2, 4096, &argc, &argv);
    if (members == 0)
        members = bench.ranks / 2;
    if (members < 1 || members >= bench.ranks)
        bench_fail(&bench, "--members takes a number from 1 to that of the workers");

    int found = 1;
#ifdef MPIX_MCAST_DELIVERED
    if (master)
        measure_master(&bench);
    else if (idle)
        measure_idle(&bench, members);
    else
#endif
        found = measure_ways(&bench, members);
    if (!found)
        bench_fail(&bench, "no such --operation; known: all, mcast, bcast, create, send, master, idle, those with MPIX_Mcast only "
                   "where the MPI has it");
    bench_finalize(&bench);
    return 0;
}
