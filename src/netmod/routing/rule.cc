#include "netmod/routing/rule.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

namespace pm {
namespace {

std::uint64_t bit_of(std::uint32_t network)
{
    return std::uint64_t{1} << network;
}

// Places in Topology::networks, best first.
std::vector<std::uint8_t> best_first(const std::vector<Network> &networks)
{
    std::vector<std::uint8_t> order(networks.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::uint8_t network) { return networks[network].priority; });
    return order;
}

// By host: the networks that do not carry messages both ways between it and `host`. One pass over the gaps.
std::vector<std::uint64_t> closed_for(const Topology &topology, std::uint32_t host)
{
    std::vector<std::uint64_t> closed(topology.hosts.size());
    for (const Gap &gap : topology.gaps) {
        if (gap.network >= topology.networks.size())
            continue;
        if (gap.from == host && gap.to < closed.size())
            closed[gap.to] |= bit_of(gap.network);
        if (gap.to == host && gap.from < closed.size())
            closed[gap.from] |= bit_of(gap.network);
    }
    return closed;
}

std::uint64_t closed_between(const Topology &topology, std::uint32_t one, std::uint32_t other)
{
    std::uint64_t closed = 0;
    for (const Gap &gap : topology.gaps)
        if (gap.network < topology.networks.size() &&
            ((gap.from == one && gap.to == other) || (gap.from == other && gap.to == one)))
            closed |= bit_of(gap.network);
    return closed;
}

// Calls `found` with each route, best first, until it answers true. Looks at each network once at most.
template <class Found>
void each_route(const Topology &topology, std::span<const std::uint8_t> order, std::uint64_t closed, const Node &from, const Node &to,
                Found found)
{
    if (from.host == to.host) {
        found(Route{});
        return;
    }
    std::uint64_t open = from.networks & to.networks & ~closed;
    for (std::uint8_t network : order)
        if ((open & bit_of(network)) != 0 && found(Route{to.process, network, topology.networks[network].device}))
            return;
}

std::optional<Route> find_route(const Topology &topology, std::span<const std::uint8_t> order, std::uint64_t closed,
                                const Node &from, const Node &to)
{
    std::optional<Route> best;
    each_route(topology, order, closed, from, to, [&](const Route &route) {
        best = route;
        return true;
    });
    return best;
}

// "san-a (ucx), lan (udp)"
std::string list_of(const Topology &topology, std::uint64_t networks)
{
    std::string text;
    for (std::uint32_t network = 0; network < topology.networks.size(); ++network)
        if ((networks & bit_of(network)) != 0)
            text += (text.empty() ? "" : ", ") + topology.networks[network].name + " (" +
                    device_name(topology.networks[network].device) + ")";
    return text;
}

Error no_route(const Topology &topology, std::uint64_t closed, const Node &from, const Node &to)
{
    auto is_on = [&](const Node &node) {
        std::string networks = list_of(topology, node.networks);
        return topology.hosts[node.host] + " is on " + (networks.empty() ? "no network" : networks);
    };
    std::string broken = list_of(topology, from.networks & to.networks & closed);
    return {Status::unreachable, "no network joins the hosts " + topology.hosts[from.host] + " and " + topology.hosts[to.host] +
                                     ": " + is_on(from) + "; " + is_on(to) +
                                     (broken.empty() ? "" : "; messages do not arrive both ways on " + broken) +
                                     ". Connect both to one network, describe one that both are on with "
                                     "MPIR_CVAR_CH4_COMPOSITE_NETWORKS, or allow its device with "
                                     "MPIR_CVAR_CH4_COMPOSITE_DEVICES"};
}

Error check_networks(const Topology &topology)
{
    if (topology.networks.size() <= networks_max)
        return {};
    return {Status::invalid, "the hosts of this job are on " + std::to_string(topology.networks.size()) +
                                 " networks together, and a job can use " + std::to_string(networks_max) +
                                 "; describe those it needs with MPIR_CVAR_CH4_COMPOSITE_NETWORKS"};
}

Error check_node(const Topology &topology, std::size_t node)
{
    if (node >= topology.nodes.size())
        return {Status::invalid, "there is no process " + std::to_string(node) + " in a job of " +
                                     std::to_string(topology.nodes.size())};
    if (topology.nodes[node].host >= topology.hosts.size())
        return {Status::invalid, "process " + std::to_string(node) + " is on host " +
                                     std::to_string(topology.nodes[node].host) + ", which is not among the " +
                                     std::to_string(topology.hosts.size()) + " of the job"};
    return {};
}

}  // namespace

// By their numbers. One that this version does not know may be on the card of another process.
constexpr struct {
    const char *name;
    int priority;
    bool one_sided;
} all_devices[device_kinds] = {{"shmem", 30, false}, {"ucx", 20, true}, {"udp", 10, false}}, unknown_device{"unknown", 0, false};

static const auto &entry_of(DeviceKind device)
{
    auto number = static_cast<std::size_t>(device);
    return number < device_kinds ? all_devices[number] : unknown_device;
}

const char *device_name(DeviceKind device)
{
    return entry_of(device).name;
}

int default_priority(DeviceKind device)
{
    return entry_of(device).priority;
}

bool is_one_sided(DeviceKind device)
{
    return entry_of(device).one_sided;
}

Result<std::vector<Route>> routes_between(const Topology &topology, std::size_t from, std::size_t to)
{
    for (const Error &error : {check_networks(topology), check_node(topology, from), check_node(topology, to)})
        if (error)
            return error;
    const Node &here = topology.nodes[from], &there = topology.nodes[to];
    std::uint64_t closed = closed_between(topology, here.host, there.host);
    std::vector<Route> routes;
    each_route(topology, best_first(topology.networks), closed, here, there, [&](const Route &route) {
        routes.push_back(route);
        return false;
    });
    if (routes.empty())
        return no_route(topology, closed, here, there);
    return routes;
}

Result<Route> route_between(const Topology &topology, std::size_t from, std::size_t to)
{
    auto routes = routes_between(topology, from, to);
    if (!routes.ok())
        return routes.error();
    return routes.value().front();
}

Result<std::vector<Route>> routes_of(const Topology &topology, std::size_t from)
{
    for (const Error &error : {check_networks(topology), check_node(topology, from)})
        if (error)
            return error;
    const Node &here = topology.nodes[from];
    const std::vector<std::uint8_t> order = best_first(topology.networks);
    const std::vector<std::uint64_t> closed = closed_for(topology, here.host);
    std::vector<Route> routes;
    routes.reserve(topology.nodes.size());
    for (std::size_t to = 0; to < topology.nodes.size(); ++to) {
        if (Error error = check_node(topology, to))
            return error;
        const Node &there = topology.nodes[to];
        std::optional<Route> route = find_route(topology, order, closed[there.host], here, there);
        if (!route)
            return no_route(topology, closed[there.host], here, there);
        routes.push_back(*route);
    }
    return routes;
}

Result<std::vector<Assignment>> assign_devices(const Topology &topology, std::size_t of)
{
    Result<std::vector<Route>> routes = routes_of(topology, of);
    if (!routes.ok())
        return routes.error();
    bool shmem = false;
    std::vector<std::uint32_t> channels(topology.networks.size());
    for (std::size_t to = 0; to < topology.nodes.size(); ++to) {
        const Route &route = routes.value()[to];
        if (route.device == DeviceKind::shmem)
            shmem = shmem || to != of;
        else
            channels[route.network] = std::max(channels[route.network], route.channel + 1);
    }
    std::vector<Assignment> assignments;
    if (shmem)
        assignments.push_back({DeviceKind::shmem, 0, 1});
    for (std::uint8_t network : best_first(topology.networks))
        if (channels[network] > 0)
            assignments.push_back({topology.networks[network].device, network, channels[network]});
    return assignments;
}

}  // namespace pm
