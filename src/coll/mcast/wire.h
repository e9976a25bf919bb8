// What engines send each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "coll/mcast/schedule.h"

namespace pm::coll {

// Followed by the list: the words of the bitmap, then the order of each member but the master, by index or by rank. A short list is part of
// the message's header, a long one (in_payload) comes first in its payload. Then the bytes of the piece.
//
// Everything a member needs is in every message: it does not matter which one comes first, and who is passed a piece on gets
// the message as it came.
inline constexpr std::size_t largest_wire_header = 1024;       // with its list; whatever a device takes
inline constexpr std::uint64_t largest_multicast = std::uint64_t{1} << 62;  // more than any memory holds

struct WireHeader {
    enum class Kind : std::uint8_t {
        piece,
        ack,   // the sender and all below it have everything
        call,  // means nothing: whoever cannot be sent it has ended
    };
    enum Flag : std::uint8_t {
        shared = 1,      // no bytes: they are in the memory of `owner`, at `address`
        delivered = 2,   // the master wants to know
        by_host = 4,     // hosts count for the layout
        in_payload = 8,  // the list
        by_rank = 16,    // the list has the orders of all ranks up to the last word, not only of members
        posted = 32,     // all members of the poster's host read this one, see outbox.h
        direct = 64,     // the master tells every member by itself: nobody passes it on
        led = 128,       // the master sends to the second host by itself: nobody of its own host does
    };

    std::uint32_t group = 0;
    Kind kind = Kind::piece;
    Algorithm algorithm = Algorithm::binomial;
    std::uint8_t flags = 0;
    std::uint8_t unused = 0;
    std::int32_t master = 0;
    std::int32_t tag = 0;
    std::uint64_t origin = 0;  // a number of the master's process, and
    std::uint32_t serial = 0;  // its number of the multicast: both are all that an ack has
    std::uint32_t fanout = 0;
    std::uint64_t size = 0;  // of the multicast
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    std::int32_t owner = 0;
    std::uint64_t address = 0;
    std::uint32_t words = 0;
    std::uint32_t orders = 0;
    std::uint64_t outbox = 0;  // where `poster`, on the receiver's host, will post the next ones; 0: nowhere
    std::uint32_t generation = 0;
    std::int32_t poster = 0;

    void set(Flag flag, bool on) { flags = static_cast<std::uint8_t>(on ? flags | flag : flags & ~flag); }
};
static_assert(sizeof(WireHeader) == 88);

// Without what is true on this host only.
inline WireHeader for_afar(WireHeader header)
{
    header.set(WireHeader::shared, false);
    header.set(WireHeader::posted, false);
    header.outbox = 0;
    return header;
}

// A view of the list, which is aligned.
struct List {
    std::span<const std::uint64_t> words;
    std::span<const std::uint32_t> orders;
};

inline std::size_t list_size(std::size_t words, std::size_t orders)
{
    return words * sizeof(std::uint64_t) + (orders * sizeof(std::uint32_t) + 7) / 8 * 8;
}
inline std::size_t list_size(const WireHeader &header)
{
    return list_size(header.words, header.orders);
}
inline std::size_t list_size(const List &list)
{
    return list_size(list.words.size(), list.orders.size());
}

inline List list_at(const WireHeader &header, const void *place)
{
    auto words = static_cast<const std::uint64_t *>(place);
    return {{words, header.words}, {reinterpret_cast<const std::uint32_t *>(words + header.words), header.orders}};
}

}  // namespace pm::coll
