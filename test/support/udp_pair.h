// Two endpoints and a wire between them on which the test does everything itself: each datagram is a value that can be looked at,
// delivered, dropped or kept. Time stands still until the test lets it go on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "netmod/udp/protocol/endpoint.h"

namespace pm::test {

struct WirePacket {
    std::vector<std::byte> bytes;
    udp::Address from, to;
    bool may_fragment = false;

    udp::Header header() const
    {
        udp::Header header;
        std::memcpy(&header, bytes.data(), sizeof header);
        return header;
    }
    udp::Kind kind() const { return header().kind(); }
};

// Takes whatever the protocol delivers, for several endpoints: that of the one that is called must be current.
struct Delivered {
    struct One {
        int tag;
        std::vector<std::byte> header_and_piece;
        std::size_t piece_size, total;
    };
    std::vector<One> messages;
    std::size_t bytes = 0;  // of payloads

    static Sink sink() { return {nullptr, arrived, more}; }
    static inline Delivered *current = nullptr;

    static void *arrived(void *, const Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total)
    {
        One one{envelope.tag, {}, piece_size, total};
        auto header_bytes = static_cast<std::byte *>(envelope.header);
        one.header_and_piece.assign(header_bytes, header_bytes + envelope.header_size);
        auto piece_bytes = static_cast<std::byte *>(piece);
        one.header_and_piece.insert(one.header_and_piece.end(), piece_bytes, piece_bytes + piece_size);
        current->messages.push_back(std::move(one));
        current->bytes += piece_size;
        return current;
    }
    static void more(void *, int, void *, void *piece, std::size_t piece_size)
    {
        auto piece_bytes = static_cast<std::byte *>(piece);
        auto &last = current->messages.back().header_and_piece;
        last.insert(last.end(), piece_bytes, piece_bytes + piece_size);
        current->bytes += piece_size;
    }
};

class UdpPair {
  public:
    // With `one_sided` end 0 is a stranger for end 1.
    explicit UdpPair(const udp::ProtocolSettings &settings = plain(), const Sink &sink = Delivered::sink(), bool one_sided = false)
    {
        for (unsigned i = 0; i < 2; ++i) {
            addresses_[i] = udp::Address::v4({10, 0, 0, static_cast<std::uint8_t>(i + 1)}, 4711);
            udp::Key key{};
            key[0] = static_cast<std::uint8_t>(i + 1);
            ends_[i] = std::make_unique<udp::Endpoint>(settings, key, std::vector{addresses_[i]}, sink);
        }
        for (unsigned i = 0; i < (one_sided ? 1 : 2); ++i)
            peers_[i] = ends_[i]->connect(ends_[1 - i]->card());
    }

    // Packets of one size; sequence numbers pass zero soon.
    static udp::ProtocolSettings plain()
    {
        udp::ProtocolSettings settings;
        settings.packet_sizes = {1200};
        settings.random_sequences = false;
        settings.first_sequence = 0xffff'fffeu;
        return settings;
    }

    udp::Endpoint &operator[](unsigned i) { return *ends_[i]; }
    udp::Peer *peer(unsigned i) { return peers_[i]; }
    const udp::Address &address(unsigned i) const { return addresses_[i]; }
    Delivered &delivered(unsigned i) { return delivered_[i]; }
    Time now() const { return now_; }

    // All that end `i` wants to send now.
    std::vector<WirePacket> sent_by(unsigned i)
    {
        std::vector<WirePacket> packets;
        udp::Transmission transmission;
        while (ends_[i]->poll_transmit(&transmission, now_)) {
            std::vector<std::byte> all;
            for (const auto &piece : transmission.pieces)
                all.insert(all.end(), piece.data, piece.data + piece.size);
            for (std::size_t start = 0; start < all.size(); start += transmission.segment) {
                auto first = all.begin() + static_cast<std::ptrdiff_t>(start);
                auto size = static_cast<std::ptrdiff_t>(std::min(transmission.segment, all.size() - start));
                packets.push_back({{first, first + size}, addresses_[i], transmission.to, transmission.may_fragment});
            }
        }
        return packets;
    }

    void deliver(unsigned to, WirePacket packet)
    {
        Delivered::current = &delivered_[to];
        if (auto datagram = udp::decode(packet.bytes))
            ends_[to]->on_datagram(*datagram, packet.from, now_);
        else
            ends_[to]->on_malformed();
        Delivered::current = nullptr;
    }

    // Everything arrives at once, until nobody has anything to send. Number of packets.
    unsigned exchange()
    {
        unsigned count = 0;
        for (bool something = true; something;) {
            something = false;
            for (unsigned i = 0; i < 2; ++i) {
                for (WirePacket &packet : sent_by(i)) {
                    deliver(1 - i, std::move(packet));
                    something = true;
                    ++count;
                }
            }
        }
        return count;
    }

    void wait(Time time)
    {
        now_ += time;
        for (auto &end : ends_)
            end->on_timer(now_);
    }

    // One message; the whole of it must be accepted.
    Status send(unsigned from, std::size_t payload_size, std::size_t header_size = 0, std::uint8_t tag = 0)
    {
        std::vector<std::byte> bytes(payload_size + header_size, std::byte{tag});
        Message message{tag, bytes.data(), header_size, {bytes.data() + header_size, payload_size}};
        SendProgress progress;
        return ends_[from]->send(peers_[from], message, &progress, now_);
    }

    // Until a message can be sent.
    bool open()
    {
        if (send(0, 0) == Status::again)
            exchange();
        return peers_[0]->state == udp::PairState::open;
    }

  private:
    Time now_ = std::chrono::seconds(1);
    udp::Address addresses_[2];
    std::unique_ptr<udp::Endpoint> ends_[2];
    udp::Peer *peers_[2] = {};
    Delivered delivered_[2];
};

}  // namespace pm::test
