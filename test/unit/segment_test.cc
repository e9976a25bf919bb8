// Nameless files: nothing of them outlives the process, memory is reserved before it is touched, errors say what to do.
#include "shmmod/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "support/private_devshm.h"
#include "support/processes.h"

namespace pm::shmem {
namespace {

using test::in_a_process;

constexpr std::size_t mebibyte = 1 << 20;

struct stat status_of(int file)
{
    struct stat status {};
    EXPECT_EQ(fstat(file, &status), 0);
    return status;
}

bool is_open(int file)
{
    return fcntl(file, F_GETFD) >= 0;
}

std::string name_of_backing(const testing::TestParamInfo<Backing> &info)
{
    const char *names[] = {"auto", "memfd", "devshm"};
    return names[static_cast<int>(info.param)];
}

class Segment : public testing::TestWithParam<Backing> {};
INSTANTIATE_TEST_SUITE_P(Backings, Segment, testing::Values(Backing::automatic, Backing::memfd, Backing::devshm),
                         name_of_backing);

TEST_P(Segment, ANewFileHasItsSizeAndNoMemory)
{
    auto file = create_nameless_file(GetParam(), slot_offset(slot_limit));
    ASSERT_TRUE(file.ok()) << file.error().text;
    EXPECT_EQ(status_of(file.value().get()).st_size, static_cast<off_t>(slot_offset(slot_limit)));
    EXPECT_EQ(status_of(file.value().get()).st_blocks, 0);
}

TEST_P(Segment, AFileHasNoName)
{
    auto file = create_nameless_file(GetParam(), mebibyte);
    ASSERT_TRUE(file.ok()) << file.error().text;
    EXPECT_EQ(status_of(file.value().get()).st_nlink, 0u);
}

TEST_P(Segment, AProgramStartedByUsDoesNotInheritIt)
{
    auto file = create_nameless_file(GetParam(), mebibyte);
    ASSERT_TRUE(file.ok()) << file.error().text;
    EXPECT_NE(fcntl(file.value().get(), F_GETFD) & FD_CLOEXEC, 0);
    auto again = open_file_of(getpid(), file.value().get());
    ASSERT_TRUE(again.ok()) << again.error().text;
    EXPECT_NE(fcntl(again.value().get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_P(Segment, ReservingGivesMemoryToThatPartOnlyAndKeepsItsBytes)
{
    auto file = create_nameless_file(GetParam(), mebibyte);
    ASSERT_TRUE(file.ok()) << file.error().text;
    int descriptor = file.value().get();
    ASSERT_FALSE(reserve(descriptor, header_room, 16 * 1024));
    blkcnt_t blocks = status_of(descriptor).st_blocks;
    EXPECT_GE(blocks * 512, 16 * 1024);
    EXPECT_LE(blocks * 512, 128 * 1024);

    ASSERT_EQ(pwrite(descriptor, "kept", 4, header_room), 4);
    ASSERT_FALSE(reserve(descriptor, header_room, 16 * 1024));
    EXPECT_EQ(status_of(descriptor).st_blocks, blocks) << "twice costs no more than once";
    char bytes[4] = {};
    ASSERT_EQ(pread(descriptor, bytes, 4, header_room), 4);
    EXPECT_EQ(std::memcmp(bytes, "kept", 4), 0);
}

TEST_P(Segment, APeerThatOpensTheFileSharesItsMemory)
{
    auto file = create_nameless_file(GetParam(), mebibyte);
    ASSERT_TRUE(file.ok()) << file.error().text;
    ASSERT_FALSE(reserve(file.value().get(), header_room, 4096));
    auto mine = Mapping::create(file.value().get(), header_room, 4096);
    ASSERT_TRUE(mine.ok()) << mine.error().text;
    auto opened = open_file_of(getpid(), file.value().get());
    ASSERT_TRUE(opened.ok()) << opened.error().text;
    auto theirs = Mapping::create(opened.value().get(), header_room, 4096);
    ASSERT_TRUE(theirs.ok()) << theirs.error().text;
    ASSERT_NE(mine.value().data(), theirs.value().data());
    std::memcpy(theirs.value().data() + 100, "hello", 5);
    EXPECT_EQ(std::memcmp(mine.value().data() + 100, "hello", 5), 0);
}

TEST_P(Segment, AnotherProcessOpensTheFile)
{
    auto file = create_nameless_file(GetParam(), mebibyte);
    ASSERT_TRUE(file.ok()) << file.error().text;
    ASSERT_EQ(pwrite(file.value().get(), "hello", 5, 0), 5);
    pid_t owner = getpid();
    in_a_process(60, [&] {
        int inherited = file.value().get();
        auto opened = open_file_of(owner, inherited);
        ASSERT_TRUE(opened.ok()) << opened.error().text;
        char bytes[5] = {};
        ASSERT_EQ(pread(opened.value().get(), bytes, 5, 0), 5);
        EXPECT_EQ(std::memcmp(bytes, "hello", 5), 0);
    });
}

TEST(SegmentErrors, AFileOfNobodyIsUnreachableAndSaysWhoseItIs)
{
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
    auto file = open_file_of(gone, 3);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.error().status, Status::unreachable);
    EXPECT_NE(file.error().text.find("process " + std::to_string(gone)), std::string::npos) << file.error().text;

    for (auto [process, descriptor] : {std::pair{getpid(), 1'000'000}, {getpid(), -1}, {0, 0}, {-1, 3}}) {
        auto wrong = open_file_of(process, descriptor);
        ASSERT_FALSE(wrong.ok()) << process << " " << descriptor;
        EXPECT_EQ(wrong.error().status, Status::unreachable);
        EXPECT_FALSE(wrong.error().text.empty());
    }
}

TEST(SegmentErrors, MappingNothingIsAnErrorWithItsSize)
{
    auto mapping = Mapping::create(-1, 0, 4096);
    ASSERT_FALSE(mapping.ok());
    EXPECT_NE(mapping.error().text.find("4096 bytes"), std::string::npos) << mapping.error().text;
}

TEST(SegmentErrors, ReservingInSomethingElseIsAnError)
{
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    EXPECT_TRUE(reserve(ends[1], 0, 4096));
    close(ends[0]);
    close(ends[1]);
}

TEST(SegmentOwnership, AFileIsClosedOnceByItsLastOwner)
{
    auto made = create_nameless_file(Backing::automatic, 4096);
    ASSERT_TRUE(made.ok()) << made.error().text;
    int descriptor = made.value().get();
    {
        File owner(std::move(made.value()));
        EXPECT_EQ(made.value().get(), -1);
        File next;
        next = std::move(owner);
        EXPECT_EQ(next.get(), descriptor);
        EXPECT_TRUE(is_open(descriptor));
    }
    EXPECT_FALSE(is_open(descriptor));
}

TEST(SegmentOwnership, AMappingIsUndoneOnceByItsLastOwner)
{
    auto file = create_nameless_file(Backing::automatic, 4096);
    ASSERT_TRUE(file.ok()) << file.error().text;
    auto made = Mapping::create(file.value().get(), 0, 4096);
    ASSERT_TRUE(made.ok()) << made.error().text;
    std::byte *data = made.value().data();
    auto is_mapped = [&] { return msync(data, 4096, MS_ASYNC) == 0; };
    {
        Mapping owner(std::move(made.value()));
        EXPECT_EQ(made.value().data(), nullptr);
        Mapping next;
        next = std::move(owner);
        EXPECT_EQ(next.data(), data);
        EXPECT_TRUE(is_mapped());
    }
    EXPECT_FALSE(is_mapped());
}

TEST(SegmentLayout, SlotsFollowTheHeaderWithoutOverlap)
{
    EXPECT_EQ(slot_offset(0), header_room);
    EXPECT_EQ(slot_offset(1) - slot_offset(0), ring_room + bulk_size);
    EXPECT_GT(slot_offset(slot_limit), std::size_t{slot_limit} * slot_room) << "no overflow";
    EXPECT_EQ(slot_offset(1) % (64 * 1024), 0u) << "a slot begins at a page of any size";
}

// ---- a /dev/shm of our own: these need root ---------------------------------------------------------------------------

TEST(SegmentInSmallDevShm, ReservingTooMuchIsAnErrorWithSizesAndNeverSigbus)
{
    in_a_process(60, [] {
        if (std::string reason = test::enter_private_devshm("1m"); !reason.empty())
            GTEST_SKIP() << reason;
        auto file = create_nameless_file(Backing::devshm, slot_offset(slot_limit));
        ASSERT_TRUE(file.ok()) << "a sparse file costs nothing: " << file.error().text;
        int descriptor = file.value().get();
        ASSERT_FALSE(reserve(descriptor, 0, mebibyte / 2));
        Error error = reserve(descriptor, mebibyte, mebibyte);
        ASSERT_TRUE(error);
        EXPECT_EQ(error.status, Status::no_memory);
        for (const char *part : {"reserving 1024 KiB", "has 1024 KiB", "512 KiB of them free", "/dev/shm", "--shm-size"})
            EXPECT_NE(error.text.find(part), std::string::npos) << part << " is not in: " << error.text;
        // What was reserved before is still there, and can be touched.
        auto mapping = Mapping::create(descriptor, 0, mebibyte / 2);
        ASSERT_TRUE(mapping.ok()) << mapping.error().text;
        std::memset(mapping.value().data(), 1, mebibyte / 2);
        EXPECT_FALSE(reserve(descriptor, mebibyte, 4096)) << "a refusal takes no memory";
    });
}

TEST(SegmentInSmallDevShm, WhatIsNeededIsComparedWithWhatIsLeft)
{
    in_a_process(60, [] {
        if (std::string reason = test::enter_private_devshm("1m"); !reason.empty())
            GTEST_SKIP() << reason;
        auto file = create_nameless_file(Backing::devshm, 16 * mebibyte);
        ASSERT_TRUE(file.ok()) << file.error().text;
        EXPECT_FALSE(check_space(file.value().get(), mebibyte, "a test"));
        ASSERT_FALSE(reserve(file.value().get(), 0, mebibyte / 2));
        EXPECT_FALSE(check_space(file.value().get(), mebibyte / 2, "a test"));
        Error error = check_space(file.value().get(), mebibyte / 2 + 1, "the channels of a test");
        ASSERT_TRUE(error);
        EXPECT_EQ(error.status, Status::no_memory);
        for (const char *part : {"the channels of a test", "need 513 KiB", "512 KiB of them free", "--shm-size"})
            EXPECT_NE(error.text.find(part), std::string::npos) << part << " is not in: " << error.text;
    });
}

TEST(SegmentInSmallDevShm, ClosingGivesEverythingBackAndNoNameEverAppears)
{
    in_a_process(60, [] {
        if (std::string reason = test::enter_private_devshm("1m"); !reason.empty())
            GTEST_SKIP() << reason;
        struct statvfs before {}, after {};
        ASSERT_EQ(statvfs("/dev/shm", &before), 0);
        {
            auto file = create_nameless_file(Backing::devshm, 16 * mebibyte);
            ASSERT_TRUE(file.ok()) << file.error().text;
            ASSERT_FALSE(reserve(file.value().get(), 0, mebibyte / 2));
            EXPECT_TRUE(test::names_in_devshm().empty());
        }
        ASSERT_EQ(statvfs("/dev/shm", &after), 0);
        EXPECT_EQ(after.f_bfree, before.f_bfree);
        EXPECT_TRUE(test::names_in_devshm().empty());
    });
}

TEST(SegmentInSmallDevShm, WithoutAUsableDevShmTheErrorSaysSoAndAutomaticTakesMemfd)
{
    in_a_process(60, [] {
        if (std::string reason = test::enter_private_devshm(""); !reason.empty())
            GTEST_SKIP() << reason;
        auto file = create_nameless_file(Backing::devshm, mebibyte);
        ASSERT_FALSE(file.ok());
        for (const char *part : {"/dev/shm", "MPIR_CVAR_CH4_COMPOSITE_SHMEM_BACKING", "Read-only"})
            EXPECT_NE(file.error().text.find(part), std::string::npos) << part << " is not in: " << file.error().text;
        EXPECT_TRUE(create_nameless_file(Backing::automatic, mebibyte).ok());
    });
}

}  // namespace
}  // namespace pm::shmem
