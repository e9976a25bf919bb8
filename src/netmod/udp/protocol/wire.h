// What is on the wire; doc/udp-protocol.md describes it. Every packet begins with the same header; numbers are little-endian.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "netmod/udp/protocol/address.h"
#include "netmod/udp/protocol/guard.h"

namespace pm::udp {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian; swap here for another machine");

enum class Kind : std::uint8_t {
    hello = 0x11,  // who we are; asks for a welcome. The upper digit is the version of this format
    welcome,       // answers a hello, to where it came from
    data,          // a fragment of a message
    ack,           // what has arrived, with a bitmap of what arrived out of order
    size_probe,    // as long as the packets we would like to send
    size_answer,   // it arrived
    alive,         // we are here
    bye,           // we shall not be here any more
    part,          // of a data packet that is longer than the path is wide
    bye_answer,    // to be told so once is enough
};

struct Header {
    static constexpr std::uint8_t answer_now = 0x80;  // in kind_and_flags

    std::uint8_t kind_and_flags = 0;
    std::uint8_t tag = 0;            // data: of the message; hello, welcome: see Secrets
    std::uint16_t window = 0;        // what the sender of this packet can take, in units of window_unit
    std::uint32_t to = 0;            // the receiver's number for this pair; 0 in a hello
    std::array<std::uint64_t, 2> guard{};  // see guard.h
    std::uint64_t number = 0;        // of this packet among all of this direction of the pair: goes up, also when data is sent again
    std::uint32_t sequence = 0;      // data: of this packet; part: of the whole; hello, welcome: of the first one that will be sent
    std::uint32_t acknowledged = 0;  // all packets before this one have arrived
    std::uint16_t ack_delay = 0;     // how long the acknowledgement was held back, in units of ack_delay_unit
    std::uint16_t header_size = 0;   // data, fragment 0: of the message's header
    std::uint32_t fragment = 0;      // data: number in its message; hello: incarnation; size_*: size of the probe; part: number
    std::uint64_t offset : 48 = 0;   // data: of this piece of the payload, or in fragment 0 the size of the payload;
                                     // hello, welcome: the sender's number for this pair, and which address was tried;
                                     // part: size of the whole packet, and in the upper third of each part but the last
    std::uint64_t body_size : 16 = 0;  // of what follows: datagrams that were joined and not cut again are found out

    Kind kind() const { return static_cast<Kind>(kind_and_flags & ~answer_now); }
    bool wants_answer() const { return (kind_and_flags & answer_now) != 0; }
};
static_assert(sizeof(Header) == 56);

inline constexpr std::size_t window_unit = 1024;
inline constexpr std::uint64_t ack_delay_unit = 8'000;  // nanoseconds

// The full sequence number whose lower half is `low`, near `reference`.
inline std::uint64_t widen(std::uint64_t reference, std::uint32_t low)
{
    return reference + static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<std::int32_t>(low - static_cast<std::uint32_t>(reference))));
}

// A datagram whose body may lie somewhere else than its header.
struct Datagram {
    Header header;
    std::span<std::byte> body;
};

// What a datagram of `size` bytes begins with makes sense.
inline bool is_packet(const Header &header, std::size_t size)
{
    return size >= sizeof header && header.body_size == static_cast<std::uint16_t>(size - sizeof header) &&
           header.kind() >= Kind::hello && header.kind() <= Kind::bye_answer;
}

// nullopt when it is too short, or of no known kind.
std::optional<Datagram> decode(std::span<std::byte> bytes);

// Whose secrets the keys of a pair are made from, as the sender of a hello or a welcome says.
enum class Secrets : std::uint8_t { of_both, of_sender, of_receiver };

// What another process needs to reach this one: its secret, its port and the addresses it can be tried at.
struct Card {
    static constexpr std::size_t max_size = 71;

    std::uint64_t name = 0;
    std::optional<Key> secret;           // none: of a process that greeted us, and whose card we do not have
    GuardKind guard = GuardKind::token;  // how this process wants its packets, at least
    bool seals = true;                   // it can
    std::vector<Address> addresses;      // all with the same port

    std::size_t write(std::byte *bytes) const;  // into max_size bytes; addresses that do not fit are left out
    static std::optional<Card> read(std::span<const std::byte> bytes);
    // What a hello says of it: the name instead of the secret.
    std::size_t write_public(std::byte *bytes) const;
    static std::optional<Card> read_public(std::span<const std::byte> bytes);
};

}  // namespace pm::udp
