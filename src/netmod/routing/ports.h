// What this host has that may lead to a network.
#pragma once

#include <vector>

#include "base/status.h"
#include "netmod/routing/networks.h"

namespace pm {

// Interfaces of the host, for UDP.
Result<std::vector<Port>> udp_ports();

// Devices of UCX, as its own settings leave them (UCX_TLS, UCX_NET_DEVICES). `over_tcp`: also those that UCX reaches over TCP,
// where UDP is faster. Empty when UCX is not built in.
std::vector<Port> ucx_ports(bool over_tcp);

}  // namespace pm
