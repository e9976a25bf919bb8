// A simulated process: an endpoint, the receive buffer of its socket, and a program that sends, receives and computes.
//
// While it computes, datagrams stay in the buffer; what does not fit there is dropped, as the kernel does. After every event it
// checks what the protocol promises about one process:
// - what is on its way to a peer is within both windows, but for a packet where nothing is on its way and one after a timeout
// - after everything that can be sent was sent, the next deadline is in the future
// - timers do not go off all the time
// - memory for what came early, or is not acknowledged, is bounded
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "netmod/udp/protocol/endpoint.h"
#include "sim/network.h"
#include "sim/traffic.h"

namespace pm::sim {

struct Habits {
    udp::ProtocolSettings settings;
    std::vector<udp::Address> addresses;  // on its card
    bool places = false;                  // its sink has place() and placed()
    bool receives_in_place = false;       // datagrams are received where their bodies belong, as far as is known
    std::size_t misalignment = 0;         // of what is received
    bool sends_at_once = false;           // takes the short way where there is one
    bool transmits_in_callbacks = false;  // sends, and gives the network what it can, while a message is delivered
    unsigned batch = 64;                  // datagrams that are received before something is sent
    Time per_datagram{};                  // what one costs
    unsigned computes = 0;                // how often, of 10,000 polls
    Time computes_for{};
    unsigned stalls = 0;                  // how often its socket takes nothing more for a while, of 10,000 transmissions
};

class Process {
  public:
    Process(unsigned number, Agenda &agenda, Network &network, const Habits &habits, std::uint64_t seed, Trouble &trouble)
        : number_(number), agenda_(agenda), network_(network), habits_(habits), random_(seed), trouble_(trouble),
          inbox_(number, trouble)
    {
        udp::Key key;
        for (std::uint8_t &byte : key)
            byte = static_cast<std::uint8_t>(random_.next());
        Sink sink{this, arrived, more};
        if (habits.places) {
            sink.place = place;
            sink.placed = placed;
        }
        endpoint_ = std::make_unique<udp::Endpoint>(habits.settings, key, habits.addresses, sink);
        inbox_.when_complete([this](unsigned sender, std::size_t) { on_message(sender); });
    }

    unsigned number() const { return number_; }
    udp::Endpoint &endpoint() { return *endpoint_; }
    Inbox &inbox() { return inbox_; }
    const Habits &habits() const { return habits_; }
    // The card as the others get it.
    udp::Card card() const
    {
        std::byte bytes[udp::Card::max_size];
        return *udp::Card::read({bytes, endpoint_->card().write(bytes)});
    }

    udp::Peer *connect(const Process &other)
    {
        return endpoint_->connect(other.card());
    }
    Outbox &sends(const Process &other, Stream stream)
    {
        auto outbox = std::make_unique<Outbox>(*endpoint_, connect(other), number_, other.number(), std::move(stream), trouble_);
        if (habits_.sends_at_once)
            outbox->use_short_way([this](udp::Peer *peer, const Message &message) { return send_at_once(peer, message); });
        outboxes_.push_back(std::move(outbox));
        return *outboxes_.back();
    }
    // With the outbox to that process.
    void disconnect(unsigned other)
    {
        udp::Peer *peer = outbox_to(other)->peer();
        std::erase_if(outboxes_, [&](const auto &outbox) { return outbox->to() == other; });
        endpoint_->disconnect(peer);
        wake_at(agenda_.now());
    }
    Outbox *outbox_to(unsigned other)
    {
        for (auto &outbox : outboxes_)
            if (outbox->to() == other)
                return outbox.get();
        return nullptr;
    }
    // For each message that it gets, `count` more may be sent to its sender, and are tried at once, within the callback.
    void replies(std::size_t count) { replies_ = count; }

    bool alive() const { return alive_; }
    // It answers no more.
    void die() { alive_ = false; }
    void compute_until(Time time) { computes_until_ = std::max(computes_until_, time); }

    bool done() const
    {
        return !alive_ || (inbox_.complete() && std::ranges::all_of(outboxes_, [](const auto &outbox) { return outbox->done(); }));
    }
    bool quiet() const { return !alive_ || (buffer_.empty() && endpoint_->outstanding() == 0); }
    std::string state() const
    {
        std::string text = inbox_.missing();
        for (const auto &outbox : outboxes_)
            if (!outbox->done())
                text += " " + std::to_string(number_) + " to " + std::to_string(outbox->to()) + ": state " +
                        std::to_string(static_cast<int>(outbox->peer()->state)) + ", sent " + std::to_string(outbox->sent()) + ";";
        return text;
    }

    std::uint64_t dropped_by_buffer() const { return dropped_; }
    std::size_t fullest_buffer() const { return fullest_; }
    std::uint64_t polls() const { return polls_; }
    Time failed_at() const { return failed_at_; }
    const std::vector<std::unique_ptr<Outbox>> &outboxes() const { return outboxes_; }

    // ---- events ----

    void start() { wake_at(agenda_.now()); }

    void on_arrival(Packet packet)
    {
        if (!alive_)
            return;
        std::size_t cost = udp::cost_of(packet.bytes.size());
        if (buffered_ + cost > habits_.settings.receive_buffer) {
            ++dropped_;
            return;
        }
        buffered_ += cost;
        fullest_ = std::max(fullest_, buffered_);
        buffer_.push_back(std::move(packet));
        wake_at(agenda_.now());
    }

    void on_refused(Packet packet)
    {
        if (!alive_ || packet.bytes.size() < sizeof(udp::Header))
            return;
        refused_.push_back(std::move(packet));
        wake_at(agenda_.now());
    }

    void wake_at(Time time)
    {
        time = std::max({time, computes_until_, agenda_.now()});
        if (time >= wake_)
            return;
        wake_ = time;
        agenda_.plan(time, [this, time] {
            if (wake_ != time)
                return;
            wake_ = never;
            if (!alive_)
                return;
            if (agenda_.now() < computes_until_)
                wake_at(computes_until_);
            else
                poll();
        });
    }

  private:
    struct PeerRecord {
        std::uint32_t incarnation = 0;
        std::uint64_t packets = 0;
        std::uint64_t above_window = 0;  // packets
        std::size_t cost = 0;
    };

    static Inbox &inbox_of(void *process) { return static_cast<Process *>(process)->inbox_; }
    static void *arrived(void *process, const Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total)
    {
        return inbox_of(process).arrived(envelope, piece, piece_size, total);
    }
    static void more(void *process, int, void *cookie, void *piece, std::size_t piece_size)
    {
        inbox_of(process).more(cookie, piece, piece_size);
    }
    static void *place(void *process, int, void *cookie) { return inbox_of(process).place(cookie); }
    static void placed(void *process, int, void *cookie) { inbox_of(process).placed(cookie); }

    // Within the callback that completes a message.
    void on_message(unsigned sender)
    {
        Time now = agenda_.now();
        if (Outbox *outbox = replies_ > 0 ? outbox_to(sender) : nullptr) {
            outbox->allow(outbox->allowed() + replies_);
            outbox->step(now);
        }
        if (habits_.transmits_in_callbacks)
            send_and_transmit(now);
    }

    void poll()
    {
        ++polls_;
        Time now = agenda_.now();
        std::size_t received = 0;
        while (!buffer_.empty() && received < habits_.batch)
            received += receive(now);
        bool for_something = received > 0 || !refused_.empty();
        for (const Packet &packet : std::exchange(refused_, {})) {
            udp::Header quoted;
            std::memcpy(&quoted, packet.bytes.data(), sizeof quoted);
            endpoint_->on_refused(packet.to, quoted, now);
        }
        if (endpoint_->next_deadline() <= now)
            endpoint_->on_timer(now);
        count_poll(for_something, now);
        bool drained = send_and_transmit(now);
        if (drained && habits_.stalls != 0 && endpoint_->next_deadline() <= now) {
            // It passed while the socket took nothing.
            endpoint_->on_timer(now);
            drained = send_and_transmit(now);
        }
        check_memory();
        if (endpoint_->failure() && failed_at_ == never)
            failed_at_ = now;
        if (drained && endpoint_->next_deadline() <= now)
            trouble_("process " + std::to_string(number_) + " has sent everything, and its next deadline is not in the future");

        if (habits_.per_datagram > Time::zero() && received > 0)
            compute_until(now + habits_.per_datagram * static_cast<std::int64_t>(received));
        if (habits_.computes != 0 && random_.below(per) < habits_.computes)
            compute_until(now + Time(random_.below(static_cast<std::uint64_t>(habits_.computes_for.count()) + 1)));
        if (!buffer_.empty())
            wake_at(now + Time(1));
        if (!drained)
            wake_at(now + 10us);
        if (endpoint_->next_deadline() != never)
            wake_at(endpoint_->next_deadline());
    }

    // The first of the buffer; or, when it may be what is expected, all that the kernel would glue to it. Number of datagrams.
    std::size_t receive(Time now)
    {
        udp::Endpoint::Expected expected;
        if (habits_.receives_in_place)
            expected = endpoint_->expected();
        std::size_t full = sizeof(udp::Header) + expected.body_size;
        auto could_be = [&](const Packet &packet) {
            return packet.bytes.size() > sizeof(udp::Header) && packet.bytes.size() <= full;
        };
        if (expected.place.empty() || !could_be(buffer_.front())) {
            receive_one(take_first(), now);
            return 1;
        }
        std::vector<Packet> train;
        bool fulfilled = true;
        std::size_t covered = 0;
        do {
            Packet packet = take_first();
            // It is in the place before anybody knows what it is.
            std::size_t size = std::min(packet.bytes.size() - sizeof(udp::Header), expected.place.size() - covered);
            std::memcpy(expected.place.data() + covered, packet.bytes.data() + sizeof(udp::Header), size);
            udp::Header header;
            std::memcpy(&header, packet.bytes.data(), sizeof header);
            fulfilled = fulfilled && header.kind() == udp::Kind::data && header.to == expected.first.to &&
                        header.sequence == expected.first.sequence + train.size() &&
                        header.fragment == expected.first.fragment + train.size() &&
                        header.offset == expected.first.offset + covered && size == packet.bytes.size() - sizeof(udp::Header);
            covered += size;
            train.push_back(std::move(packet));
        } while (!buffer_.empty() && covered < expected.place.size() && could_be(buffer_.front()) &&
                 train.back().from == buffer_.front().from && train.back().bytes.size() == full);
        for (std::size_t i = 0, begin = 0; i < train.size(); ++i) {
            std::size_t size = train[i].bytes.size() - sizeof(udp::Header);
            auto datagram = udp::decode(train[i].bytes);
            if (!fulfilled || !datagram) {
                receive_one(train[i], now);
                continue;
            }
            datagram->body = expected.place.subspan(begin, size);
            begin += size;
            endpoint_->on_datagram(*datagram, train[i].from, now);
        }
        return train.size();
    }

    void receive_one(const Packet &packet, Time now)
    {
        std::vector<std::byte> bytes(habits_.misalignment);
        bytes.insert(bytes.end(), packet.bytes.begin(), packet.bytes.end());
        auto datagram = udp::decode(std::span(bytes).subspan(habits_.misalignment));
        if (datagram)
            endpoint_->on_datagram(*datagram, packet.from, now);
        else
            endpoint_->on_malformed();
    }

    Packet take_first()
    {
        Packet packet = std::move(buffer_.front());
        buffer_.pop_front();
        buffered_ -= udp::cost_of(packet.bytes.size());
        return packet;
    }

    // True when there is nothing more to send.
    bool send_and_transmit(Time now)
    {
        while (true) {
            bool progress = false;
            for (auto &outbox : outboxes_)
                while (outbox->step(now))
                    progress = true;
            if (!transmit(now))
                return false;
            if (!progress)
                return true;
        }
    }

    bool transmit(Time now)
    {
        while (true) {
            if (habits_.stalls != 0 && random_.below(per) < habits_.stalls)
                return false;
            remember_windows();
            if (!endpoint_->poll_transmit(&transmission_, now))
                return true;
            give_to_network();
        }
    }

    bool send_at_once(udp::Peer *peer, const Message &message)
    {
        remember_windows();
        if (!endpoint_->send_at_once(peer, message, &transmission_, agenda_.now()))
            return false;
        give_to_network();
        return true;
    }

    void give_to_network()
    {
        check_transmission();
        check_windows();
        network_.transmit(number_, transmission_, guard_of_receiver(transmission_.to) != udp::GuardKind::token);
    }

    udp::GuardKind guard_of_receiver(const udp::Address &to) const
    {
        udp::GuardKind guard = udp::GuardKind::token;
        endpoint_->for_each_peer([&](const udp::Peer &peer) {
            if (std::ranges::find(peer.card.addresses, to) != peer.card.addresses.end())
                guard = peer.guard;
        });
        return guard;
    }

    void check_transmission()
    {
        std::size_t size = 0;
        for (const auto &piece : transmission_.pieces)
            size += piece.size;
        const auto &sizes = habits_.settings.packet_sizes;
        std::size_t segments = transmission_.segment == 0 ? 0 : (size + transmission_.segment - 1) / transmission_.segment;
        if (size == 0 || size != transmission_.size || transmission_.segment < sizeof(udp::Header) ||
            segments > habits_.settings.train_limit || size > 65'507 ||
            transmission_.segment > std::max<std::size_t>(sizes.back(), sizeof(udp::Header) + 512))
            trouble_("a transmission of " + std::to_string(size) + " bytes in segments of " +
                     std::to_string(transmission_.segment) + " makes no sense");
    }

    void remember_windows()
    {
        endpoint_->for_each_peer([&](const udp::Peer &peer) {
            PeerRecord &record = records_[&peer];
            if (record.incarnation != peer.incarnation)
                record = {peer.incarnation};
            record.packets = peer.outgoing != nullptr ? peer.outgoing->counters().packets : 0;
            record.cost = peer.outgoing != nullptr ? peer.outgoing->cost_on_its_way() : 0;
        });
    }

    void check_windows()
    {
        endpoint_->for_each_peer([&](const udp::Peer &peer) {
            if (peer.outgoing == nullptr)
                return;
            const udp::Outgoing &outgoing = *peer.outgoing;
            PeerRecord &record = records_[&peer];
            std::uint64_t sent = outgoing.counters().packets - record.packets;
            std::size_t cost = outgoing.cost_on_its_way();
            if (sent == 0 || cost <= std::min(outgoing.peer_window(), outgoing.congestion().window()))
                return;
            if (record.cost != 0)
                ++record.above_window;
            if (sent > 1 || record.above_window > outgoing.counters().timeouts)
                trouble_("process " + std::to_string(number_) + " has " + std::to_string(cost) + " on its way in " +
                         std::to_string(sent) + " packets, where the peer's window is " + std::to_string(outgoing.peer_window()) +
                         " and the congestion window " + std::to_string(outgoing.congestion().window()));
        });
    }

    void check_memory()
    {
        endpoint_->for_each_peer([&](const udp::Peer &peer) {
            if (peer.outgoing != nullptr && peer.outgoing->outstanding() > udp::Outgoing::flight_limit)
                trouble_("more packets are kept for a peer than the limit allows");
            if (peer.incoming != nullptr && peer.incoming->early_bytes() > habits_.settings.receive_buffer)
                trouble_("more early bytes are kept for a peer than the receive buffer has");
        });
    }

    // Polls for which nothing has arrived, in one millisecond.
    void count_poll(bool for_something, Time now)
    {
        auto millisecond = std::chrono::duration_cast<std::chrono::milliseconds>(now);
        if (millisecond != this_millisecond_) {
            this_millisecond_ = millisecond;
            idle_polls_ = 0;
        }
        if (!for_something && habits_.stalls == 0 && ++idle_polls_ > 100)
            trouble_("process " + std::to_string(number_) + " wakes for nothing more than 100 times in a millisecond");
    }


    unsigned number_;
    Agenda &agenda_;
    Network &network_;
    Habits habits_;
    test::Random random_;
    Trouble &trouble_;
    Inbox inbox_;
    std::unique_ptr<udp::Endpoint> endpoint_;
    std::vector<std::unique_ptr<Outbox>> outboxes_;
    std::map<const udp::Peer *, PeerRecord> records_;
    udp::Transmission transmission_;
    std::size_t replies_ = 0;

    std::deque<Packet> buffer_;
    std::size_t buffered_ = 0;
    std::size_t fullest_ = 0;
    std::uint64_t dropped_ = 0;
    std::vector<Packet> refused_;
    bool alive_ = true;
    Time computes_until_{};
    Time wake_ = never;
    Time failed_at_ = never;
    std::uint64_t polls_ = 0;
    std::chrono::milliseconds this_millisecond_{-1};
    unsigned idle_polls_ = 0;
};

}  // namespace pm::sim
