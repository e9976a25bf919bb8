#include "inspector/doctor/reach.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace pm::inspector {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds patience{2};  // TCP asks again after one
constexpr std::chrono::milliseconds again{100};  // a datagram may be lost

struct Word {
    std::array<char, 8> what = {'d', 'o', 'c', 't', 'o', 'r', ' ', '1'};
    std::uint64_t secret = 0;  // of who listens
    std::uint64_t asker = 0;   // of who asks

    bool is_for(std::uint64_t listener) const { return what == Word{}.what && secret == listener; }
};
static_assert(sizeof(Word) == 24);

struct KernelAddress {
    sockaddr_storage storage{};
    socklen_t size = 0;
};

KernelAddress kernel_address(const Ip &ip, std::uint16_t port, bool v6)
{
    KernelAddress address;
    if (v6) {
        auto *to = reinterpret_cast<sockaddr_in6 *>(&address.storage);
        to->sin6_family = AF_INET6;
        to->sin6_port = htons(port);
        std::memcpy(&to->sin6_addr, ip.data(), ip.size());
        address.size = sizeof *to;
    } else {
        auto *to = reinterpret_cast<sockaddr_in *>(&address.storage);
        to->sin_family = AF_INET;
        to->sin_port = htons(port);
        std::memcpy(&to->sin_addr, ip.data() + 12, 4);
        address.size = sizeof *to;
    }
    return address;
}

const sockaddr *as_sockaddr(const KernelAddress &address)
{
    return reinterpret_cast<const sockaddr *>(&address.storage);
}

File make_socket(int type, bool v6)
{
    File file(socket(v6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int off = 0;
    if (v6 && file.get() >= 0)
        setsockopt(file.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return file;
}

// The port, or 0 when none of the range is free.
std::uint16_t bind_in(int file, udp::PortRange range, bool v6)
{
    for (unsigned port = range.first; port <= range.last; ++port) {
        KernelAddress any = kernel_address(v6 ? Ip{} : ip_from_v4({0, 0, 0, 0}), static_cast<std::uint16_t>(port), v6);
        if (bind(file, as_sockaddr(any), any.size) != 0)
            continue;
        getsockname(file, reinterpret_cast<sockaddr *>(&any.storage), &any.size);
        return ntohs(v6 ? reinterpret_cast<const sockaddr_in6 *>(&any.storage)->sin6_port
                        : reinterpret_cast<const sockaddr_in *>(&any.storage)->sin_port);
    }
    return 0;
}

std::string why(int error)
{
    return error == ECONNREFUSED ? "the port is refused, though somebody listens there" : std::strerror(error);
}

const std::string silence = "no answer within " + std::to_string(patience.count()) + " s";

// A connection under way.
struct Attempt {
    std::size_t target;
    File file;
    std::string trouble;  // when it has ended
};

}  // namespace

Result<Reach> Reach::create(udp::PortRange ports_of_tcp, udp::PortRange ports_of_udp)
{
    Reach reach;
    reach.ports_of_udp_ = ports_of_udp;
    if (getrandom(&reach.secret_, sizeof reach.secret_, 0) != sizeof reach.secret_)
        return system_error("getting random bytes", errno);
    reach.v6_ = File(socket(AF_INET6, SOCK_DGRAM, 0)).get() >= 0;
    reach.tcp_file_ = make_socket(SOCK_STREAM, reach.v6_);
    reach.udp_file_ = make_socket(SOCK_DGRAM, reach.v6_);
    reach.tcp_port_ = bind_in(reach.tcp_file_.get(), ports_of_tcp, reach.v6_);
    if (reach.tcp_port_ == 0 || listen(reach.tcp_file_.get(), SOMAXCONN) != 0)
        return system_error("listening for TCP", errno);
    reach.udp_port_ = bind_in(reach.udp_file_.get(), ports_of_udp, reach.v6_);
    if (reach.udp_port_ == 0)
        return system_error("listening for UDP", errno);
    return reach;
}

void Reach::answer(short tcp_events, short udp_events)
{
    Word own;
    own.secret = secret_;
    if ((tcp_events & POLLIN) != 0) {
        for (File caller; (caller = File(accept4(tcp_file_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC))).get() >= 0;)
            (void) !send(caller.get(), &own, sizeof own, MSG_NOSIGNAL);
    }
    for (ssize_t size = 0; (udp_events & POLLIN) != 0 && size >= 0;) {
        Word word;
        KernelAddress from;
        from.size = sizeof from.storage;
        size = recvfrom(udp_file_.get(), &word, sizeof word, 0, reinterpret_cast<sockaddr *>(&from.storage), &from.size);
        if (size != sizeof word || !word.is_for(secret_))
            continue;
        heard_.insert(word.asker);
        (void) !sendto(udp_file_.get(), &word, sizeof word, 0, as_sockaddr(from), from.size);
    }
}

void Reach::answer_until(int descriptor)
{
    pollfd entries[] = {{descriptor, POLLIN, 0}, {tcp_file_.get(), POLLIN, 0}, {udp_file_.get(), POLLIN, 0}};
    while (entries[0].revents == 0)
        if (poll(entries, 3, -1) > 0)
            answer(entries[1].revents, entries[2].revents);
}

std::vector<Outcome> Reach::try_all(const std::vector<Target> &targets)
{
    std::vector<Outcome> outcomes;
    for (const Target &target : targets)
        outcomes.push_back({silence, target.udp == 0 ? "" : silence});
    std::vector<Attempt> attempts;
    // Of the same ports as ranks where there is another one free: an answer is let in by the same rule as a message.
    File asking = make_socket(SOCK_DGRAM, v6_);
    if (bind_in(asking.get(), ports_of_udp_, v6_) == 0)
        (void) bind_in(asking.get(), {}, v6_);
    for (std::size_t i = 0; i < targets.size(); ++i) {
        if (targets[i].addresses.empty())
            outcomes[i] = {"it offers no address", targets[i].udp == 0 ? "" : "it offers no address"};
        for (const Ip &ip : targets[i].addresses) {
            if (!v6_ && !is_v4(ip))
                continue;
            Attempt attempt{i, make_socket(SOCK_STREAM, v6_), ""};
            KernelAddress to = kernel_address(ip, targets[i].tcp, v6_);
            if (attempt.file.get() < 0 || (connect(attempt.file.get(), as_sockaddr(to), to.size) != 0 && errno != EINPROGRESS))
                attempt.trouble = why(errno);
            attempts.push_back(std::move(attempt));
        }
    }
    auto begin = Clock::now(), next = begin;
    auto is_done = [](const Outcome &outcome) { return outcome.tcp.empty() && outcome.udp.empty(); };
    while (Clock::now() < begin + patience && !std::ranges::all_of(outcomes, is_done)) {
        if (Clock::now() >= next) {
            next += again;
            for (std::size_t i = 0; i < targets.size(); ++i)
                for (const Ip &ip : targets[i].addresses) {
                    if (!v6_ && !is_v4(ip))
                        continue;
                    Word word;
                    word.secret = targets[i].secret;
                    word.asker = secret_;
                    KernelAddress to = kernel_address(ip, targets[i].udp, v6_);
                    if (!outcomes[i].udp.empty() && sendto(asking.get(), &word, sizeof word, 0, as_sockaddr(to), to.size) < 0)
                        outcomes[i].udp = why(errno);
                }
        }
        std::vector<pollfd> entries = {{tcp_file_.get(), POLLIN, 0}, {udp_file_.get(), POLLIN, 0}, {asking.get(), POLLIN, 0}};
        for (const Attempt &attempt : attempts)
            entries.push_back({attempt.trouble.empty() ? attempt.file.get() : -1, POLLIN, 0});
        if (poll(entries.data(), entries.size(), static_cast<int>(again.count())) <= 0)
            continue;
        answer(entries[0].revents, entries[1].revents);
        Word word;
        if ((entries[2].revents & POLLIN) != 0 && recv(asking.get(), &word, sizeof word, 0) == sizeof word)
            for (std::size_t i = 0; i < targets.size(); ++i)
                if (word.is_for(targets[i].secret))
                    outcomes[i].udp.clear();
        for (std::size_t i = 0; i < attempts.size(); ++i) {
            if (entries[3 + i].revents == 0)
                continue;
            Attempt &attempt = attempts[i];
            ssize_t size = recv(attempt.file.get(), &word, sizeof word, 0);
            bool meant = size == sizeof word && word.is_for(targets[attempt.target].secret);
            attempt.trouble = meant ? "answered" : size < 0 ? why(errno) : "somebody else answers";
            if (meant)
                outcomes[attempt.target].tcp.clear();
        }
    }
    // What the kernel said tells more than silence.
    for (const Attempt &attempt : attempts)
        if (!outcomes[attempt.target].tcp.empty() && !attempt.trouble.empty())
            outcomes[attempt.target].tcp = attempt.trouble;
    return outcomes;
}

}  // namespace pm::inspector
