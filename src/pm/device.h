// The PM contract: what a device promises the layers above, and what it may ask of them.
//
// - A device has one channel in each process. Its *card* is what another process needs to reach that channel; the
//   card is small (max_card_size) and is carried by whatever start-up the job has.
// - connect() answers with a peer, or says why the owner of the card cannot be reached. Reach is proved, here or, where that
//   takes time, before the first message leaves: until then try_send() answers again, and unreachable when the proof fails.
// - try_send() accepts as much of a message as it can and advances `progress->sent`:
//     ok     the whole message is accepted; header and payload may be reused at once.
//     again  something is left; call again later with the same message and progress, and send nothing else to that peer
//            before. The header is consumed by the first call that accepts anything, the payload stays with the caller.
//     other  the message is lost and the peer is not usable any more.
// - Per peer, delivery is exactly once and in order.
// - poll() delivers through the Sink and never blocks. A Sink may send, it must not poll. Sending needs polling, too, on both
//   sides: what try_send() cannot do at once is done there.
// - failure() is not null once a peer that was in use is known to be gone; whoever waits for it waits in vain.
// - pull() copies from the memory of the peer where the device can (capabilities.pull).
// - Doorbell: arm() answers false when there is something to poll; after true, sleep() returns when a sender rang, or after
//   the limit; disarm() ends it. arm/sleep/disarm may be called without the lock that protects everything else.
//
// Hot operations (try_send, poll) are not virtual here: the composite knows its devices by type, so that they cost no
// more than a predictable branch. A new device has the members of this concept; see doc/adding-a-device.md.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <string>

#include "base/status.h"
#include "pm/message.h"

namespace pm {

inline constexpr std::size_t max_card_size = 1024;

struct Capabilities {
    std::size_t largest_header;  // of one message
    bool pull;                   // pull() may work with some peers
};

struct SendProgress {
    bool started = false;   // the header is on its way
    std::size_t sent = 0;   // bytes of the payload
    void *operation = nullptr;  // whatever the device remembers
};

template <class D>
concept Device = requires(D device, const D const_device, typename D::Peer *peer, const Message &message,
                          SendProgress *progress, void *card, const void *const_card, std::size_t size,
                          std::chrono::nanoseconds limit)
{
    { const_device.name() } -> std::convertible_to<const char *>;
    { const_device.capabilities() } -> std::same_as<Capabilities>;
    { const_device.write_card(card) } -> std::same_as<std::size_t>;
    { device.connect(const_card, size) } -> std::same_as<Result<typename D::Peer *>>;
    { device.disconnect(peer) };
    { device.try_send(peer, message, progress) } -> std::same_as<Status>;
    { device.poll() } -> std::same_as<unsigned>;
    { device.arm() } -> std::same_as<bool>;
    { device.sleep(limit) };
    { device.disarm() };
    { const_device.failure() } -> std::same_as<const Error *>;
};

}  // namespace pm
