// What the text and the page say of a job, computed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace pm::profile {

// A function, of all ranks together.
struct CallSummary {
    std::string name;
    std::uint64_t calls = 0, time = 0, waiting = 0, longest = 0;
    std::uint64_t least = 0, most = 0;  // time of the ranks that have the least and the most
    std::size_t least_rank = 0, most_rank = 0;
};

// Who waited for whom.
struct LateSummary {
    Late late = Late::nobody;
    std::size_t waiting_rank = 0;
    std::int32_t late_rank = -1;
    std::uint64_t times = 0, time = 0, longest = 0;
};

// A collective of all ranks: the rank that is in it longest came first, the one that is in it shortest last; the difference is how long the
// first one was kept waiting.
struct ImbalanceSummary {
    std::string name;
    std::uint64_t calls = 0, compared = 0;
    std::uint64_t mean = 0, largest = 0;
    std::size_t last = 0;        // the rank that came last most often
    std::uint64_t last_times = 0;  // of those that were compared
};

struct PathSummary {
    std::string name;
    Sizes sizes;
    std::uint64_t messages = 0, bytes = 0;
    std::uint64_t pulled = 0, pulling = 0, round_trip = 0;
};

struct Summary {
    std::uint64_t time = 0;  // of the rank that has the most
    std::size_t hosts = 0;
    std::vector<std::size_t> silent;           // ranks that told nothing
    std::vector<CallSummary> calls;            // most time first
    std::vector<LateSummary> late;             // most time first, at most `late_most` of each kind
    std::vector<ImbalanceSummary> imbalances;  // largest mean times calls first
    std::vector<PathSummary> paths;            // most bytes first
};
inline constexpr std::size_t late_most = 8;

Summary summarize(const Profile &profile);

// "1.5 s", "23 ms", "0.41 us"; "12.3 %"; "1.5 KiB"; ".. 16", "1 KiB": the largest of a class.
std::string time_text(std::uint64_t nanoseconds);
std::string share_text(std::uint64_t part, std::uint64_t whole);
std::string size_text(std::uint64_t bytes);
std::string class_text(std::size_t size_class);

}  // namespace pm::profile
