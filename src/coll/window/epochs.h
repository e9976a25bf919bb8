// How the ranks of one host agree about a window in shared memory: locks, posts, completions and fences are words on the boards of the
// ranks, and nobody needs a message or the other's processor. Nothing here waits: who has to looks again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/fence.h"
#include "base/handed_over.h"

namespace pm::coll {

constexpr int epoch_ranks_max = 64;

// Of one rank, on its board. Zeroed by its owner before anybody else may look.
template <template <class> class Atomic>
struct alignas(64) BasicEpochBoard {
    static constexpr std::uint32_t exclusive = 1u << 31;

    std::uint64_t name;  // of the window, and its rank: what else is there is something else
    HandedOver<std::uint32_t, Atomic> verdict;  // what its rank can do (direct.h), and that it has said so
    // Exclusive, or the number of those who share it.
    Atomic<std::uint32_t> lock;
    Atomic<std::uint32_t> wants_exclusive;  // how many: those who would share let them go first
    Atomic<std::uint64_t> asleep;           // ranks that are about to sleep until the lock is free
    // Of rank 0 only: how many have come to the fence, and how many fences are over.
    alignas(64) Atomic<std::uint32_t> arrived;
    Atomic<std::uint32_t> fences;
    // How often a rank has posted to us, and completed with us.
    alignas(64) std::array<Atomic<std::uint32_t>, epoch_ranks_max> posts;
    std::array<Atomic<std::uint32_t>, epoch_ranks_max> completes;
    // How elements of this part are changed, where both ways are possible; and the part, + 1, in which our rank is changing one by an instruction.
    enum Mode : std::uint32_t { by_instructions, changing, by_stripes };
    alignas(64) Atomic<std::uint32_t> mode;
    alignas(64) Atomic<std::uint32_t> inside;
    // For elements that the processor does not change as a whole: who is at it, its rank + 1.
    static constexpr std::size_t stripes_count = 32;
    static constexpr std::size_t stripe_bytes = 256;
    alignas(64) std::array<Atomic<std::uint32_t>, stripes_count> stripes;

    void reset(std::uint64_t its_name)
    {
        name = its_name;
        verdict.set(0);
        for (auto *each : {&lock, &wants_exclusive, &arrived, &fences, &mode, &inside})
            each->store(0, std::memory_order_relaxed);
        asleep.store(0, std::memory_order_relaxed);
        for (auto *all : {&posts, &completes})
            for (auto &each : *all)
                each.store(0, std::memory_order_relaxed);
        for (auto &each : stripes)
            each.store(0, std::memory_order_relaxed);
    }

    // [R1] who gets the lock sees what was written by those who had it before; pairs with [R2].
    bool try_shared()
    {
        // Acquired already here: who let it go and had wanted it alone does not want it any more.
        std::uint32_t before = lock.load(std::memory_order_acquire);
        while ((before & exclusive) == 0 && wants_exclusive.load(std::memory_order_relaxed) == 0)
            if (lock.compare_exchange_weak(before, before + 1, std::memory_order_acquire, std::memory_order_acquire))
                return true;
        return false;
    }
    bool try_exclusive()
    {
        std::uint32_t nobody = 0;
        return lock.compare_exchange_strong(nobody, exclusive, std::memory_order_acquire, std::memory_order_relaxed);
    }
    // Answers who is to be woken, a bit for each rank. [R2] and [R3]: either we see who is about to sleep, or it sees that the lock is free.
    std::uint64_t release(bool was_exclusive)
    {
        if (was_exclusive)
            lock.store(0, std::memory_order_seq_cst);
        else if (lock.fetch_sub(1, std::memory_order_seq_cst) != 1)
            return 0;  // others have it
        if (asleep.load(std::memory_order_seq_cst) == 0) [[likely]]
            return 0;
        return asleep.exchange(0, std::memory_order_seq_cst);
    }
    // How often somebody has posted, or completed. [R4] who sees the count sees what was written before; pairs with [R5].
    static void count(Atomic<std::uint32_t> &events) { events.fetch_add(1, std::memory_order_release); }
    static std::uint32_t counted(const Atomic<std::uint32_t> &events) { return events.load(std::memory_order_acquire); }  // [R5]

    // The last of so many ranks to come ends the fence of this number. [R6] who sees that it is over sees what everybody wrote before it; pairs with
    // [R7]. The last one has seen what all wrote, by the count.
    bool arrive(std::uint32_t number, std::uint32_t ranks)
    {
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 != ranks)
            return false;
        arrived.store(0, std::memory_order_relaxed);
        fences.store(number, std::memory_order_release);  // [R6]
        return true;
    }
    std::uint32_t fences_over() const { return fences.load(std::memory_order_acquire); }  // [R7]

    // From now on elements of this part are changed by stripes: by us, when nobody is inside any more (inside.h); when another one has done it; or not, where
    // processors cannot be made to pass a barrier. [X6] who finds the mode changed sees what was changed by instructions; pairs with [X7].
    enum class Change { is_made, is_ours, of_another, refused };
    Change change_mode()
    {
        std::uint32_t now = mode.load(std::memory_order_acquire);  // [X7]
        if (now == by_stripes) [[likely]]
            return Change::is_made;
        if (now == changing || !mode.compare_exchange_strong(now, changing, std::memory_order_relaxed, std::memory_order_relaxed))
            return Change::of_another;
        // [X1] Where it is not allowed any more, all stays as it is.
        if (UnevenFence<Atomic>::heavy())
            return Change::is_ours;
        mode.store(by_instructions, std::memory_order_relaxed);
        return Change::refused;
    }
    bool is_inside(std::uint32_t part) const { return inside.load(std::memory_order_acquire) == part + 1; }  // [X3]
    void has_changed() { mode.store(by_stripes, std::memory_order_release); }  // [X6]
    // It is ours: when nobody is inside this part any more, by the boards of all. Who has ended there is waited for no longer: wait(each) is false.
    template <class All, class BoardOf, class Wait>
    void end_change(std::uint32_t part, const All &all, BoardOf board_of, Wait wait)
    {
        for (const auto &each : all)
            while (board_of(each).is_inside(part) && wait(each)) {
            }
        has_changed();
    }
    // What has become of the change of another.
    std::uint32_t mode_now() const { return mode.load(std::memory_order_acquire); }  // [X7]

    // [X4] who is at a stripe sees what those before have changed; pairs with [X5]. Otherwise `*who` is the one who is.
    bool take_stripe(std::size_t index, std::uint32_t us, std::uint32_t *who)
    {
        *who = 0;
        return stripes[index].compare_exchange_weak(*who, us, std::memory_order_acquire, std::memory_order_relaxed);
    }
    void leave_stripe(std::size_t index) { stripes[index].store(0, std::memory_order_release); }  // [X5]

    // Before the last look, which the fence keeps behind it: that is no operation of this order itself.
    void falls_asleep(int rank)
    {
        asleep.fetch_or(std::uint64_t{1} << rank, std::memory_order_seq_cst);  // [R3]
        Fence<Atomic>::place(std::memory_order_seq_cst);
    }
};
using EpochBoard = BasicEpochBoard<std::atomic>;

}  // namespace pm::coll
