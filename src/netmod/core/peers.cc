// Peers: made from their cards, the same one for the same process.
#include <cstring>
#include <span>

#include "netmod/core/setup.h"
#include "netmod/core/state.h"

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
            pm::introduce(known->card, known);
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
    pm::introduce(peer->card, peer.get());
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
        if (pm::Error error = pm::reach_over(peer.get(), each.network)) {
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
