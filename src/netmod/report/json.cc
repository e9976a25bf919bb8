// One object; a rank a line. mpicomposite(1) says what each name means: programs rely on it.
#include "base/escape.h"
#include "netmod/report/report.h"
#include "netmod/report/summary.h"

namespace pm {
namespace {

std::string device_and_network(const std::string &device, const std::string &network)
{
    return "\"device\":" + json_string_or_null(device) + ",\"network\":" + json_string_or_null(network);
}

std::string number(const char *name, std::uint64_t value)
{
    return ",\"" + std::string(name) + "\":" + std::to_string(value);
}

std::string route(std::size_t to, const RouteReport &route)
{
    return "{\"to\":" + std::to_string(to) + "," + device_and_network(route.device, route.network) +
           number("channel", route.channel) + ",\"address\":" + json_string_or_null(route.address) +
           number("messages", route.messages) + number("bytes", route.bytes) + "}";
}

std::string device(const DeviceReport &device)
{
    return "{" + device_and_network(device.device, device.network) + number("messages_sent", device.messages_sent) +
           number("bytes_sent", device.bytes_sent) + number("messages_received", device.messages_received) +
           number("bytes_received", device.bytes_received) + ",\"detail\":" + json_string_or_null(device.detail) + "}";
}

}  // namespace

std::string to_json(const Report &report)
{
    std::string text = "{\"ranks\":[";
    for (std::size_t rank = 0; rank < report.processes.size(); ++rank) {
        const ProcessReport &process = report.processes[rank];
        text += std::string(rank == 0 ? "\n" : ",\n") + "{\"rank\":" + std::to_string(rank) +
                ",\"host\":" + json_string(process.host) + number("process", process.process) + ",\"routes\":[";
        bool first = true;
        for (std::size_t to = 0; to < process.routes.size(); ++to) {
            if (to == rank)
                continue;
            text += (first ? "" : ",") + route(to, process.routes[to]);
            first = false;
        }
        text += "],\"devices\":[";
        for (std::size_t place = 0; place < process.devices.size(); ++place)
            text += (place == 0 ? "" : ",") + device(process.devices[place]);
        text += "]}";
    }
    text += "\n]";
    if (report.run)
        text += ",\n\"command\":" + json_string(report.run->command) + ",\"started\":" +
                json_string(time_text(report.run->started)) + number("milliseconds", report.run->milliseconds);
    return text + ",\"finished\":" + (report.finished ? "true" : "false") + "}\n";
}

}  // namespace pm
