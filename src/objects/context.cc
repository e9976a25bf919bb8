#include "context.hh"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstring>

#include "error.hh"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace composite {

namespace bc = boost::context::detail;

// Below a stack. A frame of up to this size cannot step over it.
constexpr std::size_t guard = 64 * 1024;

struct Context::Entry {
    static void enter(bc::transfer_t from)
    {
        auto **pair = static_cast<Context **>(from.data);
        Context &previous = *pair[0], &self = *pair[1];
        previous.at_ = from.fctx;
        self.arrived(previous);
        self.body_(self.argument_);
        __builtin_trap();
    }
};

Context::Context() = default;

Context::Context(std::size_t stack_size, void (*body)(void *), void *argument) : body_(body), argument_(argument)
{
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    size_ = (stack_size + page - 1) / page * page;
    const std::size_t below = (guard + page - 1) / page * page;
    memory_ = mmap(nullptr, size_ + below, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory_ == MAP_FAILED)
        throw Error("there is no memory for the stack of one more method that waits; let fewer wait at a time, or raise vm.max_map_count");
    bottom_ = static_cast<char *>(memory_) + below;
    if (mprotect(static_cast<char *>(memory_) + below, size_, PROT_READ | PROT_WRITE) != 0) {
        munmap(memory_, size_ + below);
        throw Error("there is no memory for the stack of one more method that waits; let fewer wait at a time, or raise vm.max_map_count");
    }
    known_size_ = size_;
    at_ = bc::make_fcontext(static_cast<char *>(memory_) + below + size_, size_, &Entry::enter);
#if defined(__SANITIZE_THREAD__)
    fiber_ = __tsan_create_fiber(0);
#endif
}

Context::~Context()
{
    if (memory_ == nullptr)
        return;
#if defined(__SANITIZE_THREAD__)
    __tsan_destroy_fiber(fiber_);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(bottom_, size_);  // Whoever gets these pages next finds no frames in them.
#endif
    munmap(memory_, size_ + static_cast<std::size_t>(static_cast<const char *>(bottom_) - static_cast<char *>(memory_)));
}

bool Context::guards(const void *address) const
{
    return memory_ != nullptr && address >= memory_ && address < bottom_;
}

void Context::switch_to(Context &next)
{
    // A method may wait while it handles an exception: what the C++ runtime knows of that goes with the stack.
    auto *exceptions = reinterpret_cast<Exceptions *>(abi::__cxa_get_globals());
    exceptions_ = *exceptions;
    *exceptions = next.exceptions_;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_stack_, next.bottom_, next.known_size_);
#endif
#if defined(__SANITIZE_THREAD__)
    if (memory_ == nullptr)
        fiber_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(next.fiber_, 0);
#endif
    Context *pair[] = {this, &next};
    const bc::transfer_t from = bc::jump_fcontext(next.at_, pair);
    Context &previous = **static_cast<Context **>(from.data);
    previous.at_ = from.fctx;
    arrived(previous);
}

void Context::arrived([[maybe_unused]] Context &previous)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack_, &previous.bottom_, &previous.known_size_);
#endif
}

}  // namespace composite
