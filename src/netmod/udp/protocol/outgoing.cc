#include "netmod/udp/protocol/outgoing.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace pm::udp {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t reordering_packets = 3;
constexpr Time answer_patience = 1ms;  // acknowledgements are held back for less than this
constexpr Time probe_patience = 600us;  // for those nobody has asked for
constexpr unsigned probes_limit = 2;
constexpr Time longest_timeout = 1s;
constexpr unsigned silent_timeouts = 3;
constexpr unsigned losses_before_doubt = 2;  // of a packet of a size of which others have arrived

// At once: it is the caller's again when all of it is in packets.
bool is_copied(const Payload &payload)
{
    return payload.pack != nullptr || payload.size <= Outgoing::whole_copy_limit;
}

}  // namespace

Status Outgoing::accept(const Message &message, SendProgress *progress, std::size_t packet_size)
{
    while (!progress->started || progress->sent < message.payload.size) {
        if (flights_.size() >= flight_limit || waiting_ >= waiting_limit)
            return Status::again;
        make_fragment(message, progress, packet_size, is_copied(message.payload) ? Body::copied : Body::borrowed);
    }
    if (is_copied(message.payload))
        return Status::ok;
    if (!progress->taken) {
        progress->taken = true;
        progress->operation = reinterpret_cast<void *>(static_cast<std::uintptr_t>(gone_ + flights_.size()));
        asks_ = 0;
    }
    return let_go_of(*progress) ? Status::ok : Status::again;
}

void Outgoing::lend(const Message &message, std::size_t packet_size)
{
    SendProgress progress;
    for (lent_ = 0; !progress.started || progress.sent < message.payload.size; ++lent_)
        make_fragment(message, &progress, packet_size, message.payload.pack != nullptr ? Body::copied : Body::lent);
}

void Outgoing::keep_lent()
{
    for (; lent_ > 0; --lent_)
        if (Flight &flight = flights_[flights_.size() - lent_]; flight.borrowed())
            copy(&flight);
}

void Outgoing::copy(Flight *flight)
{
    auto own = blocks_.take(flight->size());
    std::memcpy(own.get(), &flight->header_alone, sizeof(Header));
    std::memcpy(own.get() + sizeof(Header), flight->body, flight->body_size);
    flight->own = std::move(own);
    flight->body = flight->own.get() + sizeof(Header);
}

// The first packet of a message is copied in any case.
void Outgoing::make_fragment(const Message &message, SendProgress *progress, std::size_t packet_size, Body kind)
{
    const Payload &payload = message.payload;
    std::size_t header_size = progress->started ? 0 : message.header_size;
    // The message's header is never cut; a packet that it makes too long goes in parts.
    std::size_t room = std::max(packet_size - sizeof(Header), header_size);
    std::size_t piece = std::min(room - header_size, payload.size - progress->sent);
    bool copy = header_size != 0 || kind == Body::copied || payload.size == 0;
    Flight &flight = flights_.emplace_back();
    flight.body_size = header_size + piece;
    if (copy)
        flight.own = blocks_.take(flight.size());
    Header &header = copy ? *new (flight.own.get()) Header : flight.header_alone;
    header.kind_and_flags = static_cast<std::uint8_t>(Kind::data);
    header.sequence = static_cast<std::uint32_t>(next_++);
    header.tag = message.tag;
    if (!progress->started) {
        header.header_size = static_cast<std::uint16_t>(header_size);
        header.offset = payload.size;
        next_fragment_ = 0;
        progress->started = true;
    } else {
        header.offset = progress->sent;
    }
    header.fragment = next_fragment_++;
    header.body_size = flight.body_size & 0xffff;
    if (copy) {
        std::byte *body = flight.own.get() + sizeof(Header);
        if (header_size != 0)
            message.copy_header_to(body);
        payload.copy_to(body + header_size, progress->sent, piece);
        flight.body = body;
    } else {
        flight.body = static_cast<const std::byte *>(payload.data) + progress->sent;
        borrowed_bytes_ += kind == Body::borrowed ? piece : 0;
    }
    progress->sent += piece;
    if (progress->sent == payload.size && borrowed_bytes_ > 0)
        header.kind_and_flags |= Header::answer_now;
    ++waiting_;
}

Flight *Outgoing::send_at_once(const Message &message, std::size_t packet_size, Time now)
{
    std::size_t size = sizeof(Header) + message.header_size + message.payload.size;
    if (lost_ + waiting_ != 0 || size > packet_size || flights_.size() >= flight_limit ||
        cost_on_its_way_ + cost_of(size) > window())
        return nullptr;
    SendProgress progress;
    make_fragment(message, &progress, packet_size, Body::copied);
    waiting_ = 0;
    leave(flights_.back(), packet_size, now);
    return &flights_.back();
}

// True when no packet needs the payload any more.
bool Outgoing::let_go_of(const SendProgress &progress)
{
    if (borrowed_bytes_ == 0 || has_arrived(progress, gone_))
        return true;
    bool is_last = reinterpret_cast<std::uintptr_t>(progress.operation) == gone_ + flights_.size();
    if (!is_last || waiting_ > 0 || borrowed_bytes_ > rest_copy_limit || ++asks_ <= asks_before_copy)
        return false;
    for (std::size_t i = 0; i < flights_.size(); ++i) {
        Flight &flight = flights_[i];
        if (flight.borrowed() && flight.state != Flight::State::arrived)
            copy(&flight);
    }
    borrowed_bytes_ = 0;
    return true;
}

bool Outgoing::fits(const Flight &flight) const
{
    return probes_ > 0 || cost_on_its_way_ == 0 || cost_on_its_way_ + cost_of(flight.size()) <= window();
}

std::size_t Outgoing::first_to_send() const
{
    if (lost_ == 0)
        return flights_.size() - waiting_;
    std::size_t i = 0;
    while (flights_[i].state != Flight::State::lost)
        ++i;
    return i;
}

bool Outgoing::can_send() const
{
    return lost_ + waiting_ > 0 && fits(flights_[first_to_send()]);
}

void Outgoing::take_off(Flight &flight)
{
    cost_on_its_way_ -= cost_of(flight.size());
    again_on_its_way_ -= flight.sent_again;
}

// What was sent again just now is rather an earlier one of it that has arrived. But when the next answer is of that kind, too, and tells of
// nothing else, then the round trip is shorter than what was measured: that may have been the time in which nobody looked at the socket.
bool Outgoing::is_quick(const Flight &flight, Time now) const
{
    return flight.sent_again && now - flight.sent < round_trip_.smoothed() / 2;
}

void Outgoing::arrive(Flight &flight, Time now)
{
    if (flight.state == Flight::State::lost)
        --lost_;
    else
        take_off(flight);
    if (flight.borrowed())
        borrowed_bytes_ -= flight.body_size;
    flight.state = Flight::State::arrived;
    if (flight.own != nullptr)
        blocks_.give_back(std::move(flight.own), flight.size());
    on_size_proved(flight.longest);
    congestion_.on_arrived(flight.order, next_order_);
    if (flight.order > newest_order_ && (quick_answers_ > 0 || !is_quick(flight, now))) {
        newest_order_ = flight.order;
        newest_took_ = now - flight.sent;
    }
}

void Outgoing::lose(Flight &flight, bool congestion)
{
    flight.state = Flight::State::lost;
    ++lost_;
    take_off(flight);
    if (++flight.losses >= (flight.longest > proved_ ? 1 : losses_before_doubt) && flight.longest > settings_.packet_sizes.front()) {
        flight.losses = 0;
        doubtful_ = doubtful_ == 0 ? flight.longest : std::min(doubtful_, flight.longest);
    }
    if (congestion)
        congestion_.on_lost(flight.order, next_order_, packet_cost());
}

void Outgoing::on_narrow(std::size_t packet_size)
{
    proved_ = std::min(proved_, packet_size);
    for (std::size_t i = 0; i < flights_.size(); ++i) {
        Flight &flight = flights_[i];
        if (flight.state == Flight::State::on_its_way && flight.longest > packet_size)
            lose(flight, false);
        flight.losses = 0;
    }
    doubtful_ = 0;  // about a size that is no longer sent
}

bool Outgoing::on_acknowledged(std::uint64_t acknowledged, std::span<const std::byte> bitmap, Time held_back, Time now)
{
    std::uint64_t first_unsent = next_ - waiting_;
    if (static_cast<std::int64_t>(acknowledged - base_) < 0)
        return true;  // an old one that was overtaken
    if (acknowledged - base_ > first_unsent - base_)
        return false;

    std::size_t arrived_cost = 0;
    Flight *newest = nullptr;
    Time newest_sent{};
    bool newest_sent_again = true;
    bool quick = true;  // all of them
    auto take = [&](Flight &flight) {
        if (flight.state == Flight::State::arrived)
            return;
        arrived_cost += cost_of(flight.size());
        quick = quick && is_quick(flight, now);
        if (newest == nullptr || flight.order > newest->order) {
            newest = &flight;
            newest_sent = flight.sent;
            newest_sent_again = flight.sent_again;
        }
        arrive(flight, now);
    };
    for (std::uint64_t sequence = base_; sequence != acknowledged; ++sequence)
        take(flight(sequence));
    for (std::size_t i = 0; i < 8 * bitmap.size(); ++i) {
        if (acknowledged + 1 + i - base_ >= first_unsent - base_)
            break;
        if ((bitmap[i / 8] >> i % 8 & std::byte{1}) != std::byte{0})
            take(flight(acknowledged + 1 + i));
    }
    if (newest == nullptr)
        return true;
    quick_answers_ = quick ? quick_answers_ + 1 : 0;
    if (!newest_sent_again && now - newest_sent >= held_back)
        round_trip_.sample(now - newest_sent - held_back);
    while (!flights_.empty() && flights_.front().state == Flight::State::arrived) {
        flights_.pop_front();
        ++base_;
        ++gone_;
    }
    if (flights_.empty())
        unasked_cost_ = doubtful_ = quick_answers_ = 0;
    backoff_ = probed_ = 0;
    probes_ = 0;
    timer_start_ = now;
    congestion_.on_acknowledged(arrived_cost, packet_cost(), was_full_);
    was_full_ = false;
    find_losses(now);
    return true;
}

bool Outgoing::can_restart()
{
    for (std::size_t i = 0; i < flights_.size(); ++i)
        if (flights_[i].state == Flight::State::arrived)
            return false;
    return flights_.empty() || flights_.front().header().fragment == 0;
}

void Outgoing::restart(std::uint64_t first_sequence)
{
    base_ = next_ = first_sequence;
    for (std::size_t i = 0; i < flights_.size(); ++i) {
        flights_[i].header().sequence = static_cast<std::uint32_t>(next_++);
        flights_[i].state = Flight::State::waiting;
        flights_[i].losses = 0;
    }
    waiting_ = flights_.size();
    lost_ = cost_on_its_way_ = unasked_cost_ = again_on_its_way_ = doubtful_ = quick_answers_ = 0;
    probes_ = backoff_ = probed_ = 0;
    reordering_end_ = never;
}

void Outgoing::find_losses(Time now)
{
    bool lost = false;
    Time patience = newest_took_ + round_trip_.reordering();
    reordering_end_ = never;
    for (std::size_t i = 0; i < flights_.size(); ++i) {
        Flight &flight = flights_[i];
        if (flight.state == Flight::State::waiting)
            break;
        if (flight.state != Flight::State::on_its_way)
            continue;
        bool overtaken = flight.order < newest_order_;
        if (!overtaken && again_on_its_way_ == 0 && !lost)
            break;  // nor are those after it
        if ((overtaken && (flight.order + reordering_packets <= newest_order_ || flight.sent + patience <= now)) ||
            (lost && settings_.recovery == Recovery::go_back_n)) {
            lose(flight, true);
            lost = true;
        } else if (overtaken) {
            reordering_end_ = std::min(reordering_end_, flight.sent + patience);
        }
    }
}

Time Outgoing::timer_end() const
{
    // A round trip may have been measured that is much longer than any, see is_quick().
    Time timeout = round_trip_.known() && probed_ < probes_limit
                       ? round_trip_.probe_timeout() + (asked_last_ ? Time::zero() : probe_patience)
                       : round_trip_.timeout(answer_patience) * (1u << std::min(backoff_, 12u));
    return timer_start_ + std::min(timeout, longest_timeout);
}

Time Outgoing::deadline() const
{
    if (flights_.empty() || cost_on_its_way_ == 0)
        return never;
    return std::min(reordering_end_, timer_end());
}

void Outgoing::on_timer(Time now)
{
    if (now < deadline())
        return;
    if (now >= reordering_end_)
        find_losses(now);
    if (cost_on_its_way_ == 0 || now < timer_end())
        return;
    ++counters_.timeouts;
    if (round_trip_.known() && probed_ < probes_limit)
        ++probed_;
    else if (++backoff_ == silent_timeouts)
        congestion_.on_silence(packet_cost());
    timer_start_ = now;
    bool asked = false;
    for (std::size_t i = 0; i < flights_.size(); ++i) {
        Flight &flight = flights_[i];
        if (flight.state == Flight::State::waiting || (asked && settings_.recovery == Recovery::selective))
            break;
        if (flight.state != Flight::State::on_its_way)
            continue;
        lose(flight, false);
        flight.header().kind_and_flags |= Header::answer_now;
        asked = true;
    }
    probes_ = 1;
}

}  // namespace pm::udp
