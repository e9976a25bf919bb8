#include "shmmod/arena.h"

namespace pm::shmem {
namespace {

// The lowest gap that is large enough, or arena_size.
std::size_t find_gap(const std::map<std::size_t, std::size_t> &blocks, std::size_t size)
{
    std::size_t gap = 0;
    for (const auto &[begin, length] : blocks) {
        if (begin - gap >= size)
            return gap;
        gap = begin + length;
    }
    return arena_size - gap >= size ? gap : arena_size;
}

}  // namespace

void *Arena::allocate(std::size_t size)
{
    if (size == 0 || size > arena_size || !publish(published_, file_, offset_, arena_size, &mapping_))
        return nullptr;
    size = detail::round_up(size, page_size());
    std::size_t begin = find_gap(blocks_, size);
    // As much again stays for messages, where memory is counted.
    if (begin == arena_size || check_space(file_, 2 * size, "windows") || reserve(file_, offset_ + begin, size))
        return nullptr;
    blocks_.emplace(begin, size);
    return mapping_.data() + begin;
}

bool Arena::free(void *block)
{
    auto place = static_cast<std::byte *>(block);
    if (mapping_.data() == nullptr || place < mapping_.data() || place >= mapping_.data() + arena_size)
        return false;
    auto found = blocks_.find(static_cast<std::size_t>(place - mapping_.data()));
    if (found == blocks_.end())
        return false;
    give_up(file_, offset_ + found->first, found->second);
    blocks_.erase(found);
    return true;
}

}  // namespace pm::shmem
