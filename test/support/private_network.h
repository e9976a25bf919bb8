// A network of our own for the tests of a process: nothing but loopback, so that no packet leaves it.
#pragma once

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>

namespace pm::test {

inline bool set_loopback(bool on)
{
    int socket = ::socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    bool done = ioctl(socket, SIOCGIFFLAGS, &request) == 0;
    request.ifr_flags = static_cast<short>(on ? request.ifr_flags | IFF_UP | IFF_RUNNING : request.ifr_flags & ~IFF_UP);
    done = done && ioctl(socket, SIOCSIFFLAGS, &request) == 0;
    close(socket);
    return done;
}

// Moves this process and its future children there, once. Empty, or why that is not possible.
inline std::string enter_private_network()
{
    static bool entered = false;
    if (entered)
        return {};
    if (unshare(CLONE_NEWNET) != 0)
        return std::string("making a network namespace: ") + std::strerror(errno);
    if (!set_loopback(true))
        return std::string("bringing up loopback: ") + std::strerror(errno);
    entered = true;
    return {};
}

}  // namespace pm::test
