// The hosts of a job, as mpiexec is told of them: by a list (alpha,beta:4) or by a file with a host a line.
#pragma once

#include <string>
#include <vector>

#include "inspector/doctor/advice.h"

namespace pm::inspector {

struct Host {
    std::string name;
    std::string user;  // empty: the same as here
    long ranks = 1;
};

struct Hosts {
    std::vector<Host> list;  // each once
    Advices advices;         // on what was written
};

Hosts parse_hosts(const std::string &list);
Hosts read_hosts(const std::string &path);

}  // namespace pm::inspector
