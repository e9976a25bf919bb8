// Values that come later. Who waits for one lets other methods run meanwhile.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "codec.hh"
#include "error.hh"
#include "worker.hh"

namespace composite {

// What is not there yet. It becomes ready once, from any thread: with a value or with an error.
class Awaited {
  public:
    virtual ~Awaited() = default;
    // The value as it came from another rank. Throws when it does not decode.
    virtual void decode(Reader &from) = 0;
    virtual void fail(const std::string &error)
    {
        error_ = error;
        failed_ = true;
        done();
    }
    bool ready() const { return ready_.load(std::memory_order_acquire); }  // [J4] sees the value; pairs with [J3]
    void wait()
    {
        if (!ready())
            waiters_.wait_unless([this] { return ready(); });
    }
    void check() const
    {
        if (failed_)
            throw Error(error_);
    }
    bool failed() const { return failed_; }
    const std::string &error() const { return error_; }
    // The item is posted to the worker, now or when it is ready.
    void when_done(Worker &worker, Item *item);

  protected:
    void done();

  private:
    std::atomic<bool> ready_{false};
    bool failed_ = false;
    WaitList waiters_;
    std::mutex mutex_;
    std::vector<std::pair<Worker *, Item *>> items_;
    std::string error_;
};

template <class T>
class AwaitedValue : public Awaited {
  public:
    using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;
    void decode(Reader &from) override
    {
        if (from.value<std::uint32_t>() != signature<T>)
            throw Error("the result has another type than was asked for");
        if constexpr (!std::is_void_v<T>)
            set(Codec<T>::read(from));
        else
            set({});
    }
    virtual void set(Value value)
    {
        value_.emplace(std::move(value));
        done();
    }
    Value take()
    {
        check();
        return std::move(*value_);
    }

  private:
    std::optional<Value> value_;
};

template <class T>
class Future {
  public:
    using State = AwaitedValue<T>;
    Future() = default;
    explicit Future(std::shared_ptr<State> state) : state_(std::move(state)) {}
    Future(Future &&) noexcept = default;
    Future &operator=(Future &&) noexcept = default;

    bool ready() const { return state_->ready(); }
    // Once. Throws Error when the call failed.
    T get()
    {
        state_->wait();
        if constexpr (std::is_void_v<T>)
            state_->check();
        else
            return state_->take();
    }
    operator T()
        requires(!std::is_void_v<T>)
    {
        return get();
    }
    // A future for what `f` makes of the value. It runs as a method of the object that asks, when the value is there.
    template <class F>
    auto then(F f);

    const std::shared_ptr<State> &state() const { return state_; }

  private:
    std::shared_ptr<State> state_;
};

// Calls `f` as a method of the object that runs now, on its worker, some time after `awaited` is ready; `gone` if there is no such object
// any more.
void run_when_done(Awaited &awaited, std::function<void()> f, std::function<void(const std::string &)> gone);

// Runs f, and makes its value or what it throws that of the state.
template <class T, class F>
void fulfil(AwaitedValue<T> &state, F f)
{
    try {
        if constexpr (std::is_void_v<T>) {
            f();
            state.set({});
        } else {
            state.set(f());
        }
    } catch (const std::exception &error) {
        state.fail(error.what());
    } catch (...) {
        state.fail("something that is no std::exception was thrown");
    }
}

template <class T>
template <class F>
auto Future<T>::then(F f)
{
    using Plain = std::conditional_t<std::is_void_v<T>, std::monostate, T>;
    auto call = [f = std::move(f)](AwaitedValue<T> &from) mutable -> decltype(auto) {
        if constexpr (std::is_void_v<T>) {
            from.check();
            return f();
        } else {
            return f(static_cast<Plain &&>(from.take()));
        }
    };
    using U = std::invoke_result_t<decltype(call) &, AwaitedValue<T> &>;
    auto next = std::make_shared<AwaitedValue<U>>();
    auto shared = std::make_shared<decltype(call)>(std::move(call));
    run_when_done(
        *state_, [from = state_, next, shared] { fulfil(*next, [&]() -> U { return (*shared)(*from); }); },
        [next](const std::string &error) { next->fail(error); });
    return Future<U>(std::move(next));
}

// All of them, or the error of the first that failed.
template <class T>
auto when_all(std::vector<Future<T>> parts)
{
    using Result = std::conditional_t<std::is_void_v<T>, void, std::vector<typename AwaitedValue<T>::Value>>;
    struct All {
        std::vector<Future<T>> parts;
        std::size_t left;
        std::shared_ptr<AwaitedValue<Result>> state = std::make_shared<AwaitedValue<Result>>();
        void finish()
        {
            fulfil(*state, [this]() -> Result {
                if constexpr (std::is_void_v<T>) {
                    for (auto &each : parts)
                        each.get();
                } else {
                    Result values;
                    values.reserve(parts.size());
                    for (auto &each : parts)
                        values.push_back(each.get());
                    return values;
                }
            });
        }
    };
    auto all = std::make_shared<All>(All{std::move(parts), 0});
    all->left = all->parts.size();
    if (all->left == 0)
        all->finish();
    for (auto &each : all->parts)
        run_when_done(
            *each.state(),
            [all] {
                if (--all->left == 0)
                    all->finish();
            },
            [all](const std::string &error) {
                if (--all->left == 0)
                    all->state->fail(error);
            });
    return Future<Result>(all->state);
}

template <class... T>
auto when_all(Future<T>... parts)
{
    using Result = std::tuple<typename AwaitedValue<T>::Value...>;
    struct All {
        std::tuple<Future<T>...> parts;
        std::size_t left = sizeof...(T);
        std::shared_ptr<AwaitedValue<Result>> state = std::make_shared<AwaitedValue<Result>>();
        void finish()
        {
            fulfil(*state, [this] { return std::apply([](auto &...each) { return Result{each.state()->take()...}; }, parts); });
        }
    };
    auto all = std::make_shared<All>(All{{std::move(parts)...}});
    std::apply(
        [&](auto &...each) {
            (run_when_done(
                 *each.state(),
                 [all] {
                     if (--all->left == 0)
                         all->finish();
                 },
                 [all](const std::string &error) {
                     if (--all->left == 0)
                         all->state->fail(error);
                 }),
             ...);
        },
        all->parts);
    return Future<Result>(all->state);
}

}  // namespace composite
