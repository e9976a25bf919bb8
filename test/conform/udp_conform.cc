// PM(UDP) under the conformance suite: as it comes, and with everything else that can be chosen.
#include "conform/conformance.h"
#include "netmod/udp/udp.h"
#include "support/private_network.h"

namespace pm::conform {
namespace {

template <bool plain>
struct UdpKit {
    using Device = udp::Udp;
    static constexpr const char *name = plain ? "one_by_one_mac_go_back_n" : "trains_token_selective";
    static constexpr std::size_t bytes_in_flight = 0;
    static constexpr unsigned rounds_of_disconnecting = 200;
    static constexpr bool survives_dying_senders = true;

    static std::string prepare() { return test::enter_private_network(); }

    static Result<std::unique_ptr<Device>> create(const Sink &sink)
    {
        udp::Settings settings;
        settings.silence_limit = 3s;
        settings.contact_patience = 0;
        if (plain) {
            settings.guard = "mac";
            settings.recovery = "go_back_n";
            settings.segmentation = "off";
        }
        return Device::create(settings, sink);
    }

    static std::vector<std::size_t> edges()
    {
        constexpr std::size_t room = 1200 - sizeof(udp::Header);
        return {room - 16, room, 2 * room, udp::Incoming::whole_limit, udp::Outgoing::whole_copy_limit, 65000 - sizeof(udp::Header),
                udp::Outgoing::rest_copy_limit};
    }

    static std::size_t memory(const Device &) { return 0; }
};

using UdpKits = testing::Types<UdpKit<false>, UdpKit<true>>;
PM_CONFORMANCE(Udp, UdpKits);

}  // namespace
}  // namespace pm::conform
