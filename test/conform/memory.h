// Memory follows the pairs that talk, and nothing of it is left behind.
#pragma once

#include <sys/statvfs.h>

#include "conform/team.h"
#include "support/private_devshm.h"

namespace pm::conform {

template <class Kit>
class Memory : public Team<Kit> {};
TYPED_TEST_SUITE_P(Memory);

TYPED_TEST_P(Memory, MemoryGrowsWithThePairsThatTalk)
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

// Connect, talk, disconnect, again and again: everything arrives, and nothing grows.
TYPED_TEST_P(Memory, WhatAPeerCostsIsGivenBackWhenItDisconnects)
{
    this->run(2, [](auto &self) {
        const unsigned rounds = static_cast<unsigned>(scaled(TypeParam::rounds_of_disconnecting));
        const auto stream = [](unsigned rounds) {
            Stream all;
            for (unsigned round = 0; round < rounds; ++round) {
                all.push_back({8, 8});
                all.push_back({8, 20'000});
            }
            return all;
        };
        auto wait_for = [&](unsigned signal, unsigned least) {
            self.poll_until([&] { return self.board.signals[signal].value() >= least; });
        };
        if (self.number == 1) {
            for (unsigned round = 1; round <= rounds; ++round) {
                auto out = self.outbox(0, stream(round));
                out.skip(2 * (round - 1));
                while (!out.done())
                    self.work({&out});
                wait_for(0, round);
                self.disconnect();
                self.board.signals[1].add();
                wait_for(2, round);
            }
            return;
        }
        std::size_t memory = 0;
        self.inbox.expect(1, stream(rounds));
        for (unsigned round = 1; round <= rounds; ++round) {
            self.poll_until([&] { return self.inbox.received(1) == 2 * round; });
            self.board.signals[0].add();
            wait_for(1, round);
            for (int i = 0; i < 10; ++i)
                self.poll();
            if (round == 1)
                memory = TypeParam::memory(self.device());
            ASSERT_EQ(TypeParam::memory(self.device()), memory) << "in round " << round;
            self.board.signals[2].add();
        }
    });
}

// All are killed at once, in the middle of everything: no name appears in /dev/shm, and its memory is free again.
TYPED_TEST_P(Memory, LeavesNothingBehindWhenAllAreKilled)
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

REGISTER_TYPED_TEST_SUITE_P(Memory, MemoryGrowsWithThePairsThatTalk, WhatAPeerCostsIsGivenBackWhenItDisconnects,
                            LeavesNothingBehindWhenAllAreKilled);

}  // namespace pm::conform
