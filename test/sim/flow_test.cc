// How much is sent, when, and in packets of which size.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/world.h"

namespace pm::sim {
namespace {

using udp::Kind;

Habits ordinary(std::vector<std::size_t> sizes = {1200})
{
    Habits habits;
    habits.settings.packet_sizes = std::move(sizes);
    habits.settings.random_sequences = false;
    habits.settings.first_sequence = 0xffff'ff00u;
    return habits;
}

Kind kind_of(const Packet &packet)
{
    udp::Header header;
    std::memcpy(&header, packet.bytes.data(), sizeof header);
    return header.kind();
}

struct Sizes {
    std::size_t largest_data = 0;
    std::uint64_t count[11] = {};
    void note(const Packet &packet)
    {
        ++count[static_cast<int>(kind_of(packet)) & 15];
        if (kind_of(packet) == Kind::data)
            largest_data = std::max(largest_data, packet.bytes.size());
    }
};

// Bytes in a second of virtual time.
double goodput(unsigned senders, std::size_t receive_buffer, std::size_t queue, std::size_t payload, std::size_t total)
{
    World world(senders, senders + 1);
    Habits receiver = ordinary();
    receiver.settings.receive_buffer = receive_buffer;
    receiver.per_datagram = 400ns;
    world.add(receiver);
    world.network().port(0).queue = queue;
    for (unsigned i = 1; i <= senders; ++i) {
        world.add(ordinary());
        world.stream(i, 0, equal_stream(total / payload / senders + 1, payload));
    }
    Time begin = world.now();
    world.start();
    EXPECT_TRUE(world.finish(120s)) << world.trouble().text();
    return static_cast<double>(world[0].inbox().bytes()) * 1e9 / static_cast<double>((world.now() - begin).count());
}

TEST(UdpFlow, ManyToOneDoesNotCollapse)
{
    for (std::size_t payload : {100'000u, 1000u}) {
        double one = goodput(1, 200 * 1024, 256 * 1024, payload, 40'000'000);
        double fifteen = goodput(15, 200 * 1024, 256 * 1024, payload, 40'000'000);
        RecordProperty("one sender, bytes per second, payload " + std::to_string(payload), std::to_string(one));
        RecordProperty("fifteen senders, bytes per second, payload " + std::to_string(payload), std::to_string(fifteen));
        EXPECT_GE(fifteen, one / 2) << "payload " << payload << ": " << one << " with one sender, " << fifteen << " with fifteen";
    }
}

// Some of them sleep for long, and find a full buffer when they come back.
TEST(UdpFlow, WhatComesWhileTheReceiverComputesFitsItsBuffer)
{
    for (unsigned senders : {1u, 2u, 4u}) {
        World world(20 + senders, senders + 1);
        world.add(ordinary({1200, 8972}));
        for (unsigned i = 1; i <= senders; ++i) {
            world.add(ordinary({1200, 8972}));
            world.stream(i, 0, equal_stream(200, 50'000));
        }
        world.start();
        // All of them are known.
        world.run_until([&] { return world[0].inbox().messages() > 20 * senders; }, 10s);
        std::uint64_t dropped = world[0].dropped_by_buffer();
        for (int i = 0; i < 20; ++i) {
            world[0].compute_until(world.now() + 3ms);
            world.run_for(3ms + 500us);
        }
        EXPECT_GT(world[0].fullest_buffer(), world[0].habits().settings.receive_buffer / 2) << "this test tests something";
        EXPECT_EQ(world[0].dropped_by_buffer(), dropped) << senders << " senders";
        ASSERT_TRUE(world.finish(60s)) << world.trouble().text();
    }
}

TEST(UdpFlow, AcknowledgementsRideOnReplies)
{
    World world(30, 2);
    world.add(ordinary()), world.add(ordinary());
    constexpr std::size_t rounds = 1000;
    world.stream(0, 1, equal_stream(rounds, 100)).allow(1);
    world.stream(1, 0, equal_stream(rounds, 100)).allow(0);
    world[0].replies(1);
    world[1].replies(1);
    world.start();
    ASSERT_TRUE(world.finish(10s)) << world.trouble().text();
    EXPECT_LE(world[0].endpoint().counters().acks_sent + world[1].endpoint().counters().acks_sent, 2u);
    EXPECT_LE(world.network().counters().sent, 2 * rounds + 10);
    // A round trip is 40 us of path and two short packets: nobody waits for a timer.
    EXPECT_LE(world.now() - 1s, rounds * 45us + 10ms);
}

TEST(UdpFlow, AStreamIsAcknowledgedSeldom)
{
    World world(31, 2);
    world.add(ordinary()), world.add(ordinary());
    world.stream(0, 1, equal_stream(100, 100'000));
    world.start();
    ASSERT_TRUE(world.finish(10s)) << world.trouble().text();
    EXPECT_LE(world[1].endpoint().counters().acks_sent, 10'000'000u / 1160 / 8);
}

TEST(UdpFlow, WidthOfThePathIsFound)
{
    for (std::size_t width : {1200u, 1452u, 1472u, 1500u, 8972u, 65'507u}) {
        World world(40, 2);
        std::vector<std::size_t> sizes{1200, 1452, 1472, 8952, 8972, 65000};
        world.add(ordinary(sizes)), world.add(ordinary(sizes));
        world.network().for_all_paths([&](Path &path) { path.width = width; });
        Sizes seen;
        world.network().watch([&](unsigned, const Packet &packet) { seen.note(packet); });
        world.stream(0, 1, equal_stream(100, 200'000));
        world.start();
        ASSERT_TRUE(world.finish(10s)) << world.trouble().text();
        std::size_t best = 0;
        for (std::size_t size : sizes)
            best = size <= width ? size : best;
        EXPECT_EQ(seen.largest_data, best) << "width " << width;
        EXPECT_EQ(world[0].endpoint().counters().timeouts, 0u) << "width " << width;
    }
}

TEST(UdpFlow, SmallMessagesDoNotProbe)
{
    World world(41, 2);
    world.add(ordinary({1200, 1472, 8972})), world.add(ordinary({1200, 1472, 8972}));
    Sizes seen;
    world.network().watch([&](unsigned, const Packet &packet) { seen.note(packet); });
    world.stream(0, 1, equal_stream(100, 500));
    world.start();
    ASSERT_TRUE(world.finish(10s)) << world.trouble().text();
    EXPECT_EQ(seen.count[static_cast<int>(Kind::size_probe) & 15], 0u);
}

// A route changes: long packets vanish without a word.
TEST(UdpFlow, APathThatBecomesNarrowIsNoticed)
{
    World world(42, 2);
    world.add(ordinary({1200, 1472, 8972})), world.add(ordinary({1200, 1472, 8972}));
    Time narrow_at = world.now() + 8ms;
    world.network().for_all_paths([&](Path &path) {
        path.narrow_at = narrow_at;
        path.narrow_width = 1472;
    });
    world.stream(0, 1, equal_stream(200, 200'000));
    world.start();
    world.run_until([&] { return world.now() >= narrow_at; }, 1s);
    ASSERT_FALSE(world.all_done()) << "this test tests something";
    ASSERT_TRUE(world.finish(30s)) << world.trouble().text();
    // The rest is 40 MB at most: a fraction of a second, when it is not found out for each packet anew.
    EXPECT_LE(world.now() - narrow_at, 1s);
    EXPECT_FALSE(world[0].endpoint().failure());
}

// A path on which packets of the usual size vanish without a word: that is found out once.
TEST(UdpFlow, ANarrowPathIsFoundOutByTheFirstPackets)
{
    for (std::size_t width : {572u, 800u, 1000u}) {
        SCOPED_TRACE(width);
        const std::vector<std::size_t> sizes = udp::ProtocolSettings().packet_sizes;
        World world(45, 2);
        world.add(ordinary(sizes)), world.add(ordinary(sizes));
        world.network().for_all_paths([&](Path &path) { path.width = width; });
        world.stream(0, 1, equal_stream(1000, 1000)).allow(1);
        world.stream(1, 0, equal_stream(1000, 1000)).allow(0);
        world[0].replies(1);
        world[1].replies(1);
        Time begin = world.now();
        world.start();
        ASSERT_TRUE(world.finish(60s)) << world.trouble().text();
        for (unsigned i = 0; i < 2; ++i) {
            EXPECT_LE(world[i].endpoint().counters().sent_again, 6u);
            std::size_t found = world[i].outbox_to(1 - i)->peer()->packet_size;
            EXPECT_LE(found, width);
            EXPECT_GE(found + 200, std::min<std::size_t>(width, 972));
        }
        // Finding out takes a timeout or two; then 1000 round trips of 45 us.
        EXPECT_LE(world.now() - begin, 200ms);
    }
}

// In mid-run, with packets of every size on their way, some of them small: those that are too long go in parts.
TEST(UdpFlow, APathThatBecomesVeryNarrowIsNoticed)
{
    for (udp::Recovery recovery : {udp::Recovery::selective, udp::Recovery::go_back_n}) {
        for (std::size_t size : {1000u, 30'000u, 400'000u}) {
            SCOPED_TRACE(size);
            Habits habits = ordinary(udp::ProtocolSettings().packet_sizes);
            habits.settings.recovery = recovery;
            World world(46, 2);
            world.add(habits), world.add(habits);
            Time narrow_at = world.now() + 1ms;
            world.network().for_all_paths([&](Path &path) {
                path.narrow_at = narrow_at;
                path.narrow_width = 572;
            });
            test::Random random(47);
            world.stream(0, 1, equal_stream(20'000'000 / size, size));
            world.stream(1, 0, random_stream(random, 1000, 1000, 2000));
            world.start();
            world.run_until([&] { return world.now() >= narrow_at; }, 1s);
            ASSERT_FALSE(world.all_done()) << "this test tests something";
            ASSERT_TRUE(world.finish(30s)) << world.trouble().text();
            EXPECT_EQ(world[0].outbox_to(1)->peer()->packet_size, 548u);
            // 20 MB in packets of 548 bytes, with headers, are 22 ms of this network's time; losses cost a part of it.
            EXPECT_LE(world.now() - narrow_at, 1s);
        }
    }
}

// And when the path is wide again, that is found out, too.
TEST(UdpFlow, APathThatWasNarrowForAWhileIsUsedAgain)
{
    const std::vector<std::size_t> sizes = udp::ProtocolSettings().packet_sizes;
    World world(48, 2);
    world.add(ordinary(sizes)), world.add(ordinary(sizes));
    world.network().for_all_paths([&](Path &path) { path.width = 572; });
    Outbox &outbox = world.stream(0, 1, equal_stream(1000, 10'000));
    outbox.allow(500);
    world.start();
    world.run_for(61s);
    EXPECT_EQ(outbox.sent(), 500u);
    EXPECT_EQ(outbox.peer()->packet_size, 548u);
    world.network().for_all_paths([&](Path &path) { path.width = 8972; });
    outbox.allow(1000);
    world[0].wake_at(world.now());
    ASSERT_TRUE(world.finish(1s)) << world.trouble().text();
    EXPECT_EQ(outbox.peer()->packet_size, 8972u);
}

// Nobody answers while the receiver computes. That says nothing about the path.
TEST(UdpFlow, PacketsAreLongAgainAfterTheReceiverHasComputed)
{
    World world(43, 2);
    world.add(ordinary({1200, 1472, 8972})), world.add(ordinary({1200, 1472, 8972}));
    world.stream(0, 1, equal_stream(400, 200'000));
    world.start();
    world.run_for(8ms);
    ASSERT_EQ(world[0].outbox_to(1)->peer()->packet_size, 8972u);
    world[1].compute_until(world.now() + 500ms);
    world.run_for(550ms);
    ASSERT_FALSE(world.all_done());
    world.run_for(10ms);
    EXPECT_EQ(world[0].outbox_to(1)->peer()->packet_size, 8972u);
    ASSERT_TRUE(world.finish(30s)) << world.trouble().text();
}

// Many small messages are as much work for the receiver's buffer as a few large ones, and are acknowledged in time.
TEST(UdpFlow, SmallMessagesToABusyReceiverDoNotWaitForTimers)
{
    World world(44, 9);
    Habits receiver = ordinary();
    receiver.settings.receive_buffer = 64 * 1024;
    world.add(receiver);
    for (unsigned i = 1; i < 9; ++i) {
        world.add(ordinary());
        world.stream(i, 0, equal_stream(1000, 8));
    }
    Time begin = world.now();
    world.start();
    ASSERT_TRUE(world.finish(60s)) << world.trouble().text();
    // 8000 messages. With a round trip of 40 us and windows of six packets this takes 7 ms.
    EXPECT_LE(world.now() - begin, 30ms);
}

}  // namespace
}  // namespace pm::sim
