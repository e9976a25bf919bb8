// The bytes of a piece, for as long as somebody sends or reads them. A small count, under the engine's lock.
//
// They are in memory of our own, or in a block of shared memory that starts with the number of those who still read it: of ours,
// or of a peer's. Whoever lends a block frees it when it finds that number at 0; nobody is told.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace pm::coll {

// `Atomic` is std::atomic but in tests. As large as a page, so that the bytes begin with one, as large buffers of users do: copying from another place in a page took up
// to a third more time.
template <template <class> class Atomic>
struct alignas(4096) BasicBlockHead {
    Atomic<std::uint32_t> readers;

    // [M1] all of ours is read; pairs with [M2], which lets the block be written again.
    void is_read() { readers.fetch_sub(1, std::memory_order_release); }
    // [M2] everybody has read it; pairs with [M1].
    bool is_free() const { return readers.load(std::memory_order_acquire) == 0; }
};
using BlockHead = BasicBlockHead<std::atomic>;
static_assert(sizeof(BlockHead) == 4096);

inline std::byte *bytes_of(BlockHead *block)
{
    return reinterpret_cast<std::byte *>(block + 1);
}

class Bytes {
  public:
    Bytes() = default;
    static Bytes make(std::size_t size) { return around(std::make_unique_for_overwrite<std::byte[]>(size)); }
    // Of any size: empty when there is no memory.
    static Bytes try_to_make(std::size_t size)
    {
        std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[size]);
        return memory ? around(std::move(memory)) : Bytes();
    }
    static Bytes copy(const void *data, std::size_t size)
    {
        Bytes bytes = make(size);
        if (size != 0)
            std::memcpy(bytes.data_, data, size);
        return bytes;
    }
    // One of the block's readers is this one, and all copies of it.
    static Bytes in_block(BlockHead *block)
    {
        Bytes bytes;
        bytes.shared_ = new Shared{1, nullptr, block};
        bytes.data_ = bytes_of(block);
        return bytes;
    }

    Bytes(const Bytes &other) : shared_(other.shared_), data_(other.data_)
    {
        if (shared_ != nullptr)
            shared_->holders++;
    }
    Bytes(Bytes &&other) noexcept : shared_(std::exchange(other.shared_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}
    Bytes &operator=(Bytes other) noexcept
    {
        std::swap(shared_, other.shared_);
        std::swap(data_, other.data_);
        return *this;
    }
    ~Bytes()
    {
        if (shared_ == nullptr || --shared_->holders > 0)
            return;
        if (shared_->block != nullptr)
            shared_->block->is_read();
        delete shared_;
    }

    explicit operator bool() const { return shared_ != nullptr; }
    std::byte *data() const { return data_; }
    BlockHead *block() const { return shared_ == nullptr ? nullptr : shared_->block; }

  private:
    static Bytes around(std::unique_ptr<std::byte[]> memory)
    {
        Bytes bytes;
        bytes.shared_ = new Shared{1, std::move(memory), nullptr};
        bytes.data_ = bytes.shared_->memory.get();
        return bytes;
    }
    struct Shared {
        std::uint32_t holders;
        std::unique_ptr<std::byte[]> memory;
        BlockHead *block;
    };
    Shared *shared_ = nullptr;
    std::byte *data_ = nullptr;
};

}  // namespace pm::coll
