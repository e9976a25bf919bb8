#include "base/wait.h"

#include <string>

#include "base/tuning.h"

namespace pm {
namespace {

constexpr WaitPlan plan_own_core{PM_POLLS_OWN_CORE, PM_YIELDS_OWN_CORE, PM_POLLS_BEFORE_GLANCE};
constexpr WaitPlan plan_shared_core{PM_POLLS_SHARED_CORE, PM_YIELDS_SHARED_CORE};
constexpr WaitPlan plan_sleeper{PM_POLLS_SLEEPER, 0};

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
            return oversubscribed(ranks, cores) ? WaitPlan{plan_shared_core.polls, WaitPlan::unlimited}
                                                : WaitPlan{plan_own_core.polls, WaitPlan::unlimited, plan_own_core.glance};
        case WaitMode::sleep:
            return plan_sleeper;
        case WaitMode::automatic:
            break;
    }
    return oversubscribed(ranks, cores) ? plan_shared_core : plan_own_core;
}

}  // namespace pm
