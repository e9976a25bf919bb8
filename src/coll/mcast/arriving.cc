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

}  // namespace

struct Engine::Incoming : Payload {
    WireHeader header;
    std::vector<std::uint64_t> list;
    Bytes bytes;
    bool known = false;
    std::shared_ptr<Arrival> arrival;  // when it goes to its destination directly
};

void *Engine::arrived(const void *bytes, const void *piece, std::size_t piece_size, std::size_t total)
{
    WireHeader header;
    std::memcpy(&header, bytes, sizeof header);
    bool apart = header.flags & WireHeader::in_payload;
    const void *list_place = apart ? piece : static_cast<const std::byte *>(bytes) + sizeof header;
    if (piece_size == total) {
        auto data = static_cast<const std::byte *>(piece) + (apart ? list_size(header) : 0);
        std::vector<std::uint64_t> aligned;
        if (reinterpret_cast<std::uintptr_t>(list_place) % alignof(std::uint64_t) != 0) {
            aligned = copy_of_list(header, list_place);
            list_place = aligned.data();
        }
        on_message(header, list_at(header, list_place), {data});
        return nullptr;
    }

    auto incoming = std::make_unique<Incoming>();
    incoming->header = header;
    incoming->total = total;
    if (!apart) {
        incoming->list = copy_of_list(header, list_place);
        if (auto found = groups_.find(header.group); found != groups_.end()) {
            auto arrival = arrival_of(found->second.get(), header, list_at(header, incoming->list.data()), false);
            incoming->known = true;
            if (std::byte *place = arrival->is_leaf() ? arrival->destination() : nullptr) {
                incoming->place = place + header.offset;
                incoming->arrival = std::move(arrival);
            } else if (std::uint32_t readers = arrival->readers(); readers != 0 && shares_host(found->second.get())) {
                if (BlockHead *block = lend(total, readers + 1))
                    incoming->bytes = Bytes::in_block(block);
            }
        }
    }
    if (!incoming->arrival) {
        if (!incoming->bytes)
            incoming->bytes = Bytes::make(total);
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
    if (static_cast<Incoming *>(cookie)->add(piece, piece_size))
        placed(cookie);
}

void Engine::placed(void *cookie)
{
    std::unique_ptr<Incoming> incoming(static_cast<Incoming *>(cookie));
    const WireHeader &header = incoming->header;
    const std::byte *data = incoming->place;
    const void *list_place = incoming->list.data();
    if (header.flags & WireHeader::in_payload) {
        list_place = data;
        data += list_size(header);
    }
    on_message(header, list_at(header, list_place), {data, incoming->bytes, false, incoming->arrival != nullptr, incoming->known});
}

void Engine::on_message(const WireHeader &header, const List &list, const Piece &piece)
{
    if (header.kind != WireHeader::Kind::piece) {
        if (header.kind == WireHeader::Kind::ack)
            on_ack(header);
        return;
    }
    auto found = groups_.find(header.group);
    if (found == groups_.end()) {
        // A rank that is ahead of us has the communicator that we are still making.
        Parked parked{header, copy_of_list(header, list.words.data()), {}};
        if (!(header.flags & WireHeader::shared))
            parked.bytes = Bytes::copy(piece.data, header.length);
        parked.header.set(WireHeader::in_payload, false);
        parked_[header.group].push_back(std::move(parked));
        return;
    }
    pm_group *group = found->second.get();
    if (header.outbox != 0 && !(header.flags & WireHeader::posted))
        watch(group, header);
    Piece seen = piece;
    if (header.flags & WireHeader::shared && !view_shared(group, header, &seen))
        return;
    bool passed_on = !seen.known && pass_on_simply(group, header, list, seen);
    if (passed_on && deliver_at_once(group, header, list, seen.data))
        return;
    keep(group, arrival_of(group, header, list, passed_on), header, list, seen);
}

// The piece is in a peer's memory: from now on in ours, too.
bool Engine::view_shared(pm_group *group, const WireHeader &header, Piece *piece)
{
    void *seen = transport_.view(group->peer(header.owner), header.address, header.length + sizeof(BlockHead));
    if (seen == nullptr) {
        transport_.failed("shmem: shared memory of rank " + std::to_string(header.owner) + ", with a multicast of rank " +
                          std::to_string(header.master) + ", cannot be read");
        return false;
    }
    piece->stable = Bytes::in_block(static_cast<BlockHead *>(seen));
    piece->data = piece->stable.data();
    return true;
}

}  // namespace pm::coll
