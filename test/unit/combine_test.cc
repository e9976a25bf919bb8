// Every loop of coll/combine against one number at a time, at all lengths around those of registers, wherever the vectors lie.
#include "coll/combine/combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace {

constexpr size_t lengths = 70, guard = 64;

// Signed sums and products that overflow are what unsigned ones are.
template <class T>
T single(pm_operation operation, T left, T right)
{
    switch (operation) {
        case PM_SUM:
            if constexpr (std::is_integral_v<T>)
                return static_cast<T>(static_cast<uint64_t>(right) + static_cast<uint64_t>(left));
            else
                return right + left;
        case PM_PRODUCT:
            if constexpr (std::is_integral_v<T>)
                return static_cast<T>(static_cast<uint64_t>(right) * static_cast<uint64_t>(left));
            else
                return right * left;
        case PM_MAX:
            return right > left ? right : left;
        case PM_MIN:
            return right < left ? right : left;
        default:
            break;
    }
    if constexpr (std::is_integral_v<T>)
        switch (operation) {
            case PM_BAND:
                return static_cast<T>(right & left);
            case PM_BOR:
                return static_cast<T>(right | left);
            case PM_BXOR:
                return static_cast<T>(right ^ left);
            case PM_LAND:
                return right && left;
            case PM_LOR:
                return right || left;
            case PM_LXOR:
                return !right != !left;
            default:
                break;
        }
    return 0;
}

template <class T>
class Vector {
public:
    Vector(size_t count, size_t offset, std::mt19937_64 &random) : bytes_(count * sizeof(T) + offset + 2 * guard), at_(guard + offset), count_(count)
    {
        for (auto &each : bytes_)
            each = static_cast<unsigned char>(random());
        for (size_t i = 0; i < count; ++i)
            set(i, number(random));
    }
    void *data() { return bytes_.data() + at_; }
    T get(size_t i) const
    {
        T value;
        std::memcpy(&value, bytes_.data() + at_ + i * sizeof(T), sizeof value);
        return value;
    }
    void set(size_t i, T value) { std::memcpy(bytes_.data() + at_ + i * sizeof(T), &value, sizeof value); }
    bool same_around(const Vector &other) const
    {
        return std::memcmp(bytes_.data(), other.bytes_.data(), at_) == 0 &&
               std::memcmp(bytes_.data() + at_ + count_ * sizeof(T), other.bytes_.data() + at_ + count_ * sizeof(T), guard) == 0;
    }

private:
    static T number(std::mt19937_64 &random)
    {
        uint64_t bits = random();
        if constexpr (std::is_integral_v<T>)
            return bits % 16 == 0 ? T{0} : static_cast<T>(bits >> 8);
        switch (bits % 16) {
            case 0:
                return std::numeric_limits<T>::quiet_NaN();
            case 1:
                return T(0) * T(-1);
            case 2:
                return std::numeric_limits<T>::infinity();
            default:
                return static_cast<T>(static_cast<int64_t>(bits)) / T(3);
        }
    }

    std::vector<unsigned char> bytes_;
    size_t at_, count_;
};

// No number has bits of its own that MPI says anything about.
template <class T>
bool same(T a, T b)
{
    if constexpr (!std::is_integral_v<T>)
        if (std::isnan(a) || std::isnan(b))
            return std::isnan(a) && std::isnan(b);
    return std::memcmp(&a, &b, sizeof a) == 0;
}

template <class T>
void expect_combined(pm_combination *combine, pm_operation operation, size_t count, size_t offset, bool apart)
{
    std::mt19937_64 random(count * 131 + offset * 7 + apart);
    Vector<T> left(count, offset, random), right(count, offset ? offset - 1 : 0, random), out(count, offset, random);
    const Vector<T> left_before = left, right_before = right, out_before = out;
    combine(left.data(), right.data(), apart ? out.data() : right.data(), count);
    const Vector<T> &result = apart ? out : right;
    for (size_t i = 0; i < count; ++i) {
        ASSERT_TRUE(same(result.get(i), single(operation, left_before.get(i), right_before.get(i)))) << "number " << i << " of " << count;
        ASSERT_TRUE(same(left.get(i), left_before.get(i)));
        ASSERT_TRUE(!apart || same(right.get(i), right_before.get(i)));
    }
    ASSERT_TRUE(result.same_around(apart ? out_before : right_before));
}

template <class T>
void expect_column(const pm_combinations &table, pm_element element)
{
    for (int operation = 0; operation < PM_OPERATIONS; ++operation) {
        pm_combination *combine = table[operation][element];
        ASSERT_EQ(combine == nullptr, operation < PM_SUM || (!std::is_integral_v<T> && operation >= PM_BAND)) << operation;
        for (size_t count = 0; combine != nullptr && count < lengths; ++count)
            for (size_t offset : {size_t{0}, sizeof(T), 3 * sizeof(T)})
                for (bool apart : {false, true})
                    expect_combined<T>(combine, static_cast<pm_operation>(operation), count, offset, apart);
    }
}

void expect_table(const pm_combinations &table)
{
    expect_column<int8_t>(table, PM_INT8);
    expect_column<int16_t>(table, PM_INT16);
    expect_column<int32_t>(table, PM_INT32);
    expect_column<int64_t>(table, PM_INT64);
    expect_column<uint8_t>(table, PM_UINT8);
    expect_column<uint16_t>(table, PM_UINT16);
    expect_column<uint32_t>(table, PM_UINT32);
    expect_column<uint64_t>(table, PM_UINT64);
    expect_column<float>(table, PM_FLOAT);
    expect_column<double>(table, PM_DOUBLE);
}

TEST(Combine, OneByOneOnAnyProcessor) { expect_table(pm_plain_combinations); }

#if defined(__x86_64__)
TEST(Combine, OneByOneWithAvx2)
{
    if (!__builtin_cpu_supports("avx2"))
        GTEST_SKIP() << "this processor has no AVX2";
    expect_table(pm_avx2_combinations);
}
#endif

TEST(Combine, WhatIsChosenIsOneOfThem)
{
    for (int operation = 0; operation < PM_OPERATIONS; ++operation)
        for (int element = 0; element < PM_ELEMENTS; ++element) {
            pm_combination *chosen = pm_combination_of(static_cast<pm_element>(element), static_cast<pm_operation>(operation));
            bool found = chosen == pm_plain_combinations[operation][element];
#if defined(__x86_64__)
            found = found || chosen == pm_avx2_combinations[operation][element];
#endif
            EXPECT_TRUE(found);
        }
}

// What is no number comes out as in MPICH's loops: the second one, unless the first is larger, or smaller.
TEST(Combine, WhatIsNoNumber)
{
    const double none = std::numeric_limits<double>::quiet_NaN();
    double left[9], right[9];
    for (pm_operation operation : {PM_MAX, PM_MIN}) {
        for (int i = 0; i < 9; ++i)
            left[i] = i % 2 ? none : 1.0, right[i] = i % 2 ? 1.0 : none;
        pm_combination_of(PM_DOUBLE, operation)(left, right, right, 9);
        for (int i = 0; i < 9; ++i)
            EXPECT_EQ(std::isnan(right[i]), i % 2 == 1) << i;
    }
}

}  // namespace
