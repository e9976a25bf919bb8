// IP addresses and the subnets they are in.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pm {

// IPv4 as ::ffff:a.b.c.d.
using Ip = std::array<std::uint8_t, 16>;
Ip ip_from_v4(std::array<std::uint8_t, 4> v4);
bool is_v4(const Ip &ip);
// "10.1.0.7", "fd00::7"
std::string ip_text(const Ip &ip);

// A subnet, or an address with the subnet it is in.
struct Subnet {
    Ip ip{};
    int bits = 128;  // that all of its addresses share; of IPv4 these are 96 more than are written behind the slash

    bool operator==(const Subnet &) const = default;
    // IPv6 subnets hold no IPv4 addresses, though ::/0 shares its bits with all of them.
    bool contains(const Ip &address) const;
    // With the bits behind the prefix cleared: "10.1.0.0/24".
    std::string text() const;
};

// "10.1.0.0/24", "fd00::/8"; an address alone is a subnet of one. What is in front of the slash is kept as it is: "10.1.0.7/24"
// is an address and its subnet. invalid for all else, with the word and an example.
Result<Subnet> parse_subnet(std::string_view word);

}  // namespace pm
