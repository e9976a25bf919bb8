// What UCX has on this host, before anything is opened.
#pragma once

#include <string>
#include <vector>

namespace pm::ucx {

struct Resource {
    std::string transport;  // "tcp", "rc_mlx5", "posix"
    std::string device;     // "eth0", "mlx5_0:1", "memory"
    bool network = false;   // leads to other hosts
};

std::vector<Resource> find_resources();
// "1.13.1"
std::string version();

}  // namespace pm::ucx
