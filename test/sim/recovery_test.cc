// What the protocol does about losses, interruptions and deaths, in runs with expectations of their own.
#include <gtest/gtest.h>

#include <string>

#include "sim/world.h"

namespace pm::sim {
namespace {

using udp::GuardKind;
using udp::PairState;
using udp::Recovery;

Habits ordinary()
{
    Habits habits;
    habits.settings.packet_sizes = {1200};
    habits.settings.random_sequences = false;
    habits.settings.first_sequence = 0xffff'ff00u;
    return habits;
}

double megabytes_per_second(std::size_t bytes, Time time)
{
    return static_cast<double>(bytes) * 1e3 / static_cast<double>(time.count());
}

struct LossCase {
    unsigned loss;  // of 10,000
    double least_share;  // of the speed where nothing is lost
};

class UdpLoss : public testing::TestWithParam<LossCase> {
  protected:
    struct Outcome {
        double speed = 0;
        double sent_again = 0;  // of all packets
    };

    static Outcome outcome(unsigned loss, GuardKind guard, std::size_t count, std::size_t size)
    {
        World world(1, 2);
        Habits habits = ordinary();
        habits.settings.guard = guard;
        world.add(habits), world.add(habits);
        world.network().for_all_paths([&](Path &path) { path.loss = loss; });
        world.stream(0, 1, equal_stream(count, size));
        Time begin = world.now();
        world.start();
        EXPECT_TRUE(world.finish(300s)) << world.trouble().text();
        EXPECT_FALSE(world[0].endpoint().failure());
        double packets = static_cast<double>(count * size) / 1144.0;
        return {megabytes_per_second(world[1].inbox().bytes(), world.now() - begin),
                static_cast<double>(world[0].endpoint().counters().sent_again) / packets};
    }
};

// The time is virtual: what is required here is what the protocol does, not how fast this machine is.
TEST_P(UdpLoss, GetsThroughAndSendsLittleMoreThanWasLost)
{
    for (GuardKind guard : {GuardKind::token, GuardKind::mac}) {
        Outcome without = outcome(0, guard, 100, 200'000), with = outcome(GetParam().loss, guard, 100, 200'000);
        EXPECT_LE(with.sent_again, 2.0 * GetParam().loss / per + 0.005);
        EXPECT_GE(with.speed, GetParam().least_share * without.speed);
        RecordProperty("share", std::to_string(with.speed / without.speed));
    }
}

INSTANTIATE_TEST_SUITE_P(, UdpLoss, testing::Values(LossCase{100, 0.6}, LossCase{500, 0.4}, LossCase{2000, 0.15}),
                         [](const auto &info) { return "Loses" + std::to_string(info.param.loss / 100) + "Percent"; });

// The last packets of a message have none after them that tell of their loss: they are asked for soon.
TEST(UdpRecovery, TheEndOfAMessageIsNotWaitedForForLong)
{
    World world(16, 2);
    world.add(ordinary()), world.add(ordinary());
    world.network().for_all_paths([](Path &path) { path.loss = 500; });
    constexpr std::size_t rounds = 1000;
    world.stream(0, 1, equal_stream(rounds, 10'000)).allow(1);
    world.stream(1, 0, equal_stream(rounds, 10'000)).allow(0);
    world[0].replies(1);
    world[1].replies(1);
    Time begin = world.now();
    world.start();
    ASSERT_TRUE(world.finish(60s)) << world.trouble().text();
    // 60 us without losses. In every tenth message or so the end, or what tells that it came, is lost.
    EXPECT_LE(world.now() - begin, 2 * rounds * 250us);
}

// Two flows into one port whose queue overflows: those losses are a reason to send less, and both do.
TEST(UdpRecovery, TwoThatShareAQueueThatOverflowsGetLikeShares)
{
    for (unsigned loss : {0u, 100u}) {
        for (std::size_t queue : {60'000u, 200'000u}) {
            SCOPED_TRACE(std::to_string(loss) + " of 10000 lost, queue of " + std::to_string(queue));
            World world(17, 3);
            for (int i = 0; i < 3; ++i) {
                Habits habits = ordinary();
                habits.settings.receive_buffer = 4 << 20;  // which does not bound them
                world.add(habits);
            }
            world.network().for_all_paths([&](Path &path) { path.loss = loss; });
            world.network().port(0).queue = queue;
            world.network().port(0).bytes_per_nanosecond = 0.125;
            for (unsigned i = 1; i < 3; ++i)
                world.stream(i, 0, equal_stream(2000, 50'000));
            world.start();
            world.run_for(400ms);
            ASSERT_FALSE(world.all_done()) << "this test tests something";
            double first = static_cast<double>(world[0].inbox().received(1)), second = static_cast<double>(world[0].inbox().received(2));
            EXPECT_LE(std::max(first, second), 2 * std::min(first, second)) << first << " and " << second;
            // Of 1000 messages that the port could take, headers included.
            EXPECT_GE(first + second, loss == 0 ? 800 : 700);
            double dropped = static_cast<double>(world.network().counters().queue_dropped), sent = static_cast<double>(world.network().counters().sent);
            EXPECT_LE(dropped, 0.1 * sent) << dropped << " of " << sent << " dropped";
            EXPECT_GT(dropped, 0);
        }
    }
}

TEST(UdpRecovery, SelectiveSendsFewerPacketsAgainThanGoBackN)
{
    std::uint64_t sent_again[2];
    for (Recovery recovery : {Recovery::selective, Recovery::go_back_n}) {
        World world(2, 2);
        Habits habits = ordinary();
        habits.settings.recovery = recovery;
        world.add(habits), world.add(habits);
        world.network().for_all_paths([&](Path &path) { path.loss = 500; });
        world.stream(0, 1, equal_stream(20, 100'000));
        world.start();
        ASSERT_TRUE(world.finish(600s)) << world.trouble().text();
        sent_again[recovery == Recovery::go_back_n] = world[0].endpoint().counters().sent_again;
    }
    EXPECT_LT(2 * sent_again[0], sent_again[1]);
}

TEST(UdpRecovery, ReorderingAloneIsNotTakenForLoss)
{
    World world(3, 2);
    world.add(ordinary()), world.add(ordinary());
    // Of two packets sent one after the other the second may overtake the first, but not by three.
    world.network().for_all_paths([&](Path &path) { path.jitter = 1500ns; });
    world.stream(0, 1, equal_stream(50, 50'000));
    world.start();
    ASSERT_TRUE(world.finish(60s)) << world.trouble().text();
    EXPECT_LE(world[0].endpoint().counters().sent_again, 20u);
}

TEST(UdpRecovery, ABlackoutShorterThanTheLimitIsNoError)
{
    World world(4, 2);
    world.add(ordinary()), world.add(ordinary());
    Interval blackout{world.now() + 3ms, world.now() + 3ms + 5s};
    world.network().for_all_paths([&](Path &path) { path.blackouts = {blackout}; });
    world.stream(0, 1, equal_stream(100, 100'000));
    world.stream(1, 0, equal_stream(100, 100'000));
    world.start();
    ASSERT_TRUE(world.finish(60s)) << world.trouble().text();
    EXPECT_LT(world.now(), blackout.end + 2s);
    EXPECT_FALSE(world[0].endpoint().failure()) << world[0].endpoint().failure().text;
    EXPECT_FALSE(world[1].endpoint().failure()) << world[1].endpoint().failure().text;
    // It asks now and then, it does not shout.
    EXPECT_LT(world.network().counters().lost, 400u);
}

class UdpDeath : public testing::TestWithParam<bool> {};

TEST_P(UdpDeath, IsKnownToAllWithinTheLimitAndTheOthersGoOn)
{
    World world(5, 4);
    Habits habits = ordinary();
    habits.settings.silence_limit = 4s;
    for (int i = 0; i < 4; ++i)
        world.add(habits);
    for (unsigned from = 0; from < 4; ++from)
        for (unsigned to = 0; to < 4; ++to)
            if (from != to)
                world.stream(from, to, equal_stream(100, 20'000));
    Time death = world.now() + 2ms;
    bool host = GetParam();
    world.agenda().plan(death, [&] {
        world.kill(3, host);
        for (unsigned i = 0; i < 3; ++i)
            world[i].inbox().excuse(3);
    });
    world.start();
    ASSERT_TRUE(world.finish(20s)) << world.trouble().text();
    for (unsigned i = 0; i < 3; ++i) {
        const Error &failure = world[i].endpoint().failure();
        ASSERT_TRUE(failure) << "process " << i << " knows nothing";
        EXPECT_EQ(failure.status, Status::unreachable);
        EXPECT_NE(failure.text.find("10.0.0.3"), std::string::npos) << failure.text;
        EXPECT_TRUE(world[i].outbox_to(3)->given_up());
        EXPECT_LE(world[i].failed_at() - death, host ? Time(4s + 500ms) : Time(1s));
        unsigned failed = 0;
        world[i].endpoint().for_each_peer([&](const udp::Peer &peer) { failed += peer.state == PairState::failed; });
        EXPECT_EQ(failed, 1u);
    }
}

INSTANTIATE_TEST_SUITE_P(, UdpDeath, testing::Bool(), [](const auto &info) { return info.param ? "OfAHost" : "OfAProcess"; });

TEST(UdpRecovery, APeerThatNeverAnswersIsAnError)
{
    World world(6, 2);
    Habits habits = ordinary();
    habits.settings.silence_limit = 2s;
    world.add(habits), world.add(habits);
    world.kill(1, true);
    world.stream(0, 1, equal_stream(1, 10));
    Time begin = world.now();
    world.start();
    const Outbox &outbox = *world[0].outboxes().front();
    ASSERT_TRUE(world.run_until([&] { return outbox.given_up(); }, 10s));
    EXPECT_LE(world.now() - begin, 3s + 100ms);
    EXPECT_NE(outbox.peer()->error.text.find("10.0.0.1"), std::string::npos) << outbox.peer()->error.text;
    EXPECT_FALSE(world[0].endpoint().failure()) << "nothing was lost";
}

// Long computations are ordinary: those who compute are not dead, and those who come back do not think that all others are.
TEST(UdpRecovery, ComputingForLongerThanTheLimitIsNotDyingForOneself)
{
    World world(7, 2);
    Habits habits = ordinary();
    habits.settings.silence_limit = 2s;
    world.add(habits), world.add(habits);
    world.stream(0, 1, equal_stream(10, 1000));
    world.stream(1, 0, equal_stream(10, 1000));
    world.start();
    ASSERT_TRUE(world.finish(1s)) << world.trouble().text();
    // Both compute at the same time, so nobody asks.
    world[0].compute_until(world.now() + 10s);
    world[1].compute_until(world.now() + 10s);
    world.run_for(11s);
    EXPECT_FALSE(world[0].endpoint().failure()) << world[0].endpoint().failure().text;
    EXPECT_FALSE(world[1].endpoint().failure()) << world[1].endpoint().failure().text;
}

// A process that is stopped says nothing for as long as it pleases whoever stopped it; its host is there.
TEST(UdpRecovery, AProcessThatIsStoppedForLongerThanTheLimitIsNotDead)
{
    for (bool before_contact : {false, true}) {
        SCOPED_TRACE(before_contact);
        World world(12, 3);
        Habits habits = ordinary();
        habits.settings.silence_limit = 2s;
        for (int i = 0; i < 3; ++i)
            world.add(habits);
        world.stream(0, 1, equal_stream(10, 1000));
        world.stream(2, 0, equal_stream(10, 1000));
        Time stop = before_contact ? world.now() : world.now() + 50us;
        world.agenda().plan(stop, [&] { world[1].compute_until(stop + 60s); });
        world.start();
        world.run_for(59s);
        ASSERT_FALSE(world.all_done()) << "this test tests something";
        ASSERT_TRUE(world.finish(5s)) << world.trouble().text();
        for (unsigned i = 0; i < 3; ++i)
            EXPECT_FALSE(world[i].endpoint().failure()) << world[i].endpoint().failure().text;
        // Some packets in a second, no more: a host answers only a few.
        EXPECT_LT(world.network().counters().sent, 2000u);
    }
}

// Who never answers may be stopped, or not be there under this card at all: waiting has an end.
TEST(UdpRecovery, AProcessThatWasNeverHeardIsNotWaitedForForever)
{
    World world(15, 2);
    Habits habits = ordinary();
    habits.settings.silence_limit = 2s;
    habits.settings.contact_patience = 5;
    world.add(habits), world.add(habits);
    world[1].compute_until(world.now() + 1000s);
    world.stream(0, 1, equal_stream(10, 1000));
    Time start = world.now();
    world.start();
    auto gave_up = [&] {
        bool failed = false;
        world[0].endpoint().for_each_peer([&](const udp::Peer &peer) { failed |= peer.state == PairState::failed; });
        return failed;
    };
    ASSERT_TRUE(world.run_until(gave_up, 100s));
    EXPECT_GE(world.now() - start, 10s);
    EXPECT_LE(world.now() - start, 12s + 100ms);
}

TEST(UdpRecovery, AHostThatVanishesWhileItsProcessIsStoppedIsNoticed)
{
    World world(13, 2);
    Habits habits = ordinary();
    habits.settings.silence_limit = 2s;
    world.add(habits), world.add(habits);
    world.stream(0, 1, equal_stream(10, 1000));
    world.start();
    ASSERT_TRUE(world.finish(1s)) << world.trouble().text();
    world[1].compute_until(world.now() + 1000s);
    world.run_for(20s);
    EXPECT_FALSE(world[0].endpoint().failure()) << world[0].endpoint().failure().text;
    Time death = world.now();
    world.kill(1, true);
    ASSERT_TRUE(world.run_until([&] { return bool(world[0].endpoint().failure()); }, 10s));
    EXPECT_LE(world.now() - death, 2s + 100ms);
}

TEST(UdpRecovery, WhoNeverGivesUpWaitsForAHostThatVanished)
{
    World world(14, 2);
    Habits habits = ordinary();
    habits.settings.gives_up = false;
    world.add(habits), world.add(habits);
    Interval blackout{world.now() + 3ms, world.now() + 3ms + 3600s};
    world.network().for_all_paths([&](Path &path) { path.blackouts = {blackout}; });
    world.stream(0, 1, equal_stream(100, 100'000));
    world.start();
    world.run_for(3600s);
    ASSERT_FALSE(world.all_done()) << "this test tests something";
    ASSERT_TRUE(world.finish(10s)) << world.trouble().text();
    EXPECT_FALSE(world[0].endpoint().failure()) << world[0].endpoint().failure().text;
}

TEST(UdpRecovery, WhoLeavesIsNotMissed)
{
    World world(8, 3);
    Habits habits = ordinary();
    habits.settings.silence_limit = 2s;
    for (int i = 0; i < 3; ++i)
        world.add(habits);
    for (unsigned i = 0; i < 3; ++i)
        world.stream(i, (i + 1) % 3, equal_stream(10, 1000));
    world.start();
    ASSERT_TRUE(world.finish(1s)) << world.trouble().text();
    world[1].endpoint().close();
    world[1].wake_at(world.now());
    world.run_for(100ms);
    world.kill(1, false);
    world.run_for(20s);
    EXPECT_FALSE(world[0].endpoint().failure()) << world[0].endpoint().failure().text;
    EXPECT_FALSE(world[2].endpoint().failure()) << world[2].endpoint().failure().text;
    // Who sends to it nevertheless is told.
    Message message;
    SendProgress progress;
    EXPECT_EQ(world[0].endpoint().send(world[0].outbox_to(1)->peer(), message, &progress, world.now()), Status::unreachable);
}

// The good-bye and its answers are lost as often as anything else: it is said again.
TEST(UdpRecovery, AGoodByeGetsThroughWhereHalfIsLost)
{
    unsigned known = 0;
    for (unsigned seed = 0; seed < 40; ++seed) {
        World world(100 + seed, 2);
        Habits habits = ordinary();
        habits.settings.silence_limit = 2s;
        world.add(habits), world.add(habits);
        world.stream(0, 1, equal_stream(5, 3000));
        world.stream(1, 0, equal_stream(5, 3000));
        world.start();
        ASSERT_TRUE(world.finish(1s)) << world.trouble().text();
        world.network().for_all_paths([](Path &path) { path.loss = 5000; });
        bool closes = seed % 2 == 0;
        if (closes) {
            world[0].endpoint().close();
            world[0].wake_at(world.now());
        } else {
            world[0].disconnect(1);
        }
        world.run_for(1500ms);
        known += world[1].outbox_to(0)->peer()->state == PairState::left;
        // Told or not, it ends, and leaves nothing behind.
        EXPECT_TRUE(world[0].endpoint().closed());
        std::uint64_t sent = world.network().counters().sent;
        world.kill(1, true);
        world.run_for(10s);
        EXPECT_EQ(world.network().counters().sent, sent);
        unsigned kept = 0;
        world[0].endpoint().for_each_peer([&](const udp::Peer &) { ++kept; });
        EXPECT_EQ(kept, closes ? 1u : 0u);
    }
    EXPECT_GE(known, 37u) << "of 40: each is told seven times";
}

// Who lets go of a peer and wants it back, while the other one leaves and comes back: whatever is lost on the way, it arrives.
TEST(UdpRecovery, MeetingAgainWhileTheGoodByeIsOnItsWay)
{
    for (unsigned seed = 0; seed < 60; ++seed) {
        World world(200 + seed, 2);
        world.add(ordinary()), world.add(ordinary());
        world.stream(0, 1, equal_stream(5, 3000));
        world.stream(1, 0, equal_stream(5, 100)).allow(3);
        world.start();
        ASSERT_TRUE(world.run_until([&] { return world[0].inbox().received(1) == 3 && world[1].inbox().received(0) == 5; }, 1s));
        world.run_for(100ms);
        world.network().for_all_paths([](Path &path) { path.loss = 3000; });
        world[0].disconnect(1);
        world.run_for(Time(seed * 3'000));
        world[1].endpoint().renew(world[1].outbox_to(0)->peer());
        world[1].outbox_to(0)->allow(5);  // 0 may have left, and its good-bye is not here yet
        world[1].wake_at(world.now());
        world.run_for(Time(seed % 7 * 10'000));
        world.stream(0, 1, equal_stream(8, 3000)).skip(5);
        world[0].wake_at(world.now());
        ASSERT_TRUE(world.finish(20s)) << seed << ": " << world.trouble().text();
        for (unsigned i = 0; i < 2; ++i)
            EXPECT_FALSE(world[i].endpoint().failure()) << seed << ": " << world[i].endpoint().failure().text;
    }
}

TEST(UdpRecovery, APairCanBeMadeAgain)
{
    World world(9, 2);
    world.add(ordinary()), world.add(ordinary());
    udp::Peer *first = world[0].connect(world[1]);
    world.stream(0, 1, equal_stream(5, 3000));
    world.stream(1, 0, equal_stream(5, 3000));
    world.start();
    ASSERT_TRUE(world.finish(1s)) << world.trouble().text();
    EXPECT_EQ(first, world[0].outbox_to(1)->peer()) << "the same card is the same peer";

    // Twice connected, twice disconnected. The other process keeps its side of the pair, and learns that this one has left.
    world[0].endpoint().disconnect(first);
    EXPECT_EQ(world[0].endpoint().peers(), 1u);
    world[0].disconnect(1);
    world.run_for(100ms);
    unsigned kept = 0;
    world[0].endpoint().for_each_peer([&](const udp::Peer &) { ++kept; });
    EXPECT_EQ(kept, 0u);
    EXPECT_EQ(world[1].outbox_to(0)->peer()->state, PairState::left);

    // Messages are numbered on: the first five are the ones that have arrived.
    world.stream(0, 1, equal_stream(12, 3000)).skip(5);
    world[0].wake_at(world.now());
    ASSERT_TRUE(world.finish(1s)) << world.trouble().text();
    EXPECT_EQ(world[1].inbox().received(0), 12u);
    EXPECT_EQ(world[1].outbox_to(0)->peer()->state, PairState::open);
    EXPECT_EQ(world[1].endpoint().peers(), 1u);
}

TEST(UdpRecovery, NothingIsLeftOfAPairThatBothSidesHaveLeft)
{
    World world(10, 2);
    world.add(ordinary()), world.add(ordinary());
    world.stream(0, 1, equal_stream(5, 3000));
    world.stream(1, 0, equal_stream(5, 3000));
    world.start();
    ASSERT_TRUE(world.finish(1s)) << world.trouble().text();
    world[0].disconnect(1);
    world[1].disconnect(0);
    world.run_for(1s);
    unsigned kept = 0;
    for (unsigned i = 0; i < 2; ++i)
        world[i].endpoint().for_each_peer([&](const udp::Peer &) { ++kept; });
    EXPECT_EQ(kept, 0u);
    // In one of them the good-bye of the other comes while its own waits to be sent.
    World second(11, 2);
    second.add(ordinary()), second.add(ordinary());
    second.stream(0, 1, equal_stream(5, 3000));
    second.start();
    ASSERT_TRUE(second.finish(1s)) << second.trouble().text();
    udp::Peer *peer = nullptr;
    second[1].endpoint().for_each_peer([&](const udp::Peer &found) { peer = const_cast<udp::Peer *>(&found); });
    second[1].endpoint().connect(second[0].card());
    second[0].disconnect(1);
    second[1].compute_until(second.now() + 10ms);
    second.run_for(5ms);  // the good-bye is in the buffer
    second[1].endpoint().disconnect(peer);
    second.run_for(1s);
    second[1].endpoint().for_each_peer([&](const udp::Peer &) { ++kept; });
    EXPECT_EQ(kept, 0u);
}

}  // namespace
}  // namespace pm::sim
