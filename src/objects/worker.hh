// A worker is a thread that runs the methods of its objects, one after the other; which objects are its own never changes. So nothing
// about an object needs a lock, and a method stays on one thread. Messages and methods to go on with are items of one queue.
//
// The loop calls a method on its own stack. Only when the method waits, it is left there with the stack, and the loop goes on with
// another: what does not wait never switches.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "context.hh"

namespace composite {

class Runtime;
class Worker;
struct Object;

struct Item {
    Item() = default;
    Item(const Item &) = delete;
    Item &operator=(const Item &) = delete;
    virtual ~Item() = default;
    // Once, on the worker that it was posted to. It belongs to itself: most delete themselves.
    virtual void run(Worker &worker) = 0;
    // Instead of run(), when the session ends before its turn.
    virtual void forget() { delete this; }
    Item *next = nullptr;
};

// An object as it is known everywhere. The number is never used again; 0 is the program outside of methods.
struct Address {
    std::int32_t rank = -1;
    std::uint64_t number = 0;
    friend bool operator==(const Address &, const Address &) = default;
};

// The objects of a worker by their numbers: generation, slot, worker.
class ObjectTable {
  public:
    static unsigned worker_of(std::uint64_t number) { return number & 0xff; }
    std::uint64_t add(Object *object, unsigned worker);
    Object *find(std::uint64_t number) const
    {
        const std::uint64_t slot = number >> 8 & 0xffffffff;
        return slot < slots_.size() && slots_[slot].generation == number >> 40 ? slots_[slot].object : nullptr;
    }
    void remove(std::uint64_t number);
    template <class F>
    void each(F f)
    {
        for (std::size_t i = 0; i < slots_.size(); ++i)
            if (slots_[i].object != nullptr)
                f(slots_[i].object);
    }

  private:
    struct Slot {
        Object *object;
        std::uint32_t generation;
        std::uint32_t next_free;
    };
    static constexpr std::uint32_t none = ~0u, last_generation = 0xffffff;
    std::deque<Slot> slots_;
    std::uint32_t free_ = none;
};

class Worker {
  public:
    Worker(Runtime &runtime, unsigned index, std::size_t stack_size);
    ~Worker();

    // Of this thread; Error when it has none.
    static Worker &current();
    static Worker *current_or_null();
    // Makes it the one of this thread, or none.
    static void become(Worker *worker);

    // From any thread; items of one thread are run in the order of their posting.
    void post(Item *item);
    // For what comes from one sender by several threads, one after the other: its order is kept, too.
    void post_in_order(Item *item);
    // Leaves the method that runs where it is, until its Waiter is run; meanwhile others run, also of the same object unless it `holds` it.
    void wait(bool holds = false);
    // What the next wait() needs. Throws Error when there is no memory for it; wait() does not, then.
    void reserve_stack();
    // Lets everything run that was posted to this worker before.
    void yield(bool holds = false);
    // On the stack of the thread, until stop() is run.
    void serve();
    void stop();
    // What was posted and will not be run any more. True if there was something: forgetting may post more.
    bool forget_items();
    // Messages whose methods will never go on.
    void forget_waiting();

    Runtime &runtime;
    const unsigned index;
    ObjectTable objects;
    // Whose method runs, and who sent its message.
    Object *object = nullptr;
    Address sender;
    Item *item = nullptr;  // what runs, if it must be freed when its method is forgotten
    // Written here only; read by who counts.
    std::atomic<std::int64_t> alive{0}, ran{0}, sent{0}, waiting{0};
    static void count(std::atomic<std::int64_t> &counter, std::int64_t more = 1)
    {
        counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }
    // Posted and not yet run.
    std::int64_t queued() const
    {
        // [J6] sees who is busy with what was taken; pairs with [J5].
        return posted_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_acquire);
    }
    std::int64_t posted() const { return posted_.load(std::memory_order_relaxed); }
    // Nothing to run and nothing that runs.
    bool idling() const { return queued() == 0 && !busy_.load(std::memory_order_acquire); }
    bool empty() const { return first_ == nullptr && inbox_.load(std::memory_order_acquire) == nullptr; }
    Context &running() { return *running_; }
    void resume(Context &context);

  private:
    void loop();
    Item *next_item();
    void idle();
    void append(Item *item);

    // Several threads push, this one takes all.
    alignas(64) std::atomic<Item *> inbox_{nullptr};
    std::atomic<std::int64_t> posted_{0};
    std::atomic<bool> sleeping_{false};
    std::mutex mutex_;
    std::condition_variable woken_;

    alignas(64) Item *first_ = nullptr;
    Item *last_ = nullptr;
    std::atomic<std::int64_t> taken_{0};
    std::atomic<bool> busy_{false};
    Context root_;
    Context *running_ = &root_;
    std::vector<Context *> free_;
    std::unordered_map<Context *, std::unique_ptr<Context>> stacks_;
    std::size_t stack_size_;
    unsigned since_poll_ = 0, idle_rounds_ = 0;
    bool stopping_ = false;
};

// Around what an item does.
class Runs {
  public:
    Runs(Worker &worker, Item *item) : worker_(worker), before_(std::exchange(worker.item, item)) {}
    ~Runs() { worker_.item = before_; }
    Runs(const Runs &) = delete;
    Runs &operator=(const Runs &) = delete;

  private:
    Worker &worker_;
    Item *before_;
};

// A method that waits, as an item: it lies on the stack of the method. Made before others know of it: only making it may fail.
class Waiter : public Item {
  public:
    Waiter() : worker_(Worker::current()), context_(worker_.running()), object_(worker_.object) { worker_.reserve_stack(); }
    void run(Worker &worker) override;
    // It goes with the stack of its method.
    void forget() override {}
    // From any thread, once.
    void wake() { worker_.post(this); }
    void wait(bool holds = false)
    {
        holds_ = holds;
        worker_.wait(holds);
    }

  private:
    Worker &worker_;
    Context &context_;
    Object *object_;
    bool holds_ = false;
};

// Methods that wait for the same.
class WaitList {
  public:
    // Waits unless `ready()`, which is called under the lock of the list. What makes it ready calls wake_all() afterwards.
    template <class Ready>
    void wait_unless(Ready ready, bool holds = false)
    {
        std::unique_lock lock(mutex_);
        if (ready())
            return;
        Waiter waiter;
        waiter.next = first_;
        first_ = &waiter;
        lock.unlock();
        waiter.wait(holds);
    }
    void wake_all()
    {
        std::unique_lock lock(mutex_);
        Item *each = std::exchange(first_, nullptr);
        lock.unlock();
        while (each != nullptr)
            static_cast<Waiter *>(std::exchange(each, each->next))->wake();
    }

  private:
    std::mutex mutex_;
    Item *first_ = nullptr;
};

}  // namespace composite
