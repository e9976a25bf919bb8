// A board of a team on which other ranks write anything: what we look at lies on the board, whatever they say that they have entered with, and
// what they say does not change how far we are.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "coll/team/board.h"
#include "fuzz/fuzz.h"

namespace pm::fuzz {
namespace {

using Board = coll::TeamBoard<std::atomic>;
constexpr int ranks = 3, self = 1, pages = 4, ahead = 2;

struct Aligned {
    void operator()(std::byte *memory) const { ::operator delete[](memory, std::align_val_t{64}); }
};

class Target {
  public:
    explicit Target(Choices &choices)
        : choices_(choices), size_(Board::size_of(ranks, pages)), memory_(new (std::align_val_t{64}) std::byte[size_]{})
    {
        Board::lay_out(memory_.get(), ranks);
    }
    ~Target() { Board::take_down(memory_.get(), ranks); }

    void run()
    {
        Board board(memory_.get(), self, ranks, pages, ahead);
        for (int count = 0; choices_.any() && count < 256; ++count)
            step(board);
    }

  private:
    void step(Board &board)
    {
        const std::uint64_t before = board.step();
        switch (choices_.byte() % 8) {
            case 0:
            case 1:
            case 2:
                return write(board);
            case 3: {
                const std::uint64_t size = own_size();
                if (choices_.one_in(2) ? !board.has_room(size) : !board.has_room_behind(size))
                    return;
                const std::size_t written = size == PM_TEAM_ELSEWHERE ? 16 : size;
                std::byte *place = board.place(size);
                require_inside(place, written);
                std::memset(place, 0x5a, written);
                board.enter(size, choices_.byte());
                return require(board.step() == before + 1, "entered another step");
            }
            case 4:
                board.look_at(choices_.number(before + 1));
                break;
            case 5:
                board.finish(board.step());
                break;
            case 6: {
                const int rank = other();
                if (board.claim(rank, self))
                    board.has_copied(rank, self);
                break;
            }
            default:
                for (int rank = 0; rank < ranks; ++rank)
                    look(board, rank);
        }
        require(board.step() == before, "others have changed our step");
    }
    // As the readers do: what is not as long as is expected is an error, and not read.
    void look(Board &board, int rank)
    {
        if (!board.is_here(rank))
            return;
        const std::uint64_t said = board.size_said(rank);
        const auto readable = static_cast<std::size_t>(std::min<std::uint64_t>(said, said <= PM_TEAM_NOTE ? PM_TEAM_NOTE : Board::is_card(said) ? PM_TEAM_CARD : PM_TEAM_PAGE));
        require_inside(board.said(rank), readable);
        touch(board.said(rank), readable);
        touch_bool(board.will_not_come(rank) || board.collective_of(rank) == 3 || board.is_copied(rank, self));
    }
    // Somewhere on what another rank writes: a note of its, the seats, or anything.
    void write(Board &board)
    {
        const std::uint64_t value = choices_.number(PM_TEAM_PAGE);
        std::byte *at = memory_.get() + choices_.number(size_) % (size_ - sizeof value) / 8 * 8;
        if (choices_.one_in(2))
            at = board.place_of(other(), board.step() + choices_.byte() % 3, 0) - (choices_.one_in(2) ? 8 : 16);
        std::memcpy(at, &value, sizeof value);
    }
    int other() { return choices_.one_in(2) ? 0 : 2; }
    std::uint64_t own_size()
    {
        static constexpr std::uint64_t sizes[] = {0, 8, PM_TEAM_NOTE, PM_TEAM_NOTE + 1, PM_TEAM_CARD, PM_TEAM_CARD + 1, PM_TEAM_PAGE, PM_TEAM_ELSEWHERE};
        return sizes[choices_.byte() % std::size(sizes)];
    }
    void require_inside(const std::byte *place, std::size_t size)
    {
        require(place >= memory_.get() && size <= size_ && place <= memory_.get() + size_ - size, "what is read is not on the board");
    }
    static void touch_bool(bool value) { touch(&value, sizeof value); }

    Choices &choices_;
    std::size_t size_;
    std::unique_ptr<std::byte[], Aligned> memory_;
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ(pm::fuzz::Target)
