// Shared memory of windows that another process of the host writes anything to: the mailboxes where it leaves errands for us, what it makes of
// those that we left with it, the words of its board. Nothing outside the parts is touched, what is refused has changed nothing, and
// a rank that there is not is neither woken nor waited for.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "coll/window/direct.h"
#include "coll/window/engine.h"
#include "coll/window/errands.h"
#include "fuzz/fuzz.h"
#include "netmod/core/shared.h"
#include "support/core_setup.h"

namespace pm::fuzz {
namespace {

using namespace coll;

constexpr int ranks = 2, self = 0, other = 1;
constexpr std::size_t bytes = 700, margin = 2048;  // of its part no sanitizer knows: the kernel writes there
constexpr std::uint64_t direct_id = 1, plain_id = 2;

// One process for all inputs, which is its own neighbour.
class Target {
  public:
    Target()
    {
        pm_setup setup = test::plain_setup();
        setup.devices = "shmem";
        require((core_ = pm_open(&setup)) != nullptr && pm_windows_open(core_, "auto") == PM_OK, pm_error_text());
        char card[PM_CARD_MAX];
        require((peer_ = pm_connect(core_, card, pm_card(core_, card))) != nullptr, pm_error_text());
        its_board_ = new (pm_shared_alloc(core_, PM_SHARED_LIMIT)) WindowBoard{};
        its_boxes_ = made_in(pm_shared_alloc(core_, PM_SHARED_LIMIT));
        its_board_->epochs.reset((direct_id << 32) + other + 1);
        window_ = open(direct_id, reinterpret_cast<std::uint64_t>(its_board_));
        open(plain_id, 0);
        ours_ = reinterpret_cast<Mailboxes *>(open_mailboxes(core_));
        require(ours_ != nullptr, "no shared memory");
        is_direct_ = pm_window_say(window_, 0) != 0;
        its_board_->epochs.verdict.set(window_->board->epochs.verdict.get());
        is_direct_ = is_direct_ && pm_window_make_direct(window_) != nullptr;
        if (!is_direct_)
            std::fprintf(stderr, "the kernel does not let us read memory of a process: nothing is tried\n");
    }

    void play(Choices &choices)
    {
        if (!is_direct_)
            return;
        for (int count = 0; choices.any() && count < 64; ++count)
            step(choices);
        for (EpochBoard *board : boards())
            for (auto &stripe : board->stripes)
                stripe.store(0);
    }

  private:
    static Mailboxes *made_in(void *block)
    {
        std::memset(block, 0, sizeof(Mailboxes));
        return new (block) Mailboxes;
    }
    pm_window *open(std::uint64_t id, std::uint64_t its_board)
    {
        std::byte card[PM_WINDOW_CARD_MAX];
        std::size_t size = 0;
        pm_window_setup setup{id, ranks, self, memory_.get(), bytes, 1, this, peer_of, memory_of, 1, 0};
        pm_window *window = pm_window_open(&setup, card, &size);
        pm_window_meet(window, self, card);
        const std::uint64_t its[] = {its_board, bytes, 1, reinterpret_cast<std::uint64_t>(its_memory_.data() + margin),
                                     reinterpret_cast<std::uint64_t>(its_boxes_)};
        static_assert(sizeof its == PM_WINDOW_CARD);
        pm_window_meet(window, other, its);
        return window;
    }
    static pm_peer *peer_of(void *context, int) { return static_cast<Target *>(context)->peer_; }
    static void *memory_of(void *, int, std::uint64_t, std::uint64_t) { return nullptr; }

    std::array<EpochBoard *, 2> boards() { return {&window_->board->epochs, &its_board_->epochs}; }

    void step(Choices &choices)
    {
        switch (choices.byte() % 8) {
            case 0:
            case 1:
            case 2:
            case 3:
                return serve(choices);
            case 4:
                return wake(choices);
            case 5: {
                // Held by nobody, or by a rank that there is not.
                EpochBoard *board = boards()[choices.byte() % 2];
                auto holder = static_cast<std::uint32_t>(choices.number(ranks));
                board->stripes[choices.byte() % EpochBoard::stripes_count].store(holder > ranks ? holder : 0);
                return;
            }
            default:
                return ask(choices);
        }
    }

    Errand::Head make_head(Choices &choices)
    {
        std::uint8_t wrong = choices.byte();  // what is not put right
        Errand::Head head{};
        head.window = wrong & 1 ? choices.number(plain_id) : direct_id;
        head.kind = static_cast<Errand::Kind>(choices.byte() % (wrong & 2 ? 256 : 4));
        head.element = static_cast<std::uint8_t>(choices.byte() % (wrong & 4 ? 256 : static_cast<unsigned>(PM_ELEMENTS)));
        head.operation = static_cast<std::uint8_t>(choices.byte() % (wrong & 8 ? 256 : static_cast<unsigned>(PM_OPERATIONS)));
        head.rank = static_cast<std::uint32_t>(wrong & 16 ? choices.number(ranks) : other);
        std::size_t one = std::max<std::size_t>(1, pm_element_size(static_cast<pm_element>(head.element)));
        head.offset = wrong & 32 ? choices.number(bytes) : choices.byte() / one * one;
        head.size = static_cast<std::uint32_t>(wrong & 64 ? choices.number(bytes) : one * (1 + choices.byte() % 16));
        return head;
    }

    // The other has left something with us, or says so.
    void serve(Choices &choices)
    {
        made_in(ours_);
        std::size_t which = choices.byte() % (choices.one_in(2) ? Mailboxes::few : Mailboxes::count);
        Mailbox &box = ours_->boxes[which];
        ours_->used.store(static_cast<std::uint32_t>(choices.one_in(4) ? choices.number(Mailboxes::count) : which + 1));
        ours_->waiting.store(choices.one_in(4) ? choices.number(Mailboxes::count) : std::uint64_t{1} << which);
        if (choices.one_in(4)) {
            box.holder.store(static_cast<std::uint32_t>(choices.number(3)));
            box.last.store(static_cast<std::uint32_t>(choices.number(Mailbox::room)));
        }
        std::uint32_t number = box.last.load() + 1;
        Errand &errand = box.errands[number % Mailbox::room];
        errand.head = make_head(choices);
        std::ranges::fill(errand.data, static_cast<std::byte>(choices.byte()));
        errand.refused = 1;
        errand.posted.store(choices.one_in(8) ? static_cast<std::uint32_t>(choices.number(Mailbox::room)) : number);
        std::vector<std::byte> before(memory_.get(), memory_.get() + bytes);
        pm_windows_poll();
        // Of elements some may be changed before a stripe is found that nobody gives back.
        require(errand.refused == 0 || errand.head.kind == Errand::Kind::apply || std::equal(before.begin(), before.end(), memory_.get()),
                "what was refused has changed something");
    }

    // We leave some with the other, which writes there what it likes before it does them, or does not.
    void ask(Choices &choices)
    {
        std::size_t size = 8 * (1 + choices.byte() % 16);
        std::vector<std::byte> data(size, static_cast<std::byte>(choices.byte()));
        auto results = std::make_unique<std::byte[]>(size * Mailbox::room);
        for (std::uint32_t i = 0; i <= choices.byte() % Mailbox::room; ++i) {
            std::byte *result = results.get() + i * size;
            switch (choices.byte() % 4) {
                case 0:
                    pm_errand_put(window_, other, choices.byte(), data.data(), size);
                    break;
                case 1:
                    pm_errand_get(window_, other, choices.byte(), result, size);
                    break;
                case 2:
                    pm_errand_apply(window_, other, choices.byte() / 8 * 8, PM_INT64, PM_SUM, data.data(), result, size);
                    break;
                default:
                    pm_errand_swap(window_, other, choices.byte() / 8 * 8, PM_INT64, data.data(), data.data(), result);
            }
        }
        for (Errand &each : its_boxes_->boxes[0].errands)
            if (choices.one_in(2))
                each.head = make_head(choices);
        if (choices.one_in(4))
            its_boxes_->serve([&](Errand &errand) { errand.refused = choices.byte() & 1; });
        std::vector<std::byte> before(memory_.get(), memory_.get() + bytes);
        pm_errands_settle(window_);
        require(std::equal(before.begin(), before.end(), memory_.get()), "what was for another has changed our part");
        auto untouched = [](std::byte each) { return each == std::byte{0}; };
        require(std::all_of(its_memory_.begin(), its_memory_.begin() + margin, untouched) && std::all_of(its_memory_.end() - margin, its_memory_.end(), untouched),
                "written beside the part of another");
    }

    void wake(Choices &choices)
    {
        int target = choices.byte() % ranks, exclusive = choices.byte() & 1;
        EpochBoard &board = *boards()[static_cast<std::size_t>(target)];
        if (!pm_direct_try_lock(window_, target, exclusive))
            return;
        board.asleep.store(choices.number(64));
        pm_direct_unlock(window_, target, exclusive);
        require(board.asleep.load() == 0, "somebody still sleeps");
    }

    pm_core *core_ = nullptr;
    pm_peer *peer_ = nullptr;
    std::unique_ptr<std::byte[]> memory_ = std::make_unique<std::byte[]>(bytes);
    std::vector<std::byte> its_memory_ = std::vector<std::byte>(bytes + 2 * margin);
    WindowBoard *its_board_ = nullptr;
    Mailboxes *its_boxes_ = nullptr, *ours_ = nullptr;
    pm_window *window_ = nullptr;
    bool is_direct_ = false;
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ_WITH_ONE(pm::fuzz::Target)
