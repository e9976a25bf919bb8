// How much one peer may have on its way to us: the receive buffer of the socket is one for all of them.
//
// Promise: while those who send are the same, what they may send together fits into the buffer, so nobody's packets are
// thrown away there while we compute. Who has sent in this or the last period counts as a sender.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace pm::udp {

class BufferShare {
  public:
    explicit BufferShare(std::size_t buffer_size) : usable_(buffer_size / 4 * 3) {}

    // A peer, whose last period is in `*period`, has sent.
    void on_heard(std::uint32_t *period, Time now)
    {
        if (now >= period_end_) {
            last_senders_ = now < period_end_ + period_length ? senders_ : 0;
            senders_ = 0;
            ++period_;
            period_end_ = now + period_length;
        }
        if (*period != period_) {
            *period = period_;
            ++senders_;
        }
    }

    std::size_t share() const
    {
        return std::max(usable_ / std::max({senders_, last_senders_, std::size_t{1}}), smallest);
    }

  private:
    static constexpr Time period_length = std::chrono::milliseconds(5);
    static constexpr std::size_t smallest = 4 * 1024;

    std::size_t usable_;
    std::uint32_t period_ = 0;
    Time period_end_{};
    std::size_t senders_ = 0;
    std::size_t last_senders_ = 0;
};

}  // namespace pm::udp
