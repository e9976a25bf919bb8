// The barrier engine in a simulated job: ranks on hosts, boards that the ranks of a host share, messages that are in order between
// two ranks and otherwise as late as a seed says.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <vector>

#include "coll/barrier/engine.h"
#include "support/wires.h"

namespace pm::coll {
namespace {

// A peer is the place of a rank's number.
int rank_of(const pm_peer *peer)
{
    return *reinterpret_cast<const int *>(peer);
}

struct Shape {
    int ranks;
    int ranks_per_host;
    bool shared;
};

class Job {
  public:
    explicit Job(const Shape &shape, unsigned seed = 1) : shape_(shape), random_(seed)
    {
        for (int rank = 0; rank < shape.ranks; ++rank) {
            peers_.push_back(rank);
            nodes_.push_back(std::make_unique<Node>(*this, rank));
        }
        flags_.resize(static_cast<std::size_t>(shape.ranks));
    }

    void open(std::uint32_t id)
    {
        for (auto &node : nodes_)
            node->engine.open({id, shape_.ranks, node->rank, this, peer_of, host_of});
    }
    void close(std::uint32_t id, int rank) { node(rank).engine.close(id); }

    volatile int *start(int rank, std::uint32_t id = 1)
    {
        auto &flags = flags_[static_cast<std::size_t>(rank)];
        flags.push_back(std::make_unique<int>(7));
        node(rank).engine.start(id, flags.back().get(), nullptr);
        return flags.back().get();
    }
    int started(int rank) const { return static_cast<int>(flags_[static_cast<std::size_t>(rank)].size()); }
    int least_started() const
    {
        int least = started(0);
        for (int rank = 1; rank < shape_.ranks; ++rank)
            least = std::min(least, started(rank));
        return least;
    }
    // Completed ones come first; none is complete that somebody has not started.
    void check(int rank) const
    {
        const auto &flags = flags_[static_cast<std::size_t>(rank)];
        const auto least = static_cast<std::size_t>(least_started());
        bool ended = false;
        for (std::size_t i = 0; i < flags.size(); ++i) {
            ASSERT_TRUE(*flags[i] == 0 || *flags[i] == 1);
            ASSERT_FALSE(ended && *flags[i] == 1) << "rank " << rank << ": barrier " << i << " overtook another";
            ended = *flags[i] == 0;
            ASSERT_FALSE(*flags[i] == 1 && i >= least) << "rank " << rank << ": barrier " << i << " ended too early";
        }
    }
    bool deliver_one()
    {
        auto taken = network_.take_one(random_);
        if (!taken)
            return false;
        auto [from, to] = taken->first;
        deliver(from, to, taken->second);
        rung.insert(to);  // a message wakes, too
        return true;
    }
    void deliver(int from, int to, const BarrierMessage &message) { node(to).engine.on_message(peer_of(this, from), message); }
    void poll(int rank)
    {
        node(rank).engine.poll();
        check(rank);
    }
    void poll_rung()
    {
        auto which = rung.begin();
        std::advance(which, random(static_cast<unsigned>(rung.size())));
        int rank = *which;
        rung.erase(which);
        poll(rank);
    }
    // Until nothing changes any more.
    void settle()
    {
        for (int quiet = 0; quiet < 3;) {
            bool something = deliver_one();
            for (int rank = 0; rank < shape_.ranks; ++rank) {
                std::size_t before = node(rank).engine.in_flight();
                poll(rank);
                something = something || node(rank).engine.in_flight() != before;
            }
            quiet = something ? 0 : quiet + 1;
        }
    }
    std::size_t in_flight() const
    {
        std::size_t count = 0;
        for (const auto &node : nodes_)
            count += node->engine.in_flight();
        return count;
    }
    BarrierEngine &engine(int rank) { return node(rank).engine; }
    unsigned random(unsigned below) { return static_cast<unsigned>(random_() % below); }
    std::size_t messages = 0, dropped = 0;
    std::set<int> rung, dead;
    std::string failure;

  private:
    static pm_peer *peer_of(void *context, int rank)
    {
        return reinterpret_cast<pm_peer *>(&static_cast<Job *>(context)->peers_[static_cast<std::size_t>(rank)]);
    }
    static int host_of(void *context, int rank) { return rank / static_cast<Job *>(context)->shape_.ranks_per_host; }

    struct Node : BarrierTransport {
        Node(Job &job, int rank) : job(job), rank(rank), engine(*this, [](void *cookie) { ++*static_cast<int *>(cookie); }) {}
        bool send(pm_peer *peer, const BarrierMessage &message) override
        {
            EXPECT_NE(rank_of(peer), rank);
            job.network_[{rank, rank_of(peer)}].push_back(message);
            ++job.messages;
            return true;
        }
        bool on_host(const pm_peer *peer) override
        {
            return job.shape_.shared && rank_of(peer) / job.shape_.ranks_per_host == rank / job.shape_.ranks_per_host;
        }
        bool has_ended(const pm_peer *peer) override { return job.dead.contains(rank_of(peer)); }
        void ring(pm_peer *peer) override
        {
            EXPECT_TRUE(on_host(peer));
            job.rung.insert(rank_of(peer));
        }
        void nudge(pm_peer *peer) override { ring(peer); }
        BarrierBoard *make_board() override
        {
            if (spare != nullptr)
                return std::exchange(spare, nullptr);
            boards.push_back(std::make_unique<BarrierBoard>());
            return boards.back().get();
        }
        void free_board(BarrierBoard *board) override { spare = board; }
        BarrierBoard *view(pm_peer *, std::uint64_t address) override { return reinterpret_cast<BarrierBoard *>(address); }
        void dropped(const pm_peer *) override { job.dropped++; }
        void failed(const std::string &text) override { job.failure = text; }

        Job &job;
        int rank;
        BarrierBoard *spare = nullptr;
        std::vector<std::unique_ptr<BarrierBoard>> boards;
        BarrierEngine engine;
    };
    Node &node(int rank) { return *nodes_[static_cast<std::size_t>(rank)]; }

    Shape shape_;
    std::mt19937 random_;
    std::vector<int> peers_;
    test::Wires<BarrierMessage> network_;
    std::vector<std::vector<std::unique_ptr<int>>> flags_;
    std::vector<std::unique_ptr<Node>> nodes_;
};

class BarrierEngines : public testing::TestWithParam<Shape> {};

TEST_P(BarrierEngines, OneAtATimeEndsWhenTheLastHasStarted)
{
    Job job(GetParam());
    job.open(1);
    for (int round = 0; round < 70; ++round) {
        int last = round % GetParam().ranks;
        for (int rank = 0; rank < GetParam().ranks; ++rank)
            if (rank != last)
                job.start(rank);
        job.settle();
        ASSERT_EQ(job.in_flight(), static_cast<std::size_t>(GetParam().ranks - 1));
        job.start(last);
        job.settle();
        ASSERT_EQ(job.in_flight(), 0u);
    }
}

TEST_P(BarrierEngines, ManyInFlightWithRandomSkew)
{
    for (unsigned seed = 1; seed <= 15; ++seed) {
        Job job(GetParam(), seed);
        const int total = 100;
        bool opened = false;
        for (int left = total * GetParam().ranks; left > 0;) {
            int rank = static_cast<int>(job.random(static_cast<unsigned>(GetParam().ranks)));
            if (!opened) {
                job.open(1);
                opened = true;
            }
            if (job.started(rank) < total && job.started(rank) < job.least_started() + 64 && job.random(3) != 0) {
                job.start(rank);
                job.check(rank);
                --left;
            }
            if (job.random(2) == 0)
                job.deliver_one();
            if (job.random(2) == 0)
                job.poll(rank);
        }
        job.settle();
        ASSERT_EQ(job.in_flight(), 0u) << "seed " << seed;
        ASSERT_EQ(job.failure, "");
    }
}

// Whoever sleeps is woken by a message or a ring, and by nothing else.
TEST_P(BarrierEngines, NobodyLooksWithoutBeingTold)
{
    for (unsigned seed = 1; seed <= 15; ++seed) {
        Job job(GetParam(), seed);
        job.open(1);
        const int total = 40;
        for (int left = total * GetParam().ranks; left > 0;) {
            int rank = static_cast<int>(job.random(static_cast<unsigned>(GetParam().ranks)));
            if (job.started(rank) < total && job.started(rank) < job.least_started() + 30) {
                job.start(rank);
                --left;
            }
            if (job.random(2) == 0)
                job.deliver_one();
            if (!job.rung.empty() && job.random(2) == 0)
                job.poll_rung();
        }
        while (job.deliver_one() || !job.rung.empty())
            if (!job.rung.empty())
                job.poll_rung();
        ASSERT_EQ(job.in_flight(), 0u) << "seed " << seed;
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, BarrierEngines,
                         testing::Values(Shape{1, 1, true}, Shape{2, 2, true}, Shape{3, 3, true}, Shape{5, 5, false}, Shape{9, 9, true},
                                         Shape{2, 1, true}, Shape{3, 1, true}, Shape{7, 1, true}, Shape{9, 2, true}, Shape{9, 2, false},
                                         Shape{16, 4, true}, Shape{16, 3, true},
                                         // more hosts than one is the hub of
                                         Shape{9, 1, true}, Shape{16, 1, true}, Shape{32, 2, true}, Shape{33, 3, false}, Shape{33, 3, true}),
                         [](const auto &info) {
                             return std::to_string(info.param.ranks) + "_by_" + std::to_string(info.param.ranks_per_host) +
                                    (info.param.shared ? "_shared" : "");
                         });

TEST(BarrierEngine, EachIsToldWhenItIsStarted)
{
    Job job({2, 1, true});
    job.open(1);
    for (std::size_t i = 1; i <= 8; ++i) {
        job.start(1);
        EXPECT_EQ(job.messages, i) << "the rank may compute next";
    }
    job.settle();
    for (std::size_t i = 1; i <= 8; ++i) {
        job.start(0);
        EXPECT_EQ(job.messages, 8 + i) << "the hub has heard of it";
    }
    job.settle();
    EXPECT_EQ(job.in_flight(), 0u);
    EXPECT_EQ(job.messages, 16u);
}

// Two messages for every host but one, or the rounds of a dissemination.
TEST(BarrierEngine, HowManyMessages)
{
    for (auto [hosts, most] : {std::pair{2, 2}, {4, 6}, {5, 8}, {8, 14}, {9, 36}, {16, 64}, {20, 100}}) {
        Job job({hosts, 1, true});
        job.open(1);
        for (int rank = 0; rank < hosts; ++rank)
            job.start(rank);
        job.settle();
        EXPECT_EQ(job.in_flight(), 0u);
        EXPECT_EQ(job.messages, static_cast<std::size_t>(most)) << hosts << " hosts";
    }
}

// Neither waits for an answer: what the other one tells is all that it has to hear.
TEST(BarrierEngine, TwoHostsTellEachOtherAtOnce)
{
    Job job({2, 1, true});
    job.open(1);
    job.start(0);
    job.start(1);
    EXPECT_EQ(job.messages, 2u);
    for (std::size_t left : {1u, 0u}) {
        ASSERT_TRUE(job.deliver_one());
        job.poll(0);
        job.poll(1);
        EXPECT_EQ(job.in_flight(), left);
    }
    EXPECT_EQ(job.messages, 2u);
}

TEST(BarrierEngine, OnAHostTheLastOneRingsAllOthers)
{
    Job job({3, 3, true});
    job.open(1);
    for (int rank = 0; rank < 3; ++rank)
        job.start(rank);
    job.settle();
    job.rung.clear();
    std::size_t before = job.messages;
    job.start(1);
    job.start(0);
    EXPECT_TRUE(job.rung.empty());
    job.start(2);
    EXPECT_EQ(job.rung, (std::set<int>{0, 1}));
    EXPECT_EQ(job.engine(2).in_flight(), 0u);  // the last one is through at once
    job.settle();
    EXPECT_EQ(job.messages, before);
}

TEST(BarrierEngine, ABoardIsUsedAgainBeforeASlowRankHasSeenItsLastBarrier)
{
    Job job({2, 2, true});
    job.open(1);
    job.start(0);
    while (job.deliver_one()) {
    }
    volatile int *slow = job.start(1);  // the last to arrive: through
    EXPECT_EQ(*slow, 1);
    volatile int *slower = job.start(0);
    job.start(1);  // rank 0 does not poll
    EXPECT_EQ(*slower, 0);
    job.close(1, 1);
    job.open(2);
    volatile int *other = job.start(1, 2);
    job.poll(0);
    EXPECT_EQ(*slower, 1);
    EXPECT_EQ(*other, 0);
    job.close(1, 0);
    volatile int *last = job.start(0, 2);
    while (job.deliver_one()) {
    }
    job.engine(1).poll();
    job.engine(0).poll();
    job.engine(1).poll();
    EXPECT_EQ(*other, 1);
    EXPECT_EQ(*last, 1);
}

// It counts on behind what two ranks, who do not count, have said there.
TEST(BarrierEngine, TwoRanksUseABoardAgain)
{
    Job job({2, 2, true});
    for (std::uint32_t id = 1; id <= 3; ++id) {
        job.open(id);
        for (int last : {1, 0, 1}) {
            volatile int *first = job.start(1 - last, id);
            job.settle();
            ASSERT_EQ(*first, 0);
            volatile int *second = job.start(last, id);
            job.settle();
            ASSERT_EQ(*first, 1);
            ASSERT_EQ(*second, 1);
        }
        job.close(id, 1);
        job.close(id, 0);
    }
}

TEST(BarrierEngine, OfTwoTheSecondRingsTheFirst)
{
    Job job({2, 2, true});
    job.open(1);
    for (int rank = 0; rank < 2; ++rank)
        job.start(rank);
    job.settle();
    job.rung.clear();
    job.start(0);
    job.start(0);
    EXPECT_TRUE(job.rung.empty());
    job.start(1);
    EXPECT_EQ(job.rung, (std::set<int>{0}));
    EXPECT_EQ(job.engine(1).in_flight(), 0u);
}

TEST(BarrierEngine, APollSaysThatSomebodyOfTheHostHasCome)
{
    Job job({3, 3, true});
    job.open(1);
    for (int rank = 0; rank < 3; ++rank)
        job.start(rank);
    job.settle();  // where the board is, everybody knows from now on
    for (int barrier = 0; barrier < 3; ++barrier) {
        job.start(0);
        while (job.engine(0).poll()) {
        }
        job.start(1);
        EXPECT_TRUE(job.engine(0).poll()) << "who waits does not sleep yet";
        EXPECT_FALSE(job.engine(0).poll());
        job.start(2);
        job.settle();
        ASSERT_EQ(job.engine(0).in_flight(), 0u);
    }
}

TEST(BarrierEngine, WhatCannotBeIsDroppedAndCounted)
{
    using Kind = BarrierMessage::Kind;
    Job job({4, 2, true});
    job.open(1);
    auto is_dropped = [&](int from, int to, const BarrierMessage &message) {
        std::size_t before = job.dropped;
        job.deliver(from, to, message);
        return job.dropped == before + 1;
    };
    EXPECT_TRUE(is_dropped(0, 1, {1, static_cast<Kind>(4), 0, 0, 1, 0}));
    for (int from : {-1, 1, 2, 4, 1 << 30})  // not its sender, who is 0
        EXPECT_TRUE(is_dropped(0, 1, {1, Kind::arrived, 0, from, 1, 0})) << from;
    EXPECT_TRUE(is_dropped(0, 2, {1, Kind::round, 32, 0, 1, 0}));
    EXPECT_TRUE(is_dropped(0, 2, {1, Kind::round, 255, 0, 1, 0}));
    EXPECT_TRUE(is_dropped(0, 1, {1, Kind::done, 0, 0, 1, 0}));  // before it has begun
    EXPECT_TRUE(is_dropped(0, 2, {9, Kind::round, 200, 0, 1, 0}));  // of a group that is not open
    // The leader's board is believed, no other one, however early it is.
    EXPECT_TRUE(is_dropped(2, 1, {1, Kind::board, 0, 2, 4096, 0}));
    EXPECT_TRUE(is_dropped(1, 0, {1, Kind::board, 0, 1, 4096, 0}));
    std::vector<volatile int *> flags;
    for (int rank = 0; rank < 4; ++rank)
        flags.push_back(job.start(rank));
    job.settle();
    for (volatile int *flag : flags)
        EXPECT_EQ(*flag, 1);
    EXPECT_EQ(job.failure, "");
}

TEST(BarrierEngine, WhatComesBeforeTheGroupIsKeptOncePerSender)
{
    Job job({2, 1, true});
    for (std::uint64_t number = 1; number <= 1000; ++number)
        job.deliver(0, 1, {1, BarrierMessage::Kind::round, 0, 0, number, 0});
    job.deliver(0, 1, {1, BarrierMessage::Kind::arrived, 0, 7, 1, 0});
    EXPECT_EQ(job.dropped, 0u);
    job.open(1);
    EXPECT_EQ(job.dropped, 1u);  // there is no rank 7
    volatile int *flag = job.start(1);
    EXPECT_EQ(*flag, 1);
}

TEST(BarrierEngine, ARankThatHasEndedIsNamed)
{
    Job job({3, 3, true});
    job.open(1);
    job.start(0);
    job.engine(0).attend();
    EXPECT_EQ(job.failure, "");
    job.dead.insert(2);
    job.engine(0).attend();
    EXPECT_NE(job.failure.find("rank 2 has ended"), std::string::npos) << job.failure;
}

// Of ids all 32 bits count: MPICH may be built with more than 16.
TEST(BarrierEngine, LongIdsAreTwo)
{
    Job job({2, 1, false});
    job.open(1);
    job.open(0x10001);
    job.start(0, 1);
    job.start(1, 0x10001);
    job.settle();
    EXPECT_EQ(job.in_flight(), 2u);
}

TEST(BarrierEngine, AFlagInFlightIsKnown)
{
    Job job({2, 2, true});
    job.open(1);
    volatile int *flag = job.start(0);
    EXPECT_TRUE(job.engine(0).is_in_flight(1, flag));
    job.start(1);
    job.settle();
    EXPECT_FALSE(job.engine(0).is_in_flight(1, flag));
}

}  // namespace
}  // namespace pm::coll
