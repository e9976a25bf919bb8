#include "base/subnet.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace pm {
namespace {

constexpr std::array<std::uint8_t, 12> v4_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr int v4_prefix_bits = 96;

Ip cleared_behind(const Ip &ip, int bits)
{
    Ip cleared{};
    for (int bit = 0; bit < bits; ++bit)
        cleared[bit / 8] |= ip[bit / 8] & (0x80 >> bit % 8);
    return cleared;
}

}  // namespace

Ip ip_from_v4(std::array<std::uint8_t, 4> v4)
{
    Ip ip;
    std::ranges::copy(v4, std::ranges::copy(v4_prefix, ip.begin()).out);
    return ip;
}

bool is_v4(const Ip &ip)
{
    return std::equal(v4_prefix.begin(), v4_prefix.end(), ip.begin());
}

std::string ip_text(const Ip &ip)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (is_v4(ip))
        inet_ntop(AF_INET, ip.data() + v4_prefix.size(), text, sizeof text);
    else
        inet_ntop(AF_INET6, ip.data(), text, sizeof text);
    return text;
}

bool Subnet::contains(const Ip &address) const
{
    Ip first = cleared_behind(ip, bits);
    return cleared_behind(address, bits) == first && is_v4(address) == is_v4(first);
}

std::string Subnet::text() const
{
    Ip first = cleared_behind(ip, bits);
    return ip_text(first) + "/" + std::to_string(is_v4(first) ? bits - v4_prefix_bits : bits);
}

Result<Subnet> parse_subnet(std::string_view word)
{
    Error error{Status::invalid, "\"" + std::string(word) + "\" is not a subnet such as 10.0.0.0/8 or fd00::/8"};
    std::size_t slash = word.find('/');
    std::string address(word.substr(0, slash));
    if (address.find('\0') != std::string::npos)
        return error;
    Subnet subnet;
    int first_bits = 0;
    if (std::array<std::uint8_t, 4> v4; inet_pton(AF_INET, address.c_str(), v4.data()) == 1) {
        subnet.ip = ip_from_v4(v4);
        first_bits = v4_prefix_bits;
    } else if (inet_pton(AF_INET6, address.c_str(), subnet.ip.data()) != 1) {
        return error;
    }
    if (slash == std::string_view::npos)
        return subnet;
    std::string_view number = word.substr(slash + 1);
    unsigned bits = 0;
    auto [end, trouble] = std::from_chars(number.data(), number.data() + number.size(), bits);
    if (trouble != std::errc() || end != number.data() + number.size() || bits > 128u - first_bits)
        return error;
    subnet.bits = first_bits + static_cast<int>(bits);
    return subnet;
}

}  // namespace pm
