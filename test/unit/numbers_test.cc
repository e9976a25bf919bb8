// Numbers of what others speak of.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "base/numbers.h"

namespace pm {
namespace {

class Numbers : public testing::Test {
  protected:
    ~Numbers() override { pm_numbers_end(&numbers_); }
    std::uint64_t give(void *it)
    {
        std::uint64_t number = pm_number_give(&numbers_);
        pm_number_set(&numbers_, number, it);
        return number;
    }
    pm_numbers numbers_{};
    int things_[4] = {};
};

TEST_F(Numbers, OfNothingFindNothing)
{
    for (std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32, UINT64_MAX})
        EXPECT_EQ(pm_number_find(&numbers_, number), nullptr) << number;
    EXPECT_EQ(give(&things_[0]) >> 32, 1u);
    EXPECT_EQ(pm_number_find(&numbers_, 0), nullptr);
}

TEST_F(Numbers, AreNotGivenTwice)
{
    std::uint64_t first = give(&things_[0]);
    EXPECT_NE(first, 0u);
    pm_number_forget(&numbers_, first);
    EXPECT_EQ(numbers_.used, 0u);
    EXPECT_EQ(pm_number_find(&numbers_, first), nullptr);
    std::uint64_t second = give(&things_[1]);
    EXPECT_EQ(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(second)) << "the place is used again";
    EXPECT_EQ(pm_number_find(&numbers_, first), nullptr);
    EXPECT_EQ(pm_number_find(&numbers_, second), &things_[1]);
}

TEST_F(Numbers, ThatWereGivenAndAreNobodysYetFindNothing)
{
    std::uint64_t number = pm_number_give(&numbers_);
    EXPECT_EQ(pm_number_find(&numbers_, number), nullptr);
    pm_number_set(&numbers_, number, &things_[0]);
    EXPECT_EQ(pm_number_find(&numbers_, number), &things_[0]);
}

TEST_F(Numbers, FindWhatAMapFinds)
{
    std::mt19937 random(1);
    std::map<std::uint64_t, void *> model;
    std::vector<std::uint64_t> gone;
    for (int step = 0; step < 20000; ++step) {
        if (model.empty() || random() % (step < 10000 ? 3 : 2) != 0) {
            void *it = &things_[random() % 4];
            std::uint64_t number = give(it);
            ASSERT_TRUE(model.emplace(number, it).second) << "the number is another's";
        } else {
            auto found = model.lower_bound(random());
            if (found == model.end())
                found = model.begin();
            pm_number_forget(&numbers_, found->first);
            gone.push_back(found->first);
            model.erase(found);
        }
        ASSERT_EQ(numbers_.used, model.size());
    }
    for (auto [number, it] : model)
        ASSERT_EQ(pm_number_find(&numbers_, number), it);
    for (std::uint64_t number : gone)
        ASSERT_EQ(pm_number_find(&numbers_, number), nullptr);
}

}  // namespace
}  // namespace pm
