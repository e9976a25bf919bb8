// PM(UDP) under the conformance suite: as it comes, and with everything else that can be chosen.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "conform/conformance.h"
#include "netmod/udp/udp.h"
#include "support/private_network.h"
#include "support/sanitizers.h"
#include "support/time_limit.h"

namespace pm::conform {
namespace {

template <bool plain>
struct UdpKit {
    using Device = udp::Udp;
    static constexpr const char *name = plain ? "one_by_one_mac_go_back_n" : "trains_token_selective";
    static constexpr std::size_t bytes_in_flight = 0;
    static constexpr unsigned rounds_of_disconnecting = 200;
    static constexpr std::size_t heap_of_a_parted_peer = 256;  // it is remembered for a while
    static constexpr bool asks_for_places = true;
    static constexpr std::size_t silent_peer_limit = 2048;
    static constexpr unsigned descriptors_of_a_silent_peer = 0;
    static constexpr bool keeps_descriptors = false;
    static constexpr bool gives_back_descriptors = true;

    static std::string prepare() { return test::enter_private_network(); }

    static Result<std::unique_ptr<Device>> create(const Sink &sink)
    {
        udp::Settings settings;
        settings.silence_limit = test::slowdown > 8 ? 20s : 3s;  // forty processes under the thread sanitizer answer late
        settings.contact_patience = 0;
        if (plain) {
            settings.guard = "mac";
            settings.recovery = "go_back_n";
            settings.segmentation = "off";
        }
        return Device::create(settings, sink);
    }

    static std::vector<std::size_t> edges()
    {
        constexpr std::size_t room = 1200 - sizeof(udp::Header);
        return {room - 16, room, 2 * room, udp::Incoming::gather_limit, udp::Udp::whole_limit, udp::Outgoing::whole_copy_limit, 65000 - sizeof(udp::Header),
                udp::Outgoing::rest_copy_limit};
    }

    static std::size_t memory(const Device &) { return 0; }
};

using UdpKits = testing::Types<UdpKit<false>, UdpKit<true>>;
PM_CONFORMANCE(Udp, UdpKits);
INSTANTIATE_TYPED_TEST_SUITE_P(Udp, DeathNoticed, UdpKits, KitNames);

// ---- who cannot seal ----

// Its card says so: nobody waits for the answer that never comes.
TEST(UdpGuards, APeerThatCannotSealIsAnErrorAtOnce)
{
    if (std::string why = test::enter_private_network(); !why.empty())
        GTEST_SKIP() << why;
    if (!udp::can_seal())
        GTEST_SKIP() << "built without libsodium";
    for (const char *guard : {"seal", "mac"}) {
        udp::Settings settings;
        settings.guard = guard;
        auto device = udp::Udp::create(settings, Sink{}), other = udp::Udp::create({}, Sink{});
        ASSERT_TRUE(device.ok() && other.ok());
        std::byte bytes[udp::Card::max_size];
        std::size_t size = other.value()->write_card(bytes);
        EXPECT_TRUE(device.value()->connect(bytes, size).ok());
        auto card = *udp::Card::read({bytes, size});
        card.secret->front() ^= 1;  // of another
        card.seals = false;
        auto peer = device.value()->connect(bytes, card.write(bytes));
        EXPECT_EQ(peer.ok(), std::string(guard) == "mac");
        if (!peer.ok()) {
            EXPECT_EQ(peer.error().status, Status::unreachable);
            EXPECT_NE(peer.error().text.find("was built without libsodium"), std::string::npos) << peer.error().text;
        }
    }
}

// ---- strangers ----

// One who knows where a process listens, and nothing else.
class Stranger {
  public:
    explicit Stranger(const udp::Udp &device)
    {
        std::byte bytes[udp::Card::max_size];
        card_ = *udp::Card::read({bytes, device.write_card(bytes)});
    }
    ~Stranger() { ::close(socket_); }

    void send(const char *ip, std::span<const std::byte> bytes) const
    {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(card_.addresses.front().port);
        inet_pton(AF_INET, ip, &to.sin_addr);
        ::sendto(socket_, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr *>(&to), sizeof to);
    }
    const udp::Card &card() const { return card_; }

  private:
    int socket_ = ::socket(AF_INET, SOCK_DGRAM, 0);
    udp::Card card_;
};

std::unique_ptr<udp::Udp> listener()
{
    udp::Settings settings;
    settings.silence_limit = 400ms;  // its caretaker looks every 50 ms
    auto device = udp::Udp::create(settings, Sink{});
    return device.ok() ? std::move(device.value()) : nullptr;
}

std::vector<std::byte> alien_data()
{
    udp::Header header;
    header.kind_and_flags = static_cast<std::uint8_t>(udp::Kind::data);
    header.body_size = 1000;
    std::vector<std::byte> bytes(sizeof header + 1000);
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
}

TEST(UdpStrangersAtTheSocket, OnlyAddressesThatAreOfferedAreListenedOn)
{
    if (std::string why = test::enter_private_network(); !why.empty())
        GTEST_SKIP() << why;
    auto device = listener();
    ASSERT_NE(device, nullptr);
    ASSERT_EQ(device->addresses().front().ip_text(), "127.0.0.1");
    Stranger stranger(*device);
    for (int i = 0; i < 10; ++i)
        stranger.send("127.0.0.2", alien_data());
    stranger.send("127.0.0.1", alien_data());  // after the others, so they have been there
    test::TimeLimit limit(20);
    while (device->counters().datagrams_received == 0)
        device->poll();
    device->poll();
    EXPECT_EQ(device->counters().datagrams_received, 1u);
    EXPECT_EQ(device->counters().alien, 1u);
}

// The caretaker throws them away; the owner may never look.
TEST(UdpStrangersAtTheSocket, TheirPacketsAreNotKeptForTheOwner)
{
    if (std::string why = test::enter_private_network(); !why.empty())
        GTEST_SKIP() << why;
    auto device = listener(), other = listener();
    ASSERT_TRUE(device != nullptr && other != nullptr);
    Stranger stranger(*device);
    std::byte card[udp::Card::max_size];
    ASSERT_TRUE(device->connect(card, other->write_card(card)).ok());  // has a caretaker from now on
    test::TimeLimit limit(20);
    for (int i = 0; i < 50; ++i)
        stranger.send("127.0.0.1", alien_data());
    while (device->counters().alien < 50)
        std::this_thread::yield();
    EXPECT_GT(device->sleep_limit(), std::chrono::nanoseconds::zero()) << "nothing waits for the owner";
}

TEST(UdpStrangersAtTheSocket, AFloodDoesNotKeepTheOwnerOut)
{
    if (std::string why = test::enter_private_network(); !why.empty())
        GTEST_SKIP() << why;
    auto device = listener(), other = listener();
    ASSERT_TRUE(device != nullptr && other != nullptr);
    std::byte card[udp::Card::max_size];
    ASSERT_TRUE(device->connect(card, other->write_card(card)).ok());
    std::atomic<bool> over{false};
    std::vector<std::thread> flood;
    for (int i = 0; i < 4; ++i)
        flood.emplace_back([&] {
            Stranger stranger(*device);
            std::vector<std::byte> bytes = alien_data();
            while (!over)
                stranger.send("127.0.0.1", bytes);
        });
    // The caretaker is at work when the owner wants its socket.
    test::TimeLimit limit(60);
    for (int i = 0; i < 5; ++i) {
        std::uint64_t before = device->counters().datagrams_received;
        while (device->counters().datagrams_received == before)
            std::this_thread::yield();
        device->poll();
    }
    over = true;
    for (std::thread &thread : flood)
        thread.join();
}

}  // namespace
}  // namespace pm::conform
