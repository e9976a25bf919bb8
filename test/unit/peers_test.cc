// A peer is reached over the best network that leads to it; when that turns out not to, over the next one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "netmod/routing/card.h"
#include "netmod/routing/settings.h"
#include "netmod/core/handlers.h"
#include "netmod/core/setup.h"
#include "support/core_setup.h"
#include "support/time_limit.h"
#include "support/ucx_environment.h"

namespace {

pm_core *core;  // of the test
std::vector<std::string> arrived_payloads;

void *arrived(pm_core *, const pm_envelope *, void *piece, size_t piece_size, size_t)
{
    arrived_payloads.emplace_back(static_cast<char *>(piece), piece_size);
    return nullptr;
}

pm_setup setup_of(const char *devices, const char *networks)
{
    pm_setup setup = pm::test::plain_setup();
    setup.devices = devices;
    setup.networks = networks;
    setup.udp_silence_limit = 1;
    return setup;
}

std::vector<std::byte> own_card()
{
    std::vector<std::byte> card(PM_CARD_MAX);
    card.resize(pm_card(core, card.data()));
    return card;
}

std::string table(pm_peer *peer)
{
    size_t size = 0;
    void *description = pm_describe(core, &peer, 1, &size);
    char *text = pm_render(description, &size, 1, nullptr, "json");
    std::string json = text;
    std::free(text);
    std::free(description);
    return json;
}

bool has_ucx()
{
    for (const std::string &device : pm::known_devices())
        if (device == "ucx")
            return true;
    return false;
}

class Peers : public testing::Test {
  protected:
    void SetUp() override
    {
        if (!has_ucx())
            GTEST_SKIP() << "UCX is not built in";
        arrived_payloads.clear();
    }
    void TearDown() override
    {
        close();
    }
    static void close()
    {
        if (core != nullptr)
            pm_close(core);
        core = nullptr;
    }
    void open(const char *networks)
    {
        pm_setup setup = setup_of("ucx,udp", networks);
        ASSERT_NE(core = pm_open(&setup), nullptr) << pm_error_text();
        // What is measured with, and cards that say what is not true, are strangers'.
        pm_handler handler{};
        handler.name = "test";
        handler.for_strangers = 1;
        handler.arrived = arrived;
        ASSERT_EQ(pm_handle(core, 1, &handler), PM_OK) << pm_error_text();
    }

    pm::test::TimeLimit limit_{60};
};

constexpr const char *both = "network fast ucx lo; network slow udp lo";

TEST_F(Peers, TheNetworkOfHighestPriorityIsTaken)
{
    open(both);
    auto card = own_card();
    pm_peer *peer = pm_connect(core, card.data(), card.size());
    ASSERT_NE(peer, nullptr) << pm_error_text();
    EXPECT_NE(table(peer).find("\"device\":\"ucx\",\"network\":\"fast\""), std::string::npos) << table(peer);
}

TEST_F(Peers, APriorityThatIsGivenCounts)
{
    open("network fast ucx lo priority 3; network slow udp lo priority 4");
    auto card = own_card();
    pm_peer *peer = pm_connect(core, card.data(), card.size());
    ASSERT_NE(peer, nullptr) << pm_error_text();
    EXPECT_NE(table(peer).find("\"device\":\"udp\",\"network\":\"slow\""), std::string::npos) << table(peer);
}

TEST_F(Peers, APriorityThatWasMeasuredCountsMore)
{
    open("network fast ucx lo priority 3; network slow udp lo priority 4");
    auto card = own_card();
    auto read = pm::Card::read(card);
    for (const pm::NetworkCard &each : read->networks)
        pm_set_priority(core, each.network.id, each.network.name == "fast" ? 1000 : 999);
    pm_peer *peer = pm_connect(core, card.data(), card.size());
    ASSERT_NE(peer, nullptr) << pm_error_text();
    EXPECT_NE(table(peer).find("\"network\":\"fast\""), std::string::npos) << table(peer);
}

TEST_F(Peers, WhatItWasMeasuredWithIsUsedFurther)
{
    open(both);
    auto card = own_card();
    auto read = pm::Card::read(card);
    for (const pm::NetworkCard &each : read->networks) {
        pm_peer *trial = pm_connect_over(core, each.network.id, card.data(), card.size());
        ASSERT_NE(trial, nullptr) << pm_error_text();
        ASSERT_NE(pm_send(trial, 1, "hello", 6, "x", 1, nullptr), PM_FAILED);
        while (pm_sends_queued(core))
            ASSERT_GE(pm_progress(core), 0) << pm_error_text();
    }
    pm_peer *peer = pm_connect(core, card.data(), card.size());
    ASSERT_NE(peer, nullptr) << pm_error_text();
    EXPECT_EQ(pm_send(peer, 1, "hello", 6, "y", 1, nullptr), PM_OK) << "it needs no greeting any more";
    while (arrived_payloads.size() < 3)
        ASSERT_GE(pm_progress(core), 0) << pm_error_text();
    EXPECT_EQ(arrived_payloads.back(), "y");
}

// The card that UCX refuses.
TEST_F(Peers, ANetworkThatRefusesThePeerIsLeftForTheNext)
{
    open(both);
    auto card = pm::Card::read(own_card());
    ASSERT_EQ(card->networks[0].network.name, "fast");
    card->networks[0].device_card.back() ^= std::byte{1};
    auto bytes = card->write();
    pm_peer *peer = pm_connect(core, bytes.data(), bytes.size());
    ASSERT_NE(peer, nullptr) << pm_error_text();
    EXPECT_NE(table(peer).find("\"network\":\"slow\""), std::string::npos) << table(peer);
    ASSERT_NE(pm_send(peer, 1, "hello", 6, "x", 1, nullptr), PM_FAILED) << pm_error_text();
    while (arrived_payloads.empty())
        ASSERT_GE(pm_progress(core), 0) << pm_error_text();
}

// Somebody whose UCX is gone and whose UDP answers: the card of this process with the address of one that was closed.
TEST_F(Peers, ANetworkThatTurnsOutToLeadNowhereIsLeftForTheNext)
{
    open(both);
    auto dead = pm::Card::read(own_card());
    close();
    open(both);
    auto card = pm::Card::read(own_card());
    ASSERT_TRUE(card && dead);
    card->networks[0].device_card = dead->networks[0].device_card;
    auto bytes = card->write();
    pm_peer *peer = pm_connect(core, bytes.data(), bytes.size());
    ASSERT_NE(peer, nullptr) << pm_error_text();
    EXPECT_NE(table(peer).find("\"network\":\"fast\""), std::string::npos) << table(peer);
    ASSERT_NE(pm_send(peer, 1, "hello", 6, "x", 1, nullptr), PM_FAILED) << pm_error_text();
    while (arrived_payloads.empty())
        ASSERT_GE(pm_progress(core), 0) << pm_error_text();
    EXPECT_NE(table(peer).find("\"network\":\"slow\""), std::string::npos) << table(peer);
    // And when nothing is left, the sentence tells all that was tried.
    bytes = dead->write();
    peer = pm_connect(core, bytes.data(), bytes.size());
    ASSERT_NE(peer, nullptr) << pm_error_text();
    if (pm_send(peer, 1, "hello", 6, "x", 1, nullptr) != PM_FAILED)
        while (pm_progress(core) >= 0) {
        }
    EXPECT_NE(std::string(pm_error_text()).find("no device reaches"), std::string::npos) << pm_error_text();
    EXPECT_NE(std::string(pm_error_text()).find("udp"), std::string::npos) << pm_error_text();
}

TEST_F(Peers, HostsWithoutACommonNetworkAreNamedWithWhatTheyHave)
{
    open("network fast ucx lo");
    auto card = pm::Card::read(own_card());
    card->host = "elsewhere";
    card->networks[0].network = {42, pm::DeviceKind::udp, 10, "island"};
    auto bytes = card->write();
    EXPECT_EQ(pm_connect(core, bytes.data(), bytes.size()), nullptr);
    for (const char *word : {"elsewhere", "island", "fast"})
        EXPECT_NE(std::string(pm_error_text()).find(word), std::string::npos) << pm_error_text();
}

}  // namespace
