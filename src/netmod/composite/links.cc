#include "netmod/composite/links.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string_view>

#include "base/hash.h"
#include "netmod/composite/ports.h"
#include "netmod/composite/settings.h"

namespace pm {
namespace {

// Which devices a job may use, and who asked for UCX.
struct Wanted {
    std::vector<std::string> devices;
    bool all = false;           // none was named
    bool ucx_over_tcp = false;  // somebody named it

    bool has(DeviceKind kind) const { return std::ranges::find(devices, device_name(kind)) != devices.end(); }
};

std::string joined(const std::vector<std::string> &words)
{
    std::string text;
    for (const std::string &word : words)
        text += (text.empty() ? "" : ",") + word;
    return text;
}

// The networks this host is on, of the devices that are wanted.
Result<std::vector<LocalNetwork>> find_networks(const pm_setup &setup, Wanted *wanted)
{
    auto read = read_networks(setup.networks);
    if (!read.ok())
        return read.error();
    std::vector<NetworkDescription> descriptions = std::move(read.value());
    bool described = !descriptions.empty();
    std::erase_if(descriptions, [&](const NetworkDescription &each) { return !wanted->has(each.device); });
    if (described && descriptions.empty())
        return std::vector<LocalNetwork>{};
    wanted->ucx_over_tcp = described || !wanted->all;
    std::vector<Port> ports;
    if (wanted->has(DeviceKind::ucx) &&
        (!described || std::ranges::find(descriptions, DeviceKind::ucx, &NetworkDescription::device) != descriptions.end()))
        ports = ucx_ports(wanted->ucx_over_tcp);
    if (wanted->has(DeviceKind::udp)) {
        auto found = udp_ports();
        if (!found.ok())
            return found.error();
        ports.insert(ports.end(), found.value().begin(), found.value().end());
    }
    return networks_of_host(descriptions, ports, host_name());
}

Error open_ucx(Links *links, const LocalNetwork &local, const Sink &sink)
{
    std::vector<std::string> ports = local.ports;
    std::erase(ports, "memory");
    auto device = ucx::Ucx::create({joined(ports)}, sink);
    if (!device.ok())
        return device.error();
    links->networks.push_back(local);
    links->ucx.push_back({local, std::move(device.value())});
    return {};
}

Error open_udp(Links *links, const pm_setup &setup, const std::vector<LocalNetwork> &networks, const Sink &sink)
{
    // A description says which addresses are used; without one the user may.
    std::vector<std::string> addresses;
    bool described = std::string_view(setup.networks) != "auto";
    for (const LocalNetwork &each : networks)
        for (const Subnet &address : each.addresses)
            addresses.push_back(ip_text(address.ip));
    std::ranges::sort(addresses);
    addresses.erase(std::ranges::unique(addresses).begin(), addresses.end());
    udp::Settings settings{described ? joined(addresses) : setup.udp_interfaces, setup.udp_ports, setup.udp_guard, setup.udp_recovery,
                           setup.udp_segmentation,
                           std::chrono::milliseconds(static_cast<long>(setup.udp_silence_limit * 1000))};
    auto udp = udp::Udp::create(settings, sink);
    if (!udp.ok())
        return udp.error();
    links->udp = std::move(udp.value());
    links->networks.insert(links->networks.end(), networks.begin(), networks.end());
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

Result<Links> open_links(const pm_setup &setup, Sinks sinks)
{
    Wanted wanted;
    auto devices = parse_devices(setup.devices);
    if (!devices.ok())
        return devices.error();
    wanted.devices = std::move(devices.value());
    wanted.all = std::string_view(setup.devices) == "auto";

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
        auto shmem = shmem::Shmem::create(settings, sinks[shmem_place]);
        if (!shmem.ok())
            return shmem.error();
        links.shmem = std::move(shmem.value());
    }
    auto networks = find_networks(setup, &wanted);
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
    if (wanted.has(DeviceKind::ucx) && links.ucx.empty() && !wanted.all && links.missing.empty())
        links.missing.push_back("ucx: this host has no device of UCX for a network (UCX_TLS, UCX_NET_DEVICES and "
                                "MPIR_CVAR_CH4_COMPOSITE_NETWORKS say what may be used)");
    bool described = std::string_view(setup.networks) != "auto";
    if (wanted.has(DeviceKind::udp) && (!described || !of_udp.empty()))
        if (Error error = open_udp(&links, setup, of_udp, sinks[udp_place]))
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
