// Which slots of a segment are free: claimed by senders, given back by the receiver, without a lock.
//
// A slot is of its sender from claim_slot() until it closes the ring in it (ring.h), or dies; then of the receiver, who reads what
// is left, makes the slot as new and gives it back. So nothing that a former owner left is ever seen by the next one, nor taken for
// its words by the receiver: a slot that is used again begins with an empty ring at the first position.
//
// A receiver may keep slots for those who will come, each for one of them: it is the slot of the number that they both know.
//
// The atomic type is a parameter so that tests run this very code under a seeded scheduler.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pm::shmem {

// Sender: a slot that was given back, or else one that nobody had yet; their number when there is none. `claimed` counts the latter.
template <template <class> class Atomic, std::size_t words>
std::uint32_t claim_slot(Atomic<std::uint32_t> *claimed, Atomic<std::uint64_t> (&given_back)[words])
{
    constexpr std::uint32_t slots = 64 * words;
    for (std::uint32_t word = 0; word < words; ++word) {
        while (std::uint64_t free = given_back[word].load(std::memory_order_relaxed)) {
            std::uint64_t bit = free & -free;
            // [S1] the slot is as new; pairs with [S2].
            if (given_back[word].fetch_and(~bit, std::memory_order_acquire) & bit)
                return word * 64 + static_cast<std::uint32_t>(__builtin_ctzll(bit));
        }
    }
    std::uint32_t slot = claimed->fetch_add(1, std::memory_order_relaxed);
    return slot < slots ? slot : slots;
}

// Sender: whether the slot of this number was kept for it, and is its own now. Once only.
template <template <class> class Atomic>
bool take_kept_slot(std::uint32_t number, Atomic<std::uint64_t> *kept)
{
    if (number >= 64)
        return false;
    std::uint64_t bit = std::uint64_t{1} << number;
    return (kept->load(std::memory_order_relaxed) & bit) && (kept->fetch_and(~bit, std::memory_order_relaxed) & bit);
}

// Receiver: it is as new, and whoever comes next may have it.
template <template <class> class Atomic, std::size_t words>
void give_back_slot(std::uint32_t slot, Atomic<std::uint64_t> (&given_back)[words])
{
    given_back[slot / 64].fetch_or(std::uint64_t{1} << slot % 64, std::memory_order_release);  // [S2]
}

}  // namespace pm::shmem
