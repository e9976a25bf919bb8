// arm(), sleep(), disarm(): a receiver that sleeps is woken, whoever sends and whenever.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "conform/team.h"

namespace pm::conform {

template <class Kit>
class Sleeping : public Team<Kit> {
  protected:
    // A first message, to ourselves, and everything that comes with a first message.
    template <class Self, class Out>
    static void send_first(Self &self, Out &out)
    {
        while (out.sent() < 1)
            self.work({&out});
        self.poll_until([&] { return self.inbox.received(0) == 1; });
    }

    // Polls until there is nothing left, and arms.
    template <class Self>
    static void arm(Self &self)
    {
        while (!self.device().arm()) {
            self.device().disarm();
            self.poll();
        }
    }
};
TYPED_TEST_SUITE_P(Sleeping);

TYPED_TEST_P(Sleeping, ArmsOnlyWhenThereIsNothingToPoll)
{
    this->run(1, [](auto &self) {
        auto &device = self.device();
        EXPECT_TRUE(device.arm());
        device.disarm();
        self.inbox.expect(0, {{8, 8}, {8, 8}});
        auto out = self.outbox(0, {{8, 8}, {8, 8}});
        TestFixture::send_first(self, out);
        ASSERT_EQ(out.step(), Status::ok);
        EXPECT_FALSE(device.arm());
        device.disarm();
        self.complete({});
        TestFixture::arm(self);
        device.sleep(1ms);  // ends by itself
        device.disarm();
    });
}

TYPED_TEST_P(Sleeping, DoesNotSleepOverAMessageThatCameAfterArming)
{
    this->run(1, [](auto &self) {
        auto &device = self.device();
        self.inbox.expect(0, {{8, 8}, {8, 8}});
        auto out = self.outbox(0, {{8, 8}, {8, 8}});
        TestFixture::send_first(self, out);
        TestFixture::arm(self);
        ASSERT_EQ(out.step(), Status::ok);
        device.sleep(no_time_limit);
        device.disarm();
        self.complete({});
    });
}

// Both sleep between two messages, and neither sleep ends by itself: a wake-up that is lost is a hang.
TYPED_TEST_P(Sleeping, WakesASleeperEveryTime)
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

TYPED_TEST_P(Sleeping, ASleeperIsWokenByAnyOfManySenders)
{
    constexpr unsigned senders = 36;
    this->run(senders + 1, [](auto &self) {
        Stream stream(scaled(50), Shape{8, 8});
        if (self.number > 0) {
            auto out = self.outbox(0, stream);
            // One message, then wait until it was received: the receiver sleeps most of the time. A sender polls, for a device may keep
            // what was sent until there is room.
            for (std::size_t i = 0; i < stream.size(); ++i) {
                while (out.sent() <= i)
                    self.work({&out});
                self.board.signals[0].wait_for(static_cast<std::uint32_t>(i * senders), [&] { self.work({}); });
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

// One thread polls, and arms and sleeps without the lock; the other sends meanwhile, and waits for nothing but what the first has
// received. No sleep ends by itself, and both processes do it.
TYPED_TEST_P(Sleeping, AnotherThreadArmsAndSleepsWithoutTheLock)
{
    this->run(2, [](auto &self) {
        const std::size_t rounds = scaled(300);
        const unsigned other = 1 - self.number;
        Stream stream = random_stream(6, rounds, 32, 20'000);
        self.inbox.expect(other, stream);
        // The last message to ourselves is what ends the sleeper.
        self.inbox.expect(self.number, {{8, 8}, {8, 8}});
        auto out = self.outbox(other, stream), own = self.outbox(self.number, {{8, 8}, {8, 8}});
        while (own.sent() < 1 || self.inbox.received(self.number) < 1)
            self.work({&own});
        // The other may have begun while we were waiting for ourselves.
        std::atomic<std::size_t> received{self.inbox.received(other)};
        self.inbox.when_complete([&](unsigned sender, std::size_t) {
            if (sender == other)
                received.fetch_add(1, std::memory_order_release);
        });
        auto &device = self.device();
        std::mutex lock;
        std::thread sleeper([&] {
            while (true) {
                {
                    std::lock_guard locked(lock);
                    while (device.poll() > 0) {
                    }
                    if (self.inbox.received(self.number) == 2 && received.load(std::memory_order_relaxed) == rounds)
                        return;
                }
                if (device.arm())
                    device.sleep(no_time_limit);
                device.disarm();
            }
        });
        auto send_next = [&](auto &to) {
            std::lock_guard locked(lock);
            Status status = to.step();
            if (status != Status::ok && status != Status::again)
                fail("a message to a living peer was refused: " + to.error());
        };
        for (std::size_t round = 0; round < rounds; ++round) {
            auto receive = [&] {
                while (received.load(std::memory_order_acquire) <= round)
                    sched_yield();
            };
            if (self.number == 1)
                receive();
            while (out.sent() <= round) {
                send_next(out);
                sched_yield();
            }
            if (self.number == 0)
                receive();
        }
        while (!own.done())
            send_next(own);
        sleeper.join();
        self.complete({});
    });
}

REGISTER_TYPED_TEST_SUITE_P(Sleeping, AnotherThreadArmsAndSleepsWithoutTheLock, ArmsOnlyWhenThereIsNothingToPoll, DoesNotSleepOverAMessageThatCameAfterArming,
                            WakesASleeperEveryTime, ASleeperIsWokenByAnyOfManySenders);

}  // namespace pm::conform
