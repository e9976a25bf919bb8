#include "block.hh"

#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>

namespace composite {

namespace {

// From this size on blocks are kept; malloc gives memory of that size back to the kernel, or may.
constexpr std::size_t large = 64 * 1024;
constexpr std::size_t keep_bytes = 64 * 1024 * 1024;

struct Shelf {
    std::mutex mutex;
    Block *blocks[64] = {};  // by the power of two of their capacity; the next is in the data of the one before
    std::size_t bytes = 0;
};

// Never destroyed: a block may be given back at the very end of a process.
Shelf &shelf()
{
    static Shelf &instance = *new Shelf;
    return instance;
}

Block *allocate(std::size_t capacity)
{
    void *memory = nullptr;
    if (posix_memalign(&memory, 64, Block::header + capacity) != 0)
        throw std::bad_alloc();
    return new (memory) Block{capacity, 0};
}

}  // namespace

Block *Block::take(std::size_t size)
{
    Block *block = nullptr;
    if (size < large) {
        void *memory = std::malloc(header + size);
        if (memory == nullptr)
            throw std::bad_alloc();
        block = new (memory) Block{size, 0};
    } else {
        const auto kind = static_cast<std::size_t>(std::bit_width(size - 1));
        Shelf &from = shelf();
        {
            std::lock_guard lock(from.mutex);
            block = from.blocks[kind];
            if (block != nullptr) {
                std::memcpy(&from.blocks[kind], block->data(), sizeof block);
                from.bytes -= block->capacity;
            }
        }
        if (block == nullptr)
            block = allocate(std::size_t{1} << kind);
    }
    block->size = size;
    return block;
}

void Block::give_back(Block *block) noexcept
{
    if (block == nullptr)
        return;
    if (block->capacity >= large) {
        const auto kind = static_cast<std::size_t>(std::bit_width(block->capacity - 1));
        Shelf &to = shelf();
        std::lock_guard lock(to.mutex);
        if (to.bytes + block->capacity <= keep_bytes) {
            std::memcpy(block->data(), &to.blocks[kind], sizeof block);
            to.blocks[kind] = block;
            to.bytes += block->capacity;
            return;
        }
    }
    std::free(block);
}

}  // namespace composite
