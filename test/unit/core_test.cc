// The core as MPICH's C code sees it, in one process that sends to itself.
#include "base/cpus.h"
#include "base/gate.h"
#include "base/tuning.h"
#include "coll/boards.h"
#include "netmod/core/core.h"
#include "netmod/core/handlers.h"
#include "netmod/core/shared.h"
#include "netmod/core/setup.h"
#include "netmod/core/state.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "netmod/routing/settings.h"
#include "pm/device.h"
#include "support/core_setup.h"
#include "support/pattern.h"
#include "support/processes.h"
#include "support/sanitizers.h"
#include "support/time_limit.h"
#include "support/ucx_environment.h"

namespace {

using pm::test::pattern;
using pm::test::TimeLimit;

// What a message looks like in these tests.
struct Header {
    std::uint32_t number;
    std::uint32_t reply;  // how often to answer it from within the upcall
    std::uint64_t payload_size;
};

struct Received {
    int tag;
    pm_peer *source;
    Header header;
    std::vector<std::byte> payload;
    bool complete() const { return payload.size() == header.payload_size; }
};

constexpr int tags = 200;  // from 0 on; the others are nobody's

std::vector<std::unique_ptr<Received>> received;
std::vector<void *> sent_cookies;
pm_core *core;  // of the test
pm_peer *self;
void (*on_sent)(void *);
bool progress_in_upcall_did_something;

const std::vector<std::byte> nothing;

// A queued payload must stay: no temporaries.
int send(std::uint32_t number, std::vector<std::byte> &&payload, void *cookie = nullptr, std::uint32_t reply = 0) = delete;
int send(std::uint32_t number, const std::vector<std::byte> &payload, void *cookie = nullptr, std::uint32_t reply = 0)
{
    Header header{number, reply, payload.size()};
    int status = pm_send(self, static_cast<int>(number) % tags, &header, sizeof header, payload.data(), payload.size(), cookie);
    std::memset(&header, 0xee, sizeof header);  // ours again, whatever the answer
    return status;
}

void *arrived(pm_core *, const pm_envelope *envelope, void *piece, size_t piece_size, size_t total)
{
    auto message = std::make_unique<Received>();
    message->tag = envelope->tag;
    message->source = envelope->source;
    EXPECT_EQ(envelope->header_size, sizeof message->header);
    std::memcpy(&message->header, envelope->header, sizeof message->header);
    auto bytes = static_cast<std::byte *>(piece);
    message->payload.assign(bytes, bytes + piece_size);
    EXPECT_EQ(total, message->header.payload_size);
    received.push_back(std::move(message));
    Received *cookie = received.back().get();
    for (std::uint32_t i = 0; i < cookie->header.reply; ++i)
        EXPECT_NE(send(cookie->header.number + 1 + i, nothing), PM_FAILED);
    progress_in_upcall_did_something |= pm_progress(core) != 0;
    return cookie;
}

void more(void *cookie, void *piece, size_t piece_size)
{
    auto bytes = static_cast<std::byte *>(piece);
    auto &payload = static_cast<Received *>(cookie)->payload;
    payload.insert(payload.end(), bytes, bytes + piece_size);
}

void sent(void *cookie)
{
    sent_cookies.push_back(cookie);
    if (on_sent != nullptr)
        on_sent(cookie);
}

pm_setup default_setup()
{
    pm_setup setup = pm::test::plain_setup();
    setup.udp_interfaces = "lo";
    return setup;
}

void register_tags(int for_strangers)
{
    pm_handler handler{};
    handler.name = "test";
    handler.smallest_header = sizeof(Header);
    handler.for_strangers = for_strangers;
    handler.arrived = arrived;
    handler.more = more;
    handler.sent = sent;
    for (int tag = 0; tag < tags; ++tag)
        ASSERT_EQ(pm_handle(core, tag, &handler), PM_OK) << pm_error_text();
}

class Core : public testing::Test {
  protected:
    Core()
    {
        received.clear();
        sent_cookies.clear();
        on_sent = nullptr;
        progress_in_upcall_did_something = false;
    }
    ~Core() override
    {
        close();
    }

    static void close()
    {
        if (core != nullptr)
            pm_close(core);
        core = nullptr;
        self = nullptr;
    }

    void open(const pm_setup &setup = default_setup(), int for_strangers = 1)
    {
        ASSERT_NE(core = pm_open(&setup), nullptr) << pm_error_text();
        register_tags(for_strangers);
        char card[PM_CARD_MAX];
        self = pm_connect(core, card, pm_card(core, card));
        ASSERT_NE(self, nullptr) << pm_error_text();
    }

    // Until nothing is left to do; bounded.
    static void progress()
    {
        int done = 1;
        for (unsigned i = 0; i < 100'000 && (done != 0 || pm_sends_queued(core)); ++i) {
            done = pm_progress(core);
            ASSERT_GE(done, 0) << pm_error_text();
        }
        ASSERT_EQ(done, 0);
        ASSERT_FALSE(pm_sends_queued(core));
    }
};

TEST_F(Core, APeerIsThereUntilAsManyHaveReleasedItAsConnectedIt)
{
    open();
    char card[PM_CARD_MAX];
    size_t size = pm_card(core, card);
    for (int round = 0; round < 100; ++round) {
        ASSERT_EQ(pm_connect(core, card, size), self);
        pm_release(self);
        progress();
        std::vector<std::byte> payload = pattern(1, 100'000);
        for (std::uint32_t i = 0; i < 10; ++i)
            ASSERT_NE(send(i, payload), PM_FAILED) << pm_error_text();
        pm_release(self);  // the last one: what is queued is sent all the same
        progress();
        ASSERT_EQ(received.size(), 10u);
        received.clear();
        self = pm_connect(core, card, size);
        ASSERT_NE(self, nullptr) << pm_error_text();
    }
    pm_traffic traffic[PM_DEVICES_MAX];
    ASSERT_EQ(pm_get_traffic(core, traffic), PM_DEVICES_MAX);
    EXPECT_EQ(traffic[0].messages_sent, 1000u) << "those to peers that are gone count";
}

TEST_F(Core, AnUnknownSettingIsAnErrorThatListsTheKnownWords)
{
    struct Case {
        const char *pm_setup::*setting;
        std::vector<std::string> words;
    };
    for (const Case &wrong : std::vector<Case>{{&pm_setup::devices, {"nonsense", "auto", "shmem"}},
                                               {&pm_setup::networks, {"nonsense"}},
                                               {&pm_setup::priority, {"nonsense", "given", "measure"}},
                                               {&pm_setup::routes, {"nonsense", "off", "init", "text", "json", ".html"}},
                                               {&pm_setup::wait, {"nonsense", "auto", "spin", "yield", "sleep"}},
                                               {&pm_setup::rendezvous, {"nonsense", "auto", "pipeline", "cma", "both"}},
                                               {&pm_setup::shmem_backing, {"nonsense", "auto", "memfd", "devshm"}}}) {
        pm_setup setup = default_setup();
        setup.*wrong.setting = "nonsense";
        ASSERT_EQ(pm_open(&setup), nullptr);
        for (const std::string &word : wrong.words)
            EXPECT_NE(std::string(pm_error_text()).find(word), std::string::npos) << word << " is not in: " << pm_error_text();
    }
    open();  // and an error leaves nothing behind
}

TEST_F(Core, OpensAgainAfterClosing)
{
    for (const char *backing : {"memfd", "devshm", "auto"}) {
        pm_setup setup = default_setup();
        setup.shmem_backing = backing;
        open(setup);
        ASSERT_EQ(send(1, nothing), PM_OK);
        progress();
        ASSERT_EQ(received.size(), 1u);
        received.clear();
        close();
    }
}

TEST_F(Core, TheSameCardIsTheSamePeer)
{
    open();
    char card[PM_CARD_MAX], copy[PM_CARD_MAX];
    size_t size = pm_card(core, card);
    ASSERT_LE(size, size_t{PM_CARD_MAX});
    EXPECT_EQ(pm_connect(core, card, size), self);
    ASSERT_EQ(pm_peer_card(self, copy), size);
    EXPECT_EQ(std::memcmp(card, copy, size), 0);
}

TEST_F(Core, ACardNobodyOwnsIsRefusedWithASentence)
{
    struct Board {
        char card[PM_CARD_MAX];
        size_t size;
    };
    pm::test::Shared<Board> board;
    pm_setup setup = default_setup();
    setup.devices = "shmem";
    pm::test::in_a_process(60, [&] {
        open(setup);
        board->size = pm_card(core, board->card);
    });
    open(setup);
    EXPECT_EQ(pm_connect(core, board->card, board->size), nullptr) << "its owner is gone";
    EXPECT_NE(std::string(pm_error_text()).find("process"), std::string::npos) << pm_error_text();
    EXPECT_EQ(pm_connect(core, board->card, 3), nullptr);
    EXPECT_NE(std::string(pm_error_text()).find("3 bytes"), std::string::npos) << pm_error_text();
    EXPECT_EQ(pm_connect(core, nullptr, 0), nullptr);
}

// Over UDP it is found out by sending.
TEST_F(Core, AProcessThatIsGoneIsAnErrorOfProgress)
{
    struct Board {
        char card[PM_CARD_MAX];
        size_t size;
    };
    pm::test::Shared<Board> board;
    pm::test::in_a_process(60, [&] {
        open();
        board->size = pm_card(core, board->card);
    });
    open();
    pm_peer *peer = pm_connect(core, board->card, board->size);
    ASSERT_NE(peer, nullptr) << pm_error_text();
    ASSERT_EQ(pm_send(peer, 1, "header", 6, nullptr, 0, nullptr), PM_QUEUED);
    while (pm_progress(core) >= 0) {
    }
    EXPECT_NE(std::string(pm_error_text()).find("nobody listens"), std::string::npos) << pm_error_text();
    EXPECT_EQ(pm_progress(core), -1) << "it stays so";
}

TEST_F(Core, DeliversMessagesOfAllSizesToItself)
{
    open();
    std::vector<std::vector<std::byte>> payloads;
    std::uint32_t number = 0;
    for (size_t size : {0, 1, 100, 104, 105, 1000, 8192, 16'384, 16'385, 65'536, 262'144, 1'000'000, 5'000'000})
        payloads.push_back(pattern(size, size));
    for (const auto &payload : payloads)
        ASSERT_NE(send(number++, payload, &payloads), PM_FAILED) << pm_error_text();
    progress();
    ASSERT_EQ(received.size(), payloads.size());
    for (size_t i = 0; i < payloads.size(); ++i) {
        EXPECT_EQ(received[i]->tag, static_cast<int>(i));
        EXPECT_EQ(received[i]->header.number, i) << "in order";
        EXPECT_TRUE(received[i]->payload == payloads[i]) << payloads[i].size() << " bytes";
    }
}

TEST_F(Core, AMessageTheDeviceCannotTakeWaitsAndLaterOnesWaitBehindIt)
{
    open();
    // More than a ring holds, without any progress.
    constexpr std::uint32_t count = 300;
    bool queued = false;
    for (std::uint32_t i = 0; i < count; ++i) {
        int status = send(i, nothing);
        ASSERT_NE(status, PM_FAILED) << pm_error_text();
        EXPECT_TRUE(!queued || status == PM_QUEUED) << "message " << i << " overtook those that wait";
        queued |= status == PM_QUEUED;
    }
    EXPECT_TRUE(queued);
    EXPECT_TRUE(pm_sends_queued(core));
    EXPECT_TRUE(received.empty());
    progress();
    ASSERT_EQ(received.size(), count);
    for (std::uint32_t i = 0; i < count; ++i)
        EXPECT_EQ(received[i]->header.number, i);
}

TEST_F(Core, SentIsCalledOnceForEveryQueuedMessageWithACookieInOrder)
{
    open();
    constexpr std::uint32_t count = 300;
    std::vector<int> cookies(count);
    std::vector<void *> expected;
    for (std::uint32_t i = 0; i < count; ++i) {
        bool silent = i % 3 == 0;
        int status = send(i, nothing, silent ? nullptr : &cookies[i]);
        ASSERT_NE(status, PM_FAILED);
        if (status == PM_QUEUED && !silent)
            expected.push_back(&cookies[i]);
    }
    EXPECT_TRUE(sent_cookies.empty()) << "not before progress";
    ASSERT_FALSE(expected.empty());
    progress();
    EXPECT_EQ(sent_cookies, expected);
    EXPECT_EQ(received.size(), count);
}

TEST_F(Core, APayloadMayBeReusedOnceSentWasCalled)
{
    open();
    static std::vector<std::byte> payload;
    payload = pattern(1, 3'000'000);
    auto copy = payload;
    on_sent = [](void *) { std::ranges::fill(payload, std::byte{0}); };
    ASSERT_EQ(send(1, payload, &payload), PM_QUEUED);
    progress();
    ASSERT_EQ(sent_cookies.size(), 1u);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_TRUE(received[0]->payload == copy);
}

TEST_F(Core, SentMaySendAgain)
{
    open();
    static std::vector<std::byte> payload;
    static std::uint32_t next;
    payload = pattern(2, 600'000);
    next = 1;
    on_sent = [](void *cookie) {
        if (next < 10) {
            EXPECT_NE(send(next++, payload, cookie), PM_FAILED);
        }
    };
    ASSERT_EQ(send(0, payload, &payload), PM_QUEUED);
    progress();
    ASSERT_EQ(received.size(), 10u);
    for (std::uint32_t i = 0; i < 10; ++i) {
        EXPECT_EQ(received[i]->header.number, i);
        EXPECT_TRUE(received[i]->payload == payload) << i;
    }
}

TEST_F(Core, AnUpcallMaySendAndItsProgressDoesNothing)
{
    open();
    // Each of the first messages is answered by more than fit the ring together.
    for (std::uint32_t i = 0; i < 20; ++i)
        ASSERT_NE(send(1000 * i, nothing, nullptr, 30), PM_FAILED);
    progress();
    EXPECT_EQ(received.size(), 20u * 31u);
    EXPECT_FALSE(progress_in_upcall_did_something);
    std::vector<std::uint32_t> last(20);
    for (const auto &message : received) {
        std::uint32_t group = message->header.number / 1000;
        EXPECT_TRUE(message->header.number % 1000 == 0 || message->header.number == last[group] + 1)
            << "answers keep their order";
        last[group] = message->header.number;
    }
}

TEST_F(Core, PacksAPayloadOnceAndInOrder)
{
    open();
    struct Packing {
        std::uint64_t key;
        size_t next = 0;
        bool in_order = true;
    } packing{77};
    constexpr size_t size = 3'000'000;
    Header header{1, 0, size};
    auto pack = [](void *context, size_t offset, void *destination, size_t count) {
        auto self = static_cast<Packing *>(context);
        self->in_order &= offset == self->next;
        self->next = offset + count;
        pm::test::fill_pattern(self->key, offset, destination, count);
    };
    ASSERT_EQ(pm_send_packed(self, 1, &header, sizeof header, pack, &packing, size, &packing), PM_QUEUED);
    progress();
    EXPECT_TRUE(packing.in_order);
    EXPECT_EQ(packing.next, size);
    ASSERT_EQ(received.size(), 1u);
    EXPECT_TRUE(received[0]->payload == pattern(77, size));
}

TEST_F(Core, SendsNowAllOrNothingAndNeverPastTheQueue)
{
    open();
    ASSERT_EQ(send(0, nothing), PM_OK);
    auto payload = pattern(3, PM_SEND_NOW_LIMIT);
    std::uint32_t number = 1;
    auto send_now = [&](size_t size) {
        Header header{number, 0, size};
        int taken = pm_send_now(self, 0, &header, sizeof header, payload.data(), size);
        number += taken != 0;
        return taken;
    };
    for (size_t size : {0, 1, 104, 105, 8193, PM_SEND_NOW_LIMIT}) {
        EXPECT_EQ(send_now(size), 1) << size;
        progress();
        EXPECT_TRUE(received.back()->complete()) << size;
    }
    while (send_now(PM_SEND_NOW_LIMIT))
        ASSERT_LT(number, 1000u) << "there must be an end";
    auto long_payload = pattern(4, 1'000'000);
    ASSERT_EQ(send(number++, long_payload), PM_QUEUED);
    ASSERT_EQ(pm_progress(core) > 0, true);
    while (pm_sends_queued(core)) {
        EXPECT_EQ(send_now(1), 0) << "messages wait before this one";
        ASSERT_GE(pm_progress(core), 0);
    }
    progress();
    ASSERT_EQ(received.size(), number);
    for (std::uint32_t i = 0; i < number; ++i) {
        EXPECT_EQ(received[i]->header.number, i);
        EXPECT_TRUE(received[i]->complete());
    }
}

const pm_traffic &traffic_of(const char *device)
{
    static pm_traffic devices[PM_DEVICES_MAX];
    int count = pm_get_traffic(core, devices);
    return *std::find_if(devices, devices + count, [&](const pm_traffic &each) { return std::string(each.device) == device; });
}

TEST_F(Core, SendsToItselfOverANetwork)
{
    for (const std::string &name : pm::known_devices()) {
        const char *device = name.c_str();
        if (name == "shmem")
            continue;
        pm_setup setup = default_setup();
        std::string networks = std::string("network here ") + device + " lo";
        setup.devices = device;
        setup.networks = networks.c_str();
        open(setup);
        received.clear();
        std::vector<std::vector<std::byte>> payloads{pattern(1, 0), pattern(2, 10), pattern(3, 20'000), pattern(4, 3'000'000)};
        for (std::uint32_t i = 0; i < payloads.size(); ++i)
            ASSERT_NE(send(i, payloads[i]), PM_FAILED) << pm_error_text();
        while (received.size() < payloads.size() || !received.back()->complete() || pm_sends_queued(core))
            ASSERT_GE(pm_progress(core), 0) << pm_error_text();
        for (std::size_t i = 0; i < payloads.size(); ++i)
            EXPECT_EQ(received[i]->payload, payloads[i]);
        EXPECT_EQ(traffic_of("shmem").messages_sent, 0u);
        EXPECT_EQ(traffic_of(device).messages_sent, 4u);
        EXPECT_EQ(traffic_of(device).bytes_sent, 3'020'010u);
        EXPECT_EQ(traffic_of(device).bytes_received, 3'020'010u);
        EXPECT_TRUE(pm_must_linger(core));
        close();
    }
}

TEST_F(Core, CountsWhatItCarried)
{
    open();
    std::vector<std::vector<std::byte>> payloads{pattern(1, 0), pattern(1, 10), pattern(1, 100'000)};
    for (const auto &payload : payloads)
        ASSERT_NE(send(1, payload), PM_FAILED);
    progress();
    const pm_traffic &traffic = traffic_of("shmem");
    EXPECT_EQ(traffic.messages_sent, 3u);
    EXPECT_EQ(traffic.messages_received, 3u);
    EXPECT_EQ(traffic.bytes_sent, 100'010u);
    EXPECT_EQ(traffic.bytes_received, 100'010u);
    EXPECT_EQ(traffic.pulls, 0u);
    EXPECT_GT(traffic.memory, 100'000u / 4);
}

TEST_F(Core, PullsAndSaysSoWhenItCannot)
{
    open();
    auto source = pattern(5, 10'000);
    std::vector<std::byte> copy(source.size());
    iovec pieces[] = {{copy.data(), 1000}, {copy.data() + 1000, 9000}};
    if (pm_pull(self, reinterpret_cast<std::uint64_t>(source.data()), pieces, 2) == PM_OK) {
        EXPECT_TRUE(copy == source);
        const pm_traffic &traffic = traffic_of("shmem");
        EXPECT_EQ(traffic.pulls, 1u);
        EXPECT_EQ(traffic.bytes_pulled, 10'000u);
    }
    EXPECT_EQ(pm_pull(self, 0, pieces, 2), PM_FAILED);
    EXPECT_NE(std::string(pm_error_text()).find("could not be read"), std::string::npos) << pm_error_text();
}

TEST_F(Core, SharedMemoryIsPulledWithoutTheHelpOfTheKernel)
{
    open();
    auto block = static_cast<std::byte *>(pm_shared_alloc(core, PM_SHARED_LIMIT));
    ASSERT_NE(block, nullptr);
    pm::test::fill_pattern(8, 0, block, PM_SHARED_LIMIT);
    std::vector<std::byte> copy(1000);
    iovec pieces[] = {{copy.data(), 1}, {nullptr, 0}, {copy.data() + 1, 999}};
    ASSERT_EQ(pm_pull(self, reinterpret_cast<std::uint64_t>(block + 500), pieces, 3), PM_OK) << pm_error_text();
    EXPECT_EQ(pm::test::first_difference(8, 500, copy.data(), copy.size()), pm::test::no_difference);
    EXPECT_EQ(pm_shared_alloc(core, PM_SHARED_LIMIT + 1), nullptr);
    pm_shared_free(core, block);
    EXPECT_EQ(pm_shared_alloc(core, 1), block) << "a block that was given back is used again";
}

TEST_F(Core, MappedMemoryIsZeroedAndSeenByNeighbours)
{
    open();
    auto memory = static_cast<char *>(pm_mapped_alloc(core, 10'000));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(std::count(memory, memory + 10'000, 0), 10'000);
    std::strcpy(memory + 9'000, "seen");
    auto seen = static_cast<const char *>(pm_shared_view(self, reinterpret_cast<std::uint64_t>(memory), 10'000));
    ASSERT_NE(seen, nullptr);
    EXPECT_STREQ(seen + 9'000, "seen");
    EXPECT_EQ(pm_mapped_free(core, &core), 0) << "that is other memory";
    EXPECT_EQ(pm_mapped_free(core, memory), 1);
    EXPECT_EQ(pm_mapped_free(core, memory), 0);
}

TEST_F(Core, BoardsOfABlockAreGivenOneByOneAndTakenBack)
{
    struct Board {
        alignas(64) std::uint32_t word;
    };
    open();
    pm::coll::Boards<Board> boards(core);
    std::vector<Board *> made;
    for (std::size_t i = 0; i <= PM_SHARED_LIMIT / sizeof(Board); ++i) {  // of two blocks
        made.push_back(boards.make());
        ASSERT_NE(made.back(), nullptr) << i;
        EXPECT_EQ(std::exchange(made.back()->word, 1), 0u) << i;
    }
    Board *back = made[made.size() / 2];
    boards.free(back);
    EXPECT_EQ(boards.make(), back);
    std::ranges::sort(made);
    EXPECT_EQ(std::ranges::adjacent_find(made), made.end());
}

// And where that is quicker than the pipeline, later ones as well, but for a stream, which ends when one comes back.
TEST_F(Core, WhereRanksShareCoresTheFirstMessagesToAPeerArePulled)
{
    for (const char *rendezvous : {"auto", "pipeline"}) {
        pm_setup setup = default_setup();
        setup.rendezvous = rendezvous;
        setup.ranks_on_host = pm::available_cores() + 1;
        open(setup);
        ASSERT_EQ(send(1, nothing), PM_OK);
        progress();
        std::uint64_t word = 1, copy = 0;
        iovec piece{&copy, sizeof copy};
        bool possible = pm_pull(self, reinterpret_cast<std::uint64_t>(&word), &piece, 1) == PM_OK;
        const bool pulls = possible && std::string_view(rendezvous) == "auto";
        EXPECT_EQ(pm_prefers_pull(self) != 0, pulls) << rendezvous;
        for (int i = 0; i < 200; ++i) {
            ASSERT_EQ(send(1, nothing), PM_OK);
            progress();
        }
        EXPECT_EQ(pm_prefers_pull(self) != 0, pulls && PM_PULL_WITHOUT_STREAM) << rendezvous << ", later";
        for (int i = 0; i < PM_LONG_MESSAGES_AHEAD; ++i)
            pm_count_announced(self, PM_JOINT_LIMIT);
        EXPECT_FALSE(pm_prefers_pull(self)) << rendezvous << ", a stream";
        if (possible) {
            ASSERT_EQ(pm_pull(self, reinterpret_cast<std::uint64_t>(&word), &piece, 1), PM_OK);
            EXPECT_EQ(pm_prefers_pull(self) != 0, pulls && PM_PULL_WITHOUT_STREAM) << rendezvous << ", answered";
        }
        close();
    }
}

TEST_F(Core, WhatIsPulledCountsAsReceived)
{
    open();
    ASSERT_EQ(send(1, nothing), PM_OK);
    progress();
    auto received = [&] {
        pm_traffic traffic[PM_DEVICES_MAX];
        std::uint64_t bytes = 0;
        for (int i = pm_get_traffic(core, traffic); i > 0; --i)
            bytes += traffic[i - 1].bytes_received;
        return bytes;
    };
    const std::uint64_t before = received();
    std::array<std::byte, 100> there{}, here{};
    iovec piece{here.data(), here.size()};
    const bool pulled = pm_pull(self, reinterpret_cast<std::uint64_t>(there.data()), &piece, 1) == PM_OK;
    EXPECT_EQ(received() - before, pulled ? here.size() : 0);
    close();
}

// Up to PM_SEND_NOW_LIMIT bytes, where a pull pays at all: what is answered is pulled, a stream is not.
TEST_F(Core, AStreamOfLongMessagesLeavesAtOnce)
{
    pm_setup setup = default_setup();
    setup.rendezvous = "both";
    open(setup);
    ASSERT_EQ(send(1, nothing), PM_OK);
    progress();
    std::uint64_t word = 1, copy = 0;
    iovec piece{&copy, sizeof copy};
    auto answer = [&] { return pm_pull(self, reinterpret_cast<std::uint64_t>(&word), &piece, 1) == PM_OK; };
    const bool pulls = answer() && PM_SURELY_NOW_LIMIT < PM_SEND_NOW_LIMIT;
    const pm_departure answered = pulls ? PM_DEPARTS_BY_PULL : PM_DEPARTS_NOW;
    for (int i = 0; i < 3 * PM_LONG_MESSAGES_AHEAD; ++i) {
        EXPECT_EQ(pm_departure_of(self, PM_SEND_NOW_LIMIT, 0), answered) << i;
        answer();
    }
    for (int i = 0; i < PM_LONG_MESSAGES_AHEAD; ++i)
        (void)pm_departure_of(self, PM_SEND_NOW_LIMIT, 0);
    EXPECT_EQ(pm_departure_of(self, PM_SEND_NOW_LIMIT, 0), PM_DEPARTS_NOW) << "a stream";
    EXPECT_EQ(pm_departure_of(self, PM_SEND_NOW_LIMIT, 0), PM_DEPARTS_NOW);
    answer();
    EXPECT_EQ(pm_departure_of(self, PM_SEND_NOW_LIMIT, 0), answered) << "it has answered";
    EXPECT_EQ(pm_departure_of(self, PM_SURELY_NOW_LIMIT, 0), PM_DEPARTS_NOW);
    close();
}

TEST_F(Core, TheRendezvousFollowsTheSettingAndTheNumberOfRanks)
{
    struct Case {
        const char *rendezvous;
        int ranks;
        bool pull;
    };
    for (auto [rendezvous, ranks, pull] : {Case{"pipeline", 1, false}, {"pipeline", 10'000, false}, {"auto", 1, PM_PULL_WITH_OWN_CORES != 0},
                                           {"auto", 10'000, true}, {"cma", 1, true}, {"cma", 10'000, true}, {"both", 1, true}, {"both", 10'000, true}}) {
        pm_setup setup = default_setup();
        setup.rendezvous = rendezvous;
        setup.ranks_on_host = ranks;
        open(setup);
        EXPECT_FALSE(pm_prefers_pull(self)) << "not before the peer has tried";
        ASSERT_EQ(send(1, nothing), PM_OK);
        progress();
        std::uint64_t word = 1, copy = 0;
        iovec piece{&copy, sizeof copy};
        bool possible = pm_pull(self, reinterpret_cast<std::uint64_t>(&word), &piece, 1) == PM_OK;
        EXPECT_EQ(pm_prefers_pull(self) != 0, pull && possible) << rendezvous << " with " << ranks << " ranks";
        const pm_departure large = pull && possible ? PM_DEPARTS_BY_PULL : PM_DEPARTS_LATER;
        EXPECT_EQ(pm_departure_of(self, PM_SURELY_NOW_LIMIT, 0), PM_DEPARTS_NOW);
        EXPECT_EQ(pm_departure_of(self, PM_SEND_NOW_LIMIT + 1, 0), large);
        EXPECT_EQ(pm_departure_of(self, PM_SEND_NOW_LIMIT, 1), PM_DEPARTS_LATER) << "its header asks";
        EXPECT_EQ(pm_departure_of(self, PM_SEND_NOW_LIMIT + 1, 1), large);
        close();
    }
}

TEST_F(Core, IsCrowdedWithMoreRanksThanCores)
{
    for (int ranks : {1, 10'000}) {
        pm_setup setup = default_setup();
        setup.ranks_on_host = ranks;
        open(setup);
        EXPECT_EQ(pm_crowded(core) != 0, ranks > 1) << ranks;
        close();
    }
}

// ---- waiting ----------------------------------------------------------------------------------------------------------

// Steps until it is time to sleep, or `limit`.
unsigned steps_until_sleep(unsigned limit)
{
    unsigned steps = 0;
    while (steps < limit && pm_wait_step(core) == 0)
        ++steps;
    return steps;
}

TEST_F(Core, WaitsAsTheSettingSays)
{
    constexpr unsigned many = 20'000;
    struct Case {
        const char *wait;
        bool sleeps;
    };
    for (auto [wait, sleeps] : {Case{"spin", false}, {"yield", false}, {"sleep", true}, {"auto", true}}) {
        pm_setup setup = default_setup();
        setup.wait = wait;
        open(setup);
        ASSERT_EQ(send(1, nothing), PM_OK);
        progress();  // something arrived: the count starts again
        EXPECT_EQ(steps_until_sleep(many) < many, sleeps) << wait;
        close();
    }
}

TEST_F(Core, AMessageStartsTheCountOfIdlePollsAgain)
{
    pm_setup setup = default_setup();
    setup.wait = "sleep";  // without yields, which are limited by time, too
    open(setup);
    ASSERT_EQ(send(1, nothing), PM_OK);
    progress();
    unsigned steps = steps_until_sleep(20'000);
    ASSERT_GT(steps, 0u);
    EXPECT_EQ(steps_until_sleep(20'000), 0u) << "nothing arrived since";
    ASSERT_EQ(send(1, nothing), PM_OK);
    progress();
    EXPECT_EQ(steps_until_sleep(20'000), steps);
}

TEST_F(Core, ArmsOnlyWhenNothingHasArrived)
{
    TimeLimit limit(60);
    open();
    EXPECT_TRUE(pm_wait_arm(core));
    ASSERT_EQ(send(1, nothing), PM_OK);
    pm_wait_sleep(core, 0);  // returns: it rang
    pm_wait_disarm(core);
    EXPECT_FALSE(pm_wait_arm(core));
    pm_wait_disarm(core);
    progress();
    EXPECT_EQ(received.size(), 1u);
    EXPECT_TRUE(pm_wait_arm(core));
    pm_wait_sleep(core, 1);  // nobody rings: a nap ends by itself
    pm_wait_disarm(core);
}

// MPI_THREAD_MULTIPLE: all calls but pm_wait_*() under one lock. Two threads wait for what a third one sends to the process
// itself, a few at a time, so that they find nothing most of the time. The thread sanitizer looks on.
TEST_F(Core, ThreadsWaitWithoutTheLock)
{
    TimeLimit limit(120);
    pm_setup setup = default_setup();
    setup.wait = "sleep";
    setup.ranks_on_host = 10'000;
    open(setup);
    pm_allow_threads(core);
    ASSERT_TRUE(pm_crowded(core));  // also: the plan is made while there is one thread, as in MPI_Init
    const std::uint32_t messages = 4'000 / pm::test::slowdown;
    const auto long_payload = pattern(6, 400'000);  // is queued
    std::mutex lock;
    std::atomic<std::uint32_t> arrivals{0};
    auto wait = [&] {
        while (arrivals.load() < messages) {
            int done = 0;
            {
                std::lock_guard guard(lock);
                done = pm_progress(core);
                arrivals.store(static_cast<std::uint32_t>(received.size()));
            }
            EXPECT_GE(done, 0);
            if (done == 0 && pm_wait_step(core)) {
                if (pm_wait_arm(core) && arrivals.load() < messages)
                    pm_wait_sleep(core, 1);
                pm_wait_disarm(core);
            }
        }
    };
    std::thread first(wait), second(wait);
    for (std::uint32_t number = 0; number < messages; ++number) {
        {
            std::lock_guard guard(lock);
            EXPECT_NE(send(number, number % 16 == 0 ? long_payload : nothing), PM_FAILED);
        }
        while (number % 4 == 0 && arrivals.load() < number)
            sched_yield();
    }
    first.join();
    second.join();
    progress();
    ASSERT_EQ(received.size(), messages);
    for (std::uint32_t number = 0; number < messages; ++number) {
        EXPECT_EQ(received[number]->header.number, number);
        EXPECT_TRUE(received[number]->complete());
    }
}

// MPI_THREAD_MULTIPLE: sending has gates of its own, so threads send while another one, with the lock that all others take, lets go on.
// Each sender's messages come in its order, also those that had to be queued. Whoever sends at once does it without a lock, too.
void threads_send(const char *devices)
{
    TimeLimit limit(120);
    constexpr std::uint32_t senders = 3;
    const std::uint32_t messages = 3'000 / pm::test::slowdown;
    const auto long_payload = pattern(6, 300'000);  // is queued
    pm_allow_threads(core);
    std::atomic<std::uint32_t> next_to_end{0};
    std::vector<std::thread> threads;
    for (std::uint32_t sender = 0; sender < senders; ++sender)
        threads.emplace_back([&, sender] {
            for (std::uint32_t i = 0; i < messages; ++i)
                EXPECT_NE(send(sender * 1'000'000 + i, i % 32 == 0 ? long_payload : nothing), PM_FAILED) << devices;
            next_to_end.fetch_add(1);
        });
    int done = 0;
    while (next_to_end.load() < senders || done != 0 || pm_sends_queued(core) || received.size() < senders * messages) {
        done = pm_progress(core);
        ASSERT_GE(done, 0) << pm_error_text();
    }
    for (std::thread &thread : threads)
        thread.join();
    std::uint32_t next[senders] = {};
    for (const auto &message : received) {
        std::uint32_t sender = message->header.number / 1'000'000, number = message->header.number % 1'000'000;
        ASSERT_LT(sender, senders);
        EXPECT_EQ(number, next[sender]++) << devices << ", sender " << sender;
        EXPECT_TRUE(message->complete());
    }
    EXPECT_EQ(received.size(), senders * messages);
}

TEST_F(Core, ThreadsSendWhileAnotherLetsGoOnOverSharedMemory)
{
    pm_setup setup = default_setup();
    setup.devices = "shmem";
    open(setup);
    threads_send(setup.devices);
}

TEST_F(Core, ThreadsSendWhileAnotherLetsGoOnOverUdp)
{
    pm_setup setup = default_setup();
    setup.devices = "udp";
    open(setup);
    threads_send(setup.devices);
}

#ifdef PM_HAVE_UCX
TEST_F(Core, ThreadsSendWhileAnotherLetsGoOnOverUcx)
{
    pm_setup setup = default_setup();
    setup.devices = "ucx";
    setup.networks = "network here ucx lo";
    open(setup);
    threads_send(setup.devices);
}
#endif

// For one send, if there are threads: nobody else is in the device meanwhile.
TEST_F(Core, WhoSendsHasTheGateOfTheDeviceIfThereAreThreads)
{
    TimeLimit limit(60);
    open();
    pm::Gate &gate = self->used->channel->gate();
    auto another_may_enter = [&] {
        bool entered = false;
        std::thread([&] {
            entered = gate.try_enter();
            if (entered)
                gate.leave();
        }).join();
        return entered;
    };
    {
        pm::InsideGateOf inside(self);
        ASSERT_TRUE(another_may_enter()) << "one thread needs no gate";
    }
    pm_allow_threads(core);
    {
        pm::InsideGateOf inside(self);
        EXPECT_FALSE(another_may_enter());
    }
    EXPECT_TRUE(another_may_enter());
}

// A gate keeps threads apart, and lets in again who is inside.
TEST(Gate, OneThreadIsInsideAtATime)
{
    pm::Gate gate;
    std::uint64_t count = 0;  // not atomic: the thread sanitizer looks on
    constexpr std::uint64_t rounds = 20'000;
    auto enter = [&](bool tries) {
        for (std::uint64_t i = 0; i < rounds; ++i) {
            if (tries)
                while (!gate.try_enter())
                    sched_yield();
            pm::InsideGate outside_in(gate);
            std::uint64_t before = count;
            {
                pm::InsideGate again(gate);
                count = before + 1;
            }
            if (tries)
                gate.leave();
        }
    };
    std::thread first(enter, false), second(enter, true), third(enter, false);
    first.join();
    second.join();
    third.join();
    EXPECT_EQ(count, 3 * rounds);
}

TEST(Gate, WhoIsOutsideCannotTry)
{
    pm::Gate gate;
    gate.enter();
    bool entered = true;
    std::thread([&] { entered = gate.try_enter(); }).join();
    EXPECT_FALSE(entered);
    gate.leave();
    std::thread([&] {
        entered = gate.try_enter();
        gate.leave();
    }).join();
    EXPECT_TRUE(entered);
}

// ---- two processes: the queue of one peer does not hold up another's --------------------------------------------------

TEST_F(Core, APeerThatDoesNotReadHoldsUpNobodyElse)
{
    struct Board {
        char cards[2][PM_CARD_MAX];
        size_t sizes[2];
        pm::test::Counter opened, finished;
    };
    pm::test::Shared<Board> board;
    pm::test::Processes(3, 60, [&](unsigned number) {
        open();
        if (number < 2)
            board->sizes[number] = pm_card(core, board->cards[number]);
        board->opened.meet(3);
        if (number == 0) {
            board->finished.wait_for(1);  // reads nothing
            return;
        }
        auto payload = pattern(7, 300'000);
        if (number == 1) {
            while (received.size() < 30 || !received.back()->complete()) {
                ASSERT_GE(pm_progress(core), 0);
                sched_yield();
            }
            for (std::uint32_t i = 0; i < 30; ++i) {
                EXPECT_EQ(received[i]->header.number, i);
                EXPECT_TRUE(received[i]->payload == payload);
            }
            board->finished.add();
            return;
        }
        pm_peer *silent = pm_connect(core, board->cards[0], board->sizes[0]);
        pm_peer *reader = pm_connect(core, board->cards[1], board->sizes[1]);
        ASSERT_TRUE(silent != nullptr && reader != nullptr) << pm_error_text();
        for (std::uint32_t i = 0; i < 30; ++i) {
            self = silent;
            ASSERT_EQ(send(i, payload, nullptr), PM_QUEUED);
            self = reader;
            ASSERT_NE(send(i, payload, nullptr), PM_FAILED);
        }
        while (board->finished.value() == 0) {
            ASSERT_GE(pm_progress(core), 0);
            sched_yield();
        }
        EXPECT_TRUE(pm_sends_queued(core));
    }).wait();
}

// ---- two cores in one process: nothing of one is the other's ---------------------------------------------------------

class TwoCores : public testing::Test {
  protected:
    using Got = std::vector<std::pair<pm_peer *, std::string>>;  // sources and headers
    struct End {
        pm_core *core = nullptr;
        pm_peer *other = nullptr;
        Got got;
        std::size_t bytes = 0;
        unsigned sent = 0;
    };

    TwoCores() { current_ = this; }
    ~TwoCores() override
    {
        close(0);
        close(1);
    }

    void open(const std::string &device)
    {
        const std::string networks = device == "shmem" ? "auto" : "network here " + device + " lo";
        for (int number : {0, 1}) {
            pm_setup setup = default_setup();
            setup.devices = device.c_str();
            setup.networks = networks.c_str();
            setup.process = number;
            ends_[number] = {};
            ASSERT_NE(ends_[number].core = pm_open(&setup), nullptr) << pm_error_text();
            pm_handler handler{};
            handler.name = "test";
            handler.arrived = arrived;
            handler.more = [](void *end, void *, size_t piece_size) { static_cast<End *>(end)->bytes += piece_size; };
            handler.sent = [](void *end) { static_cast<End *>(end)->sent++; };
            ASSERT_EQ(pm_handle(ends_[number].core, 1, &handler), PM_OK) << pm_error_text();
            if (number == 0) {
                ASSERT_EQ(pm_handle(ends_[number].core, 2, &handler), PM_OK) << pm_error_text();
            }
        }
        for (int number : {0, 1})
            ASSERT_NE(ends_[number].other = connect(number, 1 - number), nullptr) << pm_error_text();
    }
    pm_peer *connect(int from, int to)
    {
        char card[PM_CARD_MAX];
        size_t size = pm_card(ends_[to].core, card);
        return pm_connect(ends_[from].core, card, size);
    }
    void close(int number)
    {
        if (ends_[number].core != nullptr)
            pm_close(ends_[number].core);
        ends_[number].core = nullptr;
    }
    // At both ends that are there, until something is so.
    template <class Condition>
    void progress_until(Condition condition)
    {
        while (!condition())
            for (End &end : ends_)
                if (end.core != nullptr) {
                    ASSERT_GE(pm_progress(end.core), 0) << pm_error_text();
                }
    }
    bool nothing_waits() { return !pm_sends_queued(ends_[0].core) && !pm_sends_queued(ends_[1].core); }
    static pm_traffic traffic(const End &end, const std::string &device)
    {
        pm_traffic devices[PM_DEVICES_MAX];
        int count = pm_get_traffic(end.core, devices);
        return *std::find_if(devices, devices + count, [&](const pm_traffic &each) { return device == each.device; });
    }

    End ends_[2];

  private:
    // It is told which core, and so knows whose it is.
    static void *arrived(pm_core *at, const pm_envelope *envelope, void *, size_t piece_size, size_t)
    {
        for (End &end : current_->ends_) {
            if (end.core != at)
                continue;
            end.got.emplace_back(envelope->source, std::string(static_cast<char *>(envelope->header), envelope->header_size));
            end.bytes += piece_size;
            return &end;
        }
        ADD_FAILURE() << "of no core";
        return nullptr;
    }

    inline static TwoCores *current_ = nullptr;
    TimeLimit limit_{60};
};

TEST_F(TwoCores, TalkToEachOtherInBothDirections)
{
    const auto large = pattern(9, 1'000'000);
    for (const std::string &device : pm::known_devices()) {
        open(device);
        if (HasFatalFailure())
            return;
        EXPECT_NE(ends_[0].other, ends_[1].other);
        unsigned queued[2] = {0, 0};
        for (int number : {0, 1})
            for (const char *header : {"one", "two", "three"}) {
                std::size_t size = header[1] == 'w' ? large.size() : 10 + static_cast<std::size_t>(number);
                int status = pm_send(ends_[number].other, 1, header, std::strlen(header), large.data(), size, &ends_[number]);
                ASSERT_NE(status, PM_FAILED) << pm_error_text();
                queued[number] += status == PM_QUEUED;
            }
        const std::size_t bytes[] = {large.size() + 22, large.size() + 20};  // what the other sent
        progress_until([&] { return ends_[0].bytes == bytes[0] && ends_[1].bytes == bytes[1] && nothing_waits(); });
        for (int number : {0, 1}) {
            const End &end = ends_[number];
            EXPECT_EQ(end.got, (Got{{end.other, "one"}, {end.other, "two"}, {end.other, "three"}})) << device << ", core " << number;
            EXPECT_EQ(end.sent, queued[number]) << device;
            EXPECT_EQ(traffic(end, device).messages_sent, 3u) << device;
            EXPECT_EQ(traffic(end, device).bytes_received, bytes[number]) << device;
        }
        close(0);
        close(1);
    }
}

TEST_F(TwoCores, HaveTheirOwnHandlersQueuesAndErrors)
{
    const auto large = pattern(10, 5'000'000);
    for (const std::string &device : pm::known_devices()) {
        open(device);
        if (HasFatalFailure())
            return;
        // Only the first has a handler for this tag.
        ASSERT_NE(pm_send(ends_[0].other, 2, "x", 1, nullptr, 0, nullptr), PM_FAILED) << pm_error_text();
        ASSERT_NE(pm_send(ends_[1].other, 2, "x", 1, nullptr, 0, nullptr), PM_FAILED) << pm_error_text();
        progress_until([&] { return traffic(ends_[1], device).messages_dropped == 1 && ends_[0].got.size() == 1; });
        EXPECT_EQ(traffic(ends_[0], device).messages_dropped, 0u) << device;
        EXPECT_TRUE(ends_[1].got.empty()) << device;
        progress_until([&] { return nothing_waits(); });
        // What waits at one does not wait at the other.
        ASSERT_NE(pm_send(ends_[0].other, 1, "x", 1, large.data(), large.size(), nullptr), PM_FAILED) << pm_error_text();
        EXPECT_TRUE(pm_sends_queued(ends_[0].core)) << device;
        EXPECT_FALSE(pm_sends_queued(ends_[1].core)) << device;
        progress_until([&] { return ends_[1].bytes == large.size() && !pm_sends_queued(ends_[0].core); });
        pm_give_up(ends_[0].core, "enough");
        EXPECT_EQ(pm_progress(ends_[0].core), -1) << device;
        EXPECT_STREQ(pm_error_text(), "enough") << device;
        EXPECT_GE(pm_progress(ends_[1].core), 0) << device << ": " << pm_error_text();
        close(0);
        close(1);
    }
}

TEST_F(TwoCores, OneLivesOnWhenTheOtherIsClosed)
{
    for (const std::string &device : pm::known_devices())
        for (int first : {0, 1}) {
            open(device);
            if (HasFatalFailure())
                return;
            for (int number : {0, 1})
                ASSERT_NE(pm_send(ends_[number].other, 1, "x", 1, nullptr, 0, nullptr), PM_FAILED) << pm_error_text();
            progress_until([&] { return ends_[0].got.size() == 1 && ends_[1].got.size() == 1 && nothing_waits(); });
            End &left = ends_[1 - first];
            pm_release(left.other);
            close(first);
            pm_peer *itself = connect(1 - first, 1 - first);
            ASSERT_NE(itself, nullptr) << device << ": " << pm_error_text();
            ASSERT_NE(pm_send(itself, 1, "y", 1, nullptr, 0, nullptr), PM_FAILED) << pm_error_text();
            progress_until([&] { return left.got.size() == 2; });
            EXPECT_EQ(left.got.back(), std::pair(itself, std::string("y"))) << device;
            close(1 - first);
        }
}

}  // namespace
