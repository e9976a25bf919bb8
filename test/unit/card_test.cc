// A card says what its owner meant, whole or short, and bytes that are none are refused.
#include "netmod/routing/card.h"

#include <gtest/gtest.h>

#include "support/random.h"

namespace pm {
namespace {

std::vector<std::byte> bytes_of(std::size_t size, int first)
{
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i)
        bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
    return bytes;
}

Card example()
{
    Card card;
    card.host = "a0";
    card.process = 1;
    card.network_space = 77;
    card.shmem = bytes_of(40, 1);
    card.udp = bytes_of(40, 90);
    card.networks.push_back({{5, DeviceKind::ucx, 200, "san-a"}, ip_from_v4({10, 1, 0, 7}), bytes_of(90, 3)});
    card.networks.push_back({{9, DeviceKind::udp, 100, "lan"}, {}, {}});
    return card;
}

TEST(Card, SaysWhatItsOwnerMeant)
{
    auto read = Card::read(example().write());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->host, "a0");
    EXPECT_EQ(read->process, 1u);
    EXPECT_EQ(read->network_space, 77u);
    EXPECT_EQ(read->shmem, example().shmem);
    EXPECT_EQ(read->udp, example().udp);
    ASSERT_EQ(read->networks.size(), 2u);
    EXPECT_EQ(read->networks[0].network.id, 5u);
    EXPECT_EQ(read->networks[0].network.device, DeviceKind::ucx);
    EXPECT_EQ(read->networks[0].network.priority, 200);
    EXPECT_EQ(read->networks[0].network.name, "san-a");
    EXPECT_EQ(read->networks[0].address, ip_from_v4({10, 1, 0, 7}));
    EXPECT_EQ(read->networks[0].device_card, bytes_of(90, 3));
    EXPECT_EQ(read->networks[1].network.device, DeviceKind::udp);
    EXPECT_FALSE(read->networks[1].address);
}

TEST(Card, ANetworkThatDoesNotFitIsLeftOutAndNamed)
{
    Card card = example();
    EXPECT_TRUE(card.fit().empty());
    for (int i = 0; i < 5; ++i)
        card.networks.push_back({{static_cast<std::uint64_t>(i), DeviceKind::ucx, 100, "big-" + std::to_string(i)}, {}, bytes_of(1000, i)});
    std::uint64_t before = card.id();
    EXPECT_EQ(card.fit(), (std::vector<std::string>{"big-4", "big-3"}));
    EXPECT_LE(card.write().size(), Card::max_size);
    ASSERT_EQ(card.networks.size(), 5u);
    EXPECT_EQ(Card::read(card.write())->networks.size(), 5u);
    EXPECT_EQ(card.id(), before);
}

TEST(Card, ShortAndWholeAreOfTheSameProcess)
{
    Card card = example();
    auto brief = card.write_short();
    EXPECT_LE(brief.size(), Card::max_short_size);
    auto read = Card::read(brief);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->id(), card.id());
    EXPECT_EQ(Card::read(card.write())->id(), card.id());
    EXPECT_EQ(read->udp, card.udp);
    EXPECT_TRUE(read->networks.empty());
}

TEST(Card, AShortCardWithoutUdpHasANetworkOfUcx)
{
    Card card = example();
    card.udp.clear();
    auto brief = card.write_short();
    EXPECT_LE(brief.size(), Card::max_short_size);
    auto read = Card::read(brief);
    ASSERT_TRUE(read);
    ASSERT_EQ(read->networks.size(), 1u);
    EXPECT_EQ(read->networks[0].network.id, 5u);
    EXPECT_EQ(read->networks[0].device_card, bytes_of(90, 3));
    EXPECT_EQ(read->id(), card.id());
}

TEST(Card, AShortCardIsFullWithItsLastByte)
{
    Card card = example();
    card.udp.clear();
    card.networks[0].device_card = bytes_of(Card::max_short_size - 17, 3);
    auto brief = card.write_short();
    EXPECT_EQ(brief.size(), Card::max_short_size);
    ASSERT_TRUE(Card::read(brief));
    EXPECT_EQ(Card::read(brief)->networks.size(), 1u);
    card.networks[0].device_card.push_back({});
    EXPECT_LT(card.write_short().size(), Card::max_short_size) << "one byte more, and it is not said";
}

TEST(Card, DiffersFromThatOfAnotherProcess)
{
    Card card = example(), other = example();
    other.shmem[8] ^= std::byte{1};
    EXPECT_NE(card.id(), other.id());
    other = example();
    other.udp[3] ^= std::byte{1};
    EXPECT_NE(card.id(), other.id());
}

TEST(Card, RefusesEveryTruncationAndWhatFollowsTheEnd)
{
    Card without_udp = example();
    without_udp.udp.clear();
    auto of_ucx = without_udp.write_short();
    for (std::size_t size = 0; size < 17; ++size)
        EXPECT_FALSE(Card::read(std::span(of_ucx).first(size))) << size << "; the rest is for UCX to check";
    for (auto bytes : {example().write(), example().write_short()}) {
        for (std::size_t size = 0; size < bytes.size(); ++size)
            EXPECT_FALSE(Card::read(std::span(bytes).first(size))) << size;
        bytes.push_back({});
        EXPECT_FALSE(Card::read(bytes));
    }
}

TEST(Card, SurvivesAnyBytes)
{
    test::Random random(7);
    for (int round = 0; round < 20'000; ++round) {
        std::vector<std::byte> bytes(random.below(300));
        for (std::byte &byte : bytes)
            byte = static_cast<std::byte>(random.below(256));
        if (!bytes.empty())
            bytes[0] = static_cast<std::byte>(1 + random.below(3));
        (void)Card::read(bytes);
    }
}

}  // namespace
}  // namespace pm
