// One page without other files: a bar for each rank (computing, MPI, waiting), then the tables of the text.
#include <algorithm>

#include "base/escape.h"
#include "netmod/report/style.h"
#include "netmod/report/summary.h"
#include "profile/summary.h"

namespace pm::profile {
namespace {

constexpr std::size_t ranks_most = 1024;

const char *const own_style = R"(
.split { display: flex; width: 24rem; height: .9em; background: rgb(94 126 106); }
.split span { height: 100%; } .mpi { background: rgb(42 98 166); } .waits { background: rgb(196 112 20); }
)";

using Row = std::vector<std::string>;

std::string element(const std::string &tag, const std::string &content)
{
    return "<" + tag + ">" + content + "</" + tag.substr(0, tag.find(' ')) + ">";
}

std::string row(const char *cell, const Row &texts)
{
    std::string line;
    for (const std::string &text : texts)
        line += element(cell, text);
    return element("tr", line) + "\n";
}

// Nothing when there are no rows.
std::string table(const std::string &title, const Row &head, const std::vector<Row> &rows)
{
    std::string lines;
    for (const Row &each : rows)
        lines += row("td", each);
    return rows.empty() ? "" : element("h2", title) + "\n" + element("table class=\"list\"", row("th", head) + lines) + "\n";
}

std::string part(const char *name, std::uint64_t time, std::uint64_t whole)
{
    std::string share = share_text(time, whole);
    return element("span class=\"" + std::string(name) + "\" style=\"width:" + share.substr(0, share.size() - 2) + "%\"", "");
}

std::string ranks(const Profile &profile)
{
    std::vector<Row> rows;
    for (std::size_t rank = 0; rank < std::min(profile.processes.size(), ranks_most); ++rank) {
        const ProcessProfile &process = profile.processes[rank];
        std::uint64_t whole = process.time * std::max<std::uint64_t>(process.threads, 1);
        std::uint64_t in_mpi = std::min(process.in_mpi(), whole), waiting = std::min(process.waiting(), in_mpi);
        if (process.host.empty())
            continue;
        rows.push_back({std::to_string(rank), html_text(process.host), share_text(whole - in_mpi, whole), share_text(in_mpi, whole),
                        share_text(waiting, whole),
                        element("div class=\"split\"", part("mpi", in_mpi - waiting, whole) + part("waits", waiting, whole))});
    }
    return table("Computing, MPI, and of that waiting", {"rank", "host", "computing", "in MPI", "waiting", ""}, rows);
}

std::string calls(const Summary &summary)
{
    std::vector<Row> rows;
    for (const CallSummary &call : summary.calls)
        rows.push_back({html_text(call.name), std::to_string(call.calls), time_text(call.time), time_text(call.waiting),
                        time_text(call.time / std::max<std::uint64_t>(call.calls, 1)), time_text(call.longest),
                        time_text(call.least) + " (rank " + std::to_string(call.least_rank) + ")",
                        time_text(call.most) + " (rank " + std::to_string(call.most_rank) + ")"});
    return table("Time in MPI by call, all ranks together; short calls are timed now and then", {"call", "calls", "time", "waiting", "mean", "longest", "least", "most"}, rows);
}

std::string late(const Summary &summary, Late kind, const std::string &title)
{
    std::vector<Row> rows;
    for (const LateSummary &each : summary.late)
        if (each.late == kind)
            rows.push_back({std::to_string(each.waiting_rank), each.late_rank < 0 ? "any" : "rank " + std::to_string(each.late_rank),
                            std::to_string(each.times), time_text(each.time), time_text(each.longest)});
    return table(title, {"rank", "waited for", "times", "together", "longest"}, rows);
}

std::string imbalances(const Summary &summary)
{
    std::vector<Row> rows;
    for (const ImbalanceSummary &each : summary.imbalances)
        rows.push_back({html_text(each.name), std::to_string(each.calls), time_text(each.mean), time_text(each.largest),
                        "rank " + std::to_string(each.last) + " (" + share_text(each.last_times, each.compared) + ")"});
    return table("Imbalance of collectives of all ranks", {"collective", "calls", "first in to last in: mean", "largest", "last in most often"}, rows);
}

std::string paths(const Summary &summary)
{
    std::vector<Row> rows;
    for (const PathSummary &path : summary.paths)
        for (std::size_t i = 0; i < size_classes; ++i)
            if (path.sizes.messages[i] > 0)
                rows.push_back({html_text(path.name), class_text(i), std::to_string(path.sizes.messages[i]), size_text(path.sizes.bytes[i])});
    return table("Messages by path and size", {"path", "size", "messages", "bytes"}, rows);
}

}  // namespace

std::string to_html(const Profile &profile)
{
    Summary summary = summarize(profile);
    std::string title = "Profile of " + counted(profile.processes.size(), "rank") + " on " + counted(summary.hosts, "host");
    return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" + element("title", title) + "\n" +
           element("style", std::string(page_style) + own_style) + "\n</head>\n<body>\n" + element("h1", title) + "\n" +
           element("p", element("code", html_text(profile.command))) + "\n" +
           element("p class=\"soft\"", "Started " + pm::time_text(profile.started) + ", " + time_text(summary.time) +
                                           " between MPI_Init and MPI_Finalize. " +
                                           (summary.silent.empty() ? "" : counted(summary.silent.size(), "rank") + " told nothing.")) +
           "\n" + ranks(profile) + calls(summary) + late(summary, Late::sender, "Late senders: a receive waited for its message") +
           late(summary, Late::receiver, "Late receivers: a send waited for its receive") + imbalances(summary) + paths(summary) +
           "</body>\n</html>\n";
}

}  // namespace pm::profile
