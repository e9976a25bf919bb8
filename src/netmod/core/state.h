// The state of a composite device, shared by the files of this folder that implement core.h and its neighbours. Not for
// others.
//
// Locks. The caller's lock protects receiving and everything that is not named here. What a send needs is protected by the gate
// of the peer's device: its queue, its counters, the sending half of the device. The list of queued peers has a lock of its own.
// Order: the caller's lock, a gate, the list. Upcalls are never made with a gate that we made for a device which has none (SHMEM);
// the other devices have their own taken while they poll, and only one thread polls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/company.h"
#include "base/gate.h"
#include "base/handed_over.h"
#include "base/probe.h"
#include "base/time.h"
#include "base/wait.h"
#include "netmod/routing/card.h"
#include "netmod/core/core.h"
#include "netmod/core/failed.h"
#include "netmod/core/handlers.h"
#include "netmod/core/links.h"
#include "netmod/routing/settings.h"
#include "netmod/core/watch.h"
#include "pm/device.h"
#include "profile/recorder.h"

namespace pm {

// A message in the queue; the header is ours, the payload the caller's.
struct Waiting {
    std::unique_ptr<std::byte[]> header;
    Message message;
    SendProgress progress;
    void *cookie;
};

// A way to a peer. States: untried (nothing is known), proved (a message was accepted over it, or the device proved it by connecting),
// suspected (the host does not answer there, but no other way is left and waiting may still help), dead (it does not lead there,
// or not any more).
enum class PathState : std::uint8_t { untried, proved, suspected, dead };

struct Path : Connection {
    PathState state = PathState::untried;
    std::uint64_t network_id = 0;  // 0 and no name: within the host
    std::string network;
    profile::Sizes *sizes = nullptr;  // of messages, where they are noted: one of pm_core::sizes
};

// The path that is used: looked at by whoever is about to send, changed by who is inside the gate of the one before.
class UsedPath {
  public:
    UsedPath &operator=(Path *path)
    {
        path_.set(path);
        return *this;
    }
    operator Path *() const { return path_.get(); }
    Path *operator->() const { return *this; }
    // Of a process with one thread.
    Path *alone() const { return path_.alone(); }

  private:
    HandedOver<Path *> path_;
};

}  // namespace pm

struct pm_peer {
    explicit pm_peer(pm_core *of) : core(of) {}

    pm_core *const core;
    std::uint32_t users = 0;   // pm_connect() less pm_release()
    pm::UsedPath used;         // one of `paths`
    bool settled = false;      // the path is proved; another one would break the order
    bool listed = false;       // in pm_core::queued
    std::atomic<std::uint8_t> ahead{0};  // long messages to it, less those that it sent: halved with each of these
    std::atomic<std::size_t> ungranted{0};  // bytes that left without a grant since it was last heard
    pm::Time parted = pm::never;  // when it became one of pm_core::parting
    std::uint64_t messages = 0, bytes = 0;  // sent
    pm::profile::SizeRun run;               // the last of them
    std::list<pm::Waiting> queue;

    // In the order of the rule. Where SHMEM leads there is no other.
    std::vector<std::unique_ptr<pm::Path>> paths;

    // As far as they are counted.
    bool is_stream() const { return ahead.load(std::memory_order_relaxed) == PM_LONG_MESSAGES_AHEAD; }
    // One to it; false: it is a stream.
    bool goes_long()
    {
        if (is_stream())
            return false;
        ahead.store(ahead.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return true;
    }
    void sent_long() { ahead.store(ahead.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed); }

    // Its card; of a job of n processes on a host most of n * n are never read.
    std::uint64_t id = 0;
    std::vector<std::byte> card_bytes;
    bool read_card() const;  // false when it is none
    pm::Card &card() const;
    std::unique_ptr<pm::Probe> probe;  // while the first message waits for an answer

  private:
    mutable std::unique_ptr<pm::Card> card_;
};

// A composite device; what pm_open() answers with.
struct pm_core {
    pm::Links links;
    bool missing_told = false;
    pm::Card card;
    pm::Topology job;  // until pm_clusters() was asked for
    std::vector<std::uint32_t> clusters;  // by rank
    // By tag. Of a tag that nobody has registered every header is too short.
    std::array<pm_handler, PM_TAGS_MAX> handlers = [] {
        std::array<pm_handler, PM_TAGS_MAX> nobody{};
        for (pm_handler &each : nobody)
            each.smallest_header = UINT32_MAX;
        return nobody;
    }();
    // By the number of the channel.
    std::array<std::uint64_t, pm::channels_max> messages_received{}, bytes_received{}, messages_dropped{};
    std::uint64_t pulls = 0, bytes_pulled = 0;
    std::array<std::uint64_t, pm::channels_max> messages_sent{}, bytes_sent{};  // to peers that are gone
    std::map<std::string, pm::profile::Sizes> sizes;  // of messages sent, by device and network, if a profile is made; without the last run to each peer
    pm::Time pulling{};                               // the time that pulls took, if one is
    pm::Error gave_up;  // why nothing goes on any more
    std::uint32_t polls = 0;
    std::uint32_t spares = 0, spared = 0;  // polls that only look at shared memory, before the next whole one: given, and left
    std::uint32_t stands_for = 1;          // polls, of a whole one
    std::atomic<std::uint32_t> foreground_polls{0};  // by threads that are not in the background; some may be missed
    std::atomic<std::uint32_t> polls_seen{0};        // of these, by the thread that is
    std::atomic<bool> look_everywhere{false};        // after a sleep
    std::uint32_t quiet_polls = 0;  // in a row that delivered nothing
    bool has_neighbours = false;     // another process is reached over a channel that is polled each time
    bool sleeps_on_several = false;  // channels, so on their descriptors
    bool must_linger = false;        // there are peers whose devices need our answers
    bool watches = false;            // there are channels that do not find out that a host is gone
    pm::Watch watch;                 // of the hosts that these reach
    pm::Time silence_limit{};
    std::unordered_map<std::uint64_t, std::unique_ptr<pm_peer>> peers;  // by the id of their cards

    std::map<std::uint64_t, int> priorities;         // of networks that were measured
    std::vector<std::unique_ptr<pm_peer>> measured;  // what they were measured with; a peer takes over what it goes on to use
    std::map<std::uint64_t, std::int32_t> pings;     // the last that arrived over each network; those of a later trial may come early

    bool threads = false;
    std::mutex queued_lock;
    std::vector<pm_peer *> queued;  // peers with a queue, and those to be forgotten
    std::vector<pm_peer *> parting;  // nobody uses them, but they may ask again for what our device owes them
    // For pm_wait_*(), which are called without the lock.
    std::atomic<bool> any_queued{false};
    bool polling = false;

    // Settings, and what follows from them once the ranks of the host are known: make_wait_plans().
    pm::WaitMode wait_mode{}, background_mode{};
    pm::Rendezvous rendezvous{};
    int ranks_on_host = 1;
    pm::HandedOver<bool> planned;
    bool oversubscribed = false;
    bool prefer_pull = false, pulls_jointly = false;
    pm::WaitPlan wait_plan{}, background_plan{};

    void (*idle)() = nullptr;
    int (*owes)() = nullptr;
    pm::Time looked{};  // when idle was called
    int (*has_news)() = nullptr;
};

namespace pm {

// Several threads may wait: each counts for itself, whatever core it asks. One that finds something at one of its cores is not idle.
struct Waiter {
    std::uint32_t idle_polls = 0;   // in a wait
    Time first_yield{};             // of it
    std::uint32_t empty_polls = 0;  // outside of one
    bool in_background = false;
    Company company;                // on the core
};
extern constinit thread_local Waiter waiter __attribute__((tls_model("initial-exec")));

// In waiting.cc: how ranks of this host wait, which follows from their number and that of the cores.
void make_wait_plans(pm_core *core);
// In receiving.cc: where each device delivers.
void make_sinks(pm_core *core, Sink (&sinks)[channels_max]);
// In sending.cc: what is queued. The number of things done, or -1 on failure. Peers that nobody uses any more and that have no
// queue are forgotten there.
int flush_all(pm_core *core);
void list(pm_peer *peer);

// Which devices are not open and why, on standard error, once; one process of each host does it.
void tell_missing(pm_core *core);

// The gate of the peer's device, for one send. A process with one thread needs none.
class InsideGateOf {
  public:
    explicit InsideGateOf(const pm_peer *peer)
    {
        // The peer's device may change until its first message has left.
        while (peer->core->threads && gate_ != &gate_of(peer)) {
            if (gate_ != nullptr)
                gate_->leave();
            gate_ = &gate_of(peer);
            gate_->enter();
        }
    }
    ~InsideGateOf()
    {
        if (gate_ != nullptr)
            gate_->leave();
    }
    InsideGateOf(const InsideGateOf &) = delete;
    InsideGateOf &operator=(const InsideGateOf &) = delete;

  private:
    static Gate &gate_of(const pm_peer *peer) { return peer->used->channel->gate(); }

    Gate *gate_ = nullptr;
};

// In profiling.cc, inside the gate of the peer's device, of which a path is: where sizes of messages to this peer are noted, and what is done
// when one that has been counted is not as long as the one before it.
profile::Sizes &sizes_of(pm_peer *peer);
void end_run(pm_peer *peer, std::size_t size);
// In profiling.cc: now and then, whether somebody looks at this process from outside, and what it is told.
void look_at_watchers(pm_core *core);
// In telling.cc: what started this job.
std::string command_of_job();

// In peers.cc: a peer that nobody uses is no more, at once or, where the device needs answers, when there was time for them.
void part(pm_peer *peer);
void forget_parted(pm_core *core, Time now);

// In paths.cc.
// The best path that leads to a new peer becomes the one that is used.
Error reach(pm_peer *peer);
// Over one network and no other.
Error reach_over(pm_peer *peer, const Network &network);
// The first message was accepted: the path stays.
void settle(pm_peer *peer);
// The path that is used does not lead to the peer any more. Its error.
const Error &lost(pm_peer *peer);
// All paths to the peer are given back.
void disconnect(pm_peer *peer);
// Whether both are on this host and always reach each other there: nothing comes another way.
bool is_beside(const pm_peer *peer);
// From now on its messages have this peer as their source, whatever channel they come by; or no peer any more.
void introduce(pm_peer *peer);
void introduce_no_more(pm_peer *peer);
// Now and then: whether hosts are still there. Peers whose hosts are not are given up.
void watch_hosts(pm_core *core);
// The first message waits for the peer to answer: whether its host does not either, so that another network should be tried.
bool host_is_silent(pm_peer *peer);
// A peer that its network turned out not to lead to is tried over the next one. False when there is none; the words say so.
bool reroute(pm_peer *peer, Status status);

}  // namespace pm
