// Messages of any content for one rank of a communicator with barriers under way, and a board that others write anything to.
#include <memory>
#include <string>
#include <vector>

#include "coll/barrier/engine.h"
#include "fuzz/fuzz.h"

namespace pm::fuzz {
namespace {

using namespace coll;

class Target : BarrierTransport {
  public:
    explicit Target(Choices &choices)
        : choices_(choices), size_(1 + choices.byte() % 40), per_host_(1 + choices.byte() % 5), rank_(choices.byte() % size_),
          shared_(choices.byte() & 1), engine_(*this, [](void *) {})
    {
        peers_.resize(static_cast<std::size_t>(size_));
        if (choices.byte() & 1)
            open();
    }
    void run()
    {
        for (int count = 0; choices_.any() && count < 100 && failure_.empty(); ++count)
            step();
    }

  private:
    void open() { engine_.open({1, size_, rank_, this, peer_of, choices_.one_in(8) ? nullptr : host_of}), open_ = true; }
    void step()
    {
        switch (choices_.byte() % 8) {
            case 0:
            case 1:
            case 2:
                return arrive();
            case 3:
                if (!open_)
                    return open();
                flags_.push_back(std::make_unique<int>());
                return engine_.start(1, flags_.back().get(), nullptr);
            case 4:
                engine_.poll();
                return;
            case 5:
                board_.done.store(choices_.number(100));
                board_.arrived[choices_.byte() % BarrierBoard::places].store(static_cast<std::uint16_t>(choices_.word()));
                return;
            case 6:
                return engine_.attend();
            default:
                if (!choices_.one_in(4))
                    return;
                engine_.close(1);
                flags_.clear();
                open_ = false;
        }
    }
    void arrive()
    {
        BarrierMessage message;
        std::uint8_t wrong = choices_.byte();
        int source = choices_.byte() % size_;
        message.group = wrong & 1 ? static_cast<std::uint16_t>(choices_.word() % 64) : 1;
        message.kind = static_cast<BarrierMessage::Kind>(choices_.byte() % 5);
        message.round = wrong & 2 ? choices_.byte() : choices_.byte() % 8;
        message.from = static_cast<std::int32_t>(wrong & 4 ? choices_.number(static_cast<unsigned>(size_)) : static_cast<unsigned>(source));
        message.number = message.kind == BarrierMessage::Kind::board && !(wrong & 8) ? reinterpret_cast<std::uint64_t>(&board_)
                                                                                      : choices_.number(100);
        message.base = wrong & 16 ? choices_.number(100) : 0;
        if (source != rank_)
            engine_.on_message(wrong & 32 ? nullptr : peer_of(this, source), message);
    }

    static pm_peer *peer_of(void *context, int rank)
    {
        auto self = static_cast<Target *>(context);
        require(rank >= 0 && rank < self->size_, "the peer of no rank");
        return reinterpret_cast<pm_peer *>(&self->peers_[static_cast<std::size_t>(rank)]);
    }
    static int host_of(void *context, int rank) { return rank / static_cast<Target *>(context)->per_host_; }

    bool send(pm_peer *peer, const BarrierMessage &message) override
    {
        require(peer != peer_of(this, rank_), "sent to itself");
        touch(&message, sizeof message);
        require(++sent_ < 100'000, "it sends for ever");
        return true;
    }
    bool on_host(const pm_peer *) override { return shared_; }
    bool has_ended(const pm_peer *) override { return false; }
    void ring(pm_peer *) override {}
    void nudge(pm_peer *) override {}
    BarrierBoard *make_board() override { return choices_.one_in(4) ? nullptr : &board_; }
    void free_board(BarrierBoard *) override {}
    BarrierBoard *view(pm_peer *, std::uint64_t address) override
    {
        return address == reinterpret_cast<std::uint64_t>(&board_) ? &board_ : nullptr;
    }
    void dropped(const pm_peer *) override {}
    void failed(const std::string &text) override { failure_ = text; }

    Choices &choices_;
    int size_, per_host_, rank_;
    bool shared_, open_ = false;
    std::vector<char> peers_;
    BarrierBoard board_{};
    std::vector<std::unique_ptr<int>> flags_;
    std::string failure_;
    std::size_t sent_ = 0;
    BarrierEngine engine_;
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ(pm::fuzz::Target)
