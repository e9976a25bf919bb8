/* See composite_descriptors.h. Part of Hydra's utils/launch/launch.c, so that there is one of it in mpiexec and in the proxy. */

static struct rlimit given_limit;       /* before we raised it */
static unsigned char *given;            /* one for each descriptor of our start */
static int given_size = 0;
static long free_at_start = LONG_MAX;   /* of our limit, but for what is needed without a rank */

enum {
    least = 24,                 /* descriptors without a rank */
    of_rank = 4,                /* input, output, errors and PMI */
    of_proxy = 3                /* its connection, output and errors */
};

static void remember_descriptor(int fd, void *context)
{
    (void) context;
    if (fd >= given_size) {
        unsigned char *larger = realloc(given, (size_t) fd + 64);
        if (!larger)
            return;
        memset(larger + given_size, 0, (size_t) (fd + 64 - given_size));
        given = larger;
        given_size = fd + 64;
    }
    given[fd] = 1;
}

__attribute__((constructor))
static void composite_descriptors_start(void)
{
    long open = 0;
    struct rlimit raised;

    composite_each_descriptor(remember_descriptor, NULL);
    if (getrlimit(RLIMIT_NOFILE, &given_limit) != 0)
        return;
    raised = given_limit;
    raised.rlim_cur = raised.rlim_max;
    /* A descriptor that a program was given may be beyond. */
    if (setrlimit(RLIMIT_NOFILE, &raised) != 0)
        raised = given_limit;
    if (raised.rlim_cur < least) {
        fprintf(stderr, "mpiexec: the limit on open files is %ld (ulimit -Hn); the launcher alone needs %ld, and 4 more for each rank "
                "on a host. Raise it.\n", (long) raised.rlim_cur, (long) least);
        exit(1);
    }
    composite_each_descriptor(composite_count_descriptor, &open);
    if (raised.rlim_cur != RLIM_INFINITY)
        free_at_start = (long) raised.rlim_cur - open - least;
}

int composite_most_ranks(void)
{
    return free_at_start / of_rank > INT_MAX ? INT_MAX : (int) (free_at_start / of_rank);
}

int composite_can_hold(int proxies)
{
    long needed = (long) of_proxy * proxies + least;
    struct rlimit limit;

    composite_each_descriptor(composite_count_descriptor, &needed);
    return getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || needed <= (long) limit.rlim_cur;
}

/* What a child is told the number of is meant for it. */
struct meant {
    int pmi, control;
};

static struct meant meant_for(const struct HYD_env *env)
{
    struct meant meant = { -1, -1 };

    for (; env; env = env->next) {
        if (!env->env_name || !env->env_value)
            continue;
        if (!strcmp(env->env_name, "PMI_FD"))
            meant.pmi = atoi(env->env_value);
        else if (!strcmp(env->env_name, "HYDI_CONTROL_FD"))
            meant.control = atoi(env->env_value);
    }
    return meant;
}

static int is_left(int fd, const struct meant *meant)
{
    return fd <= STDERR_FILENO || (fd < given_size && given[fd]) || fd == meant->pmi || fd == meant->control;
}

/* At exec and not now: the directory that is being read is one of them. */
static void leave_descriptor(int fd, void *context)
{
    if (!is_left(fd, context))
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* The same for all from `first` up to `last`, where the kernel can: a proxy has 4 for each rank, and a child for each rank. */
static int leave_range(unsigned first, unsigned last)
{
#ifdef SYS_close_range
    const unsigned at_exec = 1 << 2;

    return first > last ? 0 : (int) syscall(SYS_close_range, first, last, at_exec);
#else
    return -1;
#endif
}

void composite_descriptors_of_child(struct HYD_env *env)
{
    struct meant meant = meant_for(env);
    int end = given_size, next = STDERR_FILENO + 1, failed = 0;

    if (end <= meant.pmi)
        end = meant.pmi + 1;
    if (end <= meant.control)
        end = meant.control + 1;
    for (int fd = next; fd < end && !failed; fd++) {
        if (is_left(fd, &meant)) {
            failed = leave_range((unsigned) next, (unsigned) fd - 1);
            next = fd + 1;
        }
    }
    if (failed || leave_range((unsigned) next, ~0U))
        composite_each_descriptor(leave_descriptor, &meant);
    if (given_limit.rlim_max)
        setrlimit(RLIMIT_NOFILE, &given_limit);
}
