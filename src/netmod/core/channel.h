// A device that this process has opened, as the core sees it, whatever its type: the only file that dispatches. ChannelOf makes a channel
// of anything that fulfils the contract (pm/device.h), and says of each capability whether the device has it. What it does
// not have is never called.
//
// SHMEM counts nanoseconds: Connection and Links::poll_direct() call it without a virtual function.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/gate.h"
#include "base/status.h"
#include "base/time.h"
#include "netmod/core/core.h"
#include "netmod/routing/rule.h"
#include "pm/device.h"
#include "shmmod/shmem.h"

namespace pm {

// ---- what not every channel has. `peer` is always one that Channel::connect() answered with. ----

class Watching {
  public:
    virtual ~Watching() = default;
    virtual bool in_use(const void *peer) = 0;
    virtual void ask(void *peer) = 0;
    virtual void give_up(void *peer, const std::string &why) = 0;
};

class Offering {
  public:
    virtual ~Offering() = default;
    virtual Status offer(void *peer, const Message &message, void *cookie) = 0;
};

class SharedMemory {
  public:
    virtual ~SharedMemory() = default;
    virtual bool is_beside(std::span<const std::byte> card) = 0;
    virtual bool peer_can_pull(const void *peer) = 0;
    virtual bool prepare(void *peer) = 0;
    virtual bool pull(void *peer, std::uint64_t address, const iovec *pieces, std::size_t count) = 0;
    virtual std::uint32_t open_joint(void *peer, std::size_t size) = 0;
    virtual bool pull_joint(void *peer, std::uint32_t number, std::uint64_t address, void *place, std::size_t size) = 0;
    virtual void help_joint(void *peer, std::uint32_t number, const void *data, std::uint64_t place, std::size_t size) = 0;
    virtual bool read_memory(const void *peer, std::uint64_t address, void *data, std::size_t size) = 0;
    virtual bool write_memory(const void *peer, std::uint64_t address, const void *data, std::size_t size) = 0;
    virtual bool read_pieces(const void *peer, const iovec *here, const iovec *there, std::size_t count) = 0;
    virtual bool write_pieces(const void *peer, const iovec *here, const iovec *there, std::size_t count) = 0;
    virtual void *allocate(std::size_t size) = 0;
    virtual void free(void *block) = 0;
    virtual void *allocate_mapped(std::size_t size, std::size_t at_once) = 0;
    virtual bool free_mapped(void *block) = 0;
    virtual void *view(void *peer, std::uint64_t address, std::size_t size) = 0;
    virtual void ring_at(void *peer) = 0;
    virtual bool may_sleep(const void *peer) = 0;
    virtual bool has_ended(const void *peer) = 0;
    virtual CoreGrant grant_of(const void *peer) = 0;
    virtual std::size_t in_use() = 0;
};

// Memory of this process as peers may use it over one channel; given back in the end.
class Registration {
  public:
    virtual ~Registration() = default;
    virtual std::span<const std::byte> key() const = 0;  // what a peer needs for it
};
// The same at a peer.
class Remote {
  public:
    virtual ~Remote() = default;
    virtual bool is_of(const void *peer) const = 0;
    virtual Status put(std::uint64_t address, const void *data, std::size_t size) = 0;
    virtual Status get(std::uint64_t address, void *data, std::size_t size) = 0;
    virtual Status add_behind(std::uint64_t address, std::uint32_t value) = 0;
};
class RemoteAccess {
  public:
    virtual ~RemoteAccess() = default;
    virtual std::unique_ptr<Registration> register_memory(void *base, std::size_t size) = 0;  // null when it cannot be
    virtual std::unique_ptr<Remote> open(void *peer, std::span<const std::byte> key) = 0;
    virtual bool finished() = 0;
    virtual bool writes_by_itself() const = 0;
};

// ---- what each has ----

class Channel {
  public:
    virtual ~Channel() = default;
    Channel(const Channel &) = delete;
    Channel &operator=(const Channel &) = delete;

    const DeviceKind kind;      // what cards, routes and reports call the device; no reason to do anything
    const std::uint8_t number;  // of the channel, in this process
    const char *const name;
    const Capabilities capabilities;
    const bool keeps;        // what it has accepted, so that it must be polled until idle()
    const bool names_peers;  // in its errors, by the label that it is given
    // Null where the device cannot.
    const std::unique_ptr<Watching> watching;
    const std::unique_ptr<Offering> offering;
    const std::unique_ptr<SharedMemory> shared;
    const std::unique_ptr<RemoteAccess> remote_access;
    shmem::Shmem *const direct;  // what is called without a virtual function

    // When it is polled: receiving.cc.
    bool has_peers = false;
    std::uint32_t skipped = 0;
    // Whether somebody may come over it, so that it is slept on.
    bool is_awaited() const { return has_peers || capabilities.quick_poll; }

    Gate &gate() { return gate_; }  // for one send: state.h

    virtual std::vector<std::byte> card() const = 0;
    virtual Result<void *> connect(std::span<const std::byte> card, const std::string &label) = 0;
    virtual void prefer(void *peer, const Ip &address) = 0;
    virtual void disconnect(void *peer) = 0;
    virtual void let_go(void *peer) = 0;
    virtual void renew(void *peer) = 0;
    virtual void introduce(std::span<const std::byte> card, pm_peer *source) = 0;
    virtual const Error &error_of(const void *peer) const = 0;

    virtual Status try_send(void *peer, const Message &message, SendProgress *progress) = 0;
    virtual bool try_send_whole(void *peer, const Message &message) = 0;
    virtual std::size_t ungranted_limit(void *peer) = 0;
    virtual unsigned poll() = 0;
    virtual const Error *failure() const = 0;
    virtual bool idle() = 0;
    virtual bool transferring() const = 0;

    virtual bool arm() = 0;
    virtual void sleep(Time limit) = 0;
    virtual void disarm() = 0;
    // To sleep on several: open_descriptor() once there are, the others before and after each sleep.
    virtual void open_descriptor() = 0;
    virtual int descriptor() const = 0;  // negative: none
    virtual Time sleep_limit() const = 0;
    virtual void empty_descriptor() = 0;

    virtual std::optional<PacketCounts> packets() = 0;
    virtual bool look_after_peers(Time now) = 0;  // false: one is lost, and failure() tells
    virtual void leave() = 0;

  protected:
    template <Device D>
    Channel(DeviceKind kind, std::uint8_t number, D *device);

  private:
    Gate own_gate_;  // where the device has none
    Gate &gate_;
};

// ---- made of a device ----

template <Watched D>
class WatchingOf final : public Watching {
  public:
    explicit WatchingOf(D *device) : device_(device) {}
    bool in_use(const void *peer) override { return device_->in_use(static_cast<const typename D::Peer *>(peer)); }
    void ask(void *peer) override { device_->ask(static_cast<typename D::Peer *>(peer)); }
    void give_up(void *peer, const std::string &why) override { device_->give_up(static_cast<typename D::Peer *>(peer), why); }

  private:
    D *device_;
};

template <Offers D>
class OfferingOf final : public Offering {
  public:
    explicit OfferingOf(D *device) : device_(device) {}
    Status offer(void *peer, const Message &message, void *cookie) override
    {
        return device_->offer(static_cast<typename D::Peer *>(peer), message, cookie);
    }

  private:
    D *device_;
};

template <SharesMemory D>
class SharedMemoryOf final : public SharedMemory {
  public:
    explicit SharedMemoryOf(D *device) : device_(device) {}
    bool is_beside(std::span<const std::byte> card) override { return device_->is_beside(card.data(), card.size()); }
    bool peer_can_pull(const void *peer) override { return device_->peer_can_pull(of(peer)); }
    bool prepare(void *peer) override { return device_->prepare(of(peer)) == Status::ok; }
    bool pull(void *peer, std::uint64_t address, const iovec *pieces, std::size_t count) override
    {
        return device_->pull(of(peer), address, pieces, count);
    }
    std::uint32_t open_joint(void *peer, std::size_t size) override { return device_->open_joint(of(peer), size); }
    bool pull_joint(void *peer, std::uint32_t number, std::uint64_t address, void *place, std::size_t size) override
    {
        return device_->pull_joint(of(peer), number, address, place, size);
    }
    void help_joint(void *peer, std::uint32_t number, const void *data, std::uint64_t place, std::size_t size) override
    {
        device_->help_joint(of(peer), number, data, place, size);
    }
    bool read_memory(const void *peer, std::uint64_t address, void *data, std::size_t size) override
    {
        return device_->read_memory(of(peer), address, data, size);
    }
    bool write_memory(const void *peer, std::uint64_t address, const void *data, std::size_t size) override
    {
        return device_->write_memory(of(peer), address, data, size);
    }
    bool read_pieces(const void *peer, const iovec *here, const iovec *there, std::size_t count) override
    {
        return device_->read_pieces(of(peer), here, there, count);
    }
    bool write_pieces(const void *peer, const iovec *here, const iovec *there, std::size_t count) override
    {
        return device_->write_pieces(of(peer), here, there, count);
    }
    void *allocate(std::size_t size) override { return device_->allocate_shared(size); }
    void *allocate_mapped(std::size_t size, std::size_t at_once) override { return device_->allocate_mapped(size, at_once); }
    bool free_mapped(void *block) override { return device_->free_mapped(block); }
    void free(void *block) override { device_->free_shared(block); }
    void *view(void *peer, std::uint64_t address, std::size_t size) override { return device_->view(of(peer), address, size); }
    void ring_at(void *peer) override { device_->ring_at(of(peer)); }
    bool may_sleep(const void *peer) override { return device_->may_sleep(of(peer)); }
    bool has_ended(const void *peer) override { return device_->has_ended(of(peer)); }
    CoreGrant grant_of(const void *peer) override { return device_->grant_of(of(peer)); }
    std::size_t in_use() override { return device_->memory_in_use(); }

  private:
    static typename D::Peer *of(void *peer) { return static_cast<typename D::Peer *>(peer); }
    static const typename D::Peer *of(const void *peer) { return static_cast<const typename D::Peer *>(peer); }

    D *device_;
};

template <OneSided D>
class RemoteAccessOf final : public RemoteAccess {
  public:
    explicit RemoteAccessOf(D *device) : device_(device) {}
    std::unique_ptr<Registration> register_memory(void *base, std::size_t size) override
    {
        auto memory = device_->register_memory(base, size);
        return memory.ok() ? std::make_unique<Here>(device_, std::move(memory.value())) : nullptr;
    }
    std::unique_ptr<Remote> open(void *peer, std::span<const std::byte> key) override
    {
        return std::make_unique<There>(device_, static_cast<typename D::Peer *>(peer), key);
    }
    bool finished() override { return device_->finished(); }
    bool writes_by_itself() const override { return device_->writes_by_itself(); }

  private:
    struct Here final : Registration {
        Here(D *device_, typename D::Memory &&memory_) : device(device_), memory(std::move(memory_)) {}
        ~Here() override { device->release(&memory); }
        std::span<const std::byte> key() const override { return memory.key; }

        D *device;
        typename D::Memory memory;
    };
    struct There final : Remote {
        There(D *device_, typename D::Peer *peer, std::span<const std::byte> key) : device(device_)
        {
            memory.peer = peer;
            memory.key.assign(key.begin(), key.end());
        }
        ~There() override { device->release(&memory); }
        bool is_of(const void *peer) const override { return memory.peer == peer; }
        Status put(std::uint64_t address, const void *data, std::size_t size) override { return device->put(&memory, address, data, size); }
        Status get(std::uint64_t address, void *data, std::size_t size) override { return device->get(&memory, address, data, size); }
        Status add_behind(std::uint64_t address, std::uint32_t value) override { return device->add_behind(&memory, address, value); }

        D *device;
        typename D::RemoteMemory memory;
    };

    D *device_;
};

template <Device D>
class ChannelOf final : public Channel {
  public:
    ChannelOf(DeviceKind kind, std::uint8_t number, std::unique_ptr<D> device)
        : Channel(kind, number, device.get()), device_(std::move(device))
    {
        static_assert(PM_SEND_NOW_LIMIT <= D::whole_limit);
    }

    std::vector<std::byte> card() const override
    {
        std::byte bytes[max_card_size];
        return {bytes, bytes + device_->write_card(bytes)};
    }
    Result<void *> connect(std::span<const std::byte> card, const std::string &label) override
    {
        auto connected = device_->connect(card.data(), card.size());
        if (!connected.ok())
            return connected.error();
        if constexpr (NamesPeers<D>)
            connected.value()->label = label;
        return static_cast<void *>(connected.value());
    }
    void prefer([[maybe_unused]] void *peer, [[maybe_unused]] const Ip &address) override
    {
        if constexpr (PrefersAddress<D>)
            device_->prefer(of(peer), address);
    }
    void disconnect(void *peer) override { device_->disconnect(of(peer)); }
    void let_go([[maybe_unused]] void *peer) override
    {
        if constexpr (LetsGo<D>)
            device_->let_go(of(peer));
    }
    void renew([[maybe_unused]] void *peer) override
    {
        if constexpr (LetsGo<D>)
            device_->renew(of(peer));
    }
    void introduce(std::span<const std::byte> card, pm_peer *source) override { device_->introduce(card.data(), card.size(), source); }
    const Error &error_of(const void *peer) const override { return static_cast<const typename D::Peer *>(peer)->error; }

    Status try_send(void *peer, const Message &message, SendProgress *progress) override
    {
        return device_->try_send(of(peer), message, progress);
    }
    bool try_send_whole(void *peer, const Message &message) override { return device_->try_send_whole(of(peer), message); }
    std::size_t ungranted_limit([[maybe_unused]] void *peer) override
    {
        if constexpr (SendsUngranted<D>)
            return device_->ungranted_limit(of(peer));
        return 0;
    }
    unsigned poll() override { return device_->poll(); }
    const Error *failure() const override { return device_->failure(); }
    bool idle() override
    {
        if constexpr (Keeps<D>)
            return device_->idle();
        return true;
    }
    bool transferring() const override
    {
        if constexpr (TellsTransfers<D>)
            return device_->transferring();
        return false;
    }

    bool arm() override { return device_->arm(); }
    void sleep(Time limit) override { device_->sleep(limit); }
    void disarm() override { device_->disarm(); }
    void open_descriptor() override
    {
        if constexpr (OpensDescriptor<D>)
            device_->open_descriptor();
    }
    int descriptor() const override
    {
        if constexpr (SleptOn<D>)
            return device_->descriptor();
        return -1;
    }
    Time sleep_limit() const override
    {
        if constexpr (LimitsSleep<D>)
            return device_->sleep_limit();
        return SleptOn<D> ? Time::max() : Time(std::chrono::microseconds(500));
    }
    void empty_descriptor() override
    {
        if constexpr (OpensDescriptor<D>)
            device_->empty_descriptor();
    }

    bool look_after_peers(Time now) override
    {
        if constexpr (LooksAfterPeers<D>) {
            device_->look_after_peers(now);
            return device_->failure() == nullptr;
        }
        return true;
    }
    void leave() override
    {
        if constexpr (Leaves<D>)
            device_->leave();
    }

    std::optional<PacketCounts> packets() override
    {
        if constexpr (CountsPackets<D>)
            return device_->packets();
        return {};
    }

  private:
    static typename D::Peer *of(void *peer) { return static_cast<typename D::Peer *>(peer); }

    std::unique_ptr<D> device_;
};

template <Device D>
Channel::Channel(DeviceKind kind_, std::uint8_t number_, D *device)
    : kind(kind_), number(number_), name(device->name()), capabilities(device->capabilities()), keeps(Keeps<D>), names_peers(NamesPeers<D>),
      watching([&]() -> std::unique_ptr<Watching> {
          if constexpr (Watched<D>)
              return std::make_unique<WatchingOf<D>>(device);
          return nullptr;
      }()),
      offering([&]() -> std::unique_ptr<Offering> {
          if constexpr (Offers<D>)
              return std::make_unique<OfferingOf<D>>(device);
          return nullptr;
      }()),
      shared([&]() -> std::unique_ptr<SharedMemory> {
          if constexpr (SharesMemory<D>)
              return std::make_unique<SharedMemoryOf<D>>(device);
          return nullptr;
      }()),
      remote_access([&]() -> std::unique_ptr<RemoteAccess> {
          if constexpr (OneSided<D>)
              return std::make_unique<RemoteAccessOf<D>>(device);
          return nullptr;
      }()),
      direct([&]() -> shmem::Shmem * {
          if constexpr (std::same_as<D, shmem::Shmem>)
              return device;
          return nullptr;
      }()),
      gate_([&]() -> Gate & {
          if constexpr (Gated<D>)
              return device->gate();
          else
              return own_gate_;
      }())
{
}

// A channel with the device's own peer there.
class Connection {
  public:
    Channel *channel = nullptr;

    bool is_open() const { return peer_ != nullptr; }
    Error open(std::span<const std::byte> card, const std::string &label)
    {
        auto connected = channel->connect(card, label);
        if (!connected.ok())
            return connected.error();
        peer_ = connected.value();
        direct_ = channel->direct;
        return {};
    }
    void prefer(const Ip &address) const { channel->prefer(peer_, address); }
    void close()
    {
        if (is_open())
            channel->disconnect(std::exchange(peer_, nullptr));
    }

    Status try_send(const Message &message, SendProgress *progress) const
    {
        if (direct_ != nullptr) [[likely]]
            return direct_->try_send(direct_peer(), message, progress);
        return channel->try_send(peer_, message, progress);
    }
    bool try_send_whole(const Message &message) const
    {
        if (direct_ != nullptr) [[likely]]
            return direct_->try_send_whole(direct_peer(), message);
        return channel->try_send_whole(peer_, message);
    }
    // The same with a header of short_header bytes.
    bool try_send_short(std::uint8_t tag, const void *header, const void *data, std::size_t size) const
    {
        if (direct_ != nullptr) [[likely]]
            return direct_->try_send_short(direct_peer(), tag, header, data, size);
        return channel->try_send_whole(peer_, {tag, header, short_header, {data, size, nullptr, nullptr}});
    }
    bool may_sleep() const
    {
        if (direct_ != nullptr) [[likely]]
            return direct_->may_sleep(direct_peer());
        return channel->shared != nullptr && channel->shared->may_sleep(peer_);
    }
    const Error &error() const { return channel->error_of(peer_); }
    void *peer() const { return peer_; }

  private:
    shmem::Shmem::Peer *direct_peer() const { return static_cast<shmem::Shmem::Peer *>(peer_); }

    shmem::Shmem *direct_ = nullptr;  // of the channel
    void *peer_ = nullptr;
};

}  // namespace pm
