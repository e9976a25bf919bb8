// How engines know their messages again: what they give the device, and a payload that comes in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pm::coll {

// The lowest two bits of a cookie: messages.cc gives it to the engine it belongs to.
enum class Owner : std::uintptr_t { mcast = 1, window = 3 };

inline void *as_cookie(void *pointer, Owner owner)
{
    return reinterpret_cast<void *>(reinterpret_cast<std::uintptr_t>(pointer) | static_cast<std::uintptr_t>(owner));
}

template <class T>
T *from_cookie(void *cookie)
{
    return reinterpret_cast<T *>(reinterpret_cast<std::uintptr_t>(cookie) & ~std::uintptr_t{3});
}

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
