// What the glue reads of its own messages before it uses it.
#include <gtest/gtest.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ch4/netmod/composite_decode.h"

namespace pm {
namespace {

template <class Header>
std::vector<char> message_of(const Header &header, std::size_t behind)
{
    std::vector<char> message(sizeof header + behind, 'x');
    std::memcpy(message.data(), &header, sizeof header);
    return message;
}

TEST(GlueDecode, AShortMessageIsShortAndOfACommunicatorThatThereMayBe)
{
    auto may_be = [](MPIDI_COMPOSITE_short_header_t header, std::size_t size) { return MPIDI_COMPOSITE_may_be_short(&header, size, 100, 20); };
    EXPECT_TRUE(may_be({0, 0, 0, 0}, 0));
    EXPECT_TRUE(may_be({-1, -1, (1u << 20) - 1, 0}, 100));
    EXPECT_FALSE(may_be({0, 0, 1u << 20, 0}, 100));
    EXPECT_FALSE(may_be({0, 0, UINT32_MAX, 0}, 100));
    EXPECT_FALSE(may_be({0, 0, 0, 1}, 100));
    EXPECT_FALSE(may_be({0, 0, 0, 0}, 101));
}

TEST(GlueDecode, AnAnnouncementIsOfMemoryOfAProgram)
{
    auto may_be = [](std::uint64_t address, std::size_t size) {
        auto message = message_of(MPIDI_COMPOSITE_announced_t{address, 1}, 8);
        return MPIDI_COMPOSITE_may_be_announced(message.data(), size);
    };
    EXPECT_TRUE(may_be(~MPIDI_COMPOSITE_IS_OFFER, sizeof(MPIDI_COMPOSITE_announced_t)));
    EXPECT_FALSE(may_be(MPIDI_COMPOSITE_IS_OFFER, sizeof(MPIDI_COMPOSITE_announced_t)));
    for (std::size_t size : {std::size_t{0}, sizeof(MPIDI_COMPOSITE_announced_t) - 1, sizeof(MPIDI_COMPOSITE_announced_t) + 1})
        EXPECT_FALSE(may_be(4096, size)) << size;
}

TEST(GlueDecode, HelpIsWithACopyThatThereIsAndNoMoreThanTheMessage)
{
    auto may_be = [](MPIDI_COMPOSITE_help_t help) { return MPIDI_COMPOSITE_may_be_helped(&help, 1000); };
    EXPECT_TRUE(may_be({1, 4096, 1000, 1, 0}));
    EXPECT_FALSE(may_be({1, 4096, 1001, 1, 0}));
    EXPECT_FALSE(may_be({1, 4096, 1000, 0, 0}));
    EXPECT_FALSE(may_be({1, 4096, 1000, 1, 1}));
}

TEST(GlueDecode, PartitionsAreOfARequestThatThereMayBe)
{
    auto may_be = [](MPIDI_COMPOSITE_part_init_t init) { return MPIDI_COMPOSITE_may_be_part_init(&init, 20); };
    EXPECT_TRUE(may_be({1, 0, 0, 0, 0, 0}));
    EXPECT_TRUE(may_be({UINT64_MAX, INT64_MAX, INT_MAX, INT_MAX, (1u << 20) - 1, 0}));
    EXPECT_FALSE(may_be({0, 0, 0, 0, 0, 0}));
    EXPECT_FALSE(may_be({1, std::uint64_t{1} << 63, 0, 0, 0, 0}));
    EXPECT_FALSE(may_be({1, 0, -1, 0, 0, 0}));
    EXPECT_FALSE(may_be({1, 0, 0, -1, 0, 0}));
    EXPECT_FALSE(may_be({1, 0, 0, 0, 1u << 20, 0}));
    EXPECT_FALSE(may_be({1, 0, 0, 0, 0, 1}));
}

TEST(GlueDecode, BytesOfPartitionsAreWithinThem)
{
    EXPECT_TRUE(MPIDI_COMPOSITE_may_be_part(0, 0, 0));
    EXPECT_TRUE(MPIDI_COMPOSITE_may_be_part(0, 100, 100));
    EXPECT_TRUE(MPIDI_COMPOSITE_may_be_part(100, 0, 100));
    EXPECT_FALSE(MPIDI_COMPOSITE_may_be_part(0, 101, 100));
    EXPECT_FALSE(MPIDI_COMPOSITE_may_be_part(1, 100, 100));
    EXPECT_FALSE(MPIDI_COMPOSITE_may_be_part(101, 0, 100));
    EXPECT_FALSE(MPIDI_COMPOSITE_may_be_part(UINT64_MAX, 1, 100));
    EXPECT_FALSE(MPIDI_COMPOSITE_may_be_part(1, UINT64_MAX, 100));
}

TEST(GlueDecode, AGreetingIsAsLongAsItSays)
{
    auto is_one = [](int size, std::size_t behind) {
        auto message = message_of(MPIDI_COMPOSITE_greeting_t{1, size, 0}, behind);
        MPIDI_COMPOSITE_greeting_t read;
        return MPIDI_COMPOSITE_read_greeting(message.data(), message.size(), &read);
    };
    EXPECT_TRUE(is_one(0, 0));
    EXPECT_TRUE(is_one(100, 100));
    EXPECT_FALSE(is_one(101, 100));
    EXPECT_FALSE(is_one(99, 100));
    EXPECT_FALSE(is_one(-1, 100));
    EXPECT_FALSE(is_one(INT_MIN, 0));
    EXPECT_FALSE(is_one(INT_MAX, 0));
    MPIDI_COMPOSITE_greeting_t read;
    EXPECT_FALSE(MPIDI_COMPOSITE_read_greeting("abc", 3, &read));
}

class Greetings : public testing::Test {
  protected:
    ~Greetings() override { MPIDI_COMPOSITE_forget_greetings(&greetings_); }
    bool add(std::uint64_t number, int tag = 1)
    {
        const MPIDI_COMPOSITE_greeting_t header{tag, sizeof number, number};
        return MPIDI_COMPOSITE_add_greeting(&greetings_, &header, &number);
    }
    // Its number; 0 when there is none.
    std::uint64_t take(int tag = 1)
    {
        std::uint64_t number = 0;
        return MPIDI_COMPOSITE_take_greeting(&greetings_, tag, &number, sizeof number) ? number : 0;
    }

    MPIDI_COMPOSITE_greetings_t greetings_{};
};

TEST_F(Greetings, AreTakenInTheOrderInWhichTheyCame)
{
    EXPECT_EQ(take(), 0u);
    EXPECT_TRUE(add(7) && add(8, 2) && add(9));
    EXPECT_EQ(take(), 7u);
    EXPECT_EQ(take(2), 8u);
    EXPECT_EQ(take(), 9u);
    EXPECT_EQ(take(), 0u);
}

// Strangers send them. Whoever finds no room repeats his, and gets in when there is.
TEST_F(Greetings, ThatFindNoRoomGetInLater)
{
    for (std::uint64_t i = 1; i <= MPIDI_COMPOSITE_MOST_GREETINGS; ++i)
        ASSERT_TRUE(add(i));
    EXPECT_FALSE(add(5000)) << "which is counted by who asked";
    EXPECT_EQ(take(), 1u);
    EXPECT_TRUE(add(5000));
    EXPECT_FALSE(add(5001));
    for (std::uint64_t i = 2; i <= MPIDI_COMPOSITE_MOST_GREETINGS; ++i)
        EXPECT_EQ(take(), i);
    EXPECT_EQ(take(), 5000u);
}

// It may be repeated when it waits already, and when it has just been taken. Answers are not, and have no number.
TEST_F(Greetings, ThatAreRepeatedCountOnce)
{
    EXPECT_TRUE(add(7) && add(7));
    EXPECT_EQ(take(), 7u);
    EXPECT_TRUE(add(7));
    EXPECT_EQ(take(), 0u);
    EXPECT_TRUE(add(0, 3) && add(0, 3));
    std::uint64_t nothing;
    for (bool there : {true, true, false})
        EXPECT_EQ(MPIDI_COMPOSITE_take_greeting(&greetings_, 3, &nothing, sizeof nothing), there);
}

TEST(GlueDecode, APieceOfAReportIsOfARankAndAsLongAsItSays)
{
    auto is_one = [](MPIDI_COMPOSITE_piece_t piece, std::size_t behind) {
        auto message = message_of(piece, behind);
        MPIDI_COMPOSITE_piece_t read;
        return MPIDI_COMPOSITE_read_piece(message.data(), message.size(), 4, &read);
    };
    EXPECT_TRUE(is_one({3, 100, 10}, 10));
    for (int rank : {-1, 4, INT_MAX, INT_MIN})
        EXPECT_FALSE(is_one({rank, 100, 10}, 10)) << rank;
    EXPECT_FALSE(is_one({0, 100, 11}, 10));
    EXPECT_FALSE(is_one({0, 100, -1}, 10));
    EXPECT_FALSE(is_one({0, 9, 10}, 10));
    EXPECT_FALSE(is_one({0, -1, 10}, 10));
    EXPECT_FALSE(is_one({0, 0, 0}, 0));
}

TEST(GlueDecode, PiecesAreNoMoreThanTheWhole)
{
    MPIDI_COMPOSITE_description_t description{};
    std::string bytes(10, 'y');
    MPIDI_COMPOSITE_piece_t piece{0, 25, 10};
    EXPECT_TRUE(MPIDI_COMPOSITE_add_piece(&description, &piece, bytes.data()));
    EXPECT_TRUE(MPIDI_COMPOSITE_add_piece(&description, &piece, bytes.data()));
    EXPECT_FALSE(MPIDI_COMPOSITE_add_piece(&description, &piece, bytes.data()));
    piece.size = 5;
    piece.whole = 1000;
    EXPECT_FALSE(MPIDI_COMPOSITE_add_piece(&description, &piece, bytes.data()));
    piece.whole = 25;
    EXPECT_TRUE(MPIDI_COMPOSITE_add_piece(&description, &piece, bytes.data()));
    EXPECT_EQ(description.received, 25);
    std::free(description.bytes);
}

}  // namespace
}  // namespace pm
