// A scheduler for lock-free code: threads of which one runs at a time, switched at seeded moments, and a happens-before check
// of the plain memory they share. See seeded_atomic.h for what the two can find together.
//
// Promise: the run is a function of the seed. run() ends: when all threads have returned, when one of them found trouble, when
// all that are left are blocked, or after step_limit steps.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "support/fiber.h"
#include "support/random.h"

namespace pm::test {

inline constexpr std::size_t most_threads = 4;

// How much of each thread's past happens before a point: a vector clock.
struct Clock {
    std::array<std::uint64_t, most_threads> at{};

    void merge(const Clock &other)
    {
        for (std::size_t i = 0; i < most_threads; ++i)
            at[i] = std::max(at[i], other.at[i]);
    }
};

class Schedule {
  public:
    static constexpr std::uint64_t step_limit = 2'000'000;

    explicit Schedule(std::uint64_t seed) : random_(seed)
    {
        // Some runs change threads all the time, others seldom; some favour one thread, so that queues fill or run dry.
        switch_chance_ = std::uint64_t{1} << random_.between(1, 6);
        for (std::uint64_t &weight : weights_)
            weight = std::uint64_t{1} << random_.below(4);
        stale_chance_ = std::uint64_t{1} << random_.between(1, 4);
        current_ = this;
    }

    ~Schedule() { current_ = nullptr; }
    Schedule(const Schedule &) = delete;
    Schedule &operator=(const Schedule &) = delete;

    static Schedule &current() { return *current_; }

    // The thread gets the next number, from 0.
    void spawn(std::function<void()> body)
    {
        std::size_t number = threads_.size();
        threads_.push_back(std::make_unique<Thread>());
        Thread &thread = *threads_.back();
        thread.clock.at[number] = 1;
        thread.fiber = Fiber::take([this, body = std::move(body)]() -> Fiber & {
            body();
            return finish();
        });
    }

    // What went wrong, or nothing.
    std::string run()
    {
        running_ = pick();
        main_.switch_to(*threads_[running_]->fiber);
        for (auto &thread : threads_)
            if (thread->finished)
                Fiber::give_back(std::move(thread->fiber));
        return trouble_;
    }

    // ---- for the threads --------------------------------------------------------------------------------------------

    // Here another thread may run.
    void step()
    {
        collect_writes();
        move();
    }

    // The thread has nothing to do until another one has done something: here another thread does run, if one can.
    void pause()
    {
        collect_writes();
        threads_[running_]->pausing = true;
        move();
    }

    Random &random() { return random_; }
    // Which thread this is.
    std::size_t running() const { return running_; }

    void require(bool condition, const char *otherwise)
    {
        if (!condition)
            stop(otherwise);
    }

    // The run is over. What lies on the stacks of the threads is lost.
    [[noreturn]] void stop(std::string &&trouble)
    {
        trouble_ = std::move(trouble);
        threads_[running_]->fiber->switch_to(main_);
        std::abort();  // nobody switches back
    }

    // What was loaded is acquired, what is stored from now on carries what is known now; see seeded_atomic.h.
    void fence(std::memory_order order)
    {
        step();
        place_fence(running_, order);
        move();
    }

    // As if every thread placed one of sequential consistency, wherever it is.
    void fence_everywhere()
    {
        step();
        place_fence(running_, std::memory_order_seq_cst);
        for (std::size_t thread = 0; thread < threads_.size(); ++thread)
            if (thread != running_)
                place_fence(thread, std::memory_order_seq_cst);
        place_fence(running_, std::memory_order_seq_cst);
        move();
    }

    // The next place in the order of sequential consistency.
    std::uint64_t order() { return ++order_; }

    // Until wake(word). There is no time limit: a lost wake-up is found as a run in which nobody can go on.
    void block_on(const void *word)
    {
        collect_writes();
        threads_[running_]->blocked_on = word;
        move();
    }

    void wake(const void *word)
    {
        for (auto &thread : threads_)
            if (thread->blocked_on == word)
                thread->blocked_on = nullptr;
    }

    // ---- plain memory -----------------------------------------------------------------------------------------------

    // From now on writes of thread `writer` to this memory are noticed, by comparing it with a copy at each step of the writer;
    // a write of equal bytes goes unnoticed. A region that begins at the same address is extended.
    void watch(const std::byte *memory, std::size_t size, std::size_t writer)
    {
        auto found = std::ranges::find(regions_, memory, &Region::memory);
        Region &region = found != regions_.end() ? *found : regions_.emplace_back();
        region.memory = memory;
        region.writer = writer;
        std::size_t before = region.copy.size();
        region.copy.resize(size);
        std::memcpy(region.copy.data() + before, memory + before, size - before);
        region.granules.resize((size + granule_size - 1) / granule_size);
    }

    // The running thread reads these bytes now: whoever wrote them must have published them to it.
    void read(const void *address, std::size_t size)
    {
        auto bytes = static_cast<const std::byte *>(address);
        for (Region &region : regions_) {
            if (size == 0 || bytes < region.memory || bytes >= region.memory + region.copy.size())
                continue;
            auto start = static_cast<std::size_t>(bytes - region.memory);
            if (start + size > region.copy.size())
                stop("thread " + std::to_string(running_) + " reads beyond the watched memory");
            const Clock &clock = threads_[running_]->clock;
            for (std::size_t i = start / granule_size; i <= (start + size - 1) / granule_size; ++i) {
                Granule &granule = region.granules[i];
                if (granule.written > clock.at[region.writer] && region.writer != running_)
                    stop("thread " + std::to_string(running_) + " reads bytes that thread " + std::to_string(region.writer) +
                                " wrote and has not published to it");
                granule.read[running_] = clock.at[running_];
            }
        }
    }

  private:
    void place_fence(std::size_t thread, std::memory_order order)
    {
        Thread &self = *threads_[thread];
        if (order != std::memory_order_release)
            self.clock.merge(self.to_acquire);
        if (order == std::memory_order_seq_cst) {
            self.fenced_at = this->order();
            self.clock.merge(fences_);
            fences_.merge(self.clock);
        }
        if (order != std::memory_order_acquire)
            self.fenced = self.clock;
        ++self.clock.at[thread];  // what comes behind the fence is not before it
    }

    template <class>
    friend class SeededAtomic;

    struct Thread {
        std::unique_ptr<Fiber> fiber;
        Clock clock;
        Clock to_acquire;  // what its relaxed loads have returned
        Clock fenced;      // what its relaxed stores carry, since its last fence
        std::uint64_t fenced_at = 0;  // its last fence of sequential consistency
        const void *blocked_on = nullptr;
        bool pausing = false;
        bool finished = false;
    };

    // When these bytes were last written by the region's writer, and read by each thread, in the clock of who did it.
    static constexpr std::size_t granule_size = 16;
    struct Granule {
        std::uint64_t written = 0;
        std::array<std::uint64_t, most_threads> read{};
    };

    struct Region {
        const std::byte *memory = nullptr;
        std::size_t writer = 0;
        std::vector<std::byte> copy;
        std::vector<Granule> granules;
    };

    void move()
    {
        if (++steps_ > step_limit)
            stop("no end after " + std::to_string(step_limit) + " steps");
        Thread &self = *threads_[running_];
        if (self.blocked_on == nullptr && !self.pausing && !random_.one_in(switch_chance_))
            return;
        Fiber &next = next_fiber();
        self.pausing = false;
        if (&next != self.fiber.get())
            self.fiber->switch_to(next);
    }

    // A thread that can run, or the end of the run.
    Fiber &next_fiber()
    {
        std::size_t next = pick();
        if (next == nobody) {
            if (!std::ranges::all_of(threads_, [](const auto &thread) { return thread->finished; }))
                trouble_ = "every thread that has not finished sleeps: a wake-up was lost";
            return main_;
        }
        running_ = next;
        return *threads_[next]->fiber;
    }

    static constexpr std::size_t nobody = most_threads;

    // By weight, among those that can run; one that pauses only when nobody else can.
    std::size_t pick()
    {
        std::array<std::uint64_t, most_threads> weights{};
        std::uint64_t total = 0;
        for (bool pausing : {false, true}) {
            for (std::size_t i = 0; i < threads_.size() && total == 0; ++i) {
                const Thread &thread = *threads_[i];
                if (!thread.finished && thread.blocked_on == nullptr && thread.pausing == pausing)
                    weights[i] = weights_[i];
            }
            total = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
        }
        if (total == 0)
            return nobody;
        std::uint64_t chosen = random_.below(total);
        std::size_t i = 0;
        for (; chosen >= weights[i]; ++i)
            chosen -= weights[i];
        return i;
    }

    Fiber &finish()
    {
        collect_writes();
        threads_[running_]->finished = true;
        return next_fiber();
    }

    void collect_writes()
    {
        constexpr std::size_t stride = 16 * granule_size;
        for (Region &region : regions_) {
            if (region.writer != running_)
                continue;
            std::size_t size = region.copy.size();
            for (std::size_t start = 0; start < size; start += stride) {
                std::size_t end = std::min(start + stride, size);
                if (std::memcmp(region.memory + start, region.copy.data() + start, end - start) != 0)
                    collect_writes(region, start, end);
            }
        }
    }

    void collect_writes(Region &region, std::size_t start, std::size_t end)
    {
        const Clock &clock = threads_[running_]->clock;
        for (std::size_t place = start; place < end; place += granule_size) {
            std::size_t count = std::min(granule_size, end - place);
            if (std::memcmp(region.memory + place, region.copy.data() + place, count) == 0)
                continue;
            std::memcpy(region.copy.data() + place, region.memory + place, count);
            Granule &granule = region.granules[place / granule_size];
            granule.written = clock.at[running_];
            for (std::size_t reader = 0; reader < threads_.size(); ++reader)
                if (reader != running_ && granule.read[reader] > clock.at[reader])
                    stop("thread " + std::to_string(running_) + " writes over bytes that thread " +
                                std::to_string(reader) + " has not given back to it");
        }
    }

    static inline Schedule *current_ = nullptr;

    Random random_;
    Clock fences_;  // what is before the last fence of sequential consistency
    std::uint64_t order_ = 0;
    std::uint64_t switch_chance_ = 1;
    std::uint64_t stale_chance_ = 1;
    std::array<std::uint64_t, most_threads> weights_{};
    Fiber main_;
    std::vector<std::unique_ptr<Thread>> threads_;
    std::size_t running_ = 0;
    std::uint64_t steps_ = 0;
    std::string trouble_;
    std::vector<Region> regions_;
};

}  // namespace pm::test
