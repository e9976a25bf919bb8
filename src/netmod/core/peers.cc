// Peers: made from their cards, the same one for the same process.
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "base/clock.h"
#include "netmod/core/setup.h"
#include "netmod/core/state.h"

using pm::failed;

namespace {

// What we have not heard that it got is sent again in a fraction of it, and so is what it has not heard that we got.
constexpr std::chrono::seconds time_to_part{5};

// Everything of it is given back but what it has to its account.
void forget(pm_peer *peer)
{
    pm_core *core = peer->core;
    core->messages_sent[peer->used->channel->number] += peer->messages;
    core->bytes_sent[peer->used->channel->number] += peer->bytes;
    pm::introduce_no_more(peer);
    {
        pm::InsideGateOf inside(peer);
        if (peer->run.is_any())
            peer->run.add_to(&pm::sizes_of(peer), peer->messages);
        pm::disconnect(peer);
    }
    core->peers.erase(peer->id);
}

pm::Error no_card(std::size_t size)
{
    return {pm::Status::invalid, "a card of " + std::to_string(size) + " bytes that is not one of a process"};
}

}  // namespace

bool pm_peer::read_card() const
{
    auto card = pm::Card::read(card_bytes);
    if (card)
        card_ = std::make_unique<pm::Card>(std::move(*card));
    return card.has_value();
}

pm::Card &pm_peer::card() const
{
    if (card_ == nullptr && !read_card())
        card_ = std::make_unique<pm::Card>();
    return *card_;
}

void pm::part(pm_peer *peer)
{
    if (!peer->used->channel->keeps)
        return forget(peer);
    if (peer->parted == never)
        peer->core->parting.push_back(peer);
    peer->parted = clock_now();
}

void pm::forget_parted(pm_core *core, Time now)
{
    std::erase_if(core->parting, [now](pm_peer *peer) {
        bool used = peer->users > 0;
        if (used)
            peer->parted = never;
        else if (peer->listed || now - peer->parted < time_to_part || !peer->used->channel->idle())
            return false;
        else
            forget(peer);
        return true;
    });
}

extern "C" {

static size_t copy_out(const std::vector<std::byte> &bytes, void *card)
{
    std::memcpy(card, bytes.data(), bytes.size());
    return bytes.size();
}

size_t pm_card(const pm_core *core, void *card)
{
    static_assert(PM_CARD_MAX == pm::Card::max_size && PM_SHORT_CARD_MAX == pm::Card::max_short_size);
    return copy_out(core->card.write(), card);
}

size_t pm_short_card(const pm_core *core, void *card)
{
    return copy_out(core->card.write_short(), card);
}

pm_peer *pm_connect(pm_core *core, const void *card, size_t size)
{
    std::span bytes(static_cast<const std::byte *>(card), size);
    auto id = pm::Card::id_in(bytes);
    if (!id) {
        failed(no_card(size));
        return nullptr;
    }
    auto &place = core->peers[*id];
    if (pm_peer *known = place.get()) {
        // A whole card tells more than the short one of a port; the route stays, as messages may be under way.
        if (known->card_bytes.size() < size) {
            pm::InsideGateOf inside(known);  // who sends looks at the card
            std::vector<std::byte> before = std::exchange(known->card_bytes, {bytes.begin(), bytes.end()});
            if (!known->read_card()) {
                known->card_bytes = std::move(before);
                failed(no_card(size));
                return nullptr;
            }
            pm::introduce(known);
        }
        if (known->users++ == 0)
            known->used->channel->renew(known->used->peer());
        return known;
    }
    auto peer = std::make_unique<pm_peer>(core);
    peer->id = *id;
    peer->card_bytes.assign(bytes.begin(), bytes.end());
    peer->users = 1;
    if (pm::profile::on.load(std::memory_order_relaxed))
        peer->run.record();
    pm::Error error;
    if (!pm::is_beside(peer.get()) && !peer->read_card())
        error = no_card(size);
    else
        error = pm::reach(peer.get());
    if (error) {
        core->peers.erase(*id);
        failed(error);
        return nullptr;
    }
    place = std::move(peer);
    pm::introduce(place.get());
    return place.get();
}

void pm_release(pm_peer *peer)
{
    if (--peer->users > 0)
        return;
    peer->used->channel->let_go(peer->used->peer());
    // It goes when nothing of it is queued any more, and not now: who calls may still be on the way to forget it.
    pm::InsideGateOf inside(peer);
    pm::list(peer);
}

pm_peer *pm_connect_over(pm_core *core, uint64_t network, const void *card, size_t size)
{
    auto bytes = static_cast<const std::byte *>(card);
    auto peer = std::make_unique<pm_peer>(core);
    peer->users = 1;
    peer->card_bytes.assign(bytes, bytes + size);
    if (!peer->read_card()) {
        failed(no_card(size));
        return nullptr;
    }
    peer->id = peer->card().id();
    for (const pm::NetworkCard &each : peer->card().networks) {
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

void pm_set_priority(pm_core *core, uint64_t network, int priority)
{
    core->priorities[network] = priority;
}

size_t pm_peer_card(const pm_peer *peer, void *card)
{
    return copy_out(peer->card_bytes, card);
}

}  // extern "C"
