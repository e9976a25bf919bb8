// The processes of a conformance test: what they share, and what each of them has.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "conform/traffic.h"
#include "support/processes.h"
#include "support/sanitizers.h"

namespace pm::conform {

using namespace std::chrono_literals;

inline constexpr unsigned time_limit = 120;            // seconds, of every process
inline constexpr std::chrono::hours no_time_limit{24};  // of a sleep: longer than the process lives
inline constexpr unsigned most_members = 64;

// A number of messages or rounds, fewer under a sanitizer.
constexpr std::size_t scaled(std::size_t count)
{
    return count / test::slowdown + 10;
}

// What the processes of a test share.
struct Board {
    std::byte cards[most_members][max_card_size];
    std::size_t card_sizes[most_members];
    pid_t process[most_members];
    test::Counter meetings[16];
    // For what the test likes.
    test::Counter signals[4];
    std::uint64_t word;
};

// One process of a test, with its channel open and everybody's card on the board.
template <class Kit>
class Member {
  public:
    using Device = typename Kit::Device;
    using Peer = typename Device::Peer;

    Member(unsigned number, unsigned count, Board &board) : number(number), count(count), board(board), inbox(number)
    {
        auto created = Kit::create(inbox.sink(requires { Kit::with_places; }));
        if (!created.ok())
            fail("no device: " + created.error().text);
        device_ = std::move(created.value());
        board.card_sizes[number] = device_->write_card(board.cards[number]);
        board.process[number] = getpid();
        meet();
        for (unsigned other = 0; other < count; ++other)
            introduce(other, true);
    }

    ~Member() { disconnect(); }
    // From all peers.
    void disconnect()
    {
        for (Peer *peer : peers_)
            device_->disconnect(peer);
        peers_.clear();
    }

    Device &device() { return *device_; }

    // What the other sends from now on says that it comes from it; or else has no source.
    void introduce(unsigned other, bool known)
    {
        inbox.be_stranger(other, !known);
        device_->introduce(board.cards[other], board.card_sizes[other], inbox.source_of(other));
    }

    Peer *connect(unsigned other)
    {
        auto peer = device_->connect(board.cards[other], board.card_sizes[other]);
        if (!peer.ok())
            fail("connecting to process " + std::to_string(other) + ": " + peer.error().text);
        peers_.push_back(peer.value());
        return peer.value();
    }

    Outbox<Device> outbox(unsigned other, Stream stream)
    {
        return {device(), connect(other), number, other, std::move(stream)};
    }

    // All members come here before one leaves. Meanwhile nothing is polled.
    void meet() { board.meetings[next_meeting_++].meet(count); }
    // The same, polling: somebody may need an answer of our device.
    void meet_polling()
    {
        test::Counter &meeting = board.meetings[next_meeting_++];
        meeting.add();
        poll_until([&] { return meeting.value() >= count; });
    }

    unsigned poll()
    {
        unsigned delivered = device_->poll();
        if (delivered == 0)
            sched_yield();
        return delivered;
    }

    template <class Condition>
    void poll_until(Condition condition)
    {
        while (!condition())
            poll();
    }

    // One try for each outbox, then a poll.
    void work(std::vector<Outbox<Device> *> outboxes)
    {
        for (Outbox<Device> *outbox : outboxes) {
            Status status = outbox->step();
            if (status != Status::ok && status != Status::again)
                fail("a message to a living peer was refused: " + outbox->error());
        }
        poll();
    }

    // The answer to one message of 8 bytes, once it is another than again: ok, or why the peer is not reached.
    Status answer_of(Peer *peer, unsigned other)
    {
        Outbox<Device> out(device(), peer, number, other, {{8, 8}});
        Status status = Status::again;
        while ((status = out.step()) == Status::again)
            poll();
        return status;
    }

    // Until everything is sent and received. Then nothing more may come, from whomever.
    void complete(std::vector<Outbox<Device> *> outboxes)
    {
        auto all_sent = [&] { return std::ranges::all_of(outboxes, [](auto *outbox) { return outbox->done(); }); };
        while (!all_sent() || !inbox.complete())
            work(outboxes);
        meet_polling();
        for (int i = 0; i < 100; ++i)
            device_->poll();
        if (!inbox.complete())
            fail("messages that were not expected");
    }

    const unsigned number;
    const unsigned count;
    Board &board;
    Inbox inbox;

  private:
    std::unique_ptr<Device> device_;
    std::vector<Peer *> peers_;
    unsigned next_meeting_ = 0;
};

// The kit, with somebody to ask where a payload belongs.
template <class Kit>
struct WithPlaces : Kit {
    static constexpr bool with_places = true;
};

// The names of the kits instead of numbers.
struct KitNames {
    template <class Kit>
    static std::string GetName(int)
    {
        return Kit::name;
    }
};

// The base of every suite.
template <class Kit>
class Team : public testing::Test {
  protected:
    void SetUp() override
    {
        if (std::string reason = Kit::prepare(); !reason.empty())
            GTEST_SKIP() << reason;
    }

    // Runs body(member) in `count` processes. `killed`: those that the test kills.
    template <class Body>
    void run(unsigned count, Body body, std::initializer_list<unsigned> killed = {})
    {
        test::Shared<Board> board;
        test::Processes processes(count, time_limit, [&](unsigned number) {
            Member<Kit> member(number, count, *board);
            body(member);
        });
        for (unsigned number : killed)
            processes.expect_killed(number);
        processes.wait();
    }

    // All sizes at which something may change, with their neighbours, and many others.
    static Stream all_sizes()
    {
        Stream stream;
        for (std::size_t size = 0; size <= 300; ++size)
            stream.push_back({8, size});
        std::vector<std::size_t> edges = Kit::edges();
        for (std::size_t size = 512; size <= (8u << 20) / (test::slowdown > 8 ? 4 : 1); size *= 2)
            edges.push_back(size);
        for (std::size_t size : edges)
            for (std::size_t near : {size - 1, size, size + 1})
                stream.push_back({16, near});
        return stream;
    }
};

}  // namespace pm::conform
