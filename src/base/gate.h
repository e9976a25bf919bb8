// A lock for a device: the thread that is inside may enter again (a message that is delivered may be answered at once), and one
// that finds it taken gives its core away. Not a mutex: the owner passes here several times in a microsecond and finds it free.
#pragma once

#include <sched.h>

#include <atomic>

namespace pm {

// Each thread has a mark of its own.
struct ThisThread {
    static const void *mark()
    {
        static thread_local char here;
        return &here;
    }
    static void rest() { sched_yield(); }
};

// The types are others in tests.
template <template <class> class Atomic, class Thread>
class BasicGate {
  public:
    void enter()
    {
        // Nobody else stores our own mark.
        if (owner_.load(std::memory_order_relaxed) == Thread::mark()) {
            ++depth_;
            return;
        }
        while (!try_enter())
            Thread::rest();
    }

    bool try_enter()
    {
        const void *nobody = nullptr;
        // [T1] what the last one did is visible; pairs with [T2].
        if (!owner_.compare_exchange_strong(nobody, Thread::mark(), std::memory_order_acquire, std::memory_order_relaxed))
            return false;
        depth_ = 1;
        return true;
    }

    void leave()
    {
        if (--depth_ == 0)
            owner_.store(nullptr, std::memory_order_release);  // [T2]
    }

  private:
    Atomic<const void *> owner_{nullptr};
    unsigned depth_ = 0;  // of the owner
};
using Gate = BasicGate<std::atomic, ThisThread>;

// Inside for as long as it lives.
class InsideGate {
  public:
    explicit InsideGate(Gate &gate) : gate_(gate) { gate_.enter(); }
    ~InsideGate() { gate_.leave(); }
    InsideGate(const InsideGate &) = delete;
    InsideGate &operator=(const InsideGate &) = delete;

  private:
    Gate &gate_;
};

}  // namespace pm
