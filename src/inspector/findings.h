// What a host has for each device and, where something of it is not used, why: found by trying, with the settings that a job
// started from this environment would have.
#pragma once

#include <string>
#include <vector>

#include "netmod/core/links.h"

namespace pm::inspector {

// Something a device needs or uses: a kind of memory, an address, a transport.
struct Part {
    std::string name, detail;
    std::string why_not;  // empty: it is used
};

struct Finding {
    DeviceKind device = DeviceKind::shmem;
    std::string version;  // of the library behind it, if there is one
    std::string why_not;  // empty: it is used
    std::vector<Part> parts;
};

// What the settings in the environment ask for.
struct Job : Wanted {
    std::vector<LocalNetwork> networks;  // this host is on, and devices may use
    std::vector<std::string> errors;     // settings that no job can start with

    // Why the settings alone forbid a device; empty when they do not.
    std::string why_forbidden(DeviceKind device) const;
    // UCX over TCP is used only by those who ask for it, since UDP is faster.
    bool ucx_over_tcp() const { return devices_named || !descriptions.empty(); }
};

// The value of MPIR_CVAR_CH4_COMPOSITE_`name`.
std::string setting(const std::string &name);
// "MPIR_CVAR_CH4_COMPOSITE_DEVICES is "shmem""
std::string setting_is(const std::string &name);

// The devices and descriptions of the settings; networks are still to be found.
Job read_settings();
void find_networks(Job *job);

// May add to the errors of the job. The first one makes processes, so it comes before anything that makes threads; the others
// need the networks.
Finding find_shmem(Job *job);
Finding find_udp(Job *job);
Finding find_ucx(Job *job);

// "10.0.0.7/24"
std::string address_text(const Subnet &address);

}  // namespace pm::inspector
