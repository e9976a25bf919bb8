// Teams on the composite device.
#include "coll/team/team.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/tuning.h"
#include "coll/team/board.h"
#include "netmod/core/shared.h"

namespace {

using Board = pm::coll::TeamBoard<std::atomic>;
static_assert(sizeof(Board::Seat) == 64 && sizeof(Board::Note) == 320 && PM_TEAM_RANKS_LIMIT * 2 * sizeof(std::uint64_t) <= PM_TEAM_CARD);
static_assert(Board::cards <= 64, "a bit for each");

// All pages of memory that [begin, begin + size) is on; 0, or why not.
int populate(void *begin, std::size_t size, int how)
{
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(begin) / page * page;
    const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(begin) + size + page - 1) / page * page;
    int result;
    do
        result = madvise(reinterpret_cast<void *>(first), end - first, how);
    while (result != 0 && (errno == EINTR || errno == EAGAIN));
    return result == 0 ? 0 : errno;
}

// Where the kernel does not know how, whoever made the board has it backed as a whole.
bool back(void *begin, std::size_t size)
{
    const int error = populate(begin, size, MADV_POPULATE_WRITE);
    return error == 0 || error == EINVAL;
}

}  // namespace

struct pm_team {
    pm_team(const pm_group_setup &group, void *memory, int pages, int ahead, std::uint64_t begin)
        : group(group), memory(memory), board(memory, group.rank, group.size, pages, ahead, begin)
    {
    }
    // The path to each was chosen when the ranks were connected and leads over shared memory, so it stays: any thread may look at it.
    pm_peer *peer(int rank) const { return group.peer(group.context, rank); }

    bool somebody_has_ended() const
    {
        for (int rank = 0; rank < group.size; ++rank)
            if (rank != group.rank && pm_has_ended(peer(rank)))
                return true;
        return false;
    }

    pm_group_setup group;
    void *memory;
    Board board;
};

static void wake(pm_team *team)
{
    team->board.wake([&](int rank) { pm_nudge(team->peer(rank)); });
}

extern "C" {

size_t pm_team_board_size(int ranks, int pages)
{
    return Board::size_of(ranks, pages);
}

size_t pm_team_notes_size(int ranks)
{
    return Board::size_of_notes(ranks);
}

int pm_team_can_grow(void)
{
    static const bool can = [] {
        char here = 0;
        return populate(&here, 1, MADV_POPULATE_WRITE) != EINVAL;
    }();
    return can;
}

int pm_team_lay_out(void *board, int ranks, int is_zero)
{
    if (!back(board, is_zero ? Board::size_of_seats(ranks) : Board::size_of_notes(ranks)))
        return 0;
    if (is_zero)
        Board::lay_out_seats(board, ranks);
    else
        Board::lay_out(board, ranks);
    return 1;
}

void pm_team_lay_out_again(void *board, int ranks, uint64_t begin)
{
    Board::lay_out_again(board, ranks, begin);
}

uint64_t pm_team_behind_all(const pm_team *team)
{
    return team->board.behind_all();
}

pm_team *pm_team_join(const pm_group_setup *group, void *board, int pages, int ahead, uint64_t begin)
{
    auto team = new (std::nothrow) pm_team(*group, board, pages, ahead, begin);
    if (team != nullptr)
        team->board.join();
    return team;
}

int pm_team_look_around(pm_team *team)
{
    if (!back(team->memory, Board::size_of_notes(team->group.size)))
        return 0;
    team->board.note_backed_notes();
    return 1;
}

static bool back_card(pm_team *team)
{
    const std::uint64_t bit = std::uint64_t{1} << team->board.number_of_place(PM_TEAM_ELSEWHERE);
    const std::uint64_t backed = team->board.backed_cards();
    if ((backed & bit) != 0) [[likely]]
        return true;
    if (!back(team->board.place(PM_TEAM_ELSEWHERE), PM_TEAM_CARD))
        return false;
    team->board.note_backed_cards(backed | bit);
    return true;
}

// No more of a page than is written: to back all of it takes longer than a short collective.
static bool back_page(pm_team *team, size_t size)
{
    constexpr size_t unit = 4096;
    const unsigned page = team->board.number_of_place(size);
    const size_t units = (size + unit - 1) / unit;
    if (units <= team->board.backed_of_page(page)) [[likely]]
        return true;
    if (!back(team->board.place(size), units * unit))
        return false;
    team->board.note_backed_page(page, static_cast<std::uint8_t>(units));
    return true;
}

int pm_team_back(pm_team *team, size_t size)
{
    if (!team->board.has_backed_notes() && !pm_team_look_around(team)) [[unlikely]]
        return 0;
    return size <= PM_TEAM_NOTE || (Board::is_card(size) ? back_card(team) : back_page(team, size));
}

void pm_team_leave(pm_team *team)
{
    team->board.leave();
}

void pm_team_give_up(pm_team *team)
{
    team->board.give_up();
    wake(team);
}

void pm_team_free(pm_team *team)
{
    delete team;
}

int pm_team_all_have_left(void *board, int ranks, pm_peer *const *peers)
{
    return Board(board, 0, ranks, 0, 0).all_have_left([peers](int rank) { return peers != nullptr && pm_has_ended(peers[rank]) != 0; });
}

int pm_team_has_room(pm_team *team, size_t size)
{
    return team->board.has_room(size);
}

int pm_team_has_much_room(pm_team *team, size_t size)
{
    return team->board.has_much_room(size);
}

void *pm_team_place(pm_team *team, size_t size)
{
    return team->board.place(size);
}

void pm_team_enter(pm_team *team, uint64_t size, int collective)
{
    team->board.enter(size, static_cast<std::uint8_t>(collective));
    wake(team);
}

int pm_team_is_here(const pm_team *team, int rank)
{
    return team->board.is_here(rank);
}

void pm_team_all_are_here(pm_team *team)
{
    team->board.all_are_here();
}

uint64_t pm_team_size_said(const pm_team *team, int rank)
{
    return team->board.size_said(rank);
}

int pm_team_collective_of(const pm_team *team, int rank)
{
    return team->board.collective_of(rank);
}

const void *pm_team_said(const pm_team *team, int rank)
{
    return team->board.said(rank);
}

uint64_t pm_team_step(const pm_team *team)
{
    return team->board.step();
}

void pm_team_look_at(pm_team *team, uint64_t step)
{
    team->board.look_at(step);
}

int pm_team_has_room_behind(pm_team *team, size_t size)
{
    return team->board.has_room_behind(size);
}

void pm_team_finish(pm_team *team, uint64_t step)
{
    team->board.finish(step);
    wake(team);
}

int pm_team_has_finished(const pm_team *team, int rank, uint64_t step)
{
    return team->board.has_finished(rank, step);
}

int pm_team_claim(pm_team *team, int from, int to)
{
    return team->board.claim(from, to);
}

void pm_team_has_copied(pm_team *team, int from, int to)
{
    team->board.has_copied(from, to);
    team->board.wake_one(from == team->board.rank() ? to : from, [&](int rank) { pm_nudge(team->peer(rank)); });
}

int pm_team_is_copied(const pm_team *team, int from, int to)
{
    return team->board.is_copied(from, to);
}

int pm_team_last(const pm_team *team, size_t size, int much)
{
    return team->board.last(size, much != 0);
}

void pm_team_sleeps_for(pm_team *team, int rank)
{
    team->board.sleeps_for(rank);
}

void pm_team_is_awake(pm_team *team)
{
    team->board.is_awake();
}

int pm_team_gave_up(const pm_team *team, int rank)
{
    return team->board.gave_up(rank);
}

int pm_team_is_gone(const pm_team *team, int rank)
{
    return team->board.will_not_come(rank) || pm_has_ended(team->peer(rank)) ||
           (!team->board.has_joined(rank) && team->somebody_has_ended());
}

int pm_team_read(const pm_team *team, int rank, uint64_t address, void *data, size_t size)
{
    return pm_read_memory(team->peer(rank), address, data, size);
}

int pm_team_write(const pm_team *team, int rank, uint64_t address, const void *data, size_t size)
{
    return pm_write_memory(team->peer(rank), address, data, size);
}

}  // extern "C"
