/* MPI_DOUBLE_INT and its kin in files: included by ROMIO's flattening of datatypes, which takes every datatype with a name for
 * contiguous. Those of the predefined pairs that have a gap are shown to it as the structures they are. */
#ifndef COMPOSITE_PAIRS_H_INCLUDED
#define COMPOSITE_PAIRS_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

static bool composite_pair(MPI_Datatype datatype, MPI_Datatype * first, MPI_Aint * second)
{
    struct double_int { double a; int b; };
    struct long_int { long a; int b; };
    struct short_int { short a; int b; };
    struct long_double_int { long double a; int b; };
    struct {
        MPI_Datatype pair, first;
        size_t second;
    } pairs[] = {
        {MPI_DOUBLE_INT, MPI_DOUBLE, offsetof(struct double_int, b)},
        {MPI_LONG_INT, MPI_LONG, offsetof(struct long_int, b)},
        {MPI_SHORT_INT, MPI_SHORT, offsetof(struct short_int, b)},
        {MPI_LONG_DOUBLE_INT, MPI_LONG_DOUBLE, offsetof(struct long_double_int, b)},
    };

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (datatype != MPI_DATATYPE_NULL && datatype == pairs[i].pair) {
            *first = pairs[i].first;
            *second = (MPI_Aint) pairs[i].second;
            return true;
        }
    return false;
}

static int composite_get_envelope(MPI_Datatype datatype, int *integers, int *addresses, int *datatypes, int *combiner)
{
    MPI_Datatype first;
    MPI_Aint second;

    if (!composite_pair(datatype, &first, &second))
        return PMPI_Type_get_envelope(datatype, integers, addresses, datatypes, combiner);
    *integers = 3;
    *addresses = *datatypes = 2;
    *combiner = MPI_COMBINER_STRUCT;
    return MPI_SUCCESS;
}

static int composite_get_contents(MPI_Datatype datatype, int max_integers, int max_addresses, int max_datatypes, int integers[],
                                  MPI_Aint addresses[], MPI_Datatype datatypes[])
{
    MPI_Datatype first;
    MPI_Aint second;

    if (!composite_pair(datatype, &first, &second))
        return PMPI_Type_get_contents(datatype, max_integers, max_addresses, max_datatypes, integers, addresses, datatypes);
    integers[0] = 2;
    integers[1] = integers[2] = 1;
    addresses[0] = 0;
    addresses[1] = second;
    datatypes[0] = first;
    datatypes[1] = MPI_INT;
    return MPI_SUCCESS;
}

/* ROMIO frees what contents it was shown. */
static int composite_type_free(MPI_Datatype * datatype)
{
    MPI_Datatype first;
    MPI_Aint second;

    return composite_pair(*datatype, &first, &second) ? MPI_SUCCESS : PMPI_Type_free(datatype);
}

#undef MPI_Type_get_envelope
#define MPI_Type_get_envelope composite_get_envelope
#undef MPI_Type_get_contents
#define MPI_Type_get_contents composite_get_contents
#undef MPI_Type_free
#define MPI_Type_free composite_type_free

#endif
