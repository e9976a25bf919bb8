// What travels between two processes: a tag, a header and a payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "pm/envelope.h"

namespace pm {

using Envelope = pm_envelope;

// Produces bytes [offset, offset + size) of a payload that is not contiguous in memory.
using PackFunction = void (*)(void *context, std::size_t offset, void *destination, std::size_t size);

// For what is short more often than not: without a call then.
inline void copy_short(void *destination, const void *source, std::size_t count)
{
    auto to = static_cast<std::byte *>(destination);
    auto from = static_cast<const std::byte *>(source);
    if (count > 16) {
        std::memcpy(to, from, count);
    } else if (count >= 8) {
        std::uint64_t first, last;
        std::memcpy(&first, from, 8);
        std::memcpy(&last, from + count - 8, 8);
        std::memcpy(to, &first, 8);
        std::memcpy(to + count - 8, &last, 8);
    } else if (count >= 4) {
        std::uint32_t first, last;
        std::memcpy(&first, from, 4);
        std::memcpy(&last, from + count - 4, 4);
        std::memcpy(to, &first, 4);
        std::memcpy(to + count - 4, &last, 4);
    } else {
        for (std::size_t i = 0; i < count; ++i)
            to[i] = from[i];
    }
}

struct Payload {
    const void *data = nullptr;
    std::size_t size = 0;
    PackFunction pack = nullptr;  // set: `data` is unused
    void *pack_context = nullptr;

    void copy_to(void *destination, std::size_t offset, std::size_t count) const
    {
        if (count == 0)
            return;
        if (pack != nullptr)
            pack(pack_context, offset, destination, count);
        else
            copy_short(destination, static_cast<const std::byte *>(data) + offset, count);
    }
};

// Of most messages of MPI: devices may have a shorter way for it.
inline constexpr std::size_t short_header = 16;

struct Message {
    std::uint8_t tag = 0;
    const void *header = nullptr;
    std::size_t header_size = 0;
    Payload payload;
    // For offer() of devices that have it: the receiver is told of the payload, and takes it when it knows where it belongs.
    bool offered = false;

    void copy_header_to(void *destination) const
    {
        if (header_size != 0)
            std::memcpy(destination, header, header_size);
    }
};

// What a device hands over in Sink::offered(), as a pointer to void: a payload that waits at its sender.
class Offer {
  public:
    virtual ~Offer() = default;
    // All of it to `place`; then Sink::placed(cookie). Once: the offer is gone after it.
    virtual void take(void *place, void *cookie) = 0;
};

// Where a device delivers. The views point into the device's own memory and are gone when the call returns. A cookie comes back
// with the tag of its message, and `context` with every call.
struct Sink {
    void *context = nullptr;
    // A message begins. `piece` is the start of its payload; when `piece_size < total`, the rest follows in order by more()
    // with the cookie returned here. Null: the rest is not wanted, and the device may leave it out.
    void *(*arrived)(void *context, const Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total) = nullptr;
    void (*more)(void *context, int tag, void *cookie, void *piece, std::size_t piece_size) = nullptr;
    // Asked once, after an arrived() with more to come: where the whole payload belongs, or null. After an answer other than
    // null more() is not called: the device puts every byte but those of the first piece at its place, in whatever order,
    // and says when all are there. Devices need not ask, and may be given null for both.
    void *(*place)(void *context, int tag, void *cookie) = nullptr;
    void (*placed)(void *context, int tag, void *cookie) = nullptr;
    // A message that was offered begins, in its place among the others. `offer` is an Offer: its payload is taken by take(), once,
    // which ends in placed(). False: it is not wanted, and its sender is told that it has been taken.
    bool (*offered)(void *context, const Envelope &envelope, void *offer, std::size_t total) = nullptr;
    // At its sender: it has been taken, the payload may be reused.
    void (*taken)(void *context, int tag, void *cookie) = nullptr;
    // Something came that cannot be, and the device has let it lie. Devices may be given null.
    void (*dropped)(void *context) = nullptr;
};

}  // namespace pm
