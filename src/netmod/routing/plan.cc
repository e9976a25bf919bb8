#include "netmod/routing/plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "shmmod/shmem.h"

namespace pm {
namespace {

std::optional<std::uint64_t> shared_host(std::span<const std::byte> card)
{
    shmem::Card shared;
    if (card.size() != sizeof shared)
        return {};
    std::memcpy(&shared, card.data(), sizeof shared);
    return shared.host;
}

// Without SHMEM a process is alone on its host, as far as routes go.
std::pair<std::uint64_t, std::size_t> host_key(const Card &card, std::size_t rank)
{
    auto host = shared_host(card.shmem);
    return host ? std::pair(*host, std::size_t{0}) : std::pair(std::uint64_t{0}, rank + 1);
}

// One of each host, in the order of the hosts.
std::vector<std::size_t> first_processes(const Topology &job)
{
    std::vector<std::size_t> first;
    std::vector<char> seen(job.hosts.size());
    for (std::size_t rank = 0; rank < job.nodes.size(); ++rank)
        if (!std::exchange(seen[job.nodes[rank].host], 1))
            first.push_back(rank);
    return first;
}

}  // namespace

void add_network(std::vector<Network> *networks, const Network &network)
{
    auto place = std::ranges::lower_bound(*networks, network.id, {}, &Network::id);
    if (place != networks->end() && place->id == network.id)
        place->priority = std::max(place->priority, network.priority);
    else if (networks->size() < networks_max)
        networks->insert(place, network);
}

std::uint64_t networks_on(const std::vector<Network> &networks, const Card &card)
{
    std::uint64_t bits = 0;
    for (const NetworkCard &each : card.networks) {
        auto place = std::ranges::lower_bound(networks, each.network.id, {}, &Network::id);
        if (place != networks.end() && place->id == each.network.id)
            bits |= std::uint64_t{1} << (place - networks.begin());
    }
    return bits;
}

bool share_a_host(const std::vector<std::span<const std::byte>> &cards)
{
    std::optional<std::uint64_t> first;
    for (std::span<const std::byte> card : cards) {
        auto host = shared_host(Card::shmem_in(card));
        if (!host || (first && *first != *host))
            return false;
        first = host;
    }
    return true;
}

Topology topology_of(const std::vector<Card> &cards)
{
    Topology job;
    std::map<std::pair<std::uint64_t, std::size_t>, std::uint32_t> hosts;
    for (const Card &card : cards)
        for (const NetworkCard &each : card.networks)
            add_network(&job.networks, each.network);
    for (std::size_t rank = 0; rank < cards.size(); ++rank) {
        auto [host, added] = hosts.emplace(host_key(cards[rank], rank), static_cast<std::uint32_t>(job.hosts.size()));
        if (added)
            job.hosts.push_back(cards[rank].host);
        job.nodes.push_back({host->second, cards[rank].process, networks_on(job.networks, cards[rank])});
    }
    return job;
}

Error check_routes(const Topology &job)
{
    // Of processes on the same networks the first two will do, the second for its host.
    std::map<std::uint64_t, std::pair<std::size_t, std::size_t>> kinds;
    for (std::size_t rank = 0; rank < job.nodes.size(); ++rank) {
        auto [kind, added] = kinds.emplace(job.nodes[rank].networks, std::pair(rank, rank));
        if (job.nodes[kind->second.second].host == job.nodes[kind->second.first].host)
            kind->second.second = rank;
    }
    for (const auto &[networks, first] : kinds)
        for (const auto &[others, second] : kinds)
            for (std::size_t to : {second.first, second.second})
                if (auto route = route_between(job, std::min(first.first, to), std::max(first.first, to)); !route.ok())
                    return route.error();
    return {};
}

std::vector<std::uint32_t> clusters_of(const Topology &job)
{
    std::vector<std::size_t> first_of_host = first_processes(job);
    std::vector<int> hosts_on(job.networks.size());
    for (std::size_t rank : first_of_host)
        for (std::size_t network = 0; network < job.networks.size(); ++network)
            hosts_on[network] += static_cast<int>(job.nodes[rank].networks >> network & 1);
    auto best = [&](const Node &node) {
        std::size_t found = job.networks.size();
        for (std::size_t network = 0; network < job.networks.size(); ++network)
            if ((node.networks >> network & 1) != 0 && hosts_on[network] > 1 &&
                (found == job.networks.size() || job.networks[network].priority > job.networks[found].priority))
                found = network;
        return found;
    };
    std::map<std::size_t, std::uint32_t> clusters;
    std::uint32_t count = 0;
    std::vector<std::uint32_t> of_host(job.hosts.size()), of_process;
    for (std::size_t rank : first_of_host) {
        std::size_t network = best(job.nodes[rank]);
        of_host[job.nodes[rank].host] = network == job.networks.size() ? count++ : clusters.emplace(network, count).second ? count++ : clusters[network];
    }
    for (const Node &node : job.nodes)
        of_process.push_back(of_host[node.host]);
    return of_process;
}

std::vector<Trial> trials_of(const Topology &job)
{
    std::vector<Trial> trials;
    std::uint64_t tried = 0;
    std::vector<std::size_t> first_of_host = first_processes(job);
    for (std::size_t i = 0; i < first_of_host.size(); ++i)
        for (std::size_t k = i + 1; k < first_of_host.size(); ++k) {
            std::uint64_t common = job.nodes[first_of_host[i]].networks & job.nodes[first_of_host[k]].networks;
            if (std::popcount(common) < 2)
                continue;
            for (std::uint64_t left = common & ~tried; left != 0; left &= left - 1)
                trials.push_back({static_cast<std::size_t>(std::countr_zero(left)), first_of_host[i], first_of_host[k]});
            tried |= common;
        }
    std::ranges::sort(trials, {}, &Trial::network);
    return trials;
}

std::vector<int> priorities_by_time(std::span<const double> times)
{
    constexpr int highest = 1000;
    std::vector<int> priorities;
    for (std::size_t i = 0; i < times.size(); ++i) {
        int quicker = 0;
        for (std::size_t k = 0; k < times.size(); ++k)
            quicker += times[k] < times[i] || (times[k] == times[i] && k < i);
        priorities.push_back(highest - quicker);
    }
    return priorities;
}

Result<Report> planned_routes(const std::vector<Card> &cards)
{
    Topology job = topology_of(cards);
    Report report;
    for (std::size_t rank = 0; rank < cards.size(); ++rank) {
        ProcessReport &process = report.processes.emplace_back();
        process.host = cards[rank].host;
        process.process = cards[rank].process;
        auto routes = routes_of(job, rank);
        if (!routes.ok())
            return routes.error();
        for (std::size_t to = 0; to < cards.size(); ++to) {
            const Route &route = routes.value()[to];
            RouteReport &line = process.routes.emplace_back();
            line.device = device_name(route.device);
            line.channel = route.channel;
            if (route.device == DeviceKind::shmem)
                continue;
            const Network &network = job.networks[route.network];
            line.network = network.name;
            for (const NetworkCard &each : cards[to].networks)
                if (each.network.id == network.id && each.address)
                    line.address = ip_text(*each.address);
        }
    }
    return report;
}

}  // namespace pm
