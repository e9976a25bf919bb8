// Where a datagram goes to or came from. The protocol compares and prints addresses, and knows nothing else about them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "base/subnet.h"

namespace pm::udp {

struct Address {
    Ip ip{};
    std::uint16_t port = 0;

    auto operator<=>(const Address &) const = default;

    static Address v4(std::array<std::uint8_t, 4> ip, std::uint16_t port) { return {ip_from_v4(ip), port}; }
    bool is_v4() const { return pm::is_v4(ip); }
    std::string ip_text() const { return pm::ip_text(ip); }
    std::string text() const { return ip_text() + " port " + std::to_string(port); }
};

}  // namespace pm::udp
