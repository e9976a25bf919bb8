#include "netmod/routing/ports.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "netmod/udp/io/interfaces.h"
#ifdef PM_HAVE_UCX
#include "netmod/ucx/resources.h"
#endif

namespace pm {
namespace {

// Interfaces with all of their addresses.
Result<std::vector<Port>> interfaces(DeviceKind device)
{
    auto found = udp::find_interfaces();
    if (!found.ok())
        return found.error();
    std::vector<Port> ports;
    for (const udp::Interface &each : found.value()) {
        auto port = std::ranges::find(ports, each.name, &Port::name);
        if (port == ports.end())
            port = ports.insert(ports.end(), Port{device, each.name, {}, {}});
        port->subnets.push_back({each.address.ip, each.bits});
    }
    return ports;
}

#ifdef PM_HAVE_UCX

std::string first_line(const std::filesystem::path &file)
{
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    return line;
}

// A device of InfiniBand, "mlx5_0:1": ports of one fabric share the first half of their addresses; over Ethernet (RoCE) the
// addresses of the interface tell the network.
Port fabric_port(const std::string &name, const std::vector<Port> &all_interfaces)
{
    namespace fs = std::filesystem;
    Port port{DeviceKind::ucx, name, {}, {}};
    std::size_t colon = name.find(':');
    fs::path device = "/sys/class/infiniband/" + name.substr(0, colon);
    fs::path place = device / "ports" / (colon == std::string::npos ? "1" : name.substr(colon + 1));
    std::error_code error;
    if (first_line(place / "link_layer") == "Ethernet") {
        for (const fs::directory_entry &entry : fs::directory_iterator(device / "device/net", error)) {
            auto found = std::ranges::find(all_interfaces, entry.path().filename().string(), &Port::name);
            if (found != all_interfaces.end())
                port.subnets.insert(port.subnets.end(), found->subnets.begin(), found->subnets.end());
        }
    } else if (std::string address = first_line(place / "gids/0"); address.size() >= 19) {
        port.fabric = "ib " + address.substr(0, 19);
    }
    if (port.subnets.empty() && port.fabric.empty())
        port.fabric = "ucx";  // whatever it is: UCX itself tells who is reached
    return port;
}

// Asking UCX takes as long as all else that is done at the start, so that it is asked only where there may be something.
bool has_fabric()
{
    std::error_code error;
    return std::filesystem::directory_iterator("/sys/class/infiniband", error) != std::filesystem::directory_iterator();
}

// Shared memory of UCX leads to this host only, and its way to oneself not even there.
Port memory_port()
{
    std::string host = first_line("/proc/sys/kernel/random/boot_id");
    struct stat space{};
    if (stat("/proc/self/ns/ipc", &space) == 0)
        host += " " + std::to_string(space.st_ino);
    return {DeviceKind::ucx, "memory", {}, "host " + host};
}

#endif

}  // namespace

Result<std::vector<Port>> udp_ports()
{
    return interfaces(DeviceKind::udp);
}

std::vector<Port> ucx_ports([[maybe_unused]] bool over_tcp)
{
    std::vector<Port> ports;
#ifdef PM_HAVE_UCX
    if (!over_tcp && !has_fabric())
        return ports;
    auto found = interfaces(DeviceKind::ucx);
    std::vector<Port> none, &all = found.ok() ? found.value() : none;
    bool asked_for_memory = std::getenv("UCX_TLS") != nullptr, memory = false;
    for (const ucx::Resource &resource : ucx::find_resources()) {
        if (!resource.network) {
            memory |= asked_for_memory;
            continue;
        }
        if (std::ranges::find(ports, resource.device, &Port::name) != ports.end())
            continue;
        if (resource.transport != "tcp") {
            ports.push_back(fabric_port(resource.device, all));
        } else if (over_tcp) {
            auto interface = std::ranges::find(all, resource.device, &Port::name);
            if (interface != all.end())
                ports.push_back(*interface);
        }
    }
    if (memory)
        ports.push_back(memory_port());
#endif
    return ports;
}

}  // namespace pm
