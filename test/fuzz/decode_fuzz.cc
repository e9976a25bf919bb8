// Datagrams of any content for a process that has an open pair. The input is a sequence of them; a few bits before each say
// what is put right, so that it is believed and gets further: version and size, the pair's number, the guard, the number of the
// packet, a sequence number near the expected.
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

void *arrived(void *, const Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total)
{
    require(arriving.received == arriving.total, "a message begins in the middle of another");
    require(piece_size <= total, "a piece is longer than its message");
    touch(envelope.header, envelope.header_size);
    touch(piece, piece_size);
    arriving = {total, piece_size, {}};
    return &arriving;
}

void more(void *, int, void *cookie, void *piece, std::size_t piece_size)
{
    require(cookie == &arriving && arriving.place.empty(), "a piece that nobody waits for");
    require(piece_size > 0 && piece_size <= arriving.total - arriving.received, "a message becomes too long");
    touch(piece, piece_size);
    arriving.received += piece_size;
}

void *place(void *, int, void *)
{
    if (arriving.total > largest_place || arriving.total % 2 == 0)
        return nullptr;
    arriving.place.resize(arriving.total);
    return arriving.place.data();
}

void placed(void *, int, void *)
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
        settings.packet_sizes = {1200, 1472, 8972, 65'000};
        settings.receive_buffer = receive_buffer;
        Sink sink{nullptr, arrived, more};
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
        if (!(repairs & 128) && bytes.size() >= sizeof(Header)) {
            Header header;
            std::memcpy(&header, bytes.data(), sizeof header);
            header.kind_and_flags = static_cast<std::uint8_t>((header.kind_and_flags & 0x8f) | 0x10);
            header.body_size = (bytes.size() - sizeof header) & 0xffff;
            std::memcpy(bytes.data(), &header, sizeof header);
        }
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
        if (header.kind() == Kind::hello && greeted_ == never)
            greeted_ = now_;
        const bool was_open = peer_->state == PairState::open;
        const std::uint64_t before = not_believed();
        target_->on_datagram(*datagram, address(2), now_);
        if (was_open && header.to == peer_->number && header.kind() > Kind::welcome && not_believed() == before)
            heard_ = now_;
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
        require(peer_->state != PairState::failed || a_failure_is_right(), "a pair fails, though its peer was heard, and has not begun anew: " + peer_->error.text);
    }

  private:
    static constexpr std::size_t receive_buffer = 64 * 1024;

    static Address address(std::uint8_t last) { return Address::v4({10, 0, 0, last}, 4711); }

    // Nothing came from the peer for nearly as long as the limit says; or its process has greeted us again, and said no good-bye for some time.
    bool a_failure_is_right() const
    {
        return now_ - heard_ >= ProtocolSettings().silence_limit * 3 / 4 || (greeted_ != never && now_ - greeted_ >= 1s);
    }

    std::uint64_t not_believed() const
    {
        const Counters &counters = target_->counters();
        return counters.alien + counters.malformed + counters.twice;
    }

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
        Header &header = datagram->header;
        auto mac = [&](const Key &key) {
            header.guard[0] = 0;
            SipHash hash(key);
            hash.add(std::as_bytes(std::span(&header, 1)));
            hash.add(datagram->body);
            return hash.finish();
        };
        if (header.kind() == Kind::hello) {
            if (header.guard[1] % 2 == 0 && datagram->body.size() >= sizeof(Nonce)) {
                Nonce nonce;
                std::memcpy(nonce.data(), datagram->body.data(), sizeof nonce);
                header.guard[1] = siphash(hello_key(*target_->card().secret, *other_->card().secret), std::as_bytes(std::span(nonce)));
            }
            header.guard[0] = mac(hello_key(*target_->card().secret));
            return;
        }
        // Most are new, some are not.
        header.number = peer_->from_it.first_number + 100 + (header.number % 8 == 0 ? next_number_ / 2 : next_number_++);
        if (header.kind() == Kind::welcome || peer_->guard == GuardKind::mac) {
            header.guard[0] = mac(peer_->from_it.mac);
        } else if (peer_->guard == GuardKind::token) {
            header.guard[0] = peer_->from_it.token;
        } else {
            std::array<std::uint64_t, 2> tag;
            header.guard = {};
            seal_body(peer_->from_it, header.number, std::as_bytes(std::span(&header, 1)), datagram->body, datagram->body.data(),
                      reinterpret_cast<std::byte *>(tag.data()));
            header.guard = tag;
        }
    }

    std::uint64_t next_number_ = 0;
    Time now_ = 1s;
    Time heard_ = now_;     // the last of the peer that was believed
    Time greeted_ = never;  // its first greeting after that of the beginning
    std::unique_ptr<Endpoint> other_, target_;
    Peer *peer_;
};

// The next of the input. One that is as long as a byte can say is longer: by a word, up to the longest of UDP, and what the input does not
// have of it is its beginning again and again.
std::vector<std::byte> datagram_of(Choices &choices)
{
    constexpr std::size_t longest = 65'507, beginning = 96;
    std::size_t size = choices.byte();
    if (size == 255)
        size = std::min(choices.word(), longest);
    auto given = std::as_bytes(choices.bytes(size < 255 ? size : beginning));
    std::vector<std::byte> bytes(given.begin(), given.end());
    if (size > bytes.size() && size >= 255 && !given.empty())
        for (std::size_t i = bytes.size(); i < size; ++i)
            bytes.push_back(bytes[i % given.size()]);
    return bytes;
}

void read_as_card(std::span<const std::byte> bytes)
{
    (void) Card::read_public(bytes);
    auto card = Card::read(bytes);
    if (!card)
        return;
    std::byte written[Card::max_size];
    std::size_t size = card->write(written);
    auto again = Card::read({written, size});
    require(again && again->secret == card->secret && again->name == card->name && again->guard == card->guard && again->addresses.size() <= card->addresses.size(),
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
    pm::udp::GuardKind hidden = mode & 8 && pm::udp::can_seal() ? pm::udp::GuardKind::seal : pm::udp::GuardKind::mac;
    Target target(mode & 1 ? hidden : pm::udp::GuardKind::token,
                  mode & 2 ? pm::udp::Recovery::go_back_n : pm::udp::Recovery::selective, mode & 4);
    for (int count = 0; choices.any() && count < 64; ++count) {
        std::uint8_t repairs = choices.byte();
        target.on_datagram(repairs, datagram_of(choices));
        target.check();
        target.wait(repairs & 32 ? std::chrono::milliseconds(3) : std::chrono::milliseconds(0));
        if (repairs & 64)
            target.wait(std::chrono::seconds(8));
        target.check();
    }
    return 0;
}
