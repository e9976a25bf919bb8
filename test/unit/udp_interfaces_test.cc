// Which addresses of a host are offered, by name and by subnet; and what is found on this host.
#include "netmod/udp/io/interfaces.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/subnet.h"

namespace pm::udp {
namespace {

Interface interface(const char *name, const char *address, bool loopback = false)
{
    Subnet subnet = parse_subnet(address).value();
    return {name, {subnet.ip, 0}, loopback, subnet.bits};
}

const std::vector<Interface> interfaces{interface("lo", "127.0.0.1/8", true), interface("eth0", "10.0.0.7/24"),
                                        interface("eth0", "fd00::7/64"), interface("eth1", "192.168.1.7/16"),
                                        interface("eth2", "fd01::7/64")};

std::string offered(const char *wanted)
{
    Result<std::vector<Address>> chosen = choose_addresses(interfaces, wanted);
    if (!chosen.ok())
        return chosen.error().text;
    std::string text;
    for (const Address &address : chosen.value())
        text += (text.empty() ? "" : " ") + address.ip_text();
    return text;
}

TEST(UdpInterfaces, AllAreOfferedButForLoopbackAndForIPv6WhereThereIsIPv4)
{
    EXPECT_EQ(offered("auto"), "10.0.0.7 192.168.1.7 fd01::7");
}

TEST(UdpInterfaces, NamesAndSubnetsChoose)
{
    EXPECT_EQ(offered("eth0"), "10.0.0.7");
    EXPECT_EQ(offered("eth0,fd01::/64"), "10.0.0.7 fd01::7");
    EXPECT_EQ(offered("192.168.0.0/16"), "192.168.1.7");
    EXPECT_EQ(offered("fd00::/8"), "fd00::7 fd01::7");
    EXPECT_EQ(offered("10.0.0.7"), "10.0.0.7");
    EXPECT_EQ(offered("lo"), "127.0.0.1");
    EXPECT_EQ(offered("::/0"), "fd00::7 fd01::7");
}

TEST(UdpInterfaces, NamesAndSubnetsLeaveOut)
{
    EXPECT_EQ(offered("^eth0,eth9"), "192.168.1.7 fd01::7");
    EXPECT_EQ(offered("^10.0.0.0/8,fd01::/64"), "192.168.1.7");
    EXPECT_EQ(offered("^::/0"), "10.0.0.7 192.168.1.7");
    EXPECT_EQ(offered("^eth0,eth1,eth2"), "127.0.0.1");
}

TEST(UdpInterfaces, AWrongSubnetAndAWrongNameAreErrors)
{
    EXPECT_NE(offered("10.0.0.0/99").find("UDP_INTERFACES: \"10.0.0.0/99\" is not a subnet"), std::string::npos);
    EXPECT_NE(offered("eth0/8").find("\"eth0/8\" is not a subnet"), std::string::npos);
    EXPECT_NE(offered("eth9").find("\"eth9\""), std::string::npos);
    EXPECT_NE(offered("eth9").find("eth1 (192.168.1.7)"), std::string::npos);
    EXPECT_NE(offered("^lo,eth0,eth1,eth2").find("no usable address"), std::string::npos);
}

TEST(UdpInterfaces, AnInterfaceOfThisHostHasASubnetThatHoldsItsAddress)
{
    Result<std::vector<Interface>> found = find_interfaces();
    ASSERT_TRUE(found.ok()) << found.error().text;
    for (const Interface &interface : found.value()) {
        SCOPED_TRACE(interface.name + " " + interface.address.ip_text());
        EXPECT_GE(interface.bits, interface.address.is_v4() ? 97 : 1);
        EXPECT_LE(interface.bits, 128);
        EXPECT_TRUE((Subnet{interface.address.ip, interface.bits}.contains(interface.address.ip)));
        if (interface.address == Address::v4({127, 0, 0, 1}, 0)) {
            EXPECT_EQ((Subnet{interface.address.ip, interface.bits}.text()), "127.0.0.0/8");
        }
    }
}

}  // namespace
}  // namespace pm::udp
