// The socket of a process: one for all peers, IPv4 and IPv6.
//
// Whole trains of datagrams go out with one call where the kernel can cut them (UDP_SEGMENT), otherwise by sendmmsg; they come in
// glued together (UDP_GRO), otherwise by recvmmsg. A full send buffer is not a loss: what did not fit is kept and sent first
// the next time.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "netmod/udp/io/interfaces.h"
#include "netmod/udp/protocol/endpoint.h"

namespace pm::udp {

struct SocketSettings {
    PortRange ports;
    bool v6 = true;            // IPv6, too; otherwise IPv4 alone
    bool segmentation = true;  // use UDP_SEGMENT and UDP_GRO where they are
    std::vector<Address> addresses;  // of this host: what is sent to others of it is not received. None: all are
    std::vector<unsigned> interfaces;  // their numbers (numbers_of): what comes over these is received, whatever address it is for
};

class Socket {
  public:
    static Result<std::unique_ptr<Socket>> create(const SocketSettings &settings);

    int descriptor() const { return file_.get(); }
    bool reaches(const Address &address) const { return family_ == AF_INET6 || address.is_v4(); }
    std::uint16_t port() const { return port_; }
    std::size_t receive_buffer() const { return receive_buffer_; }

    // False when the send buffer is full; the transmission is then kept here, and nothing else may be sent before flush() says
    // true.
    bool send(const Transmission &transmission);
    bool flush();
    bool stalled() const { return !kept_.empty(); }

    // What became of an earlier packet: refused, or, with a width, too long for the path. Who says so quotes the packet; our own host
    // does not.
    struct Trouble {
        Address to;
        std::size_t width = 0;
        std::optional<Header> quoted;
    };
    // Calls on_datagram(header, size, body, from) for what is there, and on_trouble(trouble). What is expected
    // is received where it belongs. A datagram may be too short for a header. Number of datagrams.
    template <class OnDatagram, class OnTrouble>
    unsigned receive(const Endpoint::Expected &expected, OnDatagram on_datagram, OnTrouble on_trouble);
    // True when there is something to receive.
    bool readable() const;

  private:
    static constexpr std::size_t buffer_size = 65536;
    static constexpr unsigned batch = 8;
    static constexpr unsigned troubles_limit = 64;  // looked at in one call
    static constexpr std::size_t expected_limit = 64;  // datagrams in one call

    // What one receiving call brought.
    struct Arrival {
        std::size_t size;
        std::size_t segment;
        Address from;
    };

    Socket() = default;
    bool send_pieces(const iovec *pieces, std::size_t count, const Address &to, std::size_t size, std::size_t segment);
    bool send_one_by_one(const iovec *pieces, std::size_t count, const Address &to, std::size_t segment);
    void keep(const iovec *pieces, std::size_t count, const Address &to, std::size_t segment, std::size_t skip);
    void receive_batch();
    bool receive_single();
    // Number of datagrams that came as expected, into their place; what came otherwise is in the first buffer, one arrival.
    unsigned receive_expected(const Endpoint::Expected &expected);
    bool next_trouble(Trouble *trouble);
    void note_error(int error);
    sockaddr_storage kernel_address(const Address &address, socklen_t *size) const;
    static Address our_address(const sockaddr_storage &address);

    File file_;
    int family_ = AF_INET6;
    std::uint16_t port_ = 0;
    std::size_t receive_buffer_ = 0;
    bool segments_ = false;
    bool error_pending_ = false;
    bool too_wide_ = false;  // the kernel has refused a datagram for its size

    std::vector<std::byte> kept_;  // what did not fit into the send buffer
    Address kept_to_;
    std::size_t kept_segment_ = 0;

    std::unique_ptr<std::byte[]> buffers_;  // batch of buffer_size
    Header headers_[expected_limit];        // of what is received into its place
    Arrival arrivals_[batch];
    unsigned arrived_ = 0;
    unsigned successes_ = 0;  // looks in a row that brought something
};

template <class OnDatagram, class OnTrouble>
unsigned Socket::receive(const Endpoint::Expected &expected, OnDatagram on_datagram, OnTrouble on_trouble)
{
    unsigned count = 0;
    if (expected.place.size() >= 2 * expected.body_size && expected.body_size >= 512) {
        unsigned in_place = receive_expected(expected);
        for (unsigned i = 0; i < in_place; ++i) {
            std::size_t begin = i * expected.body_size;
            std::size_t body = std::min(expected.body_size, arrivals_[0].size - i * (sizeof(Header) + expected.body_size) - sizeof(Header));
            on_datagram(headers_[i], sizeof(Header) + body, expected.place.subspan(begin, body), arrivals_[0].from);
            ++count;
        }
    } else {
        receive_batch();
    }
    for (unsigned i = 0; i < arrived_; ++i) {
        const Arrival &arrival = arrivals_[i];
        std::byte *bytes = buffers_.get() + i * buffer_size;
        for (std::size_t offset = 0; offset < arrival.size; offset += arrival.segment) {
            std::span datagram(bytes + offset, std::min(arrival.segment, arrival.size - offset));
            Header header;
            std::size_t header_size = std::min(sizeof header, datagram.size());
            if (header_size == sizeof header) [[likely]]
                std::memcpy(&header, datagram.data(), sizeof header);
            else
                std::memcpy(&header, datagram.data(), header_size);
            on_datagram(header, datagram.size(), datagram.subspan(header_size), arrival.from);
            ++count;
        }
    }
    if (error_pending_) {
        Trouble trouble;
        unsigned troubles = 0;
        for (; troubles < troubles_limit && next_trouble(&trouble); ++troubles)
            on_trouble(trouble);
        error_pending_ = troubles == troubles_limit;
    }
    return count;
}

}  // namespace pm::udp
