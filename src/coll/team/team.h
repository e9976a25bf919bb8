/* A team: the ranks of a communicator that see the same memory of their host, as MPICH's C code sees it. board.h says how it works. One
 * thread at a time; no lock needed, but for making one. */
#ifndef PM_TEAM_H_INCLUDED
#define PM_TEAM_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#include "coll/group.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PM_TEAM_NOTE 304                /* bytes behind the number of a step */
#define PM_TEAM_CARD 2048               /* bytes on a card */
#define PM_TEAM_PAGE (32 * 1024)        /* bytes on a page */
#define PM_TEAM_ELSEWHERE (~(uint64_t) 0 >> 8)  /* instead of a size: a card says where the data is */

typedef struct pm_team pm_team;

/* With so many pages of each rank. */
size_t pm_team_board_size(int ranks, int pages);
/* What has to be backed by memory from the beginning on, and whether more can be when it is used (pm_team_back); otherwise all of it has to. */
size_t pm_team_notes_size(int ranks);
int pm_team_can_grow(void);
int pm_team_lay_out(void *board, int ranks, int is_zero);       /* 0: no memory */
/* One that all have left, for another team; pm_team_behind_all() of its last one says where the next one begins. */
void pm_team_lay_out_again(void *board, int ranks, uint64_t begin);
uint64_t pm_team_behind_all(const pm_team * team);
/* On a board that one of them has laid out. At most `ahead` steps are entered before the first of them is finished; the first one is that after
 * `begin`. NULL: no memory. */
pm_team *pm_team_join(const pm_group_setup * group, void *board, int pages, int ahead, uint64_t begin);
/* So that the first steps are as short as later ones: memory is mapped now that would be when it is looked at. 0: there is none. */
int pm_team_look_around(pm_team * team);
/* Of one that will not be used any more. */
void pm_team_leave(pm_team * team);
/* We will not take the steps that others wait for: they are told. */
void pm_team_give_up(pm_team * team);
int pm_team_gave_up(const pm_team * team, int rank);
void pm_team_free(pm_team * team);      /* after pm_team_leave() */
/* Or have ended: `peers` are the ranks, NULL: that is not asked. */
int pm_team_all_have_left(void *board, int ranks, pm_peer * const *peers);

/* Enters the next step: first there must be room for so many bytes, then they are written to the place, then it is entered. With
 * PM_TEAM_ELSEWHERE for its size the place holds addresses. */
int pm_team_has_room(pm_team * team, size_t size);
int pm_team_has_much_room(pm_team * team, size_t size); /* half of it */
int pm_team_back(pm_team * team, size_t size);  /* before the place is asked for: it is backed by memory; 0: there is none */
void *pm_team_place(pm_team * team, size_t size);
void pm_team_enter(pm_team * team, uint64_t size, int collective);

/* Of the step that was entered last. */
int pm_team_is_here(const pm_team * team, int rank);
void pm_team_all_are_here(pm_team * team);      /* the caller has seen each of them */
uint64_t pm_team_size_said(const pm_team * team, int rank);
int pm_team_collective_of(const pm_team * team, int rank);
const void *pm_team_said(const pm_team * team, int rank);
/* The same three of an earlier step, until the next one is entered. */
uint64_t pm_team_step(const pm_team * team);
void pm_team_look_at(pm_team * team, uint64_t step);

/* Where steps are entered before those before them are finished: then each says how far it has, and with PM_TEAM_EVERYBODY in
 * pm_team_sleeps_for() that it wants to hear of all that others do until pm_team_is_awake(). */
#define PM_TEAM_EVERYBODY INT32_MAX
int pm_team_has_room_behind(pm_team * team, size_t size);
void pm_team_finish(pm_team * team, uint64_t step);
int pm_team_has_finished(const pm_team * team, int rank, uint64_t step);

/* In the step that is looked at, what goes from a rank's memory to another's is claimed by who reads it, or by who withdraws it. */
int pm_team_claim(pm_team * team, int from, int to);
void pm_team_has_copied(pm_team * team, int from, int to);
int pm_team_is_copied(const pm_team * team, int from, int to);

/* Where there is no room, or not much: one who has not come far enough. */
int pm_team_last(const pm_team * team, size_t size, int much);

/* Before and after sleeping for a rank, and whether it will never come: it has left, its process has ended, or it has not joined and, since
 * somebody has ended, may never hear of the board. */
void pm_team_sleeps_for(pm_team * team, int rank);
void pm_team_is_awake(pm_team * team);
int pm_team_is_gone(const pm_team * team, int rank);

/* From and to the memory of a rank: 1, or 0 when the kernel does not let us or it is gone. */
int pm_team_read(const pm_team * team, int rank, uint64_t address, void *data, size_t size);
int pm_team_write(const pm_team * team, int rank, uint64_t address, const void *data, size_t size);

#ifdef __cplusplus
}
#endif
#endif
