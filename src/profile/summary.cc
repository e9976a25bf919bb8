#include "profile/summary.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <set>

namespace pm::profile {
namespace {

template <class Member>
Member &named(std::vector<Member> *members, const std::string &name)
{
    auto found = std::ranges::find(*members, name, &Member::name);
    if (found == members->end()) {
        found = members->insert(found, Member{});
        found->name = name;
    }
    return *found;
}

std::vector<CallSummary> calls_of(const Profile &profile)
{
    std::vector<CallSummary> calls;
    for (const ProcessProfile &process : profile.processes)
        for (const CallProfile &each : process.calls) {
            CallSummary &call = named(&calls, each.name);
            call.calls += each.calls;
            call.time += each.time;
            call.waiting += each.waiting;
            call.longest = std::max(call.longest, each.longest);
        }
    // Ranks that do not call it have no time in it.
    for (CallSummary &call : calls) {
        call.least = std::numeric_limits<std::uint64_t>::max();
        for (std::size_t rank = 0; rank < profile.processes.size(); ++rank) {
            const ProcessProfile &process = profile.processes[rank];
            auto found = std::ranges::find(process.calls, call.name, &CallProfile::name);
            std::uint64_t time = found == process.calls.end() ? 0 : found->time;
            if (process.host.empty())
                continue;
            if (time < call.least) {
                call.least = time;
                call.least_rank = rank;
            }
            if (time > call.most) {
                call.most = time;
                call.most_rank = rank;
            }
        }
    }
    std::ranges::stable_sort(calls, std::greater{}, &CallSummary::time);
    return calls;
}

std::vector<LateSummary> late_of(const Profile &profile)
{
    std::vector<LateSummary> all;
    for (std::size_t rank = 0; rank < profile.processes.size(); ++rank)
        for (const LateProfile &each : profile.processes[rank].late)
            all.push_back({each.late, rank, each.rank, each.times, each.time, each.longest});
    std::ranges::stable_sort(all, std::greater{}, &LateSummary::time);
    std::vector<LateSummary> most;
    for (Late late : {Late::sender, Late::receiver}) {
        std::size_t room = late_most;
        for (const LateSummary &each : all)
            if (each.late == late && room > 0) {
                most.push_back(each);
                --room;
            }
    }
    return most;
}

// Of the calls that every rank has timed; nothing when a rank has another number of calls than others, as after an error.
ImbalanceSummary imbalance_of(const std::string &name, const std::vector<const SeriesProfile *> &series)
{
    ImbalanceSummary imbalance{.name = name, .calls = series[0]->calls};
    std::uint64_t step = 1;
    for (const SeriesProfile *each : series) {
        if (each->calls != imbalance.calls || each->step == 0)
            return imbalance;
        step = std::max<std::uint64_t>(step, each->step);
    }
    std::map<std::size_t, std::uint64_t> last;
    std::uint64_t sum = 0;
    for (std::uint64_t call = 0;; call += step) {
        std::uint64_t least = std::numeric_limits<std::uint64_t>::max(), most = 0;
        std::size_t shortest = 0, rank = 0;
        for (; rank < series.size(); ++rank) {
            std::uint64_t place = call / series[rank]->step;
            if (call % series[rank]->step != 0 || place >= series[rank]->times.size())
                break;
            std::uint64_t time = series[rank]->times[place];
            most = std::max(most, time);
            if (time < least) {
                least = time;
                shortest = rank;
            }
        }
        if (rank < series.size())
            break;
        ++imbalance.compared;
        sum += most - least;
        imbalance.largest = std::max(imbalance.largest, most - least);
        ++last[shortest];
    }
    imbalance.mean = imbalance.compared == 0 ? 0 : sum / imbalance.compared;
    for (const auto &[rank, times] : last)
        if (times > imbalance.last_times) {
            imbalance.last = rank;
            imbalance.last_times = times;
        }
    return imbalance;
}

std::vector<ImbalanceSummary> imbalances_of(const Profile &profile)
{
    std::vector<ImbalanceSummary> imbalances;
    if (profile.processes.size() < 2)
        return imbalances;
    for (const SeriesProfile &first : profile.processes[0].series) {
        std::vector<const SeriesProfile *> series;
        for (const ProcessProfile &process : profile.processes) {
            auto found = std::ranges::find(process.series, first.name, &SeriesProfile::name);
            if (found != process.series.end())
                series.push_back(&*found);
        }
        if (series.size() != profile.processes.size())
            continue;
        ImbalanceSummary imbalance = imbalance_of(first.name, series);
        if (imbalance.compared > 0)
            imbalances.push_back(imbalance);
    }
    std::ranges::stable_sort(imbalances, std::greater{},
                             [](const ImbalanceSummary &one) { return static_cast<double>(one.mean) * static_cast<double>(one.calls); });
    return imbalances;
}

std::vector<PathSummary> paths_of(const Profile &profile)
{
    std::vector<PathSummary> paths;
    for (const ProcessProfile &process : profile.processes)
        for (const PathProfile &each : process.paths) {
            PathSummary &path = named(&paths, each.name);
            for (std::size_t i = 0; i < size_classes; ++i) {
                path.sizes.messages[i] += each.sizes.messages[i];
                path.sizes.bytes[i] += each.sizes.bytes[i];
                path.messages += each.sizes.messages[i];
                path.bytes += each.sizes.bytes[i];
            }
            path.pulled += each.pulled;
            path.pulling += each.pulling;
            if (each.round_trip != 0 && (path.round_trip == 0 || each.round_trip < path.round_trip))
                path.round_trip = each.round_trip;
        }
    std::erase_if(paths, [](const PathSummary &path) { return path.messages == 0; });
    std::ranges::stable_sort(paths, std::greater{}, &PathSummary::bytes);
    return paths;
}

std::string formatted(double value, const char *unit)
{
    char text[48];
    std::snprintf(text, sizeof text, value < 10 ? "%.2f %s" : value < 100 ? "%.1f %s" : "%.0f %s", value, unit);
    return text;
}

}  // namespace

Summary summarize(const Profile &profile)
{
    Summary summary;
    std::set<std::string> hosts;
    for (std::size_t rank = 0; rank < profile.processes.size(); ++rank) {
        const ProcessProfile &process = profile.processes[rank];
        summary.time = std::max(summary.time, process.time);
        if (process.host.empty())
            summary.silent.push_back(rank);
        else
            hosts.insert(process.host);
    }
    summary.hosts = hosts.size();
    summary.calls = calls_of(profile);
    summary.late = late_of(profile);
    summary.imbalances = imbalances_of(profile);
    summary.paths = paths_of(profile);
    return summary;
}

std::string time_text(std::uint64_t nanoseconds)
{
    auto value = static_cast<double>(nanoseconds);
    if (nanoseconds == 0)
        return "0 s";
    if (value < 1e6)
        return formatted(value / 1e3, "us");
    return value < 1e9 ? formatted(value / 1e6, "ms") : formatted(value / 1e9, "s");
}

std::string share_text(std::uint64_t part, std::uint64_t whole)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.1f %%", whole == 0 ? 0.0 : 100 * static_cast<double>(part) / static_cast<double>(whole));
    return text;
}

std::string size_text(std::uint64_t bytes)
{
    const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; value >= 1024; value /= 1024)
        ++unit;
    char text[32];
    std::snprintf(text, sizeof text, unit > 0 && value < 10 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

std::string class_text(std::size_t size_class)
{
    if (size_class == 0)
        return "empty";
    if (size_class == size_classes - 1)
        return "more";
    std::uint64_t bytes = std::uint64_t{1} << 2 * (size_class + 1);
    const char *const units[] = {" B", " KiB", " MiB"};
    std::size_t unit = 0;
    for (; bytes >= 1024; bytes /= 1024)
        ++unit;
    return "to " + std::to_string(bytes) + units[unit];
}

}  // namespace pm::profile
