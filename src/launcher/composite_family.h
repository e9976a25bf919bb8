/* IPv4 and IPv6 between mpiexec and the proxies of hosts, some of which may have only one of them. MPICH's layer of sockets knows one at a time,
 * which is told here for each socket. Included by Hydra's sock.c (maint/graft-mpich). */
#ifndef COMPOSITE_FAMILY_H_INCLUDED
#define COMPOSITE_FAMILY_H_INCLUDED

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* One that hosts of both connect to, if this kernel has both. */
static inline int composite_listening_socket(void)
{
    int fd, no = 0;

    MPL_sockaddr_set_aftype(AF_INET6);
    fd = MPL_socket();
    if (fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    MPL_sockaddr_set_aftype(AF_INET);
    return MPL_socket();
}

/* No packet is sent for this. */
static inline int composite_leads_there(const MPL_sockaddr_t * address)
{
    MPL_sockaddr_t to = *address;
    int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), leads;

    if (fd < 0)
        return 0;
    if (to.ss_family == AF_INET)
        ((struct sockaddr_in *) &to)->sin_port = htons(9);
    else
        ((struct sockaddr_in6 *) &to)->sin6_port = htons(9);
    leads = connect(fd, (struct sockaddr *) &to, to.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) == 0;
    close(fd);
    return leads;
}

/* As MPL_get_sockaddr, of a host that we reach by IPv4, or else by IPv6. Sockets are of that kind from here on. */
static inline int composite_get_sockaddr(const char *host, MPL_sockaddr_t * address)
{
    static const int families[] = { AF_INET, AF_INET6 };

    for (int i = 0; i < 2; i++) {
        MPL_sockaddr_set_aftype(families[i]);
        if (MPL_get_sockaddr(host, address) == 0 && composite_leads_there(address))
            return 0;
    }
    MPL_sockaddr_set_aftype(AF_INET);
    return MPL_get_sockaddr(host, address);
}

/* An address takes the place of a host's name then, which is followed by a colon. */
static inline int composite_get_sockaddr_iface(const char *interface, MPL_sockaddr_t * address)
{
    MPL_sockaddr_set_aftype(AF_INET);
    return MPL_get_sockaddr_iface(interface, address);
}

#endif
