#include "netmod/udp/protocol/address.h"

#include <arpa/inet.h>

#include <algorithm>

namespace pm::udp {
namespace {

constexpr std::array<std::uint8_t, 12> v4_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

Address Address::v4(std::array<std::uint8_t, 4> ip, std::uint16_t port)
{
    Address address;
    std::ranges::copy(v4_prefix, address.ip.begin());
    std::ranges::copy(ip, address.ip.begin() + 12);
    address.port = port;
    return address;
}

bool Address::is_v4() const
{
    return std::equal(v4_prefix.begin(), v4_prefix.end(), ip.begin());
}

std::string Address::ip_text() const
{
    char text[INET6_ADDRSTRLEN] = "";
    if (is_v4())
        inet_ntop(AF_INET, ip.data() + 12, text, sizeof text);
    else
        inet_ntop(AF_INET6, ip.data(), text, sizeof text);
    return text;
}

}  // namespace pm::udp
