// Whether the hosts of peers are still there, while this process waits for a long time. For devices that do not find out by
// themselves: TCP sends again for a quarter of an hour before it tells. Only hosts are asked, by probes: a process may compute.
//
// Nothing is asked while messages come. After `patience` of quiet each host is; one that answers is asked again after as long, one
// that does not again and again, and it is dead when it has been silent for the limit.
#pragma once

#include <chrono>
#include <vector>

#include "base/subnet.h"
#include "base/time.h"
#include "netmod/core/probe.h"

namespace pm {

class Watch {
  public:
    // Something came.
    void noise() { quiet_since_ = never; }

    // Called while it is quiet; `hosts` answers the addresses to watch and is asked when a round begins. The addresses that have
    // been silent for `limit`, once.
    template <class Hosts>
    std::vector<Ip> step(Time now, Time limit, Hosts hosts)
    {
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

    Time quiet_since_ = never;
    std::vector<Asked> asked_;
};

}  // namespace pm
