#include "future.hh"

#include "object.hh"

namespace composite {

void Awaited::done()
{
    {
        std::lock_guard lock(mutex_);
        ready_.store(true, std::memory_order_release);  // [J3] publishes the value; pairs with [J4]
        for (const auto &[worker, item] : items_)
            worker->post(item);
        items_.clear();
    }
    waiters_.wake_all();
}

void Awaited::when_done(Worker &worker, Item *item)
{
    std::unique_lock lock(mutex_);
    if (!ready()) {
        items_.emplace_back(&worker, item);
        return;
    }
    lock.unlock();
    worker.post(item);
}

void run_when_done(Awaited &awaited, std::function<void()> f, std::function<void(const std::string &)> gone)
{
    struct Then : Item {
        void run(Worker &worker) override
        {
            Object *object = number == 0 ? nullptr : worker.objects.find(number);
            if (object != nullptr && object->held) {
                worker.post(this);
                return;
            }
            if (number == 0) {
                f();
            } else if (object == nullptr) {
                gone("the object that wanted to go on with this is gone");
            } else {
                run_as_method(worker, *object, f);
            }
            delete this;
        }
        std::uint64_t number;
        std::function<void()> f;
        std::function<void(const std::string &)> gone;
    };
    Worker &worker = Worker::current();
    auto *item = new Then;
    item->number = worker.object != nullptr ? worker.object->number : 0;
    item->f = std::move(f);
    item->gone = std::move(gone);
    awaited.when_done(worker, item);
}

}  // namespace composite
