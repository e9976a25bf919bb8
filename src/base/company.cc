#include "base/company.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/tuning.h"

namespace pm {

using namespace std::chrono_literals;

// With nobody there a yield takes less than that on most machines. Only a hint, which saves the system call that knows.
constexpr Time nobody = 1us;
// Who was away for longer was stopped.
constexpr Time longest_turn = 10ms;

static std::int64_t switches_of_this_thread()
{
    rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

void Company::glance()
{
    const Time before = clock_now();
    if (before < not_before_)
        return;
    sched_yield();
    ++yields_;
    const Time took = clock_now() - before;
    here_ = false;
    if (took > std::chrono::microseconds(PM_MICROSECONDS_OF_COMPANY)) {
        not_before_ = before + took + PM_TURNS_WITHOUT_GLANCE * std::min(took, longest_turn);
        alone_ = 0;
        return;
    }
    if (took > nobody) {
        const std::int64_t switches = switches_of_this_thread();
        here_ = switches != switches_;
        switches_ = switches;
    }
    alone_ = here_ ? 0 : std::min(alone_ + 1, PM_GLANCES_ALONE);
    if (alone_ == PM_GLANCES_ALONE)
        not_before_ = before + took + std::chrono::microseconds(PM_MICROSECONDS_ALONE);
}

}  // namespace pm
