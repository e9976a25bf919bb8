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

using pm::core;
using pm::failed;
using pm::look_everywhere;
using pm::Turns;
using pm::waiter;

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

// While SHMEM is speaking, a device that costs a system call waits for its turn; after some polls in which nobody spoke, each
// has one every time. A device nobody here is reached by is only asked for those who come by themselves.
constexpr std::uint32_t polls_between_idle = 1 << 16;  // of a rank that does not sleep

bool has_turn(Turns *turns)
{
    std::uint32_t interval = !turns->has_peers                       ? PM_ALONE_INTERVAL
                             : core->quiet_polls < PM_QUIET_BEFORE_ALL ? PM_BUSY_INTERVAL
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
    return core->wait_plan.polls > PM_NETWORK_POLL_WEIGHT && device.transferring();
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
            waiter.idle_polls += waiter.idle_polls < core->wait_plan.polls ? PM_NETWORK_POLL_WEIGHT : PM_NETWORK_YIELD_WEIGHT;
        int count = poll_device(device);
        // Whoever speaks is asked again at once.
        if (count > 0)
            turns.skipped = PM_BUSY_INTERVAL;
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
        else if (core->quiet_polls > PM_QUIET_BEFORE_ALL)
            pm::watch_hosts();
    }
    return done;
}

}  // namespace

template <std::size_t... places>

static void fill(pm::Sink (&sinks)[pm::places_max], const pm_setup &setup, std::index_sequence<places...>)
{
    ((sinks[places] = {sink_arrived<places>, setup.more, setup.place, setup.placed, sink_offered<places>, setup.sent}), ...);
    sinks[pm::shmem_place] = {sink_arrived<pm::shmem_place>, setup.more};
}

void pm::make_sinks(Sink (&sinks)[places_max], const pm_setup &setup)
{
    fill(sinks, setup, std::make_index_sequence<places_max>());
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
