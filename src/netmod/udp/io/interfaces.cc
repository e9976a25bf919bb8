#include "netmod/udp/io/interfaces.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/subnet.h"

namespace pm::udp {
namespace {

const std::string setting = "MPIR_CVAR_CH4_COMPOSITE_UDP_INTERFACES";

// One word of the setting: a name, or a subnet.
struct Rule {
    std::string word;
    std::optional<Subnet> subnet;

    bool matches(const Interface &interface) const
    {
        return subnet ? subnet->contains(interface.address.ip) : interface.name == word;
    }
};

std::optional<unsigned> parse_number(std::string_view text, unsigned most)
{
    unsigned number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number > most)
        return std::nullopt;
    return number;
}

Result<Rule> parse_rule(std::string_view word)
{
    Result<Subnet> subnet = parse_subnet(word);
    if (subnet.ok())
        return Rule{std::string(word), subnet.value()};
    if (word.find('/') != std::string_view::npos)
        return Error{Status::invalid, setting + ": " + subnet.error().text};
    return Rule{std::string(word), std::nullopt};
}

std::string list_of(const std::vector<Interface> &interfaces)
{
    std::string text;
    for (const Interface &interface : interfaces)
        text += (text.empty() ? "" : ", ") + interface.name + " (" + interface.address.ip_text() + ")";
    return text.empty() ? "no interface that is up" : text;
}

// The bits that are set in a netmask, 4 or 16 bytes.
int count_bits(const void *mask, std::size_t size)
{
    int count = 0;
    for (std::size_t i = 0; i < size; ++i)
        count += std::popcount(static_cast<const std::uint8_t *>(mask)[i]);
    return count;
}

}  // namespace

Result<std::vector<Interface>> find_interfaces()
{
    ifaddrs *list = nullptr;
    if (getifaddrs(&list) != 0)
        return system_error("udp: listing the network interfaces of this host", errno);
    std::vector<Interface> found;
    for (ifaddrs *entry = list; entry != nullptr; entry = entry->ifa_next) {
        constexpr unsigned usable = IFF_UP | IFF_RUNNING;
        if (entry->ifa_addr == nullptr || (entry->ifa_flags & usable) != usable)
            continue;
        Interface interface{entry->ifa_name, {}, (entry->ifa_flags & IFF_LOOPBACK) != 0};
        if (entry->ifa_addr->sa_family == AF_INET) {
            std::array<std::uint8_t, 4> bytes;
            std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in *>(entry->ifa_addr)->sin_addr, sizeof bytes);
            interface.address = Address::v4(bytes, 0);
            if (entry->ifa_netmask != nullptr)
                interface.bits = 96 + count_bits(&reinterpret_cast<const sockaddr_in *>(entry->ifa_netmask)->sin_addr, 4);
        } else if (entry->ifa_addr->sa_family == AF_INET6) {
            const in6_addr &ip = reinterpret_cast<const sockaddr_in6 *>(entry->ifa_addr)->sin6_addr;
            if (IN6_IS_ADDR_LINKLOCAL(&ip))
                continue;
            std::memcpy(interface.address.ip.data(), &ip, sizeof ip);
            if (entry->ifa_netmask != nullptr)
                interface.bits = count_bits(&reinterpret_cast<const sockaddr_in6 *>(entry->ifa_netmask)->sin6_addr, 16);
        } else {
            continue;
        }
        found.push_back(std::move(interface));
    }
    freeifaddrs(list);
    return found;
}

Result<std::vector<Address>> choose_addresses(const std::vector<Interface> &interfaces, std::string_view wanted)
{
    bool all = wanted == "auto";
    bool leave_out = wanted.starts_with('^');
    std::vector<Rule> rules;
    std::string_view rest = leave_out ? wanted.substr(1) : wanted;
    while (!all) {
        std::size_t comma = rest.find(',');
        Result<Rule> rule = parse_rule(rest.substr(0, comma));
        if (!rule.ok())
            return rule.error();
        rules.push_back(rule.value());
        if (comma == std::string_view::npos)
            break;
        rest.remove_prefix(comma + 1);
    }
    // A name that is wrong to use is a mistake; one to leave out may exist elsewhere.
    for (const Rule &rule : rules)
        if (!leave_out && std::ranges::none_of(interfaces, [&](const auto &interface) { return rule.matches(interface); }))
            return Error{Status::invalid, "udp: \"" + rule.word + "\" in " + setting +
                                              " is no interface or subnet of this host, which has " + list_of(interfaces)};

    auto has_v4 = [&](const std::string &name) {
        return std::ranges::any_of(interfaces, [&](const auto &other) { return other.name == name && other.address.is_v4(); });
    };
    std::vector<Address> chosen, loopback;
    for (const Interface &interface : interfaces) {
        bool named = std::ranges::any_of(rules, [&](const Rule &rule) { return rule.matches(interface); });
        if (all || leave_out ? named : !named)
            continue;
        bool by_subnet = !leave_out && std::ranges::any_of(rules, [&](const Rule &rule) { return rule.subnet && rule.matches(interface); });
        if (!interface.address.is_v4() && !by_subnet && has_v4(interface.name))
            continue;
        (interface.loopback && (all || leave_out) ? loopback : chosen).push_back(interface.address);
    }
    if (chosen.empty())
        chosen = loopback;
    if (chosen.empty())
        return Error{Status::unreachable, "udp: this host has no usable address: it has " + list_of(interfaces) +
                                              (all ? "" : ", and " + setting + " is \"" + std::string(wanted) + "\"") +
                                              "; bring an interface up, change " + setting +
                                              ", or leave udp out of MPIR_CVAR_CH4_COMPOSITE_DEVICES"};
    return chosen;
}

std::vector<unsigned> numbers_of(const std::vector<Interface> &interfaces, const std::vector<Address> &addresses)
{
    std::vector<unsigned> numbers;
    for (const Interface &interface : interfaces) {
        if (interface.loopback || std::ranges::find(addresses, interface.address) == addresses.end())
            continue;
        unsigned number = if_nametoindex(interface.name.c_str());
        if (number != 0 && std::ranges::find(numbers, number) == numbers.end())
            numbers.push_back(number);
    }
    return numbers;
}

Result<PortRange> parse_ports(std::string_view text)
{
    if (text == "auto")
        return PortRange{};
    std::size_t dash = text.find('-');
    auto first = parse_number(text.substr(0, dash), 65535);
    auto last = dash == std::string_view::npos ? first : parse_number(text.substr(dash + 1), 65535);
    if (!first || !last || *first == 0 || *last < *first)
        return Error{Status::invalid, "\"" + std::string(text) + "\" in MPIR_CVAR_CH4_COMPOSITE_UDP_PORTS is not auto, a port, or a "
                                      "range such as 5000-5100"};
    return PortRange{static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)};
}

}  // namespace pm::udp
