/* Processes end with whoever started them, and connections with the host at their other end. Included by Hydra's mpiexec and proxy
 * (maint/graft-mpich). */
#ifndef COMPOSITE_ENDS_H_INCLUDED
#define COMPOSITE_ENDS_H_INCLUDED

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/* fork, after which the child gets `signum` when its parent ends, whatever ended it. No signal is lost between fork and exec: one
 * that arrives there, where the parent's handlers would still swallow it, has its usual effect. */
static inline pid_t composite_fork(int signum)
{
    static const int handled[] = { SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGALRM, SIGPIPE, SIGTSTP };
    pid_t parent = getpid(), pid;
    sigset_t all, before;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid = fork();
    if (pid == 0) {
        for (unsigned i = 0; i < sizeof(handled) / sizeof(*handled); i++) {
            struct sigaction action;
            if (sigaction(handled[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
                signal(handled[i], SIG_DFL);
        }
        /* A parent that is gone already sends nothing. */
        if (prctl(PR_SET_PDEATHSIG, signum) == 0 && getppid() != parent)
            _exit(1);
    }
    {
        int saved = errno;
        sigprocmask(SIG_SETMASK, &before, NULL);
        errno = saved;
    }
    return pid;
}

/* A connection to a host that does not answer for so many seconds has ended; 0 means never. The kernel sees to it while nothing is on its
 * way, and composite_silent() tells it otherwise. Not TCP_USER_TIMEOUT: that also ends a connection whose other side lives and does
 * not read, as an mpiexec whose output goes to a pager. It asks as often as it can: of four questions a network that loses every fifth
 * packet loses each one, or its answer, once in sixty times. */
static inline void composite_silence_limit(int fd, int seconds)
{
    const int most = 20;        /* questions */
    int on = seconds > 0, idle = seconds / 3 + 1, interval = (seconds - idle) / most + 1, count = (seconds - idle) / interval + 1;

    /* Fails for a connection inside the host, which needs none of this. */
    if (setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)) < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    /* What was lost goes again after some 0.2 s, six times before the pauses double: 13 times in 30 s, not seven times. The kernel
     * does so only for a connection that has slowed down for a loss, which some ways of avoiding congestion (bbr) never do. */
    setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

/* write, but what mpiexec writes to a proxy that has just ended is an error (EPIPE) and no signal. The proxy handles the signal. */
static inline ssize_t composite_write(int fd, const void *bytes, size_t size)
{
    static int is_proxy = -1;

    if (is_proxy < 0) {
        struct sigaction action;
        is_proxy = sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
    }
    if (!is_proxy && fd > STDERR_FILENO) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent >= 0 || errno != ENOTSOCK)
            return sent;
    }
    return write(fd, bytes, size);
}

/* How often to ask it. */
static inline int composite_silence_look(int seconds)
{
    return seconds / 6 + 1;
}

/* Whether what was sent is not even acknowledged for so long, though it went often enough that this is not bad luck, or for twice as
 * long; that the other side has no room for more is an answer. */
static inline int composite_silent(int fd, int seconds)
{
    /* Of 20 % that are lost eight in a row are once in 4,000 times, twelve once in 200,000. They take about 28 s. */
    const unsigned often = seconds >= 20 ? 12 : 8, limit = (unsigned) seconds * 1000;
    struct tcp_info info;
    socklen_t size = sizeof(info);

    if (seconds <= 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 || (!info.tcpi_unacked && !info.tcpi_probes))
        return 0;
    return info.tcpi_last_ack_recv > limit * 2 ||
        (info.tcpi_last_ack_recv > limit && info.tcpi_retransmits + info.tcpi_probes >= often);
}

static inline int composite_read_limit(const struct HYD_env_global *global)
{
    const struct HYD_env *lists[] = { global->user, global->inherited };
    const int usual = 30, least = 5, most = 86400;

    for (int i = 0; i < 2; i++) {
        for (const struct HYD_env *env = lists[i]; env; env = env->next) {
            if (env->env_name && env->env_value && !strcmp(env->env_name, "MPIR_CVAR_CH4_COMPOSITE_UDP_SILENCE_LIMIT")) {
                char *end;
                double seconds = strtod(env->env_value, &end);
                if (end == env->env_value || *end)
                    return usual;
                return seconds == 0 ? 0 : seconds < least ? least : seconds > most ? most : (int) seconds;
            }
        }
    }
    return usual;
}

/* That limit for the job, of which this is the environment, complete when first asked with it: as the network's, but 5 s at least. */
static inline int composite_limit_of(const struct HYD_env_global *global)
{
    static int limit = -1;

    if (limit < 0)
        limit = composite_read_limit(global);
    return limit;
}

/* Connects like MPL_connect. An attempt that no one answers is followed by a new one, and fails after some 30 s: a packet that the kernel
 * sends again itself, later and later, makes it believe that the way is long and wait for many seconds whenever something is lost. */
static inline int composite_connect(int fd, MPL_sockaddr_t * address, unsigned short port)
{
    const int most = 12;
    const struct timeval never = { 0, 0 };

    for (int tries = 0; tries < most; tries++) {
        struct timeval patience = { 1 + tries / 3, 0 };
        int failed, another;

        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
        failed = MPL_connect(fd, address, port);
        if (!failed || (errno != EINPROGRESS && errno != EALREADY && errno != EINTR)) {
            int why = errno;
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &never, sizeof(never));
            errno = why;
            return failed;
        }
        another = MPL_socket();
        if (another < 0)
            return -1;
        failed = dup3(another, fd, fcntl(fd, F_GETFD) & FD_CLOEXEC ? O_CLOEXEC : 0) < 0;
        close(another);
        if (failed)
            return -1;
    }
    errno = ETIMEDOUT;
    return -1;
}

#endif
