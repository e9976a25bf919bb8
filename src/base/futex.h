// Sleeping on a word in memory that processes share.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#include "base/time.h"

namespace pm {

// Returns when woken, when `*word != expected`, on a signal, or after `limit`.
inline void futex_wait(std::atomic<std::uint32_t> *word, std::uint32_t expected, std::chrono::nanoseconds limit)
{
    timespec time = to_timespec(limit);
    syscall(SYS_futex, word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t> *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace pm
