// Ends the process with SIGALRM when a test takes too long, so that a hang is a failure. Not a measurement: the limit is far
// above what a test needs on a busy machine.
#pragma once

#include <unistd.h>

namespace pm::test {

class TimeLimit {
  public:
    explicit TimeLimit(unsigned seconds) { alarm(seconds); }
    ~TimeLimit() { alarm(0); }
    TimeLimit(const TimeLimit &) = delete;
    TimeLimit &operator=(const TimeLimit &) = delete;
};

}  // namespace pm::test
