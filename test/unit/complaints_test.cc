// A job that does not start says why, and says it once.
#include "netmod/report/complaints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace pm {
namespace {

TEST(Complaints, NobodyComplains)
{
    EXPECT_EQ(complaints_in_words({}), "");
    EXPECT_EQ(complaints_in_words({"", "", ""}), "");
}

TEST(Complaints, OfAllRanksAreOfTheJob)
{
    EXPECT_EQ(complaints_in_words(std::vector<std::string>(16, "no such way")), "composite: the job cannot start: no such way\n");
    EXPECT_EQ(complaints_in_words({"no such way"}), "composite: the job cannot start: no such way\n");
}

TEST(Complaints, OfSomeRanksNameThem)
{
    EXPECT_EQ(complaints_in_words({"", "no memory", "no memory", "", "no memory"}), "composite: ranks 1-2,4 cannot start: no memory\n");
    EXPECT_EQ(complaints_in_words({"", "no memory"}), "composite: rank 1 cannot start: no memory\n");
}

TEST(Complaints, DifferentOnesAreALineEach)
{
    EXPECT_EQ(complaints_in_words({"no device", "no device", "no memory", ""}),
              "composite: ranks 0-1 cannot start: no device\n"
              "composite: rank 2 cannot start: no memory\n");
}

TEST(Complaints, ManyDifferentOnesDoNotFillTheScreen)
{
    std::vector<std::string> all;
    for (int rank = 0; rank < 100; ++rank)
        all.push_back("port " + std::to_string(rank) + " is in use");
    std::string text = complaints_in_words(all);
    EXPECT_EQ(std::ranges::count(text, '\n'), 9);
    EXPECT_NE(text.find("rank 7 cannot start: port 7 is in use\n"), std::string::npos);
    EXPECT_NE(text.find("for 92 more reasons like these\n"), std::string::npos);
}

}  // namespace
}  // namespace pm
