// The outbox of multicasts under the seeded scheduler: an owner posts to some of the others, in fewer slots than it posts, and all look.
// Promise: whoever is meant reads every post for it once, whole and in order; who is not meant takes none, also while a slot is
// written anew under its eyes.
#include "coll/mcast/outbox.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "support/seeded_atomic.h"
#include "support/seeds.h"

namespace pm::coll {
namespace {

using test::Random;
using test::Schedule;
using test::SeededAtomic;

constexpr std::size_t readers = 3, size = 96;
using SmallOutbox = BasicOutbox<SeededAtomic, 2, 64>;

class OutboxRun {
  public:
    explicit OutboxRun(std::uint64_t seed) : schedule_(seed), outbox_(std::make_unique<SmallOutbox>())
    {
        Random random(~seed);
        outbox_->generation = 7;
        members_.resize(random.between(1, 12));
        for (std::uint64_t &set : members_)
            set = random.between(1, (1u << readers) - 1) << 1;
        for (SmallOutbox::Slot &slot : outbox_->slot)
            schedule_.watch(slot.message, size, 0);
    }

    std::string run()
    {
        schedule_.spawn([this] { post(); });
        for (std::size_t rank = 1; rank <= readers; ++rank)
            schedule_.spawn([this, rank] { look(rank); });
        return schedule_.run();
    }

  private:
    static std::byte byte_of(std::uint64_t number, std::size_t at) { return static_cast<std::byte>(number * 37 + at); }

    void post()
    {
        // As the engine: nothing is posted before all look, and after that nobody is asked again.
        for (std::size_t rank = 1; rank <= readers; ++rank)
            while (!outbox_->is_watched_by(rank))
                schedule_.pause();
        for (std::uint64_t number = 1; number <= members_.size(); ++number) {
            const std::uint64_t set = members_[number - 1];
            auto write = [&](std::byte *message) {
                for (std::size_t i = 0; i < size; ++i)
                    message[i] = byte_of(number, i);
            };
            while (!outbox_->post({&set, 1}, 1, static_cast<std::uint32_t>(std::popcount(set)), write))
                schedule_.pause();
        }
    }

    void look(std::size_t rank)
    {
        std::uint64_t seen = outbox_->count(), taken = 0;
        schedule_.require(seen == 0, "there are posts before anybody watches");
        outbox_->watch(rank, 7);
        while (seen < members_.size()) {
            const bool something = outbox_->read(&seen, 7, rank, [&](const std::byte *message) {
                take(message, seen, rank);
                ++taken;
            });
            if (!something)
                schedule_.pause();
        }
        std::uint64_t meant = 0;
        for (std::uint64_t set : members_)
            meant += set >> rank & 1;
        schedule_.require(taken == meant, "a post for this rank was not read");
    }

    void take(const std::byte *message, std::uint64_t number, std::size_t rank)
    {
        schedule_.require(members_[number - 1] >> rank & 1, "a post for others was read");
        schedule_.read(message, size);
        for (std::size_t i = 0; i < size; ++i)
            schedule_.require(message[i] == byte_of(number, i), "the bytes of another post");
        schedule_.step();
    }

    Schedule schedule_;
    std::unique_ptr<SmallOutbox> outbox_;
    std::vector<std::uint64_t> members_;  // by post
};

TEST(OutboxSeeded, EveryPostIsReadByThoseItIsForAndByNobodyElse)
{
    test::for_each_seed(20'000, [](std::uint64_t seed) { return OutboxRun(seed).run(); });
}

// Whoever comes with another generation takes nothing.
TEST(OutboxSeeded, AnotherGenerationIsNotRead)
{
    test::for_each_seed(200, [](std::uint64_t seed) {
        Schedule schedule(seed);
        auto outbox = std::make_unique<SmallOutbox>();
        outbox->generation = 2;
        schedule.spawn([&] {
            const std::uint64_t set = 2;
            schedule.require(!outbox->is_watched_by(1), "watched by one that is late");
            schedule.require(outbox->begin({&set, 1}, 1) != nullptr, "no slot");
            outbox->publish(1);
        });
        schedule.spawn([&] {
            outbox->watch(1, 1);
            while (outbox->count() == 0)
                schedule.pause();
            schedule.require(outbox->find(1, 1, 1) == nullptr, "a post of another generation was read");
        });
        return schedule.run();
    });
}

}  // namespace
}  // namespace pm::coll
