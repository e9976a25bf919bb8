// The kernel's address as ours.
#pragma once

#include <netinet/in.h>

#include <cstring>
#include <optional>

#include "base/subnet.h"

namespace pm::inspector {

inline std::optional<Ip> ip_of(const sockaddr *address)
{
    Ip ip{};
    if (address != nullptr && address->sa_family == AF_INET6) {
        std::memcpy(ip.data(), &reinterpret_cast<const sockaddr_in6 *>(address)->sin6_addr, ip.size());
        return ip;
    }
    if (address == nullptr || address->sa_family != AF_INET)
        return std::nullopt;
    std::array<std::uint8_t, 4> bytes;
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in *>(address)->sin_addr, bytes.size());
    return ip_from_v4(bytes);
}

}  // namespace pm::inspector
