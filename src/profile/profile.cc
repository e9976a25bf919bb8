// The bytes: every field in the order of profile.h, packed as base/packing.h says.
#include "profile/profile.h"

#include <algorithm>
#include <map>

#include "base/packing.h"

namespace pm::profile {
namespace {

constexpr std::byte mark{0xd1};  // changes with the format
constexpr std::size_t least_call = 5, least_late = 5, least_series = 4, least_path = 4 + 2 * size_classes;  // bytes

void write(Writer &writer, const CallProfile &call)
{
    writer.text(call.name);
    for (std::uint64_t number : {call.calls, call.time, call.waiting, call.longest})
        writer.number(number);
}

void write(Writer &writer, const LateProfile &late)
{
    writer.number(static_cast<std::uint64_t>(late.late));
    writer.number(static_cast<std::uint64_t>(late.rank + 1));
    for (std::uint64_t number : {late.times, late.time, late.longest})
        writer.number(number);
}

void write(Writer &writer, const SeriesProfile &series)
{
    writer.text(series.name);
    writer.number(series.calls);
    writer.number(series.step);
    writer.number(series.times.size());
    for (std::uint64_t time : series.times)
        writer.number(time);
}

void write(Writer &writer, const PathProfile &path)
{
    writer.text(path.name);
    for (std::size_t i = 0; i < size_classes; ++i) {
        writer.number(path.sizes.messages[i]);
        writer.number(path.sizes.bytes[i]);
    }
    for (std::uint64_t number : {path.pulled, path.pulling, path.round_trip})
        writer.number(number);
}

void read(Reader &reader, CallProfile *call)
{
    call->name = reader.text();
    for (std::uint64_t *number : {&call->calls, &call->time, &call->waiting, &call->longest})
        *number = reader.number();
}

void read(Reader &reader, LateProfile *late)
{
    late->late = static_cast<Late>(reader.number(static_cast<std::uint64_t>(Late::receiver)));
    late->rank = static_cast<std::int32_t>(reader.number(std::numeric_limits<std::int32_t>::max())) - 1;
    for (std::uint64_t *number : {&late->times, &late->time, &late->longest})
        *number = reader.number();
}

void read(Reader &reader, SeriesProfile *series)
{
    series->name = reader.text();
    series->calls = reader.number();
    series->step = reader.small_number();
    for (std::uint64_t left = reader.count(1); left > 0 && reader.ok(); --left)
        series->times.push_back(reader.number());
}

void read(Reader &reader, PathProfile *path)
{
    path->name = reader.text();
    for (std::size_t i = 0; i < size_classes; ++i) {
        path->sizes.messages[i] = reader.number();
        path->sizes.bytes[i] = reader.number();
    }
    for (std::uint64_t *number : {&path->pulled, &path->pulling, &path->round_trip})
        *number = reader.number();
}

template <class Member>
Member &named(std::vector<Member> *members, const char *name)
{
    auto found = std::ranges::find(*members, name, &Member::name);
    if (found == members->end()) {
        found = members->insert(found, Member{});
        found->name = name;
    }
    return *found;
}

}  // namespace

std::uint64_t ProcessProfile::in_mpi() const
{
    std::uint64_t sum = 0;
    for (const CallProfile &call : calls)
        sum += call.time;
    return sum;
}

std::uint64_t ProcessProfile::waiting() const
{
    std::uint64_t sum = 0;
    for (const CallProfile &call : calls)
        sum += call.waiting;
    return sum;
}

ProcessProfile gather(std::span<const std::unique_ptr<Thread>> threads, std::uint64_t time, std::uint64_t ticks)
{
    ProcessProfile process;
    process.time = time;
    process.threads = threads.size();
    double scale = ticks == 0 ? 1 : static_cast<double>(time) / static_cast<double>(ticks);
    auto scaled = [&](std::uint64_t value) { return static_cast<std::uint64_t>(static_cast<double>(value) * scale); };
    for (const auto &thread : threads) {
        for (const Function &function : thread->functions()) {
            if (function.calls() == 0 || &function == thread->open())
                continue;  // MPI_Finalize itself
            CallProfile &call = named(&process.calls, function.name);
            call.calls += function.calls();
            call.time += scaled(function.time());
            call.waiting += scaled(function.idle);
            call.longest = std::max(call.longest, scaled(function.longest));
            // Of several threads there is no order that all ranks have in common.
            if (function.series.ticks.empty() || std::ranges::find(process.series, function.name, &SeriesProfile::name) != process.series.end())
                continue;
            SeriesProfile &series = named(&process.series, function.name);
            series.calls = function.series.calls;
            series.step = function.series.step;
            for (std::uint64_t one : function.series.ticks)
                series.times.push_back(scaled(one));
        }
        for (const auto &[who, late] : thread->late()) {
            if (late.times == 0)
                continue;  // it waits just now
            auto same = [&](const LateProfile &one) { return one.late == who.first && one.rank == who.second; };
            auto found = std::ranges::find_if(process.late, same);
            if (found == process.late.end())
                found = process.late.insert(found, LateProfile{who.first, who.second});
            found->times += late.times;
            found->time += scaled(late.ticks);
            found->longest = std::max(found->longest, scaled(late.longest));
        }
    }
    return process;
}

std::vector<std::byte> pack(const ProcessProfile &process)
{
    Writer writer(mark);
    writer.text(process.host);
    writer.number(process.time);
    writer.number(process.threads);
    writer.list(process.calls, write);
    writer.list(process.late, write);
    writer.list(process.series, write);
    writer.list(process.paths, write);
    return writer.take();
}

Result<ProcessProfile> unpack(std::span<const std::byte> bytes)
{
    Reader reader(mark, bytes);
    ProcessProfile process;
    process.host = reader.text();
    process.time = reader.number();
    process.threads = reader.number();
    reader.list(least_call, &process.calls, read);
    reader.list(least_late, &process.late, read);
    reader.list(least_series, &process.series, read);
    reader.list(least_path, &process.paths, read);
    if (!reader.at_end())
        return Error{Status::invalid, "a profile of " + std::to_string(bytes.size()) +
                                          " bytes is not understood: do all ranks run the same version of this library?"};
    return process;
}

}  // namespace pm::profile
