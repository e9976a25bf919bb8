// How much may be on its way to a peer, as far as the network is concerned: doubles in a round trip until something is lost,
// then halves at losses and grows by one packet in a round trip.
//
// Losses that a smaller window would not prevent are no reason for one. So a halving is also a question: is less lost now? The share
// that is lost with half the window is what the path loses of its own; when it explains what was lost before, the window returns.
// From then on only more losses than that path shows, by three deviations, halve it again, and so ask again. Where a queue overflows,
// nothing is lost after a halving, and every loss is a reason; so it is where more than a third is lost.
//
// Amounts are *costs*, see cost_of(). One round trip's losses count once: packets sent before the last halving tell nothing new.
#pragma once

#include <algorithm>
#include <cmath>
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
            window_ = std::min(window_ + cost, std::max(threshold_, window_ + 1));
        else
            window_ += std::max<std::size_t>(packet_cost * cost / window_, 1);
        window_ = std::min(window_, largest);
    }

    // What became of a packet that was the `order`-th sent; `next_order` is what the next one will be.
    void on_arrived(std::uint64_t order, std::uint64_t next_order)
    {
        if (order < first_) {
            ++before_.packets;
            return;
        }
        ++now_.packets;
        if (now_.packets >= sample_size && order >= round_end_)
            end_sample(next_order);
    }
    void on_lost(std::uint64_t order, std::uint64_t next_order, std::size_t packet_cost)
    {
        Sample &sample = order < first_ ? before_ : now_;
        ++sample.packets;
        ++sample.lost;
        // Until the question is answered, only more losses than led to it say that half was not little enough.
        double expected = asking_ ? std::max(own_loss_, before_.loss()) : own_loss_;
        if (order >= first_ && static_cast<double>(now_.lost) > explained(expected, std::max(now_.packets, sample_size)))
            halve(next_order, packet_cost);
    }

    // Nothing has come back for so long that what we knew about the path is worth nothing.
    void on_silence(std::size_t packet_cost)
    {
        threshold_ = std::max(window_ / 2, least_packets * packet_cost);
        window_ = std::min(window_, least_packets * packet_cost);
        before_ = now_ = {};
        asking_ = false;
    }

    std::uint64_t halvings() const { return halvings_; }
    double own_loss() const { return own_loss_; }

    // With fewer packets on their way a lost one may have none after it that tells. Of large ones there may be fewer from the beginning: then as many.
    static constexpr std::size_t least_packets = 8;

  private:
    struct Sample {
        std::size_t packets = 0, lost = 0;
        double loss() const { return packets > 0 ? static_cast<double>(lost) / static_cast<double>(packets) : 0; }
    };

    // So many losses of so many packets are no surprise where this share is lost.
    static double explained(double loss, std::size_t packets)
    {
        double expected = loss * static_cast<double>(packets);
        return loss > most_own_loss ? 0 : expected + 3 * std::sqrt(expected);
    }

    void halve(std::uint64_t next_order, std::size_t packet_cost)
    {
        window_before_ = asking_ ? std::max(window_before_, window_) : window_;
        before_ = now_;
        window_ = std::max(window_ / 2, std::min(window_, least_packets * packet_cost));
        threshold_ = window_;
        ++halvings_;
        asking_ = true;
        begin_sample(next_order);
        first_ = next_order;
    }

    void begin_sample(std::uint64_t next_order)
    {
        now_ = {};
        round_end_ = next_order;
    }

    void end_sample(std::uint64_t next_order)
    {
        double loss = now_.loss();
        if (asking_ && static_cast<double>(before_.lost) <= explained(loss, before_.packets)) {
            own_loss_ = loss;
            threshold_ = std::max(threshold_, window_before_);
        } else if (loss < own_loss_) {
            own_loss_ -= (own_loss_ - loss) / 8;
        }
        asking_ = false;
        begin_sample(next_order);
    }

    static constexpr std::size_t largest = 16u << 20;
    static constexpr std::size_t sample_size = 128;  // packets, at least, and those of a round trip
    static constexpr double most_own_loss = 1.0 / 3;

    std::size_t window_ = 256 * 1024;
    std::size_t threshold_ = largest;
    std::size_t window_before_ = 0;   // the last halving
    double own_loss_ = 0;             // of the path
    bool asking_ = false;             // the sample is the first one after a halving
    std::uint64_t first_ = 0;         // order of the first packet of it
    std::uint64_t round_end_ = 0;     // the sample has a round trip when this one has arrived
    Sample now_, before_;
    std::uint64_t halvings_ = 0;
};

}  // namespace pm::udp
