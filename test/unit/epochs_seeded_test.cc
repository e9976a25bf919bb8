// How ranks agree about a window, under the seeded scheduler. Promises. The lock: some share it, some want it alone, and who does not get it sleeps;
// nobody is inside beside one who has it alone, who gets it sees what those before have written, and nobody sleeps over a lock that is free. Posts,
// completions and fences: who sees one sees what was written before. Stripes: who is at one, after the mode was changed, sees what was changed by instructions and
// by those who were there before.
#include "coll/window/epochs.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>

#include "support/seeded_atomic.h"
#include "support/seeds.h"

#define PM_ORDER_RELAXED std::memory_order_relaxed
#define PM_ORDER_RELEASE std::memory_order_release
#define PM_INSIDE_WORD pm::test::SeededAtomic<std::uint32_t>
#define PM_INSIDE_STORE(word, value, order) (word)->store(value, PM_ORDER_##order)
#define PM_INSIDE_LOAD(word, order) (word)->load(PM_ORDER_##order)
#include "coll/window/inside.h"

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

using Board = BasicEpochBoard<SeededAtomic>;

// All write, and after a fence all read; after the next one they write again.
class FenceRun {
  public:
    explicit FenceRun(std::uint64_t seed) : schedule_(seed), first_(std::make_unique<Board>())
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
    void fence(std::uint32_t number)
    {
        first_->arrive(number, ranks);
        while (first_->fences_over() < number)
            schedule_.pause();
    }

    void take_turns(std::size_t rank)
    {
        for (std::uint32_t turn = 1; turn <= turns; ++turn) {
            written_[rank].fill(static_cast<std::byte>(turn));
            fence(2 * turn - 1);
            for (std::size_t other = 0; other < ranks; ++other) {
                if (other != rank)
                    schedule_.read(written_[other].data(), written_[other].size());
                schedule_.require(written_[other][7] == static_cast<std::byte>(turn), "what was written before a fence is not there after it");
            }
            fence(2 * turn);
        }
    }

    Schedule schedule_;
    std::unique_ptr<Board> first_;
    std::array<std::array<std::byte, 32>, ranks> written_{};
};

TEST(EpochsSeeded, AFenceShowsWhatAllWrote)
{
    test::for_each_seed(5'000, [](std::uint64_t seed) { return FenceRun(seed).run(); });
}

// A target posts to an origin, which writes and completes.
class PostRun {
  public:
    explicit PostRun(std::uint64_t seed) : schedule_(seed), target_(std::make_unique<Board>()), origin_(std::make_unique<Board>())
    {
        schedule_.watch(memory_.data(), memory_.size(), 1);
    }

    std::string run()
    {
        schedule_.spawn([this] { expose(); });
        schedule_.spawn([this] { access(); });
        return schedule_.run();
    }

  private:
    void expose()
    {
        for (std::uint32_t turn = 1; turn <= turns; ++turn) {
            Board::count(origin_->posts[0]);
            while (Board::counted(target_->completes[1]) < turn)
                schedule_.pause();
            schedule_.read(memory_.data(), memory_.size());
            schedule_.require(memory_[7] == static_cast<std::byte>(turn), "what was written before a completion is not there");
        }
    }
    void access()
    {
        for (std::uint32_t turn = 1; turn <= turns; ++turn) {
            while (Board::counted(origin_->posts[0]) < turn)
                schedule_.pause();
            memory_.fill(static_cast<std::byte>(turn));
            Board::count(target_->completes[1]);
        }
    }

    Schedule schedule_;
    std::unique_ptr<Board> target_, origin_;
    std::array<std::byte, 32> memory_{};
};

TEST(EpochsSeeded, APostAndACompletionShowWhatWasWritten)
{
    test::for_each_seed(5'000, [](std::uint64_t seed) { return PostRun(seed).run(); });
}

// Two change elements of two parts by instructions, until others want one part by stripes. The elements are watched memory here: each of the
// two has its own, which the others look at.
class ModeRun {
  public:
    explicit ModeRun(std::uint64_t seed) : schedule_(seed)
    {
        for (auto &each : boards_)
            each = std::make_unique<Board>();
        for (std::size_t rank = 0; rank < changers; ++rank)
            schedule_.watch(written_[rank].data(), written_[rank].size(), rank);
    }

    std::string run()
    {
        for (std::size_t rank = 0; rank < changers; ++rank)
            schedule_.spawn([this, rank] { change(rank); });
        for (std::uint32_t looker = 1; looker <= lookers; ++looker)
            schedule_.spawn([this, looker] { look(changers + looker); });
        return schedule_.run();
    }

  private:
    static constexpr std::size_t changers = 2, lookers = 2;

    void change(std::size_t rank)
    {
        for (std::size_t turn = 1; turn <= turns; ++turn) {
            // The mode of part 1 never changes: who comes from there is still seen to have left part 0.
            const std::uint32_t part = schedule_.random().one_in(3) ? 1 : 0;
            if (pm_inside_begin(&boards_[rank]->inside, &boards_[part]->mode, part)) {
                if (part == 0)
                    write(rank, turn);
                if (schedule_.random().one_in(2))
                    pm_inside_end(&boards_[rank]->inside);
            } else {
                while (boards_[part]->mode_now() != Board::by_stripes)
                    schedule_.pause();
                at_stripe(static_cast<std::uint32_t>(rank) + 1, [&] { write(rank, turn); });
            }
        }
        pm_inside_end(&boards_[rank]->inside);
    }

    void write(std::size_t rank, std::size_t turn)
    {
        written_[rank].fill(static_cast<std::byte>(turn));
        schedule_.step();
    }

    void look(std::uint32_t us)
    {
        for (std::size_t turn = 1; turn <= turns; ++turn) {
            use_stripes();
            at_stripe(us, [this] {
                for (auto &each : written_)
                    schedule_.read(each.data(), each.size());
                schedule_.step();
            });
        }
    }

    void use_stripes()
    {
        const Board::Change change = boards_[0]->change_mode();
        schedule_.require(change != Board::Change::refused, "the mode cannot be changed");
        while (change == Board::Change::of_another && boards_[0]->mode_now() != Board::by_stripes)
            schedule_.pause();
        if (change != Board::Change::is_ours)
            return;
        auto wait = [this](const auto &) {
            schedule_.pause();
            return true;
        };
        boards_[0]->end_change(0, boards_, [](const auto &each) -> Board & { return *each; }, wait);
    }

    template <class Do>
    void at_stripe(std::uint32_t us, Do what)
    {
        std::uint32_t who;
        while (!boards_[0]->take_stripe(3, us, &who))
            schedule_.pause();
        schedule_.require(!busy_, "two are at one stripe");
        busy_ = true;
        what();
        busy_ = false;
        boards_[0]->leave_stripe(3);
    }

    Schedule schedule_;
    std::array<std::unique_ptr<Board>, changers> boards_;
    std::array<std::array<std::byte, 32>, changers> written_{};
    bool busy_ = false;
};

TEST(EpochsSeeded, StripesBeginWhenInstructionsHaveEnded)
{
    test::for_each_seed(5'000, [](std::uint64_t seed) { return ModeRun(seed).run(); });
}

}  // namespace
}  // namespace pm::coll
