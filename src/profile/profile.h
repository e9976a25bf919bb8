// What a profile tells: of each process, and of a job, as text, JSON or a page. Times are nanoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "profile/recorder.h"

namespace pm::profile {

struct CallProfile {
    std::string name;
    std::uint64_t calls = 0, time = 0, waiting = 0, longest = 0;
};

// A rank that this one waited for.
struct LateProfile {
    Late late = Late::nobody;
    std::int32_t rank = -1;  // -1: any, or of another job
    std::uint64_t times = 0, time = 0, longest = 0;
};

// Calls 0, step, 2 * step ... of a collective of all ranks.
struct SeriesProfile {
    std::string name;
    std::uint64_t calls = 0;
    std::uint32_t step = 1;
    std::vector<std::uint64_t> times;
};

struct PathProfile {
    std::string name;  // "shmem", "udp lan"
    Sizes sizes;
    std::uint64_t pulled = 0, pulling = 0;  // bytes that were read from the memory of others, and how long that took
    std::uint64_t round_trip = 0;           // the shortest that the device has measured; 0: none
};

struct ProcessProfile {
    std::string host;
    std::uint64_t time = 0;  // from the end of MPI_Init to the begin of MPI_Finalize
    std::uint64_t threads = 0;
    std::vector<CallProfile> calls;
    std::vector<LateProfile> late;
    std::vector<SeriesProfile> series;
    std::vector<PathProfile> paths;

    std::uint64_t in_mpi() const;
    std::uint64_t waiting() const;
};

// What the threads of this process have recorded in `time`, which was `ticks`.
ProcessProfile gather(std::span<const std::unique_ptr<Thread>> threads, std::uint64_t time, std::uint64_t ticks);

// As report.h does it.
std::vector<std::byte> pack(const ProcessProfile &process);
Result<ProcessProfile> unpack(std::span<const std::byte> bytes);

struct Profile {
    std::vector<ProcessProfile> processes;  // by rank; one that told nothing has no host
    std::string command;
    std::int64_t started = 0;  // seconds since 1970
};

std::string to_text(const Profile &profile);
std::string to_json(const Profile &profile);
std::string to_html(const Profile &profile);

}  // namespace pm::profile
