#include "coll/combine/combine.h"
#include "coll/combine/kernels.h"

const pm_combinations pm_plain_combinations = PM_COMBINATIONS;
