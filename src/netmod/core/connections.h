// What the kernel knows of the TCP connections of this process, whoever made them; some devices have one to each peer (UCX over TCP).
// The kernel of the other host acknowledges what it gets, whatever its processes do, and no firewall is in the way, or there would be
// no connection. Nothing is sent for this: who asks has sent something over them before.
#pragma once

#include <map>

#include "base/subnet.h"
#include "base/time.h"

namespace pm {

// Of all that lead to one address.
struct Connections {
    bool asked = false;    // something that was sent is not acknowledged yet
    unsigned repeats = 0;  // how often it was sent again since the last answer
    Time last_sign{};      // when something came from there

    // It does not answer, and that is not bad luck.
    bool silent() const { return asked && repeats >= believed; }

    static constexpr unsigned believed = 4;
};

// By the address of the other host. Files of this thread are looked at: some microseconds for each that is open.
std::map<Ip, Connections> find_connections(Time now);

}  // namespace pm
