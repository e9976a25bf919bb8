// A master sends a multicast: to one member, to each when it is short and they are few, or posts it for those of its host; and how
// any message leaves.
//
// Promise: the user's bytes are read until the device has accepted them or, when nobody waits for that, copied. What others need is
// sent, or everything fails from then on: they would wait for ever.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "coll/mcast/state.h"

namespace pm::coll {
namespace {

// Small sets: the orders of all ranks are copied as they are, which takes the same time however many members there are.
constexpr std::size_t words_by_rank = 2;
// Of fewer members the orders are picked out: the message is shorter.
constexpr std::size_t members_by_rank = 24;

// The orders to send, and the next ones for the members.
std::vector<std::uint32_t> count_orders(pm_group *group, std::span<const std::uint64_t> words, bool by_rank)
{
    group->next_orders.resize(group->words() * 64);
    std::vector<std::uint32_t> orders;
    if (by_rank) {
        orders.assign(group->next_orders.begin(), group->next_orders.begin() + static_cast<std::ptrdiff_t>(words.size() * 64));
        for (std::size_t i = 0; i < words.size(); ++i)
            for (std::size_t bit = 0; bit < 64; ++bit)
                group->next_orders[i * 64 + bit] += static_cast<std::uint32_t>(words[i] >> bit & 1);
    } else {
        bitmap::for_each(words, [&](int rank) {
            if (rank != group->setup.rank)
                orders.push_back(group->next_orders[static_cast<std::size_t>(rank)]++);
        });
    }
    return orders;
}

}  // namespace

// The first one a master sends to, and how many are on the host of both: what make_layout() comes to, without the rest of it, so
// that a master's time does not depend on the number of members. -1 when nobody is a member but the master.
struct Engine::First {
    int rank = -1;
    std::uint32_t neighbours = 1;
    std::uint32_t members = 0;  // on any host
    bool near = false;          // on the master's host

    First(pm_group *group, std::span<const std::uint64_t> words)
    {
        const std::vector<std::uint64_t> &host = on_our_host(group);
        std::uint32_t here = 0;
        for (std::size_t i = 0; i < words.size(); ++i) {
            const std::uint64_t others = words[i] & ~bitmap::bit_in_word(group->setup.rank, i);
            members += static_cast<std::uint32_t>(std::popcount(others));
            here += static_cast<std::uint32_t>(std::popcount(others & host[i]));
            const std::uint64_t better = near ? 0 : (others & host[i]) != 0 ? others & host[i] : rank < 0 ? others : 0;
            near = near || (others & host[i]) != 0;
            if (better != 0)
                rank = static_cast<int>(i) * 64 + std::countr_zero(better);
        }
        if (near)
            neighbours = here;
    }
    bool alone() const { return near && neighbours == members; }  // nobody is on another host
};

// How the pieces of a multicast leave its master.
struct Engine::Course {
    pm_peer *first;
    std::uint32_t neighbours;
    Outgoing *outgoing;
    pm_peer *head = nullptr;  // of the chain of other hosts, when we lead it
    bool share = false, posting = false;
    std::size_t piece = 0;  // the largest one
};

struct Engine::Sending {
    pm_peer *peer;
    Bytes bytes;
    std::uint32_t serial;
    bool of_outgoing;
    std::size_t copied = 0;  // of a multicast of ours that nobody waits for
};

// Sends one message. What the bytes are in must stay if the device does not take them at once: they are held, or copied.
bool Engine::transmit(pm_peer *peer, WireHeader header, const List &list, const Piece &piece, Outgoing *outgoing)
{
    alignas(8) std::byte buffer[largest_wire_header];
    std::size_t size = header.flags & WireHeader::shared ? 0 : header.length;
    const std::byte *data = piece.data;
    Bytes held = piece.stable;
    bool of_user = piece.of_user;

    std::size_t header_size = sizeof header;
    header.words = static_cast<std::uint32_t>(list.words.size());
    header.orders = static_cast<std::uint32_t>(list.orders.size());
    std::size_t listed = list_size(header);
    bool apart = sizeof header + listed > std::min(sizeof buffer, transport_.largest_header());
    auto write_list = [&](std::byte *place) {
        if (listed == 0)
            return;
        std::memcpy(place, list.words.data(), list.words.size_bytes());
        std::memcpy(place + list.words.size_bytes(), list.orders.data(), list.orders.size_bytes());
    };
    header.set(WireHeader::in_payload, apart);
    std::memcpy(buffer, &header, sizeof header);
    if (apart) {
        held = Bytes::make(listed + size);
        write_list(held.data());
        if (size != 0)
            std::memcpy(held.data() + listed, data, size);
        data = held.data();
        size += listed;
        of_user = false;
    } else {
        write_list(buffer + sizeof header);
        header_size += listed;
    }

    if (size == 0)
        return transport_.send(peer, buffer, header_size, nullptr, 0, nullptr) != PM_FAILED;
    if (size <= PM_SEND_NOW_LIMIT && transport_.send_now(peer, buffer, header_size, data, size))
        return true;
    if (!held && !of_user) {
        held = Bytes::copy(data, size);
        data = held.data();
    }
    bool ours = header.origin == origin_ && header.kind == WireHeader::Kind::piece;
    auto sending = new Sending{peer, std::move(held), outgoing != nullptr ? outgoing->serial : 0, outgoing != nullptr,
                               ours && outgoing == nullptr ? size : 0};
    int status = transport_.send(peer, buffer, header_size, data, size, sending);
    if (status != PM_QUEUED) {
        delete sending;
    } else {
        backlog_ += sending->copied;
        if (outgoing != nullptr)
            outgoing->queued.push_back(peer);
    }
    return status != PM_FAILED;
}

// The largest part of a multicast that is sent to another host by itself.
std::size_t Engine::piece_of(std::uint64_t size) const
{
    return std::min<std::uint64_t>(settings_.piece, std::max<std::uint64_t>(size / PM_MCAST_PIECES, PM_MCAST_SHORT_PIECE));
}

// To another host. In shared memory a piece may be larger than it is good for a network.
bool Engine::transmit_afar(pm_peer *peer, const WireHeader &header, const List &list, const Piece &piece, Outgoing *outgoing)
{
    WireHeader next = for_afar(header);
    bool sent;
    std::uint64_t done = 0;
    do {
        next.offset = header.offset + done;
        next.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(header.length - done, piece_of(header.size)));
        sent = transmit(peer, next, list, {piece.data + done, piece.stable, piece.of_user}, outgoing);
        done += next.length;
    } while (sent && done < header.length);
    return sent;
}

// For others, who would wait for ever if it were lost: then everything fails from now on.
void Engine::relay(pm_peer *peer, const WireHeader &header, const List &list, const Piece &piece)
{
    if (!transmit(peer, header, list, piece, nullptr))
        transport_.failed({});
}

void Engine::taken(void *cookie)
{
    std::unique_ptr<Sending> sending(static_cast<Sending *>(cookie));
    backlog_ -= sending->copied;
    if (!sending->of_outgoing)
        return;
    auto found = outgoing_.find(sending->serial);
    if (found == outgoing_.end())
        return;
    std::vector<pm_peer *> &queued = found->second->queued;
    if (auto place = std::ranges::find(queued, sending->peer); place != queued.end())
        queued.erase(place);
    settle(found->second.get());
}

void Engine::settle(Outgoing *outgoing)
{
    if (!outgoing->issued || !outgoing->queued.empty() || outgoing->wants_ack)
        return;
    std::unique_ptr<Outgoing> done = std::move(outgoing_[outgoing->serial]);
    outgoing_.erase(done->serial);
    settings_.sent(done->cookie, done->error.empty() ? nullptr : done->error.c_str());
}

// Whether there are so few members, and so little for each, that nobody needs to pass it on.
bool Engine::is_direct(std::size_t size, const First &first) const
{
    return settings_.choose && size <= std::min(settings_.direct_limit, settings_.piece) && first.members <= settings_.direct_members;
}

// Those of our host, or all others, by a message each.
bool Engine::tell_each(pm_group *group, const WireHeader &header, const List &list, const Piece &piece, Outgoing *outgoing, bool near)
{
    const std::vector<std::uint64_t> &host = on_our_host(group);
    bool sent = true;
    bitmap::for_each(list.words, [&](int rank) {
        if (rank != group->setup.rank && bitmap::test(host, rank) == near)
            sent = sent && transmit(group->peer(rank), near ? header : for_afar(header), list, piece, outgoing);
    });
    return sent;
}

// To the first member, or to all of its host at once.
bool Engine::send_pieces(pm_group *group, WireHeader header, const List &list, const std::byte *bytes, const Course &course)
{
    bool sent, posted = false;
    std::uint64_t offset = 0;
    do {
        header.offset = offset;
        header.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(header.size - offset, course.piece));
        const bool in_slot = course.posting && fits_in_slot(header, list);
        BlockHead *block = (course.share || course.posting) && !in_slot ? lend(header.length, course.neighbours) : nullptr;
        if (block != nullptr)
            std::memcpy(bytes_of(block), bytes + offset, header.length);
        header.set(WireHeader::shared, block != nullptr);
        header.address = reinterpret_cast<std::uint64_t>(block);
        const bool can_post = course.posting && (in_slot || block != nullptr);
        const Piece piece{bytes + offset, {}, course.outgoing != nullptr};
        if (course.head != nullptr && !transmit_afar(course.head, header, list, piece, course.outgoing))
            return false;
        if (can_post && post(group, header, list, bytes + offset, course.neighbours))
            sent = posted = true;
        else if (header.flags & WireHeader::direct)
            sent = tell_each(group, header, list, piece, course.outgoing, true);
        else
            sent = transmit(course.first, header, list, piece, course.outgoing);
        offset += header.length;
    } while (sent && offset < header.size);
    if (posted)
        transport_.nudge(course.first);
    return sent;
}

int Engine::send(pm_group *group, const void *data, std::size_t size, const std::uint64_t *set, int tag, bool delivered, void *cookie)
{
    std::span<const std::uint64_t> words(set, group->words());
    words = words.first(static_cast<std::size_t>(bitmap::highest(words) + 64) / 64);
    int self = group->setup.rank;
    bool by_host = group->setup.host != nullptr;
    if (bitmap::test(words, self))
        deliver_to_self(group, data, size, set, tag);
    const First first(group, words);
    if (first.rank < 0)
        return PM_OK;
    bool by_rank = words.size() <= words_by_rank && bitmap::count(words) > members_by_rank;
    std::vector<std::uint32_t> orders = count_orders(group, words, by_rank);

    pm_peer *peer = group->peer(first.rank);
    Outgoing *outgoing = nullptr;
    std::uint32_t serial = next_serial_++;
    if (cookie != nullptr) {
        outgoing = new Outgoing{cookie, serial};
        outgoing_[serial].reset(outgoing);
        outgoing->wants_ack = delivered;
        if (delivered)
            bitmap::for_each(words, [&](int rank) {
                if (rank != self)
                    outgoing->members.emplace_back(rank, group->peer(rank));
            });
    }
    WireHeader header;
    header.group = group->setup.id;
    header.algorithm = settings_.algorithm;
    const bool one_host = by_host && first.alone();
    const bool direct = !one_host && is_direct(size, first);
    pm_peer *head = nullptr;
    if (settings_.choose && size > settings_.thresholds.tree_limit && !one_host) {
        const Members members = members_of(group, words, self, by_host);
        header.algorithm = choose(members.layout.hosts(), size, settings_.thresholds);
        if (header.algorithm == Algorithm::chain && first.near)
            head = group->peer(members.ranks[members.layout.first[1]]);
    }
    header.set(WireHeader::delivered, delivered);
    header.set(WireHeader::by_host, by_host);
    header.set(WireHeader::by_rank, by_rank);
    header.set(WireHeader::direct, direct);
    header.set(WireHeader::led, head != nullptr);
    header.master = self;
    header.tag = tag;
    header.origin = origin_;
    header.serial = serial;
    header.fanout = settings_.fanout;
    header.size = size;
    header.owner = self;

    // Whoever is said to read it must: without hosts that is the first member alone.
    const List list{words, orders};
    Course course{peer, first.neighbours, outgoing, head};
    course.share = size >= settings_.shared_limit && size != 0 && transport_.on_host(peer) &&
                   (!by_host || (first.near && shares_host(group)));
    if (by_host && first.near) {
        offer(group, &header);
        course.posting = list_fits_in_slot(list) && all_watch(group, words);
    }
    course.piece = one_host || course.share ? settings_.block : piece_of(size);
    auto bytes = static_cast<const std::byte *>(data);
    // Those of our host come first: they need the least of our time.
    bool sent = (direct && !first.near) || send_pieces(group, header, list, bytes, course);
    if (direct) {
        header.length = static_cast<std::uint32_t>(size);
        sent = sent && tell_each(group, header, list, {bytes, {}, outgoing != nullptr}, outgoing, false);
    }
    if (outgoing == nullptr)
        return sent ? PM_OK : PM_FAILED;
    outgoing->issued = true;
    if (sent && (!outgoing->queued.empty() || outgoing->wants_ack))
        return PM_QUEUED;
    outgoing_.erase(serial);
    return sent ? PM_OK : PM_FAILED;
}

}  // namespace pm::coll
