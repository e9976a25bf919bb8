#include "netmod/udp/protocol/endpoint.h"

#include <algorithm>
#include <cstring>

namespace pm::udp {
namespace {

using namespace std::chrono_literals;

constexpr Time first_hello_interval = 20ms;
constexpr Time longest_hello_interval = 1s;
constexpr unsigned least_hellos = 4;
constexpr unsigned hellos_to_preferred = 5;  // some 0.6 s
constexpr std::size_t welcomes_limit = 16;  // that wait to be sent to one peer
constexpr unsigned size_rounds = 2;
constexpr Time size_round_length = 20ms;
constexpr unsigned refusals_believed = 3;
constexpr Time refusals_patience = 50ms;    // where who reads the traffic is trusted
constexpr Time first_bye_interval = 10ms;
constexpr unsigned byes_limit = 7;          // in 1.3 s
constexpr std::uint32_t bye_at_the_end = 1;  // of the process; otherwise only the pair is given up
constexpr Time bye_patience = 2s;           // for the good-bye of a pair in whose place there is another one
constexpr unsigned asks_before_host = 6;    // then its host is asked as well
constexpr unsigned least_asks = 12;         // before silence means something: who asks may be slow, too
constexpr std::uint16_t closed_port = 9;    // of every host: discard
constexpr Time sizes_again = 60s;
constexpr unsigned unanswered_before_fragments = 4;  // then the path may be too narrow even for our shortest packets

// A number of a pair: a place in the table, and what tells its users apart.
constexpr unsigned place_bits = 20;
constexpr std::uint32_t place_of(std::uint32_t number)
{
    return number & ((1u << place_bits) - 1);
}

// Sequence numbers are 64 bits long here and begin well above zero.
constexpr std::uint64_t full_sequence(std::uint32_t first)
{
    return (std::uint64_t{1} << 32) + first;
}

// Of a packet, whatever the first half of its guard is now.
std::uint64_t mac_of(const Key &key, Header header, std::span<const std::byte> body)
{
    header.guard[0] = 0;
    SipHash hash(key);
    hash.add(std::as_bytes(std::span(&header, 1)));
    hash.add(body);
    return hash.finish();
}

// What is authenticated of the header of a sealed packet.
std::span<const std::byte> without_guard(Header *header)
{
    header->guard = {};
    return std::as_bytes(std::span(header, 1));
}

// That who sends this hello has its own secret; `receiver` may not be able to tell yet.
std::uint64_t proof_of(const Key &receiver, const Key &sender, const Nonce &nonce, const Hello &hello)
{
    SipHash hash(hello_key(receiver, sender));
    hash.add(std::as_bytes(std::span(nonce)));
    hash.add(std::as_bytes(std::span(&hello, 1)));
    return hash.finish();
}

Hello hello_of(const Header &header)
{
    return {static_cast<std::uint32_t>(header.offset), header.fragment, header.sequence, header.tag};
}

// In hellos and questions to a host: known only to those who see them.
std::uint64_t number_from(const Nonce &nonce)
{
    std::uint64_t number;
    std::memcpy(&number, nonce.data(), sizeof number);
    return number;
}

std::string in_seconds(Time time)
{
    auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
    return milliseconds % 1000 == 0 ? std::to_string(milliseconds / 1000) + " s" : std::to_string(milliseconds) + " ms";
}

}  // namespace

Endpoint::Endpoint(const ProtocolSettings &settings, const Key &secret, std::vector<Address> addresses, const Sink &sink)
    : settings_(settings), sink_(sink), card_{name_of(secret), secret, settings.guard, can_seal(), std::move(addresses)},
      hello_key_(hello_key(secret)), share_(settings.receive_buffer)
{
    table_.emplace_back();  // no pair has number 0
}

// ---- pairs ----

Peer *Endpoint::connect(const Card &card)
{
    if (auto found = by_name_.find(card.name); found != by_name_.end())
        adopt(found->second, card);
    auto found = by_name_.find(card.name);
    Peer *peer = found != by_name_.end() ? found->second : add(card);
    if (peer != nullptr) {
        if (peer->users++ == 0 && peer->state == PairState::left)
            begin_anew(peer);
        peer->let_go = false;
    }
    return peer;
}

void Endpoint::prefer(Peer *peer, const Ip &address)
{
    auto found = std::ranges::find(peer->card.addresses, address, &Address::ip);
    if (found != peer->card.addresses.end())
        peer->preferred = static_cast<std::size_t>(found - peer->card.addresses.begin());
}

Peer *Endpoint::add(const Card &card)
{
    if (by_name_.size() >= peers_limit - 1)
        return nullptr;
    if (free_.empty()) {
        free_.push_back(static_cast<std::uint32_t>(table_.size()));
        table_.emplace_back();
    }
    auto peer = std::make_unique<Peer>();
    peer->card = card;
    peer->name = card.name;
    peer->guard = std::max(card.guard, card_.guard);
    peer->first_sequence = settings_.first_sequence;
    begin_incarnation(peer.get());
    peer->number = incarnations_ << place_bits | free_.back();
    peer->packet_size = settings_.first_packet_size();
    if (settings_.random_sequences)
        peer->first_sequence += static_cast<std::uint32_t>(siphash(*card_.secret, std::as_bytes(std::span(peer->nonce))));
    Peer *added = peer.get();
    table_[free_.back()] = std::move(peer);
    free_.pop_back();
    by_name_[added->name] = added;
    if (auto known = known_.find(added->name); known != known_.end()) {
        added->source = known->second.source;
        added->card.secret = known->second.secret;
    }
    return added;
}

// We get to know the card of one who may have greeted us. Who used its name without having its secret was somebody else, and stays
// without a name.
void Endpoint::adopt(Peer *peer, const Card &card)
{
    if (peer->card.secret)
        return;
    if (peer->has_hello && peer->its_proof != proof_of(*card_.secret, *card.secret, peer->its_nonce, peer->its_hello)) {
        by_name_.erase(peer->name);
        peer->name = 0;
        peer->source = nullptr;
        return;
    }
    peer->card = card;
    peer->guard = std::max({peer->guard, card.guard});
}

// What we send begins anew.
void Endpoint::begin_incarnation(Peer *peer)
{
    peer->incarnation = ++incarnations_;
    peer->nonce = nonce_of(*card_.secret, peer->name, peer->incarnation);
}

void Endpoint::make_keys(Peer *peer)
{
    Side us{card_.name, peer->uses_our_secret ? &*card_.secret : nullptr, peer->nonce};
    Side it{peer->name, peer->uses_its_secret ? &*peer->card.secret : nullptr, peer->its_nonce};
    peer->to_it = DirectionKeys(us, it);
    peer->from_it = DirectionKeys(it, us);
    peer->next_number = peer->to_it.first_number;
    peer->seen.reset();
}

void Endpoint::let_go(Peer *peer)
{
    peer->let_go = peer->users <= 1;
}

void Endpoint::renew(Peer *peer)
{
    peer->let_go = false;
    peer->renewed = peer->state == PairState::open;
    if (peer->state == PairState::left)
        begin_anew(peer);
}

void Endpoint::introduce(const Card &card, pm_peer *source)
{
    if (source != nullptr) {
        known_[card.name] = {source, *card.secret};
        if (auto found = by_name_.find(card.name); found != by_name_.end()) {
            found->second->source = source;
            adopt(found->second, card);
        }
        return;
    }
    known_.erase(card.name);
    for (const auto &peer : table_)  // those who are told good-bye are not found by their names any more
        if (peer != nullptr && peer->name == card.name)
            peer->source = nullptr;
}

void Endpoint::remove(Peer *peer)
{
    if (last_heard_ == peer)
        last_heard_ = nullptr;
    if (peer->scheduled != never)
        timers_.erase({peer->scheduled, peer->number});
    std::uint32_t place = place_of(peer->number);
    table_[place].reset();
    free_.push_back(place);
}

Peer *Endpoint::find(std::uint32_t number) const
{
    std::uint32_t place = place_of(number);
    if (place >= table_.size() || table_[place] == nullptr || table_[place]->number != number)
        return nullptr;
    return table_[place].get();
}

void Endpoint::disconnect(Peer *peer)
{
    if (--peer->users > 0)
        return;
    by_name_.erase(peer->name);
    if (peer->state != PairState::open)
        return remove(peer);
    peer->leaving = true;
    peer->owes_bye = true;
    peer->outgoing.reset();
    if (last_heard_ == peer)
        last_heard_ = nullptr;
    want(peer);
}

void Endpoint::close()
{
    closing_ = true;
    last_heard_ = nullptr;
    for (auto &peer : table_) {
        if (peer != nullptr && peer->state == PairState::open) {
            peer->owes_bye = true;
            peer->outgoing.reset();
            want(peer.get());
        }
    }
}

bool Endpoint::closed() const
{
    bool waiting = false;
    for_each_peer([&](const Peer &peer) { waiting |= peer.state == PairState::open && (peer.owes_bye || peer.bye_at != never); });
    return !waiting;
}

Outgoing &Endpoint::outgoing_of(Peer *peer)
{
    if (peer->outgoing == nullptr) {
        peer->outgoing = std::make_unique<Outgoing>(settings_, blocks_, full_sequence(peer->first_sequence), peer->gone);
        if (peer->its_window != 0)
            peer->outgoing->on_window(peer->its_window * window_unit);
    }
    return *peer->outgoing;
}

Incoming &Endpoint::incoming_of(Peer *peer)
{
    if (peer->incoming == nullptr)
        peer->incoming = std::make_unique<Incoming>(settings_, sink_, full_sequence(peer->its_first_sequence), peer->source);
    return *peer->incoming;
}

void Endpoint::ask(Peer *peer, Time now)
{
    peer->state = PairState::asking;
    peer->asking_since = peer->first_asked = now;
    peer->hellos = 0;
    on_hello_timer(peer, now);
    schedule(peer);
}

void Endpoint::open(Peer *peer, const Address &address, Time now)
{
    peer->state = PairState::open;
    peer->address = address;
    peer->hello_at = never;
    peer->owed_hellos = peer->owed_host_asks = 0;
    peer->last_heard = now;
    peer->watch_at = now + settings_.silence_limit / 4;
    if (peer->outgoing != nullptr && peer->its_window != 0)
        peer->outgoing->on_window(peer->its_window * window_unit);
    want(peer);
    schedule(peer);
}

void Endpoint::fail(Peer *peer, Status status, const std::string &text)
{
    // Nothing was lost with a peer that was never reached; whoever wants to send to it is told.
    bool in_use = peer->state == PairState::open || peer->state == PairState::left ||
                  (peer->outgoing != nullptr && peer->outgoing->outstanding() > 0);
    forget_pair(peer);
    peer->state = PairState::failed;
    peer->error = {status, text};
    // One that only greeted us is nobody's loss.
    if (in_use && peer->users > 0 && !peer->let_go && !failure_)
        failure_ = peer->error;
}

// Memory of the program that messages come from, or go to, is not touched any more.
void Endpoint::forget_pair(Peer *peer)
{
    if (last_heard_ == peer)
        last_heard_ = nullptr;
    if (peer->outgoing != nullptr)
        peer->gone = peer->outgoing->gone();
    peer->outgoing.reset();
    peer->incoming.reset();
    peer->parting.clear();
    peer->parted = 0;
    peer->watch_at = peer->size_probe_at = peer->hello_at = peer->ask_again_at = peer->bye_at = peer->made_anew_since = never;
    peer->owes_bye = peer->owes_bye_answer = peer->owes_alive = peer->asks_alive = false;
    peer->owed_hellos = peer->owed_host_asks = 0;
    peer->owed_size_probes = 0;
}

// The peer has forgotten this pair and makes it again.
void Endpoint::begin_anew(Peer *peer)
{
    if (peer->outgoing != nullptr && peer->outgoing->outstanding() > 0)
        return fail(peer, Status::unreachable, "udp: the process at " + addresses_of(peer) + " has closed the connection");
    forget_pair(peer);
    peer->state = PairState::quiet;
    peer->has_hello = peer->renewed = false;
    peer->size_rounds = 0;
    peer->packet_size = settings_.first_packet_size();
    peer->owed_welcomes.clear();
    heard(peer, peer->last_heard);
    // What we send begins anew, too: it has a new number for us, and nothing of the old one fits.
    begin_incarnation(peer);
    peer->first_sequence += 1u << 20;
}

// What it had not got when it left was sent by somebody who wants it back, and did not know: it is asked for, and gets it then.
void Endpoint::on_bye(Peer *peer, bool ends, Time now)
{
    if (peer->leaving) {
        // Ours may be lost, and is not needed any more; it waits for an answer.
        peer->owes_bye = false;
        peer->bye_at = never;
        peer->owes_bye_answer = true;
        return want(peer);
    }
    bool wanted = !ends && !closing_ && peer->users > 0 && !peer->let_go;
    std::unique_ptr<Outgoing> unsent;
    if (wanted && peer->outgoing != nullptr && peer->outgoing->outstanding() > 0 && peer->outgoing->can_restart())
        unsent = std::move(peer->outgoing);
    if (unsent == nullptr && !(wanted && peer->renewed)) {
        forget_pair(peer);
        peer->state = PairState::left;
        peer->owes_bye_answer = true;
        return want(peer);
    }
    begin_anew(peer);
    if (unsent == nullptr)
        return;
    unsent->restart(full_sequence(peer->first_sequence));
    peer->outgoing = std::move(unsent);
    ask(peer, now);
}

std::string Endpoint::addresses_of(const Peer *peer) const
{
    std::string text;
    for (const Address &address : peer->card.addresses)
        text += (text.empty() ? "" : ", ") + address.ip_text();
    return text + " port " + std::to_string(peer->card.addresses.front().port);
}

// ---- sending ----

Status Endpoint::send(Peer *peer, const Message &message, SendProgress *progress, Time now)
{
    // Whatever became of the pair since.
    if (Outgoing::has_arrived(*progress, peer->outgoing != nullptr ? peer->outgoing->gone() : peer->gone))
        return Status::ok;
    if (peer->state != PairState::open) [[unlikely]] {
        if (peer->state == PairState::failed)
            return peer->error.status;
        if (peer->state == PairState::left) {
            fail(peer, Status::unreachable, "udp: the process at " + addresses_of(peer) + " has left");
            return peer->error.status;
        }
        if (peer->state == PairState::quiet)
            ask(peer, now);
        return Status::again;
    }
    Status status = outgoing_of(peer).accept(message, progress, peer->packet_size);
    look_for_larger_packets(peer, message, now);
    want(peer);
    return status;
}

bool Endpoint::lend(Peer *peer, const Message &message, Time now)
{
    if (peer->state != PairState::open || !outgoing_of(peer).has_room(message.header_size + message.payload.size, peer->packet_size))
        return false;
    peer->outgoing->lend(message, peer->packet_size);
    look_for_larger_packets(peer, message, now);
    want(peer);
    return true;
}

void Endpoint::keep_lent(Peer *peer)
{
    if (peer->outgoing != nullptr)
        peer->outgoing->keep_lent();
}

void Endpoint::look_for_larger_packets(Peer *peer, const Message &message, Time now)
{
    if (message.payload.size <= peer->packet_size || peer->outgoing->unanswered() > 0 ||
        (peer->size_rounds > 0 && now < peer->sizes_again_at))
        return;
    peer->size_rounds = 0;
    peer->sizes_again_at = now + sizes_again;
    on_size_timer(peer, now);
}

bool Endpoint::send_at_once(Peer *peer, const Message &message, Transmission *transmission, Time now)
{
    if (peer->state != PairState::open || peer->listed)
        return false;
    Flight *flight = outgoing_of(peer).send_at_once(message, peer->packet_size, now);
    if (flight == nullptr)
        return false;
    transmission->pieces.clear();
    transmission->size = transmission->segment = 0;
    transmission->may_fragment = transmission->asks_host = false;
    transmission->to = peer->address;
    Header ack;
    fill_ack(peer, &ack, now);
    add(peer, *flight, ack, transmission);
    ++counters_.transmissions;
    ++counters_.datagrams_sent;
    // A timer that ends soon will look again.
    if (peer->scheduled > now + Incoming::ack_delay)
        schedule(peer);
    return true;
}

std::size_t Endpoint::outstanding() const
{
    std::size_t count = 0;
    for (const auto &peer : table_)
        if (peer != nullptr && peer->outgoing != nullptr && peer->state != PairState::left)
            count += peer->outgoing->outstanding();
    return count;
}

// ---- what arrives ----

// By the keys of the pair. What is sealed is opened.
bool Endpoint::is_guarded(Peer *peer, const Datagram &datagram) const
{
    const Header &header = datagram.header;
    if (peer->guard == GuardKind::token)
        return header.guard[0] == peer->from_it.token;
    if (peer->guard == GuardKind::mac)
        return header.guard[0] == mac_of(peer->from_it.mac, header, datagram.body);
    Header clear = header;
    return open_body(peer->from_it, header.number, without_guard(&clear), datagram.body,
                     reinterpret_cast<const std::byte *>(header.guard.data()));
}

Peer *Endpoint::believed(const Datagram &datagram)
{
    const Header &header = datagram.header;
    ++counters_.datagrams_received;
    Peer *peer = find(header.to);
    if (peer == nullptr || !peer->has_hello || !is_guarded(peer, datagram)) {
        ++counters_.alien;
        return nullptr;
    }
    if (peer->guard == GuardKind::token)
        return peer;
    if (peer->seen == nullptr)
        peer->seen = std::make_unique<SeenNumbers>();
    if (!peer->seen->is_new(header.number)) {
        ++counters_.twice;
        return nullptr;
    }
    peer->seen->add(header.number);
    return peer;
}

void Endpoint::on_alone(const Datagram &datagram, const Address &from, Time now)
{
    if (datagram.header.kind() == Kind::hello)
        return on_hello(datagram, from, now);
    if (datagram.header.kind() == Kind::welcome)
        return on_welcome(datagram, now);
    if (Peer *peer = believed(datagram))
        take(peer, datagram, from, now);
}

void Endpoint::on_believed(const Datagram &datagram, std::uint32_t incarnation, const Address &from, Time now)
{
    Peer *peer = find(datagram.header.to);
    if (peer != nullptr && peer->incarnation == incarnation)
        take(peer, datagram, from, now);
}

void Endpoint::take(Peer *peer, const Datagram &datagram, const Address &from, Time now)
{
    const Header &header = datagram.header;
    if (peer->state == PairState::failed || peer->state == PairState::left) {
        if (header.kind() == Kind::bye && peer->address.port != 0) {
            peer->owes_bye_answer = true;
            want(peer);
        }
        return;
    }
    if ((peer->leaving || closing_) && header.kind() != Kind::bye && header.kind() != Kind::bye_answer)
        return;
    if (peer->state != PairState::open) {
        if (!peer->has_hello)
            return;
        open(peer, from, now);
    }
    bool joined = header.kind() == Kind::data && is_joined(header, now);
    if (!joined)
        heard(peer, now);
    switch (header.kind()) {
        case Kind::data:
            if (!joined) {
                on_ack_fields(peer, header, {}, now);
                share_.on_heard(&peer->period, now);
                last_heard_ = peer;
                last_heard_at_ = now;
                last_acknowledged_ = header.acknowledged;
                last_window_ = header.window;
                last_share_ = share_.share();
            }
            switch (incoming_of(peer).on_data(header, datagram.body, last_share_, now)) {
                case Incoming::Verdict::taken:
                    break;
                case Incoming::Verdict::twice:
                    ++counters_.twice;
                    break;
                case Incoming::Verdict::dropped:
                    ++counters_.early_dropped;
                    break;
                case Incoming::Verdict::nonsense:
                    ++counters_.malformed;
                    break;
            }
            if (peer->incoming->ack_deadline() <= now)
                want(peer);
            break;
        case Kind::ack:
            on_ack_fields(peer, header, datagram.body, now);
            break;
        case Kind::size_probe:
            on_ack_fields(peer, header, {}, now);
            peer->owed_size_answer = std::max(peer->owed_size_answer, static_cast<std::uint32_t>(datagram.body.size() + sizeof header));
            want(peer);
            break;
        case Kind::size_answer:
            if (std::ranges::find(settings_.packet_sizes, header.fragment) == settings_.packet_sizes.end())
                break;
            on_ack_fields(peer, header, {}, now);
            // The longest probe went first, so the first answer that comes tells what arrives; unless it tells that more did.
            if (peer->outgoing != nullptr && header.fragment < peer->outgoing->doubtful())
                narrow(peer, header.fragment, now);
            else if (peer->outgoing != nullptr)
                peer->outgoing->on_size_proved(header.fragment);
            peer->packet_size = std::max<std::size_t>(peer->packet_size, header.fragment);
            break;
        case Kind::part:
            if (std::vector<std::byte> whole = incoming_of(peer).on_part(header, datagram.body); !whole.empty()) {
                std::optional<Datagram> inner = decode(whole);
                if (inner && inner->header.kind() == Kind::data && inner->header.to == header.to)
                    return take(peer, *inner, from, now);
                ++counters_.malformed;
            }
            if (peer->incoming->ack_deadline() <= now)
                want(peer);
            break;
        case Kind::alive:
            on_ack_fields(peer, header, {}, now);
            if (header.wants_answer()) {
                peer->owes_alive = true;
                want(peer);
            }
            break;
        case Kind::bye:
            on_ack_fields(peer, header, {}, now);
            return on_bye(peer, header.fragment == bye_at_the_end, now);
        case Kind::bye_answer:
            if (peer->leaving)
                return remove(peer);
            if (closing_) {
                forget_pair(peer);
                peer->state = PairState::left;
            }
            break;
        default:
            break;
    }
    // A timer that ends before anything new can be due will look again.
    if (peer->scheduled > now + Incoming::ack_delay || (peer->outgoing != nullptr && peer->outgoing->deadline() < peer->scheduled))
        schedule(peer);
}

// What a hello and a welcome say about the peer's side of the pair.
void Endpoint::learn(Peer *peer, const Header &header, const Nonce &nonce)
{
    peer->has_hello = true;
    peer->its_nonce = nonce;
    peer->its_number = static_cast<std::uint32_t>(header.offset);
    peer->its_incarnation = header.fragment;
    peer->its_first_sequence = header.sequence;
    peer->its_window = header.window;
}

void Endpoint::on_hello(const Datagram &datagram, const Address &from, Time now)
{
    const Header &header = datagram.header;
    ++counters_.datagrams_received;
    if (header.guard[0] != mac_of(hello_key_, header, datagram.body)) {
        ++counters_.alien;
        return;
    }
    Nonce nonce;
    std::optional<Card> card;
    if (datagram.body.size() >= sizeof nonce) {
        std::memcpy(nonce.data(), datagram.body.data(), sizeof nonce);
        card = Card::read_public(datagram.body.subspan(sizeof nonce));
    }
    if (!card || (card->guard == GuardKind::seal && !can_seal())) {
        ++counters_.malformed;
        return;
    }
    if (closing_)
        return;
    auto found = by_name_.find(card->name);
    // Who has the receiver's card may use any name, but not that of a process whose secret we know and it does not.
    const Key *secret = nullptr;
    if (auto known = known_.find(card->name); known != known_.end())
        secret = &known->second.secret;
    else if (found != by_name_.end() && found->second->card.secret)
        secret = &*found->second->card.secret;
    bool by_sender_alone = header.tag == static_cast<std::uint8_t>(Secrets::of_sender);
    if (secret != nullptr ? header.guard[1] != proof_of(*card_.secret, *secret, nonce, hello_of(header)) : by_sender_alone) {
        ++counters_.alien;
        return;
    }
    if (found == by_name_.end() && secret == nullptr && by_name_.size() >= known_.size() + most_strangers) {
        ++counters_.crowded_out;
        return;
    }
    Peer *peer = found != by_name_.end() ? found->second : add(*card);
    if (peer == nullptr || peer->state == PairState::failed)
        return;
    // Its number of the pair may have been that of an earlier one.
    bool another = !peer->has_hello || header.fragment != peer->its_incarnation;
    if (another && peer->its_incarnation != 0 && static_cast<std::int32_t>(header.fragment - peer->its_incarnation) <= 0)
        return;  // of a pair that is no more
    if (peer->has_hello && another) {
        // It said good-bye, which is sent again until it comes, and says what it had got.
        if (peer->made_anew_since == never)
            peer->made_anew_since = now;
        if (peer->outgoing != nullptr && peer->outgoing->outstanding() > 0 && now - peer->made_anew_since < bye_patience)
            return;
        begin_anew(peer);
        if (peer->state == PairState::failed)
            return;
    }
    if (peer->state == PairState::left || (peer->has_hello && nonce != peer->its_nonce))
        return;
    if (!peer->has_hello) {
        learn(peer, header, nonce);
        peer->its_proof = header.guard[1];
        peer->its_hello = hello_of(header);
        peer->uses_our_secret = !by_sender_alone;
        peer->uses_its_secret = peer->card.secret.has_value();
        make_keys(peer);
        heard(peer, now);
    }
    // It may have got an answer only now.
    if (peer->users == 0)
        peer->stranger_at = now + settings_.silence_limit;
    // Each gets its answer: which way back works is not known here.
    Peer::Welcome welcome{static_cast<std::uint32_t>(header.offset >> 32), from};
    if (peer->owed_welcomes.size() < welcomes_limit && std::ranges::find(peer->owed_welcomes, welcome) == peer->owed_welcomes.end())
        peer->owed_welcomes.push_back(welcome);
    want(peer);
    schedule(peer);
}

// Its guard was made with our nonce of now: it is no old one. What a hello said before may have been old.
void Endpoint::on_welcome(const Datagram &datagram, Time now)
{
    const Header &header = datagram.header;
    ++counters_.datagrams_received;
    Peer *peer = find(header.to);
    std::uint64_t candidate = header.offset >> 32;
    Nonce nonce;
    if (peer == nullptr || datagram.body.size() != sizeof nonce || !peer->card.secret || candidate >= peer->card.addresses.size()) {
        ++counters_.alien;
        return;
    }
    if (peer->state != PairState::asking || closing_)
        return;
    std::memcpy(nonce.data(), datagram.body.data(), sizeof nonce);
    bool uses_its = header.tag != static_cast<std::uint8_t>(Secrets::of_receiver);
    bool uses_ours = header.tag != static_cast<std::uint8_t>(Secrets::of_sender);
    // Without its secret only if it has told us so itself: others have ours, too.
    if (!uses_its && !(peer->has_hello && !peer->uses_its_secret)) {
        ++counters_.alien;
        return;
    }
    bool same = peer->has_hello && peer->its_nonce == nonce && peer->uses_its_secret == uses_its && peer->uses_our_secret == uses_ours;
    Side us{card_.name, uses_ours ? &*card_.secret : nullptr, peer->nonce};
    Side it{peer->name, uses_its ? &*peer->card.secret : nullptr, nonce};
    if (header.guard[0] != mac_of(same ? peer->from_it.mac : DirectionKeys(it, us).mac, header, datagram.body)) {
        ++counters_.alien;
        return;
    }
    if (!same) {
        if (peer->has_hello && static_cast<std::int32_t>(header.fragment - peer->its_incarnation) < 0)
            return;
        peer->uses_its_secret = uses_its;
        peer->uses_our_secret = uses_ours;
        learn(peer, header, nonce);
        make_keys(peer);
    }
    heard(peer, now);
    open(peer, peer->card.addresses[candidate], now);
}

void Endpoint::heard(Peer *peer, Time now)
{
    peer->last_heard = now;
    peer->silent_since = peer->refused_since = peer->ask_again_at = never;
    peer->refusals = 0;
    peer->owed_host_asks = 0;
}

void Endpoint::on_ack_fields(Peer *peer, const Header &header, std::span<const std::byte> bitmap, Time now)
{
    if (peer->outgoing == nullptr)
        return;
    Outgoing &outgoing = *peer->outgoing;
    outgoing.on_window(header.window * window_unit);
    if (!outgoing.on_acknowledged(widen(outgoing.base(), header.acknowledged), bitmap,
                                  Time(header.ack_delay * ack_delay_unit), now))
        ++counters_.malformed;
    look_at_doubt(peer, now);
    if (outgoing.can_send())
        want(peer);
}

// Which sizes arrive is asked when one is in doubt, the longest first, and not more often than in a round of probes.
void Endpoint::look_at_doubt(Peer *peer, Time now)
{
    std::size_t doubtful = peer->outgoing->doubtful();
    if (doubtful == 0 || (peer->doubted_at != never && now - peer->doubted_at < size_round_length))
        return;
    peer->doubted_at = now;
    // Packets of the size in doubt are on their way themselves. A peer that computes is not flooded with long ones.
    std::size_t longest = peer->outgoing->unanswered() > unanswered_before_fragments ? settings_.first_packet_size() + 1 : doubtful;
    for (std::size_t i = 0; i < settings_.packet_sizes.size(); ++i)
        if (settings_.packet_sizes[i] < std::min(doubtful, longest))
            peer->owed_size_probes |= static_cast<std::uint16_t>(1u << i);
    want(peer);
}

void Endpoint::narrow(Peer *peer, std::size_t packet_size, Time now)
{
    packet_size = std::max(packet_size, settings_.packet_sizes.front());
    if (packet_size >= peer->packet_size) {
        // Only what was made before we knew is too long.
        if (peer->outgoing != nullptr && peer->outgoing->doubtful() > peer->packet_size)
            peer->outgoing->on_narrow(peer->packet_size);
        return want(peer);
    }
    peer->packet_size = packet_size;
    peer->size_rounds = 0;  // it may only have been bad luck
    peer->sizes_again_at = now;
    peer->parting.clear();
    peer->parted = 0;
    if (peer->outgoing != nullptr)
        peer->outgoing->on_narrow(packet_size);
    want(peer);
    schedule(peer);
}

void Endpoint::on_too_wide(const Address &to, std::size_t width, const Header *quoted, Time now)
{
    for (auto &entry : table_)
        if (Peer *peer = entry.get(); peer != nullptr && peer->state == PairState::open &&
                                      (to.port == 0 ? peer->address.ip == to.ip : peer->address == to) &&
                                      (quoted == nullptr || is_sent_by_us(peer, *quoted)))
            narrow(peer, width, now);
}

bool Endpoint::is_sent_by_us(const Peer *peer, const Header &quoted) const
{
    if (quoted.number == number_from(peer->nonce))
        return quoted.kind() == Kind::hello || quoted.kind_and_flags == 0;
    return peer->has_hello && quoted.kind() > Kind::hello && quoted.to == peer->its_number &&
           quoted.number - peer->to_it.first_number < peer->next_number - peer->to_it.first_number;
}

// Who can forge what we are told in the name of the host can also see what we send. One that lives answers within this time,
// even if it computes: then its caretaker does.
Time Endpoint::patience_with_refusals(const Peer *peer) const
{
    return peer->guard == GuardKind::token ? std::min<Time>(refusals_patience, settings_.silence_limit / 4) : settings_.silence_limit / 4;
}

// An address that is ours as well says nothing about the other host (every docker0 has the same), unless it is ours.
bool Endpoint::is_of_peer_alone(const Peer *peer, const Address &address) const
{
    auto ours = [&](const Address &one) {
        return std::ranges::any_of(card_.addresses, [&](const Address &mine) { return mine.ip == one.ip; });
    };
    return !ours(address) || std::ranges::all_of(peer->card.addresses, ours);
}

// Who refuses packets for a port would have refused those for a process that has ended. Who answers otherwise might not: ICMP may be filtered,
// and then a process is believed to be stopped for so long only.
void Endpoint::on_host_answered(const Address &at, Time now, bool refuses)
{
    Time patience = settings_.contact_patience * settings_.silence_limit;
    for (auto &entry : table_) {
        Peer *peer = entry.get();
        if (peer == nullptr)
            continue;
        if (peer->state == PairState::open && peer->silent_since != never && peer->address.ip == at.ip) {
            if (!refuses && now - peer->last_heard >= patience)
                continue;
            peer->silent_since = now;
            peer->asks = 0;
        } else if (peer->state == PairState::asking && is_of_peer_alone(peer, at) && now - peer->first_asked < patience &&
                   std::ranges::any_of(peer->card.addresses, [&](const Address &one) { return one.ip == at.ip; })) {
            peer->asking_since = now;
        }
    }
}

// When another process of its host was heard.
Time Endpoint::last_sign_of_host(const Peer *peer) const
{
    Time last{};
    for_each_peer([&](const Peer &other) {
        if (&other != peer && other.state == PairState::open && other.address.ip == peer->address.ip)
            last = std::max(last, other.last_heard);
    });
    return last;
}

void Endpoint::on_refused(const Address &to, const Header &quoted, Time now)
{
    if (to.port == closed_port) {
        auto is_ours = [&](const auto &peer) { return peer != nullptr && is_sent_by_us(peer.get(), quoted); };
        if (std::ranges::any_of(table_, is_ours))
            return on_host_answered(to, now, true);
        ++counters_.alien;
        return;
    }
    for (auto &entry : table_) {
        Peer *peer = entry.get();
        if (peer == nullptr || (peer->state != PairState::open && peer->state != PairState::asking))
            continue;
        const auto &addresses = peer->card.addresses;
        bool open = peer->state == PairState::open;
        if (open ? peer->address != to : std::ranges::find(addresses, to) == addresses.end())
            continue;
        if (!is_sent_by_us(peer, quoted)) {
            ++counters_.alien;
            continue;
        }
        if (peer->leaving) {
            remove(peer);
            continue;
        }
        if (closing_) {
            forget_pair(peer);
            peer->state = PairState::left;
            continue;
        }
        // The others are asked now.
        if (!open && asks_preferred(peer)) {
            peer->hellos = hellos_to_preferred;
            peer->hello_at = now;
            schedule(peer);
            continue;
        }
        if (peer->refused_since == never) {
            peer->refused_since = now;
            if (open)
                on_refused_timer(peer, now);
        }
        peer->refusals = static_cast<std::uint8_t>(std::min(peer->refusals + 1u, 200u));
        if (peer->refusals < refusals_believed * (open ? 1 : addresses.size()) ||
            now - peer->refused_since < patience_with_refusals(peer))
            continue;
        fail(peer, Status::unreachable,
             open ? "udp: the process at " + to.text() + " has ended: nobody listens there any more"
                  : "udp: nobody listens at " + addresses_of(peer) + ": the process has ended");
    }
}

// ---- timers ----

Time Endpoint::deadline(const Peer *peer) const
{
    Time time = std::min({peer->hello_at, peer->size_probe_at, peer->watch_at, peer->ask_again_at, peer->bye_at, peer->stranger_at});
    if (peer->state == PairState::open) {
        if (peer->outgoing != nullptr)
            time = std::min(time, peer->outgoing->deadline());
        // One that is due goes out with the next transmission, after which this is looked at again.
        if (peer->incoming != nullptr && !peer->listed)
            time = std::min(time, peer->incoming->ack_deadline());
    }
    return time;
}

// A timer that was set for a later time stays where it is; when it ends, what is due is looked up again.
void Endpoint::schedule(Peer *peer)
{
    Time time = deadline(peer);
    if (time >= peer->scheduled)
        return;
    if (peer->scheduled != never)
        timers_.erase({peer->scheduled, peer->number});
    peer->scheduled = time;
    timers_.emplace(time, peer->number);
}

void Endpoint::on_timer(Time now)
{
    while (next_deadline() <= now) {
        Peer *peer = find(timers_.begin()->second);
        timers_.erase(timers_.begin());
        peer->scheduled = never;
        if (now >= peer->hello_at)
            on_hello_timer(peer, now);
        if (now >= peer->size_probe_at)
            on_size_timer(peer, now);
        if (now >= peer->watch_at)
            on_watch_timer(peer, now);
        if (now >= peer->ask_again_at)
            on_refused_timer(peer, now);
        if (now >= peer->bye_at) {
            on_bye_timer(peer, now);
            continue;
        }
        if (now >= peer->stranger_at && on_stranger_timer(peer, now))
            continue;
        if (peer->state == PairState::open) {
            if (peer->outgoing != nullptr) {
                peer->outgoing->on_timer(now);
                look_at_doubt(peer, now);
            }
            want(peer);
        }
        schedule(peer);
    }
}

bool Endpoint::asks_preferred(const Peer *peer)
{
    return peer->hellos <= hellos_to_preferred && peer->preferred < peer->card.addresses.size();
}

void Endpoint::on_hello_timer(Peer *peer, Time now)
{
    Time interval = std::min<Time>(longest_hello_interval, settings_.silence_limit / 8);
    if (peer->hello_at != never && now - peer->hello_at > settings_.silence_limit / 4)
        peer->asking_since += now - peer->hello_at, peer->first_asked += now - peer->hello_at;  // we were stopped ourselves
    Time asked_for = now - peer->asking_since;
    if (settings_.gives_up && asked_for >= settings_.silence_limit && peer->hellos >= least_hellos)
        return fail(peer, Status::unreachable,
                    "udp: no answer from a peer that offers the addresses " + addresses_of(peer) + " within " +
                        in_seconds(settings_.silence_limit) +
                        "; UDP between the hosts may be blocked, or the addresses are of a network they do not share "
                        "(MPIR_CVAR_CH4_COMPOSITE_UDP_INTERFACES chooses)");
    peer->hello_at = now + std::min(first_hello_interval * (1u << std::min<unsigned>(peer->hellos, 8)), interval);
    peer->hellos = static_cast<std::uint8_t>(std::min<unsigned>(peer->hellos + 1u, 200));
    peer->owed_hellos = asks_preferred(peer) ? 1 : static_cast<std::uint8_t>(peer->card.addresses.size());
    if (settings_.gives_up && asked_for >= settings_.silence_limit / 2)
        peer->owed_host_asks = static_cast<std::uint8_t>(peer->card.addresses.size());
    want(peer);
}

void Endpoint::on_size_timer(Peer *peer, Time now)
{
    peer->size_probe_at = never;
    if (peer->state != PairState::open || peer->size_rounds >= size_rounds)
        return;
    ++peer->size_rounds;
    for (std::size_t i = 0; i < settings_.packet_sizes.size(); ++i)
        if (settings_.packet_sizes[i] > peer->packet_size)
            peer->owed_size_probes |= static_cast<std::uint16_t>(1u << i);
    peer->size_probe_at = now + size_round_length;
    want(peer);
    schedule(peer);
}

void Endpoint::on_watch_timer(Peer *peer, Time now)
{
    Time quiet = settings_.silence_limit / 4;
    if (now - peer->last_heard < quiet) {
        peer->watch_at = peer->last_heard + quiet;
        return;
    }
    if (peer->silent_since == never) {
        peer->silent_since = now;
        peer->asks = 0;
    } else if (now - peer->watch_at > quiet) {
        peer->silent_since += now - peer->watch_at;  // we were stopped ourselves
    }
    bool over = settings_.gives_up && now - peer->silent_since >= settings_.silence_limit - quiet && peer->asks >= least_asks;
    if (Time sign = over ? last_sign_of_host(peer) : Time::zero(); sign > peer->silent_since) {
        peer->silent_since = sign;
        over = false;
    }
    if (over)
        return fail(peer, Status::unreachable,
                    "udp: no sign of life from the process at " + peer->address.text() + " for " +
                        in_seconds(settings_.silence_limit) +
                        " (MPIR_CVAR_CH4_COMPOSITE_UDP_SILENCE_LIMIT): it, its host or the network between has failed");
    peer->asks = static_cast<std::uint8_t>(std::min<unsigned>(peer->asks + 1u, 200));
    peer->asks_alive = true;
    if (settings_.gives_up && peer->asks > asks_before_host)
        peer->owed_host_asks = 1;
    peer->watch_at = now + quiet / 4;
    want(peer);
}

// It is asked until it answers, or is refused for long enough.
void Endpoint::on_refused_timer(Peer *peer, Time now)
{
    peer->ask_again_at = now + patience_with_refusals(peer) / 3;
    peer->asks_alive = true;
    want(peer);
    schedule(peer);
}

void Endpoint::on_bye_timer(Peer *peer, Time)
{
    peer->bye_at = never;
    if (peer->byes >= byes_limit) {
        if (peer->leaving)
            remove(peer);
        return;
    }
    peer->owes_bye = true;
    want(peer);
}

// Whoever has left, has failed, or has never used the answer to its greeting is forgotten. True: that one was.
bool Endpoint::on_stranger_timer(Peer *peer, Time now)
{
    peer->stranger_at = never;
    if (peer->users > 0 || peer->source != nullptr || peer->leaving)
        return false;
    if (peer->state == PairState::open || (peer->state == PairState::quiet && now - peer->last_heard < settings_.silence_limit)) {
        peer->stranger_at = now + settings_.silence_limit;
        return false;
    }
    if (auto found = by_name_.find(peer->name); found != by_name_.end() && found->second == peer)
        by_name_.erase(found);
    remove(peer);
    return true;
}

// ---- transmission ----

void Endpoint::want(Peer *peer)
{
    if (peer->listed)
        return;
    peer->listed = true;
    ready_.push_back(peer->number);
}

bool Endpoint::poll_transmit(Transmission *transmission, Time now)
{
    while (!ready_.empty()) {
        Peer *peer = find(ready_.front());
        if (peer == nullptr) {
            ready_.pop_front();
            continue;
        }
        transmission->pieces.clear();
        transmission->may_fragment = transmission->asks_host = false;
        bool something = transmit_greeting(peer, transmission) || transmit_control(peer, transmission, now) ||
                         transmit_data(peer, transmission, now);
        ready_.pop_front();
        if (something) {
            ++counters_.transmissions;
            counters_.datagrams_sent += transmission->size == transmission->segment
                                            ? 1
                                            : (transmission->size + transmission->segment - 1) / transmission->segment;
        }
        if (peer->leaving && !peer->owes_bye && !peer->owes_bye_answer && peer->bye_at == never) {
            remove(peer);  // both have said good-bye
        } else if (something && has_more(peer, now)) {
            ready_.push_back(peer->number);  // again, after the others
        } else {
            peer->listed = false;
            schedule(peer);
        }
        if (something)
            return true;
    }
    return false;
}

// False when there is nothing more to send to the peer now.
bool Endpoint::has_more(const Peer *peer, Time now) const
{
    return !peer->owed_welcomes.empty() || peer->owes_alive || peer->asks_alive || peer->owes_bye || peer->owes_bye_answer || peer->owed_hellos != 0 ||
           peer->owed_host_asks != 0 ||
           peer->owed_size_probes != 0 || peer->owed_size_answer != 0 || peer->parted < peer->parting.size() ||
           (peer->outgoing != nullptr && peer->outgoing->can_send()) ||
           (peer->incoming != nullptr && peer->incoming->ack_deadline() <= now);
}

void Endpoint::protect(Peer *peer, Header *header, std::span<const std::byte> body, std::byte *sealed) const
{
    header->number = peer->next_number++;
    if (peer->guard == GuardKind::token) {
        header->guard = {peer->to_it.token, 0};
    } else if (peer->guard == GuardKind::mac) {
        header->guard[0] = mac_of(peer->to_it.mac, *header, body);
    } else {
        std::array<std::uint64_t, 2> tag;
        seal_body(peer->to_it, header->number, without_guard(header), body, sealed, reinterpret_cast<std::byte *>(tag.data()));
        header->guard = tag;
    }
}

void Endpoint::transmit_one(Peer *peer, Transmission *transmission, Kind kind, Header header, const Address &to, std::size_t size)
{
    header.kind_and_flags |= static_cast<std::uint8_t>(kind);
    std::vector<std::byte> &bytes = transmission->control;
    bytes.resize(std::max(bytes.size(), size));
    header.body_size = (bytes.size() - sizeof header) & 0xffff;
    std::span body = std::span(bytes).subspan(sizeof header);
    if (kind == Kind::hello)
        header.guard[0] = mac_of(hello_key(*peer->card.secret), header, body);
    else if (kind == Kind::welcome)
        header.guard[0] = mac_of(peer->to_it.mac, header, body);
    else
        protect(peer, &header, body, body.data());
    std::memcpy(bytes.data(), &header, sizeof header);
    transmission->to = to;
    transmission->size = transmission->segment = bytes.size();
    transmission->pieces.push_back({bytes.data(), bytes.size()});
}

std::uint16_t Endpoint::window_field() const
{
    return static_cast<std::uint16_t>(std::min<std::size_t>(share_.share() / window_unit, 0xffff));
}

bool Endpoint::transmit_greeting(Peer *peer, Transmission *transmission)
{
    if (peer->owed_welcomes.empty() && peer->owed_hellos == 0)
        return peer->state == PairState::asking && transmit_host_ask(peer, transmission);
    Header header;
    header.window = window_field();
    header.sequence = peer->first_sequence;
    header.fragment = peer->incarnation;
    header.tag = static_cast<std::uint8_t>(!peer->has_hello || (peer->uses_our_secret && peer->uses_its_secret) ? Secrets::of_both
                                           : peer->uses_our_secret                                          ? Secrets::of_sender
                                                                                                            : Secrets::of_receiver);
    std::vector<std::byte> &bytes = transmission->control;
    bytes.assign(sizeof header + sizeof(Nonce) + Card::max_size, std::byte{0});
    std::memcpy(bytes.data() + sizeof header, peer->nonce.data(), sizeof(Nonce));
    if (!peer->owed_welcomes.empty()) {
        // In the order in which they were asked for: who asks has put first where it would rather be.
        Peer::Welcome welcome = peer->owed_welcomes.front();
        peer->owed_welcomes.erase(peer->owed_welcomes.begin());
        header.to = peer->its_number;
        header.number = peer->next_number++;
        header.offset = std::uint64_t{welcome.candidate} << 32 | peer->number;
        bytes.resize(sizeof header + sizeof(Nonce));
        transmit_one(peer, transmission, Kind::welcome, header, welcome.to);
        return true;
    }
    std::size_t candidate = asks_preferred(peer) ? peer->preferred : peer->card.addresses.size() - peer->owed_hellos;
    --peer->owed_hellos;
    header.offset = std::uint64_t{candidate} << 32 | peer->number;
    header.number = number_from(peer->nonce);
    header.guard[1] = proof_of(*peer->card.secret, *card_.secret, peer->nonce, hello_of(header));
    bytes.resize(sizeof header + sizeof(Nonce) + card_.write_public(bytes.data() + sizeof header + sizeof(Nonce)));
    transmit_one(peer, transmission, Kind::hello, header, peer->card.addresses[candidate]);
    return true;
}

// Whoever listens there after all learns nothing: zeros, and a number by which we know it again when it is refused.
bool Endpoint::transmit_host_ask(Peer *peer, Transmission *transmission)
{
    if (peer->owed_host_asks == 0)
        return false;
    --peer->owed_host_asks;
    transmission->to = peer->state == PairState::open ? peer->address : peer->card.addresses[peer->owed_host_asks];
    transmission->to.port = closed_port;
    transmission->asks_host = true;
    Header header;
    header.number = number_from(peer->nonce);
    transmission->control.assign(sizeof header, std::byte{0});
    std::memcpy(transmission->control.data(), &header, sizeof header);
    transmission->size = transmission->segment = sizeof(Header);
    transmission->pieces.push_back({transmission->control.data(), sizeof(Header)});
    return true;
}

void Endpoint::fill_ack(Peer *peer, Header *header, Time now)
{
    header->to = peer->its_number;
    header->window = window_field();
    header->acknowledged = peer->its_first_sequence;
    header->ack_delay = 0;
    if (peer->incoming != nullptr) {
        header->acknowledged = static_cast<std::uint32_t>(peer->incoming->expected());
        auto delay = static_cast<std::uint64_t>(peer->incoming->on_ack_sent(now).count()) / ack_delay_unit;
        header->ack_delay = static_cast<std::uint16_t>(std::min<std::uint64_t>(delay, 0xffff));
    }
}

bool Endpoint::transmit_control(Peer *peer, Transmission *transmission, Time now)
{
    if (peer->owes_bye_answer) {
        peer->owes_bye_answer = false;
        Header header;
        header.to = peer->its_number;
        transmission->control.assign(sizeof header, std::byte{0});
        transmit_one(peer, transmission, Kind::bye_answer, header, peer->address);
        return true;
    }
    if (peer->state != PairState::open)
        return false;
    Header header;
    auto one = [&](Kind kind, std::size_t size = sizeof(Header)) {
        fill_ack(peer, &header, now);
        transmission->control.assign(sizeof header, std::byte{0});
        transmit_one(peer, transmission, kind, header, peer->address, size);
        return true;
    };
    if (peer->owes_bye) {
        peer->owes_bye = false;
        peer->watch_at = peer->size_probe_at = never;  // from now on we only answer
        peer->bye_at = now + first_bye_interval * (1u << peer->byes++);
        header.fragment = closing_ ? bye_at_the_end : 0;
        return one(Kind::bye);
    }
    if (peer->leaving || closing_)
        return false;
    if (peer->owed_size_answer != 0) {
        header.fragment = std::exchange(peer->owed_size_answer, 0);
        return one(Kind::size_answer);
    }
    if (peer->owed_size_probes != 0) {
        unsigned which = static_cast<unsigned>(std::bit_width(peer->owed_size_probes) - 1);
        peer->owed_size_probes ^= static_cast<std::uint16_t>(1u << which);
        header.fragment = static_cast<std::uint32_t>(settings_.packet_sizes[which]);
        return one(Kind::size_probe, settings_.packet_sizes[which]);
    }
    if (peer->owes_alive || peer->asks_alive) {
        header.kind_and_flags = peer->asks_alive ? Header::answer_now : 0;
        peer->owes_alive = peer->asks_alive = false;
        return one(Kind::alive);
    }
    if (transmit_host_ask(peer, transmission))
        return true;
    bool ack_due = peer->incoming != nullptr && peer->incoming->ack_deadline() <= now;
    if (!ack_due || (!peer->incoming->has_early() && peer->outgoing != nullptr && peer->outgoing->can_send()))
        return false;
    ++counters_.acks_sent;
    fill_ack(peer, &header, now);
    transmission->control.assign(sizeof header, std::byte{0});
    peer->incoming->write_bitmap(&transmission->control);
    transmit_one(peer, transmission, Kind::ack, header, peer->address);
    return true;
}

void Endpoint::add(Peer *peer, Flight &flight, const Header &ack, Transmission *transmission)
{
    Header &header = flight.header();
    header.to = ack.to;
    header.window = ack.window;
    header.acknowledged = ack.acknowledged;
    header.ack_delay = ack.ack_delay;
    if (transmission->segment == 0)
        transmission->segment = flight.size();
    transmission->size += flight.size();
    if (peer->guard == GuardKind::seal) [[unlikely]] {
        // The packet stays as it is here, for the next time.
        std::vector<std::byte> &bytes = transmission->control;
        bytes.resize(transmission->size);
        std::byte *sealed = bytes.data() + transmission->size - flight.size();
        protect(peer, &header, {flight.body, flight.body_size}, sealed + sizeof header);
        std::memcpy(sealed, &header, sizeof header);
        transmission->pieces.assign(1, {bytes.data(), bytes.size()});
        return;
    }
    protect(peer, &header, {flight.body, flight.body_size}, nullptr);
    transmission->pieces.push_back({reinterpret_cast<const std::byte *>(&header), flight.borrowed() ? sizeof header : flight.size()});
    if (flight.borrowed())
        transmission->pieces.push_back({flight.body, flight.body_size});
}

bool Endpoint::transmit_data(Peer *peer, Transmission *transmission, Time now)
{
    if (peer->state != PairState::open || peer->outgoing == nullptr || peer->leaving || closing_)
        return false;
    transmission->size = transmission->segment = 0;
    Outgoing &outgoing = *peer->outgoing;
    Header ack;  // the same for all of a train
    if (peer->parted == peer->parting.size())
        outgoing.take_train(now, peer->packet_size, [&](Flight &flight) {
            if (transmission->pieces.empty())
                fill_ack(peer, &ack, now);
            if (flight.size() <= peer->packet_size)
                return add(peer, flight, ack, transmission);
            fill_ack(peer, &flight.header(), now);
            peer->parting.resize(flight.size());
            std::memcpy(peer->parting.data(), &flight.header(), sizeof(Header));
            std::memcpy(peer->parting.data() + sizeof(Header), flight.body, flight.body_size);
            peer->parted = 0;
            peer->part_size = peer->packet_size - sizeof(Header);
        });
    if (peer->parted < peer->parting.size())
        transmit_parts(peer, transmission);
    if (transmission->pieces.empty())
        return false;
    transmission->to = peer->address;
    transmission->may_fragment = outgoing.unanswered() >= unanswered_before_fragments;
    return true;
}

// A packet that was made for a wider path, or whose message has a long header, keeps its number: it goes as parts, packets by
// themselves, each with its guard, which the peer puts together again.
void Endpoint::transmit_parts(Peer *peer, Transmission *transmission)
{
    std::size_t size = peer->parting.size();
    std::size_t left = (size - peer->parted + peer->part_size - 1) / peer->part_size;
    std::size_t count = std::min({left, settings_.train_limit, 65'000 / (sizeof(Header) + peer->part_size)});
    Header whole, header;
    std::memcpy(&whole, peer->parting.data(), sizeof whole);
    header.kind_and_flags = static_cast<std::uint8_t>(Kind::part);
    header.to = peer->its_number;
    header.sequence = whole.sequence;
    header.window = whole.window;
    header.offset = std::uint64_t{peer->part_size} << 32 | size;
    transmission->pieces.clear();
    transmission->size = 0;
    transmission->segment = sizeof header + std::min(peer->part_size, size - peer->parted);
    bool sealed = peer->guard == GuardKind::seal;
    std::size_t room = sizeof header + (sealed ? peer->part_size : 0);
    transmission->control.resize(count * room);
    for (std::size_t i = 0; i < count; ++i) {
        std::span body(peer->parting.data() + peer->parted, std::min(peer->part_size, size - peer->parted));
        std::byte *bytes = transmission->control.data() + i * room;
        header.fragment = static_cast<std::uint32_t>(peer->parted / peer->part_size);
        header.body_size = body.size() & 0xffff;
        protect(peer, &header, body, bytes + sizeof header);
        std::memcpy(bytes, &header, sizeof header);
        transmission->pieces.push_back({bytes, sizeof header + (sealed ? body.size() : 0)});
        if (!sealed)
            transmission->pieces.push_back({body.data(), body.size()});
        transmission->size += sizeof header + body.size();
        peer->parted += body.size();
    }
}

Endpoint::Expected Endpoint::expected() const
{
    Expected expected;
    // What may be forged comes to memory of ours first.
    if (last_heard_ == nullptr || last_heard_->incoming == nullptr || last_heard_->guard != GuardKind::token)
        return expected;
    expected.body_size = last_heard_->incoming->next_place(&expected.place, &expected.first);
    expected.first.to = last_heard_->number;
    return expected;
}

Counters Endpoint::counters() const
{
    Counters counters = counters_;
    for_each_peer([&](const Peer &peer) {
        if (peer.outgoing == nullptr)
            return;
        counters.sent_again += peer.outgoing->counters().sent_again;
        counters.timeouts += peer.outgoing->counters().timeouts;
        counters.halvings += peer.outgoing->congestion().halvings();
    });
    return counters;
}

Time Endpoint::round_trip() const
{
    Time shortest{};
    for_each_peer([&](const Peer &peer) {
        if (peer.outgoing == nullptr || !peer.outgoing->round_trip().known())
            return;
        Time time = peer.outgoing->round_trip().smoothed();
        shortest = shortest == Time::zero() ? time : std::min(shortest, time);
    });
    return shortest;
}

}  // namespace pm::udp
