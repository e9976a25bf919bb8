// Memory of this process that its peers read without a system call: blocks in a nameless file of its own.
//
// Promise: allocate() answers a block of at most heap_block bytes that is backed by memory, or nothing. A peer finds the file through
// the segment's header and maps it once; an address in it means the same place for both. The lowest free block is
// taken, so that a quiet process touches few pages and keeps them in its cache.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

#include "shmmod/segment.h"

namespace pm::shmem {

inline constexpr std::size_t heap_block = 260 * 1024;  // 256 KB, and who uses it may say something about it
inline constexpr std::size_t heap_blocks = 32;
inline constexpr std::size_t heap_size = heap_block * heap_blocks;

// The owner's side.
class Heap {
  public:
    // nullptr: too large, none left, or no memory to be had.
    void *allocate(std::size_t size, Backing backing, SegmentHeader *header);
    void free(void *block);

  private:
    bool open(Backing backing, SegmentHeader *header);

    File file_;
    Mapping mapping_;
    std::bitset<heap_blocks> used_;
    std::bitset<heap_blocks> reserved_;
};

// A peer's side: where bytes [address, address + size) of the owner's memory are here; nullptr when they are not in its heap.
class HeapView {
  public:
    std::byte *find(const SegmentHeader *header, std::uint64_t address, std::size_t size);

  private:
    Mapping mapping_;
    bool tried_ = false;
};

}  // namespace pm::shmem
