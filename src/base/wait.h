// How a rank waits: it polls for a short while, then gives its core away between polls, then sleeps until a sender rings. One that should
// have a core for itself looks once, before that, whether it has (src/base/company.h): the kernel needs some ten milliseconds until it moves one
// of two that it has started on the same core.
//
// Promise: a pure decision, the same for the same inputs. `action(idle_polls)` is asked after every poll that found nothing;
// the caller does what it says and starts again at 0 when a poll found something.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace pm {

enum class WaitAction { poll, glance, yield, sleep };

enum class WaitMode {
    automatic,  // by the number of ranks and cores
    spin,       // never give the core away: for dedicated cores
    yield,      // never sleep
    sleep,      // sleep almost at once: for ranks that mostly compute elsewhere
};

struct WaitPlan {
    static constexpr std::uint32_t unlimited = 0xffffffff;

    std::uint32_t polls;   // before the first yield
    std::uint32_t yields;  // before the first sleep
    std::uint32_t glance = unlimited;  // polls before the look whether somebody else is on this core

    WaitAction action(std::uint32_t idle_polls) const
    {
        if (idle_polls == glance && glance != unlimited)
            return WaitAction::glance;
        if (idle_polls < polls || polls == unlimited)
            return WaitAction::poll;
        return idle_polls - polls < yields || yields == unlimited ? WaitAction::yield : WaitAction::sleep;
    }

    // After one that took as long as so many: not past the glance.
    std::uint32_t after(std::uint32_t idle_polls, std::uint32_t weight) const
    {
        const std::uint32_t later = idle_polls + weight;
        return idle_polls <= glance && glance < later ? glance : later;
    }
};

// "auto", "spin", "yield" or "sleep".
Result<WaitMode> parse_wait_mode(std::string_view text, std::string_view setting = "MPIR_CVAR_CH4_COMPOSITE_WAIT");

// `ranks` of this host share `cores`.
WaitPlan make_wait_plan(WaitMode mode, int ranks, int cores);

// True when not every rank of the host has a core of its own.
inline bool oversubscribed(int ranks, int cores)
{
    return ranks > cores;
}

}  // namespace pm
