// Memory of messages. A block is handed from the network to the method that gets it, and from a sender to a receiver in the same process:
// its bytes are not copied on the way. Large blocks are kept and used again, as fresh pages cost more than the bytes in them.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace composite {

struct Block {
    std::size_t capacity;
    std::size_t size;
    std::byte *data() { return reinterpret_cast<std::byte *>(this) + header; }
    static Block *of(void *data) { return reinterpret_cast<Block *>(static_cast<std::byte *>(data) - header); }

    static constexpr std::size_t header = 64;
    // Throws std::bad_alloc. The bytes are those that were there before.
    static Block *take(std::size_t size);
    static void give_back(Block *block) noexcept;
};

struct BlockDeleter {
    void operator()(Block *block) const noexcept { Block::give_back(block); }
};
using BlockPointer = std::unique_ptr<Block, BlockDeleter>;

// Bytes that a message may carry, and that belong to one at a time. Sent by std::move, they reach a method of the same process, or arrive
// from another, without a copy.
class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(std::size_t size) : block_(Block::take(size)), data_(block_->data()), size_(size) {}
    // Bytes within a block.
    Buffer(BlockPointer block, std::byte *data, std::size_t size) : block_(std::move(block)), data_(data), size_(size) {}
    Buffer(Buffer &&other) noexcept
        : block_(std::move(other.block_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0))
    {
    }
    Buffer &operator=(Buffer &&other) noexcept
    {
        block_ = std::move(other.block_);
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
        return *this;
    }

    std::byte *data() { return data_; }
    const std::byte *data() const { return data_; }
    std::size_t size() const { return size_; }

  private:
    BlockPointer block_;
    std::byte *data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace composite
