/* A library to preload: system and UCX calls that fail as on other machines do. FAIL says which:
 *   segments      sendmsg of a train of datagrams (UDP_SEGMENT), as where the network device cannot divide it
 *   pulls         process_vm_readv of more than a few bytes, as where a process closes itself after the others have looked
 *   registration  ucp_mem_map, as where the limit on locked memory is reached
 * At the end of the process it says on stderr how many calls it has let fail, so that a test knows that there were some. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { udp_segment = 103, no_memory = -4 };     /* of linux/udp.h; UCS_ERR_NO_MEMORY */
static int failed;

static int fails(const char *what)
{
    const char *which = getenv("FAIL");
    return which && strcmp(which, what) == 0;
}

static int is_train(const struct msghdr *message)
{
    for (struct cmsghdr *each = CMSG_FIRSTHDR(message); each; each = CMSG_NXTHDR((struct msghdr *) message, each))
        if (each->cmsg_level == IPPROTO_UDP && each->cmsg_type == udp_segment)
            return 1;
    return 0;
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    static ssize_t (*real) (int, const struct msghdr *, int);
    if (!real)
        real = (ssize_t(*)(int, const struct msghdr *, int)) dlsym(RTLD_NEXT, "sendmsg");
    if (fails("segments") && is_train(message)) {
        failed++;
        errno = EIO;
        return -1;
    }
    return real(socket, message, flags);
}

ssize_t process_vm_readv(pid_t process, const struct iovec *here, unsigned long here_count, const struct iovec *there, unsigned long there_count,
                         unsigned long flags)
{
    static ssize_t (*real) (pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);
    if (!real)
        real = (ssize_t(*)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long))
            dlsym(RTLD_NEXT, "process_vm_readv");
    if (fails("pulls") && there_count > 0 && there[0].iov_len > 1000) {
        failed++;
        errno = EPERM;
        return -1;
    }
    return real(process, here, here_count, there, there_count, flags);
}

int ucp_mem_map(void *context, const void *params, void **memory)
{
    static int (*real) (void *, const void *, void **);
    if (!real)
        real = (int (*)(void *, const void *, void **)) dlsym(RTLD_NEXT, "ucp_mem_map");
    if (fails("registration")) {
        failed++;
        return no_memory;
    }
    return real(context, params, memory);
}

__attribute__((destructor)) static void tell(void)
{
    if (failed > 0)
        fprintf(stderr, "fails: %d calls failed\n", failed);
}
