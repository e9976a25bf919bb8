// Whether somebody else is on this thread's core who gives it back soon: a rank that waits, too.
//
// Promise: yields once, and answers by what the kernel counts, not by how long it took alone. Who does not give the core back soon computes:
// then it is not company, and for some such turns calls do not yield, since each would cost another one. Who finds nobody again and again does
// not yield for a while, either.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace pm {

class Company {
public:
    // From the last yield.
    bool is_here() const { return here_; }

    void glance();
    std::uint64_t yields() const { return yields_; }

private:
    std::int64_t switches_ = 0;  // of this thread, against its will; a yield to somebody counts as one
    Time not_before_{};          // shall a call yield
    int alone_ = 0;              // glances in a row that found nobody
    bool here_ = false;
    std::uint64_t yields_ = 0;
};

}  // namespace pm
