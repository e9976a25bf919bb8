/* A rank ends when its process manager does: the other end of its PMI socket is watched by a signal, in every moment between
 * MPI_Init and MPI_Finalize, at no cost while nothing happens. Needed where the death signal of the proxy does not reach the rank,
 * because it was started by a script, a debugger or a terminal in between. Included by MPICH's simple_pmi.c (maint/graft-mpich). */
#ifndef COMPOSITE_PMI_H_INCLUDED
#define COMPOSITE_PMI_H_INCLUDED

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#ifndef POLLRDHUP
#define POLLRDHUP 0x2000
#endif

static volatile sig_atomic_t composite_pmi_fd = -1;

static void composite_pmi_look(int signum)
{
    int saved = errno;
    struct pollfd watched = { composite_pmi_fd, POLLRDHUP, 0 };

    (void) signum;
    if (watched.fd >= 0 && poll(&watched, 1, 0) == 1 && (watched.revents & (POLLHUP | POLLRDHUP | POLLERR)))
        _exit(1);
    errno = saved;
}

/* From now on. A program that has a use of its own for SIGIO keeps it, and is not watched. */
static void composite_pmi_watch(int fd)
{
    struct sigaction action = { 0 };
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || sigaction(SIGIO, NULL, &action) < 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN))
        return;
    action.sa_handler = composite_pmi_look;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    composite_pmi_fd = fd;
    if (sigaction(SIGIO, &action, NULL) < 0 || fcntl(fd, F_SETOWN, getpid()) < 0 || fcntl(fd, F_SETFL, flags | O_ASYNC) < 0) {
        composite_pmi_fd = -1;
        return;
    }
    composite_pmi_look(SIGIO);
}

/* Not any more: the process manager may close the connection now. */
static void composite_pmi_unwatch(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    composite_pmi_fd = -1;
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags & ~O_ASYNC);
}

/* Whoever asks for the end of the job ends, also where no one is left to grant it: a read of the answer, which never comes, takes
 * a few seconds at most. */
static void composite_pmi_limit(int fd)
{
    struct timeval limit = { 4, 0 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

#endif
