// Round-trip time of a pair: a smoothed mean and a deviation, and from them how long to wait before asking again.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace pm::udp {

class RoundTrip {
  public:
    void sample(Time time)
    {
        time = std::max(time, Time(1));
        if (smoothed_ == Time::zero()) {
            smoothed_ = time;
            deviation_ = time / 2;
            return;
        }
        Time error = time > smoothed_ ? time - smoothed_ : smoothed_ - time;
        deviation_ += (error - deviation_) / 4;
        smoothed_ += (time - smoothed_) / 8;
    }

    bool known() const { return smoothed_ != Time::zero(); }
    Time smoothed() const { return smoothed_; }

    // After this time without an answer a packet, or its answer, is probably lost. Before the first sample it is a guess.
    // `patience` is for what the receiver does before it answers: it holds acknowledgements back, and it computes.
    Time timeout(Time patience) const
    {
        using namespace std::chrono_literals;
        return known() ? smoothed_ + std::max<Time>(4 * deviation_, 1ms) + patience : Time(20ms);
    }

    // As long as this nothing comes back only now and then: it costs little to ask.
    Time probe_timeout() const
    {
        using namespace std::chrono_literals;
        return 2 * smoothed_ + std::max<Time>(2 * deviation_, 100us);
    }

    // A packet that another one has overtaken may come so much later than that.
    Time reordering() const
    {
        using namespace std::chrono_literals;
        return std::max<Time>(smoothed_ / 4, 50us);
    }

  private:
    Time smoothed_{};
    Time deviation_{};
};

}  // namespace pm::udp
