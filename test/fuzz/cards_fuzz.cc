// Cards of any content for the devices that open what a card names: SHMEM the memory of a process, UCX an address. One that is none is refused by an
// error; who is connected to what is not there is told so when it sends, and nothing of ours is written to.
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz/fuzz.h"
#include "shmmod/shmem.h"
#ifdef PM_HAVE_UCX
#include "netmod/ucx/ucx.h"
#endif

namespace pm::fuzz {
namespace {

void *arrived(void *, const Envelope &, void *, std::size_t, std::size_t)
{
    require(false, "a message from nobody");
    return nullptr;
}

class Target {
  public:
    Target()
    {
        Sink sink{nullptr, arrived, nullptr};
        sink.dropped = [](void *) {};
        shmem_ = std::move(shmem::Shmem::create({}, sink).value());
        other_ = std::move(shmem::Shmem::create({}, sink).value());
        std::byte bytes[max_card_size];
        other_->write_card(bytes);
        std::memcpy(&card_, bytes, sizeof card_);
#ifdef PM_HAVE_UCX
        // Where UCX has no device it is left out.
        if (auto made = ucx::Ucx::create({}, sink); made.ok()) {
            ucx_ = std::move(made.value());
            ucx_card_.resize(max_card_size);
            ucx_card_.resize(ucx_->write_card(ucx_card_.data()));
        }
#endif
    }

    void play(Choices &choices)
    {
        if (choices.one_in(4))
            play_ucx(choices);
        else
            play_shmem(choices);
    }

  private:
    // A card of which a few fields are something else. Only files of our own are named: others are somebody's.
    void play_shmem(Choices &choices)
    {
        shmem::Card card = card_;
        const std::uint8_t what = choices.byte();
        if (what & 1)
            card.token += choices.number(1 << 20);
        if (what & 2)
            card.region = choices.number(card_.region + shmem::region_room);
        if (what & 4)
            card.file = static_cast<std::int32_t>(choices.number(card_.file));
        if (what & 8)
            card.process = choices.one_in(2) ? 0 : -static_cast<std::int32_t>(choices.byte());
        if (what & 16)
            card.host ^= choices.byte();
        std::vector<std::byte> bytes(sizeof card);
        std::memcpy(bytes.data(), &card, sizeof card);
        if (what & 32)
            bytes.resize(choices.byte());
        const bool whole = bytes.size() == sizeof card, is_real = whole && std::memcmp(&card, &card_, sizeof card) == 0;
        shmem_->introduce(bytes.data(), bytes.size(), nullptr);
        require(!shmem_->is_beside(bytes.data(), bytes.size()) || (whole && card.host == card_.host), "a card of another host is beside us");
        auto peer = shmem_->connect(bytes.data(), bytes.size());
        if (!peer.ok()) {
            require(!is_real && !peer.error().text.empty(), "a card is refused that is one, or without a reason");
            return;
        }
        require(whole && card.host == card_.host, "a card of another size or host is taken");
        if (!is_real && card.token + card.region != card_.token + card_.region) {
            // No region has this name: nothing can be sent there.
            SendProgress progress;
            require(shmem_->try_send(peer.value(), Message{}, &progress) != Status::ok, "a message has gone to what is no region");
            require(!peer.value()->error.text.empty(), "it says nothing of why");
        }
        shmem_->disconnect(peer.value());
    }

    void play_ucx([[maybe_unused]] Choices &choices)
    {
#ifdef PM_HAVE_UCX
        std::vector<std::byte> bytes = ucx_card_;
        for (unsigned count = choices.byte() % 4; count > 0; --count)
            bytes[choices.word() % bytes.size()] ^= static_cast<std::byte>(choices.byte());
        if (choices.one_in(2))
            bytes.resize(choices.word() % (bytes.size() + 1));
        ucx_->introduce(bytes.data(), bytes.size(), nullptr);
        auto peer = ucx_->connect(bytes.data(), bytes.size());
        require(peer.ok() == (bytes == ucx_card_), "a card is taken that is damaged, or refused that is not");
        if (peer.ok())
            ucx_->disconnect(peer.value());
#endif
    }

    std::unique_ptr<shmem::Shmem> shmem_, other_;
    shmem::Card card_{};
#ifdef PM_HAVE_UCX
    std::unique_ptr<ucx::Ucx> ucx_;
    std::vector<std::byte> ucx_card_;
#endif
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ_WITH_ONE(pm::fuzz::Target)
