// Time as a parameter: whoever needs to know it is told. The zero point is the caller's.
#pragma once

#include <chrono>

namespace pm {

using Time = std::chrono::nanoseconds;

inline constexpr Time never = Time::max();

}  // namespace pm
