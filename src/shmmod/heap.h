// Memory of this process that its peers read without a system call: blocks in its region of a file that they have open.
//
// Promise: allocate() answers a block of at most heap_block bytes that is backed by memory, or nothing. A peer finds it through
// the segment's header and maps it once; an address in it means the same place for both. The lowest free block is
// taken, so that a quiet process touches few pages and keeps them in its cache.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shmmod/segment.h"

namespace pm::shmem {

inline constexpr std::size_t heap_block = 260 * 1024;  // 256 KB, and who uses it may say something about it
inline constexpr std::size_t heap_blocks = 32;
inline constexpr std::size_t heap_size = heap_block * heap_blocks;

// The owner's side: [offset, offset + heap_size) of `file`.
class Heap {
  public:
    Heap() = default;
    Heap(int file, std::size_t offset, Published *published) : file_(file), offset_(offset), published_(published) {}

    // nullptr: too large, none left, or no memory to be had.
    void *allocate(std::size_t size);
    void free(void *block);

  private:
    int file_ = -1;
    std::size_t offset_ = 0;
    Published *published_ = nullptr;
    Mapping mapping_;
    std::bitset<heap_blocks> used_;
    std::bitset<heap_blocks> reserved_;
};

// The owner maps [offset, offset + room) of `file`, once, and says where. False when that cannot be done.
bool publish(Published *published, int file, std::size_t offset, std::size_t room, Mapping *mapping);

// A peer's side of a heap or an arena, which has `room` bytes at `offset` of `file`: where bytes [address, address + size) of the owner's
// memory are here; nullptr when they are not in it. No more is mapped than is looked at, and twice as much each time: address space may be
// limited. What was found stays where it is.
class PublishedView {
  public:
    std::byte *find(const Published &published, int file, std::size_t offset, std::size_t room, std::uint64_t address, std::size_t size);

  private:
    static constexpr std::size_t first_size = std::size_t{16} << 20;
    std::vector<Mapping> mappings_;  // each larger than the one before
    std::size_t size_ = 0;           // of the last
    bool failed_ = false;
};

}  // namespace pm::shmem
