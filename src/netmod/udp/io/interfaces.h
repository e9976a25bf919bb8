// Which addresses of this host are offered to others: all that are up, but for those the user leaves out. Which of them a peer
// can reach is found out by sending to them, never by their names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "netmod/udp/protocol/address.h"

namespace pm::udp {

struct Interface {
    std::string name;
    Address address;  // its port is 0
    bool loopback = false;
    int bits = 128;  // of its subnet, as in Subnet: 96 more for IPv4
};

// Of this host: up, running, with an address that means something elsewhere (no link-local IPv6).
Result<std::vector<Interface>> find_interfaces();

// "auto"; or names and subnets to use, "eth0,10.0.0.0/8"; or with ^ in front those to leave out, "^docker0,fd00::/8".
// Loopback is used when it is named or when there is nothing else. An interface with IPv4 addresses is offered by those (a socket
// for IPv4 alone is faster); its IPv6 addresses are when their subnet is named.
Result<std::vector<Address>> choose_addresses(const std::vector<Interface> &interfaces, std::string_view wanted);

// The kernel's numbers of the interfaces with these addresses, but for loopback.
std::vector<unsigned> numbers_of(const std::vector<Interface> &interfaces, const std::vector<Address> &addresses);

struct PortRange {
    std::uint16_t first = 0;  // 0: whatever is free
    std::uint16_t last = 0;
};
// "auto", "5000" or "5000-5100".
Result<PortRange> parse_ports(std::string_view text);

}  // namespace pm::udp
