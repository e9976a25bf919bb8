// Messages of any content for one rank of a window, between what it does itself: each is right but for what the input changes. Nothing
// outside the window, or of a buffer that is the user's again, is touched, and what is dropped changes nothing.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "coll/window/engine.h"
#include "fuzz/fuzz.h"

namespace pm::fuzz {
namespace {

using namespace coll;

constexpr int ranks = 4, self = 1;  // rank 3 sees our memory, and we see its
constexpr std::size_t bytes = 300;

class Target : WindowTransport {
  public:
    explicit Target(Choices &choices) : choices_(choices), engine_(*this) { open(); }
    ~Target() override
    {
        while (!coming_.empty())
            end(0);
        while (!queued_.empty())
            take();
    }

    void run()
    {
        for (int count = 0; choices_.any() && count < 64; ++count)
            step();
    }

  private:
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
                buffers_.push_back(std::make_unique<std::byte[]>(32));
                engine_.get(window_, other(), choices_.byte() % 64, buffers_.back().get(), 32, choices_.one_in(2) ? -1 : 5);
                return;
            case 7:
                engine_.accept(window_, choices_.byte() % ranks, choices_.byte() % 3, choices_.byte(), 40, flag());
                return;
            case 8:
                buffers_.push_back(std::make_unique<std::byte[]>(64));
                engine_.offer(window_, choices_.byte() % ranks, choices_.byte() % 3, buffers_.back().get(), 64, flag());
                return;
            case 9:
                engine_.sync(window_, flag());
                return;
            case 10:
                buffers_.push_back(std::make_unique<std::byte[]>(16));
                engine_.put(window_, other(), 0, buffers_.back().get(), 16, {PM_AFTER_NOTIFY, 3, 0, 0});
                return;
            default:
                if (!choices_.one_in(4)) {
                    engine_.arm(window_, choices_.byte() % 4, 1 + choices_.byte() % 2, flag());
                    engine_.poll();
                    window_->board->discard.store(choices_.byte() & 1);
                    return;
                }
                // What the user had lent is the user's again, once it has left.
                while (!queued_.empty())
                    take();
                engine_.close(window_);
                flags_.clear();
                buffers_.clear();
                memory_.reset();
                open();
        }
    }

    struct Queued {
        void *cookie;
        const void *data;
        std::size_t size;
    };
    struct Coming {
        void *cookie;
        std::size_t left;
    };

    void open()
    {
        memory_ = std::make_unique<std::byte[]>(bytes);
        std::byte card[PM_WINDOW_CARD];
        window_ = engine_.open({77, ranks, self, memory_.get(), bytes, 1, this, peer_of, memory_of, 0, 0}, card);
        for (int rank = 0; rank < ranks; ++rank) {
            struct {
                std::uint64_t board, bytes, unit = 1, base = 0, mailboxes = 0;
            } its{rank == 3 ? reinterpret_cast<std::uint64_t>(&board_) : 0, fuzz::bytes};
            static_assert(sizeof its == PM_WINDOW_CARD);
            engine_.meet(window_, rank, rank == self ? static_cast<void *>(card) : &its);
        }
    }
    int other() { return choices_.one_in(2) ? 0 : 2; }
    volatile int *flag()
    {
        flags_.push_back(std::make_unique<int>());
        return flags_.back().get();
    }

    void arrive()
    {
        WindowMessage message;
        message.window = 77;
        std::uint8_t wrong = choices_.byte();  // what is not put right
        int source = choices_.byte() % ranks;
        message.from = wrong & 1 ? static_cast<int>(choices_.number(ranks)) : source;
        message.kind = static_cast<WindowMessage::Kind>(choices_.byte() % 9);
        message.after = choices_.byte() % (wrong & 2 ? 256 : 4);
        message.value = static_cast<std::int32_t>(wrong & 4 ? choices_.number(PM_COUNTERS) : choices_.byte() % 8);
        message.target = static_cast<std::int32_t>(wrong & 8 ? choices_.number(ranks) : choices_.byte() % ranks);
        message.offset = choices_.number(bytes);
        message.flag = choices_.number(bytes);
        message.size = choices_.number(bytes);
        message.place = wrong & 16 ? choices_.number(4) : choices_.byte() % 8;
        message.target_offset = choices_.number(bytes);
        message.may_be_discarded = choices_.byte();
        message.forwarded = choices_.byte();
        if (wrong & 32)
            message.window = choices_.number(77);
        std::size_t total = wrong & 64 ? choices_.word() : choices_.byte() % 65;
        if (message.kind == WindowMessage::Kind::reply && !(wrong & 128))
            total = 32;
        std::vector<std::byte> data(total, std::byte{0x5a});
        std::size_t first = choices_.one_in(2) ? total : choices_.word() % (total + 1);
        std::vector<std::byte> before(memory_.get(), memory_.get() + bytes);
        std::size_t drops = drops_, sent = sent_;
        void *cookie = engine_.arrived({peer_of(this, source), &message, sizeof message, 0}, data.data(), first, total);
        require(cookie == nullptr || first < total, "a cookie for a message that is all here");
        if (cookie != nullptr)
            coming_.push_back({cookie, total - first});
        require(drops_ == drops || (cookie == nullptr && sent_ == sent && std::equal(before.begin(), before.end(), memory_.get())),
                "what was dropped has changed something");
    }
    void end(std::size_t which)
    {
        Coming one = coming_[which];
        coming_.erase(coming_.begin() + static_cast<std::ptrdiff_t>(which));
        std::vector<std::byte> data(one.left, std::byte{0xa5});
        std::size_t half = one.left / 2;
        if (half != 0)
            engine_.more(one.cookie, data.data(), half);
        engine_.more(one.cookie, data.data(), one.left - half + (choices_.byte() & 1));
    }
    void take()
    {
        if (queued_.empty())
            return;
        Queued one = queued_.front();
        queued_.pop_front();
        engine_.taken(one.cookie);
    }

    static pm_peer *peer_of(void *context, int rank)
    {
        return reinterpret_cast<pm_peer *>(&static_cast<Target *>(context)->peers_[rank]);
    }
    static void *memory_of(void *context, int rank, std::uint64_t, std::uint64_t) { return rank == 3 ? static_cast<Target *>(context)->its_memory_.get() : nullptr; }

    int send(pm_peer *peer, const WindowMessage &message, const void *data, std::size_t size, void *cookie) override
    {
        require(peer != nullptr && peer != peer_of(this, self), "sent to nobody");
        touch(&message, sizeof message);
        touch(data, size);
        ++sent_;
        if (cookie == nullptr || choices_.one_in(2))
            return PM_OK;
        queued_.push_back({cookie, data, size});
        return PM_QUEUED;
    }
    void ring(pm_peer *) override {}
    void nudge(pm_peer *) override {}
    WindowBoard *make_board() override { return nullptr; }
    void free_board(WindowBoard *) override {}
    WindowBoard *view(pm_peer *, std::uint64_t address) override { return reinterpret_cast<WindowBoard *>(address); }
    std::uint64_t mailboxes() override { return 0; }
    void dropped(const pm_peer *) override { ++drops_; }
    void failed(const std::string &text) override { require(false, text); }

    Choices &choices_;
    char peers_[ranks];
    WindowBoard board_{};
    std::unique_ptr<std::byte[]> memory_, its_memory_ = std::make_unique<std::byte[]>(bytes);
    std::vector<std::unique_ptr<std::byte[]>> buffers_;
    std::vector<std::unique_ptr<int>> flags_;
    std::deque<Queued> queued_;
    std::vector<Coming> coming_;
    std::size_t drops_ = 0, sent_ = 0;
    WindowEngine engine_;
    pm_window *window_ = nullptr;
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ(pm::fuzz::Target)
