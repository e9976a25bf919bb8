// What both targets need: their input as a sequence of choices, and an end that a fuzzer notices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace pm::fuzz {

inline void require(bool condition, const std::string &otherwise)
{
    if (condition)
        return;
    std::fprintf(stderr, "%s\n", otherwise.c_str());
    std::abort();
}

// When it is used up, every choice is 0.
class Choices {
  public:
    Choices(const std::uint8_t *data, std::size_t size) : left_(data, size) {}

    bool any() const { return !left_.empty(); }
    std::uint8_t byte()
    {
        if (left_.empty())
            return 0;
        std::uint8_t value = left_.front();
        left_ = left_.subspan(1);
        return value;
    }
    std::size_t word()
    {
        std::size_t low = byte();
        return low | static_cast<std::size_t>(byte()) << 8;
    }
    std::span<const std::uint8_t> bytes(std::size_t count)
    {
        auto taken = left_.first(std::min(count, left_.size()));
        left_ = left_.subspan(taken.size());
        return taken;
    }

  private:
    std::span<const std::uint8_t> left_;
};

}  // namespace pm::fuzz
