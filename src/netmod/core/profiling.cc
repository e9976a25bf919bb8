#include "netmod/core/profiling.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "netmod/core/state.h"
#include "profile/profile.h"
#include "profile/shown.h"

namespace {

using pm::profile::Called;
using pm::profile::Cause;
using pm::profile::Late;
using pm::profile::Thread;

// Of the process.
struct Recording {
    std::mutex lock;
    std::vector<std::unique_ptr<Thread>> threads;
    pm_profile_questions questions{};
    void (*watched)() = nullptr;
    pm::profile::Shown shown;  // to who looks, by the first thread
    pm::Time begun{};
    std::uint64_t begun_ticks = 0;
};

// Never ends: a thread may still be in MPI when the process exits.
Recording &recording()
{
    static Recording &all = *new Recording;
    return all;
}

bool of_all()
{
    return recording().questions.of_all() != 0;
}

Cause cause()
{
    int rank = -1;
    auto late = static_cast<Late>(recording().questions.cause(&rank));
    return {late, rank};
}

Called open()
{
    const char *name = nullptr;
    int function = recording().questions.open(&name);
    return {function, name};
}

std::string name_of(const pm::Path &path)
{
    return std::string(path.channel->name) + (path.network.empty() ? "" : " " + path.network);
}

// All messages that were sent, also those of runs that go on.
std::map<std::string, pm::profile::Sizes> all_sizes(const pm_core *core)
{
    std::map<std::string, pm::profile::Sizes> all;
    {
        std::lock_guard lock(recording().lock);
        all = core->sizes;
    }
    for (const auto &[id, peer] : core->peers) {
        if (peer == nullptr || peer->used == nullptr)
            continue;
        pm::InsideGateOf inside(peer.get());
        if (peer->run.is_any())
            peer->run.add_to(&all[name_of(*peer->used)], peer->messages);
    }
    return all;
}

}  // namespace

pm::profile::Sizes &pm::sizes_of(pm_peer *peer)
{
    Path &path = *peer->used;
    if (path.sizes == nullptr) {
        std::lock_guard lock(recording().lock);
        path.sizes = &peer->core->sizes[name_of(path)];
    }
    return *path.sizes;
}

void pm::end_run(pm_peer *peer, std::size_t size)
{
    peer->run.end(&sizes_of(peer), size, peer->messages);
}

void pm::look_at_watchers(pm_core *core)
{
    Recording &all = recording();
    if (!all.shown.is_watched() || all.watched == nullptr)
        return;
    if (!profile::on.load(std::memory_order_relaxed))
        all.watched();
    all.shown.tell(all_sizes(core));
}

extern "C" {

void pm_profile_prepare(const pm_profile_questions *questions, void (*watched)(void), int rank, int ranks)
{
    recording().questions = *questions;
    recording().watched = watched;
    recording().shown.open(rank, ranks);
}

void pm_profile_start(pm_core *core)
{
    if (pm::profile::on.load(std::memory_order_relaxed))
        return;
    recording().begun = pm::clock_now();
    recording().begun_ticks = pm::ticks_now();
    recording().shown.begin();
    pm::profile::on.store(true, std::memory_order_relaxed);
    for (const auto &[id, peer] : core->peers)
        if (peer != nullptr)
            peer->run.record();
}

int *pm_profile_thread(void)
{
    if (pm::profile::this_thread == nullptr) {
        std::unique_ptr<Thread> thread(new (std::nothrow) Thread({of_all, cause, open}, recording().shown.take()));
        pm::profile::this_thread = thread.get();
        std::lock_guard lock(recording().lock);
        if (thread != nullptr)
            recording().threads.push_back(std::move(thread));
    }
    return pm::profile::this_thread == nullptr ? nullptr : pm::profile::this_thread->untold();
}

int pm_profile_begin(int function, const char *name)
{
    return pm::profile::this_thread->begin({function, name});
}

void pm_profile_end(void)
{
    pm::profile::this_thread->end();
}

void *pm_profile_describe(const pm_core *core, size_t *size)
{
    Recording &all = recording();
    auto all_sent = all_sizes(core);
    std::lock_guard lock(all.lock);
    auto time = static_cast<std::uint64_t>((pm::clock_now() - all.begun).count());
    pm::profile::ProcessProfile process = pm::profile::gather(all.threads, time, pm::ticks_between(all.begun_ticks, pm::ticks_now()));
    process.host = core->card.host;
    for (const auto &[name, sizes] : all_sent) {
        pm::profile::PathProfile path{.name = name, .sizes = sizes};
        for (const auto &channel : core->links.channels) {
            if (!name.starts_with(channel->name))
                continue;
            if (channel->shared != nullptr) {
                path.pulled = core->bytes_pulled;
                path.pulling = static_cast<std::uint64_t>(core->pulling.count());
            }
            if (auto packets = channel->packets())
                path.round_trip = static_cast<std::uint64_t>(packets->round_trip.count());
        }
        process.paths.push_back(path);
    }
    std::vector<std::byte> bytes = pm::profile::pack(process);
    void *copy = std::malloc(bytes.size());
    *size = copy != nullptr ? bytes.size() : 0;
    if (copy != nullptr)
        std::memcpy(copy, bytes.data(), bytes.size());
    return copy;
}

char *pm_profile_render(const void *descriptions, const size_t *sizes, int count, const pm_run *run, const char *format)
{
    pm::profile::Profile profile{.processes = {}, .command = pm::command_of_job(), .started = run->started};
    auto next = static_cast<const std::byte *>(descriptions);
    for (int i = 0; i < count; next += sizes[i++]) {
        pm::profile::ProcessProfile &process = profile.processes.emplace_back();
        if (sizes[i] == 0)
            continue;
        auto told = pm::profile::unpack({next, sizes[i]});
        if (!told.ok()) {
            pm::failed(told.error());
            return nullptr;
        }
        process = std::move(told.value());
    }
    std::string_view wanted = format;
    std::string text = wanted == "json"   ? pm::profile::to_json(profile)
                       : wanted == "html" ? pm::profile::to_html(profile)
                                          : pm::profile::to_text(profile);
    return strdup(text.c_str());
}

}  // extern "C"
