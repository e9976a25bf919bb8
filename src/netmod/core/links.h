// The devices of this process, opened as the settings and the host's networks say. PM(UCX) is opened once for each network it
// serves, so that two fabrics never mix; SHMEM and UDP once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "netmod/routing/card.h"
#include "netmod/routing/networks.h"
#include "netmod/core/setup.h"
#include "netmod/udp/udp.h"
#ifdef PM_HAVE_UCX
#include "netmod/ucx/ucx.h"
#else
#include "netmod/ucx/none.h"
#endif
#include "shmmod/shmem.h"

namespace pm {

// Places of devices in tables: SHMEM, UDP, then each network of UCX.
enum : std::size_t { shmem_place, udp_place, first_ucx_place };
inline constexpr std::size_t places_max = 8;

struct UcxLink {
    LocalNetwork local;
    std::unique_ptr<ucx::Ucx> device;
};

struct Links {
    std::unique_ptr<shmem::Shmem> shmem;
    std::unique_ptr<udp::Udp> udp;
    std::vector<UcxLink> ucx;
    std::vector<LocalNetwork> networks;  // of UDP and UCX, those that are open
    std::vector<std::string> missing;    // a sentence for each device that is not open though it was wanted

    // What this process says of itself.
    Card card(std::uint32_t process) const;
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

// Where each place delivers.
using Sinks = const Sink (&)[places_max];

// An error for settings that mean nothing, and when no device could be opened. One that fails while others are there is only
// missing: it is told when a peer needs it.
Result<Links> open_links(const pm_setup &setup, Sinks sinks);

// The file that the processes of the job share here; none for none.
std::shared_ptr<shmem::HostFile> file_of(const pm_host *host);

// This host, as it calls itself.
std::string host_name();

}  // namespace pm
