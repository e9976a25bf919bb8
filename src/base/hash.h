// FNV-1a: tells things apart that are not made to collide. Not for secrets.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pm {

inline constexpr std::uint64_t hash_seed = 0xcbf29ce484222325u;

inline std::uint64_t hash_bytes(const void *data, std::size_t size, std::uint64_t seed = hash_seed)
{
    for (std::size_t i = 0; i < size; ++i)
        seed = (seed ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3u;
    return seed;
}

}  // namespace pm
