#include "netmod/udp/io/socket.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace pm::udp {
namespace {

// As recvmsg(), without being a point where a thread can be cancelled: that costs a tenth of an empty look. So for sendto().
ssize_t receive_message(int file, msghdr *message)
{
    return syscall(SYS_recvmsg, file, message, MSG_DONTWAIT);
}

bool is_full(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == ENOBUFS;
}

constexpr int wanted_buffer = 4 << 20;

void set(int file, int level, int option, int value)
{
    setsockopt(file, level, option, &value, sizeof value);
}

// As much buffer as we may have; answers the bytes the kernel counts.
std::size_t enlarge_buffer(int file, int forced, int polite)
{
    int value = wanted_buffer;
    if (setsockopt(file, SOL_SOCKET, forced, &value, sizeof value) != 0)
        setsockopt(file, SOL_SOCKET, polite, &value, sizeof value);
    socklen_t size = sizeof value;
    getsockopt(file, SOL_SOCKET, polite, &value, &size);
    return static_cast<std::size_t>(value);
}

// Datagrams that are longer than the path allows are refused (then we learn it) or cut into pieces by the kernel.
void allow_fragments(int file, bool allow)
{
    set(file, IPPROTO_IP, IP_MTU_DISCOVER, allow ? IP_PMTUDISC_DONT : IP_PMTUDISC_PROBE);
    set(file, IPPROTO_IPV6, IPV6_MTU_DISCOVER, allow ? IPV6_PMTUDISC_DONT : IPV6_PMTUDISC_PROBE);
}

// The kernel drops what comes over other interfaces than those with these addresses, before it takes room in the buffer; of what comes
// from this host itself, what is for another address. Not by address alone: an answer goes where the question came from, and which
// address of an interface that is, the kernel decides. Where filters are forbidden, everything is received.
void listen_only_at(int file, const std::vector<Address> &addresses, const std::vector<unsigned> &interfaces, bool v6)
{
    constexpr auto net = static_cast<std::uint32_t>(SKF_NET_OFF);
    constexpr std::uint32_t to_v4 = net + 16, to_v6 = net + 24, all = 0xffff'ffff;
    std::vector<sock_filter> v4_code{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, to_v4)}, v6_code;
    for (const Address &address : addresses) {
        std::uint32_t words[4];
        std::memcpy(words, address.ip.data(), sizeof words);
        if (address.is_v4()) {
            v4_code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[3]), 0, 1));
            v4_code.push_back(BPF_STMT(BPF_RET | BPF_K, all));
            continue;
        }
        for (std::uint32_t i = 0; i < 4; ++i) {
            v6_code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, to_v6 + 4 * i));
            v6_code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[i]), 0, static_cast<std::uint8_t>(7 - 2 * i)));
        }
        v6_code.push_back(BPF_STMT(BPF_RET | BPF_K, all));
    }
    v4_code.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
    v6_code.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
    std::vector<sock_filter> code{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(SKF_AD_OFF) + SKF_AD_IFINDEX)};
    for (unsigned number : interfaces) {
        code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
        code.push_back(BPF_STMT(BPF_RET | BPF_K, all));
    }
    if (v6) {
        constexpr std::uint32_t protocol = static_cast<std::uint32_t>(SKF_AD_OFF) + SKF_AD_PROTOCOL;
        code.push_back(BPF_STMT(BPF_LD | BPF_H | BPF_ABS, protocol));
        code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 1, 0));
        code.push_back(BPF_JUMP(BPF_JMP | BPF_JA, static_cast<std::uint32_t>(v6_code.size()), 0, 0));
        code.insert(code.end(), v6_code.begin(), v6_code.end());
    }
    code.insert(code.end(), v4_code.begin(), v4_code.end());
    sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
    if (code.size() <= BPF_MAXINSNS)
        setsockopt(file, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

union SegmentControl {
    char bytes[CMSG_SPACE(sizeof(int))];
    cmsghdr align;
};

// Of datagrams that the kernel has joined: each says how long it is, and all but the last are as long as the first. So nobody needs to
// ask the kernel, whose answer costs more than a small datagram does.
std::size_t segment_of(const void *bytes, std::size_t size)
{
    Header header;
    if (size <= sizeof header)
        return std::max<std::size_t>(size, 1);
    std::memcpy(&header, bytes, sizeof header);
    return sizeof header + header.body_size;
}

}  // namespace

Result<std::unique_ptr<Socket>> Socket::create(const SocketSettings &settings)
{
    std::unique_ptr<Socket> socket(new Socket);
    socket->family_ = settings.v6 ? AF_INET6 : AF_INET;
    int descriptor = ::socket(socket->family_, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0)
        return system_error("udp: making a socket", errno);
    socket->file_ = File(descriptor);
    if (socket->family_ == AF_INET6)
        set(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, 0);

    if (!settings.addresses.empty())
        listen_only_at(descriptor, settings.addresses, settings.interfaces, settings.v6);
    const PortRange &ports = settings.ports;
    bool bound = false;
    int error = 0;
    for (unsigned port = ports.first; port <= ports.last && !bound; ++port) {
        sockaddr_in6 any6{};
        any6.sin6_family = AF_INET6;
        any6.sin6_port = htons(static_cast<std::uint16_t>(port));
        sockaddr_in any4{};
        any4.sin_family = AF_INET;
        any4.sin_port = any6.sin6_port;
        bound = (socket->family_ == AF_INET6 ? bind(descriptor, reinterpret_cast<sockaddr *>(&any6), sizeof any6)
                                             : bind(descriptor, reinterpret_cast<sockaddr *>(&any4), sizeof any4)) == 0;
        error = errno;
    }
    if (!bound) {
        std::string range = std::to_string(ports.first) + (ports.last > ports.first ? "-" + std::to_string(ports.last) : "");
        if (error == EADDRINUSE)
            return Error{Status::failed, "udp: every port of " + range +
                                             " is in use; a process needs one: widen MPIR_CVAR_CH4_COMPOSITE_UDP_PORTS"};
        return system_error("udp: binding a socket to port " + range + " (MPIR_CVAR_CH4_COMPOSITE_UDP_PORTS)", error);
    }
    sockaddr_storage name{};
    socklen_t name_size = sizeof name;
    if (getsockname(descriptor, reinterpret_cast<sockaddr *>(&name), &name_size) != 0)
        return system_error("udp: asking for the port of a socket", errno);
    socket->port_ = our_address(name).port;

    socket->receive_buffer_ = enlarge_buffer(descriptor, SO_RCVBUFFORCE, SO_RCVBUF);
    enlarge_buffer(descriptor, SO_SNDBUFFORCE, SO_SNDBUF);
    allow_fragments(descriptor, false);
    set(descriptor, IPPROTO_IP, IP_RECVERR, 1);
    set(descriptor, IPPROTO_IPV6, IPV6_RECVERR, 1);
    if (settings.segmentation) {
        int value = 0;
        socklen_t size = sizeof value;
        socket->segments_ = getsockopt(descriptor, IPPROTO_UDP, UDP_SEGMENT, &value, &size) == 0;
        set(descriptor, IPPROTO_UDP, UDP_GRO, 1);
    }
    socket->buffers_ = std::make_unique_for_overwrite<std::byte[]>(batch * buffer_size);
    return socket;
}

sockaddr_storage Socket::kernel_address(const Address &address, socklen_t *size) const
{
    sockaddr_storage storage{};
    if (family_ == AF_INET6) {
        sockaddr_in6 v6{};
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(address.port);
        std::memcpy(&v6.sin6_addr, address.ip.data(), sizeof v6.sin6_addr);
        std::memcpy(&storage, &v6, sizeof v6);
        *size = sizeof v6;
    } else {
        sockaddr_in v4{};
        v4.sin_family = AF_INET;
        v4.sin_port = htons(address.port);
        std::memcpy(&v4.sin_addr, address.ip.data() + 12, sizeof v4.sin_addr);
        std::memcpy(&storage, &v4, sizeof v4);
        *size = sizeof v4;
    }
    return storage;
}

Address Socket::our_address(const sockaddr_storage &storage)
{
    Address address;
    if (storage.ss_family == AF_INET6) {
        sockaddr_in6 v6;
        std::memcpy(&v6, &storage, sizeof v6);
        std::memcpy(address.ip.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
        address.port = ntohs(v6.sin6_port);
    } else {
        sockaddr_in v4;
        std::memcpy(&v4, &storage, sizeof v4);
        address = Address::v4({}, ntohs(v4.sin_port));
        std::memcpy(address.ip.data() + 12, &v4.sin_addr, sizeof v4.sin_addr);
    }
    return address;
}

// ---- sending ----

bool Socket::send(const Transmission &transmission)
{
    if (transmission.may_fragment)
        allow_fragments(descriptor(), true);
    using Piece = Transmission::Piece;
    static_assert(sizeof(Piece) == sizeof(iovec) && offsetof(Piece, data) == offsetof(iovec, iov_base) &&
                  offsetof(Piece, size) == offsetof(iovec, iov_len));
    auto pieces = reinterpret_cast<const iovec *>(transmission.pieces.data());
    bool sent = send_pieces(pieces, transmission.pieces.size(), transmission.to, transmission.size, transmission.segment);
    if (transmission.may_fragment)
        allow_fragments(descriptor(), false);
    return sent;
}

bool Socket::flush()
{
    if (kept_.empty())
        return true;
    std::vector<std::byte> bytes = std::move(kept_);
    kept_.clear();
    iovec piece{bytes.data(), bytes.size()};
    return send_pieces(&piece, 1, kept_to_, bytes.size(), kept_segment_);
}

// What the kernel would not take for another reason than a full buffer counts as sent: it is lost, as it may be later on its way.
bool Socket::send_pieces(const iovec *pieces, std::size_t count, const Address &to, std::size_t size, std::size_t segment)
{
    if (!reaches(to))
        return true;
    bool train = size > segment;
    if (train && !segments_)
        return send_one_by_one(pieces, count, to, segment);
    socklen_t name_size = 0;
    sockaddr_storage name = kernel_address(to, &name_size);
    if (count == 1 && !train) {
        if (syscall(SYS_sendto, descriptor(), pieces->iov_base, size, MSG_DONTWAIT, &name, name_size) >= 0)
            return true;
        note_error(errno);
    }
    msghdr message{};
    message.msg_name = &name;
    message.msg_namelen = name_size;
    message.msg_iov = const_cast<iovec *>(pieces);
    message.msg_iovlen = count;
    SegmentControl control{};
    if (train) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(std::uint16_t));
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = IPPROTO_UDP;
        header->cmsg_type = UDP_SEGMENT;
        header->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
        auto value = static_cast<std::uint16_t>(segment);
        std::memcpy(CMSG_DATA(header), &value, sizeof value);
    }
    for (int tries = 0; tries < 3; ++tries) {
        if (sendmsg(descriptor(), &message, MSG_DONTWAIT) >= 0)
            return true;
        if (is_full(errno)) {
            keep(pieces, count, to, segment, 0);
            return false;
        }
        if (train && (errno == EIO || errno == EINVAL || errno == EOPNOTSUPP || errno == EMSGSIZE)) {
            // This way out of the host cannot cut trains, or it is narrower than their packets: one by one tells.
            too_wide_ = false;
            bool sent = send_one_by_one(pieces, count, to, segment);
            segments_ = too_wide_;
            return sent;
        }
        if (errno != EINTR)
            note_error(errno);
        if (errno == EMSGSIZE)
            return true;
    }
    return true;
}

// A pending error of an earlier packet is told by whatever call comes next, once.
void Socket::note_error(int error)
{
    if (error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH || error == EMSGSIZE)
        error_pending_ = true;
    too_wide_ |= error == EMSGSIZE;
}

bool Socket::send_one_by_one(const iovec *pieces, std::size_t count, const Address &to, std::size_t segment)
{
    constexpr std::size_t most = 64;
    iovec parts[2 * most];
    mmsghdr messages[most];
    socklen_t name_size = 0;
    sockaddr_storage name = kernel_address(to, &name_size);
    std::size_t made = 0, part = 0, piece = 0, begin = 0;
    while (made < most && piece < count) {
        mmsghdr &message = messages[made++];
        message = {};
        message.msg_hdr.msg_name = &name;
        message.msg_hdr.msg_namelen = name_size;
        message.msg_hdr.msg_iov = &parts[part];
        for (std::size_t left = segment; left > 0 && piece < count && part < 2 * most;) {
            std::size_t size = std::min(left, pieces[piece].iov_len - begin);
            parts[part++] = {static_cast<std::byte *>(pieces[piece].iov_base) + begin, size};
            ++message.msg_hdr.msg_iovlen;
            left -= size;
            begin += size;
            if (begin == pieces[piece].iov_len) {
                ++piece;
                begin = 0;
            }
        }
    }
    std::size_t sent = 0;
    for (unsigned failures = 0; sent < made && failures < 3;) {
        int result = sendmmsg(descriptor(), messages + sent, static_cast<unsigned>(made - sent), MSG_DONTWAIT);
        if (result > 0) {
            sent += static_cast<std::size_t>(result);
            continue;
        }
        if (is_full(errno)) {
            keep(pieces, count, to, segment, sent * segment);
            return false;
        }
        note_error(errno);
        ++failures;
    }
    return true;
}

void Socket::keep(const iovec *pieces, std::size_t count, const Address &to, std::size_t segment, std::size_t skip)
{
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < count; ++i) {
        auto piece = static_cast<const std::byte *>(pieces[i].iov_base);
        std::size_t left_out = std::min(skip, pieces[i].iov_len);
        skip -= left_out;
        bytes.insert(bytes.end(), piece + left_out, piece + pieces[i].iov_len);
    }
    kept_ = std::move(bytes);
    kept_to_ = to;
    kept_segment_ = segment;
}

// ---- receiving ----

// One datagram, or several that were joined. False when there is none.
bool Socket::receive_single()
{
    sockaddr_storage name;
    socklen_t name_size = sizeof name;
    auto size = syscall(SYS_recvfrom, descriptor(), buffers_.get(), buffer_size, MSG_DONTWAIT, &name, &name_size);
    if (size < 0) {
        note_error(errno);
        return false;
    }
    auto bytes = static_cast<std::size_t>(size);
    arrivals_[0] = {bytes, segment_of(buffers_.get(), bytes), our_address(name)};
    return true;
}

void Socket::receive_batch()
{
    // Where two have come in a row there may be more. While nothing comes, or one by one, the simpler call is the faster one.
    successes_ = arrived_ > 0 ? successes_ + 1 : 0;
    if (successes_ <= 1) {
        arrived_ = receive_single();
        return;
    }
    mmsghdr messages[batch];
    iovec pieces[batch];
    sockaddr_storage names[batch];
    for (unsigned i = 0; i < batch; ++i) {
        pieces[i] = {buffers_.get() + i * buffer_size, buffer_size};
        msghdr &message = messages[i].msg_hdr;
        message = {};
        message.msg_name = &names[i];
        message.msg_namelen = sizeof names[i];
        message.msg_iov = &pieces[i];
        message.msg_iovlen = 1;
    }
    int result = recvmmsg(descriptor(), messages, batch, MSG_DONTWAIT, nullptr);
    if (result < 0)
        note_error(errno);
    arrived_ = static_cast<unsigned>(std::max(result, 0));
    for (unsigned i = 0; i < arrived_; ++i) {
        std::size_t size = messages[i].msg_len;
        arrivals_[i] = {size, segment_of(pieces[i].iov_base, size), our_address(names[i])};
    }
}

unsigned Socket::receive_expected(const Endpoint::Expected &expected)
{
    // Headers here, bodies where they belong, and what is left over into the second buffer.
    iovec pieces[2 * expected_limit + 1];
    std::size_t body = expected.body_size;
    std::size_t count = 0, covered = 0;
    std::size_t most = std::min(expected_limit, buffer_size / (sizeof(Header) + body) + 1);  // the kernel joins no more than a buffer holds
    for (; count < most && covered < expected.place.size(); ++count) {
        std::size_t size = std::min(body, expected.place.size() - covered);
        pieces[2 * count] = {&headers_[count], sizeof(Header)};
        pieces[2 * count + 1] = {expected.place.data() + covered, size};
        covered += size;
    }
    pieces[2 * count] = {buffers_.get() + buffer_size, buffer_size};
    msghdr message{};
    sockaddr_storage name;
    message.msg_name = &name;
    message.msg_namelen = sizeof name;
    message.msg_iov = pieces;
    message.msg_iovlen = 2 * count + 1;
    ssize_t result = receive_message(descriptor(), &message);
    arrived_ = 0;
    if (result < 0) {
        note_error(errno);
        return 0;
    }
    auto size = static_cast<std::size_t>(result);
    arrivals_[0] = {size, segment_of(&headers_[0], size), our_address(name)};

    // As expected: datagrams of that size, in that order, of that message; the last one may be shorter.
    std::size_t full = sizeof(Header) + body;
    std::size_t datagrams = (size + full - 1) / full;
    bool fulfilled = size > 0 && datagrams <= count && size - datagrams * sizeof(Header) <= expected.place.size() &&
                     (datagrams == 1 ? size <= full : arrivals_[0].segment == full) &&
                     size - (datagrams - 1) * full > sizeof(Header);
    for (std::size_t i = 0; fulfilled && i < datagrams; ++i) {
        const Header &header = headers_[i];
        fulfilled = header.kind() == Kind::data && header.to == expected.first.to &&
                    header.sequence == expected.first.sequence + i && header.fragment == expected.first.fragment + i &&
                    header.offset == expected.first.offset + i * body;
    }
    if (fulfilled)
        return static_cast<unsigned>(datagrams);
    std::size_t copied = 0;
    for (std::size_t i = 0; copied < size; ++i) {
        std::size_t part = std::min(pieces[i].iov_len, size - copied);
        std::memcpy(buffers_.get() + copied, pieces[i].iov_base, part);
        copied += part;
    }
    arrived_ = 1;
    return 0;
}

bool Socket::readable() const
{
    pollfd entry{descriptor(), POLLIN, 0};
    return poll(&entry, 1, 0) > 0;
}

bool Socket::next_trouble(Trouble *trouble)
{
    while (true) {
        msghdr message{};
        sockaddr_storage name{};
        char control[512];
        Header quoted;
        iovec piece{&quoted, sizeof quoted};
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        message.msg_name = &name;
        message.msg_namelen = sizeof name;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        ssize_t size = recvmsg(descriptor(), &message, MSG_ERRQUEUE | MSG_DONTWAIT);
        if (size < 0)
            return false;
        for (cmsghdr *header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
            bool error = (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR) ||
                         (header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_RECVERR);
            sock_extended_err what{};
            if (error)
                std::memcpy(&what, CMSG_DATA(header), sizeof what);
            Address to = our_address(name);
            std::size_t around = to.is_v4() ? 28 : 48;  // what IP and UDP add
            bool too_wide = what.ee_errno == EMSGSIZE && what.ee_info > around;
            bool told_by_us = what.ee_origin == SO_EE_ORIGIN_LOCAL;
            bool has_quote = size == static_cast<ssize_t>(sizeof quoted);
            if ((too_wide && (told_by_us || has_quote)) || (what.ee_errno == ECONNREFUSED && has_quote)) {
                *trouble = {to, too_wide ? what.ee_info - around : 0, {}};
                if (!told_by_us)
                    trouble->quoted = quoted;
                return true;
            }
        }
    }
}

}  // namespace pm::udp
