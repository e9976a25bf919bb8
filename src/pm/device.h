// The PM contract: what a device promises the layers above, and what it may ask of them.
//
// - A device has one channel in each process. Its *card* is what another process needs to reach that channel; the
//   card is small (max_card_size) and is carried by whatever start-up the job has.
// - connect() answers with a peer, or says why the owner of the card cannot be reached. Reach is proved, here or, where that
//   takes time, before the first message leaves: until then try_send() answers again, and unreachable when the proof fails.
// - introduce() says whose messages those of a card's owner are: their envelopes name this source from then on, whether or not it is
//   connected to over this device, and however the device was told before. Without it, or with null, they have none.
// - try_send() accepts as much of a message as it can and advances `progress->sent`:
//     ok     the whole message is accepted; header and payload may be reused at once.
//     again  something is left; call again later with the same message and progress, and send nothing else to that peer
//            before, unless `progress->taken` says that others may follow: then only the payload is still needed. The header is
//            consumed by the first call that accepts anything, the payload stays with the caller.
//     other  the message is lost and the peer is not usable any more; Peer::error says why.
//   try_send_whole() takes all of a message of at most whole_limit bytes, or answers false and nothing happened.
// - Per peer, delivery is exactly once and in order.
// - poll() delivers through the Sink and never blocks. A Sink may send, it must not poll. Sending needs polling, too, on both
//   sides: what try_send() cannot do at once is done there.
// - failure() is not null once a peer that was in use is known to be gone; whoever waits for it waits in vain.
// - Doorbell: arm() answers false when there is something to poll; after true, sleep() returns when a sender rang, or after
//   the limit; disarm() ends it. arm/sleep/disarm may be called without the lock that protects everything else.
//
// What not every device has are the concepts below Device. Who uses devices asks for these and for Capabilities, never which
// device it is; what a device does not have is done without it, or by messages.
//
// Operations are not virtual here. The core's Channel (netmod/core/channel.h) makes them so, and calls directly what counts
// nanoseconds. A new device has the members of these concepts; see doc/adding-a-device.md.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/cpus.h"
#include "base/gate.h"
#include "base/status.h"
#include "base/subnet.h"
#include "base/time.h"
#include "pm/message.h"

namespace pm {

inline constexpr std::size_t max_card_size = 1024;

struct Capabilities {
    std::size_t largest_header;      // of one message
    bool proved_by_connect = false;  // who is connected is reached; elsewhere the first message that is accepted proves it
    bool quick_poll = false;         // without a system call: polled each time, and listened to before it has a peer
};

struct SendProgress {
    bool started = false;   // the header is on its way
    std::size_t sent = 0;   // bytes of the payload
    bool taken = false;     // all of them; but the payload is needed until it has arrived
    void *operation = nullptr;  // whatever the device remembers
};

template <class D>
concept Device = requires(D device, const D const_device, typename D::Peer *peer, const Message &message,
                          SendProgress *progress, void *card, const void *const_card, std::size_t size,
                          std::chrono::nanoseconds limit, pm_peer *source)
{
    { const_device.name() } -> std::convertible_to<const char *>;
    { const_device.capabilities() } -> std::same_as<Capabilities>;
    { const_device.write_card(card) } -> std::same_as<std::size_t>;
    { device.connect(const_card, size) } -> std::same_as<Result<typename D::Peer *>>;
    { device.disconnect(peer) };
    { peer->error } -> std::same_as<Error &>;
    { device.introduce(const_card, size, source) };
    { device.try_send(peer, message, progress) } -> std::same_as<Status>;
    { D::whole_limit } -> std::convertible_to<std::size_t>;
    { device.try_send_whole(peer, message) } -> std::same_as<bool>;
    { device.poll() } -> std::same_as<unsigned>;
    { device.arm() } -> std::same_as<bool>;
    { device.sleep(limit) };
    { device.disarm() };
    { const_device.failure() } -> std::same_as<const Error *>;
};

// The peer has a name in errors.
template <class D>
concept NamesPeers = requires(typename D::Peer *peer) { { peer->label } -> std::same_as<std::string &>; };

// The gate is taken for as long as several calls belong together; each call takes it by itself, too. A device without one allows
// that one thread sends while another polls; who sends then keeps other senders out.
template <class D>
concept Gated = requires(D device) { { device.gate() } -> std::same_as<Gate &>; };

// To sleep on together with other things: a descriptor that becomes readable; negative when there is none (yet). A rank that
// sleeps on several devices sleeps briefly where one of them has no descriptor.
template <class D>
concept SleptOn = requires(const D device) { { device.descriptor() } -> std::same_as<int>; };
// The descriptor costs senders something: it is opened when other things are slept on as well, and emptied after a sleep.
template <class D>
concept OpensDescriptor = SleptOn<D> && requires(D device) {
    device.open_descriptor();
    device.empty_descriptor();
};
// No sleep may be longer. Called without a lock.
template <class D>
concept LimitsSleep = requires(const D device) { { device.sleep_limit() } -> std::convertible_to<std::chrono::nanoseconds>; };

// It keeps what it has accepted: idle() once all of that has left and needs no answer. It has to be polled until then, also for the
// sake of others who wait for an answer. A device without it has delivered what it accepted.
template <class D>
concept Keeps = requires(D device) { { device.idle() } -> std::same_as<bool>; };

// Bytes are on their way, so that the next poll finds something with a better chance than another.
template <class D>
concept TellsTransfers = requires(const D device) { { device.transferring() } -> std::same_as<bool>; };

// It does not find out by itself that the host of a peer is gone. in_use(): it was reached and is not gone; ask(): something goes to it,
// if nothing is on its way already, which its host acknowledges and its process need not; give_up(): the end of it when the caller knows
// better.
template <class D>
concept Watched = requires(D device, const typename D::Peer *const_peer, typename D::Peer *peer, const std::string &why)
{
    { device.in_use(const_peer) } -> std::same_as<bool>;
    device.ask(peer);
    device.give_up(peer, why);
};

// Longer messages may leave without a place at the receiver, who takes them as they come. The size of the longest that the peer has room
// for now; shorter than whole_limit: only those of try_send_whole().
template <class D>
concept SendsUngranted = requires(D device, typename D::Peer *peer) { { device.ungranted_limit(peer) } -> std::same_as<std::size_t>; };

// It looks after peers on this host, who may end without a word, when it is asked to now and then while it is quiet: failure() tells.
template <class D>
concept LooksAfterPeers = requires(D device, std::chrono::nanoseconds now) { device.look_after_peers(now); };

// A peer that nobody uses any more, though it is not disconnected yet, may end as it likes: that is no failure(). renew(): it is wanted
// again after all; the other side may have let go, too.
template <class D>
concept LetsGo = requires(D device, typename D::Peer *peer) {
    device.let_go(peer);
    device.renew(peer);
};

// Of the addresses on a peer's card one belongs to the network that was chosen: the others are tried only when nobody answers there.
template <class D>
concept PrefersAddress = requires(D device, typename D::Peer *peer, const Ip &address) { device.prefer(peer, address); };

// It wants to know before the last disconnects that this process ends in order.
template <class D>
concept Leaves = requires(D device) { device.leave(); };

// Messages whose payload waits at the sender until the receiver takes it, while others follow. ok: the header may be reused; the payload
// when Sink::taken(cookie) says so. again: nothing happened. The receiver gets an Offer (pm/message.h).
template <class D>
concept Offers = requires(D device, typename D::Peer *peer, const Message &message, void *cookie)
{
    { device.offer(peer, message, cookie) } -> std::same_as<Status>;
};

// Peers are processes of this host, and memory is common.
// - is_beside(): the owner of this card can be connected to, and connect to this process, whatever happens.
// - peer_can_pull(): the peer told that it can read our memory. prepare() does what the first message does otherwise; no other thread may
//   be sending then. pull() copies from the peer's memory; so do read_memory() and write_memory() of one that is prepared, under no lock,
//   and read_pieces() and write_pieces() of several pieces: first those here, then those there.
// - Blocks of allocate_shared() are read by peers without a system call, and so is memory of allocate_mapped(), which has any size, and of which
//   so much is backed at once; view() is where such memory of a peer is here, or null. free_mapped() answers false for what is other memory.
// - ring_at() makes the peer look around, asleep or not; may_sleep() is false when it is known to be awake.
// - has_ended(): the process has; false when that is not known. grant_of(): the cores it may use.
template <class D>
concept SharesMemory = requires(D device, typename D::Peer *peer, const typename D::Peer *const_peer, std::uint64_t address,
                                const iovec *pieces, std::size_t size, void *block)
{
    { device.is_beside(block, size) } -> std::same_as<bool>;
    { device.peer_can_pull(const_peer) } -> std::same_as<bool>;
    { device.prepare(peer) } -> std::same_as<Status>;
    { device.pull(peer, address, pieces, size) } -> std::same_as<bool>;
    { device.open_joint(peer, size) } -> std::same_as<std::uint32_t>;
    { device.pull_joint(peer, std::uint32_t{}, address, block, size) } -> std::same_as<bool>;
    device.help_joint(peer, std::uint32_t{}, block, address, size);
    { device.read_memory(const_peer, address, block, size) } -> std::same_as<bool>;
    { device.write_memory(const_peer, address, block, size) } -> std::same_as<bool>;
    { device.read_pieces(const_peer, pieces, pieces, size) } -> std::same_as<bool>;
    { device.write_pieces(const_peer, pieces, pieces, size) } -> std::same_as<bool>;
    { device.allocate_shared(size) } -> std::same_as<void *>;
    device.free_shared(block);
    { device.allocate_mapped(size, size) } -> std::same_as<void *>;
    { device.free_mapped(block) } -> std::same_as<bool>;
    { device.view(peer, address, size) } -> std::same_as<void *>;
    device.ring_at(peer);
    { device.may_sleep(const_peer) } -> std::same_as<bool>;
    { device.has_ended(const_peer) } -> std::same_as<bool>;
    { device.grant_of(const_peer) } -> std::same_as<CoreGrant>;
    { device.memory_in_use() } -> std::same_as<std::size_t>;
};

// One-sided operations on memory that is registered. RemoteMemory is made from a peer and the key of Memory there. With a peer that is
// not reached yet the answer is again and nothing has happened. The local memory must stay until finished(), which answers true
// once all of them have reached their targets: poll until then.
// - add_behind() adds to 4 bytes at once, for all who add over this device; behind everything that was put to that peer before.
// - writes_by_itself(): a put needs nothing of the target's processor, and nothing wakes it.
template <class D>
concept OneSided = requires(D device, const D const_device, typename D::Peer *peer, void *base, const void *data, std::size_t size,
                            std::uint64_t address, std::uint32_t value, typename D::Memory *memory, typename D::RemoteMemory *remote)
{
    { device.register_memory(base, size) } -> std::same_as<Result<typename D::Memory>>;
    { memory->key } -> std::same_as<std::vector<std::byte> &>;
    device.release(memory);
    { remote->peer } -> std::same_as<typename D::Peer *&>;
    { remote->key } -> std::same_as<std::vector<std::byte> &>;
    device.release(remote);
    { device.put(remote, address, data, size) } -> std::same_as<Status>;
    { device.get(remote, address, base, size) } -> std::same_as<Status>;
    { device.add_behind(remote, address, value) } -> std::same_as<Status>;
    { device.finished() } -> std::same_as<bool>;
    { const_device.writes_by_itself() } -> std::same_as<bool>;
};

// For reports: sent; of these, for the second time; received and not believed. The shortest mean round trip to a peer; zero: not known.
struct PacketCounts {
    std::uint64_t sent = 0, again = 0, alien = 0;
    Time round_trip{};
};
template <class D>
concept CountsPackets = requires(D device) { { device.packets() } -> std::same_as<PacketCounts>; };

}  // namespace pm
