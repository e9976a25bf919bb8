#include <algorithm>
#include <cstdlib>

#include "inspector/findings.h"
#include "netmod/routing/settings.h"
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
    return has(device) ? "" : name_of_setting("NETWORKS") + " has no network of " + device_name(device);
}

void find_networks(Job *job)
{
#ifdef PM_HAVE_UCX
    ucx::listen_to_ucx();
#endif
    auto networks = pm::find_networks(*job);
    job->networks = networks.value();
    if (!networks.ok())
        job->errors.push_back(networks.error().text);
}

std::string address_text(const Subnet &address)
{
    return ip_text(address.ip) + "/" + std::to_string(address.bits - (is_v4(address.ip) ? 96 : 0));
}

}  // namespace pm::inspector
