// One direction of one pair: a ring of cells in shared memory, one producer, one consumer, no lock.
//
// Promise: every message that push accepted is seen by the consumer exactly once, in order, with all its bytes.
// Layout: 64 cells of 128 bytes and a bulk area. The first word of a cell is the only place both sides meet:
// its low 32 bits are the cell's position + 1, so a cell of an earlier lap never looks new, whatever bytes it held.
// A message that fits one cell (header and payload after the word) costs one or two cache lines. Otherwise the cell
// describes a part that lies in the bulk area; a long message is several parts in consecutive cells, first then more.
// The producer owns the bulk area: it knows which part belongs to which cell and reuses it when the cell is consumed.
// When nothing is outstanding it starts again at the beginning, so that a quiet pair touches few pages.
//
// The atomic type is a parameter so that tests run this very code under a seeded scheduler.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/fence.h"
#include "pm/device.h"
#include "pm/message.h"

namespace pm::shmem {

inline constexpr std::uint32_t cell_count = 64;
inline constexpr std::size_t cell_size = 128;
inline constexpr std::size_t bulk_size = 256 * 1024;
inline constexpr std::size_t whole_piece = 16 * 1024;  // a message of at most this size is one part
inline constexpr std::size_t smallest_piece = 8 * 1024;  // of a longer one
inline constexpr std::size_t largest_piece = 16 * 1024;
inline constexpr std::size_t largest_header = 4 * 1024;
// Of the bulk area: what it begins with; what it grows to at once, which holds the longest header with the longest whole piece; and how often a producer
// that is patient is refused before it grows beyond that. bench/run --only cold
inline constexpr std::size_t least_limit = 4 * 1024;
inline constexpr std::size_t first_limit = 32 * 1024;
inline constexpr std::uint32_t refusals_before_growth = 1024;
inline constexpr std::uint32_t cells_ahead = 8;  // of the one that is written, which the producer fetches from the consumer's cache
inline constexpr std::uint32_t report_interval = 16;  // cells consumed between two reports to the producer
inline constexpr std::size_t line_pair = 128;         // keeps two writers off one cache line and its neighbour

// Of a slot, as its producer says. Nothing is written to it after it was closed.
enum : std::uint32_t { ring_open = 1, ring_closed = 2 };

enum class CellKind : std::uint8_t { small = 1, first = 2, more = 3 };

template <template <class> class Atomic>
struct RingControl {
    alignas(line_pair) Atomic<std::uint32_t> consumed;  // written by the consumer
    Atomic<std::uint32_t> pull_works;                   // written by the consumer: 1 it can read the producer's memory
    alignas(line_pair / 2) Atomic<std::uint32_t> attended;  // written by the consumer, seldom: see Producer::is_attended
    alignas(line_pair) Atomic<std::uint32_t> open;      // written by the producer, not 0 when the rest of this line is valid
    std::int32_t producer_process;
    std::uint32_t producer_is_fenced;                   // not 0: by heavy fences of others
    std::uint64_t producer_started;                     // see base/process.h
    std::uint64_t producer_probe_address;               // of producer_probe_value in the producer's memory
    std::uint64_t producer_probe_value;                 // who it is, too: no two channels have the same
    std::uint64_t bulk_memory;                          // of the bulk area that has memory; of a slot that is kept, by the consumer
};

// Who it is that sends.
struct ProducerName {
    std::int32_t process;
    std::uint32_t is_fenced;
    std::uint64_t started, probe_address, probe_value;
};

// [O2] the producer's name is valid; pairs with [O1] in Producer::open.
template <template <class> class Atomic>
bool is_open(const RingControl<Atomic> &control)
{
    return control.open.load(std::memory_order_acquire) != 0;
}

template <template <class> class Atomic>
void report_pull_works(RingControl<Atomic> *control, bool works)
{
    control->pull_works.store(works ? 1 : 2, std::memory_order_relaxed);
}

template <template <class> class Atomic>
struct Cell {
    alignas(line_pair) Atomic<std::uint64_t> word;
    std::byte bytes[cell_size - sizeof(std::uint64_t)];
};

// What the cell of a bulk part holds after its word.
struct PartDescription {
    std::uint64_t total;   // payload of the whole message
    std::uint32_t offset;  // in the bulk area
    std::uint32_t size;    // of this part's payload
};

inline constexpr std::size_t small_capacity = cell_size - sizeof(std::uint64_t);
inline constexpr std::size_t inline_header_capacity = small_capacity - sizeof(PartDescription);

template <template <class> class Atomic>
struct RingMemory {
    RingControl<Atomic> control;
    Cell<Atomic> cells[cell_count];
};

static_assert(sizeof(Cell<std::atomic>) == cell_size && offsetof(Cell<std::atomic>, bytes) == 8);
static_assert(sizeof(RingMemory<std::atomic>) == 2 * line_pair + cell_count * cell_size);

namespace detail {
// position + 1 | kind << 32 | tag << 40 | a << 48 (small: header size << 8 | payload size; first: header size)
constexpr std::uint64_t make_word(std::uint32_t position, CellKind kind, std::uint8_t tag, std::uint16_t a)
{
    return static_cast<std::uint32_t>(position + 1) | static_cast<std::uint64_t>(kind) << 32 |
           static_cast<std::uint64_t>(tag) << 40 | static_cast<std::uint64_t>(a) << 48;
}
constexpr std::size_t round_up(std::size_t size, std::size_t to)
{
    return (size + to - 1) / to * to;
}
}  // namespace detail

// Makes sure that the first `size` bytes of the bulk area have memory behind them; false when there is none to be had.
struct BulkReserve {
    bool (*function)(void *context, std::size_t size) = nullptr;
    void *context = nullptr;
};

template <template <class> class Atomic>
class Producer {
  public:
    Producer() = default;
    // `start`: position of the first cell, the same on both sides; tests begin near wraparound.
    Producer(RingMemory<Atomic> *memory, std::byte *bulk, BulkReserve reserve, std::uint32_t start = 0)
        : memory_(memory), bulk_(bulk), reserve_(reserve), next_(start), consumed_(start)
    {
    }

    // The first call: who it is that pushes.
    void open(const ProducerName &name)
    {
        RingControl<Atomic> &control = memory_->control;
        control.producer_process = name.process;
        control.producer_is_fenced = name.is_fenced;
        control.producer_started = name.started;
        control.producer_probe_address = name.probe_address;
        control.producer_probe_value = name.probe_value;
        // [O1] publishes the name; pairs with [O2] in is_open.
        control.open.store(ring_open, std::memory_order_release);
    }

    // Header and payload in one cell. False: no cell free, or it does not fit.
    bool push_small(const Message &message)
    {
        if (message.header_size + message.payload.size > small_capacity || !has_cell())
            return false;
        Cell<Atomic> &cell = cell_at(next_);
        message.copy_header_to(cell.bytes);
        message.payload.copy_to(cell.bytes + message.header_size, 0, message.payload.size);
        publish(cell, CellKind::small, message.tag,
                static_cast<std::uint16_t>(message.header_size << 8 | message.payload.size), bulk_head_);
        return true;
    }

    // The same for a header of short_header bytes and a payload that fits behind it.
    bool push_short(std::uint8_t tag, const void *header, const void *data, std::size_t size)
    {
        if (!has_cell()) [[unlikely]]
            return false;
        Cell<Atomic> &cell = cell_at(next_);
        std::memcpy(cell.bytes, header, short_header);
        copy_short(cell.bytes + short_header, data, size);
        publish(cell, CellKind::small, tag, static_cast<std::uint16_t>(short_header << 8 | size), bulk_head_);
        return true;
    }

    // The first part of a message: header and the start of the payload, `*accepted` bytes of it; all of a whole_piece.
    bool push_first(const Message &message, std::size_t *accepted)
    {
        if (!has_cell())
            return false;
        bool header_inline = message.header_size <= inline_header_capacity;
        std::size_t header_room = header_inline ? 0 : detail::round_up(message.header_size, 16);
        std::size_t piece = std::min(message.payload.size, piece_size(message.payload.size));
        std::uint32_t offset = 0;
        if (!allocate(header_room + piece, &offset))
            return false;
        Cell<Atomic> &cell = cell_at(next_);
        PartDescription part{message.payload.size, offset, static_cast<std::uint32_t>(piece)};
        std::memcpy(cell.bytes, &part, sizeof part);
        message.copy_header_to(header_inline ? cell.bytes + sizeof part : bulk_ + offset);
        message.payload.copy_to(bulk_ + offset + header_room, 0, piece);
        publish(cell, CellKind::first, message.tag, static_cast<std::uint16_t>(message.header_size), bulk_head_);
        *accepted = piece;
        return true;
    }

    // The next part of the message that push_first began.
    bool push_more(const Payload &payload, std::size_t sent, std::size_t *accepted)
    {
        if (!has_cell())
            return false;
        std::size_t piece = std::min(payload.size - sent, piece_size(payload.size));
        std::uint32_t offset = 0;
        if (!allocate(piece, &offset))
            return false;
        Cell<Atomic> &cell = cell_at(next_);
        PartDescription part{payload.size, offset, static_cast<std::uint32_t>(piece)};
        std::memcpy(cell.bytes, &part, sizeof part);
        payload.copy_to(bulk_ + offset, sent, piece);
        publish(cell, CellKind::more, 0, 0, bulk_head_);
        *accepted = piece;
        return true;
    }

    // The next part of a message, of which the progress is noted. False: nothing happened.
    bool push_part(const Message &message, SendProgress *progress)
    {
        std::size_t accepted = 0;
        if (!(progress->started ? push_more(message.payload, progress->sent, &accepted) : push_first(message, &accepted)))
            return false;
        progress->started = true;
        progress->sent += accepted;
        return true;
    }

    // The last call: whatever was pushed before is still seen, and then the ring may be another's.
    void close()
    {
        // [E1] everything is pushed; pairs with [E2] in Consumer::finished.
        memory_->control.open.store(ring_closed, std::memory_order_release);
    }

    // At the start, of the bulk area.
    void has_memory(std::size_t size) { limit_ = std::min(size, bulk_size); }

    // It takes at least so much at a time. Who began with little might get no more later, where memory is short.
    void take_at_least(std::size_t size) { least_ = size; }

    // To wait for the consumer is quicker than to take pages, as long as it reads at the same time, on a core of its own.
    void be_patient(bool patient) { patient_ = patient; }

    // After a push: the consumer looks at this ring whenever it looks at anything, and need not be told.
    bool is_attended() const
    {
        // [D6] what was pushed is before it; pairs with [D7] in Consumer::leave.
        UnevenFence<Atomic>::light();
        return memory_->control.attended.load(std::memory_order_relaxed) != 0;
    }

    // The bulk area has not enough memory for what was refused last, and there is none to be had.
    bool starved() const { return starved_; }
    bool pull_works() const { return memory_->control.pull_works.load(std::memory_order_relaxed) == 1; }

  private:
    Cell<Atomic> &cell_at(std::uint32_t position) { return memory_->cells[position % cell_count]; }

    bool has_cell()
    {
        if (next_ - consumed_ < cell_count)
            return true;
        refresh();
        return next_ - consumed_ < cell_count;
    }

    void refresh()
    {
        // [C2] The consumer is done with the cells and parts before this position; pairs with [C1] in Consumer::report.
        consumed_ = memory_->control.consumed.load(std::memory_order_acquire);
        if (consumed_ == next_)
            bulk_tail_ = bulk_head_;
        else if (next_ - consumed_ < cell_count)
            bulk_tail_ = std::max(bulk_tail_, bulk_end_[(consumed_ - 1) % cell_count]);
    }

    // Both cores copy at once when a message is several parts; small parts start the second core earlier.
    std::size_t piece_size(std::size_t total) const
    {
        if (total <= whole_piece)
            return total;
        std::size_t size = std::clamp(detail::round_up(total / 4, 4096), smallest_piece, largest_piece);
        return exhausted_ && limit_ > 0 ? std::min(size, limit_ / 2) : size;
    }

    // Contiguous room in the bulk area. bulk_head_ and bulk_tail_ count for ever; a place is its position modulo bulk_size,
    // of which only the first limit_ bytes of each lap have memory.
    bool allocate(std::size_t size, std::uint32_t *offset)
    {
        size = detail::round_up(size, line_pair);
        if (try_allocate(size, offset))
            return true;
        refresh();
        if (try_allocate(size, offset))
            return true;
        starved_ = false;
        // A refusal is final once there is memory to work with. Without enough, it is asked for again each time.
        while (limit_ < bulk_size && !(exhausted_ && size <= limit_)) {
            if (patient_ && limit_ >= first_limit && ++refused_ % refusals_before_growth != 0)
                return false;
            std::size_t larger = std::max(2 * limit_, least_);
            while (larger < size)
                larger *= 2;
            exhausted_ = reserve_.function != nullptr && !reserve_.function(reserve_.context, larger);
            starved_ = exhausted_ && size > limit_;
            if (exhausted_)
                return false;
            limit_ = larger;
            if (try_allocate(size, offset))
                return true;
        }
        return false;
    }

    bool try_allocate(std::size_t size, std::uint32_t *offset)
    {
        if (size > limit_)
            return false;
        std::uint64_t start = bulk_head_;
        // A new lap: when the area is empty, to touch few pages; or when the part would not be contiguous.
        if (bulk_head_ == bulk_tail_ || start % bulk_size + size > limit_)
            start = detail::round_up(start, bulk_size);
        if (bulk_head_ == bulk_tail_)
            bulk_tail_ = start;
        if (start + size - bulk_tail_ > bulk_size)
            return false;
        *offset = static_cast<std::uint32_t>(start % bulk_size);
        bulk_head_ = start + size;
        return true;
    }

    void publish(Cell<Atomic> &cell, CellKind kind, std::uint8_t tag, std::uint16_t a, std::uint64_t bulk_end)
    {
        bulk_end_[next_ % cell_count] = bulk_end;
        // [P1] publishes the cell's bytes and its bulk part; pairs with [P2] in Consumer::peek.
        cell.word.store(detail::make_word(next_, kind, tag, a), std::memory_order_release);
        __builtin_prefetch(&cell_at(next_ + cells_ahead), 1);
        ++next_;
    }

    RingMemory<Atomic> *memory_ = nullptr;
    std::byte *bulk_ = nullptr;
    BulkReserve reserve_;
    std::uint32_t next_ = 0;
    std::uint32_t consumed_ = 0;
    std::uint64_t bulk_head_ = 0;
    std::uint64_t bulk_tail_ = 0;
    std::size_t limit_ = 0;  // of the bulk area that has memory
    std::size_t least_ = least_limit;
    std::uint32_t refused_ = 0;  // while it waited to grow
    bool patient_ = false;
    bool exhausted_ = false;  // no more memory for it
    bool starved_ = false;
    std::uint64_t bulk_end_[cell_count] = {};
};

// What a cell holds, as views into shared memory.
struct CellView {
    CellKind kind;
    std::uint8_t tag;
    std::byte *header;
    std::size_t header_size;
    std::byte *piece;
    std::size_t piece_size;
    std::size_t total;
};

template <template <class> class Atomic>
class Consumer {
  public:
    Consumer() = default;
    Consumer(RingMemory<Atomic> *memory, std::byte *bulk, std::uint32_t start = 0)
        : memory_(memory), bulk_(bulk), next_(start)
    {
    }

    // True when a cell is waiting. One load.
    bool ready() const { return static_cast<std::uint32_t>(current().word.load(std::memory_order_relaxed)) == next_ + 1; }

    // A producer may die in the middle of a write or write nonsense: sizes are bounded before they are used.
    bool peek(CellView *view)
    {
        Cell<Atomic> &cell = current();
        // [P2] makes the cell's bytes visible; pairs with [P1] in Producer::publish.
        std::uint64_t word = cell.word.load(std::memory_order_acquire);
        if (static_cast<std::uint32_t>(word) != next_ + 1)
            return false;
        auto a = static_cast<std::uint16_t>(word >> 48);
        view->kind = static_cast<CellKind>(static_cast<std::uint8_t>(word >> 32));
        view->tag = static_cast<std::uint8_t>(word >> 40);
        if (view->kind == CellKind::small) {
            view->header_size = std::min<std::size_t>(a >> 8, small_capacity);
            view->piece_size = std::min<std::size_t>(a & 0xff, small_capacity - view->header_size);
            view->header = cell.bytes;
            view->piece = cell.bytes + view->header_size;
            view->total = view->piece_size;
            return true;
        }
        PartDescription part;
        std::memcpy(&part, cell.bytes, sizeof part);
        view->header_size = view->kind == CellKind::first ? std::min<std::size_t>(a, largest_header) : 0;
        std::size_t header_room = 0;
        if (view->header_size <= inline_header_capacity) {
            view->header = cell.bytes + sizeof part;
        } else {
            header_room = detail::round_up(view->header_size, 16);
            view->header = bulk_ + std::min<std::size_t>(part.offset, bulk_size - header_room);
        }
        std::size_t offset = std::min<std::size_t>(part.offset + header_room, bulk_size);
        view->piece = bulk_ + offset;
        view->piece_size = std::min<std::size_t>(part.size, bulk_size - offset);
        view->total = part.total;
        return true;
    }

    // Gives the cell of the last peek back. Parts of the bulk area are reported at once, small cells now and then.
    void pop(CellKind kind)
    {
        ++next_;
        __builtin_prefetch(&memory_->cells[(next_ + 1) % cell_count]);
        if (kind != CellKind::small || next_ % report_interval == 0)
            report();
    }

    // The producer has closed it and everything has been consumed: nobody writes here any more.
    bool finished() const
    {
        // [E2] what was pushed before it was closed is visible; pairs with [E1] in Producer::close.
        return memory_->control.open.load(std::memory_order_acquire) == ring_closed && !ready();
    }
    // On behalf of a producer that has died.
    void close() { memory_->control.open.store(ring_closed, std::memory_order_relaxed); }

    // From now on the producer need not ring: this ring is looked at as long as we do not sleep. Of a producer that is fenced.
    void attend() { memory_->control.attended.store(1, std::memory_order_relaxed); }
    // What was pushed without a ring is seen by ready() and peek() from here on, and from now on it rings. False: the last of it perhaps later.
    bool leave()
    {
        memory_->control.attended.store(0, std::memory_order_relaxed);
        // [D7] pairs with [D6] in Producer::is_attended.
        return UnevenFence<Atomic>::heavy();
    }

    void report_pull_works(bool works) { shmem::report_pull_works(&memory_->control, works); }
    const RingControl<Atomic> &control() const { return memory_->control; }

  private:
    Cell<Atomic> &current() const { return memory_->cells[next_ % cell_count]; }

    void report()
    {
        // [C1] gives cells and parts back; pairs with [C2] in Producer::refresh.
        memory_->control.consumed.store(next_, std::memory_order_release);
    }

    RingMemory<Atomic> *memory_ = nullptr;
    std::byte *bulk_ = nullptr;
    std::uint32_t next_ = 0;
};

}  // namespace pm::shmem
