// UCX: its transports as its own settings leave them, and which of them lead to a network.
#include <algorithm>
#include <cstdlib>

#include "inspector/findings.h"
#ifdef PM_HAVE_UCX
#include "netmod/ucx/resources.h"
#include "netmod/ucx/words.h"
#endif

namespace pm::inspector {

#ifdef PM_HAVE_UCX

namespace {

std::string why_not_used(const Job &job, const ucx::Resource &resource)
{
    if (resource.transport == "self")
        return "leads nowhere but to the same process";
    if (!resource.network && std::getenv("UCX_TLS") == nullptr)
        return "within a host there is SHMEM (UCX_TLS can ask for it)";
    if (resource.transport == "tcp" && !job.ucx_over_tcp())
        return "PM(UDP) is faster than UCX over TCP (MPIR_CVAR_CH4_COMPOSITE_DEVICES or _NETWORKS can ask for ucx)";
    std::string name = resource.network ? resource.device : "memory";
    for (const LocalNetwork &each : job.networks)
        if (each.network.device == DeviceKind::ucx && std::ranges::find(each.ports, name) != each.ports.end())
            return "";
    return job.descriptions.empty() ? "has no address on a network"
                                    : "no network of MPIR_CVAR_CH4_COMPOSITE_NETWORKS leads to it";
}

}  // namespace

Finding find_ucx(Job *job)
{
    Finding finding{DeviceKind::ucx, ucx::version(), job->why_forbidden(DeviceKind::ucx), {}};
    if (!finding.why_not.empty())
        return finding;
    const char *allowed = std::getenv("UCX_TLS");
    bool any = false;
    for (const ucx::Resource &resource : ucx::find_resources()) {
        finding.parts.push_back({resource.transport, resource.device, why_not_used(*job, resource)});
        any |= finding.parts.back().why_not.empty();
    }
    if (finding.parts.empty())
        finding.why_not = "UCX finds nothing on this host" + ucx::last_words() +
                          (allowed == nullptr ? "" : " (UCX_TLS is \"" + std::string(allowed) + "\")");
    else if (!any)
        finding.why_not = "none of its transports leads to a network that it is used for";
    return finding;
}

#else

Finding find_ucx(Job *)
{
    return {DeviceKind::ucx, {}, "not built in: configure found no UCX (Debian: libucx-dev)", {}};
}

#endif

}  // namespace pm::inspector
