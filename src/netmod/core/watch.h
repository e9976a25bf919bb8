// Whether the hosts of peers are still there, while this process waits for a long time. For devices that do not find out by
// themselves: TCP sends again for a quarter of an hour before it tells. Only hosts are asked: a process may compute, or be stopped.
//
// After `patience` of quiet, or `seldom` where messages come, each host is asked: over the device, where its kernel acknowledges what
// arrives in a connection, and by a probe. One that answers is asked again after as long; it is dead when it has been silent for the
// limit. A connection has been answered before, or it would be none; the silence of a probe means nothing where the host has never
// answered one, which may be behind a firewall. So a host is probed once when it is met. Only time in which we looked counts.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/probe.h"
#include "base/subnet.h"
#include "base/time.h"
#include "netmod/core/connections.h"

namespace pm {

class Watch {
  public:
    using Look = std::map<Ip, Connections> (*)(Time now);

    explicit Watch(Look look = find_connections) : look_(look) {}

    // A process there has been reached. By any thread; all others by one at a time.
    void meet(const Ip &address, Time now);
    // Whether those who were met have answered.
    void learn(Time now);

    // Something came.
    void noise() { quiet_since_ = never; }

    // Now and then; `hosts` is called when a round begins: it asks over the devices and answers the addresses to watch. The addresses that
    // have been silent for `limit`, once.
    template <class Hosts>
    std::vector<Ip> step(Time now, Time limit, Hosts hosts)
    {
        learn(now);
        // Who was away for long has not looked.
        silence_ += std::min<Time>(now - std::exchange(stepped_, now), patience);
        if (asked_.empty()) {
            if (quiet_since_ == never)
                quiet_since_ = now;
            if (ended_ == never)
                ended_ = now;
            if (now - quiet_since_ < patience && now - ended_ < seldom)
                return {};
            for (const Ip &address : hosts())
                asked_.push_back({address, Probe(Time::zero())});
            began_ = now;
            silence_ = Time::zero();
            looked_ = never;
        }
        return ask(now, limit);
    }

    static constexpr std::chrono::seconds patience{5}, seldom{30};
    static constexpr std::chrono::milliseconds look_interval{100};

  private:
    struct Asked {
        Ip address;
        Probe probe;
    };
    std::vector<Ip> ask(Time now, Time limit);

    std::mutex meeting_;  // for these:
    std::set<Ip> met_;
    std::vector<Asked> met_now_;  // and asked
    std::atomic<bool> any_met_now_{false};

    std::set<Ip> answering_;
    Time stepped_{};
    Time quiet_since_ = never, ended_ = never;  // messages, and the last round
    // This round.
    std::vector<Asked> asked_;
    Time began_{}, silence_{};
    const Look look_;
    Time looked_ = never;
    std::map<Ip, Connections> connections_;  // as they were then
};

}  // namespace pm
