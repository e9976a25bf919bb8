// A fence of lock-free code that takes its atomic type as a parameter: the tests have one of their own for theirs.
#pragma once

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace pm {

template <template <class> class Atomic>
struct Fence {
    static void place(std::memory_order order) { std::atomic_thread_fence(order); }
};

// Two fences that pair like those of sequential consistency, for two sides of which one comes often and the other seldom: the light one
// costs nothing, the heavy one asks the kernel to have every core place a fence that runs a process which was prepared for it.
template <template <class> class Atomic>
struct UnevenFence {
    static void light() { std::atomic_signal_fence(std::memory_order_seq_cst); }
    static bool heavy() { return syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0; }
    // Once in each process: false when this kernel cannot do it.
    static bool prepare()
    {
        return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 && heavy();
    }
};

}  // namespace pm
