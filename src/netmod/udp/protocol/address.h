// Where a datagram goes to or came from. The protocol compares and prints addresses, and knows nothing else about them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace pm::udp {

struct Address {
    std::array<std::uint8_t, 16> ip{};  // IPv4 as ::ffff:a.b.c.d
    std::uint16_t port = 0;

    auto operator<=>(const Address &) const = default;

    static Address v4(std::array<std::uint8_t, 4> ip, std::uint16_t port);
    bool is_v4() const;
    std::string ip_text() const;
    std::string text() const { return ip_text() + " port " + std::to_string(port); }
};

}  // namespace pm::udp
