// Delivered multicasts: members tell along a binomial tree that they have everything, whatever way the data took.
//
// Promise: a master is told when all members have everything, or that one of them has ended.
// Timer: a master looks after those who have not acknowledged every two seconds, in attend().
#include <chrono>
#include <string>

#include "coll/mcast/state.h"

namespace pm::coll {
namespace {

// For so long a master waits for acknowledgements without looking.
constexpr std::chrono::seconds patience{2};

}  // namespace

// This member, or all from one of its children on, have everything.
void Engine::acknowledge(std::uint64_t origin, std::uint32_t serial)
{
    auto [found, is_new] = duties_.try_emplace({origin, serial});
    early_acks_ += is_new;
    Duty &duty = found->second;
    duty.missing--;
    if (duty.missing != 0 || duty.parent == nullptr)
        return;
    WireHeader ack;
    ack.kind = WireHeader::Kind::ack;
    ack.origin = origin;
    ack.serial = serial;
    relay(duty.parent, ack, {}, {});
    duties_.erase(found);
}

bool Engine::on_ack(const WireHeader &header)
{
    if (header.origin != origin_) {
        if (early_acks_ >= most_early_acks && !duties_.contains({header.origin, header.serial})) {
            transport_.failed("there are acknowledgements of " + std::to_string(most_early_acks) +
                              " multicasts that this process has not got; wait for some (MPIX_MCAST_DELIVERED) before starting more");
            return true;
        }
        acknowledge(header.origin, header.serial);
        return true;
    }
    auto found = outgoing_.find(header.serial);
    if (found == outgoing_.end())
        return false;
    found->second->wants_ack = false;
    settle(found->second.get());
    return true;
}

void Engine::attend(Time now)
{
    drop_parked();
    std::vector<Outgoing *> lost;
    for (auto &[serial, outgoing] : outgoing_) {
        if (!outgoing->wants_ack)
            continue;
        if (outgoing->look_at == Time{})
            outgoing->look_at = now + patience;
        if (now < outgoing->look_at)
            continue;
        outgoing->look_at = now + patience;
        for (auto [rank, peer] : outgoing->members) {
            if (transport_.has_ended(peer)) {
                outgoing->error = "rank " + std::to_string(rank) + ", a member of the multicast, has ended";
                outgoing->wants_ack = false;
                // What is queued for it is never read. What is queued for another will be, and must stay until then.
                std::erase(outgoing->queued, peer);
                lost.push_back(outgoing.get());
                break;
            }
            WireHeader call;
            call.kind = WireHeader::Kind::call;
            if (!transport_.on_host(peer))
                relay(peer, call, {}, {});
        }
    }
    for (Outgoing *outgoing : lost)
        settle(outgoing);
}

}  // namespace pm::coll
