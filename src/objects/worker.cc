#include "worker.hh"

#include <sched.h>

#include <chrono>
#include <utility>

#include "object.hh"
#include "runtime.hh"
#include "trap.hh"

namespace composite {

namespace {

thread_local Worker *of_this_thread = nullptr;

// So many items are run before the network has a turn.
constexpr unsigned poll_interval = 32;
// Rounds without anything to do before a worker gives up the processor, and before it sleeps.
constexpr unsigned spin_rounds = 2000, yield_rounds = 2200;
constexpr std::chrono::microseconds nap{200};
// Stacks that wait for the next method that waits.
constexpr std::size_t most_free_stacks = 64;

}  // namespace

std::uint64_t ObjectTable::add(Object *object, unsigned worker)
{
    std::uint32_t slot = free_;
    if (slot == none) {
        slot = static_cast<std::uint32_t>(slots_.size());
        slots_.push_back({object, 1, none});
    } else {
        free_ = slots_[slot].next_free;
        slots_[slot].object = object;
    }
    return std::uint64_t{slots_[slot].generation} << 40 | std::uint64_t{slot} << 8 | worker;
}

void ObjectTable::remove(std::uint64_t number)
{
    const auto index = static_cast<std::uint32_t>(number >> 8);
    Slot &slot = slots_[index];
    slot.object = nullptr;
    if (slot.generation++ == last_generation)
        return;  // A slot that has had all its numbers stays empty.
    slot.next_free = free_;
    free_ = index;
}

Worker::Worker(Runtime &runtime, unsigned index, std::size_t stack_size) : runtime(runtime), index(index), stack_size_(stack_size) {}

Worker::~Worker()
{
    // What waits for what will never come goes with its stack.
    if (of_this_thread == this)
        of_this_thread = nullptr;
}

Worker *Worker::current_or_null() { return of_this_thread; }
void Worker::become(Worker *worker) { of_this_thread = worker; }

Worker &Worker::current()
{
    if (of_this_thread == nullptr)
        throw Error("this thread has no session: objects are used by the thread that made the session, and in methods");
    return *of_this_thread;
}

void Worker::append(Item *item)
{
    item->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = item;
    last_ = item;
}

void Worker::post(Item *item)
{
    if (of_this_thread == this) {
        posted_.fetch_add(1, std::memory_order_relaxed);
        append(item);
        return;
    }
    post_in_order(item);
}

void Worker::post_in_order(Item *item)
{
    posted_.fetch_add(1, std::memory_order_relaxed);
    item->next = inbox_.load(std::memory_order_relaxed);
    // [J1] publishes the item; pairs with [J2]. Sequentially consistent with the look at sleeping_: either the sleeper sees the item or we
    // see it sleep.
    while (!inbox_.compare_exchange_weak(item->next, item, std::memory_order_seq_cst, std::memory_order_relaxed)) {
    }
    if (sleeping_.load(std::memory_order_seq_cst)) {
        std::lock_guard lock(mutex_);
        woken_.notify_one();
    }
}

Item *Worker::next_item()
{
    // [J2] sees what was posted; pairs with [J1].
    if (inbox_.load(std::memory_order_relaxed) != nullptr) {
        Item *newest = inbox_.exchange(nullptr, std::memory_order_acquire);
        Item *oldest = nullptr;
        while (newest != nullptr)
            newest = std::exchange(newest->next, std::exchange(oldest, newest));
        while (oldest != nullptr)
            append(std::exchange(oldest, oldest->next));
    }
    Item *item = first_;
    if (item != nullptr) {
        first_ = item->next;
        busy_.store(true, std::memory_order_relaxed);
        // [J5] publishes busy_; pairs with [J6]: an item is queued until its worker is known to be busy.
        taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    return item;
}

void Worker::loop()
{
    while (true) {
        if (++since_poll_ >= poll_interval) {
            since_poll_ = 0;
            runtime.poll();
        }
        if (Item *item = next_item(); item != nullptr) {
            idle_rounds_ = 0;
            item->run(*this);
        } else if (stopping_) {
            resume(root_);
        } else {
            idle();
        }
    }
}

void Worker::idle()
{
    while (free_.size() > most_free_stacks) {
        stacks_.erase(free_.back());
        free_.pop_back();
    }
    since_poll_ = 0;
    busy_.store(false, std::memory_order_release);
    if (runtime.poll()) {
        idle_rounds_ = 0;
        return;
    }
    if (!empty())
        return;
    ++idle_rounds_;
    if (idle_rounds_ < spin_rounds)
        return;
    if (runtime.single_threaded()) {
        runtime.sleep();
        return;
    }
    if (idle_rounds_ < yield_rounds) {
        sched_yield();
        return;
    }
    std::unique_lock lock(mutex_);
    sleeping_.store(true, std::memory_order_seq_cst);
    // The network has nobody who could wake us, so this one looks again soon.
    if (inbox_.load(std::memory_order_seq_cst) == nullptr)
        woken_.wait_for(lock, nap);
    sleeping_.store(false, std::memory_order_relaxed);
}

// The loop that calls gives its stack back and goes on, where another method waits next.
void Worker::resume(Context &context)
{
    Context *from = running_;
    running_ = &context;
    free_.push_back(from);
    from->switch_to(context);
}

void Worker::reserve_stack()
{
    if (!free_.empty())
        return;
    auto made = std::make_unique<Context>(
        stack_size_, [](void *self) { static_cast<Worker *>(self)->loop(); }, this);
    Context *const context = made.get();
    stacks_.emplace(context, std::move(made));
    free_.push_back(context);
}

void Worker::wait(bool holds)
{
    reserve_stack();
    Object *const mine = object;
    const Address from = sender;
    if (mine != nullptr) {
        if (holds)
            mine->held = true;
        else if (mine->pending != nullptr)
            recheck(*this, *mine);
    }
    Context *const here = running_;
    running_ = free_.back();
    free_.pop_back();
    object = nullptr;
    count(waiting);
    here->left = std::exchange(item, nullptr);
    here->switch_to(*running_);
    item = std::exchange(here->left, nullptr);
    count(waiting, -1);
    object = mine;
    sender = from;
    if (mine != nullptr && holds) {
        mine->held = false;
        if (mine->pending != nullptr)
            recheck(*this, *mine);
    }
}

void Waiter::run(Worker &worker)
{
    // While another method holds the object this one must not go on.
    if (object_ != nullptr && object_->held && !holds_)
        worker.post(this);
    else
        worker.resume(context_);
}

void Worker::yield(bool holds)
{
    runtime.poll();
    Waiter waiter;
    waiter.wake();
    waiter.wait(holds);
}

void Worker::serve()
{
    become(this);
    TrapStack traps;
    stopping_ = false;
    wait();
    become(nullptr);
}

bool Worker::forget_items()
{
    bool some = false;
    for (Item *item = next_item(); item != nullptr; item = next_item()) {
        item->forget();
        some = true;
    }
    return some;
}

void Worker::forget_waiting()
{
    for (auto &[context, stack] : stacks_)
        if (Item *left = std::exchange(context->left, nullptr))
            left->forget();
}

void Worker::stop()
{
    struct Stop : Item {
        void run(Worker &worker) override
        {
            worker.stopping_ = true;
            delete this;
        }
    };
    post(new Stop);
}

}  // namespace composite
