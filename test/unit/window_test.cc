// Windows as MPICH's C code sees them, of a process whose other rank is itself: over a network that does things alone, or as a neighbour whose
// memory it does not see.
#include "coll/window/window.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/tuning.h"
#include "coll/window/direct.h"
#include "coll/window/engine.h"
#include "coll/window/errands.h"
#include "coll/window/one_sided.h"
#include "netmod/core/shared.h"
#include "netmod/core/state.h"
#include "support/core_setup.h"
#include "support/loop_device.h"
#include "support/time_limit.h"

namespace pm::coll {
namespace {

using test::LoopNetwork;

constexpr int ranks = 2, self = 0, other = 1;
constexpr std::size_t bytes = 2 * PM_LONG_WRITE;

class Windows : public testing::Test {
  protected:
    ~Windows() override
    {
        for (pm_window *each : opened_)
            pm_window_close(each);
        if (core_ == nullptr)
            return;
        pm_windows_close();
        EXPECT_EQ(pm_counters_armed, 0u);
        pm_close(core_);
    }

    // The other is reached over the network, if there is one.
    void start(const char *way = "auto", std::vector<LoopNetwork> networks = {})
    {
        const bool is_far = !networks.empty();
        networks_ = std::make_unique<test::LoopNetworks>(std::move(networks));
        pm_setup setup = test::plain_setup();
        setup.devices = "shmem";
        ASSERT_NE(core_ = pm_open(&setup), nullptr) << pm_error_text();
        ASSERT_EQ(pm_windows_open(core_, way), PM_OK) << pm_error_text();
        std::vector<std::byte> card(PM_CARD_MAX);
        card.resize(pm_card(core_, card.data()));
        if (is_far) {
            Card without = *Card::read(card);
            without.shmem.clear();
            card = without.write();
        }
        ASSERT_NE(peer_ = pm_connect(core_, card.data(), card.size()), nullptr) << pm_error_text();
    }
    struct Part {
        pm_window *window;
        std::array<std::byte, PM_WINDOW_CARD_MAX> card;
    };
    Part open(std::uint64_t id, int rank, std::vector<std::byte> *memory, std::uint64_t unit = 1, int size_of_group = ranks, std::size_t skipped = 0)
    {
        Part part{};
        std::size_t size = 0;
        pm_window_setup setup{id, size_of_group, rank, memory->data() + skipped, memory->size() - skipped, unit, this, peer_of, memory_of, 1, 1};
        part.window = pm_window_open(&setup, part.card.data(), &size);
        opened_.push_back(part.window);
        return part;
    }
    static void meet(const Part &one, const Part &two)
    {
        for (const Part *each : {&one, &two}) {
            pm_window_meet(each->window, self, one.card.data());
            pm_window_meet(each->window, other, two.card.data());
        }
    }
    // The windows of both ranks. Each has another name, since they are of one process: no message of one is for the other.
    void open_both(std::uint64_t unit = 1)
    {
        Part one = open(1, self, &memory_, unit), two = open(2, other, &its_memory_, unit);
        meet(one, two);
        window_ = one.window;
        its_window_ = two.window;
    }
    static LoopNetwork able()
    {
        LoopNetwork network{"fabric"};
        network.is_able = true;
        return network;
    }
    LoopNetwork &network() { return (*networks_)[0]; }

    static pm_peer *peer_of(void *context, int) { return static_cast<Windows *>(context)->peer_; }
    static void *memory_of(void *context, int, std::uint64_t base, std::uint64_t)
    {
        return static_cast<Windows *>(context)->sees_all_ ? reinterpret_cast<void *>(base) : nullptr;
    }

    test::TimeLimit limit_{60};
    bool sees_all_ = false;  // parts of others
    std::unique_ptr<test::LoopNetworks> networks_;
    pm_core *core_ = nullptr;
    pm_peer *peer_ = nullptr;
    std::vector<std::byte> memory_ = std::vector<std::byte>(bytes), its_memory_ = std::vector<std::byte>(bytes);
    pm_window *window_ = nullptr, *its_window_ = nullptr;
    std::vector<pm_window *> opened_;
};

constexpr pm_after notify(int value)
{
    return {PM_AFTER_NOTIFY, value, 0, 0};
}
constexpr pm_after count(int value)
{
    return {PM_AFTER_COUNT, value, 0, 0};
}

TEST_F(Windows, AnUnknownWayIsAnErrorThatListsTheKnownWords)
{
    start();
    pm_windows_close();
    EXPECT_EQ(pm_windows_open(core_, "pigeon"), PM_FAILED);
    EXPECT_NE(std::string(pm_error_text()).find("\"pigeon\" of MPIR_CVAR_CH4_COMPOSITE_NOTIFY; known are auto, message, put"), std::string::npos) << pm_error_text();
}

TEST_F(Windows, APartHoldsWhatIsBetweenItsEnds)
{
    start();
    open_both();
    for (int rank : {self, other}) {
        EXPECT_TRUE(pm_window_holds(window_, rank, 0, bytes));
        EXPECT_TRUE(pm_window_holds(window_, rank, bytes, 0));
        EXPECT_TRUE(pm_window_holds(window_, rank, bytes - 1, 1));
        EXPECT_FALSE(pm_window_holds(window_, rank, bytes, 1));
        EXPECT_FALSE(pm_window_holds(window_, rank, bytes + 1, 0));
        EXPECT_FALSE(pm_window_holds(window_, rank, 1, bytes));
        EXPECT_FALSE(pm_window_holds(window_, rank, ~std::uint64_t{0}, 2));
    }
}

TEST_F(Windows, ADisplacementThatIsNoPlaceIsBeyondTheEnd)
{
    start();
    open_both(8);
    constexpr std::uint64_t beyond = std::uint64_t{1} << 63;
    EXPECT_EQ(pm_window_offset(window_, other, 0), 0u);
    EXPECT_EQ(pm_window_offset(window_, other, 3), 24u);
    EXPECT_EQ(pm_window_offset(window_, other, -1), beyond);
    EXPECT_EQ(pm_window_offset(window_, other, INT64_MAX), beyond);
    EXPECT_EQ(pm_window_offset(window_, other, INT64_MAX / 8 + 1), beyond);
    EXPECT_EQ(pm_window_offset(window_, other, INT64_MAX / 8), std::uint64_t{INT64_MAX} - 7);
}

TEST_F(Windows, AFlagIsWhereAnIntMayBe)
{
    start();
    open_both();
    auto start_of = reinterpret_cast<std::uintptr_t>(its_memory_.data());
    for (std::uint64_t offset = 0; offset < 8; ++offset)
        EXPECT_EQ(pm_window_is_aligned(window_, other, offset) != 0, (start_of + offset) % alignof(int) == 0) << offset;
}

TEST_F(Windows, ANotificationIsTakenOnce)
{
    start();
    open_both();
    const pm_after five = notify(5), seven = count(7);
    int value = 42, which = -1;
    EXPECT_EQ(pm_window_take_any(window_, 0, 8, &which), 0);
    EXPECT_EQ(pm_window_store(window_, self, 16, &value, sizeof value, &five), 1);
    EXPECT_EQ(std::memcmp(memory_.data() + 16, &value, sizeof value), 0);
    EXPECT_EQ(pm_window_take_any(window_, 0, 5, &which), 0);
    EXPECT_EQ(pm_window_take_any(window_, 6, 2, &which), 0);
    EXPECT_EQ(which, -1);
    EXPECT_EQ(pm_window_take_any(window_, 4, 2, &which), 1);
    EXPECT_EQ(which, 5);
    EXPECT_EQ(pm_window_take_any(window_, 0, 8, &which), 0);
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(pm_window_store(window_, self, 0, nullptr, 0, &seven), 1);
    EXPECT_EQ(pm_window_take_count(window_, 7, 3), 0);
    EXPECT_EQ(pm_window_take_count(window_, 6, 1), 0);
    EXPECT_EQ(pm_window_take_count(window_, 7, 2), 1);
    EXPECT_EQ(pm_window_take_count(window_, 7, 1), 0);
}

TEST_F(Windows, WhatIsFoundStartsTheCountOfIdlePollsAgain)
{
    start();
    open_both();
    const pm_after five = notify(5);
    int which = -1;
    pm::waiter.idle_polls = 9;
    EXPECT_EQ(pm_window_take_count(window_, 1, 1), 0);
    EXPECT_EQ(pm::waiter.idle_polls, 9u);
    pm_window_store(window_, self, 0, nullptr, 0, &five);
    EXPECT_EQ(pm_window_take_any(window_, 5, 1, &which), 1);
    EXPECT_EQ(pm::waiter.idle_polls, 0u);
}

TEST_F(Windows, AnArmedCounterSetsItsFlagWhenSoManyHaveCome)
{
    start();
    open_both();
    const std::size_t before = pm_counters_armed;
    volatile int flag = -1, another = -1;
    const pm_after seven = count(7);
    EXPECT_EQ(pm_window_arm(window_, 7, 2, &flag), 1);
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(pm_counters_armed, before + 1);
    EXPECT_EQ(pm_window_arm(window_, 7, 1, &another), 0);
    EXPECT_TRUE(pm_window_is_armed(window_, 7));
    EXPECT_FALSE(pm_window_is_armed(window_, 6));
    for (int i = 0; i < 2; ++i) {
        pm_windows_poll();
        EXPECT_EQ(flag, 0);
        pm_window_store(window_, self, 0, nullptr, 0, &seven);
    }
    pm_windows_poll();
    EXPECT_EQ(flag, 1);
    EXPECT_FALSE(pm_window_is_armed(window_, 7));
    EXPECT_EQ(pm_counters_armed, before);
}

TEST_F(Windows, WhatIsNotWantedIsDiscardedIfItMayBe)
{
    start();
    open_both();
    const pm_after may{PM_AFTER_NOTIFY, 1, 0, 1}, must = notify(1);
    int value = 42, which = 0;
    pm_window_discard(window_, 1);
    EXPECT_EQ(pm_window_store(window_, self, 0, &value, sizeof value, &may), 1);
    EXPECT_EQ(memory_[0], std::byte{0});
    EXPECT_EQ(pm_window_take_any(window_, 1, 1, &which), 0);
    EXPECT_EQ(pm_window_store(window_, self, 0, &value, sizeof value, &must), 1);
    EXPECT_EQ(memory_[0], std::byte{42});
    pm_window_discard(window_, 0);
    EXPECT_EQ(pm_window_store(window_, self, 4, &value, sizeof value, &may), 1);
    EXPECT_EQ(memory_[4], std::byte{42});
}

// A device that counts by itself is seen only by looking: more often where that is cheap.
TEST_F(Windows, LooksOftenOnlyWhereAllAreNear)
{
    start();
    open_both();
    ASSERT_FALSE(pm_crowded(core_));
    EXPECT_EQ(pm_window_looks(window_), 1);
    window_->near = true;
    EXPECT_EQ(pm_window_looks(window_), PM_LOOKS_BETWEEN_PROGRESS);
}

// --- what devices do alone ---

class WindowsOverAFabric : public Windows, public testing::WithParamInterface<const char *> {};

TEST_P(WindowsOverAFabric, AWriteThatNotifiesGoesTheWayThatTheSettingSays)
{
    const std::string way = GetParam();
    start(GetParam(), {able()});
    open_both();
    ASSERT_TRUE(pm_window_is_one_sided(window_));
    std::vector<std::byte> data(PM_LONG_WRITE + 1, std::byte{7});
    const pm_after five = notify(5), eight = count(8), nothing{PM_AFTER_NOTHING, 0, 0, 0};
    for (std::size_t size : {std::size_t{1}, std::size_t{PM_LONG_WRITE}, std::size_t{PM_LONG_WRITE} + 1}) {
        const bool is_put = way == "put" || (way == "auto" && size > PM_LONG_WRITE);
        const unsigned puts = network().put;
        int which = 0;
        ASSERT_EQ(pm_window_put(window_, other, 3, data.data(), size, &five, 1), PM_OK);
        EXPECT_EQ(network().put - puts, is_put ? 1u : 0u) << size;
        EXPECT_EQ(pm_window_take_any(its_window_, 5, 1, &which), is_put) << size;
        ASSERT_EQ(pm_window_put(window_, other, 3, data.data(), size, &eight, 1), PM_OK);
        EXPECT_EQ(pm_window_take_count(its_window_, 8, 1), is_put) << size;
        EXPECT_EQ(its_memory_[2 + size], is_put ? std::byte{7} : std::byte{0});
        EXPECT_EQ(its_memory_[3 + size], std::byte{0});
        EXPECT_EQ(its_memory_[2], std::byte{0});
    }
    const unsigned puts = network().put;
    ASSERT_EQ(pm_window_put(window_, other, 0, data.data(), data.size(), &five, 0), PM_OK) << "a part of an operation";
    ASSERT_EQ(pm_window_put(window_, other, 0, data.data(), data.size(), &nothing, 1), PM_OK);
    EXPECT_EQ(network().put, puts);
    while (pm_progress(core_) != 0) {
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, WindowsOverAFabric, testing::Values("auto", "message", "put"), [](const auto &info) { return std::string(info.param); });

TEST_F(Windows, WhatADeviceDoesAloneIsDoneWhenItSaysSo)
{
    start("auto", {able()});
    open_both();
    std::vector<std::byte> data(PM_SHORT_MOVE + 1, std::byte{7}), back(data.size());
    EXPECT_EQ(pm_window_alone_done(window_), 1);
    network().is_finished = false;
    EXPECT_EQ(pm_window_put_alone(window_, other, 8, data.data(), 1), PM_OK);
    EXPECT_EQ(its_memory_[8], std::byte{7});
    EXPECT_EQ(pm_window_alone_done(window_), 0);
    network().is_finished = true;
    EXPECT_EQ(pm_window_alone_done(window_), 1);
    network().is_finished = false;
    EXPECT_EQ(pm_window_alone_done(window_), 1) << "nothing was begun since";
    EXPECT_EQ(pm_window_get_alone(window_, other, 8, back.data(), 1), PM_OK);
    EXPECT_EQ(back[0], std::byte{7});
    EXPECT_EQ(pm_window_alone_done(window_), 0);
    // To ourselves there is nothing to do alone.
    EXPECT_EQ(pm_window_put_alone(window_, self, 0, data.data(), data.size()), PM_QUEUED);
    EXPECT_EQ(pm_window_get_alone(window_, self, 0, back.data(), back.size()), PM_QUEUED);
}

TEST_F(Windows, WhatIsShortIsSentWhereTheTargetHasToHelpAnyway)
{
    start("auto", {able()});
    open_both();
    network().needs_nobody = false;
    std::vector<std::byte> data(PM_SHORT_MOVE + 1, std::byte{7});
    EXPECT_EQ(pm_window_put_alone(window_, other, 0, data.data(), PM_SHORT_MOVE), PM_QUEUED);
    EXPECT_EQ(pm_window_get_alone(window_, other, 0, data.data(), PM_SHORT_MOVE), PM_QUEUED);
    EXPECT_EQ(its_memory_[0], std::byte{0});
    EXPECT_EQ(pm_window_put_alone(window_, other, 0, data.data(), PM_SHORT_MOVE + 1), PM_OK);
    EXPECT_EQ(its_memory_[0], std::byte{7});
    EXPECT_EQ(pm_window_get_alone(window_, other, 0, data.data(), PM_SHORT_MOVE + 1), PM_OK);
}

// In the card of another: where its part is, how long its key is, and the key, of which each network's says its name and length first.
TEST_F(Windows, AKeyIsReadToTheLastByteItHasRoomFor)
{
    start("auto", {able()});
    for (std::uint64_t size : {std::uint64_t{0}, std::uint64_t{PM_MEMORY_KEY_MAX}, std::uint64_t{PM_MEMORY_KEY_MAX} + 1, ~std::uint64_t{0}}) {
        Part one = open(1, self, &memory_), two = open(2, other, &its_memory_);
        const std::uint64_t key[] = {reinterpret_cast<std::uint64_t>(its_memory_.data()), size, peer_->used->network_id, PM_MEMORY_KEY_MAX - 16};
        std::memcpy(two.card.data() + PM_WINDOW_CARD, key, sizeof key);
        meet(one, two);
        EXPECT_EQ(one.window->targets[other].part != nullptr, size == PM_MEMORY_KEY_MAX) << size;
        EXPECT_NE(one.window->targets[other].counts, nullptr);
        for (pm_window *each : std::exchange(opened_, {}))
            pm_window_close(each);
    }
}

// --- neighbours ---

// The other rank is this process again, with the same part, which is read and written by the kernel; or with mailboxes that nobody serves.
class Neighbours : public Windows {
  protected:
    void open_direct(bool are_served, std::size_t skipped = 0)
    {
        start();
        Part one = open(1, self, &memory_, 1, ranks, skipped);
        if (are_served) {
            boxes_ = reinterpret_cast<Mailboxes *>(open_mailboxes(core_));
        } else {
            void *block = pm_shared_alloc(core_, PM_SHARED_LIMIT);
            ASSERT_NE(block, nullptr);
            std::memset(block, 0, sizeof(Mailboxes));
            boxes_ = new (block) Mailboxes;
        }
        ASSERT_NE(boxes_, nullptr);
        pm_window_meet(one.window, self, one.card.data());
        auto address = reinterpret_cast<std::uint64_t>(boxes_);
        std::memcpy(one.card.data() + PM_WINDOW_CARD - sizeof address, &address, sizeof address);
        pm_window_meet(one.window, other, one.card.data());
        window_ = one.window;
        EXPECT_FALSE(pm_window_agreed(window_));
        if (!pm_window_say(window_, 0))
            GTEST_SKIP() << "the kernel does not let a process read memory";
        EXPECT_TRUE(pm_window_agreed(window_));
        direct_ = pm_window_make_direct(window_);
        ASSERT_NE(direct_, nullptr);
        ASSERT_EQ(direct_->by_instructions != 0, sees_all_);
        ASSERT_EQ(window_->targets[other].errands != nullptr, !sees_all_) << "who sees the memory asks nobody";
    }
    // Of the same memory, whose errands go to the same mailboxes.
    pm_window *open_another(std::uint64_t id)
    {
        Part one = open(id, self, &memory_);
        pm_window_meet(one.window, self, one.card.data());
        auto address = reinterpret_cast<std::uint64_t>(boxes_);
        std::memcpy(one.card.data() + PM_WINDOW_CARD - sizeof address, &address, sizeof address);
        pm_window_meet(one.window, other, one.card.data());
        return pm_window_say(one.window, 0) && pm_window_make_direct(one.window) != nullptr ? one.window : nullptr;
    }
    long value(std::size_t offset)
    {
        long value;
        std::memcpy(&value, memory_.data() + offset, sizeof value);
        return value;
    }
    // As another process asks. Answers whether it was done.
    bool ask_us(Errand::Head head, long operand = 0) { return ask_us(head, &operand, sizeof operand); }
    bool ask_us(Errand::Head head, const void *data, std::size_t size)
    {
        Mailbox *box = boxes_->claim();
        if (box == nullptr) {
            ADD_FAILURE() << "no mailbox is free";
            return false;
        }
        ErrandRunner runner(boxes_, box);
        Errand &errand = runner.next();
        errand.head = head;
        errand.refused = 2;
        std::memcpy(errand.data.data(), data, size);
        runner.post();
        pm_windows_poll();
        EXPECT_TRUE(runner.is_settled());
        EXPECT_NE(errand.refused, 2);
        runner.release();
        return errand.refused == 0;
    }
    static Errand::Head head(Errand::Kind kind, std::uint64_t offset, std::uint32_t size, int element = PM_INT64, int operation = PM_SUM)
    {
        return {1, offset, other, size, kind, static_cast<std::uint8_t>(element), static_cast<std::uint8_t>(operation), other};
    }
    // The same with pieces of its memory. Answers whether they were copied.
    bool ask_us_to_move(Errand::Kind kind, const std::vector<Piece> &pieces, std::uint32_t size, int origin = other)
    {
        Errand::Head asked = head(kind, 0, size);
        asked.origin = static_cast<std::uint8_t>(origin);
        return ask_us(asked, pieces.data(), pieces.size() * sizeof(Piece));
    }
    bool ask_us_to_move(Errand::Kind kind, const Piece &piece) { return ask_us_to_move(kind, {piece}, sizeof piece); }

    Mailboxes *boxes_ = nullptr;
    pm_direct *direct_ = nullptr;
};

class ErrandsOfNeighbours : public Neighbours, public testing::WithParamInterface<bool> {
  protected:
    void SetUp() override { open_direct(GetParam()); }
};

TEST_P(ErrandsOfNeighbours, AreDoneWhenTheyAreSettledByOneSideOrTheOther)
{
    long put = 5, compare = 12, swapped = -1, seen[3] = {-1, -1, -1};
    ASSERT_EQ(pm_errand_put(window_, other, 16, &put, sizeof put), 1);
    EXPECT_EQ(value(16), 0) << "nobody has looked";
    EXPECT_EQ(direct_->unsettled, 1);
    ASSERT_EQ(pm_errand_get(window_, other, 16, &seen[0], sizeof seen[0]), 1);
    put = 7;
    ASSERT_EQ(pm_errand_apply(window_, other, 16, PM_INT64, PM_SUM, &put, &seen[1], sizeof put), 1);
    ASSERT_EQ(pm_errand_swap(window_, other, 16, PM_INT64, &swapped, &compare, &seen[2]), 1);
    EXPECT_EQ(pm_errands_settle(window_), 1);
    EXPECT_EQ(direct_->unsettled, 0);
    EXPECT_EQ(value(16), -1);
    EXPECT_EQ(seen[0], 5);
    EXPECT_EQ(seen[1], 5);
    EXPECT_EQ(seen[2], 12);
    EXPECT_EQ(value(8), 0);
    EXPECT_EQ(value(24), 0);
}

TEST_P(ErrandsOfNeighbours, AreAsManyAsOneLikes)
{
    std::vector<long> seen(100, -1);
    long one = 1;
    for (long &each : seen)
        if (pm_errand_apply(window_, other, 0, PM_INT64, PM_SUM, &one, &each, sizeof one) != 1) {
            // It was not worth it: as the caller does it.
            ASSERT_EQ(pm_direct_read(window_, other, 0, &each, sizeof each), 1);
            long next = each + 1;
            ASSERT_EQ(pm_direct_write(window_, other, 0, &next, sizeof next), 1);
        }
    EXPECT_EQ(pm_errands_settle(window_), 1);
    for (std::size_t i = 0; i < seen.size(); ++i)
        EXPECT_EQ(seen[i], static_cast<long>(i));
    EXPECT_EQ(value(0), 100);
}

TEST_P(ErrandsOfNeighbours, ChangeElementsInAllStripesThatTheyTouch)
{
    std::vector<long> ones(PM_ERRAND_MAX / sizeof(long), 1), seen(ones.size(), -1);
    ASSERT_EQ(pm_errand_apply(window_, other, 8, PM_INT64, PM_SUM, ones.data(), seen.data(), PM_ERRAND_MAX), 1);
    EXPECT_EQ(pm_errands_settle(window_), 1);
    EXPECT_EQ(value(0), 0);
    for (std::size_t i = 0; i < ones.size(); ++i)
        EXPECT_EQ(value(8 + 8 * i), 1) << i;
    EXPECT_EQ(value(8 + PM_ERRAND_MAX), 0);
    EXPECT_EQ(seen, std::vector<long>(ones.size(), 0));
    for (auto &stripe : window_->board->epochs.stripes)
        EXPECT_EQ(stripe.load(), 0u);
}

TEST_P(ErrandsOfNeighbours, AreNotForWhatIsLongOrComesAloneAndIsNotShort)
{
    std::vector<std::byte> data(PM_ERRAND_MAX + 1, std::byte{3});
    EXPECT_EQ(pm_errand_put(window_, other, 0, data.data(), PM_ERRAND_MOVE + 1), 0);
    EXPECT_EQ(pm_errand_put(window_, other, 0, data.data(), PM_ERRAND_MOVE + 1), 1) << "the second: many may follow";
    EXPECT_EQ(pm_errand_get(window_, other, 0, data.data(), PM_ERRAND_MOVE), 1);
    EXPECT_EQ(pm_errand_put(window_, other, 0, data.data(), PM_ERRAND_MAX + 1), 1) << "it is gathered";
    EXPECT_EQ(pm_errand_put(window_, self, 0, data.data(), 1), 0) << "ourselves we do not ask";
    EXPECT_EQ(pm_errands_settle(window_), 1);
    EXPECT_EQ(pm_errand_put(window_, other, 0, data.data(), PM_ERRAND_MAX + 1), 0) << "alone";
    EXPECT_EQ(pm_errands_settle(window_), 1);
}

std::vector<std::byte> pattern(std::size_t size)
{
    std::vector<std::byte> made(size);
    for (std::size_t i = 0; i < size; ++i)
        made[i] = static_cast<std::byte>(i % 251);
    return made;
}

TEST_P(ErrandsOfNeighbours, AreSharedWhenTheyAreLong)
{
    const std::vector<std::byte> data = pattern(bytes - 3);
    std::vector<std::byte> seen(data.size());
    ASSERT_EQ(pm_errand_put(window_, other, 3, data.data(), data.size()), 1);
    EXPECT_EQ(pm_errands_settle(window_), 1);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), memory_.begin() + 3));
    EXPECT_EQ(memory_[2], std::byte{0});
    ASSERT_EQ(pm_errand_get(window_, other, 3, seen.data(), seen.size()), 1);
    EXPECT_EQ(pm_errands_settle(window_), 1);
    EXPECT_EQ(seen, data);
    EXPECT_EQ(direct_->unsettled, 0);
}

TEST_P(ErrandsOfNeighbours, WhatFailedIsToldThoughSomethingShortFollows)
{
    const auto *nowhere = reinterpret_cast<const void *>(1);
    long one = 1;
    ASSERT_EQ(pm_errand_put(window_, other, 0, nowhere, PM_SHARE_LEAST + 8), 1) << "it is gathered";
    int followed = pm_errand_put(window_, other, 0, &one, sizeof one);
    EXPECT_TRUE(followed == -1 || pm_errands_settle(window_) == -1);
}

TEST_P(ErrandsOfNeighbours, AreGatheredWhenTheyAreMany)
{
    constexpr std::size_t size = PM_ERRAND_MAX + 9;
    const std::vector<std::byte> data = pattern(bytes / size * size);
    std::vector<std::byte> seen(data.size());
    for (std::size_t at = 0; at < data.size(); at += size)
        if (pm_errand_put(window_, other, at, data.data() + at, size) == 0)
            ASSERT_EQ(pm_direct_write(window_, other, at, data.data() + at, size), 1);
    EXPECT_EQ(memory_[data.size() - 1], std::byte{0}) << "the last one waits for others";
    // What goes the other way, and what changes elements, comes after them.
    ASSERT_EQ(pm_errand_get(window_, other, data.size() - size, seen.data(), size), 1);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), memory_.begin()));
    for (std::size_t at = size; at < seen.size(); at += size)
        ASSERT_EQ(pm_errand_get(window_, other, at, seen.data() + at, size), 1);
    long one = 1, before = 0, expected;
    std::memcpy(&expected, data.data() + 8, sizeof expected);
    if (pm_errand_apply(window_, other, 8, PM_INT64, PM_SUM, &one, &before, sizeof one) != 1)
        ASSERT_EQ(pm_direct_read(window_, other, 8, &before, sizeof before), 1);
    EXPECT_EQ(pm_errands_settle(window_), 1);
    EXPECT_EQ(before, expected);
    EXPECT_TRUE(std::equal(data.begin() + size, data.end(), seen.begin() + size));
    EXPECT_TRUE(std::equal(seen.begin(), seen.begin() + size, data.end() - size));
}

// An element may begin with the last byte of a stripe.
class ErrandsAtAnOddAddress : public Neighbours, public testing::WithParamInterface<bool> {
  protected:
    void SetUp() override { open_direct(GetParam(), 1); }
};

TEST_P(ErrandsAtAnOddAddress, ChangeElementsThatReachIntoTheNextStripe)
{
    std::vector<long> ones(PM_ERRAND_MAX / sizeof(long), 1), seen(ones.size(), -1);
    ASSERT_EQ(pm_errand_apply(window_, other, 7, PM_INT64, PM_SUM, ones.data(), seen.data(), PM_ERRAND_MAX), 1);
    EXPECT_EQ(pm_errands_settle(window_), 1);
    EXPECT_EQ(value(0), 0);
    for (std::size_t i = 0; i < ones.size(); ++i)
        EXPECT_EQ(value(8 + 8 * i), 1) << i;
    EXPECT_EQ(value(8 + PM_ERRAND_MAX), 0);
}

INSTANTIATE_TEST_SUITE_P(Neighbours, ErrandsAtAnOddAddress, testing::Bool(), [](const auto &info) { return info.param ? "ThatLook" : "ThatDoNot"; });
INSTANTIATE_TEST_SUITE_P(Neighbours, ErrandsOfNeighbours, testing::Bool(), [](const auto &info) { return info.param ? "ThatLook" : "ThatDoNot"; });

TEST_F(Neighbours, WhatMakesSenseIsDone)
{
    ASSERT_NO_FATAL_FAILURE(open_direct(true));
    if (IsSkipped())
        return;
    using Kind = Errand::Kind;
    EXPECT_TRUE(ask_us(head(Kind::put, 8, 8), 77));
    EXPECT_EQ(value(8), 77);
    EXPECT_TRUE(ask_us(head(Kind::put, bytes - 8, 8), 78));
    EXPECT_EQ(value(bytes - 8), 78);
    EXPECT_TRUE(ask_us(head(Kind::get, 3, Errand::data_max)));
    EXPECT_TRUE(ask_us(head(Kind::get, bytes, 0)) == false) << "nothing is not asked for";
    EXPECT_TRUE(ask_us(head(Kind::apply, 8, 8), 3));
    EXPECT_EQ(value(8), 80);
    EXPECT_TRUE(ask_us(head(Kind::apply, 4, 4, PM_INT32), 1));
}

TEST_F(Neighbours, PiecesOfAnotherAreCopiedWhereTheyFit)
{
    ASSERT_NO_FATAL_FAILURE(open_direct(true));
    if (IsSkipped())
        return;
    using Kind = Errand::Kind;
    std::vector<std::byte> its = pattern(100);
    const auto address = reinterpret_cast<std::uint64_t>(its.data());
    EXPECT_TRUE(ask_us_to_move(Kind::pull, {{address, 8, 50}, {address + 50, bytes - 50, 50}}, 2 * sizeof(Piece)));
    EXPECT_TRUE(std::equal(its.begin(), its.begin() + 50, memory_.begin() + 8));
    EXPECT_TRUE(std::equal(its.begin() + 50, its.end(), memory_.end() - 50));
    EXPECT_TRUE(ask_us_to_move(Kind::push, {address, bytes - 50, 50}));
    EXPECT_EQ(its[0], its[50]);
    const std::vector<std::byte> before = memory_;
    EXPECT_FALSE(ask_us_to_move(Kind::pull, {address, bytes - 9, 10}));
    EXPECT_FALSE(ask_us_to_move(Kind::pull, {address, bytes + 1, 1}));
    EXPECT_FALSE(ask_us_to_move(Kind::pull, {address, 0, ~std::uint64_t{0}}));
    EXPECT_FALSE(ask_us_to_move(Kind::pull, {address, 1, ~std::uint64_t{0}}));
    EXPECT_FALSE(ask_us_to_move(Kind::pull, {1, 0, 8})) << "nothing is there";
    EXPECT_FALSE(ask_us_to_move(Kind::pull, {{address, 0, 8}}, sizeof(Piece) - 1));
    EXPECT_FALSE(ask_us_to_move(Kind::pull, {{address, 0, 8}}, ~0u / sizeof(Piece) * sizeof(Piece)));
    EXPECT_FALSE(ask_us_to_move(Kind::pull, {{address, 0, 8}}, sizeof(Piece), self)) << "our own we copy ourselves";
    EXPECT_FALSE(ask_us_to_move(Kind::pull, {{address, 0, 8}}, sizeof(Piece), ranks));
    EXPECT_EQ(memory_, before);
}

// It is another process that writes it.
TEST_F(Neighbours, WhatMakesNoSenseIsRefusedAndChangesNothing)
{
    ASSERT_NO_FATAL_FAILURE(open_direct(true));
    if (IsSkipped())
        return;
    open(2, self, &its_memory_);  // one that is not direct
    using Kind = Errand::Kind;
    Errand::Head unknown_window = head(Kind::put, 0, 8), plain_window = unknown_window;
    unknown_window.window = 99;
    plain_window.window = 2;
    const std::vector<std::byte> before = memory_;
    for (Errand::Head each : {head(Kind::put, bytes, 1), head(Kind::put, bytes - 7, 8), head(Kind::put, bytes + 1, 1), head(Kind::put, ~std::uint64_t{0}, 8),
                              head(Kind::put, 0, 0), head(Kind::put, 0, Errand::data_max + 1), head(Kind::put, 0, ~0u),
                              head(Kind::apply, 4, 8), head(Kind::apply, 0, 12), head(Kind::apply, 0, 8, PM_ELEMENT_OTHER), head(Kind::apply, 0, 8, PM_ELEMENTS),
                              head(Kind::apply, 0, 8, 255), head(Kind::apply, 0, 8, PM_INT64, PM_OPERATIONS), head(Kind::swap, 0, 16),
                              head(static_cast<Kind>(6), 0, 8), head(static_cast<Kind>(255), 0, 8), unknown_window, plain_window})
        EXPECT_FALSE(ask_us(each, -1)) << "kind " << static_cast<int>(each.kind) << ", offset " << each.offset << ", size " << each.size << ", element "
                                       << static_cast<int>(each.element) << ", operation " << static_cast<int>(each.operation) << ", window " << each.window;
    EXPECT_EQ(memory_, before);
}

// Windows that nobody else knows of share a mailbox there.
TEST_F(Neighbours, WhatFailedIsToldOfItsOwnWindowOnly)
{
    ASSERT_NO_FATAL_FAILURE(open_direct(false));
    if (IsSkipped())
        return;
    pm_window *first = window_, *second = open_another(2);
    ASSERT_NE(second, nullptr);
    const auto *nowhere = reinterpret_cast<const void *>(1);
    long one = 1;
    ASSERT_EQ(pm_errand_put(second, other, 0, &one, sizeof one), 1);
    ASSERT_EQ(pm_errand_put(first, other, 0, nowhere, PM_SHARE_LEAST + 8), 1) << "it is gathered";
    EXPECT_EQ(pm_errands_settle(second), 1);
    EXPECT_EQ(pm_errands_settle(first), -1);
    EXPECT_EQ(pm_errands_settle(first), 1) << "it is told once";
}

TEST_F(Neighbours, NothingOfAWindowIsLeftWhenItIsClosed)
{
    ASSERT_NO_FATAL_FAILURE(open_direct(false));
    if (IsSkipped())
        return;
    pm_window *second = open_another(2);
    ASSERT_NE(second, nullptr);
    long five = 5, seen = -1;
    ASSERT_EQ(pm_errand_put(second, other, 16, &five, sizeof five), 1);
    ASSERT_EQ(pm_errand_get(second, other, 16, &seen, sizeof seen), 1);
    std::erase(opened_, second);
    pm_window_close(second);
    EXPECT_EQ(value(16), 5);
    EXPECT_EQ(seen, 5);
    EXPECT_EQ(pm_errands_settle(window_), 1);
}

// What we left with another stands in its memory: it may be something else when we take it back.
TEST_F(Neighbours, WhatTheTargetMadeNonsenseOfIsAnErrorAndChangesNothing)
{
    ASSERT_NO_FATAL_FAILURE(open_direct(false));
    if (IsSkipped())
        return;
    open(2, self, &its_memory_);  // one that is not direct
    using Kind = Errand::Kind;
    Errand::Head ourselves = head(Kind::apply, 0, 8), nobody = ourselves, plain_window = ourselves, unknown_window = ourselves;
    ourselves.rank = self;
    nobody.rank = ranks;
    plain_window.window = 2;
    unknown_window.window = 99;
    const std::vector<std::byte> before = memory_;
    for (const Errand::Head &each : {ourselves, nobody, plain_window, unknown_window, head(Kind::put, bytes, 8), head(Kind::put, 0, 0)}) {
        // After one that it has let us wait for in vain some are not left with it.
        long data = 1;
        while (pm_errand_apply(window_, other, 0, PM_INT64, PM_NO_OPERATION, nullptr, &data, sizeof data) != 1) {
        }
        for (Errand &errand : boxes_->boxes[0].errands)
            errand.head = each;
        EXPECT_EQ(pm_errands_settle(window_), -1) << "rank " << each.rank << ", window " << each.window << ", size " << each.size;
        EXPECT_EQ(pm_errands_settle(window_), 1) << "it is told once";
    }
    EXPECT_EQ(memory_, before);
}

TEST_F(Neighbours, ALockIsGotByOneOrByThoseWhoShareIt)
{
    ASSERT_NO_FATAL_FAILURE(open_direct(true));
    if (IsSkipped())
        return;
    EXPECT_EQ(pm_direct_try_lock(window_, other, 1), 1);
    EXPECT_EQ(pm_direct_try_lock(window_, other, 0), 0);
    pm_direct_unlock(window_, other, 1);
    EXPECT_EQ(pm_direct_try_lock(window_, other, 0), 1);
    EXPECT_EQ(pm_direct_try_lock(window_, other, 1), 0);
    pm_direct_want_lock(window_, other, 1);
    EXPECT_EQ(pm_direct_try_lock(window_, other, 0), 0);
    pm_direct_want_lock(window_, other, 0);
    EXPECT_EQ(pm_direct_try_lock(window_, other, 0), 1);
    EpochBoard &board = window_->targets[other].board->epochs;
    pm_direct_falls_asleep(window_, other);
    EXPECT_EQ(board.asleep.load(), std::uint64_t{1} << self);
    // Ranks that there are not do not sleep, whatever is written there.
    board.asleep.store(~std::uint64_t{0});
    pm_direct_unlock(window_, other, 0);
    EXPECT_EQ(board.asleep.load(), ~std::uint64_t{0}) << "others have it";
    pm_direct_unlock(window_, other, 0);
    EXPECT_EQ(board.asleep.load(), 0u);
    EXPECT_EQ(pm_direct_try_lock(window_, other, 1), 1);
    pm_direct_unlock(window_, other, 1);
}

TEST_F(Neighbours, CountPostsCompletesAndFences)
{
    ASSERT_NO_FATAL_FAILURE(open_direct(true));
    if (IsSkipped())
        return;
    // What we tell the other stands on our board, since it is ours.
    EXPECT_EQ(pm_direct_posts(window_, self), 0u);
    pm_direct_post(window_, other);
    EXPECT_EQ(pm_direct_posts(window_, self), 1u);
    EXPECT_EQ(pm_direct_posts(window_, other), 0u);
    EXPECT_EQ(pm_direct_completes(window_, self), 0u);
    pm_direct_complete(window_, other);
    pm_direct_complete(window_, other);
    EXPECT_EQ(pm_direct_completes(window_, self), 2u);
    for (std::uint32_t fence = 1; fence < 4; ++fence) {
        EXPECT_EQ(pm_direct_arrive(window_), fence);
        EXPECT_EQ(pm_direct_fences(window_), fence - 1);
        window_->fences--;  // the other has not come to it yet
        EXPECT_EQ(pm_direct_arrive(window_), fence);
        EXPECT_EQ(pm_direct_fences(window_), fence);
    }
    EXPECT_FALSE(pm_direct_has_lost_one(window_));
}

TEST_F(Neighbours, OneIsAtAStripeAtATime)
{
    ASSERT_NO_FATAL_FAILURE(open_direct(true));
    if (IsSkipped())
        return;
    constexpr std::uint64_t stripe = PM_DIRECT_STRIPE_BYTES;
    EpochBoard &board = window_->targets[other].board->epochs;
    EXPECT_EQ(pm_direct_enter(window_, other, 0), stripe);
    EXPECT_EQ(board.stripes[0].load(), static_cast<std::uint32_t>(self) + 1);
    EXPECT_EQ(pm_direct_enter(window_, other, 2 * stripe - 1), 2 * stripe);
    pm_direct_leave(window_, other, 2 * stripe - 1);
    EXPECT_EQ(board.stripes[1].load(), 0u);
    pm_direct_leave(window_, other, stripe - 1);
    EXPECT_EQ(pm_direct_enter(window_, other, PM_DIRECT_STRIPES * stripe), (PM_DIRECT_STRIPES + 1) * stripe) << "they begin again";
    pm_direct_leave(window_, other, 0);
    // Nobody gives back what was taken in the name of a rank that there is not.
    for (std::uint32_t nobody : {std::uint32_t{ranks} + 1, ~0u}) {
        board.stripes[3].store(nobody);
        EXPECT_EQ(pm_direct_enter(window_, other, 3 * stripe), 0u);
    }
}

// Whoever is inside by an instruction is waited for.
TEST_F(Neighbours, StripesAreUsedWhenNobodyIsInsideByAnInstruction)
{
    sees_all_ = true;
    ASSERT_NO_FATAL_FAILURE(open_direct(true));
    if (direct_->parts[other].mode == nullptr)
        GTEST_SKIP() << "the kernel lets no processors pass barriers";
    EpochBoard &board = window_->targets[other].board->epochs;
    EXPECT_EQ(pm_direct_begin(direct_, other), 1);
    EXPECT_EQ(board.inside.load(), static_cast<std::uint32_t>(other) + 1);
    std::atomic<bool> has_left{false};
    std::thread inside([&] {
        while (board.mode.load() != EpochBoard::changing)
            std::this_thread::yield();
        has_left = true;
        pm_direct_end(direct_);
    });
    EXPECT_EQ(pm_direct_use_stripes(window_, other), 1);
    EXPECT_TRUE(has_left);
    inside.join();
    EXPECT_EQ(board.mode.load(), static_cast<std::uint32_t>(EpochBoard::by_stripes));
    EXPECT_EQ(pm_direct_begin(direct_, other), 0) << "not any more";
    EXPECT_EQ(board.inside.load(), 0u);
    EXPECT_EQ(pm_direct_use_stripes(window_, other), 1) << "once more";
}

TEST_F(Neighbours, AWindowOfAsManyRanksAsABoardHasPlacesForIsDirect)
{
    start();
    sees_all_ = true;
    for (int count : {epoch_ranks_max, epoch_ranks_max + 1}) {
        Part part = open(1, self, &memory_, 1, count);
        for (int rank = 0; rank < count; ++rank)
            pm_window_meet(part.window, rank, part.card.data());
        EXPECT_EQ(pm_window_say(part.window, 0), count == epoch_ranks_max) << count;
        opened_.clear();
        pm_window_close(part.window);
    }
}

TEST_F(Neighbours, WhatIsOutOfReachIsSaid)
{
    ASSERT_NO_FATAL_FAILURE(open_direct(true));
    if (IsSkipped())
        return;
    long data = 4, back = 0;
    EXPECT_EQ(pm_direct_write(window_, other, 24, &data, sizeof data), 1);
    EXPECT_EQ(value(24), 4);
    EXPECT_EQ(pm_direct_read(window_, other, 24, &back, sizeof back), 1);
    EXPECT_EQ(back, 4);
    window_->targets[other].base = 8;  // no page is there
    EXPECT_EQ(pm_direct_write(window_, other, 0, &data, sizeof data), 0);
    EXPECT_EQ(pm_direct_read(window_, other, 0, &back, sizeof back), 0);
}

}  // namespace
}  // namespace pm::coll
