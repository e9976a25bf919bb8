// A payload that comes in pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace pm::coll {

struct Payload {
    std::byte *place = nullptr;  // nullptr: it is not wanted any more
    std::size_t filled = 0, total = 0;

    // True when that was the last piece. Nothing is written beyond the total.
    bool add(const void *piece, std::size_t size)
    {
        size = std::min(size, total - filled);
        if (size != 0 && place != nullptr)
            std::memcpy(place + filled, piece, size);
        filled += size;
        return filled == total;
    }
};

}  // namespace pm::coll
