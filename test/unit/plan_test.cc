// Cards make a table: the same for everybody, whoever is asked.
#include "netmod/routing/plan.h"

#include <gtest/gtest.h>

#include <cstring>

#include "shmmod/shmem.h"

namespace pm {
namespace {

Card card_of(std::uint64_t host, std::uint32_t process, std::vector<Network> networks)
{
    Card card;
    card.host = "h" + std::to_string(host);
    card.process = process;
    shmem::Card shared{};
    shared.host = host;
    card.shmem.resize(sizeof shared);
    std::memcpy(card.shmem.data(), &shared, sizeof shared);
    for (Network &network : networks)
        card.networks.push_back({network, ip_from_v4({10, 0, static_cast<std::uint8_t>(network.id), static_cast<std::uint8_t>(host)}), {}});
    return card;
}

const Network san{8, DeviceKind::ucx, 200, "san"}, lan{3, DeviceKind::udp, 100, "lan"};

TEST(Plan, NetworksAreInOneOrderWhoeverComesFirst)
{
    std::vector<Network> one, other;
    for (const Network &each : {san, lan})
        add_network(&one, each);
    for (const Network &each : {lan, san, lan})
        add_network(&other, each);
    ASSERT_EQ(one.size(), 2u);
    ASSERT_EQ(other.size(), 2u);
    EXPECT_EQ(one[0].id, other[0].id);
    EXPECT_EQ(one[1].id, other[1].id);
}

TEST(Plan, TheHighestPriorityThatAnybodyGivesCounts)
{
    std::vector<Network> networks;
    Network higher = lan;
    higher.priority = 900;
    add_network(&networks, lan);
    add_network(&networks, higher);
    add_network(&networks, lan);
    ASSERT_EQ(networks.size(), 1u);
    EXPECT_EQ(networks[0].priority, 900);
}

TEST(Plan, ThoseWhoShareAHostAreKnownFromTheBytesOfTheirCards)
{
    std::vector<std::vector<std::byte>> bytes;
    for (const Card &card : {card_of(1, 0, {san, lan}), card_of(1, 1, {}), card_of(2, 0, {san, lan})})
        bytes.push_back(card.write());
    Card alone = card_of(1, 2, {lan});
    alone.shmem.clear();
    bytes.push_back(alone.write());
    auto share = [&](std::initializer_list<std::size_t> which) {
        std::vector<std::span<const std::byte>> cards;
        for (std::size_t each : which)
            cards.emplace_back(bytes[each]);
        return share_a_host(cards);
    };
    EXPECT_TRUE(share({0}));
    EXPECT_TRUE(share({0, 1, 0}));
    EXPECT_FALSE(share({0, 1, 2}));
    EXPECT_FALSE(share({3}));
    EXPECT_FALSE(share({0, 3}));
    for (std::size_t size = 0; size < 20; ++size)
        EXPECT_FALSE(share_a_host({std::span<const std::byte>(bytes[0]).first(size)})) << size;
}

TEST(Plan, RoutesFollowFromCards)
{
    auto report = planned_routes({card_of(1, 0, {san, lan}), card_of(1, 1, {san, lan}), card_of(2, 0, {lan, san}), card_of(3, 0, {lan})});
    ASSERT_TRUE(report.ok()) << report.error().text;
    const auto &processes = report.value().processes;
    ASSERT_EQ(processes.size(), 4u);
    EXPECT_EQ(processes[0].routes[1].device, "shmem");
    EXPECT_EQ(processes[0].routes[2].device, "ucx");
    EXPECT_EQ(processes[0].routes[2].network, "san");
    EXPECT_EQ(processes[0].routes[2].address, "10.0.8.2");
    EXPECT_EQ(processes[2].routes[1].device, "ucx");
    EXPECT_EQ(processes[2].routes[1].channel, 1u);
    EXPECT_EQ(processes[3].routes[1].device, "udp");
    EXPECT_EQ(processes[3].routes[1].channel, 1u);
    EXPECT_EQ(processes[3].routes[2].address, "10.0.3.2");
    EXPECT_FALSE(report.value().finished);
}

TEST(Plan, WithoutSharedMemoryProcessesOfAHostTalkOverANetwork)
{
    Card one = card_of(1, 0, {lan}), other = card_of(1, 1, {lan});
    one.shmem.clear();
    auto report = planned_routes({one, other});
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report.value().processes[0].routes[1].device, "udp");
    EXPECT_EQ(report.value().processes[1].routes[0].device, "udp");
}

TEST(Plan, AJobInTwoPartsIsAnErrorThatNamesBothHosts)
{
    auto report = planned_routes({card_of(1, 0, {san}), card_of(2, 0, {lan})});
    ASSERT_FALSE(report.ok());
    for (const char *word : {"h1", "h2", "san", "lan"})
        EXPECT_NE(report.error().text.find(word), std::string::npos) << report.error().text;
}

TEST(Plan, AJobIsCheckedByTheKindsOfItsProcesses)
{
    auto error_of = [](const std::vector<Card> &cards) { return check_routes(topology_of(cards)).text; };
    EXPECT_EQ(error_of({card_of(1, 0, {san, lan}), card_of(2, 0, {lan}), card_of(3, 0, {lan, san})}), "");
    EXPECT_EQ(error_of({card_of(1, 0, {}), card_of(1, 1, {})}), "") << "one host needs no network";
    EXPECT_NE(error_of({card_of(1, 0, {}), card_of(1, 1, {}), card_of(2, 0, {})}), "") << "two hosts do";
    EXPECT_NE(error_of({card_of(1, 0, {lan}), card_of(2, 0, {lan}), card_of(3, 0, {san})}), "");
}

TEST(Plan, NetworksWithAChoiceAreTriedByTheFirstTwoHostsThatHaveIt)
{
    Topology job = topology_of({card_of(1, 0, {lan}), card_of(2, 0, {lan, san}), card_of(2, 1, {lan, san}), card_of(3, 0, {lan, san})});
    auto trials = trials_of(job);
    ASSERT_EQ(trials.size(), 2u);
    for (const Trial &each : trials) {
        EXPECT_EQ(each.first, 1u);
        EXPECT_EQ(each.second, 3u);
    }
    EXPECT_NE(trials[0].network, trials[1].network);
    EXPECT_TRUE(trials_of(topology_of({card_of(1, 0, {lan}), card_of(2, 0, {lan})})).empty()) << "there is no choice";
}

TEST(Plan, HostsWithTheSameBestNetworkAreACluster)
{
    const Network other{9, DeviceKind::ucx, 200, "other"}, alone{10, DeviceKind::ucx, 300, "alone"};
    using Clusters = std::vector<std::uint32_t>;
    EXPECT_EQ(clusters_of(topology_of({card_of(1, 0, {lan}), card_of(1, 1, {lan}), card_of(2, 0, {lan})})), (Clusters{0, 0, 0}));
    EXPECT_EQ(clusters_of(topology_of({card_of(1, 0, {lan, other}), card_of(2, 0, {lan, san}), card_of(3, 0, {lan, san, alone}), card_of(4, 0, {other, lan}), card_of(4, 1, {other, lan})})),
              (Clusters{0, 1, 1, 0, 0}));
    EXPECT_EQ(clusters_of(topology_of({card_of(1, 0, {}), card_of(2, 0, {lan, san}), card_of(3, 0, {lan, san}), card_of(4, 0, {lan})})),
              (Clusters{0, 1, 1, 2})) << "who reaches nobody is a cluster, and so is one that is on no better network";
}

TEST(Plan, TheQuickestNetworkHasTheHighestPriority)
{
    const double times[] = {3e-6, 2.0, 1e-6, 2.0};
    EXPECT_EQ(priorities_by_time(times), (std::vector<int>{999, 998, 1000, 997})) << "the first of two that took the same time";
    EXPECT_TRUE(priorities_by_time({}).empty());
    for (DeviceKind device : {DeviceKind::ucx, DeviceKind::udp})
        EXPECT_GT(1000 - static_cast<int>(networks_max), default_priority(device));
}

}  // namespace
}  // namespace pm
