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

TEST(GlueDecode, AGreetingIsAsLongAsItSays)
{
    auto is_one = [](int size, std::size_t behind) {
        auto message = message_of(MPIDI_COMPOSITE_greeting_t{1, size}, behind);
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
