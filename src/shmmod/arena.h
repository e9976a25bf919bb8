// Memory for the program (MPI_Alloc_mem) that the ranks of its host can map: windows on it are as good as those that MPI allocates.
//
// Promise: allocate() answers memory that is backed, zeroed, and at a multiple of the page size, or nothing; then the caller takes other memory. Where
// less is asked for at once, only so much of it is backed, from its beginning, and the rest by whoever comes to use it. What channels need is left alone. Peers find it as they find the heap (PublishedView).
#pragma once

#include <cstddef>
#include <map>

#include "shmmod/heap.h"
#include "shmmod/segment.h"

namespace pm::shmem {

inline constexpr std::size_t arena_size = std::size_t{4} << 30;  // of addresses: it is sparse

// The owner's side: [offset, offset + arena_size) of `file`.
class Arena {
  public:
    Arena() = default;
    Arena(int file, std::size_t offset, Published *published) : file_(file), offset_(offset), published_(published) {}

    Arena(Arena &&) = default;
    Arena &operator=(Arena &&) = default;
    ~Arena();  // what was not freed stays mapped: the program may still look at it

    void *allocate(std::size_t size, std::size_t at_once);
    void *allocate(std::size_t size) { return allocate(size, size); }
    bool free(void *block);  // false: it is not of here

  private:
    int file_ = -1;
    std::size_t offset_ = 0;
    Published *published_ = nullptr;
    Mapping mapping_;
    std::map<std::size_t, std::size_t> blocks_;  // those in use: where they begin, and their sizes
    std::size_t spare_ = 0;  // seen to be left in the machine, of which blocks are made without looking again
};

}  // namespace pm::shmem
