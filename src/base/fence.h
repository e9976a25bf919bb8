// A fence of lock-free code that takes its atomic type as a parameter: the tests have one of their own for theirs.
#pragma once

#include <atomic>

namespace pm {

template <template <class> class Atomic>
struct Fence {
    static void place(std::memory_order order) { std::atomic_thread_fence(order); }
};

}  // namespace pm
