// place() and placed(): a device that asks puts the rest of a payload where it belongs, and nowhere else.
#pragma once

#include "conform/team.h"

namespace pm::conform {

template <class Kit>
class Placing : public Team<WithPlaces<Kit>> {};
TYPED_TEST_SUITE_P(Placing);

// The inbox looks at every byte at its place, at those beside it, and that nobody asks twice.
TYPED_TEST_P(Placing, PutsPayloadsOfAllSizesWhereTheyBelong)
{
    this->run(2, [](auto &self) {
        Stream stream = TestFixture::all_sizes();
        for (std::size_t number = 0; number < stream.size(); number += 5)
            stream[number].packed = true;
        if (self.number == 0) {
            auto out = self.outbox(1, stream);
            return self.complete({&out});
        }
        self.inbox.expect(0, stream);
        self.complete({});
        EXPECT_EQ(self.inbox.placed_messages() > 0, TypeParam::asks_for_places) << "of " << stream.size();
    });
}

TYPED_TEST_P(Placing, ManySendersHaveAPlaceEachAtTheSameTime)
{
    constexpr unsigned senders = 5;
    this->run(senders + 1, [](auto &self) {
        auto stream_of = [](unsigned sender) {
            Stream stream = random_stream(50 + sender, scaled(200), 64, 100'000);
            stream.insert(stream.begin(), Shape{8, 1'000'000});  // so that all begin with one that takes its time
            return stream;
        };
        if (self.number > 0) {
            auto out = self.outbox(0, stream_of(self.number));
            return self.complete({&out});
        }
        for (unsigned sender = 1; sender <= senders; ++sender)
            self.inbox.expect(sender, stream_of(sender));
        self.complete({});
    });
}

REGISTER_TYPED_TEST_SUITE_P(Placing, PutsPayloadsOfAllSizesWhereTheyBelong, ManySendersHaveAPlaceEachAtTheSameTime);

}  // namespace pm::conform
