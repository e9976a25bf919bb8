// UDP: every address of every interface, also of those that are down, and whether it is offered to other hosts.
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/subnet.h"
#include "inspector/findings.h"
#include "inspector/ip_of.h"
#include "netmod/udp/io/interfaces.h"

namespace pm::inspector {
namespace {

struct Candidate {
    std::string name;
    std::optional<Ip> ip;
    unsigned flags = 0;
};

// Interfaces in the order of the system, each with its addresses or once without.
Result<std::vector<Candidate>> find_candidates()
{
    ifaddrs *list = nullptr;
    if (getifaddrs(&list) != 0)
        return system_error("udp: listing the network interfaces of this host", errno);
    std::vector<Candidate> found;
    std::vector<std::string> names;
    for (ifaddrs *entry = list; entry != nullptr; entry = entry->ifa_next) {
        if (std::ranges::find(names, entry->ifa_name) == names.end())
            names.push_back(entry->ifa_name);
        if (std::optional<Ip> ip = ip_of(entry->ifa_addr))
            found.push_back({entry->ifa_name, ip, entry->ifa_flags});
    }
    for (ifaddrs *entry = list; entry != nullptr; entry = entry->ifa_next)
        if (std::ranges::find(found, entry->ifa_name, &Candidate::name) == found.end())
            found.push_back({entry->ifa_name, std::nullopt, entry->ifa_flags});
    freeifaddrs(list);
    std::ranges::stable_sort(found, {}, [&](const Candidate &each) { return std::ranges::find(names, each.name); });
    return found;
}

// What the device itself would offer.
std::vector<Ip> find_offered(Job *job)
{
    std::vector<Ip> offered;
    if (!job->descriptions.empty()) {
        for (const LocalNetwork &each : job->networks)
            for (const Subnet &address : each.addresses)
                if (each.network.device == DeviceKind::udp)
                    offered.push_back(address.ip);
        return offered;
    }
    auto interfaces = udp::find_interfaces();
    auto chosen = udp::choose_addresses(interfaces.value(), setting("UDP_INTERFACES"));
    if (!chosen.ok())
        job->errors.push_back(chosen.error().text);
    for (const udp::Address &address : chosen.value())
        offered.push_back(address.ip);
    return offered;
}

bool is_link_local(const Ip &ip)
{
    return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

std::string why_not_offered(const Job &job, const std::vector<Candidate> &all, const std::vector<Ip> &offered,
                            const Candidate &one)
{
    auto is_offered = [&](const Candidate &each) { return each.ip && std::ranges::find(offered, *each.ip) != offered.end(); };
    auto is_offered_v4 = [&](const Candidate &each) { return each.name == one.name && is_offered(each) && is_v4(*each.ip); };
    if ((one.flags & IFF_UP) == 0)
        return "down";
    if (!one.ip)
        return "no IP address";
    if ((one.flags & IFF_RUNNING) == 0)
        return "up, but no link";
    if (is_link_local(*one.ip))
        return "link-local: it means nothing on another host";
    if (is_offered(one))
        return "";
    if (!job.descriptions.empty())
        return "no network of MPIR_CVAR_CH4_COMPOSITE_NETWORKS leads to it";
    if (!is_v4(*one.ip) && std::ranges::any_of(all, is_offered_v4))
        return "the interface has an IPv4 address (MPIR_CVAR_CH4_COMPOSITE_UDP_INTERFACES can name this one)";
    bool named = setting("UDP_INTERFACES") != "auto" && !setting("UDP_INTERFACES").starts_with('^');
    if ((one.flags & IFF_LOOPBACK) != 0 && !named)
        return "loopback: only when there is nothing else";
    return setting_is("UDP_INTERFACES");
}

}  // namespace

Finding find_udp(Job *job)
{
    Finding finding{DeviceKind::udp, {}, job->why_forbidden(DeviceKind::udp), {}};
    if (!finding.why_not.empty())
        return finding;
    auto candidates = find_candidates();
    if (!candidates.ok()) {
        finding.why_not = candidates.error().text;
        return finding;
    }
    std::vector<Ip> offered = find_offered(job);
    const std::vector<Candidate> &all = candidates.value();
    for (const Candidate &each : all)
        finding.parts.push_back({each.name, each.ip ? ip_text(*each.ip) : "", why_not_offered(*job, all, offered, each)});
    if (offered.empty())
        finding.why_not = job->descriptions.empty() ? "no address can be offered to other hosts"
                                                    : "this host is on no network of udp in MPIR_CVAR_CH4_COMPOSITE_NETWORKS";
    return finding;
}

}  // namespace pm::inspector
