// Messages of any content for one rank between its exchanges, among those that the others would send. What is in order is taken, and only
// that: an exchange ends with what each rank said last in its turn, and nothing of another group or turn.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>

#include "coll/exchange/engine.h"
#include "fuzz/fuzz.h"

namespace pm::fuzz {
namespace {

using namespace coll;

class Target {
  public:
    explicit Target(Choices &choices) : choices_(choices) {}

    void run()
    {
        for (int count = 0; choices_.any() && count < 200; ++count)
            step();
    }

  private:
    void step()
    {
        const std::uint32_t id = choices_.byte() % 3;
        switch (choices_.byte() % 8) {
            case 0:
                return start(id);
            case 1:
                return end(id);
            case 2:
                engine_.forget(id);
                groups_.erase(id);
                return;
            default:
                return arrive(id);
        }
    }

    using Bytes = std::array<char, PM_EXCHANGE_BYTES_LIMIT>;
    struct Group {
        std::array<std::array<Bytes, PM_EXCHANGE_RANKS_LIMIT>, 2> said{};
        std::uint32_t heard[2] = {};
        int ranks = 0;
        std::uint8_t set = 0;
        pm_exchange *under_way = nullptr;

        void take(unsigned set, unsigned rank, const void *bytes, std::size_t size)
        {
            if (size != 0)
                std::memcpy(said[set][rank].data(), bytes, size);
            heard[set] |= std::uint32_t{1} << rank;
        }
    };

    void start(std::uint32_t id)
    {
        Group &group = groups_[id];
        if (group.under_way != nullptr)
            return;
        if (group.ranks == 0)
            group.ranks = 1 + choices_.byte() % PM_EXCHANGE_RANKS_LIMIT;
        const int rank = choices_.byte() % group.ranks;
        auto bytes = choices_.bytes(choices_.byte() % (PM_EXCHANGE_BYTES_LIMIT + 1));
        ExchangeMessage message;
        group.under_way = engine_.start(id, rank, group.ranks, bytes.data(), bytes.size(), &message);
        require(message.length() <= sizeof message && message.set == group.set, "a message of another turn");
        touch(&message, message.length());
        group.take(group.set, static_cast<unsigned>(rank), bytes.data(), bytes.size());
    }
    void end(std::uint32_t id)
    {
        Group &group = groups_[id];
        if (group.under_way == nullptr)
            return;
        const std::uint32_t all = static_cast<std::uint32_t>((std::uint64_t{1} << group.ranks) - 1);
        require(group.under_way->is_done() == ((group.heard[group.set] & all) == all), "done is when all have spoken");
        if (!group.under_way->is_done())
            return;
        auto said = ExchangeEngine::end(group.under_way);
        for (int rank = 0; rank < group.ranks; ++rank)
            require(std::memcmp(said[rank], group.said[group.set][static_cast<std::size_t>(rank)].data(), sizeof(Bytes)) == 0,
                    "not what it said");
        group.heard[group.set] = 0;
        group.set ^= 1;
        group.under_way = nullptr;
    }
    void arrive(std::uint32_t id)
    {
        const std::uint8_t wrong = choices_.byte();
        ExchangeMessage message;
        std::memset(message.bytes, 0, sizeof message.bytes);
        message.group = wrong & 1 ? static_cast<std::uint32_t>(choices_.number(1u << 16)) : id;
        message.set = wrong & 2 ? choices_.byte() : choices_.byte() % 2;
        message.rank = wrong & 4 ? choices_.byte() : choices_.byte() % PM_EXCHANGE_RANKS_LIMIT;
        message.size = wrong & 8 ? choices_.byte() : choices_.byte() % (PM_EXCHANGE_BYTES_LIMIT + 1);
        auto bytes = choices_.bytes(std::min<std::size_t>(message.size, sizeof message.bytes));
        if (!bytes.empty())
            std::memcpy(message.bytes, bytes.data(), bytes.size());
        // As long as it was sent, and no byte more is there to be read.
        const std::size_t length = wrong & 16 ? choices_.number(sizeof message) % 600 : message.length();
        auto exact = std::make_unique<char[]>(length);
        std::memcpy(exact.get(), &message, std::min(length, sizeof message));
        const bool right = length >= ExchangeMessage::smallest && length == message.length() && length <= sizeof message &&
                           message.set <= 1 && message.rank < PM_EXCHANGE_RANKS_LIMIT;
        require(engine_.arrived(exact.get(), length) == right, right ? "a right message was refused" : "a wrong message was taken");
        if (right)
            groups_[message.group].take(message.set, message.rank, message.bytes, message.size);
    }

    Choices &choices_;
    ExchangeEngine engine_;
    std::map<std::uint32_t, Group> groups_;
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ(pm::fuzz::Target)
