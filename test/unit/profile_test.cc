// What is recorded of calls, with a clock of the test's own; its way through the network; and what is said of a job.
#include "profile/profile.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "profile/summary.h"

namespace pm::profile {
namespace {

std::uint64_t time_now;
std::uint64_t now()
{
    return time_now;
}

bool all_take_part = true;
Cause next_cause;
Called open_call;  // that a thread is in
const Questions questions{[] { return all_take_part; }, [] { return next_cause; }, [] { return open_call; }};

const Called send_call{1, "MPI_Send"}, receive_call{2, "MPI_Recv"}, wait_call{3, "MPI_Waitall"}, reduce_call{4, "MPI_Allreduce"}, isend_call{5, "MPI_Isend"};

const Function &function(const Thread &thread, Called called)
{
    for (const Function &each : thread.functions())
        if (each.name == called.name)
            return each;
    static const Function none;
    return none;
}

// As composite_calls.h does it: what need not be told is counted down. Whether the end is told.
bool begin(Thread *thread, Called called)
{
    open_call = called;
    int &untold = thread->untold()[called.function];
    if (untold == 0)
        return thread->begin(called, now);
    --untold;
    return false;
}

void end(Thread *thread, bool told)
{
    open_call = {};
    if (told)
        thread->end(now);
}

void call(Thread *thread, Called called, std::uint64_t takes)
{
    bool told = begin(thread, called);
    time_now += takes;
    end(thread, told);
}

void waiting_call(Thread *thread, Called called, std::uint64_t before, std::uint64_t waits, std::uint64_t behind)
{
    begin(thread, called);
    time_now += before;
    thread->waits(now);
    time_now += waits;
    thread->goes_on(now);
    time_now += behind;
    end(thread, true);
}

TEST(Profile, EveryCallIsCountedAndSamplesStandForTheRest)
{
    time_now = 1000;
    auto thread = std::make_unique<Thread>(questions);
    std::uint64_t whole = 0;
    for (int i = 0; i < 100000; ++i) {
        std::uint64_t takes = 200 + 100 * (i % 7);
        call(thread.get(), send_call, takes);
        whole += takes;
    }
    const Function &sent = function(*thread, send_call);
    EXPECT_EQ(sent.calls(), 100000u);
    EXPECT_NEAR(static_cast<double>(sent.time()), static_cast<double>(whole), 0.05 * static_cast<double>(whole));
    EXPECT_GT(sent.weight, 16u);
    EXPECT_EQ(function(*thread, receive_call).calls(), 0u);
}

TEST(Profile, CallsThatNeverWaitAreStampedLessOften)
{
    time_now = 1000;
    auto thread = std::make_unique<Thread>(questions);
    int stamped = 0;
    std::uint64_t whole = 0;
    for (int i = 0; i < 100000; ++i) {
        std::uint64_t takes = 60 + 10 * (i % 5);
        bool told = begin(thread.get(), isend_call);
        stamped += told;
        time_now += takes;
        whole += takes;
        end(thread.get(), told);
        EXPECT_EQ(function(*thread, isend_call).calls(), static_cast<std::uint64_t>(i) + 1);
    }
    EXPECT_LT(stamped, 1500);
    EXPECT_GT(stamped, 600);
    EXPECT_NEAR(static_cast<double>(function(*thread, isend_call).time()), static_cast<double>(whole), 0.05 * static_cast<double>(whole));
}

TEST(Profile, LongCallsAreAllTimed)
{
    time_now = 1000;
    auto thread = std::make_unique<Thread>(questions);
    for (int i = 0; i < 100; ++i)
        call(thread.get(), send_call, 1'000'000);
    EXPECT_EQ(function(*thread, send_call).time(), 100'000'000u);
    EXPECT_EQ(function(*thread, send_call).longest, 1'000'000u);
}

TEST(Profile, ARareWaitIsNotGuessed)
{
    time_now = 1000;
    auto thread = std::make_unique<Thread>(questions);
    for (int i = 0; i < 1000; ++i)
        call(thread.get(), receive_call, 100);
    next_cause = {Late::nobody, 3};
    waiting_call(thread.get(), receive_call, 0, 5'000'000'000, 100);
    for (int i = 0; i < 1000; ++i)
        call(thread.get(), receive_call, 100);
    const Function &received = function(*thread, receive_call);
    EXPECT_EQ(received.calls(), 2001u);
    EXPECT_NEAR(static_cast<double>(received.time()), 5e9 + 200100, 1e5);
    EXPECT_EQ(received.idle, 5'000'000'000u);
    const Lateness &late = thread->late().at({Late::sender, 3});
    EXPECT_EQ(late.times, 1u);
    EXPECT_EQ(late.longest, 5'000'000'000u);
}

TEST(Profile, WhoIsLateFollowsFromTheCallOrItsRequest)
{
    time_now = 1000;
    auto thread = std::make_unique<Thread>(questions);
    next_cause = {Late::nobody, 1};
    waiting_call(thread.get(), send_call, 10, 7000, 10);
    next_cause = {Late::sender, 2};
    waiting_call(thread.get(), wait_call, 10, 8000, 10);
    waiting_call(thread.get(), reduce_call, 10, 9000, 10);
    EXPECT_EQ(thread->late().size(), 2u);
    EXPECT_EQ(thread->late().at({Late::receiver, 1}).ticks, 7000u);
    EXPECT_EQ(thread->late().at({Late::sender, 2}).ticks, 8000u);
    EXPECT_EQ(function(*thread, reduce_call).idle, 9000u);
}

TEST(Profile, WhatComesOutsideOfACallIsNoWait)
{
    auto thread = std::make_unique<Thread>(questions);
    thread->waits(now);
    thread->goes_on(now);
    thread->end(now);
    EXPECT_TRUE(thread->late().empty());
}

TEST(Profile, AllRanksTimeTheSameCollectives)
{
    auto one = std::make_unique<Thread>(questions), other = std::make_unique<Thread>(questions);
    for (int i = 0; i < 5000; ++i) {
        call(one.get(), reduce_call, static_cast<std::uint64_t>(i) + 100);
        all_take_part = i % 3 != 0;  // those of some ranks are not compared
        if (!all_take_part)
            call(other.get(), reduce_call, 77'000);
        all_take_part = true;
        call(other.get(), reduce_call, static_cast<std::uint64_t>(i) + 50'000);
    }
    const Series &a = function(*one, reduce_call).series, &b = function(*other, reduce_call).series;
    EXPECT_EQ(a.calls, 5000u);
    EXPECT_EQ(b.calls, 5000u);
    ASSERT_EQ(a.step, b.step);
    ASSERT_EQ(a.ticks.size(), b.ticks.size());
    EXPECT_LT(a.ticks.size(), Series::room);
    for (std::size_t i = 0; i < a.ticks.size(); ++i) {
        EXPECT_EQ(a.ticks[i], i * a.step + 100);
        EXPECT_EQ(b.ticks[i], i * b.step + 50'000);
    }
}

TEST(Profile, MoreFunctionsThanThereIsRoomForAreStillCounted)
{
    auto thread = std::make_unique<Thread>(questions);
    std::vector<std::string> names;
    for (std::size_t i = 0; i < 2 * functions_most; ++i)
        names.push_back("MPI_" + std::to_string(i));
    for (int round = 0; round < 2; ++round)
        for (std::size_t i = 0; i < 2 * functions_most; ++i)
            call(thread.get(), {static_cast<int>(i) + 1, names[i].c_str()}, 10);
    std::uint64_t calls = 0;
    for (const Function &each : thread->functions())
        calls += each.calls();
    EXPECT_EQ(calls, 4 * functions_most);
}

TEST(Profile, EqualSizesOneAfterTheOtherAreAllCounted)
{
    Sizes sizes;
    SizeRun run;
    std::uint64_t messages = 0;
    auto send = [&](std::uint64_t size, int times) {
        for (int i = 0; i < times; ++i) {
            ++messages;
            if (run.ends_at(size))
                run.end(&sizes, size, messages);
        }
    };
    send(100, 3);  // before anybody asks
    EXPECT_FALSE(run.is_any());
    run.record();
    send(0, 5);
    send(100, 4);
    ++messages;
    run.pass_over();  // what is no message
    send(100, 3);
    send(20, 1);
    send(100, 2);
    EXPECT_EQ(sizes.messages[size_class(100)], 7u);
    ASSERT_TRUE(run.is_any());
    run.add_to(&sizes, messages);
    EXPECT_EQ(sizes.messages[0], 5u);
    EXPECT_EQ(sizes.messages[size_class(100)], 9u);
    EXPECT_EQ(sizes.bytes[size_class(100)], 900u);
    EXPECT_EQ(sizes.bytes[size_class(20)], 20u);
}

TEST(Profile, Sizes)
{
    EXPECT_EQ(size_class(0), 0u);
    EXPECT_EQ(size_class(1), 1u);
    EXPECT_EQ(size_class(16), 1u);
    EXPECT_EQ(size_class(17), 2u);
    EXPECT_EQ(size_class(64), 2u);
    EXPECT_EQ(size_class(65), 3u);
    EXPECT_EQ(size_class(1 << 20), 9u);
    EXPECT_EQ(size_class(UINT64_MAX), size_classes - 1);
    EXPECT_EQ(class_text(size_class(1000)), "to 1 KiB");
    EXPECT_EQ(class_text(size_class(0)), "empty");
}

ProcessProfile example(const std::string &host, std::uint64_t in_reduce)
{
    ProcessProfile process;
    process.host = host;
    process.time = 1'000'000'000;
    process.threads = 1;
    process.calls = {{"MPI_Allreduce", 10, in_reduce, in_reduce / 2, in_reduce / 5}, {"MPI_Send", 3, 900, 0, 300}};
    process.late = {{Late::sender, 1, 2, 5000, 3000}, {Late::receiver, -1, 1, 4, 4}};
    process.series = {{"MPI_Allreduce", 10, 4, {in_reduce / 10, in_reduce / 10, in_reduce / 10}}};
    PathProfile path{.name = "udp lan", .sizes = {}, .pulled = 7, .pulling = 1, .round_trip = 45'000};
    path.sizes.add(100);
    process.paths = {path};
    return process;
}

TEST(Profile, PackedAndUnpacked)
{
    ProcessProfile process = example("alpha", 500'000'000);
    std::vector<std::byte> bytes = pack(process);
    auto again = unpack(bytes);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(pack(again.value()), bytes);
    EXPECT_EQ(again.value().late[1].rank, -1);
    EXPECT_EQ(again.value().series[0].times.size(), 3u);
    for (std::size_t size = 0; size < bytes.size(); ++size)
        EXPECT_FALSE(unpack(std::span(bytes).first(size)).ok()) << size;
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(unpack(bytes).ok());
}

TEST(Profile, TheRankThatIsShortestInACollectiveCameLast)
{
    Profile profile{.processes = {example("alpha", 500'000'000), example("beta", 100'000'000)}, .command = "./a", .started = 0};
    Summary summary = summarize(profile);
    ASSERT_EQ(summary.imbalances.size(), 1u);
    EXPECT_EQ(summary.imbalances[0].mean, 40'000'000u);
    EXPECT_EQ(summary.imbalances[0].last, 1u);
    EXPECT_EQ(summary.imbalances[0].compared, 3u);
    EXPECT_EQ(summary.calls[0].name, "MPI_Allreduce");
    EXPECT_EQ(summary.calls[0].most_rank, 0u);
    EXPECT_EQ(summary.calls[0].least_rank, 1u);
    profile.processes[1].series[0].calls = 11;  // it has not made the same calls
    EXPECT_TRUE(summarize(profile).imbalances.empty());
}

TEST(Profile, WhatIsTold)
{
    Profile profile{.processes = {example("al<pha", 500'000'000), {}}, .command = "./a <b>", .started = 0};
    std::string text = to_text(profile), json = to_json(profile), html = to_html(profile);
    for (const char *expected : {"rank 1 for one", "50.0 %", "MPI_Allreduce", "waited for", "udp lan", "to 256 B", "shortest round trip 45.0 us"})
        EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
    for (const char *expected : {"\"mpi_ns\":500000900", "\"late\":\"receiver\",\"rank\":null", "\"path\":\"udp lan\"", "\"to\":256"})
        EXPECT_NE(json.find(expected), std::string::npos) << expected << "\n" << json;
    EXPECT_NE(html.find("al&lt;pha"), std::string::npos);
    EXPECT_EQ(html.find("<b>"), std::string::npos);
    EXPECT_NE(to_text({}).find("0 ranks"), std::string::npos);
}

}  // namespace
}  // namespace pm::profile
