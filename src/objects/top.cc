#include "top.hh"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime.hh"

namespace composite {

// The variable has HOST PORT TOKEN.
std::unique_ptr<Reporter> Reporter::start(const Runtime &runtime)
{
    const char *wanted = std::getenv("COMPOSITE_OBJECTS_TOP");
    static char host[256], port[16], token[64];
    if (wanted == nullptr || std::sscanf(wanted, "%255s %15s %63s", host, port, token) != 3)
        return nullptr;
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_DGRAM;
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return nullptr;
    const int socket = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool connected = socket >= 0 && connect(socket, found->ai_addr, found->ai_addrlen) == 0;
    freeaddrinfo(found);
    if (!connected) {
        if (socket >= 0)
            close(socket);
        return nullptr;
    }
    return std::unique_ptr<Reporter>(new Reporter(runtime, socket, token));
}

Reporter::Reporter(const Runtime &runtime, int socket, const char *token) : runtime_(runtime), socket_(socket), token_(token)
{
    thread_ = std::thread([this] {
        std::unique_lock lock(mutex_);
        do
            tell("running");
        while (!ending_.wait_for(lock, std::chrono::milliseconds(500), [this] { return end_; }));
    });
}

Reporter::~Reporter()
{
    {
        std::lock_guard lock(mutex_);
        end_ = true;
    }
    ending_.notify_one();
    thread_.join();
    tell("ended");
    close(socket_);
}

void Reporter::tell(const char *state)
{
    const Runtime::Counts counts = runtime_.counts();
    char line[256];
    const int length =
        std::snprintf(line, sizeof line, "%s %d %d %s %lld %lld %lld %lld %lld\n", token_, runtime_.rank(), runtime_.size(), state,
                      static_cast<long long>(counts.objects), static_cast<long long>(counts.queued), static_cast<long long>(counts.ran),
                      static_cast<long long>(counts.sent), static_cast<long long>(counts.received));
    // Lost when nobody listens any more, which is nothing to this program.
    [[maybe_unused]] const auto sent = send(socket_, line, static_cast<std::size_t>(length), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace composite
