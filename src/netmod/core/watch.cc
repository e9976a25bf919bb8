#include "netmod/core/watch.h"

namespace pm {

void Watch::meet(const Ip &address, Time now)
{
    std::lock_guard lock(meeting_);
    if (!met_.insert(address).second)
        return;
    met_now_.push_back({address, Probe(Time::zero())});
    met_now_.back().probe.ask(address, now);  // the answer is looked at later
    any_met_now_.store(true, std::memory_order_relaxed);
}

void Watch::learn(Time now)
{
    if (!any_met_now_.load(std::memory_order_relaxed)) [[likely]]
        return;
    std::lock_guard lock(meeting_);
    std::erase_if(met_now_, [&](Asked &each) {
        Probe::Answer answer = each.probe.ask(each.address, now);
        if (answer == Probe::Answer::reached)
            answering_.insert(each.address);
        return answer != Probe::Answer::none_yet;
    });
    any_met_now_.store(!met_now_.empty(), std::memory_order_relaxed);
}

std::vector<Ip> Watch::ask(Time now, Time limit)
{
    if (looked_ == never || now - looked_ >= look_interval) {
        looked_ = now;
        connections_ = look_(now);
    }
    std::vector<Ip> dead;
    bool all_answered = true;
    for (Asked &each : asked_) {
        Probe::Answer answer = each.probe.ask(each.address, now);
        if (answer == Probe::Answer::reached)
            answering_.insert(each.address);
        Connections connections;
        if (auto found = connections_.find(each.address); found != connections_.end())
            connections = found->second;
        if (answer == Probe::Answer::reached || connections.last_sign > began_)
            continue;
        bool answers_probes = answering_.contains(each.address);
        if (answer == Probe::Answer::silent && !answers_probes && !connections.asked)
            continue;
        all_answered = false;
        if ((answers_probes || connections.silent()) && silence_ > limit)
            dead.push_back(each.address);
        else if (answer == Probe::Answer::silent)
            each.probe = Probe(std::chrono::milliseconds(100));
    }
    if (all_answered || !dead.empty()) {
        asked_.clear();
        ended_ = quiet_since_ = now;
    }
    return dead;
}

}  // namespace pm
