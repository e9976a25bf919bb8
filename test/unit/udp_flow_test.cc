// The small mechanisms of flow: round-trip time, congestion window, share of the receive buffer.
#include <gtest/gtest.h>

#include <array>

#include "netmod/udp/protocol/buffer_share.h"
#include "netmod/udp/protocol/congestion.h"
#include "netmod/udp/protocol/round_trip.h"

namespace pm::udp {
namespace {

using namespace std::chrono_literals;

// ---- round trip ----

TEST(UdpRoundTrip, IsAGuessBeforeTheFirstSample)
{
    RoundTrip round_trip;
    EXPECT_FALSE(round_trip.known());
    EXPECT_EQ(round_trip.timeout(1ms), 20ms);
}

TEST(UdpRoundTrip, TakesTheFirstSampleAsItIs)
{
    RoundTrip round_trip;
    round_trip.sample(8ms);
    EXPECT_TRUE(round_trip.known());
    EXPECT_EQ(round_trip.smoothed(), 8ms);
    EXPECT_EQ(round_trip.timeout(1ms), 8ms + 4 * 4ms + 1ms);
}

TEST(UdpRoundTrip, ConvergesAndForgetsDeviation)
{
    RoundTrip round_trip;
    round_trip.sample(50ms);
    for (int i = 0; i < 200; ++i)
        round_trip.sample(100us);
    EXPECT_LE(round_trip.smoothed(), 110us);
    EXPECT_GE(round_trip.smoothed(), 100us);
    // The deviation is next to nothing, but a millisecond is always granted.
    EXPECT_LE(round_trip.timeout(1ms), 2ms + 200us);
    EXPECT_GE(round_trip.timeout(1ms), 2ms + 100us);
}

TEST(UdpRoundTrip, JitterMakesItPatient)
{
    RoundTrip round_trip;
    for (int i = 0; i < 100; ++i)
        round_trip.sample(i % 2 == 0 ? Time(1ms) : Time(9ms));
    EXPECT_GE(round_trip.timeout(0ms), 9ms);
}

TEST(UdpRoundTrip, SamplesOfNothingCount)
{
    RoundTrip round_trip;
    round_trip.sample(0ms);
    EXPECT_TRUE(round_trip.known());
    EXPECT_GT(round_trip.smoothed(), Time::zero());
    EXPECT_GE(round_trip.reordering(), 50us);
    EXPECT_GE(round_trip.probe_timeout(), 100us);
}

// ---- congestion ----

constexpr std::size_t packet = cost_of(1200);

TEST(UdpCongestion, DoublesInARoundTripUntilTheFirstLoss)
{
    Congestion congestion;
    std::size_t before = congestion.window();
    congestion.on_acknowledged(before, packet, true);
    EXPECT_EQ(congestion.window(), 2 * before);
}

TEST(UdpCongestion, DoesNotGrowWhenItIsNotUsed)
{
    Congestion congestion;
    std::size_t before = congestion.window();
    congestion.on_acknowledged(before, packet, false);
    EXPECT_EQ(congestion.window(), before);
}

TEST(UdpCongestion, HalvesOnceForTheLossesOfOneRoundTrip)
{
    Congestion congestion;
    std::size_t before = congestion.window();
    // Packets 10 to 40 are on their way; 10, 11 and 30 are lost.
    congestion.on_lost(10, 41, packet);
    EXPECT_EQ(congestion.window(), before / 2);
    congestion.on_lost(11, 41, packet);
    congestion.on_lost(30, 45, packet);
    EXPECT_EQ(congestion.window(), before / 2);
    EXPECT_EQ(congestion.halvings(), 1u);
    // One that was sent after the halving tells something new.
    congestion.on_lost(41, 60, packet);
    EXPECT_EQ(congestion.window(), before / 4);
}

TEST(UdpCongestion, GrowsByAPacketInARoundTripAfterALoss)
{
    Congestion congestion;
    congestion.on_lost(1, 2, packet);
    std::size_t before = congestion.window();
    for (std::size_t acknowledged = 0; acknowledged + packet <= before; acknowledged += packet)
        congestion.on_acknowledged(packet, packet, true);
    EXPECT_GE(congestion.window(), before + packet / 2);
    EXPECT_LE(congestion.window(), before + packet);
}

TEST(UdpCongestion, GrowsFastAfterASilenceUntilHalfOfWhatItWas)
{
    Congestion congestion;
    while (congestion.window() < 32 * packet)
        congestion.on_acknowledged(congestion.window(), packet, true);
    const std::size_t half = congestion.window() / 2;
    congestion.on_silence(packet);
    congestion.on_acknowledged(half - 1 - congestion.window(), packet, true);
    EXPECT_EQ(congestion.window(), half - 1);
    congestion.on_acknowledged(packet, packet, true);
    EXPECT_EQ(congestion.window(), half);
    congestion.on_acknowledged(packet, packet, true);
    EXPECT_LT(congestion.window(), half + packet) << "from there on by a packet in a round trip";
}

TEST(UdpCongestion, KeepsRoomForSomePackets)
{
    Congestion congestion;
    for (std::uint64_t i = 0; i < 10'000; ++i)
        congestion.on_lost(i, i + 1, packet);
    EXPECT_EQ(congestion.window(), 8 * packet);
    congestion.on_silence(packet);
    EXPECT_EQ(congestion.window(), 8 * packet);
}

// The largest packets there are: the window it begins with has room for fewer than the least.
TEST(UdpCongestion, DoesNotGrowByALossOrASilence)
{
    const std::size_t large = cost_of(65'000);
    Congestion lost, silent;
    const std::size_t before = lost.window();
    ASSERT_LT(before, Congestion::least_packets * large);
    for (std::uint64_t i = 0; i < 100; ++i) {
        lost.on_lost(i, i + 1, large);
        EXPECT_EQ(lost.window(), before);
    }
    silent.on_silence(large);
    EXPECT_EQ(silent.window(), before);
    // What has room for more is halved, as far as it has.
    while (lost.window() < 12 * large)
        lost.on_acknowledged(large, large, true);
    lost.on_lost(200, 201, large);
    EXPECT_EQ(lost.window(), Congestion::least_packets * large);
}

// Sends a window after the other, of which every `period`-th packet is lost, and grows as it is allowed to.
void run(Congestion *congestion, std::uint64_t *order, std::uint64_t packets, std::uint64_t period)
{
    for (std::uint64_t end = *order + packets; *order < end;) {
        std::uint64_t next = *order + congestion->window() / packet;
        for (; *order < next; ++*order) {
            if (period != 0 && *order % period == 0)
                congestion->on_lost(*order, next, packet);
            else
                congestion->on_arrived(*order, next);
        }
        congestion->on_acknowledged(congestion->window(), packet, true);
    }
}

TEST(UdpCongestion, LearnsWhatThePathLosesOfItsOwn)
{
    for (std::uint64_t period : {5u, 20u, 50u}) {
        Congestion congestion;
        std::uint64_t order = 1;
        std::size_t before = congestion.window();
        run(&congestion, &order, 5000, period);
        EXPECT_GT(congestion.window(), before) << period;
        EXPECT_NEAR(congestion.own_loss(), 1.0 / static_cast<double>(period), 0.02);
        // Nothing is lost any more: then that is known, too, and a single loss is a reason again.
        run(&congestion, &order, 100'000, 0);
        EXPECT_LT(congestion.own_loss(), 0.001);
    }
}

TEST(UdpCongestion, HalvesWhenMoreIsLostThanThePathShows)
{
    Congestion congestion;
    std::uint64_t order = 1;
    run(&congestion, &order, 5000, 20);
    std::uint64_t halvings = congestion.halvings();
    run(&congestion, &order, 5000, 20);
    EXPECT_EQ(congestion.halvings(), halvings);
    run(&congestion, &order, 200, 4);
    EXPECT_GT(congestion.halvings(), halvings);
}

// A queue that holds 100 packets, from which a window above that loses: halving helps, so it is not the path's own loss.
TEST(UdpCongestion, WhatAHalvingPreventsIsNotThePathsOwnLoss)
{
    Congestion congestion;
    std::uint64_t order = 1;
    for (int round = 0; round < 2000; ++round) {
        std::uint64_t count = congestion.window() / packet, next = order + count;
        for (std::uint64_t i = 0; order < next; ++order, ++i) {
            if (i >= 100)
                congestion.on_lost(order, next, packet);
            else
                congestion.on_arrived(order, next);
        }
        congestion.on_acknowledged(congestion.window(), packet, true);
        if (round > 20) {
            EXPECT_LE(congestion.window(), 120 * packet) << round;
            EXPECT_GE(congestion.window(), 40 * packet) << round;
        }
    }
    EXPECT_EQ(congestion.own_loss(), 0);
}

// One loss made it halve, and with half the window none follows: what was lost before is kept for the comparison.
TEST(UdpCongestion, ASingleLossThatAHalvingPreventsIsNotThePathsOwn)
{
    Congestion congestion;
    congestion.on_lost(1, 2, packet);
    const std::size_t half = congestion.window();
    for (std::uint64_t order = 2; order < 1000; ++order)
        congestion.on_arrived(order, order + 1);
    congestion.on_acknowledged(half, packet, true);
    EXPECT_LE(congestion.window(), half + packet) << "it does not return at once to what it was";
}

TEST(UdpCongestion, IsBounded)
{
    Congestion congestion;
    for (int i = 0; i < 100; ++i)
        congestion.on_acknowledged(congestion.window(), packet, true);
    EXPECT_LE(congestion.window(), std::size_t{16} << 20);
}

TEST(UdpCongestion, StartsQuicklyUpToHalfOfWhatItWasBeforeASilence)
{
    Congestion congestion;
    std::size_t before = congestion.window();
    congestion.on_silence(packet);
    while (congestion.window() < before / 2)
        congestion.on_acknowledged(congestion.window(), packet, true);
    std::size_t reached = congestion.window();
    EXPECT_LE(reached, before);
    congestion.on_acknowledged(packet, packet, true);
    EXPECT_LE(congestion.window(), reached + packet);
}

// ---- the receiver's share ----

TEST(UdpBufferShare, OneSenderGetsMostOfTheBuffer)
{
    BufferShare share(400 * 1024);
    EXPECT_EQ(share.share(), 300u * 1024);
    std::uint32_t period = 0;
    share.on_heard(&period, 1s);
    share.on_heard(&period, 1s);
    EXPECT_EQ(share.share(), 300u * 1024);
}

TEST(UdpBufferShare, SharesOfAllSendersFitTogether)
{
    BufferShare share(400 * 1024);
    std::array<std::uint32_t, 15> periods{};
    Time now = 1s;
    // In every period each of them is heard.
    for (int i = 0; i < 10; ++i, now += 5ms)
        for (std::uint32_t &period : periods)
            share.on_heard(&period, now);
    EXPECT_EQ(share.share(), 300u * 1024 / periods.size());
}

TEST(UdpBufferShare, WhoWasHeardInTheLastPeriodStillCounts)
{
    BufferShare share(400 * 1024);
    std::uint32_t a = 0, b = 0;
    share.on_heard(&a, 1s);
    share.on_heard(&b, 1s);
    EXPECT_EQ(share.share(), 150u * 1024);
    share.on_heard(&a, 1s + 6ms);
    EXPECT_EQ(share.share(), 150u * 1024);
    share.on_heard(&a, 1s + 12ms);
    EXPECT_EQ(share.share(), 300u * 1024);
}

TEST(UdpBufferShare, APeriodEndsWithItsLastMoment)
{
    BufferShare share(400 * 1024);
    std::uint32_t a = 0, b = 0, c = 0;
    share.on_heard(&a, 1s);
    share.on_heard(&b, 1s);
    share.on_heard(&c, 1s + 5ms);
    EXPECT_EQ(share.share(), 150u * 1024) << "two in the last period, one in this";
}

TEST(UdpBufferShare, ALongPauseForgetsEverybody)
{
    BufferShare share(400 * 1024);
    std::uint32_t a = 0, b = 0;
    share.on_heard(&a, 1s);
    share.on_heard(&b, 1s);
    share.on_heard(&a, 2s);
    EXPECT_EQ(share.share(), 300u * 1024);
}

TEST(UdpBufferShare, IsNeverTooSmallForAPacket)
{
    BufferShare share(64 * 1024);
    std::vector<std::uint32_t> periods(1000);
    for (std::uint32_t &period : periods)
        share.on_heard(&period, 1s);
    EXPECT_EQ(share.share(), 4u * 1024);
}

}  // namespace
}  // namespace pm::udp
