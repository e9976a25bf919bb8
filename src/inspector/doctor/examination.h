// What doctor finds out about the host it runs on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/subnet.h"
#include "inspector/doctor/advice.h"

namespace pm::inspector {

// What other hosts are compared with, and reached at.
struct Facts {
    std::string version, program, host;
    std::uint64_t library = 0;  // a checksum of libmpi; 0 when there is none
    int cores = 1;
    bool udp = false, ucx = false;  // which devices lead from here to other hosts
    std::vector<Ip> addresses;      // that UDP offers, or all where it is not used; without loopback
};

struct Examination {
    Facts facts;
    Advices advices;
};

// Makes processes and then, by UCX, perhaps threads.
Examination examine_this_host();

// Versions, programs and libraries of this and of other MPIs: what PATH and LD_LIBRARY_PATH lead to.
void examine_installation(Examination *examination);

// The path of this program, without links.
std::string own_program();

}  // namespace pm::inspector
