// One-sided operations behind memory.h. Memory is registered with every network whose channel has them; a peer uses the key of the
// network over which it is reached.
#include "netmod/core/memory.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "netmod/core/state.h"

struct pm_memory {
    struct Part {
        std::uint64_t network;
        std::unique_ptr<pm::Registration> registration;
    };
    std::vector<Part> parts;
};

struct pm_remote {
    pm_peer *peer;
    std::unique_ptr<pm::Remote> memory;

    // The route may have changed before the first message.
    bool is_reached() const { return memory->is_of(peer->used->peer()); }
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
        return pm::failed(remote->peer->used->error());
    remote->peer->messages++;
    remote->peer->bytes += size;
    remote->peer->run.pass_over();
    return PM_OK;
}

}  // namespace

extern "C" {

int pm_may_be_one_sided(const pm_peer *peer)
{
    return std::ranges::any_of(peer->card().networks, [](const auto &each) { return pm::is_one_sided(each.network.device); });
}

static bool is_one_sided(const pm::NetworkLink &link)
{
    return link.channel->remote_access != nullptr;
}

int pm_one_sided_networks(const pm_core *core)
{
    return static_cast<int>(std::ranges::count_if(core->links.networks, is_one_sided));
}

pm_memory *pm_register(pm_core *core, void *base, size_t size)
{
    if (pm_one_sided_networks(core) == 0 || size == 0)
        return nullptr;
    auto memory = std::make_unique<pm_memory>();
    for (const pm::NetworkLink &link : core->links.networks) {
        if (!is_one_sided(link))
            continue;
        auto registration = link.channel->remote_access->register_memory(base, size);
        if (registration == nullptr)
            return nullptr;  // messages will do
        memory->parts.push_back({link.local.network.id, std::move(registration)});
    }
    return memory.release();
}

size_t pm_memory_key(const pm_memory *memory, void *key)
{
    auto next = static_cast<std::byte *>(key);
    std::size_t left = PM_MEMORY_KEY_MAX;
    for (const pm_memory::Part &part : memory->parts) {
        std::span<const std::byte> bytes = part.registration->key();
        KeyHead head{part.network, bytes.size()};
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
    delete memory;
}

pm_remote *pm_open_remote(pm_peer *peer, const void *key, size_t size)
{
    pm::RemoteAccess *access = peer->used->channel->remote_access.get();
    if (access == nullptr)
        return nullptr;
    auto next = static_cast<const std::byte *>(key);
    KeyHead head;
    while (size >= sizeof head) {
        std::memcpy(&head, next, sizeof head);
        next += sizeof head;
        size -= sizeof head;
        if (head.size > size)
            return nullptr;
        if (head.network == peer->used->network_id)
            return new pm_remote{peer, access->open(peer->used->peer(), {next, static_cast<std::size_t>(head.size)})};
        next += head.size;
        size -= head.size;
    }
    return nullptr;
}

void pm_close_remote(pm_remote *remote)
{
    delete remote;
}

int pm_put(pm_remote *remote, uint64_t address, const void *data, size_t size)
{
    if (!remote->is_reached())
        return PM_QUEUED;
    return answer(remote, remote->memory->put(address, data, size), size);
}

int pm_get(pm_remote *remote, uint64_t address, void *data, size_t size)
{
    if (!remote->is_reached())
        return PM_QUEUED;
    return answer(remote, remote->memory->get(address, data, size), size);
}

int pm_writes_by_itself(const pm_remote *remote)
{
    const auto &access = remote->peer->used->channel->remote_access;
    return access != nullptr && access->writes_by_itself();
}

int pm_add_behind(pm_remote *remote, uint64_t address, uint32_t value)
{
    if (!remote->is_reached())
        return PM_QUEUED;
    return answer(remote, remote->memory->add_behind(address, value), sizeof value);
}

int pm_one_sided_done(pm_core *core)
{
    return std::ranges::all_of(core->links.channels, [](const auto &channel) {
        return channel->remote_access == nullptr || channel->remote_access->finished();
    });
}

}  // extern "C"
