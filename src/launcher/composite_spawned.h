/* Whether a spawn has worked: the part of Hydra's proxy (composite_spawning.h is mpiexec's). */
#ifndef COMPOSITE_SPAWNED_H_INCLUDED
#define COMPOSITE_SPAWNED_H_INCLUDED

/* A process has closed its PMI connection without having used it: it is no MPI program, or there is none. What was started with
 * mpiexec may be like that. Of a spawned group all processes would wait for this one, so they end; its own end is told as it was. */
static inline void composite_never_began(int fd, int process)
{
    if (HYD_pmcd_pmip.local.pgid == 0 || process == -1 || HYD_pmcd_pmip.downstream.pmi_fd_active[process])
        return;
    HYDT_dmx_deregister_fd(fd);
    close(fd);
    HYD_pmcd_pmip.downstream.pmi_fd[process] = HYD_FD_CLOSED;
    if (HYD_pmcd_pmip.downstream.exit_status[process] == -1)
        HYD_pmcd_pmip.downstream.exit_status[process] = 1;      /* not yet known: replaced by the true one, as another would not */
    HYD_pmcd_pmip_send_signal(SIGKILL);
}

/* A spawned program cannot be started in its folder. The proxy goes on: something that says so is started in its place, and ends as
 * a program does that cannot be found. Whether that is so; a program that mpiexec was asked to start has the proxy fail. */
static inline int composite_no_folder(struct HYD_exec *exec, const char *reason)
{
    if (HYD_pmcd_pmip.local.pgid == 0)
        return 0;
    HYDU_free_strlist(exec->exec);
    exec->exec[0] = MPL_strdup("/bin/sh");
    exec->exec[1] = MPL_strdup("-c");
    exec->exec[2] = MPL_strdup("echo \"cannot enter the folder $0: $1\" >&2; exit 1");
    exec->exec[3] = MPL_strdup(exec->wdir);
    exec->exec[4] = MPL_strdup(reason);
    exec->exec[5] = NULL;
    return 1;
}

#endif
