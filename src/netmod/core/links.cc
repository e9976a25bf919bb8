#include "netmod/core/links.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string_view>

#include "base/hash.h"
#include "base/joined.h"
#include "netmod/routing/ports.h"
#include "netmod/routing/settings.h"
#include "netmod/udp/udp.h"
#ifdef PM_HAVE_UCX
#include "netmod/ucx/ucx.h"
#else
#include "netmod/ucx/none.h"
#endif
#include "shmmod/shmem.h"

namespace pm {
namespace {

// Numbers of channels: SHMEM, UDP, then each network of UCX, then others.
enum : std::size_t { shmem_channel, udp_channel, first_ucx_channel };

// A setting that means nothing is an error, a device that does not open is only missing.
Error missing(Links *links, const Error &error)
{
    if (error.status == Status::invalid)
        return error;
    links->missing.push_back(error.text);
    return {};
}

Error open_shmem(const Opening &opening)
{
    if (!opening.wanted.has(DeviceKind::shmem))
        return {};
    const pm_setup &setup = opening.setup;
    shmem::Settings settings;
    auto backing = shmem::parse_backing(setup.shmem_backing);
    if (!backing.ok())
        return backing.error();
    settings.backing = backing.value();
    settings.ranks_on_host = setup.ranks_on_host;
    settings.host = file_of(setup.host);
    settings.region = settings.host != nullptr ? static_cast<std::uint32_t>(setup.process) : 0;
    settings.may_be_pulled = std::string_view(setup.rendezvous) != "pipeline";
    auto shmem = shmem::Shmem::create(settings, opening.sinks[shmem_channel]);
    if (!shmem.ok())
        return shmem.error();
    opening.links.add(DeviceKind::shmem, shmem_channel, std::move(shmem.value()));
    return {};
}

Error open_ucx_on(const Opening &opening, const LocalNetwork &local, std::size_t number)
{
    std::vector<std::string> ports = local.ports;
    std::erase(ports, "memory");
    auto device = ucx::Ucx::create({joined(ports, ",")}, opening.sinks[number]);
    if (!device.ok())
        return device.error();
    opening.links.networks.push_back({local, opening.links.add(DeviceKind::ucx, number, std::move(device.value()))});
    return {};
}

Error open_ucx(const Opening &opening)
{
    if (!opening.wanted.has(DeviceKind::ucx))
        return {};
    std::size_t number = first_ucx_channel;
    for (const LocalNetwork &each : opening.networks) {
        if (each.network.device != DeviceKind::ucx)
            continue;
        if (number == channels_max) {
            opening.links.missing.push_back("ucx: network " + each.network.name + " is one too many: " +
                                            std::to_string(channels_max - first_ucx_channel) + " can be used at once");
        } else if (Error error = open_ucx_on(opening, each, number)) {
            if (Error fatal = missing(&opening.links, {error.status, "network " + each.network.name + " is not used: " + error.text}))
                return fatal;
        } else {
            ++number;
        }
    }
    // Not being on a network that is described is no fault; having nothing for UCX at all is.
    bool described = !opening.wanted.descriptions.empty();
    if (number == first_ucx_channel && opening.links.missing.empty() &&
        (described ? ucx_ports(true).empty() : opening.wanted.devices_named))
        opening.links.missing.push_back("ucx: this host has no device of UCX for a network (UCX_TLS, UCX_NET_DEVICES and "
                                        "MPIR_CVAR_CH4_COMPOSITE_NETWORKS say what may be used)");
    return {};
}

Error open_udp(const Opening &opening)
{
    bool described = !opening.wanted.descriptions.empty();
    std::vector<LocalNetwork> networks;
    for (const LocalNetwork &each : opening.networks)
        if (each.network.device == DeviceKind::udp)
            networks.push_back(each);
    if (!opening.wanted.has(DeviceKind::udp) || (described && networks.empty()))
        return {};
    // A description says which addresses are used; without one the user may.
    std::vector<std::string> addresses;
    for (const LocalNetwork &each : networks)
        for (const Subnet &address : each.addresses)
            addresses.push_back(ip_text(address.ip));
    std::ranges::sort(addresses);
    addresses.erase(std::ranges::unique(addresses).begin(), addresses.end());
    const pm_setup &setup = opening.setup;
    udp::Settings settings{described ? joined(addresses, ",") : setup.udp_interfaces, setup.udp_ports, setup.udp_guard, setup.udp_recovery,
                           setup.udp_segmentation,
                           std::chrono::milliseconds(static_cast<long>(std::ceil(setup.udp_silence_limit * 1000)))};
    auto udp = udp::Udp::create(settings, opening.sinks[udp_channel]);
    if (!udp.ok())
        return missing(&opening.links, udp.error());
    if (!described && !networks.empty()) {
        networks.back().addresses.clear();
        for (const udp::Address &address : udp.value()->addresses())
            networks.back().addresses.push_back({address.ip});
    }
    Channel *channel = opening.links.add(DeviceKind::udp, udp_channel, std::move(udp.value()));
    for (const LocalNetwork &each : networks)
        opening.links.networks.push_back({each, channel});
    return {};
}

}  // namespace

std::vector<OpenDevice> &devices()
{
    static std::vector<OpenDevice> all{open_shmem, open_ucx, open_udp};
    return all;
}

// Where addresses are unique: a boot of a machine, and within it a network namespace.
static std::uint64_t network_space()
{
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    std::uint64_t value = hash_bytes(boot.data(), boot.size());
    struct stat space {};
    if (stat("/proc/self/ns/net", &space) == 0)
        value = hash_bytes(&space.st_ino, sizeof space.st_ino, value);
    return value;
}

std::string host_name()
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return name;
}

bool Wanted::has(DeviceKind kind) const
{
    return std::ranges::find(devices, device_name(kind)) != devices.end() &&
           (kind == DeviceKind::shmem || descriptions.empty() ||
            std::ranges::find(descriptions, kind, &NetworkDescription::device) != descriptions.end());
}

Result<Wanted> read_wanted(const std::string &devices, const std::string &networks)
{
    Wanted wanted;
    auto names = parse_devices(devices);
    if (!names.ok())
        return names.error();
    auto descriptions = read_networks(networks);
    if (!descriptions.ok())
        return descriptions.error();
    wanted.devices = std::move(names.value());
    wanted.descriptions = std::move(descriptions.value());
    wanted.devices_named = devices != "auto";
    return wanted;
}

Result<std::vector<LocalNetwork>> find_networks(const Wanted &wanted)
{
    std::vector<Port> ports;
    if (wanted.has(DeviceKind::ucx))
        ports = ucx_ports(wanted.devices_named || !wanted.descriptions.empty());
    if (wanted.has(DeviceKind::udp)) {
        auto found = udp_ports();
        if (!found.ok())
            return found.error();
        ports.insert(ports.end(), found.value().begin(), found.value().end());
    }
    std::vector<NetworkDescription> descriptions = wanted.descriptions;
    std::erase_if(descriptions, [&](const NetworkDescription &each) { return !wanted.has(each.device); });
    if (descriptions.empty() && !wanted.descriptions.empty())
        return std::vector<LocalNetwork>{};
    return networks_of_host(descriptions, ports, host_name());
}

Result<Links> open_links(const pm_setup &setup, Sinks sinks)
{
    auto read = read_wanted(setup.devices, setup.networks);
    if (!read.ok())
        return read.error();
    const Wanted &wanted = read.value();

    auto networks = find_networks(wanted);
    if (!networks.ok())
        return networks.error();
    Links links;
    for (OpenDevice open : devices())
        if (Error error = open({setup, wanted, networks.value(), sinks, links}))
            return error;
    if (links.channels.empty())
        return Error{Status::unreachable, "no device could be opened. " + (links.missing.empty() ? "This host, " + host_name() +
                                          ", is on none of the networks in MPIR_CVAR_CH4_COMPOSITE_NETWORKS"
                                          : links.missing.front())};
    std::ranges::sort(links.channels, {}, [](const auto &channel) { return channel->number; });
    for (const auto &channel : links.channels)
        if (channel->direct == nullptr)
            links.by_turns.push_back(channel.get());
    return links;
}

Card Links::card(std::uint32_t process) const
{
    Card card;
    card.host = host_name();
    card.process = process;
    card.network_space = network_space();
    for (const auto &channel : channels)
        if (channel->kind == DeviceKind::shmem)
            card.shmem = channel->card();
        else if (channel->kind == DeviceKind::udp)
            card.udp = channel->card();
    for (const NetworkLink &each : networks) {
        NetworkCard &network = card.networks.emplace_back();
        network.network = each.local.network;
        if (!each.local.addresses.empty())
            network.address = each.local.addresses.front().ip;
        if (each.channel->kind != DeviceKind::udp)  // which has one for all of its networks
            network.device_card = each.channel->card();
    }
    return card;
}

std::span<const std::byte> Links::part_of(const Card &card, DeviceKind device, std::uint64_t network)
{
    if (device == DeviceKind::shmem)
        return card.shmem;
    if (device == DeviceKind::udp)
        return card.udp;
    auto part = std::ranges::find_if(card.networks, [&](const auto &each) { return each.network.id == network; });
    return part != card.networks.end() ? std::span<const std::byte>(part->device_card) : std::span<const std::byte>{};
}

void Links::complete(Card *card) const
{
    if (!card->networks.empty() || card->udp.empty())
        return;
    for (const NetworkLink &each : networks)
        if (each.channel->kind == DeviceKind::udp)
            card->networks.push_back({each.local.network, {}, {}});
}

}  // namespace pm
