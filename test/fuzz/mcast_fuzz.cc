// Messages and posts of any content for one rank of a communicator, between what it does itself: each is right but for what the input
// changes. Nothing outside of a receive's buffer, or of one that is the user's again, is touched.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "coll/mcast/engine.h"
#include "coll/mcast/outbox.h"
#include "fuzz/fuzz.h"
#include "support/sanitizers.h"

#ifdef PM_TEST_ASAN
// A multicast may say that it is larger than memory: then there is none.
extern "C" __attribute__((visibility("default"))) const char *__asan_default_options()
{
    return "allocator_may_return_null=1:max_allocation_size_mb=64";
}
#endif

namespace pm::fuzz {
namespace {

using namespace coll;

// Of a peer on our host: what it shares with us.
struct alignas(4096) Shared {
    std::byte block[8192];
    Outbox outbox;
};

class Target : public Transport {
  public:
    explicit Target(Choices &choices) : choices_(choices), shared_(std::make_unique<Shared>())
    {
        constexpr int sizes[] = {2, 3, 5, 64, 65, 130};
        size_ = sizes[choices.byte() % std::size(sizes)];
        rank_ = choices.byte() % size_;
        per_host_ = choices.byte() % 8;
        std::uint8_t mode = choices.byte();
        Settings settings;
        settings.shared_limit = 100;
        settings.piece = 200;
        settings.block = 4000;
        settings.fanout = 1 + mode % 4;
        settings.sent = [](void *, const char *) {};
        settings.received = [](void *cookie, int, int, std::size_t) { static_cast<Receive *>(cookie)->done = true; };
        peers_.resize(static_cast<std::size_t>(size_));
        engine_ = std::make_unique<Engine>(settings, *this, 1000);
        if (mode & 8)
            open();
    }
    ~Target() override
    {
        while (!coming_.empty())
            end(0);
        while (!queued_.empty())
            take();
        engine_.reset();
        for (void *block : blocks_)
            std::free(block);
    }
    void run()
    {
        for (int count = 0; choices_.any() && count < 64 && failure_.empty(); ++count)
            step();
    }

  private:
    struct Receive {
        std::unique_ptr<std::byte[]> buffer;
        std::unique_ptr<std::uint64_t[]> members;
        bool done = false;
    };
    struct Coming {
        void *cookie;
        std::size_t left;
    };

    void open()
    {
        group_ = engine_->open_group({7, size_, rank_, this, peer_of, per_host_ == 0 ? nullptr : host_of});
    }
    std::size_t words() const { return (static_cast<std::size_t>(size_) + 63) / 64; }

    void step()
    {
        switch (choices_.byte() % 12) {
            case 0:
            case 1:
            case 2:
            case 3:
                return arrive();
            case 4:
                if (!coming_.empty())
                    end(choices_.byte() % coming_.size());
                return;
            case 5:
                return take();
            case 6:
                return receive();
            case 7:
                return send();
            case 8:
                return post();
            case 9:
                engine_->poll();
                engine_->lent();
                return;
            case 10:
                engine_->attend(Time(std::chrono::seconds(choices_.byte())));
                return;
            default:
                if (!choices_.one_in(3))
                    return;
                if (group_ == nullptr)
                    return open();
                while (!queued_.empty())
                    take();
                engine_->close_group(group_);
                group_ = nullptr;
                receives_.clear();
        }
    }

    // A header with its list behind it.
    std::vector<std::uint64_t> craft(std::uint8_t flags, std::size_t *total)
    {
        WireHeader header;
        std::uint8_t wrong = choices_.byte();
        auto any_rank = [&] { return static_cast<std::int32_t>(choices_.number(static_cast<unsigned>(size_))); };
        auto rank = [&] { return static_cast<std::int32_t>(choices_.byte() % size_); };
        std::uint8_t kind = choices_.byte();
        header.kind = kind < 230 ? WireHeader::Kind::piece : static_cast<WireHeader::Kind>(kind % 4);
        header.group = wrong & 1 ? static_cast<std::uint16_t>(choices_.word() % 16) : 7;
        header.algorithm = static_cast<Algorithm>(choices_.byte() % 5);
        header.flags = static_cast<std::uint8_t>(flags | (choices_.byte() & (wrong & 2 ? 0xff : 0x17)));
        header.set(WireHeader::by_host, wrong & 4 ? header.flags & WireHeader::by_host : per_host_ != 0);
        header.master = wrong & 8 ? any_rank() : rank();
        header.owner = header.poster = rank();
        header.tag = choices_.byte() & 3;
        header.origin = choices_.byte() & 1 ? 1000 : 5;
        header.serial = choices_.byte() & 3;
        header.fanout = choices_.byte() & 3;
        header.size = choices_.byte();
        header.length = static_cast<std::uint32_t>(header.size);
        if (choices_.one_in(3)) {
            header.offset = choices_.number(header.size);
            header.length = static_cast<std::uint32_t>(choices_.number(header.size));
        }
        if (choices_.one_in(8))
            header.size = choices_.number(4096);
        header.address = reinterpret_cast<std::uint64_t>(shared_->block) + (wrong & 16 ? choices_.number(8192) : 0);
        if (choices_.one_in(3)) {
            header.outbox = reinterpret_cast<std::uint64_t>(&shared_->outbox) + (wrong & 32 ? choices_.number(64) : 0);
            header.generation = choices_.byte() & 1;
        }
        std::vector<std::uint64_t> set(1 + choices_.byte() % words());
        for (std::uint64_t &word : set)
            word = choices_.number(0) ^ (choices_.byte() & 1 ? ~std::uint64_t{0} : 0);
        if (!(wrong & 64)) {
            set.resize(std::max(set.size(), static_cast<std::size_t>(rank_) / 64 + 1));
            set[static_cast<std::size_t>(rank_) / 64] |= std::uint64_t{1} << rank_ % 64;
            if (std::size_t last = words() - 1; set.size() > last && size_ % 64 != 0)
                set[last] &= (std::uint64_t{1} << size_ % 64) - 1;
        }
        std::size_t orders = 0;
        for (std::uint64_t word : set)
            orders += static_cast<std::size_t>(std::popcount(word));
        if (header.master >= 0 && static_cast<std::size_t>(header.master) / 64 < set.size() &&
            (set[static_cast<std::size_t>(header.master) / 64] >> header.master % 64 & 1))
            --orders;
        if (header.flags & WireHeader::by_rank)
            orders = set.size() * 64;
        header.words = static_cast<std::uint32_t>(set.size());
        header.orders = static_cast<std::uint32_t>(orders);
        std::vector<std::uint32_t> order(orders, choices_.byte() & 3);
        std::size_t listed = list_size(header);
        if (wrong & 128) {
            header.words = static_cast<std::uint32_t>(choices_.number(header.words));
            header.orders = static_cast<std::uint32_t>(choices_.number(header.orders));
        }
        std::vector<std::uint64_t> message((sizeof header + listed) / 8);
        std::memcpy(message.data(), &header, sizeof header);
        std::memcpy(message.data() + sizeof header / 8, set.data(), set.size() * 8);
        if (orders != 0)
            std::memcpy(message.data() + sizeof header / 8 + set.size(), order.data(), orders * 4);
        *total = header.kind != WireHeader::Kind::piece || header.flags & WireHeader::shared ? 0 : std::min<std::size_t>(header.length, 5000);
        return message;
    }
    void arrive()
    {
        std::size_t total;
        std::vector<std::uint64_t> message = craft(0, &total);
        WireHeader header;
        std::memcpy(static_cast<void *>(&header), message.data(), sizeof header);
        std::size_t header_size = message.size() * 8;
        std::vector<std::byte> payload(total, std::byte{0x5a});
        if (header.flags & WireHeader::in_payload || header_size > largest_wire_header) {
            header.set(WireHeader::in_payload, true);
            auto list = reinterpret_cast<const std::byte *>(message.data()) + sizeof header;
            payload.insert(payload.begin(), list, list + header_size - sizeof header);
            header_size = sizeof header;
        }
        if (choices_.one_in(16))
            payload.resize(choices_.word() % 4096);
        // As long as the device says, and not a byte longer.
        std::vector<std::byte> bytes(header_size);
        std::memcpy(bytes.data(), message.data(), header_size);
        std::memcpy(bytes.data(), &header, sizeof header);
        std::size_t first = choices_.one_in(2) ? payload.size() : choices_.word() % (payload.size() + 1);
        int source = choices_.byte() % size_;
        std::vector<std::byte> piece(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(first));
        void *cookie = engine_->arrived({peer_of(this, source), bytes.data(), bytes.size(), 0}, piece.data(), first, payload.size());
        require(cookie == nullptr || first < payload.size(), "a cookie for a message that is all here");
        if (cookie != nullptr)
            coming_.push_back({cookie, payload.size() - first});
    }
    void end(std::size_t which)
    {
        Coming one = coming_[which];
        coming_.erase(coming_.begin() + static_cast<std::ptrdiff_t>(which));
        std::vector<std::byte> data(one.left + 1, std::byte{0xa5});
        if (std::size_t half = one.left / 2; half != 0) {
            engine_->more(one.cookie, data.data(), half);
            one.left -= half;
        }
        engine_->more(one.cookie, data.data(), one.left + (choices_.byte() & 1));
    }
    void post()
    {
        Outbox &outbox = shared_->outbox;
        std::uint64_t number = choices_.one_in(8) ? choices_.number(28) : outbox.posts.load() + 1;
        Outbox::Slot &slot = outbox.of(number);
        std::size_t total;
        std::vector<std::uint64_t> message = craft(WireHeader::posted, &total);
        std::memcpy(slot.message, message.data(), std::min(message.size() * 8, sizeof slot.message));
        slot.generation.store(choices_.byte() & 1);
        for (auto &word : slot.members)
            word.store(~std::uint64_t{0});
        slot.unread.store(1);
        slot.number.store(number);
        outbox.posts.store(number);
    }
    void receive()
    {
        if (group_ == nullptr)
            return;
        std::size_t room = choices_.byte();
        receives_.push_back(std::make_unique<Receive>());
        Receive &one = *receives_.back();
        one.buffer = std::make_unique<std::byte[]>(room);
        one.members = std::make_unique<std::uint64_t[]>(words());
        int source, tag;
        std::size_t size;
        engine_->probe(group_, PM_ANY, PM_ANY, &source, &tag, &size);
        engine_->receive(group_, one.buffer.get(), room, PM_ANY, choices_.one_in(2) ? PM_ANY : choices_.byte() & 3, one.members.get(), &one);
    }
    void send()
    {
        if (group_ == nullptr)
            return;
        std::vector<std::uint64_t> set(words());
        for (int count = choices_.byte() % 4; count >= 0; --count) {
            int rank = choices_.byte() % size_;
            set[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << rank % 64;
        }
        std::vector<std::byte> data(choices_.word() % 500);
        engine_->send(group_, data.data(), data.size(), set.data(), 1, false, nullptr);
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
    static int host_of(void *context, int rank)
    {
        auto self = static_cast<Target *>(context);
        require(rank >= 0 && rank < self->size_ && self->per_host_ != 0, "the host of no rank");
        return rank / self->per_host_;
    }

    std::size_t largest_header() override { return largest_wire_header; }
    int send(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size, void *cookie) override
    {
        require(peer != nullptr, "sent to nobody");
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
    int rank_of(const pm_peer *peer) const { return static_cast<int>(reinterpret_cast<const char *>(peer) - peers_.data()); }
    bool on_host(const pm_peer *peer) override { return per_host_ != 0 && rank_of(peer) / per_host_ == rank_ / per_host_; }
    bool has_ended(const pm_peer *) override { return false; }
    void *allocate_shared(std::size_t size) override
    {
        if (size > 8192 || blocks_.size() == 8)
            return nullptr;
        blocks_.push_back(std::aligned_alloc(4096, 8192));
        return blocks_.back();
    }
    void free_shared(void *block) override
    {
        std::erase(blocks_, block);
        std::free(block);
    }
    Outbox *make_outbox() override
    {
        if (outbox_ == nullptr)
            outbox_ = std::make_unique<Outbox>();
        return outbox_.get();
    }
    void free_outbox(Outbox *) override {}
    void nudge(pm_peer *) override {}
    void watches(bool) override {}
    void *view(pm_peer *, std::uint64_t address, std::size_t size) override
    {
        auto place = address - reinterpret_cast<std::uint64_t>(shared_.get());
        return place <= sizeof(Shared) && size <= sizeof(Shared) - place ? reinterpret_cast<void *>(address) : nullptr;
    }
    bool may_open(std::uint32_t group) override { return group == 7 && !choices_.one_in(8); }
    void dropped(const pm_peer *) override {}
    void failed(const std::string &text) override { failure_ = text.empty() ? "send" : text; }

    Choices &choices_;
    int size_ = 0, rank_ = 0, per_host_ = 0;
    std::vector<char> peers_;
    std::unique_ptr<Shared> shared_;
    std::vector<void *> blocks_;
    std::unique_ptr<Outbox> outbox_;
    std::vector<std::unique_ptr<Receive>> receives_;
    std::deque<void *> queued_;
    std::vector<Coming> coming_;
    std::string failure_;
    std::unique_ptr<Engine> engine_;
    pm_group *group_ = nullptr;
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ(pm::fuzz::Target)
