// The bytes: every field in the order of report.h, packed as base/packing.h says.
#include "netmod/report/report.h"

#include "base/packing.h"

namespace pm {
namespace {

constexpr std::byte mark{0xc1};  // changes with the format
constexpr std::size_t least_route = 6, least_device = 7;  // bytes

void write(Writer &writer, const RouteReport &route)
{
    writer.text(route.device);
    writer.text(route.network);
    writer.number(route.channel);
    writer.text(route.address);
    writer.number(route.messages);
    writer.number(route.bytes);
}

void write(Writer &writer, const DeviceReport &device)
{
    writer.text(device.device);
    writer.text(device.network);
    for (std::uint64_t number : {device.messages_sent, device.bytes_sent, device.messages_received, device.bytes_received})
        writer.number(number);
    writer.text(device.detail);
}

void read(Reader &reader, RouteReport *route)
{
    route->device = reader.text();
    route->network = reader.text();
    route->channel = reader.small_number();
    route->address = reader.text();
    route->messages = reader.number();
    route->bytes = reader.number();
}

void read(Reader &reader, DeviceReport *device)
{
    device->device = reader.text();
    device->network = reader.text();
    for (std::uint64_t *number : {&device->messages_sent, &device->bytes_sent, &device->messages_received, &device->bytes_received})
        *number = reader.number();
    device->detail = reader.text();
}

}  // namespace

std::vector<std::byte> pack(const ProcessReport &process)
{
    Writer writer(mark);
    writer.text(process.host);
    writer.number(process.process);
    writer.list(process.routes, write);
    writer.list(process.devices, write);
    return writer.take();
}

Result<ProcessReport> unpack(std::span<const std::byte> bytes)
{
    Reader reader(mark, bytes);
    ProcessReport process;
    process.host = reader.text();
    process.process = reader.small_number();
    reader.list(least_route, &process.routes, read);
    reader.list(least_device, &process.devices, read);
    if (!reader.at_end())
        return Error{Status::invalid, "a report of routes of " + std::to_string(bytes.size()) +
                                          " bytes is not understood: do all ranks run the same version of this library?"};
    return process;
}

}  // namespace pm
