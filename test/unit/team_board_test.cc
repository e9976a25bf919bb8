// The board of a team under the seeded scheduler. Promise: what a rank entered a step with is read by others as it was written, however far
// ranks run ahead of each other; a place is written again only when nobody reads it any more; who waits for a rank that comes goes on; what
// either of two ranks may copy is copied once.
#include "coll/team/board.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/seeded_atomic.h"
#include "support/seeds.h"

namespace pm::coll {
namespace {

using test::Random;
using test::Schedule;
using test::SeededAtomic;

using Board = TeamBoard<SeededAtomic, 8, 6>;
constexpr int pages = 4, ahead = 3;

constexpr std::size_t looked_at = 32;  // bytes of each place
constexpr std::size_t sizes[] = {16, PM_TEAM_NOTE + 1, PM_TEAM_CARD + 1};  // on notes, cards and pages

// What each step is, the same for all: nobody reads, all read one, or all read all.
struct Step {
    enum class Readers { nobody, of_one, of_all } readers;
    int root;
    std::size_t size;  // of what is entered
};

class TeamRun {
  public:
    TeamRun(std::uint64_t seed, int ranks)
        : schedule_(seed), ranks_(ranks), memory_(new (std::align_val_t{64}) std::byte[Board::size_of(ranks, pages)])
    {
        Board::lay_out(memory_.get(), ranks);
        Random random(~seed);
        for (int i = 0; i < 30; ++i)
            steps_.push_back({random.one_in(3) ? Step::Readers::of_all : random.one_in(4) ? Step::Readers::nobody : Step::Readers::of_one,
                              static_cast<int>(random.below(static_cast<std::uint64_t>(ranks))),
                              sizes[random.below(std::size(sizes))]});
        for (int rank = 0; rank < ranks; ++rank) {
            Board board(memory_.get(), rank, ranks, pages, ahead);
            for (std::uint64_t i = 0; i < Board::notes; ++i)
                watch(board.place_of(rank, i, 16), rank);
            for (std::uint64_t i = 0; i < Board::cards; ++i)
                watch(board.place_of(rank, i, PM_TEAM_NOTE + 1), rank);
            for (std::uint64_t i = 0; i < std::uint64_t{pages}; ++i)
                watch(board.place_of(rank, i, PM_TEAM_CARD + 1), rank);
        }
    }

    ~TeamRun() { Board::take_down(memory_.get(), ranks_); }

    // Finishing each step before the next, or entering steps before those before them are finished.
    std::string run(bool behind, bool sleeps = false)
    {
        sleeps_ = sleeps;
        for (int rank = 0; rank < ranks_; ++rank)
            schedule_.spawn([this, rank, behind] { take_part(rank, behind, 0); });
        return schedule_.run();
    }

    // And then another team does, on the same board.
    std::string run_twice(bool behind)
    {
        for (int rank = 0; rank < ranks_; ++rank)
            schedule_.spawn([this, rank, behind] {
                const std::uint64_t begin = steps_.size() + 2 * Board::notes;
                take_part(rank, behind, 0);
                await_next_team(rank, begin);
                take_part(rank, behind, begin);
            });
        return schedule_.run();
    }

  private:
    void take_part(int rank, bool behind, std::uint64_t begin) 
    {
        begins_[static_cast<std::size_t>(rank)] = begin;
        behind ? take_part_behind(rank, begin) : take_part(rank, begin);
    }

    // As whoever made the board does, while the others wait to hear of it.
    void await_next_team(int rank, std::uint64_t begin)
    {
        const Board board(memory_.get(), rank, ranks_, pages, ahead);
        while (rank == 0 && !board.all_have_left([](int) { return false; })) {
        }
        if (rank == 0) {
            Board::lay_out_again(memory_.get(), ranks_, begin);
            told_.store(1, std::memory_order_release);
        }
        while (told_.load(std::memory_order_acquire) == 0) {
        }
    }

    void watch(std::byte *place, int rank)
    {
        std::memset(place, 0, looked_at);
        schedule_.watch(place, looked_at, static_cast<std::size_t>(rank));
    }

    static std::uint64_t word(int rank, std::size_t step) { return test::mix(step * 64 + static_cast<std::uint64_t>(rank)) | 1; }

    // As composite_wait does: whoever is rung for between the look and the sleep does not sleep.
    void sleep_until_here(Board &board, int rank)
    {
        SeededAtomic<std::uint32_t> &bell = bells_[board.rank()];
        while (!board.is_here(rank)) {
            const std::uint32_t rung = bell.load(std::memory_order_acquire);
            board.sleeps_for(schedule_.random().one_in(3) ? Board::everybody : rank);
            if (!board.is_here(rank))
                futex_wait(&bell, rung, std::chrono::seconds(1));
            board.is_awake();
        }
    }

    void read(Board &board, int rank, std::size_t step)
    {
        if (sleeps_)
            sleep_until_here(board, rank);
        while (!board.is_here(rank)) {
        }
        schedule_.require(board.size_said(rank) == steps_[step].size, "the size of another step");
        std::uint64_t seen;
        schedule_.read(board.said(rank), sizeof seen);
        std::memcpy(&seen, board.said(rank), sizeof seen);
        schedule_.require(seen == word(rank, begins_[static_cast<std::size_t>(board.rank())] + step), "what was said in another step");
    }

    void enter(Board &board, std::size_t step)
    {
        const std::uint64_t mine = word(board.rank(), begins_[static_cast<std::size_t>(board.rank())] + step);
        std::memcpy(board.place(steps_[step].size), &mine, sizeof mine);
        board.enter(steps_[step].size);
        if (sleeps_)
            board.wake([&](int rank) {
                bells_[rank].fetch_add(1, std::memory_order_release);
                futex_wake_all(&bells_[rank]);
            });
    }

    void read_all(Board &board, std::size_t step)
    {
        if (steps_[step].readers == Step::Readers::of_one)
            read(board, steps_[step].root, step);
        for (int other = 0; steps_[step].readers == Step::Readers::of_all && other < ranks_; ++other)
            read(board, other, step);
    }

    void take_part(int rank, std::uint64_t begin)
    {
        Board board(memory_.get(), rank, ranks_, pages, ahead, begin);
        for (std::size_t first = 0; first < steps_.size();) {
            // Some at once: then all of them are read.
            const std::size_t end = std::min(first + 1 + schedule_.random().below(ahead), steps_.size());
            for (std::size_t i = first; i < end; ++i) {
                while (!board.has_room(steps_[i].size)) {
                }
                enter(board, i);
            }
            for (; first < end; ++first) {
                board.look_at(begin + first + 1);
                read_all(board, first);
            }
            if (steps_[end - 1].readers == Step::Readers::of_all)
                board.all_are_here();
        }
        board.leave();
    }

    void take_part_behind(int rank, std::uint64_t begin)
    {
        Board board(memory_.get(), rank, ranks_, pages, ahead, begin);
        for (std::size_t entered = 0, finished = 0; finished < steps_.size();) {
            const bool may_enter = entered < steps_.size() && board.has_room_behind(steps_[entered].size);
            if (may_enter && (finished == entered || !schedule_.random().one_in(3))) {
                enter(board, entered++);
            } else if (finished < entered) {
                board.look_at(begin + finished + 1);
                read_all(board, finished);
                board.finish(begin + ++finished);
            }
        }
        board.leave();
    }

    struct Free {
        void operator()(std::byte *memory) const { ::operator delete[](memory, std::align_val_t{64}); }
    };
    Schedule schedule_;
    int ranks_;
    bool sleeps_ = false;  // who waits for another one
    SeededAtomic<std::uint32_t> told_{};
    std::array<std::uint64_t, test::most_threads> begins_{};  // of the team that a rank is in
    std::array<SeededAtomic<std::uint32_t>, test::most_threads> bells_;
    std::vector<Step> steps_;
    std::unique_ptr<std::byte[], Free> memory_;
};

TEST(TeamBoardSeeded, SaysWhatWasWrittenAndTakesNoPlaceTooEarly)
{
    for (int ranks : {2, 3})
        test::for_each_seed(300, [&](std::uint64_t seed) { return TeamRun(seed, ranks).run(false); });
}

TEST(TeamBoardSeeded, DoesSoForStepsThatAreEnteredBeforeOthersAreFinished)
{
    for (int ranks : {2, 3})
        test::for_each_seed(300, [&](std::uint64_t seed) { return TeamRun(seed, ranks).run(true); });
}

TEST(TeamBoardSeeded, DoesSoOnABoardThatAnotherTeamHasLeft)
{
    for (bool behind : {false, true})
        test::for_each_seed(200, [&](std::uint64_t seed) { return TeamRun(seed, 3).run_twice(behind); });
}

// What goes from rank to rank without the board: who gets it reads it, unless who has it withdraws it first, and uses its memory otherwise.
class ClaimsRun {
  public:
    ClaimsRun(std::uint64_t seed, int ranks)
        : seed_(seed), schedule_(seed), ranks_(ranks), memory_(new (std::align_val_t{64}) std::byte[Board::size_of(ranks, pages)]),
          out_(static_cast<std::size_t>(ranks * ranks)), copied_(out_.size()), withdrawn_(out_.size())
    {
        Board::lay_out(memory_.get(), ranks);
    }
    ~ClaimsRun() { Board::take_down(memory_.get(), ranks_); }

    std::string run()
    {
        for (int rank = 0; rank < ranks_; ++rank)
            schedule_.spawn([this, rank] { take_part(rank); });
        std::string failed = schedule_.run();
        for (int from = 0; from < ranks_; ++from)
            for (int to = 0; to < ranks_; ++to)
                EXPECT_TRUE(from == to || copied_[at(from, to)] + withdrawn_[at(from, to)] == steps || !failed.empty()) << "each step one of both";
        return failed;
    }

  private:
    static constexpr std::uint64_t steps = 5;

    std::size_t at(int from, int to) const { return static_cast<std::size_t>(from * ranks_ + to); }
    std::uint64_t word(int from, int to, std::uint64_t step) const { return step * 1000 + at(from, to); }
    bool withdraws(int rank, std::uint64_t step) const { return (seed_ + static_cast<std::uint64_t>(rank) + step) % 3 == 0; }

    void withdraw(Board &board, int rank)
    {
        for (int other = 0; other < ranks_; ++other) {
            if (other == rank)
                continue;
            if (board.claim(rank, other))
                ++withdrawn_[at(rank, other)];
            else
                while (!board.is_copied(rank, other)) {
                }
            out_[at(rank, other)].store(0, std::memory_order_relaxed);
        }
    }

    void read(Board &board, int other, int rank, std::uint64_t step)
    {
        while (!board.is_here(other)) {
        }
        if (!board.claim(other, rank))
            return;
        schedule_.require(!board.is_copied(other, rank), "copied before it was read");
        schedule_.require(out_[at(other, rank)].load(std::memory_order_relaxed) == word(other, rank, step), "what was claimed is not there any more");
        ++copied_[at(other, rank)];
        board.has_copied(other, rank);
    }

    void take_part(int rank)
    {
        Board board(memory_.get(), rank, ranks_, pages, ahead);
        for (std::uint64_t step = 1; step <= steps; ++step) {
            for (int other = 0; other < ranks_; ++other)
                out_[at(rank, other)].store(word(rank, other, step), std::memory_order_relaxed);
            while (!board.has_room(0)) {
            }
            board.enter(0);
            if (withdraws(rank, step))
                withdraw(board, rank);
            for (int other = 0; other < ranks_; ++other)
                if (other != rank)
                    read(board, other, rank, step);
            for (int other = 0; other < ranks_ && !withdraws(rank, step); ++other)
                while (other != rank && !board.is_copied(rank, other)) {
                }
        }
    }

    struct Free {
        void operator()(std::byte *memory) const { ::operator delete[](memory, std::align_val_t{64}); }
    };
    std::uint64_t seed_;
    Schedule schedule_;
    int ranks_;
    std::unique_ptr<std::byte[], Free> memory_;
    std::vector<SeededAtomic<std::uint64_t>> out_;
    std::vector<std::uint64_t> copied_, withdrawn_;
};

TEST(TeamBoardSeeded, WhatIsInAnothersMemoryIsReadOnceOrWithdrawn)
{
    for (int ranks : {2, 3})
        test::for_each_seed(300, [&](std::uint64_t seed) { return ClaimsRun(seed, ranks).run(); });
}

// A rank that sleeps over what it waits for is found as a run in which nobody can go on.
TEST(TeamBoardSeeded, NobodySleepsOverARankThatComes)
{
    for (int ranks : {2, 3})
        for (bool behind : {false, true})
            test::for_each_seed(150, [&](std::uint64_t seed) { return TeamRun(seed, ranks).run(behind, true); });
}

// Alone with the board: who has not come, who has left, who is woken.
class TeamBoardOf : public testing::Test {
  protected:
    using Board = TeamBoard<std::atomic>;
    static constexpr int ranks = 3;
    TeamBoardOf() { Board::lay_out(memory_.data(), ranks); }
    std::vector<std::byte> storage_ = std::vector<std::byte>(Board::size_of(ranks, pages) + 64);
    std::span<std::byte> memory_{storage_.data() + (64 - reinterpret_cast<std::uintptr_t>(storage_.data()) % 64) % 64, Board::size_of(ranks, pages)};
    Board first_{memory_.data(), 0, ranks, pages, 1}, second_{memory_.data(), 1, ranks, pages, 1}, third_{memory_.data(), 2, ranks, pages, 1};
};

TEST_F(TeamBoardOf, ThreeHasRoomUntilSomebodyIsTooFarBehind)
{
    for (std::uint64_t i = 0; i + 1 < Board::notes; ++i) {
        ASSERT_TRUE(first_.has_room(8));
        first_.enter(8);
        second_.enter(0);
    }
    EXPECT_FALSE(first_.has_room(8));
    EXPECT_EQ(first_.last(8, false), 2);
    third_.enter(0);
    EXPECT_TRUE(first_.has_room(8));
    EXPECT_FALSE(first_.has_much_room(8));
    EXPECT_EQ(first_.last(8, true), 2);
    for (std::uint64_t i = 0; i < Board::notes / 2; ++i)
        third_.enter(0);
    EXPECT_TRUE(first_.has_much_room(8));
    EXPECT_FALSE(first_.has_room(PM_TEAM_CARD + 1)) << "there are fewer pages";
}

TEST_F(TeamBoardOf, ThreeWakesThoseWhoSleepForIt)
{
    std::vector<int> woken;
    auto wake = [&](int rank) { woken.push_back(rank); };
    first_.enter(0);
    first_.wake(wake);
    EXPECT_TRUE(woken.empty());
    second_.sleeps_for(0);
    third_.sleeps_for(1);
    first_.enter(0);
    first_.wake(wake);
    EXPECT_EQ(woken, std::vector{1});
    second_.is_awake();
    first_.wake(wake);
    EXPECT_EQ(woken, std::vector{1});
}

TEST_F(TeamBoardOf, ThreeIsAsNewForTheNextThree)
{
    for (Board *each : {&first_, &second_, &third_}) {
        each->join();
        each->enter(0);
        each->leave();
    }
    third_.give_up();
    second_.sleeps_for(2);
    const std::uint64_t begin = first_.behind_all();
    Board::lay_out_again(memory_.data(), ranks, begin);
    Board first(memory_.data(), 0, ranks, pages, 1, begin), third(memory_.data(), 2, ranks, pages, 1, begin);
    first.join();
    EXPECT_TRUE(third.has_joined(0));
    EXPECT_FALSE(first.has_joined(2));
    EXPECT_FALSE(first.will_not_come(2));
    EXPECT_FALSE(first.all_have_left([](int) { return false; }));
    EXPECT_TRUE(first.has_room(PM_TEAM_PAGE));
    EXPECT_TRUE(first.has_room_behind(PM_TEAM_PAGE));
    first.enter(0);
    EXPECT_FALSE(first.is_here(2));
    third.enter(5);
    EXPECT_TRUE(first.is_here(2));
    EXPECT_EQ(first.size_said(2), 5u);
    first.wake([](int rank) { ADD_FAILURE() << rank << " does not sleep"; });
}

TEST_F(TeamBoardOf, ThreeKeepsItsMemoryForTheNextThree)
{
    EXPECT_FALSE(first_.has_backed_notes());
    second_.note_backed_notes();
    first_.note_backed_cards(5);
    third_.note_backed_page(1, 3);
    Board::lay_out_again(memory_.data(), ranks, first_.behind_all());
    EXPECT_TRUE(third_.has_backed_notes());
    EXPECT_EQ(first_.backed_cards(), 5u);
    EXPECT_EQ(second_.backed_cards(), 0u) << "each has its own";
    EXPECT_EQ(third_.backed_of_page(1), 3);
    EXPECT_EQ(third_.backed_of_page(0), 0);
    EXPECT_EQ(first_.backed_of_page(1), 0);
    Board::take_down(memory_.data(), ranks);
    Board::lay_out(memory_.data(), ranks);
    EXPECT_FALSE(first_.has_backed_notes());
    EXPECT_EQ(first_.backed_cards(), 0u);
    EXPECT_EQ(third_.backed_of_page(1), 0);
}

TEST_F(TeamBoardOf, ThreeIsFreeWhenAllHaveLeft)
{
    auto all_live = [](int) { return false; };
    first_.leave();
    third_.leave();
    EXPECT_TRUE(second_.will_not_come(0));
    EXPECT_FALSE(first_.all_have_left(all_live));
    second_.give_up();
    EXPECT_TRUE(third_.will_not_come(1));
    EXPECT_FALSE(first_.all_have_left(all_live)) << "it may still look";
    second_.leave();
    EXPECT_TRUE(first_.all_have_left(all_live));
}

TEST_F(TeamBoardOf, ThreeIsFreeWhenWhoHasNotLeftHasEnded)
{
    auto third_has_ended = [](int rank) { return rank == 2; };
    first_.leave();
    EXPECT_FALSE(first_.all_have_left(third_has_ended)) << "the second one may still look";
    second_.leave();
    EXPECT_TRUE(first_.all_have_left(third_has_ended));
}

}  // namespace
}  // namespace pm::coll
