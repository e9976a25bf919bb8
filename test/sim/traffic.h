// What simulated processes send, and how it is checked: as in conform/traffic.h a stream is a list of shapes that both sides
// know, and the bytes are patterns of who sends to whom and of the message's number. So a message that is lost, doubled, out of
// order, misdirected or damaged is seen, byte for byte. Nothing here ends the process: the first trouble is written down.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "netmod/udp/protocol/endpoint.h"
#include "pm/device.h"
#include "support/pattern.h"
#include "support/random.h"

namespace pm::sim {

struct Shape {
    std::size_t header_size = 0;
    std::size_t payload_size = 0;
    bool packed = false;
};
using Stream = std::vector<Shape>;

// The first thing that went wrong in a run.
class Trouble {
  public:
    bool operator()(const std::string &text)
    {
        if (text_.empty())
            text_ = text;
        return false;
    }
    bool any() const { return !text_.empty(); }
    const std::string &text() const { return text_; }

  private:
    std::string text_;
};

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
    Inbox(unsigned owner, Trouble &trouble) : owner_(owner), trouble_(trouble) {}

    void expect(unsigned sender, const Stream &stream)
    {
        senders_[sender].number = sender;
        senders_[sender].stream = stream;
    }
    // Called when a message is complete, from within the device's callback.
    void when_complete(std::function<void(unsigned sender, std::size_t number)> call) { when_complete_ = std::move(call); }
    // Nothing more is expected of this one.
    void excuse(unsigned sender) { senders_[sender].excused = true; }

    std::size_t received(unsigned sender) { return senders_[sender].complete; }
    std::size_t bytes() const { return bytes_; }
    std::size_t messages() const { return messages_; }
    bool complete() const
    {
        return std::ranges::all_of(senders_, [](const auto &entry) {
            return entry.second.excused || entry.second.complete == entry.second.stream.size();
        });
    }
    std::string missing() const
    {
        std::string text;
        for (const auto &[number, sender] : senders_)
            if (!sender.excused && sender.complete < sender.stream.size())
                text += " process " + std::to_string(owner_) + " has " + std::to_string(sender.complete) + " of " +
                        std::to_string(sender.stream.size()) + " messages of process " + std::to_string(number) + ";";
        return text;
    }

    // ---- the callbacks of a Sink ----

    void *arrived(const Envelope &envelope, const void *piece, std::size_t piece_size, std::size_t total)
    {
        auto tag = static_cast<unsigned>(envelope.tag);
        auto found = senders_.find(tag);
        if (found == senders_.end()) {
            trouble_("process " + std::to_string(owner_) + " gets a message of process " + std::to_string(tag) +
                     ", which sends it none");
            return nullptr;
        }
        Sender &sender = found->second;
        std::string what = name(sender, sender.begun);
        if (sender.begun == sender.stream.size())
            return trouble_(what + " was never sent"), nullptr;
        if (sender.begun != sender.complete)
            return trouble_(what + " begins before the one before it has ended"), nullptr;
        const Shape &shape = sender.stream[sender.begun];
        if (total != shape.payload_size)
            return trouble_(what + " has " + std::to_string(total) + " bytes, not " + std::to_string(shape.payload_size)), nullptr;
        if (piece_size > total)
            return trouble_(what + " begins with a piece longer than itself"), nullptr;
        if (envelope.header_size != shape.header_size)
            return trouble_("the header of " + what + " has " + std::to_string(envelope.header_size) + " bytes, not " +
                            std::to_string(shape.header_size)), nullptr;
        if (shape.header_size != 0 && reinterpret_cast<std::uintptr_t>(envelope.header) % alignof(std::uint64_t) != 0)
            trouble_("the header of " + what + " is not aligned");
        check(header_key(tag, owner_, sender.begun), 0, envelope.header, shape.header_size, "the header of " + what);
        ++sender.begun;
        sender.bytes = 0;
        take(sender, piece, piece_size);
        return &sender;
    }

    void more(void *cookie, const void *piece, std::size_t piece_size)
    {
        auto sender = static_cast<Sender *>(cookie);
        if (sender == nullptr)
            return;
        if (sender->begun == sender->complete || sender->place != nullptr)
            trouble_("a piece that nobody waits for, of " + name(*sender, sender->begun));
        else
            take(*sender, piece, piece_size);
    }

    // Every third large message is taken in pieces.
    void *place(void *cookie)
    {
        auto sender = static_cast<Sender *>(cookie);
        if (sender == nullptr || (sender->begun + owner_) % 3 == 0)
            return nullptr;
        // Exactly as long as the message: the address sanitizer sees what is written beyond it.
        sender->place.reset(new std::byte[sender->stream[sender->begun - 1].payload_size]);
        return sender->place.get();
    }

    void placed(void *cookie)
    {
        auto sender = static_cast<Sender *>(cookie);
        if (sender == nullptr)
            return;
        if (sender->place == nullptr) {
            trouble_("a message was placed that has no place");
            return;
        }
        std::size_t total = sender->stream[sender->begun - 1].payload_size;
        std::unique_ptr<std::byte[]> place = std::move(sender->place);
        take(*sender, place.get() + sender->bytes, total - sender->bytes);
    }

  private:
    struct Sender {
        unsigned number = 0;
        Stream stream;
        std::size_t begun = 0;
        std::size_t complete = 0;
        std::size_t bytes = 0;  // of the message that is arriving
        std::unique_ptr<std::byte[]> place;
        bool excused = false;
    };

    std::string name(const Sender &sender, std::size_t number) const
    {
        return "message " + std::to_string(number) + " from " + std::to_string(sender.number) + " to " + std::to_string(owner_);
    }

    void take(Sender &sender, const void *piece, std::size_t size)
    {
        std::size_t number = sender.begun - 1;
        const Shape &shape = sender.stream[number];
        if (size > shape.payload_size - sender.bytes) {
            trouble_(name(sender, number) + " gets too many bytes");
            return;
        }
        check(payload_key(sender.number, owner_, number), sender.bytes, piece, size, name(sender, number));
        sender.bytes += size;
        if (sender.bytes < shape.payload_size)
            return;
        ++sender.complete;
        ++messages_;
        bytes_ += shape.header_size + shape.payload_size;
        if (when_complete_)
            when_complete_(sender.number, number);
    }

    void check(std::uint64_t key, std::size_t offset, const void *bytes, std::size_t size, const std::string &what)
    {
        std::size_t place = test::first_difference(key, offset, bytes, size);
        if (place != test::no_difference)
            trouble_("byte " + std::to_string(place) + " of " + what + " is wrong");
    }

    unsigned owner_;
    Trouble &trouble_;
    std::map<unsigned, Sender> senders_;
    std::function<void(unsigned, std::size_t)> when_complete_;
    std::size_t bytes_ = 0;
    std::size_t messages_ = 0;
};

// Sends a stream to one peer, a try at a time. It holds the protocol to its word about buffers: a header is destroyed as soon as
// it is accepted, a payload as soon as the message is.
class Outbox {
  public:
    Outbox(udp::Endpoint &endpoint, udp::Peer *peer, unsigned from, unsigned to, Stream stream, Trouble &trouble)
        : endpoint_(endpoint), peer_(peer), from_(from), to_(to), stream_(std::move(stream)), allowed_(stream_.size()),
          trouble_(trouble)
    {
    }

    // Only so many messages may be sent as yet.
    void allow(std::size_t count) { allowed_ = count; }
    std::size_t allowed() const { return allowed_; }
    // Tried first, with every new message: true when it was sent.
    void use_short_way(std::function<bool(udp::Peer *, const Message &)> send) { short_way_ = std::move(send); }
    // These were sent before, by another outbox.
    void skip(std::size_t count) { number_ += count; }
    // Its peer is gone: nothing more will be allowed.
    void excuse() { excused_ = true; }

    unsigned to() const { return to_; }
    udp::Peer *peer() const { return peer_; }
    bool done() const { return given_up_ || number_ == (excused_ ? std::min(allowed_, stream_.size()) : stream_.size()); }
    bool given_up() const { return given_up_; }
    std::size_t sent() const { return number_; }

    // One try. True when something was accepted.
    bool step(Time now)
    {
        if (done() || number_ >= allowed_ || in_step_)
            return false;
        in_step_ = true;
        bool progress = try_once(now);
        in_step_ = false;
        return progress;
    }

    Status status() const { return status_; }

  private:
    struct Packing {
        std::uint64_t key = 0;
        std::size_t next = 0;
        Trouble *trouble = nullptr;
    };

    static void pack(void *context, std::size_t offset, void *destination, std::size_t size)
    {
        auto packing = static_cast<Packing *>(context);
        if (offset != packing->next)
            (*packing->trouble)("a payload is not packed in order");
        packing->next = offset + size;
        test::fill_pattern(packing->key, offset, destination, size);
    }

    bool try_once(Time now)
    {
        if (!prepared_)
            prepare();
        SendProgress before = progress_;
        if (!progress_.started && short_way_ && short_way_(peer_, message_))
            status_ = Status::ok;
        else if (!progress_.started && number_ % 2 == 0 && endpoint_.lend(peer_, message_, now)) {
            endpoint_.keep_lent(peer_);
            status_ = Status::ok;
        } else
            status_ = endpoint_.send(peer_, message_, &progress_, now);
        if (status_ == Status::ok) {
            if (stream_[number_].packed && packing_.next != message_.payload.size)
                trouble_("a payload was accepted before it was packed to its end");
            finish();
            return true;
        }
        if (status_ != Status::again) {
            given_up_ = true;
            return false;
        }
        bool went_back = progress_.sent < before.sent || (before.started && !progress_.started);
        if (went_back || progress_.sent > message_.payload.size || (!progress_.started && progress_.sent != 0))
            trouble_("the progress of a message makes no sense");
        if (progress_.started)
            header_.reset();
        return progress_.started != before.started || progress_.sent != before.sent;
    }

    void prepare()
    {
        const Shape &shape = stream_[number_];
        header_.reset(new std::byte[shape.header_size]);
        test::fill_pattern(header_key(from_, to_, number_), 0, header_.get(), shape.header_size);
        message_ = {static_cast<std::uint8_t>(from_), header_.get(), shape.header_size, {}};
        message_.payload.size = shape.payload_size;
        packing_ = {payload_key(from_, to_, number_), 0, &trouble_};
        if (shape.packed) {
            message_.payload.pack = pack;
            message_.payload.pack_context = &packing_;
        } else {
            payload_.reset(new std::byte[shape.payload_size]);
            test::fill_pattern(packing_.key, 0, payload_.get(), shape.payload_size);
            message_.payload.data = payload_.get();
        }
        progress_ = {};
        prepared_ = true;
    }

    void finish()
    {
        if (payload_ != nullptr)
            std::memset(payload_.get(), 0xee, stream_[number_].payload_size);
        header_.reset();
        payload_.reset();
        ++number_;
        prepared_ = false;
        progress_ = {};
    }

    udp::Endpoint &endpoint_;
    udp::Peer *peer_;
    unsigned from_, to_;
    Stream stream_;
    std::size_t allowed_;
    Trouble &trouble_;
    std::size_t number_ = 0;
    bool prepared_ = false, in_step_ = false, given_up_ = false, excused_ = false;
    Status status_ = Status::ok;
    std::function<bool(udp::Peer *, const Message &)> short_way_;
    Message message_;
    SendProgress progress_;
    Packing packing_;
    std::unique_ptr<std::byte[]> header_, payload_;
};

// A stream of `count` messages of all kinds, small ones most of the time.
inline Stream random_stream(test::Random &random, std::size_t count, std::size_t largest_header, std::size_t largest_payload)
{
    Stream stream(count);
    for (Shape &shape : stream) {
        shape.header_size = random.below(random.one_in(8) ? largest_header + 1 : 64);
        shape.payload_size = random.one_in(8) ? random.below(largest_payload + 1) : random.below(random.one_in(2) ? 64 : 4000);
        shape.packed = random.one_in(5);
    }
    return stream;
}

inline Stream equal_stream(std::size_t count, std::size_t payload_size, std::size_t header_size = 16)
{
    return Stream(count, Shape{header_size, payload_size, false});
}

}  // namespace pm::sim
