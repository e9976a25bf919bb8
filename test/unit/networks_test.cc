// Networks as they are described and as they are found.
#include "netmod/routing/networks.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace pm {
namespace {

constexpr DeviceKind ucx = DeviceKind::ucx, udp = DeviceKind::udp;
const std::string setting_name = "MPIR_CVAR_CH4_COMPOSITE_NETWORKS";

void expect_error_with(const Error &error, const std::vector<std::string> &words, Status status = Status::invalid)
{
    EXPECT_EQ(error.status, status);
    for (const std::string &word : words)
        EXPECT_NE(error.text.find(word), std::string::npos) << "\"" << word << "\" is not in: " << error.text;
}

// ---- descriptions ----

std::string joined(const std::vector<std::string> &words)
{
    std::string text;
    for (const std::string &word : words)
        text += (text.empty() ? "" : ",") + word;
    return text;
}

std::string joined(const std::vector<Subnet> &subnets)
{
    std::string text;
    for (const Subnet &subnet : subnets)
        text += (text.empty() ? "" : ",") + subnet.text();
    return text;
}

// One line for each network, everything in a fixed order.
std::string parsed(Result<std::vector<NetworkDescription>> networks)
{
    if (!networks.ok())
        return networks.error().text;
    std::string text;
    for (const NetworkDescription &network : networks.value())
        text += network.name + " " + device_name(network.device) + " subnets=" + joined(network.subnets) +
                " ports=" + joined(network.ports) + " hosts=" + joined(network.hosts) +
                " priority=" + std::to_string(network.priority) + "\n";
    return text;
}

TEST(Networks, ADescriptionIsRead)
{
    EXPECT_EQ(parsed(parse_networks("network san-a ucx 10.1.0.0/24 priority 30\n"
                                    "network lan   udp 10.0.0.0/24 fd00:5::/64\n"
                                    "network fab   ucx mlx5_0:1 hosts n*,login\n",
                                    "networks.txt")),
              "san-a ucx subnets=10.1.0.0/24 ports= hosts= priority=30\n"
              "lan udp subnets=10.0.0.0/24,fd00:5::/64 ports= hosts= priority=10\n"
              "fab ucx subnets= ports=mlx5_0:1 hosts=n*,login priority=20\n");
}

TEST(Networks, TheOrderOfWordsAfterTheDeviceIsFree)
{
    EXPECT_EQ(parsed(parse_networks("network a ucx priority 0 eth0.100 hosts n? 10.1.0.7 eth1", "")),
              "a ucx subnets=10.1.0.7/32 ports=eth0.100,eth1 hosts=n? priority=0\n");
    EXPECT_EQ(parsed(parse_networks("network a udp hosts b priority 1000", "")),
              "a udp subnets= ports= hosts=b priority=1000\n");
}

TEST(Networks, EmptyLinesCommentsAndSpacesMeanNothing)
{
    EXPECT_EQ(parsed(parse_networks("# ours\n\n   \t\n  # network b udp\n \tnetwork  a\tudp  \r\n#", "")),
              "a udp subnets= ports= hosts= priority=10\n");
    EXPECT_EQ(parsed(parse_networks("\nnetwork a udp", "")), "a udp subnets= ports= hosts= priority=10\n");
}

struct Mistake {
    const char *text;
    std::vector<std::string> words;  // that the error must have
};

TEST(Networks, AMistakeIsAnErrorThatSaysWhereItIsWhatItIsAndWhatIsAllowed)
{
    const std::vector<Mistake> mistakes{
        {"net a udp", {"networks.txt:1: unknown word \"net\"", "starts with network"}},
        {"network a udp\n\nudp b", {"networks.txt:3: unknown word \"udp\""}},
        {"#\nnetwork", {"networks.txt:2: a network without a name", "allowed are letters, digits"}},
        {"network a=b udp", {"networks.txt:1: \"a=b\" is not a name", "allowed are letters, digits"}},
        {"network a", {"networks.txt:1: no device of network \"a\"", "allowed are ucx, udp"}},
        {"network a tcp", {"networks.txt:1: unknown device \"tcp\" of network \"a\"", "allowed are ucx, udp"}},
        {"network a UDP", {"unknown device \"UDP\""}},
        {"network a shmem", {"networks.txt:1: shmem needs no network", "allowed", "\"a\" are ucx, udp"}},
        {"network a udp priority", {"networks.txt:1: the priority of network \"a\" is missing", "from 0 to 1000"}},
        {"network a udp priority high", {"networks.txt:1: the priority of network \"a\" is \"high\"", "from 0 to 1000"}},
        {"network a udp priority -1", {"\"-1\"", "from 0 to 1000"}},
        {"network a udp priority 1001", {"\"1001\"", "from 0 to 1000"}},
        {"network a udp priority 1.5", {"\"1.5\"", "from 0 to 1000"}},
        {"network a udp priority 99999999999999999999", {"from 0 to 1000"}},
        {"network a udp priority 1 priority 1", {"networks.txt:1: the priority of network \"a\" is given twice"}},
        {"network a udp hosts", {"networks.txt:1: the hosts of network \"a\" are missing", "n1,n2"}},
        {"network a udp hosts n1, n2", {"networks.txt:1: the hosts of network \"a\" are \"n1,\"", "no space"}},
        {"network a udp hosts n1,,n2", {"\"n1,,n2\""}},
        {"network a udp hosts ,", {"\",\""}},
        {"network a udp hosts n1 hosts n2", {"networks.txt:1: the hosts of network \"a\" are given twice", "once"}},
        {"network a udp 10.1.0.0/33", {"networks.txt:1: \"10.1.0.0/33\" of network \"a\" is not a subnet", "10.1.0.0/24"}},
        {"network a udp 10.1.0", {"\"10.1.0\" of network \"a\" is not a subnet"}},
        {"network a udp fd00::g", {"\"fd00::g\" of network \"a\" is not a subnet", "fd00:5::/64"}},
        {"network a udp eth0/24", {"\"eth0/24\" of network \"a\" is not a subnet"}},
        {"network a udp 30", {"\"30\" of network \"a\" is not a subnet"}},
        {"network a udp priority=3", {"networks.txt:1: unknown word \"priority=3\" of network \"a\"", "priority and a number"}},
        {"network a udp eth0,eth1", {"unknown word \"eth0,eth1\"", "allowed are subnets", "hosts and a list"}},
        {"network a udp # ours", {"unknown word \"#\""}},
        {"network a udp\n\nnetwork a ucx", {"networks.txt:3: network \"a\" is already in line 1", "one line for each"}},
        {"", {"networks.txt:1: no network is described", "network lan udp"}},
        {"# nothing\n\n", {"networks.txt:1: no network is described"}},
    };
    for (const Mistake &mistake : mistakes) {
        SCOPED_TRACE(mistake.text);
        Result<std::vector<NetworkDescription>> networks = parse_networks(mistake.text, "networks.txt");
        ASSERT_FALSE(networks.ok());
        expect_error_with(networks.error(), mistake.words);
    }
}

TEST(Networks, AFileThatIsNoDescriptionIsQuotedShortAndPrintable)
{
    std::string binary("\x7f" "ELF\0\x01\x02\n", 8);
    expect_error_with(parse_networks(binary, "a.out").error(), {"a.out:1: unknown word \"?ELF???\""});
    Error error = parse_networks(std::string(100000, 'x'), "x").error();
    expect_error_with(error, {"xxx...\""});
    EXPECT_LT(error.text.size(), 200u);
}

TEST(Networks, ADescriptionHasNoMoreNetworksThanAJobCanUse)
{
    std::string text;
    for (std::size_t i = 0; i < networks_max; ++i)
        text += "network a" + std::to_string(i) + " udp\n";
    EXPECT_EQ(parse_networks(text, "").value().size(), networks_max);
    text += "network b udp";
    expect_error_with(parse_networks(text, "networks.txt").error(), {"networks.txt:65: too many networks", "64"});
}

// ---- the setting ----

class NetworksFile : public testing::Test {
  protected:
    void SetUp() override
    {
        ASSERT_NE(mkdtemp(folder_.data()), nullptr);
        path_ = folder_ + "/networks.txt";
    }
    void TearDown() override
    {
        unlink(path_.c_str());
        rmdir(folder_.c_str());
    }
    void write(const std::string &text) { std::ofstream(path_) << text; }

    std::string folder_ = testing::TempDir() + "networks_test_XXXXXX";
    std::string path_;
};

TEST(Networks, TheSettingMayBeAutoOrADescription)
{
    EXPECT_EQ(parsed(read_networks("auto")), "");
    EXPECT_EQ(parsed(read_networks("network a udp; network b ucx eth0;")),
              "a udp subnets= ports= hosts= priority=10\nb ucx subnets= ports=eth0 hosts= priority=20\n");
    EXPECT_EQ(parsed(read_networks(" network a udp\n")), "a udp subnets= ports= hosts= priority=10\n");
    expect_error_with(read_networks("network a udp;network b tcp").error(), {setting_name + ":2: unknown device \"tcp\""});
}

TEST_F(NetworksFile, IsRead)
{
    write("# of the machine room\nnetwork a udp\n\nnetwork b ucx eth0");
    EXPECT_EQ(parsed(read_networks(path_)),
              "a udp subnets= ports= hosts= priority=10\nb ucx subnets= ports=eth0 hosts= priority=20\n");
}

TEST_F(NetworksFile, LargerThanOnePieceIsReadWhole)
{
    write(std::string(100000, '#') + "\nnetwork a udp");
    EXPECT_EQ(parsed(read_networks(path_)), "a udp subnets= ports= hosts= priority=10\n");
    write(std::string((1 << 20) + 1, '#'));
    expect_error_with(read_networks(path_).error(), {path_, "not a description of networks"});
}

// On a command line a semicolon ends a line; in a file it does not.
TEST_F(NetworksFile, MistakesAreToldWithItsPathAndLine)
{
    write("network a udp\nnetwork b tcp\n");
    expect_error_with(read_networks(path_).error(), {path_ + ":2: unknown device \"tcp\""});
    write("\n\n");
    expect_error_with(read_networks(path_).error(), {path_ + ":1: no network is described"});
    write("network a udp; network b udp");
    expect_error_with(read_networks(path_).error(), {path_ + ":1: unknown device \"udp;\""});
}

TEST_F(NetworksFile, ThatCannotBeReadIsAnErrorWithWhatTheSystemSaysAndWhatIsAllowed)
{
    const std::vector<std::string> allowed{setting_name + " is auto, a description", "or the path of a file"};
    Error error = read_networks(path_).error();
    expect_error_with(error, {"\"" + path_ + "\": No such file or directory"}, Status::failed);
    expect_error_with(error, allowed, Status::failed);
    expect_error_with(read_networks("").error(), {"\"\": No such file or directory"}, Status::failed);
    expect_error_with(read_networks(folder_).error(), {"\"" + folder_ + "\": Is a directory", allowed[0]}, Status::failed);
    write("network a udp");
    ASSERT_EQ(chmod(path_.c_str(), 0), 0);
    if (access(path_.c_str(), R_OK) != 0) {  // root may read everything
        expect_error_with(read_networks(path_).error(), {"\"" + path_ + "\": Permission denied", allowed[0]}, Status::failed);
    }
}

// ---- what a host is on ----

Port port(DeviceKind device, const char *name, const std::vector<const char *> &addresses, const char *fabric = "")
{
    Port port{device, name, {}, fabric};
    for (const char *address : addresses)
        port.subnets.push_back(parse_subnet(address).value());
    return port;
}

std::string addresses_of(const LocalNetwork &local)
{
    std::string text;
    for (const Subnet &address : local.addresses)
        text += (text.empty() ? "" : ",") + ip_text(address.ip);
    return text;
}

// One line for each network.
std::string text_of(Result<std::vector<LocalNetwork>> networks)
{
    if (!networks.ok())
        return networks.error().text;
    std::string text;
    for (const LocalNetwork &local : networks.value())
        text += std::string(device_name(local.network.device)) + " " + local.network.name +
                " priority=" + std::to_string(local.network.priority) + " ports=" + joined(local.ports) +
                " addresses=" + addresses_of(local) + "\n";
    return text;
}

std::string described(const char *description, const std::vector<Port> &ports, const char *host = "n1")
{
    Result<std::vector<NetworkDescription>> networks = parse_networks(description, "test");
    EXPECT_TRUE(networks.ok()) << networks.error().text;
    return text_of(networks_of_host(networks.value(), ports, host));
}

const std::vector<Port> both_devices{
    port(udp, "lo", {"127.0.0.1/8", "::1"}),         port(udp, "eth0", {"10.0.0.7/24", "fd00:5::7/64"}),
    port(udp, "eth1", {"10.1.0.7/24"}),              port(ucx, "lo", {"127.0.0.1/8"}),
    port(ucx, "eth0", {"10.0.0.7/24", "fd00:5::7/64"}), port(ucx, "eth1", {"10.1.0.7/24"}),
    port(ucx, "mlx5_0:1", {}, "ib fe80000000000000"),
};

TEST(Networks, WithoutADescriptionEachSubnetAndFabricIsANetworkOfUcxAndAllOfUdpIsOne)
{
    EXPECT_EQ(text_of(networks_of_host({}, both_devices, "n1")),
              "udp ip priority=10 ports=eth0,eth1 addresses=10.0.0.7,10.1.0.7\n"
              "ucx 10.0.0.0/24 priority=20 ports=eth0 addresses=10.0.0.7\n"
              "ucx 10.1.0.0/24 priority=20 ports=eth1 addresses=10.1.0.7\n"
              "ucx ib fe80000000000000 priority=20 ports=mlx5_0:1 addresses=\n");
    EXPECT_EQ(text_of(networks_of_host({}, {}, "n1")), "");
}

TEST(Networks, SeveralPortsMayLeadToOneSubnetOrFabric)
{
    std::vector<Port> ports{port(ucx, "eth0", {"10.0.0.7/24", "10.2.0.7/16"}), port(ucx, "eth1", {"10.0.0.8/24"}),
                            port(ucx, "mlx5_0:1", {}, "ib 1"), port(ucx, "mlx5_1:1", {}, "ib 1"),
                            port(ucx, "mlx5_2:1", {}, "ib 2")};
    EXPECT_EQ(text_of(networks_of_host({}, ports, "n1")),
              "ucx 10.0.0.0/24 priority=20 ports=eth0,eth1 addresses=10.0.0.7,10.0.0.8\n"
              "ucx 10.2.0.0/16 priority=20 ports=eth0 addresses=10.2.0.7\n"
              "ucx ib 1 priority=20 ports=mlx5_0:1,mlx5_1:1 addresses=\n"
              "ucx ib 2 priority=20 ports=mlx5_2:1 addresses=\n");
}

TEST(Networks, TheFabricOfAPortCountsWhereItHasNoSubnet)
{
    std::vector<Port> ports{port(ucx, "mlx5_0:1", {"10.0.0.7/24"}, "ib 1"), port(ucx, "mlx5_1:1", {"fe80::7/64"}, "ib 1")};
    EXPECT_EQ(text_of(networks_of_host({}, ports, "n1")),
              "ucx 10.0.0.0/24 priority=20 ports=mlx5_0:1 addresses=10.0.0.7\n"
              "ucx ib 1 priority=20 ports=mlx5_1:1 addresses=\n");
}

TEST(Networks, OfAPortIPv6IsTakenWhereThereIsNoIPv4AndLinkLocalAddressesNever)
{
    std::vector<Port> ports{port(ucx, "eth0", {"fe80::7/64", "fd00:5::7/64"}),
                            port(ucx, "eth1", {"169.254.3.7/16", "fd00:6::7/64"}), port(ucx, "eth2", {"fe80::8/64"}),
                            port(ucx, "eth3", {"169.254.3.8/16"})};
    EXPECT_EQ(text_of(networks_of_host({}, ports, "n1")),
              "ucx fd00:5::/64 priority=20 ports=eth0 addresses=fd00:5::7\n"
              "ucx fd00:6::/64 priority=20 ports=eth1 addresses=fd00:6::7\n");
}

TEST(Networks, LoopbackAndPortsThatLeadNowhereAreNoNetworks)
{
    std::vector<Port> ports{port(ucx, "lo", {"127.0.0.1/8", "::1"}), port(ucx, "eth0", {}), port(udp, "eth0", {})};
    EXPECT_EQ(text_of(networks_of_host({}, ports, "n1")), "");
    // Some hosts carry their address on the loopback interface.
    EXPECT_EQ(text_of(networks_of_host({}, {port(ucx, "lo", {"127.0.0.1/8", "10.9.0.7/32"})}, "n1")),
              "ucx 10.9.0.7/32 priority=20 ports=lo addresses=10.9.0.7\n");
}

// Two containers of one host may have nothing else in common. UDP finds out by itself whether an address reaches.
TEST(Networks, UdpTakesLoopbackWhereThereIsNothingElseAndLinkLocalIPv4)
{
    std::vector<Port> ports{port(udp, "lo", {"127.0.0.1/8", "::1"})};
    EXPECT_EQ(text_of(networks_of_host({}, ports, "n1")), "udp ip priority=10 ports=lo addresses=127.0.0.1\n");
    ports.push_back(port(udp, "eth0", {"169.254.3.7/16", "fe80::7/64"}));
    EXPECT_EQ(text_of(networks_of_host({}, ports, "n1")), "udp ip priority=10 ports=eth0 addresses=169.254.3.7\n");
}

TEST(Networks, MoreThanAJobCanUseAreAnErrorThatSaysWhatToDo)
{
    std::vector<Port> ports;
    for (int i = 0; i < 65; ++i)
        ports.push_back(port(ucx, "eth", {("10.0." + std::to_string(i) + ".1/24").c_str()}));
    expect_error_with(networks_of_host({}, ports, "n1").error(), {"host n1", "65", "64", setting_name});
    ports.pop_back();
    EXPECT_EQ(networks_of_host({}, ports, "n1").value().size(), 64u);
}

TEST(Networks, WithADescriptionNothingElseIsUsed)
{
    EXPECT_EQ(described("network b ucx 10.1.0.0/16\n"
                        "network a udp 10.0.0.0/24 priority 7\n"
                        "network c ucx 10.7.0.0/16",
                        both_devices),
              "ucx b priority=20 ports=eth1 addresses=10.1.0.7\n"
              "udp a priority=7 ports=eth0 addresses=10.0.0.7\n");
}

TEST(Networks, SubnetsInterfacesAndDevicesLeadToANetwork)
{
    EXPECT_EQ(described("network a udp eth0", both_devices), "udp a priority=10 ports=eth0 addresses=10.0.0.7\n");
    EXPECT_EQ(described("network a udp fd00::/8", both_devices), "udp a priority=10 ports=eth0 addresses=fd00:5::7\n");
    EXPECT_EQ(described("network a udp fd00::/8 eth0", both_devices),
              "udp a priority=10 ports=eth0 addresses=10.0.0.7,fd00:5::7\n");
    EXPECT_EQ(described("network a ucx mlx5_0:1 10.1.0.0/24", both_devices),
              "ucx a priority=20 ports=eth1,mlx5_0:1 addresses=10.1.0.7\n");
    EXPECT_EQ(described("network a ucx eth7 10.7.0.0/24", both_devices), "");
    // A device of UCX needs no address.
    EXPECT_EQ(described("network a ucx x", {port(ucx, "x", {})}), "ucx a priority=20 ports=x addresses=\n");
    EXPECT_EQ(described("network a udp x", {port(udp, "x", {})}), "");
}

TEST(Networks, WithoutSubnetsAndInterfacesEveryPortOfTheDeviceLeadsToANetwork)
{
    EXPECT_EQ(described("network a ucx\nnetwork b udp", both_devices),
              "ucx a priority=20 ports=eth0,eth1,mlx5_0:1 addresses=10.0.0.7,10.1.0.7\n"
              "udp b priority=10 ports=eth0,eth1 addresses=10.0.0.7,10.1.0.7\n");
    EXPECT_EQ(described("network a ucx", {port(ucx, "lo", {"127.0.0.1/8"}), port(ucx, "eth0", {})}), "");
    EXPECT_EQ(described("network a udp", {port(udp, "lo", {"127.0.0.1/8"})}),
              "udp a priority=10 ports=lo addresses=127.0.0.1\n");
}

TEST(Networks, LoopbackIsUsedWhenItIsNamed)
{
    EXPECT_EQ(described("network a ucx lo", both_devices), "ucx a priority=20 ports=lo addresses=127.0.0.1\n");
    EXPECT_EQ(described("network a ucx 127.0.0.0/8", both_devices), "ucx a priority=20 ports=lo addresses=127.0.0.1\n");
}

TEST(Networks, AHostIsOnANetworkWhenItsNameIsAmongTheHosts)
{
    const std::string on = "udp a priority=10 ports=eth0 addresses=10.0.0.7\n";
    const std::vector<Port> ports{port(udp, "eth0", {"10.0.0.7/24"})};
    for (const char *host : {"n1", "n1.cluster", "n12", "login"})
        EXPECT_EQ(described("network a udp hosts n*,login", ports, host), on) << host;
    for (const char *host : {"m1", "login2", "m.n1", ""})
        EXPECT_EQ(described("network a udp hosts n*,login", ports, host), "") << host;
    EXPECT_EQ(described("network a udp hosts n?", ports, "n1"), on);
    EXPECT_EQ(described("network a udp hosts n?", ports, "n12"), "");
}

TEST(Networks, ThePatternOfAHostMayHaveTheDomainOrNot)
{
    const std::string on = "udp a priority=10 ports=eth0 addresses=10.0.0.7\n";
    const std::vector<Port> ports{port(udp, "eth0", {"10.0.0.7/24"})};
    for (const char *pattern : {"n1", "n1.cluster", "n?", "*.cluster", "n*"})
        EXPECT_EQ(described((std::string("network a udp hosts ") + pattern).c_str(), ports, "n1.cluster"), on) << pattern;
    for (const char *pattern : {"n1.other", "cluster", "n1.", "n"})
        EXPECT_EQ(described((std::string("network a udp hosts ") + pattern).c_str(), ports, "n1.cluster"), "") << pattern;
}

TEST(Networks, ANamedHostWithoutAPortThatLeadsThereIsAnError)
{
    Result<std::vector<NetworkDescription>> networks = parse_networks("network fab ucx mlx5_9:1 10.7.0.0/24 hosts n*", "test");
    expect_error_with(networks_of_host(networks.value(), both_devices, "n1.cluster").error(),
                      {"host n1.cluster is among the hosts of network \"fab\"",
                       "those of ucx are lo (127.0.0.1), eth0 (10.0.0.7, fd00:5::7), eth1 (10.1.0.7), mlx5_0:1,",
                       "allows mlx5_9:1, 10.7.0.0/24", setting_name, "leave the host out"});
    EXPECT_EQ(text_of(networks_of_host(networks.value(), both_devices, "m1")), "");
    networks = parse_networks("network fab ucx hosts n1", "test");
    expect_error_with(networks_of_host(networks.value(), {}, "n1").error(),
                      {"those of ucx are none", "any that has an address"});
}

// ---- ids ----

// Every process of a job must find the same, also on another architecture and from another build.
TEST(Networks, IdsAreTheSameEverywhere)
{
    std::vector<LocalNetwork> found = networks_of_host({}, both_devices, "n1").value();
    ASSERT_EQ(found.size(), 4u);
    EXPECT_EQ(found[0].network.id, 0x44a2509cc52ead9du);   // of "udp ip"
    EXPECT_EQ(found[1].network.id, 0x4d7615fa6e04f7bdu);  // of "ucx 10.0.0.0/24"
    std::vector<LocalNetwork> elsewhere = networks_of_host({}, {port(ucx, "enp3s0", {"10.0.0.99/24"})}, "n2").value();
    ASSERT_EQ(elsewhere.size(), 1u);
    EXPECT_EQ(elsewhere[0].network.id, found[1].network.id);
}

TEST(Networks, IdsTellDevicesAndNamesApart)
{
    std::vector<NetworkDescription> networks = parse_networks("network a ucx\nnetwork b ucx\nnetwork c udp", "test").value();
    networks.push_back(networks[2]);
    networks[3].name = "a";
    std::set<std::uint64_t> ids;
    Result<std::vector<LocalNetwork>> locals = networks_of_host(networks, both_devices, "n1");
    for (const LocalNetwork &local : locals.value())
        ids.insert(local.network.id);
    EXPECT_EQ(ids.size(), 4u);
}

// What leads to a described network may differ from host to host.
TEST(Networks, TheIdOfADescribedNetworkIsThatOfItsName)
{
    std::vector<NetworkDescription> networks = parse_networks("network a udp 10.0.0.0/24 eth7 priority 3", "test").value();
    std::uint64_t one = networks_of_host(networks, both_devices, "n1").value()[0].network.id;
    std::uint64_t other = networks_of_host(networks, {port(udp, "eth7", {"10.8.0.1/8"})}, "n2").value()[0].network.id;
    EXPECT_EQ(one, other);
    EXPECT_EQ(one, 0xbd7475fb1057d8b7u);  // of "udp a"
}

}  // namespace
}  // namespace pm
