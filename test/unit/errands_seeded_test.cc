// Mailboxes under the seeded scheduler: two origins leave errands with a target that looks now and then, and take back what it does not do
// soon. Promise: every errand is done once, whole and in order, by whoever holds the mailbox, who sees what the one before did; and the
// origin sees what came of it before it uses the place again. A mailbox that was given back is as good as new.
#include "coll/window/errands.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/seeded_atomic.h"
#include "support/seeds.h"

namespace pm::coll {
namespace {

using test::Schedule;
using test::SeededAtomic;

constexpr std::size_t origins = 2, target = 0;
constexpr std::uint64_t errands = 9;  // of an origin
constexpr std::size_t size = 16;      // of what is written there

// `few`: mailboxes that are looked at one by one; where it is 0 the target looks at the bits of those that have something.
template <std::size_t few>
class ErrandRun {
    using Boxes = BasicMailboxes<SeededAtomic, origins, few>;
    using Runner = BasicErrandRunner<Boxes>;
    using Errand = typename Runner::Errand;

  public:
    // `moves`: an origin gives its mailbox back and claims another one in between.
    ErrandRun(std::uint64_t seed, bool moves) : schedule_(seed), moves_(moves), boxes_(std::make_unique<Boxes>())
    {
        for (std::size_t who = 0; who <= origins; ++who)
            for (std::size_t origin = 1; origin <= origins; ++origin) {
                Done &done = done_[who][origin];
                schedule_.watch(reinterpret_cast<const std::byte *>(&done), sizeof done, who);
            }
    }

    std::string run()
    {
        schedule_.spawn([this] { serve(); });
        for (std::size_t origin = 1; origin <= origins; ++origin)
            schedule_.spawn([this, origin] { ask(origin); });
        return schedule_.run();
    }

  private:
    // What somebody did for an origin. Numbers are apart from each other, so that the schedule can tell who knows of which.
    struct alignas(64) Apart {
        std::uint64_t value = 0;
    };
    struct Done {
        Apart count;
        std::array<Apart, errands + 1> results{};
    };
    static std::byte byte_of(std::uint64_t number, std::size_t at) { return static_cast<std::byte>(number * 41 + at); }

    void perform(Errand &errand, std::size_t who)
    {
        const std::uint64_t number = errand.head.offset;
        const std::size_t origin = errand.head.rank;
        schedule_.read(errand.data.data(), size);
        for (std::size_t i = 0; i < size; ++i)
            schedule_.require(errand.data[i] == byte_of(number, i), "an errand with the bytes of another");
        schedule_.require(done_by_all(origin) == number - 1, "an errand is done twice, or before the one before it");
        Done &own = done_[who][origin];
        ++own.count.value;
        own.results[number].value = number * 7;
        schedule_.step();
    }

    std::uint64_t done_by_all(std::size_t origin)
    {
        std::uint64_t sum = 0;
        for (std::size_t who : {target, origin}) {
            schedule_.read(&done_[who][origin].count.value, sizeof sum);
            sum += done_[who][origin].count.value;
        }
        return sum;
    }

    void serve()
    {
        while (finished_.load(std::memory_order_relaxed) < origins)
            if (!boxes_->serve([this](Errand &errand) { perform(errand, target); }))
                schedule_.pause();
    }

    void check_result(std::size_t origin, std::uint64_t number)
    {
        std::uint64_t sum = 0;
        for (std::size_t who : {target, origin}) {
            schedule_.read(&done_[who][origin].results[number].value, sizeof sum);
            sum += done_[who][origin].results[number].value;
        }
        schedule_.require(sum == number * 7, "the result of an errand is not there, or twice");
    }

    // Does what the target does not, when it has waited for long enough.
    template <class Condition>
    void wait_until(std::size_t origin, Runner &runner, Condition condition)
    {
        while (!condition()) {
            if (schedule_.random().one_in(4))
                runner.take_back([&](Errand &errand) { perform(errand, origin); });
            else
                schedule_.pause();
        }
    }

    void ask(std::size_t origin)
    {
        for (std::uint64_t number = 1; number <= errands;) {
            typename Boxes::Mailbox *box;
            while ((box = boxes_->claim()) == nullptr)  // it may not know yet that one is free
                schedule_.pause();
            Runner runner(boxes_.get(), box);
            const std::uint64_t first = number, end = moves_ ? std::min(errands, number + schedule_.random().below(4)) : errands;
            for (; number <= end; ++number) {
                wait_until(origin, runner, [&] { return runner.has_room(); });
                if (number >= first + Runner::Mailbox::room)
                    check_result(origin, number - Runner::Mailbox::room);
                Errand &errand = runner.next();
                if (!moves_)
                    schedule_.watch(errand.data.data(), size, origin);
                errand.head.rank = static_cast<std::uint32_t>(origin);
                errand.head.offset = number;
                for (std::size_t i = 0; i < size; ++i)
                    errand.data[i] = byte_of(number, i);
                runner.post();
            }
            wait_until(origin, runner, [&] { return runner.is_settled(); });
            for (std::uint64_t each = first; each < number; ++each)
                check_result(origin, each);
            runner.release();
        }
        schedule_.require(done_by_all(origin) == errands, "an errand was not done");
        finished_.fetch_add(1, std::memory_order_relaxed);
    }

    Schedule schedule_;
    bool moves_;
    std::unique_ptr<Boxes> boxes_;
    std::array<std::array<Done, origins + 1>, origins + 1> done_{};  // by who did it, for whom
    SeededAtomic<std::uint32_t> finished_;
};

TEST(ErrandsSeeded, AreDoneOnceAndInOrder)
{
    test::for_each_seed(6'000, [](std::uint64_t seed) { return ErrandRun<origins>(seed, false).run(); });
}

TEST(ErrandsSeeded, AreDoneOnceAndInOrderWhereThereAreManyMailboxes)
{
    test::for_each_seed(6'000, [](std::uint64_t seed) { return ErrandRun<0>(seed, false).run(); });
}

TEST(ErrandsSeeded, AMailboxIsUsedByOneAfterTheOther)
{
    test::for_each_seed(6'000, [](std::uint64_t seed) { return ErrandRun<1>(seed, true).run(); });
}

}  // namespace
}  // namespace pm::coll
