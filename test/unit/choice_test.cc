// Which algorithm a collective takes.
#include "coll/choice.h"

#include <gtest/gtest.h>

#include "base/tuning.h"
#include "coll/team/team.h"

namespace {

// A few bytes, among ranks that may read each other's memory.
pm_call short_call()
{
    return {.chosen = 0, .reads = 1, .plain = 1, .known = 1, .bytes = 8};
}

TEST(Choice, WhatATeamDoes)
{
    pm_call call = short_call();
    EXPECT_TRUE(pm_goes_by_team(&call));
    call.bytes = PM_TEAM_PAGE + 1;
    EXPECT_TRUE(pm_goes_by_team(&call)) << "it stays where it is";
    call.known = 0;
    EXPECT_TRUE(pm_goes_by_team(&call));
}

TEST(Choice, WhatTheUserChoseIsTaken)
{
    pm_call call = short_call();
    call.chosen = 1;
    EXPECT_FALSE(pm_goes_by_team(&call));
}

TEST(Choice, WhatIsNotPlainIsReducedByMpich)
{
    pm_call call = short_call();
    call.plain = 0;
    EXPECT_FALSE(pm_goes_by_team(&call));
}

TEST(Choice, WhereMemoryCannotBeReadPagesMustDo)
{
    pm_call call = short_call();
    call.reads = 0;
    EXPECT_TRUE(pm_goes_by_team(&call));
    call.bytes = PM_TEAM_PAGE;
    EXPECT_TRUE(pm_goes_by_team(&call));
    call.bytes = PM_TEAM_PAGE + 1;
    EXPECT_FALSE(pm_goes_by_team(&call));
    call.bytes = 0;
    call.known = 0;
    EXPECT_FALSE(pm_goes_by_team(&call));
}

TEST(Choice, CollectivesOfSomeRanks)
{
    EXPECT_TRUE(pm_some_in_whole(PM_SOME_SHORT_LIMIT));
    EXPECT_FALSE(pm_some_in_whole(PM_SOME_SHORT_LIMIT + 1));
    EXPECT_FALSE(pm_some_bcast_in_whole(PM_SOME_SHORT_LIMIT + 1, 3, 0));
    EXPECT_TRUE(pm_some_bcast_in_whole(PM_SOME_SHORT_LIMIT + 1, 2, 0)) << "there is nobody to pass a part on to";
    EXPECT_TRUE(pm_some_bcast_in_whole(PM_SOME_SHORT_LIMIT + 1, 3, 1)) << "through the same memory";
    EXPECT_TRUE(pm_some_by_tree(PM_SOME_TREE_BLOCK, PM_SOME_FLAT_MEMBERS + 1));
    EXPECT_FALSE(pm_some_by_tree(PM_SOME_TREE_BLOCK + 1, PM_SOME_FLAT_MEMBERS + 1));
    EXPECT_FALSE(pm_some_by_tree(PM_SOME_TREE_BLOCK, PM_SOME_FLAT_MEMBERS));
}

}  // namespace
