// A peer may be killed at any moment: nobody hangs, nobody crashes, and what was complete arrives.
#pragma once

#include "base/clock.h"
#include "conform/team.h"

namespace pm::conform {

template <class Kit>
class Death : public Team<Kit> {};
TYPED_TEST_SUITE_P(Death);

// For kits of which what lies below the device notices that a process ended without a word, and survives it whatever that process was doing.
template <class Kit>
class DeathNoticed : public Team<Kit> {
  protected:
    // That a peer is gone: longer than the devices take with the settings of their kits. A sanitizer has nothing to look at meanwhile.
    static constexpr auto time_to_notice = test::slowdown > 1 ? 300ms : 2000ms;
};
TYPED_TEST_SUITE_P(DeathNoticed);

// The sender dies with a long message half sent: what was complete arrives, the rest never, others are not disturbed.
TYPED_TEST_P(Death, ASenderKilledInMidSendDisturbsNobody)
{
    this->run(
        3,
        [](auto &self) {
            Stream doomed{{8, 100}, {8, 20'000}, {8, 30'000'000}};
            Stream other = random_stream(2, scaled(2'000), 64, 100'000);
            if (self.number == 1) {
                auto out = self.outbox(0, doomed);
                while (out.sent() < 2)
                    self.work({&out});
                self.poll_until([&] { return self.board.signals[2].value() == 1; });
                for (unsigned refused = 0; refused < 1000; ++refused) {
                    if (out.step() == Status::ok)
                        refused = 0;
                    self.device().poll();
                }
                EXPECT_TRUE(out.in_the_middle());
                self.board.signals[0].add();
                raise(SIGKILL);
            }
            if (self.number == 0) {
                self.inbox.expect(1, doomed);
                self.poll_until([&] { return self.inbox.received(1) == 2; });
                self.board.signals[2].add();
            }
            self.board.signals[0].wait_for(1);
            while (kill(self.board.process[1], 0) == 0)
                sched_yield();
            if (self.number == 2) {
                auto out = self.outbox(0, other);
                while (!out.done())
                    self.work({&out});
                return self.poll_until([&] { return self.board.signals[1].value() == 1; });
            }
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
TYPED_TEST_P(DeathNoticed, ASenderKilledAtAnyMomentLeavesWholeMessagesInOrder)
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

TYPED_TEST_P(Death, AReceiverThatDiedCrashesNobodyAndHoldsUpNobodyElse)
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
            bool refused = false;
            auto try_dead = [&] {
                if (refused)
                    return;
                Status status = to_dead.step();
                refused = status != Status::ok && status != Status::again;
            };
            while (kill(self.board.process[1], 0) == 0) {
                try_dead();
                self.poll();
            }
            // From now on every answer but "ok for ever" will do: "again", or an error.
            auto to_living = self.outbox(2, stream);
            while (!to_living.done()) {
                try_dead();
                self.work({&to_living});
            }
            EXPECT_FALSE(to_dead.done());
            // A peer of a dead process can be made no more, once the device has found out, and can be given up.
            auto peer = self.device().connect(self.board.cards[1], self.board.card_sizes[1]);
            Status answer = Status::unreachable;
            while (peer.ok() && (answer = self.answer_of(peer.value(), 1)) == Status::ok)
                self.poll();
            EXPECT_EQ(answer, Status::unreachable);
            self.poll_until([&] { return self.board.signals[0].value() == 1; });
        },
        {1});
}

// failure(): not while all is well, not when a peer leaves in order, but when one that was talked to dies without a word; and it says who
// in a sentence. Nothing is sent meanwhile.
TYPED_TEST_P(DeathNoticed, FailureTellsOfAPeerThatDiedAndNotOfOneThatLeft)
{
    this->run(
        3,
        [](auto &self) {
            auto &device = self.device();
            const Stream stream{{8, 8}, {8, 50'000}};
            for (unsigned other = 0; other < 3; ++other)
                if (other != self.number && (other == 0 || self.number == 0))
                    self.inbox.expect(other, stream);
            auto talk_with = [&](unsigned other) {
                auto out = self.outbox(other, stream);
                while (!out.done() || self.inbox.received(other) < stream.size())
                    self.work({&out});
            };
            if (self.number > 0) {
                talk_with(0);
                self.board.signals[0].add();
                if (self.number == 1) {
                    self.poll_until([&] { return self.board.signals[1].value() == 1; });
                    raise(SIGKILL);
                }
                // In order: until the other has all of it.
                self.poll_until([&] { return self.board.signals[0].value() == 3; });
                if constexpr (Leaves<std::remove_reference_t<decltype(device)>>)
                    device.leave();
                return self.disconnect();
            }
            talk_with(1);
            talk_with(2);
            self.board.signals[0].add();
            auto look = [&] {
                self.poll();
                if constexpr (LooksAfterPeers<std::remove_reference_t<decltype(device)>>)
                    device.look_after_peers(clock_now());
            };
            auto is_there = [&](unsigned number) { return kill(self.board.process[number], 0) == 0; };
            while (is_there(2))
                look();
            for (auto end = clock_now() + TestFixture::time_to_notice; clock_now() < end;)
                look();
            ASSERT_EQ(device.failure(), nullptr) << "of one that left: " << device.failure()->text;
            self.board.signals[1].add();
            while (device.failure() == nullptr)
                look();
            // Its sockets are closed before the process is gone.
            while (is_there(1))
                look();
            EXPECT_NE(device.failure()->status, Status::ok);
            EXPECT_NE(device.failure()->text.find(' '), std::string::npos) << "a sentence: " << device.failure()->text;
        },
        {1});
}

REGISTER_TYPED_TEST_SUITE_P(Death, ASenderKilledInMidSendDisturbsNobody, AReceiverThatDiedCrashesNobodyAndHoldsUpNobodyElse);
REGISTER_TYPED_TEST_SUITE_P(DeathNoticed, FailureTellsOfAPeerThatDiedAndNotOfOneThatLeft, ASenderKilledAtAnyMomentLeavesWholeMessagesInOrder);

}  // namespace pm::conform
