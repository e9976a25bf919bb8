// A master sends a multicast, to one member, or posts it for those of its host; and how any message leaves.
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

// The first one a master sends to, and how many are on the host of both: what make_layout() comes to, without the rest of it, so
// that a master's time does not depend on the number of members. -1 when nobody is a member but the master.
struct First {
    int rank = -1;
    std::uint32_t neighbours = 1;
    bool near = false;   // on the master's host
    bool alone = false;  // and so are all others
};

First first_of(pm_group *group, std::span<const std::uint64_t> words)
{
    int self = group->setup.rank;
    const std::vector<std::uint64_t> &host = on_our_host(group);
    First first, near;
    near.neighbours = 0;
    near.near = near.alone = true;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::uint64_t word = words[i] & ~bitmap::bit_in_word(self, i);
        std::uint64_t here = word & host[i];
        near.neighbours += static_cast<std::uint32_t>(std::popcount(here));
        near.alone = near.alone && here == word;
        if (here != 0 && near.rank < 0)
            near.rank = static_cast<int>(i) * 64 + std::countr_zero(here);
        if (word != 0 && first.rank < 0)
            first.rank = static_cast<int>(i) * 64 + std::countr_zero(word);
    }
    return near.rank >= 0 ? near : first;
}

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

struct Engine::Sending {
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
    auto sending = new Sending{std::move(held), outgoing != nullptr ? outgoing->serial : 0, outgoing != nullptr,
                               ours && outgoing == nullptr ? size : 0};
    int status = transport_.send(peer, buffer, header_size, data, size, sending);
    if (status != PM_QUEUED) {
        delete sending;
    } else {
        backlog_ += sending->copied;
        if (outgoing != nullptr)
            outgoing->queued++;
    }
    return status != PM_FAILED;
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
    found->second->queued--;
    settle(found->second.get());
}

void Engine::settle(Outgoing *outgoing)
{
    if (!outgoing->issued || outgoing->queued > 0 || outgoing->wants_ack)
        return;
    std::unique_ptr<Outgoing> done = std::move(outgoing_[outgoing->serial]);
    outgoing_.erase(done->serial);
    settings_.sent(done->cookie, done->error.empty() ? nullptr : done->error.c_str());
}

int Engine::send(pm_group *group, const void *data, std::size_t size, const std::uint64_t *set, int tag, bool delivered, void *cookie)
{
    std::span<const std::uint64_t> words(set, group->words());
    words = words.first(static_cast<std::size_t>(bitmap::highest(words) + 64) / 64);
    int self = group->setup.rank;
    bool by_host = group->setup.host != nullptr;
    if (bitmap::test(words, self))
        deliver_to_self(group, data, size, set, tag);
    First first = first_of(group, words);
    if (first.rank < 0)
        return PM_OK;
    bool by_rank = words.size() <= words_by_rank && bitmap::count(words) > members_by_rank;
    std::vector<std::uint32_t> orders = count_orders(group, words, by_rank);

    pm_peer *peer = group->peer(first.rank);
    Outgoing *outgoing = nullptr;
    std::uint32_t serial = next_serial_++;
    if (cookie != nullptr) {
        outgoing = new Outgoing{cookie, serial, peer};
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
    bool one_host = by_host && first.alone;
    if (settings_.choose && size > settings_.thresholds.tree_limit && !one_host)
        header.algorithm = choose(members_of(group, words, self, by_host).layout.hosts(), size, settings_.thresholds);
    header.set(WireHeader::delivered, delivered);
    header.set(WireHeader::by_host, by_host);
    header.set(WireHeader::by_rank, by_rank);
    header.master = self;
    header.tag = tag;
    header.origin = origin_;
    header.serial = serial;
    header.fanout = settings_.fanout;
    header.size = size;
    header.owner = self;

    // Whoever is said to read it must: without hosts that is the first member alone.
    bool share = size >= settings_.shared_limit && size != 0 && transport_.on_host(peer) &&
                 (!by_host || (first.near && shares_host(group)));
    bool posting = false, posted = false;
    if (by_host && first.near) {
        offer(group, &header);
        posting = list_fits_in_slot({words, orders}) && all_watch(group, words);
    }
    std::size_t most = one_host || share ? settings_.block : settings_.piece;
    auto bytes = static_cast<const std::byte *>(data);
    bool sent;
    std::size_t offset = 0;
    do {
        header.offset = offset;
        header.length = static_cast<std::uint32_t>(std::min(size - offset, most));
        bool in_slot = posting && fits_in_slot(header, {words, orders});
        BlockHead *block = (share || posting) && !in_slot ? lend(header.length, first.neighbours) : nullptr;
        if (block != nullptr)
            std::memcpy(bytes_of(block), bytes + offset, header.length);
        header.set(WireHeader::shared, block != nullptr);
        header.address = reinterpret_cast<std::uint64_t>(block);
        bool can_post = posting && (in_slot || block != nullptr);
        if (can_post && post(group, header, {words, orders}, bytes + offset, first.neighbours))
            sent = posted = true;
        else
            sent = transmit(peer, header, {words, orders}, {bytes + offset, {}, outgoing != nullptr}, outgoing);
        offset += header.length;
    } while (sent && offset < size);
    if (posted)
        transport_.nudge(peer);
    if (outgoing == nullptr)
        return sent ? PM_OK : PM_FAILED;
    outgoing->issued = true;
    if (sent && (outgoing->queued > 0 || outgoing->wants_ack))
        return PM_QUEUED;
    outgoing_.erase(serial);
    return sent ? PM_OK : PM_FAILED;
}

}  // namespace pm::coll
