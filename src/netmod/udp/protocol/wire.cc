#include "netmod/udp/protocol/wire.h"

#include <algorithm>

namespace pm::udp {
namespace {

// A card on the wire: key, port, guard, numbers of IPv4 and of IPv6 addresses in one byte, the addresses.
constexpr std::size_t card_fixed_size = sizeof(Key) + 2 + 1;

}  // namespace

std::optional<Datagram> decode(std::span<std::byte> bytes)
{
    Datagram datagram;
    if (bytes.size() < sizeof datagram.header)
        return std::nullopt;
    std::memcpy(&datagram.header, bytes.data(), sizeof datagram.header);
    if (!is_packet(datagram.header, bytes.size()))
        return std::nullopt;
    datagram.body = bytes.subspan(sizeof datagram.header);
    return datagram;
}

std::size_t Card::write(std::byte *bytes) const
{
    std::byte *next = bytes + card_fixed_size;
    unsigned counts[2] = {0, 0};
    for (int family = 0; family < 2; ++family) {
        std::size_t size = family == 0 ? 4 : 16;
        for (const Address &address : addresses) {
            if (address.is_v4() != (family == 0) || next + size > bytes + max_size || counts[family] == 7)
                continue;
            std::memcpy(next, address.ip.data() + 16 - size, size);
            next += size;
            ++counts[family];
        }
    }
    std::uint16_t port = addresses.empty() ? 0 : addresses.front().port;
    std::memcpy(bytes, key.data(), sizeof key);
    std::memcpy(bytes + sizeof key, &port, sizeof port);
    bytes[sizeof key + 2] = static_cast<std::byte>(static_cast<unsigned>(guard) << 6 | counts[1] << 3 | counts[0]);
    return static_cast<std::size_t>(next - bytes);
}

std::optional<Card> Card::read(std::span<const std::byte> bytes)
{
    if (bytes.size() < card_fixed_size)
        return std::nullopt;
    Card card;
    std::uint16_t port;
    std::memcpy(card.key.data(), bytes.data(), sizeof card.key);
    std::memcpy(&port, bytes.data() + sizeof card.key, sizeof port);
    auto counts = static_cast<unsigned>(bytes[sizeof card.key + 2]);
    unsigned v4 = counts & 7, v6 = counts >> 3 & 7;
    if (counts >> 6 > static_cast<unsigned>(GuardKind::mac) || bytes.size() != card_fixed_size + 4 * v4 + 16 * v6 || port == 0)
        return std::nullopt;
    card.guard = static_cast<GuardKind>(counts >> 6);
    const std::byte *next = bytes.data() + card_fixed_size;
    for (unsigned i = 0; i < v4 + v6; ++i) {
        std::size_t size = i < v4 ? 4 : 16;
        Address address = Address::v4({}, port);
        std::memcpy(address.ip.data() + 16 - size, next, size);
        card.addresses.push_back(address);
        next += size;
    }
    if (card.addresses.empty())
        return std::nullopt;
    return card;
}

}  // namespace pm::udp
