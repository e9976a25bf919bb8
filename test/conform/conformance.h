// The conformance suite: what the PM contract (src/pm/device.h) promises, tested between real processes, for any device. A device
// is brought to it by a kit; see shmem_conform.cc. Every process has a time limit, so that a hang is a failure.
//
// A kit has
//   Device, name, create(sink);
//   edges(): payload sizes at which something changes inside the device;
//   memory(device): bytes that others' messages cost this process, or 0 when the device does not know.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/statvfs.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "conform/traffic.h"
#include "support/private_devshm.h"
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
    test::Counter signals[4];  // for what the test likes
};

// One process of a test, with its channel open and everybody's card on the board.
template <class Kit>
class Member {
  public:
    using Device = typename Kit::Device;
    using Peer = typename Device::Peer;

    Member(unsigned number, unsigned count, Board &board) : number(number), count(count), board(board), inbox(number)
    {
        auto created = Kit::create(Inbox::sink());
        if (!created.ok())
            fail("no device: " + created.error().text);
        device_ = std::move(created.value());
        board.card_sizes[number] = device_->write_card(board.cards[number]);
        board.process[number] = getpid();
        meet();
    }

    ~Member()
    {
        for (Peer *peer : peers_)
            device_->disconnect(peer);
    }

    Device &device() { return *device_; }

    Peer *connect(unsigned other)
    {
        auto peer = device_->connect(board.cards[other], board.card_sizes[other]);
        if (!peer.ok())
            fail("connecting to process " + std::to_string(other) + ": " + peer.error().text);
        peers_.push_back(peer.value());
        return peer.value();
    }

    Outbox<Device> outbox(unsigned other, Stream stream) { return {device(), connect(other), number, other, std::move(stream)}; }

    // All members come here before one leaves.
    void meet() { board.meetings[next_meeting_++].meet(count); }

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
                fail("a message to a living peer was refused");
        }
        poll();
    }

    // Until everything is sent and received. Then nothing more may come, from whomever.
    void complete(std::vector<Outbox<Device> *> outboxes)
    {
        auto all_sent = [&] { return std::ranges::all_of(outboxes, [](auto *outbox) { return outbox->done(); }); };
        while (!all_sent() || !inbox.complete())
            work(outboxes);
        meet();
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

template <class Kit>
class Conformance : public testing::Test {
  protected:
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

TYPED_TEST_SUITE_P(Conformance);

// ---- what it says about itself -----------------------------------------------------------------------------------------

TYPED_TEST_P(Conformance, SaysItsNameAndFitsItsCard)
{
    this->run(1, [](auto &self) {
        EXPECT_GT(std::strlen(self.device().name()), 0u);
        EXPECT_GT(self.board.card_sizes[0], 0u);
        EXPECT_LE(self.board.card_sizes[0], max_card_size);
        EXPECT_GE(self.device().capabilities().largest_header, 256u);
        std::byte again[max_card_size];
        ASSERT_EQ(self.device().write_card(again), self.board.card_sizes[0]);
        EXPECT_EQ(std::memcmp(again, self.board.cards[0], self.board.card_sizes[0]), 0) << "a channel has one card";
    });
}

// ---- exactly once, in order, all bytes ---------------------------------------------------------------------------------

TYPED_TEST_P(Conformance, DeliversPayloadsOfAllSizes)
{
    this->run(2, [](auto &self) {
        Stream stream = TestFixture::all_sizes();
        if (self.number == 0) {
            auto out = self.outbox(1, stream);
            self.complete({&out});
        } else {
            self.inbox.expect(0, stream);
            self.complete({});
        }
    });
}

TYPED_TEST_P(Conformance, DeliversHeadersOfAllSizes)
{
    this->run(2, [](auto &self) {
        std::size_t largest = self.device().capabilities().largest_header;
        Stream stream;
        for (std::size_t header = 0; header <= largest; header += header < 300 || header + 20 > largest ? 1 : 17)
            for (std::size_t payload : {0, 1, 100, 1000})
                stream.push_back({header, payload});
        for (std::size_t edge : TypeParam::edges())
            stream.push_back({largest, edge});
        if (self.number == 0) {
            auto out = self.outbox(1, stream);
            self.complete({&out});
        } else {
            self.inbox.expect(0, stream);
            self.complete({});
        }
    });
}

TYPED_TEST_P(Conformance, DeliversPackedPayloads)
{
    this->run(2, [](auto &self) {
        Stream stream = TestFixture::all_sizes();
        for (Shape &shape : stream)
            shape.packed = true;
        if (self.number == 0) {
            auto out = self.outbox(1, stream);
            self.complete({&out});
        } else {
            self.inbox.expect(0, stream);
            self.complete({});
        }
    });
}

TYPED_TEST_P(Conformance, SurvivesAFloodInBothDirections)
{
    this->run(2, [](auto &self) {
        std::size_t largest = self.device().capabilities().largest_header;
        unsigned other = 1 - self.number;
        self.inbox.expect(other, random_stream(other, scaled(20'000), largest, 200'000));
        auto out = self.outbox(other, random_stream(self.number, scaled(20'000), largest, 200'000));
        self.complete({&out});
    });
}

TYPED_TEST_P(Conformance, KeepsTheOrderOfEverySenderWhenManySendToOne)
{
    constexpr unsigned senders = 40;
    this->run(senders + 1, [](auto &self) {
        std::size_t largest = self.device().capabilities().largest_header;
        auto stream_of = [&](unsigned sender) { return random_stream(sender, scaled(200), largest, 50'000); };
        Stream answer{{8, 8}};
        if (self.number < senders) {
            self.inbox.expect(senders, answer);
            auto out = self.outbox(senders, stream_of(self.number));
            self.complete({&out});
            return;
        }
        std::vector<Outbox<typename TypeParam::Device>> answers;
        answers.reserve(senders);
        std::vector<Outbox<typename TypeParam::Device> *> outboxes;
        for (unsigned sender = 0; sender < senders; ++sender) {
            self.inbox.expect(sender, stream_of(sender));
            answers.push_back(self.outbox(sender, answer));
            outboxes.push_back(&answers.back());
        }
        self.complete(outboxes);
    });
}

TYPED_TEST_P(Conformance, EverybodyTalksToEverybody)
{
    constexpr unsigned members = 6;
    this->run(members, [](auto &self) {
        std::size_t largest = self.device().capabilities().largest_header;
        auto stream = [&](unsigned from, unsigned to) { return random_stream(from * 100 + to, scaled(500), largest, 100'000); };
        std::vector<Outbox<typename TypeParam::Device>> out;
        out.reserve(members);
        std::vector<Outbox<typename TypeParam::Device> *> outboxes;
        for (unsigned other = 0; other < members; ++other) {
            self.inbox.expect(other, stream(other, self.number));
            out.push_back(self.outbox(other, stream(self.number, other)));
            outboxes.push_back(&out.back());
        }
        self.complete(outboxes);
    });
}

TYPED_TEST_P(Conformance, TalksToItself)
{
    this->run(1, [](auto &self) {
        Stream stream = TestFixture::all_sizes();
        Stream flood = random_stream(1, scaled(5'000), self.device().capabilities().largest_header, 300'000);
        stream.insert(stream.end(), flood.begin(), flood.end());
        self.inbox.expect(0, stream);
        auto out = self.outbox(0, stream);
        self.complete({&out});
        EXPECT_EQ(self.device().poll(), 0u);
    });
}

TYPED_TEST_P(Conformance, ASinkMaySend)
{
    this->run(2, [](auto &self) {
        Stream stream = random_stream(9, scaled(3'000), 64, 100'000);
        unsigned other = 1 - self.number;
        self.inbox.expect(other, stream);
        auto out = self.outbox(other, stream);
        // The first process starts; every message that is complete is answered from within the sink, as far as the device
        // takes it; the rest goes later.
        std::size_t allowed = self.number == 0 ? 8 : 0;
        auto send_allowed = [&] {
            bool taken = true;
            while (taken && !out.done() && out.sent() < allowed)
                taken = out.step() == Status::ok;
        };
        self.inbox.when_complete([&](unsigned, std::size_t) {
            ++allowed;
            send_allowed();
        });
        while (!out.done() || !self.inbox.complete()) {
            send_allowed();
            self.poll();
        }
        self.complete({});
    });
}

TYPED_TEST_P(Conformance, ConnectsAgainAfterDisconnecting)
{
    this->run(2, [](auto &self) {
        constexpr unsigned rounds = 20;
        Stream stream = random_stream(3, 20, 64, 20'000);
        if (self.number == 1) {
            Stream all;
            for (unsigned i = 0; i < rounds; ++i)
                all.insert(all.end(), stream.begin(), stream.end());
            self.inbox.expect(0, all);
            for (unsigned i = 1; i <= rounds; ++i) {
                self.poll_until([&] { return self.inbox.received(0) == i * stream.size(); });
                self.board.signals[0].add();
            }
            return self.complete({});
        }
        auto &device = self.device();
        Stream sent;
        for (unsigned i = 1; i <= rounds; ++i) {
            auto connected = device.connect(self.board.cards[1], self.board.card_sizes[1]);
            ASSERT_TRUE(connected.ok()) << connected.error().text;
            // An outbox numbers its messages from 0: let it skip what was sent before.
            sent.insert(sent.end(), stream.begin(), stream.end());
            Outbox<typename TypeParam::Device> out(device, connected.value(), 0, 1, sent);
            out.skip((i - 1) * stream.size());
            while (!out.done())
                self.work({&out});
            self.board.signals[0].wait_for(i);
            device.disconnect(connected.value());
        }
        self.complete({});
    });
}

// ---- back-pressure -----------------------------------------------------------------------------------------------------

// A receiver that does not poll must not cost memory without end: the device says "again", and forgets nothing.
TYPED_TEST_P(Conformance, HoldsASenderBackWhenTheReceiverDoesNotPoll)
{
    for (Shape shape : {Shape{8, 8}, Shape{8, 1000}, Shape{200, 100'000}, Shape{0, 3'000'000, true}})
        this->run(2, [&](auto &self) {
            std::size_t count = std::max<std::size_t>(10, 30'000'000 / (shape.payload_size + 1000) / test::slowdown);
            Stream stream(count, shape);
            if (self.number == 1) {
                self.inbox.expect(0, stream);
                self.board.signals[0].wait_for(1);
                EXPECT_EQ(self.inbox.received(0), 0u) << "nothing is delivered outside of poll";
                return self.complete({});
            }
            auto out = self.outbox(1, stream);
            // Full is when many tries in a row get no message through.
            for (unsigned refused = 0; refused < 1000; ++refused) {
                if (out.step() == Status::ok)
                    refused = 0;
                ASSERT_FALSE(out.done()) << "everything was accepted, but nobody reads";
            }
            self.board.signals[0].add();
            self.complete({&out});
        });
}

// ---- cards -------------------------------------------------------------------------------------------------------------

// A card with a wrong bit is refused, unless the device reaches the owner all the same: not every bit says where it is, and a
// process may have several numbers, those of its threads.
TYPED_TEST_P(Conformance, RefusesACardThatDiffersInOneBit)
{
    this->run(2, [](auto &self) {
        Stream stream(8 * max_card_size, Shape{8, 8});
        auto &received = self.board.signals[0];
        auto &over = self.board.signals[1];
        if (self.number == 1) {
            self.inbox.expect(0, stream);
            self.inbox.when_complete([&](unsigned, std::size_t) { received.add(); });
            return self.poll_until([&] { return over.value() == 1; });
        }
        std::byte card[max_card_size];
        std::size_t refused = 0;
        for (std::size_t bit = 0; bit < 8 * self.board.card_sizes[1]; ++bit) {
            std::memcpy(card, self.board.cards[1], sizeof card);
            card[bit / 8] ^= std::byte{1} << bit % 8;
            auto peer = self.device().connect(card, self.board.card_sizes[1]);
            if (peer.ok()) {
                Outbox<typename TypeParam::Device> out(self.device(), peer.value(), 0, 1, stream);
                std::uint32_t before = received.value();
                out.skip(before);
                EXPECT_EQ(out.step(), Status::ok) << "bit " << bit;
                received.wait_for(before + 1);
                self.device().disconnect(peer.value());
                continue;
            }
            ++refused;
            EXPECT_NE(peer.error().status, Status::ok);
            EXPECT_NE(peer.error().text.find(' '), std::string::npos) << "a sentence: " << peer.error().text;
        }
        EXPECT_GE(refused, 64u) << "at least a token of that size is on the card";
        over.add();
    });
}

TYPED_TEST_P(Conformance, RefusesACardOfTheWrongSize)
{
    this->run(1, [](auto &self) {
        for (std::size_t size : {std::size_t{0}, std::size_t{1}, self.board.card_sizes[0] - 1, self.board.card_sizes[0] + 1}) {
            auto peer = self.device().connect(self.board.cards[0], size);
            ASSERT_FALSE(peer.ok()) << size;
            EXPECT_NE(peer.error().text.find(' '), std::string::npos) << "a sentence: " << peer.error().text;
        }
    });
}

TYPED_TEST_P(Conformance, RefusesACardOfNobody)
{
    this->run(
        2,
        [](auto &self) {
            if (self.number == 1)
                raise(SIGKILL);
            while (kill(self.board.process[1], 0) == 0)
                sched_yield();
            auto peer = self.device().connect(self.board.cards[1], self.board.card_sizes[1]);
            ASSERT_FALSE(peer.ok());
            EXPECT_EQ(peer.error().status, Status::unreachable);
            EXPECT_NE(peer.error().text.find(' '), std::string::npos) << "a sentence: " << peer.error().text;
        },
        {1});
}

// ---- death of a peer ---------------------------------------------------------------------------------------------------

// The sender dies with a long message half sent: what was complete arrives, the rest never, others are not disturbed.
TYPED_TEST_P(Conformance, ASenderKilledInMidSendDisturbsNobody)
{
    this->run(
        3,
        [](auto &self) {
            Stream doomed{{8, 100}, {8, 20'000}, {8, 30'000'000}};
            Stream other = random_stream(2, scaled(2'000), 64, 100'000);
            if (self.number == 1) {
                auto out = self.outbox(0, doomed);
                for (unsigned refused = 0; refused < 1000; ++refused)
                    if (out.step() == Status::ok)
                        refused = 0;
                EXPECT_TRUE(out.in_the_middle());
                self.board.signals[0].add();
                raise(SIGKILL);
            }
            self.board.signals[0].wait_for(1);
            while (kill(self.board.process[1], 0) == 0)
                sched_yield();
            if (self.number == 2) {
                auto out = self.outbox(0, other);
                while (!out.done())
                    self.work({&out});
                self.board.signals[1].wait_for(1);
                return;
            }
            self.inbox.expect(1, doomed);
            self.inbox.expect(2, other);
            self.poll_until([&] { return self.inbox.received(2) == other.size(); });
            for (int i = 0; i < 100; ++i)
                self.poll();
            EXPECT_EQ(self.inbox.received(1), 2u);
            self.board.signals[1].add();
        },
        {1});
}

// Killed while it runs, wherever that is.
TYPED_TEST_P(Conformance, ASenderKilledAtAnyMomentLeavesWholeMessagesInOrder)
{
    constexpr unsigned senders = 8;
    this->run(
        senders + 1,
        [](auto &self) {
            std::size_t largest = self.device().capabilities().largest_header;
            auto stream_of = [&](unsigned sender) { return random_stream(sender, 100'000, largest, 100'000); };
            if (self.number > 0) {
                auto out = self.outbox(0, stream_of(self.number));
                while (!out.done())
                    self.work({&out});
                ADD_FAILURE() << "was not killed";
                return;
            }
            std::vector<std::size_t> limits{0};
            for (unsigned sender = 1; sender <= senders; ++sender) {
                self.inbox.expect(sender, stream_of(sender));
                limits.push_back(test::Random(sender).between(1, scaled(1'000)));
            }
            std::vector<bool> killed(senders + 1);
            self.inbox.when_complete([&](unsigned sender, std::size_t number) {
                if (number >= limits[sender] && !killed[sender]) {
                    kill(self.board.process[sender], SIGKILL);
                    killed[sender] = true;
                }
            });
            for (unsigned sender = 1; sender <= senders; ++sender)
                self.poll_until([&] { return killed[sender] && kill(self.board.process[sender], 0) != 0; });
            while (self.device().poll() > 0) {
            }
            // The inbox has checked order and bytes. A new sender is served as if nothing had been.
            self.inbox.when_complete(nullptr);
            Stream own = random_stream(99, 100, largest, 50'000);
            self.inbox.expect(0, own);
            auto out = self.outbox(0, own);
            while (!out.done() || self.inbox.received(0) < own.size())
                self.work({&out});
        },
        {1, 2, 3, 4, 5, 6, 7, 8});
}

TYPED_TEST_P(Conformance, AReceiverThatDiedCrashesNobodyAndHoldsUpNobodyElse)
{
    this->run(
        3,
        [](auto &self) {
            Stream stream(scaled(5'000), Shape{8, 2'000});
            Stream endless(1'000'000, Shape{8, 20'000});
            if (self.number == 1) {
                self.inbox.expect(0, endless);
                self.poll_until([&] { return self.inbox.received(0) > 50; });
                raise(SIGKILL);
            }
            if (self.number == 2) {
                self.inbox.expect(0, stream);
                self.poll_until([&] { return self.inbox.complete(); });
                self.board.signals[0].add();
                return;
            }
            auto to_dead = self.outbox(1, endless);
            while (kill(self.board.process[1], 0) == 0)
                self.work({&to_dead});
            // From now on every answer but "ok for ever" will do: "again", or an error.
            auto to_living = self.outbox(2, stream);
            bool refused = false;
            while (!to_living.done()) {
                if (!refused) {
                    Status status = to_dead.step();
                    refused = status != Status::ok && status != Status::again;
                }
                self.work({&to_living});
            }
            EXPECT_FALSE(to_dead.done());
            // A peer of a dead process can be made no more, and can be given up.
            auto peer = self.device().connect(self.board.cards[1], self.board.card_sizes[1]);
            EXPECT_FALSE(peer.ok());
            self.board.signals[0].wait_for(1);
        },
        {1});
}

// ---- sleeping ----------------------------------------------------------------------------------------------------------

TYPED_TEST_P(Conformance, ArmsOnlyWhenThereIsNothingToPoll)
{
    this->run(1, [](auto &self) {
        auto &device = self.device();
        EXPECT_TRUE(device.arm());
        device.disarm();
        self.inbox.expect(0, {{8, 8}});
        auto out = self.outbox(0, {{8, 8}});
        while (!out.done())
            (void) out.step();
        EXPECT_FALSE(device.arm());
        device.disarm();
        self.complete({});
        self.poll_until([&] { return device.poll() == 0; });
        EXPECT_TRUE(device.arm());
        device.sleep(1ms);  // ends by itself
        device.disarm();
    });
}

TYPED_TEST_P(Conformance, DoesNotSleepOverAMessageThatCameAfterArming)
{
    this->run(1, [](auto &self) {
        auto &device = self.device();
        self.inbox.expect(0, {{8, 8}, {8, 8}});
        auto out = self.outbox(0, {{8, 8}, {8, 8}});
        while (out.sent() < 1)
            (void) out.step();
        self.poll_until([&] { return self.inbox.received(0) == 1; });
        self.poll_until([&] { return device.poll() == 0; });
        ASSERT_TRUE(device.arm());
        while (!out.done())
            (void) out.step();
        device.sleep(no_time_limit);
        device.disarm();
        self.complete({});
    });
}

// Both sleep between two messages, and neither sleep ends by itself: a wake-up that is lost is a hang.
TYPED_TEST_P(Conformance, WakesASleeperEveryTime)
{
    this->run(2, [](auto &self) {
        std::size_t rounds = scaled(5'000);
        unsigned other = 1 - self.number;
        Stream stream = random_stream(4, rounds, 32, 20'000);
        self.inbox.expect(other, stream);
        auto out = self.outbox(other, stream);
        auto &device = self.device();
        for (std::size_t round = 0; round < rounds; ++round) {
            auto receive = [&] {
                while (self.inbox.received(other) <= round) {
                    if (device.poll() > 0)
                        continue;
                    if (device.arm())
                        device.sleep(no_time_limit);
                    device.disarm();
                }
            };
            if (self.number == 1)
                receive();
            while (out.sent() <= round)
                self.work({&out});
            if (self.number == 0)
                receive();
        }
        self.complete({});
    });
}

TYPED_TEST_P(Conformance, ASleeperIsWokenByAnyOfManySenders)
{
    constexpr unsigned senders = 36;
    this->run(senders + 1, [](auto &self) {
        Stream stream(scaled(50), Shape{8, 8});
        if (self.number > 0) {
            auto out = self.outbox(0, stream);
            // One message, then wait until it was received: the receiver sleeps most of the time.
            for (std::size_t i = 0; i < stream.size(); ++i) {
                while (out.sent() <= i)
                    self.work({&out});
                self.board.signals[0].wait_for(static_cast<std::uint32_t>(i * senders));
            }
            return self.complete({});
        }
        for (unsigned sender = 1; sender <= senders; ++sender)
            self.inbox.expect(sender, stream);
        self.inbox.when_complete([&](unsigned, std::size_t) { self.board.signals[0].add(); });
        auto &device = self.device();
        while (!self.inbox.complete()) {
            if (device.poll() > 0)
                continue;
            if (device.arm())
                device.sleep(no_time_limit);
            device.disarm();
        }
        self.complete({});
    });
}

// ---- memory ------------------------------------------------------------------------------------------------------------

TYPED_TEST_P(Conformance, MemoryGrowsWithThePairsThatTalk)
{
    this->run(10, [](auto &self) {
        Stream stream{{8, 8}, {8, 32}};
        auto talk = [&](unsigned first, unsigned last) {
            if (self.number >= first && self.number <= last) {
                auto out = self.outbox(0, stream);
                while (!out.done())
                    self.work({&out});
            }
            if (self.number == 0) {
                for (unsigned sender = first; sender <= last; ++sender)
                    self.inbox.expect(sender, stream);
                self.poll_until([&] { return self.inbox.complete(); });
            }
        };
        // While nobody does anything.
        auto measure = [&] {
            self.meet();
            std::size_t memory = TypeParam::memory(self.device());
            self.meet();
            return memory;
        };
        if (self.number > 0)
            self.connect(0);
        std::size_t silent = measure();
        talk(1, 1);
        std::size_t one = measure();
        talk(2, 5);
        std::size_t five = measure();
        if (self.number > 0)
            return;
        if (silent == 0)
            GTEST_SKIP() << self.device().name() << " does not know its memory";
        EXPECT_GT(one, silent);
        EXPECT_LE(silent, std::size_t{64 * 1024}) << "nine peers know this process, none has sent anything";
        EXPECT_EQ(five - one, 4 * (one - silent)) << "four more that talk, four that do not";
    });
}

// All are killed at once, in the middle of everything: no name appears in /dev/shm, and its memory is free again.
TYPED_TEST_P(Conformance, LeavesNothingBehindWhenAllAreKilled)
{
    test::in_a_process(time_limit, [] {
        if (std::string reason = test::enter_private_devshm("64m"); !reason.empty())
            GTEST_SKIP() << reason;
        struct statvfs before {}, after {};
        ASSERT_EQ(statvfs("/dev/shm", &before), 0);
        constexpr unsigned members = 4;
        {
            test::Shared<Board> board;
            test::Processes processes(members, time_limit, [&](unsigned number) {
                Member<TypeParam> self(number, members, *board);
                Stream stream(1'000'000, Shape{8, 50'000});
                unsigned next = (number + 1) % members;
                self.inbox.expect((number + members - 1) % members, stream);
                auto out = self.outbox(next, stream);
                while (true) {
                    self.work({&out});
                    if (out.sent() == 20)
                        board->signals[0].add();
                }
            });
            board->signals[0].wait_for(members);
            EXPECT_TRUE(test::names_in_devshm().empty()) << "while they run";
            for (unsigned number = 0; number < members; ++number) {
                processes.expect_killed(number);
                kill(processes.id(number), SIGKILL);
            }
            processes.wait();
        }
        EXPECT_TRUE(test::names_in_devshm().empty());
        ASSERT_EQ(statvfs("/dev/shm", &after), 0);
        EXPECT_EQ(after.f_bfree, before.f_bfree);
    });
}

REGISTER_TYPED_TEST_SUITE_P(Conformance, SaysItsNameAndFitsItsCard, DeliversPayloadsOfAllSizes, DeliversHeadersOfAllSizes,
                            DeliversPackedPayloads, SurvivesAFloodInBothDirections,
                            KeepsTheOrderOfEverySenderWhenManySendToOne, EverybodyTalksToEverybody, TalksToItself, ASinkMaySend,
                            ConnectsAgainAfterDisconnecting, HoldsASenderBackWhenTheReceiverDoesNotPoll,
                            RefusesACardThatDiffersInOneBit, RefusesACardOfTheWrongSize, RefusesACardOfNobody,
                            ASenderKilledInMidSendDisturbsNobody, ASenderKilledAtAnyMomentLeavesWholeMessagesInOrder,
                            AReceiverThatDiedCrashesNobodyAndHoldsUpNobodyElse, ArmsOnlyWhenThereIsNothingToPoll,
                            DoesNotSleepOverAMessageThatCameAfterArming, WakesASleeperEveryTime,
                            ASleeperIsWokenByAnyOfManySenders, MemoryGrowsWithThePairsThatTalk,
                            LeavesNothingBehindWhenAllAreKilled);

// The names of the kits instead of numbers.
struct KitNames {
    template <class Kit>
    static std::string GetName(int)
    {
        return Kit::name;
    }
};

}  // namespace pm::conform
