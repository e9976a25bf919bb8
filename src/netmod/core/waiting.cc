// Waiting: how long a rank polls, yields and sleeps, and on what.
#include <poll.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpus.h"
#include "netmod/core/shared.h"
#include "netmod/core/setup.h"
#include "netmod/core/state.h"

using pm::core;
using pm::waiter;

constinit thread_local pm::Waiter pm::waiter;
std::atomic<std::uint32_t> pm::foreground_polls;
std::atomic<bool> pm::look_everywhere;

// Made by the first who needs it, after start-up has connected all ranks of the job: every rank of a host comes to the same
// answer, because all have the same cards. It stays, since collectives choose their algorithm by it.
void pm::make_wait_plans()
{
    // [W1] a thread that sees it made sees what it holds; pairs with [W2]. Start-up is one thread.
    if (core->planned.load(std::memory_order_acquire)) [[likely]]
        return;
    std::vector<CoreGrant> grants;
    for (const auto &[id, peer] : core->peers)
        if (peer->kind == pm::DeviceKind::shmem)
            grants.push_back(peer->shmem->card.grant);
    int cores = grants.empty() ? pm::available_cores() : pm::cores_of_all(grants);
    core->oversubscribed = pm::oversubscribed(core->ranks_on_host, cores);
    core->wait_plan = pm::make_wait_plan(core->wait_mode, core->ranks_on_host, cores);
    core->background_plan = pm::make_wait_plan(core->background_mode, core->ranks_on_host, cores);
    core->prefer_pull = core->rendezvous == pm::Rendezvous::pull ||
                        (core->rendezvous == pm::Rendezvous::automatic && core->oversubscribed);
    core->planned.store(true, std::memory_order_release);  // [W2]
}

extern "C" {

int pm_wait_step(void)
{
    pm::make_wait_plans();
    waiter.empty_polls = 0;
    const pm::WaitPlan &own = waiter.in_background ? core->background_plan : core->wait_plan;
    switch (own.action(waiter.idle_polls++)) {
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
    waiter.in_background = true;
    pm::make_wait_plans();
    std::uint32_t polls = pm::foreground_polls.load(std::memory_order_relaxed);
    if (polls == std::exchange(waiter.polls_seen, polls) || core->background_mode != pm::WaitMode::sleep)
        return 0;
    std::this_thread::sleep_for(500us);
    return 1;
}

void pm_wait_restart(void)
{
    waiter.idle_polls = 0;
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
    pm::look_everywhere.store(true, std::memory_order_relaxed);
}

void pm_wait_disarm(void)
{
    if (core->links.shmem != nullptr)
        core->links.shmem->disarm();
}

int pm_crowded(void)
{
    pm::make_wait_plans();
    return core->oversubscribed;
}

}  // extern "C"
