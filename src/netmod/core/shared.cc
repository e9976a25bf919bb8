// What processes of one host do in each other's memory: pulling, blocks that all can read, waking.
#include "base/clock.h"
#include "base/tuning.h"
#include "netmod/core/shared.h"

#include "netmod/core/state.h"

using pm::SharedMemory;
using pm::failed;
using pm::InsideGateOf;

namespace {

SharedMemory *shared_with(const pm_peer *peer)
{
    return peer->used->channel->shared.get();
}

// Where blocks come from, if anything of this process shares memory.
SharedMemory *shared_memory(const pm_core *core)
{
    for (const auto &channel : core->links.channels)
        if (channel->shared != nullptr)
            return channel->shared.get();
    return nullptr;
}

// Where ranks share cores, what is among the first messages to a peer is pulled in any case: it takes one turn of the receiver, and no new pages of shared
// memory. On x86 all are, but those of a stream. Others go by the pipeline, which moves more at a time.
bool takes_one_turn(const pm_peer *peer)
{
    const pm_core *core = peer->core;
    if (core->rendezvous != pm::Rendezvous::automatic || !core->oversubscribed) [[likely]]
        return false;
    if (PM_PULL_WITHOUT_STREAM != 0 && !peer->is_stream())
        return true;
    InsideGateOf inside(peer);
    return peer->messages < PM_FIRST_MESSAGES_PULLED;
}

// It has told us that it reads our memory.
bool can_pull(const pm_peer *peer)
{
    SharedMemory *shared = shared_with(peer);
    if (shared == nullptr)
        return false;
    InsideGateOf inside(peer);
    return shared->peer_can_pull(peer->used->peer());
}

bool is_prepared(const pm_peer *peer, SharedMemory *shared)
{
    InsideGateOf inside(peer);
    return shared->prepare(peer->used->peer());
}

bool pulls_jointly(const pm_peer *peer)
{
    pm::make_wait_plans(peer->core);
    return peer->core->pulls_jointly && can_pull(peer);
}

// With what it took, and how much it was.
template <class Pull>
int pull_by(pm_peer *peer, size_t size, Pull &&pull)
{
    peer->sent_long();
    SharedMemory *shared = shared_with(peer);
    bool timed = pm::profile::on.load(std::memory_order_relaxed);
    pm::Time begin = timed ? pm::clock_now() : pm::Time{};
    if (shared == nullptr || !is_prepared(peer, shared) || !pull(shared))
        return failed({pm::Status::failed, "shmem: the memory of a peer on this host could not be read"});
    if (timed)
        peer->core->pulling += pm::clock_now() - begin;
    peer->core->pulls++;
    peer->core->bytes_pulled += size;
    peer->core->bytes_received[peer->used->channel->number] += size;  // the announcement has none of them
    return PM_OK;
}

}  // namespace

extern "C" {

int pm_prefers_pull(const pm_peer *peer)
{
    pm::make_wait_plans(peer->core);
    if (pm_can_offer(peer))
        return 1;
    return (peer->core->prefer_pull || takes_one_turn(peer)) && can_pull(peer);
}

pm_departure pm_departure_of_longer(pm_peer *peer, size_t size, int asks)
{
    if (size > PM_SEND_NOW_LIMIT)
        return pm_prefers_pull(peer) ? PM_DEPARTS_BY_PULL : PM_DEPARTS_LATER;
    if (asks)
        return PM_DEPARTS_LATER;
    return size > PM_SURELY_NOW_LIMIT && pulls_jointly(peer) && peer->goes_long() ? PM_DEPARTS_BY_PULL : PM_DEPARTS_NOW;
}

int pm_prefers_pull_both_ways(const pm_peer *peer, size_t size)
{
    pm::make_wait_plans(peer->core);
    return size > PM_SURELY_NOW_LIMIT && size <= PM_PULL_BOTH_WAYS_LIMIT && peer->core->rendezvous == pm::Rendezvous::automatic &&
           !peer->core->oversubscribed && can_pull(peer);
}

int pm_pull(pm_peer *peer, uint64_t address, const struct iovec *pieces, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; ++i)
        size += pieces[i].iov_len;
    return pull_by(peer, size, [&](SharedMemory *shared) { return shared->pull(peer->used->peer(), address, pieces, count); });
}

uint32_t pm_joint_open(const pm_peer *peer, size_t size, int busy)
{
    SharedMemory *shared = shared_with(peer);
    const size_t limit = peer->ahead.load(std::memory_order_relaxed) == 0 ? PM_JOINT_STREAM_LIMIT : PM_JOINT_LIMIT;
    return peer->core->pulls_jointly && !busy && size >= limit && shared != nullptr && is_prepared(peer, shared)
               ? shared->open_joint(peer->used->peer(), size)
               : 0;
}

int pm_joint_pull(pm_peer *peer, uint32_t number, uint64_t address, void *place, size_t size)
{
    return pull_by(peer, size, [&](SharedMemory *shared) { return shared->pull_joint(peer->used->peer(), number, address, place, size); });
}

void pm_joint_help(const pm_peer *peer, uint32_t number, const void *data, uint64_t place, size_t size)
{
    SharedMemory *shared = shared_with(peer);
    // Not by a thread that others on its core may keep from running: the receiver waits for what has been begun.
    if (!pm::waiter.in_background && shared != nullptr && is_prepared(peer, shared))
        shared->help_joint(peer->used->peer(), number, data, place, size);
}

int pm_read_memory(const pm_peer *peer, uint64_t address, void *data, size_t size)
{
    SharedMemory *shared = shared_with(peer);
    return shared != nullptr && shared->read_memory(peer->used->peer(), address, data, size);
}

int pm_may_read_memory(const pm_core *core)
{
    return core->rendezvous != pm::Rendezvous::pipeline;
}

int pm_write_memory(const pm_peer *peer, uint64_t address, const void *data, size_t size)
{
    SharedMemory *shared = shared_with(peer);
    return shared != nullptr && shared->write_memory(peer->used->peer(), address, data, size);
}

int pm_read_pieces(const pm_peer *peer, const struct iovec *here, const struct iovec *there, size_t count)
{
    SharedMemory *shared = shared_with(peer);
    return shared != nullptr && shared->read_pieces(peer->used->peer(), here, there, count);
}

int pm_write_pieces(const pm_peer *peer, const struct iovec *here, const struct iovec *there, size_t count)
{
    SharedMemory *shared = shared_with(peer);
    return shared != nullptr && shared->write_pieces(peer->used->peer(), here, there, count);
}

void *pm_shared_alloc(pm_core *core, size_t size)
{
    static_assert(PM_SHARED_LIMIT == pm::shmem::heap_block);
    SharedMemory *shared = shared_memory(core);
    return shared != nullptr ? shared->allocate(size) : nullptr;
}

void pm_shared_free(pm_core *core, void *block)
{
    shared_memory(core)->free(block);
}

void *pm_mapped_alloc(pm_core *core, size_t size)
{
    SharedMemory *shared = shared_memory(core);
    return shared != nullptr ? shared->allocate_mapped(size, size) : nullptr;
}

void *pm_mapped_alloc_part(pm_core *core, size_t size, size_t at_once)
{
    SharedMemory *shared = shared_memory(core);
    return shared != nullptr ? shared->allocate_mapped(size, at_once) : nullptr;
}

int pm_mapped_free(pm_core *core, void *block)
{
    SharedMemory *shared = shared_memory(core);
    return shared != nullptr && shared->free_mapped(block);
}

int pm_is_beside(const pm_peer *peer)
{
    return pm::is_beside(peer);
}

int pm_on_host(const pm_peer *peer)
{
    return shared_with(peer) != nullptr;
}

int pm_has_ended(const pm_peer *peer)
{
    SharedMemory *shared = shared_with(peer);
    return shared != nullptr && shared->has_ended(peer->used->peer());
}

void pm_ring(pm_peer *peer)
{
    InsideGateOf inside(peer);
    if (SharedMemory *shared = shared_with(peer))
        shared->ring_at(peer->used->peer());
}

void pm_nudge(pm_peer *peer)
{
    // [W3] what we changed is visible before we look; pairs with [W4] in pm_wait_arm: one of both sees the other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (peer->used->may_sleep()) [[unlikely]]
        pm_ring(peer);
}

int pm_may_sleep(const pm_peer *peer)
{
    return peer->used->may_sleep();
}

void *pm_shared_view(pm_peer *peer, uint64_t address, size_t size)
{
    InsideGateOf inside(peer);
    SharedMemory *shared = shared_with(peer);
    return shared != nullptr ? shared->view(peer->used->peer(), address, size) : nullptr;
}

}  // extern "C"
