// A copy that two processes make, under the seeded scheduler: an owner opens one after the other, and a helper that may be late for any of them takes
// parts. Promise: each part is copied once, by somebody who knows what the owner wrote before it opened the copy, and is there when the owner goes on.
#include "shmmod/joint.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "support/seeded_atomic.h"
#include "support/seeds.h"

namespace pm::shmem {
namespace {

using test::Schedule;
using test::SeededAtomic;

constexpr std::uint32_t copies = 6, most_parts = 5;
// Near the end of what 32 bits count.
constexpr std::uint32_t number_of(std::uint32_t copy) { return UINT32_MAX - 2 + copy; }

class JointRun {
  public:
    explicit JointRun(std::uint64_t seed) : schedule_(seed)
    {
        schedule_.watch(reinterpret_cast<const std::byte *>(&opened_), sizeof opened_, 0);
        schedule_.watch(reinterpret_cast<const std::byte *>(helped_.data()), sizeof helped_, 1);
        for (std::uint32_t &parts : parts_)
            parts = static_cast<std::uint32_t>(schedule_.random().between(1, most_parts));
        fails_ = static_cast<std::uint32_t>(schedule_.random().below(2 * copies));  // or none does
    }

    std::string run()
    {
        schedule_.spawn([this] { own(); });
        schedule_.spawn([this] { help(); });
        return schedule_.run();
    }

  private:
    void own()
    {
        for (std::uint32_t copy = 0; copy < copies; ++copy) {
            opened_ = copy;
            joint_->open(number_of(copy));
            told_.store(copy + 1, std::memory_order_release);  // a message
            std::array<bool, most_parts> mine{};
            std::uint32_t parts = parts_[copy], taken = 0;
            for (std::uint32_t part; (part = joint_->take(number_of(copy), parts)) < parts; ++taken) {
                schedule_.require(!mine[part], "a part is taken twice");
                mine[part] = true;
            }
            while (!joint_->finished(parts - taken))
                schedule_.pause();
            bool helped = false;
            schedule_.read(helped_[copy].data(), sizeof helped_[copy]);
            for (std::uint32_t part = 0; part < parts; ++part) {
                schedule_.require((helped_[copy][part] == copy + 1) != mine[part], "a part is copied by both, or by nobody");
                helped |= !mine[part];
            }
            schedule_.require(joint_->failed() == (helped && copy == fails_), "what has failed is not told, or what has not is");
        }
    }

    void help()
    {
        for (std::uint32_t copy = 0; copy < copies; ++copy) {
            std::uint32_t told;
            while ((told = told_.load(std::memory_order_acquire)) <= copy)
                schedule_.pause();
            for (std::uint32_t part; (part = joint_->take(number_of(copy), parts_[copy])) < parts_[copy];) {
                schedule_.read(&opened_, sizeof opened_);
                schedule_.require(opened_ == copy, "a part of another copy is taken");
                schedule_.require(helped_[copy][part] == 0, "a part is taken twice");
                helped_[copy][part] = copy + 1;
                joint_->has_copied(copy != fails_);
            }
        }
    }

    Schedule schedule_;
    std::unique_ptr<JointCopy<SeededAtomic>> joint_ = std::make_unique<JointCopy<SeededAtomic>>();
    std::array<std::uint32_t, copies> parts_{};
    std::uint32_t fails_;
    std::uint64_t opened_ = 0;
    std::array<std::array<std::uint64_t, most_parts>, copies> helped_{};
    SeededAtomic<std::uint32_t> told_;
};

TEST(JointSeeded, EachPartIsCopiedOnce)
{
    test::for_each_seed(6'000, [](std::uint64_t seed) { return JointRun(seed).run(); });
}

// Whatever the size, the parts are all of it and none is empty.
TEST(JointParts, AreAllOfIt)
{
    constexpr std::size_t both = 2 * PM_JOINT_LARGEST_PART;
    for (std::size_t size : {std::size_t{1}, PM_JOINT_SMALLEST_PART - 1, PM_JOINT_SMALLEST_PART, PM_JOINT_SMALLEST_PART + 1, std::size_t{100'000},
                             both - 1, both, both + 1, both + 4097, std::size_t{1} << 20, (std::size_t{1} << 22) + 5, std::size_t{1} << 33}) {
        JointParts parts(size);
        std::size_t sum = 0;
        for (std::uint32_t part = 0; part < parts.count(); ++part) {
            EXPECT_EQ(parts.offset(part), sum);
            EXPECT_GT(parts.size(part), 0u);
            sum += parts.size(part);
        }
        EXPECT_EQ(sum, size);
        if (size >= 2 * PM_JOINT_SMALLEST_PART)
            EXPECT_EQ(parts.count() % 2, 0u) << size;
        EXPECT_TRUE(parts.are_few());
    }
    EXPECT_FALSE(JointParts(SIZE_MAX).are_few());
}

}  // namespace
}  // namespace pm::shmem
