// Slots under the seeded scheduler: several senders that come and go in fewer slots than there are senders. Promise: a slot has one
// owner at a time, and whatever each of them sent is read once, in order, and as its own.
#include "shmmod/slots.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "shmmod/ring.h"
#include "support/seeded_atomic.h"
#include "support/seeds.h"

namespace pm::shmem {
namespace {

using test::Random;
using test::Schedule;
using test::SeededAtomic;

constexpr std::uint32_t senders = 3, slots = 2, rounds = 4, most_messages = 2 * cell_count;

struct Said {
    std::uint32_t sender, round, number;
};

class SlotsRun {
  public:
    explicit SlotsRun(std::uint64_t seed) : schedule_(seed)
    {
        Random random(~seed);
        for (auto &sender : messages_)
            for (std::uint32_t &count : sender)
                count = static_cast<std::uint32_t>(random.below(random.one_in(2) ? 4 : most_messages + 1));
        for (std::uint32_t sender = 0; sender < senders; ++sender)
            schedule_.watch(reinterpret_cast<const std::byte *>(written_[sender].data()), sizeof written_[sender], sender);
        claimed_.set(64);  // there are only those that are given back
        given_back_[0].set((1 << slots) - 1);
    }

    std::string run()
    {
        for (std::uint32_t sender = 0; sender < senders; ++sender)
            schedule_.spawn([this, sender] { send(sender); });
        schedule_.spawn([this] { receive(); });
        return schedule_.run();
    }

  private:
    void send(std::uint32_t sender)
    {
        for (std::uint32_t round = 0; round < rounds; ++round) {
            std::uint32_t slot;
            while ((slot = claim_slot(&claimed_, given_back_)) >= slots)
                schedule_.require(slot == 64, "a slot that there is not");
            RingMemory<SeededAtomic> &memory = memory_[slot];
            Producer<SeededAtomic> producer(&memory, nullptr, {});
            written_[sender][round].value = 1;
            producer.open({static_cast<std::int32_t>(sender), 0, round, 0, 0});
            for (std::uint32_t number = 0; number < messages_[sender][round]; ++number) {
                Said said{sender, round, number};
                while (!producer.push_small({1, &said, sizeof said, {}})) {
                }
            }
            producer.close();
        }
    }

    void receive()
    {
        std::array<bool, slots> open{};
        std::array<Consumer<SeededAtomic>, slots> consumers;
        std::array<std::uint32_t, slots> number{};
        for (std::uint32_t closed = 0; closed < senders * rounds;) {
            for (std::uint32_t slot = 0; slot < slots; ++slot) {
                RingMemory<SeededAtomic> &memory = memory_[slot];
                if (!open[slot]) {
                    if (!is_open(memory.control))
                        continue;
                    open[slot] = true;
                    // What a sender did before it opened the slot, its name for one, is there as soon as the slot is open.
                    schedule_.read(&written_[memory.control.producer_process][memory.control.producer_started], 1);
                    consumers[slot] = Consumer<SeededAtomic>(&memory, nullptr);
                }
                auto owner = static_cast<std::uint32_t>(memory.control.producer_process);
                auto round = static_cast<std::uint32_t>(memory.control.producer_started);
                for (CellView view; consumers[slot].peek(&view); consumers[slot].pop(view.kind)) {
                    Said said;
                    std::memcpy(&said, view.header, sizeof said);
                    schedule_.require(said.sender == owner, "what another owner left");
                    schedule_.require(said.round == round && said.number == number[slot]++, "a message of another time");
                }
                if (!consumers[slot].finished())
                    continue;
                schedule_.require(number[slot] == messages_[owner][round], "given back before all was read");
                number[slot] = 0;
                ++closed;
                open[slot] = false;
                memory.control.open.store(0, std::memory_order_relaxed);
                memory.control.consumed.store(0, std::memory_order_relaxed);
                for (auto &cell : memory.cells)
                    if (static_cast<std::uint32_t>(cell.word.newest_value()) != 0)
                        cell.word.store(0, std::memory_order_relaxed);
                give_back_slot(slot, given_back_);
            }
        }
    }

    Schedule schedule_;
    std::array<std::array<std::uint32_t, rounds>, senders> messages_{};
    struct alignas(64) Apart {  // so that the schedule can tell who knows of which
        std::uint64_t value = 0;
    };
    std::array<std::array<Apart, rounds>, senders> written_{};
    SeededAtomic<std::uint32_t> claimed_;
    SeededAtomic<std::uint64_t> given_back_[1];
    std::unique_ptr<RingMemory<SeededAtomic>[]> memory_ = std::make_unique<RingMemory<SeededAtomic>[]>(slots);
};

TEST(SlotsSeeded, HaveOneOwnerAtATimeAndNothingOfTheLast)
{
    test::for_each_seed(500, [](std::uint64_t seed) { return SlotsRun(seed).run(); });
}

}  // namespace
}  // namespace pm::shmem
