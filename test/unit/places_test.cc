// Who speaks for a host, and who is beside whom.
#include "coll/team/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace pm {
namespace {

struct Placed {
    std::vector<int> first, mates;
    int ours;
};

Placed placed(std::vector<int> hosts, int self)
{
    std::vector<int> memory(pm_places_ints(static_cast<int>(hosts.size())));
    pm_places places;
    auto host = [](void *context, int rank) { return (*static_cast<std::vector<int> *>(context))[static_cast<std::size_t>(rank)]; };
    pm_places_of(&places, memory.data(), static_cast<int>(hosts.size()), self, host, &hosts);
    return {{places.first, places.first + places.hosts}, {places.mate, places.mate + places.mates}, places.ours};
}

TEST(Places, TheFirstRankOfAHostSpeaksForIt)
{
    Placed at = placed({7, 3, 7, 3, 9, 7}, 2);
    EXPECT_EQ(at.first, (std::vector<int>{0, 1, 4}));
    EXPECT_EQ(at.mates, (std::vector<int>{0, 5}));
    EXPECT_EQ(at.ours, 0);
    at = placed({7, 3, 7, 3, 9, 7}, 4);
    EXPECT_TRUE(at.mates.empty());
    EXPECT_EQ(at.ours, 2);
}

TEST(Places, OneRankIsAlone)
{
    Placed at = placed({-1}, 0);
    EXPECT_EQ(at.first, std::vector<int>{0});
    EXPECT_TRUE(at.mates.empty());
}

TEST(Places, WhereHostsAreNotKnownEachHasItsOwn)
{
    std::vector<int> memory(pm_places_ints(5));
    pm_places places;
    pm_places_of(&places, memory.data(), 5, 3, nullptr, nullptr);
    EXPECT_EQ(places.hosts, 5);
    EXPECT_EQ(places.ours, 3);
    EXPECT_EQ(places.mates, 0);
}

// Against a plain model, for every rank of some shapes.
TEST(Places, AllRanksSeeTheSame)
{
    for (unsigned shape = 1; shape <= 40; ++shape) {
        std::vector<int> hosts;
        for (unsigned rank = 0; rank < shape; ++rank)
            hosts.push_back(static_cast<int>(rank * 2654435761u / 65536 % (1 + shape / 3)));
        std::map<int, int> first;
        for (int rank = static_cast<int>(shape) - 1; rank >= 0; --rank)
            first[hosts[static_cast<std::size_t>(rank)]] = rank;
        for (int self = 0; self < static_cast<int>(shape); ++self) {
            Placed at = placed(hosts, self);
            ASSERT_EQ(at.first.size(), first.size());
            ASSERT_TRUE(std::is_sorted(at.first.begin(), at.first.end()));
            ASSERT_EQ(at.first[static_cast<std::size_t>(at.ours)], first[hosts[static_cast<std::size_t>(self)]]);
            std::set<int> beside(at.mates.begin(), at.mates.end());
            for (int rank = 0; rank < static_cast<int>(shape); ++rank)
                ASSERT_EQ(beside.contains(rank), rank != self && hosts[static_cast<std::size_t>(rank)] == hosts[static_cast<std::size_t>(self)]);
        }
    }
}

TEST(Places, AThousandRanks)
{
    std::vector<int> hosts(1000);
    for (int rank = 0; rank < 1000; ++rank)
        hosts[static_cast<std::size_t>(rank)] = rank * 7 % 250;
    Placed at = placed(hosts, 999);
    EXPECT_EQ(at.first.size(), 250u);
    EXPECT_EQ(at.first[static_cast<std::size_t>(at.ours)], 249);
    EXPECT_EQ(at.mates, (std::vector<int>{249, 499, 749}));
}

}  // namespace
}  // namespace pm
