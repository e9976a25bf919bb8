#include "coll/combine/combine.h"

#if defined(__x86_64__)
// Here already, so that nothing of them is compiled for that processor.
#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif
#include "coll/combine/kernels.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif

const pm_combinations pm_avx2_combinations = PM_COMBINATIONS;
#endif
