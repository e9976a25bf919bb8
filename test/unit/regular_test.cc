// Regular layouts, packed and unpacked from every byte on, against the list of their bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "ch4/netmod/composite_regular.h"

namespace pm {
namespace {

using Layout = MPIDI_COMPOSITE_regular_t;

struct Level {
    int count;
    std::ptrdiff_t stride;
};

// Of so many elements of the outermost level: where each byte of the packed form is.
struct Model {
    Layout layout{};
    std::vector<std::ptrdiff_t> places;

    Model(int elements, std::ptrdiff_t extent, const std::vector<Level> &inside, std::size_t block)
    {
        layout.begin = 3;
        layout.levels = 1;
        layout.level[0].count = SIZE_MAX;
        layout.level[0].stride = extent;
        places = {3};
        spread({elements, extent});
        for (const Level &level : inside) {
            EXPECT_TRUE(MPIDI_COMPOSITE_add_level(&layout, level.count, level.stride));
            spread(level);
        }
        MPIDI_COMPOSITE_set_block(&layout, block);
        spread({static_cast<int>(block), 1});
    }

    void spread(Level level)
    {
        std::vector<std::ptrdiff_t> all;
        for (std::ptrdiff_t place : places)
            for (int i = 0; i < level.count; ++i)
                all.push_back(place + i * level.stride);
        places = std::move(all);
    }
};

// A buffer that has room for it, whichever way its strides go.
class Buffer {
  public:
    explicit Buffer(const Model &model)
    {
        auto [least, greatest] = std::ranges::minmax(model.places);
        before_ = std::max<std::ptrdiff_t>(-least, 0) + 8;
        bytes.resize(static_cast<std::size_t>(before_ + greatest + 8), '.');
    }
    char *start() { return bytes.data() + before_; }
    char &at(std::ptrdiff_t place) { return *(start() + place); }

    std::vector<char> bytes;

  private:
    std::ptrdiff_t before_ = 0;
};

void compare(const Model &model, std::size_t offset, std::size_t size)
{
    Buffer full(model), empty(model), expected(model);
    std::vector<char> packed(size + 1, '-'), wanted(size + 1, '-');
    std::uint32_t next = 1;
    for (char &byte : full.bytes)
        byte = static_cast<char>((next = next * 1664525 + 1013904223) >> 24);
    for (std::size_t i = 0; i < size; ++i) {
        std::ptrdiff_t place = model.places[offset + i];
        wanted[i] = full.at(place);
        expected.at(place) = full.at(place);
    }
    MPIDI_COMPOSITE_copy_regular(&model.layout, full.start(), offset, packed.data(), size, true);
    EXPECT_EQ(packed, wanted) << "packed from " << offset << ", " << size << " bytes of blocks of " << model.layout.block;
    MPIDI_COMPOSITE_copy_regular(&model.layout, empty.start(), offset, packed.data(), size, false);
    EXPECT_EQ(empty.bytes, expected.bytes) << "unpacked from " << offset << ", " << size << " bytes of blocks of " << model.layout.block;
}

TEST(Regular, BlocksOfEverySizeFromEveryByteOn)
{
    for (std::size_t block = 1; block <= 140; ++block) {
        Model model(2, static_cast<std::ptrdiff_t>(4 * block + 9), {{3, static_cast<std::ptrdiff_t>(block + 1)}}, block);
        EXPECT_EQ(model.layout.block, block);
        std::size_t all = model.places.size();
        for (std::size_t offset = 0; offset < all; ++offset)
            for (std::size_t size : {std::size_t{1}, block, block + 1, all - offset})
                compare(model, offset, std::min(size, all - offset));
    }
}

TEST(Regular, RandomLayouts)
{
    std::mt19937 random(1);
    auto draw = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
    for (int round = 0; round < 400; ++round) {
        auto block = static_cast<std::size_t>(draw(1, 40));
        // Inside out, so that nothing overlaps; some strides go backwards, some leave nothing out.
        std::vector<Level> inside;
        auto reach = static_cast<std::ptrdiff_t>(block);
        for (int levels = draw(0, MPIDI_COMPOSITE_MOST_LEVELS - 1); levels > 0; --levels) {
            Level level{draw(1, 4), reach + draw(0, 2) * draw(0, 7)};
            reach = level.count * level.stride;
            if (draw(0, 3) == 0)
                level.stride = -level.stride;
            inside.insert(inside.begin(), level);
        }
        Model model(draw(1, 3), 2 * reach + draw(0, 5), inside, block);
        auto all = static_cast<int>(model.places.size());
        for (int turn = 0; turn < 40; ++turn) {
            int offset = draw(0, all - 1);
            compare(model, static_cast<std::size_t>(offset), static_cast<std::size_t>(draw(0, all - offset)));
        }
        compare(model, 0, model.places.size());
    }
}

TEST(Regular, BlocksThatTouchAreOne)
{
    Model model(2, 200, {{3, 50}, {5, 8}}, 8);
    EXPECT_EQ(model.layout.levels, 2);
    EXPECT_EQ(model.layout.block, 40U);
    Model rows(2, 200, {{3, 40}, {5, 8}}, 8);
    EXPECT_EQ(rows.layout.levels, 1);
    EXPECT_EQ(rows.layout.block, 120U);
}

TEST(Regular, WhatIsNotOneIsRefused)
{
    Layout layout{};
    layout.levels = 1;
    EXPECT_FALSE(MPIDI_COMPOSITE_add_level(&layout, 0, 8));
    EXPECT_FALSE(MPIDI_COMPOSITE_add_level(&layout, -1, 8));
    EXPECT_TRUE(MPIDI_COMPOSITE_add_level(&layout, 1, 8));
    EXPECT_EQ(layout.levels, 1);
    while (layout.levels < MPIDI_COMPOSITE_MOST_LEVELS)
        EXPECT_TRUE(MPIDI_COMPOSITE_add_level(&layout, 2, 100));
    EXPECT_FALSE(MPIDI_COMPOSITE_add_level(&layout, 2, 8));
}

}  // namespace
}  // namespace pm
