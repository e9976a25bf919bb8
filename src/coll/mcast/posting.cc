// Multicasts inside a host: posted once, read by every member that looks. See outbox.h.
//
// Promise: whoever gets a multicast by a message learns from it where the next ones will be posted, and looks there whenever the
// device is polled. Once all members of a host do, they are posted to instead. A post that finds no free slot is sent as before. Who sleeps
// is woken by the first member, so that a poster has one of them to look after, however many there are.
#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "coll/mcast/outbox.h"
#include "coll/mcast/state.h"

namespace pm::coll {
namespace {

constexpr std::size_t most_watched = 32;  // each costs a look in every round of progress

}  // namespace

// nullptr when there is none to be had.
Outbox *Engine::outbox_of(pm_group *group)
{
    if (!std::exchange(group->outbox_tried, true) && static_cast<std::size_t>(group->setup.size) <= Outbox::most_ranks &&
        shares_host(group)) {
        group->outbox = transport_.make_outbox();
        if (group->outbox != nullptr)
            group->outbox->generation++;
        group->watchers.resize(group->words());
    }
    return group->outbox;
}

void Engine::offer(pm_group *group, WireHeader *header)
{
    Outbox *outbox = outbox_of(group);
    header->outbox = reinterpret_cast<std::uint64_t>(outbox);
    header->generation = outbox != nullptr ? outbox->generation : 0;
    header->poster = group->setup.rank;
}

// Whether those of the set that are on our host all look at our outbox. What was seen once stays true.
bool Engine::all_watch(pm_group *group, std::span<const std::uint64_t> words)
{
    Outbox *outbox = outbox_of(group);
    if (outbox == nullptr)
        return false;
    const std::vector<std::uint64_t> &host = on_our_host(group);
    for (std::size_t i = 0; i < words.size(); ++i) {
        for (std::uint64_t unknown = words[i] & host[i] & ~group->watchers[i]; unknown != 0; unknown &= unknown - 1) {
            std::size_t rank = i * 64 + static_cast<std::size_t>(std::countr_zero(unknown));
            if (!outbox->is_watched_by(rank))
                return false;
            group->watchers[i] |= unknown & -unknown;
        }
    }
    return true;
}

// A list of many members may leave no room in a slot, and then nothing is posted.
bool Engine::list_fits_in_slot(const List &list)
{
    return sizeof(WireHeader) + list_size(list) <= sizeof(Outbox::Slot::message);
}

bool Engine::fits_in_slot(const WireHeader &header, const List &list)
{
    return sizeof header + list_size(list) + header.length <= sizeof(Outbox::Slot::message);
}

// For `readers` ranks of our host. False when the slot is still being read: nothing happened.
bool Engine::post(pm_group *group, WireHeader header, const List &list, const std::byte *data, std::uint32_t readers)
{
    header.set(WireHeader::posted, true);
    header.set(WireHeader::in_payload, false);
    header.words = static_cast<std::uint32_t>(list.words.size());
    header.orders = static_cast<std::uint32_t>(list.orders.size());
    return group->outbox->post(list.words, group->words(), readers, [&](std::byte *message) {
        std::byte *place = message;
        auto append = [&](const void *bytes, std::size_t size) {
            if (size != 0)
                std::memcpy(place, bytes, size);
            place += size;
        };
        append(&header, sizeof header);
        append(list.words.data(), list.words.size_bytes());
        append(list.orders.data(), list.orders.size_bytes());
        place = message + sizeof header + list_size(list);
        if (!(header.flags & WireHeader::shared))
            append(data, header.length);
    });
}

// A message says where more will be posted. Not for us when there is one on our host whom we could not wake.
void Engine::watch(pm_group *group, const WireHeader &header)
{
    if (!shares_host(group) || static_cast<std::size_t>(group->setup.size) > Outbox::most_ranks)
        return;
    auto found = std::ranges::find_if(watched_, [&](const auto &watched) {
        return watched->group == group && watched->poster == header.poster;
    });
    if (found == watched_.end()) {
        if (watched_.size() == most_watched)
            return;
        auto outbox = static_cast<Outbox *>(transport_.view(group->peer(header.poster), header.outbox, sizeof(Outbox)));
        if (outbox == nullptr || reinterpret_cast<std::uintptr_t>(outbox) % alignof(Outbox) != 0)
            return;
        watched_.push_back(std::make_unique<Watched>(
            Watched{group, header.poster, outbox, header.generation, outbox->count()}));
        found = std::prev(watched_.end());
        transport_.watches(true);
    }
    // Said again each time: one that was late with another generation may have written over it.
    (*found)->outbox->watch(static_cast<std::size_t>(group->setup.rank), (*found)->generation);
}

// A post is a piece that lies in its slot as a whole.
bool Engine::is_post(const Watched &watched, const WireHeader &header)
{
    const std::size_t bytes = header.flags & WireHeader::shared ? 0 : header.length;
    return header.kind == WireHeader::Kind::piece && header.flags & WireHeader::posted && header.group == watched.group->setup.id &&
           header.poster == watched.poster && list_size(header) + bytes <= sizeof(Outbox::Slot::message) - sizeof header &&
           header.size <= largest_multicast && header.offset <= header.size && header.length <= header.size - header.offset &&
           (header.length != 0 || header.size == 0);
}

// Calls take(header, list, data) for each post for us that we have not seen. The list is copied before it is looked at: its owner may
// still be able to write there.
template <class Take>
bool Engine::read_posts(Watched *watched, Take take)
{
    const auto self = static_cast<std::size_t>(watched->group->setup.rank);
    return watched->outbox->read(&watched->seen, watched->generation, self, [&](const std::byte *message) {
        WireHeader header;
        std::memcpy(&header, message, sizeof header);
        const std::byte *place = message + sizeof header;
        alignas(std::uint64_t) std::byte copy[sizeof(Outbox::Slot::message)];
        bool in_order = is_post(*watched, header);
        if (in_order) {
            std::memcpy(copy, place, list_size(header));
            in_order = is_in_order(watched->group, header, list_at(header, copy)) &&
                       take(header, list_at(header, copy), place + list_size(header));
        }
        if (!in_order)
            transport_.dropped(watched->group->peer(watched->poster));
    });
}

bool Engine::poll()
{
    bool something = false;
    for (std::size_t i = 0; i < watched_.size(); ++i) {
        Watched *watched = watched_[i].get();
        if (watched->outbox->posts.load(std::memory_order_relaxed) == watched->seen) [[likely]]
            continue;
        something |= read_posts(watched, [&](const WireHeader &header, const List &list, const std::byte *data) {
            wake_others(watched->group, header, list);
            return on_message(header, list, {data});
        });
    }
    return something;
}

bool Engine::has_news() const
{
    return std::ranges::any_of(watched_, [](const auto &watched) {
        return watched->outbox->posts.load(std::memory_order_relaxed) != watched->seen;
    });
}

// Those of word i of a set whom a post is for, but for ourselves.
std::uint64_t Engine::other_readers(pm_group *group, const WireHeader &header, const List &list, std::size_t i)
{
    return list.words[i] & on_our_host(group)[i] & ~bitmap::bit_in_word(header.master, i) & ~bitmap::bit_in_word(header.poster, i);
}

// Whether we are the first one on our host whom a post is for.
bool Engine::is_first_reader(pm_group *group, const WireHeader &header, const List &list)
{
    const auto self = static_cast<std::size_t>(group->setup.rank);
    for (std::size_t i = 0; i < self / 64; ++i)
        if (other_readers(group, header, list, i) != 0)
            return false;
    return (other_readers(group, header, list, self / 64) & ((std::uint64_t{1} << self % 64) - 1)) == 0;
}

// The first one wakes those that sleep.
void Engine::wake_others(pm_group *group, const WireHeader &header, const List &list)
{
    if (!is_first_reader(group, header, list))
        return;
    for (std::size_t i = 0; i < list.words.size(); ++i)
        for (std::uint64_t word = other_readers(group, header, list, i); word != 0; word &= word - 1)
            transport_.nudge(group->peer(static_cast<int>(i) * 64 + std::countr_zero(word)));
}

// The group ends here. What was posted for it and not received is not kept from being forgotten.
void Engine::stop_posting(pm_group *group)
{
    for (auto &watched : watched_)
        if (watched->group == group)
            read_posts(watched.get(), [&](const WireHeader &header, const List &, const std::byte *) {
                Piece dropped;
                if (header.flags & WireHeader::shared)
                    view_shared(group, header, &dropped);
                return true;
            });
    if (std::erase_if(watched_, [&](const auto &watched) { return watched->group == group; }) != 0)
        transport_.watches(!watched_.empty());
    if (group->outbox != nullptr)
        transport_.free_outbox(group->outbox);
}

}  // namespace pm::coll
