// What UCX has on this host, before anything is opened.
#pragma once

#include <ucp/api/ucp_def.h>

#include <string>
#include <vector>

namespace pm::ucx {

struct Resource {
    std::string transport;  // "tcp", "rc_mlx5", "posix"
    std::string device;     // "eth0", "mlx5_0:1", "memory"
    bool network = false;   // leads to other hosts
};

std::vector<Resource> find_resources();
// What an open context uses.
std::vector<Resource> resources_of(ucp_context_h context);
// Whether the target's processor has no part in a put: of a NIC with remote memory access.
bool writes_by_itself(const Resource &resource);
// "1.13.1"
std::string version();

}  // namespace pm::ucx
