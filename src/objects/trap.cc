#include "trap.hh"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "worker.hh"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

namespace composite {

namespace {

constexpr std::size_t stack_size = 64 * 1024;

// Closed pages for the next traps: making and giving back mappings would take longer than all the rest.
constexpr std::size_t most_free_pages = 64;
std::vector<void *> &free_pages()
{
    static auto &instance = *new std::vector<void *>;
    return instance;
}

std::mutex mutex;
int sessions = 0;
struct sigaction before;

// Of this thread. What is in use by a handler is in neither: the kernel has it.
thread_local std::map<const void *, TrapMemory *> watched;
thread_local std::vector<void *> free_stacks;

std::size_t page_size()
{
    static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

void write_error(const char *text)
{
    [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
}

// Disarmed by the kernel while a handler runs on it, so that the method it belongs to can be left there and another one can fault.
void arm(void *memory)
{
    stack_t stack{};
    stack.ss_sp = memory;
    stack.ss_size = stack_size;
    stack.ss_flags = static_cast<int>(SS_AUTODISARM);
    sigaltstack(&stack, nullptr);
}

void *take_stack()
{
    if (free_stacks.empty()) {
        void *memory = mmap(nullptr, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            write_error("composite objects: there is no memory for one more method that waits in a trap\n");
            std::abort();
        }
        return memory;
    }
    void *memory = free_stacks.back();
    free_stacks.pop_back();
    return memory;
}

void on_fault(int signal, siginfo_t *info, void *context)
{
    const void *address = info->si_addr;
    if (Worker *worker = Worker::current_or_null(); worker != nullptr && info->si_code == SEGV_ACCERR) {
        auto found = watched.upper_bound(address);
        if (found != watched.begin()) {
            TrapMemory &memory = *std::prev(found)->second;
            if (address < memory.begin + memory.size) {
                memory.touched();
                return;
            }
        }
        if (worker->running().guards(address))
            write_error("composite objects: a method needs more stack than it has: make Options::stack larger\n");
    }
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(signal, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(signal);
    } else {
        // It faults again when we return, and ends as it would have.
        struct sigaction normal {};
        normal.sa_handler = SIG_DFL;
        sigaction(SIGSEGV, &normal, nullptr);
    }
}

}  // namespace

TrapMemory::TrapMemory(std::size_t bytes) : size((bytes + page_size() - 1) / page_size() * page_size())
{
    if (size == page_size()) {
        std::lock_guard lock(mutex);
        if (!free_pages().empty()) {
            begin = static_cast<std::byte *>(free_pages().back());
            free_pages().pop_back();
            return;
        }
    }
    void *memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw Error("there is no memory for one more trap; use fewer at a time, or raise vm.max_map_count");
    begin = static_cast<std::byte *>(memory);
}

TrapMemory::~TrapMemory()
{
    if (size == page_size() && mprotect(begin, size, PROT_NONE) == 0) {
        std::lock_guard lock(mutex);
        if (free_pages().size() < most_free_pages) {
            free_pages().push_back(begin);
            return;
        }
    }
    munmap(begin, size);
}

void TrapMemory::watch() { watched[begin] = this; }
void TrapMemory::forget() { watched.erase(begin); }

void TrapMemory::open()
{
    if (mprotect(begin, size, PROT_READ | PROT_WRITE) != 0) {
        write_error("composite objects: there is no memory to open a trap\n");
        std::abort();
    }
}

void wait_in_handler(Awaited &awaited)
{
    if (!awaited.ready()) {
        // Another stack for those who fault meanwhile. The one we are on comes back when the handler returns.
        arm(take_stack());
        awaited.wait();
        stack_t other{};
        sigaltstack(nullptr, &other);
        free_stacks.push_back(other.ss_sp);
    }
    if (awaited.failed()) {
        write_error("composite objects: a trap was touched whose value will not come: ");
        write_error(awaited.error().c_str());
        write_error("; wait() throws this as an Error\n");
        std::abort();
    }
}

TrapStack::TrapStack() { arm(take_stack()); }

TrapStack::~TrapStack()
{
    stack_t mine{};
    sigaltstack(nullptr, &mine);
    if ((mine.ss_flags & SS_DISABLE) == 0)
        free_stacks.push_back(mine.ss_sp);
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    for (void *each : free_stacks)
        munmap(each, stack_size);
    free_stacks.clear();
}

void enter_traps()
{
    std::lock_guard lock(mutex);
    if (sessions++ > 0)
        return;
    struct sigaction ours {};
    ours.sa_sigaction = on_fault;
    // Neither blocks itself: a method may wait in the handler while another one faults.
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGSEGV, &ours, &before);
}

void leave_traps()
{
    std::lock_guard lock(mutex);
    if (--sessions == 0)
        sigaction(SIGSEGV, &before, nullptr);
}

}  // namespace composite
