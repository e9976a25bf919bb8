// Peers: made from their cards, each connected over the best device that reaches it.
#include <algorithm>
#include <cstring>
#include <span>

#include "base/clock.h"
#include "netmod/routing/plan.h"
#include "netmod/routing/rule.h"
#include "netmod/core/setup.h"
#include "netmod/core/state.h"

namespace pm {
namespace {

// What is known of this process and one other.
Topology topology_with(const pm_peer *peer)
{
    Topology pair;
    const Card *cards[] = {&core->card, &peer->card};
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

// Networks that do not lead to the peer though both are on them.
void add_gaps(Topology *pair, const pm_peer *peer)
{
    for (std::uint64_t id : peer->closed)
        add_gap(pair, id);
    // Two hosts have not the same address on one network: it is one that both have for themselves, such as docker0.
    if (peer->card.network_space == core->card.network_space)
        return;
    for (const NetworkCard &mine : core->card.networks)
        for (const NetworkCard &other : peer->card.networks)
            if (mine.network.id == other.network.id && mine.address && mine.address == other.address)
                add_gap(pair, mine.network.id);
}

Error no_route(const Error &why, const std::string &shmem)
{
    std::string text = "no device reaches a peer. " + why.text;
    if (!shmem.empty())
        text += ". " + shmem;
    else if (core->links.shmem == nullptr)
        text += ". shmem is not among the devices of this process (MPIR_CVAR_CH4_COMPOSITE_DEVICES)";
    for (const std::string &missing : core->links.missing)
        text += ". " + missing;
    return {Status::unreachable, text};
}

std::string label_of(const Card &card)
{
    return "process " + std::to_string(card.process) + " of host " + card.host;
}

// What a network was measured with, if it was.
bool take_over(pm_peer *peer, const Network &network)
{
    auto found = std::ranges::find_if(core->measured, [&](const auto &each) {
        return each->card.id() == peer->card.id() && each->kind == network.device && each->network == network.name && !each->listed;
    });
    if (found == core->measured.end())
        return false;
    static_cast<Connection &>(*peer) = **found;
    core->measured.erase(found);
    return true;
}

Error connect_over(pm_peer *peer, const Network &network)
{
    if (take_over(peer, network))
        return {};
    if (network.device == DeviceKind::udp) {
        auto connected = core->links.udp->connect(peer->card.udp.data(), peer->card.udp.size());
        if (!connected.ok())
            return connected.error();
        peer->udp = connected.value();
        peer->place = udp_place;
    } else {
        auto link = std::ranges::find_if(core->links.ucx, [&](const auto &each) { return each.local.network.id == network.id; });
        auto part = std::ranges::find_if(peer->card.networks, [&](const auto &each) { return each.network.id == network.id; });
        auto connected = link->device->connect(part->device_card.data(), part->device_card.size());
        if (!connected.ok())
            return connected.error();
        peer->ucx = connected.value();
        peer->ucx->label = label_of(peer->card);
        peer->ucx_device = link->device.get();
        peer->place = static_cast<std::uint8_t>(first_ucx_place + (link - core->links.ucx.begin()));
    }
    peer->kind = network.device;
    peer->network = network.name;
    core->turns[peer->place].has_peers = true;
    core->network_peers = true;
    if (core->links.shmem != nullptr && core->shmem_descriptor < 0)
        core->shmem_descriptor = core->links.shmem->open_descriptor();
    return {};
}

// Over the best network that is left. A device that refuses the peer's card closes its network for the pair.
Error connect_over_best(pm_peer *peer, const std::string &shmem)
{
    std::string refused;
    while (true) {
        Topology pair = topology_with(peer);
        add_gaps(&pair, peer);
        auto route = route_between(pair, 0, 1);
        if (!route.ok())
            return no_route({route.error().status, route.error().text + refused}, shmem);
        const Network &network = pair.networks[route.value().network];
        Error error = connect_over(peer, network);
        if (!error)
            return {};
        peer->closed.push_back(network.id);
        refused += ". " + network.name + ": " + error.text;
    }
}

Error reach(pm_peer *peer)
{
    std::string why;
    if (core->links.shmem != nullptr && !peer->card.shmem.empty()) {
        auto connected = core->links.shmem->connect(peer->card.shmem.data(), peer->card.shmem.size());
        if (connected.ok()) {
            peer->shmem = connected.value();
            return {};
        }
        why = connected.error().text;
    }
    // A short card does not tell the networks of UDP, or ours has another name than the other's: UDP proves that it reaches.
    if (peer->card.networks.empty() && !peer->card.udp.empty())
        for (const NetworkCard &each : core->card.networks)
            if (each.network.device == DeviceKind::udp)
                peer->card.networks.push_back({each.network, {}, {}});
    return connect_over_best(peer, why);
}

}  // namespace

void disconnect(const Connection &connection)
{
    switch (connection.kind) {
        case DeviceKind::shmem:
            return core->links.shmem->disconnect(connection.shmem);
        case DeviceKind::udp:
            return core->links.udp->disconnect(connection.udp);
        case DeviceKind::ucx:
            return connection.ucx_device->disconnect(connection.ucx);
    }
}

const Error &error_of(const pm_peer *peer)
{
    return peer->kind == DeviceKind::shmem ? peer->shmem->error : peer->kind == DeviceKind::udp ? peer->udp->error : peer->ucx->error;
}

// The address of a peer that UCX has reached, where it has one.
static const Ip *watched_address(const pm_peer &peer)
{
    if (peer.kind != DeviceKind::ucx || !peer.ucx_device->in_use(peer.ucx))
        return nullptr;
    for (const NetworkCard &each : peer.card.networks)
        if (each.network.device == DeviceKind::ucx && each.network.name == peer.network && each.address)
            return &*each.address;
    return nullptr;
}

void watch_hosts()
{
    auto hosts = [] {
        std::vector<Ip> addresses;
        for (const auto &[id, peer] : core->peers)
            if (const Ip *address = watched_address(*peer))
                addresses.push_back(*address);
        std::ranges::sort(addresses);
        addresses.erase(std::ranges::unique(addresses).begin(), addresses.end());
        return addresses;
    };
    for (const Ip &dead : core->watch.step(clock_now(), core->silence_limit, hosts))
        for (const auto &[id, peer] : core->peers)
            if (const Ip *address = watched_address(*peer); address != nullptr && *address == dead)
                peer->ucx_device->give_up(peer->ucx, "its host does not answer at " + ip_text(dead));
}

// UDP asks by itself and says so; of UCX nothing is heard while the peer computes.
bool host_is_silent(pm_peer *peer)
{
    if (peer->kind != DeviceKind::ucx || peer->accepted)
        return false;
    auto part = std::ranges::find_if(peer->card.networks, [&](const NetworkCard &each) {
        return each.network.device == DeviceKind::ucx && each.network.name == peer->network;
    });
    if (part == peer->card.networks.end() || !part->address)
        return false;
    if (peer->probe == nullptr)
        peer->probe = std::make_unique<Probe>();
    if (peer->probe->ask(*part->address, clock_now()) != Probe::Answer::silent)
        return false;
    // Where nothing else is left, waiting may still help.
    Topology pair = topology_with(peer);
    add_gaps(&pair, peer);
    add_gap(&pair, part->network.id);
    return route_between(pair, 0, 1).ok();
}

// A peer that its network turned out not to lead to is tried over the next one. False when there is none; error_text says so.
bool reroute(pm_peer *peer, Status status)
{
    Error error = error_of(peer);
    if (!error)
        error = {Status::unreachable, std::string(device_name(peer->kind)) + ": " + label_of(peer->card) + " is not reached over " +
                                          peer->network + ": its host does not answer there"};
    if (status != Status::unreachable || peer->accepted || peer->kind == DeviceKind::shmem) {
        failed(error);
        return false;
    }
    // UDP has tried all of the peer's addresses, whatever network they are on.
    for (const NetworkCard &each : core->card.networks)
        if (each.network.device == peer->kind && (peer->kind == DeviceKind::udp || each.network.name == peer->network))
            peer->closed.push_back(each.network.id);
    // What it had stays until there is another.
    Connection old = *peer;
    peer->probe.reset();
    if (Error none = connect_over_best(peer, {})) {
        failed({none.status, error.text + ". Then " + none.text});
        return false;
    }
    disconnect(old);
    return true;
}

}  // namespace pm

using pm::core;
using pm::failed;

extern "C" {

static size_t copy_out(const std::vector<std::byte> &bytes, void *card)
{
    std::memcpy(card, bytes.data(), bytes.size());
    return bytes.size();
}

size_t pm_card(void *card)
{
    static_assert(PM_CARD_MAX == pm::Card::max_size && PM_SHORT_CARD_MAX == pm::Card::max_short_size);
    pm::Card whole = core->card;
    std::vector<std::byte> bytes;
    while ((bytes = whole.write()).size() > PM_CARD_MAX)
        whole.networks.pop_back();
    return copy_out(bytes, card);
}

size_t pm_short_card(void *card)
{
    return copy_out(core->card.write_short(), card);
}

pm_peer *pm_connect(const void *card, size_t size)
{
    std::span bytes(static_cast<const std::byte *>(card), size);
    auto read = pm::Card::read(bytes);
    if (!read) {
        failed({pm::Status::invalid, "a card of " + std::to_string(size) + " bytes that is not one of a process"});
        return nullptr;
    }
    std::uint64_t id = read->id();
    if (auto found = core->peers.find(id); found != core->peers.end()) {
        // A whole card tells more than the short one of a port; the route stays, as messages may be under way.
        pm_peer *known = found->second.get();
        if (known->card_bytes.size() < size) {
            known->card = std::move(*read);
            known->card_bytes.assign(bytes.begin(), bytes.end());
        }
        return known;
    }
    auto peer = std::make_unique<pm_peer>();
    peer->card = std::move(*read);
    peer->card_bytes.assign(bytes.begin(), bytes.end());
    if (pm::Error error = pm::reach(peer.get())) {
        failed(error);
        return nullptr;
    }
    return core->peers.emplace(id, std::move(peer)).first->second.get();
}

pm_peer *pm_connect_over(uint64_t network, const void *card, size_t size)
{
    auto read = pm::Card::read({static_cast<const std::byte *>(card), size});
    auto peer = std::make_unique<pm_peer>();
    if (read)
        peer->card = std::move(*read);
    for (const pm::NetworkCard &each : peer->card.networks) {
        if (each.network.id != network)
            continue;
        if (pm::Error error = pm::connect_over(peer.get(), each.network)) {
            failed(error);
            return nullptr;
        }
        core->measured.push_back(std::move(peer));
        return core->measured.back().get();
    }
    failed({pm::Status::unreachable, "the network to be measured is not on the card of a peer"});
    return nullptr;
}

void pm_set_priority(uint64_t network, int priority)
{
    core->priorities[network] = priority;
}

size_t pm_peer_card(const pm_peer *peer, void *card)
{
    return copy_out(peer->card_bytes, card);
}

}  // extern "C"
