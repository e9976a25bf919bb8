// PM(SHMEM) from inside: cards, slots, reserved memory, and what a receiver survives. What it promises to its users is in the
// conformance suite.
#include "shmmod/shmem.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/pattern.h"
#include "support/private_devshm.h"
#include "support/processes.h"
#include "support/random.h"
#include "support/sanitizers.h"

namespace pm::shmem {
namespace {

// What arrived, whole messages only.
struct Arrived {
    unsigned messages = 0;
    std::vector<std::byte> payload;  // of the last one
    std::size_t total = 0;
    bool beyond = false;  // more pieces than the message has bytes
    unsigned pieces = 0, dropped = 0;
};
Arrived arrived;

void *on_arrived(void *, const Envelope &, void *piece, std::size_t size, std::size_t total)
{
    auto bytes = static_cast<std::byte *>(piece);
    arrived.payload.assign(bytes, bytes + size);
    arrived.total = total;
    arrived.beyond |= size > total;
    arrived.messages += size == total;
    return &arrived;
}

void on_more(void *, int, void *, void *piece, std::size_t size)
{
    ++arrived.pieces;
    auto bytes = static_cast<std::byte *>(piece);
    arrived.payload.insert(arrived.payload.end(), bytes, bytes + size);
    arrived.beyond |= arrived.payload.size() > arrived.total;
    arrived.messages += size > 0 && arrived.payload.size() == arrived.total;
}

std::unique_ptr<Shmem> make_device(Backing backing = Backing::automatic)
{
    Sink sink{nullptr, on_arrived, on_more};
    sink.dropped = [](void *) { ++arrived.dropped; };
    auto device = Shmem::create({backing}, sink);
    EXPECT_TRUE(device.ok()) << device.error().text;
    return device.ok() ? std::move(device.value()) : nullptr;
}

Card card_of(const Shmem &device)
{
    std::byte bytes[max_card_size];
    EXPECT_EQ(device.write_card(bytes), sizeof(Card));
    Card card;
    std::memcpy(&card, bytes, sizeof card);
    return card;
}

// The segment of `device`, as a sender sees it.
struct View {
    explicit View(const Shmem &device) : card(card_of(device))
    {
        auto opened = open_file_of(card.process, card.file);
        EXPECT_TRUE(opened.ok()) << opened.error().text;
        file = std::move(opened.value());
        mapping = std::move(Mapping::create(file.get(), card.region, header_room).value());
    }
    SegmentHeader &header() { return *reinterpret_cast<SegmentHeader *>(mapping.data()); }
    RingMemory<std::atomic> &ring(std::uint32_t slot)
    {
        slot_mapping = std::move(Mapping::create(file.get(), card.region + slot_offset(slot), slot_room).value());
        return *reinterpret_cast<RingMemory<std::atomic> *>(slot_mapping.data());
    }

    Card card;
    File file;
    Mapping mapping;
    Mapping slot_mapping;
};

class ShmemDevice : public testing::Test {
  protected:
    void SetUp() override { arrived = {}; }

    Shmem::Peer *connect(Shmem &from, const Shmem &to)
    {
        Card card = card_of(to);
        auto peer = from.connect(&card, sizeof card);
        EXPECT_TRUE(peer.ok()) << peer.error().text;
        return peer.ok() ? peer.value() : nullptr;
    }

    // Until it is accepted; `poll` what arrives meanwhile. Bounded.
    Status send(Shmem &from, Shmem::Peer *peer, std::size_t size, Shmem *poll = nullptr)
    {
        payload = test::pattern(size, size);
        std::uint64_t header = size;
        Message message{1, &header, sizeof header, {payload.data(), size, nullptr, nullptr}};
        SendProgress progress;
        Status status = Status::again;
        for (unsigned tries = 0; tries < 10'000 && status == Status::again; ++tries) {
            status = from.try_send(peer, message, &progress);
            if (poll != nullptr)
                poll->poll();
        }
        return status;
    }

    static void poll_all(Shmem &device)
    {
        for (unsigned i = 0; i < 10'000 && device.poll() > 0; ++i) {
        }
    }

    std::vector<std::byte> payload;
};

TEST_F(ShmemDevice, ACardSaysHostProcessAndFile)
{
    auto device = make_device();
    Card card = card_of(*device);
    EXPECT_EQ(card.host, host_identity());
    EXPECT_EQ(card.process, getpid());
    EXPECT_GE(fcntl(card.file, F_GETFD), 0);
    EXPECT_NE(card.token, 0u);
    EXPECT_NE(card.token, card_of(*make_device()).token) << "every channel has a token of its own";
}

TEST_F(ShmemDevice, TheHostIsTheSameForAllItsProcesses)
{
    std::uint64_t ours = host_identity();
    test::in_a_process(60, [&] { EXPECT_EQ(host_identity(), ours); });
}

TEST_F(ShmemDevice, RefusesStrangersAndSaysWhy)
{
    auto device = make_device();
    auto other = make_device();
    auto refusal = [&](auto change) {
        Card card = card_of(*other);
        change(card);
        auto peer = device->connect(&card, sizeof card);
        EXPECT_FALSE(peer.ok());
        return peer.ok() ? std::string() : peer.error().text;
    };
    auto expect = [](const std::string &text, const char *part) { EXPECT_NE(text.find(part), std::string::npos) << text; };
    expect(refusal([](Card &card) { ++card.host; }), "another host");
    expect(refusal([](Card &card) { ++card.token; }), "not its channel");
    expect(refusal([](Card &card) { card.file = 1'000'000; }), "No such file");
    expect(refusal([&](Card &card) { card.file = card_of(*device).file; }), "not its channel");
    expect(refusal([](Card &card) { card.process = 0; }), "/proc/0/fd");
    // Something else under that number: a directory, a pipe.
    File directory(open("/", O_RDONLY | O_DIRECTORY));
    expect(refusal([&](Card &card) { card.file = directory.get(); }), "Is a directory");
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    File reading(ends[0]), writing(ends[1]);
    expect(refusal([&](Card &card) { card.file = ends[0]; }), "not its channel");
}

TEST_F(ShmemDevice, ConnectingCostsTheReceiverNothingTheFirstMessageARing)
{
    auto receiver = make_device();
    auto sender = make_device();
    std::size_t before = receiver->memory_in_use();
    EXPECT_GT(before, 0u);
    Shmem::Peer *peer = connect(*sender, *receiver);
    EXPECT_EQ(receiver->memory_in_use(), before);
    EXPECT_EQ(send(*sender, peer, 8), Status::ok);
    std::size_t ring = receiver->memory_in_use() - before;
    auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    EXPECT_EQ(ring, (sizeof(RingMemory<std::atomic>) + page - 1) / page * page);
    EXPECT_EQ(send(*sender, peer, small_capacity), Status::ok);
    EXPECT_GT(receiver->memory_in_use(), before + ring) << "a message that does not fit a cell needs the bulk area";
    sender->disconnect(peer);
}

TEST_F(ShmemDevice, AQuietPairKeepsTheFirstBulkMemory)
{
    auto receiver = make_device();
    auto sender = make_device();
    Shmem::Peer *peer = connect(*sender, *receiver);
    EXPECT_EQ(send(*sender, peer, 10'000, receiver.get()), Status::ok);
    poll_all(*receiver);
    std::size_t memory = receiver->memory_in_use();
    for (int i = 0; i < 200; ++i) {
        ASSERT_EQ(send(*sender, peer, 10'000, receiver.get()), Status::ok);
        poll_all(*receiver);
    }
    EXPECT_EQ(arrived.messages, 201u);
    EXPECT_EQ(receiver->memory_in_use(), memory);
    sender->disconnect(peer);
}

TEST_F(ShmemDevice, EverySenderClaimsASlotOnce)
{
    auto receiver = make_device();
    View view(*receiver);
    std::vector<std::unique_ptr<Shmem>> senders;
    for (std::uint32_t i = 0; i < 5; ++i) {
        senders.push_back(make_device());
        Shmem::Peer *peer = connect(*senders[i], *receiver);
        for (int j = 0; j < 3; ++j)
            EXPECT_EQ(send(*senders[i], peer, 1), Status::ok);
        EXPECT_EQ(view.header().claimed.load(), i + 1);
        senders[i]->disconnect(peer);
    }
    poll_all(*receiver);
    EXPECT_EQ(arrived.messages, 15u);
}

TEST_F(ShmemDevice, WithoutAFreeSlotTheErrorSaysSoAndStays)
{
    auto receiver = make_device();
    auto sender = make_device();
    View view(*receiver);
    view.header().claimed.store(slot_limit);
    Shmem::Peer *peer = connect(*sender, *receiver);
    EXPECT_EQ(send(*sender, peer, 1), Status::no_memory);
    EXPECT_NE(peer->error.text.find(std::to_string(slot_limit)), std::string::npos) << peer->error.text;
    EXPECT_EQ(send(*sender, peer, 1), Status::no_memory) << "the peer is not usable any more";
    EXPECT_EQ(view.header().claimed.load(), slot_limit + 1) << "and does not claim again and again";
    EXPECT_EQ(receiver->poll(), 0u) << "a receiver with more claims than slots";
    sender->disconnect(peer);
}

TEST_F(ShmemDevice, WakingTakesNoSlotAndSoNeedsNone)
{
    auto receiver = make_device();
    auto sender = make_device();
    View view(*receiver);
    Shmem::Peer *peer = connect(*sender, *receiver);
    EXPECT_TRUE(Shmem::may_sleep(peer)) << "nobody has looked yet";
    std::size_t memory = receiver->memory_in_use();
    ASSERT_TRUE(receiver->arm());
    sender->ring_at(peer);
    EXPECT_FALSE(receiver->arm()) << "there is something to look at";
    EXPECT_EQ(view.header().claimed.load(), 0u);
    EXPECT_EQ(receiver->memory_in_use(), memory);
    EXPECT_EQ(receiver->poll(), 0u);
    receiver->disarm();
    EXPECT_FALSE(Shmem::may_sleep(peer));

    view.header().claimed.store(slot_limit);
    EXPECT_EQ(send(*sender, peer, 1), Status::no_memory);
    ASSERT_TRUE(receiver->arm());
    EXPECT_TRUE(Shmem::may_sleep(peer));
    sender->ring_at(peer);
    EXPECT_FALSE(receiver->arm()) << "one that has no room for us is woken, too";
    receiver->disarm();
    sender->disconnect(peer);
}

TEST_F(ShmemDevice, AProcessThatIsGoneBeforeTheFirstMessageIsUnreachable)
{
    auto sender = make_device();
    auto receiver = make_device();
    Shmem::Peer *peer = connect(*sender, *receiver);
    receiver.reset();
    EXPECT_EQ(send(*sender, peer, 1), Status::unreachable);
    EXPECT_FALSE(peer->error.text.empty());
    sender->disconnect(peer);
}

// The number of a process or a descriptor may be used again, for a file that is shorter than a header.
TEST_F(ShmemDevice, AFileThatTookThePlaceOfTheChannelIsUnreachableAndNoSigbus)
{
    auto sender = make_device();
    auto receiver = make_device();
    auto empty = create_nameless_file(Backing::automatic, 0);
    ASSERT_TRUE(empty.ok());
    Card card = card_of(*receiver);
    ASSERT_EQ(dup2(empty.value().get(), card.file), card.file);
    auto peer = sender->connect(&card, sizeof card);
    ASSERT_FALSE(peer.ok());
    EXPECT_EQ(peer.error().status, Status::unreachable);
    EXPECT_FALSE(peer.error().text.empty());
}

TEST_F(ShmemDevice, ASlotThatIsClaimedButNotOpenIsLeftAlone)
{
    auto receiver = make_device();
    View view(*receiver);
    view.header().claimed.store(3);
    auto memory = [&] {
        struct stat status {};
        EXPECT_EQ(fstat(view.file.get(), &status), 0);
        return status.st_blocks;
    };
    auto before = memory();
    ring_doorbell(&view.header().ready, ready_bit(0) | ready_bit(1) | ready_bit(2));
    EXPECT_EQ(receiver->poll(), 0u);
    EXPECT_EQ(memory(), before) << "looking at a slot must not give it memory";
    EXPECT_TRUE(receiver->arm()) << "and is over: nothing to poll";
    receiver->disarm();
}

// A sender claimed a slot and died before it reserved memory, or was refused any. With more than 31 senders its bit is
// another one's, too. The receiver must not touch that slot's memory: there may be none left.
TEST_F(ShmemDevice, ASlotWithoutMemoryIsNoSigbusWhenDevShmIsFull)
{
    test::in_a_process(60, [&] {
        if (std::string reason = test::enter_private_devshm("1m"); !reason.empty())
            GTEST_SKIP() << reason;
        auto receiver = make_device(Backing::devshm);
        auto sender = make_device(Backing::memfd);
        Shmem::Peer *peer = connect(*sender, *receiver);
        ASSERT_EQ(send(*sender, peer, 1), Status::ok);
        View view(*receiver);
        view.header().claimed.store(ready_bits + 1);
        auto filler = create_nameless_file(Backing::devshm, 1 << 20);
        ASSERT_TRUE(filler.ok());
        for (std::size_t offset = 0; !reserve(filler.value().get(), offset, 4096);)
            ASSERT_LT(offset += 4096, std::size_t{1} << 20);
        poll_all(*receiver);
        EXPECT_EQ(arrived.messages, 1u);
        sender->disconnect(peer);
    });
}

TEST_F(ShmemDevice, AFullDevShmIsAnErrorWithASentence)
{
    test::in_a_process(60, [&] {
        if (std::string reason = test::enter_private_devshm("256k"); !reason.empty())
            GTEST_SKIP() << reason;
        auto receiver = make_device(Backing::devshm);
        auto sender = make_device(Backing::memfd);
        auto filler = create_nameless_file(Backing::devshm, 1 << 20);
        ASSERT_TRUE(filler.ok());

        // Nothing left for a bulk area: small messages go, larger ones are refused.
        Shmem::Peer *peer = connect(*sender, *receiver);
        ASSERT_EQ(send(*sender, peer, 1), Status::ok);
        for (std::size_t offset = 0; !reserve(filler.value().get(), offset, 4096);)
            ASSERT_LT(offset += 4096, std::size_t{1} << 20);
        EXPECT_EQ(send(*sender, peer, 1000), Status::no_memory);
        EXPECT_NE(peer->error.text.find("/dev/shm"), std::string::npos) << peer->error.text;

        // Not even a ring for another sender; nor a channel for another process.
        auto late = make_device(Backing::memfd);
        Shmem::Peer *other = connect(*late, *receiver);
        EXPECT_EQ(send(*late, other, 1), Status::no_memory);
        EXPECT_NE(other->error.text.find("/dev/shm"), std::string::npos) << other->error.text;
        auto none = Shmem::create({Backing::devshm}, {nullptr, on_arrived, on_more});
        ASSERT_FALSE(none.ok());
        EXPECT_EQ(none.error().status, Status::no_memory);
        EXPECT_NE(none.error().text.find("KiB"), std::string::npos) << none.error().text;
        sender->disconnect(peer);
        late->disconnect(other);
    });
}

// With little memory everything still arrives, in smaller steps.
TEST_F(ShmemDevice, ADevShmThatEndsInMidGrowthSlowsDownOnly)
{
    test::in_a_process(60, [&] {
        if (std::string reason = test::enter_private_devshm("128k"); !reason.empty())
            GTEST_SKIP() << reason;
        auto receiver = make_device(Backing::devshm);
        auto sender = make_device(Backing::memfd);
        Shmem::Peer *peer = connect(*sender, *receiver);
        for (std::size_t size : {100'000u, 1'000'000u, 16'384u, 3u}) {
            ASSERT_EQ(send(*sender, peer, size, receiver.get()), Status::ok) << size << ": " << peer->error.text;
            poll_all(*receiver);
            EXPECT_EQ(arrived.payload, payload) << size;
        }
        EXPECT_EQ(arrived.messages, 4u);
        sender->disconnect(peer);
    });
}

// A ring as its sender sees it, which writes there what it likes.
class ShmemRing : public ShmemDevice {
  protected:
    RingMemory<std::atomic> &prepare()
    {
        receiver_ = make_device();
        sender_ = make_device();
        peer_ = connect(*sender_, *receiver_);
        EXPECT_EQ(send(*sender_, peer_, 1), Status::ok);
        poll_all(*receiver_);
        arrived = {};
        view_.emplace(*receiver_);
        EXPECT_FALSE(reserve(view_->file.get(), view_->card.region + slot_offset(0), slot_room));
        return view_->ring(0);
    }

    std::unique_ptr<Shmem> receiver_, sender_;
    Shmem::Peer *peer_ = nullptr;
    std::optional<View> view_;
};

TEST_F(ShmemRing, NonsenseInARingStaysHarmless)
{
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        RingMemory<std::atomic> &ring = prepare();
        test::Random random(seed);
        for (std::uint32_t position = 1; position < 20; ++position) {
            Cell<std::atomic> &cell = ring.cells[position];
            test::fill_pattern(random.next(), 0, cell.bytes, sizeof cell.bytes);
            // Sizes that could be true are as dangerous as those that cannot.
            if (random.one_in(2)) {
                PartDescription part{random.below(10'000), static_cast<std::uint32_t>(random.below(bulk_size)),
                                     static_cast<std::uint32_t>(random.below(10'000))};
                std::memcpy(cell.bytes, &part, sizeof part);
            }
            auto kind = static_cast<CellKind>(random.one_in(4) ? random.below(256) : random.between(1, 3));
            cell.word.store(detail::make_word(position, kind, 0, static_cast<std::uint16_t>(random.next())));
        }
        ring_doorbell(&view_->header().ready, ready_bit(0));
        EXPECT_EQ(receiver_->poll(), 19u);
        EXPECT_FALSE(arrived.beyond) << "seed " << seed << ": a message got more bytes than it announced";
        sender_->disconnect(peer_);
    }
}

// Cookies are asked for again and again here that whoever gets them has forgotten at the end of a message.
TEST_F(ShmemRing, WhatComesOutOfTurnIsDroppedAndCounted)
{
    RingMemory<std::atomic> &ring = prepare();
    std::uint32_t position = 1;
    auto push = [&](CellKind kind, std::uint64_t total, std::uint32_t size) {
        PartDescription part{total, 0, size};
        std::memcpy(ring.cells[position].bytes, &part, sizeof part);
        ring.cells[position].word.store(detail::make_word(position, kind, 0, 0));
        ++position;
        ring_doorbell(&view_->header().ready, ready_bit(0));
        EXPECT_EQ(receiver_->poll(), 1u);
    };
    push(CellKind::more, 10, 10);  // of nothing
    EXPECT_EQ(arrived.dropped, 1u);
    push(CellKind::first, 20, 10);
    push(CellKind::small, 0, 0);  // in the middle
    push(CellKind::first, 20, 10);
    EXPECT_EQ(arrived.dropped, 3u);
    push(CellKind::more, 20, 100);
    EXPECT_EQ(arrived.messages, 1u);
    push(CellKind::more, 20, 10);  // behind the end
    push(CellKind::more, 20, 0);
    push(static_cast<CellKind>(0), 0, 0);
    push(static_cast<CellKind>(4), 20, 10);
    EXPECT_EQ(arrived.dropped, 7u);
    EXPECT_EQ(arrived.pieces, 1u);
    EXPECT_EQ(arrived.messages, 1u);
    push(CellKind::small, 0, 0);
    EXPECT_EQ(arrived.messages, 2u);
    sender_->disconnect(peer_);
}

// Whether a process of this user, or 0 of root, can open the file of the device.
bool can_open(const Shmem &device, uid_t user)
{
    Card card = card_of(device);
    pid_t child = fork();
    if (child == 0)
        _exit((user == 0 || setresuid(user, user, user) == 0) && open_file_of(card.process, card.file).ok() ? 0 : 1);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status == 0;
}

TEST_F(ShmemDevice, AnotherUserCannotOpenASegment)
{
    if (geteuid() != 0)
        GTEST_SKIP() << "only root can be another user";
    for (Backing backing : {Backing::memfd, Backing::devshm}) {
        auto device = make_device(backing);
        EXPECT_TRUE(can_open(*device, 0));
        EXPECT_FALSE(can_open(*device, 65534));
    }
}

TEST_F(ShmemDevice, NobodyTakesMemoryAwayFromUnderTheOthers)
{
    auto device = make_device(Backing::memfd);
    View view(*device);
    EXPECT_EQ(ftruncate(view.file.get(), 0), -1);
    EXPECT_EQ(errno, EPERM);
}

// A region that its card puts beyond the end of the file, or a file that is shorter than it must be: no SIGBUS.
TEST_F(ShmemDevice, NothingIsMappedThatTheFileDoesNotHave)
{
    File file = std::move(create_nameless_file(Backing::automatic, 128 * 1024).value());
    EXPECT_TRUE(Mapping::create(file.get(), 64 * 1024, 64 * 1024).ok());
    for (std::size_t offset : {std::size_t{68} * 1024, std::size_t{1} << 40, SIZE_MAX - 4095}) {
        auto mapping = Mapping::create(file.get(), offset, 64 * 1024);
        ASSERT_FALSE(mapping.ok());
        EXPECT_NE(mapping.error().text.find("there are not so many"), std::string::npos) << mapping.error().text;
    }
    Published heap{4096, 1};
    PublishedView view;
    EXPECT_EQ(view.find(heap, file.get(), 64 * 1024, heap_size, 4096, 100), nullptr);
}

#if !defined(PM_TEST_ASAN) && !defined(PM_TEST_TSAN)  // a sanitizer needs the address space
TEST_F(ShmemDevice, ASenderThatCannotBeHeardIsAFailureUntilItCan)
{
    test::in_a_process(60, [&] {
        auto receiver = make_device();
        auto sender = make_device();
        Shmem::Peer *peer = connect(*sender, *receiver);
        ASSERT_EQ(send(*sender, peer, 1), Status::ok);
        rlimit before{};
        ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
        rlimit none{1 << 20, before.rlim_max};  // less than is in use
        ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
        receiver->poll();
        ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
        ASSERT_NE(receiver->failure(), nullptr);
        EXPECT_NE(receiver->failure()->text.find("cannot be received: mapping"), std::string::npos) << receiver->failure()->text;
        receiver->look_after_peers(std::chrono::seconds(1));
        EXPECT_NE(receiver->failure(), nullptr);
        poll_all(*receiver);
        EXPECT_EQ(receiver->failure(), nullptr);
        EXPECT_EQ(arrived.messages, 1u);
        sender->disconnect(peer);
    });
}
#endif

TEST_F(ShmemDevice, ASenderThatAlwaysHasSomethingDoesNotKeepTheOthersWaiting)
{
    auto receiver = make_device();
    auto busy = make_device();
    auto quiet = make_device();
    Shmem::Peer *from_busy = connect(*busy, *receiver);
    Shmem::Peer *from_quiet = connect(*quiet, *receiver);
    ASSERT_EQ(send(*busy, from_busy, 1), Status::ok);
    poll_all(*receiver);
    ASSERT_EQ(send(*quiet, from_quiet, 77), Status::ok);
    bool heard = false;
    for (unsigned polls = 0; polls < 100 && !heard; ++polls) {
        ASSERT_EQ(send(*busy, from_busy, 1), Status::ok);
        arrived = {};
        while (arrived.messages == 0)
            receiver->poll();
        heard = arrived.messages > 1 || arrived.total == 77;
    }
    EXPECT_TRUE(heard);
    busy->disconnect(from_busy);
    quiet->disconnect(from_quiet);
}

TEST_F(ShmemDevice, IsQuietWhileAPollWouldDeliverNothing)
{
    auto receiver = make_device();
    std::unique_ptr<Shmem> senders[] = {make_device(), make_device()};
    Shmem::Peer *peers[] = {connect(*senders[0], *receiver), connect(*senders[1], *receiver)};
    EXPECT_TRUE(receiver->is_quiet());
    for (int sender : {0, 0, 1, 0}) {
        ASSERT_EQ(send(*senders[sender], peers[sender], 1), Status::ok);
        EXPECT_FALSE(receiver->is_quiet());
        poll_all(*receiver);
        EXPECT_TRUE(receiver->is_quiet());
    }
    EXPECT_EQ(arrived.messages, 4u);
    for (int sender : {0, 1})
        senders[sender]->disconnect(peers[sender]);
}

TEST_F(ShmemDevice, AMessageThatIsSentWholeIsSentWholeOrNotAtAll)
{
    auto receiver = make_device();
    auto sender = make_device();
    Shmem::Peer *peer = connect(*sender, *receiver);
    Message first{1, nullptr, 0, {}};
    EXPECT_FALSE(sender->try_send_whole(peer, first)) << "not before the first message has opened the way";
    ASSERT_EQ(send(*sender, peer, 1), Status::ok);
    poll_all(*receiver);
    unsigned sent = 1;
    for (std::size_t size : {std::size_t{0}, small_capacity, small_capacity + 1, smallest_piece + 1, whole_piece}) {
        auto bytes = test::pattern(size, size);
        Message message{1, nullptr, 0, {bytes.data(), size, nullptr, nullptr}};
        unsigned accepted = 0;
        while (accepted < 100 && sender->try_send_whole(peer, message))
            ++accepted;
        EXPECT_GT(accepted, 0u) << size;
        EXPECT_LT(accepted, 100u) << size << ": there must be an end";
        poll_all(*receiver);
        sent += accepted;
        EXPECT_EQ(arrived.messages, sent) << size;
        EXPECT_EQ(arrived.payload, bytes) << size;
    }
    sender->disconnect(peer);
}

TEST_F(ShmemDevice, KnowsThatAPeerCanReadUsOnceThePeerHasTried)
{
    auto receiver = make_device();
    auto sender = make_device();  // the probe word of this process is the last device's
    Shmem::Peer *peer = connect(*sender, *receiver);
    EXPECT_FALSE(sender->peer_can_pull(peer));
    ASSERT_EQ(send(*sender, peer, 1), Status::ok);
    EXPECT_FALSE(sender->peer_can_pull(peer)) << "not before the receiver has polled";
    poll_all(*receiver);
    std::uint64_t word = 42, copy = 0;
    iovec piece{&copy, sizeof copy};
    bool works = shmem::pull(getpid(), reinterpret_cast<std::uint64_t>(&word), &piece, 1);
    EXPECT_EQ(sender->peer_can_pull(peer), works);
    copy = 0;
    EXPECT_EQ(sender->pull(peer, reinterpret_cast<std::uint64_t>(&word), &piece, 1), works);
    EXPECT_EQ(copy, works ? 42u : 0u);
    sender->disconnect(peer);
}

// Where nothing is to be pulled, nobody is allowed to look at our memory, and peers are told that they cannot.
TEST_F(ShmemDevice, WhoIsNotToBePulledFromSaysSo)
{
    auto receiver = make_device();
    Settings settings;
    settings.may_be_pulled = false;
    auto made = Shmem::create(settings, {nullptr, on_arrived, on_more});
    ASSERT_TRUE(made.ok());
    auto sender = std::move(made.value());
    Shmem::Peer *peer = connect(*sender, *receiver);
    ASSERT_EQ(send(*sender, peer, 1), Status::ok);
    poll_all(*receiver);
    EXPECT_FALSE(sender->peer_can_pull(peer));
    sender->disconnect(peer);
}

std::size_t descriptors()
{
    std::size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory != nullptr && readdir(directory) != nullptr)
        ++count;
    closedir(directory);
    return count;
}

// Who has no descriptor left for the pipe of a sleeper tells it, until it has.
TEST_F(ShmemDevice, ASenderThatCannotWakeTheReceiverLimitsItsSleepsUntilItCan)
{
    using namespace std::chrono_literals;
    auto receiver = make_device();
    auto sender = make_device();
    ASSERT_GE(receiver->open_descriptor(), 0);
    Shmem::Peer *peer = connect(*sender, *receiver);
    auto send_to_sleeper = [&] {
        while (!receiver->arm())
            poll_all(*receiver);
        EXPECT_EQ(send(*sender, peer, 1), Status::ok);
        receiver->disarm();
        receiver->empty_descriptor();
        poll_all(*receiver);
    };
    ASSERT_EQ(send(*sender, peer, 1), Status::ok);
    poll_all(*receiver);
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    auto without_descriptors = [&] {
        rlimit none = before;
        none.rlim_cur = 0;
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
        send_to_sleeper();
        send_to_sleeper();
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    };
    EXPECT_GT(receiver->sleep_limit(), 1s);
    without_descriptors();
    EXPECT_LT(receiver->sleep_limit(), 1ms);
    send_to_sleeper();
    EXPECT_GT(receiver->sleep_limit(), 1s);
    sender->disconnect(peer);
    poll_all(*receiver);
    peer = connect(*sender, *receiver);
    without_descriptors();
    EXPECT_LT(receiver->sleep_limit(), 1ms);
    sender->disconnect(peer);
    EXPECT_GT(receiver->sleep_limit(), 1s) << "who has gone wakes nobody";
}

std::size_t mappings()
{
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);)
        count += line.find("mpich-composite") != std::string::npos;
    return count;
}

TEST_F(ShmemDevice, EverythingOfASenderThatDisconnectsIsGivenBack)
{
    auto receiver = make_device(Backing::memfd);
    auto sender = make_device(Backing::memfd);
    View view(*receiver);
    std::size_t memory = receiver->memory_in_use(), files = descriptors(), maps = mappings();
    auto blocks = [&] {
        struct stat status {};
        EXPECT_EQ(fstat(view.file.get(), &status), 0);
        return status.st_blocks;
    };
    auto before = blocks();
    for (unsigned round = 1; round <= 1000; ++round) {
        Shmem::Peer *peer = connect(*sender, *receiver);
        ASSERT_EQ(send(*sender, peer, round % 100), Status::ok);
        ASSERT_EQ(send(*sender, peer, 20'000 + round, receiver.get()), Status::ok);
        ASSERT_EQ(send(*sender, peer, round), Status::ok);
        sender->disconnect(peer);
        poll_all(*receiver);
        ASSERT_EQ(arrived.messages, 3 * round);
        ASSERT_EQ(arrived.payload, test::pattern(round, round)) << "what this one sent, not what another left";
        ASSERT_EQ(receiver->senders(), 0u);
        ASSERT_EQ(receiver->memory_in_use(), memory);
    }
    EXPECT_EQ(view.header().claimed.load(), 1u) << "the same slot again and again";
    EXPECT_EQ(blocks(), before);
    EXPECT_EQ(descriptors(), files);
    EXPECT_EQ(mappings(), maps);
}

TEST_F(ShmemDevice, ASlotIsAnothersOnlyWhenAllThatWasSentIsDelivered)
{
    auto receiver = make_device();
    auto first = make_device(), second = make_device(), third = make_device();
    View view(*receiver);
    Shmem::Peer *peer = connect(*first, *receiver);
    for (int i = 0; i < 5; ++i)
        ASSERT_EQ(send(*first, peer, 1000), Status::ok);
    first->disconnect(peer);
    peer = connect(*second, *receiver);
    ASSERT_EQ(send(*second, peer, 10), Status::ok);
    EXPECT_EQ(view.header().claimed.load(), 2u) << "the first slot is not empty yet";
    poll_all(*receiver);
    EXPECT_EQ(arrived.messages, 6u);
    EXPECT_EQ(receiver->senders(), 1u);
    Shmem::Peer *other = connect(*third, *receiver);
    ASSERT_EQ(send(*third, other, 33), Status::ok);
    EXPECT_EQ(view.header().claimed.load(), 2u);
    poll_all(*receiver);
    EXPECT_EQ(arrived.messages, 7u);
    EXPECT_EQ(arrived.payload, test::pattern(33, 33));
    second->disconnect(peer);
    third->disconnect(other);
}

// Ranks of one host and one file, each connected to each.
struct Ranks {
    explicit Ranks(std::uint32_t count)
    {
        auto host = HostFile::create(Backing::memfd, count, count);
        EXPECT_TRUE(host.ok()) << host.error().text;
        Sink sink{nullptr, on_arrived, on_more};
        for (std::uint32_t region = 0; region < count; ++region) {
            auto made = Shmem::create({Backing::memfd, static_cast<int>(count), host.value(), region}, sink);
            EXPECT_TRUE(made.ok()) << made.error().text;
            devices.push_back(std::move(made.value()));
        }
        for (auto &from : devices)
            for (auto &to : devices) {
                Card card = card_of(*to);
                peers.push_back(from->connect(&card, sizeof card).value());
            }
    }
    Shmem::Peer *&peer(std::size_t from, std::size_t to) { return peers[from * devices.size() + to]; }
    ~Ranks()
    {
        for (std::size_t i = 0; i < peers.size(); ++i)
            devices[i / devices.size()]->disconnect(peers[i]);
    }

    std::vector<std::unique_ptr<Shmem>> devices;
    std::vector<Shmem::Peer *> peers;
};

TEST_F(ShmemDevice, FewRanksHaveTheirRingsFromTheStart)
{
    Ranks ranks(3);
    std::size_t maps = mappings();
    for (std::size_t from = 0; from < 3; ++from)
        for (std::size_t to = 0; to < 3; ++to) {
            if (from == to)
                continue;
            Shmem &receiver = *ranks.devices[to];
            std::size_t memory = receiver.memory_in_use();
            unsigned before = arrived.messages;
            EXPECT_NE(ranks.peer(from, to)->ready, nullptr) << "attached before the first message";
            ASSERT_EQ(send(*ranks.devices[from], ranks.peer(from, to), 10), Status::ok);
            poll_all(receiver);
            EXPECT_EQ(arrived.messages, before + 1);
            EXPECT_EQ(receiver.memory_in_use(), memory);
        }
    EXPECT_EQ(mappings(), maps);
    EXPECT_EQ(View(*ranks.devices[1]).header().claimed.load(), 3u);
    EXPECT_EQ(View(*ranks.devices[1]).header().kept.load(), 0u) << "each has its own";
}

TEST_F(ShmemDevice, RingsThatAreKeptHaveRoomForLongerMessagesAndKnowWhoCanPull)
{
    for (std::uint32_t count : {2, 4, 8}) {
        Ranks ranks(count);
        Shmem &sender = *ranks.devices[0], &receiver = *ranks.devices[1];
        bool can_pull = sender.peer_can_pull(ranks.peer(0, 1));
        std::size_t memory = receiver.memory_in_use(), longest = count == 8 ? 4000 : 16'000;
        ASSERT_EQ(send(sender, ranks.peer(0, 1), longest, &receiver), Status::ok);
        EXPECT_EQ(arrived.payload, payload);
        EXPECT_EQ(receiver.memory_in_use(), memory) << count;
        EXPECT_EQ(sender.peer_can_pull(ranks.peer(0, 1)), can_pull) << "known before the first message";
        ASSERT_EQ(send(sender, ranks.peer(0, 1), 600'000, &receiver), Status::ok);
        poll_all(receiver);
        EXPECT_EQ(arrived.payload, payload);
        EXPECT_GT(receiver.memory_in_use(), memory) << "and grows as others";
    }
}

TEST_F(ShmemDevice, ManyRanksHaveNoRingsUntilTheyTalk)
{
    Ranks ranks(9);
    EXPECT_EQ(ranks.peer(0, 1)->ready, nullptr);
    EXPECT_EQ(View(*ranks.devices[1]).header().claimed.load(), 0u);
    ASSERT_EQ(send(*ranks.devices[0], ranks.peer(0, 1), 10), Status::ok);
    poll_all(*ranks.devices[1]);
    EXPECT_EQ(arrived.messages, 1u);
}

TEST_F(ShmemDevice, ARingThatWasKeptIsGivenBackAsOthersAre)
{
    Ranks ranks(2);
    Shmem &sender = *ranks.devices[0], &receiver = *ranks.devices[1];
    std::size_t memory = receiver.memory_in_use();
    for (unsigned round = 1; round <= 10; ++round) {
        ASSERT_EQ(send(sender, ranks.peer(0, 1), round), Status::ok);
        sender.disconnect(ranks.peer(0, 1));
        poll_all(receiver);
        ASSERT_EQ(arrived.messages, round);
        EXPECT_EQ(receiver.senders(), 0u);
        EXPECT_LT(receiver.memory_in_use(), memory);
        ranks.peer(0, 1) = connect(sender, receiver);
        EXPECT_EQ(ranks.peer(0, 1)->ready, nullptr) << "it was kept once";
    }
    EXPECT_EQ(View(receiver).header().claimed.load(), 2u) << "and is claimed from then on";
}

TEST_F(ShmemDevice, AProcessOfAnotherFileLeavesRingsThatAreKeptAlone)
{
    auto host = HostFile::create(Backing::memfd, 2, 2);
    ASSERT_TRUE(host.ok());
    auto made = Shmem::create({Backing::memfd, 2, host.value(), 1}, {nullptr, on_arrived, on_more});
    ASSERT_TRUE(made.ok());
    auto other = make_device();  // of a region with the number of the one that the ring is kept for
    Shmem::Peer *peer = connect(*other, *made.value());
    ASSERT_EQ(send(*other, peer, 10), Status::ok);
    poll_all(*made.value());
    EXPECT_EQ(arrived.messages, 1u);
    EXPECT_EQ(View(*made.value()).header().kept.load(), 1u);
    other->disconnect(peer);
}

// A process that sends something to ours and is killed then; `before` is what it does first.
struct Doomed {
    template <class Before>
    Doomed(const Shmem &receiver, Before before)
    {
        Card ours = card_of(receiver);
        processes = std::make_unique<test::Processes>(1u, 60u, [this, ours, before](unsigned) {
            auto device = make_device();
            shared->card = card_of(*device);
            auto peer = device->connect(&ours, sizeof ours);
            Message message{1, "12345678", 8, {"", 0, nullptr, nullptr}};
            SendProgress progress;
            if (!peer.ok() || device->try_send(peer.value(), message, &progress) != Status::ok)
                _exit(1);
            shared->connected.add();
            shared->go.wait_for(1);
            before(*device, peer.value());
            raise(SIGKILL);
        });
        processes->expect_killed(0);
        shared->connected.wait_for(1);
    }
    void die()
    {
        shared->go.add();
        processes->wait();
    }

    struct Board {
        Card card;
        test::Counter connected, go;
    };
    test::Shared<Board> shared;
    std::unique_ptr<test::Processes> processes;
};

TEST_F(ShmemDevice, TheRingOfAProcessThatDiedIsReadAndThenGivenBack)
{
    auto receiver = make_device();
    std::size_t memory = receiver->memory_in_use();
    Doomed doomed(*receiver, [](Shmem &, Shmem::Peer *) {});
    auto peer = receiver->connect(&doomed.shared->card, sizeof(Card));
    ASSERT_TRUE(peer.ok()) << peer.error().text;
    receiver->poll();  // who it is becomes known
    doomed.die();
    receiver->disconnect(peer.value());
    poll_all(*receiver);
    EXPECT_EQ(arrived.messages, 1u);
    EXPECT_EQ(receiver->senders(), 0u);
    EXPECT_EQ(receiver->memory_in_use(), memory);
}

TEST_F(ShmemDevice, OneOfAnotherJobThatDiesIsAFailureUntilItIsDisconnected)
{
    using namespace std::chrono_literals;
    auto receiver = make_device();
    Doomed doomed(*receiver, [](Shmem &, Shmem::Peer *) {});
    auto peer = receiver->connect(&doomed.shared->card, sizeof(Card));
    ASSERT_TRUE(peer.ok()) << peer.error().text;
    Time now = 1h;
    auto look = [&] {
        poll_all(*receiver);
        receiver->look_after_peers(now += 2s);
        return receiver->failure();
    };
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(look(), nullptr);
    doomed.die();
    EXPECT_EQ(look(), nullptr) << "it may have left before";
    const Error *failure = look();
    ASSERT_NE(failure, nullptr);
    EXPECT_NE(failure->text.find(std::to_string(doomed.shared->card.process)), std::string::npos) << failure->text;
    EXPECT_NE(look(), nullptr);
    EXPECT_EQ(arrived.messages, 1u) << "what it sent is delivered all the same";
    receiver->disconnect(peer.value());
    EXPECT_EQ(look(), nullptr);
    EXPECT_EQ(receiver->senders(), 0u);
}

TEST_F(ShmemDevice, OneOfAnotherJobThatLeftBeforeItDiedIsNoFailure)
{
    using namespace std::chrono_literals;
    auto receiver = make_device();
    for (bool all : {false, true}) {
        Doomed doomed(*receiver, [all](Shmem &device, Shmem::Peer *peer) {
            if (all)
                device.leave();  // as MPI_Finalize does
            device.disconnect(peer);
        });
        auto peer = receiver->connect(&doomed.shared->card, sizeof(Card));
        ASSERT_TRUE(peer.ok()) << peer.error().text;
        doomed.die();
        Time now = 1h;
        for (int i = 0; i < 4; ++i) {
            poll_all(*receiver);
            receiver->look_after_peers(now += 2s);
            EXPECT_EQ(receiver->failure(), nullptr);
        }
        receiver->disconnect(peer.value());
    }
    // Also when it never sent anything, and when we learn of it only afterwards.
    auto sender = make_device();
    Shmem::Peer *quiet = connect(*sender, *receiver);
    Shmem::Peer *ours = connect(*receiver, *sender);
    sender->disconnect(quiet);
    poll_all(*receiver);
    EXPECT_TRUE(ours->left);
    receiver->disconnect(ours);
    quiet = connect(*sender, *receiver);
    sender->disconnect(quiet);
    poll_all(*receiver);
    ours = connect(*receiver, *sender);
    EXPECT_TRUE(ours->left);
    receiver->disconnect(ours);
    EXPECT_EQ(receiver->senders(), 0u);
}

}  // namespace
}  // namespace pm::shmem
