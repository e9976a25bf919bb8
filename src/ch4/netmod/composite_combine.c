/* Which of MPI's datatypes and operations are numbers and operations of ours (coll/element.h), and reductions of them by the loops of coll/combine.
 * MPICH's own take one number at a time, and do what is not here: places of extremes, complex and long numbers. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_combine.h"
#include "coll/combine/combine.h"

unsigned char MPIDI_COMPOSITE_elements[256], MPIDI_COMPOSITE_operations[256];
static MPIR_op_function *of_mpich[PM_OPERATIONS];

/* ---- what is what ---- */

static void is_integer(MPI_Datatype datatype, bool is_signed)
{
    int size;

    if (datatype == MPI_DATATYPE_NULL || !HANDLE_IS_BUILTIN(datatype))
        return;
    size = MPIR_Datatype_get_basic_size(datatype);
    for (int i = 0; i < 4; i++)
        if (size == 1 << i)
            MPIDI_COMPOSITE_elements[datatype & 0xff] = (unsigned char) ((is_signed ? PM_INT8 : PM_UINT8) + i);
}

static void is_real(MPI_Datatype datatype)
{
    if (datatype == MPI_DATATYPE_NULL || !HANDLE_IS_BUILTIN(datatype))
        return;
    if (MPIR_Datatype_get_basic_size(datatype) == sizeof(float))
        MPIDI_COMPOSITE_elements[datatype & 0xff] = PM_FLOAT;
    if (MPIR_Datatype_get_basic_size(datatype) == sizeof(double))
        MPIDI_COMPOSITE_elements[datatype & 0xff] = PM_DOUBLE;
}

static void know_elements(void)
{
    /* Bytes have no sum, and whether characters have a sign differs. */
    static const MPI_Datatype with_sign[] = {
        MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG, MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T,
        MPI_AINT, MPI_OFFSET, MPI_COUNT,
#ifdef HAVE_FORTRAN_BINDING
        MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8,
#endif
    };
    static const MPI_Datatype without_sign[] = {
        MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T,
        MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T,
    };
    static const MPI_Datatype real[] = {
        MPI_FLOAT, MPI_DOUBLE,
#ifdef HAVE_FORTRAN_BINDING
        MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8,
#endif
    };
    static const struct {
        MPI_Op op;
        pm_operation operation;
    } operations[] = {
        {MPI_REPLACE, PM_REPLACE}, {MPI_NO_OP, PM_NO_OPERATION}, {MPI_SUM, PM_SUM}, {MPI_PROD, PM_PRODUCT}, {MPI_MAX, PM_MAX},
        {MPI_MIN, PM_MIN}, {MPI_BAND, PM_BAND}, {MPI_BOR, PM_BOR}, {MPI_BXOR, PM_BXOR}, {MPI_LAND, PM_LAND}, {MPI_LOR, PM_LOR},
        {MPI_LXOR, PM_LXOR},
    };

    for (size_t i = 0; i < sizeof with_sign / sizeof with_sign[0]; i++)
        is_integer(with_sign[i], true);
    for (size_t i = 0; i < sizeof without_sign / sizeof without_sign[0]; i++)
        is_integer(without_sign[i], false);
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++)
        is_real(real[i]);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        MPIDI_COMPOSITE_operations[operations[i].op & 0xff] = (unsigned char) operations[i].operation;
}

/* ---- reducing ---- */

/* NULL: MPICH does it. Bytes have no sum, but bits. */
static pm_combination *combination_of(MPI_Datatype type, pm_operation operation)
{
    if (!HANDLE_IS_BUILTIN(type))
        return NULL;
    if (type == MPI_BYTE && operation >= PM_BAND && operation <= PM_BXOR)
        return pm_combination_of(PM_UINT8, operation);
    return pm_combination_of((pm_element) MPIDI_COMPOSITE_elements[type & 0xff], operation);
}

int MPIDI_COMPOSITE_combine(const void *left, const void *right, void *out, MPI_Aint count, MPI_Datatype type, MPI_Op op)
{
    pm_combination *combine = HANDLE_IS_BUILTIN(op) ? combination_of(type, (pm_operation) MPIDI_COMPOSITE_operations[op & 0xff]) : NULL;
    MPI_Aint size;

    if (combine) {
        combine(left, right, out, (size_t) count);
        return MPI_SUCCESS;
    }
    MPIR_Datatype_get_size_macro(type, size);
    if (out != right)
        memcpy(out, right, (size_t) (count * size));
    return MPIR_Reduce_local(left, out, count, type, op);
}

/* In MPICH's table each operation has a function of its own, which is not told which one it is. */
#define IN_TABLE(operation) \
    static void reduce_by_##operation(void *in, void *inout, MPI_Aint * count, MPI_Datatype * type) \
    { \
        pm_combination *combine = combination_of(*type, operation); \
        if (combine) \
            combine(in, inout, inout, (size_t) *count); \
        else \
            of_mpich[operation] (in, inout, count, type); \
    }
IN_TABLE(PM_SUM)
IN_TABLE(PM_PRODUCT)
IN_TABLE(PM_MAX)
IN_TABLE(PM_MIN)
IN_TABLE(PM_BAND)
IN_TABLE(PM_BOR)
IN_TABLE(PM_BXOR)
IN_TABLE(PM_LAND)
IN_TABLE(PM_LOR)
IN_TABLE(PM_LXOR)

static const struct {
    MPI_Op op;
    pm_operation operation;
    MPIR_op_function *function;
} in_table[] = {
    {MPI_SUM, PM_SUM, reduce_by_PM_SUM}, {MPI_PROD, PM_PRODUCT, reduce_by_PM_PRODUCT}, {MPI_MAX, PM_MAX, reduce_by_PM_MAX},
    {MPI_MIN, PM_MIN, reduce_by_PM_MIN}, {MPI_BAND, PM_BAND, reduce_by_PM_BAND}, {MPI_BOR, PM_BOR, reduce_by_PM_BOR},
    {MPI_BXOR, PM_BXOR, reduce_by_PM_BXOR}, {MPI_LAND, PM_LAND, reduce_by_PM_LAND}, {MPI_LOR, PM_LOR, reduce_by_PM_LOR},
    {MPI_LXOR, PM_LXOR, reduce_by_PM_LXOR}
};

void MPIDI_COMPOSITE_combine_init(void)
{
    know_elements();
    for (size_t i = 0; i < sizeof in_table / sizeof in_table[0]; i++) {
        if (MPIR_OP_HDL_TO_FN(in_table[i].op) == in_table[i].function)
            continue;           /* what failed before had not given it back */
        of_mpich[in_table[i].operation] = MPIR_OP_HDL_TO_FN(in_table[i].op);
        MPIR_OP_HDL_TO_FN(in_table[i].op) = in_table[i].function;
    }
}

void MPIDI_COMPOSITE_combine_finalize(void)
{
    for (size_t i = 0; i < sizeof in_table / sizeof in_table[0]; i++)
        if (MPIR_OP_HDL_TO_FN(in_table[i].op) == in_table[i].function)
            MPIR_OP_HDL_TO_FN(in_table[i].op) = of_mpich[in_table[i].operation];
}
