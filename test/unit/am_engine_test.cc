// The engine of active messages in a simulated job: messages are in order between two ranks and otherwise as late as a seed says, and come
// whole, in pieces, or into their place while others follow, as the devices deliver them.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "coll/am/engine.h"
#include "support/wires.h"

namespace pm::coll {
namespace {

constexpr std::uint32_t group = 0x10007;
std::set<std::uint32_t> being_made;

std::string text(const void *bytes, std::size_t size)
{
    return {static_cast<const char *>(bytes), size};
}

// What a test registers.
struct Function {
    std::function<void(const pm_am_arrival &)> arrived;
    std::function<void *(const pm_am_arrival &)> place = nullptr;

    pm_am_user user()
    {
        auto something = [] {};
        return {something, place ? static_cast<void (*)(void)>(something) : nullptr, this};
    }
};

struct OnWire {
    std::string header, data;
    void *cookie = nullptr;  // of one that its sender wants to hear of
};

class Job {
  public:
    explicit Job(int ranks, unsigned seed = 1) : random_(seed)
    {
        being_made.clear();
        for (int rank = 0; rank < ranks; ++rank) {
            peers_.push_back(rank);
            nodes_.push_back(std::make_unique<Node>(*this, rank));
        }
    }
    void open(std::uint32_t id = group)
    {
        for (int rank = 0; rank < ranks(); ++rank)
            open_at(rank, id);
    }
    void open_at(int rank, std::uint32_t id = group) { engine(rank).open({id, ranks(), rank, &node(rank), peer_of, nullptr}); }

    int add(int rank, const std::string &name, Function *function, std::uint32_t id = group)
    {
        int number = -1;
        EXPECT_EQ(engine(rank).add(id, name, function->user(), &number), "");
        return number;
    }
    int send(int from, int to, int handler, const std::string &header, const std::string &data, const pm_am_end &end = {},
             std::uint32_t id = group)
    {
        const pm_am_post post{id, from, handler, header.data(), header.size(), data.data(), data.size()};
        return engine(from).send(post, to, end);
    }

    enum class Manner { whole, in_pieces, in_place };
    // The first one of any way. In place: it is finished later, by finish_one().
    bool deliver_one(std::optional<Manner> wanted = {})
    {
        auto taken = network_.take_one(random_);
        if (!taken)
            return false;
        auto [from, to] = taken->first;
        OnWire &message = taken->second;
        if (message.cookie != nullptr)
            engine(from).taken(message.cookie);
        Manner manner = wanted.value_or(message.data.size() < 2 ? Manner::whole : static_cast<Manner>(random_() % 3));
        if (message.data.size() < 2)
            manner = Manner::whole;
        deliver(from, to, message, manner);
        return true;
    }
    void deliver(int from, int to, OnWire message, Manner manner)
    {
        // At an odd address now and then, as some devices have it.
        const std::size_t shift = random_() % 2 * 4;
        std::vector<std::uint64_t> header(message.header.size() / 8 + 2), data(message.data.size() / 8 + 2);
        auto header_at = reinterpret_cast<char *>(header.data()) + shift, data_at = reinterpret_cast<char *>(data.data()) + shift;
        std::memcpy(header_at, message.header.data(), message.header.size());
        std::memcpy(data_at, message.data.data(), message.data.size());
        const Envelope envelope{peer_of(&node(0), from), header_at, message.header.size(), 0};
        const std::size_t total = message.data.size(), first = manner == Manner::whole ? total : random_() % total;
        void *cookie = engine(to).arrived(envelope, data_at, first, total);
        if (manner == Manner::whole) {
            EXPECT_EQ(cookie, nullptr) << "all of it is here";
        }
        if (cookie == nullptr)
            return;
        if (void *place = manner == Manner::in_place ? engine(to).place(cookie) : nullptr) {
            std::memcpy(static_cast<char *>(place) + first, data_at + first, total - first);
            unfinished_.push_back({to, cookie});
            return;
        }
        for (std::size_t sent = first; sent < total;) {
            const std::size_t piece = 1 + random_() % (total - sent);
            engine(to).more(cookie, data_at + sent, piece);
            sent += piece;
        }
    }
    // UCX finishes them in any order.
    bool finish_one()
    {
        if (unfinished_.empty())
            return false;
        const std::size_t which = random_() % unfinished_.size();
        auto [to, cookie] = unfinished_[which];
        unfinished_.erase(unfinished_.begin() + static_cast<std::ptrdiff_t>(which));
        engine(to).placed(cookie);
        return true;
    }
    void settle()
    {
        bool something = true;
        while (something) {
            something = random_() % 2 ? deliver_one() || finish_one() : finish_one() || deliver_one();
            for (int rank = 0; rank < ranks(); ++rank)
                if (engine(rank).pending())
                    something = engine(rank).poll() || something;
        }
    }
    AmEngine &engine(int rank) { return node(rank).engine; }
    int held(int rank) { return node(rank).held; }
    int ranks() const { return static_cast<int>(nodes_.size()); }
    std::mt19937 &random() { return random_; }
    std::size_t dropped = 0;
    bool takes_at_once = true;  // the devices

  private:
    struct Node : AmTransport {
        Node(Job &of, int number) : job(of), rank(number), engine(*this, setup_of()) {}
        static pm_am_setup setup_of()
        {
            pm_am_setup setup{};
            setup.may_open = [](std::uint32_t id) { return static_cast<int>(being_made.contains(id)); };
            setup.arrived = [](const pm_am_arrival *arrival, const pm_am_user *user) {
                static_cast<Function *>(user->state)->arrived(*arrival);
            };
            setup.place = [](const pm_am_arrival *arrival, const pm_am_user *user) {
                return static_cast<Function *>(user->state)->place(*arrival);
            };
            setup.hold = [](void *context) { ++static_cast<Node *>(context)->held; };
            setup.let_go = [](void *context) { --static_cast<Node *>(context)->held; };
            setup.ended = [](void *cookie) { ++*static_cast<int *>(cookie); };
            return setup;
        }
        int send(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size, void *cookie) override
        {
            OnWire message{text(header, header_size), text(data, size), cookie};
            job.network_[{rank, job.rank_of(peer)}].push_back(std::move(message));
            return PM_QUEUED;
        }
        bool send_now(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size) override
        {
            if (!job.takes_at_once)
                return false;
            send(peer, header, header_size, data, size, nullptr);
            return true;
        }
        void dropped(const pm_peer *) override { ++job.dropped; }
        void failed(const std::string &why) override { ADD_FAILURE() << why; }

        Job &job;
        int rank;
        int held = 0;
        AmEngine engine;
    };

    // A peer is the place of a rank's number.
    static pm_peer *peer_of(void *context, int rank)
    {
        return reinterpret_cast<pm_peer *>(&static_cast<Node *>(context)->job.peers_[static_cast<std::size_t>(rank)]);
    }
    static int rank_of(const pm_peer *peer) { return *reinterpret_cast<const int *>(peer); }
    Node &node(int rank) { return *nodes_[static_cast<std::size_t>(rank)]; }

    std::vector<int> peers_;
    std::vector<std::unique_ptr<Node>> nodes_;
    test::Wires<OnWire> network_;
    std::vector<std::pair<int, void *>> unfinished_;
    std::mt19937 random_;
};

std::string bytes_of(int number, std::size_t size)
{
    std::string bytes(size, 0);
    for (std::size_t i = 0; i < size; ++i)
        bytes[i] = static_cast<char>(static_cast<std::size_t>(number) * 31 + i * 7);
    return bytes;
}

// Two handlers of each rank, one of which says where payloads go; what each rank hears of each other is in order, whatever its size.
TEST(AmEngine, HandlesInTheOrderOfEachSource)
{
    constexpr std::size_t sizes[] = {0, 1, 7, 8, 100, 5000, 20000};
    for (unsigned seed = 1; seed <= 60; ++seed) {
        Job job(3, seed);
        job.takes_at_once = seed % 3 != 0;
        job.open();
        std::map<std::pair<int, int>, int> heard;
        std::vector<Function> functions(6);
        std::vector<std::map<int, std::vector<std::uint64_t>>> places(3);
        int numbers[2] = {};
        auto size_of = [&](int number, int from) { return sizes[static_cast<std::size_t>(number * 5 + from) % std::size(sizes)]; };
        for (int rank = 0; rank < 3; ++rank)
            for (int kind = 0; kind < 2; ++kind) {
                Function &function = functions[static_cast<std::size_t>(rank * 2 + kind)];
                auto number_in = [](const pm_am_arrival &arrival) {
                    int number;
                    std::memcpy(&number, arrival.header, sizeof number);
                    return number;
                };
                function.arrived = [&, rank, kind, number_in](const pm_am_arrival &arrival) {
                    ASSERT_EQ(arrival.header_size, sizeof(int) + 1);
                    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(arrival.header) % 8, 0u);
                    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(arrival.data) % 8, 0u);
                    const int number = number_in(arrival);
                    ASSERT_EQ(number, (heard[{arrival.source, rank}]++));
                    ASSERT_EQ(arrival.size, size_of(number, arrival.source));
                    if (arrival.size == 0) {
                        ASSERT_EQ(arrival.data, nullptr);
                        return;
                    }
                    if (kind == 1) {
                        ASSERT_EQ(arrival.data, places[static_cast<std::size_t>(rank)].at(number * 3 + arrival.source).data());
                    }
                    ASSERT_EQ(text(arrival.data, arrival.size), bytes_of(number, arrival.size));
                };
                if (kind == 1)
                    function.place = [&, rank, number_in](const pm_am_arrival &arrival) -> void * {
                        auto &place = places[static_cast<std::size_t>(rank)][number_in(arrival) * 3 + arrival.source];
                        EXPECT_TRUE(place.empty()) << "asked twice";
                        EXPECT_EQ(arrival.data, nullptr);
                        place.resize(arrival.size / 8 + 1);
                        return place.data();
                    };
                numbers[kind] = job.add(rank, kind == 0 ? "views" : "places", &function);
            }
        constexpr int count = 40;
        std::map<std::pair<int, int>, int> sent;
        std::list<int> flags;
        std::list<std::string> payloads;
        for (int i = 0; i < count * 9; ++i) {
            const int from = i % 3, to = i / 3 % 3, number = sent[{from, to}]++;
            std::string header(sizeof number + 1, 'h');
            std::memcpy(header.data(), &number, sizeof number);
            const std::string &data = payloads.emplace_back(bytes_of(number, size_of(number, from)));
            job.send(from, to, numbers[job.random()() % 2], header, data, {&flags.emplace_back(0), nullptr});
            if (job.random()() % 2)
                job.random()() % 2 ? job.deliver_one() : job.finish_one();
        }
        job.settle();
        for (int from = 0; from < 3; ++from)
            for (int to = 0; to < 3; ++to)
                EXPECT_EQ((heard[{from, to}]), count) << from << " to " << to << ", seed " << seed;
        for (int rank = 0; rank < 3; ++rank) {
            EXPECT_EQ(job.engine(rank).kept(), 0u);
            EXPECT_EQ(job.held(rank), 0);
        }
        EXPECT_EQ(job.dropped, 0u);
    }
}

TEST(AmEngine, DropsWhatHasNoPlace)
{
    for (Job::Manner manner : {Job::Manner::whole, Job::Manner::in_pieces, Job::Manner::in_place}) {
        Job job(2);
        job.open();
        int asked = 0;
        std::vector<std::string> heard;
        Function function{[&](const pm_am_arrival &arrival) { heard.push_back(text(arrival.data, arrival.size)); },
                          [&](const pm_am_arrival &) -> void * { return ++asked, nullptr; }};
        const int number = job.add(1, "nowhere", &function);
        job.send(0, 1, number, "", "payload");
        job.send(0, 1, number, "", "");
        while (job.deliver_one(manner)) {
        }
        EXPECT_EQ(asked, 1);
        EXPECT_EQ(heard, std::vector<std::string>{""}) << "who has no payload needs no place";
        EXPECT_EQ(job.engine(1).kept(), 0u);
    }
}

TEST(AmEngine, WaitsForItsHandlerWhileOthersPass)
{
    Job job(2);
    job.open();
    std::vector<std::string> late, early;
    Function function{[&](const pm_am_arrival &arrival) { early.push_back(text(arrival.header, arrival.header_size)); }};
    const int number = job.add(1, "early", &function), late_number = AmEngine::number_of("late");
    job.send(0, 1, late_number, "one", "payload");
    job.send(0, 1, number, "two", "");
    job.send(0, 1, late_number, "three", "another payload");
    job.settle();
    EXPECT_EQ(early, std::vector<std::string>{"two"});
    EXPECT_EQ(job.engine(1).kept(), 2u);
    std::string place(100, 0);
    Function other{[&](const pm_am_arrival &arrival) {
                       EXPECT_EQ(arrival.data, arrival.size != 0 ? place.data() : nullptr);
                       late.push_back(text(arrival.header, arrival.header_size) + " " + text(arrival.data, arrival.size));
                   },
                   [&](const pm_am_arrival &) { return place.data(); }};
    EXPECT_EQ(job.add(1, "late", &other), late_number);
    EXPECT_EQ(late, (std::vector<std::string>{"one payload", "three another payload"}));
    // And again once it is deregistered.
    EXPECT_EQ(job.engine(1).remove(group, late_number), PM_OK);
    EXPECT_EQ(job.engine(1).remove(group, late_number), PM_FAILED);
    job.send(0, 1, late_number, "four", "");
    job.settle();
    EXPECT_EQ(late.size(), 2u);
    job.add(1, "late", &other);
    EXPECT_EQ(late.back(), "four ");
    EXPECT_EQ(job.engine(1).kept(), 0u);
}

TEST(AmEngine, WaitsForItsGroup)
{
    for (Job::Manner manner : {Job::Manner::whole, Job::Manner::in_pieces, Job::Manner::in_place})
        for (bool finished : {false, true}) {
            Job job(2);
            job.open_at(0);
            being_made.insert(group);
            const int number = AmEngine::number_of("handler");
            job.send(0, 1, number, "one", "payload");
            job.send(0, 1, number, "two", "");
            while (job.deliver_one(manner)) {
            }
            // Of a rank that there is not, and of one that is another.
            const AmHeader strange{group, 7, static_cast<std::uint32_t>(number), 0}, false_one{group, 1, static_cast<std::uint32_t>(number), 0};
            job.deliver(0, 1, {text(&strange, sizeof strange), "long enough for pieces"}, manner);
            job.deliver(0, 1, {text(&false_one, sizeof false_one), ""}, Job::Manner::whole);
            while (finished && job.finish_one()) {
            }
            job.open_at(1);
            EXPECT_EQ(job.dropped, 2u);
            std::vector<std::string> heard;
            Function function{[&](const pm_am_arrival &arrival) { heard.push_back(text(arrival.header, arrival.header_size)); }};
            job.add(1, "handler", &function);
            job.settle();
            EXPECT_EQ(heard, (std::vector<std::string>{"one", "two"}));
            EXPECT_EQ(job.engine(1).kept(), 0u);
            EXPECT_EQ(job.held(1), 0);
        }
}

TEST(AmEngine, DropsWhatWaitsForAGroupThatWillNotBe)
{
    Job job(2);
    job.open_at(0);
    const int number = AmEngine::number_of("handler");
    job.send(0, 1, number, "", "nobody makes it");
    job.settle();
    EXPECT_EQ(job.dropped, 1u);
    being_made.insert(group);
    job.send(0, 1, number, "", "somebody does");
    job.settle();
    EXPECT_EQ(job.engine(1).kept(), 1u);
    being_made.clear();
    job.engine(1).attend();
    EXPECT_EQ(job.dropped, 2u);
    EXPECT_EQ(job.engine(1).kept(), 0u);
}

TEST(AmEngine, ClosedGroupsDropWhatTheyHave)
{
    for (bool places : {false, true}) {
        Job job(2);
        job.open();
        std::string place(100, 'x');
        Function function{[&](const pm_am_arrival &) { FAIL() << "the group is closed"; }};
        if (places)
            function.place = [&](const pm_am_arrival &) { return place.data(); };
        const int number = job.add(1, "handler", &function);
        job.send(0, 1, number, "", "payload that is not all here");
        job.deliver_one(Job::Manner::in_place);
        EXPECT_EQ(job.held(1), 1) << "who closes it now does so against the rules";
        job.send(0, 1, number, "", "");
        job.send(1, 1, number, "", "to myself");
        job.send(0, 1, AmEngine::number_of("nobody"), "", "to nobody");
        job.deliver_one();
        job.deliver_one();
        EXPECT_EQ(job.engine(1).kept(), 4u);
        job.engine(1).close(group);
        EXPECT_FALSE(job.engine(1).pending());
        EXPECT_EQ(job.dropped, 4u);
        job.settle();
        EXPECT_EQ(job.engine(1).kept(), 0u);
    }
}

// As long as a payload comes to where the user said.
TEST(AmEngine, DeregisteringWaitsForPayloads)
{
    Job job(2);
    job.open();
    std::string place(100, 0), heard;
    Function function{[&](const pm_am_arrival &arrival) { heard = text(arrival.data, arrival.size); },
                      [&](const pm_am_arrival &) { return place.data(); }};
    const int number = job.add(1, "handler", &function);
    job.send(0, 1, number, "", "payload");
    job.deliver_one(Job::Manner::in_place);
    EXPECT_EQ(job.engine(1).remove(group, number), PM_QUEUED);
    EXPECT_TRUE(job.engine(1).is_placing(group, number));
    int again;
    EXPECT_NE(job.engine(1).add(group, "handler", function.user(), &again), "");
    job.settle();
    EXPECT_FALSE(job.engine(1).is_placing(group, number));
    EXPECT_EQ(heard, "payload");
    EXPECT_EQ(job.engine(1).add(group, "handler", function.user(), &again), "");
}

TEST(AmEngine, ToOneselfIsNotHandledInsideTheSend)
{
    Job job(1);
    job.open();
    int depth = 0, left = 5;
    Function function{[&](const pm_am_arrival &arrival) {
        EXPECT_EQ(depth++, 0);
        EXPECT_EQ(text(arrival.data, arrival.size), "payload");
        if (--left > 0)
            job.send(0, 0, arrival.handler, "", "payload");
        --depth;
    }};
    job.send(0, 0, job.add(0, "handler", &function), "", "payload");
    EXPECT_EQ(left, 5);
    EXPECT_TRUE(job.engine(0).pending());
    EXPECT_TRUE(job.engine(0).poll());
    EXPECT_EQ(left, 4) << "what a handler sends is for the next round";
    job.settle();
    EXPECT_EQ(left, 0);
    EXPECT_FALSE(job.engine(0).pending());
    EXPECT_FALSE(job.engine(0).poll());
}

TEST(AmEngine, TellsWhenDataMayBeReused)
{
    Job job(4);
    job.open();
    job.takes_at_once = false;
    std::vector<int> heard;
    Function function{[&](const pm_am_arrival &arrival) {
        EXPECT_EQ(text(arrival.data, arrival.size), "payload");
        heard.push_back(arrival.source);
    }};
    int number = 0, ended = 0;
    for (int rank = 0; rank < 4; ++rank)
        number = job.add(rank, "handler", &function);
    volatile int flag = 0;
    EXPECT_EQ(job.send(0, 1, number, "", "payload", {&flag, nullptr}), PM_QUEUED);
    EXPECT_EQ(flag, 0);
    job.settle();
    EXPECT_EQ(flag, 1);
    EXPECT_EQ(job.send(0, 1, number, "", "payload", {nullptr, &ended}), PM_QUEUED);
    EXPECT_EQ(ended, 0);
    job.settle();
    EXPECT_EQ(ended, 1);
    // One that is copied, and one whose flag is gone.
    std::string data = "payload";
    EXPECT_EQ(job.send(0, 1, number, "", data), PM_OK);
    data = "changed";
    flag = 0;
    EXPECT_EQ(job.send(0, 1, number, "", "payload", {&flag, nullptr}), PM_QUEUED);
    job.engine(0).forget(&flag);
    job.settle();
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(heard.size(), 4u);
    // To a set: when the last has left.
    heard.clear();
    std::uint64_t members = 0b1011;
    data = "payload";
    pm_am_post post{group, 0, number, nullptr, 0, data.data(), data.size()};
    EXPECT_EQ(job.engine(0).mcast(post, &members, {nullptr, &ended}), PM_QUEUED);
    job.deliver_one();
    EXPECT_EQ(ended, 1);
    job.settle();
    EXPECT_EQ(ended, 2);
    EXPECT_EQ(heard.size(), 3u);
    EXPECT_EQ(job.engine(0).mcast(post, &members, {}), PM_OK);
    data = "changed";
    job.settle();
    EXPECT_EQ(heard.size(), 6u);
    members = 1;
    data = "payload";
    EXPECT_EQ(job.engine(0).mcast(post, &members, {nullptr, &ended}), PM_OK) << "to oneself";
    members = 0;
    EXPECT_EQ(job.engine(0).mcast(post, &members, {nullptr, &ended}), PM_OK) << "to nobody";
    job.settle();
    EXPECT_EQ(heard.size(), 7u);
    EXPECT_EQ(ended, 2);
}

TEST(AmEngine, NamesAreDifferent)
{
    Job job(1);
    job.open();
    Function function{[](const pm_am_arrival &) {}};
    job.add(0, "handler", &function);
    int number;
    EXPECT_NE(job.engine(0).add(group, "handler", function.user(), &number), "");
    EXPECT_NE(job.engine(0).add(group + 1, "handler", function.user(), &number), "");
    // Two names with the same number are found soon: there are 2^31 numbers.
    std::unordered_map<int, std::string> names;
    std::string one, two;
    for (int i = 0; two.empty(); ++i) {
        ASSERT_LT(i, 10'000'000);
        std::string name = "handler " + std::to_string(i);
        auto [found, added] = names.emplace(AmEngine::number_of(name), name);
        EXPECT_GE(found->first, 0);
        if (!added)
            one = found->second, two = name;
    }
    job.add(0, one, &function);
    const std::string why = job.engine(0).add(group, two, function.user(), &number);
    EXPECT_NE(why.find(one), std::string::npos) << why;
    EXPECT_NE(why.find(two), std::string::npos) << why;
}

TEST(AmEngine, DropsWhatIsNotInOrder)
{
    Job job(3);
    job.open();
    Function function{[](const pm_am_arrival &) { FAIL() << "it is not in order"; }};
    const auto number = static_cast<std::uint32_t>(job.add(1, "handler", &function));
    std::size_t dropped = 0;
    auto expect_dropped = [&](const AmHeader &header, std::size_t length) {
        std::string bytes = text(&header, sizeof header);
        bytes.resize(length);
        job.deliver(0, 1, {bytes, "a payload"}, Job::Manner::whole);
        job.deliver(0, 1, {bytes, "a payload"}, Job::Manner::in_place);
        EXPECT_EQ(job.dropped, dropped += 2);
    };
    expect_dropped({group, 2, number, 0}, sizeof(AmHeader));  // another's
    expect_dropped({group, 1, number, 0}, sizeof(AmHeader));  // our own
    expect_dropped({group, 3, number, 0}, sizeof(AmHeader));
    expect_dropped({group, -1, number, 0}, sizeof(AmHeader));
    expect_dropped({group + 1, 0, number, 0}, sizeof(AmHeader));
    expect_dropped({group, 0, number | 1u << 31, 0}, sizeof(AmHeader));
    expect_dropped({group, 0, number, 1}, sizeof(AmHeader));
    expect_dropped({group, 0, number, 1}, sizeof(AmHeader) + 16);
    expect_dropped({group, 0, number, 0}, sizeof(AmHeader) + 8);
    expect_dropped({group, 0, number, PM_AM_LARGEST_HEADER + 8}, sizeof(AmHeader) + PM_AM_LARGEST_HEADER + 8);
    expect_dropped({group, 0, number, UINT32_MAX}, sizeof(AmHeader));
    EXPECT_EQ(job.engine(1).kept(), 0u);
}

}  // namespace
}  // namespace pm::coll
