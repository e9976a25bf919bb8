// Many engines in one process, joined by a network that delivers in any order it likes between pairs, in order within a pair, whole
// or in pieces, and that accepts messages late. Whoever uses memory that was given back is found by the address sanitizer.
#include "coll/mcast/engine.h"
#include "coll/mcast/outbox.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

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
#include "support/sanitizers.h"

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
    Outbox *make_outbox() override;
    void free_outbox(Outbox *outbox) override { outboxes.push_back(outbox); }
    void nudge(pm_peer *peer) override;
    void watches(bool any) override { watching = any; }
    bool may_open(std::uint32_t) override { return is_making; }
    void dropped(const pm_peer *) override { ++drops; }
    void failed(const std::string &text) override
    {
        if (may_fail)
            failure = text;
        else
            ADD_FAILURE() << text;
    }

    std::set<void *> blocks;
    std::vector<Outbox *> outboxes;  // free ones
    std::vector<std::unique_ptr<Outbox>> made;
    bool watching = false, awake = true;
    bool may_fail = false;
    bool is_making = true;  // a group
    std::string failure;
    std::size_t nudges = 0, drops = 0;
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
    void open(int node, std::uint32_t id = 7)
    {
        pm_group_setup setup{id, static_cast<int>(nodes.size()), node, this, peer_of, hosts_.empty() ? nullptr : host_of};
        at(node).group = at(node).engine->open_group(setup);
    }
    void open_all(std::uint32_t id = 7)
    {
        for (int i = 0; i < size(); ++i)
            open(i, id);
    }
    // Node looks, without anybody having woken it.
    void look(int node)
    {
        at(node).awake = true;
        at(node).engine->poll();
    }

    int size() const { return static_cast<int>(nodes.size()); }
    Node &at(int node) { return *nodes[static_cast<std::size_t>(node)]; }
    int number_of(const pm_peer *peer) const
    {
        return static_cast<int>(reinterpret_cast<const char *>(peer) - peers_.data());
    }
    int host(int node) const
    {
        EXPECT_LT(static_cast<std::size_t>(node), nodes.size()) << "there is no such rank";
        return hosts_.empty() || static_cast<std::size_t>(node) >= hosts_.size() ? node : hosts_[static_cast<std::size_t>(node)];
    }

    // Something happens in the network, or somebody looks at what was posted; false when nothing can.
    bool step()
    {
        std::vector<Node *> curious;
        for (auto &node : nodes)
            if (node->watching && node->awake && node->engine->has_news())
                curious.push_back(node.get());
        if (!curious.empty() && (wires.empty() || random.one_in(2))) {
            Node *node = curious[random.below(curious.size())];
            posts_read += node->engine->poll();
            node->awake = !random.one_in(3) || node->engine->has_news();
            return true;
        }
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
        if (!ended.contains(to)) {
            at(to).awake = true;
            deliver(from, to, message);
        }
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

    void *arrive(int from, int to, void *header, std::size_t header_size, const void *data, std::size_t first, std::size_t total)
    {
        return at(to).engine->arrived({peer_of(this, from), header, header_size, 0}, data, first, total);
    }

    test::Random random;
    std::vector<std::unique_ptr<Node>> nodes;
    std::map<std::pair<int, int>, std::deque<Message>> wires;
    std::vector<std::unique_ptr<Receive>> receives;
    std::vector<std::unique_ptr<Sent>> sent;
    std::size_t blocks_limit = 1000;
    std::size_t outboxes_limit = 1000;
    std::size_t posts_read = 0;
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

    void deliver(int from, int to, Message &message)
    {
        Engine &engine = *at(to).engine;
        std::size_t total = message.data.size();
        std::size_t first = random.one_in(2) ? total : random.below(total + 1);
        std::size_t drops = at(to).drops;
        void *cookie = arrive(from, to, message.header.data(), message.header_size, message.data.data(), first, total);
        ASSERT_EQ(at(to).drops, drops);
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

Outbox *Node::make_outbox()
{
    if (outboxes.empty() && made.size() < world_.outboxes_limit) {
        made.push_back(std::make_unique<Outbox>());
        outboxes.push_back(made.back().get());
    }
    if (outboxes.empty())
        return nullptr;
    Outbox *outbox = outboxes.back();
    outboxes.pop_back();
    return outbox;
}

void Node::nudge(pm_peer *peer)
{
    EXPECT_TRUE(on_host(peer));
    Node &node = world_.at(world_.number_of(peer));
    node.awake = true;
    node.nudges++;
}

void *Node::allocate_shared(std::size_t size)
{
    if (blocks.size() >= world_.blocks_limit)
        return nullptr;
    void *block = std::aligned_alloc(alignof(BlockHead), (size + alignof(BlockHead) - 1) / alignof(BlockHead) * alignof(BlockHead));
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
    // The thread sanitizer has nothing to find where one thread plays all.
    const std::uint64_t step = test::slowdown > 8 ? 6 : 1;
    std::size_t posts_read = 0;
    for (std::uint64_t seed = 0; seed < 25; seed += step) {
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
        posts_read += world.posts_read;
        expect_nothing_left(world);
    }
    EXPECT_GT(posts_read, 0u);
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

// More than 4 GB, of which nobody writes a byte: where each piece belongs, and when it is whole.
TEST(McastEngineGroups, SizesAndPlacesHaveMoreThan32Bits)
{
    constexpr std::uint64_t size = (std::uint64_t{5} << 30) + 12345, piece = std::uint64_t{3} << 30;
    World world(2, {0, 1}, 1);
    world.open_all();
    void *buffer = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(buffer, MAP_FAILED);
    Receive receive{1, {}, {}};
    world.at(1).engine->receive(world.at(1).group, buffer, size, 0, 1, nullptr, &receive);
    struct {
        WireHeader header;
        std::uint64_t word = 2;
        std::uint32_t order = 0, unused = 0;
    } message;
    message.header.group = 7;
    message.header.flags = WireHeader::by_host;
    message.header.tag = 1;
    message.header.size = size;
    message.header.words = message.header.orders = 1;
    for (std::uint64_t offset : {piece, std::uint64_t{0}}) {
        EXPECT_FALSE(receive.done);
        message.header.offset = offset;
        message.header.length = static_cast<std::uint32_t>(std::min(size - offset, piece));
        void *cookie = world.arrive(0, 1, &message, sizeof message, nullptr, 0, message.header.length);
        EXPECT_EQ(world.at(1).engine->place(cookie), static_cast<std::byte *>(buffer) + offset);
        world.at(1).engine->placed(cookie);
    }
    EXPECT_TRUE(receive.done);
    EXPECT_EQ(receive.size, size);
    munmap(buffer, size);
    expect_nothing_left(world);
}

#if !defined(PM_TEST_ASAN) && !defined(PM_TEST_TSAN)  // a sanitizer ends the process when there is no memory
// One that is received too late for the memory there is: an error, not the end of the process.
TEST(McastEngineGroups, WithoutMemoryForOneThatNobodyReceivesEverythingFails)
{
    World world(2, {0, 1}, 1);
    world.open_all();
    struct {
        WireHeader header;
        std::uint64_t word = 2;
        std::uint32_t order = 0, unused = 0;
    } message;
    message.header.group = 7;
    message.header.flags = WireHeader::by_host;
    message.header.size = std::uint64_t{1} << 60;
    message.header.length = 100;
    message.header.words = message.header.orders = 1;
    std::vector<std::byte> bytes(100);
    world.at(1).may_fail = true;
    EXPECT_EQ(world.arrive(0, 1, &message, sizeof message, bytes.data(), bytes.size(), bytes.size()), nullptr);
    EXPECT_NE(world.at(1).failure.find("no memory for a multicast of 1152921504606846976 bytes of rank 0"), std::string::npos)
        << world.at(1).failure;
    world.at(1).failure = "";
    void *cookie = world.arrive(0, 1, &message, sizeof message, bytes.data(), 10, bytes.size());
    world.at(1).engine->more(cookie, bytes.data() + 10, 90);
    EXPECT_NE(world.at(1).failure, "");
}
#endif

// From rank 0 to rank 1 of two hosts.
struct Crafted {
    WireHeader header;
    std::uint64_t word = 2;
    std::uint32_t order = 0, unused = 0;

    explicit Crafted(std::uint32_t size)
    {
        header.group = 7;
        header.flags = WireHeader::by_host;
        header.origin = 100;
        header.size = header.length = size;
        header.words = header.orders = 1;
    }
};

// Each is right but for one thing.
TEST(McastEngineGroups, WhatCannotBeIsDroppedAndCounted)
{
    World world(4, {0, 1, 1, 2}, 1);
    world.open_all();
    std::vector<std::byte> bytes(100);
    // As a whole and in parts.
    auto is_dropped = [&](auto change, std::size_t header_size = sizeof(Crafted), std::size_t total = 100) {
        bool all = true;
        for (std::size_t first : {total, total / 2}) {
            Crafted message(100);
            change(message);
            std::size_t before = world.at(1).drops;
            EXPECT_EQ(world.arrive(0, 1, &message, header_size, bytes.data(), first, total), nullptr);
            all = all && world.at(1).drops == before + 1;
        }
        return all;
    };
    using Header = WireHeader;
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.kind = static_cast<Header::Kind>(3); }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.kind = Header::Kind::ack; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.algorithm = static_cast<Algorithm>(4); }));
    for (int rank : {-1, 1, 4, INT32_MAX}) {
        EXPECT_TRUE(is_dropped([&](Crafted &m) { m.header.master = rank; })) << rank;
        EXPECT_TRUE(is_dropped([&](Crafted &m) { m.header.outbox = 4096, m.header.poster = rank; })) << rank;
        EXPECT_TRUE(is_dropped([&](Crafted &m) { m.header.flags |= Header::shared, m.header.owner = rank; }, sizeof(Crafted), 0)) << rank;
    }
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.flags |= Header::posted; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.flags |= Header::by_rank; }));     // 64 orders would be
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.flags |= Header::in_payload; }));  // 116 bytes would be
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.words = UINT32_MAX; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.words = 0; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.words = 2, m.header.orders = 0; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.orders = 0; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.orders = 2; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.orders = UINT32_MAX; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.word = 4; }));   // without rank 1
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.word = 18, m.header.orders = 2; }));  // with rank 4
    EXPECT_TRUE(is_dropped([](Crafted &) {}, sizeof(WireHeader)));
    EXPECT_TRUE(is_dropped([](Crafted &) {}, sizeof(Crafted), 99));
    EXPECT_TRUE(is_dropped([](Crafted &) {}, sizeof(Crafted), 101));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.offset = 1; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.offset = UINT64_MAX; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.size = 99; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.size = UINT64_MAX; }));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.header.length = 0; }, sizeof(Crafted), 0));
    EXPECT_TRUE(is_dropped([](Crafted &m) { m.order = UINT32_MAX; }));  // before the first
    expect_nothing_left(world);
    EXPECT_TRUE(world.wires.empty());
}

TEST(McastEngineGroups, WithoutHostsNobodyCountsByThem)
{
    World world(2, {}, 1);
    world.open_all();
    Crafted message(0);
    world.arrive(0, 1, &message, sizeof message, nullptr, 0, 0);
    EXPECT_EQ(world.at(1).drops, 1u);
}

// The second of the same kind is none: neither when the first is being received, nor when it has been.
TEST(McastEngineGroups, NoByteComesTwice)
{
    World world(2, {0, 1}, 1);
    world.open_all();
    std::vector<std::byte> bytes(100);
    Crafted message(100);
    message.header.length = 60;
    auto arrive = [&] {
        world.arrive(0, 1, &message, sizeof message, bytes.data(), message.header.length, message.header.length);
        return world.at(1).drops;
    };
    EXPECT_EQ(arrive(), 0u);
    EXPECT_EQ(arrive(), 1u);
    message.header.offset = 60;
    message.header.length = 40;
    message.header.serial = 1;  // of another multicast
    EXPECT_EQ(arrive(), 2u);
    message.header.serial = 0;
    void *cookie = world.arrive(0, 1, &message, sizeof message, bytes.data(), 10, 40);
    ASSERT_NE(cookie, nullptr);
    EXPECT_EQ(arrive(), 3u);  // it is coming already
    world.at(1).engine->more(cookie, bytes.data(), 30);
    Receive *receive = world.receive(1, 100);
    EXPECT_TRUE(receive->done);
    EXPECT_EQ(arrive(), 4u);
    expect_nothing_left(world);
}

TEST(McastEngineGroups, ABufferOfAGroupThatIsGoneIsTheUsersAgain)
{
    World world(2, {0, 1}, 1);
    world.open_all();
    Receive *receive = world.receive(1, 100);
    std::vector<std::byte> bytes(100, std::byte{1});
    Crafted message(100);
    void *cookie = world.arrive(0, 1, &message, sizeof message, bytes.data(), 10, 100);
    ASSERT_NE(cookie, nullptr);
    world.at(1).engine->close_group(world.at(1).group);
    world.open(1);
    world.at(1).engine->more(cookie, bytes.data(), 90);
    EXPECT_EQ(receive->buffer[9], std::byte{1});
    EXPECT_EQ(receive->buffer[10], std::byte{0});
    EXPECT_FALSE(receive->done);
}

// A message that is refused leaves no trace: it is not passed on, memory that it names is not given back, nobody looks where it says.
TEST(McastEngineGroups, WhatIsRefusedIsNotActedUpon)
{
    World world(3, {0, 0, 0}, 1);
    world.open_all();
    std::vector<std::byte> bytes(100);
    Crafted message(100);
    message.word = 6;
    message.header.orders = 2;
    message.header.fanout = 4;
    world.arrive(0, 1, &message, sizeof message, bytes.data(), 100, 100);
    ASSERT_EQ(world.at(1).drops, 0u);
    ASSERT_EQ(world.wires[std::pair(1, 2)].size(), 1u) << "this test tests something";

    auto block = new (world.at(0).allocate_shared(100 + sizeof(BlockHead))) BlockHead;
    block->readers = 1;
    message.header.outbox = reinterpret_cast<std::uint64_t>(world.at(0).make_outbox());
    world.arrive(0, 1, &message, sizeof message, bytes.data(), 100, 100);
    message.header.flags |= WireHeader::shared;
    message.header.address = reinterpret_cast<std::uint64_t>(block);
    world.arrive(0, 1, &message, sizeof message, nullptr, 0, 0);
    EXPECT_EQ(world.at(1).drops, 2u);
    EXPECT_EQ(world.wires[std::pair(1, 2)].size(), 1u);
    EXPECT_EQ(block->readers.load(), 1u);
    EXPECT_FALSE(world.at(1).watching);
    world.at(0).free_shared(block);
}

// However much it is: who has the communicator already may send what it likes.
TEST(McastEngineGroups, WhatWaitsForAGroupComesWhenItIsOpened)
{
    World world(2, {0, 1}, 1);
    constexpr std::size_t size = 16 << 20, count = 17;
    std::vector<std::byte> bytes(size);
    Crafted message(size);
    for (; message.order < count; ++message.order, ++message.header.serial)
        world.arrive(0, 1, &message, sizeof message, bytes.data(), size, size);
    world.open(1);
    for (std::size_t i = 0; i < count; ++i)
        EXPECT_TRUE(world.receive(1, 0)->done);
    EXPECT_EQ(world.at(1).drops, 0u);
    expect_nothing_left(world);
}

// It is for a communicator that was freed here before it came: nobody can want it.
TEST(McastEngineGroups, WhatComesForAGroupThatIsNoMoreIsDroppedAndCounted)
{
    World world(2, {0, 1}, 1);
    world.open_all();
    world.at(1).engine->close_group(world.at(1).group);
    world.at(1).is_making = false;
    std::vector<std::byte> bytes(100);
    Crafted message(100);
    EXPECT_EQ(world.arrive(0, 1, &message, sizeof message, bytes.data(), 100, 100), nullptr);
    EXPECT_EQ(world.at(1).drops, 1u);
    EXPECT_EQ(world.arrive(0, 1, &message, sizeof message, bytes.data(), 50, 100), nullptr);
    EXPECT_EQ(world.at(1).drops, 2u);
    // One that began to come before.
    world.at(1).is_making = true;
    void *cookie = world.arrive(0, 1, &message, sizeof message, bytes.data(), 50, 100);
    ASSERT_NE(cookie, nullptr);
    world.at(1).is_making = false;
    world.at(1).engine->more(cookie, bytes.data(), 50);
    EXPECT_EQ(world.at(1).drops, 3u);
    world.open(1);
    EXPECT_FALSE(world.receive(1, 100)->done);
}

// While one was being made, which turned out to be another, or none.
TEST(McastEngineGroups, WhatHasWaitedInVainIsDroppedAndCounted)
{
    World world(2, {0, 1}, 1);
    std::vector<std::byte> bytes(100);
    Crafted message(100);
    for (bool closed : {false, true}) {
        if (closed)
            world.open(1, 8);
        std::size_t before = world.at(1).drops;
        for (int i = 0; i < 3; ++i)
            world.arrive(0, 1, &message, sizeof message, bytes.data(), 100, 100);
        EXPECT_EQ(world.at(1).drops, before);
        world.at(1).is_making = false;
        if (closed)
            world.at(1).engine->close_group(world.at(1).group);
        else
            world.at(1).engine->attend(Time{});
        EXPECT_EQ(world.at(1).drops, before + 3);
        world.at(1).is_making = true;
    }
    world.open(1);
    EXPECT_FALSE(world.receive(1, 100)->done);
}

// None is forgotten without a word: somebody waits for it.
TEST(McastEngineGroups, TooManyAcknowledgementsOfWhatHasNotComeAreAnError)
{
    World world(2, {0, 1}, 1);
    world.open_all();
    world.at(1).may_fail = true;
    WireHeader ack;
    ack.kind = WireHeader::Kind::ack;
    for (ack.serial = 0; ack.serial < Engine::most_early_acks; ++ack.serial)
        world.arrive(0, 1, &ack, sizeof ack, nullptr, 0, 0);
    EXPECT_EQ(world.at(1).failure, "");
    world.arrive(0, 1, &ack, sizeof ack, nullptr, 0, 0);
    EXPECT_NE(world.at(1).failure.find("acknowledgements of 65536 multicasts that this process has not got"), std::string::npos)
        << world.at(1).failure;
    EXPECT_EQ(world.at(1).engine->unfinished(), Engine::most_early_acks);
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

// What is queued for it never leaves. What is queued for others does, and is the user's until then.
TEST(McastEngineGroups, WhatIsQueuedForAMemberThatHasEndedIsNotWaitedFor)
{
    using namespace std::chrono_literals;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        World world(4, {0, 0, 0, 1}, seed);
        world.blocks_limit = 0;
        world.open_all();
        world.ended = {1};
        Sent *sent = world.send(0, {1, 2, 3}, 1, 5000, 7, true);
        world.at(0).engine->attend(1s);
        world.at(0).engine->attend(10s);
        const bool waits = std::ranges::any_of(std::vector<int>{2, 3}, [&](int member) {
            return std::ranges::any_of(world.wires[{0, member}], [](const Message &message) { return message.waiting != nullptr; });
        });
        EXPECT_EQ(sent->done, !waits);
        std::erase_if(world.wires, [](const auto &wire) { return wire.second.empty(); });
        world.run();
        ASSERT_TRUE(sent->done);
        EXPECT_NE(sent->error.find("rank 1"), std::string::npos) << sent->error;
    }
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

// Who sends bytes to others while a multicast of rank 0 spreads, from which all members get what they should.
std::set<int> senders(World &world, const std::vector<int> &members, std::size_t size, bool delivered)
{
    std::set<int> found;
    Sent *sent = world.send(0, members, 1, size, size, delivered);
    do {
        for (const auto &wire : world.wires)
            for (const Message &message : wire.second)
                if (reinterpret_cast<const WireHeader *>(message.header.data())->kind == WireHeader::Kind::piece)
                    found.insert(wire.first.first);
    } while (world.step());
    EXPECT_TRUE(sent->done);
    for (int member : members)
        expect_pattern(*world.receive(member, size, 0), size, size);
    expect_nothing_left(world);
    return found;
}

TEST(McastEngineGroups, FewMembersAreToldByTheMasterItself)
{
    const Settings settings;
    for (std::uint64_t seed = 0; seed < 20; ++seed)
        for (bool delivered : {false, true}) {
            std::vector<int> hosts;
            for (int i = 0; i < 30; ++i)
                hosts.push_back(i % 5);
            World world(30, hosts, seed, settings);
            world.open_all();
            world.blocks_limit = seed % 3;
            const std::vector<int> few = {1, 3, 5, 6, 8, 10, 11, 13};
            // Twice: with messages, and with posts.
            for (int turn = 0; turn < 2; ++turn)
                for (std::size_t size : {std::size_t{0}, std::size_t{100}, settings.direct_limit})
                    EXPECT_EQ(senders(world, few, size, delivered), std::set<int>{0});
            EXPECT_NE(senders(world, few, settings.direct_limit + 1, delivered), std::set<int>{0});
            EXPECT_NE(senders(world, all_but(30, 0), 100, delivered), std::set<int>{0});
        }
}

TEST(McastEngineGroups, TheMasterLeadsTheChainOfOtherHosts)
{
    const Settings settings;
    for (std::uint64_t seed = 0; seed < 10; ++seed)
        for (bool delivered : {false, true}) {
            World world(9, {0, 0, 0, 1, 1, 2, 2, 3, 3}, seed, settings);
            world.open_all();
            world.blocks_limit = seed % 2 == 0 ? 1000 : 1;
            const std::size_t size = settings.thresholds.chain_limit * 5 + 1;
            const Sent *sent = world.send(0, all_but(9, 0), 1, size, 7, delivered);
            std::set<std::pair<int, int>> between;
            do {
                for (const auto &wire : world.wires)
                    for (const Message &message : wire.second)
                        if (reinterpret_cast<const WireHeader *>(message.header.data())->kind == WireHeader::Kind::piece &&
                            world.host(wire.first.first) != world.host(wire.first.second))
                            between.insert(wire.first);
            } while (world.step());
            EXPECT_TRUE(sent->done);
            EXPECT_EQ(between, (std::set<std::pair<int, int>>{{0, 3}, {3, 5}, {5, 7}}));
            for (int member : all_but(9, 0))
                expect_pattern(*world.receive(member, size, 0), 7, size);
            expect_nothing_left(world);
        }
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

// ---- posts ----

// All of them have heard of it once, so that the next ones are posted.
void acquaint(World &world, int master, const std::vector<int> &members)
{
    std::vector<Receive *> receives;
    for (int member : members)
        receives.push_back(world.receive(member, 10, master));
    world.send(master, members, 0, 10, 1);
    world.run();
    for (Receive *receive : receives)
        expect_pattern(*receive, 1, 10);
    for (auto &node : world.nodes)
        node->nudges = 0;
}

TEST(McastEnginePosts, AfterTheFirstOneNobodyOnTheHostNeedsAMessage)
{
    for (std::size_t size : {0u, 8u, 1500u, 3000u, 9000u, 700'000u}) {
        World world(9, {0, 0, 0, 0, 0, 0, 0, 0, 0}, size);
        world.open_all();
        acquaint(world, 3, all_but(9, 3));
        for (bool delivered : {false, true}) {
            Sent *sent = world.send(3, {1, 2, 5, 8}, 4, size, 6, delivered);
            EXPECT_TRUE(world.wires.empty());
            EXPECT_EQ(sent->done, !delivered);
            EXPECT_EQ(world.at(1).nudges, 1u) << "the first one";
            world.run();
            EXPECT_TRUE(sent->done);
            for (int member : {1, 2, 5, 8})
                expect_pattern(*world.receive(member, size, 3, 4), 6, size);
            for (int other : {0, 4, 6, 7})
                EXPECT_EQ(world.at(other).nudges, 0u);
            for (auto &node : world.nodes)
                node->nudges = 0;
        }
        expect_nothing_left(world);
    }
}

// The leader of another host posts there what it gets by a message.
TEST(McastEnginePosts, OneMessageForEachOtherHost)
{
    Settings settings;
    settings.direct_members = 10;
    World world(12, {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}, 5, settings);
    world.late = false;
    world.open_all();
    acquaint(world, 0, all_but(12, 0));
    world.send(0, all_but(12, 0), 4, 200, 6);
    std::set<std::pair<int, int>> wires;
    do {
        for (const auto &wire : world.wires)
            wires.insert(wire.first);
    } while (world.step());
    EXPECT_EQ(wires.size(), 2u);
    for (auto [from, to] : wires)
        EXPECT_NE(world.host(from), world.host(to));
    for (int member : all_but(12, 0))
        expect_pattern(*world.receive(member, 200, 0, 4), 6, 200);
}

TEST(McastEnginePosts, AMemberThatDoesNotLookMissesNothing)
{
    for (std::size_t size : {20u, 5000u}) {
        World world(4, {0, 0, 0, 0}, 9);
        world.open_all();
        acquaint(world, 0, {1, 2, 3});
        for (std::uint64_t i = 0; i < 100; ++i) {
            world.send(0, {1, 2, 3}, 5, size, i);
            world.look(1);
            world.look(2);
        }
        EXPECT_FALSE(world.wires.empty()) << "those for which there was no slot";
        world.run();
        for (int member : {3, 2, 1})
            for (std::uint64_t i = 0; i < 100; ++i)
                expect_pattern(*world.receive(member, size, 0, 5), i, size);
        world.run();
        expect_nothing_left(world);
    }
}

// Those who are not meant may look at any time, or never: their slots are used again.
TEST(McastEnginePosts, OthersHoldNobodyUp)
{
    World world(4, {0, 0, 0, 0}, 9);
    world.open_all();
    acquaint(world, 0, {1, 2, 3});
    for (std::uint64_t i = 0; i < 200; ++i) {
        world.at(2).awake = false;
        world.send(0, {1}, 5, 8, i);
        world.look(1);
        ASSERT_TRUE(world.wires.empty()) << i;
        expect_pattern(*world.receive(1, 8, 0, 5), i, 8);
        if (i == 150)
            world.look(3);
    }
    world.send(0, {1, 2, 3}, 5, 8, 1);
    EXPECT_TRUE(world.wires.empty());
    for (int member : {1, 2, 3}) {
        world.look(member);
        expect_pattern(*world.receive(member, 8, 0, 5), 1, 8);
    }
}

// Of ids all 32 bits count: MPICH may be built with more than 16.
TEST(McastEngineGroups, LongIdsAreTwo)
{
    World world(2, {0, 1}, 1);
    world.open_all(7);
    pm_group *first = world.at(1).group;
    world.open_all(0x10007);
    world.send(0, {1}, 3, 40, 77);
    world.run();
    int source, tag;
    std::size_t size;
    EXPECT_FALSE(world.at(1).engine->probe(first, PM_ANY, 3, &source, &tag, &size));
    expect_pattern(*world.receive(1, 40), 77, 40);
}

// The outbox of a group that the master has closed is given to another one, while members still have the first.
TEST(McastEnginePosts, AnOutboxIsUsedForAnotherGroup)
{
    World world(3, {0, 0, 0}, 2);
    world.late = false;
    world.outboxes_limit = 1;
    world.open_all(7);
    acquaint(world, 0, {1, 2});
    std::vector<pm_group *> first{world.at(0).group, world.at(1).group, world.at(2).group};
    Sent *late = world.send(0, {1, 2}, 3, 40, 77);
    EXPECT_TRUE(late->done);
    world.at(0).engine->close_group(first[0]);
    world.open_all(8);
    for (int i = 0; i < 40; ++i) {  // with both groups open
        Receive *one = world.receive(1, 10, 0), *two = world.receive(2, 10, 0);
        world.send(0, {1, 2}, 0, 10, 5);
        EXPECT_EQ(world.wires.empty(), i > 0);
        world.run();
        expect_pattern(*one, 5, 10);
        expect_pattern(*two, 5, 10);
        int source, tag;
        std::size_t size;
        EXPECT_FALSE(world.at(1).engine->probe(first[1], PM_ANY, 0, &source, &tag, &size)) << "of the other group";
        for (auto &slot : world.at(0).made.front()->slot)
            ASSERT_EQ(slot.unread.load(), 0u) << "read by those of one group only";
    }
    // What was posted before is still there for those who receive it, and no trouble for the one who does not.
    Receive received{1, std::vector<std::byte>(40), std::vector<std::uint64_t>(1)};
    world.at(1).engine->receive(first[1], received.buffer.data(), 40, 0, 3, received.members.data(), &received);
    expect_pattern(received, 77, 40);
    world.at(1).engine->close_group(first[1]);
    world.at(2).engine->close_group(first[2]);
    EXPECT_TRUE(world.at(1).watching);
    for (int node : {0, 1, 2})
        world.at(node).engine->close_group(world.at(node).group);
    EXPECT_FALSE(world.at(1).watching);
}

// Blocks and slots of what is never received are free again.
TEST(McastEnginePosts, AGroupThatIsClosedKeepsNothing)
{
    World world(3, {0, 0, 0}, 2);
    world.open_all();
    acquaint(world, 0, {1, 2});
    for (int i = 0; i < 10; ++i)
        world.send(0, {1, 2}, 3, i % 2 == 0 ? 10 : 10'000, 77);
    world.look(2);
    EXPECT_GT(world.at(0).engine->lent(), 0u);
    for (int node : {1, 2, 0}) {
        world.at(node).engine->close_group(world.at(node).group);
        EXPECT_EQ(world.at(node).drops, 0u) << "it was all in order";
    }
    EXPECT_EQ(world.at(0).engine->lent(), 0u);
    for (auto &slot : world.at(0).made.front()->slot)
        EXPECT_EQ(slot.unread.load(), 0u);
}

// Its owner may write anything there: what cannot be is dropped, and its slot is free.
TEST(McastEnginePosts, APostThatCannotBeIsDroppedAndItsSlotIsFree)
{
    World world(3, {0, 0, 0}, 2);
    world.open_all();
    acquaint(world, 0, {1, 2});
    using Change = void (*)(WireHeader &);
    for (Change change : {Change([](WireHeader &header) { header.offset = header.size + 1; }), Change([](WireHeader &header) { header.length = 0; }),
                          Change([](WireHeader &header) { header.size = header.length - 1; }), Change([](WireHeader &header) { header.size = ~std::uint64_t{0}; }),
                          Change([](WireHeader &header) { header.poster = 2; }), Change([](WireHeader &header) { header.length = 2000; })}) {
        world.send(0, {1, 2}, 3, 10, 77);
        Outbox &outbox = *world.at(0).made.front();
        Outbox::Slot &slot = outbox.of(outbox.count());
        ASSERT_EQ(slot.unread.load(), 2u);
        WireHeader header;
        std::memcpy(&header, slot.message, sizeof header);
        change(header);
        std::memcpy(slot.message, &header, sizeof header);
        for (int node : {1, 2}) {
            const std::size_t drops = world.at(node).drops;
            world.look(node);
            EXPECT_EQ(world.at(node).drops, drops + 1);
        }
        EXPECT_EQ(slot.unread.load(), 0u);
    }
}

// So many members that their list alone fills a slot.
TEST(McastEnginePosts, AListMayBeTooLong)
{
    for (int ranks : {300, 450, 1000}) {
        std::vector<int> hosts(static_cast<std::size_t>(ranks));
        for (std::size_t i = 0; i < hosts.size(); ++i)
            hosts[i] = static_cast<int>(i % 2);
        World world(ranks, hosts, 2);
        world.late = false;
        world.open_all();
        for (std::uint64_t i = 0; i < 3; ++i)
            for (std::size_t size : {10u, 9000u}) {
                world.send(0, all_but(ranks, 0), 3, size, i);
                world.run();
                for (int member : all_but(ranks, 0))
                    expect_pattern(*world.receive(member, size), i, size);
                world.receives.clear();
            }
        EXPECT_EQ(world.posts_read > 0, ranks == 300);
        expect_nothing_left(world);
    }
}

// One neighbour shares memory with all, but they do not with each other.
TEST(McastEnginePosts, OnlyWhereEverybodyOfAHostSharesMemory)
{
    World world(4, {0, 0, 0, 1}, 3);
    world.shares_with = [](int a, int b) { return a != 3 && b != 3 && (a == 0 || b == 0); };
    world.open_all();
    for (int i = 0; i < 5; ++i) {
        acquaint(world, 0, {1});
        acquaint(world, 0, {2});
        acquaint(world, 0, {1, 2, 3});
    }
    int source, tag;
    std::size_t size;
    for (int member : {1, 2, 3})
        EXPECT_FALSE(world.at(member).engine->probe(world.at(member).group, PM_ANY, PM_ANY, &source, &tag, &size));
    EXPECT_EQ(world.posts_read, 0u);
    expect_nothing_left(world);
}

TEST(McastEnginePosts, WhatIsPostedWholeIsCutForANetwork)
{
    Settings settings = with(Algorithm::binomial);
    settings.block = 50'000;
    World world(4, {0, 0, 1, 1}, 3, settings);
    world.late = false;
    world.open_all();
    acquaint(world, 0, {1, 2, 3});
    world.send(0, {1, 2, 3}, 3, 50'000, 9);
    std::size_t largest = 0;
    do {
        for (const auto &wire : world.wires)
            for (const Message &message : wire.second)
                largest = std::max(largest, message.data.size());
    } while (world.step());
    EXPECT_EQ(largest, settings.piece);
    for (int member : {1, 2, 3})
        expect_pattern(*world.receive(member, 50'000, 0, 3), 9, 50'000);
    expect_nothing_left(world);
}

TEST(McastEnginePosts, WithoutMemoryForAnOutboxMessagesAreSent)
{
    World world(4, {0, 0, 0, 0}, 2);
    world.outboxes_limit = 0;
    world.open_all();
    for (std::uint64_t i = 0; i < 5; ++i) {
        world.send(0, {1, 3}, 3, 10, i);
        EXPECT_FALSE(world.wires.empty());
        world.run();
        expect_pattern(*world.receive(1, 10), i, 10);
        expect_pattern(*world.receive(3, 10), i, 10);
    }
    EXPECT_FALSE(world.at(1).watching);
}

}  // namespace
}  // namespace pm::coll
