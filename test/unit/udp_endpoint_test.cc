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
    static constexpr const char *names[] = {"?", "hello", "welcome", "data", "ack", "size_probe", "size_answer", "alive", "bye", "part", "bye_answer"};
    std::string text;
    for (const WirePacket &packet : packets)
        text += (text.empty() ? "" : " ") + std::string(names[static_cast<int>(packet.kind()) & 15]);
    return text;
}

std::vector<GuardKind> guards()
{
    std::vector<GuardKind> all{GuardKind::token, GuardKind::mac};
    if (can_seal())
        all.push_back(GuardKind::seal);
    return all;
}

ProtocolSettings guarded(GuardKind guard)
{
    ProtocolSettings settings = UdpPair::plain();
    settings.guard = guard;
    return settings;
}

TEST(UdpEndpoint, SendsAtOnceWhatIsOnePacketOfAnOpenPair)
{
    UdpPair pair;
    const std::vector<std::byte> payload(2000);
    Transmission transmission;
    auto at_once = [&](std::size_t size) {
        return pair[0].send_at_once(pair.peer(0), {1, nullptr, 0, {payload.data(), size, nullptr, nullptr}}, &transmission, pair.now());
    };
    EXPECT_FALSE(at_once(10)) << "it has not greeted";
    EXPECT_EQ(pair.send(0, 100), Status::again);
    pair.exchange();
    ASSERT_EQ(pair.peer(0)->state, PairState::open);
    EXPECT_FALSE(at_once(payload.size())) << "more than a packet";
    EXPECT_TRUE(at_once(10));
    EXPECT_EQ(transmission.to, pair.address(1));
    EXPECT_EQ(transmission.size, sizeof(Header) + 10);
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

// The host of end 1 refuses what end 0 sends there, until end 0 believes it. Number of packets it took.
unsigned refuse_all(UdpPair &pair, Time limit)
{
    unsigned count = 0;
    for (Time end = pair.now() + limit; pair.now() < end && pair.peer(0)->state == PairState::open;) {
        for (const WirePacket &packet : pair.sent_by(0)) {
            pair[0].on_refused(packet.to, packet.header(), pair.now());
            ++count;
        }
        Time next = std::max(std::min(pair[0].next_deadline(), end), pair.now() + 1ms);
        pair.wait(next - pair.now());
    }
    return count;
}

TEST(UdpEndpoint, RefusalsOfAnOpenPairAreBelievedWhenItDoesNotAnswer)
{
    for (GuardKind guard : guards()) {
        UdpPair pair(guarded(guard));
        ASSERT_TRUE(pair.open());
        EXPECT_EQ(pair.send(0, 100), Status::ok);
        Time begin = pair.now();
        EXPECT_GE(refuse_all(pair, 30s), 3u);
        EXPECT_TRUE(pair[0].failure());
        EXPECT_NE(pair[0].failure().text.find("has ended"), std::string::npos) << pair[0].failure().text;
        EXPECT_LE(pair.now() - begin, guard == GuardKind::token ? Time(500ms) : Time(12s));
        EXPECT_EQ(pair.send(0, 100), Status::unreachable);
        EXPECT_EQ(pair[0].outstanding(), 0u);
    }
}

// Whoever forges refusals makes us ask, no more.
TEST(UdpEndpoint, ForgedRefusalsChangeNothing)
{
    for (GuardKind guard : guards()) {
        UdpPair pair(guarded(guard));
        ASSERT_TRUE(pair.open());
        EXPECT_EQ(pair.send(0, 100), Status::ok);
        WirePacket data = pair.sent_by(0)[0];
        pair.deliver(1, data);
        pair.wait(1ms);
        pair.exchange();
        // Of packets that were never sent: they do not even make us ask.
        Header invented = data.header();
        for (int i = 0; i < 100; ++i) {
            invented.number = static_cast<std::uint64_t>(i);
            pair[0].on_refused(pair.address(1), invented, pair.now());
            pair[0].on_too_wide(pair.address(1), 100, &invented, pair.now());
        }
        EXPECT_EQ(kinds(pair.sent_by(0)), "");
        EXPECT_EQ(pair[0].counters().alien, 100u);
        EXPECT_EQ(pair.peer(0)->packet_size, 1200u);
        // Of one that somebody has seen, for a minute.
        for (int i = 0; i < 6000; ++i) {
            pair[0].on_refused(pair.address(1), data.header(), pair.now());
            pair.exchange();
            pair.wait(10ms);
        }
        EXPECT_FALSE(pair[0].failure()) << pair[0].failure().text;
        // The peer computes; its caretaker looks after an eighth of the silence limit.
        for (int i = 0; guard != GuardKind::token && i < 370; ++i) {
            pair[0].on_refused(pair.address(1), data.header(), pair.now());
            pair.wait(10ms);
        }
        pair.exchange();
        EXPECT_FALSE(pair[0].failure()) << pair[0].failure().text;
        EXPECT_EQ(pair.peer(0)->refusals, 0u);
    }
}

TEST(UdpEndpoint, TheEndOfOneThatNobodyUsesIsNoFailure)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    EXPECT_EQ(pair.send(0, 100), Status::ok);
    pair[0].let_go(pair.peer(0));
    refuse_all(pair, 30s);
    EXPECT_FALSE(pair[0].failure());
    EXPECT_EQ(pair.send(0, 100), Status::unreachable) << "it has ended all the same";
}

// Nothing of a message that will never be whole is written to where it belonged: that may be somebody else's memory by now.
TEST(UdpEndpoint, AFailedPairWritesNowhere)
{
    for (bool bye : {false, true}) {
        static std::vector<std::byte> place;
        place.assign(100'000, std::byte{0});
        Sink sink{nullptr, [](void *, const Envelope &, void *, std::size_t, std::size_t) -> void * { return place.data(); },
                  [](void *, int, void *, void *, std::size_t) {}};
        sink.place = [](void *, int, void *) -> void * { return place.data(); };
        sink.placed = [](void *, int, void *) {};
        UdpPair pair(UdpPair::plain(), sink);
        ASSERT_TRUE(pair.open());
        EXPECT_EQ(pair.send(0, 0), Status::ok);
        pair.exchange();
        std::vector<std::byte> payload(100'000, std::byte{1});
        Message message{0, nullptr, 0, {payload.data(), payload.size()}};
        SendProgress progress;
        (void) pair[1].send(pair.peer(1), message, &progress, pair.now());
        auto packets = pair.sent_by(1);
        ASSERT_GT(packets.size(), 3u);
        pair.deliver(0, packets[0]);
        pair.deliver(0, packets[1]);
        ASSERT_FALSE(pair[0].expected().place.empty()) << "this test tests something";
        if (bye) {
            pair[1].close();
            for (WirePacket &packet : pair.sent_by(1))
                pair.deliver(0, packet);
            EXPECT_EQ(pair.peer(0)->state, PairState::left);
        } else {
            EXPECT_EQ(pair.send(0, 100), Status::ok);
            refuse_all(pair, 30s);
            EXPECT_TRUE(pair[0].failure());
        }
        place.assign(100'000, std::byte{0});
        EXPECT_TRUE(pair[0].expected().place.empty());
        for (WirePacket &packet : packets)
            pair.deliver(0, packet);
        EXPECT_EQ(place, std::vector<std::byte>(100'000));
    }
}

// Who reads the traffic and sends in the peer's name, but cannot guard: not a byte of it gets to where the message belongs.
TEST(UdpEndpoint, NothingThatWasNotCheckedIsWritten)
{
    for (GuardKind guard : guards()) {
        if (guard == GuardKind::token)
            continue;
        static std::vector<std::byte> place;
        place.assign(100'000, std::byte{0});
        Sink sink;
        sink.arrived = [](void *, const Envelope &, void *, std::size_t, std::size_t) -> void * { return place.data(); };
        sink.more = [](void *, int, void *, void *, std::size_t) {};
        sink.place = [](void *, int, void *) -> void * { return place.data(); };
        sink.placed = [](void *, int, void *) {};
        UdpPair pair(guarded(guard), sink);
        ASSERT_TRUE(pair.open());
        EXPECT_EQ(pair.send(0, 0), Status::ok);
        pair.exchange();
        std::vector<std::byte> payload(100'000, std::byte{1});
        Message message{0, nullptr, 0, {payload.data(), payload.size()}};
        SendProgress progress;
        (void) pair[1].send(pair.peer(1), message, &progress, pair.now());
        auto packets = pair.sent_by(1);
        ASSERT_GT(packets.size(), 3u);
        pair.deliver(0, packets[0]);
        pair.deliver(0, packets[1]);
        EXPECT_TRUE(pair[0].expected().place.empty()) << "a socket must not write there";
        const std::vector<std::byte> before = place;
        const std::uint64_t alien = pair[0].counters().alien;
        WirePacket forged = packets[2];
        std::fill(forged.bytes.begin() + sizeof(Header), forged.bytes.end(), std::byte{2});
        pair.deliver(0, forged);
        EXPECT_EQ(place, before);
        EXPECT_EQ(pair[0].counters().alien, alien + 1);
        pair.deliver(0, packets[2]);
        EXPECT_NE(place, before) << "the right one is";
    }
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

// However it is found out that the host is there: that is asked for, and ends the silence.
TEST(UdpEndpoint, AStoppedPeerIsWaitedForWhileItsHostIsThere)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    pair.exchange();
    auto wait_for = [&](Time time, bool answers) {
        unsigned asked = 0;
        Transmission transmission;
        for (Time begin = pair.now(); pair.now() < begin + time && !pair[0].failure();) {
            pair.wait(pair[0].next_deadline() - pair.now());
            while (pair[0].poll_transmit(&transmission, pair.now())) {
                if (!transmission.asks_host)
                    continue;
                ++asked;
                EXPECT_EQ(transmission.to.ip, pair.address(1).ip);
                if (answers)
                    pair[0].on_host_answered({transmission.to.ip, 0}, pair.now());
            }
        }
        return asked;
    };
    EXPECT_GE(wait_for(1000s, true), 30u);
    EXPECT_FALSE(pair[0].failure()) << pair[0].failure().text;
    pair[0].on_host_answered(Address::v4({10, 0, 0, 3}, 0), pair.now());  // another one
    EXPECT_GE(wait_for(31s, false), 1u);
    EXPECT_TRUE(pair[0].failure());
}

// Nobody refuses what comes for a port where ICMP is filtered: then a process that has ended looks like one that is stopped.
TEST(UdpEndpoint, AHostThatDoesNotRefuseIsBelievedForSoLong)
{
    for (bool refuses : {false, true}) {
        UdpPair pair;
        ASSERT_TRUE(pair.open());
        pair.exchange();
        Transmission transmission;
        for (Time begin = pair.now(); pair.now() < begin + 1500s && !pair[0].failure();) {
            pair.wait(pair[0].next_deadline() - pair.now());
            while (pair[0].poll_transmit(&transmission, pair.now()))
                if (transmission.asks_host)
                    pair[0].on_host_answered({transmission.to.ip, 0}, pair.now(), refuses);
        }
        EXPECT_EQ(static_cast<bool>(pair[0].failure()), !refuses);
    }
}

// Every docker0 has the same address: who answers there may be our own host.
TEST(UdpEndpoint, AnAddressThatIsOursAsWellSaysNothingOfThePeersHost)
{
    const Address ours = Address::v4({10, 0, 0, 1}, 4711), its = Address::v4({10, 0, 0, 2}, 4711), bridge = Address::v4({172, 17, 0, 1}, 4711);
    auto is_waited_for = [&](const std::vector<Address> &addresses, const Address &answers) {
        Endpoint here(UdpPair::plain(), Key{1}, {ours, bridge}, test::Delivered::sink());
        Endpoint there(UdpPair::plain(), Key{2}, addresses, test::Delivered::sink());
        Peer *peer = here.connect(there.card());
        Time now = 1s;
        SendProgress progress;
        EXPECT_EQ(here.send(peer, {1, nullptr, 0, {}}, &progress, now), Status::again);
        Transmission transmission;
        while (now < 100s && !peer->error) {
            while (here.poll_transmit(&transmission, now)) {
            }
            here.on_host_answered({answers.ip, 0}, now);
            now = here.next_deadline();
            here.on_timer(now);
        }
        return !peer->error;
    };
    EXPECT_TRUE(is_waited_for({its, bridge}, its));
    EXPECT_FALSE(is_waited_for({its, bridge}, bridge));
    EXPECT_TRUE(is_waited_for({ours, bridge}, bridge)) << "a process of this host";
}

TEST(UdpEndpoint, APreferredAddressIsAskedAloneAtFirst)
{
    const Address first = Address::v4({10, 0, 0, 2}, 4711), preferred = Address::v4({10, 1, 0, 2}, 4711);
    auto asked = [&](const std::optional<Ip> &prefer, bool refuses = false) {
        Endpoint here(UdpPair::plain(), Key{1}, {Address::v4({10, 0, 0, 1}, 4711)}, test::Delivered::sink());
        Endpoint there(UdpPair::plain(), Key{2}, {first, preferred}, test::Delivered::sink());
        Peer *peer = here.connect(there.card());
        if (prefer)
            Endpoint::prefer(peer, *prefer);
        Time now = 1s;
        SendProgress progress;
        EXPECT_EQ(here.send(peer, {1, nullptr, 0, {}}, &progress, now), Status::again);
        std::string order;
        for (Transmission transmission; order.size() < 10;) {
            while (here.poll_transmit(&transmission, now)) {
                order += transmission.to == preferred ? 'p' : transmission.to == first ? 'f' : '?';
                Header header;
                std::memcpy(&header, transmission.pieces[0].data, sizeof header);
                if (refuses && transmission.to == preferred)
                    here.on_refused(preferred, header, now);
            }
            now = here.next_deadline();
            here.on_timer(now);
        }
        return order.substr(0, 10);
    };
    EXPECT_EQ(asked({}), "fpfpfpfpfp");
    EXPECT_EQ(asked(preferred.ip), "pppppfpfpf") << "and nobody answers there";
    EXPECT_EQ(asked(first.ip), "ffffffpfpf");
    EXPECT_EQ(asked(preferred.ip, true).substr(0, 5), "pfpfp") << "and it refuses: the others are asked at once, and nothing is given up";
    EXPECT_EQ(asked(Address::v4({10, 2, 0, 2}, 4711).ip), "fpfpfpfpfp") << "none of its addresses";
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
    EXPECT_FALSE(pair[1].closed());
    pair.deliver(0, bye[0]);
    EXPECT_EQ(pair.peer(0)->state, PairState::left);
    auto answer = pair.sent_by(0);
    ASSERT_EQ(kinds(answer), "bye_answer");
    // It is lost, so the good-bye comes again, and is answered again.
    pair.wait(20ms);
    bye = pair.sent_by(1);
    ASSERT_EQ(kinds(bye), "bye");
    pair.deliver(0, bye[0]);
    answer = pair.sent_by(0);
    ASSERT_EQ(kinds(answer), "bye_answer");
    pair.deliver(1, answer[0]);
    EXPECT_TRUE(pair[1].closed());
    pair.wait(2s);
    EXPECT_EQ(kinds(pair.sent_by(1)), "");
    EXPECT_EQ(pair[0].outstanding(), 0u) << "the good-bye acknowledged what had arrived";
    EXPECT_FALSE(pair[0].failure());
    EXPECT_EQ(pair.send(0, 100), Status::unreachable);
    EXPECT_TRUE(pair[0].failure());
}

TEST(UdpEndpoint, AStrangersPacketsAreCountedAndDropped)
{
    for (GuardKind guard : guards()) {
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

TEST(UdpEndpoint, PacketsAreGuardedAsTheStricterOneWants)
{
    Address a = Address::v4({10, 0, 0, 1}, 1), b = Address::v4({10, 0, 0, 2}, 1);
    for (bool known : {false, true}) {
        test::Delivered delivered;
        test::Delivered::current = &delivered;
        Endpoint first(guarded(GuardKind::mac), Key{1}, {a}, test::Delivered::sink());
        Endpoint second(guarded(GuardKind::token), Key{2}, {b}, test::Delivered::sink());
        Peer *to_second = first.connect(second.card());
        if (known)
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
        EXPECT_EQ(to_second->guard, GuardKind::mac);
        second.for_each_peer([&](const Peer &peer) {
            EXPECT_EQ(peer.guard, GuardKind::mac);
            EXPECT_EQ(peer.uses_its_secret, known) << "what both know is used";
        });
    }
}

bool contains(const std::vector<std::byte> &bytes, std::span<const std::byte> what)
{
    return !std::ranges::search(bytes, what).empty();
}

// Everything that two processes say to each other is looked at for what would let others speak in their names.
TEST(UdpEndpoint, NoSecretTravels)
{
    for (GuardKind guard : guards()) {
        UdpPair pair(guarded(guard));
        std::vector<WirePacket> seen;
        auto carry = [&] {
            for (bool something = true; something;) {
                something = false;
                for (unsigned i = 0; i < 2; ++i) {
                    for (WirePacket &packet : pair.sent_by(i)) {
                        seen.push_back(packet);
                        pair.deliver(1 - i, packet);
                        something = true;
                    }
                }
            }
        };
        EXPECT_EQ(pair.send(0, 100), Status::again);
        EXPECT_EQ(pair.send(1, 100), Status::again);
        carry();
        EXPECT_EQ(pair.send(0, 100, 0, 0x5a), Status::ok);
        EXPECT_EQ(pair.send(1, 100, 0, 0x5a), Status::ok);
        carry();
        pair[0].close();
        carry();
        EXPECT_GE(seen.size(), 8u);
        std::vector<std::byte> message(100, std::byte{0x5a});
        bool readable = false;
        for (const WirePacket &packet : seen) {
            readable |= contains(packet.bytes, message);
            for (unsigned i = 0; i < 2; ++i) {
                EXPECT_FALSE(contains(packet.bytes, std::as_bytes(std::span(*pair[i].card().secret)))) << kinds({packet});
                EXPECT_FALSE(contains(packet.bytes, std::as_bytes(std::span(pair.peer(i)->to_it.mac)))) << kinds({packet});
                EXPECT_FALSE(contains(packet.bytes, std::as_bytes(std::span(pair.peer(i)->to_it.seal).first(16)))) << kinds({packet});
            }
        }
        EXPECT_EQ(readable, guard != GuardKind::seal);
    }
}

// Who has the card of one process, as a client has that of a server, may greet it in its own name and in no other that is known.
TEST(UdpEndpoint, ANameIsOfWhoHasItsSecret)
{
    Address a = Address::v4({10, 0, 0, 1}, 1), b = Address::v4({10, 0, 0, 2}, 1);
    for (bool known_before : {true, false}) {
        UdpPair pair;
        test::Delivered delivered;
        test::Delivered::current = &delivered;
        Endpoint server(UdpPair::plain(), Key{1}, {a}, test::Delivered::sink());
        Endpoint real(UdpPair::plain(), Key{2}, {b}, test::Delivered::sink());
        int word;
        auto source = reinterpret_cast<pm_peer *>(&word);
        if (known_before)
            server.introduce(real.card(), source);
        // A hello of the real one, in which the secret is replaced by another one.
        Endpoint other(UdpPair::plain(), Key{3}, {b}, test::Delivered::sink());
        Peer *to_server = other.connect(server.card());
        Message message;
        SendProgress progress;
        ASSERT_EQ(other.send(to_server, message, &progress, 1s), Status::again);
        Transmission transmission;
        ASSERT_TRUE(other.poll_transmit(&transmission, 1s));
        std::vector<std::byte> hello(transmission.pieces[0].data, transmission.pieces[0].data + transmission.pieces[0].size);
        std::uint64_t name = real.card().name;
        std::memcpy(hello.data() + sizeof(Header) + sizeof(Nonce), &name, sizeof name);
        auto forged = decode(hello);
        forged->header.guard[0] = 0;
        SipHash hash(hello_key(*server.card().secret));
        hash.add(std::as_bytes(std::span(&forged->header, 1)));
        hash.add(forged->body);
        forged->header.guard[0] = hash.finish();
        server.on_datagram(*forged, b, 1s);
        EXPECT_EQ(server.peers(), known_before ? 0u : 1u) << "a name that nobody knows may be anybody's";
        if (!known_before)
            server.introduce(real.card(), source);
        EXPECT_EQ(server.peers(), 0u);
        server.for_each_peer([&](const Peer &peer) { EXPECT_EQ(peer.source, nullptr); });
        EXPECT_NE(server.connect(real.card()), nullptr);
        EXPECT_EQ(server.peers(), 1u);
        test::Delivered::current = nullptr;
    }
}

// As somebody would send it who has the receiver's card.
void guard_hello(Datagram *hello, const Card &receiver)
{
    hello->header.guard[0] = 0;
    SipHash hash(hello_key(*receiver.secret));
    hash.add(std::as_bytes(std::span(&hello->header, 1)));
    hash.add(hello->body);
    hello->header.guard[0] = hash.finish();
}

TEST(UdpEndpoint, AMessageThatArrivedBeforeThePeerLeftIsNotLost)
{
    UdpPair pair;
    ASSERT_TRUE(pair.open());
    std::vector<std::byte> payload(Outgoing::whole_copy_limit + 5000, std::byte{7});
    Message message{0, nullptr, 0, {payload.data(), payload.size()}};
    SendProgress progress;
    ASSERT_EQ(pair[0].send(pair.peer(0), message, &progress, pair.now()), Status::again);
    ASSERT_TRUE(progress.taken);
    pair.exchange();
    EXPECT_EQ(pair.delivered(1).bytes, payload.size());
    pair[1].close();
    pair.exchange();
    EXPECT_EQ(pair.peer(0)->state, PairState::left);
    EXPECT_EQ(pair[0].send(pair.peer(0), message, &progress, pair.now()), Status::ok);
    EXPECT_EQ(pair.send(0, 100), Status::unreachable);
}

std::vector<std::byte> first_hello(Endpoint *from, const Card &to)
{
    Message message;
    SendProgress progress;
    EXPECT_EQ(from->send(from->connect(to), message, &progress, 1s), Status::again);
    Transmission transmission;
    EXPECT_TRUE(from->poll_transmit(&transmission, 1s));
    return {transmission.pieces[0].data, transmission.pieces[0].data + transmission.pieces[0].size};
}

// Who recorded a hello cannot make another one of it, though it can guard it.
TEST(UdpEndpoint, AProofIsOfOneHello)
{
    Address a = Address::v4({10, 0, 0, 1}, 1), b = Address::v4({10, 0, 0, 2}, 1);
    Endpoint server(UdpPair::plain(), Key{1}, {a}, test::Delivered::sink()), real(UdpPair::plain(), Key{2}, {b}, test::Delivered::sink());
    int word;
    server.introduce(real.card(), reinterpret_cast<pm_peer *>(&word));
    std::vector<std::byte> bytes = first_hello(&real, server.card());
    auto hello = decode(bytes);
    server.on_datagram(*hello, b, 1s);
    ASSERT_EQ(server.peers(), 1u);
    ASSERT_EQ(server.counters().alien, 0u);
    auto its_number = [&] {
        std::uint32_t number = 0;
        server.for_each_peer([&](const Peer &peer) { number = peer.its_number; });
        return number;
    };
    std::uint32_t before = its_number();
    Datagram forged = *hello;
    forged.header.offset += 1;
    forged.header.fragment += 1;
    guard_hello(&forged, server.card());
    server.on_datagram(forged, b, 5s);
    EXPECT_EQ(its_number(), before);
    EXPECT_EQ(server.counters().alien, 1u);
}

// Who has our card cannot answer for another one, whose secret it lacks.
TEST(UdpEndpoint, AWelcomeNeedsTheSecretOfTheOneThatWasGreeted)
{
    Address a = Address::v4({10, 0, 0, 1}, 1), b = Address::v4({10, 0, 0, 2}, 1);
    Endpoint we(UdpPair::plain(), Key{1}, {a}, test::Delivered::sink()), it(UdpPair::plain(), Key{2}, {b}, test::Delivered::sink());
    std::vector<std::byte> bytes = first_hello(&we, it.card());
    auto hello = decode(bytes);
    Nonce ours, forgers{};
    std::memcpy(ours.data(), hello->body.data(), sizeof ours);
    Header header;
    header.kind_and_flags = static_cast<std::uint8_t>(Kind::welcome);
    header.to = static_cast<std::uint32_t>(hello->header.offset);
    header.offset = 77;
    header.fragment = 1;
    header.tag = static_cast<std::uint8_t>(Secrets::of_receiver);
    header.body_size = sizeof forgers;
    Datagram welcome{header, {reinterpret_cast<std::byte *>(forgers.data()), sizeof forgers}};
    SipHash hash(DirectionKeys({it.card().name, nullptr, forgers}, {we.card().name, &*we.card().secret, ours}).mac);
    hash.add(std::as_bytes(std::span(&welcome.header, 1)));
    hash.add(welcome.body);
    welcome.header.guard[0] = hash.finish();
    we.on_datagram(welcome, b, 1s);
    we.for_each_peer([](const Peer &peer) { EXPECT_EQ(peer.state, PairState::asking); });
    EXPECT_EQ(we.counters().alien, 1u);
}

// One that greeted us and ended before anybody here wanted it is nobody's loss.
TEST(UdpEndpoint, TheEndOfOneThatOnlyGreetedIsNoFailure)
{
    Address addresses[] = {Address::v4({10, 0, 0, 1}, 1), Address::v4({10, 0, 0, 2}, 1)};
    Endpoint server(UdpPair::plain(), Key{1}, {addresses[0]}, test::Delivered::sink());
    Endpoint client(UdpPair::plain(), Key{2}, {addresses[1]}, test::Delivered::sink());
    Endpoint *ends[] = {&server, &client};
    Peer *to_server = client.connect(server.card());
    test::Delivered delivered;
    test::Delivered::current = &delivered;
    Message message;
    SendProgress progress;
    for (int i = 0; i < 3; ++i) {
        (void)client.send(to_server, message, &progress, 1s);
        for (unsigned from : {1u, 0u}) {
            Transmission transmission;
            while (ends[from]->poll_transmit(&transmission, 1s)) {
                std::vector<std::byte> bytes;
                for (const auto &piece : transmission.pieces)
                    bytes.insert(bytes.end(), piece.data, piece.data + piece.size);
                if (auto datagram = decode(bytes))
                    ends[1 - from]->on_datagram(*datagram, addresses[from], 1s);
            }
        }
    }
    test::Delivered::current = nullptr;
    server.for_each_peer([](const Peer &peer) { EXPECT_EQ(peer.state, PairState::open); });
    Transmission lost;
    for (Time now = 1s; now < 200s; now += 1s) {
        server.on_timer(now);
        while (server.poll_transmit(&lost, now)) {
        }
    }
    EXPECT_EQ(server.peers(), 0u) << "nor is anything kept of it";
    EXPECT_FALSE(server.failure()) << server.failure().text;
}

// Under mac and seal nothing that was recorded is taken a second time, whatever it is.
TEST(UdpEndpoint, ReplayedControlPacketsChangeNothing)
{
    for (GuardKind guard : guards()) {
        if (guard == GuardKind::token)
            continue;
        ProtocolSettings settings = guarded(guard);
        settings.packet_sizes = {1200, 1472};
        UdpPair pair(settings);
        std::vector<WirePacket> recorded;  // for end 0
        auto carry = [&](Time time) {
            for (Time end = pair.now() + time; pair.now() <= end; pair.wait(1ms)) {
                for (WirePacket &packet : pair.sent_by(0))
                    pair.deliver(1, packet);
                for (WirePacket &packet : pair.sent_by(1)) {
                    recorded.push_back(packet);
                    pair.deliver(0, packet);
                }
            }
        };
        EXPECT_EQ(pair.send(1, 100), Status::again);
        carry(5ms);
        EXPECT_EQ(pair.send(1, 5000), Status::ok);
        carry(5ms);
        EXPECT_EQ(pair.send(0, 5000), Status::ok);
        carry(30ms);
        EXPECT_EQ(pair.send(0, 100), Status::ok);
        carry(30ms);
        pair.wait(10s);  // asks
        carry(5ms);
        std::string said = kinds(recorded);
        for (const char *kind : {"hello", "data", "ack", "size_probe", "size_answer", "alive"})
            EXPECT_NE(said.find(kind), std::string::npos) << kind << " is not in: " << said;
        // Nothing is changed by them, and nothing is answered but the hello.
        Time heard = pair.peer(0)->last_heard;
        std::uint64_t number = pair.peer(0)->next_number;
        std::size_t messages = pair.delivered(0).messages.size();
        pair.wait(1s);
        for (const WirePacket &packet : recorded)
            pair.deliver(0, packet);
        EXPECT_EQ(pair.peer(0)->last_heard, heard) << "a recorded packet is no sign of life";
        EXPECT_EQ(pair.peer(0)->state, PairState::open);
        EXPECT_EQ(pair.delivered(0).messages.size(), messages);
        for (const WirePacket &packet : pair.sent_by(0))
            EXPECT_EQ(packet.kind(), Kind::welcome);
        EXPECT_LE(pair.peer(0)->next_number - number, 1u);

        // A good-bye, when the pair has been made again, and the hello that was before it.
        pair[1].disconnect(pair.peer(1));
        carry(5ms);
        EXPECT_EQ(pair.peer(0)->state, PairState::left);
        pair[0].renew(pair.peer(0));
        EXPECT_EQ(pair.send(0, 100), Status::again);
        std::vector<WirePacket> before = std::exchange(recorded, {});
        ASSERT_NE(kinds(before).find("bye"), std::string::npos);
        for (const WirePacket &packet : before)
            pair.deliver(0, packet);
        carry(5ms);
        EXPECT_EQ(pair.send(0, 100), Status::ok);
        carry(5ms);
        ASSERT_EQ(pair.peer(0)->state, PairState::open);
        for (const WirePacket &packet : before)
            pair.deliver(0, packet);
        EXPECT_EQ(pair.peer(0)->state, PairState::open);
        EXPECT_EQ(pair.send(0, 100), Status::ok);
        carry(5ms);
        EXPECT_EQ(pair[0].outstanding(), 0u);
        EXPECT_FALSE(pair[0].failure());
    }
}

// A hello from before is no obstacle to meeting again.
TEST(UdpEndpoint, AnOldHelloKeepsNobodyOut)
{
    for (GuardKind guard : guards()) {
        UdpPair pair(guarded(guard));
        EXPECT_EQ(pair.send(1, 100), Status::again);
        WirePacket old = pair.sent_by(1)[0];
        pair[1].disconnect(pair.peer(1));
        Peer *again = pair[1].connect(pair[0].card());
        pair.deliver(0, old);
        EXPECT_EQ(pair.send(0, 100), Status::again);
        pair.exchange();
        EXPECT_EQ(pair.send(0, 100), Status::ok);
        pair.exchange();
        EXPECT_EQ(pair.delivered(1).messages.size(), 1u);
        EXPECT_EQ(again->state, PairState::open);
    }
}

// The good-bye is lost, or comes late: what was sent to somebody who had left, and is wanted back, arrives at who comes back.
TEST(UdpEndpoint, WhatWasSentBeforeTheGoodByeWasReadIsNotLost)
{
    for (GuardKind guard : guards()) {
        for (bool it_greets : {false, true}) {
            UdpPair pair(guarded(guard));
            ASSERT_TRUE(pair.open());
            EXPECT_EQ(pair.send(0, 100), Status::ok);
            pair.exchange();
            pair.wait(1ms);
            pair.exchange();
            std::size_t before = pair.delivered(1).messages.size();
            pair[0].let_go(pair.peer(0));
            pair[1].disconnect(pair.peer(1));
            auto bye = pair.sent_by(1);
            ASSERT_EQ(kinds(bye), "bye");
            pair[0].renew(pair.peer(0));
            EXPECT_EQ(pair.send(0, 100), Status::ok) << "it does not know yet";
            EXPECT_EQ(pair.send(0, 0, 10), Status::ok);
            Peer *again = pair[1].connect(pair[0].card());
            if (it_greets) {
                Message message;
                SendProgress progress;
                EXPECT_EQ(pair[1].send(again, message, &progress, pair.now()), Status::again);
            }
            for (int i = 0; i < 200; ++i) {
                pair.exchange();
                pair.wait(5ms);
            }
            EXPECT_FALSE(pair[0].failure()) << pair[0].failure().text;
            EXPECT_EQ(pair.delivered(1).messages.size(), before + 2);
            EXPECT_EQ(pair.peer(0)->state, PairState::open);
            EXPECT_EQ(pair[0].outstanding(), 0u);
        }
    }
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
    for (GuardKind guard : guards()) {
        ProtocolSettings settings = UdpPair::plain();
        settings.packet_sizes = {548, 1200};
        settings.guard = guard;
        UdpPair pair(settings);
        ASSERT_TRUE(pair.open());
        EXPECT_EQ(pair.send(0, 1100), Status::ok);
        ASSERT_EQ(kinds(pair.sent_by(0)), "data");
        pair[0].on_too_wide(pair.peer(0)->address, 572, nullptr, pair.now());
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
