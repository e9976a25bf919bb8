// What the kernel tells of packets that were sent before reaches who asked, whichever call it comes with.
#include "netmod/udp/io/socket.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <memory>
#include <string>

#include "support/private_network.h"

namespace pm::udp {
namespace {

std::unique_ptr<Socket> make_socket()
{
    SocketSettings settings;
    settings.v6 = false;
    settings.ports = {0, 0};
    auto socket = Socket::create(settings);
    EXPECT_TRUE(socket.ok());
    return std::move(socket.value());
}

std::uint16_t closed_port()
{
    return make_socket()->port();
}

class UdpSocket : public testing::Test {
  protected:
    void SetUp() override
    {
        if (std::string reason = test::enter_private_network(); !reason.empty())
            GTEST_SKIP() << reason;
        socket_ = make_socket();
        other_ = make_socket();
    }

    void send(std::uint16_t port)
    {
        Transmission transmission;
        transmission.to = Address::v4({127, 0, 0, 1}, port);
        transmission.pieces = {{bytes_.data(), bytes_.size()}};
        transmission.size = transmission.segment = bytes_.size();
        EXPECT_TRUE(socket_->send(transmission));
    }

    void wait_for_trouble()
    {
        pollfd entry{socket_->descriptor(), 0, 0};
        ASSERT_EQ(poll(&entry, 1, 10000), 1);
        EXPECT_TRUE(entry.revents & POLLERR);
    }

    unsigned refusals_of(std::uint16_t port)
    {
        unsigned count = 0;
        for (int looks = 0; looks < 3; ++looks)
            socket_->receive({}, [](auto &&...) {}, [&](const Socket::Trouble &trouble) {
                count += trouble.to.port == port && trouble.quoted.has_value();
            });
        return count;
    }

    std::unique_ptr<Socket> socket_, other_;
    std::array<std::byte, sizeof(Header)> bytes_{};
};

TEST_F(UdpSocket, APacketThatIsRefusedIsTold)
{
    std::uint16_t port = closed_port();
    send(port);
    wait_for_trouble();
    EXPECT_EQ(refusals_of(port), 1u);
}

TEST_F(UdpSocket, APacketThatIsRefusedIsToldThoughAnotherWasSentMeanwhile)
{
    std::uint16_t port = closed_port();
    send(port);
    wait_for_trouble();
    send(other_->port());
    EXPECT_EQ(refusals_of(port), 1u);
}

}  // namespace
}  // namespace pm::udp
