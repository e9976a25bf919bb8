#include "profile/recorder.h"

#include <algorithm>
#include <cstring>

namespace pm::profile {
namespace {

// Ticks are nanoseconds, or some of them: what is short may be a few times as long on one kind of machine as on another.
constexpr std::uint64_t short_call = 4000, long_call = 40000;
// Calls that may wait differ more from each other than those that never do, such as MPI_Isend.
constexpr std::uint32_t weight_most_waiting = 32, weight_most_other = 128;

bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names)
{
    return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::atomic<bool> on{false};
constinit thread_local Thread *this_thread = nullptr;
Board Thread::nobody_looks_;

Kind kind_of(std::string_view name)
{
    if (name.ends_with("_c"))
        name.remove_suffix(2);
    if (!name.starts_with("MPI_"))
        return Kind::other;
    name.remove_prefix(4);
    if (is_any_of(name, {"Send", "Ssend", "Bsend", "Rsend"}))
        return Kind::send;
    if (is_any_of(name, {"Recv", "Mrecv", "Probe", "Mprobe", "Sendrecv", "Sendrecv_replace"}))
        return Kind::receive;
    if (is_any_of(name, {"Wait", "Waitall", "Waitany", "Waitsome"}))
        return Kind::completion;
    if (is_any_of(name, {"Barrier", "Bcast", "Reduce", "Allreduce", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv",
                         "Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter", "Reduce_scatter_block", "Scan", "Exscan"}))
        return Kind::collective;
    return Kind::other;
}

void Series::add(std::uint64_t time)
{
    ticks.push_back(time);
    if (ticks.size() < room)
        return;
    for (std::size_t i = 0; i < room / 2; ++i)
        ticks[i] = ticks[2 * i];
    ticks.resize(room / 2);
    step *= 2;
}

Function &Thread::add(Called called)
{
    // The last one is for those that there is no room for; programs call a few dozen.
    bool last = known_ == functions_most - 1;
    std::size_t place = last ? known_ : known_++, number = static_cast<std::size_t>(called.function) % numbers_most;
    Function &function = functions_[place];
    places_[number] = static_cast<std::uint16_t>(place + 1);
    if (function.name != nullptr)
        return function;
    function.name = called.name;
    function.kind = kind_of(called.name);
    if (!last)
        function.untold = &untold_[number];
    if (board_ != &nobody_looks_)
        std::strncpy(board_->names[place], called.name, name_room - 1);
    return function;
}

void Thread::stamp(Function &function, bool sampled, bool compared, std::uint64_t now)
{
    open_ = &function;
    sampled_ = sampled;
    compared_ = compared;
    begin_ = now;
    board_->since.store(now, std::memory_order_relaxed);
    board_->call.store(static_cast<std::uint32_t>(&function - functions_.data()) + 1, std::memory_order_relaxed);
}

void Thread::begin_wait(std::uint64_t now)
{
    // When a call began that was not stamped is known well enough from others that were.
    if (open_ == nullptr) {
        Called called = questions_.open();
        if (called.function == 0)
            return;
        stamp(find(called), false, false, now - approach_);
    } else if (!waited_) {
        approach_ = (3 * approach_ + std::min(ticks_between(begin_, now), long_call)) / 4;
    }
    waiting_ = waited_ = true;
    wait_begin_ = now;
    cause_ = {};
    if (open_->kind != Kind::collective)
        cause_ = questions_.cause();
    if (open_->kind == Kind::send)
        cause_.late = Late::receiver;
    if (open_->kind == Kind::receive)
        cause_.late = Late::sender;
    lateness_ = cause_.late == Late::nobody ? nullptr : &late_[{cause_.late, cause_.rank}];
    board_->waits_for.store(cause_.rank, std::memory_order_relaxed);
    board_->late.store(static_cast<std::uint32_t>(cause_.late), std::memory_order_relaxed);
}

void Thread::end_wait(std::uint64_t now)
{
    waiting_ = false;
    std::uint64_t time = ticks_between(wait_begin_, now);
    idle_ += time;
    board_->late.store(0, std::memory_order_relaxed);
    if (lateness_ == nullptr)
        return;
    ++lateness_->times;
    lateness_->ticks += time;
    lateness_->longest = std::max(lateness_->longest, time);
}

void Thread::close(std::uint64_t now)
{
    Function &function = *open_;
    if (waiting_)
        end_wait(now);
    std::uint64_t time = ticks_between(begin_, now);
    if (waited_) {
        function.waited += time;
        function.idle += idle_;
    } else if (sampled_) {
        function.sampled += time * function.weight;
    }
    function.longest = std::max(function.longest, time);
    board_->in_mpi.store(board_->in_mpi.load(std::memory_order_relaxed) + (waited_ ? time : sampled_ ? time * function.weight : 0),
                         std::memory_order_relaxed);
    board_->since.store(0, std::memory_order_relaxed);
    if (compared_)
        function.series.add(time);
    if (sampled_)
        plan_next(function, time);
    sampled_ = compared_ = waited_ = false;
    idle_ = 0;
    open_ = nullptr;
    board_->call.store(0, std::memory_order_relaxed);
}

// Calls of a program come in patterns: the next one that is stamped is chosen at random, so that it is not always the same of a pattern.
void Thread::plan_next(Function &function, std::uint64_t time)
{
    std::uint32_t usual = function.weight;
    if (time < short_call)
        usual = std::min(2 * usual, function.kind == Kind::other ? weight_most_other : weight_most_waiting);
    else if (time >= long_call && !waited_)
        usual = std::max<std::uint32_t>(usual / 4, 1);
    random_ = random_ * 1664525 + 1013904223;
    function.weight = usual < 4 ? usual : usual - usual / 4 + (random_ >> 16) % (usual / 2);
    // Of collectives each is told, because ranks must agree on which are compared.
    if (function.untold == nullptr || function.kind == Kind::collective) {
        function.skip = function.weight - 1;
        return;
    }
    untold_[static_cast<std::size_t>(function.untold - untold_.data())] = static_cast<int>(function.weight - 1);
    function.counted += function.weight - 1;
}

}  // namespace pm::profile
