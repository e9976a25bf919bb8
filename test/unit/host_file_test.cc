// The file that the processes of a job share: cards, regions that do not overlap, and few descriptors.
#include "shmmod/host_file.h"

#include <dirent.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "shmmod/shmem.h"
#include "support/processes.h"

namespace pm::shmem {
namespace {

std::span<const std::byte> bytes_of(const std::string &text)
{
    return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const std::byte> bytes)
{
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

std::shared_ptr<HostFile> make(std::uint32_t regions, std::uint32_t ranks)
{
    auto host = HostFile::create(Backing::automatic, regions, ranks);
    EXPECT_TRUE(host.ok()) << host.error().text;
    return host.value();
}

std::size_t open_descriptors()
{
    std::size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory) != nullptr)
        ++count;
    closedir(directory);
    return count;
}

TEST(HostFile, AllReadTheCardsThatEachHasPut)
{
    auto first = make(2, 4);
    auto second = HostFile::open(first->name());
    ASSERT_TRUE(second.ok()) << second.error().text;
    ASSERT_FALSE(first->put_card(2, bytes_of("the card of rank 2")));
    ASSERT_FALSE(second.value()->put_card(0, bytes_of(std::string(4096, 'x'))));
    ASSERT_FALSE(second.value()->put_card(3, {}));
    for (auto &host : {first, second.value()}) {
        auto cards = host->cards();
        ASSERT_TRUE(cards.ok());
        ASSERT_EQ(cards.value().size(), 4u);
        EXPECT_EQ(text_of(cards.value()[0]), std::string(4096, 'x'));
        EXPECT_EQ(text_of(cards.value()[2]), "the card of rank 2");
        EXPECT_EQ(cards.value()[1].data(), nullptr) << "none was put";
        EXPECT_NE(cards.value()[3].data(), nullptr) << "an empty one was";
        EXPECT_EQ(cards.value()[3].size(), 0u);
    }
    EXPECT_TRUE(first->put_card(4, bytes_of("beyond")));
    EXPECT_TRUE(first->put_card(1, bytes_of(std::string(5000, 'x'))));
}

TEST(HostFile, RegionsDoNotOverlapAndAreTheSameForAll)
{
    auto first = make(512, 100'000);
    auto second = HostFile::open(first->name());
    ASSERT_TRUE(second.ok()) << second.error().text;
    for (std::uint32_t region = 0; region < 512; ++region) {
        EXPECT_EQ(first->region(region + 1) - first->region(region), region_room);
        EXPECT_EQ(second.value()->region(region), first->region(region));
    }
}

TEST(HostFile, WhatIsNotTheFileIsRefused)
{
    auto host = make(1, 1);
    HostFileName name = host->name();
    ++name.token;
    auto other = HostFile::open(name);
    ASSERT_FALSE(other.ok());
    EXPECT_NE(other.error().text.find("not its channel"), std::string::npos) << other.error().text;
    name = host->name();
    name.process = 0;
    EXPECT_FALSE(HostFile::open(name).ok());
}

TEST(HostFile, ALimitOnTheSizeOfFilesIsASentence)
{
    test::in_a_process(60, [] {
        rlimit small{1 << 20, 1 << 20};
        ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
        auto host = HostFile::create(Backing::automatic, 1, 1);
        ASSERT_FALSE(host.ok());
        EXPECT_NE(host.error().text.find("ulimit -f"), std::string::npos) << host.error().text;
    });
}

// What others of the host have written into the table of cards is believed only as far as it leads to bytes that are there.
TEST(HostFile, ATableThatMakesNoSenseHasNoCards)
{
    auto host = make(1, 2);
    ASSERT_FALSE(host->put_card(0, bytes_of("first")));
    struct {
        std::uint32_t there = 1, size = 0;
        std::uint64_t offset = 0;
    } entry;
    constexpr off_t second = header_room + sizeof entry;
    for (auto [size, offset] : {std::pair{2u, UINT64_MAX - 1}, {6u, std::uint64_t{0}}, {1u, std::uint64_t{5}}, {UINT32_MAX, std::uint64_t{1}}}) {
        entry.size = size;
        entry.offset = offset;
        ASSERT_EQ(pwrite(host->descriptor(), &entry, sizeof entry, second), static_cast<ssize_t>(sizeof entry));
        auto cards = host->cards();
        ASSERT_TRUE(cards.ok());
        EXPECT_EQ(text_of(cards.value()[0]), "first");
        EXPECT_EQ(cards.value()[1].data(), nullptr) << offset;
    }
    std::uint32_t used = UINT32_MAX;
    ASSERT_EQ(pwrite(host->descriptor(), &used, sizeof used, 20), 4);
    EXPECT_FALSE(host->cards().ok());
}

// Processes of one file: attached, woken up, sent small and large messages, nothing of it takes a descriptor or opens anything.
TEST(HostFile, PeersCostNoDescriptor)
{
    constexpr std::uint32_t count = 20;
    auto host = make(count, count);
    Sink sink{nullptr, [](void *, const Envelope &, void *, std::size_t, std::size_t) -> void * { return nullptr; },
              [](void *, int, void *, void *, std::size_t) {}};
    std::vector<std::unique_ptr<Shmem>> devices;
    for (std::uint32_t region = 0; region < count; ++region) {
        auto device = Shmem::create({Backing::automatic, 1, host, region}, sink);
        ASSERT_TRUE(device.ok()) << device.error().text;
        devices.push_back(std::move(device.value()));
    }
    prctl(PR_SET_DUMPABLE, 0);
    std::size_t before = open_descriptors();
    std::vector<Shmem::Peer *> peers;
    std::vector<std::byte> payload(10'000);
    for (auto &to : devices) {
        std::byte card[max_card_size];
        auto peer = devices[0]->connect(card, to->write_card(card));
        ASSERT_TRUE(peer.ok()) << peer.error().text;
        peers.push_back(peer.value());
        for (std::size_t size : {std::size_t{1}, payload.size()}) {
            SendProgress progress;
            Message message{1, nullptr, 0, {payload.data(), size, nullptr, nullptr}};
            EXPECT_EQ(devices[0]->try_send(peers.back(), message, &progress), Status::ok) << peers.back()->error.text;
        }
        EXPECT_EQ(to->poll(), 2u);
    }
    void *block = devices[1]->allocate_shared(100);
    ASSERT_NE(block, nullptr);
    EXPECT_NE(devices[0]->view(peers[1], reinterpret_cast<std::uint64_t>(block), 100), nullptr);
    EXPECT_EQ(open_descriptors(), before);
    prctl(PR_SET_DUMPABLE, 1);
    for (Shmem::Peer *peer : peers)
        devices[0]->disconnect(peer);
}

TEST(HostFile, WhyACardCouldNotBeWrittenIsSaid)
{
    test::in_a_process(60, [] {
        auto host = make(1, 2);
        signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{1, 1};
        ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
        Error error = host->put_card(0, bytes_of("a card"));
        ASSERT_TRUE(error);
        EXPECT_NE(error.text.find(std::strerror(EFBIG)), std::string::npos) << error.text;
    });
}

}  // namespace
}  // namespace pm::shmem
