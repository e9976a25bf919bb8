// Receiving: what devices deliver, when each of them is polled, and progress.
#include <sched.h>

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
using pm::core;
using pm::failed;
using pm::look_everywhere;
using pm::waiter;

const pm_handler &handler_of(int tag)
{
    return core->handlers[static_cast<std::uint8_t>(tag)];
}

bool is_for(const pm_handler &handler, const pm::Envelope &envelope)
{
    return envelope.header_size >= handler.smallest_header && (envelope.source != nullptr || handler.for_strangers != 0);
}

template <std::size_t channel>
void *sink_arrived(const pm::Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total)
{
    const pm_handler &handler = handler_of(envelope.tag);
    if (!is_for(handler, envelope)) [[unlikely]] {
        core->messages_dropped[channel]++;
        return nullptr;
    }
    core->messages_received[channel]++;
    core->bytes_received[channel] += total;
    return handler.arrived(&envelope, piece, piece_size, total);
}

template <std::size_t channel>
bool sink_offered(const pm::Envelope &envelope, void *offer, std::size_t total)
{
    const pm_handler &handler = handler_of(envelope.tag);
    if (!is_for(handler, envelope) || handler.offered == nullptr || handler.offered(&envelope, offer, total) == 0) {
        core->messages_dropped[channel]++;
        return false;
    }
    core->messages_received[channel]++;
    core->bytes_received[channel] += total;
    return true;
}

// Without a cookie the rest of a message is not wanted, if it has a handler at all.
void sink_more(int tag, void *cookie, void *piece, std::size_t piece_size)
{
    if (cookie != nullptr)
        handler_of(tag).more(cookie, piece, piece_size);
}

void *sink_place(int tag, void *cookie)
{
    return cookie != nullptr && handler_of(tag).place != nullptr ? handler_of(tag).place(cookie) : nullptr;
}

void sink_placed(int tag, void *cookie)
{
    handler_of(tag).placed(cookie);
}

void sink_taken(int tag, void *cookie)
{
    handler_of(tag).sent(cookie);
}

template <std::size_t channel>
void sink_dropped()
{
    core->messages_dropped[channel]++;
}

// While SHMEM is speaking, a device that costs a system call waits for its turn; after some polls in which nobody spoke, each
// has one every time. A device nobody here is reached by is only asked for those who come by themselves.
constexpr std::uint32_t polls_between_idle = 1 << 16;  // of a rank that does not sleep

bool has_turn(Channel *channel)
{
    std::uint32_t interval = !channel->has_peers                    ? PM_ALONE_INTERVAL
                             : core->quiet_polls < PM_QUIET_BEFORE_ALL ? PM_BUSY_INTERVAL
                                                                     : 1;
    if (++channel->skipped < interval) [[likely]]
        return false;
    channel->skipped = 0;
    return true;
}

// Polls one; -1 when a peer of it is lost.
int poll(Channel *channel)
{
    // To sleep in the middle of a long message costs more than to wait for its next bytes, on a core of our own.
    if (!(core->wait_plan.polls > PM_NETWORK_POLL_WEIGHT && channel->transferring()))
        waiter.idle_polls += waiter.idle_polls < core->wait_plan.polls ? PM_NETWORK_POLL_WEIGHT : PM_NETWORK_YIELD_WEIGHT;
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

int poll_by_turns(bool all)
{
    int done = 0;
    for (Channel *channel : core->links.by_turns) {
        if (!(has_turn(channel) || all)) [[likely]]
            continue;
        int count = poll(channel);
        if (count < 0)
            return count;
        done += count;
    }
    return done;
}

// It asks the kernel, so not after every sleep: they are short while all goes well. -1 when a peer is lost.
int look_after_others()
{
    constexpr pm::Time interval = std::chrono::milliseconds(10);
    if (pm::Time now = pm::clock_now(); now - core->looked >= interval) {
        core->looked = now;
        if (core->idle != nullptr)
            core->idle();
        if (!core->parting.empty())
            pm::forget_parted(now);
        if (core->watches)
            pm::watch_hosts();
        for (const auto &channel : core->links.channels)
            if (!channel->look_after_peers(now)) {
                failed(*channel->failure());
                return -1;
            }
    }
    return 0;
}

int poll_devices()
{
    if (core->gave_up) [[unlikely]] {
        failed(core->gave_up);
        return -1;
    }
    auto done = static_cast<int>(core->links.poll_direct());
    bool all = false;
    if (look_everywhere.load(std::memory_order_relaxed)) [[unlikely]] {
        look_everywhere.store(false, std::memory_order_relaxed);
        all = true;
    }
    int by_networks = poll_by_turns(all);
    if (by_networks < 0)
        return -1;
    done += by_networks;
    core->quiet_polls = done > 0 ? 0 : core->quiet_polls + 1;
    if ((all || ++core->polls % polls_between_idle == 0) && look_after_others() < 0) [[unlikely]]
        return -1;
    if (core->watches) {
        if (done > 0)
            core->watch.noise();
        else if (core->quiet_polls > PM_QUIET_BEFORE_ALL)
            pm::watch_hosts();
    }
    return done;
}

}  // namespace

template <std::size_t... numbers>
static void fill(pm::Sink (&sinks)[pm::channels_max], std::index_sequence<numbers...>)
{
    ((sinks[numbers] = {sink_arrived<numbers>, sink_more, sink_place, sink_placed, sink_offered<numbers>, sink_taken, sink_dropped<numbers>}), ...);
}

void pm::make_sinks(Sink (&sinks)[channels_max])
{
    fill(sinks, std::make_index_sequence<channels_max>());
}

extern "C" {

int pm_progress(void)
{
    if (core->polling) [[unlikely]]
        return 0;  // from within an upcall
    core->polling = true;
    if (!waiter.in_background)
        pm::foreground_polls.store(pm::foreground_polls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    int done = poll_devices();
    if (core->any_queued.load(std::memory_order_relaxed) && done >= 0) [[unlikely]] {
        int flushed = pm::flush_all();
        done = flushed < 0 ? -1 : done + flushed;
    }
    core->polling = false;
    if (done != 0) {
        waiter.idle_polls = 0;
        waiter.empty_polls = 0;
    } else if (core->oversubscribed && ++waiter.empty_polls > PM_EMPTY_POLLS_BEFORE_YIELD) {
        sched_yield();
    }
    return done;
}

void pm_give_up(const char *text)
{
    if (!core->gave_up)
        core->gave_up = {pm::Status::failed, text};
}

}  // extern "C"
