/* Included at the end of Hydra's pmiserv_cb.c (maint/graft-mpich), whose cleanup_proxy it calls. */
#include "bscu.h"
#include "composite_asked.h"
#include "composite_launched.h"
#include "composite_spawning.h"

#include <time.h>

enum {
    quiet_limit = 2,            /* seconds without a word from any proxy, after which no more is expected of a job that ends, */
    end_limit = 10,             /* and how long that may take in all */
    late_limit = 10             /* seconds from the end of a launcher without an error to the connection of its proxy */
};

static long composite_seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

int composite_connected(const struct HYD_proxy *proxy)
{
    return proxy->control_fd >= 0 && HYD_pmcd_pmi_find_proxy(proxy->control_fd) == proxy;
}

#define FOR_EACH_PROXY(proxy)                                                                                  \
    for (struct HYD_pg * pg = &HYD_server_info.pg_list; pg; pg = pg->next)                                     \
        for (struct HYD_proxy * proxy = pg->proxy_list; proxy; proxy = proxy->next)

static int composite_count_connected(void)
{
    int count = 0;
    FOR_EACH_PROXY(proxy) count += composite_connected(proxy);
    return count;
}

/* Notes that this child has ended. Hydra must not wait for it again. */
static void composite_reaped(int pid)
{
    for (int i = 0; i < HYD_bscu_pid_count; i++)
        if (HYD_bscu_pid_list[i] == pid)
            HYD_bscu_pid_list[i] = -1;
}

static int composite_has_ended(struct composite_launcher *launcher)
{
    if (!launcher->ended && waitpid(launcher->pid, &launcher->status, WNOHANG) == launcher->pid) {
        composite_reaped(launcher->pid);
        launcher->ended = 1;
        launcher->when = composite_seconds_now();
    }
    return launcher->ended;
}

/* Until all launchers are gone or a second has passed. */
static int composite_launchers_gone(int signum)
{
    const struct timespec nap = { 0, 10000000 };

    for (int i = 0; signum && i < HYD_bscu_pid_count; i++)
        if (HYD_bscu_pid_list[i] > 0)
            kill(-HYD_bscu_pid_list[i], signum);
    for (int tries = 0; tries < 100; tries++) {
        int left = 0;
        for (int i = 0; i < HYD_bscu_pid_count; i++) {
            if (HYD_bscu_pid_list[i] <= 0)
                continue;
            if (waitpid(HYD_bscu_pid_list[i], NULL, WNOHANG) == 0)
                left++;
            else
                HYD_bscu_pid_list[i] = -1;
        }
        HYDT_dmx_wait_for_event(0);
        if (!left)
            return 1;
        nanosleep(&nap, NULL);
    }
    return 0;
}

static int composite_ending = 0;

void composite_end_job(int status)
{
    struct HYD_pmcd_hdr hdr;
    long start = composite_seconds_now();

    if (composite_ending)
        return;
    composite_ending = 1;
    /* A proxy that is gone must not end mpiexec, and how ranks end now is no news. */
    signal(SIGPIPE, SIG_IGN);
    HYD_server_info.user_global.auto_cleanup = 0;
    if (HYDT_dmx_query_fd_registration(STDIN_FILENO))
        HYDT_dmx_deregister_fd(STDIN_FILENO);

    /* Ranks that are killed have written what they had to say. Their proxies pass it on before they say how the ranks ended. */
    HYD_pmcd_init_header(&hdr);
    hdr.cmd = SIGNAL;
    hdr.signum = SIGKILL;
    FOR_EACH_PROXY(proxy)
        if (composite_connected(proxy) && send(proxy->control_fd, &hdr, sizeof(hdr), MSG_DONTWAIT) < 0) {
            /* It will be seen that this one has ended. */
        }
    while (composite_count_connected() && composite_seconds_now() - start < end_limit)
        if (HYDT_dmx_wait_for_event(quiet_limit) == HYD_TIMED_OUT)
            break;

    HYD_pmcd_pmiserv_cleanup_all_pgs();
    if (!composite_launchers_gone(0) && !composite_launchers_gone(SIGTERM))
        composite_launchers_gone(SIGKILL);
    exit(status);
}

static void composite_describe(char *text, size_t size, int status)
{
    if (WIFSIGNALED(status))
        snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "ended with exit status %d", WEXITSTATUS(status));
}

static int composite_is_launcher_of(const struct composite_launcher *launcher, const struct HYD_proxy *proxy)
{
    return launcher->pgid == proxy->pg->pgid && (launcher->proxy_id == -1 || launcher->proxy_id == proxy->proxy_id);
}

/* The first of its proxies that has never connected. */
static struct HYD_proxy *composite_missing(const struct composite_launcher *launcher)
{
    FOR_EACH_PROXY(proxy)
        if (composite_is_launcher_of(launcher, proxy) && !composite_connected(proxy) && proxy->control_fd != HYD_FD_CLOSED)
            return proxy;
    return NULL;
}

static void composite_launcher_failed(const struct composite_launcher *launcher, struct HYD_proxy *proxy)
{
    const char *host = proxy->node->hostname;
    char how[100];

    composite_describe(how, sizeof(how), launcher->status);
    if (composite_spawn_no_proxy(proxy, launcher->command, how))
        return;
    fflush(stdout);
    fprintf(stderr, "mpiexec: cannot start processes on host %s: the %s %s, and no %s has connected from there.\n", host,
            launcher->itself ? "proxy" : "launcher", how, HYDRA_PMI_PROXY);
    fprintf(stderr, "It was run as: %s ...\nWhat it said, if anything, is above. ", launcher->command);
    if (launcher->itself)
        fprintf(stderr, "Check that the program exists and runs: it is installed next to mpiexec.\n");
    else
        fprintf(stderr, "Check the name of the host (-hosts, -f), that this launcher (-launcher, -launcher-exec) can run a command such "
                "as `hostname` there without asking for anything, that MPI is installed there under the same path, and that "
                "host %s can connect to this one, which is called %s (firewalls; -iface, -localhost).\n", host,
                HYD_server_info.localhost ? HYD_server_info.localhost : "?");
    composite_end_job(255);
}

/* Groups that were spawned may come and go as long as the job runs: what is not needed to tell how they ended is given back. */
void composite_group_ended(struct HYD_pg *pg)
{
    if (pg->pgid == 0)
        return;
    for (struct HYD_proxy * proxy = pg->proxy_list; proxy; proxy = proxy->next) {
        if (!proxy->exec_launch_info)
            continue;
        HYDU_free_strlist(proxy->exec_launch_info);
        MPL_free(proxy->exec_launch_info);
        proxy->exec_launch_info = NULL;
    }
    for (struct composite_launcher * launcher = composite_launchers; launcher; launcher = launcher->next)
        launcher->over |= launcher->pgid == pg->pgid;
}

/* Launchers of groups that are no more, once they have ended. */
static void composite_forget_launchers(void)
{
    struct composite_launcher **place = &composite_launchers;

    while (*place) {
        struct composite_launcher *launcher = *place;
        if (launcher->over && composite_has_ended(launcher)) {
            *place = launcher->next;
            MPL_free(launcher->command);
            MPL_free(launcher);
        } else
            place = &launcher->next;
    }
}

/* Returns how many launchers have proxies that are not connected. */
static int composite_look_after_launchers(void)
{
    int starting = 0;

    composite_forget_launchers();
    for (struct composite_launcher * launcher = composite_launchers; launcher; launcher = launcher->next) {
        struct HYD_proxy *proxy = launcher->joined ? NULL : composite_missing(launcher);
        launcher->joined = !proxy;
        if (!proxy)
            continue;
        starting++;
        if (!composite_has_ended(launcher))
            continue;
        /* What it said comes first, and a connection that is waiting. */
        for (int rounds = 0; rounds < 100 && HYDT_dmx_wait_for_event(0) != HYD_TIMED_OUT; rounds++);
        proxy = composite_missing(launcher);
        if (proxy && (launcher->status || composite_seconds_now() - launcher->when >= late_limit))
            composite_launcher_failed(launcher, proxy);
    }
    return starting;
}

/* Ends connections to hosts that do not answer; looks once a second at most. Returns in how many seconds to look again, 0 for never. */
static int composite_look_after_hosts(void)
{
    static long looked = 0;
    int limit = composite_limit_of(&HYD_server_info.user_global.global_env);
    long now = composite_seconds_now();

    if (limit <= 0 || now == looked)
        return limit <= 0 ? 0 : composite_silence_look(limit);
    looked = now;
    FOR_EACH_PROXY(proxy)
        if (composite_connected(proxy) && composite_silent(proxy->control_fd, limit))
            shutdown(proxy->control_fd, SHUT_RDWR);
    return composite_silence_look(limit);
}

HYD_status composite_wait_for_event(int seconds)
{
    int look = composite_look_after_launchers() ? 1 : composite_look_after_hosts();

    composite_listen_for_questions();
    if (look && (seconds < 0 || seconds > look))
        seconds = look;
    return HYDT_dmx_wait_for_event(seconds);
}

HYD_status composite_proxy_lost(struct HYD_proxy *proxy)
{
    const struct timespec nap = { 0, 10000000 };
    struct composite_launcher *launcher;
    char how[200] = "ended without a word";

    if (composite_spawn_lost(proxy, how))
        return HYD_SUCCESS;
    cleanup_proxy(proxy);
    if (composite_ending)
        return HYD_SUCCESS;
    for (launcher = composite_launchers; launcher && !composite_is_launcher_of(launcher, proxy); launcher = launcher->next);
    for (int tries = 0; launcher && !composite_has_ended(launcher) && tries < 20; tries++)
        nanosleep(&nap, NULL);
    if (launcher && launcher->ended && launcher->status)
        composite_describe(how, sizeof(how), launcher->status);
    fflush(stdout);
    fprintf(stderr, "mpiexec: lost host %s: %s, which starts and watches the ranks there, %s, or the host does not answer any more. %s\n",
            proxy->node->hostname, HYDRA_PMI_PROXY, how,
            HYD_server_info.user_global.auto_cleanup ? "All other ranks are ended." : "Its ranks are gone.");
    if (HYD_server_info.user_global.auto_cleanup)
        composite_end_job(255);
    /* Whoever goes on without them (-disable-auto-cleanup) still has the status of a job that failed. */
    if (!proxy->exit_status)
        proxy->exit_status = MPL_malloc(proxy->proxy_process_count * sizeof(int), MPL_MEM_OTHER);
    for (int i = 0; proxy->exit_status && i < proxy->proxy_process_count; i++)
        proxy->exit_status[i] = 1 << 8;
    return HYD_SUCCESS;
}

HYD_status composite_rank_died(struct HYD_proxy *proxy, int status)
{
    int starting = 0;

    FOR_EACH_PROXY(other) starting |= other->control_fd == HYD_FD_UNSET;
    if (proxy->pg->pgid || starting)
        composite_end_job(status);
    return HYD_pmcd_pmiserv_cleanup_all_pgs();
}

void composite_barrier_possible(const struct HYD_proxy *proxy)
{
    if (!proxy->pg->barrier_count || !HYD_server_info.user_global.auto_cleanup || composite_ending)
        return;
    for (struct HYD_proxy * other = proxy->pg->proxy_list; other; other = other->next) {
        int shared = 0, killed = 0;
        for (int i = 0; other->exit_status && i < other->proxy_process_count; i++)
            killed |= !WIFEXITED(other->exit_status[i]);
        /* A rank that was ended by a signal is told otherwise. */
        if (other->control_fd != HYD_FD_CLOSED || killed)
            continue;
        for (struct HYD_proxy * with = proxy->pg->proxy_list; with; with = with->next)
            shared |= with != other && with->node == other->node;
        fflush(stdout);
        fprintf(stderr, "mpiexec: all ranks %son host %s have ended, and other ranks wait for them in MPI_Init or MPI_Finalize: the job ends. "
                "Does the program exist there, and is it built with this MPI?\n", shared ? "of one of the proxies " : "",
                other->node->hostname);
        composite_end_job(255);
    }
}

int composite_unwanted(int closed)
{
    return closed || composite_ending;
}

HYD_status composite_no_more_input(void)
{
    return HYDT_dmx_query_fd_registration(STDIN_FILENO) ? HYDT_dmx_deregister_fd(STDIN_FILENO) : HYD_SUCCESS;
}

HYD_status composite_not_a_proxy(int fd)
{
    FOR_EACH_PROXY(proxy)
        if (proxy->control_fd == fd)
            proxy->control_fd = HYD_FD_UNSET;
    HYDT_dmx_deregister_fd(fd);
    close(fd);
    return HYD_SUCCESS;
}

HYD_status composite_pass_on(struct HYD_proxy *proxy, int signum)
{
    if (composite_connected(proxy))
        return HYD_pmcd_pmiserv_send_signal(proxy, signum);
    if (proxy->control_fd != HYD_FD_CLOSED && (signum == SIGTERM || signum == SIGINT || signum == SIGQUIT))
        composite_end_job(128 + signum);
    return HYD_SUCCESS;
}
