// Active messages of any content for one rank of a communicator, between what it does itself: each is right but for what the input changes.
// Nothing but the places that handlers name, and have not taken back, is written to.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "coll/am/engine.h"
#include "fuzz/fuzz.h"

namespace pm::fuzz {
namespace {

using namespace coll;

class Target : public AmTransport {
  public:
    explicit Target(Choices &choices) : choices_(choices), size_(1 + choices.byte() % 8), rank_(choices.byte() % size_)
    {
        peers_.resize(static_cast<std::size_t>(size_));
        pm_am_setup setup{};
        setup.may_open = [](std::uint32_t id) { return static_cast<int>(id % 8 == 7); };
        setup.arrived = [](const pm_am_arrival *arrival, const pm_am_user *user) { static_cast<Target *>(user->state)->handle(*arrival); };
        setup.place = [](const pm_am_arrival *arrival, const pm_am_user *user) {
            return static_cast<Target *>(user->state)->place_of(*arrival);
        };
        setup.hold = [](void *context) { ++static_cast<Target *>(context)->held_; };
        setup.let_go = [](void *context) { require(static_cast<Target *>(context)->held_-- > 0, "let go of what was not held"); };
        setup.ended = [](void *cookie) { *static_cast<bool *>(cookie) = true; };
        engine_ = std::make_unique<AmEngine>(*this, setup);
        if (choices.byte() & 1)
            open();
    }
    ~Target() override
    {
        while (!coming_.empty())
            end(0);
        while (!queued_.empty())
            take();
        for (int rounds = 0; engine_->pending(); ++rounds) {
            require(rounds < 10'000, "it is never done");
            engine_->poll();
        }
        require(held_ == 0, "held for ever");
        close();
        for (std::uint32_t id = 0; id < 8; ++id)
            engine_->open({id, 0, -1, this, peer_of, nullptr}), engine_->close(id);  // nothing is left that waits for one
        require(engine_->kept() == 0, "something is kept for ever");
    }
    void run()
    {
        for (int count = 0; choices_.any() && count < 64; ++count)
            step();
    }

  private:
    struct Coming {
        void *cookie;
        std::size_t left;
    };
    static constexpr std::uint32_t group = 7;

    void open()
    {
        engine_->open({group, size_, rank_, this, peer_of, nullptr});
        open_ = true;
    }
    void close()
    {
        engine_->close(group);
        open_ = false;
        places_.clear();
    }
    void step()
    {
        switch (choices_.byte() % 10) {
            case 0:
            case 1:
            case 2:
                return arrive();
            case 3:
                if (!coming_.empty())
                    end(choices_.byte() % coming_.size());
                return;
            case 4:
                return take();
            case 5:
                return add();
            case 6:
                return remove();
            case 7:
                return send(choices_.byte() % size_);
            case 8:
                engine_->poll();
                return engine_->attend();
            default:
                if (!open_)
                    return open();
                if (held_ == 0 && choices_.one_in(3)) {
                    while (!queued_.empty())
                        take();
                    close();
                }
        }
    }
    static std::string name(int which) { return std::string("handler ") + static_cast<char>('0' + which); }
    void add()
    {
        auto something = [] {};
        int number;
        const std::string which = name(choices_.byte() % 3);
        engine_->add(group, which, {something, choices_.byte() & 1 ? static_cast<void (*)(void)>(something) : nullptr, this}, &number);
    }
    void remove()
    {
        const int number = AmEngine::number_of(name(choices_.byte() % 3));
        engine_->remove(group, number);
        engine_->is_placing(group, number);
    }
    void arrive()
    {
        const std::uint8_t wrong = choices_.byte();
        const int source = choices_.byte() % size_;
        std::size_t header_size = choices_.byte() % 32;
        AmHeader header{group, source, static_cast<std::uint32_t>(AmEngine::number_of(name(choices_.byte() % 4))),
                        static_cast<std::uint32_t>(header_size)};
        std::size_t length = AmHeader::length_with(header_size);
        if (wrong & 1)
            header.group = choices_.byte() % 8;
        if (wrong & 2)
            header.source = static_cast<std::int32_t>(choices_.number(static_cast<unsigned>(size_)));
        if (wrong & 4)
            header.handler = static_cast<std::uint32_t>(choices_.number(INT32_MAX));
        if (wrong & 8)
            header.header_size = static_cast<std::uint32_t>(choices_.number(PM_AM_LARGEST_HEADER));
        if (wrong & 16)
            length = sizeof header + choices_.word() % 1000;
        // As long as the device says, and not a byte longer.
        std::vector<std::byte> bytes(length);
        std::memcpy(bytes.data(), &header, sizeof header);
        const std::size_t total = choices_.one_in(4) ? 0 : choices_.word() % 5000, first = choices_.one_in(2) ? total : choices_.word() % (total + 1);
        std::vector<std::byte> piece(first, std::byte{0x5a});
        void *cookie = engine_->arrived({wrong & 32 ? nullptr : peer_of(this, source), bytes.data(), bytes.size(), 0}, piece.data(), first, total);
        require(cookie == nullptr || first < total, "a cookie for a message that is all here");
        if (cookie != nullptr)
            coming_.push_back({cookie, total - first});
    }
    void end(std::size_t which)
    {
        Coming one = coming_[which];
        coming_.erase(coming_.begin() + static_cast<std::ptrdiff_t>(which));
        std::vector<std::byte> data(one.left + 1, std::byte{0xa5});
        if (choices_.byte() & 1)
            if (engine_->place(one.cookie) != nullptr)
                return engine_->placed(one.cookie);
        if (std::size_t half = one.left / 2; half != 0) {
            engine_->more(one.cookie, data.data(), half);
            one.left -= half;
        }
        engine_->more(one.cookie, data.data(), one.left + (choices_.byte() & 1));
    }
    void handle(const pm_am_arrival &arrival)
    {
        require(open_ && arrival.context == this, "a message for a group that is not open");
        require(arrival.source >= 0 && arrival.source < size_, "a message of no rank");
        require(!handling_, "a handler inside a handler");
        handling_ = true;
        touch(arrival.header, arrival.header_size);
        touch(arrival.data, arrival.size);
        if (choices_.any() && choices_.one_in(4))
            send(arrival.source);
        handling_ = false;
    }
    void *place_of(const pm_am_arrival &arrival)
    {
        require(arrival.size != 0 && arrival.data == nullptr, "a place for nothing");
        if (choices_.one_in(8))
            return nullptr;
        places_.push_back(std::make_unique<std::byte[]>(arrival.size));
        return places_.back().get();
    }
    void send(int to)
    {
        if (!open_)
            return;
        const std::size_t size = choices_.one_in(4) ? PM_SEND_NOW_LIMIT + 1 : choices_.byte();
        const std::vector<std::byte> data(size);
        const std::byte header[8] = {};
        const pm_am_post post{group, rank_, AmEngine::number_of(name(choices_.byte() % 4)), header, choices_.byte() % 9u, data.data(), size};
        const std::uint64_t members = choices_.byte() & ((1u << size_) - 1);
        require((choices_.byte() & 1 ? engine_->mcast(post, &members, {}) : engine_->send(post, to, {})) == PM_OK, "what is copied waits");
    }
    void take()
    {
        if (queued_.empty())
            return;
        void *cookie = queued_.front();
        queued_.pop_front();
        engine_->taken(cookie);
    }

    static pm_peer *peer_of(void *context, int rank)
    {
        auto self = static_cast<Target *>(context);
        require(rank >= 0 && rank < self->size_, "the peer of no rank");
        return reinterpret_cast<pm_peer *>(&self->peers_[static_cast<std::size_t>(rank)]);
    }
    int send(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size, void *cookie) override
    {
        require(peer != peer_of(this, rank_), "sent to itself");
        touch(header, header_size);
        touch(data, size);
        if (cookie == nullptr || choices_.one_in(2))
            return PM_OK;
        queued_.push_back(cookie);
        return PM_QUEUED;
    }
    bool send_now(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size) override
    {
        return choices_.one_in(2) && send(peer, header, header_size, data, size, nullptr) == PM_OK;
    }
    void dropped(const pm_peer *) override {}
    void failed(const std::string &) override {}

    Choices &choices_;
    int size_, rank_;
    bool open_ = false, handling_ = false;
    int held_ = 0;
    std::vector<char> peers_;
    std::vector<std::unique_ptr<std::byte[]>> places_;
    std::deque<void *> queued_;
    std::vector<Coming> coming_;
    std::unique_ptr<AmEngine> engine_;
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ(pm::fuzz::Target)
