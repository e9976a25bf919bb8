// What processes of one host do in each other's memory: pulling, blocks that all can read, waking.
#include "netmod/core/shared.h"

#include "base/process.h"
#include "netmod/core/state.h"

using pm::core;
using pm::DeviceKind;
using pm::failed;
using pm::SendTurn;

extern "C" {

int pm_prefers_pull(const pm_peer *peer)
{
    pm::make_wait_plans();
    if (pm_can_offer(peer))
        return 1;
    return core->prefer_pull && peer->kind == DeviceKind::shmem && core->links.shmem->peer_can_pull(peer->shmem);
}

int pm_pull(const pm_peer *peer, uint64_t address, const struct iovec *pieces, size_t count)
{
    auto reachable = [&] {
        SendTurn turn(peer);
        return peer->kind == DeviceKind::shmem && core->links.shmem->prepare(peer->shmem) == pm::Status::ok;
    };
    if (!reachable() || !core->links.shmem->pull(peer->shmem, address, pieces, count))
        return failed({pm::Status::failed, "shmem: the memory of a peer on this host could not be read"});
    core->pulls++;
    for (size_t i = 0; i < count; ++i)
        core->bytes_pulled += pieces[i].iov_len;
    return PM_OK;
}

void *pm_shared_alloc(size_t size)
{
    static_assert(PM_SHARED_LIMIT == pm::shmem::heap_block);
    return core->links.shmem != nullptr ? core->links.shmem->allocate_shared(size) : nullptr;
}

void pm_shared_free(void *block)
{
    core->links.shmem->free_shared(block);
}

int pm_on_host(const pm_peer *peer)
{
    return peer->kind == DeviceKind::shmem;
}

int pm_has_ended(const pm_peer *peer)
{
    return peer->kind == DeviceKind::shmem && pm::process_has_ended(peer->shmem->card.process);
}

void pm_ring(pm_peer *peer)
{
    SendTurn turn(peer);
    if (peer->kind == DeviceKind::shmem)
        core->links.shmem->ring_at(peer->shmem);
}

void pm_nudge(pm_peer *peer)
{
    // [W3] what we changed is visible before we look; pairs with [W4] in pm_wait_arm: one of both sees the other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // Whether one sleeps that we have never sent to is not known yet.
    if (peer->kind == DeviceKind::shmem && (peer->shmem->ready == nullptr || pm::shmem::Shmem::sleeps(peer->shmem))) [[unlikely]]
        pm_ring(peer);
}

void *pm_shared_view(pm_peer *peer, uint64_t address, size_t size)
{
    SendTurn turn(peer);
    return peer->kind == DeviceKind::shmem ? core->links.shmem->view(peer->shmem, address, size) : nullptr;
}

}  // extern "C"
