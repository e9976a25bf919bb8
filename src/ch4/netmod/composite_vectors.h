/* Which datatypes are regular. */
#ifndef COMPOSITE_VECTORS_H_INCLUDED
#define COMPOSITE_VECTORS_H_INCLUDED

#include "composite_impl.h"
#include "composite_regular.h"

/* One after the other they leave nothing out. */
static inline bool MPIDI_COMPOSITE_is_solid(MPI_Datatype datatype)
{
    int contiguous;
    MPI_Aint size, extent;
    MPIR_Datatype *type;

    MPIR_Datatype_is_contig(datatype, &contiguous);
    MPIR_Datatype_get_size_macro(datatype, size);
    MPIR_Datatype_get_extent_macro(datatype, extent);
    if (!contiguous || size != extent || size <= 0)
        return false;
    if (HANDLE_IS_BUILTIN(datatype))
        return true;
    MPIR_Datatype_get_ptr(datatype, type);
    return type->true_lb == 0;
}

static inline bool MPIDI_COMPOSITE_add_subarray(MPIDI_COMPOSITE_regular_t * regular, const int *ints, MPI_Aint extent)
{
    const int dimensions = ints[0];
    const int *whole = ints + 1, *part = whole + dimensions, *start = part + dimensions;
    const bool c_order = start[dimensions] == MPI_ORDER_C;
    MPI_Aint stride = extent;

    for (int i = 0; i < dimensions; i++)
        stride *= whole[i];
    for (int i = 0; i < dimensions; i++) {
        const int dimension = c_order ? i : dimensions - 1 - i;

        stride /= whole[dimension];
        regular->begin += start[dimension] * stride;
        if (!MPIDI_COMPOSITE_add_level(regular, part[dimension], stride))
            return false;
    }
    return true;
}

/* What the datatype makes of the one that it consists of, which is `extent` bytes. */
static inline bool MPIDI_COMPOSITE_add_combiner(MPIDI_COMPOSITE_regular_t * regular, int combiner, const int *ints, const MPI_Aint * aints,
                                                MPI_Aint extent)
{
    switch (combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        return true;
    case MPI_COMBINER_CONTIGUOUS:
        return MPIDI_COMPOSITE_add_level(regular, ints[0], extent);
    case MPI_COMBINER_VECTOR:
        return MPIDI_COMPOSITE_add_level(regular, ints[0], ints[2] * extent) && MPIDI_COMPOSITE_add_level(regular, ints[1], extent);
    case MPI_COMBINER_HVECTOR:
        return MPIDI_COMPOSITE_add_level(regular, ints[0], aints[0]) && MPIDI_COMPOSITE_add_level(regular, ints[1], extent);
    case MPI_COMBINER_SUBARRAY:
        return MPIDI_COMPOSITE_add_subarray(regular, ints, extent);
    default:
        return false;
    }
}

static inline bool MPIDI_COMPOSITE_is_regular(MPI_Datatype datatype, MPIDI_COMPOSITE_regular_t * regular)
{
    MPI_Aint size, extent;

    MPIR_Datatype_get_extent_macro(datatype, extent);
    regular->begin = 0;
    regular->levels = 1;
    regular->level[0].count = SIZE_MAX;
    regular->level[0].stride = extent;
    while (!MPIDI_COMPOSITE_is_solid(datatype)) {
        MPIR_Datatype *type;
        int *ints;
        MPI_Aint *aints, *counts;
        MPI_Datatype *types;

        if (HANDLE_IS_BUILTIN(datatype))
            return false;
        MPIR_Datatype_get_ptr(datatype, type);
        if (type->contents == NULL || type->contents->nr_counts != 0 || type->contents->nr_types != 1)
            return false;
        MPIR_Datatype_access_contents(type->contents, &ints, &aints, &counts, &types);
        datatype = types[0];
        MPIR_Datatype_get_extent_macro(datatype, extent);
        if (!MPIDI_COMPOSITE_add_combiner(regular, type->contents->combiner, ints, aints, extent))
            return false;
    }
    MPIR_Datatype_get_size_macro(datatype, size);
    MPIDI_COMPOSITE_set_block(regular, (size_t) size);
    return true;
}

#endif
