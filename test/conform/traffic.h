// What the conformance tests send, and how it is checked: a stream is a list of message shapes that both sides know, the bytes
// are patterns that depend on who sends to whom and on the message's number. So a message that is lost, doubled, out of
// order, misdirected or damaged is seen, byte for byte.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "pm/device.h"
#include "support/pattern.h"
#include "support/random.h"

namespace pm::conform {

struct Shape {
    std::size_t header_size = 0;
    std::size_t payload_size = 0;
    bool packed = false;
};
using Stream = std::vector<Shape>;

// Reports and ends this process: what follows a wrong message tells nothing.
[[noreturn]] inline void fail(const std::string &text)
{
    ADD_FAILURE() << "process " << getpid() << ": " << text;
    std::fflush(nullptr);
    _exit(1);
}

inline std::uint64_t header_key(unsigned from, unsigned to, std::size_t number)
{
    return test::mix(from * 1000 + to) ^ number * 2;
}
inline std::uint64_t payload_key(unsigned from, unsigned to, std::size_t number)
{
    return header_key(from, to, number) ^ 1;
}

// Where a process checks what it receives. The tag of a message is the number of its sender.
class Inbox {
  public:
    explicit Inbox(unsigned owner) : owner_(owner) {}

    // Devices may ask where a payload belongs, or be given nobody to ask.
    Sink sink(bool with_places) { return with_places ? Sink{this, arrived, more, place, placed} : Sink{this, arrived, more}; }

    // What the device is told by introduce(), unless the sender is a stranger: just an address.
    pm_peer *source_of(unsigned sender)
    {
        if (auto other = senders_of_tags_.find(sender); other != senders_of_tags_.end())
            sender = other->second;
        return strangers_.contains(sender) ? nullptr : reinterpret_cast<pm_peer *>(&sources_[sender]);
    }
    void be_stranger(unsigned sender, bool stranger) { stranger ? (void)strangers_.insert(sender) : (void)strangers_.erase(sender); }

    // Messages with this tag are of another sender than most.
    void set_sender(unsigned tag, unsigned sender) { senders_of_tags_[tag] = sender; }

    void expect(unsigned sender, Stream stream) { senders_[sender].stream = std::move(stream); }
    // No more than the first `count` of them: the sender ends there.
    void expect_only(unsigned sender, std::size_t count) { senders_[sender].stream.resize(count); }
    // Called when a message is complete.
    void when_complete(std::function<void(unsigned sender, std::size_t number)> call) { when_complete_ = std::move(call); }

    std::size_t received(unsigned sender) { return senders_[sender].complete; }
    // Of messages whose rest the device put at its place by itself.
    std::size_t placed_messages() const { return placed_messages_; }
    bool complete() const
    {
        return std::ranges::all_of(senders_ | std::views::values,
                                   [](const Sender &sender) { return sender.complete == sender.stream.size(); });
    }

  private:
    struct Sender;
    // A message of which more is to come: the cookie of the device.
    struct Arrival {
        Sender *sender = nullptr;
        std::size_t number = 0;
        std::size_t bytes = 0;         // that have come, one after the other
        bool asked = false;            // for its place
        std::vector<std::byte> room{};  // where it is put, with a margin on both sides; empty: it comes in pieces
    };
    struct Sender {
        unsigned number = 0;
        unsigned owner = 0;  // whose inbox this is
        Stream stream{};
        std::size_t begun = 0;
        std::size_t complete = 0;
        std::map<std::size_t, Arrival> arriving{};  // by number
    };
    static constexpr std::size_t margin = 64;
    static constexpr std::byte untouched{0xa5};

    static void *arrived(void *context, const Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total)
    {
        auto inbox = static_cast<Inbox *>(context);
        auto tag = static_cast<unsigned>(envelope.tag);
        auto found = inbox->senders_.find(tag);
        if (found == inbox->senders_.end())
            fail("a message of process " + std::to_string(tag) + ", which sends us none");
        Sender &sender = found->second;
        sender.number = tag;
        sender.owner = inbox->owner_;
        std::string what = "message " + std::to_string(sender.begun) + " of process " + std::to_string(tag);
        if (sender.begun == sender.stream.size())
            fail("more messages of process " + std::to_string(tag) + " than it sent");
        // One that is put at its place may be on its way meanwhile.
        for (const auto &[number, other] : sender.arriving)
            if (other.room.empty())
                fail(what + " begins before message " + std::to_string(number) + " has ended");
        const Shape &shape = sender.stream[sender.begun];
        if (total != shape.payload_size)
            fail(what + " has " + std::to_string(total) + " bytes instead of " + std::to_string(shape.payload_size));
        if (envelope.header_size != shape.header_size)
            fail("the header of " + what + " has " + std::to_string(envelope.header_size) + " bytes instead of " +
                 std::to_string(shape.header_size));
        if (envelope.source != inbox->source_of(tag))
            fail(what + (envelope.source == nullptr ? " has no source" : " has a wrong source"));
        check(header_key(tag, inbox->owner_, sender.begun), 0, envelope.header, shape.header_size, "the header of " + what);
        std::size_t number = sender.begun++;
        if (piece_size > total)
            fail(what + " begins with a piece longer than itself");
        Arrival &arrival = sender.arriving[number] = {&sender, number};
        inbox->take(arrival, piece, piece_size);
        return piece_size < total ? &arrival : nullptr;
    }

    static void more(void *inbox, int tag, void *cookie, void *piece, std::size_t piece_size)
    {
        static_cast<Inbox *>(inbox)->take(arrival_of(tag, cookie), piece, piece_size);
    }

    // Every third is wanted in pieces all the same.
    static void *place(void *, int tag, void *cookie)
    {
        Arrival &arrival = arrival_of(tag, cookie);
        if (arrival.asked)
            fail("a device asks twice where " + name_of(arrival) + " belongs");
        arrival.asked = true;
        if (arrival.number % 3 == 2)
            return nullptr;
        std::size_t size = arrival.sender->stream[arrival.number].payload_size;
        arrival.room.assign(margin + size + margin, untouched);
        // What came with the beginning stays as it is: the device has given it away.
        test::fill_pattern(key_of(arrival), 0, arrival.room.data() + margin, arrival.bytes);
        return arrival.room.data() + margin;
    }

    static void placed(void *context, int tag, void *cookie)
    {
        auto inbox = static_cast<Inbox *>(context);
        Arrival &arrival = arrival_of(tag, cookie);
        if (arrival.room.empty())
            fail(name_of(arrival) + " is at a place that was never told");
        std::size_t size = arrival.room.size() - 2 * margin;
        check(key_of(arrival), 0, arrival.room.data() + margin, size, name_of(arrival) + " at its place");
        auto is_touched = [](std::byte byte) { return byte != untouched; };
        if (std::any_of(arrival.room.begin(), arrival.room.begin() + margin, is_touched) ||
            std::any_of(arrival.room.end() - margin, arrival.room.end(), is_touched))
            fail(name_of(arrival) + " was written beside its place");
        ++inbox->placed_messages_;
        inbox->end(arrival);
    }

    static Arrival &arrival_of(int tag, void *cookie)
    {
        auto arrival = static_cast<Arrival *>(cookie);
        if (arrival == nullptr)
            fail("a piece of a message that has ended");
        if (static_cast<unsigned>(tag) != arrival->sender->number)
            fail("a piece of " + name_of(*arrival) + " has the tag of another");
        return *arrival;
    }
    static std::string name_of(const Arrival &arrival)
    {
        return "message " + std::to_string(arrival.number) + " of process " + std::to_string(arrival.sender->number);
    }
    static std::uint64_t key_of(const Arrival &arrival) { return payload_key(arrival.sender->number, arrival.sender->owner, arrival.number); }

    void take(Arrival &arrival, const void *piece, std::size_t size)
    {
        std::size_t whole = arrival.sender->stream[arrival.number].payload_size;
        if (!arrival.room.empty())
            fail("a piece of " + name_of(arrival) + ", which has a place");
        if (size > whole - arrival.bytes)
            fail(name_of(arrival) + " gets too many bytes");
        check(key_of(arrival), arrival.bytes, piece, size, "the payload of " + name_of(arrival));
        arrival.bytes += size;
        if (arrival.bytes == whole)
            end(arrival);
    }

    void end(Arrival &arrival)
    {
        Sender &sender = *arrival.sender;
        std::size_t number = arrival.number;
        sender.arriving.erase(number);
        ++sender.complete;
        if (when_complete_)
            when_complete_(sender.number, number);
    }

    static void check(std::uint64_t key, std::size_t offset, const void *bytes, std::size_t size, const std::string &what)
    {
        std::size_t place = test::first_difference(key, offset, bytes, size);
        if (place != test::no_difference)
            fail("byte " + std::to_string(place) + " of " + what + " is wrong");
    }

    unsigned owner_;
    std::size_t placed_messages_ = 0;
    std::map<unsigned, Sender> senders_;
    std::array<std::byte, 256> sources_{};
    std::map<unsigned, unsigned> senders_of_tags_;
    std::set<unsigned> strangers_;
    std::function<void(unsigned, std::size_t)> when_complete_;
};

// Sends a stream to one peer, a try at a time. It holds the device to its word about buffers: a header is destroyed as soon as
// it is accepted, a payload as soon as the message is.
template <Device D>
class Outbox {
  public:
    Outbox(D &device, typename D::Peer *peer, unsigned from, unsigned to, Stream stream)
        : device_(device), peer_(peer), from_(from), to_(to), stream_(std::move(stream))
    {
    }

    // These were sent before, by another outbox.
    void skip(std::size_t count) { number_ += count; }
    // Ends its stream after `count` messages, that is not before the one that it is at.
    void end_after(std::size_t count) { stream_.resize(count); }

    std::size_t size() const { return stream_.size(); }
    bool done() const { return number_ == stream_.size(); }
    std::size_t sent() const { return number_; }
    // Why the peer is not usable any more.
    const std::string &error() const { return peer_->error.text; }
    // Part of a message is on its way.
    bool in_the_middle() const { return progress_.started && !done(); }

    // The answer of the device to one try; ok when there is nothing left.
    Status step()
    {
        if (done())
            return Status::ok;
        if (!prepared_)
            prepare();
        SendProgress before = progress_;
        Status status = device_.try_send(peer_, message_, &progress_);
        if (status == Status::ok) {
            if (packing_.next != message_.payload.size && stream_[number_].packed)
                fail("a payload was accepted before it was packed to its end");
            finish();
        } else if (status == Status::again) {
            bool went_back = progress_.sent < before.sent || (before.started && !progress_.started);
            if (went_back || progress_.sent > message_.payload.size || (!progress_.started && progress_.sent != 0))
                fail("the progress of a message makes no sense");
            if (progress_.started)
                std::ranges::fill(header_, std::byte{0xdd});
        }
        return status;
    }

  private:
    struct Packing {
        std::uint64_t key = 0;
        std::size_t next = 0;
    };

    static void pack(void *context, std::size_t offset, void *destination, std::size_t size)
    {
        auto packing = static_cast<Packing *>(context);
        if (offset != packing->next)
            fail("a payload is not packed in order");
        packing->next = offset + size;
        test::fill_pattern(packing->key, offset, destination, size);
    }

    void prepare()
    {
        const Shape &shape = stream_[number_];
        header_ = test::pattern(header_key(from_, to_, number_), shape.header_size);
        message_ = {static_cast<std::uint8_t>(from_), header_.data(), shape.header_size, {}};
        message_.payload.size = shape.payload_size;
        packing_ = {payload_key(from_, to_, number_), 0};
        if (shape.packed) {
            message_.payload.pack = pack;
            message_.payload.pack_context = &packing_;
        } else {
            payload_ = test::pattern(packing_.key, shape.payload_size);
            message_.payload.data = payload_.data();
        }
        progress_ = {};
        prepared_ = true;
    }

    void finish()
    {
        std::ranges::fill(header_, std::byte{0xee});
        std::ranges::fill(payload_, std::byte{0xee});
        ++number_;
        prepared_ = false;
        progress_ = {};
    }

    D &device_;
    typename D::Peer *peer_;
    unsigned from_, to_;
    Stream stream_;
    std::size_t number_ = 0;
    bool prepared_ = false;
    Message message_;
    SendProgress progress_;
    Packing packing_;
    std::vector<std::byte> header_, payload_;
};

// A stream of `count` messages of all kinds, small ones most of the time.
inline Stream random_stream(std::uint64_t seed, std::size_t count, std::size_t largest_header, std::size_t largest_payload)
{
    test::Random random(seed);
    Stream stream(count);
    for (Shape &shape : stream) {
        shape.header_size = random.below(random.one_in(8) ? largest_header + 1 : 64);
        shape.payload_size = random.one_in(16) ? random.below(largest_payload + 1) : random.below(random.one_in(2) ? 64 : 2000);
        shape.packed = random.one_in(5);
    }
    return stream;
}

}  // namespace pm::conform
