// What the protocol can be told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "netmod/udp/protocol/guard.h"

namespace pm::udp {

// What is sent again after a loss: only what is missing, or everything from there on.
enum class Recovery { selective, go_back_n };

struct ProtocolSettings {
    GuardKind guard = GuardKind::token;
    Recovery recovery = Recovery::selective;
    // A peer that has not been heard for so long, though asked, is gone.
    Time silence_limit = std::chrono::seconds(30);
    bool gives_up = true;  // false: peers are asked as often, but silence is never taken for an end
    // One that has never answered, though its host does, is stopped, or was never there under this card: it is asked for so many times
    // that long.
    unsigned contact_patience = 40;
    std::size_t receive_buffer = 400 * 1024;  // of the socket
    // Datagram sizes that are tried on a path, smallest first. The smallest is taken to work everywhere, and the largest of at most
    // 1200 bytes until something says otherwise.
    std::vector<std::size_t> packet_sizes{548, 772, 972, 1200, 1452, 1472, 8952, 8972, 65000};
    std::size_t first_packet_size() const
    {
        std::size_t size = packet_sizes.front();
        for (std::size_t each : packet_sizes)
            size = each <= 1200 ? each : size;
        return size;
    }
    std::size_t train_limit = 64;         // datagrams in one transmission
    std::uint32_t first_sequence = 0;     // of every pair, added to a random number when `random_sequences`
    bool random_sequences = true;
};

}  // namespace pm::udp
