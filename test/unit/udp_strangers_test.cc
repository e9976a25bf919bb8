// Those who have the card of a process that does not know them, as clients of a port: what they cost, what they can make it send, and
// what is left of them.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "netmod/udp/protocol/endpoint.h"
#include "support/udp_pair.h"

namespace pm::udp {
namespace {

using namespace std::chrono_literals;
using test::UdpPair;
using test::WirePacket;

class UdpOneSided : public testing::TestWithParam<GuardKind> {
  protected:
    static ProtocolSettings guarded()
    {
        ProtocolSettings settings = UdpPair::plain();
        settings.guard = GetParam();
        return settings;
    }
    // End 0 is the stranger. All that it sends is recorded.
    void exchange()
    {
        for (bool something = true; something;) {
            something = false;
            for (unsigned i = 0; i < 2; ++i)
                for (WirePacket &packet : pair_.sent_by(i)) {
                    if (i == 0)
                        recorded_.push_back(packet);
                    pair_.deliver(1 - i, packet);
                    something = true;
                }
        }
    }
    void greet_and_talk()
    {
        ASSERT_EQ(pair_.send(0, 100), Status::again);
        exchange();
        ASSERT_EQ(pair_.send(0, 100), Status::ok);
        exchange();
        ASSERT_EQ(pair_.delivered(1).messages.size(), 1u);
    }
    // Time passes at end 1, and what it sends gets lost.
    std::size_t left_alone(Time time)
    {
        std::size_t bytes = 0;
        for (Time end = pair_.now() + time; pair_.now() < end;) {
            pair_.wait(100ms);
            for (const WirePacket &packet : pair_.sent_by(1))
                bytes += packet.bytes.size();
            (void) pair_.sent_by(0);
        }
        return bytes;
    }

    UdpPair pair_{guarded(), test::Delivered::sink(), true};
    std::vector<WirePacket> recorded_;
};

// Who pretends to be somebody else in the packets' source makes us send that one less than he sends us, and only answers.
TEST_P(UdpOneSided, NobodyIsSentMoreThanWasSentInHisName)
{
    ASSERT_EQ(pair_.send(0, 100), Status::again);
    WirePacket hello = pair_.sent_by(0)[0];
    hello.from = Address::v4({10, 9, 9, 9}, 53);
    std::size_t received = 0, sent = 0;
    for (int round = 0; round < 200; ++round) {
        pair_.deliver(1, hello);
        received += hello.bytes.size();
        for (const WirePacket &packet : pair_.sent_by(1)) {
            ASSERT_EQ(packet.to, hello.from);
            ASSERT_LT(packet.bytes.size(), hello.bytes.size());
            sent += packet.bytes.size();
        }
        EXPECT_LT(sent, received);
        pair_.wait(10ms);
    }
    EXPECT_GT(sent, 0u);
    EXPECT_EQ(left_alone(200s), 0u) << "an address that has proved nothing is not sent to again";
    // A hello with the wrong guard is not answered at all, nor is anything else.
    hello.bytes.back() ^= std::byte{1};
    pair_.deliver(1, hello);
    EXPECT_TRUE(pair_.sent_by(1).empty());
}

TEST_P(UdpOneSided, NothingIsLeftOfOneThatHasLeft)
{
    greet_and_talk();
    ASSERT_EQ(pair_[1].peers(), 1u);
    pair_[0].close();
    exchange();
    left_alone(2 * guarded().silence_limit);
    EXPECT_EQ(pair_[1].peers(), 0u);
    unsigned pairs = 0;
    pair_[1].for_each_peer([&](const Peer &) { ++pairs; });
    EXPECT_EQ(pairs, 0u);
    EXPECT_EQ(pair_[1].next_deadline(), never);
}

// The pair is gone, and with it all that knew which packets have come: they still are of another pair than any that will be.
TEST_P(UdpOneSided, WhatWasRecordedOfAPairThatIsGoneChangesNothing)
{
    greet_and_talk();
    pair_[0].close();
    exchange();
    left_alone(2 * guarded().silence_limit);
    ASSERT_EQ(pair_[1].peers(), 0u);
    const std::size_t messages = pair_.delivered(1).messages.size();
    std::uint64_t alien = pair_[1].counters().alien;
    unsigned greetings = 0;
    for (int round = 0; round < 3; ++round)
        for (const WirePacket &packet : recorded_) {
            greetings += packet.kind() == Kind::hello;
            pair_.deliver(1, packet);
        }
    EXPECT_EQ(pair_.delivered(1).messages.size(), messages);
    EXPECT_EQ(pair_[1].counters().alien, alien + 3 * recorded_.size() - greetings);
    pair_[1].for_each_peer([](const Peer &peer) { EXPECT_EQ(peer.state, PairState::quiet); });
    left_alone(2 * guarded().silence_limit);
    EXPECT_EQ(pair_[1].peers(), 0u);
}

std::vector<GuardKind> guards()
{
    std::vector<GuardKind> all{GuardKind::token, GuardKind::mac};
    if (can_seal())
        all.push_back(GuardKind::seal);
    return all;
}
INSTANTIATE_TEST_SUITE_P(Guards, UdpOneSided, testing::ValuesIn(guards()));

// One who has the card greets in as many names as he likes: those are not kept beyond a number, nor for long. Who is in earnest gets in.
TEST(UdpManyStrangers, AFloodOfGreetingsIsBounded)
{
    ProtocolSettings settings = UdpPair::plain();
    Address a = Address::v4({10, 0, 0, 1}, 1), b = Address::v4({10, 0, 0, 2}, 1);
    test::Delivered delivered;
    test::Delivered::current = &delivered;
    Endpoint server(settings, Key{1}, {a}, test::Delivered::sink());
    Message message;
    SendProgress progress;
    Transmission transmission;
    auto packet_of = [&](Endpoint *from, Time now) {
        std::vector<std::byte> bytes;
        if (from->poll_transmit(&transmission, now))
            for (const auto &piece : transmission.pieces)
                bytes.insert(bytes.end(), piece.data, piece.data + piece.size);
        return bytes;
    };
    auto give = [&](Endpoint *to, std::vector<std::byte> bytes, const Address &from, Time now) {
        if (auto datagram = decode(bytes))
            to->on_datagram(*datagram, from, now);
    };
    constexpr std::size_t beyond = 100;
    for (std::size_t i = 0; i < Endpoint::most_strangers + beyond; ++i) {
        Key secret{2};
        std::memcpy(secret.data() + 4, &i, sizeof i);
        Endpoint one(settings, secret, {b}, test::Delivered::sink());
        (void) one.send(one.connect(server.card()), message, &progress, 1s);
        give(&server, packet_of(&one, 1s), b, 1s);
        while (!packet_of(&server, 1s).empty()) {
        }
    }
    EXPECT_EQ(server.peers(), Endpoint::most_strangers);
    EXPECT_EQ(server.counters().crowded_out, beyond);

    // One that is known has nothing to do with that.
    Endpoint known(settings, Key{3}, {b}, test::Delivered::sink());
    int word;
    server.introduce(known.card(), reinterpret_cast<pm_peer *>(&word));
    (void) known.send(known.connect(server.card()), message, &progress, 1s);
    give(&server, packet_of(&known, 1s), b, 1s);
    give(&known, packet_of(&server, 1s), a, 1s);
    known.for_each_peer([](const Peer &peer) { EXPECT_EQ(peer.state, PairState::open); });

    // A stranger greets until there is room.
    Endpoint late(settings, Key{4}, {b}, test::Delivered::sink());
    Peer *to_server = late.connect(server.card());
    (void) late.send(to_server, message, &progress, 15s);
    for (Time now = 15s; now < 40s; now += 100ms) {
        late.on_timer(now);
        server.on_timer(now);
        for (std::vector<std::byte> bytes = packet_of(&late, now); !bytes.empty(); bytes = packet_of(&late, now))
            give(&server, bytes, b, now);
        for (std::vector<std::byte> bytes = packet_of(&server, now); !bytes.empty(); bytes = packet_of(&server, now))
            give(&late, bytes, a, now);
    }
    EXPECT_EQ(to_server->state, PairState::open);
    EXPECT_GT(server.counters().crowded_out, beyond);
    EXPECT_LE(server.peers(), 2u);
    test::Delivered::current = nullptr;
}

// Numbers of pairs come again after 4096 of them. The peer, which has not heard that the first one has ended, takes the second for what it is,
// and late packets of the first do not meet the second.
TEST(UdpNumbers, ThatComeAgainAreOfAnotherPair)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    ASSERT_EQ(pair.send(0, 100), Status::ok);
    pair.exchange();
    ASSERT_EQ(pair.send(1, 100), Status::ok);
    std::vector<WirePacket> late = pair.sent_by(1);
    for (const WirePacket &packet : late)
        pair.deliver(0, packet);
    pair.wait(1ms);
    pair.exchange();
    std::uint32_t number = pair.peer(0)->number;
    pair[0].disconnect(pair.peer(0));
    for (int i = 0; i < 100; ++i) {
        pair.wait(100ms);
        (void) pair.sent_by(0);  // every good-bye is lost
        (void) pair.sent_by(1);
    }
    ASSERT_EQ(pair[0].peers(), 0u);
    Card other = pair[1].card();
    other.name ^= 1;
    for (int i = 1; i < 4096; ++i)
        pair[0].disconnect(pair[0].connect(other));
    Peer *again = pair[0].connect(pair[1].card());
    ASSERT_EQ(again->number, number) << "this test tests something";
    Message message;
    SendProgress progress;
    for (int i = 0; i < 100 && again->state != PairState::open; ++i) {
        (void) pair[0].send(again, message, &progress, pair.now());
        pair.exchange();
        pair.wait(100ms);
    }
    EXPECT_EQ(again->state, PairState::open);
    const std::uint64_t alien = pair[0].counters().alien;
    const std::size_t messages = pair.delivered(0).messages.size();
    for (const WirePacket &packet : late)
        pair.deliver(0, packet);
    EXPECT_EQ(pair[0].counters().alien, alien + late.size());
    EXPECT_EQ(pair.delivered(0).messages.size(), messages);
}

}  // namespace
}  // namespace pm::udp
