// connect() answers ok only when the device has proved that it reaches the owner of the card; otherwise with a sentence.
#pragma once

#include <cstring>

#include "conform/team.h"

namespace pm::conform {

template <class Kit>
class Cards : public Team<Kit> {};
TYPED_TEST_SUITE_P(Cards);

// A card with a wrong bit is refused, unless the device reaches the owner all the same: not every bit says where it is, and a
// process may have several numbers, those of its threads.
TYPED_TEST_P(Cards, RefusesACardThatDiffersInOneBit)
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

TYPED_TEST_P(Cards, RefusesACardOfTheWrongSize)
{
    this->run(1, [](auto &self) {
        for (std::size_t size : {std::size_t{0}, std::size_t{1}, self.board.card_sizes[0] - 1, self.board.card_sizes[0] + 1}) {
            auto peer = self.device().connect(self.board.cards[0], size);
            ASSERT_FALSE(peer.ok()) << size;
            EXPECT_NE(peer.error().text.find(' '), std::string::npos) << "a sentence: " << peer.error().text;
        }
    });
}

TYPED_TEST_P(Cards, RefusesACardOfNobody)
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

REGISTER_TYPED_TEST_SUITE_P(Cards, RefusesACardThatDiffersInOneBit, RefusesACardOfTheWrongSize, RefusesACardOfNobody);

}  // namespace pm::conform
