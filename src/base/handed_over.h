// Something that one thread hands over to others: who finds it finds all that was done before. `Atomic` is std::atomic but in tests.
#pragma once

#include <atomic>

namespace pm {

template <class T, template <class> class Atomic = std::atomic>
class HandedOver {
  public:
    HandedOver() = default;
    void set(T value) { value_.store(value, std::memory_order_release); }  // [U1] pairs with [U2]
    T get() const { return value_.load(std::memory_order_acquire); }       // [U2] pairs with [U1]
    // By who sets it, or in a process of one thread: an acquiring load waits on ARM for what was stored with a release before.
    T alone() const { return value_.load(std::memory_order_relaxed); }

  private:
    Atomic<T> value_{T{}};
};

}  // namespace pm
