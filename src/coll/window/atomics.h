/* Elements in memory that several processes change at once, by instructions of the processor: each change is whole, whoever makes it. What
 * has no such instruction (elements that are too long or not at a multiple of their size) is for the caller to protect. */
#ifndef PM_ATOMICS_H_INCLUDED
#define PM_ATOMICS_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#include "coll/element.h"

#ifdef __cplusplus
extern "C" {
#endif

size_t pm_element_size(pm_element element);     /* 0 for none */

/* 1 when pm_atomic_apply() and pm_atomic_swap() may be used for elements at that address. */
int pm_is_atomic(pm_element element, pm_operation operation, const void *target);

/* target[i] = target[i] op origin[i], each element for itself; what was there before goes to `result`, unless that is NULL. */
void pm_atomic_apply(pm_element element, pm_operation operation, void *target, const void *origin, void *result, size_t count);

/* One element: what was there goes to `result`; if it is equal to `compare`, `origin` takes its place. */
void pm_atomic_swap(pm_element element, void *target, const void *origin, const void *compare, void *result);

#ifdef __cplusplus
}
#endif
#endif
