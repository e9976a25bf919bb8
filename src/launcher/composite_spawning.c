/* See composite_spawning.h. Included at the end of pmiserv_cb.c, because it ends proxies as that does. */

struct composite_spawn {
    int pgid;
    struct HYD_proxy *parent;   /* the proxy of the process that waits for the answer */
    int fd, pid;                /* that proxy's connection then, and its name for the process */
    int through;                /* processes that have all of MPI_Init behind them but the way to their parents */
    int failed;
    struct composite_said *said;        /* the last who spoke first */
    struct composite_spawn *next;
};

/* What a process said. Where several fail at once, the others are killed in the middle of their words. */
struct composite_said {
    int proxy_id, rank;
    char line[300];             /* the last one on standard error, */
    int line_ended;             /* and whether what comes is another one */
    struct composite_said *next;
};

/* Those not answered yet, and those that failed. */
static struct composite_spawn *composite_spawns;

static struct composite_spawn **composite_find_spawn(int pgid)
{
    struct composite_spawn **place = &composite_spawns;

    while (*place && (*place)->pgid != pgid)
        place = &(*place)->next;
    return place;
}

HYD_status composite_spawn_begun(int fd, int pid, struct HYD_pg *pg)
{
    HYD_status status = HYD_SUCCESS;
    struct composite_spawn *spawn;

    HYDU_MALLOC_OR_JUMP(spawn, struct composite_spawn *, sizeof *spawn, status);
    memset(spawn, 0, sizeof *spawn);
    spawn->pgid = pg->pgid;
    spawn->parent = HYD_pmcd_pmi_find_proxy(fd);
    spawn->fd = fd;
    spawn->pid = pid;
    spawn->next = composite_spawns;
    composite_spawns = spawn;

  fn_exit:
    return status;
  fn_fail:
    goto fn_exit;
}

static void composite_forget_said(struct composite_spawn *spawn)
{
    struct composite_said *said;

    while ((said = spawn->said)) {
        spawn->said = said->next;
        MPL_free(said);
    }
}

/* What the process `pid` of the proxy at `fd` waits for. */
static void composite_answer(int fd, int pid, const char *answer)
{
    struct HYD_pmcd_hdr hdr;
    int sent, closed;

    HYD_pmcd_init_header(&hdr);
    hdr.cmd = PMI_RESPONSE;
    hdr.pid = pid;
    hdr.pmi_version = 1;
    hdr.buflen = strlen(answer);
    if (HYDU_sock_write(fd, &hdr, sizeof hdr, &sent, &closed, HYDU_SOCK_COMM_MSGWAIT) == HYD_SUCCESS && !closed)
        HYDU_sock_write(fd, answer, hdr.buflen, &sent, &closed, HYDU_SOCK_COMM_MSGWAIT);
}

/* A parent that is gone needs no answer. */
static void composite_answer_parent(const struct composite_spawn *spawn, const char *answer)
{
    if (spawn->parent && spawn->parent->control_fd == spawn->fd)
        composite_answer(spawn->fd, spawn->pid, answer);
}

void composite_spawn_command(int pgid, int pmi_version, const char *command)
{
    struct composite_spawn **place = composite_find_spawn(pgid), *spawn = *place;
    struct HYD_pg *pg = &HYD_server_info.pg_list;

    if (spawn == NULL || spawn->failed)
        return;
    while (pg->pgid != pgid)
        pg = pg->next;
    /* The last that a process does in MPI_Init is to ask where its parents are, and to connect to them. */
    if (pmi_version == 1 && (!strstr(command, "key=" COMPOSITE_PARENTS) || ++spawn->through < pg->pg_process_count))
        return;
    composite_answer_parent(spawn, "cmd=spawn_result rc=0\n");
    *place = spawn->next;
    composite_forget_said(spawn);
    MPL_free(spawn);
}

int composite_spawn_aborted(int fd, int pid, int pgid)
{
    if (*composite_find_spawn(pgid) == NULL || !HYD_server_info.user_global.auto_cleanup)
        return 0;
    /* Whatever the answer, it ends then, as it wants to, and its proxy tells how. */
    composite_answer(fd, pid, "cmd=\n");
    return 1;
}

/* Of a process, which comes to be the last who spoke. NULL: no memory. */
static struct composite_said *composite_speaker(struct composite_spawn *spawn, int proxy_id, int rank)
{
    struct composite_said **place = &spawn->said, *said;

    while (*place && ((*place)->proxy_id != proxy_id || (*place)->rank != rank))
        place = &(*place)->next;
    said = *place;
    if (said)
        *place = said->next;
    else
        said = MPL_calloc(1, sizeof *said, MPL_MEM_OTHER);
    if (said == NULL)
        return NULL;
    said->proxy_id = proxy_id;
    said->rank = rank;
    said->next = spawn->said;
    return spawn->said = said;
}

void composite_spawn_said(int pgid, int proxy_id, int rank, const char *text, int length)
{
    struct composite_spawn *spawn = *composite_find_spawn(pgid);
    struct composite_said *said = spawn && !spawn->failed ? composite_speaker(spawn, proxy_id, rank) : NULL;

    if (said == NULL)
        return;
    /* A line may come in pieces. */
    for (int i = 0; i < length; i++) {
        size_t end = said->line_ended ? 0 : strlen(said->line);
        said->line_ended = text[i] == '\n' && (said->line_ended || end > 0);
        if (text[i] != '\n' && end + 1 < sizeof said->line) {
            said->line[end] = text[i];
            said->line[end + 1] = 0;
        }
    }
}

/* Of a process, or of whoever spoke last. Hydra's own words, said for a process that could not be started, begin with places in its
 * source. */
static const char *composite_last_words(const struct composite_spawn *spawn, int rank)
{
    const struct composite_said *said = spawn->said;
    const char *words, *next;

    while (said && rank >= 0 && said->rank != rank)
        said = said->next;
    if (said == NULL)
        said = spawn->said;
    words = said ? said->line : "";

    if (strstr(words, "HYDU_create_process"))
        while ((next = strstr(words, "): ")))
            words = next + strlen("): ");
    return words;
}

/* Tells the parent, once, and ends what there is of the group. `rank` has failed, or -1. PMI's values have no blanks: they go as \x1f. */
static void composite_fail_spawn(struct composite_spawn *spawn, struct HYD_proxy *from, int rank, const char *sentence)
{
    char answer[900];
    const char *words = composite_last_words(spawn, rank);
    struct HYD_proxy *proxy;

    if (spawn->failed)
        return;
    spawn->failed = 1;
    MPL_snprintf(answer, sizeof answer - 1, "cmd=spawn_result rc=-1 msg=%s%s%s", sentence, words[0] ? "; it said: " : "", words);
    for (char *c = strstr(answer, "msg="); *c; c++)
        if (*c == ' ' || *c == '\n')
            *c = '\x1f';
    strcat(answer, "\n");
    composite_answer_parent(spawn, answer);
    composite_forget_said(spawn);
    for (proxy = from->pg->proxy_list; proxy; proxy = proxy->next)
        if (proxy != from && proxy->control_fd != HYD_FD_UNSET && proxy->control_fd != HYD_FD_CLOSED)
            HYD_pmcd_pmiserv_send_signal(proxy, SIGKILL);
}

void composite_spawn_connected(struct HYD_proxy *proxy)
{
    struct composite_spawn *spawn = *composite_find_spawn(proxy->pg->pgid);

    if (spawn && spawn->failed)
        HYD_pmcd_pmiserv_send_signal(proxy, SIGKILL);
}

int composite_spawn_ended(struct HYD_proxy *proxy)
{
    struct composite_spawn *spawn = *composite_find_spawn(proxy->pg->pgid);
    struct HYD_exec *exec = proxy->exec_list;
    char how[64] = "ended", sentence[400];
    int culprit = 0, before = 0;

    if (spawn == NULL)
        return 0;
    /* The proxy kills the others when one has ended. */
    for (int i = proxy->proxy_process_count - 1; i >= 0; i--)
        if (proxy->exit_status[i] && !(WIFSIGNALED(proxy->exit_status[i]) && WTERMSIG(proxy->exit_status[i]) == SIGKILL))
            culprit = i;
    if (WIFSIGNALED(proxy->exit_status[culprit]))
        MPL_snprintf(how, sizeof how, "was ended by signal %d", WTERMSIG(proxy->exit_status[culprit]));
    else if (proxy->exit_status[culprit])
        MPL_snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(proxy->exit_status[culprit]));
    while (exec && (before += exec->proc_count) <= culprit)
        exec = exec->next;
    MPL_snprintf(sentence, sizeof sentence, "%.200s on host %.100s %s before all new processes were through MPI_Init",
                 exec ? exec->exec[0] : "a process", proxy->node->hostname, how);
    /* Of the only proxy, the processes are in the order of their ranks. */
    composite_fail_spawn(spawn, proxy, proxy->proxy_process_count == proxy->pg->pg_process_count ? culprit : -1, sentence);
    return 1;
}

int composite_spawn_lost(struct HYD_proxy *proxy, const char *how)
{
    const struct timespec nap = { 0, 10000000 };
    struct composite_spawn *spawn = *composite_find_spawn(proxy->pg->pgid);
    char sentence[300];

    if (spawn == NULL)
        return 0;
    MPL_snprintf(sentence, sizeof sentence, "Hydra's proxy on host %.100s %.150s", proxy->node->hostname, how);
    composite_fail_spawn(spawn, proxy, -1, sentence);
    cleanup_proxy(proxy);
    /* How its launcher ended is no failure of the job, which Hydra would make it when it waits for all of them. */
    for (struct composite_launcher * launcher = composite_launchers; launcher; launcher = launcher->next)
        for (int tries = 0; composite_is_launcher_of(launcher, proxy) && !composite_has_ended(launcher) && tries < 20; tries++)
            nanosleep(&nap, NULL);
    return 1;
}

int composite_spawn_no_proxy(struct HYD_proxy *proxy, const char *command, const char *how)
{
    struct composite_spawn *spawn = *composite_find_spawn(proxy->pg->pgid);
    char sentence[500];

    if (spawn == NULL)
        return 0;
    MPL_snprintf(sentence, sizeof sentence, "nothing can be started on host %.100s: '%.200s ...' %.150s", proxy->node->hostname,
                 command, how);
    composite_fail_spawn(spawn, proxy, -1, sentence);
    proxy->control_fd = HYD_FD_CLOSED;
    cleanup_proxy(proxy);
    return 1;
}
