// The bytes: a mark, then every field in the order of report.h. A number takes 7 bits a byte, lowest first, with the eighth bit
// set where more follow, and no byte more than it needs; a text is its size and its bytes, a list its size and its members.
#include "netmod/report/report.h"

#include <limits>
#include <string_view>
#include <utility>

namespace pm {
namespace {

constexpr std::byte mark{0xc1};  // changes with the format
constexpr std::size_t least_route = 6, least_device = 7;  // bytes

class Writer {
  public:
    Writer() : bytes_{mark} {}
    void number(std::uint64_t value)
    {
        for (; value >= 0x80; value >>= 7)
            bytes_.push_back(static_cast<std::byte>(value & 0x7f) | std::byte{0x80});
        bytes_.push_back(static_cast<std::byte>(value));
    }
    void text(std::string_view text)
    {
        number(text.size());
        auto first = reinterpret_cast<const std::byte *>(text.data());
        bytes_.insert(bytes_.end(), first, first + text.size());
    }
    std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

// Answers zeros and empty texts once something was wrong: ok() is asked at the end, and before each member of a list.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : rest_(bytes)
    {
        if (rest_.empty() || rest_[0] != mark)
            fail();
        else
            rest_ = rest_.subspan(1);
    }
    bool ok() const { return ok_; }
    bool at_end() const { return ok_ && rest_.empty(); }
    std::uint64_t number(std::uint64_t most = std::numeric_limits<std::uint64_t>::max())
    {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            auto part = std::to_integer<std::uint64_t>(rest_[0] & std::byte{0x7f});
            bool last = (rest_[0] & std::byte{0x80}) == std::byte{0};
            bool lost = part << shift >> shift != part;
            bool needless = last && part == 0 && shift > 0;
            if (lost || needless)
                break;
            rest_ = rest_.subspan(1);
            value |= part << shift;
            if (last && value <= most)
                return value;
            if (last)
                break;
        }
        fail();
        return 0;
    }
    std::uint32_t small_number()
    {
        return static_cast<std::uint32_t>(number(std::numeric_limits<std::uint32_t>::max()));
    }
    // Of members that take `least` bytes or more each: never more than there can be.
    std::uint64_t count(std::size_t least)
    {
        std::uint64_t members = number();
        if (members <= rest_.size() / least)
            return members;
        fail();
        return 0;
    }
    std::string text()
    {
        std::size_t size = count(1);
        if (!ok_)
            return {};
        std::string text(reinterpret_cast<const char *>(rest_.data()), size);
        rest_ = rest_.subspan(size);
        return text;
    }

  private:
    void fail()
    {
        ok_ = false;
        rest_ = {};
    }

    std::span<const std::byte> rest_;
    bool ok_ = true;
};

RouteReport read_route(Reader &reader)
{
    RouteReport route;
    route.device = reader.text();
    route.network = reader.text();
    route.channel = reader.small_number();
    route.address = reader.text();
    route.messages = reader.number();
    route.bytes = reader.number();
    return route;
}

DeviceReport read_device(Reader &reader)
{
    DeviceReport device;
    device.device = reader.text();
    device.network = reader.text();
    device.messages_sent = reader.number();
    device.bytes_sent = reader.number();
    device.messages_received = reader.number();
    device.bytes_received = reader.number();
    device.detail = reader.text();
    return device;
}

}  // namespace

std::vector<std::byte> pack(const ProcessReport &process)
{
    Writer writer;
    writer.text(process.host);
    writer.number(process.process);
    writer.number(process.routes.size());
    for (const RouteReport &route : process.routes) {
        writer.text(route.device);
        writer.text(route.network);
        writer.number(route.channel);
        writer.text(route.address);
        writer.number(route.messages);
        writer.number(route.bytes);
    }
    writer.number(process.devices.size());
    for (const DeviceReport &device : process.devices) {
        writer.text(device.device);
        writer.text(device.network);
        writer.number(device.messages_sent);
        writer.number(device.bytes_sent);
        writer.number(device.messages_received);
        writer.number(device.bytes_received);
        writer.text(device.detail);
    }
    return writer.take();
}

Result<ProcessReport> unpack(std::span<const std::byte> bytes)
{
    Reader reader(bytes);
    ProcessReport process;
    process.host = reader.text();
    process.process = reader.small_number();
    for (std::uint64_t left = reader.count(least_route); left > 0 && reader.ok(); --left)
        process.routes.push_back(read_route(reader));
    for (std::uint64_t left = reader.count(least_device); left > 0 && reader.ok(); --left)
        process.devices.push_back(read_device(reader));
    if (!reader.at_end())
        return Error{Status::invalid, "a report of routes of " + std::to_string(bytes.size()) +
                                          " bytes is not understood: do all ranks run the same version of this library?"};
    return process;
}

}  // namespace pm
