#include "coll/combine/combine.h"

pm_combination *pm_combination_of(pm_element element, pm_operation operation)
{
#if defined(__x86_64__)
    static const bool wide = __builtin_cpu_supports("avx2") != 0;
    if (wide)
        return pm_avx2_combinations[operation][element];
#endif
    return pm_plain_combinations[operation][element];
}
