// Whether hosts reach each other, by TCP and by UDP: each has a helper that listens, and tries the listeners of the others.
//
// A listener has a secret, and only who answers with it is the one that was meant: an address such as that of docker0 leads every host to
// itself. One that is connected to by TCP sends its secret; by UDP it sends back a datagram that holds it, and remembers who asked: where no
// answer comes, that tells which of the two directions is closed. A question comes from another socket than the one that listens, as a
// firewall lets answers in.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "base/subnet.h"
#include "netmod/udp/io/interfaces.h"

namespace pm::inspector {

struct Target {
    std::uint64_t secret = 0;
    std::uint16_t tcp = 0, udp = 0;  // UDP at 0 is not tried
    std::vector<Ip> addresses;
};

// Why not; empty when one of the addresses leads there.
struct Outcome {
    std::string tcp, udp;
};

class Reach {
  public:
    static Result<Reach> create(udp::PortRange ports_of_tcp, udp::PortRange ports_of_udp);

    std::uint64_t secret() const { return secret_; }
    std::uint16_t tcp() const { return tcp_port_; }
    std::uint16_t udp() const { return udp_port_; }

    // All at once, in a few seconds at most; others are answered meanwhile.
    std::vector<Outcome> try_all(const std::vector<Target> &targets);
    // Answers others until something can be read from the descriptor.
    void answer_until(int descriptor);
    // The secrets of those whose datagrams have come.
    const std::set<std::uint64_t> &heard() const { return heard_; }

  private:
    // The descriptors that answering needs, and what is there for them.
    void answer(short tcp_events, short udp_events);

    File tcp_file_, udp_file_;
    udp::PortRange ports_of_udp_;
    bool v6_ = true;
    std::uint64_t secret_ = 0;
    std::uint16_t tcp_port_ = 0, udp_port_ = 0;
    std::set<std::uint64_t> heard_;
};

}  // namespace pm::inspector
