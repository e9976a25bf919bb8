#include "heap.hh"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "object.hh"
#include "worker.hh"

namespace composite {

Heap::~Heap()
{
    while (regions_ != nullptr) {
        Region *next = regions_->next;
        std::free(regions_);
        regions_ = next;
    }
}

// Behind a header, aligned as asked.
void *Heap::take_region(std::size_t size, std::size_t alignment)
{
    const std::size_t header = (sizeof(Region) + alignment - 1) & ~(alignment - 1);
    void *memory = nullptr;
    if (size > ~std::size_t{0} - header - alignment || posix_memalign(&memory, std::max(alignment, sizeof(void *)), header + size) != 0)
        throw std::bad_alloc();
    auto *region = new (memory) Region{regions_, nullptr, size};
    if (regions_ != nullptr)
        regions_->previous = region;
    regions_ = region;
    return static_cast<char *>(memory) + header;
}

void *Heap::carve(std::size_t size)
{
    if (static_cast<std::size_t>(end_ - at_) < size) {
        // What is left of the last region is given out as small pieces.
        while (static_cast<std::size_t>(end_ - at_) >= grain) {
            const std::size_t left = std::min(static_cast<std::size_t>(end_ - at_) / grain * grain, largest);
            free_[left / grain - 1] = new (at_) Piece{free_[left / grain - 1]};
            at_ += left;
        }
        at_ = static_cast<char *>(take_region(next_size_, grain));
        end_ = at_ + next_size_;
        next_size_ = std::min(2 * next_size_, last_region);
    }
    void *piece = at_;
    at_ += size;
    return piece;
}

void *Heap::do_allocate(std::size_t size, std::size_t alignment)
{
    if (size > largest || alignment > grain)
        return take_region(size, std::max(alignment, grain));
    const std::size_t kind = (std::max<std::size_t>(size, 1) - 1) / grain;
    if (Piece *piece = free_[kind]; piece != nullptr) {
        free_[kind] = piece->next;
        return piece;
    }
    return carve((kind + 1) * grain);
}

void Heap::do_deallocate(void *pointer, std::size_t size, std::size_t alignment)
{
    if (size > largest || alignment > grain) {
        const std::size_t most = std::max(alignment, grain);
        auto *region = reinterpret_cast<Region *>(static_cast<char *>(pointer) - ((sizeof(Region) + most - 1) & ~(most - 1)));
        (region->previous != nullptr ? region->previous->next : regions_) = region->next;
        if (region->next != nullptr)
            region->next->previous = region->previous;
        std::free(region);
        return;
    }
    const std::size_t kind = (std::max<std::size_t>(size, 1) - 1) / grain;
    free_[kind] = new (pointer) Piece{free_[kind]};
}

std::pmr::memory_resource *heap()
{
    Worker *worker = Worker::current_or_null();
    if (worker == nullptr || worker->object == nullptr)
        return std::pmr::get_default_resource();
    if (worker->object->heap == nullptr)
        worker->object->heap = new Heap;
    return worker->object->heap;
}

}  // namespace composite
