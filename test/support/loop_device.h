// PM(loop): a device that exists only here. It carries messages of a process to itself through a queue, so that tests decide what
// happens on its networks: what LoopNetwork says.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "base/time.h"
#include "netmod/core/links.h"
#include "pm/device.h"

namespace pm::test {

struct LoopNetwork {
    std::string name;
    int priority = 100;
    bool refuses = false;       // whoever is to be connected
    Status answer = Status::ok;  // of every send
    std::optional<Ip> address = {};  // of this host there
    bool is_able = false;            // it takes offers, and reads and writes memory by itself

    unsigned connected = 0, disconnected = 0, carried = 0, polled = 0, slept = 0;
    // Of one that is able.
    bool needs_nobody = true, is_finished = true;
    unsigned put = 0, got = 0, added = 0;
    std::vector<void *> offered = {};  // their cookies
    // Of one with an address.
    bool is_used = false;
    unsigned asked = 0;
};

class LoopDevice {
  public:
    struct Peer {
        Error error;
        std::array<std::byte, 4096> nothing{};  // who takes it for a peer of another device finds zeroes there, and nothing of others
    };
    static constexpr std::size_t whole_limit = 1 << 20;

    LoopDevice(LoopNetwork *network, const Sink &sink) : network_(network), sink_(sink), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

    const char *name() const { return "loop"; }
    Capabilities capabilities() const { return {1000}; }
    std::size_t write_card(void *card) const
    {
        std::memcpy(card, network_->name.data(), network_->name.size());
        return network_->name.size();
    }
    Result<Peer *> connect(const void *card, std::size_t size)
    {
        if (network_->refuses || std::string(static_cast<const char *>(card), size) != network_->name)
            return Error{Status::unreachable, "loop: a card that is refused"};
        network_->connected++;
        return new Peer;
    }
    void disconnect(Peer *peer)
    {
        network_->disconnected++;
        delete peer;
    }
    // Whoever sends here is ourselves.
    void introduce(const void *, std::size_t, pm_peer *source) { source_ = source; }

    Status try_send(Peer *peer, const Message &message, SendProgress *progress)
    {
        if (network_->answer != Status::ok) {
            if (network_->answer != Status::again)
                peer->error = {network_->answer, "loop: " + network_->name + " does not lead there"};
            return network_->answer;
        }
        Sent &sent = queue_.emplace_back(Sent{message.tag, std::vector<std::byte>(message.header_size),
                                              std::vector<std::byte>(message.payload.size)});
        message.copy_header_to(sent.header.data());
        message.payload.copy_to(sent.payload.data(), 0, message.payload.size);
        progress->started = true;
        progress->sent = message.payload.size;
        std::uint64_t one = 1;
        if (write(wake_.get(), &one, sizeof one) < 0)
            return Status::failed;
        return Status::ok;
    }
    bool try_send_whole(Peer *peer, const Message &message)
    {
        SendProgress progress;
        return network_->answer == Status::ok && try_send(peer, message, &progress) == Status::ok;
    }
    unsigned poll()
    {
        network_->polled++;
        std::uint64_t count = 0;
        if (read(wake_.get(), &count, sizeof count) < 0)
            count = 0;
        unsigned done = 0;
        for (; !queue_.empty(); ++done) {
            Sent sent = std::move(queue_.front());
            queue_.pop_front();
            network_->carried++;
            sink_.arrived(sink_.context, {source_, sent.header.data(), sent.header.size(), sent.tag}, sent.payload.data(), sent.payload.size(),
                          sent.payload.size());
        }
        return done;
    }
    const Error *failure() const { return nullptr; }

    bool arm() { return queue_.empty(); }
    void sleep(std::chrono::nanoseconds limit)
    {
        pollfd entry{descriptor(), POLLIN, 0};
        timespec time = to_timespec(limit);
        ppoll(&entry, 1, &time, nullptr);
    }
    void disarm() {}
    int descriptor() const
    {
        network_->slept++;
        return wake_.get();
    }

  private:
    struct Sent {
        std::uint8_t tag;
        std::vector<std::byte> header, payload;
    };
    LoopNetwork *network_;
    Sink sink_;
    pm_peer *source_ = nullptr;
    File wake_;
    std::deque<Sent> queue_;
};
static_assert(Device<LoopDevice> && SleptOn<LoopDevice>);

// The same with a host behind it that it hears nothing from.
class WatchedLoopDevice : public LoopDevice {
  public:
    WatchedLoopDevice(LoopNetwork *network, const Sink &sink) : LoopDevice(network, sink), network_(network) {}
    bool in_use(const Peer *) const { return network_->is_used; }
    void ask(Peer *) { network_->asked++; }
    void give_up(Peer *peer, const std::string &why) { peer->error = {Status::unreachable, why}; }

  private:
    LoopNetwork *network_;
};
static_assert(Watched<WatchedLoopDevice>);

// The same as a network may be that does more by itself. Who is reached is this process: an address of it is one of ours.
class AbleLoopDevice : public LoopDevice {
  public:
    AbleLoopDevice(LoopNetwork *network, const Sink &sink) : LoopDevice(network, sink), network_(network) {}

    struct Memory {
        std::vector<std::byte> key;
    };
    struct RemoteMemory {
        Peer *peer = nullptr;
        std::vector<std::byte> key;
    };
    Result<Memory> register_memory(void *, std::size_t) { return Memory{std::vector<std::byte>(8)}; }
    void release(Memory *) {}
    void release(RemoteMemory *) {}
    Status put(RemoteMemory *, std::uint64_t address, const void *data, std::size_t size)
    {
        std::memcpy(reinterpret_cast<void *>(address), data, size);
        network_->put++;
        return Status::ok;
    }
    Status get(RemoteMemory *, std::uint64_t address, void *data, std::size_t size)
    {
        std::memcpy(data, reinterpret_cast<const void *>(address), size);
        network_->got++;
        return Status::ok;
    }
    Status add_behind(RemoteMemory *, std::uint64_t address, std::uint32_t value)
    {
        __atomic_fetch_add(reinterpret_cast<std::uint32_t *>(address), value, __ATOMIC_RELEASE);
        network_->added++;
        return Status::ok;
    }
    bool finished() { return network_->is_finished; }
    bool writes_by_itself() const { return network_->needs_nobody; }

    Status offer(Peer *, const Message &, void *cookie)
    {
        if (network_->answer == Status::ok)
            network_->offered.push_back(cookie);
        return network_->answer;
    }

  private:
    LoopNetwork *network_;
};
static_assert(OneSided<AbleLoopDevice> && Offers<AbleLoopDevice>);

// Among the devices of the core for as long as it lives: a channel for each of its networks.
class LoopNetworks {
  public:
    explicit LoopNetworks(std::vector<LoopNetwork> networks) : networks_(std::move(networks))
    {
        current_ = this;
        devices().push_back(open);
    }
    ~LoopNetworks()
    {
        std::erase(devices(), open);
        current_ = nullptr;
    }
    LoopNetworks(const LoopNetworks &) = delete;
    LoopNetworks &operator=(const LoopNetworks &) = delete;

    LoopNetwork &operator[](std::size_t i) { return networks_[i]; }

    static constexpr auto kind = static_cast<DeviceKind>(77);

  private:
    static Error open(const Opening &opening)
    {
        std::size_t number = channels_max - current_->networks_.size();
        std::uint64_t id = 7000;
        for (LoopNetwork &each : current_->networks_) {
            LocalNetwork local{{id++, kind_of(each), each.priority, each.name}, {}, {}};
            if (each.address)
                local.addresses.push_back({*each.address});
            opening.links.networks.push_back({local, add(opening, &each, number)});
            ++number;
        }
        return {};
    }
    static Channel *add(const Opening &opening, LoopNetwork *network, std::size_t number)
    {
        const Sink &sink = opening.sinks[number];
        if (network->is_able)
            return opening.links.add(kind_of(*network), number, std::make_unique<AbleLoopDevice>(network, sink));
        return network->address ? opening.links.add(kind, number, std::make_unique<WatchedLoopDevice>(network, sink))
                                : opening.links.add(kind, number, std::make_unique<LoopDevice>(network, sink));
    }
    // Cards tell what a network can do by the kind of its device.
    static DeviceKind kind_of(const LoopNetwork &network) { return network.is_able ? DeviceKind::ucx : kind; }

    inline static LoopNetworks *current_ = nullptr;
    std::vector<LoopNetwork> networks_;
};

}  // namespace pm::test
