// How much may be on its way to a peer, as far as the network is concerned: doubles in a round trip until something is lost,
// then halves at each loss and grows by one packet in a round trip.
//
// Amounts are *costs*, see cost_of(). One round trip's losses count once: packets sent before the last halving tell nothing new.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pm::udp {

// What a packet costs a receiver that does not look at its socket: the bytes, and what the kernel keeps beside them.
constexpr std::size_t cost_of(std::size_t datagram_size)
{
    return datagram_size + 832;
}

class Congestion {
  public:
    std::size_t window() const { return window_; }

    // `was_full`: the window was what kept us from sending more. One that is not used does not grow.
    void on_acknowledged(std::size_t cost, std::size_t packet_cost, bool was_full)
    {
        if (!was_full)
            return;
        if (window_ < threshold_)
            window_ += cost;
        else
            window_ += std::max<std::size_t>(packet_cost * cost / window_, 1);
        window_ = std::min(window_, largest);
    }

    // A packet is lost that was the `order`-th sent; `next_order` is what the next one will be.
    void on_lost(std::uint64_t order, std::uint64_t next_order, std::size_t packet_cost)
    {
        if (order < recovery_)
            return;
        recovery_ = next_order;
        window_ = std::max(window_ / 2, 4 * packet_cost);
        threshold_ = window_;
        ++halvings_;
    }

    // Nothing has come back for so long that what we knew about the path is worth nothing.
    void on_silence(std::size_t packet_cost)
    {
        threshold_ = std::max(window_ / 2, 4 * packet_cost);
        window_ = 2 * packet_cost;
    }

    std::uint64_t halvings() const { return halvings_; }

  private:
    static constexpr std::size_t largest = 16u << 20;

    std::size_t window_ = 80 * 1024;
    std::size_t threshold_ = largest;
    std::uint64_t recovery_ = 0;
    std::uint64_t halvings_ = 0;
};

}  // namespace pm::udp
