// PM(UCX): messages over whatever network UCX drives. See README.md beside this file.
//
// A message is one active message of UCX: its header, then its payload, which UCX brings to its place by itself when it is long.
// States of a peer: fresh (nothing was sent, there is no endpoint), greeting (a hello is on its way), open (it was answered by the
// process that the card names), gone (the endpoint failed, or the peer said good-bye).
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/gate.h"
#include "base/status.h"
#include "pm/device.h"

namespace pm::ucx {

struct Settings {
    // Those of UCX's devices that may be used, "eth0,mlx5_0:1"; empty: all.
    std::string devices;
};

class Ucx;
struct Operation;
struct Peer;

// Memory of this process that peers may read and write without us.
struct Memory {
    ucp_mem_h handle = nullptr;
    std::vector<std::byte> key;  // what a peer needs for it
};
// The same at a peer.
struct RemoteMemory {
    Peer *peer = nullptr;
    std::vector<std::byte> key;
    ucp_rkey_h handle = nullptr;  // once the peer is open
};

struct Peer {
    enum class State { fresh, greeting, open, gone };
    State state = State::fresh;
    bool left = false;    // it said good-bye
    bool let_go = false;  // its end is nobody's business
    Error error;
    std::string label;  // what errors call it, "process 1 of host a"
    Ucx *device = nullptr;
    ucp_ep_h endpoint = nullptr;
    std::uint64_t process = 0;
    std::uint32_t number = 0;  // that it gave us, once it is open
    std::vector<std::byte> address;
    bool to_flush = false;     // in Ucx::to_flush_
    std::size_t buffered = 0;  // bytes of accepted messages that UCX has not sent yet
};

class Ucx {
  public:
    using Peer = ucx::Peer;
    using Memory = ucx::Memory;
    using RemoteMemory = ucx::RemoteMemory;

    static Result<std::unique_ptr<Ucx>> create(const Settings &settings, const Sink &sink);
    ~Ucx();
    Ucx(const Ucx &) = delete;
    Ucx &operator=(const Ucx &) = delete;

    const char *name() const { return "ucx"; }
    Capabilities capabilities() const { return {largest_header}; }
    std::size_t write_card(void *card) const;
    // Answers at once; the proof comes with the first message.
    Result<Peer *> connect(const void *card, std::size_t size);
    void disconnect(Peer *peer);
    void let_go(Peer *peer);
    void renew(Peer *peer);
    void introduce(const void *card, std::size_t size, pm_peer *source);

    // Whether it was reached and is not gone; something for the peer's host to acknowledge, which says nothing to the peer; and the end of
    // it when the caller knows better.
    bool in_use(const Peer *peer) const { return peer->state == Peer::State::open && !peer->left; }
    void ask(Peer *peer);
    void give_up(Peer *peer, const std::string &why);

    Status try_send(Peer *peer, const Message &message, SendProgress *progress);
    // All of a message of at most whole_limit bytes, or nothing: false.
    bool try_send_whole(Peer *peer, const Message &message);
    unsigned poll();

    // A message whose payload waits here until the receiver takes it, while others follow. ok: the header may be reused; the payload
    // when Sink::taken(cookie) says so. again: nothing happened.
    Status offer(Peer *peer, const Message &message, void *cookie);

    // One-sided operations, in one_sided.cc. With a peer that is not open yet the answer is again and nothing has happened. The
    // local memory must stay until finished(), which answers true once all of them have reached their targets: poll until then.
    Result<Memory> register_memory(void *base, std::size_t size);
    void release(Memory *memory);
    Status put(RemoteMemory *to, std::uint64_t address, const void *data, std::size_t size);
    Status get(RemoteMemory *from, std::uint64_t address, void *data, std::size_t size);
    // Adds to 4 bytes at once, for all who add over this device; behind everything that was put to that peer before.
    Status add_behind(RemoteMemory *at, std::uint64_t address, std::uint32_t value);
    bool finished();
    // A put needs nothing of the target's processor, and nothing wakes it.
    bool writes_by_itself() const { return writes_by_itself_; }
    void release(RemoteMemory *memory);

    bool arm();
    void sleep(std::chrono::nanoseconds limit);
    void disarm() {}
    // To sleep on together with other things.
    int descriptor() const { return descriptor_; }

    // Taken for as long as several calls belong together; each takes it by itself, too.
    Gate &gate() { return gate_; }

    const Error *failure() const { return failure_ ? &failure_ : nullptr; }
    // Messages of those who do not have our card, which are dropped.
    std::uint64_t aliens() const { return aliens_; }
    // Nothing that was accepted is still to be sent.
    bool idle() const { return outstanding_ == 0; }
    // Bytes are on their way, so the next poll finds something with a better chance than another.
    bool transferring() const { return outstanding_ + receiving_ > 0; }

    static constexpr std::size_t largest_header = 1100;
    static constexpr std::size_t whole_limit = 16384;

  private:
    struct Greeting;
    // A message that came while nobody polled: a transport to oneself delivers in the middle of a send.
    struct Parked {
        std::vector<std::byte> header;
        std::vector<std::byte> payload;
        void *rendezvous = nullptr;  // instead of the payload
        std::size_t size = 0;
    };
    struct Incoming;
    class Waiting;

    Ucx() = default;
    Error open(const Settings &settings);
    Operation *take_operation();
    void give_back(Operation *operation);
    // Whose end is on_sent().
    static ucp_request_param_t send_parameters(Operation *operation);
    ucs_status_ptr_t post(Peer *peer, Operation *operation, const Message &message, const void *data, std::uint32_t flags);
    Status buffer(Peer *peer, const Message &message);
    Status ended_at_once(Peer *peer, ucs_status_ptr_t request, Operation *operation);
    bool is_open(Peer *peer, Status *otherwise);
    void greet(Peer *peer);
    void send_greeting(ucp_ep_h endpoint, const Greeting &greeting, Peer *peer);
    void lose(Peer *peer, ucs_status_t status) { lose(peer, ucs_status_string(status)); }
    void lose(Peer *peer, const std::string &why);
    void close(Peer *peer, bool forced);
    // Of a rendezvous: whether somebody takes the payload, now or later.
    bool deliver(std::byte *header, std::size_t header_size, void *payload, std::size_t size, void *rendezvous);
    bool receive(int tag, void *cookie, void *place, void *rendezvous, std::size_t size);
    std::uint32_t sender_number(std::uint64_t process);
    void deliver_parked();
    Status prepare(RemoteMemory *memory);
    void flush_later(Peer *peer);
    Operation *begin(Peer *peer);
    Status started(Peer *peer, ucs_status_ptr_t request, Operation *operation);
    void attend_peers();
    static ucs_status_t on_message(void *self, const void *header, std::size_t header_size, void *data, std::size_t size,
                                   const ucp_am_recv_param_t *param);
    static ucs_status_t on_greeting(void *self, const void *header, std::size_t header_size, void *data, std::size_t size,
                                    const ucp_am_recv_param_t *param);
    static void on_sent(void *request, ucs_status_t status, void *operation);
    static void on_received(void *request, ucs_status_t status, std::size_t size, void *incoming);
    static void on_error(void *peer, ucp_ep_h endpoint, ucs_status_t status);

    Sink sink_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    bool writes_by_itself_ = false;
    int descriptor_ = -1;
    std::uint64_t process_ = 0;  // our number in cards and greetings
    std::vector<std::byte> address_;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::unordered_map<std::uint64_t, Peer *> by_process_;
    // Those who have greeted us or were introduced: the numbers that we gave them, and the sources by these.
    std::unordered_map<std::uint64_t, std::uint32_t> sender_numbers_;
    std::vector<pm_peer *> sources_;
    std::vector<Peer *> to_greet_, to_close_;
    std::vector<void *> closing_;  // requests
    std::vector<std::unique_ptr<Operation>> operations_;
    Operation *free_operations_ = nullptr;
    // Read without the gate.
    std::atomic<std::size_t> outstanding_ = 0;
    std::atomic<std::size_t> receiving_ = 0;  // long messages that have a place
    std::size_t one_sided_pending_ = 0;
    std::vector<Peer *> to_flush_;  // targets of one-sided operations since their last flush
    std::deque<Parked> parked_;
    std::atomic<bool> any_parked_{false};
    bool polling_ = false;
    bool closing_down_ = false;
    unsigned done_ = 0;
    std::uint64_t aliens_ = 0;
    Error failure_;
    Gate gate_;
};

static_assert(Device<Ucx> && NamesPeers<Ucx> && Gated<Ucx> && SleptOn<Ucx> && Keeps<Ucx> && TellsTransfers<Ucx> && Watched<Ucx> &&
              Offers<Ucx> && OneSided<Ucx>);

}  // namespace pm::ucx
