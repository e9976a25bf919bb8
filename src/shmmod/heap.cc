#include "shmmod/heap.h"

#include <sys/mman.h>

#include <algorithm>

namespace pm::shmem {

bool publish(Published *published, int file, std::size_t offset, std::size_t room, Mapping *mapping)
{
    if (mapping->data() != nullptr)
        return true;
    Result<Mapping> made = Mapping::create(file, offset, room);
    if (!made.ok())
        return false;
    *mapping = std::move(made.value());
    published->publish(reinterpret_cast<std::uint64_t>(mapping->data()));
    return true;
}

void *Heap::allocate(std::size_t size)
{
    if (size > heap_block || used_.all() || !publish(published_, file_, offset_, heap_size, &mapping_))
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

std::byte *PublishedView::find(const Published &published, int file, std::size_t offset, std::size_t room, std::uint64_t address,
                               std::size_t size)
{
    if (!published.is_open() || address < published.address)
        return nullptr;
    std::uint64_t start = address - published.address;
    if (start > room || size > room - start)
        return nullptr;
    if (start + size > size_) {
        std::size_t wanted = first_size;
        while (wanted < start + size)
            wanted *= 2;
        wanted = std::min(wanted, room);
        Result<Mapping> mapping = failed_ ? Result<Mapping>(Error{Status::no_memory, ""}) : Mapping::create(file, offset, wanted);
        failed_ = !mapping.ok();
        if (failed_)
            return nullptr;
        (void)madvise(mapping.value().data(), wanted, MADV_DONTDUMP);  // its owner's to dump
        mappings_.push_back(std::move(mapping.value()));
        size_ = wanted;
    }
    return mappings_.back().data() + start;
}

}  // namespace pm::shmem
