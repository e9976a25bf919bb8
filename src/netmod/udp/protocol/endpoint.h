// One process on the network: its pairs with other processes. It owns no socket and no clock: what arrives is given to it, what is
// to be sent is asked for, and time is a parameter.
//
// A pair is
//   quiet    nothing was ever sent; it costs a few hundred bytes
//   asking   hellos go to every address on the peer's card, until one is answered; to the preferred one alone at first
//   open     an address is proved: a welcome came back for what we sent there, or a packet that only a process that got our
//            welcome can send
//   left     the peer said good-bye
//   failed   `error` says why
// Timers of a pair: hello again, ask for an acknowledgement (Outgoing), acknowledge (Incoming), watch. Watch: a peer that was not
// heard for a quarter of the silence limit is asked, and then its host: a packet to a port that nobody listens on is refused by
// whatever host is there. One that does not answer for the rest of the limit is gone, unless its host has answered: then it is
// only stopped, as by a debugger, for a host that refuses packets would have refused those for a process that has ended. Only
// time in which we ask counts, so a process that computes for long does not think that everybody else has died.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "netmod/udp/protocol/blocks.h"
#include "netmod/udp/protocol/buffer_share.h"
#include "netmod/udp/protocol/incoming.h"
#include "netmod/udp/protocol/outgoing.h"
#include "netmod/udp/protocol/settings.h"
#include "netmod/udp/protocol/wire.h"
#include "pm/message.h"

namespace pm::udp {

enum class PairState : std::uint8_t { quiet, asking, open, left, failed };

// What a hello proves besides its nonce.
struct Hello {
    std::uint32_t number = 0, incarnation = 0, first_sequence = 0, secrets = 0;
};

struct Peer {
    Card card;
    std::uint64_t name = 0;
    GuardKind guard = GuardKind::token;  // of packets in both directions: the stricter of what the two want
    std::uint32_t number = 0;
    std::uint32_t its_number = 0;
    std::uint32_t incarnation = 0;  // goes up with every pair this process makes
    std::uint32_t its_incarnation = 0;
    std::uint32_t its_first_sequence = 0;
    std::uint16_t its_window = 0;
    std::uint32_t users = 0;  // connect() less disconnect()
    PairState state = PairState::quiet;
    bool has_hello = false;  // of the peer: its number and its nonce are known, and so the keys
    bool uses_its_secret = false, uses_our_secret = false;  // the keys
    bool listed = false;     // among those who want to send
    bool leaving = false;    // disconnected here; it is told until it says that it knows
    bool let_go = false;     // its end is nobody's business
    bool renewed = false;    // it was let go and is wanted again: when it leaves, or has left and we do not know it yet, it is asked for
    std::uint8_t size_rounds = 0;  // of packet size probes
    std::uint8_t hellos = 0;       // rounds
    std::size_t preferred = SIZE_MAX;  // of its addresses, which is asked alone at first; none
    std::uint8_t asks = 0;         // since it fell silent
    std::uint8_t refusals = 0;     // since it was last heard
    std::uint8_t byes = 0;         // sent
    std::uint32_t period = 0;      // see BufferShare
    Address address;               // proved, when open
    std::size_t packet_size = 0;

    // To send when there is room, besides what the halves have.
    bool owes_alive = false, asks_alive = false, owes_bye = false, owes_bye_answer = false;
    std::uint8_t owed_hellos = 0;       // of this round
    std::uint8_t owed_host_asks = 0;    // of this round: addresses, from the last one on; an open pair has one
    std::uint16_t owed_size_probes = 0;  // a bit for each size
    std::uint32_t owed_size_answer = 0;
    struct Welcome {
        std::uint32_t candidate;  // what the hello said
        Address to;
        bool operator==(const Welcome &) const = default;
    };
    std::vector<Welcome> owed_welcomes;

    Time scheduled = never;
    Time asking_since{}, first_asked{};  // the former begins anew when its host answers
    Time hello_at = never;
    Time size_probe_at = never;
    Time sizes_again_at{};      // longer packets may be tried once more
    Time doubted_at = never;    // when we last asked which sizes arrive
    Time last_heard{};
    Time silent_since = never;  // when we began to ask
    Time watch_at = never;
    Time refused_since = never;
    Time ask_again_at = never;  // because it was refused
    Time bye_at = never;        // again
    Time made_anew_since = never;  // by the peer, which has not said good-bye yet
    Time stranger_at = never;      // when to look whether one who greeted us, and whom nobody here knows, is still there

    // Of this pair.
    Nonce nonce{}, its_nonce{};
    std::uint64_t its_proof = 0;  // that it has its secret, in case we get to know that later; of this:
    Hello its_hello;
    DirectionKeys to_it, from_it;
    std::uint64_t next_number = 0;
    std::unique_ptr<SeenNumbers> seen;
    std::uint32_t first_sequence = 0;
    std::unique_ptr<Outgoing> outgoing;
    std::uint64_t gone = 0;  // packets of earlier ones that have arrived
    std::unique_ptr<Incoming> incoming;
    std::vector<std::byte> parting;  // a packet that is longer than the path is wide
    std::size_t parted = 0;          // so much of it has been sent; all: it is only kept for who sends it
    std::size_t part_size = 0;
    Error error;
    pm_peer *source = nullptr;  // of its messages
};

// Datagrams for one address: of `segment` bytes each, but for the last one. The pieces are valid until the endpoint is called again.
struct Transmission {
    struct Piece {  // as an iovec
        const std::byte *data;
        std::size_t size;
    };
    Address to;
    std::vector<Piece> pieces;
    std::size_t segment = 0;
    std::size_t size = 0;
    bool may_fragment = false;  // the path seems to be narrower than our shortest packets
    bool asks_host = false;     // whether it is there; other ways to find out serve as well: on_host_answered()
    std::vector<std::byte> control;
};

struct Counters {
    std::uint64_t datagrams_received = 0;
    std::uint64_t malformed = 0;     // too short, or without sense
    std::uint64_t alien = 0;         // wrong guard, or for a pair we do not have; quoted by ICMP, and not ours
    std::uint64_t twice = 0;
    std::uint64_t early_dropped = 0;
    std::uint64_t crowded_out = 0;   // hellos of strangers, of whom there were too many
    std::uint64_t transmissions = 0;
    std::uint64_t datagrams_sent = 0;
    std::uint64_t sent_again = 0;
    std::uint64_t timeouts = 0;
    std::uint64_t acks_sent = 0;
    std::uint64_t halvings = 0;
};

class Endpoint {
  public:
    // `secret` must be random: it is what strangers do not know. The card is completed with it.
    Endpoint(const ProtocolSettings &settings, const Key &secret, std::vector<Address> addresses, const Sink &sink);
    Endpoint(const Endpoint &) = delete;
    Endpoint &operator=(const Endpoint &) = delete;

    // Of those that nobody here knows, who have greeted us. Who comes when there are so many is not answered, and greets again.
    static constexpr std::size_t most_strangers = 4096;

    const Card &card() const { return card_; }
    // The peer with this card: the same again for the same process.
    Peer *connect(const Card &card);
    // At first only there, if that is one of its addresses. Before the first message.
    static void prefer(Peer *peer, const Ip &address);
    void disconnect(Peer *peer);
    // As in the PM contract. One that has left may have come back: the next message asks for it.
    void let_go(Peer *peer);
    void renew(Peer *peer);
    // As introduce of the PM contract.
    void introduce(const Card &card, pm_peer *source);
    // Says good-bye to all; from then on nothing else is said or heard.
    void close();
    // All those know, or were told often enough.
    bool closed() const;

    // As try_send of the PM contract.
    Status send(Peer *peer, const Message &message, SendProgress *progress, Time now);
    // All of a message, if there is room for it, which is the caller's until keep_lent(); false when nothing happened.
    bool lend(Peer *peer, const Message &message, Time now);
    void keep_lent(Peer *peer);
    // The short way for a short message: into the transmission, when nothing else must go to the peer before. False when
    // nothing happened.
    bool send_at_once(Peer *peer, const Message &message, Transmission *transmission, Time now);

    // A sealed body is opened where it lies.
    void on_datagram(const Header &header, std::span<std::byte> body, const Address &from, Time now);
    void on_datagram(const Datagram &datagram, const Address &from, Time now) { on_datagram(datagram.header, datagram.body, from, now); }
    // The same in two steps, for data and parts that somebody else shall take later: the incarnation of the pair if it is believed, or
    // else 0, and counts as come; then what it says, if the pair is still the same.
    std::uint32_t believes(const Datagram &datagram)
    {
        Peer *peer = believed(datagram);
        return peer != nullptr ? peer->incarnation : 0;
    }
    void on_believed(const Datagram &datagram, std::uint32_t incarnation, const Address &from, Time now);
    void on_malformed() { ++counters_.datagrams_received, ++counters_.malformed; }
    // Nobody listens at an address to which something was sent, says a host; `quoted` is what it says was sent. A hint: a packet that is
    // not ours says nothing, and one that is makes us ask. Only refusals for as long as one that lives would answer within are believed.
    void on_refused(const Address &to, const Header &quoted, Time now);
    // The host at this address, whatever the port, is there: processes on it that are silent are only stopped.
    void on_host_answered(const Address &at, Time now, bool refuses = false);
    // Longer datagrams than this do not get there, says our host, or one on the way about what it quotes. Port 0: for all of the address.
    void on_too_wide(const Address &to, std::size_t width, const Header *quoted, Time now);

    Time next_deadline() const { return timers_.empty() ? never : timers_.begin()->first; }
    void on_timer(Time now);

    // Something to send. False when there is nothing now.
    bool poll_transmit(Transmission *transmission, Time now);
    bool wants_to_transmit() const { return !ready_.empty(); }

    // Packets that have not been acknowledged, of all pairs.
    std::size_t outstanding() const;
    // The first peer that failed; empty when none has.
    const Error &failure() const { return failure_; }
    Counters counters() const;
    std::size_t peers() const { return by_name_.size(); }
    Time round_trip() const;  // the shortest to a peer; zero: not known
    std::size_t share() const { return share_.share(); }
    template <class Visit>
    void for_each_peer(Visit visit) const
    {
        for (const auto &peer : table_)
            if (peer != nullptr)
                visit(*peer);
    }
    // What will probably arrive next, and where it belongs; no place when that is not known.
    struct Expected {
        std::span<std::byte> place;
        std::size_t body_size = 0;  // of each packet
        Header first;               // its `to`, sequence, fragment and offset
    };
    Expected expected() const;

  private:
    static constexpr std::size_t peers_limit = 1u << 20;  // those who greet us included

    struct Known {
        pm_peer *source;
        Key secret;
    };

    Peer *add(const Card &card);
    void adopt(Peer *peer, const Card &card);
    void begin_incarnation(Peer *peer);
    void make_keys(Peer *peer);
    void remove(Peer *peer);
    Peer *find(std::uint32_t number) const;
    void ask(Peer *peer, Time now);
    void open(Peer *peer, const Address &address, Time now);
    void fail(Peer *peer, Status status, const std::string &text);
    void forget_pair(Peer *peer);
    void begin_anew(Peer *peer);
    void on_bye(Peer *peer, bool ends, Time now);
    Outgoing &outgoing_of(Peer *peer);
    Incoming &incoming_of(Peer *peer);

    // What was joined to a packet says the same of the other direction, and was heard with it.
    bool is_joined(const Header &header, Time now) const
    {
        return last_heard_ != nullptr && now == last_heard_at_ && header.to == last_heard_->number &&
               header.acknowledged == last_acknowledged_ && header.window == last_window_;
    }
    // At less expense, one that came joined to the last one and goes on with its message. False when it is another one; then nothing happened.
    bool on_joined(const Header &header, std::span<const std::byte> body, Time now);
    void on_alone(const Datagram &datagram, const Address &from, Time now);
    Peer *believed(const Datagram &datagram);  // the peer whose packet it is
    void take(Peer *peer, const Datagram &datagram, const Address &from, Time now);
    bool is_guarded(Peer *peer, const Datagram &datagram) const;
    bool is_sent_by_us(const Peer *peer, const Header &quoted) const;
    Time patience_with_refusals(const Peer *peer) const;
    void learn(Peer *peer, const Header &header, const Nonce &nonce);
    void on_hello(const Datagram &datagram, const Address &from, Time now);
    void on_welcome(const Datagram &datagram, Time now);
    void on_ack_fields(Peer *peer, const Header &header, std::span<const std::byte> bitmap, Time now);
    void heard(Peer *peer, Time now);
    bool is_of_peer_alone(const Peer *peer, const Address &address) const;
    Time last_sign_of_host(const Peer *peer) const;

    Time deadline(const Peer *peer) const;
    void schedule(Peer *peer);
    static bool asks_preferred(const Peer *peer);
    void on_hello_timer(Peer *peer, Time now);
    void look_for_larger_packets(Peer *peer, const Message &message, Time now);
    void on_size_timer(Peer *peer, Time now);
    void look_at_doubt(Peer *peer, Time now);
    void narrow(Peer *peer, std::size_t packet_size, Time now);
    void on_watch_timer(Peer *peer, Time now);
    void on_refused_timer(Peer *peer, Time now);
    void on_bye_timer(Peer *peer, Time now);
    bool on_stranger_timer(Peer *peer, Time now);
    void want(Peer *peer);

    bool has_more(const Peer *peer, Time now) const;
    bool transmit_greeting(Peer *peer, Transmission *transmission);
    bool transmit_host_ask(Peer *peer, Transmission *transmission);
    bool transmit_control(Peer *peer, Transmission *transmission, Time now);
    void add(Peer *peer, Flight &flight, const Header &ack, Transmission *transmission);
    void transmit_parts(Peer *peer, Transmission *transmission);
    bool transmit_data(Peer *peer, Transmission *transmission, Time now);
    // One datagram in transmission->control: a header, then `body` of the caller there, then zeros up to `size`.
    void transmit_one(Peer *peer, Transmission *transmission, Kind kind, Header header, const Address &to, std::size_t size = 0);
    std::uint16_t window_field() const;
    void fill_ack(Peer *peer, Header *header, Time now);
    // Gives the packet its number and its guard; a sealed body is written to `sealed`, which may be where it lies.
    void protect(Peer *peer, Header *header, std::span<const std::byte> body, std::byte *sealed) const;
    std::string addresses_of(const Peer *peer) const;

    const ProtocolSettings settings_;
    const Sink sink_;
    Card card_;
    const Key hello_key_;  // of hellos to us
    bool closing_ = false;
    Blocks blocks_;
    std::vector<std::unique_ptr<Peer>> table_;  // by the low part of the number
    std::vector<std::uint32_t> free_;           // places in it
    std::unordered_map<std::uint64_t, Peer *> by_name_;
    std::unordered_map<std::uint64_t, Known> known_;  // by name; also those who have not greeted us yet
    std::uint32_t incarnations_ = 0;
    std::deque<std::uint32_t> ready_;
    std::set<std::pair<Time, std::uint32_t>> timers_;  // one for a peer that has something to wait for
    BufferShare share_;
    Error failure_;
    Counters counters_;
    Peer *last_heard_ = nullptr;  // by data, and what the last of it said of the other direction
    Time last_heard_at_{};
    std::uint32_t last_acknowledged_ = 0;
    std::uint16_t last_window_ = 0;
    std::size_t last_share_ = 0;
};

inline bool Endpoint::on_joined(const Header &header, std::span<const std::byte> body, Time now)
{
    if (header.kind() != Kind::data || !is_joined(header, now) || last_heard_->guard != GuardKind::token ||
        header.guard[0] != last_heard_->from_it.token || !last_heard_->incoming->on_next(header, body, last_share_, now))
        return false;
    ++counters_.datagrams_received;
    if (last_heard_->incoming->ack_deadline() <= now)
        want(last_heard_);
    return true;
}

inline void Endpoint::on_datagram(const Header &header, std::span<std::byte> body, const Address &from, Time now)
{
    if (!on_joined(header, body, now))
        on_alone({header, body}, from, now);
}

}  // namespace pm::udp
