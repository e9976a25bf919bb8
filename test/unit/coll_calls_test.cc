// The engines of src/coll as MPICH's C code calls them, in two processes of a host, or in one whose network takes nothing.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/tuning.h"
#include "coll/am/am.h"
#include "coll/barrier/barrier.h"
#include "coll/mcast/mcast.h"
#include "coll/team/team.h"
#include "netmod/core/setup.h"
#include "netmod/core/state.h"
#include "support/core_setup.h"
#include "support/loop_device.h"
#include "support/processes.h"
#include "support/time_limit.h"

namespace {

constexpr std::uint32_t group_id = 5;

// A process of two that see each other.
struct Meeting {
    char cards[2][PM_CARD_MAX];
    size_t sizes[2];
    pm::test::Counter opened, connected, started, ended;
};

class One {
  public:
    One(Meeting &meeting, unsigned rank) : meeting_(meeting), rank_(static_cast<int>(rank))
    {
        pm_setup setup = pm::test::plain_setup();
        setup.devices = "shmem";
        setup.process = rank_;
        core = pm_open(&setup);
        EXPECT_NE(core, nullptr) << pm_error_text();
        meeting.sizes[rank] = pm_card(core, meeting.cards[rank]);
        meeting.opened.meet(2);
        other_ = pm_connect(core, meeting.cards[1 - rank], meeting.sizes[1 - rank]);
        EXPECT_NE(other_, nullptr) << pm_error_text();
    }
    ~One()
    {
        meeting_.ended.add();
        while (meeting_.ended.value() < 2)
            EXPECT_GE(pm_progress(core), 0) << pm_error_text();
        pm_close(core);
    }
    pm_group_setup group() { return {group_id, 2, rank_, this, [](void *one, int) { return static_cast<One *>(one)->other_; }, nullptr}; }
    template <class Done, class Poll>
    void progress_until(Done done, Poll poll)
    {
        while (!done()) {
            ASSERT_GE(pm_progress(core), 0) << pm_error_text();
            poll();
        }
    }

    pm_core *core;

  private:
    Meeting &meeting_;
    int rank_;
    pm_peer *other_;
};

template <class Body>
void in_two(Body body)
{
    pm::test::Shared<Meeting> meeting;
    pm::test::Processes(2, 60, [&](unsigned rank) {
        One one(*meeting, rank);
        body(one, rank, *meeting);
    }).wait();
}

// --- active messages ---

std::vector<std::string> handled;
std::vector<void *> am_ended;

pm_am_setup am_setup()
{
    pm_am_setup setup{};
    setup.may_open = [](std::uint32_t) { return 1; };
    setup.arrived = [](const pm_am_arrival *arrival, const pm_am_user *user) {
        EXPECT_EQ(user->state, &handled);
        handled.emplace_back(static_cast<const char *>(arrival->header), arrival->header_size);
        handled.back() += std::string(static_cast<const char *>(arrival->data), arrival->data == nullptr ? 0 : arrival->size);
    };
    setup.place = [](const pm_am_arrival *, const pm_am_user *) -> void * { return nullptr; };
    setup.hold = [](void *) {};
    setup.let_go = [](void *) {};
    setup.ended = [](void *cookie) { am_ended.push_back(cookie); };
    return setup;
}

TEST(CollCalls, ActiveMessagesAreHandledByWhoRegisteredTheName)
{
    in_two([](One &one, unsigned rank, Meeting &meeting) {
        handled.clear();
        const pm_am_setup setup = am_setup();
        ASSERT_EQ(pm_am_open(one.core, &setup), PM_OK) << pm_error_text();
        const pm_group_setup group = one.group();
        pm_am_group_open(&group);
        const pm_am_user user{nullptr, nullptr, &handled};
        int number = -1, again = -1;
        ASSERT_EQ(pm_am_register(group_id, "writes", &user, &number), PM_OK) << pm_error_text();
        EXPECT_EQ(pm_am_register(group_id, "writes", &user, &again), PM_FAILED) << "it is taken";
        meeting.connected.meet(2);
        const std::string large(100'000, 'x');
        if (rank == 0) {
            pm_am_post post{group_id, 0, number, "short ", 6, "one", 3};
            const pm_am_end copied{};
            EXPECT_NE(pm_am_send(&post, 1, &copied), PM_FAILED);
            post.header = "long ";
            post.header_size = 5;
            post.data = large.data();
            post.size = large.size();
            volatile int left = 0;
            const pm_am_end end{&left, nullptr};
            int sent = pm_am_send(&post, 1, &end);
            EXPECT_NE(sent, PM_FAILED);
            one.progress_until([&] { return sent == PM_OK || left != 0; }, [] { if (pm_am_pending) pm_am_poll(); });
            // To ourselves it is handled when we poll.
            post.data = "self";
            post.size = 4;
            EXPECT_EQ(pm_am_send(&post, 0, &copied), PM_OK);
            EXPECT_TRUE(handled.empty());
            EXPECT_NE(pm_am_pending, 0);
            pm_am_poll();
            EXPECT_EQ(handled, std::vector<std::string>{"long self"});
            EXPECT_EQ(pm_am_pending, 0);
        } else {
            one.progress_until([&] { return handled.size() == 2; }, [] { if (pm_am_pending) pm_am_poll(); });
            EXPECT_EQ(handled, (std::vector<std::string>{"short one", "long " + large}));
        }
        EXPECT_EQ(pm_am_deregister(group_id, number), PM_OK);
        EXPECT_EQ(pm_am_deregister(group_id, number), PM_FAILED);
        pm_am_group_close(group_id);
        pm_am_close();
        pm_am_attend();  // nothing is there any more
        pm_am_group_close(group_id);
    });
}

// --- barriers ---

std::vector<void *> barriers_ended;

TEST(CollCalls, ABarrierEndsWhenTheOtherHasStartedIt)
{
    in_two([](One &one, unsigned rank, Meeting &meeting) {
        barriers_ended.clear();
        pm_barrier_open(one.core, [](void *cookie) { barriers_ended.push_back(cookie); });
        const pm_group_setup group = one.group();
        pm_barrier_group_open(&group);
        meeting.connected.meet(2);
        for (std::uint32_t round = 0; round < 3; ++round) {
            volatile int flag = -1;
            int cookie;
            barriers_ended.clear();
            // The second one starts when the first has, and has looked around.
            if (rank == 1)
                meeting.started.wait_for(round + 1, [&] { EXPECT_GE(pm_progress(one.core), 0); });
            pm_barrier_start(group_id, &flag, &cookie);
            if (rank == 0) {
                EXPECT_EQ(flag, 0);
                EXPECT_EQ(pm_barriers_in_flight, 1u);
                EXPECT_TRUE(pm_barrier_is_in_flight(group_id, &flag));
                for (int i = 0; i < 10; ++i) {
                    EXPECT_GE(pm_progress(one.core), 0) << pm_error_text();
                    pm_barrier_poll();
                    pm_barrier_attend();
                }
                EXPECT_EQ(flag, 0);
                meeting.started.add();
            }
            one.progress_until([&] { return flag == 1; }, [] { pm_barrier_poll(); });
            EXPECT_EQ(pm_barriers_in_flight, 0u);
            EXPECT_FALSE(pm_barrier_is_in_flight(group_id, &flag));
            EXPECT_EQ(barriers_ended, std::vector<void *>{&cookie});
        }
        meeting.ended.add();
        while (meeting.ended.value() < 2)
            ASSERT_GE(pm_progress(one.core), 0);
        pm_barrier_group_close(group_id);
        pm_barrier_close();
        pm_barrier_attend();  // nothing is there any more
        pm_barrier_group_close(group_id);
    });
}

// --- multicasts ---

std::vector<void *> mcasts_sent, mcasts_received;

pm_mcast_setup mcast_setup()
{
    pm_mcast_setup setup{};
    setup.algorithm = "auto";
    setup.tree_limit = setup.doubling_limit = setup.chain_limit = 1 << 20;
    setup.shared_limit = 4096;
    setup.piece = 64 * 1024;
    setup.fanout = 2;
    setup.may_open = [](std::uint32_t) { return 1; };
    setup.sent = [](void *cookie, const char *error) {
        EXPECT_EQ(error, nullptr) << error;
        mcasts_sent.push_back(cookie);
    };
    setup.received = [](void *cookie, int source, int tag, std::size_t size) {
        EXPECT_EQ(source, 0);
        EXPECT_EQ(tag, 9);
        EXPECT_EQ(size, 5u);
        mcasts_received.push_back(cookie);
    };
    return setup;
}

TEST(CollCalls, AMulticastThatIsDeliveredIsToldAtBothEnds)
{
    in_two([](One &one, unsigned rank, Meeting &meeting) {
        mcasts_sent.clear();
        mcasts_received.clear();
        const pm_mcast_setup setup = mcast_setup();
        ASSERT_EQ(pm_mcast_open(one.core, &setup), PM_OK) << pm_error_text();
        const pm_group_setup setup_of_group = one.group();
        pm_group *group = pm_group_open(&setup_of_group);
        meeting.connected.meet(2);
        auto poll = [] { pm_mcast_poll(); };
        int cookie;
        if (rank == 0) {
            const std::uint64_t members = 1 << 1;
            EXPECT_EQ(pm_mcast_send(group, "hello", 5, &members, 9, 1, &cookie), PM_QUEUED);
            one.progress_until([&] { return !mcasts_sent.empty(); }, poll);
            EXPECT_EQ(mcasts_sent, std::vector<void *>{&cookie});
        } else {
            char text[6] = {};
            std::uint64_t members = 0;
            pm_mcast_receive(group, text, 5, PM_ANY, 9, &members, &cookie);
            one.progress_until([&] { return !mcasts_received.empty(); }, poll);
            EXPECT_EQ(mcasts_received, std::vector<void *>{&cookie});
            EXPECT_STREQ(text, "hello");
            EXPECT_EQ(members, std::uint64_t{1} << 1);
            one.progress_until([] { return pm_mcast_owes() == 0; }, poll);
        }
        meeting.ended.add();
        while (meeting.ended.value() < 2)
            ASSERT_GE(pm_progress(one.core), 0);
        pm_group_close(group);
        pm_mcast_close();
        EXPECT_EQ(pm_mcast_owes(), 0) << "nothing is there any more";
        pm_mcast_attend();
    });
}

TEST(CollCalls, AnUnknownAlgorithmIsAnError)
{
    pm_mcast_setup setup = mcast_setup();
    setup.algorithm = "pigeon";
    EXPECT_EQ(pm_mcast_open(nullptr, &setup), PM_FAILED);
    EXPECT_NE(std::string(pm_error_text()).find("pigeon"), std::string::npos) << pm_error_text();
}

TEST(CollCalls, CopiesThatWaitAreSomeUpToALimit)
{
    pm::test::TimeLimit limit(60);
    pm::test::LoopNetworks networks({{"wire"}});
    pm_setup setup = pm::test::plain_setup();
    setup.devices = "shmem";
    pm_core *core = pm_open(&setup);
    ASSERT_NE(core, nullptr) << pm_error_text();
    const pm_mcast_setup mcast = mcast_setup();
    ASSERT_EQ(pm_mcast_open(core, &mcast), PM_OK) << pm_error_text();
    std::vector<std::byte> bytes(PM_CARD_MAX);
    bytes.resize(pm_card(core, bytes.data()));
    pm::Card card = *pm::Card::read(bytes);
    card.shmem.clear();  // as one of another host
    bytes = card.write();
    pm_peer *peer = pm_connect(core, bytes.data(), bytes.size());
    ASSERT_NE(peer, nullptr) << pm_error_text();
    const pm_group_setup setup_of_group{group_id, 2, 0, peer, [](void *other, int) { return static_cast<pm_peer *>(other); }, nullptr};
    pm_group *group = pm_group_open(&setup_of_group);
    networks[0].answer = pm::Status::again;
    const std::uint64_t members = 1 << 1;
    constexpr std::size_t each = 1024;
    const std::vector<char> data(each);
    EXPECT_EQ(pm_mcast_backlog(), PM_BACKLOG_NONE);
    for (std::size_t size = each; size <= PM_MCAST_BACKLOG; size += each) {
        ASSERT_EQ(pm_mcast_send(group, data.data(), each, &members, 9, 0, nullptr), PM_OK);
        ASSERT_EQ(pm_mcast_backlog(), PM_BACKLOG_SOME) << size;
    }
    ASSERT_EQ(pm_mcast_send(group, data.data(), 1, &members, 9, 0, nullptr), PM_OK);
    EXPECT_EQ(pm_mcast_backlog(), PM_BACKLOG_MUCH);
    networks[0].answer = pm::Status::ok;
    while (pm_sends_queued(core))
        ASSERT_GE(pm_progress(core), 0) << pm_error_text();
    EXPECT_EQ(pm_mcast_backlog(), PM_BACKLOG_NONE);
    pm_group_close(group);
    pm_mcast_close();
    pm_close(core);
}

// --- teams ---

TEST(CollCalls, ABoardThatHasNoMemoryIsNotLaidOut)
{
    if (!pm_team_can_grow())
        GTEST_SKIP() << "the kernel cannot be asked for pages";
    const std::size_t size = pm_team_notes_size(2);
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    EXPECT_EQ(pm_team_lay_out(memory, 2, 1), 1);
    ASSERT_EQ(munmap(memory, size), 0);
    EXPECT_EQ(pm_team_lay_out(memory, 2, 1), 0);
}

// How much of a place is backed by memory.
static std::size_t backed_of(void *place, std::size_t size)
{
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> there((size + page - 1) / page);
    EXPECT_EQ(mincore(place, size, there.data()), 0);
    return page * static_cast<std::size_t>(std::ranges::count_if(there, [](unsigned char one) { return (one & 1) != 0; }));
}

TEST(CollCalls, OfAPageAsMuchIsBackedAsIsWritten)
{
    if (!pm_team_can_grow())
        GTEST_SKIP() << "the kernel cannot be asked for pages";
    if (sysconf(_SC_PAGESIZE) != 4096)
        GTEST_SKIP() << "pages of the kernel of another size";
    const std::size_t size = pm_team_board_size(1, PM_TEAM_PAGES);
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(pm_team_lay_out(memory, 1, 1), 1);
    pm_group_setup alone = {};
    alone.size = 1;
    pm_team *team = pm_team_join(&alone, memory, PM_TEAM_PAGES, 1, 0);
    ASSERT_NE(team, nullptr);
    void *place = pm_team_place(team, 5000);
    ASSERT_EQ(place, pm_team_place(team, PM_TEAM_PAGE));
    for (auto [asked, expected] : {std::pair<std::size_t, std::size_t>{5000, 8192}, {8192, 8192}, {8193, 12288}, {4097, 12288}, {PM_TEAM_PAGE, PM_TEAM_PAGE}}) {
        EXPECT_EQ(pm_team_back(team, asked), 1);
        EXPECT_EQ(backed_of(place, PM_TEAM_PAGE), expected) << asked;
    }
    pm_team_leave(team);
    // Who has the seat next finds the page, and the notes, with memory, and asks the kernel for nothing: not even where there is nothing any more.
    const uint64_t begin = pm_team_behind_all(team) / PM_TEAM_PAGES * PM_TEAM_PAGES;
    pm_team_free(team);
    pm_team_lay_out_again(memory, 1, begin);
    team = pm_team_join(&alone, memory, PM_TEAM_PAGES, 1, begin);
    ASSERT_NE(team, nullptr);
    ASSERT_EQ(pm_team_place(team, PM_TEAM_PAGE), place);
    ASSERT_EQ(madvise(place, PM_TEAM_PAGE, MADV_REMOVE), 0);
    EXPECT_EQ(pm_team_back(team, PM_TEAM_PAGE), 1);
    EXPECT_EQ(backed_of(place, PM_TEAM_PAGE), 0u);
    pm_team_free(team);
    ASSERT_EQ(munmap(memory, size), 0);
}

}  // namespace
