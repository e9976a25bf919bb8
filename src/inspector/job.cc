#include <algorithm>
#include <cstdlib>

#include "inspector/findings.h"
#include "netmod/composite/links.h"
#include "netmod/composite/ports.h"
#include "netmod/composite/settings.h"
#ifdef PM_HAVE_UCX
#include "netmod/ucx/words.h"
#endif

namespace pm::inspector {
namespace {

std::string name_of_setting(const std::string &name)
{
    return "MPIR_CVAR_CH4_COMPOSITE_" + name;
}

}  // namespace

std::string setting(const std::string &name)
{
    const char *value = std::getenv(name_of_setting(name).c_str());
    return value == nullptr ? "auto" : value;
}

std::string setting_is(const std::string &name)
{
    return name_of_setting(name) + " is \"" + setting(name) + "\"";
}

Job read_settings()
{
    Job job;
    auto devices = parse_devices(setting("DEVICES"));
    job.devices_named = devices.ok() && setting("DEVICES") != "auto";
    job.devices = devices.ok() ? devices.value() : known_devices();
    if (!devices.ok())
        job.errors.push_back(devices.error().text);
    auto descriptions = read_networks(setting("NETWORKS"));
    job.descriptions = descriptions.value();
    if (!descriptions.ok())
        job.errors.push_back(descriptions.error().text);
    return job;
}

std::string Job::why_forbidden(DeviceKind device) const
{
    if (std::ranges::find(devices, device_name(device)) == devices.end())
        return setting_is("DEVICES");
    bool described = device == DeviceKind::shmem || descriptions.empty() ||
                     std::ranges::find(descriptions, device, &NetworkDescription::device) != descriptions.end();
    return described ? "" : name_of_setting("NETWORKS") + " has no network of " + device_name(device);
}

void find_networks(Job *job)
{
    std::vector<NetworkDescription> descriptions = job->descriptions;
    std::erase_if(descriptions, [&](const auto &each) { return !job->why_forbidden(each.device).empty(); });
    if (descriptions.empty() && !job->descriptions.empty())
        return;
#ifdef PM_HAVE_UCX
    ucx::listen_to_ucx();
#endif
    std::vector<Port> ports;
    if (job->why_forbidden(DeviceKind::ucx).empty())
        ports = ucx_ports(job->ucx_over_tcp());
    if (job->why_forbidden(DeviceKind::udp).empty()) {
        auto found = udp_ports();
        if (!found.ok())
            job->errors.push_back(found.error().text);
        ports.insert(ports.end(), found.value().begin(), found.value().end());
    }
    auto networks = networks_of_host(descriptions, ports, host_name());
    job->networks = networks.value();
    if (!networks.ok())
        job->errors.push_back(networks.error().text);
}

std::string address_text(const Subnet &address)
{
    return ip_text(address.ip) + "/" + std::to_string(address.bits - (is_v4(address.ip) ? 96 : 0));
}

}  // namespace pm::inspector
