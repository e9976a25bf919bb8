// The processor's own counter: what a stamp costs when there is one at the begin and the end of a call that takes 100 ns. It runs at one
// speed, which is found out by looking at the time as well (scale() of two moments); another core may be a few ticks behind.
#pragma once

#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include "base/clock.h"
#endif

namespace pm {

inline std::uint64_t ticks_now()
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    std::uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return static_cast<std::uint64_t>(clock_now().count());
#endif
}

// Of two moments; 0 where a core that is behind would make it negative.
inline std::uint64_t ticks_between(std::uint64_t begin, std::uint64_t end)
{
    return end > begin ? end - begin : 0;
}

}  // namespace pm
