// Teams on the composite device.
#include "coll/team/team.h"

#include <new>

#include "base/tuning.h"
#include "coll/team/board.h"
#include "netmod/core/shared.h"

namespace {

using Board = pm::coll::TeamBoard<std::atomic>;
static_assert(sizeof(Board::Note) == 320 && PM_TEAM_RANKS_LIMIT * 2 * sizeof(std::uint64_t) <= PM_TEAM_CARD);

}  // namespace

struct pm_team {
    pm_team(const pm_group_setup &group, void *memory, int pages, int ahead)
        : group(group), board(memory, group.rank, group.size, pages, ahead)
    {
    }
    // The path to each was chosen when the ranks were connected and leads over shared memory, so it stays: any thread may look at it.
    pm_peer *peer(int rank) const { return group.peer(group.context, rank); }

    pm_group_setup group;
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

void pm_team_lay_out(void *board, int ranks)
{
    Board::lay_out(board, ranks);
}

pm_team *pm_team_join(const pm_group_setup *group, void *board, int pages, int ahead)
{
    return new (std::nothrow) pm_team(*group, board, pages, ahead);
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
    return Board(board, 0, ranks, 0, 0).all_have_left([peers](int rank) { return pm_has_ended(peers[rank]) != 0; });
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

int pm_team_is_gone(const pm_team *team, int rank)
{
    return team->board.will_not_come(rank) || pm_has_ended(team->peer(rank));
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
