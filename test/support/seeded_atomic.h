// An atomic type whose every operation is a decision of a seeded scheduler: who runs next, and, as on a weakly ordered machine,
// which of the stores that this thread may still see a load returns. Give it to lock-free code in place of std::atomic.
//
// The model. A location remembers its last stores, in one order for all (coherence). A load returns the newest store or a
// stale one, but none older than what its thread has seen there or what happens before the load. A release store carries the
// clock of its thread; an acquire load that returns it merges that clock: this is "happens before". A read-modify-write reads
// the newest store and continues its release sequence. Plain memory that was given to Schedule::watch has one writer; a read
// that does not happen after the write, or a write that does not happen after the read, stops the run, whatever the bytes
// are. So a missing release or acquire, a word published before its bytes, and memory given back too early are found
// by what the code orders, not by what this machine happens to do.
//
// It can find: wrong interleavings at atomic operations, missing or too weak orderings of the atomics, races on watched memory
// (bytes changed by its writer; reads that the test declares), lost wake-ups, endless waiting.
// It cannot find: a plain write of bytes that are already there; a read nobody declared; anything that depends on fences or on
// seq_cst being more than acq_rel (neither is modelled); a load that returns a store of the future (load buffering); more than
// most_threads threads; what happens when a thread dies between two plain writes; torn atomics.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "support/seeded_schedule.h"

namespace pm::test {

template <class T>
class SeededAtomic {
  public:
    SeededAtomic() : SeededAtomic(T{}) {}
    SeededAtomic(T value) { stores_.push_back({value, {}, nobody, 0}); }
    SeededAtomic(const SeededAtomic &) = delete;
    SeededAtomic &operator=(const SeededAtomic &) = delete;

    T load(std::memory_order order) const
    {
        Schedule &schedule = Schedule::current();
        schedule.step();
        std::size_t self = schedule.running_;
        Clock &clock = schedule.threads_[self]->clock;
        std::uint64_t oldest = oldest_visible(self, clock);
        std::uint64_t chosen = newest();
        if (oldest < chosen && stale_reads_[self] < most_stale_reads && schedule.random().one_in(schedule.stale_chance_))
            chosen = schedule.random().between(oldest, chosen);
        stale_reads_[self] = chosen < newest() ? stale_reads_[self] + 1 : 0;
        seen_[self] = chosen;
        const Store &store = at(chosen);
        if (acquires(order))
            clock.merge(store.released);
        T value = store.value;
        schedule.move();
        return value;
    }

    void store(T value, std::memory_order order)
    {
        Schedule &schedule = Schedule::current();
        schedule.step();
        put(schedule, value, releases(order) ? schedule.threads_[schedule.running_]->clock : Clock{});
        schedule.move();
    }

    T exchange(T value, std::memory_order order)
    {
        return modify(order, [=](T) { return value; });
    }
    T fetch_add(T operand, std::memory_order order)
    {
        return modify(order, [=](T value) { return static_cast<T>(value + operand); });
    }
    T fetch_or(T operand, std::memory_order order)
    {
        return modify(order, [=](T value) { return static_cast<T>(value | operand); });
    }
    T fetch_and(T operand, std::memory_order order)
    {
        return modify(order, [=](T value) { return static_cast<T>(value & operand); });
    }

    // One that fails stores what was there again.
    bool compare_exchange_strong(T &expected, T value, std::memory_order order)
    {
        const T wanted = expected;
        expected = modify(order, [=](T old) { return old == wanted ? value : old; });
        return expected == wanted;
    }

    // What the kernel would see; no step.
    T newest_value() const { return at(newest()).value; }

    // Outside of a run, or as if by a debugger: everybody sees it.
    void set(T value)
    {
        first_ += stores_.size();
        stores_.assign(1, {value, {}, nobody, 0});
    }

  private:
    static constexpr std::size_t nobody = most_threads;
    static constexpr std::size_t remembered = 16;
    static constexpr unsigned most_stale_reads = 6;  // in a row: a store becomes visible in the end

    struct Store {
        T value;
        Clock released;          // what an acquiring reader learns
        std::size_t thread;      // that stored it,
        std::uint64_t moment;    // and when, in its clock
    };

    static bool acquires(std::memory_order order)
    {
        return order == std::memory_order_acquire || order == std::memory_order_consume || order == std::memory_order_acq_rel ||
               order == std::memory_order_seq_cst;
    }
    static bool releases(std::memory_order order)
    {
        return order == std::memory_order_release || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
    }

    std::uint64_t newest() const { return first_ + stores_.size() - 1; }
    const Store &at(std::uint64_t index) const { return stores_[index - first_]; }

    std::uint64_t oldest_visible(std::size_t self, const Clock &clock) const
    {
        std::uint64_t index = newest();
        for (; index > std::max(first_, seen_[self]); --index) {
            const Store &store = at(index);
            if (store.thread == nobody || store.moment <= clock.at[store.thread])
                break;
        }
        return index;
    }

    template <class Change>
    T modify(std::memory_order order, Change change)
    {
        Schedule &schedule = Schedule::current();
        schedule.step();
        Clock &clock = schedule.threads_[schedule.running_]->clock;
        Store before = at(newest());
        if (acquires(order))
            clock.merge(before.released);
        Clock released = before.released;
        if (releases(order))
            released.merge(clock);
        put(schedule, change(before.value), released);
        schedule.move();
        return before.value;
    }

    void put(Schedule &schedule, T value, const Clock &released)
    {
        std::size_t self = schedule.running_;
        Clock &clock = schedule.threads_[self]->clock;
        if (stores_.size() == remembered) {
            stores_.erase(stores_.begin());
            ++first_;
        }
        stores_.push_back({value, released, self, clock.at[self]});
        ++clock.at[self];
        seen_[self] = newest();
        stale_reads_[self] = 0;
    }

    std::vector<Store> stores_;
    std::uint64_t first_ = 0;  // index of the oldest store that is remembered
    mutable std::array<std::uint64_t, most_threads> seen_{};
    mutable std::array<unsigned, most_threads> stale_reads_{};
};

// base/futex.h for seeded atomics. The kernel compares the newest value and puts to sleep in one step.
inline void futex_wait(SeededAtomic<std::uint32_t> *word, std::uint32_t expected, std::chrono::nanoseconds)
{
    Schedule::current().step();
    if (word->newest_value() == expected)
        Schedule::current().block_on(word);
}

inline void futex_wake_all(SeededAtomic<std::uint32_t> *word)
{
    Schedule::current().step();
    Schedule::current().wake(word);
}

}  // namespace pm::test
