// What a process notes about its MPI calls while it runs: how long they took, how long they waited and for whom.
//
// Promise: a call that takes a tenth of a microsecond is not made longer by more than a nanosecond or two. So every call is counted, but of
// calls that are short only some are stamped, at random, and each of these stands for those before it: the others are not even told, whoever
// makes them counts down how many there still are (untold()). A call that waits is always timed, from
// when it has polled some times in vain: what is rare and long is not guessed from samples.
// Of the collectives that all ranks take part in the same ones are timed by every rank, whatever they take: only then can ranks be compared.
//
// A thread writes what is its own. Others read it at the end, when it has come to rest, or show it while it runs (board.h), where
// being a little behind does no harm.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ticks.h"
#include "profile/board.h"

namespace pm::profile {

// What a call waits for, as far as its name says it.
enum class Kind : std::uint8_t { other, send, receive, completion, collective };
Kind kind_of(std::string_view function);

// Who is late when a call waits.
enum class Late : std::uint8_t { nobody, sender, receiver };

// Times of a collective by all ranks: those of calls 0, step, 2 * step ... As many as there is room for, then every other one goes.
struct Series {
    static constexpr std::size_t room = 256;
    std::uint64_t calls = 0;
    std::uint32_t step = 1;
    std::vector<std::uint64_t> ticks;

    // Whether the call that begins now is one of these.
    bool takes_next() { return (calls++ & (step - 1)) == 0; }
    void add(std::uint64_t time);
};

// One MPI function. Times are ticks.
struct Function {
    const char *name = nullptr;
    Kind kind = Kind::other;
    std::uint32_t skip = 0;    // calls that are told until one is stamped
    std::uint32_t weight = 1;  // of that one: it, and those that were skipped
    std::uint64_t counted = 0;  // calls, with those that are still to be skipped
    const int *untold = nullptr;  // how many these are
    std::uint64_t sampled = 0;  // of those that did not wait: what the samples stand for
    std::uint64_t waited = 0;   // of those that did: all of them
    std::uint64_t idle = 0;     // of that: nothing had arrived
    std::uint64_t longest = 0;
    Series series;

    std::uint64_t calls() const { return untold == nullptr ? counted : counted - static_cast<std::uint64_t>(*untold); }
    std::uint64_t time() const { return sampled + waited; }
};

struct Lateness {
    std::uint64_t times = 0, ticks = 0, longest = 0;
};

// Whom the call waits for just now: a rank of the job, or -1.
struct Cause {
    Late late = Late::nobody;
    std::int32_t rank = -1;
};

// A function of MPI, by its number, from 1 on.
struct Called {
    int function = 0;
    const char *name = nullptr;
};
inline constexpr std::size_t numbers_most = 1024;

// About the outermost call that the thread is in.
struct Questions {
    bool (*of_all)();   // a collective: whether all ranks of the job take part
    Cause (*cause)();   // it begins to wait
    Called (*open)();   // which it is, if it was not told; its end will be. 0: there is none
};

class Thread {
  public:
    // `board` is for others to see, or null.
    explicit Thread(const Questions &questions, Board *board = nullptr)
        : questions_(questions), board_(board != nullptr ? board : &nobody_looks_)
    {
    }

    // By number of the function: how many of the next calls need not be told. Whoever does not tell one counts that down.
    int *untold() { return untold_.data(); }

    // The outermost call of the thread. False: its end need not be told.
    bool begin(Called called, std::uint64_t (*now)() = ticks_now)
    {
        Function &function = find(called);
        ++function.counted;
        bool sampled = function.skip == 0;
        bool compared = function.kind == Kind::collective && questions_.of_all() && function.series.takes_next();
        if (!sampled)
            --function.skip;
        if (sampled || compared)
            stamp(function, sampled, compared, now());
        return sampled || compared;
    }
    // Of one that is stamped; of others it does nothing.
    void end(std::uint64_t (*now)() = ticks_now)
    {
        if (open_ != nullptr)
            close(now());
    }

    // The call has polled in vain for a while; and something has come.
    void waits(std::uint64_t (*now)() = ticks_now)
    {
        if (!waiting_)
            begin_wait(now());
    }
    void goes_on(std::uint64_t (*now)() = ticks_now)
    {
        if (waiting_)
            end_wait(now());
    }

    const std::array<Function, functions_most> &functions() const { return functions_; }
    const std::map<std::pair<Late, std::int32_t>, Lateness> &late() const { return late_; }
    const Function *open() const { return open_; }  // if it is stamped

  private:
    Function &find(Called called)
    {
        std::size_t place = places_[static_cast<std::size_t>(called.function) % numbers_most];
        return place > 0 ? functions_[place - 1] : add(called);
    }
    Function &add(Called called);
    void stamp(Function &function, bool sampled, bool compared, std::uint64_t now);
    void close(std::uint64_t now);
    void begin_wait(std::uint64_t now);
    void end_wait(std::uint64_t now);
    void plan_next(Function &function, std::uint64_t time);

    const Questions questions_;
    Board *const board_;
    // The call that is open and stamped.
    Function *open_ = nullptr;
    bool sampled_ = false, compared_ = false, waited_ = false, waiting_ = false;
    std::uint64_t begin_ = 0, wait_begin_ = 0, idle_ = 0;
    Cause cause_;
    Lateness *lateness_ = nullptr;  // found while it waits: when something has come there is no time for it
    std::uint64_t approach_ = 0;  // from the begin of a call to when it was noticed that it waits
    std::uint32_t random_ = 1;

    std::array<int, numbers_most> untold_{};
    std::array<std::uint16_t, numbers_most> places_{};  // in functions_, and 1
    std::size_t known_ = 0;                             // functions
    std::array<Function, functions_most> functions_;    // in the order of their first calls
    std::map<std::pair<Late, std::int32_t>, Lateness> late_;
    static Board nobody_looks_;
};

// Sizes of messages: class 0 has those without payload, class n those of at most 4^(n+1) bytes, the last one all others.
inline constexpr std::size_t size_classes = 14;
inline std::size_t size_class(std::uint64_t size)
{
    std::size_t quarters = (static_cast<std::size_t>(std::bit_width(size - 1)) + 1) / 2;
    return size == 0 ? 0 : std::clamp<std::size_t>(quarters, 2, size_classes) - 1;
}
struct Sizes {
    std::array<std::uint64_t, size_classes> messages{}, bytes{};

    void add(std::uint64_t size, std::uint64_t count = 1)
    {
        messages[size_class(size)] += count;
        bytes[size_class(size)] += size * count;
    }
};

// Messages of one size to one peer, one after the other. How many there are follows from the number of all messages to the peer, which is
// counted anyway: one that is as long as the one before it costs a comparison, whether a profile is made or not.
class SizeRun {
  public:
    void record() { recorded_.store(~std::uint64_t{0}, std::memory_order_relaxed); }  // from the next message on
    bool ends_at(std::uint64_t size) const { return ((size ^ size_) & recorded_.load(std::memory_order_relaxed)) != 0; }
    // Another one begins with the last of so many messages.
    void end(Sizes *sizes, std::uint64_t size, std::uint64_t messages)
    {
        if (is_any())
            add_to(sizes, messages - 1);
        size_ = size;
        before_ = messages - 1;
    }
    // One was counted that is no message.
    void pass_over() { ++before_; }
    bool is_any() const { return size_ != none; }
    void add_to(Sizes *sizes, std::uint64_t messages) const { sizes->add(size_, messages - before_); }

  private:
    static constexpr std::uint64_t none = ~std::uint64_t{0};  // no message is that long

    std::atomic<std::uint64_t> recorded_{0};  // all bits when a profile is made
    std::uint64_t size_ = none;
    std::uint64_t before_ = 0;  // messages that are not of this run
};

// Whether calls are recorded in this process, and the record of this thread, if it has one.
extern std::atomic<bool> on;
extern constinit thread_local Thread *this_thread __attribute__((tls_model("initial-exec")));

}  // namespace pm::profile
