// What arrives: every message that was accepted, exactly once, in order per peer, with all its bytes; and no more than the receiver
// takes.
#pragma once

#include "conform/team.h"

namespace pm::conform {

template <class Kit>
class Delivery : public Team<Kit> {};
TYPED_TEST_SUITE_P(Delivery);

TYPED_TEST_P(Delivery, SaysItsNameAndFitsItsCard)
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

TYPED_TEST_P(Delivery, DeliversPayloadsOfAllSizes)
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

TYPED_TEST_P(Delivery, DeliversHeadersOfAllSizes)
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

TYPED_TEST_P(Delivery, DeliversPackedPayloads)
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

TYPED_TEST_P(Delivery, SurvivesAFloodInBothDirections)
{
    this->run(2, [](auto &self) {
        std::size_t largest = self.device().capabilities().largest_header;
        unsigned other = 1 - self.number;
        self.inbox.expect(other, random_stream(other, scaled(20'000), largest, 200'000));
        auto out = self.outbox(other, random_stream(self.number, scaled(20'000), largest, 200'000));
        self.complete({&out});
    });
}

TYPED_TEST_P(Delivery, KeepsTheOrderOfEverySenderWhenManySendToOne)
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

TYPED_TEST_P(Delivery, EverybodyTalksToEverybody)
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

TYPED_TEST_P(Delivery, TalksToItself)
{
    this->run(1, [](auto &self) {
        Stream stream = TestFixture::all_sizes();
        Stream flood = random_stream(1, scaled(5'000), self.device().capabilities().largest_header, 300'000);
        stream.insert(stream.end(), flood.begin(), flood.end());
        self.inbox.expect(0, stream);
        auto out = self.outbox(0, stream);
        self.complete({&out});
        self.poll_until([&] { return self.device().poll() == 0; });
    });
}

TYPED_TEST_P(Delivery, ASinkMaySend)
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

TYPED_TEST_P(Delivery, ConnectsAgainAfterDisconnecting)
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

// A receiver that does not poll must not cost memory without end: the device says "again", and forgets nothing.
TYPED_TEST_P(Delivery, HoldsASenderBackWhenTheReceiverDoesNotPoll)
{
    using Kit = TypeParam;
    for (Shape shape : {Shape{8, 8}, Shape{8, 1000}, Shape{200, 100'000}, Shape{0, 3'000'000, true}})
        this->run(2, [&](auto &self) {
            // More than any device and what lies below it can hold.
            std::size_t count = std::max<std::size_t>(10, 30'000'000 / (shape.payload_size + 1000) / test::slowdown);
            count = std::max(count, Kit::bytes_in_flight / (shape.payload_size + shape.header_size + 1));
            Stream stream(count, shape);
            if (self.number == 1) {
                self.inbox.expect(0, stream);
                self.poll_until([&] { return self.inbox.received(0) > 0; });
                std::size_t received = self.inbox.received(0);
                self.board.signals[1].add();
                self.board.signals[0].wait_for(1);
                EXPECT_EQ(self.inbox.received(0), received) << "nothing is delivered outside of poll";
                self.inbox.expect_only(0, self.board.word);
                return self.complete({});
            }
            auto out = self.outbox(1, stream);
            while (out.sent() < 1)
                self.work({&out});
            self.poll_until([&] { return self.board.signals[1].value() == 1; });
            // Full is when many tries in a row get no message through.
            for (unsigned refused = 0; refused < 1000; ++refused) {
                if (out.step() == Status::ok)
                    refused = 0;
                self.device().poll();
                ASSERT_FALSE(out.done()) << "everything was accepted, but nobody reads";
            }
            // What was held back goes on; the rest of so long a stream would only take time.
            self.board.word = std::min(out.size(), out.sent() + 1000);
            out.end_after(self.board.word);
            self.board.signals[0].add();
            self.complete({&out});
        });
}

TYPED_TEST_P(Delivery, PullsFromThePeersMemoryWhereItCan)
{
    this->run(2, [](auto &self) {
        constexpr std::size_t size = 3'000'000;
        auto memory = test::pattern(self.number, size);
        if (self.number == 1)
            self.board.word = reinterpret_cast<std::uint64_t>(memory.data());
        self.meet();
        auto &device = self.device();
        if constexpr (requires(iovec piece) { device.pull(self.connect(1), std::uint64_t{}, &piece, 1); }) {
            if (self.number == 0) {
                std::vector<std::byte> copy(size);
                iovec pieces[] = {{copy.data(), 1000}, {nullptr, 0}, {copy.data() + 1000, size - 1000}};
                if (!device.pull(self.connect(1), self.board.word, pieces, 3))
                    GTEST_SKIP() << "this kernel or container does not let a process read another's memory";
                EXPECT_EQ(test::first_difference(1, 0, copy.data(), size), test::no_difference);
                EXPECT_FALSE(device.pull(self.connect(1), 8, pieces, 3)) << "there is nothing at that address";
            }
        } else {
            EXPECT_FALSE(SharesMemory<std::remove_reference_t<decltype(device)>>) << "but it cannot pull";
        }
        self.meet();
    });
}

// Every inbox looks at the sources of all messages; here they change. The receiver never connects to the sender.
TYPED_TEST_P(Delivery, NamesASenderOnceItIsIntroduced)
{
    this->run(2, [](auto &self) {
        const Stream part{{8, 8}, {0, 1000}, {64, 300'000}};
        Stream all;
        for (unsigned round = 0; round < 3; ++round)
            all.insert(all.end(), part.begin(), part.end());
        if (self.number == 1) {
            self.inbox.expect(0, all);
            for (unsigned round = 0; round < 3; ++round) {
                self.introduce(0, round == 1);
                self.board.signals[0].add();
                self.poll_until([&] { return self.inbox.received(0) == (round + 1) * part.size(); });
            }
            return self.complete({});
        }
        auto out = self.outbox(1, all);
        for (unsigned round = 0; round < 3; ++round) {
            self.poll_until([&] { return self.board.signals[0].value() > round; });
            while (out.sent() < (round + 1) * part.size())
                self.work({&out});
        }
        self.complete({&out});
    });
}

REGISTER_TYPED_TEST_SUITE_P(Delivery, SaysItsNameAndFitsItsCard, DeliversPayloadsOfAllSizes, DeliversHeadersOfAllSizes,
                            DeliversPackedPayloads, SurvivesAFloodInBothDirections,
                            KeepsTheOrderOfEverySenderWhenManySendToOne, EverybodyTalksToEverybody, TalksToItself,
                            ASinkMaySend, ConnectsAgainAfterDisconnecting, HoldsASenderBackWhenTheReceiverDoesNotPoll,
                            PullsFromThePeersMemoryWhereItCan, NamesASenderOnceItIsIntroduced);

}  // namespace pm::conform
