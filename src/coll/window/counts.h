// What a part of a window has been told: how often each notification came, and each counter was counted. Everything counts up for ever: what
// is left of it is known to the owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "coll/window/window.h"

namespace pm::coll {

// `Atomic` is std::atomic but in tests. Devices add to the numbers by themselves.
template <template <class> class Atomic>
struct BasicCounts {
    Atomic<std::uint32_t> notifications[PM_NOTIFICATIONS];
    Atomic<std::uint32_t> counters[PM_COUNTERS];

    // [N1] the data is visible to whoever sees the count; pairs with [N2].
    static void add(Atomic<std::uint32_t> *count) { count->fetch_add(1, std::memory_order_release); }
    static std::uint32_t read(const Atomic<std::uint32_t> &count) { return count.load(std::memory_order_acquire); }  // [N2]
};

}  // namespace pm::coll
