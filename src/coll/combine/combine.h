/* Two vectors of numbers combined, as MPI's reductions do it: out[i] = left[i] op right[i].
 *
 * As many numbers at a time as a register of the processor has room for. Each result is what a loop over single ones makes of it, bit for bit (but for which of
 * two that are no numbers is the result), so it does not matter on which processor a rank is. Vectors may lie anywhere; `out` may be `right`, and otherwise overlaps neither. For C and C++. */
#ifndef PM_COMBINE_H_INCLUDED
#define PM_COMBINE_H_INCLUDED

#include <stddef.h>

#include "coll/element.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void pm_combination(const void *left, const void *right, void *out, size_t count);

/* The quickest on this processor. NULL: there is none, of PM_REPLACE and PM_NO_OPERATION, and of bits and truth of numbers with a fraction. */
pm_combination *pm_combination_of(pm_element element, pm_operation operation);

#ifdef __cplusplus
}

// A table for every kind of processor; for tests.
using pm_combinations = pm_combination *[PM_OPERATIONS][PM_ELEMENTS];
extern const pm_combinations pm_plain_combinations;
#if defined(__x86_64__)
extern const pm_combinations pm_avx2_combinations;
#endif
#endif

#endif
