// Multicasts meet the receives of the user.
//
// Promise: of one master they are received in the order in which it sent them, whichever comes first. A receive takes the first one
// that it wants, and a multicast goes to the first receive that wants it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "coll/mcast/state.h"

namespace pm::coll {
namespace {

bool is_wanted(int source, int tag, int wanted_source, int wanted_tag)
{
    return (wanted_source == PM_ANY || wanted_source == source) && (wanted_tag == PM_ANY || wanted_tag == tag);
}

}  // namespace

// Of a multicast that is here as a whole: true when it was somebody's turn to receive it and he has it.
bool Engine::deliver_at_once(pm_group *group, const WireHeader &header, const List &list, const std::byte *data)
{
    Stream &stream = group->streams[header.master];
    if (stream.next != order_of(group, header, list))
        return false;
    std::unique_ptr<Receive> receive = take_receive(group, header.master, header.tag);
    if (!receive)
        return false;
    stream.next++;
    if (std::size_t size = std::min<std::size_t>(receive->room, header.size); size != 0)
        std::memcpy(receive->buffer, data, size);
    end_receive(*receive, list.words, header.master, header.tag, header.size);
    give_turns(group, &stream);
    return true;
}

std::uint32_t Engine::order_of(const pm_group *group, const WireHeader &header, const List &list)
{
    int self = group->setup.rank;
    return list.orders[header.flags & WireHeader::by_rank ? static_cast<std::size_t>(self)
                                                          : index_of(list.words, self, header.master)];
}

// What was sent first is received first, whichever arrives first.
void Engine::give_turns(pm_group *group, Stream *stream)
{
    for (auto found = stream->arrivals.find(stream->next); found != stream->arrivals.end() && !found->second->in_turn;
         found = stream->arrivals.find(stream->next)) {
        stream->next++;
        std::shared_ptr<Arrival> arrival = found->second;
        arrival->in_turn = true;
        match(group, arrival);
        // It may have overtaken others and be complete already.
        finish_if_complete(group, arrival.get());
    }
}

// The caller holds the arrival: here it may be forgotten.
void Engine::finish_if_complete(pm_group *group, Arrival *arrival)
{
    if (!arrival->complete)
        return;
    if (arrival->in_turn)
        group->streams[arrival->master].arrivals.erase(arrival->order);
    if (arrival->receive)
        deliver(arrival);
}

// The first receive that wants it; nullptr when none does.
std::unique_ptr<Engine::Receive> Engine::take_receive(pm_group *group, int master, int tag)
{
    auto found = std::ranges::find_if(group->receives, [&](const auto &receive) {
        return is_wanted(master, tag, receive->source, receive->tag);
    });
    if (found == group->receives.end())
        return nullptr;
    std::unique_ptr<Receive> receive = std::move(*found);
    group->receives.erase(found);
    return receive;
}

void Engine::match(pm_group *group, const std::shared_ptr<Arrival> &arrival)
{
    arrival->receive = take_receive(group, arrival->master, arrival->tag);
    if (!arrival->receive)
        group->unexpected.push_back(arrival);
}

void Engine::receive(pm_group *group, void *buffer, std::size_t room, int source, int tag, std::uint64_t *members, void *cookie)
{
    auto receive = std::make_unique<Receive>(Receive{static_cast<std::byte *>(buffer), room, source, tag, members, cookie});
    if (members != nullptr)
        std::fill_n(members, group->words(), 0);
    auto found = std::ranges::find_if(group->unexpected, [&](const auto &arrival) {
        return is_wanted(arrival->master, arrival->tag, source, tag);
    });
    if (found == group->unexpected.end()) {
        group->receives.push_back(std::move(receive));
        return;
    }
    std::shared_ptr<Arrival> arrival = *found;
    group->unexpected.erase(found);
    arrival->receive = std::move(receive);
    if (arrival->complete)
        deliver(arrival.get());  // otherwise what is here is in its store, and the rest goes there, too
}

void Engine::deliver(Arrival *arrival)
{
    std::unique_ptr<Receive> receive = std::move(arrival->receive);
    std::size_t size = std::min<std::size_t>(receive->room, arrival->size);
    if (arrival->store && size != 0)
        std::memcpy(receive->buffer, arrival->store.data(), size);
    end_receive(*receive, arrival->words, arrival->master, arrival->tag, arrival->size);
}

// Its bytes are in their place.
void Engine::end_receive(const Receive &receive, std::span<const std::uint64_t> words, int master, int tag, std::uint64_t size)
{
    if (receive.members != nullptr)
        std::ranges::copy(words, receive.members);
    settings_.received(receive.cookie, master, tag, size);
}

bool Engine::probe(const pm_group *group, int source, int tag, int *found_source, int *found_tag, std::size_t *size) const
{
    for (const auto &arrival : group->unexpected) {
        if (!is_wanted(arrival->master, arrival->tag, source, tag))
            continue;
        *found_source = arrival->master;
        *found_tag = arrival->tag;
        *size = arrival->size;
        return true;
    }
    return false;
}

void Engine::deliver_to_self(pm_group *group, const void *data, std::size_t size, const std::uint64_t *members, int tag)
{
    auto arrival = std::make_shared<Arrival>();
    arrival->master = group->setup.rank;
    arrival->tag = tag;
    arrival->size = size;
    arrival->words.assign(members, members + group->words());
    arrival->in_turn = true;
    match(group, arrival);
    if (std::byte *place = size != 0 ? destination_of(arrival.get()) : nullptr)
        std::memcpy(place, data, size);
    else if (size != 0)
        return;
    arrival->received = size;
    arrival->complete = true;
    if (arrival->receive)
        deliver(arrival.get());
}

}  // namespace pm::coll
