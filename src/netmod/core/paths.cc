// Paths: the ways to a peer in the order of the routing rule, of which one is used; the next one when it turns out not to lead there.
#include <algorithm>
#include <map>
#include <set>

#include "base/clock.h"
#include "netmod/core/state.h"
#include "netmod/routing/plan.h"
#include "netmod/routing/rule.h"

namespace pm {
namespace {

// What is known of this process and one other.
Topology topology_with(const pm_peer *peer)
{
    const pm_core *core = peer->core;
    Topology pair;
    const Card *cards[] = {&core->card, &peer->card()};
    for (std::uint32_t host = 0; host < 2; ++host) {
        pair.hosts.push_back(cards[host]->host);
        pair.nodes.push_back({host, cards[host]->process, 0});
        for (const NetworkCard &each : cards[host]->networks)
            add_network(&pair.networks, each.network);
    }
    for (std::uint32_t host = 0; host < 2; ++host)
        pair.nodes[host].networks = networks_on(pair.networks, *cards[host]);
    for (Network &network : pair.networks)
        if (auto measured = core->priorities.find(network.id); measured != core->priorities.end())
            network.priority = measured->second;
    return pair;
}

void add_gap(Topology *pair, std::uint64_t id)
{
    auto network = std::ranges::find(pair->networks, id, &Network::id);
    if (network != pair->networks.end())
        pair->gaps.push_back({0, 1, static_cast<std::uint32_t>(network - pair->networks.begin())});
}

// Two hosts have not the same address on one network: it is one that both have for themselves, such as docker0.
void add_private_networks(Topology *pair, const pm_peer *peer)
{
    const Card &own = peer->core->card;
    if (peer->card().network_space == own.network_space)
        return;
    for (const NetworkCard &mine : own.networks)
        for (const NetworkCard &other : peer->card().networks)
            if (mine.network.id == other.network.id && mine.address && mine.address == other.address)
                add_gap(pair, mine.network.id);
}

const NetworkLink *link_of(const pm_core *core, std::uint64_t network)
{
    auto link = std::ranges::find_if(core->links.networks, [&](const auto &each) { return each.local.network.id == network; });
    return link != core->links.networks.end() ? &*link : nullptr;
}

std::string label_of(const Card &card)
{
    return "process " + std::to_string(card.process) + " of host " + card.host;
}

// Brings the list of paths up to date, as the peer's card may tell more than before. Those that are known stay as they are.
void plan_paths(pm_peer *peer)
{
    Topology pair = topology_with(peer);
    add_private_networks(&pair, peer);
    auto routes = routes_between(pair, 0, 1);
    std::vector<std::unique_ptr<Path>> known = std::move(peer->paths);
    peer->paths.clear();
    auto take_known = [&](auto &&is_it) {
        for (auto &path : known)
            if (path != nullptr && is_it(*path))
                peer->paths.push_back(std::move(path));
    };
    take_known([](const Path &path) { return path.network_id == 0; });  // of this host
    for (const Route &route : routes.ok() ? routes.value() : std::vector<Route>{}) {
        const Network &network = pair.networks[route.network];
        std::size_t before = peer->paths.size();
        take_known([&](const Path &path) { return path.network_id == network.id; });
        const NetworkLink *link = link_of(peer->core, network.id);
        if (peer->paths.size() > before || link == nullptr)
            continue;
        auto path = std::make_unique<Path>();
        path->channel = link->channel;
        path->network_id = network.id;
        path->network = network.name;
        peer->paths.push_back(std::move(path));
    }
    take_known([](const Path &) { return true; });
}

// What a network was measured with, if it was.
bool take_over(const pm_peer *peer, Path *path)
{
    auto &measured = peer->core->measured;
    auto found = std::ranges::find_if(measured, [&](const auto &each) {
        return each->id == peer->id && each->used->network_id == path->network_id && !each->listed;
    });
    if (found == measured.end())
        return false;
    static_cast<Connection &>(*path) = *(*found)->used;
    measured.erase(found);
    return true;
}

// Of its card, for the device that the path is of. That of a path inside the host is found without reading the rest.
std::span<const std::byte> part_of(const pm_peer *peer, const Path *path)
{
    if (path->channel->shared != nullptr)
        return Card::shmem_in(peer->card_bytes);
    return Links::part_of(peer->card(), path->channel->kind, path->network_id);
}

// The card's part about a path.
const NetworkCard *card_of_path(const pm_peer &peer, const Path &path)
{
    auto part = std::ranges::find(peer.card().networks, path.network_id, [](const NetworkCard &each) { return each.network.id; });
    return part != peer.card().networks.end() ? &*part : nullptr;
}

// A channel that is there for several networks has to be told which of them was chosen.
void prefer_network_of(const pm_peer *peer, const Path *path)
{
    auto is_of = [&](const NetworkLink &each) { return each.channel == path->channel; };
    if (path->channel->shared != nullptr || std::ranges::count_if(peer->core->links.networks, is_of) < 2)
        return;
    if (const NetworkCard *part = card_of_path(*peer, *path); part != nullptr && part->address)
        path->prefer(*part->address);
}

// From now on this path is used.
Error connect(pm_peer *peer, Path *path)
{
    pm_core *core = peer->core;
    Channel *channel = path->channel;
    if (!take_over(peer, path))
        if (Error error = path->open(part_of(peer, path), channel->names_peers ? label_of(peer->card()) : std::string{}))
            return error;
    prefer_network_of(peer, path);
    peer->used = path;
    channel->has_peers = true;
    if (channel->capabilities.quick_poll && !core->has_neighbours)
        core->has_neighbours = peer->id != core->card.id();
    core->must_linger |= channel->keeps;
    if (channel->capabilities.proved_by_connect)
        settle(peer);
    // Who may be slept on besides others needs a descriptor.
    auto awaited = [](const auto &each) { return each->is_awaited(); };
    if (!core->sleeps_on_several && std::ranges::count_if(core->links.channels, awaited) > 1) {
        for (const auto &each : core->links.channels)
            each->open_descriptor();
        core->sleeps_on_several = true;
    }
    return {};
}

// `refused` is why each path that was tried did not do.
Error no_route(const pm_peer *peer, const std::string &refused)
{
    Topology pair = topology_with(peer);
    add_private_networks(&pair, peer);
    for (const auto &path : peer->paths)
        if (path->state == PathState::dead)
            add_gap(&pair, path->network_id);
    std::string text = "no device reaches a peer. " + route_between(pair, 0, 1).error().text + refused;
    const Links &links = peer->core->links;
    if (std::ranges::none_of(links.channels, [](const auto &each) { return each->shared != nullptr; }))
        text += ". shmem is not among the devices of this process (MPIR_CVAR_CH4_COMPOSITE_DEVICES)";
    for (const std::string &missing : links.missing)
        text += ". " + missing;
    return {Status::unreachable, text};
}

// Over the best path that is left. One for which the device refuses the peer's card is dead.
Error connect_over_best(pm_peer *peer, const std::string &on_host)
{
    plan_paths(peer);
    std::string refused;
    for (const auto &path : peer->paths) {
        if (path->state == PathState::dead)
            continue;
        Error error = connect(peer, path.get());
        if (!error)
            return {};
        path->state = PathState::dead;
        refused += ". " + path->network + ": " + error.text;
    }
    return no_route(peer, refused + on_host);
}

}  // namespace

Error reach(pm_peer *peer)
{
    // Within a host the rule knows no other; elsewhere the device finds out that it is another host.
    std::string on_host;
    for (const auto &channel : peer->core->links.channels) {
        if (channel->shared == nullptr || Card::shmem_in(peer->card_bytes).empty())
            continue;
        auto &path = peer->paths.emplace_back(std::make_unique<Path>());
        path->channel = channel.get();
        Error error = connect(peer, path.get());
        if (!error)
            return {};
        path->state = PathState::dead;
        on_host += ". " + error.text;
    }
    peer->core->links.complete(&peer->card());
    return connect_over_best(peer, on_host);
}

Error reach_over(pm_peer *peer, const Network &network)
{
    const NetworkLink *link = link_of(peer->core, network.id);
    if (link == nullptr)
        return {Status::unreachable, "this process is not on the network " + network.name + ", which is to be measured"};
    auto &path = peer->paths.emplace_back(std::make_unique<Path>());
    path->channel = link->channel;
    path->network_id = network.id;
    path->network = network.name;
    return connect(peer, path.get());
}

void settle(pm_peer *peer)
{
    peer->settled = true;
    peer->used->state = PathState::proved;
    if (peer->used->channel->watching == nullptr)
        return;
    if (const NetworkCard *part = card_of_path(*peer, *peer->used); part != nullptr && part->address)
        peer->core->watch.meet(*part->address, clock_now());
}

const Error &lost(pm_peer *peer)
{
    peer->used->state = PathState::dead;
    return peer->used->error();
}

void disconnect(pm_peer *peer)
{
    for (const auto &path : peer->paths)
        path->close();
}

bool is_beside(const pm_peer *peer)
{
    std::span<const std::byte> on_host = Card::shmem_in(peer->card_bytes);
    return !on_host.empty() && std::ranges::any_of(peer->core->links.channels, [&](const auto &channel) {
        return channel->shared != nullptr && channel->shared->is_beside(on_host);
    });
}

static void introduce_as(pm_peer *peer, pm_peer *source)
{
    if (is_beside(peer))
        return peer->used->channel->introduce(Card::shmem_in(peer->card_bytes), source);
    const Links &links = peer->core->links;
    for (const auto &channel : links.channels) {
        auto link = std::ranges::find(links.networks, channel.get(), &NetworkLink::channel);
        auto part = Links::part_of(peer->card(), channel->kind, link != links.networks.end() ? link->local.network.id : 0);
        if (!part.empty())
            channel->introduce(part, source);
    }
}

void introduce(pm_peer *peer)
{
    introduce_as(peer, peer);
}

void introduce_no_more(pm_peer *peer)
{
    introduce_as(peer, nullptr);
}

// The address of a peer that is in use and of whose host the device hears nothing, where it has one.
static const Ip *watched_address(const pm_peer &peer)
{
    Watching *watching = peer.used->channel->watching.get();
    if (watching == nullptr || !watching->in_use(peer.used->peer()))
        return nullptr;
    const NetworkCard *part = card_of_path(peer, *peer.used);
    return part != nullptr && part->address ? &*part->address : nullptr;
}

void watch_hosts(pm_core *core)
{
    // Some peers of each host are asked: one that is stopped may have no room for a question.
    constexpr int enough = 4;
    auto hosts = [core] {
        std::set<Ip> addresses;
        std::map<Ip, int> asked;
        for (const auto &[id, peer] : core->peers) {
            const Ip *address = watched_address(*peer);
            if (address == nullptr || asked[*address]++ >= enough)
                continue;
            addresses.insert(*address);
            peer->used->channel->watching->ask(peer->used->peer());
        }
        return addresses;
    };
    for (const Ip &dead : core->watch.step(clock_now(), core->silence_limit, hosts))
        for (const auto &[id, peer] : core->peers)
            if (const Ip *address = watched_address(*peer); address != nullptr && *address == dead) {
                peer->used->channel->watching->give_up(peer->used->peer(), "its host does not answer at " + ip_text(dead));
                lost(peer.get());
            }
}

// Other devices ask by themselves and say so; of these nothing is heard while the peer computes.
bool host_is_silent(pm_peer *peer)
{
    if (peer->used->channel->watching == nullptr || peer->settled)
        return false;
    const NetworkCard *part = card_of_path(*peer, *peer->used);
    if (part == nullptr || !part->address)
        return false;
    if (peer->probe == nullptr)
        peer->probe = std::make_unique<Probe>();
    Time now = clock_now();
    if (peer->probe->ask(*part->address, now) != Probe::Answer::silent)
        return false;
    // The device has a connection there, so it is a firewall that is silent.
    auto connections = find_connections(now);
    if (auto found = connections.find(*part->address); found != connections.end() && !found->second.silent()) {
        peer->probe = std::make_unique<Probe>();
        return false;
    }
    // Where nothing else is left, waiting may still help.
    plan_paths(peer);
    bool others = std::ranges::any_of(peer->paths, [&](const auto &path) {
        return path.get() != peer->used && path->state != PathState::dead;
    });
    if (!others)
        peer->used->state = PathState::suspected;
    return others;
}

bool reroute(pm_peer *peer, Status status)
{
    Path *old = peer->used;
    Error error = lost(peer);
    if (!error)
        error = {Status::unreachable, std::string(old->channel->name) + ": " + label_of(peer->card()) + " is not reached over " +
                                          old->network + ": its host does not answer there"};
    if (status != Status::unreachable || peer->settled) {
        failed(error);
        return false;
    }
    // A channel has tried all addresses of the peer, whatever network they are on.
    plan_paths(peer);
    for (const auto &path : peer->paths)
        if (path->channel == old->channel)
            path->state = PathState::dead;
    // What it had stays until there is another.
    peer->probe.reset();
    if (Error none = connect_over_best(peer, {})) {
        failed({none.status, error.text + ". Then " + none.text});
        return false;
    }
    old->close();
    return true;
}

}  // namespace pm
