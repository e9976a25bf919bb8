// Hosts are asked only when it is quiet for long, and only those that stay silent are given up. Time is ours, and what the kernel knows of
// connections; the hosts are this one, which refuses, and one without a way to it.
#include "netmod/core/watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "support/private_network.h"
#include "support/time_limit.h"

namespace pm {
namespace {

using namespace std::chrono_literals;

const Ip here = ip_from_v4({127, 0, 0, 1}), nowhere = ip_from_v4({10, 1, 2, 3});

class WatchTest : public testing::Test {
  protected:
    void SetUp() override
    {
        if (std::string reason = test::enter_private_network(); !reason.empty())
            GTEST_SKIP() << reason;
        socket_ = dup(STDIN_FILENO);
        close(socket_);
    }
    void TearDown() override
    {
        switch_loopback(true);
        connections_.clear();
    }
    // Without it nothing of this host answers any more.
    void switch_loopback(bool on)
    {
        ASSERT_TRUE(test::set_loopback(on));
        loopback_ = on;
    }
    // Steps of a tenth of a second until something is dead or `end` is reached.
    std::vector<Ip> run(Time end, std::vector<Ip> hosts)
    {
        std::vector<Ip> dead;
        for (; now_ < end && dead.empty(); now_ += 100ms) {
            dead = watch_.step(now_, 20s, [&] {
                ++rounds_;
                return hosts;
            });
            // The kernel refuses in its own time, which may be late on a busy machine: ours stands still until then.
            pollfd answer{socket_, POLLOUT, 0};
            if (loopback_)
                poll(&answer, 1, -1);
        }
        return dead;
    }

    bool socket_is_open() const { return fcntl(socket_, F_GETFD) >= 0; }

    static inline std::map<Ip, Connections> connections_;
    Watch watch_{[](Time) { return connections_; }};
    Time now_ = 1000s;
    unsigned rounds_ = 0;
    bool loopback_ = true;
    int socket_ = -1;  // the lowest number that is free, which the connection to the first host gets, if there is one
    test::TimeLimit limit_{60};
};

// But it does: messages of one host say nothing of another.
TEST_F(WatchTest, AsksSeldomWhileMessagesCome)
{
    for (int i = 0; i < 1000; ++i) {
        EXPECT_TRUE(run(now_ + 1s, {here, nowhere}).empty());
        watch_.noise();
    }
    EXPECT_LE(rounds_, 1000s / Watch::seldom);
    EXPECT_GE(rounds_, 1000s / Watch::seldom - 2);
}

TEST_F(WatchTest, MessagesOfOthersDoNotHideAHostThatIsDead)
{
    connections_[nowhere] = {true, Connections::believed, now_};
    std::vector<Ip> dead;
    for (Time begin = now_; dead.empty() && now_ < begin + 100s;) {
        dead = run(now_ + 1s, {here, nowhere});
        watch_.noise();
    }
    EXPECT_EQ(dead, std::vector<Ip>{nowhere});
}

// Nobody was asked meanwhile.
TEST_F(WatchTest, WhoWasAwayForLongLooksAgainBeforeItBelieves)
{
    connections_[nowhere] = {true, Connections::believed, now_};
    EXPECT_TRUE(run(now_ + Watch::patience + 10s, {nowhere}).empty());
    now_ += 1000s;
    EXPECT_TRUE(run(now_ + 4s, {nowhere}).empty());
    EXPECT_EQ(run(now_ + 10s, {nowhere}), std::vector<Ip>{nowhere});
}

TEST_F(WatchTest, AHostThatHasAnsweredAndIsSilentForTheLimitIsDead)
{
    watch_.meet(here, now_);
    while (socket_is_open())
        watch_.learn(now_);
    switch_loopback(false);
    Time begin = now_;
    EXPECT_EQ(run(begin + 100s, {here}), std::vector<Ip>{here});
    EXPECT_GE(now_ - begin, Watch::patience + 20s);
    EXPECT_LE(now_ - begin, Watch::patience + 21s);
    EXPECT_EQ(rounds_, 1u);
}

TEST_F(WatchTest, AHostThatAnsweredInARoundIsMissedInTheNext)
{
    EXPECT_TRUE(run(now_ + 2 * Watch::patience, {here}).empty());
    switch_loopback(false);
    EXPECT_EQ(run(now_ + 100s, {here, nowhere}), std::vector<Ip>{here});
}

TEST_F(WatchTest, TheSilenceOfOneThatNeverAnsweredMeansNothing)
{
    watch_.meet(nowhere, now_);
    EXPECT_TRUE(run(now_ + 1000s, {here, nowhere}).empty());
    EXPECT_GE(rounds_, 15u) << "but it is asked again";
}

// Behind a firewall that drops probes.
TEST_F(WatchTest, AHostThatDoesNotAcknowledgeForTheLimitIsDead)
{
    connections_[nowhere] = {true, Connections::believed, now_};
    Time begin = now_;
    EXPECT_EQ(run(begin + 100s, {here, nowhere}), std::vector<Ip>{nowhere});
    EXPECT_GE(now_ - begin, Watch::patience + 20s);
    EXPECT_LE(now_ - begin, Watch::patience + 21s);
    EXPECT_EQ(rounds_, 1u);
}

TEST_F(WatchTest, AHostThatAcknowledgesIsThere)
{
    Time begin = now_;
    for (int i = 0; i < 100; ++i) {
        connections_[nowhere] = {true, Connections::believed, now_};
        EXPECT_TRUE(run(now_ + 10s, {nowhere}).empty());
    }
    EXPECT_GE(rounds_, (now_ - begin) / 20s) << "and is asked again";
}

TEST_F(WatchTest, AHostThatHasAnsweredProbesAndAcknowledgesIsThere)
{
    EXPECT_TRUE(run(now_ + 2 * Watch::patience, {here}).empty());
    switch_loopback(false);
    for (int i = 0; i < 100; ++i) {
        connections_[here] = {false, 0, now_};
        EXPECT_TRUE(run(now_ + 10s, {here}).empty());
    }
}

TEST_F(WatchTest, AConnectionThatWaitsForNothingIsNotSilent)
{
    connections_[nowhere] = {false, 0, now_};
    EXPECT_TRUE(run(now_ + 1000s, {nowhere}).empty());
}

TEST_F(WatchTest, WhatWasNotSentAgainOftenMayBeBadLuck)
{
    connections_[nowhere] = {true, Connections::believed - 1, now_};
    EXPECT_TRUE(run(now_ + 100s, {nowhere}).empty());
    connections_[nowhere].repeats++;
    EXPECT_EQ(run(now_ + 1s, {nowhere}), std::vector<Ip>{nowhere}) << "but it was asked all the time";
}

TEST_F(WatchTest, AHostThatAnswersIsAskedAgainAndAgain)
{
    EXPECT_TRUE(run(now_ + 100s, {here}).empty());
    EXPECT_GE(rounds_, 15u);
    EXPECT_LE(rounds_, 20u);
}

TEST_F(WatchTest, NoiseEndsTheSilence)
{
    for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(run(now_ + Watch::patience + 19s, {nowhere}).empty());
        watch_.noise();
    }
}

}  // namespace
}  // namespace pm
