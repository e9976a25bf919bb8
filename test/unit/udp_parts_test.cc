// Small parts of the protocol: blocks of memory that are used again, and the size of the first packets.
#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <vector>

#include "netmod/udp/protocol/blocks.h"
#include "netmod/udp/protocol/settings.h"

namespace pm::udp {
namespace {

TEST(UdpBlocks, ABlockIsLargeEnoughForAllThatMayTakeItNext)
{
    Blocks blocks;
    for (auto [asked, largest] : {std::pair<std::size_t, std::size_t>{1, 256}, {256, 256}, {257, 1536}, {9217, 65536}, {65536, 65536}, {70'000, 70'000}})
        EXPECT_GE(malloc_usable_size(blocks.take(asked).get()), largest) << asked;
}

TEST(UdpBlocks, WhatWasGivenBackIsTakenByTheNextOfThatSize)
{
    Blocks blocks;
    auto block = blocks.take(1000);
    std::byte *place = block.get();
    blocks.give_back(std::move(block), 1000);
    auto smaller = blocks.take(200), larger = blocks.take(2000);
    EXPECT_NE(smaller.get(), place);
    EXPECT_NE(larger.get(), place);
    auto own = std::make_unique<std::byte[]>(1536);
    EXPECT_NE(own.get(), place) << "it was not given to the allocator";
    EXPECT_EQ(blocks.take(300).get(), place);
}

TEST(UdpSettings, TheFirstPacketsAreTheLargestThatMostNetworksCarry)
{
    ProtocolSettings settings;
    EXPECT_EQ(settings.first_packet_size(), 1200u);
    settings.packet_sizes = {548, 1199, 1201};
    EXPECT_EQ(settings.first_packet_size(), 1199u);
    settings.packet_sizes = {8952, 65000};
    EXPECT_EQ(settings.first_packet_size(), 8952u) << "the smallest is taken to work everywhere";
}

}  // namespace
}  // namespace pm::udp
