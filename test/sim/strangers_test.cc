// Datagrams that do not belong to the job, or not any more; and what a peer costs that says nothing.
#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>
#include <string>
#include <vector>

#include "sim/world.h"
#include "support/sanitizers.h"
#include "support/udp_pair.h"

namespace pm::sim {
namespace {

using udp::GuardKind;
using udp::PairState;

Habits ordinary(GuardKind guard)
{
    Habits habits;
    habits.settings.guard = guard;
    habits.settings.packet_sizes = {1200, 8972};
    habits.settings.random_sequences = false;
    habits.settings.first_sequence = 0xffff'ffc0u;
    return habits;
}

class UdpStrangers : public testing::TestWithParam<GuardKind> {};

// The same program again, at the same addresses: only the keys differ, which is all that a job has of its own.
TEST_P(UdpStrangers, PacketsOfAnEarlierJobAreIgnored)
{
    std::vector<std::pair<unsigned, Packet>> recorded;
    auto run = [&](std::uint64_t seed, bool replay) {
        World world(seed, 2);
        Habits habits = ordinary(GetParam());
        habits.settings.receive_buffer = 8 << 20;
        world.add(habits), world.add(habits);
        world.stream(0, 1, equal_stream(20, 30'000));
        world.stream(1, 0, equal_stream(20, 30'000));
        std::size_t next = 0;
        world.network().watch([&](unsigned, const Packet &packet) {
            if (!replay)
                recorded.push_back({packet.to.ip[15], packet});
            for (int i = 0; replay && i < 3 && next < recorded.size(); ++i, ++next)
                world.network().inject(recorded[next].first, recorded[next].second);
        });
        world.start();
        ASSERT_TRUE(world.finish(10s)) << world.trouble().text();
        if (!replay)
            return;
        EXPECT_EQ(next, recorded.size());
        world.run_for(1ms);
        udp::Counters first = world[0].endpoint().counters(), second = world[1].endpoint().counters();
        EXPECT_EQ(first.alien + second.alien, recorded.size());
        EXPECT_EQ(first.twice + second.twice, 0u);
        EXPECT_EQ(world[0].endpoint().peers(), 1u);
    };
    run(1, false);
    run(2, true);
}

// Whoever can read the traffic sends it once more, to the same place, some milliseconds later, in a different order.
TEST_P(UdpStrangers, RecordedPacketsChangeNothing)
{
    World world(3, 2);
    world.add(ordinary(GetParam())), world.add(ordinary(GetParam()));
    world.stream(0, 1, equal_stream(50, 30'000));
    world.stream(1, 0, equal_stream(50, 30'000));
    world.network().watch([&](unsigned, const Packet &packet) {
        world.agenda().plan(world.now() + Time(world.random().below(5'000'000)), [&world, packet] {
            world.network().inject(packet.to.ip[15], packet);
        });
    });
    world.start();
    ASSERT_TRUE(world.finish(10s)) << world.trouble().text();
    world.run_for(100ms);
    EXPECT_FALSE(world.trouble().any()) << world.trouble().text();
    EXPECT_EQ(world[0].inbox().received(1), 50u);
    EXPECT_EQ(world[1].inbox().received(0), 50u);
    EXPECT_GT(world[1].endpoint().counters().twice, 100u);
    for (unsigned i = 0; i < 2; ++i)
        world[i].endpoint().for_each_peer([](const udp::Peer &peer) { EXPECT_EQ(peer.state, PairState::open); });
}

TEST(UdpDamage, IsFoundByTheMac)
{
    World world(4, 2);
    world.add(ordinary(GuardKind::mac)), world.add(ordinary(GuardKind::mac));
    world.network().for_all_paths([](Path &path) { path.damage = 1000; });
    world.stream(0, 1, equal_stream(100, 10'000));
    world.start();
    ASSERT_TRUE(world.finish(60s)) << world.trouble().text();
    udp::Counters counters = world[1].endpoint().counters();
    EXPECT_GT(counters.alien + counters.malformed, 30u);
}

// The token keeps out only those who cannot read the traffic.
class UdpReaders : public testing::TestWithParam<GuardKind> {};

// A recorded good-bye or greeting, of this job, long after: who has left and come back is not sent away, and nobody is taken for alive.
TEST_P(UdpReaders, RecordedGoodByesAndGreetingsChangeNothing)
{
    World world(5, 2);
    Habits habits = ordinary(GetParam());
    habits.settings.silence_limit = 2s;
    world.add(habits), world.add(habits);
    world.stream(0, 1, equal_stream(5, 3000));
    world.stream(1, 0, equal_stream(5, 3000));
    std::vector<Packet> recorded;
    world.network().watch([&](unsigned, const Packet &packet) { recorded.push_back(packet); });
    world.start();
    ASSERT_TRUE(world.finish(1s)) << world.trouble().text();
    world[0].disconnect(1);
    world.run_for(1s);
    ASSERT_EQ(world[1].outbox_to(0)->peer()->state, PairState::left);
    world.network().watch({});
    world.stream(0, 1, equal_stream(50, 3000)).skip(5);
    world[0].wake_at(world.now());
    for (int round = 0; round < 20; ++round)
        for (const Packet &packet : recorded)
            world.agenda().plan(world.now() + round * 1ms, [&world, packet] { world.network().inject(packet.to.ip[15], packet); });
    ASSERT_TRUE(world.finish(10s)) << world.trouble().text();
    EXPECT_EQ(world[1].inbox().received(0), 50u);
    world.run_for(30ms);
    for (unsigned i = 0; i < 2; ++i)
        world[i].endpoint().for_each_peer([](const udp::Peer &peer) { EXPECT_EQ(peer.state, PairState::open); });
    udp::Counters counters = world[1].endpoint().counters();
    EXPECT_GT(counters.alien + counters.twice, 100u);

    // Its host vanishes, and somebody plays what it said: that is no sign of life.
    recorded.clear();
    world.network().watch([&](unsigned from, const Packet &packet) {
        if (from == 0)
            recorded.push_back(packet);
    });
    world.run_for(5s);
    ASSERT_GT(recorded.size(), 3u) << "it was asked";
    world.network().watch({});
    Time death = world.now();
    world.kill(0, true);
    for (int i = 0; i < 1000; ++i)
        world.agenda().plan(death + i * 10ms, [&world, &recorded, i] {
            world.network().inject(1, recorded[static_cast<std::size_t>(i) % recorded.size()]);
        });
    ASSERT_TRUE(world.run_until([&] { return bool(world[1].endpoint().failure()); }, 10s));
    EXPECT_LE(world.now() - death, 2s + 100ms);
}

std::vector<GuardKind> guards(GuardKind first)
{
    std::vector<GuardKind> all{first};
    if (first == GuardKind::token)
        all.push_back(GuardKind::mac);
    if (udp::can_seal())
        all.push_back(GuardKind::seal);
    return all;
}

std::string name_of_guard(const testing::TestParamInfo<GuardKind> &info)
{
    return info.param == GuardKind::token ? "WithToken" : info.param == GuardKind::mac ? "WithMac" : "WithSeal";
}

INSTANTIATE_TEST_SUITE_P(, UdpStrangers, testing::ValuesIn(guards(GuardKind::token)), name_of_guard);
INSTANTIATE_TEST_SUITE_P(, UdpReaders, testing::ValuesIn(guards(GuardKind::mac)), name_of_guard);

// ---- memory: the sanitizers have a malloc of their own ----
#if !defined(PM_TEST_ASAN) && !defined(PM_TEST_TSAN)

std::size_t memory_in_use()
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

TEST(UdpMemory, ASilentPeerCostsLessThanAKilobyte)
{
    constexpr unsigned count = 1000;
    udp::Endpoint endpoint({}, udp::Key{1}, {address_of(0)}, Sink{});
    std::size_t before = memory_in_use();
    for (unsigned i = 0; i < count; ++i) {
        udp::Card card;
        card.secret = udp::Key{static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8), 7};
        card.name = udp::name_of(*card.secret);
        card.addresses = {address_of(i % 200, i / 200), address_of(i % 200, 100 + i / 200)};
        ASSERT_NE(endpoint.connect(card), nullptr);
    }
    std::size_t each = (memory_in_use() - before) / count;
    RecordProperty("bytes for a silent peer", std::to_string(each));
    EXPECT_LT(each, 1024u);
    EXPECT_EQ(endpoint.peers(), count);
    EXPECT_EQ(endpoint.next_deadline(), never);
    EXPECT_FALSE(endpoint.wants_to_transmit());
}

// Timers that were set and are not needed any more are not kept.
TEST(UdpMemory, LongTalksDoNotPileUpTimers)
{
    test::UdpPair pair;
    ASSERT_TRUE(pair.open());
    pair.delivered(1).messages.reserve(5000);
    auto talk = [&](int messages) {
        for (int i = 0; i < messages; ++i) {
            ASSERT_EQ(pair.send(0, 0), Status::ok);
            pair.exchange();
            pair.wait(1ms);  // acknowledged by a timer
            pair.exchange();
        }
    };
    talk(100);
    std::size_t before = memory_in_use();
    talk(4000);  // in the time of one watch
    EXPECT_LT(memory_in_use(), before + 4096);
    EXPECT_GE(pair[1].counters().acks_sent, 4000u) << "this test tests something";
}

#endif

}  // namespace
}  // namespace pm::sim
