#include "netmod/routing/networks.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

#include "base/file.h"
#include "base/hash.h"

namespace pm {
namespace {

const std::string setting_name = "MPIR_CVAR_CH4_COMPOSITE_NETWORKS";
constexpr std::size_t file_size_max = std::size_t{1} << 20;

// ---- descriptions ----

std::vector<std::string_view> split(std::string_view text, std::string_view separators)
{
    std::vector<std::string_view> words;
    while (true) {
        text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
        if (text.empty())
            return words;
        words.push_back(text.substr(0, text.find_first_of(separators)));
        text.remove_prefix(words.back().size());
    }
}

std::vector<std::string_view> words_of(std::string_view line)
{
    return split(line, " \t\r");
}

// What is quoted in an error may come from a file that is no description at all.
std::string quoted(std::string_view word)
{
    constexpr std::size_t longest = 60;
    std::string text(word.substr(0, longest));
    std::ranges::replace_if(text, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
    return "\"" + text + (word.size() > longest ? "..." : "") + "\"";
}

bool is_plain(std::string_view word)
{
    return word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:@") == word.npos;
}

// No interface is named like this.
bool is_meant_as_subnet(std::string_view word)
{
    return word.find('/') != word.npos || word.find("::") != word.npos || word.find_first_not_of("0123456789.") == word.npos;
}

std::optional<DeviceKind> device_of_network(std::string_view word)
{
    for (DeviceKind device : {DeviceKind::ucx, DeviceKind::udp})
        if (word == device_name(device))
            return device;
    return std::nullopt;
}

std::optional<int> parse_priority(std::string_view word)
{
    int priority = 0;
    auto [end, trouble] = std::from_chars(word.data(), word.data() + word.size(), priority);
    if (trouble != std::errc() || end != word.data() + word.size() || priority < 0 || priority > priority_max)
        return std::nullopt;
    return priority;
}

std::optional<std::vector<std::string>> parse_hosts(std::string_view list)
{
    // split() knows no empty words: a comma too many shows by the count.
    std::vector<std::string_view> names = split(list, ",");
    if (names.size() != static_cast<std::size_t>(std::ranges::count(list, ',')) + 1)
        return std::nullopt;
    return std::vector<std::string>(names.begin(), names.end());
}

// What follows the device. Errors do not say yet in which line.
Error parse_rest(std::span<const std::string_view> words, NetworkDescription &network)
{
    auto wrong = [](const std::string &what) { return Error{Status::invalid, what}; };
    const std::string of_network = " of network " + quoted(network.name);
    std::optional<int> priority;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string_view word = words[i];
        std::string_view next = i + 1 < words.size() ? words[i + 1] : "";
        Result<Subnet> subnet = parse_subnet(word);
        if (word == "priority") {
            if (priority)
                return wrong("the priority" + of_network + " is given twice; allowed is once");
            priority = parse_priority(next);
            if (!priority)
                return wrong("the priority" + of_network + (next.empty() ? " is missing" : " is " + quoted(next)) +
                             "; allowed are whole numbers from 0 to " + std::to_string(priority_max));
            ++i;
        } else if (word == "hosts") {
            if (!network.hosts.empty())
                return wrong("the hosts" + of_network + " are given twice; allowed is once, with commas: n1,n2,login*");
            std::optional<std::vector<std::string>> hosts = parse_hosts(next);
            if (!hosts)
                return wrong("the hosts" + of_network + (next.empty() ? " are missing" : " are " + quoted(next)) +
                             "; allowed are names, with * and ?, and a comma but no space between them: n1,n2,login*");
            network.hosts = std::move(*hosts);
            ++i;
        } else if (subnet.ok()) {
            network.subnets.push_back(subnet.value());
        } else if (is_meant_as_subnet(word)) {
            return wrong(quoted(word) + of_network + " is not a subnet; allowed are those such as 10.1.0.0/24, fd00:5::/64");
        } else if (is_plain(word)) {
            network.ports.emplace_back(word);
        } else {
            return wrong("unknown word " + quoted(word) + of_network +
                         "; allowed are subnets (10.1.0.0/24), interfaces or devices of UCX (eth0, mlx5_0:1), hosts and a "
                         "list, priority and a number");
        }
    }
    network.priority = priority.value_or(default_priority(network.device));
    return {};
}

// The words of one line, of which there is one at least.
Result<NetworkDescription> parse_line(const std::vector<std::string_view> &words, const std::string &where)
{
    auto wrong = [&](const std::string &what) { return Error{Status::invalid, where + what}; };
    if (words[0] != "network")
        return wrong("unknown word " + quoted(words[0]) + "; a line starts with network, or with # if it means nothing");
    if (words.size() < 2 || !is_plain(words[1]))
        return wrong((words.size() < 2 ? "a network without a name" : quoted(words[1]) + " is not a name") +
                     "; allowed are letters, digits and . _ - : @, as in: network lan udp 10.0.0.0/24");
    NetworkDescription network;
    network.name = words[1];
    const std::string of_network = " of network " + quoted(network.name);
    std::string_view device = words.size() < 3 ? "" : words[2];
    std::optional<DeviceKind> known = device_of_network(device);
    if (device == device_name(DeviceKind::shmem))
        return wrong("shmem needs no network, the processes of a host use it without one; allowed for the device" + of_network +
                     " are ucx, udp");
    if (!known)
        return wrong((device.empty() ? "no device" : "unknown device " + quoted(device)) + of_network +
                     "; allowed are ucx, udp");
    network.device = *known;
    if (Error error = parse_rest(std::span(words).subspan(3), network))
        return wrong(error.text);
    return network;
}

Result<std::string> read_file(const std::string &path)
{
    const std::string allowed = "; " + setting_name + " is auto, a description such as \"network lan udp 10.0.0.0/24\", or the "
                                "path of a file with one";
    auto refused = [&] {
        Error error = system_error("reading the description of networks \"" + path + "\"", errno);
        error.text += allowed;
        return error;
    };
    File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0)
        return refused();
    std::string text;
    while (text.size() <= file_size_max) {
        char piece[4096];
        ssize_t count = read(file.get(), piece, sizeof piece);
        if (count == 0)
            return text;
        if (count > 0)
            text.append(piece, static_cast<std::size_t>(count));
        else if (errno != EINTR)
            return refused();
    }
    return Error{Status::invalid, "\"" + path + "\" is not a description of networks: it has more than " +
                                      std::to_string(file_size_max) + " bytes" + allowed};
}

// ---- what this host is on ----

bool is_among(const std::vector<std::string> &patterns, std::string_view host)
{
    const std::string name(host), without_domain(host.substr(0, host.find('.')));
    return std::ranges::any_of(patterns, [&](const std::string &pattern) {
        return fnmatch(pattern.c_str(), name.c_str(), 0) == 0 || fnmatch(pattern.c_str(), without_domain.c_str(), 0) == 0;
    });
}

bool is_loopback(const Ip &ip)
{
    static const Subnet v4 = parse_subnet("127.0.0.0/8").value(), v6 = parse_subnet("::1").value();
    return v4.contains(ip) || v6.contains(ip);
}

// Such an address may be on any wire: it does not tell which. UDP proves reach, but needs more than an address of IPv6 here.
bool is_link_local(const Ip &ip, DeviceKind device)
{
    static const Subnet v4 = parse_subnet("169.254.0.0/16").value(), v6 = parse_subnet("fe80::/10").value();
    return v6.contains(ip) || (device != DeviceKind::udp && v4.contains(ip));
}

// The addresses of a port that count when their subnet is not named.
std::vector<Subnet> usable_addresses(const Port &port, bool loopback)
{
    std::vector<Subnet> usable;
    for (const Subnet &address : port.subnets)
        if (is_loopback(address.ip) == loopback && !is_link_local(address.ip, port.device))
            usable.push_back(address);
    if (std::ranges::any_of(usable, [](const Subnet &address) { return is_v4(address.ip); }))
        std::erase_if(usable, [](const Subnet &address) { return !is_v4(address.ip); });
    return usable;
}

LocalNetwork make_network(DeviceKind device, const std::string &name, int priority)
{
    std::string text = device_name(device) + (" " + name);
    return {{hash_bytes(text.data(), text.size()), device, priority, name}, {}, {}};
}

void add_port(LocalNetwork &local, const Port &port, const std::vector<Subnet> &addresses)
{
    if (std::ranges::find(local.ports, port.name) == local.ports.end())
        local.ports.push_back(port.name);
    for (const Subnet &address : addresses)
        if (std::ranges::find(local.addresses, address) == local.addresses.end())
            local.addresses.push_back(address);
}

// Every port of the device leads to it.
void add_all_ports(LocalNetwork &local, const std::vector<Port> &ports, bool loopback = false)
{
    for (const Port &port : ports) {
        std::vector<Subnet> addresses = usable_addresses(port, loopback);
        if (port.device == local.network.device && (!addresses.empty() || !port.fabric.empty()))
            add_port(local, port, addresses);
    }
    if (local.ports.empty() && local.network.device == DeviceKind::udp && !loopback)
        add_all_ports(local, ports, true);
}

void add_named_ports(LocalNetwork &local, const NetworkDescription &description, const std::vector<Port> &ports)
{
    for (const Port &port : ports) {
        if (port.device != description.device)
            continue;
        if (std::ranges::find(description.ports, port.name) != description.ports.end()) {
            std::vector<Subnet> addresses = usable_addresses(port, false);
            if (addresses.empty())
                addresses = usable_addresses(port, true);
            if (!addresses.empty() || port.device != DeviceKind::udp)
                add_port(local, port, addresses);
        }
        for (const Subnet &address : port.subnets)
            if (std::ranges::any_of(description.subnets, [&](const Subnet &subnet) { return subnet.contains(address.ip); }))
                add_port(local, port, {address});
    }
}

// "eth0 (10.0.0.7), mlx5_0:1"
std::string list_of(const std::vector<Port> &ports, DeviceKind device)
{
    std::string text;
    for (const Port &port : ports) {
        if (port.device != device)
            continue;
        std::string addresses;
        for (const Subnet &address : port.subnets)
            addresses += (addresses.empty() ? "" : ", ") + ip_text(address.ip);
        text += (text.empty() ? "" : ", ") + port.name + (addresses.empty() ? "" : " (" + addresses + ")");
    }
    return text.empty() ? "none" : text;
}

Error no_port(const NetworkDescription &description, const std::vector<Port> &ports, std::string_view host)
{
    std::string device = device_name(description.device), leading;
    for (const std::string &port : description.ports)
        leading += (leading.empty() ? "" : ", ") + port;
    for (const Subnet &subnet : description.subnets)
        leading += (leading.empty() ? "" : ", ") + subnet.text();
    return {Status::invalid, "host " + std::string(host) + " is among the hosts of network \"" + description.name +
                                 "\", but none of its ports leads there: those of " + device + " are " +
                                 list_of(ports, description.device) + ", and the description allows " +
                                 (leading.empty() ? "any that has an address" : leading) + ". Correct " + setting_name +
                                 ", leave the host out of it, or bring the interface up"};
}

std::vector<LocalNetwork> find_networks(const std::vector<Port> &ports)
{
    std::vector<LocalNetwork> found;
    auto place_of = [&](LocalNetwork local) -> LocalNetwork & {
        auto place = std::ranges::find(found, local.network.id, [](const LocalNetwork &other) { return other.network.id; });
        return place != found.end() ? *place : found.emplace_back(std::move(local));
    };
    for (const Port &port : ports) {
        const int priority = default_priority(port.device);
        if (port.device == DeviceKind::udp) {
            LocalNetwork ip = make_network(port.device, "ip", priority);
            add_all_ports(ip, ports);
            if (!ip.ports.empty())
                place_of(std::move(ip));
        } else if (port.device == DeviceKind::ucx) {
            std::vector<Subnet> addresses = usable_addresses(port, false);
            for (const Subnet &address : addresses)
                add_port(place_of(make_network(port.device, address.text(), priority)), port, {address});
            if (addresses.empty() && !port.fabric.empty())
                add_port(place_of(make_network(port.device, port.fabric, priority)), port, {});
        }
    }
    return found;
}

}  // namespace

Result<std::vector<NetworkDescription>> parse_networks(std::string_view text, std::string_view origin)
{
    std::vector<NetworkDescription> networks;
    std::vector<int> lines;  // where each of them is
    for (int line = 1; !text.empty(); ++line) {
        std::vector<std::string_view> words = words_of(text.substr(0, text.find('\n')));
        text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
        if (words.empty() || words[0].starts_with('#'))
            continue;
        std::string where = std::string(origin) + ":" + std::to_string(line) + ": ";
        Result<NetworkDescription> network = parse_line(words, where);
        if (!network.ok())
            return network.error();
        auto same = std::ranges::find(networks, network.value().name, &NetworkDescription::name);
        if (same != networks.end())
            return Error{Status::invalid, where + "network " + quoted(same->name) + " is already in line " +
                                              std::to_string(lines[same - networks.begin()]) +
                                              "; allowed is one line for each"};
        if (networks.size() == networks_max)
            return Error{Status::invalid, where + "too many networks; allowed are " + std::to_string(networks_max)};
        networks.push_back(std::move(network.value()));
        lines.push_back(line);
    }
    if (networks.empty())
        return Error{Status::invalid, std::string(origin) + ":1: no network is described; allowed are lines such as: "
                                                            "network lan udp 10.0.0.0/24"};
    return networks;
}

Result<std::vector<NetworkDescription>> read_networks(const std::string &setting)
{
    if (setting == "auto")
        return std::vector<NetworkDescription>{};
    std::vector<std::string_view> words = words_of(setting);
    if (words.size() > 1 && words[0] == "network") {
        std::string text = setting;
        std::ranges::replace(text, ';', '\n');
        return parse_networks(text, setting_name);
    }
    Result<std::string> text = read_file(setting);
    if (!text.ok())
        return text.error();
    return parse_networks(text.value(), setting);
}

Result<std::vector<LocalNetwork>> networks_of_host(const std::vector<NetworkDescription> &descriptions,
                                                   const std::vector<Port> &ports, std::string_view host)
{
    std::vector<LocalNetwork> networks;
    if (descriptions.empty())
        networks = find_networks(ports);
    for (const NetworkDescription &description : descriptions) {
        if (!description.hosts.empty() && !is_among(description.hosts, host))
            continue;
        LocalNetwork local = make_network(description.device, description.name, description.priority);
        if (description.subnets.empty() && description.ports.empty())
            add_all_ports(local, ports);
        else
            add_named_ports(local, description, ports);
        if (!local.ports.empty())
            networks.push_back(std::move(local));
        else if (!description.hosts.empty())
            return no_port(description, ports, host);
    }
    if (networks.size() > networks_max)
        return Error{Status::invalid, "host " + std::string(host) + " is on " + std::to_string(networks.size()) +
                                          " networks, and a job can use " + std::to_string(networks_max) +
                                          "; describe those it needs with " + setting_name};
    return networks;
}

}  // namespace pm
