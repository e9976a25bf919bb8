// The sending half of a pair: messages become packets, which stay here until the peer has them.
//
// Promise: every accepted message arrives whole and once, or the pair fails. What is on its way never costs more than the peer's
// window and the congestion window allow, but for one packet at a time that asks whether the peer is still there.
// A packet is
//   waiting     made, not sent yet; only at the end of the list
//   on its way  sent, not acknowledged
//   lost        to be sent again
//   arrived     acknowledged, but not all packets before it
// A packet on its way becomes lost when one that was sent after it has arrived and it has not: the third one after it at once, any
// other when as long has passed as that one took and the reordering time more. When nothing comes back at all, the oldest one is
// sent again by a timer, twice after about two round trips (probes, which ask for an answer), then after a timeout, which doubles.
//
// A packet keeps its number and its bytes whatever becomes of the path. When that turns out narrower than it is long, it goes in
// parts. A size is in doubt when a packet of it was lost twice, the first ones of their size once, and no other one has arrived since.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/ring_queue.h"
#include "base/status.h"
#include "base/time.h"
#include "netmod/udp/protocol/blocks.h"
#include "netmod/udp/protocol/congestion.h"
#include "netmod/udp/protocol/round_trip.h"
#include "netmod/udp/protocol/settings.h"
#include "netmod/udp/protocol/wire.h"
#include "pm/device.h"
#include "pm/message.h"

namespace pm::udp {

struct Flight {
    enum class State : std::uint8_t { waiting, on_its_way, lost, arrived };

    State state = State::waiting;
    bool sent_again = false;
    std::uint8_t losses = 0;
    std::unique_ptr<std::byte[]> own;  // header and body in one block; none when the body is in the sender's memory
    Header header_alone;               // then
    const std::byte *body = nullptr;
    std::size_t body_size = 0;
    Time sent{};
    std::uint64_t order = 0;
    std::size_t longest = 0;  // datagram it was last sent in: itself, or a part of it

    // Acknowledgement and guard are filled in when it is sent.
    Header &header() { return borrowed() ? header_alone : *reinterpret_cast<Header *>(own.get()); }
    std::size_t size() const { return sizeof(Header) + body_size; }
    bool borrowed() const { return own == nullptr; }
};

struct OutgoingCounters {
    std::uint64_t packets = 0;
    std::uint64_t sent_again = 0;
    std::uint64_t timeouts = 0;
};

class Outgoing {
  public:
    // `gone`: how many packets of earlier pairs with this peer have arrived.
    Outgoing(const ProtocolSettings &settings, Blocks &blocks, std::uint64_t first_sequence, std::uint64_t gone = 0)
        : settings_(settings), blocks_(blocks), base_(first_sequence), next_(first_sequence), gone_(gone)
    {
    }

    // As try_send of the PM contract. Packets have at most `packet_size` bytes. A large contiguous payload is not copied, and is
    // done with when the peer has it. Others may follow meanwhile; when none does, it is done with when the peer has all but the end
    // of it, which is then copied.
    Status accept(const Message &message, SendProgress *progress, std::size_t packet_size);

    // So many packets have arrived, and all before them. Of a message that was taken: they are those of it.
    std::uint64_t gone() const { return gone_; }
    static bool has_arrived(const SendProgress &progress, std::uint64_t gone)
    {
        return progress.taken && gone >= reinterpret_cast<std::uintptr_t>(progress.operation);
    }

    // A message of so many bytes, header included, would be accepted as a whole.
    bool has_room(std::size_t size, std::size_t packet_size) const
    {
        std::size_t packets = size / (packet_size - sizeof(Header)) + 1;
        return size <= whole_copy_limit && flights_.size() + packets <= flight_limit && waiting_ + packets <= waiting_limit;
    }

    // All of a message that there is room for, without a copy of a contiguous payload; keep_lent() copies what has not arrived, once packets have
    // left: the peer is at work by then.
    void lend(const Message &message, std::size_t packet_size);
    void keep_lent();

    // The message as one packet that leaves now, when it fits one and nothing waits before it; otherwise null, and nothing happened.
    Flight *send_at_once(const Message &message, std::size_t packet_size, Time now);

    // The next packets to send: of equal size, but for the last one, which may be shorter; or one that is longer than
    // `packet_size` and must go in parts. Marks them as sent. `add` is called for each.
    template <class Add>
    std::size_t take_train(Time now, std::size_t packet_size, Add add);
    bool can_send() const;

    // All before `acknowledged` has arrived, and after it what the bitmap says: bit i is packet acknowledged + 1 + i. False when
    // this acknowledges what was never sent.
    bool on_acknowledged(std::uint64_t acknowledged, std::span<const std::byte> bitmap, Time held_back, Time now);
    void on_window(std::size_t window) { peer_window_ = window; }

    Time deadline() const;
    void on_timer(Time now);

    // Nothing of the packets that are here has arrived, and the first one begins a message: they can be sent to a new pair.
    bool can_restart();
    void restart(std::uint64_t first_sequence);

    // The size that is in doubt, or 0.
    std::size_t doubtful() const { return doubtful_; }
    void on_size_proved(std::size_t size)
    {
        doubtful_ = size >= doubtful_ ? 0 : doubtful_;
        proved_ = std::max(proved_, size);
    }
    // Longer datagrams do not arrive: those on their way are lost.
    void on_narrow(std::size_t packet_size);

    // Timeouts since the last answer.
    unsigned unanswered() const { return backoff_; }
    std::size_t outstanding() const { return flights_.size(); }
    std::uint64_t base() const { return base_; }
    std::uint64_t next() const { return next_; }
    const RoundTrip &round_trip() const { return round_trip_; }
    const Congestion &congestion() const { return congestion_; }
    const OutgoingCounters &counters() const { return counters_; }
    std::size_t cost_on_its_way() const { return cost_on_its_way_; }
    std::size_t peer_window() const { return peer_window_; }

    static constexpr std::size_t whole_copy_limit = 64 * 1024;  // payloads up to this size are copied at once
    static constexpr std::size_t rest_copy_limit = 128 * 1024;  // and the ends of larger ones,
    static constexpr unsigned asks_before_copy = 8;             // if nothing follows them so soon: an answer may come as soon
    static constexpr std::size_t flight_limit = 1024;
    static constexpr std::size_t waiting_limit = 176;  // four long trains

  private:
    Flight &flight(std::uint64_t sequence) { return flights_[sequence - base_]; }
    enum class Body : std::uint8_t { copied, borrowed, lent };
    void make_fragment(const Message &message, SendProgress *progress, std::size_t packet_size, Body body);
    void copy(Flight *flight);
    bool let_go_of(const SendProgress &progress);
    // What may be on its way: as much as the peer and the network allow.
    std::size_t window() const { return std::min(peer_window_, congestion_.window()); }
    bool fits(const Flight &flight) const;
    std::size_t first_to_send() const;
    void leave(Flight &flight, std::size_t packet_size, Time now)
    {
        flight.longest = std::min(flight.size(), packet_size);
        flight.state = Flight::State::on_its_way;
        flight.sent = now;
        flight.order = next_order_++;
        if (cost_on_its_way_ == 0)
            reordering_end_ = never;  // it was of one that is not on its way any more
        cost_on_its_way_ += cost_of(flight.size());
        packet_size_ = packet_size;
        again_on_its_way_ += flight.sent_again;
        timer_start_ = now;
        ++counters_.packets;
        // The peer acknowledges by what it can take; when the network lets us send less than that, we have to ask, before the window
        // is full. What fits half of it is acknowledged with the reply.
        unasked_cost_ += cost_of(flight.size());
        if (4 * unasked_cost_ >= window() && 2 * cost_on_its_way_ >= window()) {
            flight.header().kind_and_flags |= Header::answer_now;
            unasked_cost_ = 0;
        }
        asked_last_ = flight.header().wants_answer();
    }
    void take_off(Flight &flight);
    bool is_quick(const Flight &flight, Time now) const;
    void arrive(Flight &flight, Time now);
    void lose(Flight &flight, bool congestion);
    void find_losses(Time now);
    Time timer_end() const;
    std::size_t packet_cost() const { return cost_of(packet_size_ > 0 ? packet_size_ : settings_.first_packet_size()); }

    const ProtocolSettings &settings_;
    Blocks &blocks_;
    RingQueue<Flight> flights_;  // [base_, next_)
    std::uint64_t base_;
    std::uint64_t next_;
    std::uint64_t gone_;
    unsigned asks_ = 0;  // for the payload of the last message, since all of it was taken
    std::uint32_t next_fragment_ = 0;
    std::size_t waiting_ = 0;
    std::size_t lost_ = 0;
    std::size_t borrowed_bytes_ = 0;  // but for what is lent
    std::size_t lent_ = 0;            // the last packets, of the message that was lent
    std::size_t cost_on_its_way_ = 0;
    std::size_t again_on_its_way_ = 0;  // packets that were sent more than once
    std::size_t packet_size_ = 0;       // of the path, when something was last sent
    std::size_t unasked_cost_ = 0;  // of what was sent since an answer was asked for
    bool asked_last_ = false;       // with the last packet
    std::size_t peer_window_ = 16 * 1024;
    bool was_full_ = false;
    unsigned probes_ = 0;  // packets that may be sent above all windows

    RoundTrip round_trip_;
    Congestion congestion_;
    std::uint64_t next_order_ = 1;
    std::uint64_t newest_order_ = 0;  // of what has arrived
    Time newest_took_{};              // to arrive, and the answer to come back
    std::size_t quick_answers_ = 0;   // in a row, see is_quick()
    Time reordering_end_ = never;     // when the next one that was overtaken is lost
    Time timer_start_{};
    unsigned probed_ = 0;   // times, since the last answer
    unsigned backoff_ = 0;
    std::size_t doubtful_ = 0;
    std::size_t proved_ = 0;  // datagrams of this size have arrived, since the path was last found to be narrow
    OutgoingCounters counters_;
};

template <class Add>
std::size_t Outgoing::take_train(Time now, std::size_t packet_size, Add add)
{
    std::size_t count = 0, size = 0, total = 0;
    for (std::size_t i = first_to_send(); i < flights_.size() && count < settings_.train_limit; ++i) {
        Flight &flight = flights_[i];
        if (flight.state != Flight::State::waiting && flight.state != Flight::State::lost)
            continue;
        if (count > 0 && (size > packet_size || flight.size() > size || total + flight.size() > 65000))
            break;
        if (!fits(flight)) {
            was_full_ = true;
            break;
        }
        if (count == 0)
            size = flight.size();
        if (probes_ > 0)
            --probes_;
        if (flight.state == Flight::State::waiting) {
            --waiting_;
        } else {
            --lost_;
            flight.sent_again = true;
            ++counters_.sent_again;
        }
        leave(flight, packet_size, now);
        ++count;
        total += flight.size();
        add(flight);
        if (flight.size() < size)
            break;
    }
    return count;
}

}  // namespace pm::udp
