#include "netmod/report/summary.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <string_view>

namespace pm {
namespace {

constexpr std::size_t details_most = 4;  // that differ in more than numbers

std::size_t order_of(const std::string &device)
{
    const std::string_view known[] = {"shmem", "ucx", "udp"};
    return static_cast<std::size_t>(std::ranges::find(known, device) - std::begin(known));
}

std::size_t place_of(std::vector<Transport> *transports, const std::string &device, const std::string &network)
{
    auto same = [&](const Transport &transport) { return transport.device == device && transport.network == network; };
    auto found = std::ranges::find_if(*transports, same);
    if (found == transports->end())
        found = transports->insert(found, Transport{.device = device, .network = network, .detail = {}});
    return static_cast<std::size_t>(found - transports->begin());
}

bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

// Adds the numbers of `other` to those of `sum`; false, and nothing done, when they differ in anything else.
bool add_numbers(std::string *sum, std::string_view other)
{
    std::string result;
    std::string_view left = *sum, right = other;
    while (!left.empty() && !right.empty()) {
        if (is_digit(left[0]) && is_digit(right[0])) {
            std::uint64_t one = 0, two = 0;
            auto [left_end, left_error] = std::from_chars(left.data(), left.data() + left.size(), one);
            auto [right_end, right_error] = std::from_chars(right.data(), right.data() + right.size(), two);
            bool too_large = one > std::numeric_limits<std::uint64_t>::max() - two;
            if (left_error != std::errc() || right_error != std::errc() || too_large)
                return false;
            result += std::to_string(one + two);
            left.remove_prefix(static_cast<std::size_t>(left_end - left.data()));
            right.remove_prefix(static_cast<std::size_t>(right_end - right.data()));
        } else if (left[0] == right[0]) {
            result += left[0];
            left.remove_prefix(1);
            right.remove_prefix(1);
        } else {
            return false;
        }
    }
    if (!left.empty() || !right.empty())
        return false;
    *sum = result;
    return true;
}

// Of all processes; nothing when there are too many kinds of it.
std::string sum_of_details(const Report &report, const Transport &transport)
{
    std::vector<std::string> kinds;
    for (const ProcessReport &process : report.processes)
        for (const DeviceReport &device : process.devices) {
            if (device.detail.empty() || device.device != transport.device || device.network != transport.network)
                continue;
            if (std::ranges::none_of(kinds, [&](std::string &kind) { return add_numbers(&kind, device.detail); }))
                kinds.push_back(device.detail);
            if (kinds.size() > details_most)
                return {};
        }
    std::string text;
    for (const std::string &kind : kinds)
        text += (text.empty() ? "" : "; ") + kind;
    return text;
}

void find_transports(const Report &report, Summary *summary)
{
    auto &transports = summary->transports;
    std::size_t ranks = report.processes.size();
    for (std::size_t from = 0; from < ranks; ++from) {
        const std::vector<RouteReport> &routes = report.processes[from].routes;
        for (std::size_t to = 0; to < ranks && to < routes.size(); ++to)
            if (to != from && !routes[to].device.empty())
                place_of(&transports, routes[to].device, routes[to].network);
        for (const DeviceReport &device : report.processes[from].devices)
            if (device.messages_sent > 0 || device.messages_received > 0)
                place_of(&transports, device.device, device.network);
    }
    std::ranges::stable_sort(transports, {}, [](const Transport &transport) { return order_of(transport.device); });

    for (Transport &transport : transports)
        transport.detail = sum_of_details(report, transport);
}

void find_routes(const Report &report, Summary *summary)
{
    std::size_t ranks = report.processes.size();
    summary->used.assign(ranks, std::vector<std::uint32_t>(ranks, Summary::unknown));
    for (std::size_t from = 0; from < ranks; ++from) {
        const std::vector<RouteReport> &routes = report.processes[from].routes;
        for (std::size_t to = 0; to < ranks && to < routes.size(); ++to) {
            if (to == from || routes[to].device.empty())
                continue;
            std::size_t place = place_of(&summary->transports, routes[to].device, routes[to].network);
            summary->used[from][to] = static_cast<std::uint32_t>(place);
            ++summary->transports[place].pairs;
        }
    }
}

// By what the devices of a process say, which is more than routes know; by its routes where no device says anything.
void add_traffic(const Report &report, Summary *summary)
{
    for (Transport &transport : summary->transports)
        for (const ProcessReport &process : report.processes) {
            auto is_of_transport = [&](const auto &one) {
                return one.device == transport.device && one.network == transport.network;
            };
            auto device = std::ranges::find_if(process.devices, is_of_transport);
            if (device != process.devices.end()) {
                transport.messages += device->messages_sent;
                transport.bytes += device->bytes_sent;
                continue;
            }
            for (const RouteReport &route : process.routes)
                if (is_of_transport(route)) {
                    transport.messages += route.messages;
                    transport.bytes += route.bytes;
                }
        }
}

void find_hosts(const Report &report, Summary *summary)
{
    for (std::size_t rank = 0; rank < report.processes.size(); ++rank) {
        auto host = std::ranges::find(summary->hosts, report.processes[rank].host, &HostSummary::name);
        if (host == summary->hosts.end())
            host = summary->hosts.insert(host, HostSummary{report.processes[rank].host, {}});
        host->ranks.push_back(rank);
        summary->host_of.push_back(static_cast<std::size_t>(host - summary->hosts.begin()));
    }
}

using HostTable = std::vector<std::vector<Transports>>;

HostTable transports_between_hosts(const Summary &summary)
{
    HostTable between(summary.hosts.size(), std::vector<Transports>(summary.hosts.size()));
    for (std::size_t from = 0; from < summary.used.size(); ++from)
        for (std::size_t to = 0; to < summary.used.size(); ++to) {
            if (from == to)
                continue;
            Transports &set = between[summary.host_of[from]][summary.host_of[to]];
            char32_t place = summary.used[from][to];
            auto at = std::ranges::lower_bound(set, place);
            if (at == set.end() || *at != place)
                set.insert(at, place);
        }
    return between;
}

// Whether `host` may join the group: it and the group's first host see all others alike, and each other as the group does.
bool alike(const HostTable &between, const HostGroup &group, std::size_t host)
{
    std::size_t first = group.hosts[0];
    if (between[first][first] != between[host][host] || between[first][host] != between[host][first])
        return false;
    if (group.hosts.size() > 1 && between[first][host] != between[first][group.hosts[1]])
        return false;
    for (std::size_t other = 0; other < between.size(); ++other)
        if (other != first && other != host &&
            (between[first][other] != between[host][other] || between[other][first] != between[other][host]))
            return false;
    return true;
}

struct NumberedName {
    std::string stem, digits;
};

NumberedName split(const std::string &name)
{
    std::size_t end = name.size();
    while (end > 0 && name.size() - end < 9 && is_digit(name[end - 1]))
        --end;
    return {name.substr(0, end), name.substr(end)};
}

// Whether b follows a: n7 and n8, n09 and n10.
bool follows(const NumberedName &a, const NumberedName &b)
{
    if (a.stem != b.stem || a.digits.empty() || b.digits.empty())
        return false;
    bool padded = a.digits.size() == b.digits.size();
    bool grown = a.digits.size() + 1 == b.digits.size() && a.digits[0] != '0' && b.digits[0] != '0';
    return (padded || grown) && std::strtoul(a.digits.c_str(), nullptr, 10) + 1 == std::strtoul(b.digits.c_str(), nullptr, 10);
}

void write_labels(const Summary &summary, HostGroup *group)
{
    std::size_t parts = 0;
    for (std::size_t begin = 0, end; begin < group->hosts.size(); begin = end) {
        NumberedName last = split(summary.hosts[group->hosts[begin]].name);
        for (end = begin + 1; end < group->hosts.size(); ++end) {
            NumberedName next = split(summary.hosts[group->hosts[end]].name);
            if (!follows(last, next))
                break;
            last = next;
        }
        std::string part = summary.hosts[group->hosts[begin]].name;
        if (end > begin + 1)
            part += (end > begin + 2 ? "-" : ", ") + last.stem + last.digits;
        group->label += (begin == 0 ? "" : ", ") + part;
        if (++parts == 1)
            group->short_label = part;
    }
    constexpr std::size_t short_enough = 24;
    if (group->label.size() <= short_enough)
        group->short_label = group->label;
    else if (parts > 1)
        group->short_label += " ...";
}

void find_groups(Summary *summary)
{
    HostTable between = transports_between_hosts(*summary);
    for (std::size_t host = 0; host < summary->hosts.size(); ++host) {
        std::size_t ranks = summary->hosts[host].ranks.size();
        auto group = std::ranges::find_if(summary->groups, [&](const HostGroup &one) { return alike(between, one, host); });
        if (group == summary->groups.end()) {
            group = summary->groups.insert(group, HostGroup{});
            group->least_ranks = ranks;
            group->within = between[host][host];
        }
        group->hosts.push_back(host);
        group->least_ranks = std::min(group->least_ranks, ranks);
        group->most_ranks = std::max(group->most_ranks, ranks);
    }
    for (HostGroup &from : summary->groups) {
        write_labels(*summary, &from);
        for (const HostGroup &to : summary->groups) {
            bool own = &from == &to;
            if (own && to.hosts.size() == 1)
                from.to.emplace_back();
            else
                from.to.push_back(between[from.hosts[0]][to.hosts[own ? 1 : 0]]);
        }
    }
}

}  // namespace

char Transport::letter() const
{
    if (device == "ucx")
        return 'X';
    bool is_letter = !device.empty() && std::isalpha(static_cast<unsigned char>(device[0])) != 0;
    return is_letter ? static_cast<char>(std::toupper(static_cast<unsigned char>(device[0]))) : '?';
}

std::string HostGroup::ranks_on_each() const
{
    std::string least = std::to_string(least_ranks);
    return least_ranks == most_ranks ? least : least + " to " + std::to_string(most_ranks);
}

std::string Summary::name_of(const Transports &places) const
{
    std::string text;
    for (char32_t place : places)
        text += (text.empty() ? "" : " + ") + (place == unknown ? "unknown" : transports[place].name());
    return text.empty() ? "-" : text;
}

Summary summarize(const Report &report)
{
    Summary summary;
    find_transports(report, &summary);
    find_routes(report, &summary);
    add_traffic(report, &summary);
    find_hosts(report, &summary);
    find_groups(&summary);
    return summary;
}

std::string counted(std::uint64_t number, const std::string &one)
{
    return std::to_string(number) + " " + one + (number == 1 ? "" : "s");
}

std::string letters(const Summary &summary)
{
    std::string text;
    std::vector<std::string> seen;
    for (const Transport &transport : summary.transports) {
        if (transport.pairs == 0 || std::ranges::find(seen, transport.device) != seen.end())
            continue;
        seen.push_back(transport.device);
        text += (text.empty() ? "" : ", ") + std::string(1, transport.letter()) + " " + transport.device;
    }
    return text;
}

std::string time_text(std::int64_t seconds_since_1970)
{
    auto time = static_cast<std::time_t>(seconds_since_1970);
    std::tm parts{};
    char text[64] = "";
    if (gmtime_r(&time, &parts) != nullptr)
        std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

std::string duration_text(std::uint64_t milliseconds)
{
    std::uint64_t seconds = milliseconds / 1000, minutes = seconds / 60;
    char text[64];
    if (minutes >= 60)
        std::snprintf(text, sizeof text, "%" PRIu64 " h %" PRIu64 " min", minutes / 60, minutes % 60);
    else if (seconds >= 100)
        std::snprintf(text, sizeof text, "%" PRIu64 " min %" PRIu64 " s", minutes, seconds % 60);
    else
        std::snprintf(text, sizeof text, seconds < 10 ? "%.3f s" : "%.1f s", static_cast<double>(milliseconds) / 1000);
    return text;
}

std::string route_code(const Report &report, const Summary &summary, std::size_t from, std::size_t to)
{
    std::uint32_t place = summary.used[from][to];
    if (place == Summary::unknown)
        return "?";
    return summary.transports[place].letter() + std::to_string(report.processes[from].routes[to].channel);
}

std::string address_of(const Report &report, const Summary &summary, std::size_t rank, std::size_t transport)
{
    std::vector<std::string> addresses;
    for (std::size_t from = 0; from < report.processes.size(); ++from) {
        if (summary.used[from][rank] != transport)
            continue;
        const std::string &address = report.processes[from].routes[rank].address;
        if (!address.empty() && std::ranges::find(addresses, address) == addresses.end())
            addresses.push_back(address);
    }
    std::string text;
    for (const std::string &address : addresses)
        text += (text.empty() ? "" : ", ") + address;
    return text;
}

std::vector<std::size_t> transports_with_addresses(const Report &report, const Summary &summary)
{
    std::vector<std::size_t> found;
    for (std::size_t transport = 0; transport < summary.transports.size(); ++transport)
        for (std::size_t rank = 0; rank < report.processes.size(); ++rank)
            if (!address_of(report, summary, rank, transport).empty()) {
                found.push_back(transport);
                break;
            }
    return found;
}

}  // namespace pm
