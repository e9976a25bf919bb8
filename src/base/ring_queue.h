// A queue in one block of memory, which doubles when it is full: for objects that come and go by the thousand.
// Growing moves them; pointers into the queue are valid until the next emplace_back(). One that was popped is destroyed when its slot is
// used again: whoever holds something that must end sooner lets go of it before.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace pm {

template <class T>
class RingQueue {
  public:
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T &operator[](std::size_t i) { return slots_[(first_ + i) & mask_]; }
    const T &operator[](std::size_t i) const { return slots_[(first_ + i) & mask_]; }
    T &front() { return (*this)[0]; }
    T &back() { return (*this)[size_ - 1]; }

    T &emplace_back()
    {
        if (size_ == slots_.size())
            grow();
        ++size_;
        T *slot = &back();
        std::destroy_at(slot);
        return *std::construct_at(slot);
    }

    void pop_front()
    {
        first_ = --size_ == 0 ? 0 : (first_ + 1) & mask_;  // an empty one begins where the memory is near
    }

  private:
    void grow()
    {
        std::vector<T> larger(slots_.empty() ? 8 : 2 * slots_.size());
        for (std::size_t i = 0; i < size_; ++i)
            larger[i] = std::move((*this)[i]);
        slots_ = std::move(larger);
        mask_ = slots_.size() - 1;
        first_ = 0;
    }

    std::vector<T> slots_;  // a power of two
    std::size_t mask_ = 0;
    std::size_t first_ = 0;
    std::size_t size_ = 0;
};

}  // namespace pm
