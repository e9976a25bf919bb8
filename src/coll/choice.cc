#include "coll/choice.h"

#include "base/tuning.h"
#include "netmod/core/shared.h"

namespace {

bool flat_is_better(const pm_call *call)
{
    return call->crowded && call->near && call->ranks > 1 && call->ranks <= PM_FLAT_RANKS_LIMIT;
}

}  // namespace

extern "C" {

pm_way pm_barrier_way(const pm_call *call)
{
    if (call->chosen || !call->near)
        return PM_WAY_GENERIC;
    if (!flat_is_better(call))
        return PM_WAY_DISSEMINATION;
    return call->ranks <= PM_EXCHANGE_RANKS_LIMIT ? PM_WAY_EXCHANGE : PM_WAY_FLAT;
}

pm_way pm_bcast_way(const pm_call *call)
{
    return call->chosen || !flat_is_better(call) || call->bytes == 0 ? PM_WAY_GENERIC : PM_WAY_FLAT;
}

pm_way pm_allreduce_way(const pm_call *call)
{
    if (call->chosen || !flat_is_better(call) || !call->plain || call->bytes == 0 || call->bytes > PM_FLAT_REDUCE_LIMIT)
        return PM_WAY_GENERIC;
    return call->ranks <= PM_EXCHANGE_RANKS_LIMIT && call->bytes <= PM_EXCHANGE_BYTES_LIMIT ? PM_WAY_EXCHANGE : PM_WAY_FLAT;
}

int pm_bcast_leaves_copy(size_t bytes, int contiguous, size_t eager)
{
    return contiguous && bytes > eager && bytes <= PM_SHARED_LIMIT;
}

int pm_some_in_whole(size_t bytes)
{
    return bytes <= PM_SOME_SHORT_LIMIT;
}

int pm_some_bcast_in_whole(size_t bytes, int members, int near)
{
    return pm_some_in_whole(bytes) || members <= 2 || near;
}

int pm_some_by_tree(size_t bytes, int members)
{
    return bytes <= PM_SOME_TREE_BLOCK && members > PM_SOME_FLAT_MEMBERS;
}

}  // extern "C"
