// An atomic type whose every operation is a decision of a seeded scheduler: who runs next, and, as on a weakly ordered machine,
// which of the stores that this thread may still see a load returns. Give it to lock-free code in place of std::atomic.
//
// The model. A location remembers its last stores, in one order for all (coherence). A load returns the newest store or a
// stale one, but none older than what its thread has seen there or what happens before the load. A release store carries the
// clock of its thread; an acquire load that returns it merges that clock: this is "happens before". A read-modify-write reads
// the newest store and continues its release sequence. A fence (base/fence.h) that releases is what later stores carry; one that
// acquires merges what earlier loads have returned; fences of sequential consistency have one order, and each merges what was before
// those before it. An operation of sequential consistency is in that order, too, but for its own location: a load of that kind, or
// any load behind such a fence, sees what such operations stored there before. Plain memory that was given to Schedule::watch has one writer; a read
// that does not happen after the write, or a write that does not happen after the read, stops the run, whatever the bytes
// are. So a missing release or acquire, a word published before its bytes, and memory given back too early are found
// by what the code orders, not by what this machine happens to do.
//
// It can find: wrong interleavings at atomic operations, missing or too weak orderings of the atomics, races on watched memory
// (bytes changed by its writer; reads that the test declares), lost wake-ups, endless waiting.
// It cannot find: a plain write of bytes that are already there; a read nobody declared; a load that returns a store of the future (load buffering); more than
// most_threads threads; what happens when a thread dies between two plain writes; torn atomics.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/fence.h"
#include "support/seeded_schedule.h"

namespace pm::test {

template <class T>
class SeededAtomic {
  public:
    SeededAtomic() : SeededAtomic(T{}) {}
    SeededAtomic(T value) { stores_.push_back({value, {}, nobody, 0, 0}); }
    SeededAtomic(const SeededAtomic &) = delete;
    SeededAtomic &operator=(const SeededAtomic &) = delete;

    T load(std::memory_order order) const
    {
        Schedule &schedule = Schedule::current();
        schedule.step();
        std::size_t self = schedule.running_;
        Clock &clock = schedule.threads_[self]->clock;
        const std::uint64_t ordered = order == std::memory_order_seq_cst ? schedule.order() : schedule.threads_[self]->fenced_at;
        std::uint64_t oldest = oldest_visible(self, clock, ordered);
        std::uint64_t chosen = newest();
        if (oldest < chosen && stale_reads_[self] < most_stale_reads && schedule.random().one_in(schedule.stale_chance_))
            chosen = schedule.random().between(oldest, chosen);
        stale_reads_[self] = chosen < newest() ? stale_reads_[self] + 1 : 0;
        seen_[self] = chosen;
        const Store &store = at(chosen);
        (acquires(order) ? clock : schedule.threads_[self]->to_acquire).merge(store.released);
        T value = store.value;
        schedule.move();
        return value;
    }

    void store(T value, std::memory_order order)
    {
        Schedule &schedule = Schedule::current();
        schedule.step();
        const auto &thread = schedule.threads_[schedule.running_];
        put(schedule, value, releases(order) ? thread->clock : thread->fenced, order);
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
    T fetch_sub(T operand, std::memory_order order)
    {
        return modify(order, [=](T value) { return static_cast<T>(value - operand); });
    }
    T fetch_or(T operand, std::memory_order order)
    {
        return modify(order, [=](T value) { return static_cast<T>(value | operand); });
    }
    T fetch_and(T operand, std::memory_order order)
    {
        return modify(order, [=](T value) { return static_cast<T>(value & operand); });
    }

    // A failure is a load, which need not return what is newest.
    bool compare_exchange_strong(T &expected, T desired, std::memory_order order, std::memory_order otherwise)
    {
        const T seen = load(otherwise);
        if (seen != expected || newest_value() != expected) {
            expected = seen != expected ? seen : newest_value();
            return false;
        }
        modify(order, [=](T) { return desired; }, false);
        return true;
    }
    // May also fail for nothing.
    bool compare_exchange_weak(T &expected, T desired, std::memory_order order, std::memory_order otherwise)
    {
        if (Schedule::current().random().one_in(8)) {
            expected = load(otherwise);
            return false;
        }
        return compare_exchange_strong(expected, desired, order, otherwise);
    }

    // What the kernel would see; no step.
    T newest_value() const { return at(newest()).value; }

    // Outside of a run, or as if by a debugger: everybody sees it.
    void set(T value)
    {
        first_ += stores_.size();
        stores_.assign(1, {value, {}, nobody, 0, 0});
    }

  private:
    static constexpr std::size_t nobody = most_threads;
    static constexpr std::size_t remembered = 16;
    static constexpr unsigned most_stale_reads = 6;  // in a row: a store becomes visible in the end

    struct Store {
        T value;
        Clock released;          // what an acquiring reader learns
        std::size_t thread;      // that stored it,
        std::uint64_t moment;    // and when, in its clock;
        std::uint64_t ordered;   // in the order of sequential consistency; 0: not in it
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

    // `ordered`: what was before it in the order of sequential consistency is seen.
    std::uint64_t oldest_visible(std::size_t self, const Clock &clock, std::uint64_t ordered) const
    {
        std::uint64_t index = newest();
        for (; index > std::max(first_, seen_[self]); --index) {
            const Store &store = at(index);
            if (store.thread == nobody || store.moment <= clock.at[store.thread] || (store.ordered != 0 && store.ordered < ordered))
                break;
        }
        return index;
    }

    template <class Change>
    T modify(std::memory_order order, Change change, bool steps = true)
    {
        Schedule &schedule = Schedule::current();
        if (steps)
            schedule.step();
        Clock &clock = schedule.threads_[schedule.running_]->clock;
        Store before = at(newest());
        const auto &thread = schedule.threads_[schedule.running_];
        (acquires(order) ? clock : thread->to_acquire).merge(before.released);
        Clock released = before.released;
        released.merge(releases(order) ? clock : thread->fenced);
        put(schedule, change(before.value), released, order);
        schedule.move();
        return before.value;
    }

    void put(Schedule &schedule, T value, const Clock &released, std::memory_order order)
    {
        std::size_t self = schedule.running_;
        Clock &clock = schedule.threads_[self]->clock;
        if (stores_.size() == remembered) {
            stores_.erase(stores_.begin());
            ++first_;
        }
        stores_.push_back({value, released, self, clock.at[self], order == std::memory_order_seq_cst ? schedule.order() : 0});
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

namespace pm {

template <>
struct Fence<test::SeededAtomic> {
    static void place(std::memory_order order) { test::Schedule::current().fence(order); }
};

template <>
struct UnevenFence<test::SeededAtomic> {
    static void light() {}
    static bool heavy()
    {
        test::Schedule::current().fence_everywhere();
        return true;
    }
};

}  // namespace pm
