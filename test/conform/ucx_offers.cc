// Messages that are offered over PM(UCX): they begin in their place among the others, are taken in any order, and hold up nobody.
#include <cstring>
#include <map>

#include "conform/ucx_kit.h"
#include "support/pattern.h"

namespace pm::conform {
namespace {

// One receiver in a process.
struct Received {
    std::vector<std::pair<int, void *>> began;  // number of the message, and its offer or null
    std::map<int, bool> placed, taken;
} received;
constexpr int offer_tag = 7, unwanted = 1000;
pm_peer *expected_source;

void *arrived(void *, const Envelope &envelope, void *, std::size_t, std::size_t)
{
    int number;
    std::memcpy(&number, envelope.header, sizeof number);
    received.began.emplace_back(number, nullptr);
    return nullptr;
}
void more(void *, int, void *, void *, std::size_t) {}
void *place(void *, int, void *)
{
    return nullptr;
}
void placed(void *, int tag, void *cookie)
{
    EXPECT_EQ(tag, offer_tag);
    received.placed[static_cast<int>(reinterpret_cast<std::intptr_t>(cookie))] = true;
}
bool offered(void *, const Envelope &envelope, void *offer, std::size_t)
{
    int number;
    std::memcpy(&number, envelope.header, sizeof number);
    EXPECT_EQ(envelope.tag, offer_tag);
    EXPECT_EQ(envelope.header_size, sizeof number);
    EXPECT_EQ(envelope.source, expected_source);
    if (number == unwanted)
        return false;
    received.began.emplace_back(number, offer);
    return true;
}
void taken(void *, int tag, void *cookie)
{
    EXPECT_EQ(tag, offer_tag);
    received.taken[static_cast<int>(reinterpret_cast<std::intptr_t>(cookie))] = true;
}

template <class Kit>
struct OfferKit : Kit {
    static Result<std::unique_ptr<ucx::Ucx>> create(const Sink &)
    {
        return ucx::Ucx::create({}, {nullptr, arrived, more, place, placed, offered, taken});
    }
};

template <class Kit>
class UcxOffers : public Team<OfferKit<Kit>> {};
TYPED_TEST_SUITE(UcxOffers, UcxKits, KitNames);

void *cookie_of(int number)
{
    return reinterpret_cast<void *>(static_cast<std::intptr_t>(number));
}

constexpr int count = 20;
constexpr std::size_t size = 300'000;

TYPED_TEST(UcxOffers, AreTakenInAnyOrder)
{
    this->run(2, [](auto &self) {
        received = {};
        expected_source = self.inbox.source_of(1 - self.number);
        auto *peer = self.connect(1 - self.number);
        std::vector<std::vector<std::byte>> payloads, copies(count, std::vector<std::byte>(size));
        if (self.number == 0) {
            for (int i = 0; i < count; ++i)
                payloads.push_back(test::pattern(static_cast<std::uint64_t>(i), size));
            for (int i = 0; i < count; ++i) {
                // Every other message is a short one.
                int number = 2 * i;
                Message offer{offer_tag, &number, sizeof number, {payloads[i].data(), size, nullptr, nullptr}, true};
                while (self.device().offer(peer, offer, cookie_of(i)) == Status::again)
                    self.poll();
                number = 2 * i + 1;
                Message small{1, &number, sizeof number, {payloads[i].data(), 8, nullptr, nullptr}};
                SendProgress progress;
                while (self.device().try_send(peer, small, &progress) == Status::again)
                    self.poll();
            }
            self.poll_until([&] { return received.taken.size() == count; });
            self.meet_polling();
            return;
        }
        self.poll_until([&] { return received.began.size() == 2 * count; });
        for (int i = 0; i < 2 * count; ++i) {
            EXPECT_EQ(received.began[i].first, i) << "they begin in order";
            EXPECT_EQ(received.began[i].second != nullptr, i % 2 == 0);
        }
        for (int i = count - 1; i >= 0; --i) {
            static_cast<Offer *>(received.began[2 * i].second)->take(copies[i].data(), cookie_of(i));
            if (i % 3 == 0)
                self.poll_until([&] { return received.placed.size() == static_cast<std::size_t>(count - i); });
        }
        self.poll_until([&] { return received.placed.size() == count; });
        for (int i = 0; i < count; ++i)
            EXPECT_EQ(test::first_difference(static_cast<std::uint64_t>(i), 0, copies[i].data(), size), test::no_difference) << i;
        self.meet_polling();
    });
}

// What the receiver does not want is nobody's business any more: an offer that it refuses, and a long message without a cookie.
TYPED_TEST(UcxOffers, ThatAreNotWantedAreOverForTheirSender)
{
    this->run(2, [](auto &self) {
        received = {};
        expected_source = self.inbox.source_of(1 - self.number);
        if (self.number == 1) {
            self.poll_until([&] { return received.began.size() == 2; });
            EXPECT_EQ(received.began[0].first, 1) << "the long one that arrived without being taken";
            EXPECT_EQ(received.began[1].first, 2);
            EXPECT_TRUE(received.placed.empty());
            return self.meet_polling();
        }
        auto *peer = self.connect(1);
        auto payload = test::pattern(1, size);
        int number = unwanted;
        Message offer{offer_tag, &number, sizeof number, {payload.data(), size, nullptr, nullptr}, true};
        while (self.device().offer(peer, offer, cookie_of(3)) == Status::again)
            self.poll();
        for (std::size_t length : {size, std::size_t{8}}) {
            number = length == size ? 1 : 2;
            Message message{1, &number, sizeof number, {payload.data(), length, nullptr, nullptr}};
            SendProgress progress;
            while (self.device().try_send(peer, message, &progress) == Status::again)
                self.poll();
        }
        self.poll_until([&] { return received.taken.contains(3) && self.device().idle(); });
        self.meet_polling();
    });
}

}  // namespace
}  // namespace pm::conform
