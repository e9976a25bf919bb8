// Waiting: how long a rank polls, yields and sleeps, and on what.
#include <poll.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/cpus.h"
#include "base/tuning.h"
#include "netmod/core/shared.h"
#include "netmod/core/setup.h"
#include "netmod/core/state.h"

using pm::waiter;

constinit thread_local pm::Waiter pm::waiter;

// Made by the first who needs it, after start-up has connected all ranks of the job: every rank of a host comes to the same
// answer, because all have the same cards. It stays, since collectives choose their algorithm by it.
void pm::make_wait_plans(pm_core *core)
{
    // Start-up is one thread.
    if (core->planned.get()) [[likely]]
        return;
    std::vector<CoreGrant> grants;
    for (const auto &[id, peer] : core->peers)
        if (const auto &shared = peer->used->channel->shared)
            grants.push_back(shared->grant_of(peer->used->peer()));
    int cores = grants.empty() ? pm::available_cores() : pm::cores_of_all(grants);
    core->oversubscribed = pm::oversubscribed(core->ranks_on_host, cores);
    core->wait_plan = pm::make_wait_plan(core->wait_mode, core->ranks_on_host, cores);
    core->background_plan = pm::make_wait_plan(core->background_mode, core->ranks_on_host, cores);
    core->pulls_jointly = core->rendezvous == pm::Rendezvous::joint ||
                          (core->rendezvous == pm::Rendezvous::automatic && !core->oversubscribed && PM_PULL_WITH_OWN_CORES != 0);
    core->prefer_pull = core->pulls_jointly || core->rendezvous == pm::Rendezvous::pull ||
                        (core->rendezvous == pm::Rendezvous::automatic &&
                         core->oversubscribed && core->ranks_on_host > PM_PIPELINE_RANKS_A_CORE * cores);
    if (core->links.direct != nullptr)
        core->links.direct->attend_senders(!core->threads, !core->oversubscribed && !core->threads);
    core->planned.set(true);
}

// On the descriptors of all. One that has none limits the sleep.
static void sleep_on(std::span<pm::Channel *const> channels, pm::Time limit)
{
    pollfd entries[pm::channels_max];
    for (std::size_t i = 0; i < channels.size(); ++i) {
        entries[i] = {channels[i]->descriptor(), POLLIN, 0};  // a negative one is passed over
        limit = std::min(limit, channels[i]->sleep_limit());
    }
    timespec time = pm::to_timespec(limit);
    if (ppoll(entries, channels.size(), &time, nullptr) <= 0)
        return;
    for (std::size_t i = 0; i < channels.size(); ++i)
        if (entries[i].revents != 0)
            channels[i]->empty_descriptor();
}

// A yield takes that long only where others than ranks are at work, who have no turns to give back: then being woken is sooner.
static void yield(const pm::WaitPlan &plan)
{
    const pm::Time now = pm::clock_now();
    if (waiter.idle_polls == plan.polls + 1)
        waiter.first_yield = now;
    else if (now - waiter.first_yield > std::chrono::microseconds(PM_MICROSECONDS_OF_YIELDS) && plan.yields != pm::WaitPlan::unlimited)
        waiter.idle_polls = plan.polls + plan.yields;
    sched_yield();
}

static int wait_longer(pm_core *core)
{
    pm::make_wait_plans(core);
    const pm::WaitPlan &own = waiter.in_background ? core->background_plan : core->wait_plan;
    pm::WaitAction action = own.action(waiter.idle_polls++);
    if (action == pm::WaitAction::poll && waiter.company.is_here())
        action = pm::WaitAction::glance;
    // Not before it has polled for a while: who answers at once is not late.
    if (pm::profile::on.load(std::memory_order_relaxed) && pm::profile::this_thread != nullptr &&
        (waiter.idle_polls >= PM_POLLS_BEFORE_LATE || (action != pm::WaitAction::poll && action != pm::WaitAction::glance))) [[unlikely]]
        pm::profile::this_thread->waits();
    switch (action) {
        case pm::WaitAction::poll:
            return 0;
        case pm::WaitAction::glance:
            waiter.company.glance();
            return 0;
        case pm::WaitAction::yield:
            yield(own);
            return 0;
        case pm::WaitAction::sleep:
            break;
    }
    return 1;
}

extern "C" {

int pm_wait_step(pm_core *core)
{
    waiter.empty_polls = 0;
    if (core->planned.get() && core->wait_plan.action(waiter.idle_polls) == pm::WaitAction::poll &&
        !waiter.company.is_here() && !waiter.in_background && !pm::profile::on.load(std::memory_order_relaxed)) [[likely]] {
        ++waiter.idle_polls;
        return 0;
    }
    return wait_longer(core);
}

int pm_wait_in_background(pm_core *core)
{
    using namespace std::chrono_literals;
    waiter.in_background = true;
    pm::make_wait_plans(core);
    std::uint32_t polls = core->foreground_polls.load(std::memory_order_relaxed);
    if (polls == core->polls_seen.exchange(polls, std::memory_order_relaxed) || core->background_mode != pm::WaitMode::sleep)
        return 0;
    std::this_thread::sleep_for(500us);
    return 1;
}

void pm_wait_unlocked(void)
{
    if (waiter.empty_polls > PM_EMPTY_POLLS_BEFORE_YIELD)
        sched_yield();
}

void pm_wait_restart(void)
{
    waiter.idle_polls = 0;
}

void pm_wait_long(pm_core *core)
{
    pm::make_wait_plans(core);
    const pm::WaitPlan &own = waiter.in_background ? core->background_plan : core->wait_plan;
    if (!core->oversubscribed || own.yields == pm::WaitPlan::unlimited || own.yields <= PM_YIELDS_BEFORE_LONG)
        return;
    waiter.idle_polls = own.polls + own.yields - PM_YIELDS_BEFORE_LONG;
    waiter.first_yield = pm::clock_now();
}

int pm_wait_arm(pm_core *core)
{
    for (const auto &channel : core->links.channels)
        if (channel->is_awaited() && !channel->arm())
            return 0;
    // [W4] from here on whoever changes something sees that we sleep; pairs with [W3] in pm_nudge.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // With more threads sleeps are short, and what they would look at changes.
    return core->threads || core->has_news == nullptr || !core->has_news();
}

void pm_wait_sleep(pm_core *core, int nap)
{
    using namespace std::chrono_literals;
    // Nobody rings when room for a queued message appears. Otherwise the limit only bounds what a lost doorbell could cost.
    bool brief = nap != 0 || core->any_queued.load(std::memory_order_relaxed);
    std::chrono::nanoseconds limit = brief ? 500us : 100ms;
    pm::Channel *awaited[pm::channels_max];
    std::size_t count = 0;
    for (const auto &channel : core->links.channels)
        if (channel->is_awaited())
            awaited[count++] = channel.get();
    if (count == 1 && !core->sleeps_on_several)
        awaited[0]->sleep(limit);
    else
        sleep_on(std::span(awaited, count), limit);
    core->look_everywhere.store(true, std::memory_order_relaxed);
}

void pm_wait_disarm(pm_core *core)
{
    for (const auto &channel : core->links.channels)
        if (channel->is_awaited())
            channel->disarm();
}

int pm_crowded(pm_core *core)
{
    pm::make_wait_plans(core);
    return core->oversubscribed;
}

}  // extern "C"
