// The lock of a window under the seeded scheduler: some share it, some want it alone, and who does not get it sleeps. Promise: nobody is
// inside beside one who has it alone, who gets it sees what those before have written, and nobody sleeps over a lock that is free.
#include "coll/window/epochs.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>

#include "support/seeded_atomic.h"
#include "support/seeds.h"

namespace pm::coll {
namespace {

using test::Schedule;
using test::SeededAtomic;

constexpr std::size_t ranks = 3, turns = 8;

class LockRun {
  public:
    explicit LockRun(std::uint64_t seed) : schedule_(seed), board_(std::make_unique<BasicEpochBoard<SeededAtomic>>())
    {
        for (std::size_t rank = 0; rank < ranks; ++rank)
            schedule_.watch(written_[rank].data(), written_[rank].size(), rank);
    }

    std::string run()
    {
        for (std::size_t rank = 0; rank < ranks; ++rank)
            schedule_.spawn([this, rank] { take_turns(rank); });
        return schedule_.run();
    }

  private:
    bool try_lock(bool exclusive) { return exclusive ? board_->try_exclusive() : board_->try_shared(); }

    // As composite_direct.c does.
    void lock(std::size_t rank, bool exclusive)
    {
        bool wants = exclusive && !board_->try_exclusive();
        if (exclusive && !wants)
            return;
        if (wants)
            board_->wants_exclusive.fetch_add(1, std::memory_order_relaxed);
        for (;;) {
            const std::uint32_t rung = bells_[rank].load(std::memory_order_acquire);
            board_->falls_asleep(static_cast<int>(rank));
            if (try_lock(exclusive))
                break;
            futex_wait(&bells_[rank], rung, std::chrono::seconds(1));
        }
        if (wants)
            board_->wants_exclusive.fetch_add(-1u, std::memory_order_relaxed);
    }

    void unlock(bool exclusive)
    {
        for (std::uint64_t asleep = board_->release(exclusive); asleep != 0; asleep &= asleep - 1)
            ring(static_cast<std::size_t>(std::countr_zero(asleep)));
    }

    void ring(std::size_t rank)
    {
        bells_[rank].fetch_add(1, std::memory_order_release);
        futex_wake_all(&bells_[rank]);
    }

    void take_turns(std::size_t rank)
    {
        for (std::size_t turn = 1; turn <= turns; ++turn) {
            const bool exclusive = schedule_.random().one_in(2);
            lock(rank, exclusive);
            schedule_.require(exclusive ? inside_ == 0 : !alone_, "two are inside of whom one has the lock alone");
            ++inside_;
            alone_ = exclusive;
            for (std::size_t other = 0; other < ranks; ++other)
                if (other != rank)
                    schedule_.read(written_[other].data(), written_[other].size());
            if (exclusive)
                written_[rank].fill(static_cast<std::byte>(turn));
            schedule_.step();
            --inside_;
            alone_ = false;
            unlock(exclusive);
        }
    }

    Schedule schedule_;
    std::unique_ptr<BasicEpochBoard<SeededAtomic>> board_;
    std::array<SeededAtomic<std::uint32_t>, ranks> bells_;
    std::array<std::array<std::byte, 32>, ranks> written_{};  // by each who has it alone
    std::size_t inside_ = 0;
    bool alone_ = false;
};

TEST(EpochsSeeded, ALockKeepsApartAndNobodySleepsOverIt)
{
    test::for_each_seed(5'000, [](std::uint64_t seed) { return LockRun(seed).run(); });
}

}  // namespace
}  // namespace pm::coll
