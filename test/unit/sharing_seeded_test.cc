// Memory that one process hands out and others read, what a window counts, what a thread hands over to others, and the lock of a device, under the seeded
// scheduler. Promises: who finds a heap open knows where it is; a block is written again only when all have read it; who sees a count, or finds what was
// handed over, sees the data that was written before; who is inside a gate is there alone, and sees what those before have done.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "base/gate.h"
#include "base/handed_over.h"
#include "coll/mcast/bytes.h"
#include "coll/window/counts.h"
#include "shmmod/segment.h"
#include "support/seeded_atomic.h"
#include "support/seeds.h"

namespace pm {
namespace {

using test::Schedule;
using test::SeededAtomic;

// An owner opens its heap, lends the same block again and again, and tells of it by a number; others read it.
class LendingRun {
  public:
    explicit LendingRun(std::uint64_t seed) : schedule_(seed)
    {
        schedule_.watch(reinterpret_cast<const std::byte *>(&published_.address), sizeof published_.address, 0);
        schedule_.watch(block_.data(), block_.size(), 0);
    }

    std::string run()
    {
        schedule_.spawn([this] { lend(); });
        for (std::size_t reader = 1; reader <= readers; ++reader)
            schedule_.spawn([this] { read(); });
        return schedule_.run();
    }

  private:
    static constexpr std::size_t readers = 2;
    static constexpr std::uint32_t turns = 5;
    static constexpr std::uint64_t where = 4096;

    void lend()
    {
        published_.publish(where);
        for (std::uint32_t turn = 1; turn <= turns; ++turn) {
            while (!head_->is_free())
                schedule_.pause();
            block_.fill(static_cast<std::byte>(turn));
            head_->readers.store(readers, std::memory_order_relaxed);
            told_.store(turn, std::memory_order_release);  // a message
        }
    }

    void read()
    {
        while (!published_.is_open())
            schedule_.pause();
        schedule_.read(&published_.address, sizeof published_.address);
        schedule_.require(published_.address == where, "a heap that is open is somewhere else");
        for (std::uint32_t turn = 1; turn <= turns; ++turn) {
            while (told_.load(std::memory_order_acquire) < turn)
                schedule_.pause();
            schedule_.read(block_.data(), block_.size());
            for (std::byte byte : block_)
                schedule_.require(byte == static_cast<std::byte>(turn), "a block was written before all had read it");
            schedule_.step();
            head_->is_read();
        }
    }

    Schedule schedule_;
    shmem::BasicPublished<SeededAtomic> published_{};
    std::unique_ptr<coll::BasicBlockHead<SeededAtomic>> head_ = std::make_unique<coll::BasicBlockHead<SeededAtomic>>();
    std::array<std::byte, 64> block_{};
    SeededAtomic<std::uint32_t> told_;
};

TEST(SharingSeeded, ABlockIsLentAgainOnlyWhenAllHaveReadIt)
{
    test::for_each_seed(6'000, [](std::uint64_t seed) { return LendingRun(seed).run(); });
}

// Two write to a window, each its own part, and count; the owner waits for some of it.
class CountingRun {
  public:
    explicit CountingRun(std::uint64_t seed) : schedule_(seed)
    {
        for (std::size_t writer = 1; writer <= writers; ++writer)
            schedule_.watch(parts_[writer].data(), parts_[writer].size(), writer);
    }

    std::string run()
    {
        schedule_.spawn([this] { wait(); });
        for (std::size_t writer = 1; writer <= writers; ++writer)
            schedule_.spawn([this, writer] { put(writer); });
        return schedule_.run();
    }

  private:
    using Counts = coll::BasicCounts<SeededAtomic>;
    static constexpr std::size_t writers = 2, turns = 6;
    static constexpr std::size_t apart = 64;  // so that the schedule can tell who knows of which

    void put(std::size_t writer)
    {
        for (std::size_t turn = 0; turn < turns; ++turn) {
            parts_[writer][turn * apart] = std::byte{1};
            Counts::add(&each_[writer]);
            Counts::add(&all_);
        }
    }

    void wait()
    {
        // By the count of one, whatever the other does, and in the end by that of both together.
        for (std::uint32_t seen = 0; seen < turns;) {
            const std::uint32_t now = Counts::read(each_[1]);
            if (now == seen)
                schedule_.pause();
            for (; seen < now; ++seen)
                look_at(1, seen);
        }
        while (Counts::read(all_) < writers * turns)
            schedule_.pause();
        for (std::size_t turn = 0; turn < turns; ++turn)
            look_at(2, turn);
    }

    void look_at(std::size_t writer, std::size_t turn)
    {
        schedule_.read(&parts_[writer][turn * apart], 1);
        schedule_.require(parts_[writer][turn * apart] == std::byte{1}, "something was counted before it was there");
    }

    Schedule schedule_;
    std::array<SeededAtomic<std::uint32_t>, writers + 1> each_;
    SeededAtomic<std::uint32_t> all_;
    std::array<std::array<std::byte, apart * turns>, writers + 1> parts_{};
};

TEST(SharingSeeded, WhoSeesACountSeesTheData)
{
    test::for_each_seed(6'000, [](std::uint64_t seed) { return CountingRun(seed).run(); });
}

// One makes one thing after the other, and hands over the last; others look at it.
class HandingRun {
  public:
    explicit HandingRun(std::uint64_t seed) : schedule_(seed) { schedule_.watch(things_.data(), things_.size(), 0); }

    std::string run()
    {
        schedule_.spawn([this] {
            for (std::uint32_t thing = 1; thing <= things; ++thing) {
                things_[thing * apart] = static_cast<std::byte>(thing);
                last_.set(thing);
                schedule_.require(last_.alone() == thing, "who hands it over does not find it");
            }
        });
        for (int reader = 0; reader < 2; ++reader)
            schedule_.spawn([this] {
                for (std::uint32_t thing = 0; thing < things;) {
                    thing = last_.get();
                    if (thing == 0)
                        schedule_.pause();
                    else
                        schedule_.read(&things_[thing * apart], 1);
                }
            });
        return schedule_.run();
    }

  private:
    static constexpr std::uint32_t things = 6, apart = 64;

    Schedule schedule_;
    HandedOver<std::uint32_t, SeededAtomic> last_;
    std::array<std::byte, (things + 1) * apart> things_{};
};

TEST(SharingSeeded, WhoFindsWhatIsHandedOverFindsItMade)
{
    test::for_each_seed(6'000, [](std::uint64_t seed) { return HandingRun(seed).run(); });
}

struct SeededThread {
    static const void *mark() { return &marks[Schedule::current().running()]; }
    static void rest() { Schedule::current().pause(); }
    static constexpr char marks[test::most_threads]{};
};

// Threads that enter once, or again while they are inside, and some that only try.
class GateRun {
  public:
    explicit GateRun(std::uint64_t seed) : schedule_(seed)
    {
        for (std::size_t thread = 0; thread < threads; ++thread)
            schedule_.watch(written_[thread].data(), written_[thread].size(), thread);
    }

    std::string run()
    {
        for (std::size_t thread = 0; thread < threads; ++thread)
            schedule_.spawn([this, thread] { take_turns(thread); });
        return schedule_.run();
    }

  private:
    static constexpr std::size_t threads = 3, turns = 8;

    void take_turns(std::size_t thread)
    {
        for (std::size_t turn = 1; turn <= turns; ++turn) {
            if (schedule_.random().one_in(3)) {
                while (!gate_.try_enter())
                    schedule_.pause();
            } else {
                gate_.enter();
            }
            const bool again = schedule_.random().one_in(2);
            if (again)
                gate_.enter();
            schedule_.require(!busy_, "two are inside");
            busy_ = true;
            for (auto &each : written_)
                schedule_.read(each.data(), each.size());
            written_[thread].fill(static_cast<std::byte>(turn));
            schedule_.step();
            if (again)
                gate_.leave();
            schedule_.step();
            busy_ = false;
            gate_.leave();
        }
    }

    Schedule schedule_;
    BasicGate<SeededAtomic, SeededThread> gate_;
    std::array<std::array<std::byte, 32>, threads> written_{};
    bool busy_ = false;
};

TEST(SharingSeeded, AGateHasOneThreadInside)
{
    test::for_each_seed(6'000, [](std::uint64_t seed) { return GateRun(seed).run(); });
}

}  // namespace
}  // namespace pm
