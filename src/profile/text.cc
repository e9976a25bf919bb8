#include <algorithm>

#include "base/escape.h"
#include "netmod/report/summary.h"
#include "netmod/report/table.h"
#include "profile/summary.h"

namespace pm::profile {
namespace {

constexpr std::size_t ranks_most = 64, calls_most = 20;

std::string ranks(const Profile &profile)
{
    Table table{{"rank", "host", "time", "computing", "in MPI", "of that waiting", "most of it in"}};
    for (std::size_t rank = 0; rank < profile.processes.size() && rank < ranks_most; ++rank) {
        const ProcessProfile &process = profile.processes[rank];
        if (process.host.empty())
            continue;
        // Several threads have more time than there is.
        std::uint64_t in_mpi = process.in_mpi(), whole = process.time * std::max<std::uint64_t>(process.threads, 1);
        auto most = std::ranges::max_element(process.calls, {}, &CallProfile::time);
        table.push_back({std::to_string(rank), plain_text(process.host), time_text(process.time),
                         share_text(whole - std::min(in_mpi, whole), whole), share_text(in_mpi, whole), share_text(process.waiting(), whole),
                         most == process.calls.end() ? "-" : plain_text(most->name) + " " + share_text(most->time, whole)});
    }
    std::string rest = profile.processes.size() > ranks_most
                           ? "  (and " + std::to_string(profile.processes.size() - ranks_most) + " more: JSON has all)\n" : "";
    return "composite: computing and MPI by rank\n" + aligned(table, false) + rest;
}

std::string calls(const Summary &summary)
{
    Table table{{"call", "calls", "time", "waiting", "mean", "longest", "least (rank)", "most (rank)"}};
    for (const CallSummary &call : summary.calls) {
        if (table.size() > calls_most)
            break;
        table.push_back({plain_text(call.name), std::to_string(call.calls), time_text(call.time), time_text(call.waiting),
                         time_text(call.time / std::max<std::uint64_t>(call.calls, 1)), time_text(call.longest),
                         time_text(call.least) + " (" + std::to_string(call.least_rank) + ")",
                         time_text(call.most) + " (" + std::to_string(call.most_rank) + ")"});
    }
    return "composite: time in MPI by call, all ranks together; short calls are timed now and then\n" + aligned(table, false);
}

std::string late(const Summary &summary)
{
    std::string text;
    for (Late kind : {Late::sender, Late::receiver}) {
        Table table{{"rank", "waited for", "times", "together", "longest"}};
        for (const LateSummary &each : summary.late)
            if (each.late == kind)
                table.push_back({std::to_string(each.waiting_rank), each.late_rank < 0 ? "any" : "rank " + std::to_string(each.late_rank),
                                 std::to_string(each.times), time_text(each.time), time_text(each.longest)});
        if (table.size() > 1)
            text += std::string(kind == Late::sender ? "composite: late senders: a receive waited for its message\n"
                                                     : "composite: late receivers: a send waited for its receive\n") +
                    aligned(table, false);
    }
    return text;
}

std::string imbalances(const Summary &summary)
{
    Table table{{"collective", "calls", "first in to last in: mean", "largest", "last in most often"}};
    for (const ImbalanceSummary &each : summary.imbalances)
        table.push_back({plain_text(each.name), std::to_string(each.calls), time_text(each.mean), time_text(each.largest),
                         "rank " + std::to_string(each.last) + " (" + share_text(each.last_times, each.compared) + ")"});
    return table.size() == 1 ? "" : "composite: imbalance of collectives of all ranks\n" + aligned(table, false);
}

std::string paths(const Summary &summary)
{
    std::vector<bool> used(size_classes);
    for (const PathSummary &path : summary.paths)
        for (std::size_t i = 0; i < size_classes; ++i)
            used[i] = used[i] || path.sizes.messages[i] > 0;
    Table table{{"path", "bytes", "bytes a second", "messages"}};
    for (std::size_t i = 0; i < size_classes; ++i)
        if (used[i])
            table[0].push_back(class_text(i));
    for (const PathSummary &path : summary.paths) {
        double seconds = static_cast<double>(std::max<std::uint64_t>(summary.time, 1)) / 1e9;
        std::vector<std::string> row{plain_text(path.name), size_text(path.bytes),
                                     size_text(static_cast<std::uint64_t>(static_cast<double>(path.bytes) / seconds)),
                                     std::to_string(path.messages)};
        for (std::size_t i = 0; i < size_classes; ++i)
            if (used[i])
                row.push_back(std::to_string(path.sizes.messages[i]));
        table.push_back(row);
    }
    std::string text = "composite: messages by path and size\n" + aligned(table, false);
    for (const PathSummary &path : summary.paths) {
        if (path.round_trip > 0)
            text += "composite: " + plain_text(path.name) + ": shortest round trip " + time_text(path.round_trip) + "\n";
        if (path.pulling > 0)
            text += "composite: " + plain_text(path.name) + ": receivers read " + size_text(path.pulled) + " from senders' memory, " +
                    size_text(static_cast<std::uint64_t>(static_cast<double>(path.pulled) * 1e9 / static_cast<double>(path.pulling))) +
                    " a second\n";
    }
    return summary.paths.empty() ? "" : text;
}

}  // namespace

std::string to_text(const Profile &profile)
{
    Summary summary = summarize(profile);
    std::string text = "composite: profile of " + counted(profile.processes.size(), "rank") + " on " + counted(summary.hosts, "host") + ", " + time_text(summary.time) + " between MPI_Init and MPI_Finalize\n";
    if (!summary.silent.empty())
        text += "composite: " + counted(summary.silent.size(), "rank") + " told nothing, rank " + std::to_string(summary.silent[0]) +
                " for one: is MPIR_CVAR_CH4_COMPOSITE_REPORT set for all?\n";
    return text + ranks(profile) + calls(summary) + late(summary) + imbalances(summary) + paths(summary);
}

}  // namespace pm::profile
