// The addresses of a name, within a time limit: a name server that is gone would keep us for a minute.
#pragma once

#include <string>
#include <vector>

#include "base/subnet.h"

namespace pm::inspector {

struct Resolved {
    std::vector<Ip> addresses;
    std::string trouble;  // empty: there are addresses
};

// Asks in a process for each name, for all at once.
std::vector<Resolved> resolve_all(const std::vector<std::string> &names);
Resolved resolve(const std::string &name);

std::string address_list(const std::vector<Ip> &addresses);

// Whether one of them is an address of this host.
bool are_of_this_host(const std::vector<Ip> &addresses);

}  // namespace pm::inspector
