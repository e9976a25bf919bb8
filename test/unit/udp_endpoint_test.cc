// Pairs of processes, packet by packet.
#include "netmod/udp/protocol/endpoint.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/udp_pair.h"

namespace pm::udp {
namespace {

using namespace std::chrono_literals;
using test::UdpPair;
using test::WirePacket;

std::string kinds(const std::vector<WirePacket> &packets)
{
    static constexpr const char *names[] = {"?", "hello", "welcome", "data", "ack", "size_probe", "size_answer", "alive", "bye", "part"};
    std::string text;
    for (const WirePacket &packet : packets)
        text += (text.empty() ? "" : " ") + std::string(names[static_cast<int>(packet.kind())]);
    return text;
}

TEST(UdpEndpoint, GreetsBeforeItSends)
{
    UdpPair pair;
    EXPECT_FALSE(pair[0].wants_to_transmit()) << "connecting alone costs nothing";
    EXPECT_EQ(pair[0].next_deadline(), never);
    EXPECT_EQ(pair.send(0, 100), Status::again);
    auto greeting = pair.sent_by(0);
    ASSERT_EQ(kinds(greeting), "hello");
    EXPECT_EQ(greeting[0].to, pair.address(1));
    pair.deliver(1, greeting[0]);
    auto answer = pair.sent_by(1);
    ASSERT_EQ(kinds(answer), "welcome");
    EXPECT_EQ(answer[0].to, pair.address(0));
    EXPECT_EQ(pair.peer(1)->state, PairState::quiet) << "who was greeted knows nothing of the way back";
    pair.deliver(0, answer[0]);
    EXPECT_EQ(pair.peer(0)->state, PairState::open);

    EXPECT_EQ(pair.send(0, 100), Status::ok);
    auto data = pair.sent_by(0);
    ASSERT_EQ(kinds(data), "data");
    EXPECT_EQ(data[0].header().sequence, 0xffff'fffeu);
    pair.deliver(1, data[0]);
    EXPECT_EQ(pair.peer(1)->state, PairState::open);
    EXPECT_EQ(pair.delivered(1).messages.size(), 1u);

    EXPECT_EQ(kinds(pair.sent_by(1)), "") << "the acknowledgement may yet ride on something";
    pair.wait(1ms);
    auto ack = pair.sent_by(1);
    ASSERT_EQ(kinds(ack), "ack");
    EXPECT_EQ(ack[0].header().acknowledged, 0xffff'ffffu);
    EXPECT_EQ(pair[0].outstanding(), 1u);
    pair.deliver(0, ack[0]);
    EXPECT_EQ(pair[0].outstanding(), 0u);
    EXPECT_EQ(pair.exchange(), 0u);
}

TEST(UdpEndpoint, GreetsAgainEverSlower)
{
    UdpPair pair;
    EXPECT_EQ(pair.send(0, 100), Status::again);
    Time begin = pair.now(), before = begin, interval{};
    unsigned rounds = 0;
    while (!pair.peer(0)->error) {
        if (kinds(pair.sent_by(0)) == "hello") {
            ++rounds;
            if (rounds > 2) {
                EXPECT_GE(pair.now() - before, interval);
            }
            interval = pair.now() - before;
            before = pair.now();
        }
        ASSERT_NE(pair[0].next_deadline(), never);
        ASSERT_GT(pair[0].next_deadline(), pair.now());
        pair.wait(pair[0].next_deadline() - pair.now());
    }
    EXPECT_GE(pair.now() - begin, 30s);
    EXPECT_LE(pair.now() - begin, 31s);
    EXPECT_GE(rounds, 20u);
    EXPECT_LE(rounds, 50u);
    EXPECT_EQ(pair.send(0, 100), Status::unreachable);
    EXPECT_NE(pair.peer(0)->error.text.find("10.0.0.2 port 4711"), std::string::npos) << pair.peer(0)->error.text;
    EXPECT_FALSE(pair[0].failure()) << "nothing was lost";
    EXPECT_EQ(kinds(pair.sent_by(0)), "");
}

TEST(UdpEndpoint, BothMayGreetAtOnce)
{
    UdpPair pair;
    EXPECT_EQ(pair.send(0, 100), Status::again);
    EXPECT_EQ(pair.send(1, 100), Status::again);
    auto hello_0 = pair.sent_by(0), hello_1 = pair.sent_by(1);
    pair.deliver(1, hello_0[0]);
    pair.deliver(0, hello_1[0]);
    pair.exchange();
    EXPECT_EQ(pair.send(0, 100), Status::ok);
    EXPECT_EQ(pair.send(1, 100), Status::ok);
    pair.exchange();
    EXPECT_EQ(pair.delivered(0).messages.size(), 1u);
    EXPECT_EQ(pair.delivered(1).messages.size(), 1u);
}

TEST(UdpEndpoint, AHelloFromEachAddressIsAnswered)
{
    // Which of our addresses the other one can answer is not known here: each gets its welcome.
    UdpPair pair;
    EXPECT_EQ(pair.send(0, 100), Status::again);
    WirePacket hello = pair.sent_by(0)[0];
    WirePacket other = hello;
    other.from = Address::v4({10, 9, 9, 9}, 4711);
    pair.deliver(1, hello);
    pair.deliver(1, other);
    auto answers = pair.sent_by(1);
    ASSERT_EQ(kinds(answers), "welcome welcome");
    EXPECT_NE(answers[0].to, answers[1].to);
}

TEST(UdpEndpoint, AcknowledgesAtOnceWhenSomethingIsMissing)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    for (int i = 0; i < 4; ++i)
        EXPECT_EQ(pair.send(0, 100), Status::ok);
    auto data = pair.sent_by(0);
    ASSERT_EQ(kinds(data), "data data data data");
    pair.deliver(1, data[0]);
    pair.deliver(1, data[2]);
    auto ack = pair.sent_by(1);
    ASSERT_EQ(kinds(ack), "ack");
    ASSERT_EQ(ack[0].bytes.size(), sizeof(Header) + 1);
    EXPECT_EQ(ack[0].bytes.back(), std::byte{1});
    pair.deliver(1, data[1]);
    pair.deliver(1, data[3]);
    EXPECT_EQ(pair.delivered(1).messages.size(), 4u);
}

TEST(UdpEndpoint, AnUnansweredPacketIsSentAgain)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    EXPECT_EQ(pair.send(0, 100), Status::ok);
    auto lost = pair.sent_by(0);
    ASSERT_EQ(kinds(lost), "data");
    pair.wait(20ms);
    auto again = pair.sent_by(0);
    ASSERT_EQ(kinds(again), "data");
    EXPECT_EQ(again[0].header().sequence, lost[0].header().sequence);
    pair.deliver(1, again[0]);
    pair.deliver(1, lost[0]);  // late, not lost
    EXPECT_EQ(pair.delivered(1).messages.size(), 1u);
    EXPECT_EQ(pair[1].counters().twice, 1u);
    EXPECT_EQ(pair[0].counters().sent_again, 1u);
}

TEST(UdpEndpoint, RefusalsOfAnOpenPairAreBelievedWhenTheyAreMany)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    pair[0].on_refused(pair.address(1), pair.now());
    pair[0].on_refused(pair.address(1), pair.now());
    EXPECT_FALSE(pair[0].failure());
    // A sign of life ends the suspicion.
    EXPECT_EQ(pair.send(0, 100), Status::ok);
    pair.exchange();
    pair.wait(1ms);
    pair.exchange();
    pair[0].on_refused(pair.address(1), pair.now());
    pair[0].on_refused(pair.address(1), pair.now());
    pair[0].on_refused(Address::v4({1, 2, 3, 4}, 5), pair.now());
    EXPECT_FALSE(pair[0].failure());
    pair[0].on_refused(pair.address(1), pair.now());
    EXPECT_TRUE(pair[0].failure());
    EXPECT_EQ(pair.send(0, 100), Status::unreachable);
    EXPECT_EQ(pair[0].outstanding(), 0u);
}

TEST(UdpEndpoint, TheEndOfOneThatNobodyUsesIsNoFailure)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    pair[0].let_go(pair.peer(0));
    for (int i = 0; i < 3; ++i)
        pair[0].on_refused(pair.address(1), pair.now());
    EXPECT_FALSE(pair[0].failure());
    EXPECT_EQ(pair.send(0, 100), Status::unreachable) << "it has ended all the same";
}

TEST(UdpEndpoint, OneThatLeftAndIsWantedAgainIsAskedFor)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    EXPECT_EQ(pair.send(0, 100), Status::ok);
    pair.exchange();
    pair.wait(1ms);
    pair.exchange();
    pair[0].let_go(pair.peer(0));
    pair[1].close();
    pair.exchange();
    pair[0].renew(pair.peer(0));
    EXPECT_EQ(pair.send(0, 100), Status::again);
    EXPECT_FALSE(pair[0].failure());
    EXPECT_EQ(kinds(pair.sent_by(0)), "hello");
}

TEST(UdpEndpoint, AsksWhoIsQuietAndGivesUpAfterTheLimit)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    EXPECT_EQ(pair.send(0, 100), Status::ok);
    pair.exchange();
    pair.wait(1ms);
    pair.exchange();
    // While it answers, a question now and then.
    Time begin = pair.now();
    unsigned packets = 0;
    while (pair.now() < begin + 120s) {
        pair.wait(std::min(pair[0].next_deadline(), pair[1].next_deadline()) - pair.now());
        packets += pair.exchange();
    }
    EXPECT_GE(packets, 10u);
    EXPECT_LE(packets, 100u);
    EXPECT_FALSE(pair[0].failure());
    // It does not answer any more.
    begin = pair.now();
    unsigned asked = 0;
    while (!pair[0].failure() && pair.now() < begin + 100s) {
        pair.wait(pair[0].next_deadline() - pair.now());
        for (const WirePacket &packet : pair.sent_by(0))
            asked += packet.kind() == Kind::alive && packet.header().wants_answer();
    }
    EXPECT_GE(asked, 3u);
    EXPECT_GE(pair.now() - begin, 20s);
    EXPECT_LE(pair.now() - begin, 31s);
}

TEST(UdpEndpoint, WhoComputedForLongAsksBeforeItGivesUp)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    EXPECT_EQ(pair.send(0, 100), Status::ok);
    pair.exchange();
    pair.wait(10min);
    EXPECT_FALSE(pair[0].failure());
    EXPECT_FALSE(pair[1].failure());
    pair.exchange();
    pair.wait(1s);
    pair.exchange();
    EXPECT_FALSE(pair[0].failure());
    EXPECT_EQ(pair[0].outstanding(), 0u);
}

TEST(UdpEndpoint, AByeIsTheEnd)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    EXPECT_EQ(pair.send(0, 100), Status::ok);
    pair.exchange();
    pair[1].close();
    auto bye = pair.sent_by(1);
    ASSERT_EQ(kinds(bye), "bye");
    pair.deliver(0, bye[0]);
    EXPECT_EQ(pair.peer(0)->state, PairState::left);
    EXPECT_EQ(pair[0].outstanding(), 0u) << "the good-bye acknowledged what had arrived";
    EXPECT_FALSE(pair[0].failure());
    EXPECT_EQ(pair.send(0, 100), Status::unreachable);
    EXPECT_TRUE(pair[0].failure());
}

TEST(UdpEndpoint, AStrangersPacketsAreCountedAndDropped)
{
    for (GuardKind guard : {GuardKind::token, GuardKind::mac}) {
        ProtocolSettings settings = UdpPair::plain();
        settings.guard = guard;
        UdpPair pair(settings);
        ASSERT_TRUE(pair.open());
        EXPECT_EQ(pair.send(0, 100), Status::ok);
        WirePacket packet = pair.sent_by(0)[0];
        // Expect: any change of the guard, and with the mac any change at all, is noticed.
        std::uint64_t strangers = 0;
        for (std::size_t i = 0; i < packet.bytes.size(); ++i) {
            if (guard == GuardKind::token && (i < 8 || i >= 16))
                continue;
            WirePacket changed = packet;
            changed.bytes[i] ^= std::byte{4};
            pair.deliver(1, changed);
            ++strangers;
        }
        Counters counters = pair[1].counters();
        EXPECT_EQ(counters.alien + counters.malformed, strangers);
        EXPECT_EQ(pair.delivered(1).messages.size(), 0u);
        pair.deliver(1, packet);
        EXPECT_EQ(pair.delivered(1).messages.size(), 1u);
    }
}

TEST(UdpEndpoint, EveryoneGetsPacketsGuardedAsItWants)
{
    // The guard is on the card of the receiver.
    ProtocolSettings with_mac = UdpPair::plain(), with_token = UdpPair::plain();
    with_mac.guard = GuardKind::mac;
    Address a = Address::v4({10, 0, 0, 1}, 1), b = Address::v4({10, 0, 0, 2}, 1);
    test::Delivered delivered;
    test::Delivered::current = &delivered;
    Endpoint first(with_mac, Key{1}, {a}, test::Delivered::sink()), second(with_token, Key{2}, {b}, test::Delivered::sink());
    Peer *to_second = first.connect(second.card());
    second.connect(first.card());
    Message message;
    for (int round = 0; round < 3; ++round) {
        SendProgress progress;
        (void) first.send(to_second, message, &progress, 1s);
        for (auto [from, to, address] : {std::tuple{&first, &second, a}, std::tuple{&second, &first, b}}) {
            Transmission transmission;
            while (from->poll_transmit(&transmission, 1s)) {
                std::vector<std::byte> bytes;
                for (const auto &piece : transmission.pieces)
                    bytes.insert(bytes.end(), piece.data, piece.data + piece.size);
                to->on_datagram(*decode(bytes), address, 1s);
            }
        }
    }
    test::Delivered::current = nullptr;
    EXPECT_GE(delivered.messages.size(), 1u);
    EXPECT_EQ(first.counters().alien + second.counters().alien, 0u);
}

TEST(UdpEndpoint, TheSameCardIsTheSamePeer)
{
    UdpPair pair;
    EXPECT_EQ(pair[0].connect(pair[1].card()), pair.peer(0));
    EXPECT_EQ(pair[0].peers(), 1u);
    pair[0].disconnect(pair.peer(0));
    EXPECT_EQ(pair[0].peers(), 1u);
    pair[0].disconnect(pair.peer(0));
    EXPECT_EQ(pair[0].peers(), 0u);
}

TEST(UdpEndpoint, ProbesForLongerPacketsWhenThereIsSomethingLongToSend)
{
    ProtocolSettings settings = UdpPair::plain();
    settings.packet_sizes = {1200, 1472, 8972};
    UdpPair pair(settings);
    ASSERT_TRUE(pair.open());
    EXPECT_EQ(pair.send(0, 100), Status::ok);
    EXPECT_EQ(kinds(pair.sent_by(0)), "data");
    EXPECT_EQ(pair.send(0, 5000), Status::ok);
    auto packets = pair.sent_by(0);
    ASSERT_EQ(kinds(packets), "size_probe size_probe data data data data data");
    EXPECT_EQ(packets[0].bytes.size(), 8972u);
    EXPECT_EQ(packets[1].bytes.size(), 1472u);
    // The longer one does not get through.
    pair.deliver(1, packets[1]);
    auto answer = pair.sent_by(1);
    ASSERT_EQ(kinds(answer), "size_answer");
    pair.deliver(0, answer[0]);
    EXPECT_EQ(pair.peer(0)->packet_size, 1472u);
    EXPECT_EQ(pair.send(0, 5000), Status::ok);
    std::size_t longest = 0;
    for (const WirePacket &packet : pair.sent_by(0))
        longest = std::max(longest, packet.bytes.size());
    EXPECT_EQ(longest, 1472u);
}

// The host or a router says how wide the path is: what was on its way goes at once, in parts, and new packets fit.
TEST(UdpEndpoint, APacketThatIsTooLongForThePathGoesInParts)
{
    for (GuardKind guard : {GuardKind::token, GuardKind::mac}) {
        ProtocolSettings settings = UdpPair::plain();
        settings.packet_sizes = {548, 1200};
        settings.guard = guard;
        UdpPair pair(settings);
        ASSERT_TRUE(pair.open());
        EXPECT_EQ(pair.send(0, 1100), Status::ok);
        ASSERT_EQ(kinds(pair.sent_by(0)), "data");
        pair[0].on_too_wide(pair.peer(0)->address, 572, pair.now());
        EXPECT_EQ(pair.peer(0)->packet_size, 572u);
        auto parts = pair.sent_by(0);
        ASSERT_EQ(kinds(parts), "part part part");
        for (const WirePacket &part : parts)
            EXPECT_LE(part.bytes.size(), 572u);
        // In whatever order, and one of them twice.
        for (std::size_t i : {2u, 0u, 2u, 1u})
            pair.deliver(1, parts[i]);
        EXPECT_EQ(pair.delivered(1).messages.size(), 1u);
        EXPECT_EQ(pair[1].counters().malformed + pair[1].counters().alien, 0u);
        // Parts of a packet that is there, and parts without sense, do nothing.
        pair.deliver(1, parts[1]);
        EXPECT_EQ(pair.delivered(1).messages.size(), 1u);
        EXPECT_EQ(pair.send(0, 1100), Status::ok);
        std::size_t longest = 0;
        for (const WirePacket &packet : pair.sent_by(0))
            longest = std::max(longest, packet.bytes.size());
        EXPECT_LE(longest, 1200u);
        EXPECT_EQ(pair[0].counters().sent_again, 1u);
    }
}

}  // namespace
}  // namespace pm::udp
