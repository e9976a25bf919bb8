#include "coll/window/direct.h"

#include <sched.h>

#include <algorithm>
#include <bit>

#include "coll/window/engine.h"
#include "coll/window/errands.h"
#include "netmod/core/shared.h"

namespace {

using pm::coll::EpochBoard;

pm_window::Target &target_of(pm_window *window, int rank)
{
    return window->targets[static_cast<std::size_t>(rank)];
}

EpochBoard &board_of(pm_window *window, int rank)
{
    return target_of(window, rank).board->epochs;
}

void wake(pm_window *window, int rank)
{
    if (pm_peer *peer = target_of(window, rank).peer)
        pm_nudge(peer);
}

// The kernel lets us read and write its memory, and it is that process's: a word of its board, which we see as well, is the same there. The
// part is memory of which that is true: that of a device may not be.
bool can_copy(const pm_window::Target &target)
{
    std::uint64_t word = 0;
    std::byte byte;
    return pm_read_memory(target.peer, target.name_address, &word, sizeof word) && word == target.board->epochs.name &&
           pm_write_memory(target.peer, target.name_address, &word, sizeof word) && pm_read_memory(target.peer, target.base, &byte, 1) &&
           pm_read_memory(target.peer, target.base + target.bytes - 1, &byte, 1);
}

static_assert(PM_DIRECT_STRIPES == EpochBoard::stripes_count && PM_DIRECT_STRIPE_BYTES == EpochBoard::stripe_bytes);

bool may_be_direct(const pm_window *window)
{
    if (window->setup.size > pm::coll::epoch_ranks_max || (window->own_board != nullptr && window->setup.size > 1))
        return false;
    return std::ranges::all_of(window->targets, [](const pm_window::Target &each) {
        return each.board != nullptr && (each.memory != nullptr || each.bytes == 0 || can_copy(each));
    });
}

bool sees_all(const pm_window *window)
{
    return std::ranges::all_of(window->targets, [](const pm_window::Target &each) { return each.memory != nullptr || each.bytes == 0; });
}

// What a rank says of itself.
enum Verdict : std::uint32_t { said = 1, can_be_direct = 2, can_use_instructions = 4, can_change_mode = 8 };

std::uint32_t verdict_of(const pm_window::Target &target)
{
    return target.board->epochs.verdict.get();
}

// This process can let the processors of all processes of the window pass a barrier, and they can let ours.
bool can_pass_barriers()
{
    static const bool can = pm::UnevenFence<std::atomic>::prepare();
    return can;
}

std::uint32_t *word_of(std::atomic<std::uint32_t> &word)
{
    static_assert(sizeof word == sizeof(std::uint32_t) && std::atomic<std::uint32_t>::is_always_lock_free);
    return reinterpret_cast<std::uint32_t *>(&word);
}

std::size_t stripe_of(std::uint64_t offset)
{
    return offset / EpochBoard::stripe_bytes % EpochBoard::stripes_count;
}

}  // namespace

extern "C" {

int pm_window_say(pm_window *window, int threaded)
{
    std::uint32_t verdict = said;
    if (may_be_direct(window))
        verdict |= can_be_direct;
    if (sees_all(window))
        verdict |= can_use_instructions;
    window->one_thread = !threaded;
    if (!threaded && can_pass_barriers())
        verdict |= can_change_mode;
    // Nobody looks who has not had our card.
    window->board->epochs.verdict.set(verdict);
    for (int rank = 0; rank < window->setup.size; ++rank)
        wake(window, rank);
    // If we cannot, we need not know of the others: who can sees our board, and reads that.
    return (verdict & can_be_direct) != 0;
}

int pm_window_agreed(const pm_window *window)
{
    return std::ranges::all_of(window->targets, [](const pm_window::Target &each) { return verdict_of(each) != 0; });
}

pm_direct *pm_window_make_direct(pm_window *window)
{
    std::uint32_t all = ~0u;
    for (const pm_window::Target &each : window->targets)
        all &= verdict_of(each);
    if ((all & can_be_direct) == 0)
        return nullptr;
    bool by_instructions = (all & can_use_instructions) != 0, changes_mode = by_instructions && (all & can_change_mode) != 0;
    std::size_t size = window->targets.size();
    window->direct_parts.resize(size);
    window->direct_bytes.assign(2 * size, 0);
    window->direct_counts.assign(2 * size, 0);
    for (std::size_t i = 0; i < size; ++i) {
        const pm_window::Target &target = window->targets[i];
        window->direct_parts[i] = {reinterpret_cast<char *>(target.memory), changes_mode ? word_of(target.board->epochs.mode) : nullptr, target.base,
                                   target.bytes, target.unit};
    }
    window->direct = {window->direct_parts.data(), window->direct_bytes.data(), window->direct_bytes.data() + size, by_instructions,
                      window->direct_counts.data(), window->direct_counts.data() + size, 0, word_of(window->board->epochs.inside)};
    if (window->one_thread)
        pm::coll::meet_errands(window);
    return &window->direct;
}

int pm_direct_write(pm_window *window, int target, uint64_t offset, const void *data, size_t size)
{
    const pm_window::Target &its = target_of(window, target);
    return pm_write_memory(its.peer, its.base + offset, data, size);
}

int pm_direct_read(pm_window *window, int target, uint64_t offset, void *data, size_t size)
{
    const pm_window::Target &its = target_of(window, target);
    return pm_read_memory(its.peer, its.base + offset, data, size);
}

int pm_direct_try_lock(pm_window *window, int target, int exclusive)
{
    EpochBoard &board = board_of(window, target);
    return exclusive ? board.try_exclusive() : board.try_shared();
}

void pm_direct_want_lock(pm_window *window, int target, int wants)
{
    board_of(window, target).wants_exclusive.fetch_add(wants ? 1u : -1u, std::memory_order_relaxed);
}

void pm_direct_unlock(pm_window *window, int target, int exclusive)
{
    for (std::uint64_t asleep = board_of(window, target).release(exclusive != 0); asleep != 0; asleep &= asleep - 1)
        if (int rank = std::countr_zero(asleep); rank < window->setup.size)
            wake(window, rank);
}

void pm_direct_falls_asleep(pm_window *window, int target)
{
    board_of(window, target).falls_asleep(window->setup.rank);
}

void pm_direct_post(pm_window *window, int origin)
{
    EpochBoard::count(board_of(window, origin).posts[static_cast<std::size_t>(window->setup.rank)]);
    wake(window, origin);
}

uint32_t pm_direct_posts(pm_window *window, int target)
{
    return EpochBoard::counted(window->board->epochs.posts[static_cast<std::size_t>(target)]);
}

void pm_direct_complete(pm_window *window, int target)
{
    EpochBoard::count(board_of(window, target).completes[static_cast<std::size_t>(window->setup.rank)]);
    wake(window, target);
}

uint32_t pm_direct_completes(pm_window *window, int origin)
{
    return EpochBoard::counted(window->board->epochs.completes[static_cast<std::size_t>(origin)]);
}

uint32_t pm_direct_arrive(pm_window *window)
{
    std::uint32_t over = ++window->fences;
    if (board_of(window, 0).arrive(over, static_cast<std::uint32_t>(window->setup.size)))
        for (int rank = 0; rank < window->setup.size; ++rank)
            wake(window, rank);
    return over;
}

uint32_t pm_direct_fences(const pm_window *window)
{
    return window->targets[0].board->epochs.fences_over();
}

int pm_direct_has_lost_one(const pm_window *window)
{
    return std::ranges::any_of(window->targets, [](const pm_window::Target &each) { return each.peer != nullptr && pm_has_ended(each.peer); });
}

int pm_direct_use_stripes(pm_window *window, int target)
{
    if (window->direct_parts[static_cast<std::size_t>(target)].mode == nullptr)
        return 1;
    EpochBoard &board = board_of(window, target);
    switch (board.change_mode()) {
        case EpochBoard::Change::is_made:
            return 1;
        case EpochBoard::Change::refused:
            return -1;
        case EpochBoard::Change::is_ours:
            board.end_change(
                static_cast<std::uint32_t>(target), window->targets, [](const pm_window::Target &each) -> EpochBoard & { return each.board->epochs; },
                [](const pm_window::Target &each) {
                    if (each.peer != nullptr && pm_has_ended(each.peer))
                        return false;
                    sched_yield();
                    return true;
                });
            return 1;
        case EpochBoard::Change::of_another:
            break;
    }
    for (;;) {
        std::uint32_t now = board.mode_now();
        if (now == EpochBoard::by_stripes)
            return 1;
        if (now == EpochBoard::by_instructions)
            return -1;
        if (pm_direct_has_lost_one(window))
            return 0;
        sched_yield();
    }
}

uint64_t pm_direct_enter(pm_window *window, int target, uint64_t offset)
{
    EpochBoard &board = board_of(window, target);
    const auto us = static_cast<std::uint32_t>(window->setup.rank) + 1;
    constexpr unsigned patience = 100;  // then the core is given away, and now and then the other is looked after
    for (unsigned tries = 0;; ++tries) {
        std::uint32_t who;
        if (board.take_stripe(stripe_of(offset), us, &who))
            break;
        if (tries < patience || who == 0)
            continue;
        sched_yield();
        if (who > window->targets.size())
            return 0;  // nor will it ever leave who is no rank
        const pm_peer *other = target_of(window, static_cast<int>(who) - 1).peer;
        if (tries % patience == 0 && other != nullptr && pm_has_ended(other) && board.stripes[stripe_of(offset)].load(std::memory_order_relaxed) == who)
            return 0;
    }
    return (offset / EpochBoard::stripe_bytes + 1) * EpochBoard::stripe_bytes;
}

void pm_direct_leave(pm_window *window, int target, uint64_t offset)
{
    board_of(window, target).leave_stripe(stripe_of(offset));
}

}  // extern "C"
