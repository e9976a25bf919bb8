// The wait plan: polls, then yields, then sleeps; each policy keeps its promise for any number of idle polls.
#include "base/wait.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace pm {
namespace {

constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();

TEST(Wait, KnowsItsPoliciesByName)
{
    EXPECT_EQ(parse_wait_mode("auto").value(), WaitMode::automatic);
    EXPECT_EQ(parse_wait_mode("spin").value(), WaitMode::spin);
    EXPECT_EQ(parse_wait_mode("yield").value(), WaitMode::yield);
    EXPECT_EQ(parse_wait_mode("sleep").value(), WaitMode::sleep);
}

TEST(Wait, AnUnknownPolicyIsAnErrorThatListsTheKnownOnes)
{
    for (const char *text : {"", "Auto", "spin ", "doze"}) {
        auto mode = parse_wait_mode(text);
        ASSERT_FALSE(mode.ok()) << text;
        EXPECT_EQ(mode.error().status, Status::invalid);
        std::string quoted = "\"" + std::string(text) + "\"";
        for (const char *word : {"auto", "spin", "yield", "sleep", quoted.c_str()})
            EXPECT_NE(mode.error().text.find(word), std::string::npos) << mode.error().text;
    }
}

TEST(Wait, APlanPollsThenYieldsThenSleeps)
{
    WaitPlan plan{3, 2};
    EXPECT_EQ(plan.action(0), WaitAction::poll);
    EXPECT_EQ(plan.action(2), WaitAction::poll);
    EXPECT_EQ(plan.action(3), WaitAction::yield);
    EXPECT_EQ(plan.action(4), WaitAction::yield);
    EXPECT_EQ(plan.action(5), WaitAction::sleep);
    EXPECT_EQ(plan.action(most), WaitAction::sleep);
}

TEST(Wait, ARankWithACoreOfItsOwnLooksOnceWhetherItHasIt)
{
    for (WaitMode mode : {WaitMode::automatic, WaitMode::yield}) {
        WaitPlan plan = make_wait_plan(mode, 2, 2);
        ASSERT_LT(plan.glance, plan.polls);
        EXPECT_EQ(plan.action(plan.glance - 1), WaitAction::poll);
        EXPECT_EQ(plan.action(plan.glance), WaitAction::glance);
        EXPECT_EQ(plan.action(plan.glance + 1), WaitAction::poll);
        EXPECT_EQ(make_wait_plan(mode, 3, 2).glance, WaitPlan::unlimited);
    }
}

TEST(Wait, APollThatTookLongerDoesNotGoPastThatLook)
{
    WaitPlan plan{1000, 2, 100};
    EXPECT_EQ(plan.after(0, 50), 50u);
    EXPECT_EQ(plan.after(99, 50), 100u);
    EXPECT_EQ(plan.after(100, 50), 100u);
    EXPECT_EQ(plan.after(101, 50), 151u);
    EXPECT_EQ((WaitPlan{1000, 2}.after(99, 50)), 149u);
}

TEST(Wait, ARankWithoutACoreOfItsOwnIsOversubscribed)
{
    EXPECT_FALSE(oversubscribed(1, 2));
    EXPECT_FALSE(oversubscribed(2, 2));
    EXPECT_TRUE(oversubscribed(3, 2));
}

constexpr std::uint32_t some_counts[] = {0, 1, 49, 50, 51, 4000, 4199, 4200, 1u << 20, 1u << 31, most - 1, most};

TEST(Wait, SpinNeverGivesTheCoreAway)
{
    for (int ranks : {1, 64})
        for (std::uint32_t count : some_counts)
            EXPECT_EQ(make_wait_plan(WaitMode::spin, ranks, 2).action(count), WaitAction::poll) << count;
}

TEST(Wait, YieldNeverSleeps)
{
    for (int ranks : {1, 64}) {
        WaitPlan plan = make_wait_plan(WaitMode::yield, ranks, 2);
        for (std::uint32_t count : some_counts)
            EXPECT_NE(plan.action(count), WaitAction::sleep) << count;
        EXPECT_EQ(plan.action(1u << 20), WaitAction::yield);
    }
}

// How many polls without a result it takes until `action`, or `most`.
std::uint32_t first(const WaitPlan &plan, WaitAction action)
{
    constexpr std::uint32_t limit = 1u << 20;
    std::uint32_t count = 0;
    while (count < limit && plan.action(count) != action)
        ++count;
    return count < limit ? count : most;
}

TEST(Wait, EveryOtherPolicySleepsInTheEnd)
{
    for (WaitMode mode : {WaitMode::automatic, WaitMode::sleep})
        for (int ranks : {1, 2, 3, 64})
            EXPECT_NE(first(make_wait_plan(mode, ranks, 2), WaitAction::sleep), most);
}

TEST(Wait, SleepsSoonerWithMoreRanksThanCoresAndSoonestWhenAskedTo)
{
    std::uint32_t own = first(make_wait_plan(WaitMode::automatic, 2, 2), WaitAction::sleep);
    std::uint32_t shared = first(make_wait_plan(WaitMode::automatic, 3, 2), WaitAction::sleep);
    EXPECT_LT(shared, own);
    EXPECT_LT(first(make_wait_plan(WaitMode::sleep, 2, 2), WaitAction::sleep), own);
    EXPECT_LT(first(make_wait_plan(WaitMode::automatic, 3, 2), WaitAction::yield),
              first(make_wait_plan(WaitMode::automatic, 2, 2), WaitAction::yield));
}

TEST(Wait, ThePlanOfSleepDoesNotYieldFirst)
{
    EXPECT_EQ(first(make_wait_plan(WaitMode::sleep, 2, 2), WaitAction::yield), most);
}

}  // namespace
}  // namespace pm
