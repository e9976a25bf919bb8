// What all targets need: their input as a sequence of choices, and an end that a fuzzer notices.
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

// Reads all of it, for a sanitizer to see.
inline void touch(const void *bytes, std::size_t size)
{
    static volatile unsigned sum;
    for (std::size_t i = 0; i < size; i += 61)
        sum = sum + static_cast<const std::uint8_t *>(bytes)[i];
    if (size > 0)
        sum = sum + static_cast<const std::uint8_t *>(bytes)[size - 1];
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
    // A number as a message may have it: small, near a limit, huge, or anything.
    std::uint64_t number(std::uint64_t limit)
    {
        std::uint8_t kind = byte();
        switch (kind >> 5) {
            case 0:
            case 1:
                return kind & 31;
            case 2:
                return limit - 16 + (kind & 31);
            case 3:
                return limit != 0 ? word() % limit : 0;
            case 4:
                return UINT64_MAX - (kind & 31);
            case 5:
                return std::uint64_t{1} << (kind & 31) << (kind & 31);
            case 6:
                return word() << (kind & 31);
            default:
                return word() | word() << 16 | static_cast<std::uint64_t>(word()) << 32 | static_cast<std::uint64_t>(word()) << 48;
        }
    }
    bool one_in(unsigned count) { return byte() % count == 0; }
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

// The entry of a target that is made of choices and runs until they are used up.
#define PM_FUZZ(Target) \
    extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) \
    { \
        pm::fuzz::Choices choices(data, size); \
        Target(choices).run(); \
        return 0; \
    }

// Of one that stays, and plays each of them.
#define PM_FUZZ_WITH_ONE(Target) \
    extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) \
    { \
        static Target target; \
        pm::fuzz::Choices choices(data, size); \
        target.play(choices); \
        return 0; \
    }
