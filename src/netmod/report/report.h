// What a user is told about a job: who talks to whom over which device, and how much. From plain data to text, JSON or a page;
// nothing here knows a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace pm {

// What one process says of one other.
struct RouteReport {
    std::string device;   // "shmem", "ucx", "udp"
    std::string network;  // "san-a"; empty for SHMEM
    std::uint32_t channel = 0;
    std::string address;  // where the peer is on that network, if known
    std::uint64_t messages = 0, bytes = 0;  // sent to it
};

// What one process says of one of its devices.
struct DeviceReport {
    std::string device, network;
    std::uint64_t messages_sent = 0, bytes_sent = 0, messages_received = 0, bytes_received = 0;
    // What only this device has: "12 packets, 1 sent again"; may be empty. Its numbers are counts: those of several processes
    // are added up where the words are the same.
    std::string detail;
};

struct ProcessReport {
    std::string host;
    std::uint32_t process = 0;  // number on its host
    std::vector<RouteReport> routes;  // by rank; the one to itself is not shown
    std::vector<DeviceReport> devices;
};

// One run of a program.
struct RunReport {
    std::string command;
    std::int64_t started = 0;  // seconds since 1970, without leap seconds
    std::uint64_t milliseconds = 0;
};

struct Report {
    std::vector<ProcessReport> processes;  // by rank
    bool finished = false;  // traffic is known
    std::optional<RunReport> run = {};
};

// As bytes, the same on every kind of machine, to bring the reports of all processes together. unpack() answers invalid for
// bytes that pack() did not make, and needs no more memory than a small multiple of their number.
std::vector<std::byte> pack(const ProcessReport &process);
Result<ProcessReport> unpack(std::span<const std::byte> bytes);

// A route that a process does not know (fewer than there are ranks, or no device) is shown as unknown.
std::string to_text(const Report &report);  // for a terminal
std::string to_json(const Report &report);  // as mpicomposite(1) says
std::string to_html(const Report &report);  // a page that needs no other file

}  // namespace pm
