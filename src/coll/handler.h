// The handler of an engine whose messages have payloads, which it gives a place or takes in pieces. `engine` is the pointer to it.
#pragma once

#include <cstdint>

#include "netmod/core/handlers.h"

namespace pm::coll {

template <auto &engine>
int handle(pm_core *core, int tag, const char *name, std::size_t smallest_header)
{
    const pm_handler handler{
        .name = name,
        .smallest_header = static_cast<std::uint32_t>(smallest_header),
        .for_strangers = 0,
        .arrived = [](pm_core *, const pm_envelope *envelope, void *piece, std::size_t piece_size, std::size_t total) {
            return engine->arrived(*envelope, piece, piece_size, total);
        },
        .more = [](void *cookie, void *piece, std::size_t piece_size) { engine->more(cookie, piece, piece_size); },
        .place = [](void *cookie) { return engine->place(cookie); },
        .placed = [](void *cookie) { engine->placed(cookie); },
        .offered = nullptr,
        .sent = [](void *cookie) { engine->taken(cookie); },
    };
    return pm_handle(core, tag, &handler);
}

}  // namespace pm::coll
