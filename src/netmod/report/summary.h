// What the text and the page have in common: the transports of a job, what each carried, and hosts that are alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "netmod/report/report.h"

namespace pm {

// A device and, but for SHMEM, the network it uses. Counts are sums over all ranks.
struct Transport {
    std::string device, network;
    std::uint64_t pairs = 0;  // ordered pairs of ranks that use it
    std::uint64_t messages = 0, bytes = 0;
    std::string detail;

    std::string name() const { return network.empty() ? device : device + " " + network; }
    // S0, X1, U0 in the table: S shmem, X ucx, U udp.
    char letter() const;
};

// Places in Summary::transports, ascending. More than one: pairs of the same two hosts differ.
using Transports = std::u32string;

struct HostSummary {
    std::string name;
    std::vector<std::size_t> ranks;
};

// Hosts of which each could stand for each other: the same transport to every other host, and from it.
struct HostGroup {
    std::vector<std::size_t> hosts;
    std::string label;        // "a0-a7, c3"
    std::string short_label;  // for the head of a column: the same, or "a0-a7 ..."
    std::size_t least_ranks = 0, most_ranks = 0;  // on one host
    Transports within;        // a host
    std::vector<Transports> to;  // hosts of each group; of its own: between two different hosts

    std::string ranks_on_each() const;  // "2", "1 to 4"
};

struct Summary {
    static constexpr std::uint32_t unknown = ~std::uint32_t{0};

    std::vector<Transport> transports;  // used or in use: shmem, ucx, udp, others
    std::vector<HostSummary> hosts;     // by their first rank
    std::vector<std::size_t> host_of;   // by rank
    std::vector<HostGroup> groups;      // by their first host
    std::vector<std::vector<std::uint32_t>> used;  // by sender and receiver: place in transports, or unknown

    // "ucx san-a"; "-" for none.
    std::string name_of(const Transports &transports) const;
};

Summary summarize(const Report &report);

// "3 ranks", "1 rank"
std::string counted(std::uint64_t number, const std::string &one);

// "X1"; "?" for a route that is not known.
std::string route_code(const Report &report, const Summary &summary, std::size_t from, std::size_t to);

// "S shmem, X ucx, U udp": the devices in use.
std::string letters(const Summary &summary);

// "2026-11-15T20:15:03Z"; and "0.012 s", "95.4 s", "3 min 20 s", "26 h 3 min".
std::string time_text(std::int64_t seconds_since_1970);
std::string duration_text(std::uint64_t milliseconds);

// Where others reach a rank on a network: "10.0.0.1 port 5000"; several are separated by commas.
std::string address_of(const Report &report, const Summary &summary, std::size_t rank, std::size_t transport);
// The transports on which any rank has an address.
std::vector<std::size_t> transports_with_addresses(const Report &report, const Summary &summary);

}  // namespace pm
