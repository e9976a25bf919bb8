// A host that answers is told from one that does not, without waiting.
#include "base/probe.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "support/private_network.h"
#include "support/time_limit.h"

namespace pm {
namespace {

using namespace std::chrono_literals;

const Ip here = ip_from_v4({127, 0, 0, 1});

class ProbeTest : public testing::Test {
  protected:
    void SetUp() override
    {
        if (std::string reason = test::enter_private_network(); !reason.empty())
            GTEST_SKIP() << reason;
    }
    test::TimeLimit limit_{60};
};

TEST_F(ProbeTest, AHostThatRefusesHasAnswered)
{
    Probe probe;
    Time begin = clock_now();
    EXPECT_EQ(probe.ask(here, begin), Probe::Answer::none_yet) << "it is patient first";
    Probe::Answer answer = Probe::Answer::none_yet;
    while ((answer = probe.ask(here, begin + 1s)) == Probe::Answer::none_yet) {
    }
    EXPECT_EQ(answer, Probe::Answer::reached);
    EXPECT_EQ(probe.ask(here, begin + 1h), Probe::Answer::reached);
}

TEST_F(ProbeTest, AnAddressWithoutAWayIsSilentAtOnce)
{
    Probe probe;
    Time begin = clock_now();
    Ip nowhere = ip_from_v4({10, 1, 2, 3});
    EXPECT_EQ(probe.ask(nowhere, begin), Probe::Answer::none_yet);
    EXPECT_EQ(probe.ask(nowhere, begin + 1s), Probe::Answer::silent);
}

}  // namespace
}  // namespace pm
