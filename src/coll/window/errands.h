// Small operations on memory of the program, which others reach only by the kernel: if its rank is looking anyway, it does them itself, in less
// than the time of two system calls. If it does not look soon, whoever asked takes the errand back and goes the slow way.
// Of long ones it copies a part by the kernel, while we copy the rest.
//
// Each process has one page of mailboxes in shared memory; an origin claims one and is its only writer. Errands of a mailbox are done in the
// order they were posted: by the target or by the origin, whoever holds the mailbox, never by both. Numbers only count up.
// What stands in a mailbox is checked before it is followed: it is another process that writes it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "coll/window/atomics.h"
#include "coll/window/engine.h"
#include "coll/window/pieces.h"

namespace pm::coll {

// `Atomic` is std::atomic but in tests. The first line has all of a short one: one transfer from the origin's cache to the target's, and one
// back.
template <template <class> class Atomic>
struct alignas(128) BasicErrand {
    // pull, push: a put and a get of the pieces (Piece) that the data are, in the origin's memory.
    enum class Kind : std::uint8_t { put, get, apply, swap, pull, push };
    static constexpr std::size_t data_max = 1024;
    struct Head {
        std::uint64_t window;
        std::uint64_t offset;
        std::uint32_t rank;  // of the target, for the origin
        std::uint32_t size;
        Kind kind;
        std::uint8_t element, operation;  // of apply and swap
        std::uint8_t origin;              // its rank, of pull and push
    };

    Atomic<std::uint32_t> posted;  // its number, by the origin
    Atomic<std::uint32_t> done;    // the same, by whoever did it
    Head head;
    std::uint8_t refused;                              // by who did it: it makes no sense there
    alignas(16) std::array<std::byte, data_max> data;  // what is put or applied; of swap, followed by what is compared. Then the result
};
using Errand = BasicErrand<std::atomic>;
static_assert(offsetof(Errand, data) <= 48);

template <template <class> class Atomic>
struct alignas(128) BasicMailbox {
    using Errand = BasicErrand<Atomic>;
    static constexpr std::uint32_t room = 4;  // a power of two: numbers begin again
    enum Holder : std::uint32_t { nobody, target, origin };

    Atomic<std::uint32_t> claimed;
    Atomic<std::uint32_t> holder;
    Atomic<std::uint32_t> last;  // that was done, by who holds it
    std::array<Errand, room> errands;

    // [Q1] who holds it sees what the last holder did; pairs with [Q2].
    bool hold(Holder who)
    {
        std::uint32_t free = nobody;
        return holder.compare_exchange_strong(free, who, std::memory_order_acquire, std::memory_order_relaxed);
    }
    void let_go() { holder.store(nobody, std::memory_order_release); }  // [Q2]
    bool is_held_by(Holder who) const { return holder.load(std::memory_order_relaxed) == who; }  // a hint

    // Something is to be done. Without holding it: a hint.
    bool has_news() const
    {
        std::uint32_t number = last.load(std::memory_order_relaxed) + 1;
        return errands[number % room].posted.load(std::memory_order_relaxed) == number;
    }
    // Does what is posted, in order; false: nothing. `perform(errand)` may change the errand. The caller holds it.
    template <class Perform>
    bool work(Perform &&perform)
    {
        // Not more than there is room for: others are waiting, too.
        for (std::uint32_t i = 0; i < room; ++i) {
            std::uint32_t number = last.load(std::memory_order_relaxed) + 1;
            Errand &errand = errands[number % room];
            // [Q4] sees the errand; pairs with [Q3].
            if (errand.posted.load(std::memory_order_acquire) != number)
                return i != 0;
            perform(errand);
            last.store(number, std::memory_order_relaxed);
            errand.done.store(number, std::memory_order_release);  // [Q5] the result is visible to who sees the number; pairs with [Q6].
        }
        return true;
    }
};

using Mailbox = BasicMailbox<std::atomic>;

// In shared memory, zeroed. `count_`: bits of a word.
template <template <class> class Atomic, std::size_t count_, std::size_t few_>
struct BasicMailboxes {
    using Mailbox = BasicMailbox<Atomic>;
    static constexpr std::size_t count = count_;
    static constexpr std::size_t few = few_;  // of which each is looked at by itself
    Atomic<std::uint32_t> used;               // those behind were never claimed
    alignas(128) Atomic<std::uint64_t> waiting;  // mailboxes with something new, where there are more than a few
    std::array<Mailbox, count> boxes;

    // nullptr: all are taken.
    Mailbox *claim()
    {
        for (std::size_t i = 0; i < count; ++i) {
            std::uint32_t free = 0;
            if (boxes[i].claimed.load(std::memory_order_relaxed) != 0 ||
                !boxes[i].claimed.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed))
                continue;
            auto now = static_cast<std::uint32_t>(i + 1);
            for (std::uint32_t before = used.load(std::memory_order_relaxed);
                 before < now && !used.compare_exchange_weak(before, now, std::memory_order_relaxed, std::memory_order_relaxed);) {
            }
            return &boxes[i];
        }
        return nullptr;
    }
    // A box that was filled when there were only a few is not looked at once there are more: its owner takes back what is in it.
    bool has_few() const { return used.load(std::memory_order_relaxed) <= few; }

    // What is new, at the target; false: nothing. `perform(errand)` as above.
    template <class Perform>
    bool serve(Perform &&perform)
    {
        std::uint64_t news = 0;
        const std::uint32_t in_use = used.load(std::memory_order_relaxed);
        bool something = false;
        if (in_use <= few) {
            for (std::uint32_t i = 0; i < in_use; ++i)
                news |= static_cast<std::uint64_t>(boxes[i].has_news()) << i;
        } else if (waiting.load(std::memory_order_relaxed) != 0) {
            news = waiting.exchange(0, std::memory_order_relaxed) & ((std::uint64_t{1} << count) - 1);
        }
        for (std::uint64_t each = news; each != 0; each &= each - 1) {
            Mailbox &box = boxes[static_cast<std::size_t>(__builtin_ctzll(each))];
            if (box.hold(Mailbox::target)) {
                something |= box.work(perform);
                box.let_go();
            }
        }
        return something;
    }
};

using Mailboxes = BasicMailboxes<std::atomic, 48, 8>;

// An origin's side of a mailbox.
template <class Mailboxes>
class BasicErrandRunner {
  public:
    using Mailbox = typename Mailboxes::Mailbox;
    using Errand = typename Mailbox::Errand;
    BasicErrandRunner(Mailboxes *all, Mailbox *box) : all_(all), box_(box), posted_(box->last.load(std::memory_order_relaxed)), seen_(posted_) {}

    // All that was posted is done, as it is done in order. [Q6] what was done is visible; pairs with [Q5].
    bool is_settled() const { return is_done(at(posted_)); }
    bool has_room() const { return is_done(at(posted_ + 1)); }
    // How many are not done yet.
    std::uint32_t waiting() const
    {
        std::uint32_t count = 0;
        while (count < Mailbox::room && !is_done(at(posted_ - count)))
            ++count;
        return count;
    }
    bool is_target_at_it() const { return box_->is_held_by(Mailbox::target); }
    // Where there is room, and the one that was there before has been seen: to be filled, then posted.
    Errand &next() { return at(posted_ + 1); }
    void post()
    {
        at(posted_ + 1).posted.store(posted_ + 1, std::memory_order_release);  // [Q3]
        ++posted_;
        if (!all_->has_few())
            all_->waiting.fetch_or(std::uint64_t{1} << (box_ - all_->boxes.data()), std::memory_order_release);
    }
    // What came of the oldest that was posted, if it is done.
    const Errand *first() const { return box_->errands.data(); }
    std::uint32_t unseen() const { return posted_ - seen_; }
    const Errand &see() { return at(++seen_); }
    // Does by `perform` what the target has not. False: the target is at it, or there is more.
    template <class Perform>
    bool take_back(Perform &&perform)
    {
        if (!box_->hold(Mailbox::origin))
            return false;
        box_->work(perform);
        box_->let_go();
        return is_settled();
    }
    void release() { box_->claimed.store(0, std::memory_order_release); }

  private:
    Errand &at(std::uint32_t number) const { return box_->errands[number % Mailbox::room]; }
    // What was posted there last, by us, if anything was.
    static bool is_done(const Errand &errand)
    {
        return errand.done.load(std::memory_order_acquire) == errand.posted.load(std::memory_order_relaxed);
    }

    Mailboxes *all_;
    Mailbox *box_;
    std::uint32_t posted_;
    std::uint32_t seen_;
};
using ErrandRunner = BasicErrandRunner<Mailboxes>;

// --- those of this process ---

// Where others find our mailboxes; 0 when there is no shared memory for them.
std::uint64_t open_mailboxes(pm_core *core);
bool has_mailboxes();
void close_mailboxes();
// Does what others have asked of us. False: nothing.
bool serve_errands();
// After all ranks of a direct window were met: with whom we may leave errands.
void meet_errands(pm_window *window);
// Of this process, by its id; nullptr: there is none.
pm_window *find_window(std::uint64_t id);

}  // namespace pm::coll
