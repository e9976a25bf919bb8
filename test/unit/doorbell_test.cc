// The ready word. Promise: what was published before its bit was rung is found by who takes the bit, and a receiver that sleeps
// is woken: no wake-up is lost, in whatever order sender and sleeper come.
#include "shmmod/doorbell.h"
#include "shmmod/ring.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "support/sanitizers.h"
#include "support/seeded_atomic.h"
#include "support/seeds.h"
#include "support/time_limit.h"

namespace pm::shmem {
namespace {

using namespace std::chrono_literals;
using test::Schedule;
using test::SeededAtomic;
using test::TimeLimit;

using Word = std::atomic<std::uint32_t>;

// Far longer than any test may take: a sleeper that nobody wakes does not come back by itself.
constexpr auto forever = 24h;

TEST(Doorbell, GivesEverySlotABitThatIsNotTheSleepBit)
{
    std::uint32_t all = 0;
    for (std::uint32_t slot = 0; slot < 4096; ++slot) {
        EXPECT_EQ(ready_bit(slot) & sleeping, 0u) << slot;
        EXPECT_NE(ready_bit(slot), 0u) << slot;
        EXPECT_EQ(ready_bit(slot), ready_bit(slot + ready_bits)) << slot;
        all |= ready_bit(slot);
    }
    EXPECT_EQ(all, ~sleeping);
}

TEST(Doorbell, TakesEachRungBitOnce)
{
    Word ready{0};
    EXPECT_EQ(take_ready(&ready), 0u);
    ring_doorbell(&ready, ready_bit(3));
    ring_doorbell(&ready, ready_bit(3));
    ring_doorbell(&ready, ready_bit(30));
    EXPECT_EQ(take_ready(&ready), ready_bit(3) | ready_bit(30));
    EXPECT_EQ(take_ready(&ready), 0u);
}

TEST(Doorbell, ArmsOnlyWhenThereIsNothingToTake)
{
    Word ready{0};
    EXPECT_TRUE(arm_doorbell(&ready));
    EXPECT_EQ(ready.load(), sleeping);
    EXPECT_TRUE(arm_doorbell(&ready)) << "a second thread may sleep, too";
    disarm_doorbell(&ready);
    EXPECT_EQ(ready.load(), 0u);
    ring_doorbell(&ready, ready_bit(0));
    EXPECT_FALSE(arm_doorbell(&ready));
    disarm_doorbell(&ready);
    EXPECT_EQ(take_ready(&ready), ready_bit(0)) << "disarming loses no bit";
}

TEST(Doorbell, LeavesTheSleepBitToOtherThreadsWhenItTakes)
{
    Word ready{sleeping | ready_bit(5)};
    EXPECT_EQ(take_ready(&ready), ready_bit(5));
    EXPECT_EQ(ready.load(), sleeping);
}

TEST(Doorbell, DoesNotSleepWhenItRangAfterArming)
{
    TimeLimit limit(60);
    Word ready{0};
    ASSERT_TRUE(arm_doorbell(&ready));
    ring_doorbell(&ready, ready_bit(1));
    sleep_on_doorbell(&ready, forever);
    EXPECT_EQ(ready.load() & sleeping, 0u) << "who rings ends the sleep";
    EXPECT_EQ(take_ready(&ready), ready_bit(1));
}

TEST(Doorbell, SleepEndsAtItsLimit)
{
    TimeLimit limit(60);
    Word ready{0};
    ASSERT_TRUE(arm_doorbell(&ready));
    sleep_on_doorbell(&ready, 1ms);
    disarm_doorbell(&ready);
    EXPECT_EQ(ready.load(), 0u);
}

// Real threads and the real futex: each round the sleeper waits for one ring, and the ringer for the sleeper's answer.
TEST(Doorbell, WakesARealSleeperEveryTime)
{
    TimeLimit limit(120);
    const unsigned rounds = 20'000 / test::slowdown;
    Word there{0}, back{0};
    auto wait_for_ring = [](Word *word) {
        unsigned looks = 0;
        while (take_ready(word) == 0) {
            // Sometimes the ring comes before the arming, sometimes after it.
            if (++looks % 4 != 0)
                continue;
            if (arm_doorbell(word))
                sleep_on_doorbell(word, forever);
            disarm_doorbell(word);
        }
    };
    std::thread answerer([&] {
        for (unsigned i = 0; i < rounds; ++i) {
            wait_for_ring(&there);
            ring_doorbell(&back, ready_bit(1));
        }
    });
    for (unsigned i = 0; i < rounds; ++i) {
        ring_doorbell(&there, ready_bit(0));
        wait_for_ring(&back);
    }
    answerer.join();
    EXPECT_EQ(there.load(), 0u);
    EXPECT_EQ(back.load(), 0u);
}

// As drain() in shmem.cc: a sender publishes a count for its slot, then rings; who took the bit looks at the slot once.
TEST(Doorbell, LosesNoNoteOfManyRealSenders)
{
    TimeLimit limit(120);
    constexpr unsigned senders = 4;
    const unsigned notes = 20'000 / test::slowdown;
    Word ready{0};
    std::array<std::atomic<unsigned>, senders> published{};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < senders; ++i)
        threads.emplace_back([&, i] {
            for (unsigned note = 1; note <= notes; ++note) {
                published[i].store(note, std::memory_order_release);
                ring_doorbell(&ready, ready_bit(i));
            }
        });
    std::array<unsigned, senders> seen{};
    unsigned complete = 0;
    while (complete < senders) {
        std::uint32_t bits = take_ready(&ready);
        for (unsigned i = 0; i < senders; ++i) {
            if ((bits & ready_bit(i)) == 0)
                continue;
            unsigned now = published[i].load(std::memory_order_acquire);
            complete += seen[i] < notes && now == notes;
            seen[i] = now;
        }
        if (bits == 0 && complete < senders) {
            if (arm_doorbell(&ready))
                sleep_on_doorbell(&ready, forever);
            disarm_doorbell(&ready);
        }
    }
    for (std::thread &thread : threads)
        thread.join();
    for (unsigned i = 0; i < senders; ++i)
        EXPECT_EQ(seen[i], notes) << "sender " << i;
}

// The same under the seeded scheduler, where a sleep has no limit: a wake-up that could be lost is.
std::string seeded_run(std::uint64_t seed, unsigned senders)
{
    constexpr unsigned notes = 6;
    Schedule schedule(seed);
    SeededAtomic<std::uint32_t> ready;
    std::vector<std::unique_ptr<SeededAtomic<unsigned>>> published;
    for (unsigned i = 0; i < senders; ++i)
        published.push_back(std::make_unique<SeededAtomic<unsigned>>());
    for (unsigned i = 0; i < senders; ++i)
        schedule.spawn([&, i] {
            for (unsigned note = 1; note <= notes; ++note) {
                // Relaxed: the doorbell alone must make it visible.
                published[i]->store(note, std::memory_order_relaxed);
                ring_doorbell(&ready, ready_bit(i));
            }
        });
    schedule.spawn([&] {
        std::vector<unsigned> seen(senders);
        unsigned complete = 0;
        while (complete < senders) {
            std::uint32_t bits = take_ready(&ready);
            for (unsigned i = 0; i < senders; ++i) {
                if ((bits & ready_bit(i)) == 0)
                    continue;
                unsigned now = published[i]->load(std::memory_order_relaxed);
                complete += seen[i] < notes && now == notes;
                seen[i] = now;
            }
            if (bits == 0) {
                if (arm_doorbell(&ready))
                    sleep_on_doorbell(&ready, forever);
                disarm_doorbell(&ready);
            }
        }
    });
    return schedule.run();
}

TEST(DoorbellSeeded, WakesASleeperAndShowsItWhatWasPublished)
{
    test::for_each_seed(5000, [](std::uint64_t seed) { return seeded_run(seed, 1 + seed % 3); });
}

// A sender whose ring is attended to does not ring. The receiver attends, leaves and sleeps whenever it likes.
std::string attended_run(std::uint64_t seed)
{
    constexpr unsigned messages = 12;
    Schedule schedule(seed);
    SeededAtomic<std::uint32_t> ready;
    auto memory = std::make_unique<RingMemory<SeededAtomic>>();
    schedule.spawn([&] {
        Producer<SeededAtomic> producer(memory.get(), nullptr, {});
        for (unsigned i = 0; i < messages; ++i) {
            schedule.require(producer.push_small({}), "there is room");
            // As Shmem::ring(), which is in the way of each message: as a template it would be inlined in other places.
            if (!producer.is_attended())
                ring_doorbell(&ready, ready_bit(0));
        }
    });
    schedule.spawn([&] {
        Consumer<SeededAtomic> consumer(memory.get(), nullptr);
        CellView view;
        bool attending = false;
        for (unsigned seen = 0; seen < messages;) {
            if (take_ready(&ready) != 0 || attending)
                for (; consumer.peek(&view); ++seen)
                    consumer.pop(view.kind);
            if (!attending && schedule.random().one_in(3)) {
                consumer.attend();
                attending = true;
            }
            if (!schedule.random().one_in(3))
                continue;
            if (attending) {
                attending = false;
                schedule.require(leave_ring(&consumer, &ready, ready_bit(0)), "the seeded kernel lets everything be seen");
            }
            if (seen < messages && arm_doorbell(&ready))
                sleep_on_doorbell(&ready, forever);
            disarm_doorbell(&ready);
        }
    });
    return schedule.run();
}

TEST(DoorbellSeeded, LosesNothingOfASenderThatIsAttendedTo)
{
    test::for_each_seed(5000, attended_run);
}

}  // namespace
}  // namespace pm::shmem
