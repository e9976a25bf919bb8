// One object; a rank a line. mpicomposite(1) says what each name means: programs rely on it.
#include "base/escape.h"
#include "netmod/report/summary.h"
#include "profile/summary.h"

namespace pm::profile {
namespace {

std::string number(const char *name, std::uint64_t value)
{
    return ",\"" + std::string(name) + "\":" + std::to_string(value);
}

template <class Member, class Text>
std::string list(const char *name, const std::vector<Member> &members, Text text)
{
    std::string all = ",\"" + std::string(name) + "\":[";
    for (std::size_t i = 0; i < members.size(); ++i)
        all += (i == 0 ? "" : ",") + text(members[i]);
    return all + "]";
}

std::string rank_or_null(std::int32_t rank)
{
    return rank < 0 ? "null" : std::to_string(rank);
}

std::string call(const CallProfile &call)
{
    return "{\"name\":" + json_string(call.name) + number("calls", call.calls) + number("ns", call.time) + number("waiting_ns", call.waiting) +
           number("longest_ns", call.longest) + "}";
}

std::string late(const LateProfile &late)
{
    return "{\"late\":" + json_string(late.late == Late::sender ? "sender" : "receiver") + ",\"rank\":" + rank_or_null(late.rank) +
           number("times", late.times) + number("ns", late.time) + number("longest_ns", late.longest) + "}";
}

std::string path(const PathProfile &path)
{
    std::string sizes;
    for (std::size_t i = 0; i < size_classes; ++i)
        if (path.sizes.messages[i] > 0)
            sizes += std::string(sizes.empty() ? "" : ",") + "{\"to\":" +
                     (i == size_classes - 1 ? "null" : std::to_string(i == 0 ? 0 : std::uint64_t{1} << 2 * (i + 1))) +
                     number("messages", path.sizes.messages[i]) + number("bytes", path.sizes.bytes[i]) + "}";
    return "{\"path\":" + json_string(path.name) + ",\"sizes\":[" + sizes + "]" + number("pulled", path.pulled) +
           number("pulling_ns", path.pulling) + number("round_trip_ns", path.round_trip) + "}";
}

std::string imbalance(const ImbalanceSummary &each)
{
    return "{\"name\":" + json_string(each.name) + number("calls", each.calls) + number("compared", each.compared) +
           number("mean_ns", each.mean) + number("largest_ns", each.largest) + number("last", each.last) +
           number("last_times", each.last_times) + "}";
}

}  // namespace

std::string to_json(const Profile &profile)
{
    std::string text = "{\"ranks\":[";
    for (std::size_t rank = 0; rank < profile.processes.size(); ++rank) {
        const ProcessProfile &process = profile.processes[rank];
        text += std::string(rank == 0 ? "\n" : ",\n") + "{\"rank\":" + std::to_string(rank) + ",\"host\":" + json_string_or_null(process.host) +
                number("ns", process.time) + number("mpi_ns", process.in_mpi()) + number("waiting_ns", process.waiting()) +
                number("threads", process.threads) + list("calls", process.calls, call) + list("late", process.late, late) +
                list("paths", process.paths, path) + "}";
    }
    return text + "\n]" + list("imbalances", summarize(profile).imbalances, imbalance) + ",\n\"command\":" + json_string(profile.command) +
           ",\"started\":" + json_string(pm::time_text(profile.started)) + "}\n";
}

}  // namespace pm::profile
