// Thousands of seeded runs of the protocol over simulated networks. Promise checked: whatever the network does, messages arrive
// exactly once, in order and whole, or the pair fails within the silence limit; and all that process.h checks after every event.
#include <gtest/gtest.h>

#include <string>

#include "sim/scenario.h"
#include "support/seeds.h"
#include "support/time_limit.h"

namespace pm::sim {
namespace {

TEST(UdpRandom, KeepsItsPromisesOnAnyNetwork)
{
    test::for_each_seed(10'000, [](std::uint64_t seed) {
        test::TimeLimit limit(120);  // no run takes a second; one that never ends is a failure
        return Scenario(seed).run();
    });
}

}  // namespace
}  // namespace pm::sim
