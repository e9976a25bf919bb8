#include "base/wait.h"

#include <string>

namespace pm {
namespace {

// Figures by measurement (bench/results.md). A poll takes some 10 ns, a yield to another rank 1 to 2 us.
constexpr WaitPlan plan_own_core{4000, 200};
constexpr WaitPlan plan_shared_core{1, 40};
constexpr WaitPlan plan_sleeper{50, 0};

}  // namespace

Result<WaitMode> parse_wait_mode(std::string_view text, std::string_view setting)
{
    if (text == "auto")
        return WaitMode::automatic;
    if (text == "spin")
        return WaitMode::spin;
    if (text == "yield")
        return WaitMode::yield;
    if (text == "sleep")
        return WaitMode::sleep;
    return Error{Status::invalid, "unknown wait policy \"" + std::string(text) + "\" in " + std::string(setting) +
                                      "; known are auto, spin, yield, sleep"};
}

WaitPlan make_wait_plan(WaitMode mode, int ranks, int cores)
{
    switch (mode) {
        case WaitMode::spin:
            return {WaitPlan::unlimited, 0};
        case WaitMode::yield:
            return {oversubscribed(ranks, cores) ? plan_shared_core.polls : plan_own_core.polls,
                    WaitPlan::unlimited};
        case WaitMode::sleep:
            return plan_sleeper;
        case WaitMode::automatic:
            break;
    }
    return oversubscribed(ranks, cores) ? plan_shared_core : plan_own_core;
}

}  // namespace pm
