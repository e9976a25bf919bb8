// Which algorithm a collective takes.
#include "coll/choice.h"

#include <gtest/gtest.h>

#include "base/tuning.h"
#include "netmod/core/shared.h"

namespace {

// 8 ranks on too few cores, 8 bytes.
pm_call crowded_call(int ranks = 8, size_t bytes = 8)
{
    return {.chosen = 0, .near = 1, .crowded = 1, .ranks = ranks, .bytes = bytes, .plain = 1};
}

using Chooses = pm_way (*)(const pm_call *);

pm_way way(Chooses chooses, const pm_call &call)
{
    return chooses(&call);
}

TEST(Choice, WhatTheUserChoseIsTaken)
{
    pm_call call = crowded_call();
    call.chosen = 1;
    for (Chooses chooses : {pm_barrier_way, pm_bcast_way, pm_allreduce_way})
        EXPECT_EQ(way(chooses, call), PM_WAY_GENERIC);
}

TEST(Choice, BetweenHostsMpichChooses)
{
    pm_call call = crowded_call();
    call.near = 0;
    for (Chooses chooses : {pm_barrier_way, pm_bcast_way, pm_allreduce_way})
        EXPECT_EQ(way(chooses, call), PM_WAY_GENERIC);
}

TEST(Choice, WithACoreForEachRankARoundIsCheap)
{
    pm_call call = crowded_call();
    call.crowded = 0;
    EXPECT_EQ(way(pm_barrier_way, call), PM_WAY_DISSEMINATION);
    EXPECT_EQ(way(pm_bcast_way, call), PM_WAY_GENERIC);
    EXPECT_EQ(way(pm_allreduce_way, call), PM_WAY_GENERIC);
}

TEST(Choice, OnSharedCoresFewRoundsAreBetterUntilOneRankIsTheBottleneck)
{
    EXPECT_EQ(way(pm_barrier_way, crowded_call(1)), PM_WAY_DISSEMINATION) << "it is alone";
    EXPECT_EQ(way(pm_barrier_way, crowded_call(PM_EXCHANGE_RANKS_LIMIT)), PM_WAY_EXCHANGE);
    EXPECT_EQ(way(pm_barrier_way, crowded_call(PM_EXCHANGE_RANKS_LIMIT + 1)), PM_WAY_FLAT);
    EXPECT_EQ(way(pm_barrier_way, crowded_call(PM_FLAT_RANKS_LIMIT)), PM_WAY_FLAT);
    EXPECT_EQ(way(pm_barrier_way, crowded_call(PM_FLAT_RANKS_LIMIT + 1)), PM_WAY_DISSEMINATION);
    EXPECT_EQ(way(pm_bcast_way, crowded_call(PM_FLAT_RANKS_LIMIT)), PM_WAY_FLAT);
    EXPECT_EQ(way(pm_bcast_way, crowded_call(PM_FLAT_RANKS_LIMIT + 1)), PM_WAY_GENERIC);
    EXPECT_EQ(way(pm_bcast_way, crowded_call(8, 0)), PM_WAY_GENERIC);
}

TEST(Choice, AnAllreduceIsOneExchangeWhileItFits)
{
    EXPECT_EQ(way(pm_allreduce_way, crowded_call(PM_EXCHANGE_RANKS_LIMIT, PM_EXCHANGE_BYTES_LIMIT)), PM_WAY_EXCHANGE);
    EXPECT_EQ(way(pm_allreduce_way, crowded_call(PM_EXCHANGE_RANKS_LIMIT, PM_EXCHANGE_BYTES_LIMIT + 1)), PM_WAY_FLAT);
    EXPECT_EQ(way(pm_allreduce_way, crowded_call(PM_EXCHANGE_RANKS_LIMIT + 1, PM_EXCHANGE_BYTES_LIMIT)), PM_WAY_FLAT);
    EXPECT_EQ(way(pm_allreduce_way, crowded_call(8, PM_FLAT_REDUCE_LIMIT)), PM_WAY_FLAT);
    EXPECT_EQ(way(pm_allreduce_way, crowded_call(8, PM_FLAT_REDUCE_LIMIT + 1)), PM_WAY_GENERIC);
    EXPECT_EQ(way(pm_allreduce_way, crowded_call(8, 0)), PM_WAY_GENERIC);
    pm_call call = crowded_call();
    call.plain = 0;
    EXPECT_EQ(way(pm_allreduce_way, call), PM_WAY_GENERIC);
}

TEST(Choice, ACopyIsLeftOfWhatTheRootWouldWaitFor)
{
    EXPECT_FALSE(pm_bcast_leaves_copy(16384, 1, 16384));
    EXPECT_TRUE(pm_bcast_leaves_copy(16385, 1, 16384));
    EXPECT_TRUE(pm_bcast_leaves_copy(PM_SHARED_LIMIT, 1, 16384));
    EXPECT_FALSE(pm_bcast_leaves_copy(PM_SHARED_LIMIT + 1, 1, 16384));
    EXPECT_FALSE(pm_bcast_leaves_copy(16385, 0, 16384));
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
