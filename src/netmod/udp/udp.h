// PM(UDP): messages between processes that share a network. See README.md beside this file.
//
// The protocol (protocol/) does the work; here it meets the socket (io/) and the clock. A thread of its own, the caretaker, looks
// after the socket when the owner has not polled for long, so that a process that computes is not taken for dead. It keeps
// what must be delivered for the owner's next poll.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/gate.h"
#include "base/probe.h"
#include "base/status.h"
#include "base/time.h"
#include "netmod/udp/io/interfaces.h"
#include "netmod/udp/io/socket.h"
#include "netmod/udp/protocol/endpoint.h"
#include "pm/device.h"

namespace pm::udp {

struct Settings {
    std::string interfaces = "auto";
    std::string ports = "auto";
    std::string guard = "token";          // or mac, seal
    std::string recovery = "selective";   // or go_back_n
    std::string segmentation = "auto";    // or off
    std::chrono::milliseconds silence_limit = std::chrono::seconds(30);  // 0: never
    unsigned contact_patience = ProtocolSettings{}.contact_patience;
};

class Udp {
  public:
    using Peer = udp::Peer;

    static Result<std::unique_ptr<Udp>> create(const Settings &settings, const Sink &sink);
    ~Udp();

    const char *name() const { return "udp"; }
    Capabilities capabilities() const { return {largest_header}; }
    std::size_t write_card(void *card) const;
    // Of this host, as they are offered to others.
    const std::vector<Address> &addresses() const { return addresses_; }
    // Answers at once. The proof comes with the first message: try_send() says again until then, and unreachable when none comes.
    Result<Peer *> connect(const void *card, std::size_t size);
    void prefer(Peer *peer, const Ip &address);
    void disconnect(Peer *peer);
    void let_go(Peer *peer);
    void renew(Peer *peer);
    void introduce(const void *card, std::size_t size, pm_peer *source);

    Status try_send(Peer *peer, const Message &message, SendProgress *progress);
    // All of a message of at most whole_limit bytes, or nothing: false.
    bool try_send_whole(Peer *peer, const Message &message);
    std::size_t ungranted_limit(Peer *peer);
    unsigned poll();

    bool arm();
    void sleep(std::chrono::nanoseconds limit);
    void disarm() {}
    // To sleep on together with other things: a descriptor that becomes readable, and no longer than this.
    int descriptor() const { return socket_->descriptor(); }
    std::chrono::nanoseconds sleep_limit() const;

    // Taken for as long as several calls belong together; each takes it by itself, too.
    Gate &gate() { return gate_; }

    // Why a peer is gone, once one is; a peer's own error is in Peer::error.
    const Error *failure() const { return failure_ ? &failure_ : nullptr; }
    // Everything sent has been acknowledged.
    bool idle();
    Counters counters();
    Time round_trip();  // the shortest of its peers; zero: not known
    PacketCounts packets()
    {
        Counters all = counters();
        return {all.datagrams_sent, all.sent_again, all.alien + all.malformed, round_trip()};
    }

    static constexpr std::size_t largest_header = 1100;
    static constexpr std::size_t whole_limit = 16 * 1024;

  private:
    struct Parked {
        Header header;
        std::vector<std::byte> body;
        std::uint32_t incarnation;  // of the pair
        Address from;
    };
    Udp() = default;
    static Time now() { return clock_now(); }
    struct HostAsk {
        Ip address;
        Probe probe;
    };
    unsigned receive(bool park);
    bool send_lent(Peer *peer, const Message &message, Time time);
    void transmit(Time now);
    void ask_host(const Ip &address, Time now);
    void on_timer(Time now);
    void note_deadline();
    void care();
    void start_caretaker();

    Time silence_limit_{};
    std::vector<Address> addresses_;
    std::unique_ptr<Socket> socket_;
    std::unique_ptr<Endpoint> endpoint_;
    std::size_t park_limit_ = 0;
    Transmission transmission_;
    bool transmitting_ = false;
    bool polling_ = false;
    Error failure_;
    std::deque<Parked> parked_;
    std::size_t parked_bytes_ = 0;
    // For sleep(), which is called without a lock.
    std::atomic<std::int64_t> deadline_{0};
    std::atomic<bool> may_have_slept_{false};

    Gate gate_;  // a thread of the owner is inside, or the caretaker
    bool caring_ = false;  // it is the caretaker
    std::vector<HostAsk> host_asks_[2];  // of the owner and of the caretaker, which has files of its own
    std::thread caretaker_;
    std::mutex mutex_;  // of what follows
    std::condition_variable leave_;
    bool leaving_ = false;
    std::atomic<std::uint32_t> polls_{0};
    unsigned idle_polls_ = 0;
    Time receive_time_{};
};

static_assert(Device<Udp> && SendsUngranted<Udp> && Gated<Udp> && SleptOn<Udp> && LimitsSleep<Udp> && Keeps<Udp> && CountsPackets<Udp>);

}  // namespace pm::udp
