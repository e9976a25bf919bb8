// The core as a process opens it that has no wishes, without upcalls.
#pragma once

#include "netmod/core/setup.h"

namespace pm::test {

inline pm_setup plain_setup()
{
    pm_setup setup{};
    setup.devices = "auto";
    setup.networks = "auto";
    setup.priority = "given";
    setup.routes = "off";
    setup.report = "0";
    setup.wait = "auto";
    setup.background_wait = "sleep";
    setup.rendezvous = "auto";
    setup.shmem_backing = "auto";
    setup.udp_interfaces = "auto";
    setup.udp_ports = "auto";
    setup.udp_guard = "token";
    setup.udp_recovery = "selective";
    setup.udp_segmentation = "auto";
    setup.udp_silence_limit = 30;
    setup.ranks_on_host = 1;
    return setup;
}

}  // namespace pm::test
