#include "netmod/core/links.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>

#include "base/hash.h"
#include "base/joined.h"
#include "netmod/routing/ports.h"
#include "netmod/routing/settings.h"

namespace pm {
namespace {

Error open_ucx(Links *links, const LocalNetwork &local, const Sink &sink)
{
    std::vector<std::string> ports = local.ports;
    std::erase(ports, "memory");
    auto device = ucx::Ucx::create({joined(ports, ",")}, sink);
    if (!device.ok())
        return device.error();
    links->networks.push_back(local);
    links->ucx.push_back({local, std::move(device.value())});
    return {};
}

Error open_udp(Links *links, const pm_setup &setup, bool described, const std::vector<LocalNetwork> &networks, const Sink &sink)
{
    // A description says which addresses are used; without one the user may.
    std::vector<std::string> addresses;
    for (const LocalNetwork &each : networks)
        for (const Subnet &address : each.addresses)
            addresses.push_back(ip_text(address.ip));
    std::ranges::sort(addresses);
    addresses.erase(std::ranges::unique(addresses).begin(), addresses.end());
    udp::Settings settings{described ? joined(addresses, ",") : setup.udp_interfaces, setup.udp_ports, setup.udp_guard, setup.udp_recovery,
                           setup.udp_segmentation,
                           std::chrono::milliseconds(static_cast<long>(std::ceil(setup.udp_silence_limit * 1000)))};
    auto udp = udp::Udp::create(settings, sink);
    if (!udp.ok())
        return udp.error();
    links->udp = std::move(udp.value());
    links->networks.insert(links->networks.end(), networks.begin(), networks.end());
    if (!described && !networks.empty()) {
        links->networks.back().addresses.clear();
        for (const udp::Address &address : links->udp->addresses())
            links->networks.back().addresses.push_back({address.ip});
    }
    return {};
}

}  // namespace

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

    Links links;
    // A setting that means nothing is an error, a device that does not open is only missing.
    auto missing = [&](const Error &error) -> Error {
        if (error.status == Status::invalid)
            return error;
        links.missing.push_back(error.text);
        return {};
    };
    if (wanted.has(DeviceKind::shmem)) {
        shmem::Settings settings;
        auto backing = shmem::parse_backing(setup.shmem_backing);
        if (!backing.ok())
            return backing.error();
        settings.backing = backing.value();
        settings.ranks_on_host = setup.ranks_on_host;
        settings.host = file_of(setup.host);
        settings.region = settings.host != nullptr ? static_cast<std::uint32_t>(setup.process) : 0;
        auto shmem = shmem::Shmem::create(settings, sinks[shmem_place]);
        if (!shmem.ok())
            return shmem.error();
        links.shmem = std::move(shmem.value());
    }
    auto networks = find_networks(wanted);
    if (!networks.ok())
        return networks.error();
    std::vector<LocalNetwork> of_udp;
    for (const LocalNetwork &each : networks.value()) {
        if (each.network.device == DeviceKind::udp) {
            of_udp.push_back(each);
        } else if (first_ucx_place + links.ucx.size() == places_max) {
            links.missing.push_back("ucx: network " + each.network.name + " is one too many: " +
                                    std::to_string(places_max - first_ucx_place) + " can be used at once");
        } else if (Error error = open_ucx(&links, each, sinks[first_ucx_place + links.ucx.size()])) {
            std::string text = "network " + each.network.name + " is not used: " + error.text;
            if (Error fatal = missing({error.status, text}))
                return fatal;
        }
    }
    bool described = !wanted.descriptions.empty();
    // Not being on a network that is described is no fault; having nothing for UCX at all is.
    if (wanted.has(DeviceKind::ucx) && links.ucx.empty() && links.missing.empty() &&
        (described ? ucx_ports(true).empty() : wanted.devices_named))
        links.missing.push_back("ucx: this host has no device of UCX for a network (UCX_TLS, UCX_NET_DEVICES and "
                                "MPIR_CVAR_CH4_COMPOSITE_NETWORKS say what may be used)");
    if (wanted.has(DeviceKind::udp) && (!described || !of_udp.empty()))
        if (Error error = open_udp(&links, setup, described, of_udp, sinks[udp_place]))
            if (Error fatal = missing(error))
                return fatal;
    if (links.shmem == nullptr && links.udp == nullptr && links.ucx.empty())
        return Error{Status::unreachable, "no device could be opened. " + (links.missing.empty() ? "This host, " + host_name() +
                                          ", is on none of the networks in MPIR_CVAR_CH4_COMPOSITE_NETWORKS"
                                          : links.missing.front())};
    return links;
}

Card Links::card(std::uint32_t process) const
{
    Card card;
    std::byte bytes[max_card_size];
    card.host = host_name();
    card.process = process;
    card.network_space = network_space();
    if (shmem != nullptr)
        card.shmem.assign(bytes, bytes + shmem->write_card(bytes));
    if (udp != nullptr)
        card.udp.assign(bytes, bytes + udp->write_card(bytes));
    for (const LocalNetwork &each : networks) {
        NetworkCard &network = card.networks.emplace_back();
        network.network = each.network;
        if (!each.addresses.empty())
            network.address = each.addresses.front().ip;
        for (const UcxLink &link : ucx)
            if (each.network.device == DeviceKind::ucx && link.local.network.id == each.network.id)
                network.device_card.assign(bytes, bytes + link.device->write_card(bytes));
    }
    return card;
}

}  // namespace pm
