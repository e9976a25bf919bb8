// Bytes that a sender writes and a receiver can check without having them: byte i of the pattern `key` is a hash of both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "support/random.h"

namespace pm::test {

namespace detail {
// Eight bytes of the pattern. Cheap: tests compare gigabytes.
inline std::uint64_t pattern_word(std::uint64_t mixed_key, std::size_t index)
{
    std::uint64_t word = (mixed_key + index) * 0xbf58476d1ce4e5b9u;
    return word ^ word >> 29;
}
}  // namespace detail

// Bytes [offset, offset + size) of pattern `key`.
inline void fill_pattern(std::uint64_t key, std::size_t offset, void *destination, std::size_t size)
{
    auto to = static_cast<std::byte *>(destination);
    std::uint64_t mixed_key = mix(key);
    while (size > 0) {
        std::uint64_t word = detail::pattern_word(mixed_key, offset / 8);
        std::size_t skip = offset % 8;
        if (skip == 0 && size >= 8) [[likely]] {
            std::memcpy(to, &word, 8);
            to += 8, offset += 8, size -= 8;
            continue;
        }
        std::size_t count = std::min(size, 8 - skip);
        std::memcpy(to, reinterpret_cast<const std::byte *>(&word) + skip, count);
        to += count, offset += count, size -= count;
    }
}

inline constexpr std::size_t no_difference = static_cast<std::size_t>(-1);

// The place of the first byte that is not bytes [offset, offset + size) of pattern `key`.
inline std::size_t first_difference(std::uint64_t key, std::size_t offset, const void *data, std::size_t size)
{
    auto from = static_cast<const std::byte *>(data);
    std::byte expected[512];
    for (std::size_t done = 0; done < size;) {
        std::size_t count = std::min(size - done, sizeof expected);
        fill_pattern(key, offset + done, expected, count);
        if (std::memcmp(expected, from + done, count) != 0) {
            auto different = std::mismatch(expected, expected + count, from + done).first;
            return offset + done + static_cast<std::size_t>(different - expected);
        }
        done += count;
    }
    return no_difference;
}

inline std::vector<std::byte> pattern(std::uint64_t key, std::size_t size)
{
    std::vector<std::byte> bytes(size);
    fill_pattern(key, 0, bytes.data(), size);
    return bytes;
}

}  // namespace pm::test
