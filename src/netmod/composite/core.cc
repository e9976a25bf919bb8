// The composite device behind the C interface of core.h: peers, their queues of unsent messages, waiting and counters.
//
// A message the device cannot take now waits in its peer's queue, and later messages to that peer wait behind it, so that
// the order of a pair is kept. Peers with a queue are in one list; progress tries each of them once.
#include "netmod/composite/core.h"
#include "netmod/composite/heap.h"

#include <sched.h>

#include <atomic>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "base/wait.h"
#include "netmod/composite/settings.h"
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
    pm::shmem::Shmem::Peer *shmem = nullptr;
    std::vector<std::byte> card;
    std::deque<Waiting> queue;
    bool listed = false;  // in Core::queued
};

namespace {

struct Core {
    std::unique_ptr<pm::shmem::Shmem> shmem;
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
    pm_traffic traffic{};
};

Core *core;
std::string error_text;

// Several threads may wait: each counts for itself.
thread_local std::uint32_t idle_polls;
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
        grants.push_back(peer->shmem->card.grant);
    int cores = pm::cores_of_all(grants);
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

void *sink_arrived(std::uint8_t tag, void *header, void *piece, std::size_t piece_size, std::size_t total)
{
    core->traffic.messages_received++;
    core->traffic.bytes_received += total;
    return core->arrived(tag, header, piece, piece_size, total);
}

void sink_more(void *cookie, void *piece, std::size_t piece_size)
{
    core->more(cookie, piece, piece_size);
}

int send(pm_peer *peer, const pm::Message &message, void *cookie)
{
    pm::SendProgress progress;
    pm::Status status = pm::Status::again;
    core->traffic.messages_sent++;
    core->traffic.bytes_sent += message.payload.size;
    if (peer->queue.empty()) [[likely]] {
        status = core->shmem->try_send(peer->shmem, message, &progress);
        if (status == pm::Status::ok) [[likely]]
            return PM_OK;
        if (status != pm::Status::again)
            return failed(peer->shmem->error);
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
        pm::Status status = core->shmem->try_send(peer->shmem, first.message, &first.progress);
        if (status == pm::Status::again)
            return done;
        if (status != pm::Status::ok) {
            failed(peer->shmem->error);
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
    auto shmem = pm::shmem::Shmem::create(settings, {sink_arrived, sink_more});
    if (!shmem.ok())
        return failed(shmem.error());
    opening->shmem = std::move(shmem.value());
    opening->traffic.device = opening->shmem->name();
    core = opening.release();
    return PM_OK;
}

void pm_close(void)
{
    for (auto &[card, peer] : core->peers)
        core->shmem->disconnect(peer->shmem);
    delete core;
    core = nullptr;
}

const char *pm_error_text(void)
{
    return error_text.c_str();
}

size_t pm_card(void *card)
{
    static_assert(PM_CARD_MAX == pm::max_card_size);
    return core->shmem->write_card(card);
}

pm_peer *pm_connect(const void *card, size_t size)
{
    auto bytes = static_cast<const std::byte *>(card);
    std::vector<std::byte> key(bytes, bytes + size);
    if (auto found = core->peers.find(key); found != core->peers.end())
        return found->second.get();
    auto connected = core->shmem->connect(card, size);
    if (!connected.ok()) {
        failed(connected.error());
        return nullptr;
    }
    auto peer = std::make_unique<pm_peer>();
    peer->shmem = connected.value();
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
    return core->shmem->capabilities().largest_header;
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
    static_assert(PM_SEND_NOW_LIMIT <= pm::shmem::whole_piece);
    pm::Message message{static_cast<std::uint8_t>(tag), header, header_size, {data, size, nullptr, nullptr}};
    if (!peer->queue.empty() || !core->shmem->try_send_whole(peer->shmem, message)) [[unlikely]]
        return 0;
    core->traffic.messages_sent++;
    core->traffic.bytes_sent += size;
    return 1;
}

int pm_progress(void)
{
    if (core->polling) [[unlikely]]
        return 0;  // from within an upcall
    core->polling = true;
    int done = static_cast<int>(core->shmem->poll());
    if (!core->queued.empty()) [[unlikely]] {
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
    return !core->queued.empty();
}

int pm_prefers_pull(const pm_peer *peer)
{
    plan();
    return core->prefer_pull && core->shmem->peer_can_pull(peer->shmem);
}

int pm_pull(const pm_peer *peer, uint64_t address, const struct iovec *pieces, size_t count)
{
    if (!core->shmem->pull(peer->shmem, address, pieces, count)) {
        error_text = "shmem: the memory of a peer on this host could not be read";
        return PM_FAILED;
    }
    core->traffic.pulls++;
    for (size_t i = 0; i < count; ++i)
        core->traffic.bytes_pulled += pieces[i].iov_len;
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
    return core->shmem->arm();
}

void pm_wait_sleep(int nap)
{
    using namespace std::chrono_literals;
    // Nobody rings when room for a queued message appears. Otherwise the limit only bounds what a lost doorbell could cost.
    bool brief = nap != 0 || core->any_queued.load(std::memory_order_relaxed);
    core->shmem->sleep(brief ? std::chrono::nanoseconds(500us) : std::chrono::nanoseconds(100ms));
}

void pm_wait_disarm(void)
{
    core->shmem->disarm();
}

void *pm_shared_alloc(size_t size)
{
    static_assert(PM_SHARED_LIMIT == pm::shmem::heap_block);
    return core->shmem->allocate_shared(size);
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

void pm_get_traffic(pm_traffic *traffic)
{
    *traffic = core->traffic;
    traffic->memory = core->shmem->memory_in_use();
}

}  // extern "C"
