// Errands: whoever holds the mailbox does them, in order and once.
#include "coll/window/errands.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace pm::coll {
namespace {

std::unique_ptr<Mailboxes> make()
{
    auto made = std::make_unique<Mailboxes>();
    std::memset(static_cast<void *>(made.get()), 0, sizeof *made);
    return made;
}

TEST(Errands, AreServedInTheOrderTheyWerePosted)
{
    auto all = make();
    ErrandRunner runner(all.get(), all->claim());
    for (std::uint64_t i = 0; i < Mailbox::room; ++i) {
        ASSERT_TRUE(runner.has_room());
        runner.next().head.offset = i;
        runner.post();
    }
    EXPECT_FALSE(runner.has_room());
    EXPECT_FALSE(runner.is_settled());
    std::vector<std::uint64_t> seen;
    all->serve([&](Errand &errand) {
        seen.push_back(errand.head.offset);
        return true;
    });
    EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 1, 2}));
    EXPECT_TRUE(runner.is_settled());
    EXPECT_TRUE(runner.has_room());
    all->serve([](Errand &) {
        ADD_FAILURE() << "there is nothing left";
        return true;
    });
}

TEST(Errands, WhatIsTakenBackIsNotServed)
{
    auto all = make();
    ErrandRunner runner(all.get(), all->claim());
    runner.post();
    runner.post();
    int done = 0;
    EXPECT_TRUE(runner.take_back([&](Errand &) { return ++done > 0; }));
    EXPECT_EQ(done, 2);
    EXPECT_TRUE(runner.is_settled());
    all->serve([](Errand &) {
        ADD_FAILURE() << "it was done already";
        return true;
    });
}

TEST(Errands, NothingIsTakenBackWhileTheTargetIsAtIt)
{
    auto all = make();
    Mailbox *box = all->claim();
    ErrandRunner runner(all.get(), box);
    runner.post();
    all->serve([&](Errand &) {
        EXPECT_FALSE(runner.take_back([](Errand &) { return true; }));
        return true;
    });
    EXPECT_TRUE(runner.is_settled());
}

TEST(Errands, EachOriginHasAMailboxUntilItGivesItBack)
{
    auto all = make();
    std::vector<Mailbox *> boxes;
    for (std::size_t i = 0; i < Mailboxes::count; ++i) {
        boxes.push_back(all->claim());
        ASSERT_NE(boxes.back(), nullptr);
    }
    EXPECT_EQ(all->claim(), nullptr);
    ErrandRunner(all.get(), boxes[5]).release();
    EXPECT_EQ(all->claim(), boxes[5]);
}

// A count that makes no sense is another's doing: nothing is followed.
TEST(Errands, MoreThanThereIsRoomForIsNotBelieved)
{
    auto all = make();
    Mailbox *box = all->claim();
    box->posted.store(1000);
    all->waiting.store(1);
    all->serve([](Errand &) {
        ADD_FAILURE() << "there are not so many";
        return true;
    });
}

TEST(Errands, RefusalsAreToldOnce)
{
    auto all = make();
    ErrandRunner runner(all.get(), all->claim());
    runner.post();
    all->serve([](Errand &errand) {
        errand.refused = 1;
        return true;
    });
    EXPECT_TRUE(runner.take_refusals());
    EXPECT_FALSE(runner.take_refusals());
}

// The target serves now and then, the origin takes back now and then: each errand is done once, in order, and its result is seen.
TEST(Errands, OneSideOrTheOtherDoesEachOnce)
{
    auto all = make();
    std::uint64_t counter = 0;  // of whoever holds the mailbox
    std::atomic<bool> stop{false};
    auto perform = [&](Errand &errand) {
        EXPECT_EQ(errand.head.offset, counter);
        ++counter;
        std::memcpy(errand.data.data(), &counter, sizeof counter);
        return true;
    };
    ErrandRunner runner(all.get(), all->claim());
    std::thread target([&] {
        std::mt19937 random(7);
        while (!stop.load(std::memory_order_relaxed)) {
            all->serve(perform);
            if (random() % 8 == 0)
                std::this_thread::yield();
        }
    });
    std::mt19937 random(3);
    constexpr std::uint64_t rounds = 100000;
    for (std::uint64_t i = 0; i < rounds; ++i) {
        while (!runner.has_room())
            std::this_thread::yield();
        runner.next().head.offset = i;
        runner.post();
        if (random() % 4 != 0)
            continue;
        while (!runner.is_settled() && !(random() % 16 == 0 && runner.take_back(perform)))
            std::this_thread::yield();
        std::uint64_t result = 0;
        std::memcpy(&result, runner.last().data.data(), sizeof result);
        EXPECT_EQ(result, i + 1);
    }
    while (!runner.is_settled())
        std::this_thread::yield();
    stop.store(true);
    target.join();
    EXPECT_EQ(counter, rounds);
}

}  // namespace
}  // namespace pm::coll
