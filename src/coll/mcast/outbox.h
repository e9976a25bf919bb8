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

#include "coll/mcast/wire.h"

namespace pm::coll {

struct Outbox {
    static constexpr std::size_t slots = 28;
    static constexpr std::size_t most_ranks = 1024;  // of a group

    struct Slot {
        alignas(64) std::atomic<std::uint64_t> number;  // 0 while it is being written
        std::atomic<std::uint32_t> generation;
        std::atomic<std::uint64_t> members[most_ranks / 64];
        alignas(64) std::atomic<std::uint32_t> unread;
        alignas(64) std::byte message[1792];  // header, list, and the bytes unless they are in a block
    };
    static_assert(sizeof(Slot) == 2048);

    alignas(64) std::atomic<std::uint64_t> posts;
    std::uint32_t generation;                                       // the owner's
    alignas(64) std::atomic<std::uint32_t> watchers[most_ranks];  // by rank: the generation it looks for
    Slot slot[slots];

    Slot &of(std::uint64_t number) { return slot[(number - 1) % slots]; }
};
static_assert(sizeof(Outbox) == 64 + sizeof(Outbox::watchers) + Outbox::slots * sizeof(Outbox::Slot));

}  // namespace pm::coll
