#include "netmod/routing/card.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"

namespace pm {
namespace {

enum : std::uint8_t { whole = 1, brief = 2, brief_ucx = 3 };

class Writer {
  public:
    template <class T>
    void number(T value)
    {
        bytes(&value, sizeof value);
    }
    void bytes(const void *data, std::size_t size)
    {
        auto begin = static_cast<const std::byte *>(data);
        out.insert(out.end(), begin, begin + size);
    }
    template <class Range>
    void range(const Range &range)
    {
        number(static_cast<std::uint16_t>(range.size()));
        bytes(range.data(), range.size());
    }

    std::vector<std::byte> out;
};

// Answers zeros and sets `bad` where the bytes end too early.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

    template <class T>
    T number()
    {
        T value{};
        if (left_.size() < sizeof value) {
            bad = true;
            return value;
        }
        std::memcpy(&value, left_.data(), sizeof value);
        left_ = left_.subspan(sizeof value);
        return value;
    }
    std::span<const std::byte> view() { return view(number<std::uint16_t>()); }
    std::span<const std::byte> view(std::size_t size)
    {
        if (bad || left_.size() < size) {
            bad = true;
            return {};
        }
        std::span<const std::byte> bytes = left_.first(size);
        left_ = left_.subspan(size);
        return bytes;
    }
    template <class Range>
    Range range()
    {
        std::span<const std::byte> bytes = view();
        auto begin = reinterpret_cast<const typename Range::value_type *>(bytes.data());
        return Range(begin, begin + bytes.size());
    }
    bool at_end() const { return left_.empty(); }

    bool bad = false;

  private:
    std::span<const std::byte> left_;
};

// Eight bytes at a time: every process makes one of each card of its job.
std::uint64_t hash(std::span<const std::byte> bytes, std::uint64_t seed)
{
    while (bytes.size() >= sizeof(std::uint64_t)) {
        std::uint64_t word;
        std::memcpy(&word, bytes.data(), sizeof word);
        seed = (seed ^ word) * 0x9e3779b97f4a7c15u;
        seed ^= seed >> 32;
        bytes = bytes.subspan(sizeof word);
    }
    return hash_bytes(bytes.data(), bytes.size(), seed);
}

// Of a card that is whole or brief, without the rest.
struct HostParts {
    std::span<const std::byte> shmem, udp;
};

std::optional<HostParts> host_parts(std::span<const std::byte> bytes)
{
    Reader reader(bytes);
    HostParts parts;
    switch (reader.number<std::uint8_t>()) {
        case whole:
            reader.view();
            reader.number<std::uint32_t>();
            reader.number<std::uint64_t>();
            parts = {reader.view(), reader.view()};
            break;
        case brief:
            parts.shmem = reader.view(reader.number<std::uint8_t>());
            parts.udp = reader.view(reader.number<std::uint8_t>());
            break;
        default:
            return {};
    }
    return reader.bad ? std::nullopt : std::optional(parts);
}

}  // namespace

std::vector<std::byte> Card::write() const
{
    Writer writer;
    writer.number(whole);
    writer.range(host);
    writer.number(process);
    writer.number(network_space);
    writer.range(shmem);
    writer.range(udp);
    writer.number(static_cast<std::uint8_t>(networks.size()));
    for (const NetworkCard &each : networks) {
        writer.number(each.network.id);
        writer.number(each.network.device);
        writer.number(static_cast<std::int32_t>(each.network.priority));
        writer.range(each.network.name);
        writer.number(static_cast<std::uint8_t>(each.address.has_value()));
        if (each.address)
            writer.bytes(each.address->data(), each.address->size());
        writer.range(each.device_card);
    }
    return writer.out;
}

// Which networks an address of UDP is on is not told: whoever has UDP may try.
std::vector<std::byte> Card::write_short() const
{
    Writer writer;
    for (const NetworkCard &each : networks) {
        if (!udp.empty() || each.network.device != DeviceKind::ucx || 17 + each.device_card.size() > max_short_size)
            continue;
        writer.number(brief_ucx);
        writer.number(id());
        writer.number(each.network.id);
        writer.bytes(each.device_card.data(), each.device_card.size());
        return writer.out;
    }
    writer.number(brief);
    auto put = [&](const std::vector<std::byte> &card) {
        writer.number(static_cast<std::uint8_t>(card.size()));
        writer.bytes(card.data(), card.size());
    };
    put(shmem);
    put(udp);
    return writer.out;
}

std::vector<std::string> Card::fit()
{
    std::vector<std::string> left_out;
    for (; !networks.empty() && write().size() > max_size; networks.pop_back())
        left_out.push_back(networks.back().network.name);
    return left_out;
}

std::optional<Card> Card::read(std::span<const std::byte> bytes)
{
    Reader reader(bytes);
    Card card;
    auto kind = reader.number<std::uint8_t>();
    if (kind == brief) {
        card.host = "another job";
        for (std::vector<std::byte> *part : {&card.shmem, &card.udp}) {
            std::span<const std::byte> view = reader.view(reader.number<std::uint8_t>());
            part->assign(view.begin(), view.end());
        }
    } else if (kind == brief_ucx) {
        card.host = "another job";
        card.told_id = reader.number<std::uint64_t>();
        NetworkCard &network = card.networks.emplace_back();
        network.network.id = reader.number<std::uint64_t>();
        network.network.device = DeviceKind::ucx;
        network.network.priority = default_priority(DeviceKind::ucx);
        while (!reader.bad && !reader.at_end())
            network.device_card.push_back(reader.number<std::byte>());
    } else if (kind == whole) {
        card.host = reader.range<std::string>();
        card.process = reader.number<std::uint32_t>();
        card.network_space = reader.number<std::uint64_t>();
        card.shmem = reader.range<std::vector<std::byte>>();
        card.udp = reader.range<std::vector<std::byte>>();
        card.networks.resize(std::min<std::size_t>(reader.number<std::uint8_t>(), networks_max));
        for (NetworkCard &each : card.networks) {
            each.network.id = reader.number<std::uint64_t>();
            each.network.device = static_cast<DeviceKind>(reader.number<std::uint8_t>());
            each.network.priority = reader.number<std::int32_t>();
            each.network.name = reader.range<std::string>();
            if (reader.number<std::uint8_t>() != 0)
                each.address = reader.number<Ip>();
            each.device_card = reader.range<std::vector<std::byte>>();
        }
    } else {
        return {};
    }
    if (reader.bad || !reader.at_end())
        return {};
    return card;
}

std::span<const std::byte> Card::shmem_in(std::span<const std::byte> bytes)
{
    auto parts = host_parts(bytes);
    return parts ? parts->shmem : std::span<const std::byte>{};
}

std::optional<std::uint64_t> Card::id_in(std::span<const std::byte> bytes)
{
    if (auto parts = host_parts(bytes); parts && (!parts->shmem.empty() || !parts->udp.empty()))
        return hash(parts->udp, hash(parts->shmem, hash_seed));
    auto card = read(bytes);
    return card ? std::optional(card->id()) : std::nullopt;
}

std::uint64_t Card::id() const
{
    if (told_id)
        return *told_id;
    std::uint64_t id = hash(udp, hash(shmem, hash_seed));
    if (!shmem.empty() || !udp.empty())
        return id;
    for (const NetworkCard &each : networks)
        if (!each.device_card.empty())
            return hash(each.device_card, id);
    return id;
}

}  // namespace pm
