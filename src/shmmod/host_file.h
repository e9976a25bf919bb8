// One nameless file for the processes of a job on a host: their cards while the job starts, then a region of each, the segment
// that others write into (segment.h), its heap (heap.h) and its arena (arena.h).
//
// Promise: whoever has opened it needs nothing else to reach all others: one descriptor however many they are, and nothing to open
// once the job runs, when a process may forbid it (PR_SET_DUMPABLE) or have no descriptor left. A file that is not shared is one
// with one region. As for all of shared memory here: sparse, reserved before it is touched, gone with its last process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "shmmod/arena.h"
#include "shmmod/heap.h"
#include "shmmod/segment.h"

namespace pm::shmem {

// What others of the host need to open it.
struct HostFileName {
    std::uint64_t token = 0;
    std::int32_t process = 0;
    std::int32_t file = -1;
};

class HostFile {
  public:
    // For `regions` processes of a job of `ranks`; no ranks: no cards.
    static Result<std::shared_ptr<HostFile>> create(Backing backing, std::uint32_t regions, std::uint32_t ranks);
    // That of another process; unreachable when it cannot be opened, or is not what the name says.
    static Result<std::shared_ptr<HostFile>> open(const HostFileName &name);

    HostFileName name() const { return {token_, process_, file_.get()}; }
    int descriptor() const { return file_.get(); }
    std::uint64_t token() const { return token_; }
    std::size_t region(std::uint32_t index) const;

    // Cards of ranks: put by one process of the host, read by all after the job's start-up has let all of them pass.
    Error put_card(std::uint32_t rank, std::span<const std::byte> card);
    // All that are there, by rank; views are valid until the next call. One that is not has no data, an empty one has.
    Result<std::vector<std::span<const std::byte>>> cards();
    void forget_cards() { read_ = {}; }  // views end

  private:
    struct Header {
        std::uint64_t magic;
        std::uint64_t token;
        std::uint32_t ranks;
        std::atomic<std::uint32_t> used;  // bytes behind the table
    };
    struct Entry {
        std::uint32_t there;
        std::uint32_t size;
        std::uint64_t offset;
    };
    HostFile() = default;
    Header &header() const { return *reinterpret_cast<Header *>(mapping_.data()); }
    std::size_t table_size() const { return ranks_ * sizeof(Entry); }

    File file_;
    Mapping mapping_;
    std::uint64_t token_ = 0;
    std::int32_t process_ = 0;
    std::uint32_t ranks_ = 0;
    std::vector<std::byte> read_;
};

// Where things are in a region.
inline constexpr std::size_t heap_offset = header_room + std::size_t{slot_limit} * slot_room;
inline constexpr std::size_t arena_offset = heap_offset + detail::round_up(heap_size, header_room);
inline constexpr std::size_t region_room = arena_offset + arena_size;

}  // namespace pm::shmem
