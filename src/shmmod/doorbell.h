// The ready word of a receiver: who has something for it, and whether it sleeps.
//
// Bit (slot mod 31) is set by a sender after it published a cell in that slot; the top bit is set by the receiver before it
// sleeps. One atomic read-modify-write of the sender does both jobs, announcing and noticing a sleeper, so that neither
// side needs a fence: all changes of one word have one order. An idle receiver looks at this one word, however many
// senders there are. With more than 31 senders a bit stands for several slots.
//
// The atomic type is a parameter so that tests run this very code under a seeded scheduler.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/futex.h"

namespace pm::shmem {

inline constexpr std::uint32_t ready_bits = 31;
inline constexpr std::uint32_t sleeping = 1u << 31;

constexpr std::uint32_t ready_bit(std::uint32_t slot)
{
    return 1u << (slot % ready_bits);
}

// Sender: call after publishing. `wake` is called when the receiver sleeps.
template <template <class> class Atomic, class Wake>
void ring_doorbell(Atomic<std::uint32_t> *ready, std::uint32_t bit, Wake wake)
{
    // [D1] orders the published cell before the bit; pairs with [D2], [D3]. No acquire: nothing read later depends on it,
    // and the sender's next look at its own rings need not wait for this line.
    if (ready->fetch_or(bit, std::memory_order_release) & sleeping) [[unlikely]] {
        if (ready->fetch_and(~sleeping, std::memory_order_acq_rel) & sleeping)
            wake();
    }
}

template <template <class> class Atomic>
void ring_doorbell(Atomic<std::uint32_t> *ready, std::uint32_t bit)
{
    ring_doorbell(ready, bit, [ready] { futex_wake_all(ready); });
}

// Receiver, of a ring that it has attended to: its producer rings from now on. For what was pushed without that, the bit is set here; also where the
// kernel does not let the last of it be seen: false.
template <template <class> class Atomic, class Consumer>
bool leave_ring(Consumer *consumer, Atomic<std::uint32_t> *ready, std::uint32_t bit)
{
    const bool all_seen = consumer->leave();
    if (!all_seen || consumer->ready() || consumer->finished())
        ready->fetch_or(bit, std::memory_order_relaxed);
    return all_seen;
}

// Receiver: takes all bits. Drain the rings of these bits afterwards.
template <template <class> class Atomic>
std::uint32_t take_ready(Atomic<std::uint32_t> *ready)
{
    if ((ready->load(std::memory_order_relaxed) & ~sleeping) == 0)
        return 0;
    // [D2] whatever was published before its bit is visible now; pairs with [D1]. The sleep bit belongs to other threads.
    return ready->fetch_and(sleeping, std::memory_order_acq_rel) & ~sleeping;
}

// Receiver: false when there is something to take. After true, sleep_on_doorbell may be called.
template <template <class> class Atomic>
bool arm_doorbell(Atomic<std::uint32_t> *ready)
{
    // [D3] from here on a sender sees the sleeper; pairs with [D1].
    return (ready->fetch_or(sleeping, std::memory_order_acq_rel) & ~sleeping) == 0;
}

template <template <class> class Atomic>
void sleep_on_doorbell(Atomic<std::uint32_t> *ready, std::chrono::nanoseconds limit)
{
    futex_wait(ready, sleeping, limit);
}

template <template <class> class Atomic>
void disarm_doorbell(Atomic<std::uint32_t> *ready)
{
    if (ready->load(std::memory_order_relaxed) & sleeping)
        ready->fetch_and(~sleeping, std::memory_order_acq_rel);
}

}  // namespace pm::shmem
