// What an engine remembers: its groups, multicasts that come and go, and receives that wait. For the files of the engine only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coll/payload.h"
#include "coll/mcast/bitmap.h"
#include "coll/mcast/engine.h"

namespace pm::coll {

// The bytes of one message on their way through this process.
struct Engine::Piece {
    const std::byte *data = nullptr;
    Bytes stable = {};      // keeps them; empty when they are gone after the call
    bool of_user = false;   // or the user does, until the multicast has left
    bool in_place = false;  // they are where the receiver wants them
};

struct Engine::Receive {
    std::byte *buffer;
    std::size_t room;
    int source, tag;
    std::uint64_t *members;
    void *cookie;
};

// A multicast that this process is a member of, from its first message until it is received and passed on.
struct Engine::Arrival {
    int master = 0, tag = 0;
    std::uint32_t order = 0;
    std::uint64_t origin = 0;
    std::uint32_t serial = 0;
    std::uint64_t size = 0;
    std::vector<std::uint64_t> words;

    std::vector<int> ranks;  // by position
    std::uint32_t position = 0;
    std::uint32_t host_begin = 0, host_end = 0;  // positions on our host
    Role role;
    std::size_t blocks_sent = 0;                                  // of role.sends
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;  // that are here, when blocks are to be sent: joined, in order

    bool wants_ack = false;
    std::unique_ptr<Receive> receive;
    Bytes store;  // where it is gathered when it has no better place
    std::uint64_t claimed = 0;   // bytes that are here or coming
    std::uint64_t received = 0;  // that are here
    bool complete = false, in_turn = false;
    bool abandoned = false;  // the group is closed

    bool is_leader() const { return position == host_begin; }
    bool on_our_host(std::uint32_t other) const { return other >= host_begin && other < host_end; }
    // Others of this host that will read what we share.
    std::uint32_t readers() const { return is_leader() && host_end > host_begin ? host_end - host_begin - 1 : 0; }
    bool is_leaf() const { return role.children.empty() && role.sends.empty(); }

    // nullptr: there is no memory for it.
    std::byte *destination()
    {
        if (!store && receive && receive->room >= size && role.sends.empty())
            return receive->buffer;
        if (!store)
            store = Bytes::try_to_make(size);
        return store.data();
    }
    void note_range(std::uint64_t begin, std::uint64_t end)
    {
        auto place = std::ranges::lower_bound(ranges, std::pair{begin, end});
        place = ranges.insert(place, {begin, end});
        if (place != ranges.begin() && std::prev(place)->second == begin) {
            --place;
            place->second = end;
            ranges.erase(std::next(place));
        }
        if (auto next = std::next(place); next != ranges.end() && next->first == place->second) {
            place->second = next->second;
            ranges.erase(next);
        }
    }
    bool has(std::uint64_t begin, std::uint64_t end) const
    {
        return begin == end ||
               std::ranges::any_of(ranges, [&](const auto &range) { return range.first <= begin && end <= range.second; });
    }
};

// What one master sends us, numbered by it.
struct Engine::Stream {
    std::uint32_t next = 0;  // whose turn it is to be received
    std::unordered_map<std::uint32_t, std::shared_ptr<Arrival>> arrivals;
};

// A delivered multicast: this member and those below it tell the parent when all of them have it.
struct Engine::Duty {
    pm_peer *parent = nullptr;  // known once the multicast has come; acknowledgements may come before
    std::int64_t missing = 0;
};

struct Engine::Outgoing {
    void *cookie;
    std::uint32_t serial;
    std::vector<pm_peer *> queued = {};  // whom a message is for that the device has not accepted yet; one for each message
    bool wants_ack = false;
    bool issued = false;
    std::string error = {};
    std::vector<std::pair<int, pm_peer *>> members = {};  // of one that wants to be acknowledged
    Time look_at = {};                                    // when to look after them
};

// An outbox of another process of our host, where it may post something for us.
struct Engine::Watched {
    pm_group *group;
    int poster;
    Outbox *outbox;
    std::uint32_t generation;
    std::uint64_t seen;  // the last post that was looked at
};

struct Engine::Parked {
    WireHeader header;
    std::vector<std::uint64_t> list;
    Bytes bytes;
};

}  // namespace pm::coll

struct pm_group {
    pm_group_setup setup;
    std::vector<std::uint32_t> next_orders;   // of what we send to each rank, for whole words
    std::vector<std::uint64_t> on_our_host;  // the set of these ranks, once it is needed
    std::optional<bool> shares_host;         // all of them are reached over shared memory
    pm::coll::Outbox *outbox = nullptr;      // where we post
    bool outbox_tried = false;
    std::vector<std::uint64_t> watchers;  // who is known to look there
    std::unordered_map<int, pm::coll::Engine::Stream> streams;
    std::list<std::unique_ptr<pm::coll::Engine::Receive>> receives;  // that wait
    std::list<std::shared_ptr<pm::coll::Engine::Arrival>> unexpected;  // in the order they may be received

    pm_peer *peer(int rank) const { return setup.peer(setup.context, rank); }
    int host(int rank) const { return setup.host(setup.context, rank); }
    std::size_t words() const { return (static_cast<std::size_t>(setup.size) + 63) / 64; }  // of a set of its ranks
};

namespace pm::coll {

// Ranks that take part in the distribution, and how they stand.
struct Members {
    std::vector<int> ranks;  // by position
    Layout layout;
};
Members members_of(const pm_group *group, std::span<const std::uint64_t> words, int master, bool by_host);

// The ranks on our host but our own, as a set.
const std::vector<std::uint64_t> &on_our_host(pm_group *group);

// Of a member: how many others come before it, without the master.
inline std::size_t index_of(std::span<const std::uint64_t> words, int rank, int master)
{
    return bitmap::count_below(words, rank) - (master < rank && bitmap::test(words, master) ? 1 : 0);
}

}  // namespace pm::coll
