/* Collectives of a team: what each rank enters a step with, and whose it reads. In the order of the ranks, wherever the order matters, so
 * that all have the same result, bit for bit, and the same one in every run. */
#include <sched.h>

#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_combine.h"
#include "composite_team.h"
#include "composite_team_coll.h"
#include "composite_team_data.h"
#include "composite_team_exchange.h"
#include "base/tuning.h"

/* ---- moving ---- */

_Static_assert(PM_TEAM_PAIR_PIECE >= PM_TEAM_CARD + 64, "a piece and what is left with it lie on a page both");

/* Of so much. Of two one copies in while the other copies out: what is short in small pieces, what is long in not too many. */
static size_t most_at_once(const team_t * team, size_t bytes)
{
    size_t piece = (bytes / PM_TEAM_PAIR_PIECES + 4095) / 4096 * 4096;

    return are_two(team) ? MPL_MIN(MPL_MAX(piece, PM_TEAM_PAIR_PIECE), PM_TEAM_PAGE) : PM_TEAM_PAGE;
}

/* Where ranks share cores, rank 0 goes first: what most programs do next begins there, and others would only wait for it, and keep it from
 * its turn. */
static void let_first_go(team_t * team)
{
    uint64_t step = pm_team_step(team->team);

    if (team->rank == 0)
        pm_team_finish(team->team, step);
    for (int turns = 0; turns < PM_TEAM_TURNS_FOR_FIRST && !pm_team_has_finished(team->team, 0, step); turns++)
        sched_yield();
}

int MPIDI_COMPOSITE_team_barrier(team_t * team)
{
    int mpi_errno = await_readers(team);

    if (mpi_errno == MPI_SUCCESS && pm_crowded(MPIDI_COMPOSITE_global.core))
        let_first_go(team);
    return mpi_errno;
}

/* We have failed after we said where others may write: who comes later sees that it gave up, and who has come has written when it has
 * entered the next step, or has given up, too. Who writes has `said` so much in this one; others may have no next step. */
static void await_writers(team_t * team, uint64_t step, size_t said)
{
    MPIDI_COMPOSITE_team_give_up(team, team->rank);
    for (int rank = 0; rank < team->ranks; rank++) {
        pm_team_look_at(team->team, step);
        if (rank == team->rank || !pm_team_is_here(team->team, rank) || pm_team_size_said(team->team, rank) != said ||
            pm_team_collective_of(team->team, rank) != (int) team->collective)
            continue;
        pm_team_look_at(team->team, step + 1);
        while (!pm_team_is_here(team->team, rank) && !pm_team_is_gone(team->team, rank))
            sched_yield();
    }
}

/* Of two ranks with cores of their own each copies half of it. */
static int bcast_by_halves(team_t * team, const data_t * data, int root)
{
    int mpi_errno, other = 1 - team->rank;
    size_t half = data->bytes / 2 / 4096 * 4096;
    uint64_t step = pm_team_step(team->team) + 1;
    char *flat, *packed;
    place_t place, places[2];
    bool lent = false;

    mpi_errno = flatten(data, team->rank == root, &flat, &packed);
    MPIR_ERR_CHECK(mpi_errno);
    /* For either rank, as the root of a gather says where each writes: who expects more or less looks where its own would be. */
    places[0] = places[1] = (place_t) { (uint64_t) (uintptr_t) flat, data->bytes };
    mpi_errno = enter_with_places(team, places, 2);
    MPIR_ERR_CHECK(mpi_errno);
    lent = team->rank != root;  /* who writes to it */
    mpi_errno = hear_place(team, other, 0, &place);
    MPIR_ERR_CHECK(mpi_errno);
    if (unlikely(place.bytes != data->bytes))
        mpi_errno = mismatch(team, place.bytes, data->bytes);
    else if (team->rank != root)
        mpi_errno = read_bytes(team, root, place.address + half, flat + half, data->bytes - half);
    /* If it has failed, what was there may be something else by now. */
    else if (pm_team_is_gone(team->team, other))
        mpi_errno = MPIDI_COMPOSITE_team_lost(team, other);
    else
        mpi_errno = write_bytes(team, other, place.address, flat, half);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = await_readers(team);
    MPIR_ERR_CHECK(mpi_errno);
    if (packed && team->rank != root)
        mpi_errno = copy_to(data, packed);
    lent = false;

  fn_fail:
    if (mpi_errno && lent) {
        team->harmless = false;
        await_writers(team, step, PM_TEAM_ELSEWHERE);
    }
    MPL_free(packed);
    return mpi_errno;
}

static int bcast_by_address(team_t * team, const data_t * data, int root)
{
    int mpi_errno;
    place_t place;
    char *copy = NULL;

    if (team->rank == root) {
        mpi_errno = lend(data, &place, &copy);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = enter_with_places(team, &place, 1);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = await_readers(team);
    } else {
        mpi_errno = enter_with_nothing(team);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = hear_place(team, root, 0, &place);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = read_data(team, root, &place, data);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = enter_with_nothing(team);
    }

  fn_fail:
    MPL_free(copy);
    return mpi_errno;
}

/* The first of what is left, which is how much a piece says it is: so others notice at the first one that they expect another size. */
static int bcast_piece(team_t * team, const data_t * data, size_t left, int root)
{
    const char *said;
    int mpi_errno;

    if (team->rank == root)
        return enter_with_piece(team, data, left);
    mpi_errno = enter_with_nothing(team);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = hear(team, root, left, &said);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = copy_to(data, said);

  fn_fail:
    return mpi_errno;
}

/* What may be more than goes at once. */
static int bcast_in_pieces(team_t * team, const data_t * data, int root)
{
    int mpi_errno = MPI_SUCCESS;
    char *flat, *packed = NULL;
    const size_t most = most_at_once(team, data->bytes);

    if (data->bytes <= most)
        return bcast_piece(team, data, data->bytes, root);
    mpi_errno = flatten(data, team->rank == root, &flat, &packed);
    MPIR_ERR_CHECK(mpi_errno);
    for (size_t at = 0; at < data->bytes; at += most) {
        data_t piece = data_of(flat + at, (MPI_Aint) MPL_MIN(data->bytes - at, most), MPI_BYTE);
        mpi_errno = bcast_piece(team, &piece, data->bytes - at, root);
        MPIR_ERR_CHECK(mpi_errno);
    }
    if (packed && team->rank != root)
        mpi_errno = copy_to(data, packed);

  fn_fail:
    MPL_free(packed);
    return mpi_errno;
}

static int bcast(team_t * team, const data_t * data, int root)
{
    if (data->bytes <= team->limit)
        return bcast_in_pieces(team, data, root);
    if (are_two(team) && data->bytes > PM_TEAM_PAIR_HALVES)
        return bcast_by_halves(team, data, root);
    return bcast_by_address(team, data, root);
}

int MPIDI_COMPOSITE_team_bcast(team_t * team, void *buffer, MPI_Aint count, MPI_Datatype type, int root)
{
    data_t data = data_of(buffer, count, type);

    return bcast(team, &data, root);
}

/* Of two ranks one has what is long for the other, who gets it piece by piece, as in a bcast. */
static bool goes_in_pieces(const team_t * team, size_t whole)
{
    return team->ranks == 2 && whole > PM_TEAM_PAGE && whole <= team->limit;
}

/* Or by address, unless it is so long that both should copy at the same time. */
static bool is_gathered_from_other(const team_t * team, size_t bytes)
{
    return goes_in_pieces(team, bytes) || (are_two(team) && bytes > team->limit && bytes <= PM_TEAM_PAIR_GATHERED);
}

/* What is long is written to the root by those who have it, all at the same time. */
static int write_to_root(team_t * team, const data_t * mine, int root)
{
    int mpi_errno;
    place_t place;

    mpi_errno = enter_with_nothing(team);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = hear_place(team, root, team->rank, &place);
    MPIR_ERR_CHECK(mpi_errno);
    /* It has failed, and what was there may be something else by now. */
    if (pm_team_is_gone(team->team, root))
        return MPIDI_COMPOSITE_team_lost(team, root);
    mpi_errno = write_data(team, root, &place, mine);

  fn_fail:
    return mpi_errno;
}

/* The root enters with the places for what is long: in `all`, or where something has to be unpacked from, in `*packed`. */
static int enter_with_room(team_t * team, const parts_t * all, bool *lent, char **packed)
{
    int mpi_errno = MPI_SUCCESS;
    place_t places[PM_TEAM_RANKS_LIMIT];
    size_t unpacked = 0;

    *lent = false;
    *packed = NULL;
    for (int rank = 0; rank < team->ranks; rank++) {
        data_t part = part_of(all, rank);
        places[rank] = (place_t) { (uint64_t) (uintptr_t) part.plain, part.bytes };
        if (rank == team->rank || !stays(team, part.bytes))
            continue;
        *lent = true;
        unpacked += part.plain ? 0 : part.bytes;
    }
    if (!*lent)
        return enter_with_nothing(team);
    if (unpacked) {
        *packed = MPL_malloc(unpacked, MPL_MEM_COLL);
        MPIR_ERR_CHKANDJUMP(!*packed, mpi_errno, MPI_ERR_OTHER, "**nomem");
    }
    for (size_t at = 0, rank = 0; unpacked && rank < (size_t) team->ranks; rank++)
        if ((int) rank != team->rank && places[rank].address == 0 && stays(team, places[rank].bytes)) {
            places[rank].address = (uint64_t) (uintptr_t) (*packed + at);
            at += places[rank].bytes;
        }
    mpi_errno = enter_with_places(team, places, team->ranks);

  fn_fail:
    return mpi_errno;
}

/* What was written to `packed`. */
static int unpack_long(team_t * team, const parts_t * all, const char *packed)
{
    int mpi_errno = MPI_SUCCESS;

    for (int rank = 0; packed && mpi_errno == MPI_SUCCESS && rank < team->ranks; rank++) {
        data_t part = part_of(all, rank);
        if (rank == team->rank || part.plain || !stays(team, part.bytes))
            continue;
        mpi_errno = copy_to(&part, packed);
        packed += part.bytes;
    }
    return mpi_errno;
}

/* `mine` and, at the root, `all`. With `equal` all know that of all; otherwise each knows its own. */
static int gather(team_t * team, const data_t * mine, const parts_t * all, int root, bool equal)
{
    int mpi_errno = MPI_SUCCESS;
    bool lent = false;
    char *packed = NULL;
    uint64_t step = pm_team_step(team->team) + 1;

    if (team->rank != root) {
        lent = stays(team, mine->bytes);
        mpi_errno = lent ? write_to_root(team, mine, root) : enter_with(team, mine);
        MPIR_ERR_CHECK(mpi_errno);
        if (!equal || lent)
            mpi_errno = enter_with_nothing(team);
        goto fn_exit;
    }
    mpi_errno = enter_with_room(team, all, &lent, &packed);
    MPIR_ERR_CHECK(mpi_errno);
    if (mine) {
        data_t own = part_of(all, root);
        mpi_errno = copy_between(mine, &own);
        MPIR_ERR_CHECK(mpi_errno);
    }
    for (int i = 1; i < team->ranks; i++) {
        int rank = (root + i) % team->ranks;
        data_t part = part_of(all, rank);
        bool is_long = stays(team, part.bytes);
        const char *said;
        mpi_errno = hear(team, rank, is_long ? 0 : part.bytes, &said);
        if (mpi_errno == MPI_SUCCESS && !is_long)
            mpi_errno = copy_to(&part, said);
        MPIR_ERR_CHECK(mpi_errno);
    }
    pm_team_all_are_here(team->team);
    if (!equal || lent)
        mpi_errno = enter_with_nothing(team);
    MPIR_ERR_CHECK(mpi_errno);
    if (lent)
        mpi_errno = MPIDI_COMPOSITE_team_await_all(team);
    MPIR_ERR_CHECK(mpi_errno);
    lent = false;
    mpi_errno = unpack_long(team, all, packed);

  fn_exit:
  fn_fail:
    if (mpi_errno && lent && team->rank == root)
        await_writers(team, step, 0);
    MPL_free(packed);
    return mpi_errno;
}

int MPIDI_COMPOSITE_team_gather(team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                MPI_Aint recvcount, MPI_Datatype recvtype, int root)
{
    bool in_place = sendbuf == MPI_IN_PLACE;
    data_t mine = data_or_none(sendbuf, sendcount, sendtype);
    parts_t all = { 0 };

    if (team->rank != root && is_gathered_from_other(team, mine.bytes))
        return bcast(team, &mine, 1 - root);
    if (team->rank == root)
        all = equal_parts(recvbuf, recvcount, recvtype);
    if (team->rank == root && is_gathered_from_other(team, part_of(&all, root).bytes)) {
        data_t own = part_of(&all, root), other = part_of(&all, 1 - root);
        int mpi_errno = bcast(team, &other, 1 - root);
        return mpi_errno || in_place ? mpi_errno : copy_between(&mine, &own);
    }
    return gather(team, in_place && team->rank == root ? NULL : &mine, &all, root, true);
}

int MPIDI_COMPOSITE_team_gatherv(team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                 const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype, int root)
{
    bool in_place = sendbuf == MPI_IN_PLACE;
    data_t mine = data_or_none(sendbuf, sendcount, sendtype);
    parts_t all = { 0 };

    if (team->rank == root)
        all = parts_of(recvbuf, recvcounts, displs, recvtype);
    return gather(team, in_place && team->rank == root ? NULL : &mine, &all, root, false);
}

static int scatter(team_t * team, const parts_t * all, const data_t * mine, int root, bool equal)
{
    int mpi_errno;
    bool lent = false;
    char *copy = NULL;

    if (team->rank != root) {
        mpi_errno = enter_with_nothing(team);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = take_part(team, root, equal, mine);
        MPIR_ERR_CHECK(mpi_errno);
        if (!equal || stays(team, mine->bytes * (size_t) team->ranks))
            mpi_errno = enter_with_nothing(team);
        goto fn_exit;
    }
    mpi_errno = enter_with_parts(team, all, equal, false, &lent, &copy);
    MPIR_ERR_CHECK(mpi_errno);
    if (mine) {
        data_t own = part_of(all, root);
        mpi_errno = copy_between(&own, mine);
        MPIR_ERR_CHECK(mpi_errno);
    }
    if (!equal || lent)
        mpi_errno = enter_with_nothing(team);
    MPIR_ERR_CHECK(mpi_errno);
    if (lent)
        mpi_errno = MPIDI_COMPOSITE_team_await_all(team);

  fn_exit:
  fn_fail:
    MPL_free(copy);
    return mpi_errno;
}

int MPIDI_COMPOSITE_team_scatter(team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                 MPI_Aint recvcount, MPI_Datatype recvtype, int root)
{
    bool in_place = recvbuf == MPI_IN_PLACE;
    data_t mine = data_or_none(recvbuf, recvcount, recvtype);
    parts_t all = { 0 };

    if (team->rank != root && goes_in_pieces(team, 2 * mine.bytes))
        return bcast_in_pieces(team, &mine, root);
    if (team->rank == root)
        all = equal_parts(sendbuf, sendcount, sendtype);
    if (team->rank == root && goes_in_pieces(team, 2 * part_of(&all, root).bytes)) {
        data_t own = part_of(&all, root), other = part_of(&all, 1 - root);
        int mpi_errno = bcast_in_pieces(team, &other, root);
        return mpi_errno || in_place ? mpi_errno : copy_between(&own, &mine);
    }
    return scatter(team, &all, in_place && team->rank == root ? NULL : &mine, root, true);
}

int MPIDI_COMPOSITE_team_scatterv(team_t * team, const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * displs,
                                  MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype, int root)
{
    bool in_place = recvbuf == MPI_IN_PLACE;
    data_t mine = data_or_none(recvbuf, recvcount, recvtype);
    parts_t all = { 0 };

    if (team->rank == root)
        all = parts_of(sendbuf, sendcounts, displs, sendtype);
    return scatter(team, &all, in_place && team->rank == root ? NULL : &mine, root, false);
}

/* What a rank has more than a page of goes on the board page by page. All know what all have. */
static int allgather_in_pieces(team_t * team, const data_t * mine, const parts_t * all, bool in_place)
{
    int mpi_errno = MPI_SUCCESS;
    char *flat, *copies[PM_TEAM_RANKS_LIMIT] = { NULL }, *targets[PM_TEAM_RANKS_LIMIT];
    size_t longest = 0;
    data_t own = part_of(all, team->rank);

    for (int rank = 0; rank < team->ranks; rank++) {
        data_t part = part_of(all, rank);
        longest = MPL_MAX(longest, part.bytes);
        if (rank != team->rank)
            mpi_errno = flatten(&part, false, &targets[rank], &copies[rank]);
        MPIR_ERR_CHECK(mpi_errno);
    }
    mpi_errno = flatten(mine, true, &flat, &copies[team->rank]);
    MPIR_ERR_CHECK(mpi_errno);
    for (size_t at = 0; at < longest; at += PM_TEAM_PAGE) {
        data_t piece = piece_of(flat, mine->bytes, at, PM_TEAM_PAGE);
        mpi_errno = enter_with(team, &piece);
        MPIR_ERR_CHECK(mpi_errno);
        for (int i = 1; i < team->ranks; i++) {
            int rank = (team->rank + i) % team->ranks;
            piece = piece_of(targets[rank], part_of(all, rank).bytes, at, PM_TEAM_PAGE);
            if (piece.bytes)
                mpi_errno = take_whole(team, rank, &piece);
            MPIR_ERR_CHECK(mpi_errno);
        }
    }
    if (!in_place)
        mpi_errno = copy_between(mine, &own);
    for (int rank = 0; mpi_errno == MPI_SUCCESS && rank < team->ranks; rank++) {
        data_t part = part_of(all, rank);
        if (rank != team->rank && copies[rank])
            mpi_errno = copy_to(&part, copies[rank]);
    }

  fn_fail:
    for (int rank = 0; rank < team->ranks; rank++)
        MPL_free(copies[rank]);
    return mpi_errno;
}

/* All know what all have. */
static int allgather(team_t * team, const data_t * mine, const parts_t * all)
{
    int mpi_errno;
    bool lent, any_lent = false;
    char *copy;
    size_t longest = 0;
    data_t own = part_of(all, team->rank);

    if (!mine)
        mine = &own;
    for (int rank = 0; rank < team->ranks; rank++)
        longest = MPL_MAX(longest, part_of(all, rank).bytes);
    if (longest > PM_TEAM_PAGE && longest <= team->limit) {
        mpi_errno = allgather_in_pieces(team, mine, all, mine == &own);
        copy = NULL;
        goto fn_fail;
    }
    mpi_errno = enter_with_whole(team, mine, &lent, &copy);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 1; i < team->ranks; i++) {
        int rank = (team->rank + i) % team->ranks;
        data_t part = part_of(all, rank);
        mpi_errno = take_whole(team, rank, &part);
        MPIR_ERR_CHECK(mpi_errno);
        any_lent = any_lent || stays(team, part.bytes);
    }
    pm_team_all_are_here(team->team);
    if (lent || any_lent)
        mpi_errno = enter_with_nothing(team);
    MPIR_ERR_CHECK(mpi_errno);
    /* While others still read. */
    if (mine != &own)
        mpi_errno = copy_between(mine, &own);
    MPIR_ERR_CHECK(mpi_errno);
    if (lent)
        mpi_errno = MPIDI_COMPOSITE_team_await_all(team);

  fn_fail:
    /* There is more than one step. */
    if (mpi_errno && longest > MPL_MIN(team->limit, PM_TEAM_CARD))
        team->harmless = false;
    MPL_free(copy);
    return mpi_errno;
}

int MPIDI_COMPOSITE_team_allgather(team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                   MPI_Aint recvcount, MPI_Datatype recvtype)
{
    parts_t all = equal_parts(recvbuf, recvcount, recvtype);
    data_t mine;

    if (sendbuf == MPI_IN_PLACE)
        return allgather(team, NULL, &all);
    mine = data_of(sendbuf, sendcount, sendtype);
    return allgather(team, &mine, &all);
}

int MPIDI_COMPOSITE_team_allgatherv(team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                    const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype)
{
    parts_t all = parts_of(recvbuf, recvcounts, displs, recvtype);
    data_t mine;

    if (sendbuf == MPI_IN_PLACE)
        return allgather(team, NULL, &all);
    mine = data_of(sendbuf, sendcount, sendtype);
    return allgather(team, &mine, &all);
}

/* The pages from `first` to `pages`: some are entered at once, as far as there is room, and then read. */
static int exchange_pages(team_t * team, const exchange_t * exchange, uint64_t first, uint64_t pages)
{
    int mpi_errno = MPI_SUCCESS;

    while (first < pages) {
        uint64_t step = pm_team_step(team->team) + 1, some = MPL_MIN(pages - first, team->ahead);
        for (uint64_t i = 0; i < some; i++) {
            mpi_errno = enter_with_slices(team, exchange, first + i, pages);
            MPIR_ERR_CHECK(mpi_errno);
        }
        for (int next = 1; next < team->ranks; next++)
            for (uint64_t i = 0; i < some; i++) {
                pm_team_look_at(team->team, step + i);
                mpi_errno = take_slice(team, exchange, (team->rank + next) % team->ranks, first + i);
                MPIR_ERR_CHECK(mpi_errno);
            }
        first += some;
    }

  fn_fail:
    return mpi_errno;
}

/* Of the first step: how far we are with each rank. */
typedef struct {
    const exchange_t *exchange;
    bool lent;                  /* we have entered with errands */
    uint64_t pages;             /* somebody needs so many */
    enum { AWAITED, HEARD, FETCHED, DONE } with[PM_TEAM_RANKS_LIMIT];   /* fetched: when it is copied */
} visits_t;

static bool is_through(team_t * team, const visits_t * visits, int rank)
{
    const exchange_t *exchange = visits->exchange;

    return (visits->with[rank] != FETCHED || pm_team_is_copied(team->team, rank, team->rank)) &&
        (!visits->lent || exchange->sent[rank] == 0 || pm_team_is_copied(team->team, team->rank, rank));
}

/* For whom we wait, in turn, unless there is something to do for us. */
static int for_visits(team_t * team, const void *what)
{
    const visits_t *visits = what;
    int first = -1;

    for (int i = 1; i < team->ranks; i++) {
        int rank = (team->rank + i) % team->ranks;
        if (visits->with[rank] == DONE)
            continue;
        if (visits->with[rank] == AWAITED ? pm_team_is_here(team->team, rank) : is_through(team, visits, rank))
            return -1;
        first = first < 0 ? rank : first;
    }
    return first;
}

/* A rank has come: with all that it has for us on a page, with the first slice, or with errands. */
static int visit(team_t * team, exchange_t * exchange, visits_t * visits, int rank)
{
    uint64_t pages;
    int mpi_errno = MPIDI_COMPOSITE_team_await(team, rank);     /* it may be in another collective */

    MPIR_ERR_CHECK(mpi_errno);
    visits->with[rank] = HEARD;
    if (pm_team_size_said(team->team, rank) == PM_TEAM_ELSEWHERE) {
        if (exchange->received[rank])
            visits->with[rank] = FETCHED;
        team->apart = pm_team_step(team->team) + 1;
        return run_errands(team, exchange, rank, visits->lent);
    }
    mpi_errno = take_first(team, exchange, rank, &pages);
    MPIR_ERR_CHECK(mpi_errno);
    visits->pages = MPL_MAX(visits->pages, pages);

  fn_fail:
    return mpi_errno;
}

/* We have entered the first step. With each of the others, as they come, and not in turn, so that nobody waits while there is something
 * to copy. How many pages somebody needs. */
static int exchange_as_they_come(team_t * team, exchange_t * exchange, bool lent, uint64_t *pages)
{
    int mpi_errno = MPI_SUCCESS, left = team->ranks - 1;
    visits_t visits;

    visits.exchange = exchange;
    visits.lent = lent;
    visits.pages = 1;
    memset(visits.with, 0, sizeof visits.with[0] * (size_t) team->ranks);
    while (true) {
        for (int i = 1; i < team->ranks; i++) {
            int rank = (team->rank + i) % team->ranks;
            if (visits.with[rank] == AWAITED && pm_team_is_here(team->team, rank)) {
                mpi_errno = visit(team, exchange, &visits, rank);
                MPIR_ERR_CHECK(mpi_errno);
            }
            if (visits.with[rank] == AWAITED || visits.with[rank] == DONE || !is_through(team, &visits, rank))
                continue;
            if (visits.with[rank] == FETCHED)
                exchange->received[rank] = 0;
            visits.with[rank] = DONE;
            left--;
        }
        if (left == 0)
            break;
        mpi_errno = MPIDI_COMPOSITE_team_wait(team, for_visits, &visits);
        MPIR_ERR_CHECK(mpi_errno);
    }
    pm_team_all_are_here(team->team);
    *pages = visits.pages;

  fn_fail:
    if (mpi_errno && lent)
        withdraw(team);
    return mpi_errno;
}

static int alltoall_of_long(team_t * team, const parts_t * from, const parts_t * to, bool in_place, bool in_memory)
{
    exchange_t exchange;
    uint64_t pages;
    int mpi_errno = begin_exchange(team, from, to, true, in_place && in_memory, &exchange), other = team->rank == 0;

    MPIR_ERR_CHECK(mpi_errno);
    if (in_memory) {
        team->apart = pm_team_step(team->team) + 2;
        mpi_errno = enter_with_errands(team, &exchange);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = exchange_as_they_come(team, &exchange, true, &pages);
    } else {
        mpi_errno = exchange_pages(team, &exchange, 0, pages_for(&exchange, exchange.sent[other]));
    }
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = copy_own(team, from, to, in_place);

  fn_fail:
    return end_exchange(to, &exchange, mpi_errno);
}

/* Each has as much for each, and all know it. */
static int alltoall_of_equals(team_t * team, const parts_t * from, const parts_t * to, bool in_place)
{
    int mpi_errno;
    size_t bytes = part_of(to, 0).bytes * (size_t) team->ranks;
    bool lent, in_memory = bytes > team->limit && team->ranks <= EXCHANGES_IN_MEMORY_LIMIT;
    char *copy = NULL;

    if (in_memory || (bytes > PM_TEAM_PAGE && bytes <= team->limit))
        return alltoall_of_long(team, from, to, in_place, in_memory);
    mpi_errno = enter_with_parts(team, from, true, in_place, &lent, &copy);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 1; i < team->ranks; i++) {
        int rank = (team->rank + i) % team->ranks;
        data_t part = part_of(to, rank);
        mpi_errno = take_part(team, rank, true, &part);
        MPIR_ERR_CHECK(mpi_errno);
    }
    pm_team_all_are_here(team->team);
    if (lent)
        mpi_errno = enter_with_nothing(team);
    MPIR_ERR_CHECK(mpi_errno);
    /* While others still read. */
    mpi_errno = copy_own(team, from, to, in_place);
    MPIR_ERR_CHECK(mpi_errno);
    if (lent)
        mpi_errno = MPIDI_COMPOSITE_team_await_all(team);

  fn_fail:
    MPL_free(copy);
    return mpi_errno;
}

/* Nobody knows what others have for others. Who can, enters with all on one page; who has more, with slices, of which the first says how
 * many pages it needs, and as many steps follow as somebody needs; who has much, with errands. */
static int alltoall_of_any(team_t * team, const parts_t * from, const parts_t * to, bool in_place)
{
    exchange_t exchange;
    bool may_lend = team->limit != SIZE_MAX && team->ranks <= EXCHANGES_IN_MEMORY_LIMIT, lent;
    uint64_t pages = 1, said;
    int mpi_errno = begin_exchange(team, from, to, false, in_place && may_lend, &exchange);

    MPIR_ERR_CHECK(mpi_errno);
    lent = may_lend && size_behind_table(&exchange) > team->limit;
    if (lent) {
        team->apart = pm_team_step(team->team) + 2;
        mpi_errno = enter_with_errands(team, &exchange);
    } else {
        pages = pages_to_say(&exchange, in_place);
        mpi_errno = enter_with_first(team, &exchange, pages);
    }
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = exchange_as_they_come(team, &exchange, lent, &said);
    MPIR_ERR_CHECK(mpi_errno);
    if (lent)
        memset(exchange.sent, 0, sizeof exchange.sent[0] * (size_t) team->ranks);
    mpi_errno = exchange_pages(team, &exchange, 1, MPL_MAX(pages, said));
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = copy_own(team, from, to, in_place);

  fn_fail:
    return end_exchange(to, &exchange, mpi_errno);
}

int MPIDI_COMPOSITE_team_alltoall(team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                  MPI_Aint recvcount, MPI_Datatype recvtype)
{
    bool in_place = sendbuf == MPI_IN_PLACE;
    parts_t to = equal_parts(recvbuf, recvcount, recvtype);
    parts_t from = in_place ? to : equal_parts(sendbuf, sendcount, sendtype);

    return alltoall_of_equals(team, &from, &to, in_place);
}

int MPIDI_COMPOSITE_team_alltoallv(team_t * team, const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                                   MPI_Datatype sendtype, void *recvbuf, const MPI_Aint * recvcounts, const MPI_Aint * rdispls,
                                   MPI_Datatype recvtype)
{
    bool in_place = sendbuf == MPI_IN_PLACE;
    parts_t to = parts_of(recvbuf, recvcounts, rdispls, recvtype);
    parts_t from = in_place ? to : parts_of(sendbuf, sendcounts, sdispls, sendtype);

    return alltoall_of_any(team, &from, &to, in_place);
}

int MPIDI_COMPOSITE_team_alltoallw(team_t * team, const void *sendbuf, const MPI_Aint sendcounts[], const MPI_Aint sdispls[],
                                   const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Aint recvcounts[],
                                   const MPI_Aint rdispls[], const MPI_Datatype recvtypes[])
{
    bool in_place = sendbuf == MPI_IN_PLACE;
    parts_t to = typed_parts(recvbuf, recvcounts, rdispls, recvtypes);
    parts_t from = in_place ? to : typed_parts(sendbuf, sendcounts, sdispls, sendtypes);

    return alltoall_of_any(team, &from, &to, in_place);
}

/* ---- reducing: vectors of MPI's own datatypes without gaps ---- */

/* Ours would be overwritten before it is read, if it were not on the board: the result, of [at, ...) of the vectors, comes to lie in it. */
static bool must_be_said(const team_t * team, int last, const data_t * mine, size_t at, const char *result)
{
    bool within = result >= mine->plain && result < mine->plain + mine->bytes;

    return within && !(last == team->rank && result == mine->plain + at);
}

/* Of [at, at + bytes) of the vectors of the ranks from `last` down to 0, as they lie on the board, of which each has said how much `all` is, into
 * `result`. Ours is `mine`, which is on the board if it must be. */
static int reduce_said(team_t * team, int last, const data_t * mine, size_t all, size_t at, size_t bytes, void *result, MPI_Op op)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint size;
    bool said_too = must_be_said(team, last, mine, at, result);
    const char *said, *sum = NULL;

    if (bytes == 0)
        return MPI_SUCCESS;
    MPIR_Datatype_get_size_macro(mine->type, size);
    for (int rank = last; rank >= 0; rank--) {
        said = mine->plain;
        if (rank != team->rank || said_too)
            mpi_errno = hear(team, rank, all, &said);
        MPIR_ERR_CHECK(mpi_errno);
        if (rank != last)
            mpi_errno = MPIDI_COMPOSITE_combine(said + at, sum, result, (MPI_Aint) bytes / size, mine->type, op);
        MPIR_ERR_CHECK(mpi_errno);
        sum = rank == last ? said + at : result;
    }
    if (sum != result)
        memcpy(result, sum, bytes);

  fn_fail:
    return mpi_errno;
}

/* The same of vectors that lie where they are: `addresses` of them. Ours is at `mine`, and `result` may be there. */
static int reduce_lent(team_t * team, int last, const uint64_t * addresses, const char *mine, size_t at, size_t bytes, char *result,
                       MPI_Datatype type, MPI_Op op)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint size;
    size_t done, piece = PM_TEAM_REDUCE_PIECE;
    char *theirs = MPL_malloc(2 * piece, MPL_MEM_COLL), *ours = theirs + piece;

    MPIR_ERR_CHKANDJUMP(!theirs, mpi_errno, MPI_ERR_OTHER, "**nomem");
    MPIR_Datatype_get_size_macro(type, size);
    piece = piece / (size_t) size * (size_t) size;
    for (done = 0; done < bytes; done += piece) {
        size_t now = MPL_MIN(piece, bytes - done);
        const char *own = mine + at + done, *sum = own;
        if (own == result + done && last != team->rank)
            own = memcpy(ours, own, now);
        for (int rank = last; rank >= 0; rank--) {
            const char *from = own;
            if (rank != team->rank) {
                char *to = rank == last ? result + done : theirs;
                mpi_errno = read_bytes(team, rank, addresses[rank] + at + done, to, now);
                MPIR_ERR_CHECK(mpi_errno);
                from = to;
            }
            if (rank != last)
                mpi_errno = MPIDI_COMPOSITE_combine(from, sum, result + done, (MPI_Aint) (now / (size_t) size), type, op);
            MPIR_ERR_CHECK(mpi_errno);
            sum = rank == last ? from : result + done;
        }
        if (sum != result + done)
            memcpy(result + done, sum, now);
    }

  fn_fail:
    MPL_free(theirs);
    return mpi_errno;
}

/* Everybody's address, `mine` included; of as many bytes at each. */
static int tell_addresses(team_t * team, const void *mine, size_t bytes, uint64_t * addresses)
{
    place_t place = { (uint64_t) (uintptr_t) mine, bytes };
    int mpi_errno = enter_with_places(team, &place, 1);

    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIDI_COMPOSITE_team_await_all(team);
    MPIR_ERR_CHECK(mpi_errno);
    for (int rank = 0; rank < team->ranks; rank++) {
        mpi_errno = hear_place(team, rank, 0, &place);
        MPIR_ERR_CHECK(mpi_errno);
        if (unlikely(place.bytes != bytes))
            return mismatch(team, place.bytes, bytes);
        addresses[rank] = place.address;
    }

  fn_fail:
    return mpi_errno;
}

/* The vectors of the ranks up to `last`, for those who want it. Nobody but us needs ours if we are `alone` with it. A piece says how much is left with it, as
 * in a bcast. */
static int reduce_in_pieces(team_t * team, const data_t * mine, char *result, MPI_Op op, int last, bool wants, bool alone)
{
    int mpi_errno;
    MPI_Aint size, length, at = 0;

    MPIR_Datatype_get_size_macro(mine->type, size);
    length = (MPI_Aint) most_at_once(team, mine->bytes) / size;
    do {
        data_t piece = data_of(mine->plain + at * size, MPL_MIN(length, mine->count - at), mine->type);
        size_t left = (size_t) ((mine->count - at) * size);
        if (alone && !must_be_said(team, last, mine, 0, result))
            mpi_errno = enter_with_nothing(team);
        else
            mpi_errno = enter_with_piece(team, &piece, left);
        MPIR_ERR_CHECK(mpi_errno);
        if (wants)
            mpi_errno = reduce_said(team, last, &piece, left, 0, piece.bytes, result + at * size, op);
        MPIR_ERR_CHECK(mpi_errno);
        at += length;
    } while (at < mine->count);

  fn_fail:
    return mpi_errno;
}

/* The other one may go on before what it has is combined. */
static int combine_lent(team_t * team, const data_t * mine, char *result, MPI_Op op, int root, uint64_t address)
{
    int mpi_errno = MPI_SUCCESS;
    /* The kernel takes longer for what begins anywhere. */
    char *memory = MPL_malloc(mine->bytes + 4095, MPL_MEM_COLL), *theirs = (char *) (((uintptr_t) memory + 4095) / 4096 * 4096);

    MPIR_ERR_CHKANDJUMP(!memory, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = read_bytes(team, 1 - root, address, theirs, mine->bytes);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = enter_with_nothing(team);
    MPIR_ERR_CHECK(mpi_errno);
    if (root != 0) {
        mpi_errno = MPIDI_COMPOSITE_combine(theirs, mine->plain, result, mine->count, mine->type, op);
    } else {
        /* What is combined first may not lie where the result does, as ours does in place. */
        char *to = result == mine->plain ? theirs : result;
        mpi_errno = MPIDI_COMPOSITE_combine(mine->plain, theirs, to, mine->count, mine->type, op);
        MPIR_ERR_CHECK(mpi_errno);
        if (to != result)
            memcpy(result, to, mine->bytes);
    }

  fn_fail:
    MPL_free(memory);
    return mpi_errno;
}

/* The root reads what the other one has. */
static int reduce_of_two(team_t * team, const data_t * mine, char *result, MPI_Op op, int root)
{
    int mpi_errno;
    place_t place = { (uint64_t) (uintptr_t) mine->plain, mine->bytes };

    if (team->rank != root) {
        mpi_errno = enter_with_places(team, &place, 1);
        return mpi_errno ? mpi_errno : await_readers(team);
    }
    mpi_errno = enter_with_nothing(team);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = hear_place(team, 1 - root, 0, &place);
    MPIR_ERR_CHECK(mpi_errno);
    if (unlikely(place.bytes != mine->bytes))
        mpi_errno = mismatch(team, place.bytes, mine->bytes);
    else
        mpi_errno = combine_lent(team, mine, result, op, root, place.address);

  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_team_reduce(team_t * team, const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op,
                                int root)
{
    int mpi_errno;
    data_t mine = data_of(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, type);
    uint64_t addresses[PM_TEAM_RANKS_LIMIT];
    size_t begin, end;
    MPI_Aint size;
    char *result = NULL;

    /* Of two ranks what is very long, too: both vectors and the result would not stay in the root's cache. */
    if (mine.bytes <= team->limit || (are_two(team) && mine.bytes > PM_TEAM_PAIR_REDUCED))
        return reduce_in_pieces(team, &mine, recvbuf, op, team->ranks - 1, team->rank == root, team->rank == root);
    if (are_two(team))
        return reduce_of_two(team, &mine, recvbuf, op, root);
    MPIR_Datatype_get_size_macro(type, size);
    begin = slice(team, team->rank, count, size);
    end = slice(team, team->rank + 1, count, size);
    if (team->rank != root) {
        result = MPL_malloc(end - begin + 1, MPL_MEM_COLL);
        MPIR_ERR_CHKANDJUMP(!result, mpi_errno, MPI_ERR_OTHER, "**nomem");
    }
    mpi_errno = tell_addresses(team, mine.plain, mine.bytes, addresses);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = reduce_lent(team, team->ranks - 1, addresses, mine.plain, begin, end - begin,
                            result ? result : (char *) recvbuf + begin, type, op);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = tell_addresses(team, result, mine.bytes, addresses);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 1; team->rank == root && i < team->ranks; i++) {
        int rank = (root + i) % team->ranks;
        begin = slice(team, rank, count, size);
        end = slice(team, rank + 1, count, size);
        mpi_errno = read_bytes(team, rank, addresses[rank], (char *) recvbuf + begin, end - begin);
        MPIR_ERR_CHECK(mpi_errno);
    }
    mpi_errno = enter_with_nothing(team);
    MPIR_ERR_CHECK(mpi_errno);
    if (team->rank != root)
        mpi_errno = MPIDI_COMPOSITE_team_await(team, root);

  fn_exit:
  fn_fail:
    MPL_free(result);
    return mpi_errno;
}

/* A rank's part of the vectors: so many numbers, after so many. Without `counts` all have as many. */
static MPI_Aint part_size(const MPI_Aint * counts, MPI_Aint count, int rank)
{
    return counts ? counts[rank] : count;
}

/* Before the slices of a page: what the vectors are, which must be the same at all ranks. What is short enough for a page without it goes
 * another way, so that a whole page is always one of these. */
typedef struct {
    uint64_t bytes, counts;     /* of which the second is a sum by rank, to tell other counts of as many in all */
} vectors_t;
#define VECTORS_SAID 64
#define FITS_ON_PAGE (PM_TEAM_PAGE - VECTORS_SAID)

/* Enters with a slice of each other rank's part, from number `at` of it on. */
static int enter_with_vectors(team_t * team, const data_t * mine, const vectors_t * vectors, const MPI_Aint * counts, MPI_Aint count,
                              MPI_Aint at, MPI_Aint slice, MPI_Aint size)
{
    int mpi_errno = MPIDI_COMPOSITE_team_room(team, PM_TEAM_PAGE);
    MPI_Aint before = 0;
    char *place;

    MPIR_ERR_CHECK(mpi_errno);
    place = pm_team_place(team->team, PM_TEAM_PAGE);
    memcpy(place, vectors, sizeof *vectors);
    for (int rank = 0; rank < team->ranks; before += part_size(counts, count, rank++)) {
        MPI_Aint some = MPL_MIN(slice, part_size(counts, count, rank) - at);
        if (some > 0 && rank != team->rank)
            memcpy(place + VECTORS_SAID + rank * slice * size, mine->plain + (before + at) * size, (size_t) (some * size));
    }
    pm_team_enter(team->team, PM_TEAM_PAGE, team->collective);

  fn_fail:
    return mpi_errno;
}

/* Of the page that is looked at, our slice of all ranks, `some` numbers of it, into `to`, where `ours` may be. */
static int reduce_slice(team_t * team, const data_t * mine, const vectors_t * vectors, const char *ours, char *to, MPI_Aint some,
                        MPI_Aint slice, MPI_Aint size, MPI_Op op)
{
    int mpi_errno = MPI_SUCCESS, last = team->ranks - 1;
    _Alignas(64) char own[PM_TEAM_PAGE / 2];

    const char *sum = NULL;

    if (some > 0 && to == ours && team->rank != last)
        ours = memcpy(own, ours, (size_t) (some * size));
    for (int rank = last; rank >= 0; rank--) {
        const char *said = ours;
        if (rank != team->rank) {
            vectors_t theirs;
            mpi_errno = hear(team, rank, PM_TEAM_PAGE, &said);
            MPIR_ERR_CHECK(mpi_errno);
            memcpy(&theirs, said, sizeof theirs);
            if (unlikely(theirs.bytes != vectors->bytes || theirs.counts != vectors->counts))
                return mismatch(team, theirs.bytes, vectors->bytes);
            said += VECTORS_SAID + team->rank * slice * size;
        }
        if (some <= 0)
            continue;
        if (rank < last)
            mpi_errno = MPIDI_COMPOSITE_combine(said, sum, to, some, mine->type, op);
        MPIR_ERR_CHECK(mpi_errno);
        sum = rank == last ? said : to;
    }

  fn_fail:
    return mpi_errno;
}

/* Page by page, with a slice of each rank's part on each. In place, our own part of the result comes to lie where our own part of the vector
 * is, which nobody else needs. */
static int reduce_scatter_in_slices(team_t * team, const data_t * mine, char *result, const MPI_Aint * counts, MPI_Aint count, MPI_Op op)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint size, slice, longest = 0, before = 0;
    vectors_t vectors = { mine->bytes, 0 };

    MPIR_Datatype_get_size_macro(mine->type, size);
    slice = FITS_ON_PAGE / team->ranks / size;
    for (int rank = 0; rank < team->ranks; rank++) {
        MPI_Aint part = part_size(counts, count, rank);
        longest = MPL_MAX(longest, part);
        before += rank < team->rank ? part : 0;
        vectors.counts += (uint64_t) part * (uint64_t) (rank + 1);
    }
    for (MPI_Aint first = 0; first < longest; first += slice * (MPI_Aint) team->ahead) {
        MPI_Aint end = MPL_MIN(longest, first + slice * (MPI_Aint) team->ahead);
        uint64_t step = pm_team_step(team->team) + 1;

        for (MPI_Aint at = first; at < end; at += slice) {
            mpi_errno = enter_with_vectors(team, mine, &vectors, counts, count, at, slice, size);
            MPIR_ERR_CHECK(mpi_errno);
        }
        for (MPI_Aint at = first; at < end; at += slice) {
            pm_team_look_at(team->team, step++);
            mpi_errno = reduce_slice(team, mine, &vectors, mine->plain + (before + at) * size, result + at * size,
                                     MPL_MIN(slice, part_size(counts, count, team->rank) - at), slice, size, op);
            MPIR_ERR_CHECK(mpi_errno);
        }
    }
    pm_team_all_are_here(team->team);

  fn_fail:
    return mpi_errno;
}

/* Each reduces a part on the board, and then reads that of the others. */
static int allreduce_in_slices(team_t * team, const data_t * mine, char *recvbuf, MPI_Op op)
{
    int mpi_errno;
    MPI_Aint size;
    size_t begin, end;
    char *place;
    const char *said;

    MPIR_Datatype_get_size_macro(mine->type, size);
    begin = slice(team, team->rank, mine->count, size);
    end = slice(team, team->rank + 1, mine->count, size);
    mpi_errno = enter_with(team, mine);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = reduce_said(team, team->ranks - 1, mine, mine->bytes, begin, end - begin, recvbuf + begin, op);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIDI_COMPOSITE_team_room(team, end - begin);
    MPIR_ERR_CHECK(mpi_errno);
    place = pm_team_place(team->team, end - begin);
    memcpy(place, recvbuf + begin, end - begin);
    pm_team_enter(team->team, end - begin, team->collective);
    for (int i = 1; i < team->ranks; i++) {
        int rank = (team->rank + i) % team->ranks;
        begin = slice(team, rank, mine->count, size);
        end = slice(team, rank + 1, mine->count, size);
        mpi_errno = hear(team, rank, end - begin, &said);
        MPIR_ERR_CHECK(mpi_errno);
        memcpy(recvbuf + begin, said, end - begin);
    }
    pm_team_all_are_here(team->team);

  fn_fail:
    return mpi_errno;
}

/* Each reduces a part, of which all others get it then; both page by page. */
static int allreduce_in_parts(team_t * team, const data_t * mine, char *recvbuf, MPI_Op op)
{
    int mpi_errno;
    MPI_Aint counts[PM_TEAM_RANKS_LIMIT], places[PM_TEAM_RANKS_LIMIT], size, before = 0;
    parts_t all;
    data_t own;

    MPIR_Datatype_get_size_macro(mine->type, size);
    for (int rank = 0; rank < team->ranks; rank++) {
        counts[rank] = mine->count / team->ranks + (rank < mine->count % team->ranks);
        places[rank] = before;
        before += counts[rank];
    }
    mpi_errno = reduce_scatter_in_slices(team, mine, recvbuf + places[team->rank] * size, counts, 0, op);
    MPIR_ERR_CHECK(mpi_errno);
    all = parts_of(recvbuf, counts, places, mine->type);
    own = part_of(&all, team->rank);
    mpi_errno = allgather_in_pieces(team, &own, &all, true);

  fn_fail:
    if (mpi_errno)
        team->harmless = false; /* there is more than one step */
    return mpi_errno;
}

int MPIDI_COMPOSITE_team_allreduce(team_t * team, const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op)
{
    int mpi_errno;
    data_t mine = data_of(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, type);
    uint64_t addresses[PM_TEAM_RANKS_LIMIT];
    size_t begin, end;
    MPI_Aint size;

    if (mine.bytes <= MPL_MIN(team->limit, PM_TEAM_ALLREDUCE_WHOLE)) {
        mpi_errno = enter_with(team, &mine);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = reduce_said(team, team->ranks - 1, &mine, mine.bytes, 0, mine.bytes, recvbuf, op);
        MPIR_ERR_CHECK(mpi_errno);
        if (mine.bytes)
            pm_team_all_are_here(team->team);
        goto fn_exit;
    }
    if (mine.bytes <= team->limit)
        return mine.bytes <= FITS_ON_PAGE ? allreduce_in_slices(team, &mine, recvbuf, op) : allreduce_in_parts(team, &mine, recvbuf, op);
    MPIR_Datatype_get_size_macro(type, size);
    begin = slice(team, team->rank, count, size);
    end = slice(team, team->rank + 1, count, size);
    mpi_errno = tell_addresses(team, mine.plain, mine.bytes, addresses);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = reduce_lent(team, team->ranks - 1, addresses, mine.plain, begin, end - begin, (char *) recvbuf + begin, type, op);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = tell_addresses(team, recvbuf, mine.bytes, addresses);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 1; i < team->ranks; i++) {
        int rank = (team->rank + i) % team->ranks;
        begin = slice(team, rank, count, size);
        end = slice(team, rank + 1, count, size);
        mpi_errno = read_bytes(team, rank, addresses[rank] + begin, (char *) recvbuf + begin, end - begin);
        MPIR_ERR_CHECK(mpi_errno);
    }
    mpi_errno = await_readers(team);

  fn_exit:
  fn_fail:
    return mpi_errno;
}

/* Most of the slices would be empty. */
static bool is_uneven(const team_t * team, const MPI_Aint * counts, MPI_Aint count)
{
    MPI_Aint longest = 0;

    for (int rank = 0; counts && rank < team->ranks; rank++)
        longest = MPL_MAX(longest, counts[rank]);
    return longest > count / team->ranks * 4;
}

/* Each gets [at, at + bytes) of the result, as `counts` or `each` say. */
static int reduce_scatter(team_t * team, const void *sendbuf, void *recvbuf, const MPI_Aint * counts, MPI_Aint each, MPI_Aint count,
                          size_t at, size_t bytes, MPI_Datatype type, MPI_Op op)
{
    int mpi_errno;
    data_t mine = data_of(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, type);
    uint64_t addresses[PM_TEAM_RANKS_LIMIT];
    char *result = recvbuf;

    if (mine.bytes <= MPL_MIN(team->limit, FITS_ON_PAGE)) {
        mpi_errno = enter_with(team, &mine);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = reduce_said(team, team->ranks - 1, &mine, mine.bytes, at, bytes, recvbuf, op);
        MPIR_ERR_CHECK(mpi_errno);
        if (bytes)
            pm_team_all_are_here(team->team);
        goto fn_exit;
    }
    /* In place the others still need what is at the beginning. */
    if (sendbuf == MPI_IN_PLACE)
        result = (char *) recvbuf + at;
    if (mine.bytes <= team->limit && !(team->reads && is_uneven(team, counts, count))) {
        mpi_errno = reduce_scatter_in_slices(team, &mine, result, counts, each, op);
        MPIR_ERR_CHECK(mpi_errno);
        if (result != recvbuf)
            memmove(recvbuf, result, bytes);
        goto fn_exit;
    }
    mpi_errno = tell_addresses(team, mine.plain, mine.bytes, addresses);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = reduce_lent(team, team->ranks - 1, addresses, mine.plain, at, bytes, result, type, op);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = await_readers(team);
    MPIR_ERR_CHECK(mpi_errno);
    if (result != recvbuf)
        memmove(recvbuf, result, bytes);

  fn_exit:
  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_team_reduce_scatter(team_t * team, const void *sendbuf, void *recvbuf, const MPI_Aint recvcounts[],
                                        MPI_Datatype type, MPI_Op op)
{
    MPI_Aint count = 0, before = 0, size;

    MPIR_Datatype_get_size_macro(type, size);
    for (int rank = 0; rank < team->ranks; rank++) {
        if (rank == team->rank)
            before = count;
        count += recvcounts[rank];
    }
    return reduce_scatter(team, sendbuf, recvbuf, recvcounts, 0, count, (size_t) (before * size), (size_t) (recvcounts[team->rank] * size), type, op);
}

int MPIDI_COMPOSITE_team_reduce_scatter_block(team_t * team, const void *sendbuf, void *recvbuf, MPI_Aint recvcount,
                                              MPI_Datatype type, MPI_Op op)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(type, size);
    return reduce_scatter(team, sendbuf, recvbuf, NULL, recvcount, recvcount * team->ranks, (size_t) (team->rank * recvcount * size),
                          (size_t) (recvcount * size), type, op);
}

/* From rank to rank, each adds what it has to what the one before has entered with, and enters with that. Piece by piece, so that all are
 * at work; a piece says how much is left with it. */
static int scan_in_a_row(team_t * team, const data_t * mine, char *result, MPI_Op op, bool inclusive)
{
    int mpi_errno = MPI_SUCCESS, last = team->ranks - 1;
    MPI_Aint size, length;

    MPIR_Datatype_get_size_macro(mine->type, size);
    length = PM_TEAM_PAGE / size;
    for (MPI_Aint at = 0; at < mine->count; at += length) {
        MPI_Aint count = MPL_MIN(length, mine->count - at);
        size_t bytes = (size_t) (count * size), left = (size_t) ((mine->count - at) * size);
        const char *own = mine->plain + at * size, *before = NULL;
        char *to = result + at * size, *place = NULL;

        if (team->rank > 0) {
            pm_team_look_at(team->team, pm_team_step(team->team) + 1);
            mpi_errno = hear(team, team->rank - 1, left, &before);
            MPIR_ERR_CHECK(mpi_errno);
        }
        if (team->rank < last) {
            mpi_errno = MPIDI_COMPOSITE_team_room(team, bytes);
            MPIR_ERR_CHECK(mpi_errno);
            place = pm_team_place(team->team, bytes);
            if (before)
                mpi_errno = MPIDI_COMPOSITE_combine(before, own, place, count, mine->type, op);
            else
                memcpy(place, own, bytes);
            MPIR_ERR_CHECK(mpi_errno);
            pm_team_enter(team->team, left, team->collective);
        } else {
            mpi_errno = enter_with_nothing(team);
            MPIR_ERR_CHECK(mpi_errno);
        }
        /* What others wait for has been said. Nobody takes what is on the board away, before we enter again. */
        if (!inclusive) {
            if (before)
                memcpy(to, before, bytes);
        } else if (place) {
            memcpy(to, place, bytes);
        } else {
            mpi_errno = MPIDI_COMPOSITE_combine(before, own, to, count, mine->type, op);
            MPIR_ERR_CHECK(mpi_errno);
        }
    }

  fn_fail:
    if (mpi_errno)
        team->harmless = false; /* we have not entered */
    return mpi_errno;
}

static int scan(team_t * team, const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op, bool inclusive)
{
    data_t mine = data_of(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, type);
    int last = inclusive ? team->rank : team->rank - 1;

    if (mine.bytes > PM_TEAM_PAGE)
        return scan_in_a_row(team, &mine, recvbuf, op, inclusive);
    return reduce_in_pieces(team, &mine, recvbuf, op, last, last >= 0, team->rank == team->ranks - 1);
}

int MPIDI_COMPOSITE_team_scan(team_t * team, const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op)
{
    return scan(team, sendbuf, recvbuf, count, type, op, true);
}

int MPIDI_COMPOSITE_team_exscan(team_t * team, const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op)
{
    return scan(team, sendbuf, recvbuf, count, type, op, false);
}
