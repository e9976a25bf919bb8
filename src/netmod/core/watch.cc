#include "netmod/core/watch.h"

namespace pm {

std::vector<Ip> Watch::ask(Time now, Time limit)
{
    std::vector<Ip> dead;
    bool all_answered = true;
    for (Asked &each : asked_) {
        Probe::Answer answer = each.probe.ask(each.address, now);
        if (answer == Probe::Answer::reached)
            continue;
        all_answered = false;
        if (now - each.silent_since > limit)
            dead.push_back(each.address);
        else if (answer == Probe::Answer::silent)
            each.probe = Probe(std::chrono::milliseconds(100));
    }
    // The next round, or nothing more to say.
    if (all_answered || !dead.empty())
        quiet_since_ = never;
    return dead;
}

}  // namespace pm
