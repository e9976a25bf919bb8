// Which device a process uses for each other process: the rules of the composite, as functions of what is known of the job. No
// network, no clock, no device is needed to compute a table.
//
// - Two processes on one host talk over SHMEM, channel 0.
// - Two processes on different hosts talk over the network of highest priority that both are on and that carries messages both
//   ways (every device needs answers); the channel is the other's process number on its host. Of networks of equal priority
//   the one that comes first in Topology::networks is taken, so that both sides choose the same.
// - Where there is none, the answer is an error that names the two hosts and the networks of each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace pm {

enum class DeviceKind : std::uint8_t { shmem, ucx, udp };
inline constexpr std::size_t device_kinds = 3;
const char *device_name(DeviceKind device);
// The narrower the reach of a network, the faster it is taken to be: shmem, ucx, udp.
int default_priority(DeviceKind device);
// Whether processes that have it reach each other's memory by themselves; what everybody knows of everybody.
bool is_one_sided(DeviceKind device);

// A network that devices other than SHMEM use.
struct Network {
    std::uint64_t id = 0;  // the same in every process of the job
    DeviceKind device = DeviceKind::udp;
    int priority = 0;  // the higher one is taken
    std::string name;
};
inline constexpr std::size_t networks_max = 64;

// A process; its number is its place in Topology::nodes.
struct Node {
    std::uint32_t host = 0;      // place in Topology::hosts
    std::uint32_t process = 0;   // number on its host
    std::uint64_t networks = 0;  // bit n: it is on Topology::networks[n]
};

// Messages from one host do not arrive at the other on this network, though both are on it: it is closed for the two, both
// ways. A gap that names no host or no network of the job means nothing.
struct Gap {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t network = 0;
};

struct Topology {
    std::vector<std::string> hosts;
    std::vector<Network> networks;
    std::vector<Node> nodes;
    std::vector<Gap> gaps;
};

struct Route {
    std::uint32_t channel = 0;
    std::uint8_t network = 0;  // place in Topology::networks; means nothing for SHMEM
    DeviceKind device = DeviceKind::shmem;
};

// The route of one pair; unreachable where there is none. Both sides find the same network. invalid for a node that is not
// there, and for more networks than networks_max.
Result<Route> route_between(const Topology &topology, std::size_t from, std::size_t to);
// All routes of one pair, best first: the first one is that of route_between(), with the same errors. SHMEM alone within a host.
Result<std::vector<Route>> routes_between(const Topology &topology, std::size_t from, std::size_t to);

// One row of the routing table: the routes of a process to every one, itself included (SHMEM). Takes one pass over the gaps
// and, for each node, one look at most at each network. Where it has no route to some, the error of the first of them.
Result<std::vector<Route>> routes_of(const Topology &topology, std::size_t from);

// How many channels of which device a process opens, by the paper's rule: one of SHMEM when another process is on its host; of
// a network's device as many as the highest process number it reaches there, plus one. SHMEM first, then networks, best first.
struct Assignment {
    DeviceKind device = DeviceKind::shmem;
    std::uint8_t network = 0;
    std::uint32_t channels = 0;
};
Result<std::vector<Assignment>> assign_devices(const Topology &topology, std::size_t of);

}  // namespace pm
