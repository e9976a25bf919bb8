#include "netmod/udp/protocol/incoming.h"

#include <algorithm>
#include <cstring>

namespace pm::udp {

Incoming::Verdict Incoming::on_data(const Header &header, std::span<std::byte> body, std::size_t window, Time now)
{
    std::uint64_t sequence = widen(expected_, header.sequence);
    auto ahead = static_cast<std::int64_t>(sequence - expected_);
    newest_arrival_ = now;
    last_fragment_size_ = body.size();
    if (ahead != 0) {
        ack_deadline_ = now;
        if (ahead < 0)
            return Verdict::twice;
        return keep_early(sequence, header, body);
    }
    if (!fits(sequence, header, body.size()))
        return Verdict::nonsense;
    unacknowledged_ += cost_of(sizeof header + body.size());
    if (header.wants_answer() || unacknowledged_ >= window / 4 || has_early())
        ack_deadline_ = now;
    else
        ack_deadline_ = std::min(ack_deadline_, now + ack_delay);
    ++expected_;
    deliver(sequence, header, body, false);
    while (!early_.empty() && early_.begin()->first == expected_) {
        Early next = std::move(early_.begin()->second);
        early_.erase(early_.begin());
        if (next.bytes != nullptr)
            early_bytes_ -= next.size;
        sequence = expected_;
        if (!fits(sequence, next.header, next.size))
            return Verdict::nonsense;
        ++expected_;
        deliver(sequence, next.header, {next.bytes.get(), next.size}, next.bytes == nullptr && next.size != 0);
    }
    return Verdict::taken;
}

std::vector<std::byte> Incoming::on_part(const Header &header, std::span<const std::byte> body)
{
    std::uint64_t sequence = widen(expected_, header.sequence);
    std::size_t size = header.offset & 0xffff'ffff, part_size = header.offset >> 32;
    std::size_t begin = header.fragment * part_size;
    if (part_size < sizeof(Header) || size < sizeof(Header) || size > 65'507 || header.fragment > size / part_size || begin >= size ||
        body.size() != std::min(part_size, size - begin))
        return {};
    auto forget = [this](auto place) {
        wholes_bytes_ -= place->second.bytes.size();
        return wholes_.erase(place);
    };
    while (!wholes_.empty() && static_cast<std::int64_t>(wholes_.begin()->first - expected_) < 0)
        forget(wholes_.begin());
    if (static_cast<std::int64_t>(sequence - expected_) < 0 || sequence - expected_ >= early_packets) {
        ack_deadline_ = Time::zero();  // as for one that came twice: the sender should know
        return {};
    }
    auto found = wholes_.find(sequence);
    if (found != wholes_.end() && (found->second.bytes.size() != size || found->second.part_size != part_size)) {
        forget(found);  // it is sent again, cut in another way
        found = wholes_.end();
    }
    if (found == wholes_.end()) {
        if (wholes_bytes_ + size > settings_.receive_buffer && !wholes_.empty())
            forget(std::prev(wholes_.end()));  // the first ones are needed first
        if (wholes_bytes_ + size > settings_.receive_buffer && !wholes_.empty())
            return {};
        std::size_t parts = (size + part_size - 1) / part_size;
        found = wholes_.emplace(sequence, Whole{part_size, parts, std::vector<bool>(parts), std::vector<std::byte>(size)}).first;
        wholes_bytes_ += size;
    }
    Whole &whole = found->second;
    if (!whole.there[header.fragment]) {
        whole.there[header.fragment] = true;
        --whole.missing;
        std::memcpy(whole.bytes.data() + begin, body.data(), body.size());
    }
    if (whole.missing > 0)
        return {};
    std::vector<std::byte> bytes = std::move(whole.bytes);
    wholes_bytes_ -= size;
    wholes_.erase(found);
    return bytes;
}

Incoming::Verdict Incoming::keep_early(std::uint64_t sequence, const Header &header, std::span<std::byte> body)
{
    if (early_.contains(sequence))
        return Verdict::twice;
    if (settings_.recovery == Recovery::go_back_n || sequence - expected_ >= early_packets)
        return Verdict::dropped;
    Early early{header, nullptr, body.size()};
    bool of_open = assembly_.open && assembly_.place != nullptr && header.fragment != 0 &&
                   sequence - header.fragment == assembly_.first;
    if (of_open) {
        if (header.offset < assembly_.received || header.offset > assembly_.total || body.size() > assembly_.total - header.offset)
            return Verdict::nonsense;
        if (!body.empty())
            std::memmove(assembly_.place + header.offset, body.data(), body.size());
    } else {
        if (early_bytes_ + body.size() > settings_.receive_buffer)
            return Verdict::dropped;
        early.bytes = std::make_unique_for_overwrite<std::byte[]>(body.size());
        if (!body.empty())
            std::memcpy(early.bytes.get(), body.data(), body.size());
        early_bytes_ += body.size();
    }
    early_.emplace(sequence, std::move(early));
    return Verdict::taken;
}

bool Incoming::fits(std::uint64_t sequence, const Header &header, std::size_t body_size) const
{
    if (header.fragment == 0) {
        if (assembly_.open || header.header_size > body_size)
            return false;
        std::size_t piece = body_size - header.header_size;
        // A piece of nothing, with more to come, would be allowed to come for ever.
        return piece <= header.offset && (piece > 0 || header.header_size > 0 || header.offset == 0);
    }
    return assembly_.open && sequence - header.fragment == assembly_.first && header.offset == assembly_.received &&
           body_size > 0 && body_size <= assembly_.total - assembly_.received;
}

void Incoming::deliver(std::uint64_t sequence, const Header &header, std::span<std::byte> body, bool in_place)
{
    if (header.fragment == 0)
        return deliver_first(sequence, header, body);
    if (assembly_.gathers) {
        std::memcpy(gathered_.get() + assembly_.header_size + assembly_.received, body.data(), body.size());
    } else if (assembly_.place != nullptr) {
        std::byte *destination = assembly_.place + assembly_.received;
        if (!in_place && destination != body.data())
            std::memmove(destination, body.data(), body.size());
    }
    assembly_.received += body.size();
    if (!assembly_.gathers && assembly_.place == nullptr) {
        // The callee may send, and so look at us: be consistent before.
        void *cookie = assembly_.cookie;
        assembly_.open = assembly_.received < assembly_.total;
        return sink_.more(sink_.context, assembly_.tag, cookie, body.data(), body.size());
    }
    end_if_complete();
}

void Incoming::deliver_first(std::uint64_t sequence, const Header &header, std::span<std::byte> body)
{
    std::size_t total = header.offset;
    std::size_t piece = body.size() - header.header_size;
    std::byte *message_header = body.data();
    if (piece == total || total > gather_limit) {
        if (reinterpret_cast<std::uintptr_t>(message_header) % alignof(std::uint64_t) != 0) {
            aligned_.assign(message_header, message_header + header.header_size);
            message_header = aligned_.data();
        }
        Envelope envelope{source_, message_header, header.header_size, header.tag};
        if (piece == total) {
            sink_.arrived(sink_.context, envelope, body.data() + header.header_size, piece, total);
            return;
        }
        assembly_ = Assembly{};
        assembly_.open = true;
        assembly_.first = sequence;
        assembly_.tag = header.tag;
        assembly_.total = total;
        assembly_.received = piece;
        assembly_.cookie = sink_.arrived(sink_.context, envelope, body.data() + header.header_size, piece, total);
        if (sink_.place != nullptr)
            assembly_.place = static_cast<std::byte *>(sink_.place(sink_.context, header.tag, assembly_.cookie));
        return;
    }
    assembly_ = Assembly{};
    assembly_.open = true;
    assembly_.first = sequence;
    assembly_.tag = header.tag;
    assembly_.header_size = header.header_size;
    assembly_.total = total;
    assembly_.received = piece;
    assembly_.gathers = true;
    if (gathered_size_ < header.header_size + total) {
        gathered_size_ = header.header_size + gather_limit;
        gathered_ = std::make_unique_for_overwrite<std::byte[]>(gathered_size_);
    }
    std::memcpy(gathered_.get(), body.data(), body.size());
}

void Incoming::end_if_complete()
{
    if (assembly_.received < assembly_.total)
        return;
    assembly_.open = false;
    if (!assembly_.gathers)
        return sink_.placed(sink_.context, assembly_.tag, assembly_.cookie);
    // The callee may cause another one to be gathered only after it has returned: packets are not taken from within.
    Envelope envelope{source_, gathered_.get(), assembly_.header_size, assembly_.tag};
    sink_.arrived(sink_.context, envelope, gathered_.get() + assembly_.header_size, assembly_.total, assembly_.total);
}

std::size_t Incoming::next_place(std::span<std::byte> *place, Header *next) const
{
    if (!assembly_.open || assembly_.place == nullptr || has_early())
        return 0;
    *place = {assembly_.place + assembly_.received, assembly_.total - assembly_.received};
    next->sequence = static_cast<std::uint32_t>(expected_);
    next->fragment = static_cast<std::uint32_t>(expected_ - assembly_.first);
    next->offset = assembly_.received;
    return last_fragment_size_;
}

void Incoming::write_bitmap(std::vector<std::byte> *bytes) const
{
    std::size_t start = bytes->size();
    for (const auto &[sequence, early] : early_) {
        if (sequence == expected_)
            continue;  // about to be delivered; we are asked from within the delivery of the one before it
        std::size_t bit = sequence - expected_ - 1;
        if (bytes->size() <= start + bit / 8)
            bytes->resize(start + bit / 8 + 1);
        (*bytes)[start + bit / 8] |= std::byte{1} << bit % 8;
    }
}

Time Incoming::on_ack_sent(Time now)
{
    Time held_back = unacknowledged_ > 0 ? now - newest_arrival_ : Time::zero();
    ack_deadline_ = never;
    unacknowledged_ = 0;
    return held_back;
}

}  // namespace pm::udp
