// The memory of one object: taken in blocks from the process, given out in pieces without a lock, as an object runs one method at a time
// on one thread, and given back at once when the object is gone, whatever was still in use. Costs nothing until it is used.
#pragma once

#include <cstddef>
#include <memory_resource>

namespace composite {

class Heap final : public std::pmr::memory_resource {
  public:
    Heap() = default;
    ~Heap() override;
    Heap(const Heap &) = delete;
    Heap &operator=(const Heap &) = delete;

  private:
    struct Piece {
        Piece *next;
    };
    struct Region {
        Region *next, *previous;
        std::size_t size;
    };
    void *do_allocate(std::size_t size, std::size_t alignment) override;
    void do_deallocate(void *pointer, std::size_t size, std::size_t alignment) override;
    bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
    void *carve(std::size_t size);
    void *take_region(std::size_t size, std::size_t alignment);

    static constexpr std::size_t grain = 16, largest = 1024, kinds = largest / grain;
    static constexpr std::size_t first_region = 1024, last_region = 64 * 1024;
    Piece *free_[kinds] = {};
    char *at_ = nullptr, *end_ = nullptr;
    Region *regions_ = nullptr;
    std::size_t next_size_ = first_region;
};

// Of the object whose method runs; outside of methods that of the process.
std::pmr::memory_resource *heap();

}  // namespace composite
