// A member passes on what it gets, whether or not it has called a receive, and keeps it for its own.
//
// Promise: every piece goes to each child as soon as it is here, and a block of an exchange as soon as all of it is. A piece that
// several on this host read is written into shared memory once, and posted there if they look.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "coll/mcast/state.h"

namespace pm::coll {

// A whole multicast in one message, for members of this host only, few enough for the first of them to tell all others: no
// schedule is needed to pass it on. Most short ones are like this. False when it is another one.
bool Engine::pass_on_simply(pm_group *group, const WireHeader &header, const List &list, const Piece &piece)
{
    if (header.length != header.size || header.flags & WireHeader::delivered)
        return false;
    if (header.flags & WireHeader::direct)
        return true;
    if (!(header.flags & WireHeader::by_host))
        return false;
    if (header.flags & WireHeader::posted && (header.poster != header.master || !is_first_reader(group, header, list)))
        return true;  // somebody else sees to other hosts
    if (!(header.flags & (WireHeader::shared | WireHeader::posted)) && header.length >= settings_.shared_limit)
        return false;
    int self = group->setup.rank;
    const std::vector<std::uint64_t> &host = on_our_host(group);
    bool alone = true;
    std::size_t others = 0;
    for (std::size_t i = 0; i < list.words.size(); ++i) {
        std::uint64_t word = list.words[i] & ~bitmap::bit_in_word(self, i) & ~bitmap::bit_in_word(header.master, i);
        alone = alone && (word & ~host[i]) == 0;
        others += static_cast<std::size_t>(std::popcount(word));
    }
    if (!alone || (others > header.fanout && !(header.flags & WireHeader::posted)))
        return false;
    bool for_others = !(header.flags & WireHeader::posted) && index_of(list.words, self, header.master) == 0;
    if (for_others && is_by_itself(group, header))
        return false;
    if (for_others)
        bitmap::for_each(list.words, [&](int rank) {
            if (rank != self && rank != header.master)
                relay(group->peer(rank), header, list, piece);
        });
    return true;
}

// The arrival this message, which is_missing(), belongs to: its first one makes it. `passed_on`: there is nothing to do for others.
std::shared_ptr<Engine::Arrival> Engine::arrival_of(pm_group *group, const WireHeader &header, const List &list, bool passed_on)
{
    std::uint32_t order = order_of(group, header, list);
    Stream &stream = group->streams[header.master];
    if (auto found = stream.arrivals.find(order); found != stream.arrivals.end())
        return found->second;
    auto arrival = std::make_shared<Arrival>();
    stream.arrivals[order] = arrival;
    arrival->master = header.master;
    arrival->tag = header.tag;
    arrival->order = order;
    arrival->origin = header.origin;
    arrival->serial = header.serial;
    arrival->size = header.size;
    arrival->words.assign(list.words.begin(), list.words.end());
    const bool is_told_alone = (header.flags & (WireHeader::direct | WireHeader::delivered)) == WireHeader::direct;
    if (!passed_on && !is_told_alone)
        find_role(group, header, arrival.get());
    give_turns(group, &stream);
    return arrival;
}

// What it does for others, and whom it tells when it has everything.
void Engine::find_role(pm_group *group, const WireHeader &header, Arrival *arrival)
{
    Members members = members_of(group, arrival->words, header.master, header.flags & WireHeader::by_host);
    const Layout &layout = members.layout;
    arrival->position = static_cast<std::uint32_t>(std::ranges::find(members.ranks, group->setup.rank) - members.ranks.begin());
    if (!(header.flags & WireHeader::direct)) {
        std::uint32_t host = layout.host_at(arrival->position);
        arrival->host_begin = layout.first[host];
        arrival->host_end = layout.first[host + 1];
        arrival->role = role_of(layout, {header.algorithm, header.size, header.fanout}, arrival->position);
        if (header.flags & WireHeader::led && host == 0)
            std::erase_if(arrival->role.children, [&](std::uint32_t child) { return !arrival->on_our_host(child); });
    }
    if (header.flags & WireHeader::delivered) {
        arrival->wants_ack = true;
        auto [found, is_new] = duties_.try_emplace({header.origin, header.serial});
        Duty &duty = found->second;
        early_acks_ -= !is_new && duty.parent == nullptr;
        duty.missing += 1 + ack_children_count(arrival->position, layout.members());
        duty.parent = group->peer(arrival->position == 0 ? header.master : members.ranks[ack_parent(arrival->position)]);
    }
    arrival->ranks = std::move(members.ranks);
}

// The master is on another host: what this one posts and offers is the business of its first member.
bool Engine::is_by_itself(const pm_group *group, const WireHeader &header)
{
    return header.flags & WireHeader::by_host && group->host(header.master) != group->host(group->setup.rank);
}

// Where its bytes go; nullptr when there is no memory for them, and then everything fails from now on.
std::byte *Engine::destination_of(Arrival *arrival)
{
    std::byte *place = arrival->destination();
    if (place == nullptr)
        transport_.failed("there is no memory for a multicast of " + std::to_string(arrival->size) + " bytes of rank " +
                          std::to_string(arrival->master) + " that came before it was received; call MPIX_Mcast_irecv earlier, or " +
                          "send less at once");
    return place;
}

// One piece is here: it goes on to others first, then to its own place.
void Engine::keep(pm_group *group, const std::shared_ptr<Arrival> &arrival, const WireHeader &header, const List &list,
                  const Piece &arrived)
{
    Piece piece = arrived;
    const bool here_already = header.flags & WireHeader::posted;
    const bool posting = !here_already && arrival->readers() > 0 && is_by_itself(group, header) && list_fits_in_slot(list) &&
                         all_watch(group, list.words);
    const bool in_slot = posting && piece.stable.block() == nullptr && fits_in_slot(header, list);
    const bool sharing = posting ? !in_slot : !here_already && header.length >= settings_.shared_limit && arrival->readers() > 1;
    if (sharing && !piece.stable && shares_host(group)) {
        if (BlockHead *block = lend(header.length, arrival->readers() + 1)) {
            std::memcpy(bytes_of(block), piece.data, header.length);
            piece.stable = Bytes::in_block(block);
            piece.data = piece.stable.data();
        }
    }
    pass_on(group, *arrival, header, list, piece, posting && (in_slot || piece.stable.block() != nullptr));
    if (!piece.in_place && header.length != 0) {
        std::byte *place = destination_of(arrival.get());
        if (place == nullptr)
            return;
        std::memcpy(place + header.offset, piece.data, header.length);
    }
    arrival->received += header.length;
    if (!arrival->role.sends.empty()) {
        arrival->note_range(header.offset, header.offset + header.length);
        send_blocks(group, arrival.get(), header, list);
    }
    if (arrival->received != arrival->size)
        return;
    arrival->complete = true;
    if (arrival->wants_ack)
        acknowledge(arrival->origin, arrival->serial);
    finish_if_complete(group, arrival.get());
}

void Engine::pass_on(pm_group *group, const Arrival &arrival, const WireHeader &header, const List &list, const Piece &piece,
                     bool posting)
{
    WireHeader near = header;
    if (!(header.flags & WireHeader::shared) && piece.stable.block() != nullptr) {
        near.flags |= WireHeader::shared;
        near.owner = group->setup.rank;
        near.address = reinterpret_cast<std::uint64_t>(piece.stable.block());
    }
    if (arrival.readers() > 0 && is_by_itself(group, header))
        offer(group, &near);
    bool posted = header.flags & WireHeader::posted;
    if (posting && post(group, near, list, piece.data, arrival.readers())) {
        posted = true;
        transport_.nudge(group->peer(arrival.ranks[arrival.host_begin + 1]));
    }
    bool sent = true;
    for (std::uint32_t child : arrival.role.children) {
        pm_peer *peer = group->peer(arrival.ranks[child]);
        bool here = arrival.on_our_host(child);
        if (here && posted)
            continue;
        if (here && transport_.on_host(peer))
            relay(peer, near, list, piece);
        else
            sent = transmit_afar(peer, header, list, piece, nullptr) && sent;
    }
    if (!sent)
        transport_.failed({});
}

void Engine::send_blocks(pm_group *group, Arrival *arrival, const WireHeader &header, const List &list)
{
    for (; arrival->blocks_sent < arrival->role.sends.size(); ++arrival->blocks_sent) {
        const Send &send = arrival->role.sends[arrival->blocks_sent];
        if (!arrival->has(send.offset, send.offset + send.size))
            return;
        WireHeader next = for_afar(header);
        // A length has 32 bits, so a larger block goes in several.
        for (std::uint64_t done = 0; done < send.size; done += next.length) {
            next.offset = send.offset + done;
            next.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(send.size - done, 1u << 30));
            relay(group->peer(arrival->ranks[send.to]), next, list, {arrival->store.data() + next.offset, arrival->store});
        }
    }
}

}  // namespace pm::coll
