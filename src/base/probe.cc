#include "base/probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace pm {
namespace {

constexpr std::uint16_t discard_port = 9;

// 0 when it is under way.
int connect_to(int socket, const Ip &address)
{
    sockaddr_in6 v6{};
    sockaddr_in v4{};
    if (is_v4(address)) {
        v4.sin_family = AF_INET;
        v4.sin_port = htons(discard_port);
        std::memcpy(&v4.sin_addr, address.data() + 12, 4);
    } else {
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(discard_port);
        std::memcpy(&v6.sin6_addr, address.data(), 16);
    }
    int result = is_v4(address) ? connect(socket, reinterpret_cast<sockaddr *>(&v4), sizeof v4)
                                : connect(socket, reinterpret_cast<sockaddr *>(&v6), sizeof v6);
    return result == 0 || errno == EINPROGRESS ? 0 : errno;
}

Probe::Answer meaning(int error)
{
    return error == 0 || error == ECONNREFUSED || error == ECONNRESET ? Probe::Answer::reached : Probe::Answer::silent;
}

}  // namespace

Probe::Answer Probe::ask(const Ip &address, Time now)
{
    if (begin_ == never)
        begin_ = now;
    if (answer_ != Answer::none_yet || now - begin_ < patience_)
        return answer_;
    if (asked_ == never) {
        asked_ = now;
        socket_ = File(socket(is_v4(address) ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (socket_.get() < 0)
            return answer_ = Answer::reached;  // nothing is known against it
        if (int error = connect_to(socket_.get(), address); error != 0)
            return answer_ = meaning(error);
    }
    pollfd entry{socket_.get(), POLLOUT, 0};
    if (poll(&entry, 1, 0) > 0) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        answer_ = meaning(error);
    } else if (now - asked_ > limit) {
        answer_ = Answer::silent;
    }
    if (answer_ != Answer::none_yet)
        socket_ = File();
    return answer_;
}

}  // namespace pm
