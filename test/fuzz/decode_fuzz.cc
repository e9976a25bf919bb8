// Datagrams of any content for a process that has an open pair. The input is a sequence of them; a few bits before each say
// what is put right, so that it is believed and gets further: the pair's number, the guard, a sequence number near the expected.
#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz/fuzz.h"
#include "netmod/udp/protocol/endpoint.h"
#include "support/udp_pair.h"

namespace pm::fuzz {
namespace {

using namespace udp;
using namespace std::chrono_literals;

constexpr std::size_t largest_place = 1 << 20;

// The message that is arriving.
struct Arriving {
    std::size_t total = 0, received = 0;
    std::vector<std::byte> place;
} arriving;

void *arrived(const Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total)
{
    require(arriving.received == arriving.total, "a message begins in the middle of another");
    require(piece_size <= total, "a piece is longer than its message");
    touch(envelope.header, envelope.header_size);
    touch(piece, piece_size);
    arriving = {total, piece_size, {}};
    return &arriving;
}

void more(int, void *cookie, void *piece, std::size_t piece_size)
{
    require(cookie == &arriving && arriving.place.empty(), "a piece that nobody waits for");
    require(piece_size > 0 && piece_size <= arriving.total - arriving.received, "a message becomes too long");
    touch(piece, piece_size);
    arriving.received += piece_size;
}

void *place(int, void *)
{
    if (arriving.total > largest_place || arriving.total % 2 == 0)
        return nullptr;
    arriving.place.resize(arriving.total);
    return arriving.place.data();
}

void placed(int, void *)
{
    touch(arriving.place.data(), arriving.place.size());
    arriving = {};
}

class Target {
  public:
    Target(GuardKind guard, Recovery recovery, bool places)
    {
        ProtocolSettings settings = test::UdpPair::plain();
        settings.guard = guard;
        settings.recovery = recovery;
        settings.packet_sizes = {1200, 1472, 8972};
        settings.receive_buffer = receive_buffer;
        Sink sink{arrived, more};
        if (places) {
            sink.place = place;
            sink.placed = placed;
        }
        arriving = {};
        other_ = std::make_unique<Endpoint>(settings, Key{2}, std::vector{address(2)}, sink);
        target_ = std::make_unique<Endpoint>(settings, Key{1}, std::vector{address(1)}, sink);
        peer_ = target_->connect(other_->card());
        Peer *back = other_->connect(target_->card());
        Message message;
        SendProgress progress;
        require(other_->send(back, message, &progress, now_) == Status::again, "sent before it greeted");
        carry(*other_, *target_, 2);
        carry(*target_, *other_, 1);
        require(other_->send(back, message, &progress, now_) == Status::ok, "not open");
        carry(*other_, *target_, 2);
        require(peer_->state == PairState::open, "not open");
        std::vector<std::byte> payload(20'000);
        message.payload = {payload.data(), payload.size()};
        progress = {};
        require(target_->send(peer_, message, &progress, now_) == Status::ok, "not accepted");
    }

    void on_datagram(std::uint8_t repairs, std::vector<std::byte> bytes)
    {
        auto datagram = decode(bytes);
        if (!datagram) {
            target_->on_malformed();
            return;
        }
        Header &header = datagram->header;
        if (repairs & 1)
            header.to = peer_->number;
        if ((repairs & 2) && header.kind() == Kind::data && peer_->incoming != nullptr)
            header.sequence = static_cast<std::uint32_t>(peer_->incoming->expected()) + (header.sequence & 7) - 2;
        if ((repairs & 4) && peer_->outgoing != nullptr)
            header.acknowledged = static_cast<std::uint32_t>(peer_->outgoing->base()) + (header.acknowledged & 31) - 2;
        if (repairs & 8)
            header.fragment &= 7;
        if (repairs & 16)
            header.offset &= 0xffff;
        if (!(repairs & 128))
            guard(&*datagram);
        target_->on_datagram(*datagram, address(2), now_);
    }

    void wait(Time time)
    {
        now_ += time;
        target_->on_timer(now_);
    }

    void check()
    {
        Transmission transmission;
        for (int count = 0; target_->poll_transmit(&transmission, now_); ++count) {
            std::size_t size = 0;
            for (const auto &piece : transmission.pieces) {
                touch(piece.data, piece.size);
                size += piece.size;
            }
            require(size == transmission.size && size >= sizeof(Header) && size <= 65'507 && transmission.segment >= sizeof(Header),
                    "a transmission that makes no sense");
            require(count < 10'000, "it sends for ever");
        }
        require(target_->next_deadline() > now_, "everything is sent, and the next deadline is not in the future");
        target_->for_each_peer([](const Peer &peer) {
            require(peer.incoming == nullptr || peer.incoming->early_bytes() <= receive_buffer, "too many early bytes");
            require(peer.outgoing == nullptr || peer.outgoing->outstanding() <= Outgoing::flight_limit, "too many packets");
        });
        require(target_->peers() < 100, "too many peers");
    }

  private:
    static constexpr std::size_t receive_buffer = 64 * 1024;

    static Address address(std::uint8_t last) { return Address::v4({10, 0, 0, last}, 4711); }

    void carry(Endpoint &from, Endpoint &to, std::uint8_t last)
    {
        Transmission transmission;
        while (from.poll_transmit(&transmission, now_)) {
            std::vector<std::byte> bytes;
            for (const auto &piece : transmission.pieces)
                bytes.insert(bytes.end(), piece.data, piece.data + piece.size);
            to.on_datagram(*decode(bytes), address(last), now_);
        }
    }

    // What a member of the job would write there.
    void guard(Datagram *datagram)
    {
        const Card &card = target_->card();
        Header &header = datagram->header;
        if (card.guard == GuardKind::token) {
            header.guard = token_of(card.key);
            return;
        }
        std::uint64_t sequence = header.sequence;
        if (header.kind() == Kind::data)
            sequence = widen(peer_->incoming != nullptr ? peer_->incoming->expected()
                                                        : (std::uint64_t{1} << 32) + peer_->its_first_sequence,
                             header.sequence);
        header.guard = 0;
        SipHash hash(card.key);
        hash.add(std::as_bytes(std::span(&header, 1)));
        hash.add(datagram->body);
        hash.add(std::as_bytes(std::span(&sequence, 1)));
        header.guard = hash.finish();
    }

    Time now_ = 1s;
    std::unique_ptr<Endpoint> other_, target_;
    Peer *peer_;
};

void read_as_card(std::span<const std::byte> bytes)
{
    auto card = Card::read(bytes);
    if (!card)
        return;
    std::byte written[Card::max_size];
    std::size_t size = card->write(written);
    auto again = Card::read({written, size});
    require(again && again->key == card->key && again->guard == card->guard && again->addresses.size() <= card->addresses.size(),
            "a card changes when it is written and read");
}

}  // namespace
}  // namespace pm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    using namespace pm::fuzz;
    read_as_card({reinterpret_cast<const std::byte *>(data), size});
    Choices choices(data, size);
    std::uint8_t mode = choices.byte();
    Target target(mode & 1 ? pm::udp::GuardKind::mac : pm::udp::GuardKind::token,
                  mode & 2 ? pm::udp::Recovery::go_back_n : pm::udp::Recovery::selective, mode & 4);
    for (int count = 0; choices.any() && count < 64; ++count) {
        std::uint8_t repairs = choices.byte();
        auto bytes = std::as_bytes(choices.bytes(choices.byte()));
        target.on_datagram(repairs, {bytes.begin(), bytes.end()});
        target.check();
        target.wait(repairs & 32 ? std::chrono::milliseconds(3) : std::chrono::milliseconds(0));
        if (repairs & 64)
            target.wait(std::chrono::seconds(8));
        target.check();
    }
    return 0;
}
