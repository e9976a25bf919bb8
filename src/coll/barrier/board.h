// Where the ranks of a host count themselves at a barrier: one cache line in memory that all of them see. Two ranks need not count: each says in a
// line of its own how far it has come, and looks at the other's.
//
// A rank that has seen `done` at k may use the place of k + places. A board that is used again by another communicator counts on: a slow
// rank may still have to see the last barrier of the one before. Numbers here are those of the board.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/fence.h"

namespace pm::coll {

// `Atomic` is std::atomic but in tests.
template <template <class> class Atomic, std::size_t places_>
struct alignas(64) BasicBarrierBoard {
    static constexpr std::size_t places = places_;
    Atomic<std::uint64_t> done;
    Atomic<std::uint64_t> heard;            // how far the hosts are whose word the leader needs
    Atomic<std::uint16_t> arrived[places];  // of barrier k: arrived[k % places]
    struct alignas(64) Seat {
        Atomic<std::uint64_t> started;
    };
    Seat seats[2];  // of two ranks that are alone

    // What it counts from, behind all that was counted here before. By whoever makes it, before others know of it.
    std::uint64_t begin()
    {
        std::uint64_t last = done.load(std::memory_order_relaxed);
        for (const Seat &seat : seats)
            last = std::max(last, seat.started.load(std::memory_order_relaxed));
        done.store(last, std::memory_order_relaxed);
        return last;
    }

    // One of two is here.
    void sit(std::size_t seat, std::uint64_t number)
    {
        // [B9] what it did before is visible to whoever sees that it is here; pairs with [B10].
        seats[seat].started.store(number, std::memory_order_release);
        // [B11] of two that come at the same time one sees by both() that it may be the last; pairs with itself.
        Fence<Atomic>::place(std::memory_order_seq_cst);
    }
    // How far both have come. [B10] pairs with [B9].
    std::uint64_t both() const
    {
        return std::min(seats[0].started.load(std::memory_order_acquire), seats[1].started.load(std::memory_order_acquire));
    }

    Atomic<std::uint16_t> &place(std::uint64_t number) { return arrived[number % places]; }

    // One more is here. Whether all are: [B1] whoever sees that also sees what they did before; pairs with itself and [B2].
    bool arrive(std::uint64_t number, std::size_t all) { return place(number).fetch_add(1, std::memory_order_acq_rel) + 1u >= all; }
    // By who came last, on one host.
    void clear(std::uint64_t number) { place(number).store(0, std::memory_order_relaxed); }
    // By who came last, of several hosts, if it is not the leader: whether that has to be told, as it waits for nobody else. [B7] we see what
    // the leader has heard, or it sees that we are here; pairs with [B8].
    bool leader_waits_for(std::uint64_t number)
    {
        Fence<Atomic>::place(std::memory_order_seq_cst);
        return heard.load(std::memory_order_relaxed) >= number;
    }

    // The leader has heard so much, and looks at the board behind it.
    void note_heard(std::uint64_t number) { heard.store(number, std::memory_order_relaxed); }
    void look() { Fence<Atomic>::place(std::memory_order_seq_cst); }  // [B8] pairs with [B7].
    // All are here, and the place is empty again. [B2] pairs with [B1].
    bool take(std::uint64_t number, std::size_t all)
    {
        if (place(number).load(std::memory_order_acquire) != all)
            return false;
        place(number).store(0, std::memory_order_relaxed);
        return true;
    }

    // [B4] pairs with [B5]. The place is empty before anybody can see this and use it again. Who sleeps may look only behind it: `wake`.
    template <class Wake>
    void publish(std::uint64_t number, Wake wake)
    {
        done.store(number, std::memory_order_release);
        wake();
    }
    // [B5] what all did before they started it is visible; pairs with [B4].
    std::uint64_t published() const { return done.load(std::memory_order_acquire); }

    // ---- the above in the order in which the engine does it ----

    // One more of the only host is here; who comes last ends the barrier.
    template <class Wake>
    void come(std::uint64_t number, std::size_t all, Wake wake)
    {
        if (!arrive(number, all))
            return;
        clear(number);
        publish(number, wake);
    }
    // Of one of several hosts; who comes last tells the others, and rings at the leader if that waits for nobody else.
    template <class Tell, class Ring>
    void come_of_several(std::uint64_t number, std::size_t all, bool leads, Tell tell, Ring ring)
    {
        if (!arrive(number, all))
            return;
        tell();
        if (!leads && leader_waits_for(number))
            ring();
    }
    // One of two is at all barriers from the first to the last. Of several at once, the other one may wait for the first.
    template <class Wake>
    void come_of_two(std::size_t seat, std::uint64_t first, std::uint64_t last, Wake wake)
    {
        sit(seat, last);
        if (both() >= first)
            wake();
    }
    // The leader, who has announced so many: how far the host is, where it was so far before. What it has heard is noted.
    std::uint64_t lead(std::uint64_t led, std::uint64_t announced, std::size_t all)
    {
        look();
        while (led < announced && take(led + 1, all))
            ++led;
        return led;
    }
};

using BarrierBoard = BasicBarrierBoard<std::atomic, 24>;
static_assert(sizeof(BarrierBoard) == 3 * 64);

}  // namespace pm::coll
