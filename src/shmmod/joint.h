// One copy that two processes make: the receiver of a long message, whose memory this is in, opens it, and copies parts of the message until
// none is left. Its sender, once it has been told and if it looks in time, takes parts as well. Nobody waits for a sender that does not look.
//
// Promise: each part is taken once. Once finished() every byte is there, or somebody says that a part is not.
// There is one for each process, for one message at a time. A sender that looks late finds another number, and takes nothing.
//
// The atomic type is a parameter so that tests run this very code under a seeded scheduler.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/tuning.h"

namespace pm::shmem {

// The parts of a message, of equal size but for the last, and about as many for each of both.
class JointParts {
  public:
    explicit JointParts(std::size_t size)
        : size_(size), part_(std::clamp(whole_pages((size - 1) / even_parts(size) + 1), PM_JOINT_SMALLEST_PART, PM_JOINT_LARGEST_PART))
    {
    }
    // Within what 32 bits count.
    bool are_few() const { return size_ / part_ < UINT32_MAX; }
    std::uint32_t count() const { return static_cast<std::uint32_t>((size_ + part_ - 1) / part_); }
    std::size_t offset(std::uint32_t part) const { return part * part_; }
    std::size_t size(std::uint32_t part) const { return std::min(part_, size_ - offset(part)); }

  private:
    static std::size_t even_parts(std::size_t size) { return ((size - 1) / (PM_JOINT_PARTS * PM_JOINT_LARGEST_PART) + 1) * PM_JOINT_PARTS; }
    static std::size_t whole_pages(std::size_t size) { return (size + 4095) / 4096 * 4096; }

    std::size_t size_, part_;
};

template <template <class> class Atomic>
class JointCopy {
  public:
    // By the owner, when the last one is finished. `number` is not the one before.
    void open(std::uint32_t number)
    {
        done_.store(0, std::memory_order_relaxed);
        failed_.store(0, std::memory_order_relaxed);
        // [V1] whoever takes a part counts from here on; pairs with [V2].
        taken_.store(static_cast<std::uint64_t>(number) << 32, std::memory_order_release);
    }

    // The next part, of `count`; count: there is none left, or it is another copy by now.
    std::uint32_t take(std::uint32_t number, std::uint32_t count)
    {
        std::uint64_t taken = taken_.load(std::memory_order_relaxed);
        // [V2] pairs with [V1].
        while (taken >> 32 == number && static_cast<std::uint32_t>(taken) < count)
            if (taken_.compare_exchange_weak(taken, taken + 1, std::memory_order_acquire, std::memory_order_relaxed))
                return static_cast<std::uint32_t>(taken);
        return count;
    }

    // By who is not the owner, of a part that it took, before it takes another.
    void has_copied(bool succeeded)
    {
        if (!succeeded)
            failed_.store(1, std::memory_order_relaxed);
        // [V3] what was copied is visible to who sees the number; pairs with [V4].
        done_.fetch_add(1, std::memory_order_release);
    }

    // By the owner, when nothing is left to be taken: the other one has copied all of its `parts`.
    bool finished(std::uint32_t parts) const { return done_.load(std::memory_order_acquire) == parts; }  // [V4] pairs with [V3].
    // Once finished: something is missing.
    bool failed() const { return failed_.load(std::memory_order_relaxed) != 0; }

  private:
    Atomic<std::uint64_t> taken_;  // number << 32 | parts
    Atomic<std::uint32_t> done_;   // by who is not the owner
    Atomic<std::uint32_t> failed_;
};

}  // namespace pm::shmem
