// The receiving half of a pair: packets become messages again, in order and once, and are acknowledged.
//
// A packet that comes in order is delivered from where it lies. One that comes early is kept (bounded: what does not fit is
// dropped and will be sent again), or, when the receiver has said where the message belongs, put there at once.
// A message of at most gather_limit bytes is delivered in one piece; of a longer one the receiver says where it belongs, which costs
// less than to copy it twice. Acknowledgements ride on whatever is sent to the peer; one of
// their own is sent at once when something is missing or came twice, when the sender asks, and when a good part of its window
// has arrived; otherwise after ack_delay.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/time.h"
#include "netmod/udp/protocol/congestion.h"
#include "netmod/udp/protocol/settings.h"
#include "netmod/udp/protocol/wire.h"
#include "pm/message.h"

namespace pm::udp {

class Incoming {
  public:
    enum class Verdict { taken, twice, dropped, nonsense };

    // `source` is looked at when a message begins.
    Incoming(const ProtocolSettings &settings, const Sink &sink, std::uint64_t first_sequence, pm_peer *const &source)
        : settings_(settings), sink_(sink), source_(source), expected_(first_sequence)
    {
    }

    // The callbacks of the Sink are called from here, and may send.
    Verdict on_data(const Header &header, std::span<std::byte> body, std::size_t window, Time now);

    // The same for a packet that only adds to the message that is arriving, next in order and not the end of it. False when it is another
    // one; then nothing happened.
    bool on_next(const Header &header, std::span<const std::byte> body, std::size_t window, Time now);

    // A part of a packet: the packet, when this was the last one that was missing; otherwise nothing. What makes no sense, or does
    // not fit, is dropped.
    std::vector<std::byte> on_part(const Header &header, std::span<const std::byte> body);

    std::uint64_t expected() const { return expected_; }
    // Where fragments of the message that is arriving belong, from the next one on, and the sequence, fragment and offset that
    // one will have. Its size, if it is as long as the last one; 0 when there is no such place.
    std::size_t next_place(std::span<std::byte> *place, Header *next) const;

    // When an acknowledgement must be sent: in the past for at once.
    Time ack_deadline() const { return ack_deadline_; }
    // Appends the bitmap of what came early.
    void write_bitmap(std::vector<std::byte> *bytes) const;
    bool has_early() const { return !early_.empty(); }
    std::size_t early_bytes() const { return early_bytes_; }
    // An acknowledgement is on its way; answers how long the newest packet waited for it.
    Time on_ack_sent(Time now);

    static constexpr std::size_t gather_limit = 4 * 1024;
    static constexpr Time ack_delay = std::chrono::microseconds(500);

  private:
    static constexpr std::size_t early_packets = 2048;  // how far ahead a packet may be

    struct Early {
        Header header;
        std::unique_ptr<std::byte[]> bytes;  // none: they are where they belong
        std::size_t size;
    };
    // A packet that comes in parts.
    struct Whole {
        std::size_t part_size = 0;
        std::size_t missing = 0;  // parts
        std::vector<bool> there;
        std::vector<std::byte> bytes;
    };
    // The message that is arriving.
    struct Assembly {
        bool open = false;
        std::uint64_t first = 0;  // packet
        std::uint8_t tag = 0;
        std::size_t header_size = 0;
        std::size_t total = 0;
        std::size_t received = 0;  // in order
        bool gathers = false;  // to be delivered in one piece: header and payload are in gathered_
        void *cookie = nullptr;
        std::byte *place = nullptr;
    };

    Verdict keep_early(std::uint64_t sequence, const Header &header, std::span<std::byte> body);
    // False when the packet makes no sense after those before it.
    bool fits(std::uint64_t sequence, const Header &header, std::size_t body_size) const;
    void deliver(std::uint64_t sequence, const Header &header, std::span<std::byte> body, bool in_place);
    void deliver_first(std::uint64_t sequence, const Header &header, std::span<std::byte> body);
    void end_if_complete();

    const ProtocolSettings &settings_;
    const Sink &sink_;
    pm_peer *const &source_;
    std::uint64_t expected_;
    std::map<std::uint64_t, Early> early_;
    std::size_t early_bytes_ = 0;  // in memory of ours
    std::map<std::uint64_t, Whole> wholes_;
    std::size_t wholes_bytes_ = 0;
    Assembly assembly_;
    std::unique_ptr<std::byte[]> gathered_;  // of the largest message that is delivered in one piece, made when one comes
    std::size_t gathered_size_ = 0;

    Time ack_deadline_ = never;
    Time newest_arrival_{};
    std::size_t unacknowledged_ = 0;  // cost of what has arrived since
    std::size_t last_fragment_size_ = 0;
    std::vector<std::byte> aligned_;  // for headers that do not lie well
};

inline bool Incoming::on_next(const Header &header, std::span<const std::byte> body, std::size_t window, Time now)
{
    if (!assembly_.open || assembly_.place == nullptr || !early_.empty() || header.sequence != static_cast<std::uint32_t>(expected_) ||
        header.fragment != static_cast<std::uint32_t>(expected_ - assembly_.first) || header.offset != assembly_.received ||
        body.empty() || body.size() >= assembly_.total - assembly_.received)
        return false;
    if (std::byte *place = assembly_.place + assembly_.received; place != body.data())
        std::memcpy(place, body.data(), body.size());
    assembly_.received += body.size();
    ++expected_;
    newest_arrival_ = now;
    last_fragment_size_ = body.size();
    unacknowledged_ += cost_of(sizeof header + body.size());
    ack_deadline_ = header.wants_answer() || unacknowledged_ >= window / 4 ? now : std::min(ack_deadline_, now + ack_delay);
    return true;
}

}  // namespace pm::udp
