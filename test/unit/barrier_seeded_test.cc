// The board of barriers under the seeded scheduler, with fewer places than barriers. Promise: who sees that a barrier is over sees what all did
// before they came to it, nobody is counted at another one, and nobody sleeps for ever: not the ranks of a host, and not its leader, who
// sleeps until other hosts have told it, or until the last of its own host does.
#include "coll/barrier/board.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "support/seeded_atomic.h"
#include "support/seeds.h"

namespace pm::coll {
namespace {

using test::Schedule;
using test::SeededAtomic;

constexpr std::size_t ranks = 3;
constexpr std::uint64_t barriers = 7;
using SmallBoard = BasicBarrierBoard<SeededAtomic, 2>;

// The first rank leads its host; with `hosts` there is another host, which comes whenever it likes.
class BarrierRun {
  public:
    BarrierRun(std::uint64_t seed, bool hosts) : schedule_(seed), hosts_(hosts), board_(std::make_unique<SmallBoard>())
    {
        for (std::size_t rank = 0; rank < ranks; ++rank)
            schedule_.watch(reinterpret_cast<const std::byte *>(written_[rank].data()), sizeof written_[rank], rank);
    }

    std::string run()
    {
        for (std::size_t rank = 0; rank < ranks; ++rank)
            schedule_.spawn([this, rank] { take_part(rank); });
        if (hosts_)
            schedule_.spawn([this] { come_from_elsewhere(); });
        return schedule_.run();
    }

  private:
    void ring(std::size_t rank)
    {
        bells_[rank].fetch_add(1, std::memory_order_release);
        futex_wake_all(&bells_[rank]);
    }

    void ring_all()
    {
        for (std::size_t rank = 0; rank < ranks; ++rank)
            ring(rank);
    }

    void announce(std::size_t rank, std::uint64_t number)
    {
        written_[rank][number].value = number;
        if (hosts_)
            board_->come_of_several(number, ranks, rank == 0, [] {}, [this] { ring(0); });
        else
            board_->come(number, ranks, [this] { ring_all(); });
    }

    // What it has heard are messages to a real one, which it notes as they come, before it looks at the board.
    void lead(std::uint64_t announced)
    {
        const std::uint64_t heard = told_.load(std::memory_order_acquire), before = led_;
        board_->note_heard(heard);
        led_ = board_->lead(led_, announced, ranks);
        for (std::uint64_t number = before + 1; number <= led_; ++number)
            look_at_all(number);
        if (std::min(led_, heard) > finished_) {
            finished_ = std::min(led_, heard);
            board_->publish(finished_, [this] { ring_all(); });
        }
    }

    void look_at_all(std::uint64_t number)
    {
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            schedule_.read(&written_[rank][number].value, sizeof number);
            schedule_.require(written_[rank][number].value == number, "a barrier is over before all have come");
        }
    }

    void take_part(std::size_t rank)
    {
        std::uint64_t announced = 0, completed = 0;
        while (completed < barriers) {
            const std::uint32_t rung = bells_[rank].load(std::memory_order_acquire);
            const std::uint64_t before = announced + completed;
            while (announced < barriers && announced < completed + SmallBoard::places) {
                announce(rank, ++announced);
                if (schedule_.random().one_in(2))
                    break;
            }
            if (hosts_ && rank == 0)
                lead(announced);
            const std::uint64_t done = board_->published();
            schedule_.require(done <= announced, "a barrier is over to which this rank has not come");
            while (completed < done)
                look_at_all(++completed);
            if (announced + completed == before)
                futex_wait(&bells_[rank], rung, std::chrono::seconds(1));
        }
    }

    void come_from_elsewhere()
    {
        for (std::uint64_t number = 1; number <= barriers; ++number) {
            told_.store(number, std::memory_order_release);
            ring(0);
            for (std::uint64_t i = schedule_.random().below(20); i > 0; --i)
                schedule_.step();
        }
    }

    Schedule schedule_;
    bool hosts_;
    std::unique_ptr<SmallBoard> board_;
    std::array<SeededAtomic<std::uint32_t>, ranks> bells_;
    SeededAtomic<std::uint64_t> told_;  // the last message of the other host
    std::uint64_t led_ = 0, finished_ = 0;  // of the leader
    struct alignas(64) Apart {  // so that the schedule can tell who knows of which
        std::uint64_t value = 0;
    };
    std::array<std::array<Apart, barriers + 1>, ranks> written_{};
};

// Two ranks that do not count, and sleep until the other one has come.
class PairRun {
  public:
    explicit PairRun(std::uint64_t seed) : schedule_(seed), board_(std::make_unique<SmallBoard>())
    {
        for (std::size_t rank = 0; rank < 2; ++rank)
            schedule_.watch(reinterpret_cast<const std::byte *>(written_[rank].data()), sizeof written_[rank], rank);
    }

    std::string run()
    {
        for (std::size_t rank = 0; rank < 2; ++rank)
            schedule_.spawn([this, rank] { take_part(rank); });
        return schedule_.run();
    }

  private:
    void announce(std::size_t rank, std::uint64_t first, std::uint64_t number)
    {
        for (std::uint64_t each = first; each <= number; ++each)
            written_[rank][each].value = each;
        board_->come_of_two(rank, first, number, [&] {
            bells_[1 - rank].fetch_add(1, std::memory_order_release);
            futex_wake_all(&bells_[1 - rank]);
        });
    }

    void look_at_other(std::size_t rank, std::uint64_t number)
    {
        schedule_.read(&written_[1 - rank][number].value, sizeof number);
        schedule_.require(written_[1 - rank][number].value == number, "a barrier is over before both have come");
    }

    void take_part(std::size_t rank)
    {
        std::uint64_t announced = 0, completed = 0;
        while (completed < barriers) {
            const std::uint32_t rung = bells_[rank].load(std::memory_order_acquire);
            const std::uint64_t before = announced + completed;
            if (announced < barriers) {
                const std::uint64_t first = announced + 1;
                announced = std::min(barriers, first + schedule_.random().below(3));
                announce(rank, first, announced);
            }
            while (completed < board_->both())
                look_at_other(rank, ++completed);
            schedule_.require(completed <= announced, "a barrier is over to which this rank has not come");
            if (announced + completed == before)
                futex_wait(&bells_[rank], rung, std::chrono::seconds(1));
        }
    }

    Schedule schedule_;
    std::unique_ptr<SmallBoard> board_;
    std::array<SeededAtomic<std::uint32_t>, 2> bells_;
    struct alignas(64) Apart {
        std::uint64_t value = 0;
    };
    std::array<std::array<Apart, barriers + 1>, 2> written_{};
};

TEST(BarrierSeeded, RanksOfAHostMeet)
{
    test::for_each_seed(10'000, [](std::uint64_t seed) { return BarrierRun(seed, false).run(); });
}

TEST(BarrierSeeded, TwoRanksMeet)
{
    test::for_each_seed(20'000, [](std::uint64_t seed) { return PairRun(seed).run(); });
}

TEST(BarrierSeeded, ALeaderSpeaksForItsHost)
{
    test::for_each_seed(20'000, [](std::uint64_t seed) { return BarrierRun(seed, true).run(); });
}

}  // namespace
}  // namespace pm::coll
