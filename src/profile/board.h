// What a process shows of itself while it runs, in memory that it shares with `mpicomposite top`: plain numbers and texts of fixed size.
//
// The process writes, whoever looks reads; only `watched` is written by who looks, now and then, which turns the recording on. Nothing is
// ordered: each number is good by itself, and whoever reads checks what it uses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pm::profile {

inline constexpr std::size_t functions_bits = 8, functions_most = std::size_t{1} << functions_bits;
inline constexpr std::size_t name_room = 40, paths_most = 8;
inline constexpr std::uint64_t board_magic = 0x31306472616f6270;  // changes with the layout

struct Board {
    std::atomic<std::uint64_t> magic{0};  // there is somebody
    std::atomic<std::uint64_t> watched{0};  // counted up by who looks
    std::atomic<std::int32_t> process{0}, rank{-1}, ranks{0};
    std::atomic<std::uint32_t> recording{0};
    std::atomic<std::uint64_t> begun{0};      // when the recording did, in ticks
    std::atomic<std::uint32_t> call{0};       // 0: computes; otherwise its place in `names`, and 1
    std::atomic<std::uint32_t> late{0};       // it waits for a message (1) or for a receiver (2) ...
    std::atomic<std::int32_t> waits_for{-1};  // ... of this rank; -1: of any
    std::atomic<std::uint64_t> since{0};      // in this call, if it is known: ticks
    std::atomic<std::uint64_t> in_mpi{0};     // in calls that have ended: ticks
    struct Path {
        char name[name_room];
        std::atomic<std::uint64_t> messages, bytes;  // sent
    } paths[paths_most] = {};
    char names[functions_most][name_room] = {};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(Board) <= 16 * 1024);

}  // namespace pm::profile
