// What the kernel says of a connection to this host, while it acknowledges and when it does not any more.
#include "netmod/core/connections.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "support/private_network.h"
#include "support/time_limit.h"

namespace pm {
namespace {

using namespace std::chrono_literals;

class ConnectionsTest : public testing::TestWithParam<int> {
  protected:
    void SetUp() override
    {
        if (std::string reason = test::enter_private_network(); !reason.empty())
            GTEST_SKIP() << reason;
        sockaddr_in6 v6{};
        sockaddr_in v4{};
        v6.sin6_family = AF_INET6;
        v6.sin6_addr = in6addr_loopback;
        v4.sin_family = AF_INET;
        v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        bool is_v4 = GetParam() == AF_INET;
        auto name = is_v4 ? reinterpret_cast<sockaddr *>(&v4) : reinterpret_cast<sockaddr *>(&v6);
        socklen_t size = is_v4 ? sizeof v4 : sizeof v6;
        here_ = is_v4 ? ip_from_v4({127, 0, 0, 1}) : Ip{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
        listener_ = File(socket(GetParam(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        socket_ = File(socket(GetParam(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        ASSERT_EQ(bind(listener_.get(), name, size), 0);
        ASSERT_EQ(listen(listener_.get(), 1), 0);
        ASSERT_EQ(getsockname(listener_.get(), name, &size), 0);
        ASSERT_EQ(connect(socket_.get(), name, size), 0);
    }
    void TearDown() override { test::set_loopback(true); }

    template <class Condition>
    Connections wait_until(Condition condition)
    {
        for (;; std::this_thread::sleep_for(1ms))
            if (auto all = find_connections(clock_now()); all.contains(here_) && condition(all[here_]))
                return all[here_];
    }
    void send() { ASSERT_EQ(write(socket_.get(), "x", 1), 1); }

    Ip here_{};
    File listener_, socket_;  // nobody accepts: its kernel does what is needed
    test::TimeLimit limit_{60};
};

TEST_P(ConnectionsTest, WhatIsAcknowledgedIsASign)
{
    for (int i = 0; i < 3; ++i) {
        Time before = clock_now();
        send();
        // What the kernel counts is older when it is read late, and then it is read again.
        Connections found = wait_until([&](const Connections &each) { return !each.asked && each.last_sign >= before - 1s; });
        EXPECT_FALSE(found.silent());
    }
}

TEST_P(ConnectionsTest, WhatIsNotAcknowledgedIsSilence)
{
    ASSERT_TRUE(test::set_loopback(false));
    // As if all looks were at one moment: the earlier a sign seems to be, the older the kernel says that it is. It only becomes older, however often
    // something is sent again.
    const Time now = clock_now();
    Time earlier = now, at_repeat = now;
    unsigned repeats = 0;
    send();
    for (Connections found; !found.silent(); std::this_thread::sleep_for(1ms)) {
        found = find_connections(now)[here_];
        ASSERT_LE(found.last_sign, earlier) << "after " << found.repeats << " repeats";
        earlier = found.last_sign;
        if (found.repeats <= repeats)
            continue;
        ASSERT_LT(found.last_sign, at_repeat) << "it is no older than before repeat " << found.repeats;
        at_repeat = found.last_sign;
        repeats = found.repeats;
    }
}

TEST_P(ConnectionsTest, OneThatIsClosedIsNone)
{
    socket_ = File();
    listener_ = File();
    EXPECT_FALSE(find_connections(clock_now()).contains(here_));
}

TEST(Connections, AHostIsSilentWhenItWasAskedOftenEnough)
{
    EXPECT_TRUE((Connections{true, Connections::believed, {}}.silent()));
    EXPECT_TRUE((Connections{true, Connections::believed + 1, {}}.silent()));
    EXPECT_FALSE((Connections{true, Connections::believed - 1, {}}.silent()));
    EXPECT_FALSE((Connections{false, Connections::believed, {}}.silent()));
}

INSTANTIATE_TEST_SUITE_P(Families, ConnectionsTest, testing::Values(AF_INET, AF_INET6), [](const auto &family) {
    return family.param == AF_INET ? "IPv4" : "IPv6";
});

}  // namespace
}  // namespace pm
