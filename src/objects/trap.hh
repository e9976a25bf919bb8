// A result in memory that cannot be touched until it is there. Who uses it needs no check: the first touch of a page that is not there yet
// faults, the handler leaves the method where it is, with the registers as the kernel saved them, and lets others run; when the result has
// come the page is opened and the instruction goes on. The memory belongs to the thread of the method that made the call.
//
// A system call on it fails with EFAULT instead of waiting. A result that will not come ends the program where it is touched, with a
// sentence that says why; wait() throws that as an Error before.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>

#include "future.hh"

namespace composite {

// Memory of its own pages, closed when it is made.
class TrapMemory {
  public:
    explicit TrapMemory(std::size_t size);
    virtual ~TrapMemory();
    TrapMemory(const TrapMemory &) = delete;
    TrapMemory &operator=(const TrapMemory &) = delete;

    // Faults of this thread there are ours from now on, and no longer.
    void watch();
    void forget();
    // In the handler: waits if it must, and opens.
    virtual void touched() = 0;

    std::byte *begin = nullptr;
    const std::size_t size;

  protected:
    void open();
};

// For a thread that runs methods: a stack for the handler, as that of a method may be what overflowed.
class TrapStack {
  public:
    TrapStack();
    ~TrapStack();
    TrapStack(const TrapStack &) = delete;
    TrapStack &operator=(const TrapStack &) = delete;
};

// The handler of the process, while there are sessions. Other faults go to the handler that was there before.
void enter_traps();
void leave_traps();

template <class T>
class AwaitedTrap final : public AwaitedValue<T>, public TrapMemory {
  public:
    AwaitedTrap() : TrapMemory(sizeof(T)) {}
    ~AwaitedTrap() override
    {
        if (opened_)
            std::launder(reinterpret_cast<T *>(begin))->~T();
    }
    void touched() override;
    // On the thread that uses it, when the value is there.
    void place()
    {
        if (opened_ || this->failed())
            return;
        open();
        new (begin) T(this->take());
        opened_ = true;
    }

  private:
    bool opened_ = false;
};

void wait_in_handler(Awaited &awaited);

template <class T>
void AwaitedTrap<T>::touched()
{
    wait_in_handler(*this);
    place();
}

template <class T>
class Trap {
  public:
    explicit Trap(std::shared_ptr<AwaitedTrap<T>> state) : state_(std::move(state)), value_(reinterpret_cast<T *>(state_->begin))
    {
        state_->watch();
        struct Place : Item {
            explicit Place(std::shared_ptr<AwaitedTrap<T>> state) : state(std::move(state)) {}
            void run(Worker &) override
            {
                state->place();
                delete this;
            }
            std::shared_ptr<AwaitedTrap<T>> state;
        };
        state_->when_done(Worker::current(), new Place(state_));
    }
    Trap(Trap &&other) noexcept : state_(std::move(other.state_)), value_(other.value_) {}
    Trap &operator=(Trap &&) = delete;
    ~Trap()
    {
        if (state_ != nullptr)
            state_->forget();
    }

    T &operator*() const { return *value_; }
    T *operator->() const { return value_; }
    operator T &() const { return *value_; }
    // Throws Error when the call failed.
    void wait()
    {
        state_->wait();
        state_->check();
        state_->place();
    }

  private:
    std::shared_ptr<AwaitedTrap<T>> state_;
    T *value_;
};

}  // namespace composite
