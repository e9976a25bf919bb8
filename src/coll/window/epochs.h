// How the ranks of one host agree about a window in shared memory: locks, posts, completions and fences are words on the boards of the
// ranks, and nobody needs a message or the other's processor. Nothing here waits: who has to looks again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/fence.h"

namespace pm::coll {

constexpr int epoch_ranks_max = 64;

// Of one rank, on its board. Zeroed by its owner before anybody else may look.
template <template <class> class Atomic>
struct alignas(64) BasicEpochBoard {
    static constexpr std::uint32_t exclusive = 1u << 31;

    std::uint64_t name;  // of the window, and its rank: what else is there is something else
    Atomic<std::uint32_t> verdict;  // what its rank can do (direct.h), and that it has said so
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
        for (auto *each : {&verdict, &lock, &wants_exclusive, &arrived, &fences, &mode, &inside})
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
    // Before the last look, which the fence keeps behind it: that is no operation of this order itself.
    void falls_asleep(int rank)
    {
        asleep.fetch_or(std::uint64_t{1} << rank, std::memory_order_seq_cst);  // [R3]
        Fence<Atomic>::place(std::memory_order_seq_cst);
    }
};
using EpochBoard = BasicEpochBoard<std::atomic>;

}  // namespace pm::coll
