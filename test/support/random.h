// Repeatable random numbers: the same seed gives the same test.
#pragma once

#include <cstdint>

namespace pm::test {

// SplitMix64: also a good hash of its argument.
constexpr std::uint64_t mix(std::uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(mix(seed)) {}

    std::uint64_t next() { return mix(state_++); }
    std::uint64_t below(std::uint64_t bound) { return next() % bound; }
    std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
    bool one_in(std::uint64_t chance) { return below(chance) == 0; }

  private:
    std::uint64_t state_;
};

}  // namespace pm::test
