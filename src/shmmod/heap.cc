#include "shmmod/heap.h"

namespace pm::shmem {

bool Heap::open()
{
    if (mapping_.data() != nullptr)
        return true;
    Result<Mapping> mapping = Mapping::create(file_, offset_, heap_size);
    if (!mapping.ok())
        return false;
    mapping_ = std::move(mapping.value());
    header_->heap_address = reinterpret_cast<std::uint64_t>(mapping_.data());
    // [H1] publishes where the heap is; pairs with [H2] in HeapView::find.
    header_->heap_open.store(1, std::memory_order_release);
    return true;
}

void *Heap::allocate(std::size_t size)
{
    if (size > heap_block || used_.all() || !open())
        return nullptr;
    std::size_t block = 0;
    while (used_[block])
        ++block;
    if (!reserved_[block]) {
        if (reserve(file_, offset_ + block * heap_block, heap_block))
            return nullptr;
        reserved_[block] = true;
    }
    used_[block] = true;
    return mapping_.data() + block * heap_block;
}

void Heap::free(void *block)
{
    used_[static_cast<std::size_t>(static_cast<std::byte *>(block) - mapping_.data()) / heap_block] = false;
}

std::byte *HeapView::find(const SegmentHeader *header, int file, std::size_t offset, std::uint64_t address, std::size_t size)
{
    // [H2] the owner's heap is where the header says; pairs with [H1] in Heap::open.
    if (header->heap_open.load(std::memory_order_acquire) != 1 || address < header->heap_address)
        return nullptr;
    std::uint64_t start = address - header->heap_address;
    if (start > heap_size || size > heap_size - start)
        return nullptr;
    if (!tried_) {
        tried_ = true;
        Result<Mapping> mapping = Mapping::create(file, offset, heap_size);
        if (mapping.ok())
            mapping_ = std::move(mapping.value());
    }
    return mapping_.data() == nullptr ? nullptr : mapping_.data() + start;
}

}  // namespace pm::shmem
