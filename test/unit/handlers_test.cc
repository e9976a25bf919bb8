// The registry of handlers: who gets which messages, what they are told, and what is dropped before anybody gets it.
#include "netmod/core/handlers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "netmod/core/setup.h"
#include "netmod/routing/settings.h"
#include "support/core_setup.h"
#include "support/pattern.h"
#include "support/processes.h"
#include "support/time_limit.h"

namespace {

using pm::test::pattern;

constexpr std::size_t smallest = 12;

// What one handler got. There are two of them, which give the device the same cookie.
struct Got {
    std::vector<pm_envelope> envelopes;
    std::vector<std::string> headers;
    std::size_t bytes = 0, sent = 0;
};
Got got[2];
pm_core *core;  // of the test
int cookie;

template <int which>
pm_handler handler_of(const char *name, int for_strangers)
{
    pm_handler handler{};
    handler.name = name;
    handler.smallest_header = smallest;
    handler.for_strangers = for_strangers;
    handler.arrived = [](pm_core *, const pm_envelope *envelope, void *, size_t piece_size, size_t) -> void * {
        got[which].envelopes.push_back(*envelope);
        got[which].headers.emplace_back(static_cast<char *>(envelope->header), envelope->header_size);
        got[which].bytes += piece_size;
        return &cookie;
    };
    handler.more = [](void *given, void *, size_t piece_size) {
        EXPECT_EQ(given, &cookie);
        got[which].bytes += piece_size;
    };
    handler.sent = [](void *given) {
        EXPECT_EQ(given, &cookie);
        got[which].sent++;
    };
    return handler;
}

class Handlers : public testing::Test {
  protected:
    Handlers() { got[0] = got[1] = {}; }
    ~Handlers() override { close(); }

    void open(const std::string &device, int for_strangers = 0)
    {
        networks_ = device == "shmem" ? "auto" : "network here " + device + " lo";
        device_ = device;
        pm_setup setup = pm::test::plain_setup();
        setup.devices = device_.c_str();
        setup.networks = networks_.c_str();
        setup.udp_interfaces = "lo";
        ASSERT_NE(core = pm_open(&setup), nullptr) << pm_error_text();
        pm_handler first = handler_of<0>("first", for_strangers), second = handler_of<1>("second", for_strangers);
        ASSERT_EQ(pm_handle(core, 1, &first), PM_OK) << pm_error_text();
        ASSERT_EQ(pm_handle(core, 255, &second), PM_OK) << pm_error_text();
    }
    void close()
    {
        if (core != nullptr)
            pm_close(core);
        core = nullptr;
        got[0] = got[1] = {};
    }
    static pm_peer *connect_to_self()
    {
        char card[PM_CARD_MAX];
        return pm_connect(core, card, pm_card(core, card));
    }
    // Number of messages that were received and dropped.
    std::pair<std::size_t, std::size_t> arrivals() const
    {
        pm_traffic devices[PM_DEVICES_MAX];
        int count = pm_get_traffic(core, devices);
        auto found = std::find_if(devices, devices + count, [&](const pm_traffic &each) { return device_ == each.device; });
        return {found->messages_received, found->messages_dropped};
    }
    template <class Condition>
    static void progress_until(Condition condition)
    {
        while (!condition() || pm_sends_queued(core))
            ASSERT_GE(pm_progress(core), 0) << pm_error_text();
    }

    pm::test::TimeLimit limit_{120};
    std::string device_, networks_;
};

const std::string header(smallest + 20, 'h');
const auto large = pattern(1, 3'000'000);

TEST_F(Handlers, AreToldSourceAndSizeAndGetTheirOwnCookiesBack)
{
    for (const std::string &device : pm::known_devices()) {
        open(device);
        pm_peer *self = connect_to_self();
        ASSERT_NE(self, nullptr) << pm_error_text();
        std::size_t queued[2] = {0, 0};
        for (std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{20'000}, large.size()})
            for (int which : {0, 1}) {
                int status = pm_send(self, which == 0 ? 1 : 255, header.data(), smallest + size % 7, large.data(), size, &cookie);
                ASSERT_NE(status, PM_FAILED) << pm_error_text();
                queued[which] += status == PM_QUEUED;
            }
        progress_until([&] { return got[0].bytes == large.size() + 20'100 && got[1].bytes == got[0].bytes; });
        for (int which : {0, 1}) {
            ASSERT_EQ(got[which].envelopes.size(), 4u) << device;
            EXPECT_EQ(got[which].sent, queued[which]) << device;
            std::size_t number = 0;
            for (std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{20'000}, large.size()}) {
                const pm_envelope &envelope = got[which].envelopes[number];
                EXPECT_EQ(envelope.tag, which == 0 ? 1 : 255) << device;
                EXPECT_EQ(envelope.source, self) << device;
                EXPECT_EQ(got[which].headers[number++], header.substr(0, smallest + size % 7)) << device;
            }
        }
        EXPECT_EQ(arrivals(), std::pair(std::size_t{8}, std::size_t{0})) << device;
        close();
    }
}

TEST_F(Handlers, UnknownTagsAndShortHeadersAreDroppedAndCounted)
{
    for (const std::string &device : pm::known_devices()) {
        open(device);
        pm_peer *self = connect_to_self();
        ASSERT_NE(self, nullptr) << pm_error_text();
        std::size_t dropped = 0;
        for (std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{20'000}, large.size()}) {
            ASSERT_NE(pm_send(self, 2, header.data(), header.size(), large.data(), size, nullptr), PM_FAILED);
            ASSERT_NE(pm_send(self, 254, header.data(), 0, large.data(), size, nullptr), PM_FAILED);
            ASSERT_NE(pm_send(self, 1, header.data(), smallest - 1, large.data(), size, nullptr), PM_FAILED);
            dropped += 3;
        }
        ASSERT_NE(pm_send(self, 1, header.data(), smallest, large.data(), large.size(), nullptr), PM_FAILED);
        progress_until([&] { return got[0].bytes == large.size(); });
        EXPECT_EQ(got[0].envelopes.size(), 1u) << device;
        EXPECT_TRUE(got[1].envelopes.empty()) << device;
        EXPECT_EQ(arrivals(), std::pair(std::size_t{1}, dropped)) << device;
        size_t size = 0;
        void *description = pm_describe(core, &self, 1, &size);
        char *text = pm_render(description, &size, 1, nullptr, "json");
        EXPECT_NE(std::string(text).find("12 messages for nobody dropped"), std::string::npos) << text;
        std::free(text);
        std::free(description);
        close();
    }
}

// The other process connects to us, and we to it only after its second message.
TEST_F(Handlers, AStrangerIsHeardByThoseWhoWantItAndBecomesAPeer)
{
    struct Board {
        char cards[2][PM_CARD_MAX];
        size_t sizes[2];
        pm::test::Counter opened, heard, ended;
    };
    for (const std::string &device : pm::known_devices())
        for (int for_strangers : {0, 1}) {
            pm::test::Shared<Board> board;
            pm::test::Processes(2, 60, [&](unsigned number) {
                open(device, for_strangers);
                board->sizes[number] = pm_card(core, board->cards[number]);
                board->opened.meet(2);
                // Who ends first is missed by the other, but nothing is left to do.
                auto end = [&] {
                    board->ended.add();
                    while (board->ended.value() < 2)
                        pm_progress(core);
                };
                if (number == 0) {
                    pm_peer *other = pm_connect(core, board->cards[1], board->sizes[1]);
                    ASSERT_NE(other, nullptr) << pm_error_text();
                    for (unsigned i = 0; i < 3; ++i) {
                        progress_until([&] { return board->heard.value() >= (i < 2 ? 0 : 1); });
                        std::size_t size = i == 1 ? large.size() : 8;
                        ASSERT_NE(pm_send(other, 1, header.data(), smallest, large.data(), size, nullptr), PM_FAILED);
                    }
                    progress_until([] { return true; });
                    return end();
                }
                auto arrived = [&] { return arrivals().first + arrivals().second; };
                progress_until([&] { return arrived() == 2 && (for_strangers == 0 || got[0].bytes == large.size() + 8); });
                EXPECT_EQ(arrivals().first, for_strangers ? 2u : 0u) << device;
                for (const pm_envelope &envelope : got[0].envelopes)
                    EXPECT_EQ(envelope.source, nullptr) << device;
                pm_peer *other = pm_connect(core, board->cards[0], board->sizes[0]);
                ASSERT_NE(other, nullptr) << pm_error_text();
                board->heard.add();
                progress_until([&] { return arrived() == 3; });
                ASSERT_FALSE(got[0].envelopes.empty()) << device;
                EXPECT_EQ(got[0].envelopes.back().source, other) << device;
                end();
            }).wait();
        }
}

TEST_F(Handlers, ATagHasOneHandler)
{
    open("shmem");
    pm_handler third = handler_of<0>("third", 0);
    EXPECT_EQ(pm_handle(core, 255, &third), PM_FAILED);
    for (const char *word : {"255", "second", "third"})
        EXPECT_NE(std::string(pm_error_text()).find(word), std::string::npos) << pm_error_text();
    for (int tag : {-1, 256})
        EXPECT_EQ(pm_handle(core, tag, &third), PM_FAILED) << tag;
    EXPECT_EQ(pm_handle(core, 0, &third), PM_OK);
    close();
    const std::string before = pm_error_text();
    EXPECT_EQ(pm_handle(core, 0, &third), PM_FAILED);
    EXPECT_EQ(pm_error_text(), before) << "who did not open has said why";
    open("shmem");
    EXPECT_EQ(pm_handle(core, 0, &third), PM_OK) << "who closes forgets all";
}

}  // namespace
