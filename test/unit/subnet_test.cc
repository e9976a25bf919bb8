// IP addresses and subnets: from text and back, and what is inside.
#include "base/subnet.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace pm {
namespace {

Subnet subnet(const std::string &text)
{
    Result<Subnet> parsed = parse_subnet(text);
    EXPECT_TRUE(parsed.ok()) << parsed.error().text;
    return parsed.value();
}

TEST(Subnet, IsReadAndWritten)
{
    for (const char *text : {"10.1.0.0/24", "0.0.0.0/0", "255.255.255.255/32", "192.168.128.0/17", "fd00::/8", "::/0",
                             "fd00:5::/64", "fd00:5::7/128"})
        EXPECT_EQ(subnet(text).text(), text);
}

TEST(Subnet, CountsTheBitsOfIPv4BehindThePrefixOfMappedAddresses)
{
    EXPECT_EQ(subnet("10.1.0.0/24").bits, 96 + 24);
    EXPECT_EQ(subnet("fd00::/8").bits, 8);
    EXPECT_EQ(subnet("::ffff:10.1.0.0/120"), subnet("10.1.0.0/24"));
}

TEST(Subnet, KeepsTheAddressAndWritesTheSubnet)
{
    Subnet address = subnet("10.1.0.7/24");
    EXPECT_EQ(ip_text(address.ip), "10.1.0.7");
    EXPECT_EQ(address.text(), "10.1.0.0/24");
    EXPECT_EQ(subnet("192.168.200.1/17").text(), "192.168.128.0/17");
    EXPECT_EQ(subnet("fd00:5:0:3:1:2:3:4/63").text(), "fd00:5:0:2::/63");
}

TEST(Subnet, AnAddressAloneIsASubnetOfOne)
{
    EXPECT_EQ(subnet("10.1.0.7").text(), "10.1.0.7/32");
    EXPECT_EQ(subnet("fd00::7").text(), "fd00::7/128");
    EXPECT_TRUE(subnet("10.1.0.7").contains(subnet("10.1.0.7").ip));
    EXPECT_FALSE(subnet("10.1.0.7").contains(subnet("10.1.0.6").ip));
}

TEST(Subnet, ContainsTheAddressesThatShareItsBits)
{
    EXPECT_TRUE(subnet("10.1.0.0/24").contains(subnet("10.1.0.255").ip));
    EXPECT_FALSE(subnet("10.1.0.0/24").contains(subnet("10.1.1.0").ip));
    EXPECT_TRUE(subnet("10.1.0.99/24").contains(subnet("10.1.0.1").ip));
    EXPECT_TRUE(subnet("192.168.128.0/17").contains(subnet("192.168.129.1").ip));
    EXPECT_FALSE(subnet("192.168.128.0/17").contains(subnet("192.168.127.1").ip));
    EXPECT_TRUE(subnet("fd00:5::/64").contains(subnet("fd00:5::9:8:7:6").ip));
    EXPECT_FALSE(subnet("fd00:5::/64").contains(subnet("fd00:5:0:1::6").ip));
}

TEST(Subnet, OneFamilyHoldsNoAddressOfTheOther)
{
    EXPECT_TRUE(subnet("0.0.0.0/0").contains(subnet("10.1.0.7").ip));
    EXPECT_FALSE(subnet("0.0.0.0/0").contains(subnet("fd00::7").ip));
    EXPECT_TRUE(subnet("::/0").contains(subnet("fd00::7").ip));
    EXPECT_FALSE(subnet("::/0").contains(subnet("10.1.0.7").ip));
}

TEST(Subnet, EverythingElseIsAnErrorWithTheWordAndAnExample)
{
    for (const char *text : {"", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8x",
                             "10.0.0.0/ 8", "10.0.0/8", "10.0.0.256", "10.0.0.0/8/8", "fd00::/129", "fd00:::/8", "fe80::1%eth0",
                             "eth0", "eth0/8"}) {
        SCOPED_TRACE(text);
        Result<Subnet> parsed = parse_subnet(text);
        ASSERT_FALSE(parsed.ok());
        EXPECT_EQ(parsed.error().status, Status::invalid);
        EXPECT_EQ(parsed.error().text, "\"" + std::string(text) + "\" is not a subnet such as 10.0.0.0/8 or fd00::/8");
    }
    EXPECT_FALSE(parse_subnet(std::string_view("10.0.0.0\0x/8", 12)).ok());
}

TEST(Subnet, KnowsTheFamilyOfAnAddress)
{
    EXPECT_TRUE(is_v4(ip_from_v4({10, 1, 0, 7})));
    EXPECT_EQ(ip_text(ip_from_v4({10, 1, 0, 7})), "10.1.0.7");
    EXPECT_FALSE(is_v4(subnet("::1").ip));
    EXPECT_FALSE(is_v4(Ip{}));
}

}  // namespace
}  // namespace pm
