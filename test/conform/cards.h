// connect() answers ok only when the device has proved that it reaches the owner of the card; otherwise with a sentence.
#pragma once

#include <cstring>

#include "conform/team.h"

namespace pm::conform {

template <class Kit>
class Cards : public Team<Kit> {};
TYPED_TEST_SUITE_P(Cards);

// A card with a wrong bit is refused, at once or when something is sent, unless the device reaches the owner all the same: not
// every bit says where it is, and a process may have several numbers, those of its threads.
TYPED_TEST_P(Cards, RefusesACardThatDiffersInOneBit)
{
    this->run(2, [](auto &self) {
        using D = typename TypeParam::Device;
        std::size_t bits = 8 * self.board.card_sizes[1];
        constexpr std::size_t most = 250;  // a tag for each
        std::size_t stride = bits / most + 1;
        auto &received = self.board.signals[0];
        auto &over = self.board.signals[1];
        if (self.number == 1) {
            for (unsigned tag = 0; tag < most; ++tag) {
                self.inbox.expect(tag, {{8, 8}});
                self.inbox.set_sender(tag, 0);
            }
            self.inbox.when_complete([&](unsigned, std::size_t) { received.add(); });
            return self.poll_until([&] { return over.value() == 1; });
        }
        std::vector<std::unique_ptr<Outbox<D>>> asked;
        std::vector<typename D::Peer *> peers;
        std::size_t refused = 0, reached = 0;
        for (std::size_t bit = 0; bit < bits; bit += stride) {
            std::byte card[max_card_size];
            std::memcpy(card, self.board.cards[1], sizeof card);
            card[bit / 8] ^= std::byte{1} << bit % 8;
            auto peer = self.device().connect(card, self.board.card_sizes[1]);
            if (!peer.ok()) {
                ++refused;
                EXPECT_NE(peer.error().status, Status::ok);
                EXPECT_NE(peer.error().text.find(' '), std::string::npos) << "a sentence: " << peer.error().text;
                continue;
            }
            peers.push_back(peer.value());
            auto tag = static_cast<unsigned>(asked.size());
            asked.push_back(std::make_unique<Outbox<D>>(self.device(), peer.value(), tag, 1, Stream{{8, 8}}));
        }
        std::size_t left = asked.size();
        while (left > 0) {
            for (auto &out : asked) {
                if (out == nullptr)
                    continue;
                Status status = out->step();
                if (status == Status::again)
                    continue;
                ++(status == Status::ok ? reached : refused);
                out.reset();
                --left;
            }
            self.poll();
        }
        self.poll_until([&] { return received.value() == reached; });
        EXPECT_GE(refused * stride, 64u) << "at least a token of that size is on the card";
        for (auto *peer : peers)
            self.device().disconnect(peer);
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
            if (peer.ok()) {
                EXPECT_EQ(self.answer_of(peer.value(), 1), Status::unreachable);
            }
            const Error &error = peer.ok() ? peer.value()->error : peer.error();
            EXPECT_EQ(error.status, Status::unreachable);
            EXPECT_NE(error.text.find(' '), std::string::npos) << "a sentence: " << error.text;
        },
        {1});
}

REGISTER_TYPED_TEST_SUITE_P(Cards, RefusesACardThatDiffersInOneBit, RefusesACardOfTheWrongSize, RefusesACardOfNobody);

}  // namespace pm::conform
