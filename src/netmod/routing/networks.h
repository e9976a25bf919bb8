// The networks this host is on: described by the user in a small text, or found by themselves.
//
// A description has a line for each network:
//
//   network san-a ucx 10.1.0.0/24 priority 30
//   network lan   udp 10.0.0.0/24 fd00:5::/64
//   network fab   ucx mlx5_0:1 hosts n*,login
//
// a name, the device that uses it, then in any order: subnets, interfaces or UCX devices that lead to it; `hosts` and the names
// (with * and ?) of those that are on it, separated by commas; `priority` and a number, the higher one is taken. Without
// subnets and interfaces every port of the device leads to it. A line that is empty or starts with # means nothing. Where a
// text stands for a file (on a command line), a semicolon ends a line.
//
// A host is on a network when one of its ports leads to it and, with `hosts`, its name is among them, as it is or without its
// domain. With a description nothing else is used; SHMEM needs none.
//
// Found by themselves: each subnet (of UCX over TCP) and each fabric (of UCX elsewhere) is a network; all that UDP reaches is
// one, since routers join subnets and UDP proves reach by a packet that came back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/subnet.h"
#include "netmod/routing/rule.h"

namespace pm {

struct NetworkDescription {
    std::string name;
    DeviceKind device = DeviceKind::udp;  // ucx or udp
    int priority = 0;                     // 0 to priority_max; default_priority() of the device where none is given
    std::vector<Subnet> subnets;
    std::vector<std::string> ports;
    std::vector<std::string> hosts;
};
inline constexpr int priority_max = 1000;

// The text of a description, of one network at least and of networks_max at most; `origin` is what errors name
// ("networks.txt:3: ...", what is wrong and what is allowed).
Result<std::vector<NetworkDescription>> parse_networks(std::string_view text, std::string_view origin);
// The value of MPIR_CVAR_CH4_COMPOSITE_NETWORKS: "auto" (none: found by themselves), a description (starts with "network "), or
// the path of a file.
Result<std::vector<NetworkDescription>> read_networks(const std::string &setting);

// What a host has that may lead to a network: an interface for UDP, a device of UCX.
struct Port {
    DeviceKind device = DeviceKind::udp;
    std::string name;             // "eth0", "mlx5_0:1"
    std::vector<Subnet> subnets;  // its addresses, each with its subnet; may be empty
    std::string fabric;           // tells the fabric where there are no subnets: "ib fe80000000000000"
};

// A network that this host is on.
struct LocalNetwork {
    Network network;
    std::vector<std::string> ports;  // that lead to it
    std::vector<Subnet> addresses;   // this host's addresses on it
};
// Networks of the same name or subnet get the same id on every host. The result is in the order of the description, or of the
// ports. invalid when a host that a description names has no port that leads to the network (so leave out descriptions of
// devices that the job does not use), and when more than networks_max are found.
//
// Addresses in a subnet that a description names count always. Of other ports:
// - IPv4 addresses count, and those of IPv6 where there are no others.
// - Loopback (127.0.0.0/8, ::1) counts where the port is named and has nothing else, for UDP also where the host has nothing
//   else.
// - Link-local addresses do not tell the wire they are on: of IPv6 they never count, of IPv4 for UDP alone, which proves reach.
Result<std::vector<LocalNetwork>> networks_of_host(const std::vector<NetworkDescription> &descriptions,
                                                   const std::vector<Port> &ports, std::string_view host);

}  // namespace pm
