#ifndef COMPOSITE_MEASURE_H_INCLUDED
#define COMPOSITE_MEASURE_H_INCLUDED

#include "composite_impl.h"

/* composite_measure.c: all ranks of a job, with all cards, before peers are connected. */
int MPIDI_COMPOSITE_measure(const void *const *cards, const size_t * sizes);

#endif
