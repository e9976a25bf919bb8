// The engine of notified writes in a simulated job: ranks that see each other's memory or do not, messages that are in order
// between two ranks, in pieces, and otherwise as late as a seed says.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "base/tuning.h"
#include "coll/window/engine.h"
#include "coll/window/one_sided.h"
#include "support/wires.h"

namespace pm::coll {
namespace {

// A peer is the place of a rank's number.
int rank_of(const pm_peer *peer)
{
    return *reinterpret_cast<const int *>(peer);
}

class Job {
  public:
    static constexpr std::size_t bytes = 4096;
    explicit Job(int ranks, bool direct = false, unsigned seed = 1) : direct_(direct), random_(seed)
    {
        for (int rank = 0; rank < ranks; ++rank) {
            peers_.push_back(rank);
            nodes_.push_back(std::make_unique<Node>(*this, rank));
        }
        std::vector<std::array<std::byte, PM_WINDOW_CARD>> cards(nodes_.size());
        for (auto &node : nodes_)
            node->window = node->engine.open({77, ranks, node->rank, node->memory.data(), bytes, 1, this, peer_of, memory_of, 0, 0},
                                             cards[static_cast<std::size_t>(node->rank)].data());
        for (auto &node : nodes_)
            for (int rank = 0; rank < ranks; ++rank)
                node->engine.meet(node->window, rank, cards[static_cast<std::size_t>(rank)].data());
    }

    WindowEngine &engine(int rank) { return node(rank).engine; }
    pm_window *window(int rank) { return node(rank).window; }
    std::byte *memory(int rank) { return node(rank).memory.data(); }
    int word(int rank, std::size_t offset)
    {
        int value;
        std::memcpy(&value, memory(rank) + offset, sizeof value);
        return value;
    }

    // As the glue does it.
    void put(int origin, int target, std::uint64_t offset, const void *data, std::size_t size, const pm_after &after)
    {
        if (!engine(origin).store(window(origin), target, offset, data, size, after)) {
            ASSERT_EQ(engine(origin).put(window(origin), target, offset, data, size, after), PM_OK);
        }
    }
    bool deliver_one()
    {
        auto taken = network_.take_one(random_);
        if (!taken)
            return false;
        auto &[way, message] = *taken;
        Node &to = node(way.second);
        std::size_t total = message.data.size();
        std::size_t first = total > 8 && random_() % 2 == 0 ? random_() % total : total;
        if (void *cookie = arrive(way.first, to, &message.header, message.data.data(), first, total)) {
            if (random_() % 2 == 0) {
                to.engine.more(cookie, message.data.data() + first, total - first);
            } else {
                std::memcpy(static_cast<std::byte *>(to.engine.place(cookie)) + first, message.data.data() + first, total - first);
                to.engine.placed(cookie);
            }
        }
        if (message.cookie != nullptr)
            node(way.first).engine.taken(message.cookie);
        return true;
    }
    void *arrive(int from, int to, WindowMessage message, const void *data, std::size_t first, std::size_t total)
    {
        return arrive(from, node(to), &message, data, first, total);
    }
    void deliver_all()
    {
        while (deliver_one()) {
        }
    }
    unsigned random(unsigned below) { return static_cast<unsigned>(random_() % below); }
    std::size_t waiting(int from, int to) { return network_[{from, to}].size(); }

    std::set<int> rung, nudged;
    std::size_t dropped = 0;
    std::string failure;
    bool broken = false;

  private:
    struct Message {
        WindowMessage header;
        std::vector<std::byte> data;
        void *cookie;
    };
    static pm_peer *peer_of(void *context, int rank)
    {
        return reinterpret_cast<pm_peer *>(&static_cast<Job *>(context)->peers_[static_cast<std::size_t>(rank)]);
    }
    static void *memory_of(void *context, int rank, std::uint64_t, std::uint64_t)
    {
        auto job = static_cast<Job *>(context);
        return job->direct_ ? job->memory(rank) : nullptr;
    }
    struct Node : WindowTransport {
        Node(Job &job, int rank) : job(job), rank(rank), memory(bytes), engine(*this) {}
        int send(pm_peer *peer, const WindowMessage &message, const void *data, std::size_t size, void *cookie) override
        {
            EXPECT_NE(rank_of(peer), rank);
            if (job.broken)
                return PM_FAILED;
            Message sent{message, std::vector<std::byte>(size), nullptr};
            if (size != 0)
                std::memcpy(sent.data.data(), data, size);
            bool queued = job.random(2) == 0;
            sent.cookie = queued ? cookie : nullptr;
            job.network_[{rank, rank_of(peer)}].push_back(std::move(sent));
            return queued ? PM_QUEUED : PM_OK;
        }
        void ring(pm_peer *peer) override { job.rung.insert(rank_of(peer)); }
        void nudge(pm_peer *peer) override { job.nudged.insert(rank_of(peer)); }
        WindowBoard *make_board() override
        {
            if (!job.direct_)
                return nullptr;
            boards.push_back(std::make_unique<WindowBoard>());
            return boards.back().get();
        }
        void free_board(WindowBoard *) override {}
        WindowBoard *view(pm_peer *, std::uint64_t address) override { return reinterpret_cast<WindowBoard *>(address); }
        std::uint64_t mailboxes() override { return 0; }
        void dropped(const pm_peer *) override { job.dropped++; }
        void failed(const std::string &text) override { job.failure = text.empty() ? "send" : text; }

        Job &job;
        int rank;
        std::vector<std::byte> memory;
        std::vector<std::unique_ptr<WindowBoard>> boards;
        WindowEngine engine;
        pm_window *window = nullptr;
    };
    Node &node(int rank) { return *nodes_[static_cast<std::size_t>(rank)]; }
    void *arrive(int from, Node &to, WindowMessage *message, const void *data, std::size_t first, std::size_t total)
    {
        return to.engine.arrived({peer_of(this, from), message, sizeof *message, 0}, data, first, total);
    }

    bool direct_;
    std::mt19937 random_;
    std::vector<int> peers_;
    test::Wires<Message> network_;
    std::vector<std::unique_ptr<Node>> nodes_;
};

class WindowEngines : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Ways, WindowEngines, testing::Values(false, true),
                         [](const auto &info) { return info.param ? "stores" : "messages"; });

TEST_P(WindowEngines, TheDataIsThereWithTheNotification)
{
    for (unsigned seed = 1; seed <= 50; ++seed) {
        Job job(3, GetParam(), seed);
        std::vector<std::vector<int>> values;
        for (int i = 0; i < 20; ++i)
            values.emplace_back(1 + job.random(200), i + 1);
        int taken = 0;
        for (int i = 0; i < 20; ++i) {
            job.put(0, 1, 0, values[static_cast<std::size_t>(i)].data(), values[static_cast<std::size_t>(i)].size() * sizeof(int),
                    {PM_AFTER_NOTIFY, 5, 0, 0});
            while (job.random(3) != 0 && job.deliver_one()) {
            }
            while (job.window(1)->take(5))
                ++taken;
            ASSERT_GE(job.word(1, 0), taken);
        }
        job.deliver_all();
        while (job.window(1)->take(5))
            ++taken;
        EXPECT_EQ(taken, 20);
        EXPECT_FALSE(job.window(1)->take(4));
        EXPECT_FALSE(job.window(2)->take(5));
        EXPECT_EQ(job.nudged.contains(1), GetParam());
    }
}

TEST_P(WindowEngines, AFlagIsSetAfterTheData)
{
    Job job(2, GetParam());
    const int data = 11;
    job.put(0, 1, 8, &data, sizeof data, {PM_AFTER_FLAG, 3, 64, 0});
    job.deliver_all();
    EXPECT_EQ(job.word(1, 8), 11);
    EXPECT_EQ(job.word(1, 64), 3);
    job.put(1, 1, 8, nullptr, 0, {PM_AFTER_FLAG, 4, 64, 0});
    EXPECT_EQ(job.word(1, 64), 4);
}

TEST_P(WindowEngines, ACounterFiresOnce)
{
    Job job(4, GetParam());
    volatile int flag = 7;
    ASSERT_TRUE(job.engine(0).arm(job.window(0), 9, 6, &flag));
    EXPECT_EQ(flag, 0);
    EXPECT_FALSE(job.engine(0).arm(job.window(0), 9, 1, &flag));
    EXPECT_TRUE(job.engine(0).is_armed(job.window(0), 9));
    for (int round = 0; round < 2; ++round)
        for (int rank = 1; rank < 4; ++rank) {
            job.engine(0).poll();
            EXPECT_EQ(flag, 0);
            job.put(rank, 0, 0, nullptr, 0, {PM_AFTER_COUNT, 9, 0, 0});
            job.deliver_all();
        }
    EXPECT_EQ(job.rung.contains(0), GetParam());
    job.engine(0).poll();
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(job.engine(0).armed(), 0u);
    job.put(1, 0, 0, nullptr, 0, {PM_AFTER_COUNT, 9, 0, 0});
    job.deliver_all();
    EXPECT_FALSE(job.window(0)->take_count(9, 2));
    ASSERT_TRUE(job.engine(0).arm(job.window(0), 9, 1, &flag));  // it has arrived already
    EXPECT_EQ(flag, 1);
}

TEST_P(WindowEngines, AGetBringsTheDataAndNotifies)
{
    Job job(2, GetParam());
    std::memset(job.memory(1) + 100, 5, 1000);
    std::vector<std::byte> place(1000);
    if (!job.engine(0).load(job.window(0), 1, 100, place.data(), 1000, 8)) {
        ASSERT_EQ(job.engine(0).get(job.window(0), 1, 100, place.data(), 1000, 8), PM_OK);
    }
    volatile int done = 7;
    job.engine(0).sync(job.window(0), &done);
    job.deliver_all();
    EXPECT_EQ(done, 1);
    EXPECT_EQ(place[0], std::byte{5});
    EXPECT_EQ(place[999], std::byte{5});
    EXPECT_TRUE(job.window(1)->take(8));
}

TEST(WindowEngine, SyncEndsWhenEverythingHasHappened)
{
    for (unsigned seed = 1; seed <= 50; ++seed) {
        Job job(4, false, seed);
        int number = 0;
        std::vector<std::unique_ptr<int>> data;
        for (int round = 0; round < 10; ++round) {
            for (int i = 0; i < 5; ++i) {
                int target = 1 + static_cast<int>(job.random(3));
                data.push_back(std::make_unique<int>(++number));
                job.put(0, target, 4 * static_cast<std::uint64_t>(number), data.back().get(), sizeof(int), {PM_AFTER_NOTHING, 0, 0, 0});
            }
            volatile int first = 7, second = 7;
            job.engine(0).sync(job.window(0), &first);
            EXPECT_EQ(first, 0);
            job.engine(0).sync(job.window(0), &second);
            while (first == 0 || second == 0)
                ASSERT_TRUE(job.deliver_one());
            for (int i = 1; i <= number; ++i)
                EXPECT_EQ(job.word(1, static_cast<std::size_t>(4 * i)) + job.word(2, static_cast<std::size_t>(4 * i)) +
                              job.word(3, static_cast<std::size_t>(4 * i)),
                          i);
        }
        job.deliver_all();
        EXPECT_TRUE(job.window(0)->unknown.empty());
        volatile int idle = 7;
        job.engine(0).sync(job.window(0), &idle);
        EXPECT_EQ(idle, 1);
    }
}

TEST_P(WindowEngines, ACopyBetweenOthersIsPartOfASync)
{
    for (unsigned seed = 1; seed <= 50; ++seed) {
        Job job(4, GetParam(), seed);
        std::memset(job.memory(1), 9, 2000);
        ASSERT_EQ(job.engine(0).copy(job.window(0), 1, 0, 2, 100, 2000, {PM_AFTER_NOTIFY, 3, 0, 0}), PM_OK);
        volatile int done = 7;
        job.engine(0).sync(job.window(0), &done);
        while (done == 0)
            ASSERT_TRUE(job.deliver_one());
        EXPECT_EQ(job.memory(2)[100], std::byte{9});
        EXPECT_EQ(job.memory(2)[2099], std::byte{9});
        EXPECT_TRUE(job.window(2)->take(3));
        job.deliver_all();
    }
}

TEST(WindowEngine, ASyncForSomebodyElseSaysNothingOfWhatIsForwardedForUs)
{
    for (unsigned seed = 1; seed <= 200; ++seed) {
        Job job(4, false, seed);
        std::memset(job.memory(1), 8, 1000);
        std::memset(job.memory(2), 9, 1000);
        volatile int first = 7, second = 7;
        job.engine(1).copy(job.window(1), 2, 0, 3, 100, 1000, {PM_AFTER_NOTHING, 0, 0, 0});
        job.engine(0).copy(job.window(0), 1, 0, 2, 2000, 1000, {PM_AFTER_NOTHING, 0, 0, 0});
        job.engine(0).sync(job.window(0), &first);
        for (unsigned i = job.random(8); i > 0; --i)
            job.deliver_one();
        job.engine(1).sync(job.window(1), &second);
        while (first == 0 || second == 0) {
            ASSERT_TRUE(job.deliver_one());
            if (first == 1) {
                ASSERT_EQ(job.memory(2)[2999], std::byte{8});
            }
            if (second == 1) {
                ASSERT_EQ(job.memory(3)[1099], std::byte{9});
            }
        }
        job.deliver_all();
    }
}

TEST(WindowEngine, ASyncThatIsForgottenSetsNoFlag)
{
    Job job(2);
    const int data = 1;
    volatile int flag = 7;
    job.put(0, 1, 0, &data, sizeof data, {PM_AFTER_NOTHING, 0, 0, 0});
    job.engine(0).sync(job.window(0), &flag);
    job.engine(0).forget(job.window(0), &flag);
    job.deliver_all();
    EXPECT_EQ(flag, 0);
}

TEST_P(WindowEngines, ABroadcastCanBeDiscarded)
{
    Job job(3, GetParam());
    const int data = 5;
    job.window(2)->board->discard.store(1);
    for (int rank = 0; rank < 3; ++rank)
        job.put(0, rank, 0, &data, sizeof data, {PM_AFTER_FLAG, 1, 8, 1});
    job.deliver_all();
    EXPECT_EQ(job.word(1, 0), 5);
    EXPECT_EQ(job.word(1, 8), 1);
    EXPECT_EQ(job.word(2, 0), 0);
    EXPECT_EQ(job.word(2, 8), 0);
    job.put(0, 2, 0, &data, sizeof data, {PM_AFTER_FLAG, 1, 8, 0});  // only broadcasts are
    job.deliver_all();
    EXPECT_EQ(job.word(2, 8), 1);
}

TEST(WindowEngine, AnOfferMeetsItsAcceptWhicheverComesFirst)
{
    for (unsigned seed = 1; seed <= 50; ++seed) {
        Job job(2, false, seed);
        std::vector<int> first(100, 1), second(300, 2), third(5, 3);
        volatile int sent[3] = {7, 7, 7}, there[3] = {7, 7, 7};
        job.engine(0).offer(job.window(0), 1, 42, first.data(), 400, &sent[0]);
        EXPECT_EQ(sent[0], 0);
        if (job.random(2) == 0)
            job.deliver_all();
        job.engine(1).accept(job.window(1), 0, 42, 0, 400, &there[0]);
        job.engine(1).accept(job.window(1), 0, 42, 400, 800, &there[1]);  // room for 200
        job.engine(1).accept(job.window(1), 0, 43, 2000, 400, &there[2]);
        job.engine(0).offer(job.window(0), 1, 43, third.data(), 20, &sent[2]);
        job.engine(0).offer(job.window(0), 1, 42, second.data(), 1200, &sent[1]);
        job.deliver_all();
        for (int i = 0; i < 3; ++i) {
            EXPECT_EQ(sent[i], 1);
            EXPECT_EQ(there[i], 1);
        }
        EXPECT_EQ(job.word(1, 396), 1);
        EXPECT_EQ(job.word(1, 400), 2);
        EXPECT_EQ(job.word(1, 1196), 2);
        EXPECT_EQ(job.word(1, 1200), 0);  // cut off
        EXPECT_EQ(job.word(1, 2016), 3);
    }
}

TEST(WindowEngine, ARankOffersToItself)
{
    Job job(1);
    const int data = 6;
    volatile int sent = 7, there = 7;
    job.engine(0).accept(job.window(0), 0, 1, 12, sizeof data, &there);
    job.engine(0).offer(job.window(0), 0, 1, &data, sizeof data, &sent);
    EXPECT_EQ(sent, 1);
    EXPECT_EQ(there, 1);
    EXPECT_EQ(job.word(0, 12), 6);
}

TEST(WindowEngine, WhatIsOutsideIsNotWritten)
{
    Job job(2);
    std::vector<std::byte> data(100, std::byte{1});
    job.put(0, 1, Job::bytes - 50, data.data(), data.size(), {PM_AFTER_NOTHING, 0, 0, 0});
    job.deliver_all();
    EXPECT_EQ(job.memory(1)[Job::bytes - 1], std::byte{0});
}

// Each is right but for one thing.
TEST(WindowEngine, WhatCannotBeIsDroppedAndCounted)
{
    using Kind = WindowMessage::Kind;
    Job job(3);
    const std::vector<std::byte> data(64, std::byte{1});
    auto made = [](Kind kind, auto change) {
        WindowMessage message;
        message.window = 77;
        message.kind = kind;
        change(message);
        return message;
    };
    auto is_dropped = [&](const WindowMessage &message, std::size_t size) {
        std::size_t before = job.dropped;
        EXPECT_EQ(job.arrive(0, 1, message, data.data(), size / 2, size), nullptr);
        return job.dropped == before + 1 && job.waiting(1, 0) == 0 && job.waiting(1, 2) == 0;
    };
    EXPECT_TRUE(is_dropped(made(Kind::put, [](auto &m) { m.window = 78; }), 64));
    EXPECT_TRUE(is_dropped(made(static_cast<Kind>(8), [](auto &) {}), 0));
    for (int from : {-1, 1, 2, 3, 1 << 30})  // not its sender, who is 0
        EXPECT_TRUE(is_dropped(made(Kind::sync, [&](auto &m) { m.from = from; }), 0)) << from;
    for (std::uint64_t offset : {Job::bytes - 63, Job::bytes + 1, UINT64_MAX, UINT64_MAX - 63}) {
        EXPECT_TRUE(is_dropped(made(Kind::put, [&](auto &m) { m.offset = offset; }), 64)) << offset;
        EXPECT_TRUE(is_dropped(made(Kind::get, [&](auto &m) { m.offset = offset, m.size = 64; }), 0)) << offset;
        EXPECT_TRUE(is_dropped(made(Kind::copy, [&](auto &m) { m.offset = offset, m.size = 64, m.target = 2; }), 0)) << offset;
        EXPECT_TRUE(is_dropped(made(Kind::copy, [&](auto &m) { m.target_offset = offset, m.size = 64, m.target = 2; }), 0)) << offset;
        EXPECT_TRUE(is_dropped(made(Kind::put, [&](auto &m) { m.after = PM_AFTER_FLAG, m.flag = offset; }), 0)) << offset;
    }
    EXPECT_TRUE(is_dropped(made(Kind::get, [](auto &m) { m.size = Job::bytes + 1; }), 0));
    for (int value : {-1, PM_NOTIFICATIONS, 1 << 30})
        EXPECT_TRUE(is_dropped(made(Kind::put, [&](auto &m) { m.after = PM_AFTER_NOTIFY, m.value = value; }), 0)) << value;
    for (int value : {-1, PM_COUNTERS})
        EXPECT_TRUE(is_dropped(made(Kind::copy, [&](auto &m) { m.after = PM_AFTER_COUNT, m.value = value, m.target = 2; }), 0)) << value;
    EXPECT_TRUE(is_dropped(made(Kind::put, [](auto &m) { m.after = 4; }), 0));
    for (int value : {-2, PM_NOTIFICATIONS})
        EXPECT_TRUE(is_dropped(made(Kind::get, [&](auto &m) { m.value = value; }), 0)) << value;
    for (int target : {-1, 3})
        EXPECT_TRUE(is_dropped(made(Kind::copy, [&](auto &m) { m.target = target; }), 0)) << target;
    EXPECT_TRUE(is_dropped(made(Kind::synced, [](auto &m) { m.place = 1; }), 0));
    EXPECT_TRUE(is_dropped(made(Kind::reply, [&](auto &m) { m.place = reinterpret_cast<std::uint64_t>(job.memory(1)); }), 64));
    EXPECT_TRUE(is_dropped(made(Kind::keyed, [](auto &m) { m.place = 1; }), 64));
    for (std::size_t i = 0; i < Job::bytes; ++i)
        ASSERT_EQ(job.memory(1)[i], std::byte{0});
    job.deliver_all();
    EXPECT_EQ(job.failure, "");
}

TEST(WindowEngine, AnAnswerIsTakenOnceAndFromWhomItWasAsked)
{
    Job job(3);
    std::vector<std::byte> wanted(8);
    const std::vector<std::byte> data(16, std::byte{1});
    job.engine(0).get(job.window(0), 1, 0, wanted.data(), wanted.size(), -1);
    volatile int there = 7;
    job.engine(0).accept(job.window(0), 1, 5, 100, 8, &there);
    auto answer = [&](int from, WindowMessage::Kind kind, std::uint64_t number, std::size_t size) {
        WindowMessage message;
        message.window = 77;
        message.kind = kind;
        message.from = from;
        message.place = number;
        message.offset = 1000;  // not asked for
        std::size_t before = job.dropped;
        job.arrive(from, 0, message, data.data(), size, size);
        return job.dropped == before;
    };
    using Kind = WindowMessage::Kind;
    EXPECT_FALSE(answer(2, Kind::reply, 1, 8));
    EXPECT_FALSE(answer(1, Kind::reply, 1, 16));
    EXPECT_FALSE(answer(1, Kind::reply, 2, 8));
    EXPECT_TRUE(answer(1, Kind::reply, 1, 8));
    EXPECT_FALSE(answer(1, Kind::reply, 1, 8));
    EXPECT_FALSE(answer(2, Kind::keyed, 2, 8));
    EXPECT_FALSE(answer(1, Kind::keyed, 2, 9));
    EXPECT_EQ(there, 0);
    EXPECT_TRUE(answer(1, Kind::keyed, 2, 8));
    EXPECT_EQ(there, 1);
    EXPECT_FALSE(answer(1, Kind::keyed, 2, 8));
    EXPECT_EQ(job.memory(0)[100], std::byte{1});
    EXPECT_EQ(job.memory(0)[1000], std::byte{0});
}

TEST(WindowEngine, TheRestOfAMessageForAWindowThatIsGoneGoesNowhere)
{
    Job job(2);
    const std::vector<std::byte> data(64, std::byte{1});
    WindowMessage message;
    message.window = 77;
    message.after = PM_AFTER_NOTIFY;
    void *cookie = job.arrive(0, 1, message, data.data(), 32, 64);
    ASSERT_NE(cookie, nullptr);
    job.engine(1).close(job.window(1));
    EXPECT_EQ(job.engine(1).place(cookie), nullptr);
    job.engine(1).more(cookie, data.data(), 32);
    EXPECT_EQ(job.memory(1)[31], std::byte{1});
    EXPECT_EQ(job.memory(1)[32], std::byte{0});
}

TEST(WindowEngine, AFailedSendIsAFailure)
{
    Job job(2);
    job.broken = true;
    const int data = 1;
    EXPECT_EQ(job.engine(0).put(job.window(0), 1, 0, &data, sizeof data, {PM_AFTER_NOTIFY, 0, 0, 0}), PM_FAILED);
    EXPECT_EQ(job.failure, "send");
}

TEST(WindowOneSided, OnlyWholeWritesThatNotifyArePutAndShortOnesOnlyOnRequest)
{
    const pm_after notify{PM_AFTER_NOTIFY, 1, 0, 0}, count{PM_AFTER_COUNT, 1, 0, 0}, flag{PM_AFTER_FLAG, 1, 0, 0}, nothing{};
    constexpr std::size_t longer = PM_LONG_WRITE + 1;
    for (const pm_after &after : {notify, count}) {
        EXPECT_TRUE(wants_put(Way::best, longer, after, true, true));
        EXPECT_FALSE(wants_put(Way::best, PM_LONG_WRITE, after, true, true)) << "one message comes sooner";
        EXPECT_FALSE(wants_put(Way::best, longer, after, true, false)) << "the target's processor would do it";
        EXPECT_FALSE(wants_put(Way::best, longer, after, false, true)) << "it would overtake the other parts";
        EXPECT_TRUE(wants_put(Way::put, 1, after, true, false));
        EXPECT_FALSE(wants_put(Way::put, 0, after, true, true));
        EXPECT_FALSE(wants_put(Way::put, longer, after, false, true));
        EXPECT_FALSE(wants_put(Way::message, longer, after, true, true));
    }
    for (const pm_after &after : {flag, nothing})
        EXPECT_FALSE(wants_put(Way::put, longer, after, true, true)) << "devices only count";
}

}  // namespace
}  // namespace pm::coll
