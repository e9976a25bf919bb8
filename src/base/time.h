// Time as a parameter: whoever needs to know it is told. The zero point is the caller's.
#pragma once

#include <time.h>

#include <chrono>

namespace pm {

using Time = std::chrono::nanoseconds;

inline constexpr Time never = Time::max();

inline timespec to_timespec(Time time)
{
    timespec result{};
    result.tv_sec = time.count() / 1'000'000'000;
    result.tv_nsec = time.count() % 1'000'000'000;
    return result;
}

}  // namespace pm
