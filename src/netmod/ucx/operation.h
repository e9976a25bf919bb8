// Something UCX was asked for and has not finished: what must stay until then. Within this folder only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "netmod/ucx/ucx.h"

namespace pm::ucx {

// In front of the caller's header, so that it stays aligned.
struct Prefix {
    std::uint8_t tag = 0;
    bool offered = false;
    std::uint8_t unused[2]{};
    std::uint32_t sender = 0;  // the number that the receiver gave the sender
    std::uint64_t to = 0;      // the process it is for, a number that only those know who have its card
};
static_assert(sizeof(Prefix) == 16);

struct Operation {
    Ucx *device = nullptr;
    Peer *peer = nullptr;
    std::unique_ptr<std::byte[]> data;  // a payload that is ours
    std::size_t buffered = 0;
    bool detached = false;  // nobody will ask for it: it goes back when it is done
    bool one_sided = false;
    bool offer = false;
    void *cookie = nullptr;  // of an offer, and its tag
    int tag = 0;
    bool done = false;
    ucs_status_t status = UCS_OK;
    Operation *next = nullptr;
    alignas(8) std::array<std::byte, sizeof(Prefix) + Ucx::largest_header> header;
};

}  // namespace pm::ucx
