// Several stacks in one thread, of which one runs: the cooperating threads of the seeded scheduler. Switching costs less
// than a microsecond and never depends on the kernel's scheduler. The sanitizers are told about every switch.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "support/sanitizers.h"

#ifdef PM_TEST_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef PM_TEST_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace pm::test {

class Fiber {
  public:
    // Answers which fiber runs when it is done.
    using Body = std::function<Fiber &()>;

    // Stands for the stack that calls.
    Fiber()
    {
#ifdef PM_TEST_TSAN
        tsan_ = __tsan_get_current_fiber();
#endif
    }

    // A fiber that runs `body` when it is switched to. Making one is slow under the sanitizers: give it back.
    static std::unique_ptr<Fiber> take(Body body)
    {
        std::unique_ptr<Fiber> fiber;
        if (idle_.empty()) {
            fiber.reset(new Fiber(stack_size));
        } else {
            fiber = std::move(idle_.back());
            idle_.pop_back();
        }
        fiber->body_ = std::move(body);
        return fiber;
    }

    // Only when its body has returned. A fiber that is not given back is destroyed with whatever lies on its stack.
    static void give_back(std::unique_ptr<Fiber> fiber) { idle_.push_back(std::move(fiber)); }

    Fiber(const Fiber &) = delete;
    Fiber &operator=(const Fiber &) = delete;

    ~Fiber()
    {
#ifdef PM_TEST_TSAN
        if (stack_ != nullptr)
            __tsan_destroy_fiber(tsan_);
#endif
    }

    // Call on the fiber that runs. Returns when somebody switches back.
    void switch_to(Fiber &next)
    {
        previous_ = this;
        running_ = &next;
#ifdef PM_TEST_ASAN
        __sanitizer_start_switch_fiber(&fake_stack_, next.bottom_, next.size_);
#endif
#ifdef PM_TEST_TSAN
        __tsan_switch_to_fiber(next.tsan_, 0);
#endif
        swapcontext(&context_, &next.context_);
        resumed();
    }

  private:
    static constexpr std::size_t stack_size = 256 * 1024;

    explicit Fiber(std::size_t size) : stack_(new std::byte[size]), bottom_(stack_.get()), size_(size)
    {
        getcontext(&context_);
        context_.uc_stack.ss_sp = stack_.get();
        context_.uc_stack.ss_size = size;
        context_.uc_link = nullptr;
        makecontext(&context_, &Fiber::enter, 0);
#ifdef PM_TEST_TSAN
        tsan_ = __tsan_create_fiber(0);
#endif
    }

    static void enter()
    {
        Fiber &self = *running_;
        self.resumed();
        while (true) {
            Fiber &next = self.body_();
            self.switch_to(next);
        }
    }

    void resumed()
    {
#ifdef PM_TEST_ASAN
        __sanitizer_finish_switch_fiber(fake_stack_, &previous_->bottom_, &previous_->size_);
#endif
    }

    static inline Fiber *previous_ = nullptr;
    static inline Fiber *running_ = nullptr;
    static inline std::vector<std::unique_ptr<Fiber>> idle_;

    Body body_;
    std::unique_ptr<std::byte[]> stack_;
    const void *bottom_ = nullptr;
    std::size_t size_ = 0;
    ucontext_t context_{};
#ifdef PM_TEST_ASAN
    void *fake_stack_ = nullptr;
#endif
#ifdef PM_TEST_TSAN
    void *tsan_ = nullptr;
#endif
};

}  // namespace pm::test
