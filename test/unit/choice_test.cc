// Which way a collective takes.
#include "coll/choice.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/tuning.h"
#include "coll/team/leaders.h"
#include "coll/team/team.h"
#include "netmod/core/core.h"

namespace {

const std::size_t endless = SIZE_MAX;

struct Choices {
    explicit Choices(const char *word = "auto", const char *table = "none")
    {
        std::vector<const char *> words(PM_COLLECTIVES, word);
        choices = pm_choices_open(words.data(), table);
    }
    ~Choices() { pm_choices_close(choices); }
    // Among ranks that may read each other's memory, and have a core each.
    pm_switch of(pm_collective operation, int ranks = 8, bool reads = true, bool crowded = false) const
    {
        return pm_switch_of(choices, operation, ranks, reads, crowded);
    }
    pm_choices *choices;
};

void expect_switch(const pm_switch &its, std::size_t board, bool memory)
{
    EXPECT_EQ(its.messages, 0);
    EXPECT_EQ(its.board, board);
    EXPECT_EQ(its.memory, memory);
}

// What goes page by page, if it is longer than one.
bool has_pieces(pm_collective operation, int ranks = 8)
{
    return operation != PM_COLL_BARRIER && (ranks == 2 || (operation != PM_COLL_GATHER && operation != PM_COLL_SCATTER));
}

// A file with this text, while it is needed.
struct Table {
    explicit Table(const std::string &text) : path(testing::TempDir() + "choice_test." + std::to_string(getpid())) { std::ofstream(path) << text; }
    ~Table() { unlink(path.c_str()); }
    std::string path;
};

TEST(Choice, WhatGoesWhere)
{
    pm_switch its{.board = 100, .memory = 1, .messages = 0};
    EXPECT_EQ(pm_way_of(&its, 0), PM_BY_BOARD);
    EXPECT_EQ(pm_way_of(&its, 100), PM_BY_BOARD);
    EXPECT_EQ(pm_way_of(&its, 101), PM_BY_MEMORY);
    EXPECT_EQ(pm_way_of_unknown(&its), PM_BY_BOARD) << "each looks at its own";
    its.board = 0;
    EXPECT_EQ(pm_way_of(&its, 0), PM_BY_BOARD) << "of nothing nothing stays where it is";
    EXPECT_EQ(pm_way_of(&its, 1), PM_BY_MEMORY);
    EXPECT_EQ(pm_way_of_unknown(&its), PM_BY_MEMORY);
    its = {.board = 100, .memory = 0, .messages = 0};
    EXPECT_EQ(pm_way_of(&its, 101), PM_BY_MESSAGES);
    EXPECT_EQ(pm_way_of_unknown(&its), PM_BY_MESSAGES) << "it may be longer";
    its.messages = 1;
    EXPECT_EQ(pm_way_of(&its, 0), PM_BY_MESSAGES);
    its = {.board = endless, .memory = 1, .messages = 0};
    EXPECT_EQ(pm_switch_in_one_step(&its).board, PM_TEAM_PAGE);
    its.board = 3;
    EXPECT_EQ(pm_switch_in_one_step(&its).board, 3);
}

TEST(Choice, WhatIsTakenWithoutSettings)
{
    Choices choices;
    for (bool crowded : {false, true}) {
        for (pm_collective operation : {PM_COLL_BARRIER, PM_COLL_GATHER, PM_COLL_SCATTER})
            expect_switch(choices.of(operation, 8, true, crowded), PM_TEAM_PAGE, true);
        const std::size_t pieces = crowded ? endless : PM_TEAM_OWN_CORES_PIECES;
        for (pm_collective operation : {PM_COLL_GATHER, PM_COLL_SCATTER})
            expect_switch(choices.of(operation, 2, true, crowded), crowded ? PM_TEAM_PAGE : PM_TEAM_PAIR_PIECES_LIMIT, true);
        expect_switch(choices.of(PM_COLL_BCAST, 2, true, crowded), crowded ? PM_TEAM_BCAST_PIECES : PM_TEAM_PAIR_PIECES_LIMIT, true);
        for (pm_collective operation : {PM_COLL_ALLGATHER, PM_COLL_REDUCE})
            expect_switch(choices.of(operation, 2, true, crowded), crowded ? endless : PM_TEAM_PAIR_PIECES_LIMIT, true);
        expect_switch(choices.of(PM_COLL_ALLTOALL, 2, true, crowded), crowded ? endless : PM_TEAM_PAIR_ALLTOALL, true);
        for (pm_collective operation : {PM_COLL_ALLREDUCE, PM_COLL_REDUCE_SCATTER})
            expect_switch(choices.of(operation, 8, true, crowded), endless, true);
        expect_switch(choices.of(PM_COLL_ALLGATHER, 8, true, crowded), pieces, true);
        expect_switch(choices.of(PM_COLL_SCAN, 8, true, crowded), endless, false);
        expect_switch(choices.of(PM_COLL_BCAST, 8, true, crowded), crowded ? PM_TEAM_BCAST_PIECES : PM_TEAM_OWN_CORES_PIECES, true);
        expect_switch(choices.of(PM_COLL_ALLTOALL, PM_TEAM_ALLTOALL_PIECES_RANKS, true, true), endless, true);
        expect_switch(choices.of(PM_COLL_ALLTOALL, PM_TEAM_ALLTOALL_PIECES_RANKS + 1, true, crowded),
                      crowded ? PM_TEAM_ALLTOALL_PIECES : PM_TEAM_OWN_CORES_PIECES, true);
        const int few = crowded ? PM_TEAM_REDUCE_PIECES_CROWD : PM_TEAM_REDUCE_PIECES_RANKS;
        expect_switch(choices.of(PM_COLL_REDUCE, few, true, crowded), endless, true);
        expect_switch(choices.of(PM_COLL_REDUCE, few + 1, true, crowded), PM_TEAM_PAGE, true);
    }
    for (int i = 0; i < PM_COLLECTIVES; ++i) {
        auto operation = static_cast<pm_collective>(i);
        expect_switch(choices.of(operation, 2, false), has_pieces(operation, 2) ? endless : PM_TEAM_PAGE, false);
    }
}

TEST(Choice, WhatTheUserChoseIsTaken)
{
    Choices messages("messages"), board("board"), memory("memory");
    for (int i = 0; i < PM_COLLECTIVES; ++i) {
        auto operation = static_cast<pm_collective>(i);
        const std::size_t all = has_pieces(operation) ? endless : PM_TEAM_PAGE;
        for (bool reads : {false, true}) {
            EXPECT_EQ(messages.of(operation, 8, reads).messages, 1);
            expect_switch(board.of(operation, 8, reads), all, false);
        }
        if (operation == PM_COLL_SCAN)
            expect_switch(memory.of(operation), endless, false);  // there is no other way
        else
            expect_switch(memory.of(operation), 0, true);
        expect_switch(memory.of(operation, 8, false), all, false);
    }
}

TEST(Choice, AnUnknownWayIsAnErrorThatNamesTheKnownOnes)
{
    Choices unknown("pigeons");
    EXPECT_EQ(unknown.choices, nullptr);
    EXPECT_STREQ(pm_error_text(), "unknown way \"pigeons\" in MPIR_CVAR_CH4_COMPOSITE_COLL_BARRIER; known are auto, messages, board, memory");
}

TEST(Choice, ATableSaysUpToWhereTheBoardIsTaken)
{
    Table table("# measured\n\nbcast 4 1000  # few\nbcast 16 200000\r\n\tallgather 8 0\ngather 8 all\nreduce 4 all");
    Choices choices("auto", table.path.c_str());
    ASSERT_NE(choices.choices, nullptr) << pm_error_text();
    for (int ranks : {2, 4})
        expect_switch(choices.of(PM_COLL_BCAST, ranks), 1000, true);
    for (int ranks : {5, 16})
        expect_switch(choices.of(PM_COLL_BCAST, ranks), 200000, true);
    expect_switch(choices.of(PM_COLL_BCAST, 17), PM_TEAM_OWN_CORES_PIECES, true);
    expect_switch(choices.of(PM_COLL_BCAST, 4, false), endless, false);
    expect_switch(choices.of(PM_COLL_ALLGATHER), 0, true);
    expect_switch(choices.of(PM_COLL_GATHER), PM_TEAM_PAGE, true);
    expect_switch(choices.of(PM_COLL_REDUCE, 4, true, true), endless, true);
    expect_switch(choices.of(PM_COLL_SCATTER), PM_TEAM_PAGE, true);
    Choices chosen("memory", table.path.c_str());
    expect_switch(chosen.of(PM_COLL_BCAST, 4), 0, true);
}

TEST(Choice, ATableThatMakesNoSenseIsAnErrorThatNamesTheLine)
{
    for (auto [text, words] : std::vector<std::pair<const char *, const char *>>{{"bcast 4", ":1: 2 words"},
                                                                                 {"bcast 4 1 1", ":1: 4 words"},
                                                                                 {"#\nfly 4 1", ":2: unknown operation \"fly\", known are bcast, reduce"},
                                                                                 {"barrier 4 1", ":1: unknown operation"},
                                                                                 {"bcast 1 1", ":1: \"1\" is no number of ranks"},
                                                                                 {"bcast 4x 1", ":1: \"4x\" is no number of ranks"},
                                                                                 {"bcast 4 -1", ":1: \"-1\" is no number of bytes"},
                                                                                 {"bcast 4 1k", ":1: \"1k\" is no number of bytes"},
                                                                                 {"bcast 4 1\nbcast 4 2", ":2: bcast for 4 ranks is in an earlier line"}}) {
        Table table(text);
        Choices choices("auto", table.path.c_str());
        EXPECT_EQ(choices.choices, nullptr) << text;
        EXPECT_NE(std::string(pm_error_text()).find(table.path + words), std::string::npos) << pm_error_text();
    }
    for (const char *path : {"/nonexistent/table", "/"}) {
        Choices none("auto", path);
        EXPECT_EQ(none.choices, nullptr);
        EXPECT_NE(std::string(pm_error_text()).find("COLL_TABLE"), std::string::npos) << pm_error_text();
    }
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

TEST(Choice, BetweenHosts)
{
    Choices choices, messages("messages"), board("board");
    EXPECT_EQ(pm_by_leaders(choices.choices, PM_COLL_BARRIER, 0), 1);
    EXPECT_EQ(pm_by_leaders(board.choices, PM_COLL_BARRIER, 0), 1) << "inside a host";
    EXPECT_EQ(pm_by_leaders(messages.choices, PM_COLL_BARRIER, 0), 0);
    EXPECT_EQ(pm_by_leaders(choices.choices, PM_COLL_BCAST, endless), 1);
    EXPECT_EQ(pm_by_leaders(choices.choices, PM_COLL_ALLREDUCE, PM_LEADERS_REDUCE_LIMIT), 1);
    EXPECT_EQ(pm_by_leaders(choices.choices, PM_COLL_ALLREDUCE, PM_LEADERS_REDUCE_LIMIT + 1), 0);
    EXPECT_EQ(pm_by_leaders(choices.choices, PM_COLL_SCATTER, PM_LEADERS_REDUCE_LIMIT), 1);
    EXPECT_EQ(pm_by_leaders(choices.choices, PM_COLL_GATHER, PM_LEADERS_REDUCE_LIMIT + 1), 0);
    EXPECT_EQ(pm_by_leaders(choices.choices, PM_COLL_ALLTOALL, PM_LEADERS_ALLTOALL_LIMIT), 1);
    EXPECT_EQ(pm_by_leaders(choices.choices, PM_COLL_ALLTOALL, PM_LEADERS_ALLTOALL_LIMIT + 1), 0);
    EXPECT_EQ(pm_by_leaders(choices.choices, PM_COLL_SCAN, PM_LEADERS_SCAN_LIMIT), 1);
    EXPECT_EQ(pm_by_leaders(choices.choices, PM_COLL_SCAN, PM_LEADERS_SCAN_LIMIT + 1), 0);
}

// Hosts dealt out to clusters, and a root; the trees of all hosts.
struct Led {
    Led(int hosts, int clusters, int root, pm_shape shape) : memory(pm_leaders_ints(hosts)), cluster(hosts), trees(hosts)
    {
        for (int host = 0; host < hosts; ++host)
            cluster[host] = static_cast<std::uint32_t>(host * 7 / 3 % clusters);
        pm_leaders_order(&leaders, memory.data(), hosts, clusters > 1 ? cluster.data() : nullptr, root);
        for (int place = 0; place < hosts; ++place)
            pm_tree_of(&leaders, place, shape, &trees[place]);
    }
    // How many cross from one cluster to another.
    int crossings() const
    {
        int count = 0;
        for (std::size_t place = 1; place < trees.size(); ++place)
            count += cluster[leaders.host[place]] != cluster[leaders.host[trees[place].parent]];
        return count;
    }
    // It and all that are below it, one by one.
    std::vector<int> all_below(int place) const
    {
        std::vector<int> all{place};
        for (int i = 0; i < trees[place].branches; ++i) {
            EXPECT_EQ(trees[trees[place].below[i].place].parent, place);
            std::vector<int> more = all_below(trees[place].below[i].place);
            all.insert(all.end(), more.begin(), more.end());
        }
        return all;
    }

    std::vector<int> memory;
    std::vector<std::uint32_t> cluster;
    std::vector<pm_tree> trees;
    pm_leaders leaders{};
};

TEST(Leaders, EachHostIsToldOnceAndEachClusterToo)
{
    for (int hosts = 1; hosts <= 40; ++hosts)
        for (auto [clusters, root, shape] : {std::tuple{1, 0, PM_FLAT}, {1, hosts / 2, PM_BINOMIAL}, {2, hosts - 1, PM_FLAT}, {2, 0, PM_CHAIN}, {5, hosts / 3, PM_BINOMIAL}}) {
            Led led(hosts, clusters, root, shape);
            EXPECT_EQ(led.leaders.host[0], root);
            EXPECT_EQ(led.trees[0].parent, -1);
            EXPECT_EQ(pm_leaders_place(&led.leaders, root), 0);
            std::vector<int> all = led.all_below(0);
            std::ranges::sort(all);
            for (int place = 0; place < hosts; ++place)
                ASSERT_EQ(all[place], place) << hosts << " hosts";
            EXPECT_EQ(all.size(), static_cast<std::size_t>(hosts));
            EXPECT_EQ(led.crossings(), led.leaders.clusters - 1) << hosts << " hosts in " << clusters << " clusters";
        }
}

TEST(Leaders, TheFirstPieceSaysHowManyFollow)
{
    std::map<std::size_t, std::size_t> number_of;    // by the length of the first
    for (std::size_t bytes = 1; bytes < 40 * std::size_t{PM_LEADERS_PIECE}; bytes += bytes % PM_LEADERS_PIECE < 4096 ? 1 : PM_LEADERS_PIECE / 4) {
        const std::size_t pieces = pm_pieces(bytes), first = pm_piece_end(bytes, 0);
        EXPECT_EQ(pm_piece_end(bytes, pieces - 1), bytes);
        for (std::size_t piece = 1; piece < pieces; ++piece) {
            ASSERT_GE(pm_piece_end(bytes, piece), pm_piece_end(bytes, piece - 1));
            ASSERT_LE(pm_piece_end(bytes, piece) - pm_piece_end(bytes, piece - 1), std::size_t{PM_LEADERS_PIECE});
        }
        ASSERT_EQ(number_of.emplace(first, pieces).first->second, pieces) << bytes << " bytes";
    }
    EXPECT_EQ(pm_pieces(0), 0u);
    EXPECT_EQ(pm_piece_end(PM_LEADERS_PIECE, 0), std::size_t{PM_LEADERS_PIECE});
}

TEST(Leaders, AThousandHosts)
{
    for (auto [clusters, root, shape] :
         {std::tuple{1, 999, PM_FLAT}, {7, 500, PM_BINOMIAL}, {7, 0, PM_CHAIN}, {7, 300, PM_FLAT}, {1000, 42, PM_FLAT}, {1000, 0, PM_BINOMIAL}}) {
        Led led(1000, clusters, root, shape);
        EXPECT_EQ(led.leaders.host[0], root);
        std::vector<int> all = led.all_below(0);
        std::ranges::sort(all);
        ASSERT_EQ(all.size(), 1000u);
        for (int place = 0; place < 1000; ++place)
            ASSERT_EQ(all[place], place) << clusters << " clusters";
        EXPECT_EQ(led.crossings(), led.leaders.clusters - 1);
        for (const pm_tree &tree : led.trees)
            EXPECT_LE(tree.branches, PM_BRANCHES_MAX);
    }
}

TEST(Leaders, BelowALeaderAreThePlacesThatFollow)
{
    for (int hosts = 1; hosts <= 200; ++hosts) {
        Led led(hosts, 3, hosts / 2, hosts % 3 == 0 ? PM_FLAT : hosts % 3 == 1 ? PM_BINOMIAL : PM_CHAIN);
        for (const pm_tree &tree : led.trees)
            for (int i = 0; i < tree.branches; ++i) {
                std::vector<int> all = led.all_below(tree.below[i].place);
                std::ranges::sort(all);
                EXPECT_EQ(all.front(), tree.below[i].place);
                EXPECT_EQ(all.back() + 1, tree.below[i].end);
                EXPECT_EQ(all.size(), static_cast<std::size_t>(tree.below[i].end - tree.below[i].place));
            }
    }
}

}  // namespace
