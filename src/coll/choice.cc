#include "coll/choice.h"

#include "base/tuning.h"
#include "coll/team/team.h"

extern "C" {

int pm_goes_by_team(const pm_call *call)
{
    if (call->chosen || !call->plain)
        return 0;
    // What is longer than a page stays where it is, and so it may be where nobody knows how long it is.
    return call->reads || (call->known && call->bytes <= PM_TEAM_PAGE);
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
