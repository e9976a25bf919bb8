// The sending half of a pair: which packets it makes, sends, loses and sends again.
#include "netmod/udp/protocol/outgoing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "support/pattern.h"

namespace pm::udp {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t first = (std::uint64_t{1} << 32) + 0xffff'fffeu;  // the third packet has number 0 on the wire
constexpr std::size_t packet_size = 1200;
constexpr std::size_t room = packet_size - sizeof(Header);

class UdpOutgoing : public testing::Test {
  protected:
    UdpOutgoing()
    {
        settings_.packet_sizes = {packet_size};
        outgoing_.on_window(1 << 20);
    }

    Status send(std::size_t payload_size, std::size_t header_size = 0)
    {
        header_ = test::pattern(1, header_size);
        payload_ = test::pattern(2, payload_size);
        message_ = {5, header_.data(), header_size, {payload_.data(), payload_size}};
        progress_ = {};
        return outgoing_.accept(message_, &progress_, packet_size);
    }

    // Numbers of the packets that are sent now, counted from the first of all, as "0 1 2".
    std::string sent()
    {
        std::string text;
        while (outgoing_.take_train(now_, packet_size, [&](Flight &flight) {
            text += (text.empty() ? "" : " ") + std::to_string(flight.header().sequence - static_cast<std::uint32_t>(first));
            last_sent_ = flight.header();
        }) > 0) {
        }
        return text;
    }

    // Everything before packet `number` has arrived, and of those after it what `early` says, from number + 1 on.
    bool acknowledge(std::uint64_t number, std::vector<bool> early = {})
    {
        std::vector<std::byte> bitmap((early.size() + 7) / 8);
        for (std::size_t i = 0; i < early.size(); ++i)
            if (early[i])
                bitmap[i / 8] |= std::byte{1} << i % 8;
        return outgoing_.on_acknowledged(first + number, bitmap, Time::zero(), now_);
    }

    void wait(Time time)
    {
        now_ += time;
        outgoing_.on_timer(now_);
    }

    ProtocolSettings settings_;
    Blocks blocks_;
    Outgoing outgoing_{settings_, blocks_, first};
    Time now_ = 1s;
    std::vector<std::byte> header_, payload_;
    Message message_;
    SendProgress progress_;
    Header last_sent_;
};

TEST_F(UdpOutgoing, AMessageOfNothingIsAPacket)
{
    EXPECT_EQ(send(0), Status::ok);
    EXPECT_EQ(sent(), "0");
    EXPECT_EQ(last_sent_.kind(), Kind::data);
    EXPECT_EQ(last_sent_.tag, 5);
    EXPECT_EQ(last_sent_.fragment, 0u);
    EXPECT_EQ(last_sent_.offset, 0u);
    EXPECT_EQ(outgoing_.outstanding(), 1u);
    EXPECT_TRUE(acknowledge(1));
    EXPECT_EQ(outgoing_.outstanding(), 0u);
    EXPECT_EQ(outgoing_.cost_on_its_way(), 0u);
    EXPECT_EQ(outgoing_.deadline(), never);
}

TEST_F(UdpOutgoing, WhatIsLentIsSentFromWhereItIsAndCopiedAfterwards)
{
    header_ = test::pattern(1, 100);
    const std::vector<std::byte> before = payload_ = test::pattern(2, 4 * room - 100);
    auto bodies = [&](bool in_place) {
        std::vector<std::byte> whole;
        outgoing_.take_train(now_, packet_size, [&](Flight &flight) {
            const bool inside = flight.body >= payload_.data() && flight.body < payload_.data() + payload_.size();
            EXPECT_EQ(inside, in_place && !whole.empty()) << "the first packet has the header, too, and is copied";
            EXPECT_FALSE(flight.header().wants_answer());
            whole.insert(whole.end(), flight.body, flight.body + flight.body_size);
        });
        return whole;
    };
    ASSERT_TRUE(outgoing_.has_room(4 * room, packet_size));
    outgoing_.lend({5, header_.data(), 100, {payload_.data(), payload_.size()}}, packet_size);
    const std::vector<std::byte> first_time = bodies(true);
    EXPECT_EQ(first_time.size(), 4 * room);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), first_time.begin() + 100, first_time.end()));
    outgoing_.keep_lent();
    std::ranges::fill(payload_, std::byte{0});
    outgoing_.on_narrow(packet_size - 1);  // all of them are lost
    EXPECT_EQ(bodies(false), first_time);
    EXPECT_TRUE(acknowledge(4));
    EXPECT_EQ(outgoing_.outstanding(), 0u);
}

TEST_F(UdpOutgoing, CutsAMessageIntoPackets)
{
    EXPECT_EQ(send(3 * room, 100), Status::ok);
    std::vector<std::byte> whole;
    std::vector<Header> headers;
    outgoing_.take_train(now_, packet_size, [&](Flight &flight) {
        headers.push_back(flight.header());
        whole.insert(whole.end(), flight.body, flight.body + flight.body_size);
        EXPECT_LE(flight.size(), packet_size);
    });
    ASSERT_EQ(headers.size(), 4u);
    EXPECT_EQ(headers[0].header_size, 100u);
    EXPECT_EQ(headers[0].offset, 3 * room) << "the size of the payload";
    for (std::size_t i = 1; i < 4; ++i) {
        EXPECT_EQ(headers[i].fragment, i);
        EXPECT_EQ(headers[i].offset, i * room - 100);
        EXPECT_EQ(headers[i].header_size, 0u);
    }
    ASSERT_EQ(whole.size(), 100 + 3 * room);
    EXPECT_EQ(test::first_difference(1, 0, whole.data(), 100), test::no_difference);
    EXPECT_EQ(test::first_difference(2, 0, whole.data() + 100, 3 * room), test::no_difference);
}

TEST_F(UdpOutgoing, ATrainHasPacketsOfOneSizeButForTheLast)
{
    for (std::size_t size : {100u, 100u, 50u, 100u, 200u})
        ASSERT_EQ(send(size), Status::ok);
    std::vector<std::string> trains;
    while (true) {
        std::string train;
        outgoing_.take_train(now_, packet_size, [&](Flight &flight) { train += std::to_string(flight.body_size) + " "; });
        if (train.empty())
            break;
        trains.push_back(train);
    }
    EXPECT_EQ(trains, (std::vector<std::string>{"100 100 50 ", "100 ", "200 "}));
}

TEST_F(UdpOutgoing, WhatArrivedOutOfOrderIsNotSentAgain)
{
    for (int i = 0; i < 6; ++i)
        ASSERT_EQ(send(10), Status::ok);
    EXPECT_EQ(sent(), "0 1 2 3 4 5");
    now_ += 50us;
    // Expect: 1 is missing; 2 to 5 have arrived, of which 4 and 5 were sent three and more after it.
    EXPECT_TRUE(acknowledge(1, {true, true, true, true}));
    EXPECT_EQ(sent(), "1");
    EXPECT_EQ(outgoing_.counters().sent_again, 1u);
    EXPECT_TRUE(acknowledge(6));
    EXPECT_EQ(outgoing_.outstanding(), 0u);
}

TEST_F(UdpOutgoing, ALittleReorderingIsNotALoss)
{
    for (int i = 0; i < 4; ++i)
        ASSERT_EQ(send(10), Status::ok);
    sent();
    now_ += 50us;
    EXPECT_TRUE(acknowledge(1, {true}));          // 2 has overtaken 1
    EXPECT_EQ(sent(), "");
    EXPECT_TRUE(acknowledge(1, {true, true}));    // 3, too
    EXPECT_EQ(sent(), "");
    EXPECT_EQ(outgoing_.congestion().halvings(), 0u);
}

TEST_F(UdpOutgoing, GoBackNSendsEverythingFromTheLossOn)
{
    settings_.recovery = Recovery::go_back_n;
    for (int i = 0; i < 6; ++i)
        ASSERT_EQ(send(10), Status::ok);
    sent();
    now_ += 50us;
    EXPECT_TRUE(acknowledge(2));
    wait(outgoing_.deadline() - now_);
    EXPECT_EQ(sent(), "2 3 4 5");
}

TEST_F(UdpOutgoing, TheTimerAsksWithTheOldestAndDoubles)
{
    for (int i = 0; i < 3; ++i)
        ASSERT_EQ(send(10), Status::ok);
    sent();
    Time last = now_;
    Time interval{};
    for (int i = 0; i < 5; ++i) {
        Time deadline = outgoing_.deadline();
        wait(deadline - now_ - Time(1));
        EXPECT_EQ(sent(), "") << "before the deadline";
        wait(Time(1));
        EXPECT_EQ(sent(), "0");
        if (i > 0) {
            EXPECT_EQ(deadline - last, std::min<Time>(2 * interval, 1s));
        }
        interval = deadline - last;
        last = now_;
    }
    EXPECT_EQ(outgoing_.unanswered(), 5u);
    EXPECT_EQ(outgoing_.counters().timeouts, 5u);
    // An answer ends it. The others were sent so long before that they are lost.
    EXPECT_TRUE(acknowledge(1));
    EXPECT_EQ(outgoing_.unanswered(), 0u);
    EXPECT_EQ(sent(), "1 2");
}

TEST_F(UdpOutgoing, NeverWaitsLongerThanASecond)
{
    ASSERT_EQ(send(10), Status::ok);
    sent();
    for (int i = 0; i < 40; ++i) {
        EXPECT_LE(outgoing_.deadline() - now_, 1s);
        wait(1s);
        EXPECT_EQ(sent(), "0");
    }
}

// Who computed for long before it looked at an answer measures that time, too: what it then waits for must not grow with it.
TEST_F(UdpOutgoing, NeverWaitsLongerThanASecondAfterALongRoundTrip)
{
    ASSERT_EQ(send(10), Status::ok);
    sent();
    now_ += 6s;
    EXPECT_TRUE(acknowledge(1));
    ASSERT_EQ(send(10), Status::ok);
    EXPECT_EQ(sent(), "1");
    for (int i = 0; i < 5; ++i) {
        EXPECT_LE(outgoing_.deadline() - now_, 1s);
        wait(1s);
        EXPECT_EQ(sent(), "1");
    }
}

// The timer was too early: what was sent has arrived, and the answers come one by one.
TEST_F(UdpOutgoing, AnAnswerJustAfterATimerIsOfTheFirstTime)
{
    ASSERT_EQ(send(10), Status::ok);
    sent();
    now_ += 1ms;
    EXPECT_TRUE(acknowledge(1));
    for (int round = 0; round < 3; ++round) {
        std::uint64_t begin = outgoing_.base() - first;
        for (int i = 0; i < 8; ++i)
            ASSERT_EQ(send(10), Status::ok);
        sent();
        wait(outgoing_.deadline() - now_);
        EXPECT_EQ(sent(), std::to_string(begin));
        for (std::uint64_t number = begin + 1; number <= begin + 8; ++number) {
            now_ += 10us;
            EXPECT_TRUE(acknowledge(number));
            EXPECT_EQ(sent(), "") << "nothing is lost";
        }
    }
    EXPECT_EQ(outgoing_.counters().sent_again, 3u);
    EXPECT_EQ(outgoing_.congestion().halvings(), 0u);
}

// All of a window is lost, and answers come sooner than the round trip that was measured: not each packet waits for a timer of its own.
TEST_F(UdpOutgoing, AfterALongRoundTripLossesAreFoundTogether)
{
    ASSERT_EQ(send(10), Status::ok);
    sent();
    now_ += 6s;
    EXPECT_TRUE(acknowledge(1));
    for (int i = 0; i < 20; ++i)
        ASSERT_EQ(send(10), Status::ok);
    sent();
    std::uint64_t arrived = 1;
    unsigned timers = 0;
    for (; outgoing_.outstanding() > 0 && timers < 100; ++timers) {
        wait(outgoing_.deadline() - now_);
        // Everything arrives from now on, what is sent again alone: the others are sent in the order in which they are missing.
        for (std::string text = sent(); !text.empty(); text = sent()) {
            now_ += 100us;
            arrived += static_cast<std::uint64_t>(std::ranges::count(text, ' ')) + 1;
            EXPECT_TRUE(acknowledge(arrived));
        }
    }
    EXPECT_EQ(arrived, 21u);
    EXPECT_LE(timers, 3u);
}

TEST_F(UdpOutgoing, StaysWithinThePeersWindow)
{
    outgoing_.on_window(5 * cost_of(packet_size));
    ASSERT_EQ(send(10 * room), Status::ok);
    EXPECT_EQ(sent(), "0 1 2 3 4");
    EXPECT_FALSE(outgoing_.can_send());
    EXPECT_TRUE(acknowledge(2));
    EXPECT_EQ(sent(), "5 6");
    // The window shrinks: what is on its way is, nothing more is sent until there is less.
    outgoing_.on_window(2 * cost_of(packet_size));
    EXPECT_TRUE(acknowledge(5));
    EXPECT_EQ(sent(), "");
    EXPECT_TRUE(acknowledge(6));
    EXPECT_EQ(sent(), "7");
}

TEST_F(UdpOutgoing, OnePacketIsAlwaysAllowed)
{
    outgoing_.on_window(0);
    ASSERT_EQ(send(2 * room), Status::ok);
    EXPECT_EQ(sent(), "0");
    EXPECT_TRUE(acknowledge(1));
    EXPECT_EQ(sent(), "1");
}

TEST_F(UdpOutgoing, TheFullWindowIsExceededByOneWhenNobodyAnswers)
{
    outgoing_.on_window(2 * cost_of(packet_size));
    ASSERT_EQ(send(5 * room), Status::ok);
    EXPECT_EQ(sent(), "0 1");
    outgoing_.on_window(1 * cost_of(packet_size));
    wait(20ms);
    EXPECT_EQ(sent(), "0");
    wait(20ms);
    EXPECT_EQ(sent(), "");
}

TEST_F(UdpOutgoing, RefusesAcknowledgementsOfWhatWasNeverSent)
{
    ASSERT_EQ(send(10), Status::ok);
    EXPECT_FALSE(acknowledge(1)) << "made, but not sent";
    EXPECT_EQ(outgoing_.outstanding(), 1u);
    sent();
    EXPECT_FALSE(acknowledge(2));
    EXPECT_FALSE(acknowledge(1u << 30));
    EXPECT_EQ(outgoing_.outstanding(), 1u);
    EXPECT_TRUE(acknowledge(0, std::vector<bool>(1000, true))) << "bits beyond what was sent tell nothing";
    EXPECT_EQ(outgoing_.outstanding(), 1u);
    EXPECT_TRUE(acknowledge(1));
}

TEST_F(UdpOutgoing, AnOldAcknowledgementChangesNothing)
{
    for (int i = 0; i < 5; ++i)
        ASSERT_EQ(send(10), Status::ok);
    sent();
    EXPECT_TRUE(acknowledge(4));
    EXPECT_TRUE(acknowledge(2));
    EXPECT_TRUE(acknowledge(2, {true, false}));
    EXPECT_EQ(outgoing_.outstanding(), 1u);
    EXPECT_EQ(outgoing_.base(), first + 4);
}

TEST_F(UdpOutgoing, PacketsThatWereSentAgainDoNotMeasure)
{
    ASSERT_EQ(send(10), Status::ok);
    sent();
    wait(20ms);
    sent();
    now_ += 30us;
    EXPECT_TRUE(acknowledge(1));  // of which of the two?
    EXPECT_FALSE(outgoing_.round_trip().known());
    ASSERT_EQ(send(10), Status::ok);
    sent();
    now_ += 80us;
    EXPECT_TRUE(outgoing_.on_acknowledged(first + 2, {}, 30us, now_));
    EXPECT_EQ(outgoing_.round_trip().smoothed(), 50us);
}

TEST_F(UdpOutgoing, ALargePayloadStaysTheSendersUntilNearlyAllOfItHasArrived)
{
    settings_.train_limit = 1000;
    std::size_t size = Outgoing::rest_copy_limit + 100 * room;
    EXPECT_EQ(send(size), Status::again) << "only so many packets may wait";
    std::uint64_t arrived = 0;
    int tries = 0;
    Status status;
    do {
        sent();
        ++arrived;
        ASSERT_TRUE(acknowledge(arrived));
        status = outgoing_.accept(message_, &progress_, packet_size);
        ASSERT_LT(++tries, 1000);
    } while (status == Status::again);
    EXPECT_EQ(status, Status::ok);
    EXPECT_EQ(progress_.sent, size);
    EXPECT_GE(arrived * room, size - Outgoing::rest_copy_limit - room);
    // What is left was copied.
    std::memset(payload_.data(), 0xee, payload_.size());
    payload_.clear();
    payload_.shrink_to_fit();
    std::size_t checked = 0;
    wait(30ms);
    for (std::uint64_t number = arrived; outgoing_.outstanding() > 0; ++number) {
        outgoing_.take_train(now_, packet_size, [&](Flight &flight) {
            EXPECT_EQ(test::first_difference(2, flight.header().offset, flight.body, flight.body_size), test::no_difference);
            ++checked;
        });
        ASSERT_TRUE(acknowledge(number + 1));
    }
    EXPECT_GT(checked, 0u);
}

class UdpOutgoingAtTheLimit : public UdpOutgoing {
  protected:
    // Whether packets of such a payload are sent from the sender's memory.
    bool is_borrowed(std::size_t size)
    {
        send(size);
        unsigned packets = 0, borrowed = 0;
        outgoing_.take_train(now_, packet_size, [&](Flight &flight) {
            ++packets;
            borrowed += flight.borrowed();
        });
        EXPECT_GT(packets, 0u);
        return borrowed > 0;
    }
};

TEST_F(UdpOutgoingAtTheLimit, APayloadIsCopiedAsAWhole)
{
    EXPECT_FALSE(is_borrowed(Outgoing::whole_copy_limit));
}

TEST_F(UdpOutgoingAtTheLimit, ALongerOneIsNot)
{
    EXPECT_TRUE(is_borrowed(Outgoing::whole_copy_limit + 1));
}

TEST_F(UdpOutgoing, OtherMessagesFollowALargePayloadThatHasNotArrived)
{
    constexpr std::size_t packets = 60;
    std::vector<std::byte> first_payload = test::pattern(2, packets * room), second_payload = test::pattern(2, packets * room);
    Message one{5, nullptr, 0, {first_payload.data(), first_payload.size()}}, two{5, nullptr, 0, {second_payload.data(), second_payload.size()}};
    SendProgress of_one, of_two;
    EXPECT_EQ(outgoing_.accept(one, &of_one, packet_size), Status::again);
    EXPECT_TRUE(of_one.taken);
    EXPECT_EQ(outgoing_.accept(two, &of_two, packet_size), Status::again);
    EXPECT_TRUE(of_two.taken);
    EXPECT_EQ(send(100), Status::ok) << "a short one behind them";
    EXPECT_EQ(outgoing_.outstanding(), 2 * packets + 1);
    for (unsigned ask = 0; ask < 4 * Outgoing::asks_before_copy; ++ask)
        EXPECT_EQ(outgoing_.accept(one, &of_one, packet_size), Status::again) << "what is followed by others is not copied";
    std::uint64_t arrived = 0;
    auto arrive = [&](std::uint64_t number) {
        for (; arrived < number; ++arrived) {
            sent();
            ASSERT_TRUE(acknowledge(arrived + 1));
        }
    };
    arrive(packets - 1);
    EXPECT_EQ(outgoing_.accept(one, &of_one, packet_size), Status::again);
    arrive(packets);
    EXPECT_EQ(outgoing_.accept(one, &of_one, packet_size), Status::ok);
    EXPECT_EQ(outgoing_.accept(two, &of_two, packet_size), Status::again);
    arrive(2 * packets);
    EXPECT_EQ(outgoing_.accept(two, &of_two, packet_size), Status::ok);
}

TEST_F(UdpOutgoing, TheEndOfALargePayloadIsCopiedWhenNothingFollows)
{
    constexpr std::size_t packets = 60;
    outgoing_.on_window(16 << 20);
    EXPECT_EQ(send(packets * room), Status::again);
    std::uint64_t arrived = 0;
    for (; sent(), outgoing_.can_send() || arrived < 30; ++arrived)
        ASSERT_TRUE(acknowledge(arrived + 1));
    for (unsigned ask = 1; ask < Outgoing::asks_before_copy; ++ask)
        EXPECT_EQ(outgoing_.accept(message_, &progress_, packet_size), Status::again) << "an answer may come soon";
    EXPECT_EQ(outgoing_.accept(message_, &progress_, packet_size), Status::again);
    EXPECT_EQ(outgoing_.accept(message_, &progress_, packet_size), Status::ok);
}

TEST_F(UdpOutgoing, WhatHasArrivedIsCountedOverPairsThatAreMadeAnew)
{
    EXPECT_EQ(send(60 * room), Status::again);
    SendProgress progress = progress_;
    EXPECT_FALSE(Outgoing::has_arrived(progress, outgoing_.gone()));
    outgoing_.restart(first + (1 << 20));
    EXPECT_FALSE(Outgoing::has_arrived(progress, outgoing_.gone())) << "other numbers, the same packets";
    for (std::uint64_t arrived = 0; arrived < 60; ++arrived) {
        sent();
        ASSERT_TRUE(outgoing_.on_acknowledged(first + (1 << 20) + arrived + 1, {}, Time::zero(), now_));
    }
    EXPECT_TRUE(Outgoing::has_arrived(progress, outgoing_.gone()));
    Outgoing next(settings_, blocks_, first, outgoing_.gone());
    EXPECT_TRUE(Outgoing::has_arrived(progress, next.gone()));
}

TEST_F(UdpOutgoing, TheEndOfALargePayloadAsksForAnAnswer)
{
    // Otherwise the sender of a single large message would wait for a timer of the receiver.
    EXPECT_EQ(send(Outgoing::rest_copy_limit + 20 * room), Status::again);
    bool asked = false;
    for (std::uint64_t number = 1; number < 200 && !asked; ++number) {
        sent();
        asked = last_sent_.wants_answer();
        if (!asked && outgoing_.next() - first > number) {
            ASSERT_TRUE(acknowledge(number));
        }
        (void) outgoing_.accept(message_, &progress_, packet_size);
    }
    EXPECT_TRUE(asked);
}

TEST_F(UdpOutgoing, PacksWhatIsNotContiguous)
{
    std::size_t next = 0;
    Message message{1, nullptr, 0, {}};
    message.payload.size = 200 * room;
    message.payload.pack_context = &next;
    message.payload.pack = [](void *context, std::size_t offset, void *destination, std::size_t size) {
        auto expected = static_cast<std::size_t *>(context);
        EXPECT_EQ(offset, *expected);
        *expected = offset + size;
        test::fill_pattern(9, offset, destination, size);
    };
    SendProgress progress;
    std::uint64_t number = 0;
    std::size_t bytes = 0;
    while (outgoing_.accept(message, &progress, packet_size) == Status::again) {
        outgoing_.take_train(now_, packet_size, [&](Flight &flight) {
            std::size_t offset = flight.header().fragment == 0 ? 0 : flight.header().offset;
            EXPECT_EQ(test::first_difference(9, offset, flight.body, flight.body_size), test::no_difference);
            bytes += flight.body_size;
            ++number;
        });
        ASSERT_TRUE(acknowledge(number));
    }
    EXPECT_EQ(next, message.payload.size);
}

TEST_F(UdpOutgoing, KeepsABoundedNumberOfPackets)
{
    std::size_t accepted = 0;
    while (send(0) == Status::ok && accepted < 100'000)
        ++accepted;
    EXPECT_LE(accepted, Outgoing::waiting_limit);
    do {
        while (send(0) == Status::ok && accepted < 100'000)
            ++accepted;
    } while (!sent().empty() && accepted < 100'000);
    EXPECT_LE(outgoing_.outstanding(), Outgoing::flight_limit);
    EXPECT_EQ(send(0), Status::again);
    EXPECT_FALSE(progress_.started) << "nothing was consumed";
}

}  // namespace
}  // namespace pm::udp
