// Many engines in one process, joined by a network that delivers in any order it likes between pairs, in order within a pair, whole
// or in pieces, and that accepts messages late. Whoever uses memory that was given back is found by the address sanitizer.
#include "coll/mcast/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/pattern.h"
#include "support/random.h"

namespace pm::coll {
namespace {

class World;

struct Message {
    std::vector<std::uint64_t> header;
    std::size_t header_size;
    std::vector<std::byte> data;
    const void *waiting = nullptr;  // not accepted yet: where the data is
    std::size_t size = 0;
    void *cookie = nullptr;
};

class Node : public Transport {
  public:
    Node(World &world, int number) : world_(world), number_(number) {}
    ~Node() override
    {
        engine.reset();
        for (void *block : blocks)
            std::free(block);
    }

    std::size_t largest_header() override;
    int send(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size, void *cookie) override;
    bool send_now(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size) override;
    bool on_host(const pm_peer *peer) override;
    bool has_ended(const pm_peer *peer) override;
    void *allocate_shared(std::size_t size) override;
    void free_shared(void *block) override;
    void *view(pm_peer *, std::uint64_t address, std::size_t) override { return reinterpret_cast<void *>(address); }
    void failed(const std::string &text) override { ADD_FAILURE() << text; }

    std::set<void *> blocks;
    std::unique_ptr<Engine> engine;
    pm_group *group = nullptr;

  private:
    World &world_;
    int number_;
};

struct Receive {
    int node;
    std::vector<std::byte> buffer;
    std::vector<std::uint64_t> members;
    bool done = false;
    int source = -2, tag = -2;
    std::size_t size = 0;
};

struct Sent {
    int node;
    bool done = false;
    std::vector<std::byte> data;
    std::string error = {};
};

class World {
  public:
    World(int nodes, std::vector<int> hosts, std::uint64_t seed, const Settings &wanted = {})
        : random(seed), hosts_(std::move(hosts)), words((static_cast<std::size_t>(nodes) + 63) / 64)
    {
        Settings settings = wanted;
        settings.sent = [](void *cookie, const char *error) {
            static_cast<Sent *>(cookie)->error = error != nullptr ? error : "";
            static_cast<Sent *>(cookie)->done = true;
        };
        settings.received = [](void *cookie, int source, int tag, std::size_t size) {
            auto receive = static_cast<Receive *>(cookie);
            EXPECT_FALSE(receive->done);
            receive->done = true;
            receive->source = source;
            receive->tag = tag;
            receive->size = size;
        };
        for (int i = 0; i < nodes; ++i) {
            this->nodes.push_back(std::make_unique<Node>(*this, i));
            this->nodes.back()->engine = std::make_unique<Engine>(settings, *this->nodes.back(), 100 + static_cast<std::uint64_t>(i));
        }
        peers_.resize(static_cast<std::size_t>(nodes));
    }
    void open(int node)
    {
        pm_group_setup setup{7, static_cast<int>(nodes.size()), node, this, peer_of, hosts_.empty() ? nullptr : host_of};
        at(node).group = at(node).engine->open_group(setup);
    }
    void open_all()
    {
        for (int i = 0; i < size(); ++i)
            open(i);
    }

    int size() const { return static_cast<int>(nodes.size()); }
    Node &at(int node) { return *nodes[static_cast<std::size_t>(node)]; }
    int number_of(const pm_peer *peer) const
    {
        return static_cast<int>(reinterpret_cast<const char *>(peer) - peers_.data());
    }
    int host(int node) const { return hosts_.empty() ? node : hosts_[static_cast<std::size_t>(node)]; }

    // Something happens in the network; false when nothing can.
    bool step()
    {
        if (wires.empty())
            return false;
        auto wire = std::next(wires.begin(), static_cast<std::ptrdiff_t>(random.below(wires.size())));
        auto [from, to] = wire->first;
        Message &first = wire->second.front();
        if (first.waiting != nullptr) {
            auto bytes = static_cast<const std::byte *>(first.waiting);
            first.data.assign(bytes, bytes + first.size);
            first.waiting = nullptr;
            if (first.cookie != nullptr)
                at(from).engine->taken(first.cookie);
            return true;
        }
        Message message = std::move(first);
        wire->second.pop_front();
        if (wire->second.empty())
            wires.erase(wire);
        if (!ended.contains(to))
            deliver(to, message);
        return true;
    }
    void run()
    {
        while (step()) {
        }
    }

    std::uint64_t *set_of(const std::vector<int> &members)
    {
        bits_.assign(words, 0);
        for (int member : members)
            bits_[static_cast<std::size_t>(member) / 64] |= std::uint64_t{1} << member % 64;
        return bits_.data();
    }
    // Sends `size` bytes of the pattern `key`.
    Sent *send(int master, const std::vector<int> &members, int tag, std::size_t size, std::uint64_t key, bool delivered = false)
    {
        sent.push_back(std::make_unique<Sent>(Sent{master, false, std::vector<std::byte>(size)}));
        Sent *one = sent.back().get();
        test::fill_pattern(key, 0, one->data.data(), size);
        int status = at(master).engine->send(at(master).group, one->data.data(), size, set_of(members), tag, delivered, one);
        EXPECT_NE(status, PM_FAILED);
        if (status == PM_OK)
            one->done = true;
        return one;
    }
    Receive *receive(int node, std::size_t room, int source = PM_ANY, int tag = PM_ANY)
    {
        receives.push_back(std::make_unique<Receive>());
        Receive *one = receives.back().get();
        one->node = node;
        one->buffer.resize(room);
        one->members.resize(words);
        at(node).engine->receive(at(node).group, one->buffer.data(), room, source, tag, one->members.data(), one);
        return one;
    }

    test::Random random;
    std::vector<std::unique_ptr<Node>> nodes;
    std::map<std::pair<int, int>, std::deque<Message>> wires;
    std::vector<std::unique_ptr<Receive>> receives;
    std::vector<std::unique_ptr<Sent>> sent;
    std::size_t blocks_limit = 1000;
    std::size_t header_limit = 1024;
    std::set<int> ended;
    std::function<bool(int, int)> shares_with;  // when that is not the same as being on one host
    bool late = true;  // messages are accepted late

  private:
    static pm_peer *peer_of(void *context, int rank)
    {
        return reinterpret_cast<pm_peer *>(&static_cast<World *>(context)->peers_[static_cast<std::size_t>(rank)]);
    }
    static int host_of(void *context, int rank) { return static_cast<World *>(context)->host(rank); }

    void deliver(int to, Message &message)
    {
        Engine &engine = *at(to).engine;
        std::size_t total = message.data.size();
        std::size_t first = random.one_in(2) ? total : random.below(total + 1);
        void *cookie = engine.arrived(message.header.data(), message.data.data(), first, total);
        if (first == total)
            return;
        ASSERT_NE(cookie, nullptr);
        if (random.one_in(2)) {
            auto place = static_cast<std::byte *>(engine.place(cookie));
            std::copy(message.data.begin() + static_cast<std::ptrdiff_t>(first), message.data.end(), place + first);
            engine.placed(cookie);
            return;
        }
        while (first < total) {
            std::size_t next = 1 + random.below(total - first);
            engine.more(cookie, message.data.data() + first, next);
            first += next;
        }
    }

    std::vector<int> hosts_;
    std::vector<char> peers_;
    std::vector<std::uint64_t> bits_;

  public:
    std::size_t words;
};

std::size_t Node::largest_header()
{
    return world_.header_limit;
}

int Node::send(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size, void *cookie)
{
    EXPECT_LE(header_size, world_.header_limit);
    auto &queue = world_.wires[{number_, world_.number_of(peer)}];
    Message message{std::vector<std::uint64_t>((header_size + 7) / 8), header_size, {}, nullptr, size, nullptr};
    std::memcpy(message.header.data(), header, header_size);
    bool behind = std::ranges::any_of(queue, [](const Message &other) { return other.waiting != nullptr; });
    bool wait = size != 0 && (behind || (world_.late && world_.random.one_in(2)));
    if (wait) {
        message.waiting = data;
        message.cookie = cookie;
    } else {
        auto bytes = static_cast<const std::byte *>(data);
        message.data.assign(bytes, bytes + size);
    }
    queue.push_back(std::move(message));
    return wait ? PM_QUEUED : PM_OK;
}

bool Node::send_now(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size)
{
    auto found = world_.wires.find({number_, world_.number_of(peer)});
    if (found != world_.wires.end() &&
        std::ranges::any_of(found->second, [](const Message &other) { return other.waiting != nullptr; }))
        return false;
    if (world_.late && world_.random.one_in(3))
        return false;
    bool late = std::exchange(world_.late, false);
    send(peer, header, header_size, data, size, nullptr);
    world_.late = late;
    return true;
}

bool Node::on_host(const pm_peer *peer)
{
    if (world_.shares_with)
        return world_.shares_with(number_, world_.number_of(peer));
    return world_.host(world_.number_of(peer)) == world_.host(number_);
}

bool Node::has_ended(const pm_peer *peer)
{
    return on_host(peer) && world_.ended.contains(world_.number_of(peer));
}

void *Node::allocate_shared(std::size_t size)
{
    if (blocks.size() >= world_.blocks_limit)
        return nullptr;
    void *block = std::aligned_alloc(64, (size + 63) / 64 * 64);
    blocks.insert(block);
    return block;
}

void Node::free_shared(void *block)
{
    EXPECT_EQ(blocks.erase(block), 1u);
    std::free(block);
}

Settings with(Algorithm algorithm)
{
    Settings settings;
    settings.choose = false;
    settings.algorithm = algorithm;
    settings.piece = settings.block = 10'000;
    return settings;
}

std::vector<int> all_but(int size, int one)
{
    std::vector<int> members;
    for (int i = 0; i < size; ++i)
        if (i != one)
            members.push_back(i);
    return members;
}

void expect_pattern(const Receive &receive, std::uint64_t key, std::size_t size)
{
    ASSERT_TRUE(receive.done) << "node " << receive.node;
    EXPECT_EQ(receive.size, size);
    EXPECT_EQ(test::first_difference(key, 0, receive.buffer.data(), std::min(size, receive.buffer.size())), test::no_difference)
        << "node " << receive.node;
}

void expect_nothing_left(World &world)
{
    for (auto &node : world.nodes) {
        EXPECT_EQ(node->engine->lent(), 0u);
        EXPECT_EQ(node->engine->unfinished(), 0u);
    }
}

class McastEngine : public testing::TestWithParam<Algorithm> {};
INSTANTIATE_TEST_SUITE_P(Algorithms, McastEngine,
                         testing::Values(Algorithm::binomial, Algorithm::scatter_ring, Algorithm::scatter_doubling, Algorithm::chain),
                         [](const auto &info) { return std::string(name_of(info.param)); });

TEST_P(McastEngine, EveryMemberGetsEveryByte)
{
    for (std::size_t size : {0u, 1u, 100u, 4096u, 30'001u})
        for (int hosts : {0, 1, 3}) {
            std::vector<int> host_of;
            for (int i = 0; hosts != 0 && i < 11; ++i)
                host_of.push_back(i * 7 % hosts);
            World world(11, host_of, size + static_cast<std::size_t>(hosts), with(GetParam()));
            world.open_all();
            std::vector<int> members = all_but(11, 4);
            members.erase(members.begin() + 6);
            for (int member : members)
                if (member % 2 == 0)
                    world.receive(member, size);
            Sent *sent = world.send(4, members, 3, size, 99);
            world.run();
            EXPECT_TRUE(sent->done);
            for (int member : members)
                if (member % 2 != 0)
                    world.receive(member, size);
            for (auto &receive : world.receives) {
                expect_pattern(*receive, 99, size);
                EXPECT_EQ(receive->source, 4);
                EXPECT_EQ(receive->tag, 3);
                EXPECT_EQ(receive->members[0], *world.set_of(members));
            }
            expect_nothing_left(world);
        }
}

TEST_P(McastEngine, WhoReceivesTooLittleStillPassesEverythingOn)
{
    World world(8, {0, 0, 0, 1, 1, 1, 2, 2}, 5, with(GetParam()));
    world.open_all();
    for (int member = 1; member < 8; ++member)
        world.receive(member, member % 3 == 0 ? 25'000 : 10);
    world.send(0, all_but(8, 0), 0, 25'000, 1);
    world.run();
    for (auto &receive : world.receives)
        expect_pattern(*receive, 1, 25'000);
    expect_nothing_left(world);
}

TEST_P(McastEngine, DeliveredIsToldWhenEverybodyHasIt)
{
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        World world(9, {0, 0, 1, 1, 1, 2, 0, 2, 3}, seed, with(GetParam()));
        world.open_all();
        Sent *sent = world.send(8, all_but(9, 8), 0, 22'000, 1, true);
        EXPECT_FALSE(sent->done);
        while (!sent->done && world.step()) {
        }
        ASSERT_TRUE(sent->done);
        // All of it is there already: nobody needs the network any more.
        for (int member = 0; member < 8; ++member)
            expect_pattern(*world.receive(member, 22'000), 1, 22'000);
        world.run();
        expect_nothing_left(world);
    }
}

// A small one to a few overtakes a large one to all on its way, but is not received before it.
TEST_P(McastEngine, WhatWasSentFirstIsReceivedFirst)
{
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        World world(10, seed % 2 ? std::vector<int>{} : std::vector<int>{0, 0, 0, 0, 1, 1, 1, 2, 2, 2}, seed, with(GetParam()));
        world.open_all();
        std::map<int, std::vector<std::uint64_t>> expected;
        for (std::uint64_t i = 0; i < 12; ++i) {
            std::vector<int> members;
            for (int member = 1; member < 10; ++member)
                if (world.random.one_in(2)) {
                    members.push_back(member);
                    expected[member].push_back(i);
                }
            world.send(0, members, 5, i % 3 == 0 ? 20'000 : 100, i);
            for (std::uint64_t steps = world.random.below(10); steps > 0; --steps)
                world.step();
        }
        std::map<int, std::vector<Receive *>> got;
        for (auto &[member, keys] : expected)
            for (std::size_t i = 0; i < keys.size(); ++i)
                got[member].push_back(world.receive(member, 20'000, 0, 5));
        world.run();
        for (auto &[member, keys] : expected)
            for (std::size_t i = 0; i < keys.size(); ++i)
                expect_pattern(*got[member][i], keys[i], keys[i] % 3 == 0 ? 20'000 : 100);
    }
}

TEST_P(McastEngine, ManyMastersWithOverlappingGroups)
{
    for (std::uint64_t seed = 0; seed < 25; ++seed) {
        Settings settings = with(GetParam());
        settings.choose = seed % 2 == 0;
        settings.fanout = seed % 3 == 0 ? 1 : 3;
        settings.thresholds = {1000, 5000, 20'000};
        int nodes = seed % 6 == 5 ? 150 : 70;  // two words, three words
        std::vector<int> hosts;
        for (int i = 0; i < nodes; ++i)
            hosts.push_back(static_cast<int>(i * 13 % (1 + seed)));
        World world(nodes, hosts, seed, settings);
        world.blocks_limit = seed % 4;
        world.header_limit = seed % 5 == 0 ? 100 : 1024;
        world.open_all();
        struct Expected {
            std::uint64_t key;
            std::size_t size;
        };
        std::map<std::pair<int, int>, std::vector<Expected>> expected;  // by member and master
        for (std::uint64_t i = 0; i < 60; ++i) {
            int master = static_cast<int>(world.random.below(4)) * 17;
            std::size_t size = world.random.one_in(4) ? world.random.below(40'000) : world.random.below(300);
            std::vector<int> members;
            for (int member = 0; member < nodes; ++member)
                if (world.random.below(70) < seed * 3) {
                    members.push_back(member);
                    expected[{member, master}].push_back({i, size});
                }
            world.send(master, members, static_cast<int>(i), size, i, i % 5 == 0);
            for (std::uint64_t steps = world.random.below(40); steps > 0; --steps)
                world.step();
        }
        std::map<std::pair<int, int>, std::vector<Receive *>> got;
        for (auto &[who, list] : expected)
            for (std::size_t i = 0; i < list.size(); ++i) {
                got[who].push_back(world.receive(who.first, 40'000, who.second));
                world.step();
            }
        world.run();
        for (auto &[who, list] : expected)
            for (std::size_t i = 0; i < list.size(); ++i)
                expect_pattern(*got[who][i], list[i].key, list[i].size);
        for (auto &sent : world.sent)
            EXPECT_TRUE(sent->done && sent->error.empty()) << sent->error;
        expect_nothing_left(world);
    }
}

TEST(McastEngineGroups, AMessageThatComesBeforeTheGroupWaitsForIt)
{
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        World world(5, {0, 0, 1, 1, 2}, seed);
        world.open(0);
        Sent *sent = world.send(0, {1, 2, 3, 4}, 1, seed % 2 ? 50 : 9000, 7, true);
        for (int node : {4, 2, 1, 3}) {
            world.run();
            world.open(node);
        }
        world.run();
        EXPECT_TRUE(sent->done);
        for (int node = 1; node < 5; ++node)
            expect_pattern(*world.receive(node, 9000), 7, seed % 2 ? 50 : 9000);
    }
}

// Whoever has received may leave the communicator, and an acknowledgement from below may still be on its way to it.
TEST(McastEngineGroups, AcknowledgementsNeedNoGroup)
{
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        World world(9, {}, seed);
        world.open_all();
        Sent *sent = world.send(0, all_but(9, 0), 1, 5000, 7, true);
        std::vector<Receive *> receives;
        for (int node = 1; node < 9; ++node)
            receives.push_back(world.receive(node, 5000));
        while (world.step())
            for (Receive *&receive : receives)
                if (receive != nullptr && receive->done) {
                    world.at(receive->node).engine->close_group(world.at(receive->node).group);
                    receive = nullptr;
                }
        EXPECT_TRUE(sent->done);
    }
}

TEST(McastEngineGroups, AMemberThatHasEndedFailsTheDeliveryByName)
{
    using namespace std::chrono_literals;
    World world(6, {0, 0, 0, 0, 1, 1}, 3);
    world.open_all();
    world.ended = {2};
    Sent *sent = world.send(0, all_but(6, 0), 1, 5000, 7, true);
    world.run();
    world.at(0).engine->attend(1s);
    world.run();
    EXPECT_FALSE(sent->done) << "it may only be slow";
    world.at(0).engine->attend(10s);
    ASSERT_TRUE(sent->done);
    EXPECT_NE(sent->error.find("rank 2"), std::string::npos) << sent->error;
}

// Somebody on another host: the device that cannot reach it says so, once it is sent something.
TEST(McastEngineGroups, SilentMembersOnOtherHostsAreSentTo)
{
    using namespace std::chrono_literals;
    World world(6, {0, 0, 0, 1, 1, 2}, 3);
    world.open_all();
    world.ended = {5};
    Sent *sent = world.send(0, all_but(6, 0), 1, 50, 7, true);
    world.run();
    world.at(0).engine->attend(1s);
    EXPECT_TRUE(world.wires.empty());
    world.at(0).engine->attend(10s);
    std::set<int> called;
    for (const auto &wire : world.wires)
        called.insert(wire.first.second);
    EXPECT_EQ(called, (std::set<int>{3, 4, 5}));
    world.run();
    EXPECT_FALSE(sent->done);
}

// Nodes of the launcher and reach of shared memory may differ: whoever is counted as a reader of a block must be one.
TEST(McastEngineGroups, HostsByNameNeedNotShareMemory)
{
    for (std::uint64_t seed = 0; seed < 20; ++seed)
        for (int apart : {0, 1}) {
            World world(7, {0, 0, 0, 1, 1, 1, 1}, seed);
            // Either all share memory though they are on two hosts, or some of a host do not.
            world.shares_with = [apart](int a, int b) { return apart == 0 || a % 2 == b % 2; };
            world.open_all();
            for (int master : {0, 3})
                for (std::size_t size : {100u, 9000u, 300'000u}) {
                    std::vector<int> members = master == 0 ? std::vector<int>{3, 4, 5, 6} : all_but(7, 3);
                    for (int member : members)
                        world.receive(member, size, master);
                    world.send(master, members, 1, size, size);
                    world.run();
                    for (auto &receive : world.receives)
                        expect_pattern(*receive, size, size);
                    world.receives.clear();
                }
            expect_nothing_left(world);
        }
}

// Without a cookie the data is copied if it cannot leave, and the copies are counted.
TEST(McastEngineGroups, CopiesThatWaitAreCounted)
{
    World world(2, {}, 1);
    world.open_all();
    std::vector<std::byte> data(1000);
    for (int i = 0; i < 40; ++i)
        EXPECT_EQ(world.at(0).engine->send(world.at(0).group, data.data(), data.size(), world.set_of({1}), 1, false, nullptr), PM_OK);
    EXPECT_GT(world.at(0).engine->backlog(), 0u);
    EXPECT_EQ(world.at(0).engine->backlog() % 1000, 0u);
    world.run();
    EXPECT_EQ(world.at(0).engine->backlog(), 0u);
}

TEST(McastEngineGroups, NobodyElseHearsOfIt)
{
    World world(12, {0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2}, 1);
    world.open_all();
    world.send(0, {2, 3, 7, 10}, 1, 100'000, 7);
    std::set<int> touched;
    do {
        for (const auto &wire : world.wires) {
            touched.insert(wire.first.first);
            touched.insert(wire.first.second);
        }
    } while (world.step());
    EXPECT_EQ(touched, (std::set<int>{0, 2, 3, 7, 10}));
}

TEST(McastEngineGroups, TheMasterSendsToOneMemberOnly)
{
    World world(30, {}, 1);
    world.open_all();
    world.send(0, all_but(30, 0), 1, 100, 7);
    EXPECT_EQ(world.wires.size(), 1u);
    world.run();
}

TEST(McastEngineGroups, TheMasterMayBeAMember)
{
    World world(3, {0, 0, 1}, 1);
    world.open_all();
    Receive *before = world.receive(1, 100, 1);
    world.send(1, {0, 1, 2}, 4, 100, 7);
    expect_pattern(*before, 7, 100);
    EXPECT_EQ(before->members[0], 7u);
    world.send(1, {1}, 5, 100, 8);
    expect_pattern(*world.receive(1, 100, 1, 5), 8, 100);
    world.run();
    expect_pattern(*world.receive(0, 100), 7, 100);
    expect_pattern(*world.receive(2, 100), 7, 100);
    EXPECT_TRUE(world.send(1, {}, 5, 100, 8)->done);
    EXPECT_TRUE(world.wires.empty());
}

TEST(McastEngineGroups, ReceivesChooseBySourceAndTag)
{
    World world(3, {}, 1);
    world.open_all();
    Receive *of_one = world.receive(0, 10, 1);
    Receive *tag_nine = world.receive(0, 10, PM_ANY, 9);
    int source = -1, tag = -1;
    std::size_t size = 0;
    world.send(2, {0}, 8, 10, 1);
    world.run();
    EXPECT_FALSE(of_one->done || tag_nine->done);
    EXPECT_FALSE(world.at(0).engine->probe(world.at(0).group, 1, PM_ANY, &source, &tag, &size));
    ASSERT_TRUE(world.at(0).engine->probe(world.at(0).group, PM_ANY, 8, &source, &tag, &size));
    EXPECT_EQ(source, 2);
    EXPECT_EQ(tag, 8);
    EXPECT_EQ(size, 10u);
    world.send(2, {0}, 9, 10, 2);
    world.send(1, {0}, 9, 10, 3);
    world.run();
    expect_pattern(*tag_nine, 2, 10);
    expect_pattern(*of_one, 3, 10);
    expect_pattern(*world.receive(0, 10, 2, 8), 1, 10);
}

}  // namespace
}  // namespace pm::coll
