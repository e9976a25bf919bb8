// A payload in pieces: each goes behind the one before, and none beyond the end.
#include "coll/payload.h"

#include <gtest/gtest.h>

#include <string>

namespace pm::coll {
namespace {

TEST(Payload, IsPutTogetherInOrder)
{
    std::string place(7, '.');
    Payload payload{reinterpret_cast<std::byte *>(place.data()), 0, 6};
    EXPECT_FALSE(payload.add("abc", 3));
    EXPECT_EQ(place, "abc....");
    EXPECT_FALSE(payload.add(nullptr, 0));
    EXPECT_TRUE(payload.add("def", 3));
    EXPECT_EQ(place, "abcdef.");
}

TEST(Payload, NothingIsWrittenBeyondItsEnd)
{
    std::string place(7, '.');
    Payload payload{reinterpret_cast<std::byte *>(place.data()), 0, 4};
    EXPECT_FALSE(payload.add("abc", 3));
    EXPECT_TRUE(payload.add("defg", 4));
    EXPECT_EQ(place, "abcd...");
    EXPECT_EQ(payload.filled, 4u);
    EXPECT_TRUE(payload.add("h", 1));
    EXPECT_EQ(place, "abcd...");
}

TEST(Payload, WhatIsNotWantedIsOnlyCounted)
{
    Payload payload{nullptr, 0, 4};
    EXPECT_FALSE(payload.add("abc", 3));
    EXPECT_TRUE(payload.add("d", 1));
}

}  // namespace
}  // namespace pm::coll
