// Reading, writing and adding in a peer's memory over PM(UCX), between real processes.
#include <array>
#include <cstring>

#include "conform/ucx_kit.h"
#include "support/pattern.h"

namespace pm::conform {
namespace {

template <class Kit>
class UcxOneSided : public Team<Kit> {
  protected:
    // What a process tells the other about its memory, in shared memory of the test.
    struct Offer {
        std::uint64_t base;
        std::size_t key_size;
        std::byte key[512];
    };

    template <class Self>
    static ucx::Memory offer(Self &self, Offer *place, std::vector<std::byte> &memory)
    {
        auto registered = self.device().register_memory(memory.data(), memory.size());
        if (!registered.ok())
            fail(registered.error().text);
        place->base = reinterpret_cast<std::uint64_t>(memory.data());
        place->key_size = registered.value().key.size();
        if (place->key_size > sizeof place->key)
            fail("a key of " + std::to_string(place->key_size) + " bytes");
        std::memcpy(place->key, registered.value().key.data(), place->key_size);
        return registered.value();
    }

    template <class Self, class Operation>
    static void until_accepted(Self &self, Operation operation)
    {
        Status status;
        while ((status = operation()) == Status::again)
            self.poll();
        EXPECT_EQ(status, Status::ok);
    }

    test::Shared<std::array<Offer, 8>> offers_;
};
TYPED_TEST_SUITE(UcxOneSided, UcxKits, KitNames);

constexpr std::size_t size = 3'000'000;

TYPED_TEST(UcxOneSided, WritesAndReadsAPeersMemory)
{
    this->run(2, [&](auto &self) {
        std::vector<std::byte> memory(size);
        test::fill_pattern(10 + self.number, 0, memory.data(), size);
        auto *offers = &(*this->offers_)[0];
        ucx::Memory mine = TestFixture::offer(self, &offers[self.number], memory);
        self.meet_polling();
        unsigned other = 1 - self.number;
        ucx::RemoteMemory remote{self.connect(other), {offers[other].key, offers[other].key + offers[other].key_size}, nullptr};
        // An endpoint comes with a first message.
        EXPECT_EQ(self.device().put(&remote, offers[other].base, memory.data(), 8), Status::again);
        self.inbox.expect(other, {{8, 8}});
        Outbox<ucx::Ucx> out(self.device(), remote.peer, self.number, other, {{8, 8}});
        self.complete({&out});
        // Each reads all of the other's, then writes a part.
        std::vector<std::byte> copy(size), part = test::pattern(20 + self.number, 100'000);
        TestFixture::until_accepted(self, [&] { return self.device().get(&remote, offers[other].base, copy.data(), size); });
        self.poll_until([&] { return self.device().finished(); });
        EXPECT_EQ(test::first_difference(10 + other, 0, copy.data(), size), test::no_difference);
        self.meet_polling();
        for (std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{7777}, part.size() - 1})
            TestFixture::until_accepted(self, [&] {
                return self.device().put(&remote, offers[other].base + at, part.data() + at, at == 7777 ? part.size() - at : 1);
            });
        self.poll_until([&] { return self.device().finished(); });
        self.meet_polling();
        EXPECT_EQ(test::first_difference(20 + other, 7777, memory.data() + 7777, part.size() - 7777), test::no_difference);
        EXPECT_EQ(memory[1], test::pattern(20 + other, 2)[1]);
        EXPECT_EQ(test::first_difference(10 + self.number, part.size(), memory.data() + part.size(), size - part.size()),
                  test::no_difference)
            << "what lies behind it is as it was";
        self.meet_polling();
        self.device().release(&remote);
        self.device().release(&mine);
    });
}

TYPED_TEST(UcxOneSided, EveryAdditionCounts)
{
    constexpr unsigned members = 4;
    this->run(members, [&](auto &self) {
        std::vector<std::byte> memory(64);
        auto *offers = &(*this->offers_)[0];
        ucx::Memory mine = TestFixture::offer(self, &offers[self.number], memory);
        self.meet_polling();
        auto *peer = self.connect(0);
        std::size_t rounds = scaled(2'000);
        if (self.number > 0) {
            ucx::RemoteMemory remote{peer, {offers[0].key, offers[0].key + offers[0].key_size}, nullptr};
            Outbox<ucx::Ucx> out(self.device(), peer, self.number, 0, {{8, 8}});
            while (!out.done())
                self.work({&out});
            for (std::size_t round = 0; round < rounds; ++round)
                TestFixture::until_accepted(self, [&] { return self.device().add_behind(&remote, offers[0].base + 8, 3); });
            self.poll_until([&] { return self.device().finished(); });
            self.meet_polling();
            self.device().release(&remote);
        } else {
            for (unsigned sender = 1; sender < members; ++sender)
                self.inbox.expect(sender, {{8, 8}});
            self.meet_polling();
            std::uint32_t sum = 0;
            std::memcpy(&sum, memory.data() + 8, sizeof sum);
            EXPECT_EQ(sum, 3 * (members - 1) * rounds);
        }
        self.device().release(&mine);
    });
}

TYPED_TEST(UcxOneSided, AnAdditionComesBehindWhatWasPutBefore)
{
    constexpr std::size_t size = 100'000;
    this->run(2, [&](auto &self) {
        std::vector<std::byte> memory(64 + size), data(size);  // a counter, then the data
        auto *offers = &(*this->offers_)[0];
        ucx::Memory mine = TestFixture::offer(self, &offers[self.number], memory);
        self.meet_polling();
        unsigned other = 1 - self.number;
        auto *peer = self.connect(other);
        Outbox<ucx::Ucx> out(self.device(), peer, self.number, other, {{8, 8}});
        self.inbox.expect(other, {{8, 8}});
        while (!out.done() || !self.inbox.complete())
            self.work({&out});
        ucx::RemoteMemory remote{peer, {offers[other].key, offers[other].key + offers[other].key_size}, nullptr};
        auto *counter = reinterpret_cast<std::uint32_t *>(memory.data());
        std::size_t rounds = scaled(300);
        for (std::uint32_t round = 1; round <= rounds; ++round) {
            for (unsigned side = 0; side < 2; ++side) {
                if (side == self.number) {
                    std::ranges::fill(data, static_cast<std::byte>(round));
                    TestFixture::until_accepted(self, [&] { return self.device().put(&remote, offers[other].base + 64, data.data(), size); });
                    TestFixture::until_accepted(self, [&] { return self.device().add_behind(&remote, offers[other].base, 1); });
                    self.poll_until([&] { return self.device().finished(); });
                } else {
                    self.poll_until([&] { return __atomic_load_n(counter, __ATOMIC_ACQUIRE) == round; });
                    EXPECT_TRUE(std::ranges::all_of(std::span(memory).subspan(64), [&](std::byte byte) { return byte == static_cast<std::byte>(round); }))
                        << "round " << round;
                }
            }
        }
        self.meet_polling();
        self.device().release(&remote);
        self.device().release(&mine);
    });
}

template <class Kit>
class UcxOneSidedDeath : public UcxOneSided<Kit> {};
TYPED_TEST_SUITE(UcxOneSidedDeath, UcxKitsThatNoticeDeath, KitNames);

TYPED_TEST(UcxOneSidedDeath, APeerThatDiedIsAnError)
{
    this->run(
        2,
        [&](auto &self) {
            std::vector<std::byte> memory(1000);
            auto *offers = &(*this->offers_)[0];
            ucx::Memory mine = TestFixture::offer(self, &offers[self.number], memory);
            self.meet_polling();
            if (self.number == 1) {
                self.inbox.expect(0, {{8, 8}});
                self.poll_until([&] { return self.inbox.complete(); });
                self.poll_until([&] { return self.board.signals[0].value() == 1; });
                raise(SIGKILL);
            }
            ucx::RemoteMemory remote{self.connect(1), {offers[1].key, offers[1].key + offers[1].key_size}, nullptr};
            Outbox<ucx::Ucx> out(self.device(), remote.peer, 0, 1, {{8, 8}});
            while (!out.done())
                self.work({&out});
            self.board.signals[0].add();
            while (kill(self.board.process[1], 0) == 0)
                sched_yield();
            while (self.device().failure() == nullptr) {
                (void)self.device().put(&remote, offers[1].base, memory.data(), 100);
                self.poll();
                (void)self.device().finished();
            }
            EXPECT_EQ(self.device().put(&remote, offers[1].base, memory.data(), 100), Status::unreachable);
            self.device().release(&remote);
            self.device().release(&mine);
        },
        {1});
}

}  // namespace
}  // namespace pm::conform
