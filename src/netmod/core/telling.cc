// What the composite tells about itself: counters, and the table of routes.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/escape.h"
#include "netmod/routing/plan.h"
#include "netmod/report/report.h"
#include "netmod/core/setup.h"
#include "netmod/core/state.h"

using pm::core;
using pm::DeviceKind;
using pm::failed;

extern "C" {

int pm_get_traffic(pm_traffic *traffic)
{
    if (core == nullptr)
        return 0;
    static_assert(PM_DEVICES_MAX == pm::device_kinds);
    auto of = [&](DeviceKind kind) -> pm_traffic & { return traffic[static_cast<std::size_t>(kind)]; };
    std::fill_n(traffic, PM_DEVICES_MAX, pm_traffic{});
    for (DeviceKind kind : {DeviceKind::shmem, DeviceKind::ucx, DeviceKind::udp})
        std::strcpy(of(kind).device, pm::device_name(kind));
    for (const auto &[id, peer] : core->peers) {
        of(peer->kind).messages_sent += peer->messages;
        of(peer->kind).bytes_sent += peer->bytes;
    }
    for (std::size_t place = 0; place < pm::places_max; ++place) {
        pm_traffic &sum = of(place == pm::shmem_place ? DeviceKind::shmem : place == pm::udp_place ? DeviceKind::udp : DeviceKind::ucx);
        sum.messages_received += core->messages_received[place];
        sum.bytes_received += core->bytes_received[place];
    }
    of(DeviceKind::shmem).pulls = core->pulls;
    of(DeviceKind::shmem).bytes_pulled = core->bytes_pulled;
    if (core->links.shmem != nullptr)
        of(DeviceKind::shmem).memory = core->links.shmem->memory_in_use();
    if (core->links.udp != nullptr) {
        pm::udp::Counters counters = core->links.udp->counters();
        of(DeviceKind::udp).packets = counters.datagrams_sent;
        of(DeviceKind::udp).packets_again = counters.sent_again;
        of(DeviceKind::udp).packets_alien = counters.alien + counters.malformed;
    }
    return PM_DEVICES_MAX;
}

void pm_count_announced(pm_peer *peer, size_t size)
{
    peer->bytes += size;
}

// ---- what a user is told ----

static pm::DeviceReport device_report(std::size_t place, DeviceKind kind, const std::string &network)
{
    pm::DeviceReport report{pm::device_name(kind), network, 0, 0, core->messages_received[place], core->bytes_received[place], {}};
    for (const auto &[id, peer] : core->peers)
        if (peer->place == place && peer->network == network) {
            report.messages_sent += peer->messages;
            report.bytes_sent += peer->bytes;
        }
    auto number = [](std::uint64_t value, const char *of) { return std::to_string(value) + " " + of; };
    if (kind == DeviceKind::shmem && core->pulls > 0)
        report.detail = number(core->pulls, "messages pulled by CMA");
    if (kind == DeviceKind::udp) {
        pm::udp::Counters counters = core->links.udp->counters();
        report.detail = number(counters.datagrams_sent, "packets, ") + number(counters.sent_again, "of them sent again, ") +
                        number(counters.alien + counters.malformed, "alien ones dropped");
    }
    return report;
}

static pm::RouteReport route_report(const pm_peer *peer)
{
    // By the rules SHMEM has one channel, every other device one for each process of the peer's host.
    pm::RouteReport route{pm::device_name(peer->kind), peer->network, peer->kind == DeviceKind::shmem ? 0 : peer->card.process,
                          {}, peer->messages, peer->bytes};
    for (const pm::NetworkCard &each : peer->card.networks)
        if (peer->kind != DeviceKind::shmem && each.network.name == peer->network && each.address)
            route.address = pm::ip_text(*each.address);
    return route;
}

static char *render(const pm::Report &report, std::string_view format)
{
    std::string text = format == "json" ? pm::to_json(report) : format == "html" ? pm::to_html(report) : pm::to_text(report);
    return strdup(text.c_str());
}

// Of the whole job, if who started it has told; otherwise of this process.
static std::string command()
{
    if (const char *whole = std::getenv("MPICOMPOSITE_COMMAND"))
        return whole;
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string text;
    for (std::string word; std::getline(file, word, '\0');)
        text += (text.empty() ? "" : " ") + pm::shell_word(word);
    return text;
}

// Of a job, by rank, with the priorities that were measured.
static std::vector<pm::Card> read_cards(const void *const *cards, const size_t *sizes, int count)
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

int pm_check_job(const void *const *cards, const size_t *sizes, int count)
{
    pm::Error error = pm::check_routes(pm::topology_of(read_cards(cards, sizes, count)));
    if (!error)
        return PM_OK;
    pm::tell_missing();
    return failed(error);
}

int pm_trials(const void *const *cards, const size_t *sizes, int count, pm_trial *trials)
{
    static_assert(PM_NETWORKS_MAX == pm::networks_max);
    pm::Topology job = pm::topology_of(read_cards(cards, sizes, count));
    int number = 0;
    for (const pm::Trial &each : pm::trials_of(job))
        trials[number++] = {job.networks[each.network].id, static_cast<int>(each.first), static_cast<int>(each.second)};
    return number;
}

// The routes of a job as they follow from all cards, known to everybody before the first message.
char *pm_plan(const void *const *cards, const size_t *sizes, int count, const char *format)
{
    auto report = pm::planned_routes(read_cards(cards, sizes, count));
    if (!report.ok()) {
        failed(report.error());
        return nullptr;
    }
    return render(report.value(), format);
}

void *pm_describe(pm_peer *const *peers, int count, size_t *size)
{
    pm::ProcessReport report;
    report.host = core->card.host;
    report.process = core->card.process;
    for (int i = 0; i < count; ++i)
        report.routes.push_back(route_report(peers[i]));
    if (core->links.shmem != nullptr)
        report.devices.push_back(device_report(pm::shmem_place, DeviceKind::shmem, {}));
    bool first = true;
    for (const pm::LocalNetwork &each : core->links.networks) {
        if (each.network.device != DeviceKind::udp)
            continue;
        report.devices.push_back(device_report(pm::udp_place, DeviceKind::udp, each.network.name));
        // What comes in over UDP does not say over which of its networks.
        if (!std::exchange(first, false))
            report.devices.back().messages_received = report.devices.back().bytes_received = 0;
    }
    for (std::size_t i = 0; i < core->links.ucx.size(); ++i)
        report.devices.push_back(device_report(pm::first_ucx_place + i, DeviceKind::ucx, core->links.ucx[i].local.network.name));
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
        report.run = pm::RunReport{command(), run->started, run->milliseconds};
    auto next = static_cast<const std::byte *>(descriptions);
    for (int i = 0; i < count; ++i) {
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
