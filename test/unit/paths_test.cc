// A peer has paths in the order of the routing rule, of which one is used. The networks are those of a device that only tests have, so
// that this also shows what a new device needs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "netmod/core/handlers.h"
#include "netmod/core/setup.h"
#include "netmod/core/shared.h"
#include "netmod/core/state.h"
#include "support/core_setup.h"
#include "support/loop_device.h"
#include "support/private_network.h"
#include "support/time_limit.h"
#include "support/ucx_environment.h"

namespace {

using pm::PathState;
using pm::Status;
using pm::test::LoopNetwork;

pm_core *core;  // of the test
std::vector<std::string> arrived_payloads;
unsigned sent_count;

void *arrived(pm_core *, const pm_envelope *, void *piece, size_t piece_size, size_t)
{
    arrived_payloads.emplace_back(static_cast<char *>(piece), piece_size);
    return nullptr;
}
void sent(void *)
{
    sent_count++;
}

class Paths : public testing::Test {
  protected:
    Paths()
    {
        arrived_payloads.clear();
        sent_count = 0;
    }
    ~Paths() override
    {
        close();
    }

    static void close()
    {
        if (core != nullptr)
            pm_close(core);
        core = nullptr;
    }

    // The networks, and the process itself as a peer of another host: one that shared memory does not lead to.
    void open(std::vector<LoopNetwork> networks, const char *devices = "shmem")
    {
        networks_ = std::make_unique<pm::test::LoopNetworks>(std::move(networks));
        pm_setup setup = pm::test::plain_setup();
        setup.devices = devices;
        setup.udp_silence_limit = silence_limit_;
        ASSERT_NE(core = pm_open(&setup), nullptr) << pm_error_text();
        pm_handler handler{};
        handler.name = "test";
        handler.smallest_header = 4;
        handler.arrived = arrived;
        handler.sent = sent;
        ASSERT_EQ(pm_handle(core, 1, &handler), PM_OK) << pm_error_text();
        std::vector<std::byte> bytes(PM_CARD_MAX);
        bytes.resize(pm_card(core, bytes.data()));
        card = *pm::Card::read(bytes);
        card.shmem.clear();
    }
    pm_peer *connect()
    {
        auto bytes = card.write();
        return pm_connect(core, bytes.data(), bytes.size());
    }
    // The text must stay.
    static int send(pm_peer *peer, const char *text) { return pm_send(peer, 1, "head", 4, text, std::strlen(text), peer); }
    // Until so many have arrived, or it fails.
    static bool progress(std::size_t count)
    {
        while (arrived_payloads.size() < count)
            if (pm_progress(core) < 0)
                return false;
        return true;
    }
    // "best proved*, other untried": the names of networks with their states, and a star at the one that is used.
    static std::string paths_of(const pm_peer *peer)
    {
        constexpr const char *states[] = {"untried", "proved", "suspected", "dead"};
        std::string text;
        for (const auto &path : peer->paths)
            text += (text.empty() ? "" : ", ") + (path->network.empty() ? path->channel->name : path->network) + " " +
                    states[static_cast<int>(path->state)] + (path.get() == peer->used ? "*" : "");
        return text;
    }
    LoopNetwork &network(std::size_t i) { return (*networks_)[i]; }

    pm::Card card;
    double silence_limit_ = 30;
    std::unique_ptr<pm::test::LoopNetworks> networks_;
    pm::test::TimeLimit limit_{60};
};

TEST_F(Paths, ADeviceThatTheCoreDoesNotKnowCarriesMessages)
{
    open({{"wire"}});
    pm_peer *peer = connect();
    ASSERT_NE(peer, nullptr) << pm_error_text();
    EXPECT_EQ(pm_largest_header(core), 1000u);
    EXPECT_EQ(send(peer, "first"), PM_OK);
    EXPECT_EQ(pm_send_now(peer, 1, "head", 4, "second", 6), 1);
    ASSERT_TRUE(progress(2));
    EXPECT_EQ(arrived_payloads, (std::vector<std::string>{"first", "second"}));
    EXPECT_EQ(network(0).carried, 2u);
    // What it does not have it is not asked for.
    EXPECT_FALSE(pm_can_offer(peer));
    EXPECT_FALSE(pm_on_host(peer));
    EXPECT_FALSE(pm_has_ended(peer));
    EXPECT_FALSE(pm_must_linger(core));
    EXPECT_EQ(pm_shared_view(peer, 0, 1), nullptr);
    pm_nudge(peer);
    close();
    EXPECT_EQ(network(0).disconnected, network(0).connected);
}

TEST_F(Paths, ADeviceThatTheCoreDoesNotKnowIsSleptOnTogetherWithOthers)
{
    for (const char *devices : {"shmem", "udp"}) {
        arrived_payloads.clear();
        open({{"wire"}}, devices);
        pm_peer *peer = connect();
        ASSERT_NE(peer, nullptr) << pm_error_text();
        while (!pm_wait_arm(core))
            ASSERT_GE(pm_progress(core), 0);
        ASSERT_EQ(send(peer, "x"), PM_OK);
        unsigned polled = network(0).polled, slept = network(0).slept;
        pm_wait_sleep(core, 0);  // returns: there is something to read
        EXPECT_EQ(network(0).slept, slept + 1) << devices;
        pm_wait_disarm(core);
        EXPECT_FALSE(pm_wait_arm(core));
        pm_wait_disarm(core);
        ASSERT_TRUE(progress(1));
        EXPECT_EQ(network(0).polled, polled + 1) << "after a sleep everybody is polled at once";
        close();
        networks_.reset();
    }
}

// It may cost a system call: only those whom shared memory leads to could be kept waiting by it.
TEST_F(Paths, ANetworkIsPolledEachTimeUnlessOthersAreReachedBySharedMemory)
{
    open({{"wire"}});
    pm_peer *peer = connect();
    ASSERT_NE(peer, nullptr) << pm_error_text();
    auto polls_after_a_message = [&](unsigned rounds) {
        EXPECT_EQ(send(peer, "x"), PM_OK);
        EXPECT_TRUE(progress(arrived_payloads.size() + 1));
        const unsigned before = network(0).polled;
        for (unsigned i = 0; i < rounds; ++i)
            EXPECT_EQ(pm_progress(core), 0);
        return network(0).polled - before;
    };
    EXPECT_EQ(polls_after_a_message(10), 10u);
    std::vector<std::byte> bytes(PM_CARD_MAX);
    ASSERT_NE(pm_connect(core, bytes.data(), pm_card(core, bytes.data())), nullptr) << pm_error_text();
    EXPECT_EQ(polls_after_a_message(10), 10u) << "the process itself is nobody else";
    pm_setup setup = pm::test::plain_setup();
    setup.devices = "shmem";
    setup.process = 1;
    pm_core *other = pm_open(&setup);
    ASSERT_NE(other, nullptr) << pm_error_text();
    pm_peer *neighbour = pm_connect(core, bytes.data(), pm_card(other, bytes.data()));
    ASSERT_NE(neighbour, nullptr) << pm_error_text();
    EXPECT_EQ(paths_of(neighbour), "shmem proved*");
    EXPECT_EQ(polls_after_a_message(10), 1u) << "one that has just spoken, once";
    close();
    pm_close(other);
}

TEST_F(Paths, AreInTheOrderOfTheRule)
{
    open({{"low", 10}, {"high", 30}, {"middle", 20}});
    EXPECT_EQ(paths_of(connect()), "high untried*, middle untried, low untried");
    EXPECT_EQ(network(0).connected + network(2).connected, 0u) << "one at a time";
}

TEST_F(Paths, WithinAHostThereIsOne)
{
    open({{"wire"}});
    std::vector<std::byte> bytes(PM_CARD_MAX);
    pm_peer *self = pm_connect(core, bytes.data(), pm_card(core, bytes.data()));
    ASSERT_NE(self, nullptr) << pm_error_text();
    EXPECT_EQ(paths_of(self), "shmem proved*");
}

TEST_F(Paths, TheOneThatCarriedAMessageIsProved)
{
    open({{"high", 30}, {"low", 10}});
    pm_peer *peer = connect();
    network(0).answer = Status::again;
    EXPECT_EQ(send(peer, "x"), PM_QUEUED);
    EXPECT_EQ(pm_progress(core), 0);
    EXPECT_EQ(paths_of(peer), "high untried*, low untried");
    network(0).answer = Status::ok;
    ASSERT_TRUE(progress(1));
    EXPECT_EQ(paths_of(peer), "high proved*, low untried");
}

TEST_F(Paths, OneThatRefusesThePeerIsDeadAndTheNextIsTaken)
{
    open({{"high", 30, true}, {"low", 10}});
    pm_peer *peer = connect();
    ASSERT_NE(peer, nullptr) << pm_error_text();
    EXPECT_EQ(paths_of(peer), "high dead, low untried*");
}

TEST_F(Paths, OneThatLeadsNowhereIsDeadAndWhatWaitsGoesOverTheNext)
{
    open({{"high", 30}, {"middle", 20}, {"low", 10}});
    pm_peer *peer = connect();
    network(0).answer = network(1).answer = Status::unreachable;
    EXPECT_EQ(send(peer, "first"), PM_QUEUED);
    EXPECT_EQ(send(peer, "second"), PM_QUEUED);
    ASSERT_TRUE(progress(2)) << pm_error_text();
    EXPECT_EQ(arrived_payloads, (std::vector<std::string>{"first", "second"}));
    EXPECT_EQ(sent_count, 2u);
    EXPECT_EQ(paths_of(peer), "high dead, middle dead, low proved*");
    EXPECT_EQ(network(0).disconnected, 1u);
    EXPECT_EQ(network(1).disconnected, 1u);
    EXPECT_EQ(network(2).disconnected, 0u);
}

TEST_F(Paths, WhenNoneIsLeftTheErrorNamesThem)
{
    open({{"high", 30}, {"low", 10, true}});
    pm_peer *peer = connect();
    network(0).answer = Status::unreachable;
    EXPECT_EQ(send(peer, "x"), PM_QUEUED);
    EXPECT_FALSE(progress(1));
    for (const char *word : {"high does not lead there", "no device reaches", "low: loop: a card that is refused"})
        EXPECT_NE(std::string(pm_error_text()).find(word), std::string::npos) << word << " is not in: " << pm_error_text();
    EXPECT_EQ(paths_of(peer), "high dead*, low dead");
    EXPECT_EQ(network(0).disconnected, 0u) << "what it had stays";
}

TEST_F(Paths, OneThatIsProvedIsNotLeft)
{
    open({{"high", 30}, {"low", 10}});
    pm_peer *peer = connect();
    EXPECT_EQ(send(peer, "first"), PM_OK);
    network(0).answer = Status::unreachable;
    EXPECT_EQ(send(peer, "second"), PM_FAILED);
    EXPECT_NE(std::string(pm_error_text()).find("high does not lead there"), std::string::npos) << pm_error_text();
    EXPECT_EQ(paths_of(peer), "high dead*, low untried") << "another would break the order";
    EXPECT_EQ(network(1).connected, 0u);
}

TEST_F(Paths, ACardThatTellsMoreAddsThoseThatTheFirstDidNotTell)
{
    open({{"high", 30}, {"low", 10}});
    pm::Card whole = card;
    card.networks.pop_back();
    pm_peer *peer = connect();
    EXPECT_EQ(paths_of(peer), "high untried*");
    card = whole;
    EXPECT_EQ(connect(), peer);
    network(0).answer = Status::unreachable;
    EXPECT_EQ(send(peer, "x"), PM_QUEUED);
    ASSERT_TRUE(progress(1)) << pm_error_text();
    EXPECT_EQ(paths_of(peer), "high dead, low proved*");
}

TEST_F(Paths, WhatANetworkWasMeasuredWithBecomesThePath)
{
    open({{"high", 30}, {"low", 10}});
    auto bytes = card.write();
    std::uint64_t low = card.networks.back().network.id;
    ASSERT_NE(pm_connect_over(core, low, bytes.data(), bytes.size()), nullptr) << pm_error_text();
    pm_set_priority(core, low, 1000);
    pm_peer *peer = connect();
    EXPECT_EQ(paths_of(peer), "low untried*, high untried");
    EXPECT_EQ(network(1).connected, 1u) << "not once more";
    EXPECT_TRUE(core->measured.empty());
}

// What waits in the queue is the device's once it has taken it, which tells of its end by itself.
TEST_F(Paths, AnOfferThatHadToWaitIsMadeOnceWithItsCookie)
{
    LoopNetwork able{"fabric"};
    able.is_able = true;
    able.answer = Status::again;
    open({able});
    pm_peer *peer = connect();
    ASSERT_NE(peer, nullptr) << pm_error_text();
    ASSERT_TRUE(pm_can_offer(peer));
    int cookie = 0;
    EXPECT_EQ(pm_offer(peer, 1, "head", 4, "data", 4, &cookie), PM_QUEUED);
    EXPECT_EQ(pm_progress(core), 0);
    EXPECT_EQ(pm_progress(core), 0);
    EXPECT_TRUE(network(0).offered.empty());
    network(0).answer = Status::ok;
    EXPECT_EQ(pm_progress(core), 1);
    EXPECT_EQ(network(0).offered, std::vector<void *>{&cookie});
    EXPECT_EQ(sent_count, 0u) << "nobody has taken it";
    EXPECT_FALSE(pm_sends_queued(core));
}

TEST_F(Paths, AMessageStartsTheCountOfPollsInVainAgain)
{
    open({{"wire"}});
    pm_peer *peer = connect();
    ASSERT_NE(peer, nullptr) << pm_error_text();
    ASSERT_EQ(pm_crowded(core), 0);
    core->oversubscribed = true;  // only then they are counted
    pm::waiter.empty_polls = 0;
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(pm_progress(core), 0);
    EXPECT_EQ(pm::waiter.empty_polls, 3u);
    EXPECT_EQ(send(peer, "x"), PM_OK);
    EXPECT_EQ(pm_progress(core), 1);
    EXPECT_EQ(pm::waiter.empty_polls, 0u);
}

// Nobody uses it, but it may ask again; or somebody uses it again.
TEST_F(Paths, APeerThatPartedIsForgottenUnlessItIsUsedAgain)
{
    open({{"wire"}});
    pm_peer *peer = connect();
    ASSERT_NE(peer, nullptr) << pm_error_text();
    const pm::Time now = pm::clock_now(), late = now + std::chrono::hours(1);
    for (int users : {1, 0}) {
        peer->users = users;
        peer->parted = now;
        core->parting = {peer};
        pm::forget_parted(core, now);
        EXPECT_EQ(core->parting.empty(), users == 1);
        pm::forget_parted(core, late);
        EXPECT_TRUE(core->parting.empty());
        EXPECT_EQ(core->peers.size(), users == 1 ? 1u : 0u);
    }
}

TEST_F(Paths, SilenceHasALimitOrNone)
{
    silence_limit_ = 1.5;
    open({{"wire"}});
    EXPECT_EQ(core->silence_limit, std::chrono::milliseconds(1500));
    close();
    networks_.reset();
    silence_limit_ = 0;
    open({{"wire"}});
    EXPECT_EQ(core->silence_limit, pm::never);
}

std::string description_of(pm_peer *const *peers, int count)
{
    std::size_t size = 0;
    void *description = pm_describe(core, peers, count, &size);
    char *text = pm_render(description, &size, 1, nullptr, "json");
    std::string json = text;
    std::free(text);
    std::free(description);
    return json;
}

std::size_t occurrences(const std::string &text, const std::string &of)
{
    std::size_t count = 0;
    for (std::size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1))
        ++count;
    return count;
}

// One that is reached over a network has no doorbell to look at.
TEST_F(Paths, WhoSharesNoMemoryIsNotWokenByIt)
{
    open({{"wire"}});
    pm_peer *peer = connect();
    ASSERT_NE(peer, nullptr) << pm_error_text();
    EXPECT_FALSE(pm_may_sleep(peer));
}

// Two networks may have one name: what is told is what went over each.
TEST_F(Paths, AMessageIsToldOfTheNetworkItWentOver)
{
    open({{"wire", 30}, {"wire", 10}});
    pm_peer *peer = connect();
    ASSERT_NE(peer, nullptr) << pm_error_text();
    ASSERT_EQ(send(peer, "x"), PM_OK);
    ASSERT_TRUE(progress(1));
    pm_peer *const peers[] = {peer, nullptr};  // of which one is asked for
    const std::string json = description_of(peers, 1);
    EXPECT_EQ(occurrences(json, "\"network\":\"wire\",\"messages_sent\":1,"), 1u) << json;
    EXPECT_EQ(occurrences(json, "\"network\":\"wire\",\"messages_sent\":0,"), 1u) << json;
    EXPECT_EQ(json.find("pulled"), std::string::npos) << json;
}

// A device that hears nothing while the peer computes: the host is asked. There is no way to its address.
class SilentHosts : public Paths {
  protected:
    void SetUp() override
    {
        if (std::string reason = pm::test::enter_private_network(); !reason.empty())
            GTEST_SKIP() << reason;
    }
    const pm::Ip nowhere = pm::ip_from_v4({10, 1, 2, 3});
};

TEST_F(SilentHosts, ThePathIsSuspectedWhereNothingElseIsLeft)
{
    open({{"fabric", 30, false, Status::again, nowhere}});
    pm_peer *peer = connect();
    EXPECT_EQ(send(peer, "x"), PM_QUEUED);
    EXPECT_EQ(paths_of(peer), "fabric untried*");
    while (peer->used->state == PathState::untried)
        ASSERT_GE(pm_progress(core), 0) << pm_error_text();
    EXPECT_EQ(paths_of(peer), "fabric suspected*");
    network(0).answer = Status::ok;
    ASSERT_TRUE(progress(1));
    EXPECT_EQ(paths_of(peer), "fabric proved*");
}

TEST_F(SilentHosts, AreAskedOverThePathThatIsInUse)
{
    open({{"fabric", 30, false, Status::again, nowhere}});
    ASSERT_NE(connect(), nullptr) << pm_error_text();
    for (bool is_used : {false, true}) {
        network(0).is_used = is_used;
        // It has been quiet for an hour.
        core->watch.noise();
        core->watch.step(pm::clock_now() - std::chrono::hours(1), core->silence_limit, [] { return std::set<pm::Ip>(); });
        pm::watch_hosts(core);
        EXPECT_EQ(network(0).asked, is_used ? 1u : 0u);
    }
}

TEST_F(SilentHosts, ThePathIsLeftWhereThereIsAnother)
{
    open({{"fabric", 30, false, Status::again, nowhere}, {"low", 10}});
    pm_peer *peer = connect();
    EXPECT_EQ(send(peer, "x"), PM_QUEUED);
    ASSERT_TRUE(progress(1)) << pm_error_text();
    EXPECT_EQ(paths_of(peer), "fabric dead, low proved*");
}

}  // namespace
