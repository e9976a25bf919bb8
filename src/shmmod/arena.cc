#include "shmmod/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace pm::shmem {
namespace {

// A signal makes the kernel begin again with a whole one.
constexpr std::size_t piece = std::size_t{2} << 20;

std::size_t number_in(const char *file, std::string_view name)
{
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with(name))
            return std::strtoull(line.c_str() + name.size(), nullptr, 10);
    return SIZE_MAX;
}

// What is taken from the machine between two looks at what it has left; other ranks take as much.
constexpr std::size_t look_again = std::size_t{4} << 20;

// Of the machine, or of the group that this process is confined to.
std::size_t memory_left()
{
    std::size_t kilobytes = number_in("/proc/meminfo", "MemAvailable:");
    std::size_t left = kilobytes == SIZE_MAX ? kilobytes : kilobytes * 1024;
    for (auto [most, used] : {std::pair{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
                              std::pair{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}}) {
        std::size_t limit = number_in(most, ""), current = number_in(used, "");
        if (limit != SIZE_MAX && limit != 0 && current != SIZE_MAX)  // "max" reads as 0
            left = std::min(left, limit - std::min(limit, current));
    }
    return left;
}

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

void *Arena::allocate(std::size_t size, std::size_t at_once)
{
    if (size == 0 || size > arena_size)
        return nullptr;
    bool is_new = mapping_.data() == nullptr;
    if (!publish(published_, file_, offset_, arena_size, &mapping_))
        return nullptr;
    // Most of it is nothing, of which a dump would be made.
    if (is_new)
        (void)madvise(mapping_.data(), arena_size, MADV_DONTDUMP);
    size = detail::round_up(size, page_size());
    at_once = detail::round_up(std::min(at_once, size), page_size());
    std::size_t begin = find_gap(blocks_, size);
    // As much again stays for others, where memory is counted.
    if (begin == arena_size || check_space(file_, 2 * size, "windows"))
        return nullptr;
    if (2 * size > spare_) {
        std::size_t left = memory_left();
        if (2 * size > left)
            return nullptr;
        spare_ = std::max(2 * size, std::min(left / 16, look_again));
    }
    spare_ -= 2 * at_once;
    for (std::size_t done = 0; done < at_once; done += piece)
        if (reserve(file_, offset_ + begin + done, std::min(piece, at_once - done))) {
            give_up(file_, offset_ + begin, done);
            return nullptr;
        }
    blocks_.emplace(begin, size);
    return mapping_.data() + begin;
}

Arena::~Arena()
{
    if (!blocks_.empty())
        mapping_.keep();
}

bool Arena::free(void *block)
{
    auto place = static_cast<std::byte *>(block);
    if (mapping_.data() == nullptr || place < mapping_.data() || place >= mapping_.data() + arena_size)
        return false;
    auto found = blocks_.find(static_cast<std::size_t>(place - mapping_.data()));
    if (found == blocks_.end())
        return false;
    // As it is told to the address: libraries that have noted the pages behind it (registration caches) notice that.
    if (madvise(place, found->second, MADV_REMOVE) != 0)
        give_up(file_, offset_ + found->first, found->second);
    blocks_.erase(found);
    return true;
}

}  // namespace pm::shmem
