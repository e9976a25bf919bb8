#include "coll/combine/combine.h"

#if defined(__x86_64__)
#pragma GCC target("avx2")
#include "coll/combine/kernels.h"

const pm_combinations pm_avx2_combinations = PM_COMBINATIONS;
#endif
