// How a multicast spreads: who sends which bytes to whom, and in which order. All of it follows from what each member reads in
// the message and knows of the job, so that all of them find the same without asking. No network, no clock is needed.
//
// - Members stand in positions, host after host (Layout). The master, who sends the multicast, gives every byte to position 0,
//   each once, in pieces of its choice.
// - The first member of a host is its leader. Leaders get the bytes from leaders, by one of the algorithms; the others get them
//   inside their host. So each host gets one copy, whatever the number of its members.
// - Every member gets each byte exactly once. When all act as their roles say, all end: in whatever order messages of different
//   senders arrive, and into whatever pieces they are cut on their way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/tuning.h"

namespace pm::coll {

// Of leaders 0 .. p-1, where those that scatter cut the bytes into p blocks of equal size; the last ones may be short or empty.
enum class Algorithm : std::uint8_t {
    // Leader l passes everything on to l + 2^k, largest step first: ceil(log2 p) times one after the other.
    binomial,
    // The leaders are halved, and halved again until each is alone: the first of a half sends the first of the other half the
    // blocks of that half. Then each passes to the next what that one lacks, block by block, p - 1 times one after the other.
    scatter_ring,
    // The same scatter. Then the halves are joined again: each leader sends what its half has to one of the other half, in one
    // message, ceil(log2 p) times one after the other, whether or not p is a power of two.
    scatter_doubling,
    // Each passes everything on to the next: fast when it comes in many pieces.
    chain,
};
inline constexpr std::size_t algorithms = 4;
const char *name_of(Algorithm algorithm);
// "binomial", "scatter_ring", "scatter_doubling", "chain"; invalid for all else, with the word and what it may be.
Result<Algorithm> parse_algorithm(std::string_view text);

// Members by host. A member is known by its index: how many members have a lower rank.
struct Layout {
    std::vector<std::uint32_t> order;  // position -> index of the member
    std::vector<std::uint32_t> first;  // host h has the positions first[h] .. first[h + 1] - 1; one more entry than hosts

    std::uint32_t members() const { return static_cast<std::uint32_t>(order.size()); }
    std::uint32_t hosts() const { return static_cast<std::uint32_t>(first.size()) - 1; }
    std::uint32_t host_at(std::uint32_t position) const;
    // Looks at every position until it is found; members() when there is no such member.
    std::uint32_t position_of(std::uint32_t index) const;
};
// The host of the master comes first when it has members, then the others by their lowest member; the members of a host by
// their index. Hosts are any numbers near each other, as long as all members use the same. Where none are given, each member is
// a host of its own, by its index.
Layout make_layout(std::uint32_t members, std::span<const int> host_of_member, int master_host);

struct Send {
    std::uint32_t to = 0;  // position
    std::uint64_t offset = 0;
    std::uint64_t size = 0;

    bool operator==(const Send &) const = default;
};

// What a member does with what it gets.
struct Role {
    std::vector<std::uint32_t> children;  // positions: every range that arrives goes to each of these, as it came
    std::vector<Send> sends;              // these, one after the other, each when all of its bytes are here
};

struct Shape {
    Algorithm algorithm = Algorithm::binomial;
    std::uint64_t size = 0;  // bytes of the multicast; without any there is nothing to scatter, and binomial is used
    // A leader passes on to the others of its host directly when they are not more than this; when they are, they form a tree
    // in which nobody has more children in the host than this. 0 is taken as 1.
    std::uint32_t flat_limit = 0;
};

// Takes time and memory for what the member does, and the logarithm of the number of members.
Role role_of(const Layout &layout, const Shape &shape, std::uint32_t position);

// The tree in which members tell that they have everything: binomial over the positions, whatever the algorithm. Position 0
// has no parent.
std::uint32_t ack_parent(std::uint32_t position);
std::uint32_t ack_children_count(std::uint32_t position, std::uint32_t members);

// The largest multicast for each algorithm, in bytes; chain takes what is larger.
struct Thresholds {
    std::uint64_t tree_limit = PM_MCAST_TREE_LIMIT;          // binomial
    std::uint64_t doubling_limit = PM_MCAST_DOUBLING_LIMIT;  // scatter_doubling
    std::uint64_t chain_limit = PM_MCAST_CHAIN_LIMIT;        // scatter_ring
};
// Fewer than three leaders always use binomial: there all are the same but for the messages that scattering adds.
Algorithm choose(std::uint32_t leaders, std::uint64_t size, const Thresholds &thresholds);

}  // namespace pm::coll
