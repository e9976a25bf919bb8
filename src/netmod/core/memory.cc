// One-sided operations behind memory.h. Memory is registered with every network of UCX that is open; a peer uses the key of the
// network over which it is reached.
#include "netmod/core/memory.h"

#include <algorithm>
#include <cstring>

#include "netmod/core/state.h"

using pm::core;
using pm::DeviceKind;

#ifdef PM_HAVE_UCX

// By the place of the network in Core::links.ucx.
struct pm_memory {
    std::vector<pm::ucx::Memory> parts;
};

struct pm_remote {
    pm_peer *peer;
    pm::ucx::RemoteMemory memory;
};

namespace {

// In front of each network's key.
struct KeyHead {
    std::uint64_t network;
    std::uint64_t size;
};

int answer(const pm_remote *remote, pm::Status status, std::size_t size)
{
    if (status == pm::Status::again)
        return PM_QUEUED;
    if (status != pm::Status::ok)
        return pm::failed(remote->peer->ucx->error);
    remote->peer->messages++;
    remote->peer->bytes += size;
    return PM_OK;
}

}  // namespace

extern "C" {

int pm_may_be_one_sided(const pm_peer *peer)
{
    return std::ranges::any_of(peer->card.networks, [](const auto &each) { return each.network.device == DeviceKind::ucx; });
}

int pm_one_sided_networks(void)
{
    return static_cast<int>(core->links.ucx.size());
}

pm_memory *pm_register(void *base, size_t size)
{
    if (core->links.ucx.empty() || size == 0)
        return nullptr;
    auto memory = std::make_unique<pm_memory>();
    for (pm::UcxLink &link : core->links.ucx) {
        auto part = link.device->register_memory(base, size);
        if (!part.ok()) {
            for (std::size_t i = 0; i < memory->parts.size(); ++i)
                core->links.ucx[i].device->release(&memory->parts[i]);
            return nullptr;  // messages will do
        }
        memory->parts.push_back(std::move(part.value()));
    }
    return memory.release();
}

size_t pm_memory_key(const pm_memory *memory, void *key)
{
    auto next = static_cast<std::byte *>(key);
    std::size_t left = PM_MEMORY_KEY_MAX;
    for (std::size_t i = 0; i < memory->parts.size(); ++i) {
        const std::vector<std::byte> &bytes = memory->parts[i].key;
        KeyHead head{core->links.ucx[i].local.network.id, bytes.size()};
        if (sizeof head + bytes.size() > left)
            break;
        std::memcpy(next, &head, sizeof head);
        std::memcpy(next + sizeof head, bytes.data(), bytes.size());
        next += sizeof head + bytes.size();
        left -= sizeof head + bytes.size();
    }
    return PM_MEMORY_KEY_MAX - left;
}

void pm_unregister(pm_memory *memory)
{
    for (std::size_t i = 0; i < memory->parts.size(); ++i)
        core->links.ucx[i].device->release(&memory->parts[i]);
    delete memory;
}

pm_remote *pm_open_remote(pm_peer *peer, const void *key, size_t size)
{
    if (peer->kind != DeviceKind::ucx)
        return nullptr;
    const pm::UcxLink &link = core->links.ucx[peer->place - pm::first_ucx_place];
    auto next = static_cast<const std::byte *>(key);
    KeyHead head;
    while (size >= sizeof head) {
        std::memcpy(&head, next, sizeof head);
        next += sizeof head;
        size -= sizeof head;
        if (head.size > size)
            return nullptr;
        if (head.network == link.local.network.id)
            return new pm_remote{peer, {peer->ucx, {next, next + head.size}, nullptr}};
        next += head.size;
        size -= head.size;
    }
    return nullptr;
}

void pm_close_remote(pm_remote *remote)
{
    remote->peer->ucx_device->release(&remote->memory);
    delete remote;
}

int pm_put(pm_remote *remote, uint64_t address, const void *data, size_t size)
{
    // The route may have changed before the first message.
    if (remote->peer->kind != DeviceKind::ucx || remote->peer->ucx != remote->memory.peer)
        return PM_QUEUED;
    return answer(remote, remote->peer->ucx_device->put(&remote->memory, address, data, size), size);
}

int pm_get(pm_remote *remote, uint64_t address, void *data, size_t size)
{
    if (remote->peer->kind != DeviceKind::ucx || remote->peer->ucx != remote->memory.peer)
        return PM_QUEUED;
    return answer(remote, remote->peer->ucx_device->get(&remote->memory, address, data, size), size);
}

int pm_writes_by_itself(const pm_remote *remote)
{
    return remote->peer->kind == DeviceKind::ucx && remote->peer->ucx_device->writes_by_itself();
}

int pm_add_behind(pm_remote *remote, uint64_t address, uint32_t value)
{
    if (remote->peer->kind != DeviceKind::ucx || remote->peer->ucx != remote->memory.peer)
        return PM_QUEUED;
    return answer(remote, remote->peer->ucx_device->add_behind(&remote->memory, address, value), sizeof value);
}

int pm_one_sided_done(void)
{
    return std::ranges::all_of(core->links.ucx, [](const auto &link) { return link.device->finished(); });
}

}  // extern "C"

#else  // nothing that could do it is built in

extern "C" {

int pm_may_be_one_sided(const pm_peer *)
{
    return 0;
}
int pm_one_sided_networks(void)
{
    return 0;
}
pm_memory *pm_register(void *, size_t)
{
    return nullptr;
}
size_t pm_memory_key(const pm_memory *, void *)
{
    return 0;
}
void pm_unregister(pm_memory *) {}
pm_remote *pm_open_remote(pm_peer *, const void *, size_t)
{
    return nullptr;
}
void pm_close_remote(pm_remote *) {}
int pm_put(pm_remote *, uint64_t, const void *, size_t)
{
    return PM_QUEUED;
}
int pm_get(pm_remote *, uint64_t, void *, size_t)
{
    return PM_QUEUED;
}
int pm_writes_by_itself(const pm_remote *)
{
    return 0;
}
int pm_add_behind(pm_remote *, uint64_t, uint32_t)
{
    return PM_QUEUED;
}
int pm_one_sided_done(void)
{
    return 1;
}

}  // extern "C"

#endif
