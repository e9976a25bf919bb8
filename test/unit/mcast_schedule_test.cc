// How a multicast spreads: roles are played event by event, and every member must get each byte exactly once.
#include "coll/mcast/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include "base/ring_queue.h"
#include "coll/mcast/bitmap.h"
#include "support/random.h"
#include "support/sanitizers.h"
#include "support/seeds.h"

namespace pm::coll {
namespace {

constexpr Algorithm all_algorithms[algorithms] = {Algorithm::binomial, Algorithm::scatter_ring, Algorithm::scatter_doubling,
                                                  Algorithm::chain};
constexpr std::uint32_t most_members = 300;
constexpr int nowhere = -1;  // host of a master that shares it with no member
constexpr std::uint32_t no_limit = 1u << 20;

std::uint32_t steps(std::uint32_t leaders)
{
    return static_cast<std::uint32_t>(std::bit_width(leaders - 1));  // ceil(log2)
}

// The host of each member, told by its index.
template <class HostOf>
std::vector<int> hosts_by(std::uint32_t members, HostOf host_of)
{
    std::vector<int> hosts(members);
    for (std::uint32_t index = 0; index < members; ++index)
        hosts[index] = static_cast<int>(host_of(index));
    return hosts;
}

Layout flat(std::uint32_t members)
{
    return make_layout(members, {}, nowhere);
}

std::string text_of(const Layout &layout, const Shape &shape)
{
    return std::string(name_of(shape.algorithm)) + ", " + std::to_string(shape.size) + " bytes, " +
           std::to_string(layout.members()) + " members on " + std::to_string(layout.hosts()) + " hosts, at most " +
           std::to_string(shape.flat_limit) + " children in a host";
}

struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
};

// The bytes that a member has: ranges in order that do not touch.
class Coverage {
  public:
    // False when some of it was here before.
    bool add(Range range)
    {
        auto after = std::ranges::lower_bound(ranges_, range.begin, {}, &Range::begin);
        const bool joins_next = after != ranges_.end() && after->begin <= range.end;
        const bool joins_last = after != ranges_.begin() && (after - 1)->end >= range.begin;
        if ((joins_next && after->begin < range.end) || (joins_last && (after - 1)->end > range.begin))
            return false;
        if (joins_next && joins_last) {
            (after - 1)->end = after->end;
            ranges_.erase(after);
        } else if (joins_next) {
            after->begin = range.begin;
        } else if (joins_last) {
            (after - 1)->end = range.end;
        } else {
            ranges_.insert(after, range);
        }
        return true;
    }

    bool has(Range range) const
    {
        auto after = std::ranges::upper_bound(ranges_, range.begin, {}, &Range::begin);
        return after != ranges_.begin() && (after - 1)->end >= range.end;
    }

  private:
    std::vector<Range> ranges_;
};

// Plays the roles of all members. What one sends to another arrives in order; what different ones send, in any.
class Play {
  public:
    Play(const Layout &layout, const Shape &shape, std::uint64_t seed)
        : layout_(layout), shape_(shape), random_(seed), members_(layout.members())
    {
        for (std::uint32_t position = 0; position < layout.members(); ++position) {
            members_[position].role = role_of(layout, shape, position);
            members_[position].host = layout.host_at(position);
        }
    }

    // What went wrong, or nothing.
    std::string run()
    {
        std::uint64_t offset = 0;
        do {
            // The master's pieces.
            const std::uint64_t piece = std::min(shape_.size - offset, random_.below(shape_.size + 1) + 1);
            arrive(0, {offset, offset + piece});
            offset += piece;
        } while (offset < shape_.size);
        while (!active_.empty() && trouble_.empty()) {
            const std::size_t choice = random_.below(active_.size());
            Lane &lane = lanes_[active_[choice]];
            const std::uint32_t to = lane.to;
            const Range range = lane.ranges.front();
            lane.ranges.pop_front();
            if (lane.ranges.empty()) {
                active_[choice] = active_.back();
                active_.pop_back();
            }
            arrive(to, range);
        }
        for (std::uint32_t position = 0; position < layout_.members() && trouble_.empty(); ++position) {
            const Member &member = members_[position];
            if (member.arrivals == 0 || member.bytes != shape_.size)
                trouble_ = "position " + std::to_string(position) + " got " + std::to_string(member.bytes) + " bytes in " +
                           std::to_string(member.arrivals) + " messages";
            else if (member.sent < member.role.sends.size())
                trouble_ = "position " + std::to_string(position) + " did not send all it should";
        }
        const std::uint64_t expected = (layout_.hosts() - 1) * shape_.size;
        if (trouble_.empty() && between_hosts_ != expected)
            trouble_ = std::to_string(between_hosts_) + " bytes crossed between hosts instead of " + std::to_string(expected);
        return trouble_.empty() ? "" : text_of(layout_, shape_) + ": " + trouble_;
    }

  private:
    struct Lane {
        std::uint32_t to = 0;
        RingQueue<Range> ranges;
    };
    struct Member {
        Role role;
        std::uint32_t host = 0;
        Coverage has;
        std::uint64_t bytes = 0;
        std::uint64_t arrivals = 0;
        std::size_t sent = 0;
        std::vector<std::size_t> lanes;  // that begin here
    };

    void arrive(std::uint32_t position, Range range)
    {
        Member &member = members_[position];
        ++member.arrivals;
        member.bytes += range.end - range.begin;
        // Without bytes there is one message for each, and nothing it could overlap.
        if (shape_.size == 0 ? member.arrivals > 1 : range.begin == range.end || !member.has.add(range))
            trouble_ = "position " + std::to_string(position) + " got [" + std::to_string(range.begin) + ", " +
                       std::to_string(range.end) + ") though it has some of it";
        for (std::uint32_t child : member.role.children)
            post(position, child, range);
        for (; member.sent < member.role.sends.size(); ++member.sent) {
            const Send &send = member.role.sends[member.sent];
            const Range whole{send.offset, send.offset + send.size};
            if (!member.has.has(whole))
                break;
            std::uint64_t cut = random_.one_in(8) ? whole.begin + random_.below(send.size) : whole.begin;
            if (cut > whole.begin)
                post(position, send.to, {whole.begin, cut});
            post(position, send.to, {cut, whole.end});
        }
    }

    void post(std::uint32_t from, std::uint32_t to, Range range)
    {
        if (members_[from].host != members_[to].host)
            between_hosts_ += range.end - range.begin;
        std::vector<std::size_t> &lanes = members_[from].lanes;
        auto lane = std::ranges::find(lanes, to, [&](std::size_t number) { return lanes_[number].to; });
        if (lane == lanes.end()) {
            lanes.push_back(lanes_.size());
            lanes_.emplace_back().to = to;
            lane = lanes.end() - 1;
        }
        RingQueue<Range> &ranges = lanes_[*lane].ranges;
        if (ranges.empty())
            active_.push_back(*lane);
        ranges.emplace_back() = range;
    }

    const Layout &layout_;
    const Shape &shape_;
    test::Random random_;
    std::vector<Member> members_;
    std::vector<Lane> lanes_;
    std::vector<std::size_t> active_;  // lanes with something in them
    std::uint64_t between_hosts_ = 0;
    std::string trouble_;
};

// A leader passes on between leaders, and inside a host nobody has more children than allowed.
std::string trouble_with_roles(const Layout &layout, const Shape &shape)
{
    for (std::uint32_t position = 0; position < layout.members(); ++position) {
        const Role role = role_of(layout, shape, position);
        const std::uint32_t host = layout.host_at(position);
        auto is_leader = [&](std::uint32_t other) { return layout.first[layout.host_at(other)] == other; };
        std::uint32_t inside = 0;
        bool between_leaders = true;
        for (std::uint32_t child : role.children) {
            if (layout.host_at(child) == host)
                ++inside;
            else
                between_leaders = between_leaders && is_leader(position) && is_leader(child);
        }
        for (const Send &send : role.sends)
            between_leaders = between_leaders && is_leader(position) && is_leader(send.to) && layout.host_at(send.to) != host;
        if (!between_leaders || inside > std::max(shape.flat_limit, 1u))
            return text_of(layout, shape) + ": position " + std::to_string(position) + " sends where it should not";
        const std::uint32_t others = layout.first[host + 1] - layout.first[host] - 1;
        if (position == layout.first[host] && others <= shape.flat_limit && inside != others)
            return text_of(layout, shape) + ": the leader " + std::to_string(position) + " does not serve all directly";
    }
    return {};
}

std::vector<std::uint64_t> sizes_for(std::uint64_t members)
{
    return {0, 1, members - 1, members, members + 1, 1000, 80'000, 79'999};
}

// ---- the set of members ----

TEST(McastBitmap, MembersAreFoundInRankOrder)
{
    const std::vector<std::uint64_t> words{1u | 1ull << 63, 0, 0b1010, 0};
    EXPECT_EQ(bitmap::count(words), 4u);
    EXPECT_EQ(bitmap::members_of(words), (std::vector<int>{0, 63, 129, 131}));
    EXPECT_EQ(bitmap::highest(words), 131);
    EXPECT_TRUE(bitmap::test(words, 63));
    EXPECT_FALSE(bitmap::test(words, 64));
    EXPECT_FALSE(bitmap::test(words, 256));
    EXPECT_FALSE(bitmap::test(words, -1));
}

TEST(McastBitmap, TheEmptySetHasNoMembers)
{
    const std::vector<std::uint64_t> zeros(3);
    for (bitmap::Words words : {bitmap::Words(), bitmap::Words(zeros)}) {
        EXPECT_EQ(bitmap::count(words), 0u);
        EXPECT_EQ(bitmap::highest(words), -1);
        EXPECT_TRUE(bitmap::members_of(words).empty());
        EXPECT_FALSE(bitmap::test(words, 0));
        EXPECT_EQ(bitmap::count_below(words, 100), 0u);
    }
}

TEST(McastBitmap, AnyBitmapIsTheSameAsAListOfFlags)
{
    test::for_each_seed(200, [](std::uint64_t seed) -> std::string {
        test::Random random(seed);
        std::vector<std::uint64_t> words(random.below(6));
        std::vector<int> expected;
        const std::uint64_t sparse = random.between(1, 70);
        std::size_t below = 0;
        std::vector<std::size_t> counts;
        for (int rank = 0; rank < static_cast<int>(words.size()) * 64; ++rank) {
            counts.push_back(below);
            if (!random.one_in(sparse))
                continue;
            words[static_cast<std::size_t>(rank) / 64] |= 1ull << (rank % 64);
            expected.push_back(rank);
            ++below;
        }
        if (bitmap::members_of(words) != expected || bitmap::count(words) != expected.size())
            return "wrong members";
        if (bitmap::highest(words) != (expected.empty() ? -1 : expected.back()))
            return "wrong highest member";
        for (int rank = 0; rank < static_cast<int>(counts.size()); ++rank)
            if (bitmap::test(words, rank) != std::ranges::binary_search(expected, rank) ||
                bitmap::count_below(words, rank) != counts[static_cast<std::size_t>(rank)])
                return "wrong at rank " + std::to_string(rank);
        return "";
    });
}

// ---- names and choice ----

TEST(McastSchedule, AlgorithmsAreReadAsTheyAreNamed)
{
    for (Algorithm algorithm : all_algorithms) {
        Result<Algorithm> parsed = parse_algorithm(name_of(algorithm));
        ASSERT_TRUE(parsed.ok()) << parsed.error().text;
        EXPECT_EQ(parsed.value(), algorithm);
    }
    const Error error = parse_algorithm("ring").error();
    EXPECT_EQ(error.status, Status::invalid);
    EXPECT_EQ(error.text, "unknown multicast algorithm \"ring\" in MPIR_CVAR_CH4_COMPOSITE_MCAST_ALGORITHM; known are binomial, scatter_ring, scatter_doubling, chain");
    EXPECT_FALSE(parse_algorithm("").ok());
}

TEST(McastSchedule, TheSizeChoosesTheAlgorithm)
{
    const Thresholds thresholds{100, 200, 300};
    EXPECT_EQ(choose(3, 0, thresholds), Algorithm::binomial);
    EXPECT_EQ(choose(3, 100, thresholds), Algorithm::binomial);
    EXPECT_EQ(choose(3, 101, thresholds), Algorithm::scatter_doubling);
    EXPECT_EQ(choose(3, 200, thresholds), Algorithm::scatter_doubling);
    EXPECT_EQ(choose(3, 201, thresholds), Algorithm::scatter_ring);
    EXPECT_EQ(choose(3, 300, thresholds), Algorithm::scatter_ring);
    EXPECT_EQ(choose(3, 301, thresholds), Algorithm::chain);
    for (std::uint32_t leaders : {0u, 1u, 2u})
        EXPECT_EQ(choose(leaders, 1000, thresholds), Algorithm::binomial);
    // A setting can leave an algorithm out.
    EXPECT_EQ(choose(3, 150, {100, 0, 300}), Algorithm::scatter_ring);
    EXPECT_EQ(choose(3, 150, {100, 0, 0}), Algorithm::chain);
}

// ---- positions ----

TEST(McastSchedule, MembersStandHostByHostAndTheMastersHostIsFirst)
{
    const std::vector<int> hosts{7, 3, 7, 5, 3, 5, 5};
    const Layout other = make_layout(7, hosts, nowhere);
    EXPECT_EQ(other.order, (std::vector<std::uint32_t>{0, 2, 1, 4, 3, 5, 6}));
    EXPECT_EQ(other.first, (std::vector<std::uint32_t>{0, 2, 4, 7}));
    const Layout same = make_layout(7, hosts, 5);
    EXPECT_EQ(same.order, (std::vector<std::uint32_t>{3, 5, 6, 0, 2, 1, 4}));
    EXPECT_EQ(same.first, (std::vector<std::uint32_t>{0, 3, 5, 7}));
    EXPECT_EQ(same.position_of(2), 4u);
    EXPECT_EQ(same.position_of(9), 7u);
    EXPECT_EQ(same.host_at(2), 0u);
    EXPECT_EQ(same.host_at(3), 1u);
    EXPECT_EQ(same.host_at(6), 2u);
}

TEST(McastSchedule, WithoutTopologyEachMemberIsAHost)
{
    const Layout layout = flat(4);
    EXPECT_EQ(layout.order, (std::vector<std::uint32_t>{0, 1, 2, 3}));
    EXPECT_EQ(layout.first, (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
    const Layout nobody = flat(0);
    EXPECT_EQ(nobody.members(), 0u);
    EXPECT_EQ(nobody.hosts(), 0u);
}

// Whoever is first, all are there, and the hosts are in one piece.
TEST(McastSchedule, EveryHostCanBeFirst)
{
    for (std::uint32_t members = 1; members <= most_members; members += test::slowdown) {
        const std::vector<int> hosts = hosts_by(members, [](std::uint32_t index) { return std::min(index % 15, 10u); });
        for (int master = -1; master < 11; ++master) {
            const Layout layout = make_layout(members, hosts, master);
            std::vector<std::uint32_t> sorted = layout.order;
            std::ranges::sort(sorted);
            ASSERT_EQ(sorted, flat(members).order);
            const bool has_members = std::ranges::find(hosts, master) != hosts.end();
            EXPECT_EQ(hosts[layout.order[0]], has_members ? master : hosts[0]);
            std::uint32_t lowest = 0;
            for (std::uint32_t host = 0; host < layout.hosts(); ++host) {
                const std::uint32_t first = layout.first[host], end = layout.first[host + 1];
                ASSERT_LT(first, end);
                EXPECT_EQ(std::ranges::count(hosts, hosts[layout.order[first]]), end - first);
                EXPECT_TRUE(std::is_sorted(layout.order.begin() + first, layout.order.begin() + end));
                for (std::uint32_t position = first; position < end; ++position)
                    EXPECT_EQ(hosts[layout.order[position]], hosts[layout.order[first]]);
                if (host >= (has_members ? 2u : 1u)) {
                    EXPECT_LT(lowest, layout.order[first]);
                }
                lowest = layout.order[first];
            }
        }
    }
}

// ---- exactly once ----

// The ring has as many messages as members squared: of many members it plays the sizes in turn.
TEST(McastSchedule, EveryMemberGetsEachByteOnce)
{
    for (std::uint32_t members = 1; members <= most_members; members += test::slowdown) {
        const Layout layout = flat(members);
        const std::vector<std::uint64_t> sizes = sizes_for(members);
        for (Algorithm algorithm : all_algorithms) {
            for (std::size_t i = 0; i < sizes.size(); ++i) {
                if (algorithm == Algorithm::scatter_ring && members > 60 && i != members % sizes.size())
                    continue;
                ASSERT_EQ(Play(layout, {algorithm, sizes[i], 16}, members).run(), "");
            }
        }
    }
}

TEST(McastSchedule, EveryMemberGetsEachByteOnceOfMoreThan32Bits)
{
    for (std::uint32_t members : {2u, 3u, 7u, 64u})
        for (Algorithm algorithm : all_algorithms)
            for (std::uint64_t size : {std::uint64_t{1} << 31, (std::uint64_t{1} << 32) + 1, (std::uint64_t{1} << 40) - 3})
                ASSERT_EQ(Play(flat(members), {algorithm, size, 16}, members).run(), "");
}

TEST(McastSchedule, EveryMemberGetsEachByteOnceOnHostsOfAnySize)
{
    for (std::uint32_t members = 1; members <= most_members; members += test::slowdown) {
        const std::vector<int> hosts[] = {
            hosts_by(members, [](std::uint32_t) { return 0; }),                                // one
            hosts_by(members, [](std::uint32_t index) { return index / 8; }),                  // of equal size
            hosts_by(members, [](std::uint32_t index) { return index % 5; }),                  // dealt out
            hosts_by(members, [](std::uint32_t index) { return std::bit_width(index); }),      // each twice the last
            hosts_by(members, [](std::uint32_t index) { return index < 20 ? index : 1000; }),  // many small, one large
        };
        const std::vector<std::uint64_t> sizes = sizes_for(members);
        for (const std::vector<int> &host_of : hosts) {
            const Layout layout = make_layout(members, host_of, nowhere);
            for (Algorithm algorithm : all_algorithms) {
                constexpr std::uint32_t flat_limits[] = {0, 3, no_limit};
                for (std::size_t turn : {members, members + 1}) {
                    const Shape shape{algorithm, sizes[turn % sizes.size()], flat_limits[turn % 3]};
                    ASSERT_EQ(trouble_with_roles(layout, shape), "");
                    ASSERT_EQ(Play(layout, shape, members).run(), "");
                }
            }
        }
    }
}

// The root is the first of the host that the master is on.
TEST(McastSchedule, EveryMemberGetsEachByteOnceFromEveryRoot)
{
    for (std::uint32_t members = 1; members <= most_members; members += test::slowdown) {
        const std::vector<int> hosts = hosts_by(members, [](std::uint32_t index) { return std::min(index % 10, 6u); });
        for (int master = 0; master < 7; ++master) {
            const Layout layout = make_layout(members, hosts, master);
            for (Algorithm algorithm : all_algorithms)
                ASSERT_EQ(Play(layout, {algorithm, 100, 4}, members).run(), "") << "root on host " << master;
        }
    }
    for (std::uint32_t members = 1; members <= 24; ++members)
        for (std::uint32_t root = 0; root < members; ++root) {
            const std::vector<int> hosts = hosts_by(members, [](std::uint32_t index) { return index; });
            const Layout layout = make_layout(members, hosts, static_cast<int>(root));
            ASSERT_EQ(layout.order[0], root);
            for (Algorithm algorithm : all_algorithms)
                ASSERT_EQ(Play(layout, {algorithm, 1000, 4}, root).run(), "") << "root " << root;
        }
}

// As it is used: from a bitmap and the hosts of all ranks.
TEST(McastSchedule, EveryMemberOfAnyBitmapGetsEachByteOnce)
{
    test::for_each_seed(4000, [](std::uint64_t seed) -> std::string {
        test::Random random(seed);
        const int ranks = static_cast<int>(random.between(1, 300));
        const std::uint64_t sparse = random.between(1, 8);
        std::vector<std::uint64_t> words(static_cast<std::size_t>(ranks + 63) / 64);
        for (int rank = 0; rank < ranks; ++rank)
            if (random.one_in(sparse))
                words[static_cast<std::size_t>(rank) / 64] |= 1ull << (rank % 64);
        const std::uint64_t host_count = random.between(1, random.one_in(2) ? 8 : 300);
        std::vector<int> host_of_member;
        bitmap::for_each(words, [&](int) { host_of_member.push_back(static_cast<int>(random.below(host_count)) * 1000 - 5); });
        if (host_of_member.empty())
            return "";
        const std::uint32_t members = static_cast<std::uint32_t>(bitmap::count(words));
        const Layout layout = make_layout(members, host_of_member, static_cast<int>(random.below(host_count)) * 1000 - 5);
        const Shape shape{all_algorithms[random.below(algorithms)], random.below(random.one_in(2) ? 500 : 100'000),
                          static_cast<std::uint32_t>(random.below(12))};
        std::string trouble = trouble_with_roles(layout, shape);
        return trouble.empty() ? Play(layout, shape, seed).run() : trouble;
    });
}

TEST(McastSchedule, ManyMembersGetEachByteOnce)
{
    const std::uint32_t members = 65'536 / test::slowdown;
    const std::vector<int> small = hosts_by(members, [](std::uint32_t index) { return index / 4; });
    const Layout many_hosts = make_layout(members, small, 1);
    EXPECT_EQ(Play(many_hosts, {Algorithm::scatter_doubling, 100'001, 16}, 1).run(), "");
    EXPECT_EQ(Play(many_hosts, {Algorithm::binomial, 100'001, 16}, 1).run(), "");
    const std::vector<int> large = hosts_by(members, [](std::uint32_t index) { return index / 8000; });
    EXPECT_EQ(Play(make_layout(members, large, 1), {Algorithm::scatter_ring, 100'001, 16}, 1).run(), "");
}

// ---- how many messages, and how many of them one after the other ----

// Rounds until all have everything, when each member sends one message a round. Everything is at position 0 at the start.
std::uint32_t rounds_of(const Layout &layout, const Shape &shape, std::uint64_t pieces)
{
    struct Message {
        std::uint32_t to;
        Range range;
    };
    struct Member {
        Role role;
        Coverage has;
        std::size_t sent = 0;
        RingQueue<Message> forwards;
    };
    std::vector<Member> members(layout.members());
    std::uint64_t missing = (layout.members() - 1) * shape.size;
    auto arrive = [&](std::uint32_t position, Range range) {
        EXPECT_TRUE(members[position].has.add(range));
        for (std::uint32_t child : members[position].role.children)
            members[position].forwards.emplace_back() = {child, range};
    };
    for (std::uint32_t position = 0; position < layout.members(); ++position)
        members[position].role = role_of(layout, shape, position);
    for (std::uint64_t piece = 0; piece < pieces; ++piece)
        arrive(0, {shape.size * piece / pieces, shape.size * (piece + 1) / pieces});
    std::uint32_t rounds = 0;
    std::vector<Message> round;
    do {
        round.clear();
        for (Member &member : members) {
            if (!member.forwards.empty()) {
                round.push_back(member.forwards.front());
                member.forwards.pop_front();
            } else if (member.sent < member.role.sends.size()) {
                const Send &send = member.role.sends[member.sent];
                const Range range{send.offset, send.offset + send.size};
                if (member.has.has(range)) {
                    round.push_back({send.to, range});
                    ++member.sent;
                }
            }
        }
        for (const Message &message : round) {
            arrive(message.to, message.range);
            missing -= message.range.end - message.range.begin;
        }
        if (!round.empty())
            ++rounds;
    } while (!round.empty());
    EXPECT_EQ(missing, 0u);
    return rounds;
}

TEST(McastSchedule, MessagesOneAfterTheOtherAreAsManyAsPromised)
{
    for (std::uint32_t leaders = 1; leaders <= most_members; leaders += test::slowdown) {
        const Layout layout = flat(leaders);
        const std::uint64_t size = leaders * 10;  // every block has bytes
        EXPECT_EQ(rounds_of(layout, {Algorithm::binomial, size, 16}, 1), steps(leaders));
        EXPECT_EQ(rounds_of(layout, {Algorithm::scatter_doubling, size, 16}, 1), 2 * steps(leaders)) << leaders;
        EXPECT_EQ(rounds_of(layout, {Algorithm::chain, size, 16}, 1), leaders - 1);
        EXPECT_EQ(rounds_of(layout, {Algorithm::chain, size, 16}, 5), leaders == 1 ? 0 : leaders - 1 + 4);
        if (leaders <= 130) {
            EXPECT_EQ(rounds_of(layout, {Algorithm::scatter_ring, size, 16}, 1), steps(leaders) + leaders - 1) << leaders;
        }
    }
}

TEST(McastSchedule, TheTreeIsThatOfThePaper)
{
    const Layout layout = flat(8);
    const std::vector<std::vector<std::uint32_t>> children{{4, 2, 1}, {}, {3}, {}, {6, 5}, {}, {7}, {}};
    for (std::uint32_t position = 0; position < 8; ++position) {
        EXPECT_EQ(role_of(layout, {Algorithm::binomial, 80, 16}, position).children, children[position]);
        // Its figure of the scatter: the first message is one half, for 4.
        const Role role = role_of(layout, {Algorithm::scatter_ring, 80, 16}, position);
        for (std::size_t i = 0; i < children[position].size(); ++i) {
            const std::uint32_t child = children[position][i];
            EXPECT_EQ(role.sends[i], (Send{child, child * 10u, (child - position) * 10u}));
        }
    }
}

// Behind the scatter. All leaders but the first save one message: the one they got their blocks from has those already.
TEST(McastSchedule, DoublingTakesOneMessageForEachBitOfThePowerOfTwo)
{
    for (std::uint32_t bits = 1; bits <= 12; ++bits) {
        const std::uint32_t leaders = 1u << bits;
        const Layout layout = flat(leaders);
        for (std::uint32_t leader = 0; leader < leaders; ++leader) {
            const Role role = role_of(layout, {Algorithm::scatter_doubling, leaders * 10, 16}, leader);
            const std::uint32_t scattered = leader == 0 ? bits : static_cast<std::uint32_t>(std::countr_zero(leader));
            ASSERT_EQ(role.sends.size() - scattered, leader == 0 ? bits : bits - 1) << leader << " of " << leaders;
        }
    }
}

TEST(McastSchedule, DoublingNeverTakesMoreMessagesThanThereAreBits)
{
    for (std::uint32_t leaders = 2; leaders <= most_members; ++leaders) {
        const Layout layout = flat(leaders);
        for (std::uint32_t leader = 0; leader < leaders; ++leader) {
            // The ring begins with the same scatter, where what is sent begins with the block of the receiver.
            const std::vector<Send> ring = role_of(layout, {Algorithm::scatter_ring, leaders, 16}, leader).sends;
            const std::vector<Send> doubling = role_of(layout, {Algorithm::scatter_doubling, leaders, 16}, leader).sends;
            std::size_t scattered = 0;
            while (scattered < ring.size() && ring[scattered].offset == ring[scattered].to)
                ++scattered;
            ASSERT_TRUE(std::equal(ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(scattered), doubling.begin()));
            ASSERT_LE(scattered, steps(leaders));
            ASSERT_LE(doubling.size() - scattered, steps(leaders)) << leader << " of " << leaders;
        }
    }
}

TEST(McastSchedule, InAChainEachHasOneChildAndTheLastHasNone)
{
    for (std::uint32_t leaders : {1u, 2u, 3u, 300u}) {
        const Layout layout = flat(leaders);
        for (std::uint32_t leader = 0; leader < leaders; ++leader) {
            const Role role = role_of(layout, {Algorithm::chain, 10, 16}, leader);
            EXPECT_TRUE(role.sends.empty());
            if (leader + 1 < leaders)
                EXPECT_EQ(role.children, (std::vector<std::uint32_t>{leader + 1}));
            else
                EXPECT_TRUE(role.children.empty());
        }
    }
}

// Other hosts first: what crosses between hosts takes longer.
TEST(McastSchedule, ALeaderServesOtherHostsBeforeItsOwn)
{
    const std::vector<int> hosts{0, 0, 0, 1, 1, 2};
    const Layout layout = make_layout(6, hosts, nowhere);
    EXPECT_EQ(role_of(layout, {Algorithm::binomial, 10, 16}, 0).children, (std::vector<std::uint32_t>{5, 3, 1, 2}));
    EXPECT_EQ(role_of(layout, {Algorithm::chain, 10, 16}, 3).children, (std::vector<std::uint32_t>{5, 4}));
    EXPECT_EQ(role_of(layout, {Algorithm::scatter_ring, 10, 1}, 0).children, (std::vector<std::uint32_t>{1}));
    EXPECT_EQ(role_of(layout, {Algorithm::scatter_ring, 10, 1}, 1).children, (std::vector<std::uint32_t>{2}));
}

// ---- acknowledgements ----

TEST(McastSchedule, AcknowledgementsClimbABinomialTree)
{
    for (std::uint32_t members = 1; members <= most_members; ++members) {
        std::vector<std::uint32_t> children(members), depth(members);
        for (std::uint32_t position = 1; position < members; ++position) {
            const std::uint32_t parent = ack_parent(position);
            ASSERT_LT(parent, position);
            ++children[parent];
            depth[position] = depth[parent] + 1;
            EXPECT_LE(depth[position], steps(members));
        }
        for (std::uint32_t position = 0; position < members; ++position)
            EXPECT_EQ(ack_children_count(position, members), children[position]) << position << " of " << members;
        EXPECT_EQ(children[0], steps(members));
    }
}

}  // namespace
}  // namespace pm::coll
