// The seeded scheduler itself: it finds what it says it finds, and lets correct code pass.
#include "support/seeded_atomic.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/seeds.h"

namespace pm::test {
namespace {

constexpr std::uint64_t seeds = 400;

// Of so many runs.
template <class Case>
unsigned failures(const Case &one)
{
    unsigned count = 0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed)
        count += !one.run(seed).empty();
    return count;
}

// One thread writes plain bytes and raises a flag; the other waits for the flag and reads the bytes.
struct Passing {
    std::memory_order raise = std::memory_order_release;
    std::memory_order look = std::memory_order_acquire;
    bool bytes_first = true;

    std::string run(std::uint64_t seed) const
    {
        Schedule schedule(seed);
        std::byte bytes[64] = {};
        SeededAtomic<int> flag;
        schedule.watch(bytes, sizeof bytes, 0);
        schedule.spawn([&] {
            if (bytes_first)
                std::memset(bytes, 1, sizeof bytes);
            flag.store(1, raise);
            if (!bytes_first)
                std::memset(bytes, 1, sizeof bytes);
            flag.load(std::memory_order_relaxed);
        });
        schedule.spawn([&] {
            while (flag.load(look) == 0)
                schedule.pause();
            schedule.read(bytes, sizeof bytes);
            schedule.require(bytes[0] == std::byte{1} && bytes[63] == std::byte{1}, "old bytes");
        });
        return schedule.run();
    }
};

TEST(SeededAtomic, LetsAReleaseAndAnAcquirePassBytes)
{
    for_each_seed(seeds, [](std::uint64_t seed) { return Passing{}.run(seed); });
}

TEST(SeededAtomic, FindsAMissingRelease)
{
    EXPECT_EQ(failures(Passing{.raise = std::memory_order_relaxed}), seeds);
}

TEST(SeededAtomic, FindsAMissingAcquire)
{
    EXPECT_EQ(failures(Passing{.look = std::memory_order_relaxed}), seeds);
}

TEST(SeededAtomic, FindsAFlagRaisedBeforeTheBytes)
{
    EXPECT_GT(failures(Passing{.bytes_first = false}), 0u);
}

// The same with fences around relaxed operations.
struct PassingByFences {
    std::memory_order raise = std::memory_order_release;
    std::memory_order look = std::memory_order_acquire;

    std::string run(std::uint64_t seed) const
    {
        Schedule schedule(seed);
        std::byte bytes[64] = {};
        SeededAtomic<int> flag;
        schedule.watch(bytes, sizeof bytes, 0);
        schedule.spawn([&] {
            std::memset(bytes, 1, sizeof bytes);
            if (raise != std::memory_order_relaxed)
                Fence<SeededAtomic>::place(raise);
            flag.store(1, std::memory_order_relaxed);
        });
        schedule.spawn([&] {
            while (flag.load(std::memory_order_relaxed) == 0)
                schedule.pause();
            if (look != std::memory_order_relaxed)
                Fence<SeededAtomic>::place(look);
            schedule.read(bytes, sizeof bytes);
        });
        return schedule.run();
    }
};

TEST(SeededAtomic, LetsFencesPassBytes)
{
    EXPECT_EQ(failures(PassingByFences{}), 0u);
    EXPECT_EQ((failures(PassingByFences{std::memory_order_seq_cst, std::memory_order_acq_rel})), 0u);
}

TEST(SeededAtomic, FindsAMissingFence)
{
    EXPECT_EQ(failures(PassingByFences{.raise = std::memory_order_relaxed}), seeds);
    EXPECT_EQ(failures(PassingByFences{.look = std::memory_order_relaxed}), seeds);
    EXPECT_EQ((failures(PassingByFences{std::memory_order_acquire, std::memory_order_release})), seeds);
}

// Each of two stores one thing and loads the other: with fences of sequential consistency between them one sees the other, with less both
// may see nothing.
unsigned both_saw_nothing(std::memory_order order)
{
    unsigned count = 0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        Schedule schedule(seed);
        SeededAtomic<int> mine[2];
        int saw[2] = {};
        for (std::size_t self = 0; self < 2; ++self)
            schedule.spawn([&, self] {
                mine[self].store(1, std::memory_order_relaxed);
                Fence<SeededAtomic>::place(order);
                saw[self] = mine[1 - self].load(std::memory_order_relaxed);
            });
        EXPECT_EQ(schedule.run(), "");
        count += saw[0] == 0 && saw[1] == 0;
    }
    return count;
}

TEST(SeededAtomic, FencesOfSequentialConsistencyHaveOneOrder)
{
    EXPECT_EQ(both_saw_nothing(std::memory_order_seq_cst), 0u);
    EXPECT_GT(both_saw_nothing(std::memory_order_acq_rel), 0u);
}

TEST(SeededAtomic, RepeatsARunExactly)
{
    Passing late{.bytes_first = false};
    for (std::uint64_t seed = 1; seed <= 50; ++seed)
        EXPECT_EQ(late.run(seed), late.run(seed)) << "seed " << seed;
}

// The reader gives the bytes back by a flag of its own; the writer writes again after that, or does not wait.
std::string give_back(std::uint64_t seed, std::memory_order give, std::memory_order take)
{
    Schedule schedule(seed);
    std::byte bytes[16] = {};
    SeededAtomic<int> full;
    SeededAtomic<int> free;
    schedule.watch(bytes, sizeof bytes, 0);
    schedule.spawn([&] {
        std::memset(bytes, 1, sizeof bytes);
        full.store(1, std::memory_order_release);
        while (free.load(take) == 0)
            schedule.pause();
        std::memset(bytes, 2, sizeof bytes);
        full.store(2, std::memory_order_release);
    });
    schedule.spawn([&] {
        while (full.load(std::memory_order_acquire) == 0)
            schedule.pause();
        schedule.read(bytes, sizeof bytes);
        free.store(1, give);
    });
    return schedule.run();
}

TEST(SeededAtomic, FindsMemoryGivenBackWithoutOrder)
{
    unsigned right = 0, weak_give = 0, weak_take = 0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        right += give_back(seed, std::memory_order_release, std::memory_order_acquire).empty();
        weak_give += give_back(seed, std::memory_order_relaxed, std::memory_order_acquire).empty();
        weak_take += give_back(seed, std::memory_order_release, std::memory_order_relaxed).empty();
    }
    EXPECT_EQ(right, seeds);
    EXPECT_EQ(weak_give, 0u);
    EXPECT_EQ(weak_take, 0u);
}

// Two locations: with relaxed operations a thread may see the second store and not yet the first, as on ARM; with a release
// and an acquire it may not.
unsigned reordered(std::memory_order publish, std::memory_order look)
{
    unsigned count = 0;
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
        Schedule schedule(seed);
        SeededAtomic<int> first, second;
        schedule.spawn([&] {
            first.store(1, std::memory_order_relaxed);
            second.store(1, publish);
        });
        schedule.spawn([&] {
            int b = second.load(look);
            int a = first.load(std::memory_order_relaxed);
            count += b == 1 && a == 0;
        });
        EXPECT_EQ(schedule.run(), "");
    }
    return count;
}

TEST(SeededAtomic, ShowsStaleValuesWhereTheOrderAllowsThem)
{
    EXPECT_GT(reordered(std::memory_order_relaxed, std::memory_order_acquire), 0u);
    EXPECT_GT(reordered(std::memory_order_release, std::memory_order_relaxed), 0u);
    EXPECT_EQ(reordered(std::memory_order_release, std::memory_order_acquire), 0u);
}

TEST(SeededAtomic, NeverGoesBackInOneLocation)
{
    for_each_seed(seeds, [](std::uint64_t seed) {
        Schedule schedule(seed);
        SeededAtomic<int> number;
        schedule.spawn([&] {
            for (int i = 1; i <= 20; ++i)
                number.store(i, std::memory_order_relaxed);
        });
        schedule.spawn([&] {
            int last = 0;
            for (int i = 0; i < 30; ++i) {
                int now = number.load(std::memory_order_relaxed);
                schedule.require(now >= last, "a location went back");
                last = now;
            }
        });
        return schedule.run();
    });
}

TEST(SeededAtomic, LosesNoReadModifyWriteAndContinuesItsReleaseSequence)
{
    for_each_seed(seeds, [](std::uint64_t seed) {
        Schedule schedule(seed);
        SeededAtomic<unsigned> count;
        std::byte bytes[16] = {};
        schedule.watch(bytes, sizeof bytes, 0);
        schedule.spawn([&] {
            std::memset(bytes, 1, sizeof bytes);
            count.fetch_add(1, std::memory_order_release);
        });
        schedule.spawn([&] { count.fetch_add(1, std::memory_order_relaxed); });
        schedule.spawn([&] {
            while (count.load(std::memory_order_acquire) != 2)
                schedule.pause();
            schedule.read(bytes, sizeof bytes);
        });
        return schedule.run();
    });
}

TEST(SeededAtomic, FindsALostWakeUpAndEndlessWaiting)
{
    Schedule sleeping(1);
    SeededAtomic<std::uint32_t> word;
    sleeping.spawn([&] { futex_wait(&word, 0, std::chrono::hours(1)); });
    EXPECT_NE(sleeping.run().find("wake-up was lost"), std::string::npos);

    Schedule waiting(1);
    waiting.spawn([&] {
        while (word.load(std::memory_order_relaxed) == 0)
            waiting.pause();
    });
    EXPECT_NE(waiting.run().find("no end"), std::string::npos);
}

TEST(SeededAtomic, WakesASleeperAndDoesNotSleepOnAnotherValue)
{
    for_each_seed(seeds, [](std::uint64_t seed) {
        Schedule schedule(seed);
        SeededAtomic<std::uint32_t> word;
        schedule.spawn([&] {
            while (word.load(std::memory_order_relaxed) == 0)
                futex_wait(&word, 0, std::chrono::hours(1));
        });
        schedule.spawn([&] {
            word.store(1, std::memory_order_relaxed);
            futex_wake_all(&word);
        });
        return schedule.run();
    });
}

}  // namespace
}  // namespace pm::test
