/* Blocks for each rank of a team that are longer than a page. For composite_team_coll.c and composite_started.c. */
#ifndef COMPOSITE_TEAM_EXCHANGE_H_INCLUDED
#define COMPOSITE_TEAM_EXCHANGE_H_INCLUDED

#include <sched.h>

#include "composite_team_data.h"

/* What is exchanged when a page has a slice for each rank, of as many bytes, and as many pages follow each other as are needed. */
typedef struct {
    char *sources[PM_TEAM_RANKS_LIMIT], *targets[PM_TEAM_RANKS_LIMIT];  /* of and for each other rank */
    size_t sent[PM_TEAM_RANKS_LIMIT], received[PM_TEAM_RANKS_LIMIT];
    char *copies[2 * PM_TEAM_RANKS_LIMIT];      /* to be freed */
    int ranks;
    size_t slice;
    bool equal;                 /* all send and receive as much: then the last slices are shorter */
} exchange_t;

/* Before the slices where not all are equal: how many pages a rank needs. */
#define PAGES_SAID 64

/* `apart`: what is sent must not lie where something is received. */
MPL_STATIC_INLINE_PREFIX int begin_exchange(team_t * team, const parts_t * from, const parts_t * to, bool equal, bool apart,
                                            exchange_t * exchange)
{
    int mpi_errno = MPI_SUCCESS;

    memset(exchange->copies, 0, sizeof exchange->copies[0] * 2 * (size_t) team->ranks);
    exchange->ranks = team->ranks;
    exchange->equal = equal;
    exchange->slice = (PM_TEAM_PAGE - PAGES_SAID) / (size_t) team->ranks / 64 * 64;
    for (int rank = 0; rank < team->ranks; rank++) {
        data_t source = part_of(from, rank), target = part_of(to, rank);
        exchange->sent[rank] = exchange->received[rank] = 0;
        exchange->sources[rank] = exchange->targets[rank] = NULL;
        if (rank == team->rank)
            continue;
        exchange->sent[rank] = source.bytes;
        exchange->received[rank] = target.bytes;
        if (unlikely(equal && source.bytes != target.bytes)) {
            mpi_errno = mismatch(team, source.bytes, target.bytes);
            team->harmless = false;     /* no step was taken */
            goto fn_fail;
        }
        if (apart && source.bytes)
            source.plain = NULL;
        mpi_errno = flatten(&source, true, &exchange->sources[rank], &exchange->copies[rank]);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = flatten(&target, false, &exchange->targets[rank], &exchange->copies[team->ranks + rank]);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_fail:
    return mpi_errno;
}

MPL_STATIC_INLINE_PREFIX int end_exchange(const parts_t * to, exchange_t * exchange, int mpi_errno)
{
    for (int rank = 0; mpi_errno == MPI_SUCCESS && rank < exchange->ranks; rank++) {
        data_t part = part_of(to, rank);
        if (exchange->copies[exchange->ranks + rank])
            mpi_errno = copy_to(&part, exchange->copies[exchange->ranks + rank]);
    }
    for (int i = 0; i < 2 * exchange->ranks; i++)
        MPL_free(exchange->copies[i]);
    return mpi_errno;
}

/* Bytes of a slice of the page of that number, of so many in all. */
MPL_STATIC_INLINE_PREFIX size_t slice_of(const exchange_t * exchange, size_t bytes, uint64_t page)
{
    size_t at = page * exchange->slice;

    return at < bytes ? MPL_MIN(exchange->slice, bytes - at) : 0;
}

MPL_STATIC_INLINE_PREFIX uint64_t pages_for(const exchange_t * exchange, size_t bytes)
{
    return (bytes + exchange->slice - 1) / exchange->slice;
}

/* How far the slices of a page are apart, and the bytes of all. */
MPL_STATIC_INLINE_PREFIX size_t stride_of(const team_t * team, const exchange_t * exchange, uint64_t page)
{
    return exchange->equal ? slice_of(exchange, exchange->received[team->rank == 0], page) : exchange->slice;
}

MPL_STATIC_INLINE_PREFIX size_t page_size(const team_t * team, const exchange_t * exchange, uint64_t page)
{
    return (exchange->equal ? 0 : PAGES_SAID) + stride_of(team, exchange, page) * (size_t) team->ranks;
}

/* Enters with a page, which says that there are so many. */
MPL_STATIC_INLINE_PREFIX int enter_with_slices(team_t * team, const exchange_t * exchange, uint64_t page, uint64_t pages)
{
    size_t size = page_size(team, exchange, page), stride = stride_of(team, exchange, page);
    int mpi_errno = MPIDI_COMPOSITE_team_room(team, size);
    char *place;

    MPIR_ERR_CHECK(mpi_errno);
    place = pm_team_place(team->team, size);
    if (!exchange->equal) {
        memcpy(place, &pages, sizeof pages);
        place += PAGES_SAID;
    }
    for (int rank = 0; rank < team->ranks; rank++) {
        size_t bytes = slice_of(exchange, exchange->sent[rank], page);
        if (bytes)
            memcpy(place + stride * (size_t) rank, exchange->sources[rank] + page * exchange->slice, bytes);
    }
    pm_team_enter(team->team, size, team->collective);

  fn_fail:
    return mpi_errno;
}

/* In place: what was there is on the board, as much of it as comes now. */
MPL_STATIC_INLINE_PREFIX int take_slice(team_t * team, const exchange_t * exchange, int rank, uint64_t page)
{
    const char *said;
    size_t bytes = slice_of(exchange, exchange->received[rank], page), stride = stride_of(team, exchange, page);
    int mpi_errno = hear(team, rank, page_size(team, exchange, page), &said);

    if (mpi_errno == MPI_SUCCESS && bytes)
        memcpy(exchange->targets[rank] + page * exchange->slice,
               said + (exchange->equal ? 0 : PAGES_SAID) + stride * (size_t) team->rank, bytes);
    return mpi_errno;
}

/* Instead of slices: what a rank has for another one, where it is, and how much it expects. A card has one for each rank. */
typedef struct {
    uint64_t source, sent, received;
} errand_t;

/* There is one between us and each other rank, and what is started has a bit for each in a word. */
#define EXCHANGES_IN_MEMORY_LIMIT 64
_Static_assert(EXCHANGES_IN_MEMORY_LIMIT * sizeof(errand_t) <= PM_TEAM_CARD, "a card has them all");

MPL_STATIC_INLINE_PREFIX int enter_with_errands(team_t * team, const exchange_t * exchange)
{
    int mpi_errno = MPIDI_COMPOSITE_team_room(team, PM_TEAM_ELSEWHERE);
    errand_t *errands;

    MPIR_ERR_CHECK(mpi_errno);
    errands = pm_team_place(team->team, PM_TEAM_ELSEWHERE);
    for (int rank = 0; rank < team->ranks; rank++)
        errands[rank] = (errand_t) { (uint64_t) (uintptr_t) exchange->sources[rank], exchange->sent[rank], exchange->received[rank] };
    pm_team_enter(team->team, PM_TEAM_ELSEWHERE, team->collective);

  fn_fail:
    return mpi_errno;
}

/* With a rank that has entered with errands, as we have, if we `lent`: what it has for us, unless it has withdrawn it. What we have for it
 * stays to be fetched: to write it there takes longer (16 ranks on two cores a tenth to a fifth of all). */
MPL_STATIC_INLINE_PREFIX int run_errands(team_t * team, const exchange_t * exchange, int rank, bool lent)
{
    int mpi_errno = MPI_SUCCESS, mine = team->rank;
    errand_t errand;

    memcpy(&errand, (const errand_t *) pm_team_said(team->team, rank) + mine, sizeof errand);
    if (unlikely(errand.sent != exchange->received[rank]))
        mpi_errno = mismatch(team, errand.sent, exchange->received[rank]);
    else if (unlikely(lent && errand.received != exchange->sent[rank]))
        mpi_errno = mismatch(team, exchange->sent[rank], errand.received);
    if (unlikely(mpi_errno)) {
        team->harmless = false;
        return mpi_errno;
    }
    if (errand.sent && pm_team_claim(team->team, rank, mine)) {
        mpi_errno = read_bytes(team, rank, errand.source, exchange->targets[rank], errand.sent);
        MPIR_ERR_CHECK(mpi_errno);
        pm_team_has_copied(team->team, rank, mine);
    }

  fn_fail:
    return mpi_errno;
}

/* After a failure in the step that is looked at: nobody reads our memory any more. */
MPL_STATIC_INLINE_PREFIX void withdraw(team_t * team)
{
    MPIDI_COMPOSITE_team_give_up(team, team->rank);
    for (int rank = 0; rank < team->ranks; rank++)
        if (rank != team->rank && !pm_team_claim(team->team, team->rank, rank))
            while (!pm_team_is_copied(team->team, team->rank, rank) && !pm_team_is_gone(team->team, rank))
                sched_yield();
}

/* A rank between which and us something has not been copied yet; ours: there is none. */
MPL_STATIC_INLINE_PREFIX int errands_wait_for(const team_t * team, const exchange_t * exchange)
{
    for (int rank = 0; rank < team->ranks; rank++)
        if ((exchange->received[rank] && !pm_team_is_copied(team->team, rank, team->rank)) ||
            (exchange->sent[rank] && !pm_team_is_copied(team->team, team->rank, rank)))
            return rank;
    return team->rank;
}

/* Where nobody knows what others have for others: who can, enters with all on one page, behind a table of where each part is; who cannot,
 * with slices. The first page of each says how many it needs, and as many steps follow as somebody needs. One says that there is a table. In
 * place there is none where others have slices for us, since what comes as a whole would lie on what goes in slices. */
MPL_STATIC_INLINE_PREFIX size_t table_size(const exchange_t * exchange)
{
    return sizeof(uint64_t) * (1 + (size_t) exchange->ranks);
}

MPL_STATIC_INLINE_PREFIX size_t size_behind_table(const exchange_t * exchange)
{
    size_t size = table_size(exchange);

    for (int rank = 0; rank < exchange->ranks; rank++)
        size += exchange->sent[rank];
    return size;
}

MPL_STATIC_INLINE_PREFIX uint64_t pages_to_say(const exchange_t * exchange, bool in_place)
{
    uint64_t pages = 1;

    for (int rank = 0; rank < exchange->ranks; rank++)
        pages = MPL_MAX(pages, pages_for(exchange, exchange->sent[rank]));
    return size_behind_table(exchange) > PM_TEAM_PAGE || (in_place && pages > 1) ? MPL_MAX(pages, 2) : 1;
}

/* What is behind the table is not sent again. */
MPL_STATIC_INLINE_PREFIX int enter_with_first(team_t * team, exchange_t * exchange, uint64_t pages)
{
    uint64_t table[1 + PM_TEAM_RANKS_LIMIT];
    size_t at = table_size(exchange), size = size_behind_table(exchange);
    int mpi_errno;
    char *place;

    if (pages > 1)
        return enter_with_slices(team, exchange, 0, pages);
    mpi_errno = MPIDI_COMPOSITE_team_room(team, size);
    MPIR_ERR_CHECK(mpi_errno);
    place = pm_team_place(team->team, size);
    table[0] = pages;
    for (int rank = 0; rank < team->ranks; rank++) {
        table[1 + rank] = at;
        if (exchange->sent[rank])
            memcpy(place + at, exchange->sources[rank], exchange->sent[rank]);
        at += exchange->sent[rank];
        exchange->sent[rank] = 0;
    }
    memcpy(place, table, table_size(exchange));
    pm_team_enter(team->team, size, team->collective);

  fn_fail:
    return mpi_errno;
}

/* `pages`: what the rank said. */
MPL_STATIC_INLINE_PREFIX int take_first(team_t * team, exchange_t * exchange, int rank, uint64_t * pages)
{
    size_t size, table[2], bytes = exchange->received[rank];       /* where ours begins, and the next */
    const char *said;
    int mpi_errno = MPIDI_COMPOSITE_team_await(team, rank);

    MPIR_ERR_CHECK(mpi_errno);
    size = pm_team_size_said(team->team, rank);
    said = pm_team_said(team->team, rank);
    if (unlikely(size < table_size(exchange) || size > PM_TEAM_PAGE))
        return mismatch(team, size, bytes);
    memcpy(pages, said, sizeof *pages);
    if (*pages > 1)
        return take_slice(team, exchange, rank, 0);
    table[1] = size;
    memcpy(table, said + sizeof table[0] * (size_t) (1 + team->rank), sizeof table[0] * (team->rank + 1 < team->ranks ? 2 : 1));
    if (unlikely(table[0] > size || table[1] > size || table[1] - table[0] != bytes))
        return mismatch(team, size, bytes);
    if (bytes)
        memcpy(exchange->targets[rank], said + table[0], bytes);
    exchange->received[rank] = 0;

  fn_fail:
    return mpi_errno;
}

MPL_STATIC_INLINE_PREFIX int copy_own(team_t * team, const parts_t * from, const parts_t * to, bool in_place)
{
    data_t sent, received;

    if (in_place)
        return MPI_SUCCESS;
    sent = part_of(from, team->rank);
    received = part_of(to, team->rank);
    return copy_between(&sent, &received);
}

#endif
