// What follows from cards: which networks a process is on, and the routes of a job before its first message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "netmod/routing/card.h"
#include "netmod/report/report.h"
#include "netmod/routing/rule.h"

namespace pm {

// Adds a network that is not there yet. They stay in the order of their ids, so that everybody has the same order whoever was
// asked first; a network that several know has the highest of their priorities.
void add_network(std::vector<Network> *networks, const Network &network);

// Node::networks of the owner of a card.
std::uint64_t networks_on(const std::vector<Network> &networks, const Card &card);

// Whether all are on one host and share memory there, from the bytes of their cards.
bool share_a_host(const std::vector<std::span<const std::byte>> &cards);

// Of a job whose cards, by rank, these are. Two processes are on one host when shared memory reaches from one to the other.
Topology topology_of(const std::vector<Card> &cards);

// For each network of which there is a choice, because two hosts on it have another one in common: the first two such processes,
// to try it out.
struct Trial {
    std::size_t network = 0;  // place in Topology::networks
    std::size_t first = 0, second = 0;
};
std::vector<Trial> trials_of(const Topology &job);
// Of networks that took so long: the quickest has the highest, all above those that are given by default; of two that took the same
// time, the first one.
std::vector<int> priorities_by_time(std::span<const double> times);

// Whether every two processes have a route: an error about the first two that have none. Everybody comes to the same answer.
Error check_routes(const Topology &job);

// The cluster of each process: hosts whose best network, of those that lead to another host at all, is the same one. Numbered in the order
// of their first processes.
std::vector<std::uint32_t> clusters_of(const Topology &job);

Result<Report> planned_routes(const std::vector<Card> &cards);

}  // namespace pm
