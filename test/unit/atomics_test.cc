// Elements that several threads change at once: every operation and type gives what it would one after the other, and nothing is lost.
#include "coll/window/atomics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace {

template <class Type>
constexpr pm_element element_of = PM_ELEMENT_OTHER;
template <>
constexpr pm_element element_of<std::int8_t> = PM_INT8;
template <>
constexpr pm_element element_of<std::int16_t> = PM_INT16;
template <>
constexpr pm_element element_of<std::int32_t> = PM_INT32;
template <>
constexpr pm_element element_of<std::int64_t> = PM_INT64;
template <>
constexpr pm_element element_of<std::uint8_t> = PM_UINT8;
template <>
constexpr pm_element element_of<std::uint16_t> = PM_UINT16;
template <>
constexpr pm_element element_of<std::uint32_t> = PM_UINT32;
template <>
constexpr pm_element element_of<std::uint64_t> = PM_UINT64;
template <>
constexpr pm_element element_of<float> = PM_FLOAT;
template <>
constexpr pm_element element_of<double> = PM_DOUBLE;

template <class Type>
class Atomics : public testing::Test {
  protected:
    static Type apply(pm_operation operation, Type there, Type value, Type *before)
    {
        pm_atomic_apply(element_of<Type>, operation, &there, &value, before, 1);
        return there;
    }
};

using Types = testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t,
                             float, double>;
TYPED_TEST_SUITE(Atomics, Types);

TYPED_TEST(Atomics, GiveWhatTheOperationSays)
{
    auto of = [](int value) { return static_cast<TypeParam>(value); };
    struct Case {
        pm_operation operation;
        int there, value, then;
    };
    for (Case each : {Case{PM_REPLACE, 3, 5, 5}, {PM_NO_OPERATION, 3, 5, 3}, {PM_SUM, 3, 5, 8}, {PM_PRODUCT, 3, 5, 15}, {PM_MAX, 3, 5, 5},
                      {PM_MAX, 5, 3, 5}, {PM_MIN, 3, 5, 3}, {PM_MIN, 5, 3, 3}, {PM_BAND, 6, 3, 2}, {PM_BOR, 6, 3, 7}, {PM_BXOR, 6, 3, 5},
                      {PM_LAND, 6, 3, 1}, {PM_LAND, 6, 0, 0}, {PM_LOR, 0, 3, 1}, {PM_LOR, 0, 0, 0}, {PM_LXOR, 6, 3, 0}, {PM_LXOR, 0, 3, 1}}) {
        TypeParam place{}, before = of(99);
        if (!pm_is_atomic(element_of<TypeParam>, each.operation, &place)) {
            EXPECT_TRUE(std::is_floating_point_v<TypeParam> && each.operation >= PM_BAND);
            continue;
        }
        EXPECT_EQ(this->apply(each.operation, of(each.there), of(each.value), &before), of(each.then)) << "operation " << each.operation;
        EXPECT_EQ(before, of(each.there));
        EXPECT_EQ(this->apply(each.operation, of(each.there), of(each.value), nullptr), of(each.then)) << "operation " << each.operation;
    }
    if (std::is_signed_v<TypeParam>) {
        EXPECT_EQ(this->apply(PM_MAX, of(-3), of(2), nullptr), of(2));
        EXPECT_EQ(this->apply(PM_MIN, of(-3), of(2), nullptr), of(-3));
        EXPECT_EQ(this->apply(PM_SUM, of(-3), of(2), nullptr), of(-1));
    }
}

TYPED_TEST(Atomics, SwapOnlyWhatIsEqual)
{
    auto of = [](int value) { return static_cast<TypeParam>(value); };
    TypeParam place = of(3), origin = of(5), compare = of(4), before{};
    pm_atomic_swap(element_of<TypeParam>, &place, &origin, &compare, &before);
    EXPECT_EQ(place, of(3));
    EXPECT_EQ(before, of(3));
    compare = of(3);
    pm_atomic_swap(element_of<TypeParam>, &place, &origin, &compare, &before);
    EXPECT_EQ(place, of(5));
    EXPECT_EQ(before, of(3));
}

TYPED_TEST(Atomics, LoseNothing)
{
    constexpr int threads = 4, rounds = 5000, elements = 3;
    TypeParam sums[elements]{}, highest[elements]{};
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t)
        running.emplace_back([&, t] {
            const TypeParam ones[elements]{1, 1, 1};
            for (int i = 0; i < rounds; ++i) {
                pm_atomic_apply(element_of<TypeParam>, PM_SUM, sums, ones, nullptr, elements);
                TypeParam value = static_cast<TypeParam>((i + t) % 100);
                pm_atomic_apply(element_of<TypeParam>, PM_MAX, highest, &value, nullptr, 1);
            }
        });
    for (std::thread &thread : running)
        thread.join();
    for (TypeParam sum : sums)
        EXPECT_EQ(sum, static_cast<TypeParam>(threads * rounds));
    EXPECT_EQ(highest[0], static_cast<TypeParam>(99));
}

TEST(AtomicsAtOddPlaces, AreForOthersToProtect)
{
    alignas(8) std::byte bytes[16]{};
    EXPECT_TRUE(pm_is_atomic(PM_INT64, PM_SUM, bytes));
    EXPECT_FALSE(pm_is_atomic(PM_INT64, PM_SUM, bytes + 4));
    EXPECT_TRUE(pm_is_atomic(PM_INT32, PM_SUM, bytes + 4));
    EXPECT_TRUE(pm_is_atomic(PM_INT8, PM_SUM, bytes + 1));
    EXPECT_FALSE(pm_is_atomic(PM_ELEMENT_OTHER, PM_SUM, bytes));
    EXPECT_FALSE(pm_is_atomic(PM_INT32, PM_OPERATION_OTHER, bytes));
}

}  // namespace
