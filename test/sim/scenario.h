// A run that is a function of its seed: a network, processes, settings and traffic of all kinds. See random_test.cc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/world.h"
#include "support/random.h"

namespace pm::sim {

class Scenario {
  public:
    explicit Scenario(std::uint64_t seed)
        : random_(seed * 977 + 13), count_(random_.one_in(2) ? 2 : static_cast<unsigned>(random_.between(2, 8))),
          world_(seed, count_)
    {
        choose_network();
        choose_processes();
        choose_traffic();
    }

    // What went wrong, or nothing.
    std::string run()
    {
        plan_intruders();
        plan_death();
        world_.start();
        if (world_.finish(longest_run) && !world_.trouble().any()) {
            check_end();
            if (victim_ == nobody && !world_.trouble().any())
                check_silence_after_close();
        }
        return world_.trouble().any() ? world_.trouble().text() + "\n" + description() : "";
    }

    World &world() { return world_; }

    std::string description() const
    {
        return std::to_string(count_) + " processes, pattern " + std::to_string(static_cast<int>(pattern_)) + ", loss " +
               std::to_string(loss_) + " of 10000, silence limit " + std::to_string(silence_limit_.count() / 1'000'000) + " ms" +
               (victim_ != nobody ? ", process " + std::to_string(victim_) + " dies" : "") + (blackout_ ? ", blackout" : "") +
               (narrows_ ? ", path narrows" : "");
    }

  private:
    enum class Pattern { one_way, both_ways, ring, all_to_one, all_to_all, ping_pong };
    static constexpr unsigned nobody = ~0u;
    static constexpr Time longest_run = 600s;

    void choose_network()
    {
        Network &network = world_.network();
        static constexpr unsigned losses[] = {0, 0, 0, 10, 100, 300, 500, 1000, 2000};
        loss_ = losses[random_.below(std::size(losses))];
        Time delay = Time(random_.between(1'000, random_.one_in(6) ? 5'000'000 : 100'000));
        Time jitter = random_.one_in(2) ? Time::zero() : Time(random_.below(random_.one_in(3) ? 2'000'000 : 50'000));
        unsigned duplication = random_.one_in(3) ? static_cast<unsigned>(random_.below(1000)) : 0;
        unsigned damage = random_.one_in(3) ? static_cast<unsigned>(random_.below(500)) : 0;
        bool whole_trains = random_.one_in(4);
        static constexpr std::size_t widths[] = {572, 1200, 1452, 1472, 8972, 65'507};
        std::size_t width = widths[random_.below(std::size(widths))];
        blackout_ = random_.one_in(12);
        narrows_ = !blackout_ && random_.one_in(16);
        silence_limit_ = blackout_ ? 10s : 30s;
        bool equal = random_.one_in(2);
        network.for_all_paths([&](Path &path) {
            path.delay = delay;
            path.jitter = jitter;
            path.loss = equal || random_.one_in(2) ? loss_ : 0;
            path.duplication = duplication;
            path.damage = damage;
            path.whole_trains = whole_trains;
            path.width = width;
            if (narrows_) {
                path.narrow_at = world_.now() + Time(random_.below(20'000'000));
                path.narrow_width = random_.one_in(2) ? 1200 : 572;
            }
        });
        if (blackout_) {
            Time begin = world_.now() + Time(random_.below(5'000'000));
            Time end = begin + Time(random_.between(1'000'000, random_.one_in(2) ? 100'000'000 : 7'000'000'000));
            bool one_direction = random_.one_in(3);
            for (unsigned from = 0; from < count_; ++from)
                for (unsigned to = 0; to < count_; ++to)
                    if (!one_direction || from < to)
                        network.path(from, to).blackouts.push_back({begin, end});
        }
        for (unsigned i = 0; i < count_; ++i) {
            static constexpr double rates[] = {0.125, 1.25, 12.5};
            network.port(i).bytes_per_nanosecond = rates[random_.below(std::size(rates))];
            network.port(i).queue = random_.one_in(4) ? random_.between(70'000, 200'000) : 1u << 22;
        }
        networks_ = static_cast<unsigned>(random_.between(1, 2));
        if (networks_ > 1 && random_.one_in(4))
            network.make_one_way(1);
    }

    void choose_processes()
    {
        udp::ProtocolSettings settings;
        settings.recovery = random_.one_in(4) ? udp::Recovery::go_back_n : udp::Recovery::selective;
        settings.silence_limit = silence_limit_;
        settings.random_sequences = random_.one_in(3);
        if (!settings.random_sequences)
            settings.first_sequence = random_.one_in(4) ? static_cast<std::uint32_t>(random_.next())
                                                        : 0xffff'ffffu - static_cast<std::uint32_t>(random_.below(200));
        static const std::vector<std::size_t> sizes[] = {
            udp::ProtocolSettings().packet_sizes, {548, 1200, 8972}, {1200, 1472, 8972}, {1100, 65000}, {1452, 8952}};
        settings.packet_sizes = sizes[random_.below(std::size(sizes))];
        // A path is never narrower than the smallest packet.
        std::size_t smallest = settings.packet_sizes.front();
        world_.network().for_all_paths([&](Path &path) {
            path.width = std::max(path.width, smallest);
            path.narrow_width = std::max(path.narrow_width, smallest);
        });
        udp::GuardKind guard = random_.one_in(3) ? udp::GuardKind::mac : udp::GuardKind::token;
        if (udp::can_seal() && random_.one_in(4))
            guard = udp::GuardKind::seal;
        bool mixed = random_.one_in(6);
        for (unsigned i = 0; i < count_; ++i) {
            Habits habits;
            habits.settings = settings;
            habits.settings.guard = mixed && random_.one_in(2) ? udp::GuardKind::mac : guard;
            habits.settings.receive_buffer = random_.one_in(2) ? 400 * 1024 : random_.between(40, 400) * 1024;
            static constexpr std::size_t trains[] = {1, 4, 16, 64};
            habits.settings.train_limit = trains[random_.below(std::size(trains))];
            habits.places = random_.one_in(2);
            habits.receives_in_place = habits.places && random_.one_in(2);
            habits.sends_at_once = random_.one_in(2);
            habits.transmits_in_callbacks = random_.one_in(3);
            habits.misalignment = random_.one_in(4) ? random_.below(8) : 0;
            habits.batch = static_cast<unsigned>(random_.one_in(3) ? random_.between(1, 8) : 64);
            habits.per_datagram = random_.one_in(2) ? Time::zero() : Time(random_.below(3'000));
            if (random_.one_in(3)) {
                habits.computes = random_.one_in(2) ? 1000 : 50;
                habits.computes_for = habits.computes == 50 ? 200ms : 3ms;
            }
            habits.stalls = random_.one_in(6) ? 500 : 0;
            auto insert = [&](const udp::Address &address) {
                auto place = static_cast<std::ptrdiff_t>(random_.below(habits.addresses.size() + 1));
                habits.addresses.insert(habits.addresses.begin() + place, address);
            };
            for (unsigned net = 0; net < networks_; ++net)
                insert(address_of(i, net));
            for (std::uint64_t dead = random_.one_in(2) ? 0 : random_.between(1, 3); dead > 0; --dead)
                insert(address_of_nobody(i, static_cast<unsigned>(dead)));
            world_.add(habits);
        }
    }

    Stream stream()
    {
        // Losses make runs long in events, not in bytes.
        std::size_t count = random_.one_in(8) ? random_.between(50, 300) : random_.between(1, 25);
        std::size_t largest = random_.one_in(4) ? 400'000 : random_.one_in(2) ? 70'000 : 6'000;
        if (count_ > 3)
            count = count / 3 + 1;
        if (count > 25)
            largest = std::min<std::size_t>(largest, 6'000);
        return random_stream(random_, count, 1000, largest);
    }

    void choose_traffic()
    {
        pattern_ = static_cast<Pattern>(random_.below(6));
        auto pair = [&](unsigned a, unsigned b) { world_.stream(a, b, stream()); };
        switch (pattern_) {
            case Pattern::one_way:
                pair(0, 1);
                break;
            case Pattern::both_ways:
                for (unsigned i = 0; i + 1 < count_; i += 2)
                    pair(i, i + 1), pair(i + 1, i);
                break;
            case Pattern::ring:
                for (unsigned i = 0; i < count_; ++i)
                    pair(i, (i + 1) % count_);
                break;
            case Pattern::all_to_one:
                for (unsigned i = 1; i < count_; ++i)
                    pair(i, 0);
                break;
            case Pattern::all_to_all:
                for (unsigned i = 0; i < count_; ++i)
                    for (unsigned j = 0; j < count_; ++j)
                        if (i != j)
                            pair(i, j);
                break;
            case Pattern::ping_pong:
                for (unsigned i = 0; i + 1 < count_; i += 2) {
                    std::size_t rounds = random_.between(1, 30);
                    world_.stream(i, i + 1, random_stream(random_, rounds, 1000, 20'000)).allow(1);
                    world_.stream(i + 1, i, random_stream(random_, rounds, 1000, 20'000)).allow(0);
                    world_[i].replies(1);
                    world_[i + 1].replies(1);
                }
                break;
        }
    }

    // Datagrams that do not belong here: noise, of an earlier job, recorded ones.
    void plan_intruders()
    {
        if (!random_.one_in(3))
            return;
        world_.network().watch([this](unsigned, const Packet &packet) {
            if (recorded_.size() < 200 && random_.one_in(3))
                recorded_.push_back(packet);
            if (!random_.one_in(8))
                return;
            auto to = static_cast<unsigned>(random_.below(count_));
            Packet intruder = recorded_.empty() || random_.one_in(4) ? noise() : recorded_[random_.below(recorded_.size())];
            // Recorded packets of a dead one would be signs of life.
            bool of_the_dead = victim_ != nobody && world_.now() >= died_ && intruder.from.ip[15] == victim_;
            switch (of_the_dead ? 1 : random_.below(4)) {
                case 0:  // as it is, to whom it was sent, once more
                    if (intruder.to.ip[12] == 10)
                        to = intruder.to.ip[15];
                    break;
                case 1:  // of an earlier job: everything is right but the guard
                    spoil_guard(&intruder);
                    break;
                case 2:  // of an earlier job, and cut off
                    spoil_guard(&intruder);
                    intruder.bytes.resize(random_.below(intruder.bytes.size() + 1));
                    break;
                case 3:  // to the wrong one
                    break;
            }
            world_.network().inject(to, intruder);
        });
    }

    Packet noise()
    {
        std::vector<std::byte> bytes(random_.below(random_.one_in(4) ? 2000 : 100));
        Packet packet{std::move(bytes), address_of_nobody(9, 9), address_of(0)};
        for (std::byte &byte : packet.bytes)
            byte = static_cast<std::byte>(random_.next());
        if (packet.bytes.size() >= 8)
            packet.bytes[0] = static_cast<std::byte>(0x10 + random_.below(11));
        return packet;
    }

    void spoil_guard(Packet *packet)
    {
        if (packet->bytes.size() >= 16)
            packet->bytes[8 + random_.below(8)] ^= static_cast<std::byte>(1u << random_.below(8));
    }

    void plan_death()
    {
        if (blackout_ || !random_.one_in(10))
            return;
        victim_ = static_cast<unsigned>(random_.below(count_));
        bool host = random_.one_in(2);
        died_ = world_.now() + Time(random_.below(random_.one_in(2) ? 1'000'000 : 50'000'000));
        world_.agenda().plan(died_, [this, host] {
            world_.kill(victim_, host);
            for (unsigned i = 0; i < count_; ++i) {
                world_[i].inbox().excuse(victim_);
                if (Outbox *outbox = world_[i].outbox_to(victim_))
                    outbox->excuse();
            }
        });
    }

    void check_end()
    {
        for (unsigned i = 0; i < count_; ++i) {
            Process &process = world_[i];
            if (i == victim_)
                continue;
            const Error &failure = process.endpoint().failure();
            if (victim_ == nobody && failure)
                world_.trouble()("process " + std::to_string(i) + " reports: " + failure.text);
            if (victim_ == nobody)
                continue;
            for (const auto &outbox : process.outboxes())
                if (outbox->given_up() && outbox->to() != victim_)
                    world_.trouble()("process " + std::to_string(i) + " gave up " + std::to_string(outbox->to()) + ", which lives");
        }
        if (victim_ == nobody)
            return;
        // Whoever had something to do with the dead one knows within the silence limit; hellos go out once in a second.
        world_.run_until([&] { return false; }, std::max(died_ - world_.now(), Time::zero()) + silence_limit_ + 3s);
        for (unsigned i = 0; i < count_; ++i) {
            if (i == victim_)
                continue;
            world_[i].endpoint().for_each_peer([&](const udp::Peer &peer) {
                bool of_victim = peer.name == world_[victim_].endpoint().card().name;
                bool knows = peer.state == udp::PairState::failed || peer.state == udp::PairState::quiet;
                if (of_victim && !knows)
                    world_.trouble()("process " + std::to_string(i) + " does not know that process " + std::to_string(victim_) +
                                     " is dead");
                if (!of_victim && peer.state == udp::PairState::failed)
                    world_.trouble()("process " + std::to_string(i) + " takes the wrong one for dead: " + peer.error.text);
            });
        }
    }

    // The network works again, everybody says good-bye: then nobody has anything to say any more.
    void check_silence_after_close()
    {
        world_.network().for_all_paths([](Path &path) {
            path.loss = path.damage = path.duplication = 0;
            path.blackouts.clear();
        });
        world_.network().watch({});
        world_.run_for(5s);  // what is under way, and computations
        for (unsigned i = 0; i < count_; ++i) {
            world_.agenda().plan(world_.now() + Time(random_.below(2'000'000)), [this, i] {
                world_[i].endpoint().close();
                world_[i].wake_at(world_.now());
            });
        }
        world_.run_for(2s);
        std::uint64_t sent = world_.network().counters().sent;
        world_.run_for(2 * silence_limit_);
        if (world_.network().counters().sent != sent)
            world_.trouble()("packets are sent after everybody has said good-bye");
        for (unsigned i = 0; i < count_; ++i)
            if (world_[i].endpoint().failure())
                world_.trouble()("after good-bye process " + std::to_string(i) + " reports: " +
                                 world_[i].endpoint().failure().text);
    }

    test::Random random_;
    unsigned count_;
    World world_;
    Pattern pattern_{};
    unsigned loss_ = 0;
    unsigned networks_ = 1;
    bool blackout_ = false, narrows_ = false;
    Time silence_limit_{};
    unsigned victim_ = nobody;
    Time died_{};
    std::vector<Packet> recorded_;
};

}  // namespace pm::sim
