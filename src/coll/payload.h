// A payload that comes in pieces.
#pragma once

#include <cstddef>
#include <cstring>

namespace pm::coll {

struct Payload {
    std::byte *place = nullptr;
    std::size_t filled = 0, total = 0;

    // True when that was the last piece.
    bool add(const void *piece, std::size_t size)
    {
        if (size != 0)
            std::memcpy(place + filled, piece, size);
        filled += size;
        return filled == total;
    }
};

}  // namespace pm::coll
