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
    });
    EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 1, 2, 3}));
    EXPECT_TRUE(runner.is_settled());
    EXPECT_TRUE(runner.has_room());
    EXPECT_FALSE(all->serve([](Errand &) { ADD_FAILURE() << "there is nothing left"; }));
}

TEST(Errands, WhatIsTakenBackIsNotServed)
{
    auto all = make();
    ErrandRunner runner(all.get(), all->claim());
    runner.post();
    runner.post();
    int done = 0;
    EXPECT_TRUE(runner.take_back([&](Errand &) { ++done; }));
    EXPECT_EQ(done, 2);
    EXPECT_TRUE(runner.is_settled());
    all->serve([](Errand &) { ADD_FAILURE() << "it was done already"; });
}

TEST(Errands, NothingIsTakenBackWhileTheTargetIsAtIt)
{
    auto all = make();
    Mailbox *box = all->claim();
    ErrandRunner runner(all.get(), box);
    runner.post();
    all->serve([&](Errand &) {
        EXPECT_FALSE(runner.take_back([](Errand &) {}));
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

// A number that makes no sense is another's doing: nothing is followed.
TEST(Errands, ANumberThatIsNotNextIsNotBelieved)
{
    auto all = make();
    Mailbox *box = all->claim();
    for (std::uint32_t wrong : {2u, 5u, 1000u, ~0u}) {
        for (Errand &each : box->errands)
            each.posted.store(wrong);
        EXPECT_FALSE(all->serve([](Errand &) { ADD_FAILURE() << "there are not so many"; })) << wrong;
    }
}

// With many mailboxes the target looks at one word instead of each.
TEST(Errands, ManyOriginsAreServedByAWordThatSaysWhoHasSomething)
{
    auto all = make();
    std::vector<ErrandRunner> runners;
    for (std::size_t i = 0; i < 2 * Mailboxes::few; ++i)
        runners.emplace_back(all.get(), all->claim());
    int done = 0;
    for (ErrandRunner &each : runners) {
        each.next();
        each.post();
    }
    EXPECT_TRUE(all->serve([&](Errand &) { ++done; }));
    EXPECT_EQ(done, static_cast<int>(runners.size()));
    for (ErrandRunner &each : runners)
        EXPECT_TRUE(each.is_settled());
}

TEST(Errands, BitsOfMailboxesThatThereAreNotAreNotBelieved)
{
    auto all = make();
    all->used.store(~0u);
    all->waiting.store(~std::uint64_t{0});
    EXPECT_FALSE(all->serve([](Errand &) { ADD_FAILURE() << "there is nothing"; }));
}

// A mailbox whose origin has died inside keeps nobody awake.
TEST(Errands, WhatCannotBeHeldIsNoNews)
{
    auto all = make();
    Mailbox *box = all->claim();
    ErrandRunner runner(all.get(), box);
    runner.post();
    ASSERT_TRUE(box->hold(Mailbox::origin));
    EXPECT_FALSE(all->serve([](Errand &) { ADD_FAILURE() << "it is held by another"; }));
}

TEST(Errands, WhatCameOfEachIsSeenOnce)
{
    auto all = make();
    ErrandRunner runner(all.get(), all->claim());
    runner.post();
    all->serve([](Errand &errand) {
        errand.refused = 1;
    });
    ASSERT_EQ(runner.unseen(), 1u);
    EXPECT_EQ(runner.see().refused, 1);
    EXPECT_EQ(runner.unseen(), 0u);
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
        const Errand *last = nullptr;
        while (runner.unseen() != 0)
            last = &runner.see();
        ASSERT_NE(last, nullptr);
        std::memcpy(&result, last->data.data(), sizeof result);
        EXPECT_EQ(result, i + 1);
    }
    while (!runner.is_settled())
        std::this_thread::yield();
    stop.store(true);
    target.join();
    EXPECT_EQ(counter, rounds);
}

// --- pieces: taken from both ends until nothing is left, each byte once, and from where it belongs ---

using Few = Pieces<4>;

TEST(Pieces, AreCutWhereTheyAreTooLong)
{
    Few pieces;
    pieces.add({1000, 10, 6});
    pieces.add({2000, 20, 5});
    EXPECT_EQ(pieces.bytes(), 11u);
    Few first = pieces.take_first(8);
    ASSERT_EQ(first.count(), 2u);
    EXPECT_EQ(first.begin()[1].address, 2000u);
    EXPECT_EQ(first.begin()[1].size, 2u);
    Few last = pieces.take_last(2);
    ASSERT_EQ(last.count(), 1u);
    EXPECT_EQ(last.begin()->address, 2003u);
    EXPECT_EQ(last.begin()->offset, 23u);
    EXPECT_EQ(pieces.bytes(), 1u);
    EXPECT_EQ(pieces.take_last(100).begin()->offset, 22u);
    EXPECT_EQ(pieces.count(), 0u);
    EXPECT_EQ(pieces.take_first(1).count(), 0u);
}

TEST(Pieces, EachByteIsTakenOnce)
{
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        Few pieces;
        std::vector<int> taken(400);
        for (std::uint64_t i = 0, at = 0; pieces.has_room(); ++i) {
            std::uint64_t size = 1 + random() % 100;
            pieces.add({at + 1000, at, size});
            at += size;
        }
        const std::size_t all = pieces.bytes();
        while (pieces.bytes() != 0) {
            std::size_t size = 1 + random() % 150, before = pieces.bytes();
            Few some = random() % 2 == 0 ? pieces.take_first(size) : pieces.take_last(size);
            EXPECT_EQ(some.bytes(), std::min(size, before));
            EXPECT_EQ(pieces.bytes(), before - some.bytes());
            for (const Piece &piece : some) {
                EXPECT_EQ(piece.address, piece.offset + 1000);
                for (std::uint64_t i = 0; i < piece.size; ++i)
                    ++taken[piece.offset + i];
            }
        }
        for (std::size_t i = 0; i < taken.size(); ++i)
            ASSERT_EQ(taken[i], i < all ? 1 : 0);
    }
}

}  // namespace
}  // namespace pm::coll
