// The composite device behind the C interface of core.h: peers, the device of each, their queues of unsent messages, waiting and
// counters.
//
// A peer on this host is reached over SHMEM, every other one over UDP. A card of the composite is a byte that says which devices
// its owner has, and their cards.
// A message the device cannot take now waits in its peer's queue, and later messages to that peer wait behind it, so that
// the order of a pair is kept. Peers with a queue are in one list; progress tries each of them once.
#include "netmod/composite/core.h"
#include "netmod/composite/heap.h"
#include "netmod/composite/setup.h"

#include <poll.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpus.h"
#include "base/wait.h"
#include "netmod/composite/settings.h"
#include "netmod/udp/udp.h"
#include "shmmod/shmem.h"

namespace {

// A message in the queue; the header is ours, the payload the caller's.
struct Waiting {
    std::unique_ptr<std::byte[]> header;
    pm::Message message;
    pm::SendProgress progress;
    void *cookie;
};

}  // namespace

struct pm_peer {
    // One of them.
    pm::shmem::Shmem::Peer *shmem = nullptr;
    pm::udp::Udp::Peer *udp = nullptr;
    std::vector<std::byte> card;
    std::deque<Waiting> queue;
    bool listed = false;  // in Core::queued
};

namespace {

struct Core {
    std::unique_ptr<pm::shmem::Shmem> shmem;
    std::unique_ptr<pm::udp::Udp> udp;
    pm::Error no_udp;  // why there is none, though it was allowed
    int shmem_descriptor = -1;  // to sleep on, once there are peers on both devices
    bool udp_peers = false;
    std::uint32_t polls_without_udp = 0;
    bool udp_spoke_last = false;
    std::map<std::vector<std::byte>, std::unique_ptr<pm_peer>> peers;
    std::vector<pm_peer *> queued;  // peers with a queue
    // For pm_wait_*(), which are called without the lock.
    std::atomic<bool> any_queued{false};
    bool polling = false;

    // Settings, and what follows from them once the ranks of the host are known: see plan().
    pm::WaitMode wait_mode{};
    pm::Rendezvous rendezvous{};
    int ranks_on_host = 1;
    std::atomic<bool> planned{false};
    bool oversubscribed = false;
    bool prefer_pull = false;
    pm::WaitPlan wait_plan{};

    void (*sent)(void *cookie) = nullptr;
    void *(*arrived)(int, void *, void *, size_t, size_t) = nullptr;
    void (*more)(void *, void *, size_t) = nullptr;
    pm_traffic traffic[2]{};  // shmem, udp
};

enum { over_shmem, over_udp };

Core *core;
std::string error_text;

// Several threads may wait: each counts for itself.
thread_local std::uint32_t idle_polls;
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
    for (const auto &[card, peer] : core->peers)
        if (peer->shmem != nullptr)
            grants.push_back(peer->shmem->card.grant);
    int cores = grants.empty() ? pm::available_cores() : pm::cores_of_all(grants);
    core->oversubscribed = pm::oversubscribed(core->ranks_on_host, cores);
    core->wait_plan = pm::make_wait_plan(core->wait_mode, core->ranks_on_host, cores);
    core->prefer_pull = core->rendezvous == pm::Rendezvous::pull ||
                        (core->rendezvous == pm::Rendezvous::automatic && core->oversubscribed);
    core->planned.store(true, std::memory_order_release);  // [W2]
}

int failed(const pm::Error &error)
{
    error_text = error.text;
    return PM_FAILED;
}

template <int device>
void *sink_arrived(std::uint8_t tag, void *header, void *piece, std::size_t piece_size, std::size_t total)
{
    core->traffic[device].messages_received++;
    core->traffic[device].bytes_received += total;
    return core->arrived(tag, header, piece, piece_size, total);
}

// The device of the peer, without a virtual call: there are few, and SHMEM is the one that counts nanoseconds.
pm::Status try_send(pm_peer *peer, const pm::Message &message, pm::SendProgress *progress)
{
    if (peer->shmem != nullptr) [[likely]]
        return core->shmem->try_send(peer->shmem, message, progress);
    return core->udp->try_send(peer->udp, message, progress);
}

const pm::Error &error_of(const pm_peer *peer)
{
    return peer->shmem != nullptr ? peer->shmem->error : peer->udp->error;
}

void count_sent(const pm_peer *peer, std::size_t size)
{
    pm_traffic &traffic = core->traffic[peer->shmem != nullptr ? over_shmem : over_udp];
    traffic.messages_sent++;
    traffic.bytes_sent += size;
}

int send(pm_peer *peer, const pm::Message &message, void *cookie)
{
    pm::SendProgress progress;
    pm::Status status = pm::Status::again;
    count_sent(peer, message.payload.size);
    if (peer->queue.empty()) [[likely]] {
        status = try_send(peer, message, &progress);
        if (status == pm::Status::ok) [[likely]]
            return PM_OK;
        if (status != pm::Status::again)
            return failed(error_of(peer));
    }
    if (!peer->listed) {
        core->queued.push_back(peer);
        core->any_queued.store(true, std::memory_order_relaxed);
        peer->listed = true;
    }
    Waiting waiting{std::make_unique<std::byte[]>(message.header_size), message, progress, cookie};
    message.copy_header_to(waiting.header.get());
    waiting.message.header = waiting.header.get();
    peer->queue.push_back(std::move(waiting));
    return PM_QUEUED;
}

// Sends from the queue until the device has enough or the queue is empty. Number of messages done, -1 on failure.
int flush(pm_peer *peer)
{
    int done = 0;
    while (!peer->queue.empty()) {
        Waiting &first = peer->queue.front();
        pm::Status status = try_send(peer, first.message, &first.progress);
        if (status == pm::Status::again)
            return done;
        if (status != pm::Status::ok) {
            failed(error_of(peer));
            return -1;
        }
        void *cookie = first.cookie;
        peer->queue.pop_front();
        if (cookie != nullptr)
            core->sent(cookie);  // may send again
        ++done;
    }
    return done;
}

// SHMEM is looked at each time; UDP costs a system call, so when SHMEM has been speaking it has to wait for its turn.
bool udp_has_turn(int done)
{
    std::uint32_t interval = !core->udp_peers ? 256 : core->udp_spoke_last || core->shmem == nullptr ? 1 : 32;
    if (look_everywhere.load(std::memory_order_relaxed)) [[unlikely]] {
        look_everywhere.store(false, std::memory_order_relaxed);
        interval = 1;
    }
    if (done > 0)
        interval = std::max<std::uint32_t>(interval, 16);
    if (++core->polls_without_udp < interval)
        return false;
    core->polls_without_udp = 0;
    return true;
}

int poll_devices()
{
    int done = core->shmem != nullptr ? static_cast<int>(core->shmem->poll()) : 0;
    if (core->udp == nullptr || !udp_has_turn(done)) {
        core->udp_spoke_last &= done == 0;
        return done;
    }
    auto by_udp = static_cast<int>(core->udp->poll());
    core->udp_spoke_last = by_udp > 0 || (core->udp_spoke_last && done == 0);
    if (const pm::Error *failure = core->udp->failure()) [[unlikely]] {
        failed(*failure);
        return -1;
    }
    return done + by_udp;
}

// The part of a composite's card that is the card of one device; empty when the owner does not have it.
std::span<const std::byte> part_of(std::span<const std::byte> card, int device)
{
    if (card.empty())
        return {};
    bool has_shmem = (card[0] & std::byte{1 << over_shmem}) != std::byte{0};
    bool has_udp = (card[0] & std::byte{1 << over_udp}) != std::byte{0};
    std::size_t shmem_size = has_shmem ? sizeof(pm::shmem::Card) : 0;
    if (card.size() < 1 + shmem_size)
        return {};
    if (device == over_shmem)
        return card.subspan(1, shmem_size);
    return has_udp ? card.subspan(1 + shmem_size) : std::span<const std::byte>{};
}

pm::Error connect(pm_peer *peer, std::span<const std::byte> card)
{
    std::string why;
    std::span<const std::byte> shmem = part_of(card, over_shmem), udp = part_of(card, over_udp);
    if (shmem.empty() && udp.empty())
        return {pm::Status::invalid, "a card of " + std::to_string(card.size()) + " bytes that is not one of a process"};
    if (core->shmem != nullptr && !shmem.empty()) {
        auto connected = core->shmem->connect(shmem.data(), shmem.size());
        if (connected.ok()) {
            peer->shmem = connected.value();
            return {};
        }
        why = connected.error().text;
    }
    if (core->udp != nullptr && !udp.empty()) {
        auto connected = core->udp->connect(udp.data(), udp.size());
        if (!connected.ok())
            return connected.error();
        peer->udp = connected.value();
        core->udp_peers = true;
        if (core->shmem != nullptr && core->shmem_descriptor < 0)
            core->shmem_descriptor = core->shmem->open_descriptor();
        return {};
    }
    if (why.empty())
        why = "shmem is not among the devices of both processes (MPIR_CVAR_CH4_COMPOSITE_DEVICES)";
    return {pm::Status::unreachable,
            "no device reaches a peer. " + why + ". " +
                (core->no_udp ? core->no_udp.text
                 : core->udp == nullptr ? "udp is not among this process's devices (MPIR_CVAR_CH4_COMPOSITE_DEVICES)"
                                        : "udp: the peer does not have it; its MPIR_CVAR_CH4_COMPOSITE_DEVICES leaves it out, or "
                                          "its host has no usable address")};
}

int flush_all()
{
    int done = 0;
    for (std::size_t i = 0; i < core->queued.size();) {
        pm_peer *peer = core->queued[i];
        std::size_t before = peer->queue.front().progress.sent;
        int count = flush(peer);
        if (count < 0)
            return -1;
        done += count;
        if (peer->queue.empty()) {
            peer->listed = false;
            core->queued[i] = core->queued.back();
            core->queued.pop_back();
        } else {
            done += count == 0 && peer->queue.front().progress.sent != before;
            ++i;
        }
    }
    core->any_queued.store(!core->queued.empty(), std::memory_order_relaxed);
    return done;
}

}  // namespace

extern "C" {

int pm_open(const pm_setup *setup)
{
    auto opening = std::make_unique<Core>();
    auto devices = pm::parse_devices(setup->devices);
    if (!devices.ok())
        return failed(devices.error());
    auto mode = pm::parse_wait_mode(setup->wait);
    if (!mode.ok())
        return failed(mode.error());
    auto rendezvous = pm::parse_rendezvous(setup->rendezvous);
    if (!rendezvous.ok())
        return failed(rendezvous.error());
    pm::shmem::Settings settings;
    auto backing = pm::shmem::parse_backing(setup->shmem_backing);
    if (!backing.ok())
        return failed(backing.error());
    settings.backing = backing.value();
    settings.ranks_on_host = setup->ranks_on_host;

    opening->wait_mode = mode.value();
    opening->rendezvous = rendezvous.value();
    opening->ranks_on_host = setup->ranks_on_host;
    opening->arrived = setup->arrived;
    opening->more = setup->more;
    opening->sent = setup->sent;
    bool all = std::string_view(setup->devices) == "auto";
    auto wanted = [&](const char *name) { return std::ranges::find(devices.value(), name) != devices.value().end(); };
    if (wanted("shmem")) {
        auto shmem = pm::shmem::Shmem::create(settings, {sink_arrived<over_shmem>, setup->more});
        if (!shmem.ok())
            return failed(shmem.error());
        opening->shmem = std::move(shmem.value());
    }
    if (wanted("udp")) {
        pm::udp::Settings udp_settings{setup->udp_interfaces, setup->udp_ports, setup->udp_guard, setup->udp_recovery,
                                       setup->udp_segmentation,
                                       std::chrono::milliseconds(static_cast<long>(setup->udp_silence_limit * 1000))};
        auto udp = pm::udp::Udp::create(udp_settings, {sink_arrived<over_udp>, setup->more, setup->place, setup->placed});
        if (udp.ok())
            opening->udp = std::move(udp.value());
        else if (all && udp.error().status == pm::Status::unreachable)
            opening->no_udp = udp.error();  // told when a peer needs it
        else
            return failed(udp.error());
    }
    std::strcpy(opening->traffic[over_shmem].device, "shmem");
    std::strcpy(opening->traffic[over_udp].device, "udp");
    core = opening.release();
    return PM_OK;
}

void pm_close(void)
{
    for (auto &[card, peer] : core->peers) {
        if (peer->shmem != nullptr)
            core->shmem->disconnect(peer->shmem);
        else
            core->udp->disconnect(peer->udp);
    }
    delete core;
    core = nullptr;
}

const char *pm_error_text(void)
{
    return error_text.c_str();
}

size_t pm_card(void *card)
{
    static_assert(PM_CARD_MAX >= 1 + sizeof(pm::shmem::Card) + pm::udp::Card::max_size);
    auto bytes = static_cast<std::byte *>(card);
    std::byte *next = bytes + 1;
    bytes[0] = std::byte{0};
    if (core->shmem != nullptr) {
        bytes[0] |= std::byte{1 << over_shmem};
        next += core->shmem->write_card(next);
    }
    if (core->udp != nullptr) {
        bytes[0] |= std::byte{1 << over_udp};
        next += core->udp->write_card(next);
    }
    return static_cast<size_t>(next - bytes);
}

pm_peer *pm_connect(const void *card, size_t size)
{
    auto bytes = static_cast<const std::byte *>(card);
    std::vector<std::byte> key(bytes, bytes + size);
    if (auto found = core->peers.find(key); found != core->peers.end())
        return found->second.get();
    auto peer = std::make_unique<pm_peer>();
    if (pm::Error error = connect(peer.get(), key)) {
        failed(error);
        return nullptr;
    }
    peer->card = key;
    return core->peers.emplace(std::move(key), std::move(peer)).first->second.get();
}

size_t pm_peer_card(const pm_peer *peer, void *card)
{
    std::memcpy(card, peer->card.data(), peer->card.size());
    return peer->card.size();
}

size_t pm_largest_header(void)
{
    return core->udp != nullptr ? pm::udp::Udp::largest_header : core->shmem->capabilities().largest_header;
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
    static_assert(PM_SEND_NOW_LIMIT <= pm::shmem::whole_piece && PM_SEND_NOW_LIMIT <= pm::udp::Udp::whole_limit);
    pm::Message message{static_cast<std::uint8_t>(tag), header, header_size, {data, size, nullptr, nullptr}};
    if (!peer->queue.empty()) [[unlikely]]
        return 0;
    bool taken = peer->shmem != nullptr ? core->shmem->try_send_whole(peer->shmem, message)
                                        : core->udp->try_send_whole(peer->udp, message);
    if (!taken) [[unlikely]]
        return 0;
    count_sent(peer, size);
    return 1;
}

int pm_progress(void)
{
    if (core->polling) [[unlikely]]
        return 0;  // from within an upcall
    core->polling = true;
    int done = poll_devices();
    if (!core->queued.empty() && done >= 0) [[unlikely]] {
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
    return !core->queued.empty() || (core->udp_peers && !core->udp->idle());
}

int pm_must_linger(void)
{
    return core->udp_peers;
}

int pm_prefers_pull(const pm_peer *peer)
{
    plan();
    return core->prefer_pull && peer->shmem != nullptr && core->shmem->peer_can_pull(peer->shmem);
}

int pm_pull(const pm_peer *peer, uint64_t address, const struct iovec *pieces, size_t count)
{
    if (peer->shmem == nullptr || !core->shmem->pull(peer->shmem, address, pieces, count)) {
        error_text = "shmem: the memory of a peer on this host could not be read";
        return PM_FAILED;
    }
    core->traffic[over_shmem].pulls++;
    for (size_t i = 0; i < count; ++i)
        core->traffic[over_shmem].bytes_pulled += pieces[i].iov_len;
    return PM_OK;
}

int pm_wait_step(void)
{
    plan();
    empty_polls = 0;
    switch (core->wait_plan.action(idle_polls++)) {
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

int pm_wait_arm(void)
{
    if (core->shmem != nullptr && !core->shmem->arm())
        return 0;
    return !core->udp_peers || core->udp->arm();
}

void pm_wait_sleep(int nap)
{
    using namespace std::chrono_literals;
    // Nobody rings when room for a queued message appears. Otherwise the limit only bounds what a lost doorbell could cost.
    bool brief = nap != 0 || core->any_queued.load(std::memory_order_relaxed);
    std::chrono::nanoseconds limit = brief ? 500us : 100ms;
    if (!core->udp_peers && core->shmem != nullptr) {
        core->shmem->sleep(limit);
    } else if (core->shmem_descriptor < 0) {
        core->udp->sleep(limit);
    } else {
        limit = std::min(limit, core->udp->sleep_limit());
        pollfd entries[2] = {{core->shmem_descriptor, POLLIN, 0}, {core->udp->descriptor(), POLLIN, 0}};
        timespec time = pm::to_timespec(limit);
        if (ppoll(entries, 2, &time, nullptr) > 0 && entries[0].revents != 0)
            core->shmem->empty_descriptor();
    }
    look_everywhere.store(true, std::memory_order_relaxed);
}

void pm_wait_disarm(void)
{
    if (core->shmem != nullptr)
        core->shmem->disarm();
}

void *pm_shared_alloc(size_t size)
{
    static_assert(PM_SHARED_LIMIT == pm::shmem::heap_block);
    return core->shmem != nullptr ? core->shmem->allocate_shared(size) : nullptr;
}

void pm_shared_free(void *block)
{
    core->shmem->free_shared(block);
}

int pm_crowded(void)
{
    plan();
    return core->oversubscribed;
}

int pm_get_traffic(pm_traffic *traffic)
{
    static_assert(PM_DEVICES_MAX == 2);
    std::copy_n(core->traffic, PM_DEVICES_MAX, traffic);
    if (core->shmem != nullptr)
        traffic[over_shmem].memory = core->shmem->memory_in_use();
    if (core->udp != nullptr) {
        pm::udp::Counters counters = core->udp->counters();
        traffic[over_udp].packets = counters.datagrams_sent;
        traffic[over_udp].packets_again = counters.sent_again;
        traffic[over_udp].packets_alien = counters.alien + counters.malformed;
    }
    return PM_DEVICES_MAX;
}

}  // extern "C"
