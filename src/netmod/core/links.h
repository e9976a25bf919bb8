// The devices of this process, opened as the settings and the host's networks say: a channel each. PM(UCX) is opened once for each
// network it serves, so that two fabrics never mix; SHMEM and UDP once. links.cc is the only file that knows which devices there are.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "netmod/core/channel.h"
#include "netmod/core/setup.h"
#include "netmod/routing/card.h"
#include "netmod/routing/networks.h"

namespace pm {

inline constexpr std::size_t channels_max = 8;

// Where each channel delivers, by its number.
using Sinks = const Sink (&)[channels_max];

// A network that this process is on, and what leads there.
struct NetworkLink {
    LocalNetwork local;
    Channel *channel = nullptr;
};

struct Links {
    std::vector<std::unique_ptr<Channel>> channels;  // in the order of their numbers
    shmem::Shmem *direct = nullptr;                  // the one that is called without a virtual function, if it is open
    std::vector<Channel *> by_turns;                 // the others
    std::vector<NetworkLink> networks;               // as on our card
    std::vector<std::string> missing;                // a sentence for each device that is not open though it was wanted

    template <Device D>
    Channel *add(DeviceKind kind, std::size_t number, std::unique_ptr<D> device)
    {
        channels.push_back(std::make_unique<ChannelOf<D>>(kind, static_cast<std::uint8_t>(number), std::move(device)));
        if (channels.back()->direct != nullptr)
            direct = channels.back()->direct;
        return channels.back().get();
    }

    // Each time; the others are polled by turns.
    unsigned poll_direct() { return direct != nullptr ? direct->poll() : 0; }

    // What this process says of itself.
    Card card(std::uint32_t process) const;
    // What another says about a channel that leads to it over a network: empty when it has nothing like it.
    static std::span<const std::byte> part_of(const Card &card, DeviceKind device, std::uint64_t network);
    // A short card does not tell the networks of UDP, or ours has another name than the other's: UDP proves that it reaches.
    void complete(Card *card) const;
};

// What the settings say: MPIR_CVAR_CH4_COMPOSITE_DEVICES and _NETWORKS.
struct Wanted {
    std::vector<std::string> devices;
    std::vector<NetworkDescription> descriptions;  // none: networks are found
    bool devices_named = false;

    // Whether a device may be used: it is among those wanted and, with descriptions, there is one for it.
    bool has(DeviceKind kind) const;
};
Result<Wanted> read_wanted(const std::string &devices, const std::string &networks);

// The networks this host is on, of the devices that are wanted. Those of UCX over TCP only where somebody named UCX: UDP is
// faster.
Result<std::vector<LocalNetwork>> find_networks(const Wanted &wanted);

// What opens the channels of one device. An error ends it all; what only does not open is told in Links::missing.
struct Opening {
    const pm_setup &setup;
    const Wanted &wanted;
    const std::vector<LocalNetwork> &networks;  // of this host
    Sinks sinks;
    Links &links;
};
using OpenDevice = Error (*)(const Opening &opening);
// Of all devices, in the order in which they are opened. Here a new one is added.
std::vector<OpenDevice> &devices();

// An error for settings that mean nothing, and when no device could be opened. One that fails while others are there is only
// missing: it is told when a peer needs it.
Result<Links> open_links(const pm_setup &setup, Sinks sinks);

// The file that the processes of the job share here; none for none.
std::shared_ptr<shmem::HostFile> file_of(const pm_host *host);

// This host, as it calls itself.
std::string host_name();

}  // namespace pm
