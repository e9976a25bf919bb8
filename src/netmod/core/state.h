// The state of the composite device, shared by the files of this folder that implement core.h and its neighbours. Not for
// others.
//
// Locks. The caller's lock protects receiving and everything that is not named here. What a send needs is protected by the gate
// of the peer's device: its queue, its counters, the sending half of the device. The list of queued peers has a lock of its own.
// Order: the caller's lock, a gate, the list. Upcalls are never made with the gate of SHMEM taken; those of UDP and UCX are
// taken while they poll, and only one thread polls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/gate.h"
#include "base/time.h"
#include "base/wait.h"
#include "netmod/routing/card.h"
#include "netmod/core/core.h"
#include "netmod/core/failed.h"
#include "netmod/core/links.h"
#include "netmod/core/probe.h"
#include "netmod/routing/settings.h"
#include "netmod/core/watch.h"
#include "pm/device.h"

namespace pm {

// A message in the queue; the header is ours, the payload the caller's.
struct Waiting {
    std::unique_ptr<std::byte[]> header;
    Message message;
    SendProgress progress;
    void *cookie;
};

// How a peer is reached.
struct Connection {
    DeviceKind kind = DeviceKind::shmem;
    std::uint8_t place = 0;  // of the device in tables
    union {
        shmem::Shmem::Peer *shmem = nullptr;
        udp::Udp::Peer *udp;
        ucx::Ucx::Peer *ucx;
    };
    ucx::Ucx *ucx_device = nullptr;
    std::string network;  // empty for SHMEM
};

}  // namespace pm

struct pm_peer : pm::Connection {
    bool accepted = false;  // a message was: the device reaches it, and another one would break the order
    bool listed = false;    // in Core::queued
    std::uint64_t messages = 0, bytes = 0;  // sent
    std::deque<pm::Waiting> queue;

    // Known from its card.
    std::vector<std::byte> card_bytes;
    pm::Card card;
    std::unique_ptr<pm::Probe> probe;   // while the first message waits for an answer
    std::vector<std::uint64_t> closed;  // networks that turned out not to lead there
};

namespace pm {

// When a device is polled. SHMEM is looked at each time; the others cost a system call.
struct Turns {
    bool has_peers = false;
    std::uint32_t skipped = 0;
};

struct Core {
    Links links;
    bool missing_told = false;
    Card card;
    std::array<Turns, places_max> turns;
    std::array<std::uint64_t, places_max> messages_received{}, bytes_received{};
    std::uint64_t pulls = 0, bytes_pulled = 0;
    Error gave_up;  // why nothing goes on any more
    std::uint32_t polls = 0;
    std::uint32_t quiet_polls = 0;  // in a row that delivered nothing
    bool network_peers = false;
    Watch watch;         // of the hosts that UCX reaches
    Time silence_limit{};
    int shmem_descriptor = -1;  // to sleep on, once there are peers on other devices
    std::map<std::uint64_t, std::unique_ptr<pm_peer>> peers;  // by the id of their cards

    std::map<std::uint64_t, int> priorities;         // of networks that were measured
    std::vector<std::unique_ptr<pm_peer>> measured;  // what they were measured with; a peer takes over what it goes on to use

    bool threads = false;
    Gate shmem_gate;
    std::mutex queued_lock;
    std::vector<pm_peer *> queued;  // peers with a queue
    // For pm_wait_*(), which are called without the lock.
    std::atomic<bool> any_queued{false};
    bool polling = false;

    // Settings, and what follows from them once the ranks of the host are known: see plan().
    WaitMode wait_mode{}, background_mode{};
    Rendezvous rendezvous{};
    int ranks_on_host = 1;
    std::atomic<bool> planned{false};
    bool oversubscribed = false;
    bool prefer_pull = false;
    WaitPlan wait_plan{}, background_plan{};

    void (*sent)(void *cookie) = nullptr;
    void (*idle)() = nullptr;
    Time looked{};  // when idle was called
    int (*has_news)() = nullptr;
    void *(*arrived)(int, void *, void *, size_t, size_t) = nullptr;
    void (*offered)(int, void *, void *) = nullptr;
};

extern Core *core;

// Several threads may wait: each counts for itself.
struct Waiter {
    std::uint32_t idle_polls = 0;   // in a wait
    std::uint32_t empty_polls = 0;  // outside of one
    bool in_background = false;
    std::uint32_t polls_seen = 0;
};
extern constinit thread_local Waiter waiter;
extern std::atomic<std::uint32_t> foreground_polls;  // by threads that are not in the background; some may be missed
extern std::atomic<bool> look_everywhere;            // after a sleep

// In waiting.cc: how ranks of this host wait, which follows from their number and that of the cores.
void make_wait_plans();
// In receiving.cc: where each device delivers.
void make_sinks(Sink (&sinks)[places_max], const pm_setup &setup);
// In sending.cc: what is queued. The number of things done, or -1 on failure.
int flush_all();

// Which devices are not open and why, on standard error, once; one process of each host does it.
void tell_missing();

// The gate of the peer's device, for one send. A process with one thread needs none.
class SendTurn {
  public:
    explicit SendTurn(const pm_peer *peer)
    {
        // The peer's device may change until its first message has left.
        while (core->threads && gate_ != &gate_of(peer)) {
            if (gate_ != nullptr)
                gate_->leave();
            gate_ = &gate_of(peer);
            gate_->enter();
        }
    }
    ~SendTurn()
    {
        if (gate_ != nullptr)
            gate_->leave();
    }
    SendTurn(const SendTurn &) = delete;
    SendTurn &operator=(const SendTurn &) = delete;

  private:
    static Gate &gate_of(const pm_peer *peer)
    {
        return peer->kind == DeviceKind::shmem ? core->shmem_gate
               : peer->kind == DeviceKind::udp ? core->links.udp->gate()
                                               : peer->ucx_device->gate();
    }

    Gate *gate_ = nullptr;
};

// In peers.cc.
const Error &error_of(const pm_peer *peer);
void disconnect(const Connection &connection);
// It has been quiet: whether hosts are still there. Peers whose hosts are not are given up.
void watch_hosts();
// The first message waits for the peer to answer: whether its host does not either, so that another network should be tried.
bool host_is_silent(pm_peer *peer);
// A peer that its network turned out not to lead to is tried over the next one. False when there is none; the words say so.
bool reroute(pm_peer *peer, Status status);

}  // namespace pm
