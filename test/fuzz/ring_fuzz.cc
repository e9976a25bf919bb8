// A segment that another process of the host writes anything to: its ring, the parts of the bulk area, the words of its header. The
// receiver hands over messages that begin, go on and end, nothing else, and reads no byte outside.
#include <cstring>
#include <memory>

#include "fuzz/fuzz.h"
#include "shmmod/shmem.h"

namespace pm::fuzz {
namespace {

using namespace shmem;

struct Arriving {
    std::size_t left = 0;
} arriving;

void *arrived(void *, const Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total)
{
    require(arriving.left == 0, "a message begins in the middle of another");
    require(piece_size <= total, "a piece is longer than its message");
    touch(envelope.header, envelope.header_size);
    touch(piece, piece_size);
    arriving.left = total - piece_size;
    return &arriving;
}

void more(void *, int, void *cookie, void *piece, std::size_t piece_size)
{
    require(cookie == &arriving && arriving.left > 0, "a piece that nobody waits for");
    require(piece_size <= arriving.left, "a message becomes too long");
    touch(piece, piece_size);
    arriving.left -= piece_size;
}

// One receiver for all inputs; each has a slot as new.
class Target {
  public:
    Target()
    {
        Sink sink{nullptr, arrived, more};
        sink.dropped = [](void *) {};
        auto made = Shmem::create({}, sink);
        require(made.ok(), "no device");
        device_ = std::move(made.value());
        std::byte bytes[max_card_size];
        device_->write_card(bytes);
        std::memcpy(&card_, bytes, sizeof card_);
        file_ = std::move(open_file_of(card_.process, card_.file).value());
        header_ = std::move(Mapping::create(file_.get(), card_.region, header_room).value());
        slot_ = std::move(Mapping::create(file_.get(), card_.region + slot_offset(0), slot_room).value());
    }

    void play(Choices &choices)
    {
        arriving = {};
        auto &header = *reinterpret_cast<SegmentHeader *>(header_.data());
        auto &ring = *reinterpret_cast<RingMemory<std::atomic> *>(slot_.data());
        header.given_back[0].store(0);
        header.claimed.store(1 + choices.byte() % 2 * slot_limit * 2);
        require(!reserve(file_.get(), card_.region + slot_offset(0), ring_room + first_limit), "no memory");
        ring.control.producer_process = static_cast<std::int32_t>(choices.number(100));
        ring.control.producer_probe_value = card_.token + choices.byte();
        ring.control.bulk_memory = choices.number(bulk_size);
        ring.control.open.store(ring_open);
        std::uint32_t position = 0;
        while (choices.any() && position < 200) {
            for (unsigned count = choices.byte() % 8; count > 0; --count) {
                Cell<std::atomic> &cell = ring.cells[position % cell_count];
                PartDescription part{choices.number(first_limit), static_cast<std::uint32_t>(choices.number(first_limit)),
                                     static_cast<std::uint32_t>(choices.number(first_limit))};
                // What is beyond has no memory in this test, nor has it to be read to see where it is.
                std::memcpy(cell.bytes, &part, sizeof part);
                auto kind = static_cast<CellKind>(choices.one_in(8) ? choices.byte() : 1 + choices.byte() % 3);
                std::uint16_t sizes = static_cast<std::uint16_t>(choices.word());
                cell.word.store(shmem::detail::make_word(position++, kind, choices.byte(), sizes));
            }
            header.ready.fetch_or(choices.one_in(4) ? static_cast<std::uint32_t>(choices.number(31)) : ready_bit(0));
            device_->poll();
        }
        ring.control.open.store(ring_closed);
        for (unsigned tries = 0; device_->senders() > 0; ++tries) {
            header.ready.fetch_or(ready_bit(0));
            device_->poll();
            require(tries < 100, "a ring that is closed is not given back");
        }
        header.ready.store(0);
    }

  private:
    std::unique_ptr<Shmem> device_;
    Card card_{};
    File file_;
    Mapping header_, slot_;
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ_WITH_ONE(pm::fuzz::Target)
