// Objects that talk, on ranks that are threads. Promise: a message reaches the object it was sent to, in the order of its sender, with its
// arguments; what goes wrong comes back to who sent it; an object runs one method at a time unless it waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "objects/event.hh"
#include "objects/ref.hh"
#include "support/loop_network.h"
#include "support/sanitizers.h"

namespace composite {
namespace {

using test::Loop;

class Counter {
  public:
    explicit Counter(int start) : value_(start) {}
    void add(int more) { value_ += more; }
    int value() const { return value_; }
    int fails() { throw std::runtime_error("this counter is broken"); }
    long sum(std::span<const int> numbers, const std::string &text)
    {
        return std::accumulate(numbers.begin(), numbers.end(), 0L) + static_cast<long>(text.size());
    }
    std::string join(std::vector<std::string> words, std::string_view between)
    {
        std::string all;
        for (const auto &each : words)
            all += (all.empty() ? "" : std::string(between)) + each;
        return all;
    }
    std::uintptr_t where(Buffer bytes) { return reinterpret_cast<std::uintptr_t>(bytes.data()); }
    Buffer echo(Buffer bytes) { return bytes; }
    int ask_other(Ref<Counter> other)
    {
        const int before = value_;
        const int theirs = other.now(&Counter::value);
        return theirs * 100 + (value_ - before);
    }
    Ref<Counter> me() { return self<Counter>(); }
    int not_listed() { return 0; }

  private:
    int value_;
};
COMPOSITE_TYPE(Counter, (int), add, value, fails, sum, join, where, echo, ask_other, me)

class Objects : public testing::TestWithParam<std::tuple<int, unsigned>> {
  protected:
    int ranks() const { return std::get<0>(GetParam()); }
    Options options() const
    {
        Options options;
        options.workers = std::get<1>(GetParam());
        return options;
    }
    // `body` on rank 0; the others serve.
    void run(const std::function<void(Runtime &)> &body)
    {
        Loop::run(ranks(), options(), [&](Runtime &runtime) {
            if (runtime.rank() == 0)
                body(runtime);
        });
    }
};

TEST_P(Objects, AnswerNowAndLater)
{
    run([](Runtime &runtime) {
        for (int rank = 0; rank < runtime.size(); ++rank) {
            auto counter = create<Counter>(rank, 5);
            EXPECT_EQ(counter.rank, rank);
            for (int i = 0; i < 100; ++i)
                counter.past(&Counter::add, i);
            auto later = counter.future(&Counter::value);
            counter.past(&Counter::add, 1);
            EXPECT_EQ(later.get(), 5 + 4950);
            EXPECT_EQ(counter.now(&Counter::value), 5 + 4951);
            EXPECT_EQ(counter.now(&Counter::me), counter);
        }
    });
}

TEST_P(Objects, TakeArgumentsOfManyKinds)
{
    run([](Runtime &runtime) {
        for (int rank = 0; rank < runtime.size(); ++rank) {
            auto counter = create<Counter>(rank, 0);
            for (const std::size_t count : {0, 1, 100, 255, 256, 10000}) {
                std::vector<int> numbers(count, 3);
                const std::string text(count, 'x');
                EXPECT_EQ(counter.now(&Counter::sum, numbers, text), static_cast<long>(4 * count)) << count;
                EXPECT_EQ(counter.now(&Counter::sum, std::span<const int>(numbers), "four"), static_cast<long>(3 * count + 4)) << count;
            }
            EXPECT_EQ(counter.now(&Counter::join, std::vector<std::string>{"a", "bc", std::string(3000, 'd')}, "-"),
                      "a-bc-" + std::string(3000, 'd'));
            for (const std::size_t size : {1, 10, 1023, 1024, 100000}) {
                Buffer bytes(size);
                std::memset(bytes.data(), 7, bytes.size());
                Buffer back = counter.now(&Counter::echo, std::move(bytes));
                ASSERT_EQ(back.size(), size);
                EXPECT_EQ(back.data()[size - 1], std::byte{7});
            }
        }
    });
}

TEST_P(Objects, HandOverABufferByPointer)
{
    run([](Runtime &) {
        auto counter = create<Counter>(0, 0);
        Buffer bytes(1 << 20);
        const auto where = reinterpret_cast<std::uintptr_t>(bytes.data());
        EXPECT_EQ(counter.now(&Counter::where, std::move(bytes)), where);
    });
}

TEST_P(Objects, RunOtherMethodsWhileOneWaits)
{
    run([](Runtime &runtime) {
        auto first = create<Counter>(0, 1);
        auto second = create<Counter>(runtime.size() - 1, 7);
        auto answer = first.future(&Counter::ask_other, second);
        first.past(&Counter::add, 1);
        const int found = answer.get();
        EXPECT_EQ(found / 100, 7);
        EXPECT_LE(found % 100, 1);
        // An object that asks itself waits, and so can answer.
        EXPECT_EQ(first.now(&Counter::ask_other, first) / 100, 2);
    });
}

TEST_P(Objects, TellTheSenderOfErrors)
{
    run([](Runtime &runtime) {
        for (int rank = 0; rank < runtime.size(); ++rank) {
            auto error_of = [](auto f) -> std::string {
                try {
                    f();
                } catch (const Error &error) {
                    return error.what();
                }
                return "no error";
            };
            auto counter = create<Counter>(rank, 0);
            const AnyRef any = counter;
            EXPECT_EQ(error_of([&] { counter.now(&Counter::fails); }), "this counter is broken");
            EXPECT_NE(error_of([&] { counter.now(&Counter::not_listed); }).find("does not list"), std::string::npos);
            EXPECT_NE(error_of([&] { any.now<int>("nonsense"); }).find("no such method"), std::string::npos);
            EXPECT_NE(error_of([&] { any.now("add", 1.5); }).find("do not decode"), std::string::npos);
            EXPECT_NE(error_of([&] { any.now<std::string>("value"); }).find("another type"), std::string::npos);
            EXPECT_EQ(any.now<int>("value"), 0);
            EXPECT_NE(error_of([&] { create("Nothing", rank); }).find("no type Nothing"), std::string::npos);
            EXPECT_NE(error_of([&] { create("Counter", rank, std::string("x")); }).find("do not decode"), std::string::npos);
            counter.destroy();
            EXPECT_NE(error_of([&] { counter.now(&Counter::value); }).find("gone"), std::string::npos);
            auto another = create<Counter>(rank, 0);
            EXPECT_NE(another.number, counter.number);
            EXPECT_NE(error_of([&] { counter.now(&Counter::value); }).find("gone"), std::string::npos);
        }
        EXPECT_THROW(create<Counter>(runtime.size(), 0), Error);
    });
}

class Complainer {
  public:
    void call(Ref<Counter> broken) { broken.past(&Counter::fails); }
    void failed(const Error &error) { said_ = error.what(); }
    std::string said() { return said_; }
    bool complained() { return !said_.empty(); }

  private:
    std::string said_;
};
COMPOSITE_TYPE(Complainer, (), call, said)
COMPOSITE_WHEN(Complainer, said, complained)

TEST_P(Objects, TellTheSendingObjectOfErrorsOfPastMessages)
{
    run([](Runtime &runtime) {
        for (int rank = 0; rank < runtime.size(); ++rank) {
            auto complainer = create<Complainer>(0);
            complainer.past(&Complainer::call, create<Counter>(rank, 0));
            EXPECT_EQ(complainer.now(&Complainer::said), "this counter is broken");
        }
    });
}

TEST_P(Objects, GoOnWithWhatTheyGet)
{
    run([](Runtime &runtime) {
        std::vector<Future<int>> all;
        for (int i = 0; i < 20; ++i)
            all.push_back(create<Counter>(i % runtime.size(), i).future(&Counter::value));
        EXPECT_EQ(
            when_all(std::move(all)).then([](std::vector<int> values) { return std::accumulate(values.begin(), values.end(), 0); }).get(),
            190);
        auto counter = create<Counter>(runtime.size() - 1, 3);
        auto [value, text] =
            when_all(counter.future(&Counter::value), counter.future(&Counter::join, std::vector<std::string>{"x", "y"}, "+")).get();
        EXPECT_EQ(value, 3);
        EXPECT_EQ(text, "x+y");
        EXPECT_THROW(when_all(counter.future(&Counter::value), counter.future(&Counter::fails)).get(), Error);
        EXPECT_THROW(counter.future(&Counter::fails).then([](int) { return 1; }).get(), Error);
    });
}

// Each sends a sequence to all others, and checks what comes from each.
class Talker {
  public:
    void begin(std::vector<Ref<Talker>> all, int count)
    {
        for (int i = 0; i < count; ++i)
            for (const auto &each : all)
                each.past(&Talker::hear, self<Talker>(), i, std::vector<int>(static_cast<std::size_t>(i % 7 == 0 ? 500 : i % 5), i));
    }
    void hear(Ref<Talker> from, int number, const std::vector<int> &numbers)
    {
        int &next = next_[{from.rank, from.number}];
        if (number != next || numbers.size() != static_cast<std::size_t>(number % 7 == 0 ? 500 : number % 5))
            ++wrong_;
        for (const int each : numbers)
            wrong_ += each != number;
        next = number + 1;
        ++heard_;
    }
    std::pair<int, int> heard() { return {heard_, wrong_}; }

  private:
    std::map<std::pair<int, std::uint64_t>, int> next_;
    int heard_ = 0, wrong_ = 0;
};
COMPOSITE_TYPE(Talker, (), begin, hear, heard)

TEST_P(Objects, KeepTheOrderOfMessages)
{
    const int count = 400 / static_cast<int>(pm::test::slowdown);
    // So little that senders are held now and then.
    Options narrow = options();
    narrow.window = 8 * 1024;
    Loop::run(ranks(), narrow, [&](Runtime &runtime) {
        if (runtime.rank() != 0)
            return;
        std::vector<Ref<Talker>> all;
        for (int i = 0; i < 10; ++i)
            all.push_back(create<Talker>(i % runtime.size()));
        std::vector<Future<void>> begun;
        for (const auto &each : all)
            begun.push_back(each.future(&Talker::begin, all, count));
        when_all(std::move(begun)).get();
        for (const auto &each : all) {
            // What the others sent before they answered has perhaps not come yet.
            std::pair<int, int> heard{0, 0};
            while (heard.first < count * 10)
                heard = each.now(&Talker::heard);
            EXPECT_EQ(heard, std::pair(count * 10, 0));
        }
    });
}

class Flooder {
  public:
    void flood(Ref<Counter> target, int count)
    {
        for (int i = 0; i < count; ++i)
            target.past(&Counter::add, 1);
    }
};
COMPOSITE_TYPE(Flooder, (), flood)

TEST_P(Objects, WaitWhenTooMuchIsOnTheWay)
{
    const int count = 200000 / static_cast<int>(pm::test::slowdown);
    Options narrow = options();
    narrow.window = 64 * 1024;
    Loop::run(ranks(), narrow, [&](Runtime &runtime) {
        if (runtime.rank() != 0)
            return;
        auto target = create<Counter>(runtime.size() - 1, 0);
        auto flooder = create<Flooder>(0);
        flooder.now(&Flooder::flood, target, count);
        int value = 0;
        while (value < count)
            value = target.now(&Counter::value);
        EXPECT_EQ(value, count);
    });
}

TEST_P(Objects, FinishWhenNobodyWaitsToSend)
{
    const int count = 50000 / static_cast<int>(pm::test::slowdown);
    Options narrow = options();
    narrow.window = 8 * 1024;
    Loop::run(ranks(), narrow, [&](Runtime &runtime) {
        Ref<Counter> target;
        if (runtime.rank() == 0) {
            target = create<Counter>(runtime.size() - 1, 0);
            create<Flooder>(0).past(&Flooder::flood, target, count);
        }
        runtime.finish();
        if (runtime.rank() == 0) {
            EXPECT_EQ(target.now(&Counter::value), count);
        }
    });
}

TEST_P(Objects, WaitWhenTooManyAreQueuedByName)
{
    run([](Runtime &runtime) {
        const AnyRef counter = create<Counter>(0, 0);
        for (int i = 0; i < 100000; ++i)
            counter.past("add", 1);
        EXPECT_LE(runtime.counts().queued, 65536 + 1);
        EXPECT_EQ(counter.now<int>("value"), 100000);
    });
}

void throw_a_number(Worker &, int, Reader &, Answer &) { throw 1; }
const std::uint32_t number_service = Runtime::add_service("throw a number", throw_a_number);

TEST_P(Objects, TellOfErrorsThatAreNoExceptions)
{
    run([](Runtime &runtime) {
        auto state = std::make_shared<AwaitedValue<void>>();
        runtime.ask(runtime.size() - 1, number_service, Writer(), state);
        EXPECT_THROW(Future<void>(state).get(), Error);
    });
}

TEST_P(Objects, MayChangeTheHandlerOfErrorsInIt)
{
    run([](Runtime &runtime) {
        std::atomic<int> first = 0, second = 0;
        runtime.on_error([&](const std::string &) {
            ++first;
            runtime.on_error([&](const std::string &) { ++second; });
        });
        auto counter = create<Counter>(runtime.size() - 1, 0);
        for (int i = 0; i < 2; ++i)
            counter.past(&Counter::fails);
        while (second == 0)
            Worker::current().yield();
        EXPECT_EQ(first, 1);
    });
}

TEST_P(Objects, FailToFinishWithoutRank0)
{
    Loop::run(std::max(ranks(), 2), options(), [](Runtime &runtime) {
        if (runtime.rank() == 0)
            throw Loop::Dies();
        EXPECT_THROW(runtime.finish(), Error);
    });
}

// The leak checker sees to it.
TEST_P(Objects, ForgetWhatASessionThatEndsEarlyHadNoTimeFor)
{
    Loop::run(std::max(ranks(), 2), options(), [](Runtime &runtime) {
        const int last = runtime.size() - 1;
        if (runtime.rank() != last)
            return;
        auto mine = create<Counter>(last, 0);
        mine.past(&Counter::join, std::vector<std::string>{"never", "joined"}, ", ");
        throw Loop::Dies();
    });
}

TEST_P(Objects, DoNotWaitForADeadRankToCatchUp)
{
    Options narrow = options();
    narrow.window = 8 * 1024;
    Loop::run(std::max(ranks(), 2), narrow, [](Runtime &runtime) {
        const int last = runtime.size() - 1;
        if (runtime.rank() == last) {
            Event("die").wait();
            throw Loop::Dies();
        }
        if (runtime.rank() == 0) {
            auto target = create<Counter>(last, 0);
            try {
                Event("die").set();
            } catch (const Error &) {
                // It may be dead before the answer is there.
            }
            EXPECT_THROW(
                while (true) target.past(&Counter::add, 1), Error);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(, Objects, testing::Combine(testing::Values(1, 2, 3), testing::Values(0u, 1u, 3u)), [](const auto &info) {
    return std::to_string(std::get<0>(info.param)) + "Ranks" + std::to_string(std::get<1>(info.param)) + "Workers";
});

}  // namespace
}  // namespace composite
