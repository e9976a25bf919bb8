// Sending, receiving and waiting behind the C interface of core.h.
//
// A message the device cannot take now waits in its peer's queue, and later messages to that peer wait behind it, so that
// the order of a pair is kept. Peers with a queue are in one list; progress tries each of them once.
#include "netmod/composite/core.h"

#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/process.h"
#include "base/time.h"
#include "netmod/composite/heap.h"
#include "netmod/composite/nearby.h"
#include "netmod/composite/setup.h"
#include "netmod/composite/state.h"

pm::Core *pm::core;

namespace {

using pm::core;
using pm::Core;
using pm::DeviceKind;
using pm::failed;
using pm::reroute;
using pm::SendTurn;
using pm::Turns;
using pm::Waiting;

thread_local std::string error_text;

// Several threads may wait: each counts for itself.
thread_local std::uint32_t idle_polls;
thread_local bool in_background;
thread_local std::uint32_t polls_seen;
std::atomic<std::uint32_t> foreground_polls;  // by threads that are not; some may be missed
std::atomic<bool> look_everywhere;  // after a sleep
thread_local std::uint32_t empty_polls;  // outside of a wait

// A program may poll by itself (MPI_Test in a loop). With more ranks than cores it would keep those it waits for from running.
constexpr std::uint32_t empty_polls_before_yield = 20;

// Made by the first who needs it, after start-up has connected all ranks of the job: every rank of a host comes to the same
// answer, because all have the same cards. It stays, since collectives choose their algorithm by it.
void plan()
{
    // [W1] a thread that sees it made sees what it holds; pairs with [W2]. Start-up is one thread.
    if (core->planned.load(std::memory_order_acquire)) [[likely]]
        return;
    std::vector<pm::CoreGrant> grants;
    for (const auto &[id, peer] : core->peers)
        if (peer->kind == DeviceKind::shmem)
            grants.push_back(peer->shmem->card.grant);
    int cores = grants.empty() ? pm::available_cores() : pm::cores_of_all(grants);
    core->oversubscribed = pm::oversubscribed(core->ranks_on_host, cores);
    core->wait_plan = pm::make_wait_plan(core->wait_mode, core->ranks_on_host, cores);
    core->background_plan = pm::make_wait_plan(core->background_mode, core->ranks_on_host, cores);
    core->prefer_pull = core->rendezvous == pm::Rendezvous::pull ||
                        (core->rendezvous == pm::Rendezvous::automatic && core->oversubscribed);
    core->planned.store(true, std::memory_order_release);  // [W2]
}

// ---- receiving ----

template <std::size_t place>
void *sink_arrived(std::uint8_t tag, void *header, void *piece, std::size_t piece_size, std::size_t total)
{
    core->messages_received[place]++;
    core->bytes_received[place] += total;
    return core->arrived(tag, header, piece, piece_size, total);
}

template <std::size_t place>
void sink_offered(std::uint8_t tag, void *header, void *offer, std::size_t total)
{
    core->messages_received[place]++;
    core->bytes_received[place] += total;
    core->offered(tag, header, offer);
}

template <std::size_t... places>
void make_sinks(pm::Sink (&sinks)[pm::places_max], const pm_setup &setup, std::index_sequence<places...>)
{
    ((sinks[places] = {sink_arrived<places>, setup.more, setup.place, setup.placed, sink_offered<places>, setup.sent}), ...);
    sinks[pm::shmem_place] = {sink_arrived<pm::shmem_place>, setup.more};
}

// While SHMEM is speaking, a device that costs a system call waits for its turn; after some polls in which nobody spoke, each
// has one every time. A device nobody here is reached by is only asked for those who come by themselves.
// How many polls of SHMEM it takes the time of, and how many yields.
constexpr std::uint32_t network_poll_weight = 50, network_yield_weight = 4;
constexpr std::uint32_t polls_between_idle = 1 << 16;  // of a rank that does not sleep
constexpr std::uint32_t quiet_before_all = 64, busy_interval = 1024, alone_interval = 4096;

bool has_turn(Turns *turns)
{
    std::uint32_t interval = !turns->has_peers                       ? alone_interval
                             : core->quiet_polls < quiet_before_all ? busy_interval
                                                                     : 1;
    if (++turns->skipped < interval) [[likely]]
        return false;
    turns->skipped = 0;
    return true;
}

// Polls one device; -1 when a peer of it is lost.
template <class Device>
int poll_device(Device &device)
{
    auto done = static_cast<int>(device.poll());
    if (const pm::Error *failure = device.failure()) [[unlikely]] {
        failed(*failure);
        return -1;
    }
    return done;
}

// To sleep in the middle of a long message costs more than to wait for its next bytes, on a core of our own.
bool is_transferring(const pm::ucx::Ucx &device)
{
    return core->wait_plan.polls > network_poll_weight && device.transferring();
}
bool is_transferring(const pm::udp::Udp &)
{
    return false;
}

int poll_networks(bool all)
{
    int done = 0;
    auto look = [&](std::size_t place, auto &device) {
        Turns &turns = core->turns[place];
        if (done < 0 || !(has_turn(&turns) || all))
            return;
        if (!is_transferring(device))
            idle_polls += idle_polls < core->wait_plan.polls ? network_poll_weight : network_yield_weight;
        int count = poll_device(device);
        // Whoever speaks is asked again at once.
        if (count > 0)
            turns.skipped = busy_interval;
        done = count < 0 ? count : done + count;
    };
    if (core->links.udp != nullptr)
        look(pm::udp_place, *core->links.udp);
    for (std::size_t i = 0; i < core->links.ucx.size(); ++i)
        look(pm::first_ucx_place + i, *core->links.ucx[i].device);
    return done;
}

// It asks the kernel, so not after every sleep: they are short while all goes well.
void look_after_others()
{
    constexpr pm::Time interval = std::chrono::milliseconds(10);
    if (pm::Time now = pm::clock_now(); now - core->looked >= interval) {
        core->looked = now;
        core->idle();
    }
}

int poll_devices()
{
    if (core->gave_up) [[unlikely]] {
        failed(core->gave_up);
        return -1;
    }
    int done = core->links.shmem != nullptr ? static_cast<int>(core->links.shmem->poll()) : 0;
    bool all = false;
    if (look_everywhere.load(std::memory_order_relaxed)) [[unlikely]] {
        look_everywhere.store(false, std::memory_order_relaxed);
        all = true;
    }
    int by_networks = poll_networks(all);
    if (by_networks < 0)
        return -1;
    done += by_networks;
    core->quiet_polls = done > 0 ? 0 : core->quiet_polls + 1;
    if (core->idle != nullptr && (all || ++core->polls % polls_between_idle == 0)) [[unlikely]]
        look_after_others();
    if (!core->links.ucx.empty()) {
        if (done > 0)
            core->watch.noise();
        else if (core->quiet_polls > quiet_before_all)
            pm::watch_hosts();
    }
    return done;
}

// ---- sending ----

// The device of the peer, without a virtual call: there are few, and SHMEM is the one that counts nanoseconds.
pm::Status try_send(pm_peer *peer, const pm::Message &message, pm::SendProgress *progress)
{
    if (peer->kind == DeviceKind::shmem) [[likely]]
        return core->links.shmem->try_send(peer->shmem, message, progress);
    return peer->kind == DeviceKind::udp ? core->links.udp->try_send(peer->udp, message, progress)
                                         : peer->ucx_device->try_send(peer->ucx, message, progress);
}

void list(pm_peer *peer)
{
    if (peer->listed)
        return;
    std::lock_guard lock(core->queued_lock);
    core->queued.push_back(peer);
    core->any_queued.store(true, std::memory_order_relaxed);
    peer->listed = true;
}

void queue(pm_peer *peer, const pm::Message &message, const pm::SendProgress &progress, void *cookie)
{
    Waiting waiting{std::make_unique<std::byte[]>(message.header_size), message, progress, cookie};
    message.copy_header_to(waiting.header.get());
    waiting.message.header = waiting.header.get();
    peer->queue.push_back(std::move(waiting));
    list(peer);
}

int send(pm_peer *peer, const pm::Message &message, void *cookie)
{
    SendTurn turn(peer);
    pm::SendProgress progress;
    pm::Status status = pm::Status::again;
    peer->messages++;
    peer->bytes += message.payload.size;
    if (peer->queue.empty()) [[likely]] {
        status = try_send(peer, message, &progress);
        if (status == pm::Status::ok) [[likely]] {
            peer->accepted = true;
            return PM_OK;
        }
        // Over another network, perhaps: flush() knows.
        if (status != pm::Status::again && (peer->accepted || peer->kind == DeviceKind::shmem))
            return failed(pm::error_of(peer));
    }
    queue(peer, message, progress, cookie);
    return PM_QUEUED;
}

int offer(pm_peer *peer, const pm::Message &message, void *cookie)
{
    SendTurn turn(peer);
    peer->messages++;
    peer->bytes += message.payload.size;
    if (peer->queue.empty()) {
        pm::Status status = peer->ucx_device->offer(peer->ucx, message, cookie);
        if (status == pm::Status::ok) {
            peer->accepted = true;
            return PM_QUEUED;
        }
        if (status != pm::Status::again && peer->accepted)
            return failed(pm::error_of(peer));
    }
    queue(peer, message, {}, cookie);
    return PM_QUEUED;
}

// What waits in the queue. An offer whose peer is reached by another device now is only announced.
pm::Status try_first(pm_peer *peer, Waiting *first)
{
    if (!first->message.offered)
        return try_send(peer, first->message, &first->progress);
    void *cookie = std::exchange(first->cookie, nullptr);
    if (peer->kind == DeviceKind::ucx) {
        pm::Status status = peer->ucx_device->offer(peer->ucx, first->message, cookie);
        if (status != pm::Status::ok)
            first->cookie = cookie;
        return status;
    }
    first->message.offered = false;
    first->message.payload = {};
    return try_send(peer, first->message, &first->progress);
}

enum class Flushed { message, some, nothing, failed };

// Sends of the first message in the queue what the device takes.
Flushed flush_first(pm_peer *peer, void **cookie)
{
    SendTurn turn(peer);
    Waiting &first = peer->queue.front();
    std::size_t before = first.progress.sent;
    pm::Status status = try_first(peer, &first);
    peer->accepted |= first.progress.started;
    if (status == pm::Status::again && !peer->accepted && pm::host_is_silent(peer)) [[unlikely]]
        status = pm::Status::unreachable;
    if (status == pm::Status::again)
        return first.progress.sent != before ? Flushed::some : Flushed::nothing;
    if (status != pm::Status::ok)
        return reroute(peer, status) ? Flushed::some : Flushed::failed;
    peer->accepted = true;
    *cookie = first.cookie;
    peer->queue.pop_front();
    return Flushed::message;
}

// Sends from the queue until the device has enough or the queue is empty. Number of things done, -1 on failure.
int flush(pm_peer *peer)
{
    for (int done = 0;; ++done) {
        void *cookie = nullptr;
        if (peer->queue.empty())
            return done;
        switch (flush_first(peer, &cookie)) {
            case Flushed::failed:
                return -1;
            case Flushed::nothing:
                return done;
            case Flushed::some:
                return done + 1;
            case Flushed::message:
                if (cookie != nullptr)
                    core->sent(cookie);  // may send again
        }
    }
}

bool unlist_if_empty(std::size_t i)
{
    pm_peer *peer = core->queued[i];
    SendTurn turn(peer);
    if (!peer->queue.empty())
        return false;
    std::lock_guard lock(core->queued_lock);
    peer->listed = false;
    core->queued[i] = core->queued.back();
    core->queued.pop_back();
    core->any_queued.store(!core->queued.empty(), std::memory_order_relaxed);
    return true;
}

int flush_all()
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
        if (count < 0)
            return -1;
        done += count;
        i += !unlist_if_empty(i);
    }
}

}  // namespace

void pm::tell_missing()
{
    if (core->card.process != 0 || std::exchange(core->missing_told, true))
        return;
    for (const std::string &missing : core->links.missing)
        std::fprintf(stderr, "composite: on host %s: %s\n", core->card.host.c_str(), missing.c_str());
}

int pm::failed(const Error &error)
{
    error_text = error.text;
    return PM_FAILED;
}

extern "C" {

const char *pm_error_text(void)
{
    return error_text.c_str();
}

// Of the first variable that is wrong.
static std::string environment_error;

void pm_check_environment(void)
{
    environment_error.clear();
    std::vector<std::string> wrong;
    for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry)
        if (pm::Error error = pm::check_variable(*entry)) {
            if (wrong.empty())
                environment_error = error.text;
            wrong.push_back(std::string(*entry).substr(0, std::string_view(*entry).find('=')));
        }
    for (const std::string &name : wrong)
        unsetenv(name.c_str());
}

int pm_open(const pm_setup *setup)
{
    if (!environment_error.empty())
        return failed({pm::Status::invalid, environment_error});
    auto opening = std::make_unique<Core>();
    auto mode = pm::parse_wait_mode(setup->wait);
    if (!mode.ok())
        return failed(mode.error());
    auto background_mode = pm::parse_wait_mode(setup->background_wait, "MPIR_CVAR_CH4_COMPOSITE_PROGRESS_WAIT");
    if (!background_mode.ok())
        return failed(background_mode.error());
    auto rendezvous = pm::parse_rendezvous(setup->rendezvous);
    if (!rendezvous.ok())
        return failed(rendezvous.error());
    for (const pm::Error &error : {pm::check_priority(setup->priority), pm::check_routes(setup->routes)})
        if (error)
            return failed(error);
    pm::Sink sinks[pm::places_max];
    make_sinks(sinks, *setup, std::make_index_sequence<pm::places_max>());
    auto links = pm::open_links(*setup, sinks);
    if (!links.ok())
        return failed(links.error());

    opening->links = std::move(links.value());
    opening->card = opening->links.card(static_cast<std::uint32_t>(setup->process));
    opening->wait_mode = mode.value();
    opening->background_mode = background_mode.value();
    opening->rendezvous = rendezvous.value();
    opening->ranks_on_host = setup->ranks_on_host;
    opening->silence_limit = setup->udp_silence_limit > 0
                                 ? std::chrono::milliseconds(static_cast<long>(std::ceil(setup->udp_silence_limit * 1000)))
                                 : pm::never;
    opening->arrived = setup->arrived;
    opening->offered = setup->offered;
    opening->sent = setup->sent;
    opening->idle = setup->idle;
    opening->has_news = setup->has_news;
    core = opening.release();
    // Where the user chose, a choice that did not come true is worth a line.
    if (std::string_view(setup->devices) != "auto" || std::string_view(setup->networks) != "auto")
        pm::tell_missing();
    return PM_OK;
}

void pm_allow_threads(void)
{
    core->threads = true;
}

void pm_close(void)
{
    for (auto &[id, peer] : core->peers)
        pm::disconnect(*peer);
    for (auto &peer : core->measured)
        pm::disconnect(*peer);
    delete core;
    core = nullptr;
}

size_t pm_largest_header(void)
{
    std::size_t largest = core->links.shmem != nullptr ? core->links.shmem->capabilities().largest_header : SIZE_MAX;
    if (core->links.udp != nullptr)
        largest = std::min(largest, pm::udp::Udp::largest_header);
    if (!core->links.ucx.empty())
        largest = std::min(largest, pm::ucx::Ucx::largest_header);
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
    static_assert(PM_SEND_NOW_LIMIT <= pm::shmem::whole_piece && PM_SEND_NOW_LIMIT <= pm::udp::Udp::whole_limit &&
                  PM_SEND_NOW_LIMIT <= pm::ucx::Ucx::whole_limit);
    pm::Message message{static_cast<std::uint8_t>(tag), header, header_size, {data, size, nullptr, nullptr}};
    SendTurn turn(peer);
    if (!peer->queue.empty()) [[unlikely]]
        return 0;
    bool taken = peer->kind == DeviceKind::shmem ? core->links.shmem->try_send_whole(peer->shmem, message)
                 : peer->kind == DeviceKind::udp ? core->links.udp->try_send_whole(peer->udp, message)
                                                 : peer->ucx_device->try_send_whole(peer->ucx, message);
    if (!taken) [[unlikely]]
        return 0;
    peer->accepted = true;
    peer->messages++;
    peer->bytes += size;
    return 1;
}

int pm_progress(void)
{
    if (core->polling) [[unlikely]]
        return 0;  // from within an upcall
    core->polling = true;
    if (!in_background)
        foreground_polls.store(foreground_polls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    int done = poll_devices();
    if (core->any_queued.load(std::memory_order_relaxed) && done >= 0) [[unlikely]] {
        int flushed = flush_all();
        done = flushed < 0 ? -1 : done + flushed;
    }
    core->polling = false;
    if (done != 0) {
        idle_polls = 0;
        empty_polls = 0;
    } else if (core->oversubscribed && ++empty_polls > empty_polls_before_yield) {
        sched_yield();
    }
    return done;
}

int pm_sends_queued(void)
{
    if (core->any_queued.load(std::memory_order_relaxed))
        return 1;
    if (core->turns[pm::udp_place].has_peers && !core->links.udp->idle())
        return 1;
    return std::ranges::any_of(core->links.ucx, [](const auto &link) { return !link.device->idle(); });
}

int pm_must_linger(void)
{
    return core->network_peers;
}

int pm_can_offer(const pm_peer *peer)
{
    return peer->kind == DeviceKind::ucx;
}

int pm_offer(pm_peer *peer, int tag, const void *header, size_t header_size, const void *data, size_t size, void *cookie)
{
    pm::Message message{static_cast<std::uint8_t>(tag), header, header_size, {data, size, nullptr, nullptr}, true};
    return offer(peer, message, cookie);
}

void pm_take(void *offer, void *place, void *cookie)
{
    pm::ucx::Ucx::take(offer, place, cookie);
}

int pm_prefers_pull(const pm_peer *peer)
{
    plan();
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

int pm_wait_step(void)
{
    plan();
    empty_polls = 0;
    const pm::WaitPlan &own = in_background ? core->background_plan : core->wait_plan;
    switch (own.action(idle_polls++)) {
        case pm::WaitAction::poll:
            return 0;
        case pm::WaitAction::yield:
            sched_yield();
            return 0;
        case pm::WaitAction::sleep:
            break;
    }
    return 1;
}

int pm_wait_in_background(void)
{
    using namespace std::chrono_literals;
    in_background = true;
    plan();
    std::uint32_t polls = foreground_polls.load(std::memory_order_relaxed);
    if (polls == std::exchange(polls_seen, polls) || core->background_mode != pm::WaitMode::sleep)
        return 0;
    std::this_thread::sleep_for(500us);
    return 1;
}

void pm_wait_restart(void)
{
    idle_polls = 0;
}

int pm_wait_arm(void)
{
    if (core->links.shmem != nullptr && !core->links.shmem->arm())
        return 0;
    if (core->turns[pm::udp_place].has_peers && !core->links.udp->arm())
        return 0;
    for (std::size_t i = 0; i < core->links.ucx.size(); ++i)
        if (core->turns[pm::first_ucx_place + i].has_peers && !core->links.ucx[i].device->arm())
            return 0;
    // [W4] from here on whoever changes something sees that we sleep; pairs with [W3] in pm_nudge.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // With more threads sleeps are short, and what they would look at changes.
    return core->threads || core->has_news == nullptr || !core->has_news();
}

void pm_wait_sleep(int nap)
{
    using namespace std::chrono_literals;
    // Nobody rings when room for a queued message appears. Otherwise the limit only bounds what a lost doorbell could cost.
    bool brief = nap != 0 || core->any_queued.load(std::memory_order_relaxed);
    std::chrono::nanoseconds limit = brief ? 500us : 100ms;
    if (!core->network_peers && core->links.shmem != nullptr) {
        core->links.shmem->sleep(limit);
    } else {
        pollfd entries[1 + pm::places_max];
        nfds_t count = 0;
        if (core->shmem_descriptor >= 0)
            entries[count++] = {core->shmem_descriptor, POLLIN, 0};
        if (core->links.shmem != nullptr && (core->shmem_descriptor < 0 || core->links.shmem->not_woken()))
            limit = std::min<std::chrono::nanoseconds>(limit, 500us);  // it cannot wake us here
        if (core->turns[pm::udp_place].has_peers) {
            limit = std::min(limit, core->links.udp->sleep_limit());
            entries[count++] = {core->links.udp->descriptor(), POLLIN, 0};
        }
        for (std::size_t i = 0; i < core->links.ucx.size(); ++i)
            if (core->turns[pm::first_ucx_place + i].has_peers)
                entries[count++] = {core->links.ucx[i].device->descriptor(), POLLIN, 0};
        timespec time = pm::to_timespec(limit);
        if (ppoll(entries, count, &time, nullptr) > 0 && core->shmem_descriptor >= 0 && entries[0].revents != 0)
            core->links.shmem->empty_descriptor();
    }
    look_everywhere.store(true, std::memory_order_relaxed);
}

void pm_wait_disarm(void)
{
    if (core->links.shmem != nullptr)
        core->links.shmem->disarm();
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

void pm_give_up(const char *text)
{
    if (!core->gave_up)
        core->gave_up = {pm::Status::failed, text};
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

int pm_crowded(void)
{
    plan();
    return core->oversubscribed;
}

}  // extern "C"
