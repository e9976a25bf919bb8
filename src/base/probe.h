// Whether a host answers at an address: a connection by TCP to a port that hardly anybody listens on. A refusal is an answer, and the
// host's kernel gives it whatever its processes do. For peers that cannot answer by themselves: they compute, or are stopped.
#pragma once

#include <chrono>

#include "base/file.h"
#include "base/subnet.h"
#include "base/time.h"

namespace pm {

class Probe {
  public:
    enum class Answer { none_yet, reached, silent };

    explicit Probe(Time patience = std::chrono::seconds(1)) : patience_(patience) {}

    // Never waits. Asks when it was called for so long as it is patient; `silent` when the kernel says so, or after the limit.
    Answer ask(const Ip &address, Time now);

    static constexpr std::chrono::seconds limit{3};

  private:
    Time patience_;
    Answer answer_ = Answer::none_yet;
    Time begin_ = never, asked_ = never;
    File socket_;
};

}  // namespace pm
