// The loops of combine.h, once for each kind of processor: a source says which one, and includes this. Nothing here is seen outside of it, so that no
// other source gets code for a processor that it has not asked about.

#include <stddef.h>
#include <stdint.h>

// What GCC leaves as it is with -O2: loops whose length is not known.
#if !defined(__clang__)
#pragma GCC optimize("O3")
#endif

namespace {

// As MPI's operations are written in MPICH, so that what is no number goes the same way: `right` comes first.
struct Sum {
    template <class T>
    static T of(T left, T right) { return static_cast<T>(right + left); }
};
struct Product {
    template <class T>
    static T of(T left, T right)
    {
        if constexpr (sizeof(T) == 2)       // of which the compiler would make an int, which overflows
            return static_cast<T>(static_cast<unsigned>(right) * left);
        else
            return static_cast<T>(right * left);
    }
};
struct Max {
    template <class T>
    static T of(T left, T right) { return right > left ? right : left; }
};
struct Min {
    template <class T>
    static T of(T left, T right) { return right < left ? right : left; }
};
struct Band {
    template <class T>
    static T of(T left, T right) { return static_cast<T>(right & left); }
};
struct Bor {
    template <class T>
    static T of(T left, T right) { return static_cast<T>(right | left); }
};
struct Bxor {
    template <class T>
    static T of(T left, T right) { return static_cast<T>(right ^ left); }
};
struct Land {
    template <class T>
    static T of(T left, T right) { return static_cast<T>((right != 0) & (left != 0)); }
};
struct Lor {
    template <class T>
    static T of(T left, T right) { return static_cast<T>((right | left) != 0); }
};
struct Lxor {
    template <class T>
    static T of(T left, T right) { return static_cast<T>((right != 0) ^ (left != 0)); }
};

template <class Operation, class T>
void combine(const void *left, const void *right, void *out, size_t count)
{
    typedef T Anywhere __attribute__((aligned(1), may_alias));
    const Anywhere *__restrict one = static_cast<const Anywhere *>(left);
    if (out == right) {
        Anywhere *__restrict both = static_cast<Anywhere *>(out);
        for (size_t i = 0; i < count; ++i)
            both[i] = Operation::template of<T>(one[i], both[i]);
        return;
    }
    const Anywhere *__restrict other = static_cast<const Anywhere *>(right);
    Anywhere *__restrict result = static_cast<Anywhere *>(out);
    for (size_t i = 0; i < count; ++i)
        result[i] = Operation::template of<T>(one[i], other[i]);
}

// Rows of a table, in the order of pm_operation, of columns in that of pm_element. All but extremes of a signed number are those of an unsigned one.
#define PM_OF_UNSIGNED(O) combine<O, uint8_t>, combine<O, uint16_t>, combine<O, uint32_t>, combine<O, uint64_t>
#define PM_OF_SIGNED(O) combine<O, int8_t>, combine<O, int16_t>, combine<O, int32_t>, combine<O, int64_t>
#define PM_OF_ALL(O) {nullptr, PM_OF_UNSIGNED(O), PM_OF_UNSIGNED(O), combine<O, float>, combine<O, double>}
#define PM_OF_ORDERED(O) {nullptr, PM_OF_SIGNED(O), PM_OF_UNSIGNED(O), combine<O, float>, combine<O, double>}
#define PM_OF_WHOLE(O) {nullptr, PM_OF_UNSIGNED(O), PM_OF_UNSIGNED(O), nullptr, nullptr}
#define PM_COMBINATIONS                                                                                                 \
    {{}, {}, {}, PM_OF_ALL(Sum), PM_OF_ALL(Product), PM_OF_ORDERED(Max), PM_OF_ORDERED(Min), PM_OF_WHOLE(Band),         \
     PM_OF_WHOLE(Bor), PM_OF_WHOLE(Bxor), PM_OF_WHOLE(Land), PM_OF_WHOLE(Lor), PM_OF_WHOLE(Lxor)}

static_assert(PM_SUM == 3 && PM_LXOR == 12 && PM_OPERATIONS == 13 && PM_INT8 == 1 && PM_UINT8 == 5 && PM_DOUBLE == 10 && PM_ELEMENTS == 11,
              "rows and columns are in this order");

}  // namespace
