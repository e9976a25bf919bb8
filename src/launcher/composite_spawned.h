/* Processes that never come to MPI_Init, and whether a spawn has worked: the part of Hydra's proxy (composite_spawning.h is mpiexec's). */
#ifndef COMPOSITE_SPAWNED_H_INCLUDED
#define COMPOSITE_SPAWNED_H_INCLUDED

/* A process that must not end like that has no success to tell. How it ended may be known already, or not. */
static inline void composite_no_success(int process)
{
    int *status = &HYD_pmcd_pmip.downstream.exit_status[process];

    if (*status == -1)
        *status = 1;            /* replaced by the true one, as another would not */
    else if (*status == 0)
        *status = 1 << 8;
}

/* A process that will never be in MPI_Init, and whether the rest was ended for it. */
static int composite_absent = -1;

/* Ends all, once, when one is absent and others are in MPI_Init, where they would wait for it for ever. What mpiexec started may
 * also be no MPI programs at all. Of a spawned group all must be there. */
static inline void composite_all_or_nobody(void)
{
    int waits = HYD_pmcd_pmip.local.pgid != 0;

    if (composite_absent < 0 || !HYD_pmcd_pmip.user_global.auto_cleanup || HYD_pmcd_pmip.downstream.forced_cleanup)
        return;
    for (int i = 0; i < HYD_pmcd_pmip.local.proxy_process_count; i++)
        waits |= HYD_pmcd_pmip.downstream.pmi_fd_active[i];
    if (!waits)
        return;
    if (HYD_pmcd_pmip.local.pgid == 0)
        fprintf(stderr, "mpiexec: rank %d ended without MPI_Init, where other ranks wait for it: the job ends. Is its program built with "
                "this MPI?\n", HYD_pmcd_pmip.downstream.pmi_rank[composite_absent]);
    composite_no_success(composite_absent);
    composite_absent = -1;
    HYD_pmcd_pmip_send_signal(SIGKILL);
}

/* A process has closed its PMI connection without having used it: it is no MPI program, or there is none. */
static inline void composite_never_began(int fd, int process)
{
    if (process == -1 || HYD_pmcd_pmip.downstream.pmi_fd_active[process])
        return;
    HYDT_dmx_deregister_fd(fd);
    close(fd);
    HYD_pmcd_pmip.downstream.pmi_fd[process] = HYD_FD_CLOSED;
    composite_absent = process;
    composite_all_or_nobody();
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
