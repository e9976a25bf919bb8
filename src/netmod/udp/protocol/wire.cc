#include "netmod/udp/protocol/wire.h"

#include <algorithm>

namespace pm::udp {
namespace {

// A card: who, port, a byte, the addresses. Who: the secret, or the name. The byte, from its lowest bit on: the numbers of IPv4 (3 bits)
// and of IPv6 addresses (2), whether it cannot seal, its guard (2).
constexpr std::size_t after_who = 2 + 1;
constexpr unsigned most_of_family[] = {7, 3};
constexpr unsigned cannot_seal = 1 << 5;

std::size_t write_card(const Card &card, std::byte *bytes, std::span<const std::byte> who)
{
    std::byte *next = bytes + who.size() + after_who;
    const std::byte *end = bytes + Card::max_size - sizeof(Key) + who.size();  // the same addresses in both
    unsigned counts[2] = {0, 0};
    for (int family = 0; family < 2; ++family) {
        std::size_t size = family == 0 ? 4 : 16;
        for (const Address &address : card.addresses) {
            if (address.is_v4() != (family == 0) || next + size > end || counts[family] == most_of_family[family])
                continue;
            std::memcpy(next, address.ip.data() + 16 - size, size);
            next += size;
            ++counts[family];
        }
    }
    std::uint16_t port = card.addresses.empty() ? 0 : card.addresses.front().port;
    std::memcpy(bytes, who.data(), who.size());
    std::memcpy(bytes + who.size(), &port, sizeof port);
    bytes[who.size() + 2] = static_cast<std::byte>(static_cast<unsigned>(card.guard) << 6 | (card.seals ? 0 : cannot_seal) | counts[1] << 3 | counts[0]);
    return static_cast<std::size_t>(next - bytes);
}

std::optional<Card> read_card(std::span<const std::byte> bytes, std::span<std::byte> who)
{
    if (bytes.size() < who.size() + after_who)
        return std::nullopt;
    Card card;
    std::uint16_t port;
    std::memcpy(who.data(), bytes.data(), who.size());
    std::memcpy(&port, bytes.data() + who.size(), sizeof port);
    auto byte = static_cast<unsigned>(bytes[who.size() + 2]);
    unsigned v4 = byte & most_of_family[0], v6 = byte >> 3 & most_of_family[1];
    if (byte >> 6 > static_cast<unsigned>(GuardKind::seal) || bytes.size() != who.size() + after_who + 4 * v4 + 16 * v6 || port == 0)
        return std::nullopt;
    card.guard = static_cast<GuardKind>(byte >> 6);
    card.seals = (byte & cannot_seal) == 0;
    const std::byte *next = bytes.data() + who.size() + after_who;
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
    return write_card(*this, bytes, std::as_bytes(std::span(*secret)));
}

std::optional<Card> Card::read(std::span<const std::byte> bytes)
{
    Key secret;
    std::optional<Card> card = read_card(bytes, std::as_writable_bytes(std::span(secret)));
    if (card) {
        card->secret = secret;
        card->name = name_of(secret);
    }
    return card;
}

std::size_t Card::write_public(std::byte *bytes) const
{
    return write_card(*this, bytes, std::as_bytes(std::span(&name, 1)));
}

std::optional<Card> Card::read_public(std::span<const std::byte> bytes)
{
    std::uint64_t name;
    std::optional<Card> card = read_card(bytes, std::as_writable_bytes(std::span(&name, 1)));
    if (card)
        card->name = name;
    return card;
}

}  // namespace pm::udp
