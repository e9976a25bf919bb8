#include "shmmod/heap.h"

namespace pm::shmem {

bool Heap::open(Backing backing, SegmentHeader *header)
{
    if (mapping_.data() != nullptr)
        return true;
    Result<File> file = create_nameless_file(backing, heap_size);
    if (!file.ok())
        return false;
    Result<Mapping> mapping = Mapping::create(file.value().get(), 0, heap_size);
    if (!mapping.ok())
        return false;
    file_ = std::move(file.value());
    mapping_ = std::move(mapping.value());
    header->heap_file = file_.get();
    header->heap_address = reinterpret_cast<std::uint64_t>(mapping_.data());
    // [H1] publishes where the heap is; pairs with [H2] in HeapView::find.
    header->heap_open.store(1, std::memory_order_release);
    return true;
}

void *Heap::allocate(std::size_t size, Backing backing, SegmentHeader *header)
{
    if (size > heap_block || used_.all() || !open(backing, header))
        return nullptr;
    std::size_t block = 0;
    while (used_[block])
        ++block;
    if (!reserved_[block]) {
        if (reserve(file_.get(), block * heap_block, heap_block))
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

std::byte *HeapView::find(const SegmentHeader *header, std::uint64_t address, std::size_t size)
{
    // [H2] the owner's heap is where the header says; pairs with [H1] in Heap::open.
    if (header->heap_open.load(std::memory_order_acquire) != 1 || address < header->heap_address)
        return nullptr;
    std::uint64_t offset = address - header->heap_address;
    if (offset > heap_size || size > heap_size - offset)
        return nullptr;
    if (!tried_) {
        tried_ = true;
        Result<File> file = open_file_of(header->process, header->heap_file);
        if (!file.ok())
            return nullptr;
        Result<Mapping> mapping = Mapping::create(file.value().get(), 0, heap_size);
        if (mapping.ok())
            mapping_ = std::move(mapping.value());
    }
    return mapping_.data() == nullptr ? nullptr : mapping_.data() + offset;
}

}  // namespace pm::shmem
