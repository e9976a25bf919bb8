// Memory for the program that peers map: blocks of any size, zeroed, found at the owner's addresses.
#include "shmmod/arena.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "support/private_devshm.h"
#include "support/processes.h"

namespace pm::shmem {
namespace {

class ArenaTest : public testing::TestWithParam<Backing> {
  protected:
    static constexpr std::size_t offset = 64 * 1024;

    std::byte *find(const void *address, std::size_t size)
    {
        return view_.find(published_, file_.get(), offset, arena_size, reinterpret_cast<std::uint64_t>(address), size);
    }

    File file_ = std::move(create_nameless_file(GetParam(), offset + arena_size).value());
    Published published_{};
    Arena arena_{file_.get(), offset, &published_};
    PublishedView view_;
};

TEST_P(ArenaTest, APeerSeesWhatTheOwnerWritesAndTheOwnerWhatThePeerDoes)
{
    constexpr std::size_t size = 3 * 1024 * 1024 + 5;
    auto block = static_cast<char *>(arena_.allocate(size));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % page_size(), 0u);
    block[size - 1] = 'o';
    std::byte *seen = find(block, size);
    ASSERT_NE(seen, nullptr);
    EXPECT_EQ(seen[size - 1], std::byte{'o'});
    seen[0] = std::byte{'p'};
    EXPECT_EQ(block[0], 'p');
}

TEST_P(ArenaTest, MemoryThatWasFreedIsZeroWhenItIsGivenAgain)
{
    auto block = static_cast<char *>(arena_.allocate(10000));
    std::memset(block, 1, 10000);
    EXPECT_TRUE(arena_.free(block));
    auto again = static_cast<char *>(arena_.allocate(10000));
    EXPECT_EQ(again, block) << "the lowest gap is taken";
    EXPECT_TRUE(std::all_of(again, again + 10000, [](char each) { return each == 0; }));
}

TEST_P(ArenaTest, OfALargeBlockOnlyWhatIsAskedForTakesMemory)
{
    constexpr std::size_t size = std::size_t{1} << 30, at_once = 1 << 20;
    auto taken = [this] {
        struct stat about;
        EXPECT_EQ(fstat(file_.get(), &about), 0);
        return static_cast<std::size_t>(about.st_blocks) * 512;
    };
    const std::size_t before = taken();
    auto block = static_cast<char *>(arena_.allocate(size, at_once));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(taken(), before + at_once);
    block[size - 1] = 'x';
    EXPECT_EQ(*find(block + size - 1, 1), std::byte{'x'});
    EXPECT_TRUE(arena_.free(block));
    EXPECT_EQ(taken(), before);
}

TEST_P(ArenaTest, OtherMemoryIsNotItsOwn)
{
    int elsewhere = 0;
    EXPECT_FALSE(arena_.free(&elsewhere));
    auto block = static_cast<char *>(arena_.allocate(100));
    EXPECT_FALSE(arena_.free(&elsewhere));
    EXPECT_FALSE(arena_.free(block + 1));
    EXPECT_TRUE(arena_.free(block));
    EXPECT_FALSE(arena_.free(block));
    EXPECT_EQ(find(&elsewhere, 1), nullptr);
}

TEST_P(ArenaTest, WhatDoesNotFitIsNotGiven)
{
    EXPECT_EQ(arena_.allocate(0), nullptr);
    EXPECT_EQ(arena_.allocate(arena_size + 1), nullptr);
    EXPECT_EQ(arena_.allocate(SIZE_MAX), nullptr);
}

TEST_P(ArenaTest, BlocksInRandomOrderNeverOverlap)
{
    std::mt19937 random(1);
    std::map<char *, std::pair<std::size_t, int>> blocks;
    for (int i = 0; i < 500; ++i) {
        if (random() % 3 != 0) {
            std::size_t size = 1 + random() % 100000;
            auto block = static_cast<char *>(arena_.allocate(size));
            ASSERT_NE(block, nullptr);
            std::memset(block, i % 128, size);
            blocks[block] = {size, i % 128};
        } else if (!blocks.empty()) {
            auto which = std::next(blocks.begin(), static_cast<long>(random() % blocks.size()));
            auto [block, content] = *which;
            EXPECT_TRUE(std::all_of(block, block + content.first, [&](char each) { return each == content.second; }));
            EXPECT_TRUE(arena_.free(block));
            blocks.erase(which);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Backings, ArenaTest, testing::Values(Backing::memfd, Backing::devshm));

TEST(ArenaInSmallDevShm, LeavesAsMuchAsItTakes)
{
    test::in_a_process(60, [] {
        if (std::string reason = test::enter_private_devshm("4m"); !reason.empty())
            GTEST_SKIP() << reason;
        Published published{};
        File file = std::move(create_nameless_file(Backing::devshm, arena_size).value());
        Arena arena(file.get(), 0, &published);
        EXPECT_EQ(arena.allocate(3 << 20), nullptr);
        std::size_t given = 0;
        for (; void *block = arena.allocate(256 << 10); given += 256 << 10)
            std::memset(block, 1, 256 << 10);
        EXPECT_GT(given, std::size_t{1} << 20);
        EXPECT_LT(given, std::size_t{4} << 20);
    });
}

// What the machine has left is read where the kernel says it, in a file that the test writes instead.
TEST(ArenaInAPoorMachine, LeavesAsMuchAsItTakes)
{
    test::in_a_process(60, [] {
        if (std::string reason = test::enter_private_devshm("16m"); !reason.empty())
            GTEST_SKIP() << reason;
        std::ofstream("/dev/shm/meminfo") << "MemTotal: 4096 kB\nMemAvailable: 1024 kB\n";
        if (mount("/dev/shm/meminfo", "/proc/meminfo", nullptr, MS_BIND, nullptr) != 0)
            GTEST_SKIP() << "nothing can be put in the place of /proc/meminfo";
        Published published{};
        File file = std::move(create_nameless_file(Backing::devshm, arena_size).value());
        Arena arena(file.get(), 0, &published);
        EXPECT_EQ(arena.allocate((512 << 10) + 1), nullptr);
        EXPECT_NE(arena.allocate(256 << 10), nullptr);
        EXPECT_EQ(arena.allocate((512 << 10) + 1), nullptr);
    });
}

}  // namespace
}  // namespace pm::shmem
