// Receiving: what devices deliver, when each of them is polled, and progress.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/time.h"
#include "base/tuning.h"
#include "netmod/core/setup.h"
#include "netmod/core/shared.h"
#include "netmod/core/state.h"

namespace {

using pm::Channel;
using pm::failed;
using pm::waiter;

const pm_handler &handler_of(const void *core, int tag)
{
    return static_cast<const pm_core *>(core)->handlers[static_cast<std::uint8_t>(tag)];
}

bool is_for(const pm_handler &handler, const pm::Envelope &envelope)
{
    return envelope.header_size >= handler.smallest_header && (envelope.source != nullptr || handler.for_strangers != 0);
}

template <std::size_t channel>
void *sink_arrived(void *context, const pm::Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total)
{
    auto core = static_cast<pm_core *>(context);
    const pm_handler &handler = handler_of(core, envelope.tag);
    if (!is_for(handler, envelope)) [[unlikely]] {
        core->messages_dropped[channel]++;
        return nullptr;
    }
    core->messages_received[channel]++;
    core->bytes_received[channel] += total;
    if (envelope.source != nullptr && envelope.source->ungranted.load(std::memory_order_relaxed) != 0) [[unlikely]]
        envelope.source->ungranted.store(0, std::memory_order_relaxed);
    if (total > PM_SURELY_NOW_LIMIT && envelope.source != nullptr)
        envelope.source->sent_long();
    return handler.arrived(core, &envelope, piece, piece_size, total);
}

template <std::size_t channel>
bool sink_offered(void *context, const pm::Envelope &envelope, void *offer, std::size_t total)
{
    auto core = static_cast<pm_core *>(context);
    const pm_handler &handler = handler_of(core, envelope.tag);
    if (!is_for(handler, envelope) || handler.offered == nullptr || handler.offered(core, &envelope, offer, total) == 0) {
        core->messages_dropped[channel]++;
        return false;
    }
    core->messages_received[channel]++;
    core->bytes_received[channel] += total;
    return true;
}

// Without a cookie the rest of a message is not wanted, if it has a handler at all.
void sink_more(void *core, int tag, void *cookie, void *piece, std::size_t piece_size)
{
    if (cookie != nullptr)
        handler_of(core, tag).more(cookie, piece, piece_size);
}

void *sink_place(void *core, int tag, void *cookie)
{
    return cookie != nullptr && handler_of(core, tag).place != nullptr ? handler_of(core, tag).place(cookie) : nullptr;
}

void sink_placed(void *core, int tag, void *cookie)
{
    handler_of(core, tag).placed(cookie);
}

void sink_taken(void *core, int tag, void *cookie)
{
    handler_of(core, tag).sent(cookie);
}

template <std::size_t channel>
void sink_dropped(void *core)
{
    static_cast<pm_core *>(core)->messages_dropped[channel]++;
}

// While SHMEM is speaking, a device that costs a system call waits for its turn; after some polls in which nobody spoke, each
// has one every time, and always when nobody else is reached over SHMEM: nobody is kept waiting by it then. A device nobody here is
// reached by is only asked for those who come by themselves.
constexpr std::uint32_t polls_between_idle = 1 << 16;  // of a rank that does not sleep

bool has_turn(const pm_core *core, Channel *channel)
{
    std::uint32_t interval = !channel->has_peers                                               ? PM_ALONE_INTERVAL
                             : core->has_neighbours && core->quiet_polls < PM_QUIET_BEFORE_ALL ? PM_BUSY_INTERVAL
                                                                                               : 1;
    channel->skipped += core->stands_for;
    if (channel->skipped < interval) [[likely]]
        return false;
    channel->skipped = 0;
    return true;
}

// Polls one; -1 when a peer of it is lost.
int poll(const pm_core *core, Channel *channel)
{
    // To sleep in the middle of a long message costs more than to wait for its next bytes, on a core of our own.
    if (!(core->wait_plan.polls > PM_NETWORK_POLL_WEIGHT && channel->transferring()))
        waiter.idle_polls = core->wait_plan.after(waiter.idle_polls, waiter.idle_polls < core->wait_plan.polls ? PM_NETWORK_POLL_WEIGHT
                                                                                                           : PM_NETWORK_YIELD_WEIGHT);
    auto done = static_cast<int>(channel->poll());
    if (const pm::Error *failure = channel->failure()) [[unlikely]] {
        failed(*failure);
        return -1;
    }
    // Whoever speaks is asked again at once, and one that costs little each time.
    if (channel->capabilities.quick_poll)
        channel->skipped = PM_ALONE_INTERVAL;
    else if (done > 0)
        channel->skipped = PM_BUSY_INTERVAL;
    return done;
}

int poll_by_turns(pm_core *core, bool all)
{
    int done = 0;
    for (Channel *channel : core->links.by_turns) {
        if (!(has_turn(core, channel) || all)) [[likely]]
            continue;
        int count = poll(core, channel);
        if (count < 0)
            return count;
        done += count;
    }
    return done;
}

// It asks the kernel, so not after every sleep: they are short while all goes well. -1 when a peer is lost.
int look_after_others(pm_core *core)
{
    constexpr pm::Time interval = std::chrono::milliseconds(10);
    if (pm::Time now = pm::clock_now(); now - core->looked >= interval) {
        core->looked = now;
        if (core->idle != nullptr)
            core->idle();
        pm::look_at_watchers(core);
        if (!core->parting.empty())
            pm::forget_parted(core, now);
        if (core->watches)
            pm::watch_hosts(core);
        for (const auto &channel : core->links.channels)
            if (!channel->look_after_peers(now)) {
                failed(*channel->failure());
                return -1;
            }
    }
    return 0;
}

// Where everybody is reached by shared memory and on a core of his own, most polls look there and nowhere else.
bool may_spare_polls(const pm_core *core)
{
    auto may_wait = [](const Channel *channel) { return !channel->has_peers && !channel->capabilities.quick_poll; };
    return core->links.direct != nullptr && !core->watches && !core->oversubscribed && std::ranges::all_of(core->links.by_turns, may_wait);
}

void something_came(pm_core *core)
{
    core->quiet_polls = 0;
    waiter.idle_polls = 0;
    waiter.empty_polls = 0;
    if (pm::profile::on.load(std::memory_order_relaxed) && pm::profile::this_thread != nullptr) [[unlikely]]
        pm::profile::this_thread->goes_on();
}

// In one of those polls: apart, as progress() is, so that those that find nothing do not pay for it with registers.
[[gnu::noinline]] int deliver_spared(pm_core *core)
{
    core->polling = true;
    auto done = static_cast<int>(core->links.direct->poll());
    core->polling = false;
    if (done != 0)
        something_came(core);
    return done;
}

int poll_devices(pm_core *core)
{
    if (core->gave_up) [[unlikely]] {
        failed(core->gave_up);
        return -1;
    }
    auto done = static_cast<int>(core->links.poll_direct());
    bool all = false;
    if (core->look_everywhere.load(std::memory_order_relaxed)) [[unlikely]] {
        core->look_everywhere.store(false, std::memory_order_relaxed);
        all = true;
    }
    int by_networks = poll_by_turns(core, all);
    if (by_networks < 0)
        return -1;
    done += by_networks;
    core->quiet_polls = done > 0 ? 0 : core->quiet_polls + core->stands_for;
    core->polls += core->stands_for;
    bool has_come_round = core->polls % polls_between_idle < core->stands_for;
    if ((all || has_come_round) && look_after_others(core) < 0) [[unlikely]]
        return -1;
    if (core->watches) {
        if (done > 0)
            core->watch.noise();
        else if (core->quiet_polls > PM_QUIET_BEFORE_ALL)
            pm::watch_hosts(core);
    }
    return done;
}

[[gnu::noinline]] int progress(pm_core *core)
{
    if (core->polling) [[unlikely]]
        return 0;  // from within an upcall
    core->polling = true;
    core->stands_for = 1 + core->spares - core->spared;
    if (!waiter.in_background)
        core->foreground_polls.store(core->foreground_polls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    int done = poll_devices(core);
    if (core->any_queued.load(std::memory_order_relaxed) && done >= 0) [[unlikely]] {
        int flushed = pm::flush_all(core);
        done = flushed < 0 ? -1 : done + flushed;
    }
    core->polling = false;
    core->spares = core->spared = done >= 0 && !core->gave_up && may_spare_polls(core) ? PM_SPARED_POLLS : 0;
    if (done != 0)
        something_came(core);
    else if (core->oversubscribed && ++waiter.empty_polls > PM_EMPTY_POLLS_BEFORE_YIELD && !core->threads)
        sched_yield();
    return done;
}

}  // namespace

template <std::size_t... numbers>
static void fill(pm_core *core, pm::Sink (&sinks)[pm::channels_max], std::index_sequence<numbers...>)
{
    ((sinks[numbers] = {core, sink_arrived<numbers>, sink_more, sink_place, sink_placed, sink_offered<numbers>, sink_taken,
                       sink_dropped<numbers>}),
     ...);
}

void pm::make_sinks(pm_core *core, Sink (&sinks)[channels_max])
{
    fill(core, sinks, std::make_index_sequence<channels_max>());
}

extern "C" {

int pm_progress(pm_core *core)
{
    // Not when there is more to do.
    if (core->spared != 0 && !core->polling && !core->any_queued.load(std::memory_order_relaxed) &&
        !core->look_everywhere.load(std::memory_order_relaxed)) [[likely]] {
        --core->spared;
        return core->links.direct->is_quiet() ? 0 : deliver_spared(core);
    }
    return progress(core);
}

void pm_give_up(pm_core *core, const char *text)
{
    core->spares = core->spared = 0;
    if (!core->gave_up)
        core->gave_up = {pm::Status::failed, text};
}

}  // extern "C"
