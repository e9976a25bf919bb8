// The receiving half of a pair: lists of packets, and what is expected of each.
#include "netmod/udp/protocol/incoming.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/pattern.h"

namespace pm::udp {
namespace {

using namespace std::chrono_literals;
using Verdict = Incoming::Verdict;

constexpr std::uint64_t first = (std::uint64_t{1} << 32) + 0xffff'fffeu;
constexpr std::size_t window = 64 * 1024;

class UdpIncoming : public testing::Test {
  protected:
    UdpIncoming() { current_ = this; }
    ~UdpIncoming() override { current_ = nullptr; }

    // A fragment of a message of `total` bytes; bytes of the payload are pattern 1, those of headers are pattern 2.
    Verdict on(std::uint64_t number, std::uint32_t fragment, std::size_t offset, std::size_t size, std::size_t total,
               std::size_t header_size = 0, bool answer_now = false)
    {
        Header header;
        header.kind_and_flags = static_cast<std::uint8_t>(Kind::data) | (answer_now ? Header::answer_now : 0);
        header.tag = 3;
        header.sequence = static_cast<std::uint32_t>(first + number);
        header.fragment = fragment;
        header.offset = fragment == 0 ? total : offset;
        header.header_size = static_cast<std::uint16_t>(header_size);
        // The memory is as long as the packet, and gone afterwards.
        std::unique_ptr<std::byte[]> body(new std::byte[misalignment_ + header_size + size]);
        test::fill_pattern(2, 0, body.get() + misalignment_, header_size);
        test::fill_pattern(1, offset, body.get() + misalignment_ + header_size, size);
        std::span packet(body.get() + misalignment_, header_size + size);
        was_next_ = incoming_.on_next(header, packet, window, now_);
        return was_next_ ? Verdict::taken : incoming_.on_data(header, packet, window, now_);
    }
    Verdict whole(std::uint64_t number, std::size_t size) { return on(number, 0, 0, size, size); }

    std::string bitmap() const
    {
        std::vector<std::byte> bytes;
        incoming_.write_bitmap(&bytes);
        std::string text;
        for (std::size_t i = 0; i < 8 * bytes.size(); ++i)
            text += (bytes[i / 8] >> i % 8 & std::byte{1}) != std::byte{0} ? '1' : '0';
        return text.substr(0, text.find_last_of('1') + 1);
    }

    static void *arrived(void *, const Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total)
    {
        EXPECT_EQ(envelope.tag, 3);
        EXPECT_EQ(envelope.source, current_->source_);
        EXPECT_EQ(envelope.header_size, current_->header_size_);
        EXPECT_TRUE(current_->header_size_ == 0 || reinterpret_cast<std::uintptr_t>(envelope.header) % alignof(std::uint64_t) == 0);
        EXPECT_EQ(test::first_difference(2, 0, envelope.header, current_->header_size_), test::no_difference);
        EXPECT_EQ(test::first_difference(1, 0, piece, piece_size), test::no_difference);
        current_->log_ += "arrived " + std::to_string(piece_size) + "/" + std::to_string(total) + "; ";
        current_->received_ = piece_size;
        return current_;
    }
    static void more(void *, int tag, void *cookie, void *piece, std::size_t piece_size)
    {
        EXPECT_EQ(tag, 3);
        EXPECT_EQ(cookie, current_);
        EXPECT_EQ(test::first_difference(1, current_->received_, piece, piece_size), test::no_difference);
        current_->received_ += piece_size;
        current_->log_ += "more " + std::to_string(piece_size) + "; ";
    }
    static void *place(void *, int tag, void *cookie)
    {
        EXPECT_EQ(tag, 3);
        EXPECT_EQ(cookie, current_);
        return current_->place_.get();
    }
    static void placed(void *, int tag, void *)
    {
        EXPECT_EQ(tag, 3);
        EXPECT_EQ(test::first_difference(1, current_->received_, current_->place_.get() + current_->received_,
                                         current_->place_size_ - current_->received_),
                  test::no_difference);
        current_->log_ += "placed; ";
    }

    void give_place(std::size_t size)
    {
        place_.reset(new std::byte[size]);
        place_size_ = size;
        sink_.place = place;
        sink_.placed = placed;
    }
    std::string log() { return std::exchange(log_, {}); }

    static inline UdpIncoming *current_ = nullptr;

    ProtocolSettings settings_;
    Sink sink_{nullptr, arrived, more};
    pm_peer *source_ = reinterpret_cast<pm_peer *>(&settings_);  // just an address
    Incoming incoming_{settings_, sink_, first, source_};
    Time now_ = 1s;
    std::size_t misalignment_ = 0;
    std::size_t header_size_ = 0;
    std::size_t received_ = 0;
    std::string log_;
    bool was_next_ = false;  // the last one was taken by on_next()
    std::unique_ptr<std::byte[]> place_;
    std::size_t place_size_ = 0;
};

TEST_F(UdpIncoming, DeliversInOrderAndOnce)
{
    // Expect: 0 1 delivered; 0 again is known; 3 waits; 2 brings 2 and 3; nothing twice.
    EXPECT_EQ(whole(0, 10), Verdict::taken);
    EXPECT_EQ(whole(1, 20), Verdict::taken);
    EXPECT_EQ(log(), "arrived 10/10; arrived 20/20; ");
    EXPECT_EQ(whole(0, 10), Verdict::twice);
    EXPECT_EQ(whole(3, 40), Verdict::taken);
    EXPECT_EQ(whole(3, 40), Verdict::twice);
    EXPECT_EQ(log(), "");
    EXPECT_EQ(incoming_.expected(), first + 2);
    EXPECT_EQ(whole(2, 30), Verdict::taken);
    EXPECT_EQ(log(), "arrived 30/30; arrived 40/40; ");
    EXPECT_EQ(whole(2, 30), Verdict::twice);
    EXPECT_EQ(whole(3, 40), Verdict::twice);
    EXPECT_EQ(log(), "");
    EXPECT_EQ(incoming_.expected(), first + 4);
    EXPECT_EQ(incoming_.early_bytes(), 0u);
}

TEST_F(UdpIncoming, ReportsWhatCameEarly)
{
    whole(0, 1);
    EXPECT_EQ(bitmap(), "");
    whole(2, 1);
    whole(5, 1);
    EXPECT_EQ(bitmap(), "1001") << "bit 0 is the one after the one that is missing";
    whole(11, 1);
    EXPECT_EQ(bitmap(), "1001000001");
    whole(1, 1);
    EXPECT_EQ(bitmap(), "01000001");
}

TEST_F(UdpIncoming, GathersSmallMessagesOfSeveralPackets)
{
    header_size_ = 50;
    EXPECT_EQ(on(0, 0, 0, 1000, 2500, 50), Verdict::taken);
    EXPECT_EQ(on(2, 2, 2000, 500, 2500), Verdict::taken);
    EXPECT_EQ(log(), "");
    EXPECT_EQ(on(1, 1, 1000, 1000, 2500), Verdict::taken);
    EXPECT_EQ(log(), "arrived 2500/2500; ");
}

TEST_F(UdpIncoming, DeliversLargeMessagesPieceByPiece)
{
    std::size_t total = Incoming::gather_limit + 1000;
    header_size_ = 16;
    std::size_t piece = 2000;
    EXPECT_EQ(on(0, 0, 0, piece, total, 16), Verdict::taken);
    EXPECT_EQ(on(2, 2, 2 * piece, total - 2 * piece, total), Verdict::taken);
    EXPECT_EQ(log(), "arrived 2000/5096; ");
    EXPECT_EQ(on(1, 1, piece, piece, total), Verdict::taken);
    EXPECT_EQ(log(), "more 2000; more 1096; ");
    header_size_ = 0;
    EXPECT_EQ(whole(3, 5), Verdict::taken);
    EXPECT_EQ(log(), "arrived 5/5; ");
}

TEST_F(UdpIncoming, PutsPiecesWhereTheyBelong)
{
    std::size_t total = 40'000, piece = 8000;
    give_place(total);
    EXPECT_EQ(on(0, 0, 0, piece, total), Verdict::taken);
    EXPECT_EQ(on(3, 3, 3 * piece, piece, total), Verdict::taken);
    EXPECT_EQ(test::first_difference(1, 3 * piece, place_.get() + 3 * piece, piece), test::no_difference) << "early ones at once";
    EXPECT_EQ(incoming_.early_bytes(), 0u);
    EXPECT_EQ(on(5, 0, 0, 10, 10), Verdict::taken) << "of the next message";
    EXPECT_EQ(on(1, 1, piece, piece, total), Verdict::taken);
    EXPECT_EQ(on(2, 2, 2 * piece, piece, total), Verdict::taken);
    EXPECT_EQ(log(), "arrived 8000/40000; ");
    EXPECT_EQ(on(4, 4, 4 * piece, piece, total), Verdict::taken);
    EXPECT_EQ(log(), "placed; arrived 10/10; ");
}

TEST_F(UdpIncoming, TakesWhatOnlyAddsToAMessageAtLessExpense)
{
    std::size_t total = 20'000, piece = 4000;
    give_place(total);
    on(0, 0, 0, piece, total);
    EXPECT_FALSE(was_next_) << "a message begins";
    EXPECT_EQ(on(1, 1, piece, piece, total), Verdict::taken);
    EXPECT_TRUE(was_next_);
    EXPECT_EQ(incoming_.expected(), first + 2);
    EXPECT_EQ(incoming_.ack_deadline(), now_ + Incoming::ack_delay);
    EXPECT_EQ(on(1, 1, piece, piece, total), Verdict::twice);
    EXPECT_FALSE(was_next_);
    incoming_.on_ack_sent(now_);
    EXPECT_EQ(on(2, 2, 2 * piece, piece, total, 0, true), Verdict::taken);
    EXPECT_TRUE(was_next_);
    EXPECT_EQ(incoming_.ack_deadline(), now_) << "the sender asks";
    on(4, 4, 4 * piece, piece, total);
    EXPECT_FALSE(was_next_) << "early";
    on(3, 3, 3 * piece, piece, total);
    EXPECT_FALSE(was_next_) << "others wait for it";
    EXPECT_EQ(log(), "arrived 4000/20000; placed; ");
    EXPECT_EQ(test::first_difference(1, piece, place_.get() + piece, total - piece), test::no_difference);
}

TEST_F(UdpIncoming, DoesNotTakeWhatMakesNoSenseAtLessExpense)
{
    std::size_t total = 40'000, piece = 8000;
    give_place(total);
    on(0, 0, 0, piece, total);
    EXPECT_EQ(on(1, 1, piece + 1, piece, total), Verdict::nonsense) << "not where the last one ended";
    EXPECT_EQ(on(1, 2, piece, piece, total), Verdict::nonsense) << "not the next fragment";
    EXPECT_EQ(on(1, 1, piece, total, total), Verdict::nonsense) << "more than the message has";
    EXPECT_EQ(on(1, 1, piece, 0, total), Verdict::nonsense) << "nothing";
    EXPECT_FALSE(was_next_);
    EXPECT_EQ(on(1, 1, piece, piece, total), Verdict::taken);
    EXPECT_TRUE(was_next_);
}

TEST_F(UdpIncoming, TellsWhereTheNextPieceBelongs)
{
    std::size_t total = 40'000, piece = 8000;
    give_place(total);
    std::span<std::byte> next;
    Header header;
    EXPECT_EQ(incoming_.next_place(&next, &header), 0u);
    on(0, 0, 0, piece, total);
    on(1, 1, piece, piece, total);
    EXPECT_EQ(incoming_.next_place(&next, &header), piece);
    EXPECT_EQ(next.data(), place_.get() + 2 * piece);
    EXPECT_EQ(next.size(), total - 2 * piece);
    EXPECT_EQ(header.sequence, static_cast<std::uint32_t>(first + 2));
    EXPECT_EQ(header.fragment, 2u);
    EXPECT_EQ(header.offset, 2 * piece);
    on(3, 3, 3 * piece, piece, total);
    EXPECT_EQ(incoming_.next_place(&next, &header), 0u) << "what lies there already must not be written over";
}

TEST_F(UdpIncoming, TakesAPieceThatIsWhereItBelongs)
{
    std::size_t total = 24'000, piece = 8000;
    give_place(total);
    on(0, 0, 0, piece, total);
    for (std::uint32_t i = 1; i < 3; ++i) {
        test::fill_pattern(1, i * piece, place_.get() + i * piece, piece);
        Header header;
        header.kind_and_flags = static_cast<std::uint8_t>(Kind::data);
        header.sequence = static_cast<std::uint32_t>(first + i);
        header.fragment = i;
        header.offset = i * piece;
        EXPECT_EQ(incoming_.on_data(header, {place_.get() + i * piece, piece}, window, now_), Verdict::taken);
    }
    EXPECT_EQ(log(), "arrived 8000/24000; placed; ");
}

TEST_F(UdpIncoming, PacketsInPartsArePutTogetherBesideEachOther)
{
    constexpr std::size_t size = 300, part = 200;
    auto on_part = [&](std::uint64_t number, std::uint32_t which) {
        Header header;
        header.sequence = static_cast<std::uint32_t>(first + number);
        header.fragment = which;
        header.offset = size | std::uint64_t{part} << 32;
        std::vector<std::byte> body(which == 0 ? part : size - part, static_cast<std::byte>(10 * number + which));
        return incoming_.on_part(header, body);
    };
    auto expected = [](std::byte one, std::byte two) {
        std::vector<std::byte> bytes(part, one);
        bytes.resize(size, two);
        return bytes;
    };
    EXPECT_TRUE(on_part(1, 0).empty());
    EXPECT_TRUE(on_part(2, 1).empty());
    EXPECT_EQ(on_part(1, 1), expected(std::byte{10}, std::byte{11}));
    EXPECT_EQ(on_part(2, 0), expected(std::byte{20}, std::byte{21}));
    // With room for one only the first of them is kept.
    settings_.receive_buffer = size;
    EXPECT_TRUE(on_part(4, 0).empty());
    EXPECT_TRUE(on_part(3, 0).empty());
    EXPECT_EQ(on_part(3, 1), expected(std::byte{30}, std::byte{31}));
    EXPECT_TRUE(on_part(4, 1).empty()) << "the other one was forgotten";
}

TEST_F(UdpIncoming, HeadersAreAligned)
{
    for (misalignment_ = 0; misalignment_ < 8; ++misalignment_) {
        header_size_ = 40;
        EXPECT_EQ(on(misalignment_, 0, 0, 100, 100, 40), Verdict::taken);
        EXPECT_EQ(log(), "arrived 100/100; ");
    }
}

TEST_F(UdpIncoming, GoBackNKeepsNothing)
{
    settings_.recovery = Recovery::go_back_n;
    EXPECT_EQ(whole(1, 10), Verdict::dropped);
    EXPECT_FALSE(incoming_.has_early());
    EXPECT_EQ(whole(0, 10), Verdict::taken);
    EXPECT_EQ(log(), "arrived 10/10; ");
    EXPECT_EQ(incoming_.expected(), first + 1);
}

TEST_F(UdpIncoming, WhatComesTooEarlyOrIsTooMuchIsDropped)
{
    settings_.receive_buffer = 10'000;
    EXPECT_EQ(whole(100'000, 10), Verdict::dropped);
    std::size_t kept = 0;
    for (std::uint64_t i = 1; i < 50; ++i)
        kept += whole(i, 1000) == Verdict::taken;
    EXPECT_EQ(kept, 10u);
    EXPECT_EQ(incoming_.early_bytes(), 10'000u);
    EXPECT_EQ(whole(0, 1000), Verdict::taken);
    EXPECT_EQ(incoming_.expected(), first + 11);
    EXPECT_EQ(incoming_.early_bytes(), 0u);
}

TEST_F(UdpIncoming, NonsenseIsNotTaken)
{
    EXPECT_EQ(on(0, 1, 100, 50, 200), Verdict::nonsense) << "no message to continue";
    EXPECT_EQ(on(0, 0, 0, 100, 50), Verdict::nonsense) << "longer than it says";
    EXPECT_EQ(on(0, 0, 0, 0, 50), Verdict::nonsense) << "of which nothing will ever come";
    EXPECT_EQ(log(), "");
    EXPECT_EQ(incoming_.expected(), first);

    std::size_t total = 20'000;
    give_place(total);
    EXPECT_EQ(on(0, 0, 0, 1000, total), Verdict::taken);
    EXPECT_EQ(on(1, 1, 2000, 1000, total), Verdict::nonsense) << "a gap";
    EXPECT_EQ(on(1, 1, 1000, 19'001, total), Verdict::nonsense) << "beyond the end";
    EXPECT_EQ(on(1, 2, 1000, 1000, total), Verdict::nonsense) << "the wrong number";
    EXPECT_EQ(on(1, 1, 1000, 0, total), Verdict::nonsense) << "of no use";
    EXPECT_EQ(on(1, 0, 0, 10, 10), Verdict::nonsense) << "a new message in the middle of one";
    EXPECT_EQ(on(3, 3, 19'500, 1000, total), Verdict::nonsense) << "beyond the end of its place";
    EXPECT_EQ(on(3, 3, std::size_t{0} - 500, 1000, total), Verdict::nonsense);
    EXPECT_EQ(on(3, 3, 500, 100, total), Verdict::nonsense) << "where something else lies";
    EXPECT_EQ(on(1, 1, 1000, 1000, total), Verdict::taken);
}

// ---- acknowledgements ----

TEST_F(UdpIncoming, AcknowledgesAfterAWhile)
{
    EXPECT_EQ(incoming_.ack_deadline(), never);
    whole(0, 10);
    EXPECT_EQ(incoming_.ack_deadline(), now_ + Incoming::ack_delay);
    Time arrival = now_;
    now_ += 100us;
    whole(1, 10);
    EXPECT_EQ(incoming_.ack_deadline(), arrival + Incoming::ack_delay) << "the oldest does not wait longer for the newest";
    now_ += 50us;
    EXPECT_EQ(incoming_.on_ack_sent(now_), 50us) << "how long the newest has waited";
    EXPECT_EQ(incoming_.ack_deadline(), never);
    EXPECT_EQ(incoming_.on_ack_sent(now_ + 1ms), Time::zero()) << "nothing new was held back";
}

TEST_F(UdpIncoming, AcknowledgesAtOnceWhenItMatters)
{
    on(0, 0, 0, 10, 10, 0, true);
    EXPECT_LE(incoming_.ack_deadline(), now_) << "the sender asks";
    incoming_.on_ack_sent(now_);
    whole(2, 10);
    EXPECT_LE(incoming_.ack_deadline(), now_) << "something is missing";
    incoming_.on_ack_sent(now_);
    whole(1, 10);
    EXPECT_LE(incoming_.ack_deadline(), now_) << "it is not missing any more";
    incoming_.on_ack_sent(now_);
    whole(1, 10);
    EXPECT_LE(incoming_.ack_deadline(), now_) << "it came twice: an acknowledgement was lost";
    incoming_.on_ack_sent(now_);
    whole(3, window / 4);
    EXPECT_LE(incoming_.ack_deadline(), now_) << "a good part of the window";
}

TEST_F(UdpIncoming, SmallPacketsFillTheWindowToo)
{
    std::uint64_t number = 0;
    while (incoming_.ack_deadline() > now_ && number < 1000)
        whole(number++, 1);
    // The window of 64 KB is full after some 70 of them.
    EXPECT_LE(number, 20u);
}

}  // namespace
}  // namespace pm::udp
