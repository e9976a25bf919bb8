// The shared heap: blocks that a peer finds at the owner's addresses.
#include "shmmod/heap.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "support/private_devshm.h"
#include "support/processes.h"

namespace pm::shmem {
namespace {

class HeapTest : public testing::TestWithParam<Backing> {
  protected:
    static constexpr std::size_t offset = 64 * 1024;

    const std::byte *find(PublishedView &view, std::uint64_t address, std::size_t size)
    {
        return view.find(published_, file_.get(), offset, heap_size, address, size);
    }

    File file_ = std::move(create_nameless_file(GetParam(), offset + heap_size).value());
    Published published_{};
    Heap heap_{file_.get(), offset, &published_};
};

TEST_P(HeapTest, GivesBlocksThatDoNotOverlapUntilNoneIsLeft)
{
    std::set<void *> blocks;
    for (std::size_t i = 0; i < heap_blocks; ++i) {
        void *block = heap_.allocate(heap_block);
        ASSERT_NE(block, nullptr);
        std::memset(block, static_cast<int>(i), heap_block);
        blocks.insert(block);
    }
    EXPECT_EQ(blocks.size(), heap_blocks);
    for (auto next = std::next(blocks.begin()); next != blocks.end(); ++next)
        EXPECT_GE(static_cast<char *>(*next) - static_cast<char *>(*std::prev(next)), static_cast<long>(heap_block));
    EXPECT_EQ(heap_.allocate(1), nullptr);
}

TEST_P(HeapTest, TakesTheLowestFreeBlockAgain)
{
    void *first = heap_.allocate(1);
    void *second = heap_.allocate(1);
    ASSERT_NE(first, second);
    heap_.free(first);
    EXPECT_EQ(heap_.allocate(heap_block), first);
}

TEST_P(HeapTest, RefusesMoreThanABlock)
{
    EXPECT_EQ(heap_.allocate(heap_block + 1), nullptr);
}

TEST_P(HeapTest, APeerReadsWhatTheOwnerWrote)
{
    auto block = static_cast<char *>(heap_.allocate(heap_block));
    ASSERT_NE(block, nullptr);
    std::memcpy(block + 1000, "through another mapping", 24);
    PublishedView view;
    const std::byte *seen = find(view, reinterpret_cast<std::uint64_t>(block + 1000), 24);
    ASSERT_NE(seen, nullptr);
    EXPECT_NE(static_cast<const void *>(seen), block + 1000);
    EXPECT_STREQ(reinterpret_cast<const char *>(seen), "through another mapping");
}

TEST_P(HeapTest, WhatIsNotInTheHeapIsNotFound)
{
    PublishedView view;
    int elsewhere = 0;
    auto address = reinterpret_cast<std::uint64_t>(&elsewhere);
    EXPECT_EQ(find(view, address, sizeof elsewhere), nullptr);  // no heap yet
    EXPECT_EQ(find(view, 8, 1), nullptr) << "nor at the first addresses, where a heap would be that is nowhere";
    auto block = reinterpret_cast<std::uint64_t>(heap_.allocate(1));
    EXPECT_EQ(find(view, address, sizeof elsewhere), nullptr);
    EXPECT_EQ(find(view, block - 1, 1), nullptr);
    EXPECT_EQ(find(view, block + heap_size, 1), nullptr);
    EXPECT_EQ(find(view, block + heap_size - 8, 9), nullptr);
    EXPECT_NE(find(view, block + heap_size - 8, 8), nullptr);
}

TEST_P(HeapTest, AHeapThatCannotBeMappedIsNotFound)
{
    auto block = reinterpret_cast<std::uint64_t>(heap_.allocate(1));
    PublishedView view;
    EXPECT_EQ(view.find(published_, -1, offset, heap_size, block, 1), nullptr);
    EXPECT_EQ(find(view, block, 1), nullptr);  // and is not asked for again
}

TEST(HeapInSmallDevShm, WithoutMemoryThereIsNoBlockAndNoSigbus)
{
    test::in_a_process(60, [] {
        if (std::string reason = test::enter_private_devshm("1m"); !reason.empty())
            GTEST_SKIP() << reason;
        Published published{};
        File file = std::move(create_nameless_file(Backing::devshm, heap_size).value());
        Heap heap(file.get(), 0, &published);
        void *block = nullptr;
        unsigned given = 0;
        for (; void *next = heap.allocate(heap_block); ++given) {
            std::memset(next, 1, heap_block);
            block = next;
        }
        EXPECT_GT(given, 0u);
        EXPECT_LE(given * heap_block, std::size_t{1} << 20);
        heap.free(block);
        EXPECT_EQ(heap.allocate(1), block) << "what was reserved is still there";
    });
}

INSTANTIATE_TEST_SUITE_P(Backings, HeapTest, testing::Values(Backing::memfd, Backing::devshm));

}  // namespace
}  // namespace pm::shmem
