#include "netmod/core/connections.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

namespace pm {
namespace {

std::optional<Ip> other_end(int socket)
{
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    Ip address;
    if (getpeername(socket, reinterpret_cast<sockaddr *>(&name), &size) != 0)
        return {};
    if (name.ss_family == AF_INET) {
        std::array<std::uint8_t, 4> v4;
        std::memcpy(v4.data(), &reinterpret_cast<const sockaddr_in &>(name).sin_addr, v4.size());
        return ip_from_v4(v4);
    }
    if (name.ss_family != AF_INET6)
        return {};
    std::memcpy(address.data(), &reinterpret_cast<const sockaddr_in6 &>(name).sin6_addr, address.size());
    return address;
}

void look_at(int file, Time now, std::map<Ip, Connections> *found)
{
    tcp_info info{};
    socklen_t size = sizeof info;
    if (getsockopt(file, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_state != TCP_ESTABLISHED)
        return;
    std::optional<Ip> address = other_end(file);
    if (!address)
        return;
    Connections &all = (*found)[*address];
    all.asked |= info.tcpi_unacked > 0 || info.tcpi_probes > 0;
    all.repeats = std::max<unsigned>(all.repeats, info.tcpi_retransmits + info.tcpi_probes);
    all.last_sign = std::max<Time>(all.last_sign, now - std::chrono::milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)));
}

}  // namespace

std::map<Ip, Connections> find_connections(Time now)
{
    std::map<Ip, Connections> found;
    std::unique_ptr<DIR, int (*)(DIR *)> files(opendir("/proc/thread-self/fd"), closedir);
    while (const dirent *file = files != nullptr ? readdir(files.get()) : nullptr)
        if (file->d_name[0] != '.')
            look_at(std::atoi(file->d_name), now, &found);
    return found;
}

}  // namespace pm
