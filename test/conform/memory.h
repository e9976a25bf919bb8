// Memory follows the pairs that talk, and nothing of it is left behind.
#pragma once

#include <sys/statvfs.h>

#include "conform/team.h"
#include "support/possessions.h"
#include "support/private_devshm.h"

namespace pm::conform {

template <class Kit>
class Memory : public Team<Kit> {};
TYPED_TEST_SUITE_P(Memory);

// For kits that know what others' messages cost.
template <class Kit>
class MemoryKnown : public Team<Kit> {};
TYPED_TEST_SUITE_P(MemoryKnown);

TYPED_TEST_P(MemoryKnown, MemoryGrowsWithThePairsThatTalk)
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
        EXPECT_GT(one, silent);
        EXPECT_LE(silent, std::size_t{64 * 1024}) << "nine peers know this process, none has sent anything";
        EXPECT_EQ(five - one, 4 * (one - silent)) << "four more that talk, four that do not";
    });
}

// Whoever could talk and does not costs next to nothing, on both sides: no descriptor, and no more than its card and a few words.
TYPED_TEST_P(Memory, ASilentPeerCostsLittle)
{
    constexpr unsigned members = 24;
    this->run(members, [](auto &self) {
        auto measure = [&] {
            return std::pair(TypeParam::memory(self.device()) + test::heap_in_use(), test::descriptors_of(getpid()).size());
        };
        // Everybody is known to everybody; one has talked, to itself, so that what comes with the first message is there.
        self.inbox.expect(self.number, {{8, 8}});
        auto out = self.outbox(self.number, {{8, 8}});
        self.complete({&out});
        auto [memory, descriptors] = measure();
        for (unsigned other = 0; other < members; ++other)
            if (other != self.number)
                self.connect(other);
        self.meet_polling();  // all are connected to us
        auto [memory_after, descriptors_after] = measure();
        self.meet_polling();
        if (self.number > 0)
            return;
        EXPECT_LE(descriptors_after, descriptors + TypeParam::descriptors_of_a_silent_peer * (members - 1));
        if (test::slowdown > 1)
            return;  // the sanitizers have their own malloc
        std::size_t each = (std::max(memory_after, memory) - memory) / (members - 1);
        testing::Test::RecordProperty("bytes for a silent peer", std::to_string(each));
        EXPECT_LE(each, TypeParam::silent_peer_limit);
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
        // What the heap has of peers does not grow either, once all has its size; the sanitizers have their own malloc.
        std::size_t warm = 0;
        auto look_at_heap = [&](unsigned round) {
            if (test::slowdown > 1 || rounds < 20)
                return;
            if (round == rounds / 2)
                warm = test::heap_in_use();
            if (round == rounds)
                EXPECT_LE(test::heap_in_use(), warm + TypeParam::heap_of_a_parted_peer * (rounds - rounds / 2)) << "after " << rounds - rounds / 2 << " more rounds";
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
                look_at_heap(round);
            }
            return;
        }
        std::size_t memory = 0, descriptors = 0;
        self.inbox.expect(1, stream(rounds));
        for (unsigned round = 1; round <= rounds; ++round) {
            self.poll_until([&] { return self.inbox.received(1) == 2 * round; });
            self.board.signals[0].add();
            wait_for(1, round);
            for (int i = 0; i < 10; ++i)
                self.poll();
            if (round == 1) {
                memory = TypeParam::memory(self.device());
                descriptors = test::descriptors_of(getpid()).size();
            }
            ASSERT_EQ(TypeParam::memory(self.device()), memory) << "in round " << round;
            // What the last one has may be given back a little later.
            if (round == rounds && TypeParam::gives_back_descriptors)
                self.poll_until([&] { return test::descriptors_of(getpid()).size() <= descriptors + 4; });
            look_at_heap(round);
            self.board.signals[2].add();
        }
    });
}

// A channel that is closed: descriptors and mappings are as they were before it was opened.
TYPED_TEST_P(Memory, LeavesNothingBehindWhenItIsClosed)
{
    constexpr unsigned members = 3, rounds = 3;
    test::Shared<Board> boards[rounds];
    test::Processes processes(members, time_limit, [&](unsigned number) {
        auto before = std::pair(test::descriptors_of(getpid()), test::shared_mappings_of(getpid()));
        for (unsigned round = 0; round < rounds; ++round) {
            {
                Member<TypeParam> self(number, members, *boards[round]);
                Stream stream{{8, 8}, {8, 3'000}, {8, 300'000}};
                std::vector<Outbox<typename TypeParam::Device>> out;
                std::vector<Outbox<typename TypeParam::Device> *> all;
                for (unsigned other = 0; other < members; ++other) {
                    self.inbox.expect(other, stream);
                    out.push_back(self.outbox(other, stream));
                }
                for (auto &one : out)
                    all.push_back(&one);
                self.complete(all);
                self.meet_polling();
            }
            auto after = std::pair(test::descriptors_of(getpid()), test::shared_mappings_of(getpid()));
            if (round == 0 && TypeParam::keeps_descriptors)
                before = after;
            EXPECT_EQ(after.first, before.first) << "in round " << round;
            EXPECT_EQ(after.second, before.second) << "in round " << round;
        }
    });
    processes.wait();
}

// All are killed at once, in the middle of everything: no name appears in /dev/shm, and its memory is free again, as are files without a
// name: nobody has them open or mapped any more.
TYPED_TEST_P(Memory, LeavesNothingBehindWhenAllAreKilled)
{
    test::in_a_process(time_limit, [] {
        if (std::string reason = test::enter_private_devshm("64m"); !reason.empty())
            GTEST_SKIP() << reason;
        struct statvfs before {}, after {};
        ASSERT_EQ(statvfs("/dev/shm", &before), 0);
        const std::vector<std::string> descriptors = test::descriptors_of(getpid());
        std::vector<test::FileId> files;
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
            for (unsigned number = 0; number < members; ++number)
                std::ranges::copy(test::nameless_files_of(processes.id(number)), std::back_inserter(files));
            EXPECT_TRUE(!files.empty() || !SharesMemory<typename TypeParam::Device>) << "what shares memory has files";
            EXPECT_FALSE(!files.empty() && test::holders_of(files).empty()) << "this test tests something";
            for (unsigned number = 0; number < members; ++number) {
                processes.expect_killed(number);
                kill(processes.id(number), SIGKILL);
            }
            processes.wait();
        }
        EXPECT_TRUE(test::names_in_devshm().empty());
        ASSERT_EQ(statvfs("/dev/shm", &after), 0);
        EXPECT_EQ(after.f_bfree, before.f_bfree);
        EXPECT_EQ(test::holders_of(files), std::vector<std::string>{});
        EXPECT_EQ(test::descriptors_of(getpid()), descriptors);
    });
}

REGISTER_TYPED_TEST_SUITE_P(MemoryKnown, MemoryGrowsWithThePairsThatTalk);
REGISTER_TYPED_TEST_SUITE_P(Memory, ASilentPeerCostsLittle, WhatAPeerCostsIsGivenBackWhenItDisconnects,
                            LeavesNothingBehindWhenItIsClosed, LeavesNothingBehindWhenAllAreKilled);

}  // namespace pm::conform
