// The ring, one thread: what fits, what is given back when, and that no nonsense of a producer leads outside the memory.
// The promise between two threads is tested in ring_seeded_test.cc.
#include "shmmod/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/pattern.h"
#include "support/seeds.h"

namespace pm::shmem {
namespace {

struct Ring {
    std::unique_ptr<RingMemory<std::atomic>> memory = std::make_unique<RingMemory<std::atomic>>();
    std::vector<std::byte> bulk = std::vector<std::byte>(bulk_size);
    std::size_t reserved = 0;
    unsigned reserve_calls = 0;
    std::size_t reserve_limit = bulk_size;
    Producer<std::atomic> producer{memory.get(), bulk.data(), {reserve, this}};
    Consumer<std::atomic> consumer{memory.get(), bulk.data()};

    static bool reserve(void *context, std::size_t size)
    {
        auto self = static_cast<Ring *>(context);
        ++self->reserve_calls;
        if (size > self->reserve_limit)
            return false;
        self->reserved = size;
        return true;
    }

    bool push(std::size_t header_size, std::size_t payload_size, std::size_t *accepted)
    {
        header = test::pattern(1, header_size);
        payload = test::pattern(2, payload_size);
        Message message{5, header.data(), header_size, {payload.data(), payload_size, nullptr, nullptr}};
        *accepted = payload_size;
        bool small = header_size + payload_size <= small_capacity;
        return small ? producer.push_small(message) : producer.push_first(message, accepted);
    }

    // Pops what is there; the number of cells.
    unsigned drain()
    {
        unsigned count = 0;
        for (CellView view; consumer.peek(&view); ++count)
            consumer.pop(view.kind);
        return count;
    }

    std::vector<std::byte> header, payload;
};

TEST(Ring, AnEmptyRingHasNothing)
{
    Ring ring;
    CellView view;
    EXPECT_FALSE(ring.consumer.ready());
    EXPECT_FALSE(ring.consumer.peek(&view));
}

TEST(Ring, PeekShowsTheSameCellUntilItIsPopped)
{
    Ring ring;
    std::size_t accepted;
    ASSERT_TRUE(ring.push(10, 20, &accepted));
    CellView view;
    for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(ring.consumer.ready());
        ASSERT_TRUE(ring.consumer.peek(&view));
        EXPECT_EQ(view.header_size, 10u);
        EXPECT_EQ(view.piece_size, 20u);
    }
    ring.consumer.pop(view.kind);
    EXPECT_FALSE(ring.consumer.ready());
}

TEST(Ring, ACellHoldsUpToItsCapacityAndNoMore)
{
    Ring ring;
    auto bytes = test::pattern(1, small_capacity + 1);
    for (std::size_t header = 0; header <= small_capacity; ++header) {
        Message fits{0, bytes.data(), header, {bytes.data(), small_capacity - header, nullptr, nullptr}};
        EXPECT_TRUE(ring.producer.push_small(fits)) << header;
        Message too_long{0, bytes.data(), header, {bytes.data(), small_capacity - header + 1, nullptr, nullptr}};
        EXPECT_FALSE(ring.producer.push_small(too_long)) << header;
        EXPECT_EQ(ring.drain(), 1u);
    }
}

TEST(Ring, TakesAsManyCellsAsItHasAndMoreOnceTheyAreGivenBack)
{
    Ring ring;
    std::size_t accepted;
    for (std::uint32_t i = 0; i < cell_count; ++i)
        EXPECT_TRUE(ring.push(1, 1, &accepted)) << i;
    EXPECT_FALSE(ring.push(1, 1, &accepted));
    EXPECT_FALSE(ring.push(1, 1000, &accepted));
    EXPECT_EQ(ring.drain(), cell_count);
    EXPECT_TRUE(ring.push(1, 1, &accepted));
}

TEST(Ring, GivesSmallCellsBackInIntervalsAndPartsAtOnce)
{
    Ring ring;
    std::size_t accepted;
    CellView view;
    auto consumed = [&] { return ring.memory->control.consumed.load(std::memory_order_relaxed); };
    for (std::uint32_t i = 0; i < report_interval; ++i) {
        EXPECT_EQ(consumed(), 0u);
        ASSERT_TRUE(ring.push(1, 1, &accepted));
        ASSERT_TRUE(ring.consumer.peek(&view));
        ring.consumer.pop(view.kind);
    }
    EXPECT_EQ(consumed(), report_interval);
    ASSERT_TRUE(ring.push(1, 1000, &accepted));
    ASSERT_TRUE(ring.consumer.peek(&view));
    ring.consumer.pop(view.kind);
    EXPECT_EQ(consumed(), report_interval + 1);
}

TEST(Ring, AMessageOfAtMostAWholePieceIsOnePart)
{
    for (std::size_t header : {std::size_t{0}, inline_header_capacity, inline_header_capacity + 1, largest_header}) {
        Ring ring;
        std::size_t accepted = 0;
        for (std::size_t size : {small_capacity + 1, smallest_piece, smallest_piece + 1, whole_piece - 1, whole_piece}) {
            ASSERT_TRUE(ring.push(header, size, &accepted)) << header << " " << size;
            EXPECT_EQ(accepted, size);
            EXPECT_EQ(ring.drain(), 1u);
        }
        // Also when this is all the memory there is.
        Ring poor;
        poor.reserve_limit = first_limit;
        for (int i = 0; i < 8; ++i) {
            while (!poor.push(header, whole_piece, &accepted))
                ASSERT_GT(poor.drain(), 0u) << "a part does not fit an empty bulk area";
            EXPECT_EQ(accepted, whole_piece);
        }
    }
}

TEST(Ring, ALongMessageIsPartsOfLimitedSize)
{
    Ring ring;
    std::size_t size = 3 << 20, accepted = 0;
    ASSERT_TRUE(ring.push(largest_header, size, &accepted));
    std::size_t sent = accepted;
    EXPECT_GE(accepted, smallest_piece);
    EXPECT_LE(accepted, largest_piece);
    Payload payload{ring.payload.data(), size, nullptr, nullptr};
    for (unsigned parts = 1; sent < size; ++parts) {
        ASSERT_LE(parts, size / smallest_piece);
        ring.drain();
        ASSERT_TRUE(ring.producer.push_more(payload, sent, &accepted));
        EXPECT_LE(accepted, largest_piece);
        sent += accepted;
    }
    EXPECT_EQ(sent, size);
}

TEST(Ring, AQuietPairUsesTheBeginningOfTheBulkAreaOnly)
{
    Ring ring;
    std::size_t accepted;
    for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE(ring.push(largest_header, whole_piece, &accepted));
        CellView view;
        ASSERT_TRUE(ring.consumer.peek(&view));
        EXPECT_LE(view.piece + view.piece_size, ring.bulk.data() + first_limit);
        ring.consumer.pop(view.kind);
    }
    EXPECT_EQ(ring.reserved, first_limit);
    EXPECT_EQ(ring.reserve_calls, 1u);
}

TEST(Ring, AProducerThatOutrunsItsConsumerGetsTheWholeBulkAreaInSteps)
{
    Ring ring;
    std::size_t accepted;
    std::size_t bytes = 0;
    while (ring.push(0, whole_piece, &accepted))
        bytes += accepted;
    EXPECT_EQ(bytes, bulk_size);
    EXPECT_EQ(ring.reserved, bulk_size);
    EXPECT_LE(ring.reserve_calls, 8u);
    EXPECT_FALSE(ring.producer.starved());
}

TEST(Ring, ShortMessagesTakeFewPages)
{
    Ring ring;
    std::size_t accepted;
    for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE(ring.push(0, 1000, &accepted));
        EXPECT_EQ(ring.drain(), 1u);
    }
    EXPECT_EQ(ring.reserved, least_limit);
    ASSERT_TRUE(ring.push(0, whole_piece, &accepted));
    EXPECT_EQ(ring.reserved, whole_piece) << "what it needs, at once";
}

TEST(Ring, WhereMemoryMayBecomeShortTheFirstPagesDoForAllThatFollows)
{
    Ring ring;
    std::size_t accepted;
    ring.producer.take_at_least(first_limit);
    ring.reserve_limit = first_limit;
    ASSERT_TRUE(ring.push(0, 1000, &accepted));
    EXPECT_EQ(ring.drain(), 1u);
    EXPECT_EQ(ring.reserved, first_limit);
    EXPECT_TRUE(ring.push(0, whole_piece, &accepted)) << "there is no more";
}

TEST(Ring, AProducerThatIsPatientGrowsOnlyWhenItWasRefusedForAWhile)
{
    Ring ring;
    ring.producer.be_patient(true);
    std::size_t accepted, bytes = 0;
    while (ring.push(0, whole_piece, &accepted))
        bytes += accepted;
    EXPECT_EQ(bytes, first_limit);
    EXPECT_EQ(ring.reserved, first_limit);
    EXPECT_FALSE(ring.producer.starved()) << "there is memory, but not now";
    unsigned refusals = 1;
    while (!ring.push(0, whole_piece, &accepted))
        ASSERT_LT(++refusals, 2 * refusals_before_growth);
    EXPECT_EQ(ring.reserved, 2 * first_limit) << "also when nobody reads";
    while (ring.drain() > 0) {
    }
    for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE(ring.push(0, whole_piece, &accepted));
        EXPECT_EQ(ring.drain(), 1u);
    }
    EXPECT_EQ(ring.reserved, 2 * first_limit);
}

TEST(Ring, WithLittleMemoryWhatFitsWaitsAndWhatDoesNotIsStarved)
{
    Ring ring;
    std::size_t accepted;
    ring.reserve_limit = least_limit;
    while (ring.push(0, 1000, &accepted)) {
    }
    EXPECT_FALSE(ring.producer.starved()) << "there will be room";
    EXPECT_FALSE(ring.push(0, whole_piece, &accepted));
    EXPECT_TRUE(ring.producer.starved()) << "there will not";
    EXPECT_GT(ring.drain(), 0u);
    EXPECT_TRUE(ring.push(0, 1000, &accepted));
    ring.reserve_limit = bulk_size;
    EXPECT_TRUE(ring.push(0, whole_piece, &accepted)) << "asked for again";
    EXPECT_FALSE(ring.producer.starved());
}

TEST(Ring, IsStarvedOnlyWhenThereIsNoBulkMemoryAtAll)
{
    Ring ring;
    std::size_t accepted;
    ring.reserve_limit = 0;
    EXPECT_FALSE(ring.push(0, 1000, &accepted));
    EXPECT_TRUE(ring.producer.starved());
    EXPECT_TRUE(ring.push(1, 1, &accepted)) << "small messages need none";
    EXPECT_FALSE(ring.push(0, 1000, &accepted));
    EXPECT_EQ(ring.drain(), 1u) << "a refused message leaves nothing in the ring";
    ring.reserve_limit = first_limit;
    EXPECT_TRUE(ring.push(0, 1000, &accepted));
    EXPECT_FALSE(ring.producer.starved());
}

TEST(Ring, KnowsWhetherTheConsumerCanReadTheProducer)
{
    Ring ring;
    EXPECT_FALSE(ring.producer.pull_works()) << "nobody has tried yet";
    ring.consumer.report_pull_works(false);
    EXPECT_FALSE(ring.producer.pull_works());
    ring.consumer.report_pull_works(true);
    EXPECT_TRUE(ring.producer.pull_works());
}

// A producer may die in the middle of a write, or be another program: views never leave the cell or the bulk area.
TEST(Ring, NonsenseOfAProducerStaysInsideTheMemory)
{
    test::for_each_seed(20'000, [](std::uint64_t seed) -> std::string {
        static Ring ring;
        test::Random random(seed);
        Cell<std::atomic> &cell = ring.memory->cells[0];
        // Sometimes all of it is random, sometimes only the sizes.
        std::uint64_t word = random.next() << 32 | 1;
        auto number = [&] { return static_cast<std::uint32_t>(random.next()); };
        if (random.one_in(2))
            word = detail::make_word(0, static_cast<CellKind>(random.between(1, 3)), 0, static_cast<std::uint16_t>(number()));
        PartDescription part{random.next(), number(), number()};
        if (random.one_in(2))
            part.offset = static_cast<std::uint32_t>(bulk_size - random.below(largest_header + 1));
        std::memcpy(cell.bytes, &part, sizeof part);
        cell.word.store(word, std::memory_order_release);

        CellView view{};
        if (!ring.consumer.peek(&view))
            return "a cell with the right position was not seen";
        auto inside = [](const std::byte *start, std::size_t size, const std::byte *memory, std::size_t memory_size) {
            return start >= memory && size <= memory_size && start + size <= memory + memory_size;
        };
        auto anywhere = [&](const std::byte *start, std::size_t size) {
            return inside(start, size, cell.bytes, sizeof cell.bytes) || inside(start, size, ring.bulk.data(), bulk_size);
        };
        if (!anywhere(view.header, view.header_size))
            return "the header leaves the memory";
        if (!anywhere(view.piece, view.piece_size))
            return "the payload leaves the memory";
        return "";
    });
}

TEST(Ring, IsFinishedWhenItIsClosedAndEverythingWasRead)
{
    Ring ring;
    std::size_t accepted;
    EXPECT_FALSE(ring.consumer.finished());
    EXPECT_TRUE(ring.push(8, 8, &accepted));
    EXPECT_TRUE(ring.push(8, 1000, &accepted));
    EXPECT_EQ(ring.drain(), 2u);
    EXPECT_FALSE(ring.consumer.finished()) << "it is only empty";
    EXPECT_TRUE(ring.push(8, 8, &accepted));
    ring.producer.close();
    EXPECT_FALSE(ring.consumer.finished()) << "something is left";
    EXPECT_EQ(ring.drain(), 1u);
    EXPECT_TRUE(ring.consumer.finished());
}

TEST(Ring, ACellOfAnEarlierLapIsNotNew)
{
    Ring ring;
    std::size_t accepted;
    for (std::uint32_t lap = 0; lap < 5; ++lap)
        for (std::uint32_t i = 0; i < cell_count; ++i) {
            EXPECT_FALSE(ring.consumer.ready());
            ASSERT_TRUE(ring.push(3, 3, &accepted));
            EXPECT_EQ(ring.drain(), 1u);
        }
}

}  // namespace
}  // namespace pm::shmem
