// What src/objects stands on. Promises: a context goes on where it was left; bytes decode to what was encoded and to nothing else; a heap
// gives out memory that overlaps nothing; a method runs when its condition holds, or when all its messages have come; a trap waits.
#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "objects/context.hh"
#include "objects/event.hh"
#include "objects/ref.hh"
#include "support/loop_network.h"
#include "support/sanitizers.h"

namespace composite {
namespace {

using test::Loop;

struct Pair {
    Context main;
    std::unique_ptr<Context> other;
    std::vector<int> seen;
};

TEST(ObjectsContext, GoesOnWhereItWasLeft)
{
    Pair pair;
    pair.other = std::make_unique<Context>(
        64 * 1024,
        [](void *argument) {
            auto &pair = *static_cast<Pair *>(argument);
            for (int i = 0;; ++i) {
                pair.seen.push_back(i);
                pair.other->switch_to(pair.main);
            }
        },
        &pair);
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(pair.seen.size(), static_cast<std::size_t>(i));
        pair.main.switch_to(*pair.other);
    }
    EXPECT_EQ(pair.seen, (std::vector{0, 1, 2, 3, 4}));
}

TEST(ObjectsContext, KeepsTheExceptionsThatItHandles)
{
    Pair pair;
    pair.other = std::make_unique<Context>(
        64 * 1024,
        [](void *argument) {
            auto &pair = *static_cast<Pair *>(argument);
            try {
                throw 1;
            } catch (int) {
                pair.other->switch_to(pair.main);
                try {
                    throw;
                } catch (int value) {
                    pair.seen.push_back(value);
                }
            }
            while (true)
                pair.other->switch_to(pair.main);
        },
        &pair);
    try {
        throw 2;
    } catch (int) {
        pair.main.switch_to(*pair.other);
        try {
            throw;
        } catch (int value) {
            pair.seen.push_back(value);
        }
        pair.main.switch_to(*pair.other);
    }
    EXPECT_EQ(pair.seen, (std::vector{2, 1}));
    EXPECT_EQ(std::uncaught_exceptions(), 0);
}

template <class T>
T round_trip(const T &value)
{
    Writer writer;
    Codec<T>::write(writer, value);
    std::vector<std::byte> bulk(writer.bulk_bytes());
    writer.copy_bulk(bulk.data());
    Reader reader(writer.inlined(), bulk);
    T back = Codec<T>::read(reader);
    reader.finished();
    return back;
}

TEST(ObjectsCodec, DecodesWhatWasEncoded)
{
    EXPECT_EQ(round_trip(42), 42);
    EXPECT_EQ(round_trip(std::string("text")), "text");
    EXPECT_EQ(round_trip(std::string(100000, 'x')), std::string(100000, 'x'));
    EXPECT_EQ(round_trip(std::vector<std::string>{"", "a", std::string(2000, 'b'), std::string(1500, 'c')}),
              (std::vector<std::string>{"", "a", std::string(2000, 'b'), std::string(1500, 'c')}));
    EXPECT_EQ(round_trip(std::tuple(1, 2.5, std::string("x"), std::vector<char>(1025, 'y'))),
              std::tuple(1, 2.5, std::string("x"), std::vector<char>(1025, 'y')));
    EXPECT_EQ(round_trip(std::pair(std::optional<std::string>("z"), std::optional<int>())),
              std::pair(std::optional<std::string>("z"), std::optional<int>()));
    for (std::size_t size = 0; size < 3000; size += 7)
        EXPECT_EQ(round_trip(std::vector<double>(size, 1.5)), std::vector<double>(size, 1.5));
}

// Whatever comes: an Error or some value, nothing else. The address sanitizer watches.
TEST(ObjectsCodec, KeepsWhatIsMadeForTheMessage)
{
    using Long = std::optional<std::string>;
    Writer writer;
    encode<Long>(writer, std::string(3000, 'a'));
    encode<const Long &>(writer, std::string(2000, 'b'));
    std::vector<std::byte> bulk(writer.bulk_bytes());
    writer.copy_bulk(bulk.data());
    Reader reader(writer.inlined(), bulk);
    EXPECT_EQ(Codec<Long>::read(reader), std::string(3000, 'a'));
    EXPECT_EQ(Codec<Long>::read(reader), std::string(2000, 'b'));
    reader.finished();
}

TEST(ObjectsCodec, ReadsNothingBeyondWhatCame)
{
    std::mt19937 random(1);
    int errors = 0;
    for (int i = 0; i < 20000; ++i) {
        std::vector<std::byte> inlined(random() % 64), bulk(random() % 8 == 0 ? random() % 4096 : 0);
        for (auto *bytes : {&inlined, &bulk})
            for (auto &each : *bytes)
                each = static_cast<std::byte>(random() % 4 == 0 ? random() : 0);
        Reader reader(inlined, bulk);
        try {
            (void)Codec<std::tuple<std::vector<std::string>, std::vector<int>, Buffer, std::string, std::optional<std::string>>>::read(
                reader);
            reader.finished();
        } catch (const Error &) {
            ++errors;
        }
    }
    EXPECT_GT(errors, 10000);
}

TEST(ObjectsHeap, GivesOutMemoryThatOverlapsNothing)
{
    std::mt19937 random(2);
    Heap heap;
    struct Piece {
        unsigned char *at;
        std::size_t size, alignment;
        unsigned char mark;
    };
    std::vector<Piece> pieces;
    for (int i = 0; i < 20000; ++i) {
        if (pieces.empty() || random() % 5 < 3) {
            const std::size_t alignment = std::size_t{1} << random() % 8;
            const std::size_t size = random() % 50 == 0 ? random() % 100000 : random() % 1100;
            Piece piece{static_cast<unsigned char *>(heap.allocate(size, alignment)), size, alignment, static_cast<unsigned char>(i)};
            ASSERT_EQ(reinterpret_cast<std::uintptr_t>(piece.at) % alignment, 0u);
            std::memset(piece.at, piece.mark, size);
            pieces.push_back(piece);
        } else {
            std::swap(pieces[random() % pieces.size()], pieces.back());
            const Piece piece = pieces.back();
            pieces.pop_back();
            for (std::size_t j = 0; j < piece.size; ++j)
                ASSERT_EQ(piece.at[j], piece.mark);
            heap.deallocate(piece.at, piece.size, piece.alignment);
        }
    }
}

class Store {
  public:
    void put(int value) { values_.push_back(value); }
    int take()
    {
        const int value = values_.front();
        values_.pop_front();
        return value;
    }
    bool filled() const { return !values_.empty(); }
    bool has_room() const { return values_.size() < 3; }
    std::size_t size() const { return values_.size(); }

  private:
    std::pmr::list<int> values_{heap()};
};
COMPOSITE_TYPE(Store, (), put, take, size)
COMPOSITE_WHEN(Store, take, filled)
COMPOSITE_WHEN(Store, put, has_room)

TEST(ObjectsConditions, LetMessagesWait)
{
    Loop::run(2, {}, [](Runtime &runtime) {
        if (runtime.rank() != 0)
            return;
        for (int rank = 0; rank < 2; ++rank) {
            auto store = create<Store>(rank);
            std::vector<Future<int>> taken;
            for (int i = 0; i < 5; ++i)
                taken.push_back(store.future(&Store::take));
            EXPECT_EQ(store.now(&Store::size), 0u);
            for (int i = 0; i < 20; ++i)
                store.past(&Store::put, i);
            for (int i = 0; i < 5; ++i)
                EXPECT_EQ(taken[static_cast<std::size_t>(i)].get(), i);
            EXPECT_EQ(store.now(&Store::size), 3u);
            for (int i = 5; i < 20; ++i)
                EXPECT_EQ(store.now(&Store::take), i);
        }
    });
}

TEST(ObjectsConditions, FailWithTheObject)
{
    Loop::run(2, {}, [](Runtime &runtime) {
        if (runtime.rank() != 0)
            return;
        for (int rank = 0; rank < 2; ++rank) {
            auto store = create<Store>(rank);
            auto never = store.future(&Store::take);
            store.destroy();
            EXPECT_THROW(never.get(), Error);
        }
    });
}

class Joiner {
  public:
    void join(int number, std::string text, double factor)
    {
        seen_.push_back(std::to_string(number) + text + std::to_string(static_cast<int>(factor)));
    }
    std::vector<std::string> seen() { return seen_; }

  private:
    std::vector<std::string> seen_;
};
COMPOSITE_TYPE(Joiner, (), join, seen)

TEST(ObjectsParts, BeginAMethodWhenAllHaveCome)
{
    Loop::run(2, {}, [](Runtime &runtime) {
        if (runtime.rank() != 0)
            return;
        for (int rank = 0; rank < 2; ++rank) {
            auto joiner = create<Joiner>(rank);
            joiner.part<2>(&Joiner::join, 2.0);
            joiner.part<0>(&Joiner::join, 1);
            joiner.part<0>(&Joiner::join, 10);
            EXPECT_TRUE(joiner.now(&Joiner::seen).empty());
            joiner.part<1>(&Joiner::join, "a");
            EXPECT_EQ(joiner.now(&Joiner::seen), std::vector<std::string>{"1a2"});
            joiner.part<1>(&Joiner::join, std::string("b"));
            joiner.part<2>(&Joiner::join, 3);
            EXPECT_EQ(joiner.now(&Joiner::seen), (std::vector<std::string>{"1a2", "10b3"}));
        }
    });
}

TEST(ObjectsEvents, WakeAllWhoWait)
{
    for (const unsigned workers : {0u, 2u})
        Loop::run(3, {.workers = workers}, [](Runtime &runtime) {
            for (const char *name : {"first", "second", "third", "fourth"}) {
                const Event event(name), answer(std::string(name) + std::to_string(runtime.rank()));
                auto two = event.waiting();
                if (runtime.rank() == 1) {
                    EXPECT_FALSE(event.is_set());
                    event.set();
                    EXPECT_TRUE(event.is_set());
                }
                event.wait();
                two.get();
                answer.set();
                for (int rank = 0; rank < 3; ++rank)
                    Event(std::string(name) + std::to_string(rank)).wait();
                if (runtime.rank() == 2) {
                    event.reset();
                    EXPECT_FALSE(event.is_set());
                }
            }
        });
}

struct Large {
    std::array<int, 5000> values;
};
class Slow {
  public:
    Large large(int value)
    {
        Large large;
        large.values.fill(value);
        return large;
    }
    std::string text() { return std::string(1000, 't'); }
    int fails() { throw std::runtime_error("no value"); }
    // Touches values of others before they are there.
    int touch(Ref<Slow> other)
    {
        auto large = other.trap(&Slow::large, 3);
        auto text = other.trap(&Slow::text);
        volatile double start = 1.5;
        const double before = start;
        const int sum = large->values[4999] + large->values[0] + static_cast<int>(text->size());
        return sum + (before == 1.5 ? 0 : 1000000);
    }
    int again() { return 5; }
};
COMPOSITE_TYPE(Slow, (), large, text, fails, touch, again)

#ifndef PM_TEST_TSAN  // It does not allow to leave a signal handler alone.
TEST(ObjectsTrap, WaitsWhereItIsTouched)
{
    for (const unsigned workers : {0u, 2u})
        Loop::run(2, {.workers = workers}, [](Runtime &runtime) {
            if (runtime.rank() != 0)
                return;
            for (int rank = 0; rank < 2; ++rank) {
                auto asking = create<Slow>(0), other = create<Slow>(rank);
                std::vector<Future<int>> all;
                for (int i = 0; i < 20; ++i)
                    all.push_back(asking.future(&Slow::touch, other));
                for (auto &each : all)
                    EXPECT_EQ(each.get(), 1006);
                // Outside of methods as well.
                auto trap = other.trap(&Slow::large, 7);
                EXPECT_EQ(trap->values[123], 7);
                auto there = other.trap(&Slow::again);
                EXPECT_EQ(other.now(&Slow::again), 5);
                EXPECT_EQ(*there, 5);
                auto wrong = other.trap(&Slow::fails);
                EXPECT_THROW(wrong.wait(), Error);
                { auto unused = other.trap(&Slow::text); }
            }
        });
}

TEST(ObjectsTrapDeath, LeavesOtherFaultsToOthers)
{
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    int *volatile nowhere = nullptr;
    EXPECT_DEATH(Loop::run(1, {}, [&](Runtime &) { *nowhere = 1; }), "");
    auto touch = [](Runtime &) {
        auto trap = create<Slow>(0).trap(&Slow::fails);
        [[maybe_unused]] volatile int value = *trap;
    };
    EXPECT_DEATH(Loop::run(1, {}, touch), "no value");
}
#endif

class Owner {
  public:
    using AllInHeap = void;
    Owner()
    {
        for (int i = 0; i < 1000; ++i)
            list_.push_back(i);
    }
    std::size_t size() { return list_.size(); }

  private:
    std::pmr::list<int> list_{heap()};
};
COMPOSITE_TYPE(Owner, (), size)

// The leak checker of the address sanitizer looks whether all of it goes.
TEST(ObjectsHeap, GoesWithItsObject)
{
    Loop::run(1, {}, [](Runtime &runtime) {
        for (int i = 0; i < 100; ++i) {
            auto owner = create<Owner>(0);
            EXPECT_EQ(owner.now(&Owner::size), 1000u);
            owner.destroy();
        }
        create<Owner>(0).now(&Owner::size);
        EXPECT_EQ(runtime.counts().objects, 1);
    });
}

}  // namespace
}  // namespace composite
