// Messages come from the device, at once or in parts.
//
// Promise: a message is acted upon when all of it is here. One that comes in parts goes where it is needed, if that is known: to
// its receiver, or into shared memory for the others of this host.
#include <cstring>
#include <string>
#include <utility>

#include "coll/mcast/state.h"

namespace pm::coll {
namespace {

std::vector<std::uint64_t> copy_of_list(const WireHeader &header, const void *place)
{
    std::vector<std::uint64_t> list(list_size(header) / 8);
    std::memcpy(list.data(), place, list_size(header));
    return list;
}

// What is true of every message, whatever group it is for: its parts are as long as it says, and lie within the multicast.
bool is_whole(const WireHeader &header, std::size_t header_size, std::size_t total)
{
    if (header.kind != WireHeader::Kind::piece)
        return (header.kind == WireHeader::Kind::ack || header.kind == WireHeader::Kind::call) && total == 0;
    const std::size_t listed = list_size(header);
    const bool apart = header.flags & WireHeader::in_payload;
    const std::size_t bytes = header.flags & WireHeader::shared ? 0 : header.length;
    return header.words != 0 && !(header.flags & WireHeader::posted) && total == bytes + (apart ? listed : 0) &&
           (apart || (header_size <= largest_wire_header && listed <= header_size - sizeof header)) &&
           header.size <= largest_multicast && header.offset <= header.size && header.length <= header.size - header.offset &&
           (header.length != 0 || header.size == 0);
}

}  // namespace

// A message that comes in parts.
struct Engine::Incoming : Payload {
    WireHeader header;
    std::vector<std::uint64_t> list;
    Bytes bytes;
    std::shared_ptr<Arrival> arrival;  // when its group was open as it began to come
    bool in_place = false;             // and it goes to its destination directly
};

void *Engine::arrived(const Envelope &envelope, const void *piece, std::size_t piece_size, std::size_t total)
{
    WireHeader header;
    std::memcpy(&header, envelope.header, sizeof header);
    if (!is_whole(header, envelope.header_size, total)) [[unlikely]] {
        transport_.dropped(envelope.source);
        return nullptr;
    }
    if (header.kind != WireHeader::Kind::piece) {
        if (!on_message(header, {}, {}))
            transport_.dropped(envelope.source);
        return nullptr;
    }
    const bool apart = header.flags & WireHeader::in_payload;
    const void *list_place = apart ? piece : static_cast<const std::byte *>(envelope.header) + sizeof header;
    if (piece_size != total)
        return begin(envelope, header, list_place, piece, piece_size, total);
    // The list is copied before it is looked at: who sent it may still be able to write there.
    alignas(std::uint64_t) std::byte short_list[largest_wire_header];
    std::vector<std::uint64_t> long_list;
    if (apart)
        long_list = copy_of_list(header, list_place);
    else
        std::memcpy(short_list, list_place, list_size(header));
    auto data = static_cast<const std::byte *>(piece) + (apart ? list_size(header) : 0);
    if (!on_message(header, list_at(header, apart ? static_cast<const void *>(long_list.data()) : short_list), {data}))
        transport_.dropped(envelope.source);
    return nullptr;
}

void *Engine::begin(const Envelope &envelope, const WireHeader &header, const void *list, const void *piece, std::size_t piece_size,
                    std::size_t total)
{
    auto found = groups_.find(header.group);
    if (found == groups_.end() && !transport_.may_open(header.group)) {
        transport_.dropped(envelope.source);
        return nullptr;
    }
    auto incoming = std::make_unique<Incoming>();
    incoming->header = header;
    incoming->total = total;
    if (!(header.flags & WireHeader::in_payload)) {
        incoming->list = copy_of_list(header, list);
        if (found != groups_.end()) {
            pm_group *group = found->second.get();
            const List seen = list_at(header, incoming->list.data());
            if (!is_in_order(group, header, seen) || !is_missing(group, header, seen)) {
                transport_.dropped(envelope.source);
                return nullptr;
            }
            auto arrival = arrival_of(group, header, seen, false);
            arrival->claimed += header.length;
            if (std::byte *place = arrival->is_leaf() ? arrival->destination() : nullptr) {
                incoming->place = place + header.offset;
                incoming->in_place = true;
            } else if (arrival->is_leader() && shares_host(group)) {
                // Even when nobody else is here to read it: memory that is used again and again has its pages.
                if (BlockHead *block = lend(total, arrival->readers() + 1))
                    incoming->bytes = Bytes::in_block(block);
            }
            incoming->arrival = std::move(arrival);
        }
    }
    if (!incoming->in_place) {
        if (!incoming->bytes)
            incoming->bytes = Bytes::try_to_make(total);
        if (!incoming->bytes) {
            transport_.failed("there is no memory for a message of " + std::to_string(total) + " bytes, a part of a multicast of rank " +
                              std::to_string(header.master));
            return nullptr;
        }
        incoming->place = incoming->bytes.data();
    }
    void *cookie = incoming.release();
    more(cookie, piece, piece_size);
    return cookie;
}

void *Engine::place(void *cookie)
{
    return static_cast<Incoming *>(cookie)->place;
}

void Engine::more(void *cookie, const void *piece, std::size_t piece_size)
{
    auto incoming = static_cast<Incoming *>(cookie);
    if (incoming->in_place && incoming->arrival->abandoned)
        incoming->place = nullptr;  // the user's again
    if (incoming->add(piece, piece_size))
        placed(cookie);
}

void Engine::placed(void *cookie)
{
    std::unique_ptr<Incoming> incoming(static_cast<Incoming *>(cookie));
    const WireHeader &header = incoming->header;
    if (incoming->arrival) {
        if (incoming->arrival->abandoned)
            return;
        pm_group *group = groups_.find(header.group)->second.get();
        const List list = list_at(header, incoming->list.data());
        if (header.outbox != 0)
            watch(group, header);
        keep(group, incoming->arrival, header, list, {incoming->place, incoming->bytes, false, incoming->in_place});
        return;
    }
    const std::byte *data = incoming->place;
    const void *list_place = incoming->list.data();
    if (header.flags & WireHeader::in_payload) {
        list_place = data;
        data += list_size(header);
    }
    if (!on_message(header, list_at(header, list_place), {data, incoming->bytes}))
        transport_.dropped(nullptr);
}

// Of a piece: ranks are ranks of the group, and the list is as long as it must be.
bool Engine::is_in_order(const pm_group *group, const WireHeader &header, const List &list)
{
    auto is_other = [&](int rank) { return rank >= 0 && rank < group->setup.size && rank != group->setup.rank; };
    if (!is_other(header.master) || static_cast<std::size_t>(header.algorithm) >= algorithms ||
        (header.flags & WireHeader::by_host && group->setup.host == nullptr) ||
        (header.flags & WireHeader::shared && !is_other(header.owner)) || (header.outbox != 0 && !is_other(header.poster)))
        return false;
    if (list.words.size() > group->words() || bitmap::highest(list.words) >= group->setup.size ||
        !bitmap::test(list.words, group->setup.rank))
        return false;
    return list.orders.size() == (header.flags & WireHeader::by_rank
                                      ? list.words.size() * bitmap::word_bits
                                      : bitmap::count(list.words) - bitmap::test(list.words, header.master));
}

// Of a piece that is in order: its multicast was not received long ago, nor is all of it here or coming, nor is it another one.
bool Engine::is_missing(const pm_group *group, const WireHeader &header, const List &list)
{
    const std::uint32_t order = order_of(group, header, list);
    auto stream = group->streams.find(header.master);
    if (stream == group->streams.end())
        return static_cast<std::int32_t>(order) >= 0;
    auto found = stream->second.arrivals.find(order);
    if (found == stream->second.arrivals.end())
        return static_cast<std::int32_t>(order - stream->second.next) >= 0;
    const Arrival &arrival = *found->second;
    return !arrival.complete && arrival.size == header.size && arrival.origin == header.origin && arrival.serial == header.serial &&
           header.length <= arrival.size - arrival.claimed;
}

// A rank that is ahead of us has the communicator that we are still making: it may send what it likes, as to one that is made and has not
// received yet. When we make none, it is for one that is no more, and nobody can want it.
bool Engine::park(const WireHeader &header, const List &list, const Piece &piece)
{
    if (!transport_.may_open(header.group))
        return false;
    Parked parked{header, copy_of_list(header, list.words.data()), {}};
    if (!(header.flags & WireHeader::shared)) {
        parked.bytes = Bytes::try_to_make(header.length);
        if (!parked.bytes) {
            transport_.failed("there is no memory for " + std::to_string(header.length) + " bytes of a multicast of rank " +
                              std::to_string(header.master) + " in a communicator that this process does not have yet");
            return true;
        }
        if (header.length != 0)
            std::memcpy(parked.bytes.data(), piece.data, header.length);
    }
    parked.header.set(WireHeader::in_payload, false);
    parked_[header.group].push_back(std::move(parked));
    return true;
}

// What waits for a communicator that was not made after all, or came for one that is no more while another was being made.
void Engine::drop_parked()
{
    std::erase_if(parked_, [this](const auto &waiting) {
        const bool in_vain = !transport_.may_open(waiting.first);
        for (std::size_t i = 0; in_vain && i < waiting.second.size(); ++i)
            transport_.dropped(nullptr);
        return in_vain;
    });
}

bool Engine::on_message(const WireHeader &header, const List &list, const Piece &piece)
{
    if (header.kind != WireHeader::Kind::piece)
        return header.kind == WireHeader::Kind::call || on_ack(header);
    auto found = groups_.find(header.group);
    if (found == groups_.end())
        return park(header, list, piece);
    pm_group *group = found->second.get();
    if (!is_in_order(group, header, list) || !is_missing(group, header, list))
        return false;
    if (header.outbox != 0 && !(header.flags & WireHeader::posted))
        watch(group, header);
    Piece seen = piece;
    if (header.flags & WireHeader::shared && !view_shared(group, header, &seen))
        return true;
    bool passed_on = pass_on_simply(group, header, list, seen);
    if (passed_on && deliver_at_once(group, header, list, seen.data))
        return true;
    std::shared_ptr<Arrival> arrival = arrival_of(group, header, list, passed_on);
    arrival->claimed += header.length;
    keep(group, arrival, header, list, seen);
    return true;
}

// The piece is in a peer's memory: from now on in ours, too.
bool Engine::view_shared(pm_group *group, const WireHeader &header, Piece *piece)
{
    void *seen = transport_.view(group->peer(header.owner), header.address, header.length + sizeof(BlockHead));
    if (seen == nullptr || reinterpret_cast<std::uintptr_t>(seen) % alignof(BlockHead) != 0) {
        transport_.failed("shmem: shared memory of rank " + std::to_string(header.owner) + ", with a multicast of rank " +
                          std::to_string(header.master) + ", cannot be read");
        return false;
    }
    piece->stable = Bytes::in_block(static_cast<BlockHead *>(seen));
    piece->data = piece->stable.data();
    return true;
}

}  // namespace pm::coll
