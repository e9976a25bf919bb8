// How PM(UCX) is brought to the conformance suite: over TCP, and over UCX's own shared memory, as a user may ask for it.
#pragma once

#include <cstdlib>

#include "conform/team.h"
#include "netmod/ucx/ucx.h"
#include "support/private_network.h"
#include "support/ucx_environment.h"

namespace pm::conform {

template <bool tcp>
struct UcxKit {
    using Device = ucx::Ucx;
    static constexpr const char *name = tcp ? "tcp" : "shared_memory";
    static constexpr std::size_t bytes_in_flight = 16'000'000;
    static constexpr unsigned rounds_of_disconnecting = 50;
    static constexpr std::size_t heap_of_a_parted_peer = 2048;  // UCX keeps its side of what another one has connected until it is closed
    static constexpr bool asks_for_places = true;
    static constexpr std::size_t silent_peer_limit = 4096;
    static constexpr unsigned descriptors_of_a_silent_peer = 0;
    static constexpr bool keeps_descriptors = true;
    static constexpr bool gives_back_descriptors = !tcp;  // the socket by which a peer had connected stays open until the end

    // UCX reads its settings in each process that opens it.
    static std::string prepare()
    {
        setenv("UCX_TLS", tcp ? "tcp,self" : "sm,self", 1);
        setenv("UCX_KEEPALIVE_INTERVAL", "500ms", 1);
        return test::enter_private_network();
    }

    static Result<std::unique_ptr<Device>> create(const Sink &sink) { return Device::create({}, sink); }

    static std::vector<std::size_t> edges() { return {ucx::Ucx::whole_limit, 8192, 65536}; }

    static std::size_t memory(const Device &) { return 0; }
};

using UcxKits = testing::Types<UcxKit<true>, UcxKit<false>>;
// UCX does not ask after a process that it reaches by shared memory, which has one queue for all: one may die in it.
using UcxKitsThatNoticeDeath = testing::Types<UcxKit<true>>;

}  // namespace pm::conform
