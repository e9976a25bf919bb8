// Two processes and a network that is the input: byte by byte it says who sends what, which datagram is delivered, dropped,
// doubled, damaged or overtaken, and when time goes on. In the end the network works, and everything must arrive, once, in order
// and whole.
#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"
#include "netmod/udp/protocol/endpoint.h"
#include "sim/traffic.h"
#include "support/udp_pair.h"

namespace pm::fuzz {
namespace {

using namespace udp;
using namespace std::chrono_literals;

constexpr std::size_t sizes[] = {0, 1, 100, 1100, 1160, 1161, 3000, 16'384, 16'385, 40'000, 70'000, 200'000};
constexpr std::size_t most_messages = 60;

class Pair {
  public:
    explicit Pair(Choices &choices) : choices_(choices)
    {
        std::uint8_t mode = choices.byte();
        ProtocolSettings settings = test::UdpPair::plain();
        std::uint8_t before_wrap = choices.byte();
        // Sealing takes longer than all the rest, and differs only in what a datagram is checked by: seldom.
        const bool seals = mode & 128 && before_wrap % 8 == 5 && can_seal();
        settings.guard = !(mode & 1) ? GuardKind::token : seals ? GuardKind::seal : GuardKind::mac;
        settings.recovery = mode & 2 ? Recovery::go_back_n : Recovery::selective;
        settings.first_sequence = 0xffff'ffffu - before_wrap;
        settings.receive_buffer = mode & 4 ? 32 * 1024 : 400 * 1024;
        settings.train_limit = mode & 8 ? 1 : 64;
        if (mode & 16)
            settings.packet_sizes = before_wrap % 2 == 0 ? std::vector<std::size_t>{1200, 1472, 8972} : std::vector<std::size_t>{1200, 8972, 65'000};
        for (unsigned i = 0; i < 2; ++i) {
            sim::Stream stream(most_messages);
            for (sim::Shape &shape : stream) {
                std::uint64_t word = test::mix(mode * 1000 + i * 100 + static_cast<std::uint64_t>(&shape - stream.data()));
                std::size_t kinds = mode & 32 ? std::size(sizes) : 8;
                shape = {word % 3 == 0 ? word / 3 % 1000 : word / 3 % 40, sizes[word / 3000 % kinds], word % 5 == 0};
            }
            ends_[i].inbox = std::make_unique<sim::Inbox>(i, trouble_);
            ends_[i].inbox->expect(1 - i, stream);
            streams_[1 - i] = stream;
        }
        for (unsigned i = 0; i < 2; ++i) {
            Sink sink{nullptr, arrived, more};
            if (mode & 64) {
                sink.place = place;
                sink.placed = placed;
            }
            Key key{static_cast<std::uint8_t>(i + 1)};
            ends_[i].endpoint = std::make_unique<Endpoint>(settings, key, std::vector{address(i)}, sink);
        }
        for (unsigned i = 0; i < 2; ++i) {
            Peer *peer = ends_[i].endpoint->connect(ends_[1 - i].endpoint->card());
            // What `i` sends is what the other one expects of it: stream i.
            ends_[i].outbox = std::make_unique<sim::Outbox>(*ends_[i].endpoint, peer, i, 1 - i, streams_[i], trouble_);
            ends_[i].outbox->allow(0);
        }
        settings_ = settings;
    }

    void run()
    {
        for (int count = 0; choices_.any() && count < 3000; ++count) {
            step();
            check();
        }
        heal();
    }

  private:
    struct OnItsWay {
        std::vector<std::byte> bytes;
        Time sent;
        bool intact = true;  // and not a copy of another
    };
    struct End {
        std::unique_ptr<Endpoint> endpoint;
        std::unique_ptr<sim::Inbox> inbox;
        std::unique_ptr<sim::Outbox> outbox;
        std::deque<OnItsWay> arriving;
        Time heard = 1s;        // when something came that its peer had said shortly before
        Time longest_silence{};
        bool was_open = false;
    };

    static Address address(unsigned i) { return Address::v4({10, 0, 0, static_cast<std::uint8_t>(i + 1)}, 4711); }

    static void *arrived(void *, const Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total)
    {
        return receiving_->arrived(envelope, piece, piece_size, total);
    }
    static void more(void *, int, void *cookie, void *piece, std::size_t piece_size) { receiving_->more(cookie, piece, piece_size); }
    static void *place(void *, int, void *cookie) { return receiving_->place(cookie); }
    static void placed(void *, int, void *cookie) { receiving_->placed(cookie); }

    void step()
    {
        std::uint8_t what = choices_.byte();
        unsigned i = what & 1;
        std::size_t argument = what >> 4;
        auto &queue = ends_[i].arriving;
        switch (what >> 1 & 7) {
            case 0:  // some more messages may be sent
                ends_[i].outbox->allow(std::min(ends_[i].outbox->allowed() + argument + 1, most_messages));
                send(i);
                break;
            case 1:
                transmit(i);
                break;
            case 2:  // some are delivered
                for (std::size_t count = 0; count <= argument && !queue.empty(); ++count)
                    deliver(i);
                break;
            case 3:  // some are dropped
                for (std::size_t count = 0; count <= argument % 4 && !queue.empty(); ++count) {
                    queue.pop_front();
                    any_lost_ = true;
                }
                break;
            case 4:
                if (!queue.empty()) {
                    queue.push_back(queue[argument % queue.size()]);
                    queue.back().intact = false;
                }
                break;
            case 5:  // the first is overtaken
                if (!queue.empty()) {
                    std::swap(queue.front(), queue[(argument + 1) % queue.size()]);
                }
                break;
            case 6:
                if (!queue.empty()) {
                    damage(&queue.front().bytes, argument);
                    queue.front().intact = false;
                    any_lost_ = true;
                }
                break;
            case 7:
                wait(argument < 12 ? Time(100us) * (1 << argument) : Time(1s) * static_cast<std::int64_t>(argument - 11));
                break;
        }
    }

    void damage(std::vector<std::byte> *bytes, std::size_t how)
    {
        if (settings_.guard == GuardKind::token) {
            // UDP's checksum finds it; what comes instead is of a stranger.
            (*bytes)[8 + how % 8] ^= std::byte{1};
            return;
        }
        if (how == 0)
            bytes->resize(bytes->size() / 2);
        else if (!bytes->empty())
            (*bytes)[how * 37 % bytes->size()] ^= std::byte{16};
    }

    void send(unsigned i)
    {
        while (ends_[i].outbox->step(now_)) {
        }
    }

    void transmit(unsigned i)
    {
        Transmission transmission;
        for (int count = 0; ends_[i].endpoint->poll_transmit(&transmission, now_); ++count) {
            require(count < 10'000, "it sends for ever");
            std::vector<std::byte> all;
            for (const auto &piece : transmission.pieces)
                all.insert(all.end(), piece.data, piece.data + piece.size);
            require(all.size() == transmission.size && transmission.segment >= sizeof(Header),
                    "a transmission that makes no sense");
            for (std::size_t start = 0; start < all.size(); start += transmission.segment) {
                auto first = all.begin() + static_cast<std::ptrdiff_t>(start);
                auto size = static_cast<std::ptrdiff_t>(std::min(transmission.segment, all.size() - start));
                require(size <= 65'507, "a datagram that is too long for UDP");
                ends_[1 - i].arriving.push_back({{first, first + size}, now_});
            }
        }
        require(ends_[i].endpoint->next_deadline() > last_timer_, "everything is sent, and the next deadline is not in the future");
    }

    void deliver(unsigned i)
    {
        OnItsWay one = std::move(ends_[i].arriving.front());
        ends_[i].arriving.pop_front();
        std::vector<std::byte> &bytes = one.bytes;
        if (one.intact && now_ - one.sent < settings_.silence_limit / 4)
            ends_[i].heard = now_;
        receiving_ = ends_[i].inbox.get();
        if (auto datagram = decode(bytes))
            ends_[i].endpoint->on_datagram(*datagram, address(1 - i), now_);
        else
            ends_[i].endpoint->on_malformed();
        receiving_ = nullptr;
    }

    void wait(Time time)
    {
        now_ += time;
        last_timer_ = now_;
        for (End &end : ends_) {
            end.longest_silence = std::max(end.longest_silence, now_ - end.heard);
            end.endpoint->on_timer(now_);
        }
    }

    void check()
    {
        require(!trouble_.any(), trouble_.text());
        for (End &end : ends_)
            end.endpoint->for_each_peer([&](const Peer &peer) { end.was_open = end.was_open || peer.state == PairState::open; });
        require(!one_has_failed() || a_failure_is_right(), "a pair fails, though the network was never silent for long");
        for (End &end : ends_)
            end.endpoint->for_each_peer([&](const Peer &peer) {
                require(peer.incoming == nullptr || peer.incoming->early_bytes() <= settings_.receive_buffer,
                        "too many early bytes");
                require(peer.outgoing == nullptr || peer.outgoing->outstanding() <= Outgoing::flight_limit, "too many packets");
            });
    }

    bool done()
    {
        for (unsigned i = 0; i < 2; ++i) {
            bool given_up = ends_[i].outbox->given_up();
            if (!given_up && (ends_[i].outbox->sent() < ends_[i].outbox->allowed() || ends_[i].endpoint->outstanding() > 0 ||
                              ends_[1 - i].inbox->received(i) < ends_[i].outbox->sent()))
                return false;
        }
        return true;
    }

    bool one_has_failed()
    {
        bool failed = false;
        for (End &end : ends_)
            end.endpoint->for_each_peer([&](const Peer &peer) { failed = failed || peer.state == PairState::failed; });
        return failed;
    }

    // Nothing of the other came for nearly as long as the limit says; or the answers to greetings were lost for that long, or were late.
    bool a_failure_is_right() const
    {
        const Time long_time = settings_.silence_limit * 3 / 4;
        return std::ranges::any_of(ends_, [&](const End &end) {
            return end.longest_silence >= long_time || (!end.was_open && any_lost_ && now_ - 1s >= long_time);
        });
    }

    // From now on everything arrives.
    void heal()
    {
        for (int round = 0; !done(); ++round) {
            if (one_has_failed())
                return;  // for a good reason: check() has seen it
            require(round < 5000, "it does not end");
            for (unsigned i = 0; i < 2; ++i) {
                send(i);
                transmit(i);
            }
            for (unsigned i = 0; i < 2; ++i)
                while (!ends_[i].arriving.empty())
                    deliver(i);
            check();
            wait(2ms);
        }
    }

    static inline sim::Inbox *receiving_ = nullptr;

    Choices &choices_;
    ProtocolSettings settings_;
    sim::Trouble trouble_;
    sim::Stream streams_[2];
    End ends_[2];
    Time now_ = 1s;
    Time last_timer_{};
    bool any_lost_ = false;
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ(pm::fuzz::Pair)
