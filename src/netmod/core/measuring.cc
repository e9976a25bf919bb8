// Which network is the quickest: two ranks of each send a few messages to and fro, before peers are connected.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <span>

#include "netmod/core/handlers.h"
#include "netmod/core/setup.h"
#include "netmod/core/state.h"
#include "netmod/routing/plan.h"

namespace {

constexpr int rounds = 20;

// Those of the first are odd, those of the second even.
struct Ping {
    std::uint64_t network;
    std::int32_t number;
    std::int32_t unused;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

bool wait_for(pm_core *core, std::uint64_t network, std::int32_t number, Clock::time_point start, double limit = PM_TRIAL_LIMIT)
{
    while (core->pings[network] != number) {
        int done = pm_progress(core);
        if (done < 0 || seconds_since(start) > limit)
            return false;
        if (done == 0)
            sched_yield();
    }
    return true;
}

bool send(pm_peer *peer, std::uint64_t network, std::int32_t number)
{
    Ping ping{network, number, 0};
    return pm_send(peer, PM_PING_TAG, &ping, sizeof ping, nullptr, 0, nullptr) != PM_FAILED;
}

// The second waits for the first ping as long as this trial and the `before` ones before it may take the first.
double shortest_round_trip(pm_peer *peer, std::uint64_t network, bool first, int before)
{
    pm_core *core = peer->core;
    double best = PM_TRIAL_LIMIT;
    Clock::time_point start = Clock::now();
    if (!first && !wait_for(core, network, 1, start, PM_TRIAL_LIMIT * (before + 1)))
        return best;
    start = Clock::now();
    for (int round = 0; round < rounds; ++round) {
        Clock::time_point begin = Clock::now();
        const std::int32_t ping = 2 * round + 1, answer = ping + 1;
        bool done = first ? send(peer, network, ping) && wait_for(core, network, answer, start)
                          : wait_for(core, network, ping, start) && send(peer, network, answer);
        if (!done)
            return PM_TRIAL_LIMIT;
        best = std::min(best, seconds_since(begin));
    }
    // The last answer leaves by itself only when somebody cares for it.
    while (pm_sends_queued(core) && seconds_since(start) <= PM_TRIAL_LIMIT && pm_progress(core) >= 0) {
    }
    return best;
}

}  // namespace

extern "C" {

int pm_measure_open(pm_core *core)
{
    pm_handler handler{};
    handler.name = "ping";
    handler.smallest_header = sizeof(Ping);
    handler.for_strangers = 1;  // nobody is connected yet
    handler.arrived = [](pm_core *at, const pm_envelope *envelope, void *, size_t, size_t) -> void * {
        Ping ping;
        std::memcpy(&ping, envelope->header, sizeof ping);
        if (at->pings.size() < PM_NETWORKS_MAX || at->pings.contains(ping.network))
            at->pings[ping.network] = ping.number;
        return nullptr;
    };
    return pm_handle(core, PM_PING_TAG, &handler);
}

double pm_try_out(pm_core *core, const pm_trial *trials, int which, int rank, const void *const *cards, const size_t *sizes)
{
    const pm_trial *trial = &trials[which];
    const bool first = rank == trial->first;
    if (!first && rank != trial->second)
        return 0;
    const int other = first ? trial->second : trial->first;
    pm_peer *peer = pm_connect_over(core, trial->network, cards[other], sizes[other]);
    return peer == nullptr ? PM_TRIAL_LIMIT : shortest_round_trip(peer, trial->network, first, which);
}

void pm_set_priorities(pm_core *core, const pm_trial *trials, const double *times, int count)
{
    std::vector<int> priorities = pm::priorities_by_time({times, static_cast<std::size_t>(count)});
    for (int i = 0; i < count; ++i)
        pm_set_priority(core, trials[i].network, priorities[static_cast<std::size_t>(i)]);
}

}  // extern "C"
