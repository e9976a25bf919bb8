// What the composite tells about itself: counters, and the table of routes.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/escape.h"
#include "netmod/routing/plan.h"
#include "netmod/report/report.h"
#include "netmod/core/setup.h"
#include "netmod/core/state.h"

using pm::failed;

// Of the whole job, if who started it has told; otherwise of this process.
std::string pm::command_of_job()
{
    if (const char *whole = std::getenv("MPICOMPOSITE_COMMAND"))
        return whole;
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string text;
    for (std::string word; std::getline(file, word, '\0');)
        text += (text.empty() ? "" : " ") + pm::shell_word(word);
    return text;
}

extern "C" {

int pm_get_traffic(const pm_core *core, pm_traffic *traffic)
{
    if (core == nullptr)
        return 0;
    static_assert(PM_DEVICES_MAX == pm::device_kinds);
    std::fill_n(traffic, PM_DEVICES_MAX, pm_traffic{});
    for (std::size_t kind = 0; kind < PM_DEVICES_MAX; ++kind)
        std::strcpy(traffic[kind].device, pm::device_name(static_cast<pm::DeviceKind>(kind)));
    // A device that is not built in is not counted.
    pm_traffic others{};
    auto of = [&](const pm::Channel &channel) -> pm_traffic & {
        auto kind = static_cast<std::size_t>(channel.kind);
        return kind < PM_DEVICES_MAX ? traffic[kind] : others;
    };
    for (const auto &[id, peer] : core->peers) {
        of(*peer->used->channel).messages_sent += peer->messages;
        of(*peer->used->channel).bytes_sent += peer->bytes;
    }
    for (const auto &channel : core->links.channels) {
        pm_traffic &sum = of(*channel);
        sum.messages_sent += core->messages_sent[channel->number];
        sum.bytes_sent += core->bytes_sent[channel->number];
        sum.messages_received += core->messages_received[channel->number];
        sum.bytes_received += core->bytes_received[channel->number];
        sum.messages_dropped += core->messages_dropped[channel->number];
        if (channel->shared != nullptr) {
            sum.pulls = core->pulls;
            sum.bytes_pulled = core->bytes_pulled;
            sum.memory = channel->shared->in_use();
        }
        pm::PacketCounts packets = channel->packets().value_or(pm::PacketCounts{});
        sum.packets += packets.sent;
        sum.packets_again += packets.again;
        sum.packets_alien += packets.alien;
    }
    return PM_DEVICES_MAX;
}

void pm_count_announced(pm_peer *peer, size_t size)
{
    pm::InsideGateOf inside(peer);
    peer->bytes += size;
    if (size >= PM_JOINT_LIMIT)
        peer->goes_long();
    if (pm::profile::on.load(std::memory_order_relaxed)) [[unlikely]]
        pm::sizes_of(peer).add(size);
}

// ---- what a user is told ----

static pm::DeviceReport device_report(const pm_core *core, pm::Channel &channel, const std::string &network)
{
    pm::DeviceReport report{channel.name, network, core->messages_sent[channel.number], core->bytes_sent[channel.number],
                            core->messages_received[channel.number], core->bytes_received[channel.number], {}};
    for (const auto &[id, peer] : core->peers)
        if (peer->used->channel == &channel && peer->used->network == network) {
            report.messages_sent += peer->messages;
            report.bytes_sent += peer->bytes;
        }
    auto number = [](std::uint64_t value, const char *of) { return std::to_string(value) + " " + of; };
    if (channel.shared != nullptr && core->pulls > 0)
        report.detail = number(core->pulls, "messages pulled by CMA");
    if (auto packets = channel.packets())
        report.detail = number(packets->sent, "packets, ") + number(packets->again, "of them sent again, ") +
                        number(packets->alien, "alien ones dropped");
    if (std::uint64_t dropped = core->messages_dropped[channel.number]; dropped > 0)
        report.detail += (report.detail.empty() ? "" : ", ") + number(dropped, "messages for nobody dropped");
    return report;
}

static pm::RouteReport route_report(const pm_peer *peer)
{
    // By the rules a host has one channel of its own, every network one for each process of the peer's host.
    const pm::Path &path = *peer->used;
    pm::RouteReport route{path.channel->name, path.network, path.channel->shared != nullptr ? 0 : peer->card().process,
                          {}, peer->messages, peer->bytes};
    for (const pm::NetworkCard &each : peer->card().networks)
        if (each.network.name == path.network && each.address)
            route.address = pm::ip_text(*each.address);
    return route;
}

static char *render(const pm::Report &report, std::string_view format)
{
    std::string text = format == "json" ? pm::to_json(report) : format == "html" ? pm::to_html(report) : pm::to_text(report);
    return strdup(text.c_str());
}

// Of a job, by rank, with the priorities that were measured.
static std::vector<pm::Card> read_cards(const pm_core *core, const void *const *cards, const size_t *sizes, int count)
{
    std::vector<pm::Card> all;
    for (int i = 0; i < count; ++i) {
        pm::Card card = pm::Card::read({static_cast<const std::byte *>(cards[i]), sizes[i]}).value_or(pm::Card{});
        for (pm::NetworkCard &each : card.networks)
            if (auto measured = core->priorities.find(each.network.id); measured != core->priorities.end())
                each.network.priority = measured->second;
        all.push_back(std::move(card));
    }
    return all;
}

int pm_check_job(pm_core *core, const void *const *cards, const size_t *sizes, int count)
{
    // Nothing to choose, and hundreds of ranks that would all read all cards.
    std::vector<std::span<const std::byte>> bytes;
    for (int i = 0; i < count; ++i)
        bytes.emplace_back(static_cast<const std::byte *>(cards[i]), sizes[i]);
    if (pm::share_a_host(bytes))
        return PM_OK;
    pm::Topology job = pm::topology_of(read_cards(core, cards, sizes, count));
    pm::Error error = pm::check_routes(job);
    if (!error) {
        core->job = std::move(job);
        return PM_OK;
    }
    pm::tell_missing(core);
    return failed(error);
}

const uint32_t *pm_clusters(pm_core *core)
{
    if (!core->job.nodes.empty()) {
        for (pm::Network &each : core->job.networks)
            if (auto measured = core->priorities.find(each.id); measured != core->priorities.end())
                each.priority = measured->second;
        core->clusters = pm::clusters_of(core->job);
        core->job = {};
        if (std::ranges::count(core->clusters, 0U) == std::ssize(core->clusters))
            core->clusters.clear();
    }
    return core->clusters.empty() ? nullptr : core->clusters.data();
}

int pm_trials(const pm_core *core, const void *const *cards, const size_t *sizes, int count, pm_trial *trials)
{
    static_assert(PM_NETWORKS_MAX == pm::networks_max);
    pm::Topology job = pm::topology_of(read_cards(core, cards, sizes, count));
    int number = 0;
    for (const pm::Trial &each : pm::trials_of(job))
        trials[number++] = {job.networks[each.network].id, static_cast<int>(each.first), static_cast<int>(each.second)};
    return number;
}

// The routes of a job as they follow from all cards, known to everybody before the first message.
char *pm_plan(const pm_core *core, const void *const *cards, const size_t *sizes, int count, const char *format)
{
    auto report = pm::planned_routes(read_cards(core, cards, sizes, count));
    if (!report.ok()) {
        failed(report.error());
        return nullptr;
    }
    return render(report.value(), format);
}

void *pm_describe(const pm_core *core, pm_peer *const *peers, int count, size_t *size)
{
    pm::ProcessReport report;
    report.host = core->card.host;
    report.process = core->card.process;
    for (int i = 0; i < count; ++i)
        report.routes.push_back(route_report(peers[i]));
    for (const auto &channel : core->links.channels) {
        std::size_t before = report.devices.size();
        for (const pm::NetworkLink &each : core->links.networks) {
            if (each.channel != channel.get())
                continue;
            report.devices.push_back(device_report(core, *channel, each.local.network.name));
            // What comes in over a channel does not say over which of its networks.
            if (report.devices.size() > before + 1)
                report.devices.back().messages_received = report.devices.back().bytes_received = 0;
        }
        if (channel->shared != nullptr)
            report.devices.push_back(device_report(core, *channel, {}));
    }
    std::vector<std::byte> bytes = pm::pack(report);
    void *copy = std::malloc(bytes.size());
    *size = copy != nullptr ? bytes.size() : 0;
    if (copy != nullptr)
        std::memcpy(copy, bytes.data(), bytes.size());
    return copy;
}

char *pm_render(const void *descriptions, const size_t *sizes, int count, const pm_run *run, const char *format)
{
    pm::Report report;
    report.finished = true;
    if (run != nullptr)
        report.run = pm::RunReport{pm::command_of_job(), run->started, run->milliseconds};
    auto next = static_cast<const std::byte *>(descriptions);
    for (int i = 0; i < count; ++i) {
        if (sizes[i] == 0) {
            report.processes.emplace_back();
            continue;
        }
        auto process = pm::unpack({next, sizes[i]});
        if (!process.ok()) {
            failed(process.error());
            return nullptr;
        }
        report.processes.push_back(std::move(process.value()));
        next += sizes[i];
    }
    return render(report, format);
}

}  // extern "C"
