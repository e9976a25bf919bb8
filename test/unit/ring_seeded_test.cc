// The ring under the seeded scheduler. Promise: every message that push accepted is seen by the consumer exactly once, in
// order, with all its bytes, whatever the interleaving and whatever a weakly ordered machine may do.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "pm/device.h"
#include "shmmod/ring.h"
#include "support/pattern.h"
#include "support/seeded_atomic.h"
#include "support/seeds.h"

namespace pm::shmem {
namespace {

using test::Random;
using test::Schedule;
using test::SeededAtomic;

struct Shape {
    std::size_t header_size;
    std::size_t payload_size;
    bool packed = false;

    bool small() const { return header_size + payload_size <= small_capacity; }
};

// What a run sends, through which ring.
struct Plan {
    std::vector<Shape> messages = {};
    std::uint32_t start = 0;                   // position of the first cell
    std::size_t memory_for_bulk = bulk_size;   // beyond it the reserve is exhausted
    unsigned refusals = 0;                     // first calls of the reserve that are refused although there is memory
};

class RingRun {
  public:
    RingRun(std::uint64_t seed, const Plan &plan)
        : seed_(seed), plan_(plan), schedule_(seed), memory_(std::make_unique<RingMemory<SeededAtomic>>()),
          bulk_(new (std::align_val_t{line_pair}) std::byte[bulk_size])
    {
        memory_->control.consumed.set(plan.start);
        for (auto &cell : memory_->cells) {
            std::memset(cell.bytes, 0, sizeof cell.bytes);
            schedule_.watch(cell.bytes, sizeof cell.bytes, producer_thread);
        }
        refusals_left_ = plan.refusals;
    }

    std::string run()
    {
        schedule_.spawn([this] { produce(); });
        schedule_.spawn([this] { consume(); });
        std::string trouble = schedule_.run();
        if (!trouble.empty())
            return trouble + " (message " + std::to_string(received_) + " of " + std::to_string(plan_.messages.size()) + ")";
        return "";
    }

  private:
    static constexpr std::size_t producer_thread = 0;

    std::uint64_t key(std::size_t message, bool header) const { return test::mix(seed_) ^ (message * 2 + header); }
    static std::uint8_t tag(std::size_t message) { return static_cast<std::uint8_t>(message * 7 + 1); }

    static bool reserve(void *context, std::size_t size)
    {
        auto self = static_cast<RingRun *>(context);
        if (self->refusals_left_ > 0) {
            --self->refusals_left_;
            return false;
        }
        if (size > self->plan_.memory_for_bulk)
            return false;
        // What nobody may rely on: memory that is reserved is zero.
        test::fill_pattern(self->seed_, self->reserved_, self->bulk_.get() + self->reserved_, size - self->reserved_);
        self->reserved_ = size;
        self->schedule_.watch(self->bulk_.get(), size, producer_thread);
        return true;
    }

    struct Packing {
        std::uint64_t key;
        std::size_t next = 0;
        bool in_order = true;
    };
    static void pack(void *context, std::size_t offset, void *destination, std::size_t size)
    {
        auto packing = static_cast<Packing *>(context);
        packing->in_order &= offset == packing->next;
        packing->next = offset + size;
        test::fill_pattern(packing->key, offset, destination, size);
    }

    void produce()
    {
        Producer<SeededAtomic> producer(memory_.get(), bulk_.get(), BulkReserve{reserve, this}, plan_.start);
        for (std::size_t i = 0; i < plan_.messages.size(); ++i) {
            const Shape &shape = plan_.messages[i];
            test::fill_pattern(key(i, true), 0, header_, shape.header_size);
            Packing packing{key(i, false)};
            Message message{tag(i), header_, shape.header_size, {}};
            message.payload.size = shape.payload_size;
            if (shape.packed) {
                message.payload.pack = pack;
                message.payload.pack_context = &packing;
            } else {
                payload_.resize(shape.payload_size);
                test::fill_pattern(packing.key, 0, payload_.data(), shape.payload_size);
                message.payload.data = payload_.data();
            }
            send(producer, message);
            if (shape.packed)
                schedule_.require(packing.in_order && packing.next == shape.payload_size,
                                  "a payload was not packed once and in order");
        }
    }

    // What is short as a whole, the rest by parts, until the message is gone.
    void send(Producer<SeededAtomic> &producer, const Message &message)
    {
        SendProgress progress;
        while (true) {
            if (message.header_size + message.payload.size <= small_capacity) {
                if (producer.push_small(message))
                    return;
            } else {
                const std::size_t before = progress.sent;
                if (producer.push_part(message, &progress)) {
                    schedule_.require(progress.sent > before || message.payload.size == 0, "a part without progress was pushed");
                    // The header is the device's own from now on.
                    std::memset(header_, 0, message.header_size);
                    if (progress.sent == message.payload.size)
                        return;
                }
            }
            schedule_.pause();
        }
    }

    void consume()
    {
        Consumer<SeededAtomic> consumer(memory_.get(), bulk_.get(), plan_.start);
        std::uint32_t position = plan_.start;
        CellView view;
        while (received_ < plan_.messages.size()) {
            std::size_t left = 0;
            do {
                while ((schedule_.random().one_in(2) && !consumer.ready()) || !consumer.peek(&view))
                    schedule_.pause();
                left = check(view, position, left);
                ++position;
                consumer.pop(view.kind);
            } while (left > 0);
            ++received_;
        }
        schedule_.require(!consumer.peek(&view), "a message nobody sent");
    }

    // Answers how much of the message is still to come; `left` is 0 at its beginning.
    std::size_t check(const CellView &view, std::uint32_t position, std::size_t left)
    {
        const Shape &shape = plan_.messages[received_];
        const auto &cell = memory_->cells[position % cell_count];
        if (left > 0) {
            schedule_.require(view.kind == CellKind::more, "a message begins inside another");
        } else {
            left = shape.payload_size;
            schedule_.require(view.kind == (shape.small() ? CellKind::small : CellKind::first), "a cell of the wrong kind");
            schedule_.require(view.tag == tag(received_), "a wrong tag");
            schedule_.require(view.header_size == shape.header_size, "a wrong header size");
            schedule_.require(view.total == shape.payload_size, "a wrong size");
        }
        schedule_.require(view.piece_size <= left, "more payload than there is");
        if (view.kind != CellKind::small)
            schedule_.read(cell.bytes, sizeof(PartDescription));
        if (view.kind != CellKind::more)
            check_bytes(key(received_, true), 0, view.header, view.header_size, "header");
        check_bytes(key(received_, false), shape.payload_size - left, view.piece, view.piece_size, "payload");
        return left - view.piece_size;
    }

    // In two halves, between which the producer may run.
    void check_bytes(std::uint64_t key, std::size_t offset, const std::byte *bytes, std::size_t size, const char *what)
    {
        for (std::size_t done = 0, part = (size + 1) / 2; done < size; done += part, part = size - done) {
            schedule_.read(bytes + done, part);
            schedule_.step();
            std::size_t place = test::first_difference(key, offset + done, bytes + done, part);
            if (place != test::no_difference)
                schedule_.stop("byte " + std::to_string(place) + " of the " + what + " is wrong");
        }
    }

    struct AlignedDelete {
        void operator()(std::byte *bytes) const { ::operator delete[](bytes, std::align_val_t{line_pair}); }
    };

    std::uint64_t seed_;
    const Plan &plan_;
    Schedule schedule_;
    std::unique_ptr<RingMemory<SeededAtomic>> memory_;
    std::unique_ptr<std::byte[], AlignedDelete> bulk_;
    std::size_t reserved_ = 0;
    unsigned refusals_left_ = 0;
    std::byte header_[largest_header];
    std::vector<std::byte> payload_;
    std::size_t received_ = 0;
};

// Positions are 32 bits wide: most runs begin less than two laps before wraparound. (Not less than one: cell 63 of fresh memory
// looks like position 2^32 - 1, which it never meets in real life.)
std::uint32_t seeded_start(Random &random)
{
    if (random.one_in(4))
        return 0;
    return static_cast<std::uint32_t>(0u - cell_count - random.between(1, cell_count));
}

Shape small_shape(Random &random)
{
    std::size_t header = random.below(small_capacity + 1);
    return {header, random.below(small_capacity + 1 - header), random.one_in(4)};
}

Shape shape_up_to(Random &random, std::size_t largest_payload)
{
    if (random.one_in(3))
        return small_shape(random);
    // Edges are likelier than what lies between them.
    constexpr std::size_t headers[] = {0,   1,   inline_header_capacity - 1, inline_header_capacity, inline_header_capacity + 1,
                                       119, 120, 121,                        1000,                   largest_header};
    constexpr std::size_t payloads[] = {0, 1, 120, 121, 4096,
                                        smallest_piece - 1, smallest_piece, whole_piece, whole_piece + 1,
                                        largest_piece, largest_piece + 1};
    std::size_t header = random.one_in(2) ? headers[random.below(std::size(headers))] : random.below(largest_header + 1);
    std::size_t payload = random.one_in(2) ? payloads[random.below(std::size(payloads))] : random.below(largest_payload + 1);
    return {header, std::min(payload, largest_payload), random.one_in(4)};
}

TEST(RingSeeded, KeepsSmallMessagesWhenTheRingFillsAndRunsDry)
{
    test::for_each_seed(2000, [](std::uint64_t seed) {
        Random random(~seed);
        Plan plan{.start = seeded_start(random)};
        for (std::size_t i = random.between(1, 5 * cell_count); i > 0; --i)
            plan.messages.push_back(small_shape(random));
        return RingRun(seed, plan).run();
    });
}

TEST(RingSeeded, KeepsMessagesOfAllKindsAndSizes)
{
    test::for_each_seed(2000, [](std::uint64_t seed) {
        Random random(~seed);
        Plan plan{.start = seeded_start(random)};
        for (std::size_t i = random.between(1, 100); i > 0; --i)
            plan.messages.push_back(shape_up_to(random, 20'000));
        return RingRun(seed, plan).run();
    });
}

TEST(RingSeeded, KeepsLongMessagesThatGoRoundTheBulkArea)
{
    test::for_each_seed(250, [](std::uint64_t seed) {
        Random random(~seed);
        Plan plan{.start = seeded_start(random)};
        for (std::size_t i = random.between(1, 8); i > 0; --i)
            plan.messages.push_back(shape_up_to(random, 3 * bulk_size));
        return RingRun(seed, plan).run();
    });
}

TEST(RingSeeded, GoesOnWithTheBulkMemoryItHasWhenThereIsNoMore)
{
    test::for_each_seed(1000, [](std::uint64_t seed) {
        Random random(~seed);
        Plan plan{.start = seeded_start(random), .memory_for_bulk = first_limit << random.below(3)};
        for (std::size_t i = random.between(1, 20); i > 0; --i)
            plan.messages.push_back(shape_up_to(random, 8 * largest_piece));
        return RingRun(seed, plan).run();
    });
}

// Somebody else frees memory later: what was refused once works when it is tried again.
TEST(RingSeeded, GoesOnWhenMemoryThatWasRefusedComesLater)
{
    test::for_each_seed(1000, [](std::uint64_t seed) {
        Random random(~seed);
        Plan plan{.start = seeded_start(random), .refusals = static_cast<unsigned>(random.between(1, 3))};
        for (std::size_t i = random.between(1, 20); i > 0; --i)
            plan.messages.push_back(shape_up_to(random, 60'000));
        return RingRun(seed, plan).run();
    });
}

}  // namespace
}  // namespace pm::shmem
