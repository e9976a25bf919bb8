// In place of ucx.h where UCX is not built in: a device that is never made.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/status.h"
#include "pm/device.h"

namespace pm::ucx {

struct Settings {
    std::string devices;
};

struct Peer {
    Error error;
};

class Ucx {
  public:
    using Peer = ucx::Peer;

    static Result<std::unique_ptr<Ucx>> create(const Settings &, const Sink &)
    {
        return Error{Status::unreachable, "ucx: not built in, because configure found no UCX (Debian: libucx-dev)"};
    }
    const char *name() const { return "ucx"; }
    Capabilities capabilities() const { std::abort(); }
    std::size_t write_card(void *) const { std::abort(); }
    Result<Peer *> connect(const void *, std::size_t) { std::abort(); }
    void disconnect(Peer *) { std::abort(); }
    void introduce(const void *, std::size_t, pm_peer *) { std::abort(); }
    Status try_send(Peer *, const Message &, SendProgress *) { std::abort(); }
    bool try_send_whole(Peer *, const Message &) { std::abort(); }
    unsigned poll() { std::abort(); }
    bool arm() { std::abort(); }
    void sleep(std::chrono::nanoseconds) { std::abort(); }
    void disarm() {}
    const Error *failure() const { std::abort(); }

    static constexpr std::size_t whole_limit = 16384;
};

static_assert(Device<Ucx>);

}  // namespace pm::ucx
