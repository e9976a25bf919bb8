// The memory other processes write into when they send to this one: its region of a file without a name.
//
// Promise: nothing of it outlives its processes, not even after SIGKILL, because it never has a name anywhere. Processes of a job
// share one file (host_file.h); that of another job is opened as /proc/PROCESS/fd/FILE. A peer believes a region only when the
// random token inside is the one on the card. Memory is reserved before it is touched, so a full /dev/shm is an error or
// back-pressure and never SIGBUS.
// Layout: one header room, then slots of equal size; a sender claims a slot and uses the ring in it (slots.h); then the heap (heap.h) and the arena (arena.h). The
// file is sparse: a slot that nobody has claimed, or that was given back, costs nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/status.h"
#include "shmmod/joint.h"
#include "shmmod/ring.h"

namespace pm::shmem {

enum class Backing { automatic, memfd, devshm };
Result<Backing> parse_backing(std::string_view text);

inline constexpr std::size_t header_room = 64 * 1024;  // a multiple of every page size in use
inline constexpr std::size_t ring_room = 64 * 1024;
inline constexpr std::size_t slot_room = ring_room + bulk_size;
inline constexpr std::uint32_t slot_limit = 4096;
inline constexpr std::uint64_t segment_magic = 0x3b746573706d6f63;  // changes with the layout

static_assert(sizeof(RingMemory<std::atomic>) <= ring_room);

// A part of the region that its owner hands out: where it is in the owner's memory, valid once `open` is 1. See heap.h. `Atomic` is std::atomic
// but in tests.
template <template <class> class Atomic>
struct BasicPublished {
    std::uint64_t address;
    Atomic<std::uint32_t> open;

    void publish(std::uint64_t at)
    {
        address = at;
        open.store(1, std::memory_order_release);  // [H1] tells where it is; pairs with [H2].
    }
    // [H2] it is where its owner says; pairs with [H1].
    bool is_open() const { return open.load(std::memory_order_acquire) == 1; }
};
using Published = BasicPublished<std::atomic>;

struct SegmentHeader {
    std::uint64_t magic;
    std::uint64_t token;
    std::uint64_t started;        // when the owner was: see base/process.h
    std::uint64_t probe_address;  // of a word in the owner's memory that holds the token: tests whether pulling works
    Published heap, arena;
    std::atomic<std::int32_t> wake_file;  // of the owner: a pipe to write to when it sleeps; negative: a futex, the ready word
    std::atomic<std::uint32_t> not_woken;  // so many senders cannot open that pipe
    std::atomic<std::uint64_t> memory;     // reserved in this region by senders
    alignas(line_pair) std::atomic<std::uint32_t> ready;    // see doorbell.h
    alignas(line_pair) std::atomic<std::uint32_t> claimed;  // slots taken by senders, given back or not
    std::atomic<std::uint64_t> given_back[slot_limit / 64];  // see slots.h
    std::atomic<std::uint64_t> kept;                         // the same
    alignas(line_pair) JointCopy<std::atomic> joint;         // of a message that the owner receives
};

// An mmap that is undone at the end.
class Mapping {
  public:
    Mapping() = default;
    Mapping(Mapping &&other) noexcept;
    Mapping &operator=(Mapping &&other) noexcept;
    ~Mapping();

    // Of bytes that the file has: whoever made it may be another.
    static Result<Mapping> create(int file, std::size_t offset, std::size_t size);
    std::byte *data() const { return data_; }
    void keep() { data_ = nullptr; }  // for ever

  private:
    std::byte *data_ = nullptr;
    std::size_t size_ = 0;
};

// A new nameless file of `size` bytes, sparse. It keeps its size for good where it is a memfd.
Result<File> create_nameless_file(Backing backing, std::size_t size);

// Gives [offset, offset + size) memory, or says why not.
Error reserve(int file, std::size_t offset, std::size_t size);

// Of a mapping, what is reserved: from now on no page of it has to be found when it is first looked at, which costs more. It does no harm where the kernel
// cannot do that.
void find_pages(std::byte *begin, std::size_t size);

// Takes the memory of [offset, offset + size) away: it is as it was before it was reserved. False when that cannot be done.
bool give_up(int file, std::size_t offset, std::size_t size);

// Whether the file system of `file` has `size` bytes left; an error with both sizes when not.
Error check_space(int file, std::size_t size, const std::string &purpose);

std::size_t page_size();

// The file behind descriptor `file` of `process`, for reading and writing.
Result<File> open_file_of(std::int32_t process, std::int32_t file);

inline std::size_t slot_offset(std::uint32_t slot)
{
    return header_room + static_cast<std::size_t>(slot) * slot_room;
}

}  // namespace pm::shmem
