// Everybody in a group tells everybody a few bytes, in one turn of each. Under the caller's lock; knows no MPI and no device.
//
// Exchanges of a group are counted: somebody may be one ahead of us, but not two, since for that it would need our message of the
// next one. So two sets of bytes are enough. A message may come before we have made the group: whoever comes first makes its state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "base/tuning.h"
#include "coll/exchange/exchange.h"

// What a group has heard.
struct pm_exchange {
    char bytes[2][PM_EXCHANGE_RANKS_LIMIT][PM_EXCHANGE_BYTES_LIMIT] = {};
    std::uint32_t heard[2] = {};  // bit r: rank r
    std::uint32_t all = 0;        // of the one that we have started
    std::uint8_t set = 0;         // for it: 0 or 1, in turn

    bool is_done() const { return (heard[set] & all) == all; }
};

namespace pm::coll {

// On the wire as far as there are bytes.
struct ExchangeMessage {
    std::uint32_t group = 0;
    std::uint8_t set = 0;
    std::uint8_t rank = 0;
    std::uint8_t size = 0;
    std::uint8_t unused = 0;
    char bytes[PM_EXCHANGE_BYTES_LIMIT];

    static constexpr std::size_t smallest = 8;
    std::size_t length() const { return smallest + size; }
};
static_assert(offsetof(ExchangeMessage, bytes) == ExchangeMessage::smallest && PM_EXCHANGE_BYTES_LIMIT <= UINT8_MAX);

class ExchangeEngine {
  public:
    // `*message` is what all others must be sent.
    pm_exchange *start(std::uint32_t group, int rank, int ranks, const void *bytes, std::size_t size, ExchangeMessage *message)
    {
        pm_exchange &exchange = of(group);
        auto us = static_cast<std::uint8_t>(rank);
        message->group = group;
        message->set = exchange.set;
        message->rank = us;
        message->size = static_cast<std::uint8_t>(size);
        if (size != 0)
            std::memcpy(message->bytes, bytes, size);
        exchange.all = (std::uint32_t{1} << ranks) - 1;
        take(&exchange, *message);
        return &exchange;
    }

    // False, and nothing has happened, when it is no message of ours.
    bool arrived(const void *header, std::size_t header_size)
    {
        ExchangeMessage message;
        if (header_size < ExchangeMessage::smallest || header_size > sizeof message)
            return false;
        std::memcpy(&message, header, header_size);
        if (message.length() != header_size || message.set > 1 || message.rank >= PM_EXCHANGE_RANKS_LIMIT)
            return false;
        if (exchanges_.size() >= most_groups && !exchanges_.contains(message.group))
            return false;
        take(&of(message.group), message);
        return true;
    }

    // Of one that is done: what each rank said, until the group's next one is started.
    static const char (*end(pm_exchange *exchange))[PM_EXCHANGE_BYTES_LIMIT]
    {
        std::uint8_t set = exchange->set;
        exchange->heard[set] = 0;
        exchange->set ^= 1;
        return exchange->bytes[set];
    }

    void forget(std::uint32_t group) { exchanges_.erase(group); }

  private:
    static constexpr std::size_t most_groups = 1 << 16;  // of which others may speak first: more communicators than MPICH has ids for

    pm_exchange &of(std::uint32_t group)
    {
        std::unique_ptr<pm_exchange> &exchange = exchanges_[group];
        if (exchange == nullptr)
            exchange = std::make_unique<pm_exchange>();
        return *exchange;
    }
    static void take(pm_exchange *exchange, const ExchangeMessage &message)
    {
        std::memcpy(exchange->bytes[message.set][message.rank], message.bytes, message.size);
        exchange->heard[message.set] |= std::uint32_t{1} << message.rank;
    }

    std::unordered_map<std::uint32_t, std::unique_ptr<pm_exchange>> exchanges_;
};

}  // namespace pm::coll
