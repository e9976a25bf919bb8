// Stacks that methods run on. A switch is a jump of Boost.Context: no system call, about as long as a call. A stack ends with a page
// that cannot be touched, so that a method that needs more faults instead of writing into its neighbour. The sanitizers are told.
#pragma once

#include <cstddef>
#include <memory>

namespace composite {

struct Item;

class Context {
  public:
    // Stands for the stack of a thread, whichever switches from it first.
    Context();
    // A stack of its own, on which `body(argument)` runs when it is switched to for the first time. The body never returns.
    // Throws Error when there is no memory for it.
    Context(std::size_t stack_size, void (*body)(void *), void *argument);
    // Whatever lies on the stack is forgotten, not destroyed.
    ~Context();
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;

    // Called on the stack that runs, which must be this one's. Returns when somebody switches back, on the same thread.
    void switch_to(Context &next);
    // Whether it is in the pages behind the end of the stack, which nobody may touch.
    bool guards(const void *address) const;

    Item *left = nullptr;  // of a worker: what runs here, while it waits

  private:
    struct Entry;
    struct Exceptions {
        void *caught = nullptr;
        unsigned int uncaught = 0;
    };
    void arrived(Context &previous);

    void *memory_ = nullptr;
    std::size_t size_ = 0;  // of the stack, without the pages before it
    const void *bottom_ = nullptr;
    std::size_t known_size_ = 0;  // what the address sanitizer says of a thread's own stack
    void *at_ = nullptr;
    void (*body_)(void *) = nullptr;
    void *argument_ = nullptr;
    Exceptions exceptions_;
    void *fake_stack_ = nullptr;
    void *fiber_ = nullptr;
};

}  // namespace composite
