// A network in virtual time: what happens to datagrams between the process that sends them and the socket buffer of the process
// they are for.
//
// A datagram takes a path (from one process to another: loss, damage, doubling, delay, width) and then the port of the receiver
// (shared by all who send to it: a rate, and a queue that drops what does not fit). All that is random comes from one seed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "netmod/udp/protocol/endpoint.h"
#include "support/random.h"

namespace pm::sim {

using namespace std::chrono_literals;

struct Interval {
    Time begin, end;
    bool contains(Time time) const { return time >= begin && time < end; }
};

inline constexpr std::uint64_t per = 10'000;   // what probabilities are parts of
inline constexpr std::size_t frame_size = 42;  // what Ethernet, IP and UDP add to a datagram

struct Path {
    Time delay = 20us;
    Time jitter{};          // at most so much is added, each datagram its own: they overtake each other
    unsigned loss = 0;      // of 10,000
    unsigned duplication = 0;
    unsigned damage = 0;
    bool whole_trains = false;      // a train is lost as a whole
    std::size_t width = 65'507;     // longer datagrams vanish
    Time narrow_at = never;         // from then on
    std::size_t narrow_width = 0;
    std::vector<Interval> blackouts;

    std::size_t width_at(Time now) const { return now >= narrow_at ? narrow_width : width; }
    bool dark(Time now) const
    {
        for (const Interval &blackout : blackouts)
            if (blackout.contains(now))
                return true;
        return false;
    }
};

struct Port {
    double bytes_per_nanosecond = 1.25;  // 10 Gbit/s
    std::size_t queue = 1u << 20;        // bytes that may wait
    Time free_at{};
};

struct Packet {
    std::vector<std::byte> bytes;
    udp::Address from;
    udp::Address to;
};

struct NetworkCounters {
    std::uint64_t sent = 0, lost = 0, damaged = 0, doubled = 0, queue_dropped = 0, too_wide = 0, nowhere = 0;
};

// Things that will happen. Those of the same time happen in the order they were planned in.
class Agenda {
  public:
    using Action = std::function<void()>;

    Time now() const { return now_; }
    bool empty() const { return events_.empty(); }

    void plan(Time time, Action action)
    {
        events_.push_back({std::max(time, now_), order_++, std::move(action)});
        std::ranges::push_heap(events_, later);
    }

    void step()
    {
        std::ranges::pop_heap(events_, later);
        Event event = std::move(events_.back());
        events_.pop_back();
        now_ = event.time;
        event.action();
    }
    Time next() const { return events_.empty() ? never : events_.front().time; }
    void wait_until(Time time) { now_ = std::max(now_, time); }

  private:
    struct Event {
        Time time;
        std::uint64_t order;
        Action action;
    };
    static bool later(const Event &a, const Event &b) { return a.time != b.time ? a.time > b.time : a.order > b.order; }

    Time now_{1s};  // not the zero point, which some take for "unknown"
    std::uint64_t order_ = 0;
    std::vector<Event> events_;
};

// Process i has the address 10.<net>.0.i in every network `net` it is in. Addresses of other kinds lead nowhere.
inline constexpr std::uint16_t port_number = 4711;
inline constexpr std::uint16_t closed_port = 9;  // a host refuses what comes for it, whatever its processes do
inline udp::Address address_of(unsigned process, unsigned net = 0)
{
    return udp::Address::v4({10, static_cast<std::uint8_t>(net), 0, static_cast<std::uint8_t>(process)}, port_number);
}
inline udp::Address address_of_nobody(unsigned process, unsigned which)
{
    return udp::Address::v4({172, 16, static_cast<std::uint8_t>(which), static_cast<std::uint8_t>(process)}, port_number);
}

class Network {
  public:
    using Arrive = std::function<void(unsigned process, Packet packet)>;
    using Refuse = std::function<void(unsigned sender, Packet packet)>;  // what was sent, as the host that refuses it quotes it

    Network(Agenda &agenda, std::uint64_t seed, unsigned processes)
        : agenda_(agenda), random_(seed), processes_(processes), paths_(processes * processes), ports_(processes), gone_(processes)
    {
    }

    Path &path(unsigned from, unsigned to) { return paths_[from * processes_ + to]; }
    Port &port(unsigned to) { return ports_[to]; }
    void for_all_paths(const std::function<void(Path &)> &change)
    {
        for (Path &path : paths_)
            change(path);
    }
    const NetworkCounters &counters() const { return counters_; }

    void on_arrival(Arrive arrive) { arrive_ = std::move(arrive); }
    void on_refusal(Refuse refuse) { refuse_ = std::move(refuse); }
    // Sees every datagram that a process sends to an address that leads somewhere.
    void watch(std::function<void(unsigned from, const Packet &)> watcher) { watcher_ = std::move(watcher); }
    // In this network packets go from lower to higher process numbers, but never back.
    void make_one_way(unsigned net) { one_way_ = static_cast<int>(net); }
    // Nobody listens there any more; `host`: nor is there anybody who says so.
    void remove(unsigned process, bool host) { gone_[process] = host ? Gone::host : Gone::process; }

    void transmit(unsigned from, const udp::Transmission &transmission, bool damage_is_seen)
    {
        std::vector<std::byte> all;
        all.reserve(transmission.size);
        for (const auto &piece : transmission.pieces)
            all.insert(all.end(), piece.data, piece.data + piece.size);
        unsigned net = transmission.to.ip[13];
        unsigned to = transmission.to.ip[15];
        bool somewhere = transmission.to.ip[12] == 10 && to < processes_ &&
                         (transmission.to.port == port_number || transmission.to.port == closed_port) &&
                         !(static_cast<int>(net) == one_way_ && to < from);
        bool train_lost = somewhere && path(from, to).whole_trains && happens(path(from, to).loss);
        for (std::size_t start = 0; start < all.size(); start += transmission.segment) {
            std::size_t size = std::min(transmission.segment, all.size() - start);
            auto first = all.begin() + static_cast<std::ptrdiff_t>(start);
            Packet packet{{first, first + static_cast<std::ptrdiff_t>(size)}, address_of(from, net), transmission.to};
            ++counters_.sent;
            if (watcher_ && somewhere && transmission.to.port == port_number)
                watcher_(from, packet);
            trace("sends", from, packet);
            if (!somewhere)
                ++counters_.nowhere;
            else if (train_lost)
                ++counters_.lost;
            else
                send(from, to, std::move(packet), damage_is_seen);
        }
    }

    // A datagram that no process of ours has sent, or not now.
    void inject(unsigned to, Packet packet) { deliver(to, std::move(packet), agenda_.now()); }

  private:
    enum class Gone : std::uint8_t { no, process, host };

    // TRACE=1 in the environment shows every datagram of a run.
    void trace(const char *what, unsigned from, const Packet &packet) const
    {
        if (!tracing_)
            return;
        static constexpr const char *kinds[] = {"?",           "hello", "welcome", "data", "ack",       "size_probe",
                                                "size_answer", "alive", "bye",     "part", "bye_answer"};
        udp::Header header;
        std::memcpy(&header, packet.bytes.data(), std::min(sizeof header, packet.bytes.size()));
        std::printf("%12.6f ms %-9s %u -> %s %s%s %zu bytes, sequence %u, acknowledged %u, window %u, fragment %u, offset %llu\n",
                    static_cast<double>(agenda_.now().count()) / 1e6, what, from, packet.to.ip_text().c_str(),
                    kinds[header.kind() >= udp::Kind::hello && header.kind() <= udp::Kind::bye_answer ? static_cast<int>(header.kind()) & 15 : 0], header.wants_answer() ? "!" : "",
                    packet.bytes.size(), header.sequence, header.acknowledged, header.window, header.fragment,
                    static_cast<unsigned long long>(header.offset));
    }

    bool happens(unsigned parts) { return parts != 0 && random_.below(per) < parts; }

    void send(unsigned from, unsigned to, Packet packet, bool damage_is_seen)
    {
        Path &path = this->path(from, to);
        Time now = agenda_.now();
        if (packet.bytes.size() > path.width_at(now)) {
            ++counters_.too_wide;
            trace("too wide", from, packet);
            return;
        }
        if (path.dark(now) || (!path.whole_trains && happens(path.loss))) {
            ++counters_.lost;
            trace("loses", from, packet);
            return;
        }
        if (happens(path.damage)) {
            ++counters_.damaged;
            trace("damages", from, packet);
            if (!damage_is_seen)
                return;  // by the checksum of UDP
            if (random_.one_in(4))
                packet.bytes.resize(random_.below(packet.bytes.size()));
            else
                for (std::uint64_t i = random_.between(1, 3); i > 0; --i)
                    packet.bytes[random_.below(packet.bytes.size())] ^= static_cast<std::byte>(1u << random_.below(8));
        }
        if (happens(path.duplication)) {
            ++counters_.doubled;
            travel(to, path, packet);
        }
        travel(to, path, std::move(packet));
    }

    void travel(unsigned to, const Path &path, Packet packet)
    {
        auto most_jitter = static_cast<std::uint64_t>(path.jitter.count());
        Time jitter(most_jitter > 0 ? random_.below(most_jitter) : 0);
        Port &port = ports_[to];
        Time now = agenda_.now();
        Time waiting = std::max(port.free_at - now, Time::zero());
        auto queued = static_cast<std::size_t>(static_cast<double>(waiting.count()) * port.bytes_per_nanosecond);
        if (queued > 0 && queued + packet.bytes.size() > port.queue) {
            ++counters_.queue_dropped;
            return;
        }
        double nanoseconds = static_cast<double>(packet.bytes.size() + frame_size) / port.bytes_per_nanosecond;
        port.free_at = now + waiting + Time(static_cast<std::int64_t>(nanoseconds));
        deliver(to, std::move(packet), port.free_at + path.delay + jitter);
    }

    void deliver(unsigned to, Packet packet, Time when)
    {
        agenda_.plan(when, [this, to, packet = std::move(packet)]() mutable {
            trace("arrives", packet.from.ip[15], packet);
            bool closed = packet.to.port == closed_port;
            if (gone_[to] == Gone::no && !closed)
                return arrive_(to, std::move(packet));
            if (gone_[to] != Gone::host && refuse_ && packet.from.ip[12] == 10 && packet.to.ip[15] == to &&
                !path(to, packet.from.ip[15]).dark(agenda_.now()))
                agenda_.plan(agenda_.now() + path(to, packet.from.ip[15]).delay,
                             [this, from = packet.from.ip[15], packet = std::move(packet)]() mutable { refuse_(from, std::move(packet)); });
        });
    }

    Agenda &agenda_;
    test::Random random_;
    unsigned processes_;
    std::vector<Path> paths_;
    std::vector<Port> ports_;
    std::vector<Gone> gone_;
    int one_way_ = -1;
    Arrive arrive_;
    Refuse refuse_;
    std::function<void(unsigned, const Packet &)> watcher_;
    NetworkCounters counters_;
    bool tracing_ = std::getenv("TRACE") != nullptr;
};

}  // namespace pm::sim
