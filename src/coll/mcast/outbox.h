// Where a process posts multicasts for the ranks of its host: once, in shared memory, for everyone to read who looks.
//
// - Written by its owner only, but for `watchers` and the `unread` of a slot. `posts` counts what was posted: post n is in slot
//   (n - 1) % slots, and says so (`number`).
// - Members read a post and count `unread` down. Its slot is not used again before that is 0: nothing is lost on a member, however
//   late it looks. Others may find a slot that is used again meanwhile, and then know that the post was not for them.
// - An outbox belongs to a group, and to another one after that: the `generation` tells them apart. Whoever was a watcher for one
//   is none for the next, and never takes a post of it for its own, even when it is late. A post that comes after its reader has ended the
//   group is never read, and its slot never used again: from there on messages are sent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fence.h"
#include "coll/mcast/wire.h"

namespace pm::coll {

template <template <class> class Atomic, std::size_t Slots = 28, std::size_t MostRanks = 1024>
struct BasicOutbox {
    static constexpr std::size_t slots = Slots;
    static constexpr std::size_t most_ranks = MostRanks;  // of a group

    struct Slot {
        alignas(64) Atomic<std::uint64_t> number;  // 0 while it is being written
        Atomic<std::uint32_t> generation;
        Atomic<std::uint64_t> members[(most_ranks + 63) / 64];
        alignas(64) Atomic<std::uint32_t> unread;
        alignas(64) std::byte message[1792];  // header, list, and the bytes unless they are in a block
    };

    alignas(64) Atomic<std::uint64_t> posts;
    std::uint32_t generation;                                  // the owner's
    alignas(64) Atomic<std::uint32_t> watchers[most_ranks];  // by rank: the generation it looks for
    Slot slot[slots];

    Slot &of(std::uint64_t number) { return slot[(number - 1) % slots]; }

    // ---- for the owner ----

    // Whether a rank looks at this outbox.
    bool is_watched_by(std::size_t rank) const
    {
        // [M6] it knows which posts it has seen before it says that it watches; pairs with [M5].
        return watchers[rank].load(std::memory_order_acquire) == generation;
    }

    // The slot of the next post, to write `message`; nullptr while the one before is still being read there: nothing happened. It is for
    // the ranks whose bits are set, of which there are `words` words in the group.
    Slot *begin(std::span<const std::uint64_t> members, std::size_t words)
    {
        Slot &next = of(posts.load(std::memory_order_relaxed) + 1);
        // [M8] all have read what was here; pairs with [M7].
        if (next.unread.load(std::memory_order_acquire) != 0)
            return nullptr;
        next.number.store(0, std::memory_order_relaxed);
        // [M9] whoever is not meant sees the change of the number, if it sees any; pairs with [M10].
        Fence<Atomic>::place(std::memory_order_release);
        next.generation.store(generation, std::memory_order_relaxed);
        for (std::size_t i = 0; i < words; ++i)
            next.members[i].store(i < members.size() ? members[i] : 0, std::memory_order_relaxed);
        return &next;
    }

    // The message is written.
    void publish(std::uint32_t readers)
    {
        const std::uint64_t number = posts.load(std::memory_order_relaxed) + 1;
        Slot &next = of(number);
        next.unread.store(readers, std::memory_order_relaxed);
        // [M3] the post is whole; pairs with [M4].
        next.number.store(number, std::memory_order_release);
        // [M11] so that whoever sees that there are more sees their numbers; pairs with [M12].
        posts.store(number, std::memory_order_release);
    }

    // Both, with what write(message) writes between them. False while the post before is still being read there: nothing happened.
    template <class Write>
    bool post(std::span<const std::uint64_t> members, std::size_t words, std::uint32_t readers, Write write)
    {
        Slot *next = begin(members, words);
        if (next == nullptr)
            return false;
        write(next->message);
        publish(readers);
        return true;
    }

    // ---- for those who look ----

    // [M12] how many there are; pairs with [M11].
    std::uint64_t count() const { return posts.load(std::memory_order_acquire); }

    // [M5] pairs with [M6].
    void watch(std::size_t rank, std::uint32_t of_generation) { watchers[rank].store(of_generation, std::memory_order_release); }

    // The slot of a post if it is for this rank. It stays until done() with it.
    Slot *find(std::uint64_t number, std::uint32_t of_generation, std::size_t rank)
    {
        Slot &found = of(number);
        // [M4] pairs with [M3].
        if (found.number.load(std::memory_order_acquire) != number)
            return nullptr;
        const std::uint32_t its_generation = found.generation.load(std::memory_order_relaxed);
        const std::uint64_t word = found.members[rank / 64].load(std::memory_order_relaxed);
        // [M10] pairs with [M9].
        Fence<Atomic>::place(std::memory_order_acquire);
        if (found.number.load(std::memory_order_relaxed) != number || its_generation != of_generation || !(word >> rank % 64 & 1))
            return nullptr;
        return &found;
    }

    // [M7] this rank has read it; pairs with [M8].
    static void done(Slot *read) { read->unread.fetch_sub(1, std::memory_order_release); }

    // All posts for this rank behind the one that was `*seen` last, each with take(message); a message may be gone when that has returned.
    // Whether there were any.
    template <class Take>
    bool read(std::uint64_t *seen, std::uint32_t of_generation, std::size_t rank, Take take)
    {
        const std::uint64_t all = count();
        bool something = false;
        // By differences: a count of which nothing is true must end this as well.
        while (static_cast<std::int64_t>(all - *seen) > 0) {
            // Of those further back none was for us: its slot would not have been used again. They need no look.
            if (all - *seen > slots)
                *seen = all - slots;
            Slot *found = find(++*seen, of_generation, rank);
            if (found == nullptr)
                continue;
            take(found->message);
            done(found);
            something = true;
        }
        return something;
    }
};

struct Outbox : BasicOutbox<std::atomic> {};
static_assert(sizeof(Outbox::Slot) == 2048);
static_assert(sizeof(Outbox) == 64 + sizeof(Outbox::watchers) + Outbox::slots * sizeof(Outbox::Slot));

}  // namespace pm::coll
