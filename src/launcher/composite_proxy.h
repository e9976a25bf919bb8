/* How a proxy ends, and its ranks with it. Included by Hydra's proxy (maint/graft-mpich). */
#ifndef COMPOSITE_PROXY_H_INCLUDED
#define COMPOSITE_PROXY_H_INCLUDED

#include "composite_ends.h"

#include <sys/wait.h>
#include <time.h>

/* mpiexec is gone, or wants us gone: so are the ranks, and whatever else is in their process groups. That is no failure of ours. */
static inline void composite_upstream_gone(void)
{
    HYD_pmcd_pmip_send_signal(SIGKILL);
    _exit(0);
}

/* Waits like Hydra's function for an event, and ends when mpiexec's host does not answer. */
static inline HYD_status composite_wait_below(void)
{
    HYD_status status;

    do {
        const struct HYD_env_global *global = &HYD_pmcd_pmip.user_global.global_env;
        int seconds = global->inherited ? composite_limit_of(global) : -1;
        if (seconds > 0 && composite_silent(HYD_pmcd_pmip.upstream.control, seconds))
            composite_upstream_gone();
        status = HYDT_dmx_wait_for_event(seconds > 0 ? composite_silence_look(seconds) : -1);
    } while (status == HYD_TIMED_OUT);
    return status;
}

/* Answers a rank. One that has ended needs no answer, and that it has is seen by the end of its connection. */
static inline HYD_status composite_respond(int fd, const char *bytes, int size)
{
    while (size > 0 && HYDT_dmx_query_fd_registration(fd)) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent > 0)
            bytes += sent, size -= (int) sent;
        else if (errno != EINTR && errno != EAGAIN)
            break;
    }
    return HYD_SUCCESS;
}

/* A rank that has ended, if there is one. Where ranks had to be killed, one that ended in peace is no success of the job. */
static inline pid_t composite_reap(int *status)
{
    pid_t pid = waitpid(-1, status, WNOHANG);

    if (pid > 0 && HYD_pmcd_pmip.downstream.forced_cleanup && *status == 0)
        *status = 1 << 8;
    return pid;
}

/* Waits for any rank, during which mpiexec is heard: ranks may have closed their output long before they end. */
static inline pid_t composite_wait_for_rank(int *status)
{
    struct timespec nap = { 0, 100000 };
    pid_t pid;

    while ((pid = composite_reap(status)) == 0) {
        HYD_status event = HYDT_dmx_wait_for_event(0);
        if (event != HYD_SUCCESS && event != HYD_TIMED_OUT)
            composite_upstream_gone();
        nanosleep(&nap, NULL);
        if (nap.tv_nsec < 50000000)
            nap.tv_nsec *= 2;
    }
    return pid;
}

#endif
