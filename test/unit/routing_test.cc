// The rules of the composite: the routing table of the paper, and what must hold for every topology.
#include "netmod/routing/rule.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "support/random.h"
#include "support/seeds.h"

namespace pm {
namespace {

constexpr DeviceKind ucx = DeviceKind::ucx, udp = DeviceKind::udp;

// Hosts n0, n1, ... of which each has as many processes as `processes` says and is on the networks whose bits are set.
struct Host {
    std::uint32_t processes;
    std::uint64_t networks;
};
Topology job(std::vector<Network> networks, const std::vector<Host> &hosts)
{
    Topology topology;
    topology.networks = std::move(networks);
    for (std::uint32_t host = 0; host < hosts.size(); ++host) {
        topology.hosts.push_back("n" + std::to_string(host));
        for (std::uint32_t process = 0; process < hosts[host].processes; ++process)
            topology.nodes.push_back({host, process, hosts[host].networks});
    }
    return topology;
}

Network network(const char *name, DeviceKind device, int priority)
{
    return {static_cast<std::uint64_t>(name[0]), device, priority, name};
}

// "M1": the first letter of the network, or S for SHMEM, and the channel.
std::string text_of(const Topology &topology, const Route &route)
{
    char letter = route.device == DeviceKind::shmem ? 'S' : topology.networks[route.network].name[0];
    return letter + std::to_string(route.channel);
}

std::string route_text(const Topology &topology, std::size_t from, std::size_t to)
{
    Result<Route> route = route_between(topology, from, to);
    return route.ok() ? text_of(topology, route.value()) : route.error().text;
}

void expect_error_with(const Error &error, Status status, const std::vector<std::string> &words)
{
    EXPECT_EQ(error.status, status);
    for (const std::string &word : words)
        EXPECT_NE(error.text.find(word), std::string::npos) << "\"" << word << "\" is not in: " << error.text;
}

// ---- all routes of a pair ----

TEST(Routing, AllRoutesOfAPairAreInOrderWithoutThoseThatAreClosed)
{
    Topology topology = job({network("low", udp, 10), network("high", ucx, 30), network("mid", ucx, 20), network("also", ucx, 20)},
                            {{2, 0b1111}, {1, 0b1111}, {1, 0b1010}});
    auto text = [&](std::size_t from, std::size_t to) {
        auto routes = routes_between(topology, from, to);
        std::string all;
        for (const Route &route : routes.ok() ? routes.value() : std::vector<Route>{})
            all += (all.empty() ? "" : " ") + text_of(topology, route);
        return all;
    };
    EXPECT_EQ(text(0, 1), "S0") << "within a host there is no other";
    EXPECT_EQ(text(0, 2), "h0 m0 a0 l0");
    EXPECT_EQ(text(2, 1), "h1 m1 a1 l1");
    EXPECT_EQ(text(0, 3), "h0 a0");
    topology.gaps.push_back({2, 0, 1});
    EXPECT_EQ(text(0, 3), "a0");
    topology.gaps.push_back({2, 0, 3});
    EXPECT_EQ(text(0, 3), "");
    EXPECT_EQ(routes_between(topology, 0, 3).error().text, route_between(topology, 0, 3).error().text);
}

// ---- the example of the paper: clusters of two networks, joined by a third ----

// Myrinet joins `pairs` hosts of two processes, GNIC four hosts of one, UDP all of them.
Topology paper(std::size_t pairs)
{
    std::vector<Host> hosts(pairs, Host{2, 0b101});
    hosts.insert(hosts.end(), 4, Host{1, 0b110});
    return job({network("Myrinet", ucx, 30), network("GNIC", ucx, 20), network("UDP", udp, 10)}, hosts);
}

const std::vector<std::string> paper_table{
    "S0 S0  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  U0 U0 U0 U0",
    "S0 S0  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  U0 U0 U0 U0",
    "M0 M1  S0 S0  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  U0 U0 U0 U0",
    "M0 M1  S0 S0  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  U0 U0 U0 U0",
    "M0 M1  M0 M1  S0 S0  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  U0 U0 U0 U0",
    "M0 M1  M0 M1  S0 S0  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  U0 U0 U0 U0",
    "M0 M1  M0 M1  M0 M1  S0 S0  M0 M1  M0 M1  M0 M1  M0 M1  U0 U0 U0 U0",
    "M0 M1  M0 M1  M0 M1  S0 S0  M0 M1  M0 M1  M0 M1  M0 M1  U0 U0 U0 U0",
    "M0 M1  M0 M1  M0 M1  M0 M1  S0 S0  M0 M1  M0 M1  M0 M1  U0 U0 U0 U0",
    "M0 M1  M0 M1  M0 M1  M0 M1  S0 S0  M0 M1  M0 M1  M0 M1  U0 U0 U0 U0",
    "M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  S0 S0  M0 M1  M0 M1  U0 U0 U0 U0",
    "M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  S0 S0  M0 M1  M0 M1  U0 U0 U0 U0",
    "M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  S0 S0  M0 M1  U0 U0 U0 U0",
    "M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  S0 S0  M0 M1  U0 U0 U0 U0",
    "M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  S0 S0  U0 U0 U0 U0",
    "M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  M0 M1  S0 S0  U0 U0 U0 U0",
    "U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  S0 G0 G0 G0",
    "U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  G0 S0 G0 G0",
    "U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  G0 G0 S0 G0",
    "U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  U0 U1  G0 G0 G0 S0",
};

TEST(Routing, TheTableOfThePaper)
{
    Topology topology = paper(8);
    ASSERT_EQ(topology.nodes.size(), 20u);
    ASSERT_EQ(paper_table.size(), 20u);
    for (std::size_t from = 0; from < 20; ++from) {
        Result<std::vector<Route>> routes = routes_of(topology, from);
        ASSERT_TRUE(routes.ok()) << routes.error().text;
        ASSERT_EQ(routes.value().size(), 20u);
        std::istringstream expected(paper_table[from]);
        for (std::size_t to = 0; to < 20; ++to) {
            std::string word;
            expected >> word;
            EXPECT_EQ(text_of(topology, routes.value()[to]), word) << from << " to " << to;
            EXPECT_EQ(route_text(topology, from, to), word) << from << " to " << to;
        }
    }
}

// As it is printed, where nodes 8 and 9 are of the second cluster.
TEST(Routing, TheEntriesOfThePapersTable2)
{
    Topology topology = paper(4);
    const std::size_t numbers[] = {0, 1, 2, 8, 9};
    const char *rows[] = {"S0 S0 M0 U0 U0",  //
                          "S0 S0 M0 U0 U0",  //
                          "M0 M1 S0 U0 U0",  //
                          "U0 U1 U0 S0 G0",  //
                          "U0 U1 U0 G0 S0"};
    for (std::size_t row = 0; row < 5; ++row) {
        std::string text;
        for (std::size_t to : numbers)
            text += (text.empty() ? "" : " ") + route_text(topology, numbers[row], to);
        EXPECT_EQ(text, rows[row]) << "from " << numbers[row];
    }
}

std::string assignment_text(const Topology &topology, std::size_t of)
{
    Result<std::vector<Assignment>> assignments = assign_devices(topology, of);
    if (!assignments.ok())
        return assignments.error().text;
    std::string text;
    for (const Assignment &assignment : assignments.value())
        text += (text.empty() ? "" : ", ") +
                (assignment.device == DeviceKind::shmem ? "SHMEM" : topology.networks[assignment.network].name) + " " +
                std::to_string(assignment.channels);
    return text;
}

TEST(Routing, TheChannelsOfThePaper)
{
    Topology topology = paper(8);
    for (std::size_t of = 0; of < 16; ++of)
        EXPECT_EQ(assignment_text(topology, of), "SHMEM 1, Myrinet 2, UDP 1") << of;
    for (std::size_t of = 16; of < 20; ++of)
        EXPECT_EQ(assignment_text(topology, of), "GNIC 1, UDP 2") << of;

    // "As a whole": SHMEM 1, Myrinet 2, GNIC 1, UDP 2.
    std::uint32_t shmem = 0, channels[3] = {};
    for (std::size_t of = 0; of < 20; ++of) {
        Result<std::vector<Assignment>> assignments = assign_devices(topology, of);
        for (const Assignment &assignment : assignments.value()) {
            std::uint32_t &most = assignment.device == DeviceKind::shmem ? shmem : channels[assignment.network];
            most = std::max(most, assignment.channels);
        }
    }
    EXPECT_EQ(shmem, 1u);
    EXPECT_EQ(channels[0], 2u);
    EXPECT_EQ(channels[1], 1u);
    EXPECT_EQ(channels[2], 2u);
}

// ---- the rules one by one ----

TEST(Routing, NarrowerReachIsTakenToBeFaster)
{
    EXPECT_GT(default_priority(DeviceKind::shmem), default_priority(ucx));
    EXPECT_GT(default_priority(ucx), default_priority(udp));
    EXPECT_STREQ(device_name(DeviceKind::shmem), "shmem");
    EXPECT_STREQ(device_name(ucx), "ucx");
    EXPECT_STREQ(device_name(udp), "udp");
}

TEST(Routing, OneHostNeedsNoNetwork)
{
    Topology topology = job({}, {{3, 0}});
    for (std::size_t from = 0; from < 3; ++from)
        for (std::size_t to = 0; to < 3; ++to)
            EXPECT_EQ(route_text(topology, from, to), "S0");
    EXPECT_EQ(assignment_text(topology, 1), "SHMEM 1");
}

TEST(Routing, OneProcessAloneOpensNothing)
{
    Topology topology = job({network("lan", udp, 10)}, {{1, 1}});
    EXPECT_EQ(route_text(topology, 0, 0), "S0");
    EXPECT_EQ(assignment_text(topology, 0), "");
}

// Even where a network has a priority above that of SHMEM.
TEST(Routing, NoNetworkIsUsedInsideAHost)
{
    Topology topology = job({network("lan", udp, 1000)}, {{2, 1}, {1, 1}});
    EXPECT_EQ(route_text(topology, 0, 1), "S0");
    EXPECT_EQ(route_text(topology, 0, 2), "l0");
    EXPECT_EQ(route_text(topology, 2, 1), "l1");
}

TEST(Routing, OfSeveralCommonNetworksTheOneOfHighestPriorityIsTaken)
{
    std::vector<Host> hosts{{1, 0b111}, {1, 0b111}, {1, 0b101}};
    Topology topology = job({network("a", ucx, 10), network("b", udp, 30), network("c", ucx, 20)}, hosts);
    EXPECT_EQ(route_text(topology, 0, 1), "b0");
    EXPECT_EQ(route_text(topology, 0, 2), "c0");
    EXPECT_EQ(route_text(topology, 2, 1), "c0");
    EXPECT_EQ(assignment_text(topology, 0), "b 1, c 1");
}

TEST(Routing, OfEqualPrioritiesTheFirstNetworkIsTakenByBothSides)
{
    Topology topology = job({network("a", udp, 5), network("b", ucx, 7), network("c", udp, 7)}, {{1, 0b111}, {1, 0b111}});
    EXPECT_EQ(route_text(topology, 0, 1), "b0");
    EXPECT_EQ(route_text(topology, 1, 0), "b0");
    std::swap(topology.networks[1], topology.networks[2]);
    EXPECT_EQ(route_text(topology, 0, 1), "c0");
    EXPECT_EQ(route_text(topology, 1, 0), "c0");
}

TEST(Routing, ProcessesOfOneHostMayBeOnDifferentNetworks)
{
    Topology topology = job({network("a", ucx, 20), network("b", udp, 10)}, {{2, 0b11}, {1, 0b11}});
    topology.nodes[1].networks = 0b10;
    EXPECT_EQ(route_text(topology, 2, 0), "a0");
    EXPECT_EQ(route_text(topology, 2, 1), "b1");
    EXPECT_EQ(assignment_text(topology, 2), "a 1, b 2");
}

TEST(Routing, AGapInOneDirectionClosesTheNetworkForBoth)
{
    Topology topology = job({network("a", ucx, 20), network("b", udp, 10)}, {{2, 0b11}, {2, 0b11}, {1, 0b11}});
    topology.gaps = {{1, 0, 0}};
    for (std::size_t one : {0, 1}) {
        for (std::size_t other : {2, 3}) {
            EXPECT_EQ(route_text(topology, one, other)[0], 'b');
            EXPECT_EQ(route_text(topology, other, one)[0], 'b');
            EXPECT_EQ(routes_of(topology, one).value()[other].network, 1);
            EXPECT_EQ(routes_of(topology, other).value()[one].network, 1);
        }
    }
    // Others use it as before.
    EXPECT_EQ(route_text(topology, 0, 4), "a0");
    EXPECT_EQ(route_text(topology, 4, 3), "a1");
}

TEST(Routing, AGapThatNamesNothingOfTheJobMeansNothing)
{
    Topology topology = job({network("a", ucx, 20)}, {{1, 1}, {1, 1}});
    topology.gaps = {{0, 7, 0}, {7, 0, 0}, {0, 1, 1}, {1, 0, 64}, {7, 7, 7}};
    EXPECT_EQ(route_text(topology, 0, 1), "a0");
    EXPECT_TRUE(routes_of(topology, 0).ok());
}

TEST(Routing, TheLastOfAsManyNetworksAsThereMayBeIsFound)
{
    std::vector<Network> networks;
    for (std::size_t i = 0; i < networks_max; ++i)
        networks.push_back(network(("x" + std::to_string(i)).c_str(), udp, static_cast<int>(i)));
    Topology topology = job(networks, {{1, ~std::uint64_t{0}}, {1, ~std::uint64_t{0}}});
    EXPECT_EQ(route_between(topology, 0, 1).value().network, networks_max - 1);
    topology.gaps = {{0, 1, networks_max - 1}};
    EXPECT_EQ(route_between(topology, 0, 1).value().network, networks_max - 2);
}

// ---- errors ----

TEST(Routing, NoCommonNetworkIsAnErrorThatSaysWhoIsWhereAndWhatToDo)
{
    std::vector<Network> networks{network("san-a", ucx, 20), network("san-b", ucx, 20), network("lan", udp, 10)};
    Topology topology = job(networks, {{1, 0b101}, {1, 0b010}, {1, 0}});
    Error error = route_between(topology, 0, 1).error();
    EXPECT_EQ(error.text, "no network joins the hosts n0 and n1: n0 is on san-a (ucx), lan (udp); n1 is on san-b (ucx). "
                          "Connect both to one network, describe one that both are on with MPIR_CVAR_CH4_COMPOSITE_NETWORKS, "
                          "or allow its device with MPIR_CVAR_CH4_COMPOSITE_DEVICES");
    EXPECT_EQ(error.status, Status::unreachable);
    expect_error_with(routes_of(topology, 0).error(), Status::unreachable, {error.text});
    expect_error_with(assign_devices(topology, 0).error(), Status::unreachable, {error.text});
    expect_error_with(route_between(topology, 2, 0).error(), Status::unreachable,
                      {"n2 is on no network", "n0 is on san-a (ucx)"});
}

TEST(Routing, AnErrorTellsWhichNetworksCarryMessagesOneWayOnly)
{
    Topology topology = job({network("san-a", ucx, 20), network("lan", udp, 10)}, {{1, 0b11}, {1, 0b10}});
    topology.gaps = {{1, 0, 1}};
    for (std::size_t from : {0, 1}) {
        expect_error_with(route_between(topology, from, 1 - from).error(), Status::unreachable,
                          {"messages do not arrive both ways on lan (udp).", "n0 is on san-a (ucx), lan (udp)",
                           "n1 is on lan (udp)"});
        expect_error_with(routes_of(topology, from).error(), Status::unreachable, {"do not arrive both ways on lan (udp)."});
    }
}

TEST(Routing, NodesThatAreNotThereAreAnError)
{
    Topology topology = job({network("lan", udp, 10)}, {{1, 1}, {1, 1}});
    expect_error_with(route_between(topology, 0, 2).error(), Status::invalid, {"no process 2 in a job of 2"});
    expect_error_with(route_between(topology, 2, 0).error(), Status::invalid, {"no process 2"});
    expect_error_with(routes_of(topology, 2).error(), Status::invalid, {"no process 2"});
    expect_error_with(assign_devices(topology, 2).error(), Status::invalid, {"no process 2"});
    topology.nodes[1].host = 5;
    expect_error_with(route_between(topology, 0, 1).error(), Status::invalid, {"process 1 is on host 5"});
    expect_error_with(routes_of(topology, 0).error(), Status::invalid, {"process 1 is on host 5"});
}

TEST(Routing, MoreNetworksThanAJobCanUseAreAnErrorThatSaysWhatToDo)
{
    Topology topology = job(std::vector<Network>(networks_max + 1), {{1, 1}});
    expect_error_with(routes_of(topology, 0).error(), Status::invalid, {"65", "64", "MPIR_CVAR_CH4_COMPOSITE_NETWORKS"});
    expect_error_with(route_between(topology, 0, 0).error(), Status::invalid, {"65", "64"});
}

// ---- size ----

// 1024 hosts, four nodes on each if no more is said, in two clusters that a third network joins. Between neighbours the cluster's network is broken.
Topology large(std::uint32_t processes = 4)
{
    std::vector<Host> hosts(512, Host{processes, 0b101});
    hosts.insert(hosts.end(), 512, Host{processes, 0b110});
    Topology topology = job({network("a", ucx, 20), network("b", ucx, 20), network("lan", udp, 10)}, hosts);
    for (std::uint32_t host = 0; host + 1 < 1024; ++host)
        topology.gaps.push_back({host, host + 1, host < 512 ? 0u : 1u});
    return topology;
}

TEST(Routing, ARowOf4096NodesIsSmallAndTheSameAsItsPairs)
{
    Topology topology = large();
    constexpr std::size_t from = 402;
    Result<std::vector<Route>> row = routes_of(topology, from);

    ASSERT_TRUE(row.ok()) << row.error().text;
    static_assert(sizeof(Route) < 100);
    EXPECT_LE(sizeof(Route), 8u);
    EXPECT_EQ(row.value().size(), 4096u);
    EXPECT_EQ(row.value().capacity(), 4096u);  // made once
    std::size_t counts[4] = {};
    for (std::size_t to = 0; to < 4096; ++to) {
        const Route &route = row.value()[to];
        EXPECT_EQ(text_of(topology, route), route_text(topology, from, to));
        ++counts[route.device == DeviceKind::shmem ? 3 : route.network];
    }
    EXPECT_EQ(counts[3], 4u);                  // its host
    EXPECT_EQ(counts[2], 2048u + 2 * 4);       // the other cluster and its two neighbours
    EXPECT_EQ(counts[1], 0u);
    EXPECT_EQ(counts[0], 2048u - 4 - 2 * 4);
}

// How often somebody goes over memory from its beginning to its end: two of its pages are there by turns, and who wants the one that is not gets it.
class Passes {
  public:
    Passes(void *begin, std::size_t size)
    {
        const auto first = (reinterpret_cast<std::uintptr_t>(begin) + page - 1) / page * page;
        pages_ = {first, first + (size / page - 2) * page};
        next_ = 0;
        count_ = 0;
        struct sigaction action {};
        action.sa_sigaction = has_touched;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, &before_);
        protect(0, PROT_NONE);
    }
    ~Passes()
    {
        protect(next_, PROT_READ | PROT_WRITE);
        sigaction(SIGSEGV, &before_, nullptr);
    }
    Passes(const Passes &) = delete;
    Passes &operator=(const Passes &) = delete;
    std::size_t count() const { return count_; }

  private:
    static constexpr std::uintptr_t page = 4096 * 16;  // of any machine, or several

    static void protect(std::size_t which, int how) { mprotect(reinterpret_cast<void *>(pages_[which]), page, how); }
    static void has_touched(int, siginfo_t *what, void *)
    {
        const auto place = reinterpret_cast<std::uintptr_t>(what->si_addr);
        if (place < pages_[next_] || place >= pages_[next_] + page)
            std::abort();
        protect(next_, PROT_READ | PROT_WRITE);
        count_ = count_ + next_;
        next_ = 1 - next_;
        protect(next_, PROT_NONE);
    }

    static inline std::array<std::uintptr_t, 2> pages_;
    static inline volatile std::size_t next_, count_;
    struct sigaction before_ {};
};

// A row reads the gaps, of which there are a quarter of a million, once, and not for each of its nodes.
TEST(Routing, AGapBetweenAnyTwoHostsOfAClusterLeavesTheOtherNetwork)
{
    Topology topology = large();
    for (std::uint32_t host = 0; host < 1024; ++host)
        for (std::uint32_t other = host / 512 * 512; other < host; ++other)
            topology.gaps.push_back({host, other, host / 512});
    const Passes passes(topology.gaps.data(), topology.gaps.size() * sizeof(Gap));
    Result<std::vector<Route>> row = routes_of(topology, 402);
    EXPECT_EQ(passes.count(), 1u);
    ASSERT_TRUE(row.ok()) << row.error().text;
    for (const Route &route : row.value())
        EXPECT_NE(route.device, ucx);
}

// ---- any topology ----

Topology random_topology(test::Random &random)
{
    std::vector<Network> networks(random.below(6));
    for (std::size_t i = 0; i < networks.size(); ++i)
        networks[i] = network(std::string(1, static_cast<char>('a' + i)).c_str(), random.one_in(2) ? ucx : udp,
                              static_cast<int>(random.below(4)));
    std::vector<Host> hosts(random.between(1, 7));
    for (Host &host : hosts)
        host = {static_cast<std::uint32_t>(random.between(1, 3)), random.next() & ((1u << networks.size()) - 1)};
    Topology topology = job(networks, hosts);
    if (!networks.empty())
        for (std::uint64_t gaps = random.below(20); gaps > 0; --gaps)
            topology.gaps.push_back({static_cast<std::uint32_t>(random.below(hosts.size())),
                                     static_cast<std::uint32_t>(random.below(hosts.size())),
                                     static_cast<std::uint32_t>(random.below(networks.size()))});
    return topology;
}

bool carries(const Topology &topology, std::size_t network, const Node &one, const Node &other)
{
    bool both = (one.networks >> network & 1) != 0 && (other.networks >> network & 1) != 0;
    return both && std::ranges::none_of(topology.gaps, [&](const Gap &gap) {
               return gap.network == network && ((gap.from == one.host && gap.to == other.host) ||
                                                 (gap.from == other.host && gap.to == one.host));
           });
}

// What is wrong with the route of a pair, or nothing.
std::string check_pair(const Topology &topology, std::size_t from, std::size_t to)
{
    const Node &here = topology.nodes[from], &there = topology.nodes[to];
    Result<Route> route = route_between(topology, from, to), back = route_between(topology, to, from);
    if (route.ok() != back.ok())
        return "reached in one direction only";
    if (here.host == there.host)
        return route.ok() && route.value().device == DeviceKind::shmem && route.value().channel == 0 ? "" : "not over SHMEM";
    int best = -1;
    for (std::size_t network = 0; network < topology.networks.size(); ++network)
        if (carries(topology, network, here, there))
            best = std::max(best, topology.networks[network].priority);
    if (!route.ok())
        return best >= 0 ? "there is a network: " + route.error().text : "";
    const Network &used = topology.networks[route.value().network];
    if (!carries(topology, route.value().network, here, there))
        return "over " + used.name + ", which does not join them";
    if (used.priority != best)
        return "over " + used.name + ", which is not the best";
    if (route.value().network != back.value().network)
        return "back over another network";
    if (route.value().device != used.device || route.value().channel != there.process)
        return "device or channel";
    return "";
}

// A row is its pairs, or the error of the first that has none.
std::string check_row(const Topology &topology, std::size_t from)
{
    Result<std::vector<Route>> row = routes_of(topology, from);
    for (std::size_t to = 0; to < topology.nodes.size(); ++to) {
        Result<Route> pair = route_between(topology, from, to);
        if (!pair.ok())
            return !row.ok() && row.error().text == pair.error().text ? "" : "the row has no error, or another one";
        if (row.ok() && text_of(topology, row.value()[to]) != text_of(topology, pair.value()))
            return "the row has another route to " + std::to_string(to);
    }
    return row.ok() ? "" : "the row has an error: " + row.error().text;
}

TEST(Routing, RandomTopologies)
{
    test::for_each_seed(2000, [](std::uint64_t seed) -> std::string {
        test::Random random(seed);
        Topology topology = random_topology(random);
        for (std::size_t from = 0; from < topology.nodes.size(); ++from) {
            if (std::string trouble = check_row(topology, from); !trouble.empty())
                return "row " + std::to_string(from) + ": " + trouble;
            for (std::size_t to = 0; to < topology.nodes.size(); ++to)
                if (std::string trouble = check_pair(topology, from, to); !trouble.empty())
                    return std::to_string(from) + " to " + std::to_string(to) + ": " + trouble;
        }
        return "";
    });
}

}  // namespace
}  // namespace pm
