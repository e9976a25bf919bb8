// What a process tells others about itself, as bytes: who it is, which networks it is on, and the cards of its devices.
//
// A whole card goes to the processes of the same job. The name of a port (MPI_Open_port) has room for less: a short card has the
// cards of SHMEM and UDP, or where there is no UDP that of one network of UCX. Both are cards of the same process: id() is equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/subnet.h"
#include "netmod/routing/rule.h"

namespace pm {

struct NetworkCard {
    Network network;
    std::optional<Ip> address;          // of the process's host there, if it has one
    std::vector<std::byte> device_card;  // of UCX; UDP has one for all of its networks
};

struct Card {
    std::string host;
    std::uint32_t process = 0;       // number on its host
    std::uint64_t network_space = 0;  // where addresses are unique: two hosts do not have the same address on one network
    std::vector<std::byte> shmem, udp;  // empty when it does not have the device
    std::vector<NetworkCard> networks;
    std::optional<std::uint64_t> told_id;  // by a short card that has not all that it follows from

    std::vector<std::byte> write() const;
    std::vector<std::byte> write_short() const;
    static std::optional<Card> read(std::span<const std::byte> bytes);
    // `shmem` of a card, without reading the rest; empty when there is none.
    static std::span<const std::byte> shmem_in(std::span<const std::byte> bytes);

    // Leaves out networks, the last ones first, until all that is left fits max_size: others are not told of them, so they must not be
    // used. Their names.
    std::vector<std::string> fit();

    // The same for whole and short cards of a process, different for all others.
    std::uint64_t id() const;
    // That of the card with these bytes, and it is read only where there is no other way. None: it is no card.
    static std::optional<std::uint64_t> id_in(std::span<const std::byte> bytes);

    static constexpr std::size_t max_size = 4096;
    static constexpr std::size_t max_short_size = 112;
};

}  // namespace pm
