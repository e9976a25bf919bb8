// Sending.
//
// A message the device cannot take now waits in its peer's queue, and later messages to that peer wait behind it, so that
// the order of a pair is kept. Peers with a queue are in one list; progress tries each of them once.
#include <algorithm>
#include <utility>

#include "netmod/core/setup.h"
#include "netmod/core/state.h"

namespace {

using pm::failed;
using pm::reroute;
using pm::InsideGateOf;
using pm::Waiting;

// The device has taken something.
inline void accepted(pm_peer *peer)
{
    if (!peer->settled) [[unlikely]]
        pm::settle(peer);
}

inline void count(pm_peer *peer, std::size_t size)
{
    peer->messages++;
    peer->bytes += size;
    if (peer->run.ends_at(size)) [[unlikely]]
        pm::end_run(peer, size);
}

void queue(pm_peer *peer, const pm::Message &message, const pm::SendProgress &progress, void *cookie)
{
    Waiting waiting{std::make_unique<std::byte[]>(message.header_size), message, progress, cookie};
    message.copy_header_to(waiting.header.get());
    waiting.message.header = waiting.header.get();
    peer->queue.push_back(std::move(waiting));
    pm::list(peer);
}

int send(pm_peer *peer, const pm::Message &message, void *cookie)
{
    InsideGateOf inside(peer);
    pm::SendProgress progress;
    pm::Status status = pm::Status::again;
    count(peer, message.payload.size);
    if (peer->queue.empty()) [[likely]] {
        status = peer->used->try_send(message, &progress);
        if (status == pm::Status::ok) [[likely]] {
            accepted(peer);
            return PM_OK;
        }
        // Over another network, perhaps: flush() knows.
        if (status != pm::Status::again && peer->settled)
            return failed(pm::lost(peer));
    }
    queue(peer, message, progress, cookie);
    return PM_QUEUED;
}

// All of it or nothing, by a thread that no other can disturb.
inline int send_now(pm_peer *peer, const pm::Message &message)
{
    if (!peer->queue.empty()) [[unlikely]]
        return 0;
    if (!peer->used->try_send_whole(message)) [[unlikely]]
        return 0;
    accepted(peer);
    count(peer, message.payload.size);
    return 1;
}

// The same with a header of short_header bytes.
template <class Used>
inline int send_short_now(pm_peer *peer, const Used &used, int tag, const void *header, const void *data, std::size_t size)
{
    if (!used->try_send_short(static_cast<std::uint8_t>(tag), header, data, size)) [[unlikely]]
        return 0;
    accepted(peer);
    count(peer, size);
    return 1;
}

// Apart: a process with one thread, which has no gates, does not pay for it with registers.
[[gnu::noinline]] int send_now_inside_gate(pm_peer *peer, const pm::Message &message)
{
    InsideGateOf inside(peer);
    return send_now(peer, message);
}

[[gnu::noinline]] int send_short_now_inside_gate(pm_peer *peer, int tag, const void *header, const void *data, std::size_t size)
{
    InsideGateOf inside(peer);
    return peer->queue.empty() ? send_short_now(peer, peer->used, tag, header, data, size) : 0;
}

int offer(pm_peer *peer, const pm::Message &message, void *cookie)
{
    InsideGateOf inside(peer);
    count(peer, message.payload.size);
    if (peer->queue.empty()) {
        pm::Status status = peer->used->channel->offering->offer(peer->used->peer(), message, cookie);
        if (status == pm::Status::ok) {
            accepted(peer);
            return PM_QUEUED;
        }
        if (status != pm::Status::again && peer->settled)
            return failed(pm::lost(peer));
    }
    queue(peer, message, {}, cookie);
    return PM_QUEUED;
}

// What waits in the queue. An offer whose peer is reached by another device now is only announced.
pm::Status try_first(pm_peer *peer, Waiting *first)
{
    if (!first->message.offered)
        return peer->used->try_send(first->message, &first->progress);
    void *cookie = std::exchange(first->cookie, nullptr);
    if (pm::Offering *offering = peer->used->channel->offering.get()) {
        pm::Status status = offering->offer(peer->used->peer(), first->message, cookie);
        if (status != pm::Status::ok)
            first->cookie = cookie;
        return status;
    }
    first->message.offered = false;
    first->message.payload = {};
    return peer->used->try_send(first->message, &first->progress);
}

enum class Flushed { message, taken, some, nothing, failed };

// Sends of the message `*next` what the device takes, and moves on when others may follow it.
Flushed flush_next(pm_peer *peer, std::list<Waiting>::iterator *next, int *tag, void **cookie)
{
    InsideGateOf inside(peer);
    if (*next == peer->queue.end())
        return Flushed::nothing;
    Waiting &first = **next;
    std::size_t before = first.progress.sent;
    pm::Status status = try_first(peer, &first);
    if (first.progress.started)
        accepted(peer);
    if (status == pm::Status::again && !peer->settled && pm::host_is_silent(peer)) [[unlikely]]
        status = pm::Status::unreachable;
    if (status == pm::Status::again && first.progress.taken) {
        ++*next;
        return Flushed::taken;
    }
    if (status == pm::Status::again)
        return first.progress.sent != before ? Flushed::some : Flushed::nothing;
    if (status != pm::Status::ok)
        return reroute(peer, status) ? Flushed::some : Flushed::failed;
    accepted(peer);
    *tag = first.message.tag;
    *cookie = first.cookie;
    *next = peer->queue.erase(*next);
    return Flushed::message;
}

// Sends from the queue until the device has enough, or all of it. Number of things done, -1 on failure.
int flush(pm_peer *peer)
{
    if (peer->queue.empty())
        return 0;
    auto next = peer->queue.begin();
    for (int done = 0;;) {
        int tag = 0;
        void *cookie = nullptr;
        switch (flush_next(peer, &next, &tag, &cookie)) {
            case Flushed::failed:
                return -1;
            case Flushed::nothing:
                return done;
            case Flushed::some:
                return done + 1;
            case Flushed::taken:
                break;
            case Flushed::message:
                ++done;
                if (cookie != nullptr)
                    peer->core->handlers[static_cast<std::uint8_t>(tag)].sent(cookie);  // may send again
        }
    }
}

// Messages that were accepted may still wait for what their receivers owe to others.
bool is_needed(const pm_peer *peer)
{
    return !peer->queue.empty() || (peer->users == 0 && peer->core->owes != nullptr && peer->core->owes() != 0);
}

bool unlist_if_empty(pm_core *core, std::size_t i)
{
    pm_peer *peer = core->queued[i];
    InsideGateOf inside(peer);
    if (is_needed(peer))
        return false;
    std::lock_guard lock(core->queued_lock);
    peer->listed = false;
    core->queued[i] = core->queued.back();
    core->queued.pop_back();
    core->any_queued.store(!core->queued.empty(), std::memory_order_relaxed);
    return true;
}

}  // namespace

// With the gate of its device taken.
void pm::list(pm_peer *peer)
{
    if (peer->listed)
        return;
    pm_core *core = peer->core;
    std::lock_guard lock(core->queued_lock);
    core->queued.push_back(peer);
    core->any_queued.store(true, std::memory_order_relaxed);
    peer->listed = true;
}

int pm::flush_all(pm_core *core)
{
    int done = 0;
    for (std::size_t i = 0;;) {
        pm_peer *peer;
        {
            std::lock_guard lock(core->queued_lock);
            if (i >= core->queued.size())
                return done;
            peer = core->queued[i];
        }
        int count = flush(peer);
        if (count < 0) {
            if (peer->users > 0)
                return -1;
            peer->queue.clear();  // nobody waits for it
            count = 0;
        }
        done += count;
        bool unlisted = unlist_if_empty(core, i);
        if (unlisted && peer->users == 0)
            part(peer);
        i += !unlisted;
    }
}

extern "C" {

size_t pm_largest_header(const pm_core *core)
{
    std::size_t largest = SIZE_MAX;
    for (const auto &channel : core->links.channels)
        largest = std::min(largest, channel->capabilities.largest_header);
    return largest;
}

int pm_send(pm_peer *peer, int tag, const void *header, size_t header_size, const void *data, size_t size, void *cookie)
{
    pm::Message message{static_cast<std::uint8_t>(tag), header, header_size, {data, size, nullptr, nullptr}};
    return send(peer, message, cookie);
}

int pm_send_packed(pm_peer *peer, int tag, const void *header, size_t header_size, pm_pack pack, void *context, size_t size,
                   void *cookie)
{
    pm::Message message{static_cast<std::uint8_t>(tag), header, header_size, {nullptr, size, pack, context}};
    return send(peer, message, cookie);
}

int pm_send_now(pm_peer *peer, int tag, const void *header, size_t header_size, const void *data, size_t size)
{
    if (header_size == pm::short_header && !peer->core->threads && peer->queue.empty()) [[likely]]
        return send_short_now(peer, peer->used.alone(), tag, header, data, size);
    if (header_size == pm::short_header && peer->core->threads)
        return send_short_now_inside_gate(peer, tag, header, data, size);
    pm::Message message{static_cast<std::uint8_t>(tag), header, header_size, {data, size, nullptr, nullptr}};
    if (peer->core->threads) [[unlikely]]
        return send_now_inside_gate(peer, message);
    return send_now(peer, message);
}

int pm_goes_ungranted(pm_peer *peer, size_t size)
{
    if (size > PM_UNGRANTED_LIMIT || peer->ungranted.load(std::memory_order_relaxed) + size > PM_UNGRANTED_ALL)
        return 0;
    InsideGateOf inside(peer);
    if (size > peer->used->channel->ungranted_limit(peer->used->peer()))
        return 0;
    peer->ungranted.fetch_add(size, std::memory_order_relaxed);
    return 1;
}

int pm_sends_queued(pm_core *core)
{
    {
        // Peers that are to be given back are listed, too.
        std::lock_guard lock(core->queued_lock);
        if (std::ranges::any_of(core->queued, [](const pm_peer *peer) { return !peer->queue.empty(); }))
            return 1;
    }
    return std::ranges::any_of(core->links.channels, [](const auto &channel) { return !channel->idle(); });
}

int pm_can_offer(const pm_peer *peer)
{
    return peer->used->channel->offering != nullptr;
}

int pm_offer(pm_peer *peer, int tag, const void *header, size_t header_size, const void *data, size_t size, void *cookie)
{
    pm::Message message{static_cast<std::uint8_t>(tag), header, header_size, {data, size, nullptr, nullptr}, true};
    return offer(peer, message, cookie);
}

void pm_take(void *offer, void *place, void *cookie)
{
    static_cast<pm::Offer *>(offer)->take(place, cookie);
}

}  // extern "C"
