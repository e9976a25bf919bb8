// The words by which ranks of a host agree about a window: who has the lock is alone, or shares it; whoever sleeps for it is woken.
#include "coll/window/epochs.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace pm::coll {
namespace {

class Epochs : public testing::Test {
  protected:
    Epochs() { board_->reset(1); }
    std::unique_ptr<EpochBoard> board_ = std::make_unique<EpochBoard>();
};

TEST_F(Epochs, ABoardThatIsUsedAgainIsAsNewUnderItsName)
{
    EXPECT_TRUE(board_->try_shared());
    board_->wants_exclusive.store(1);
    board_->posts[3].store(4);
    board_->completes[63].store(5);
    board_->stripes[7].store(6);
    board_->falls_asleep(1);
    board_->reset(7);
    EXPECT_EQ(board_->name, 7u);
    EXPECT_EQ(board_->posts[3].load(), 0u);
    EXPECT_EQ(board_->completes[63].load(), 0u);
    EXPECT_EQ(board_->stripes[7].load(), 0u);
    EXPECT_TRUE(board_->try_exclusive());
    EXPECT_EQ(board_->release(true), 0u) << "nobody sleeps";
}

TEST_F(Epochs, AnExclusiveLockKeepsAllOthersOut)
{
    EXPECT_TRUE(board_->try_exclusive());
    EXPECT_FALSE(board_->try_exclusive());
    EXPECT_FALSE(board_->try_shared());
    EXPECT_EQ(board_->release(true), 0u);
    EXPECT_TRUE(board_->try_shared());
    EXPECT_TRUE(board_->try_shared());
    EXPECT_FALSE(board_->try_exclusive());
    EXPECT_EQ(board_->release(false), 0u);
    EXPECT_FALSE(board_->try_exclusive());
    EXPECT_EQ(board_->release(false), 0u);
    EXPECT_TRUE(board_->try_exclusive());
}

TEST_F(Epochs, WhoWantsItAloneIsNotKeptWaitingByThoseWhoShare)
{
    EXPECT_TRUE(board_->try_shared());
    board_->wants_exclusive.fetch_add(1);
    EXPECT_FALSE(board_->try_shared());
    EXPECT_EQ(board_->release(false), 0u);
    EXPECT_TRUE(board_->try_exclusive());
    board_->wants_exclusive.fetch_sub(1);
    EXPECT_EQ(board_->release(true), 0u);
    EXPECT_TRUE(board_->try_shared());
}

TEST_F(Epochs, TheLastOneToReleaseWakesWhoSleeps)
{
    EXPECT_TRUE(board_->try_shared());
    EXPECT_TRUE(board_->try_shared());
    board_->falls_asleep(5);
    board_->falls_asleep(63);
    EXPECT_EQ(board_->release(false), 0u);
    EXPECT_EQ(board_->release(false), (std::uint64_t{1} << 5) | (std::uint64_t{1} << 63));
    EXPECT_TRUE(board_->try_exclusive());
    EXPECT_EQ(board_->release(true), 0u) << "they were woken";
}

TEST_F(Epochs, WhatTheLockProtectsIsWhole)
{
    constexpr int threads = 4, rounds = 5000;
    long pair[2] = {0, 0};
    std::vector<std::thread> running;
    std::atomic<int> torn{0};
    for (int t = 0; t < threads; ++t)
        running.emplace_back([&, t] {
            for (int i = 0; i < rounds; ++i) {
                bool alone = (i + t) % 2 == 0;
                while (!(alone ? board_->try_exclusive() : board_->try_shared()))
                    std::this_thread::yield();
                if (alone)
                    ++pair[0], ++pair[1];
                else if (pair[0] != pair[1])
                    ++torn;
                board_->release(alone);
            }
        });
    for (std::thread &thread : running)
        thread.join();
    EXPECT_EQ(torn, 0);
    EXPECT_EQ(pair[0], threads * rounds / 2);
    EXPECT_EQ(pair[1], pair[0]);
}

}  // namespace
}  // namespace pm::coll
