#include "coll/window/atomics.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace {

template <std::size_t size>
using Word = std::conditional_t<
    size == 1, std::uint8_t,
    std::conditional_t<size == 2, std::uint16_t, std::conditional_t<size == 4, std::uint32_t, std::uint64_t>>>;

// Elements of the caller may be anywhere.
template <class Type>
Type at(const void *array, std::size_t i)
{
    Type value;
    std::memcpy(&value, static_cast<const std::byte *>(array) + i * sizeof value, sizeof value);
    return value;
}

template <class Type>
void put(void *array, std::size_t i, Type value)
{
    std::memcpy(static_cast<std::byte *>(array) + i * sizeof value, &value, sizeof value);
}

// As unsigned: a sum that is too large is what it is on every machine.
template <class Type>
Type applied(pm_operation operation, Type there, Type value)
{
    if constexpr (std::is_integral_v<Type>) {
        using Unsigned = std::make_unsigned_t<Type>;
        // Wide enough that no promotion makes it signed.
        using Wide = std::conditional_t<(sizeof(Type) < sizeof(unsigned)), unsigned, Unsigned>;
        Wide a = static_cast<Unsigned>(there), b = static_cast<Unsigned>(value);
        switch (operation) {
            case PM_SUM:
                return static_cast<Type>(a + b);
            case PM_PRODUCT:
                return static_cast<Type>(a * b);
            case PM_BAND:
                return static_cast<Type>(a & b);
            case PM_BOR:
                return static_cast<Type>(a | b);
            case PM_BXOR:
                return static_cast<Type>(a ^ b);
            case PM_LAND:
                return there != 0 && value != 0;
            case PM_LOR:
                return there != 0 || value != 0;
            case PM_LXOR:
                return (there != 0) != (value != 0);
            default:
                break;
        }
    } else {
        if (operation == PM_SUM)
            return there + value;
        if (operation == PM_PRODUCT)
            return there * value;
    }
    switch (operation) {
        case PM_MAX:
            return std::max(there, value);
        case PM_MIN:
            return std::min(there, value);
        case PM_NO_OPERATION:
            return there;
        default:
            return value;
    }
}

// All of them relaxed: what orders them is the caller's lock, flush or fence.
template <class Type>
Type apply_one(pm_operation operation, Type *target, Type value)
{
    using Bits = Word<sizeof(Type)>;
    auto place = reinterpret_cast<Bits *>(target);
    if (operation == PM_NO_OPERATION)
        return std::bit_cast<Type>(__atomic_load_n(place, __ATOMIC_RELAXED));
    if (operation == PM_REPLACE)
        return std::bit_cast<Type>(__atomic_exchange_n(place, std::bit_cast<Bits>(value), __ATOMIC_RELAXED));
    if constexpr (std::is_integral_v<Type>) {
        switch (operation) {
            case PM_SUM:
                return static_cast<Type>(__atomic_fetch_add(place, static_cast<Bits>(value), __ATOMIC_RELAXED));
            case PM_BAND:
                return static_cast<Type>(__atomic_fetch_and(place, static_cast<Bits>(value), __ATOMIC_RELAXED));
            case PM_BOR:
                return static_cast<Type>(__atomic_fetch_or(place, static_cast<Bits>(value), __ATOMIC_RELAXED));
            case PM_BXOR:
                return static_cast<Type>(__atomic_fetch_xor(place, static_cast<Bits>(value), __ATOMIC_RELAXED));
            default:
                break;
        }
    }
    Bits before = __atomic_load_n(place, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(place, &before, std::bit_cast<Bits>(applied(operation, std::bit_cast<Type>(before), value)), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return std::bit_cast<Type>(before);
}

template <class Type>
void apply(pm_operation operation, void *target, const void *origin, void *result, std::size_t count)
{
    auto place = static_cast<Type *>(target);
    // Without a result no one needs to know what was there.
    if (operation == PM_REPLACE && result == nullptr) {
        using Bits = Word<sizeof(Type)>;
        for (std::size_t i = 0; i < count; ++i)
            __atomic_store_n(reinterpret_cast<Bits *>(place) + i, at<Bits>(origin, i), __ATOMIC_RELAXED);
        return;
    }
    for (std::size_t i = 0; i < count; ++i) {
        Type before = apply_one(operation, place + i, operation == PM_NO_OPERATION ? Type{} : at<Type>(origin, i));
        if (result != nullptr)
            put(result, i, before);
    }
}

template <class Bits>
void swap(void *target, const void *origin, const void *compare, void *result)
{
    Bits expected = at<Bits>(compare, 0);
    __atomic_compare_exchange_n(static_cast<Bits *>(target), &expected, at<Bits>(origin, 0), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    put(result, 0, expected);
}

constexpr std::size_t sizes[PM_ELEMENTS] = {0, 1, 2, 4, 8, 1, 2, 4, 8, sizeof(float), sizeof(double)};

}  // namespace

extern "C" {

size_t pm_element_size(pm_element element)
{
    return element < PM_ELEMENTS ? sizes[element] : 0;
}

int pm_is_atomic(pm_element element, pm_operation operation, const void *target)
{
    bool known = element != PM_ELEMENT_OTHER && operation != PM_OPERATION_OTHER &&
                 (element < PM_FLOAT || operation <= PM_MIN);
    return known && reinterpret_cast<std::uintptr_t>(target) % sizes[element] == 0;
}

void pm_atomic_apply(pm_element element, pm_operation operation, void *target, const void *origin, void *result, size_t count)
{
    switch (element) {
        case PM_INT8:
            return apply<std::int8_t>(operation, target, origin, result, count);
        case PM_INT16:
            return apply<std::int16_t>(operation, target, origin, result, count);
        case PM_INT32:
            return apply<std::int32_t>(operation, target, origin, result, count);
        case PM_INT64:
            return apply<std::int64_t>(operation, target, origin, result, count);
        case PM_UINT8:
            return apply<std::uint8_t>(operation, target, origin, result, count);
        case PM_UINT16:
            return apply<std::uint16_t>(operation, target, origin, result, count);
        case PM_UINT32:
            return apply<std::uint32_t>(operation, target, origin, result, count);
        case PM_UINT64:
            return apply<std::uint64_t>(operation, target, origin, result, count);
        case PM_FLOAT:
            return apply<float>(operation, target, origin, result, count);
        case PM_DOUBLE:
            return apply<double>(operation, target, origin, result, count);
        default:
            return;
    }
}

void pm_atomic_swap(pm_element element, void *target, const void *origin, const void *compare, void *result)
{
    switch (sizes[element]) {
        case 1:
            return swap<std::uint8_t>(target, origin, compare, result);
        case 2:
            return swap<std::uint16_t>(target, origin, compare, result);
        case 4:
            return swap<std::uint32_t>(target, origin, compare, result);
        case 8:
            return swap<std::uint64_t>(target, origin, compare, result);
        default:
            return;
    }
}

}  // extern "C"
