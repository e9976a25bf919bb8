// Small operations on memory of the program, which others reach only by the kernel: if its rank is looking anyway, it does them itself, in less
// than the time of two system calls. If it does not look soon, whoever asked takes the errand back and goes the slow way.
//
// Each process has one page of mailboxes in shared memory; an origin claims one and is its only writer. Errands of a mailbox are done in the
// order they were posted: by the target or by the origin, whoever holds the mailbox, never by both. `posted` and `done` only count up.
// What stands in a mailbox is checked before it is followed: it is another process that writes it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "coll/window/atomics.h"
#include "coll/window/engine.h"

namespace pm::coll {

struct Errand {
    enum class Kind : std::uint8_t { put, get, apply, swap };
    static constexpr std::size_t data_max = 1024;

    struct Head {
        std::uint64_t window;
        std::uint64_t offset;
        std::uint32_t rank;  // of the target, for the origin
        std::uint32_t size;
        Kind kind;
        std::uint8_t element, operation;  // of apply and swap
    };

    Head head;
    std::uint8_t refused;                  // by who did it: it makes no sense there
    alignas(16) std::array<std::byte, data_max> data;  // what is put or applied; of swap, followed by what is compared. Then the result
};

struct alignas(128) Mailbox {
    static constexpr std::uint32_t room = 3;
    enum Holder : std::uint32_t { nobody, target, origin };

    std::atomic<std::uint32_t> claimed;
    std::atomic<std::uint32_t> holder;
    alignas(64) std::atomic<std::uint32_t> posted;  // by the origin
    alignas(64) std::atomic<std::uint32_t> done;    // by whoever holds it
    alignas(64) std::array<Errand, room> errands;

    // [Q1] who holds it sees what the last holder did; pairs with [Q2].
    bool hold(Holder who)
    {
        std::uint32_t free = nobody;
        return holder.compare_exchange_strong(free, who, std::memory_order_acquire, std::memory_order_relaxed);
    }
    void let_go() { holder.store(nobody, std::memory_order_release); }  // [Q2]

    // Does what is posted, in order. `perform(errand)` may change the errand; false: stop before it. The caller holds it.
    template <class Perform>
    bool work(Perform &&perform)
    {
        std::uint32_t next = done.load(std::memory_order_relaxed);
        // [Q4] sees the errand; pairs with [Q3].
        std::uint32_t end = posted.load(std::memory_order_acquire);
        // More than there is room for was not posted by us.
        for (; next != end && end - next <= room; ++next) {
            if (!perform(errands[next % room]))
                return false;
            done.store(next + 1, std::memory_order_release);  // [Q5] the result is visible to who sees the count; pairs with [Q6].
        }
        return true;
    }
};

// In shared memory, zeroed.
struct Mailboxes {
    static constexpr std::size_t count = 64;  // bits of a word
    std::atomic<std::uint64_t> waiting;       // mailboxes with something new
    std::array<Mailbox, count> boxes;

    // nullptr: all are taken.
    Mailbox *claim()
    {
        for (Mailbox &box : boxes) {
            std::uint32_t free = 0;
            if (box.claimed.load(std::memory_order_relaxed) == 0 && box.claimed.compare_exchange_strong(free, 1, std::memory_order_acquire))
                return &box;
        }
        return nullptr;
    }

    // What is new, at the target. `perform(errand)` as above.
    template <class Perform>
    void serve(Perform &&perform)
    {
        if (waiting.load(std::memory_order_relaxed) == 0) [[likely]]
            return;
        for (std::uint64_t each = waiting.exchange(0, std::memory_order_acquire); each != 0; each &= each - 1) {
            Mailbox &box = boxes[static_cast<std::size_t>(__builtin_ctzll(each))];
            if (box.hold(Mailbox::target)) {
                box.work(perform);
                box.let_go();
            }
        }
    }
};

// An origin's side of a mailbox.
class ErrandRunner {
  public:
    ErrandRunner(Mailboxes *all, Mailbox *box) : all_(all), box_(box), bit_(std::uint64_t{1} << (box - all->boxes.data())),
                                                 next_(box->posted.load(std::memory_order_relaxed)) {}

    // All that was posted is done. [Q6] what was done is visible; pairs with [Q5].
    bool is_settled() const { return box_->done.load(std::memory_order_acquire) == next_; }
    bool has_room() const { return next_ - box_->done.load(std::memory_order_acquire) < Mailbox::room; }
    // Where there is room: to be filled, then posted.
    Errand &next() { return box_->errands[next_ % Mailbox::room]; }
    void post()
    {
        box_->posted.store(++next_, std::memory_order_release);            // [Q3]
        all_->waiting.fetch_or(bit_, std::memory_order_release);
    }
    const Errand &last() const { return box_->errands[(next_ - 1) % Mailbox::room]; }

    // Whether some errand that is still to be seen was refused. Only when all are done.
    bool take_refusals()
    {
        bool some = false;
        for (Errand &each : box_->errands) {
            some = some || each.refused != 0;
            each.refused = 0;
        }
        return some;
    }
    // Does by `perform` what the target has not. False: the target is at it, or `perform` would not.
    template <class Perform>
    bool take_back(Perform &&perform)
    {
        if (!box_->hold(Mailbox::origin))
            return false;
        bool all = box_->work(perform);
        box_->let_go();
        return all;
    }
    void release() { box_->claimed.store(0, std::memory_order_release); }

  private:
    Mailboxes *all_;
    Mailbox *box_;
    std::uint64_t bit_;
    std::uint32_t next_;
};

// --- those of this process ---

// Where others find our mailboxes; 0 when there is no shared memory for them.
std::uint64_t open_mailboxes(pm_core *core);
bool has_mailboxes();
void close_mailboxes();
// Does what others have asked of us.
void serve_errands();
// After all ranks of a direct window were met: with whom we may leave errands.
void meet_errands(pm_window *window);
// Of this process, by its id; nullptr: there is none.
pm_window *find_window(std::uint64_t id);

}  // namespace pm::coll
