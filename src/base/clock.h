// The time, for those who look at it several times in a microsecond. It never goes back; its zero point is somewhere.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace pm {

#if defined(__aarch64__)

// The counter that all cores share, as the kernel's clock uses it, without waiting for earlier instructions to end.
inline Time clock_now()
{
    static const std::uint64_t scale = [] {
        std::uint64_t ticks_a_second;
        asm("mrs %0, cntfrq_el0" : "=r"(ticks_a_second));
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(1'000'000'000) << 32) / ticks_a_second);
    }();
    std::uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return Time(static_cast<std::int64_t>(static_cast<unsigned __int128>(ticks) * scale >> 32));
}

#else

inline Time clock_now()
{
    return std::chrono::duration_cast<Time>(std::chrono::steady_clock::now().time_since_epoch());
}

#endif

}  // namespace pm
