// Reading the memory of another process: all bytes into all pieces, or false.
#include "shmmod/pull.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "support/pattern.h"
#include "support/processes.h"
#include "support/random.h"
#include "support/seeds.h"

namespace pm::shmem {
namespace {

using test::Counter;
using test::Processes;
using test::Shared;

std::uint64_t address_of(const void *memory)
{
    return reinterpret_cast<std::uint64_t>(memory);
}

bool allowed_here()
{
    static const std::uint64_t word = 0x1234567890abcdef;
    return pull_works(getpid(), address_of(&word), word);
}

#define SKIP_WHERE_PULL_IS_FORBIDDEN() \
    if (!allowed_here())               \
    GTEST_SKIP() << "this kernel or container forbids process_vm_readv, even of the own process"

// Pulls `source` from this process into pieces of the given sizes and compares.
std::string pull_into(const std::vector<std::byte> &source, const std::vector<std::size_t> &sizes)
{
    std::vector<std::byte> destination(source.size() + 1, std::byte{0x5a});
    std::vector<iovec> pieces;
    std::size_t offset = 0;
    for (std::size_t size : sizes) {
        pieces.push_back({destination.data() + offset, size});
        offset += size;
    }
    if (!pull(getpid(), address_of(source.data()), pieces.data(), pieces.size()))
        return "refused";
    if (std::memcmp(destination.data(), source.data(), offset) != 0)
        return "wrong bytes";
    if (destination[offset] != std::byte{0x5a})
        return "wrote beyond the last piece";
    return "";
}

TEST(Pull, FillsListsOfEveryLength)
{
    SKIP_WHERE_PULL_IS_FORBIDDEN();
    auto source = test::pattern(1, 100'000);
    // Around 64, which is what one call takes, and beyond the kernel's 1024.
    for (std::size_t count : {1, 2, 63, 64, 65, 127, 128, 129, 1024, 1025, 3000}) {
        EXPECT_EQ(pull_into(source, std::vector<std::size_t>(count, 33)), "") << count << " pieces";
        EXPECT_EQ(pull_into(source, std::vector<std::size_t>(count, 1)), "") << count << " pieces";
    }
}

TEST(Pull, NothingIsEasilyRead)
{
    EXPECT_TRUE(pull(getpid(), 0, nullptr, 0));
    std::vector<iovec> empty(200, iovec{nullptr, 0});
    EXPECT_TRUE(pull(getpid(), 0, empty.data(), empty.size()));
}

TEST(Pull, SkipsPiecesOfLengthZeroWhereverTheyAre)
{
    SKIP_WHERE_PULL_IS_FORBIDDEN();
    auto source = test::pattern(2, 100'000);
    EXPECT_EQ(pull_into(source, {0, 10}), "");
    EXPECT_EQ(pull_into(source, {10, 0}), "");
    EXPECT_EQ(pull_into(source, {0, 0, 10, 0, 0, 20, 0}), "");
    for (std::size_t zeros : {1, 63, 64, 65, 130}) {
        std::vector<std::size_t> sizes(zeros, 0);
        sizes.push_back(100);
        sizes.insert(sizes.end(), zeros, 0);
        sizes.push_back(7);
        EXPECT_EQ(pull_into(source, sizes), "") << zeros << " empty pieces";
    }
}

TEST(Pull, FillsRandomLists)
{
    SKIP_WHERE_PULL_IS_FORBIDDEN();
    auto source = test::pattern(3, 1 << 20);
    test::for_each_seed(500, [&](std::uint64_t seed) {
        test::Random random(seed);
        std::vector<std::size_t> sizes(random.below(300));
        for (std::size_t &size : sizes)
            size = random.one_in(3) ? 0 : random.below(3000);
        return pull_into(source, sizes);
    });
}

TEST(Pull, ReadsAnotherProcess)
{
    SKIP_WHERE_PULL_IS_FORBIDDEN();
    constexpr std::size_t size = 4 << 20;
    std::vector<std::byte> memory(size);  // the same address in the child
    struct Board {
        Counter filled, done;
    };
    Shared<Board> board;
    Processes child(1, 60, [&](unsigned) {
        test::fill_pattern(4, 0, memory.data(), size);
        board->filled.add();
        board->done.wait_for(1);
    });
    board->filled.wait_for(1);
    std::vector<std::byte> copy(size);
    iovec pieces[] = {{copy.data(), 1}, {copy.data() + 1, size - 1}};
    bool pulled = pull(child.id(0), address_of(memory.data()), pieces, 2);
    board->done.add();
    EXPECT_TRUE(pulled);
    EXPECT_EQ(test::first_difference(4, 0, copy.data(), size), test::no_difference);
    EXPECT_EQ(memory[0], std::byte{0}) << "it was the other process's memory";
}

TEST(Pull, IsFalseForAProcessThatIsGone)
{
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
    std::uint64_t word = 7, copy = 0;
    iovec piece{&copy, sizeof copy};
    EXPECT_FALSE(pull(gone, address_of(&word), &piece, 1));
    EXPECT_FALSE(pull_works(gone, address_of(&word), 7));
}

// The reader has no privilege and the process does not let itself be read, whoever runs this test.
TEST(Pull, IsFalseWhereItIsForbidden)
{
    std::uint64_t word = 7;
    struct Board {
        Counter hidden, done;
    };
    Shared<Board> board;
    Processes target(1, 60, [&](unsigned) {
        prctl(PR_SET_DUMPABLE, 0);
        board->hidden.add();
        board->done.wait_for(1);
    });
    board->hidden.wait_for(1);
    pid_t process = target.id(0);
    Processes(1, 60, [&](unsigned) {
        if (geteuid() == 0) {
            ASSERT_EQ(setresuid(65534, 65534, 65534), 0);
        }
        EXPECT_FALSE(pull_works(process, address_of(&word), 7));
    }).wait();
    board->done.add();
}

TEST(Pull, IsFalseWhereThereIsNoMemory)
{
    SKIP_WHERE_PULL_IS_FORBIDDEN();
    auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    auto memory = static_cast<std::byte *>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void *>(memory), MAP_FAILED);
    ASSERT_EQ(munmap(memory + page, page), 0);
    std::vector<std::byte> copy(2 * page);
    iovec pieces[] = {{copy.data(), page}, {copy.data() + page, page}};
    EXPECT_TRUE(pull(getpid(), address_of(memory), pieces, 1));
    EXPECT_FALSE(pull(getpid(), address_of(memory), pieces, 2)) << "the second half does not exist";
    EXPECT_FALSE(pull(getpid(), address_of(memory + page), pieces, 1));
    munmap(memory, page);
}

TEST(Pull, WorksOnlyWhenTheExpectedWordIsThere)
{
    SKIP_WHERE_PULL_IS_FORBIDDEN();
    std::uint64_t word = 7;
    EXPECT_TRUE(pull_works(getpid(), address_of(&word), 7));
    EXPECT_FALSE(pull_works(getpid(), address_of(&word), 8));
    EXPECT_FALSE(pull_works(getpid(), 0, 0)) << "a peer that tells no address cannot be read";
}

}  // namespace
}  // namespace pm::shmem
