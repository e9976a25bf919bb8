// The loops of combine.h, once for each kind of processor: a source says which one, and includes this. Nothing here is seen outside of it, so that no
// other source gets code for a processor that it has not asked about.

// What -O2 leaves as it is: loops whose length is not known.
#pragma GCC optimize("O3")

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

using Byte = unsigned char;
using Half = unsigned short;
using Word = unsigned int;
using Long = unsigned long;

// Rows of a table, in the order of pm_operation, of columns in that of pm_element. All but extremes of a signed number are those of an unsigned one.
#define PM_OF_INTEGERS(O) \
    nullptr, combine<O, Byte>, combine<O, Half>, combine<O, Word>, combine<O, Long>, combine<O, Byte>, combine<O, Half>, combine<O, Word>, combine<O, Long>
#define PM_OF_ALL(O) {PM_OF_INTEGERS(O), combine<O, float>, combine<O, double>}
#define PM_OF_ORDERED(O)                                                                                                           \
    {nullptr,          combine<O, signed char>, combine<O, short>, combine<O, int>, combine<O, long>, combine<O, Byte>, combine<O, Half>, \
     combine<O, Word>, combine<O, Long>,        combine<O, float>, combine<O, double>}
#define PM_OF_WHOLE(O) {PM_OF_INTEGERS(O), nullptr, nullptr}
#define PM_COMBINATIONS                                                                                                            \
    {{}, {}, {}, PM_OF_ALL(Sum), PM_OF_ALL(Product), PM_OF_ORDERED(Max), PM_OF_ORDERED(Min), PM_OF_WHOLE(Band), PM_OF_WHOLE(Bor), PM_OF_WHOLE(Bxor), \
     PM_OF_WHOLE(Land), PM_OF_WHOLE(Lor), PM_OF_WHOLE(Lxor)}

static_assert(PM_SUM == 3 && PM_LXOR == 12 && PM_OPERATIONS == 13 && PM_INT8 == 1 && PM_UINT8 == 5 && PM_DOUBLE == 10 && PM_ELEMENTS == 11,
              "rows and columns are in this order");
static_assert(sizeof(Half) == 2 && sizeof(Word) == 4 && sizeof(Long) == 8, "as the names in element.h say");

}  // namespace
