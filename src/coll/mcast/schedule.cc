#include "coll/mcast/schedule.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>

namespace pm::coll {
namespace {

constexpr const char *names[algorithms] = {"binomial", "scatter_ring", "scatter_doubling", "chain"};

// Where leaders low .. high-1 are halved. The first half is the larger one when they differ.
std::uint32_t middle_of(std::uint32_t low, std::uint32_t high)
{
    return low + (high - low + 1) / 2;
}

// How many blocks the scatter brings to a leader: its own, and those of the leaders it scatters to.
std::uint32_t blocks_scattered_to(std::uint32_t leader, std::uint32_t leaders)
{
    std::uint32_t low = 0, high = leaders;
    while (low != leader) {
        const std::uint32_t middle = middle_of(low, high);
        (leader < middle ? high : low) = middle;
    }
    return high - low;
}

// The sends of one leader. Blocks are numbered as the leaders are.
class BlockSends {
  public:
    BlockSends(const Layout &layout, std::uint64_t size, std::uint32_t leader, std::vector<Send> &sends)
        : layout_(layout), size_(size), leaders_(layout.hosts()), leader_(leader), sends_(sends)
    {
        block_ = size / leaders_ + (size % leaders_ != 0 ? 1 : 0);
    }

    void scatter()
    {
        std::uint32_t high = leader_ + blocks_scattered_to(leader_, leaders_);
        while (high - leader_ > 1) {
            const std::uint32_t middle = middle_of(leader_, high);
            add(middle, middle, high);
            high = middle;
        }
    }

    // The next leader has what was scattered to it; all other blocks come to it from here, in the order in which they come
    // here: first the one of this leader, then those of the leaders before it, as seen around the ring.
    void ring()
    {
        const std::uint32_t next = leader_ + 1 < leaders_ ? leader_ + 1 : 0;
        std::uint32_t block = leader_;
        for (std::uint32_t rest = leaders_ - blocks_scattered_to(next, leaders_); rest > 0; --rest) {
            add(next, block, block + 1);
            block = (block > 0 ? block : leaders_) - 1;
        }
    }

    void double_up() { double_up(0, leaders_); }

  private:
    // Smaller halves come first: their blocks are part of what is sent for larger ones. The k-th of one half sends to the k-th
    // of the other, but for two cases. The first of the first half has the other's blocks by the scatter, so the first of
    // the second half has nothing to give it. When the first half is larger, its last one has no partner; that it sends to.
    void double_up(std::uint32_t low, std::uint32_t high)
    {
        if (high - low < 2)
            return;
        const std::uint32_t middle = middle_of(low, high);
        if (leader_ < middle) {
            double_up(low, middle);
            const std::uint32_t partner = middle + (leader_ - low);
            if (partner < high)
                add(partner, low, middle);
        } else {
            double_up(middle, high);
            if (leader_ != middle)
                add(low + (leader_ - middle), middle, high);
            else if (middle - low > high - middle)
                add(middle - 1, middle, high);
        }
    }

    // Blocks from .. end-1; nothing when they are empty.
    void add(std::uint32_t to, std::uint32_t from, std::uint32_t end)
    {
        const std::uint64_t offset = std::min(from * block_, size_);
        const std::uint64_t size = std::min(end * block_, size_) - offset;
        if (size > 0)
            sends_.push_back({layout_.first[to], offset, size});
    }

    const Layout &layout_;
    std::uint64_t size_;
    std::uint64_t block_;
    std::uint32_t leaders_;
    std::uint32_t leader_;
    std::vector<Send> &sends_;
};

// The subtree of a leader reaches as far as its lowest bit.
void add_binomial_children(const Layout &layout, std::uint32_t leader, std::vector<std::uint32_t> &children)
{
    const std::uint32_t leaders = layout.hosts();
    std::uint32_t reach = leader == 0 ? std::bit_ceil(leaders) : leader & -leader;
    while ((reach /= 2) > 0)
        if (reach < leaders - leader)
            children.push_back(layout.first[leader + reach]);
}

// A tree over the places 0, 1, ... of a host, `limit` children to each.
void add_host_children(std::uint32_t first, std::uint32_t end, std::uint32_t limit, std::uint32_t position,
                       std::vector<std::uint32_t> &children)
{
    const std::uint64_t start = std::uint64_t{limit} * (position - first) + 1;
    for (std::uint64_t place = start; place < start + limit && place < end - first; ++place)
        children.push_back(first + static_cast<std::uint32_t>(place));
}

}  // namespace

const char *name_of(Algorithm algorithm)
{
    return names[static_cast<std::size_t>(algorithm)];
}

Result<Algorithm> parse_algorithm(std::string_view text)
{
    std::string known;
    for (std::size_t i = 0; i < algorithms; ++i) {
        if (text == names[i])
            return static_cast<Algorithm>(i);
        known.append(i == 0 ? "" : ", ").append(names[i]);
    }
    return Error{Status::invalid, "unknown multicast algorithm \"" + std::string(text) + "\" in MPIR_CVAR_CH4_COMPOSITE_MCAST_ALGORITHM; known are " + known};
}

std::uint32_t Layout::host_at(std::uint32_t position) const
{
    return static_cast<std::uint32_t>(std::ranges::upper_bound(first, position) - first.begin()) - 1;
}

std::uint32_t Layout::position_of(std::uint32_t index) const
{
    return static_cast<std::uint32_t>(std::ranges::find(order, index) - order.begin());
}

Layout make_layout(std::uint32_t members, std::span<const int> host_of_member, int master_host)
{
    Layout layout;
    layout.order.resize(members);
    if (host_of_member.empty()) {
        std::iota(layout.order.begin(), layout.order.end(), 0);
        layout.first.resize(members + 1);
        std::iota(layout.first.begin(), layout.first.end(), 0);
        return layout;
    }
    // host -> its place among the hosts, from 1 on; 0: none yet.
    const auto [lowest, highest] = std::ranges::minmax(host_of_member);
    std::vector<std::uint32_t> places(static_cast<std::size_t>(highest - lowest) + 1);
    std::uint32_t hosts = 0;
    if (std::ranges::find(host_of_member, master_host) != host_of_member.end())
        places[static_cast<std::size_t>(master_host - lowest)] = ++hosts;
    std::vector<std::uint32_t> number_of(members);  // by member
    for (std::uint32_t index = 0; index < members; ++index) {
        std::uint32_t &place = places[static_cast<std::size_t>(host_of_member[index] - lowest)];
        if (place == 0)
            place = ++hosts;
        number_of[index] = place - 1;
    }
    layout.first.resize(hosts + 1);
    for (std::uint32_t number : number_of)
        ++layout.first[number + 1];
    std::partial_sum(layout.first.begin(), layout.first.end(), layout.first.begin());
    std::vector<std::uint32_t> next(layout.first);
    for (std::uint32_t index = 0; index < members; ++index)
        layout.order[next[number_of[index]]++] = index;
    return layout;
}

Role role_of(const Layout &layout, const Shape &shape, std::uint32_t position)
{
    Role role;
    const std::uint32_t host = layout.host_at(position);
    const std::uint32_t first = layout.first[host], end = layout.first[host + 1];
    if (position == first) {
        // What crosses between hosts takes longer, so it goes first.
        BlockSends blocks(layout, shape.size, host, role.sends);
        switch (shape.size == 0 ? Algorithm::binomial : shape.algorithm) {
            case Algorithm::binomial:
                add_binomial_children(layout, host, role.children);
                break;
            case Algorithm::scatter_ring:
                blocks.scatter();
                blocks.ring();
                break;
            case Algorithm::scatter_doubling:
                blocks.scatter();
                blocks.double_up();
                break;
            case Algorithm::chain:
                if (host + 1 < layout.hosts())
                    role.children.push_back(layout.first[host + 1]);
                break;
        }
    }
    add_host_children(first, end, std::max(shape.flat_limit, 1u), position, role.children);
    return role;
}

std::uint32_t ack_parent(std::uint32_t position)
{
    return position & (position - 1);
}

// A child is the position with one more bit, below its lowest one, as far as there are members.
std::uint32_t ack_children_count(std::uint32_t position, std::uint32_t members)
{
    const int bits_below = std::countr_zero(position);
    const int bits_behind = static_cast<int>(std::bit_width(members - 1 - position));
    return static_cast<std::uint32_t>(std::min(bits_below, bits_behind));
}

Algorithm choose(std::uint32_t leaders, std::uint64_t size, const Thresholds &thresholds)
{
    if (leaders < 3 || size <= thresholds.tree_limit)
        return Algorithm::binomial;
    if (size <= thresholds.doubling_limit)
        return Algorithm::scatter_doubling;
    if (size <= thresholds.chain_limit)
        return Algorithm::scatter_ring;
    return Algorithm::chain;
}

}  // namespace pm::coll
