// Groups, and the shared memory that is lent to their members. What is done with messages is in the files named after it:
// sending, posting, arriving, relaying, receiving, acknowledging.
//
// Promise: a block is not written again before everybody whom it was lent to has read it. A message for a group that is not open
// yet, but is being made, is kept, and comes when it is opened.
#include "coll/mcast/engine.h"

#include <new>
#include <utility>

#include "coll/mcast/state.h"
#include "coll/team/places.h"

namespace pm::coll {

Members members_of(const pm_group *group, std::span<const std::uint64_t> words, int master, bool by_host)
{
    std::vector<int> ranks = bitmap::members_of(words), hosts;
    std::erase(ranks, master);
    if (by_host)
        for (int rank : ranks)
            hosts.push_back(group->host(rank));
    Members members;
    members.layout = make_layout(static_cast<std::uint32_t>(ranks.size()), hosts, by_host ? group->host(master) : 0);
    for (std::uint32_t index : members.layout.order)
        members.ranks.push_back(ranks[index]);
    return members;
}

const std::vector<std::uint64_t> &on_our_host(pm_group *group)
{
    if (group->on_our_host.empty()) {
        const pm_group_setup &setup = group->setup;
        std::vector<int> memory(pm_places_ints(setup.size));
        pm_places places;
        pm_places_of(&places, memory.data(), setup.size, setup.rank, setup.host, setup.context);
        group->on_our_host.resize(group->words());
        for (int i = 0; i < places.mates; ++i)
            group->on_our_host[static_cast<std::size_t>(places.mate[i]) / 64] |= std::uint64_t{1} << places.mate[i] % 64;
    }
    return group->on_our_host;
}

Engine::Engine(const Settings &settings, Transport &transport, std::uint64_t origin)
    : settings_(settings), transport_(transport), origin_(origin)
{
}

Engine::~Engine() = default;

pm_group *Engine::open_group(const pm_group_setup &setup)
{
    auto made = std::make_unique<pm_group>();
    made->setup = setup;
    pm_group *group = made.get();
    groups_[setup.id] = std::move(made);
    if (auto found = parked_.find(setup.id); found != parked_.end()) {
        std::deque<Parked> messages = std::move(found->second);
        parked_.erase(found);
        for (Parked &message : messages) {
            Piece piece{message.bytes.data(), message.bytes};
            if (!on_message(message.header, list_at(message.header, message.list.data()), piece))
                transport_.dropped(nullptr);
        }
    }
    return group;
}

void Engine::close_group(pm_group *group)
{
    stop_posting(group);
    for (auto &[master, stream] : group->streams)
        for (auto &[order, arrival] : stream.arrivals)
            arrival->abandoned = true;
    groups_.erase(group->setup.id);
    drop_parked();
}

bool Engine::shares_host(pm_group *group)
{
    if (!group->shares_host) {
        group->shares_host = true;
        bitmap::for_each(on_our_host(group), [&](int rank) {
            if (!transport_.on_host(group->peer(rank)))
                group->shares_host = false;
        });
    }
    return *group->shares_host;
}

BlockHead *Engine::lend(std::size_t size, std::uint32_t readers)
{
    reclaim();
    void *block = transport_.allocate_shared(size + sizeof(BlockHead));
    if (block == nullptr)
        return nullptr;
    auto head = new (block) BlockHead;
    head->readers.store(readers, std::memory_order_relaxed);
    lent_.push_back(head);
    return head;
}

void Engine::reclaim()
{
    std::erase_if(lent_, [this](BlockHead *head) {
        if (!head->is_free())
            return false;
        transport_.free_shared(head);
        return true;
    });
}

std::size_t Engine::lent()
{
    reclaim();
    return lent_.size();
}

std::size_t Engine::unfinished() const
{
    std::size_t count = outgoing_.size() + duties_.size();
    for (const auto &[id, group] : groups_)
        for (const auto &[master, stream] : group->streams)
            count += stream.arrivals.size();
    return count;
}

}  // namespace pm::coll
