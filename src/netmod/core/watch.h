// Whether the hosts of peers are still there, while this process waits for a long time. For devices that do not find out by
// themselves: TCP sends again for a quarter of an hour before it tells. Only hosts are asked, by probes: a process may compute.
//
// A host is asked once when it is met. Then nothing is asked while messages come. After `patience` of quiet each host is; one that
// answers is asked again after as long, one that does not again and again, and it is dead when it has been silent for the limit. One
// that has never answered is behind a firewall, for all that is known: its silence means nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <vector>

#include "base/subnet.h"
#include "base/time.h"
#include "netmod/core/probe.h"

namespace pm {

class Watch {
  public:
    // A process there has been reached. By any thread; all others by one at a time.
    void meet(const Ip &address, Time now);
    // Now and then: whether those who were met have answered.
    void learn(Time now);

    // Something came.
    void noise() { quiet_since_ = never; }

    // Called while it is quiet; `hosts` answers the addresses to watch and is asked when a round begins. The addresses that have
    // been silent for `limit`, once.
    template <class Hosts>
    std::vector<Ip> step(Time now, Time limit, Hosts hosts)
    {
        learn(now);
        if (quiet_since_ == never) {
            quiet_since_ = now;
            asked_.clear();
        }
        if (now - quiet_since_ < patience)
            return {};
        if (asked_.empty())
            for (const Ip &address : hosts())
                asked_.push_back({address, Probe(Time::zero()), now});
        return ask(now, limit);
    }

    static constexpr std::chrono::seconds patience{5};

  private:
    struct Asked {
        Ip address;
        Probe probe;
        Time silent_since;
    };
    std::vector<Ip> ask(Time now, Time limit);

    std::mutex meeting_;  // for these:
    std::set<Ip> met_;
    std::vector<Asked> met_now_;  // and asked
    std::atomic<bool> any_met_now_{false};

    std::set<Ip> answering_;
    Time quiet_since_ = never;
    std::vector<Asked> asked_;
};

}  // namespace pm
