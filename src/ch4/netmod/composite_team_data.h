/* What collectives of teams are made of: data of MPI's, and entering a step with it. For composite_team_coll.c and composite_started.c. */
#ifndef COMPOSITE_TEAM_DATA_H_INCLUDED
#define COMPOSITE_TEAM_DATA_H_INCLUDED

#include <unistd.h>

#include "composite_team.h"
#include "base/tuning.h"

typedef MPIDI_COMPOSITE_team_t team_t;

/* With cores of their own. */
MPL_STATIC_INLINE_PREFIX bool are_two(const team_t * team)
{
    return team->ranks == 2 && !pm_crowded(MPIDI_COMPOSITE_global.core);
}

/* ---- data of MPI's ---- */

typedef struct {
    char *buffer;
    MPI_Aint count;
    MPI_Datatype type;
    size_t bytes;
    char *plain;                /* its bytes, if they follow each other; NULL: it must be packed */
} data_t;

MPL_STATIC_INLINE_PREFIX data_t data_of(const void *buffer, MPI_Aint count, MPI_Datatype type)
{
    data_t data;
    int contiguous;
    MPI_Aint true_lb;

    if (count == 0)
        type = MPI_BYTE;        /* what was given may be none */
    data.buffer = (char *) buffer;
    data.count = count;
    data.type = type;
    MPIDI_Datatype_check_contig_size_lb(type, count, contiguous, data.bytes, true_lb);
    data.plain = contiguous || data.bytes == 0 ? data.buffer + true_lb : NULL;
    return data;
}

/* None, where it is MPI_IN_PLACE: then count and datatype may be anything. */
MPL_STATIC_INLINE_PREFIX data_t data_or_none(const void *buffer, MPI_Aint count, MPI_Datatype type)
{
    return buffer == MPI_IN_PLACE ? data_of(NULL, 0, MPI_BYTE) : data_of(buffer, count, type);
}

/* What belongs to each rank of a vector of blocks. */
typedef struct {
    char *buffer;
    MPI_Aint count;             /* of each, without `counts` */
    const MPI_Aint *counts, *displacements;
    MPI_Datatype type;          /* of each, without `types`; then displacements are bytes */
    const MPI_Datatype *types;
    MPI_Aint extent;
} parts_t;

MPL_STATIC_INLINE_PREFIX parts_t equal_parts(const void *buffer, MPI_Aint count, MPI_Datatype type)
{
    parts_t parts = { (char *) buffer, count, NULL, NULL, type, NULL, 0 };

    MPIR_Datatype_get_extent_macro(type, parts.extent);
    return parts;
}

MPL_STATIC_INLINE_PREFIX parts_t parts_of(const void *buffer, const MPI_Aint * counts, const MPI_Aint * displacements, MPI_Datatype type)
{
    parts_t parts = { (char *) buffer, 0, counts, displacements, type, NULL, 0 };

    MPIR_Datatype_get_extent_macro(type, parts.extent);
    return parts;
}

MPL_STATIC_INLINE_PREFIX parts_t typed_parts(const void *buffer, const MPI_Aint * counts, const MPI_Aint * displacements, const MPI_Datatype * types)
{
    parts_t parts = { (char *) buffer, 0, counts, displacements, MPI_DATATYPE_NULL, types, 1 };

    return parts;
}

MPL_STATIC_INLINE_PREFIX data_t part_of(const parts_t * parts, int rank)
{
    MPI_Aint count = parts->counts ? parts->counts[rank] : parts->count;
    MPI_Aint at = parts->displacements ? parts->displacements[rank] : rank * parts->count;

    return data_of(parts->buffer + at * parts->extent, count, parts->types ? parts->types[rank] : parts->type);
}

MPL_STATIC_INLINE_PREFIX int copy_from(const data_t * data, void *place)
{
    MPI_Aint packed;

    if (data->plain) {
        if (data->bytes)
            memcpy(place, data->plain, data->bytes);
        return MPI_SUCCESS;
    }
    return MPIR_Typerep_pack(data->buffer, data->count, data->type, 0, place, (MPI_Aint) data->bytes, &packed);
}

MPL_STATIC_INLINE_PREFIX int copy_to(const data_t * data, const void *place)
{
    MPI_Aint unpacked;

    if (data->plain) {
        if (data->bytes)
            memcpy(data->plain, place, data->bytes);
        return MPI_SUCCESS;
    }
    return MPIR_Typerep_unpack(place, (MPI_Aint) data->bytes, data->buffer, data->count, data->type, 0, &unpacked);
}

MPL_STATIC_INLINE_PREFIX int copy_between(const data_t * from, const data_t * to)
{
    if (from->plain && to->plain && from->bytes == to->bytes) {
        if (from->bytes && from->plain != to->plain)
            memcpy(to->plain, from->plain, from->bytes);
        return MPI_SUCCESS;
    }
    return MPIR_Localcopy(from->buffer, from->count, from->type, to->buffer, to->count, to->type);
}

/* Of `bytes` at `flat` so many from `at` on, or what is left. */
MPL_STATIC_INLINE_PREFIX data_t piece_of(char *flat, size_t bytes, size_t at, size_t length)
{
    return data_of(flat + at, at < bytes ? (MPI_Aint) MPL_MIN(length, bytes - at) : 0, MPI_BYTE);
}

/* Where the part of a rank begins when all take part in the work. */
MPL_STATIC_INLINE_PREFIX size_t slice(const team_t * team, int rank, MPI_Aint count, MPI_Aint size)
{
    MPI_Aint line = MPL_MAX(64 / size, 1);
    MPI_Aint lines = (count + line - 1) / line;

    return (size_t) (MPL_MIN(lines * rank / team->ranks * line, count) * size);
}

/* ---- steps ---- */

MPL_STATIC_INLINE_PREFIX int enter_with_nothing(team_t * team)
{
    int mpi_errno = MPIDI_COMPOSITE_team_room(team, 0);

    if (mpi_errno == MPI_SUCCESS)
        pm_team_enter(team->team, 0, team->collective);
    return mpi_errno;
}

/* A piece, of so much. */
MPL_STATIC_INLINE_PREFIX int enter_with_piece(team_t * team, const data_t * data, size_t all)
{
    int mpi_errno = MPIDI_COMPOSITE_team_room(team, data->bytes);

    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = copy_from(data, pm_team_place(team->team, data->bytes));
    pm_team_enter(team->team, all, team->collective);

  fn_fail:
    return mpi_errno;
}

MPL_STATIC_INLINE_PREFIX int enter_with(team_t * team, const data_t * data)
{
    return enter_with_piece(team, data, data->bytes);
}

/* Where something is that was left there. */
typedef struct {
    uint64_t address, bytes;
} place_t;

/* With places, one or one for each rank. */
MPL_STATIC_INLINE_PREFIX int enter_with_places(team_t * team, const place_t * places, int count)
{
    int mpi_errno = MPIDI_COMPOSITE_team_room(team, PM_TEAM_ELSEWHERE);

    MPIR_ERR_CHECK(mpi_errno);
    memcpy(pm_team_place(team->team, PM_TEAM_ELSEWHERE), places, sizeof *places * (size_t) count);
    pm_team_enter(team->team, PM_TEAM_ELSEWHERE, team->collective);

  fn_fail:
    return mpi_errno;
}

/* All have read what we said last. */
MPL_STATIC_INLINE_PREFIX int await_readers(team_t * team)
{
    int mpi_errno = enter_with_nothing(team);

    return mpi_errno ? mpi_errno : MPIDI_COMPOSITE_team_await_all(team);
}

MPL_STATIC_INLINE_PREFIX int other_size(size_t said, size_t expected)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_SET2(mpi_errno, MPI_ERR_OTHER, "**collective_size_mismatch", "**collective_size_mismatch %d %d", (int) said,
                  (int) expected);
    return mpi_errno;
}

MPL_STATIC_INLINE_PREFIX int mismatch(team_t * team, size_t said, size_t expected)
{
    /* What stays where it is takes another step. */
    team->harmless = MPL_MAX(said, expected) <= MPL_MIN(team->limit, PM_TEAM_CARD);
    return other_size(said, expected);
}

/* What a rank entered with, which must be so much; it is the user's error if it is not. */
MPL_STATIC_INLINE_PREFIX int hear(team_t * team, int rank, size_t bytes, const char **said)
{
    int mpi_errno = MPIDI_COMPOSITE_team_await(team, rank);

    MPIR_ERR_CHECK(mpi_errno);
    *said = pm_team_said(team->team, rank);
    if (unlikely(pm_team_size_said(team->team, rank) != bytes))
        mpi_errno = mismatch(team, pm_team_size_said(team->team, rank), bytes);

  fn_fail:
    return mpi_errno;
}

MPL_STATIC_INLINE_PREFIX int hear_place(team_t * team, int rank, int index, place_t * place)
{
    const char *said;
    int mpi_errno = hear(team, rank, PM_TEAM_ELSEWHERE, &said);

    if (mpi_errno == MPI_SUCCESS)
        memcpy(place, said + sizeof *place * (size_t) index, sizeof *place);
    return mpi_errno;
}

/* Its memory could not be read or written. That of a process that is ended goes first, and then we hear that it has. */
MPL_STATIC_INLINE_PREFIX int memory_failed(team_t * team, int rank)
{
    int mpi_errno = MPI_SUCCESS;

    for (int turns = 0; turns < 100; turns++) {
        if (pm_team_is_gone(team->team, rank))
            return MPIDI_COMPOSITE_team_lost(team, rank);
        usleep(100);
    }
    MPIR_ERR_SET1(mpi_errno, MPI_ERR_OTHER, "**composite", "**composite %s",
                  "shmem: the memory of a rank on this host could not be read or written during a collective");
    return mpi_errno;
}

/* Whose collective has failed may have freed it meanwhile. */
MPL_STATIC_INLINE_PREFIX int read_bytes(team_t * team, int rank, uint64_t address, void *to, size_t bytes)
{
    if (bytes == 0)
        return MPI_SUCCESS;
    if (unlikely(!pm_team_read(team->team, rank, address, to, bytes)))
        return memory_failed(team, rank);
    return unlikely(pm_team_gave_up(team->team, rank)) ? MPIDI_COMPOSITE_team_lost(team, rank) : MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int write_bytes(team_t * team, int rank, uint64_t address, const void *from, size_t bytes)
{
    return bytes == 0 || pm_team_write(team->team, rank, address, from, bytes) ? MPI_SUCCESS : memory_failed(team, rank);
}

MPL_STATIC_INLINE_PREFIX int read_data(team_t * team, int rank, const place_t * place, const data_t * data)
{
    int mpi_errno = MPI_SUCCESS;
    char *packed;

    if (unlikely(place->bytes != data->bytes)) {
        mpi_errno = mismatch(team, place->bytes, data->bytes);
        team->harmless = false; /* a part of what stays where it is */
        return mpi_errno;
    }
    if (data->plain)
        return read_bytes(team, rank, place->address, data->plain, data->bytes);
    packed = MPL_malloc(data->bytes, MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!packed, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = read_bytes(team, rank, place->address, packed, data->bytes);
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = copy_to(data, packed);
    MPL_free(packed);

  fn_fail:
    return mpi_errno;
}

MPL_STATIC_INLINE_PREFIX int write_data(team_t * team, int rank, const place_t * place, const data_t * data)
{
    int mpi_errno = MPI_SUCCESS;
    char *packed = NULL;

    if (unlikely(place->bytes != data->bytes))
        return mismatch(team, place->bytes, data->bytes);
    if (!data->plain) {
        packed = MPL_malloc(data->bytes, MPL_MEM_COLL);
        MPIR_ERR_CHKANDJUMP(!packed, mpi_errno, MPI_ERR_OTHER, "**nomem");
        mpi_errno = copy_from(data, packed);
        MPIR_ERR_CHECK(mpi_errno);
    }
    mpi_errno = write_bytes(team, rank, place->address, packed ? packed : data->plain, data->bytes);

  fn_fail:
    MPL_free(packed);
    return mpi_errno;
}

/* Where others read it: where it is, or a copy, which is to be freed. */
MPL_STATIC_INLINE_PREFIX int lend(const data_t * data, place_t * place, char **copy)
{
    int mpi_errno = MPI_SUCCESS;

    *copy = NULL;
    place->bytes = data->bytes;
    if (data->plain) {
        place->address = (uint64_t) (uintptr_t) data->plain;
        return MPI_SUCCESS;
    }
    *copy = MPL_malloc(data->bytes, MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!*copy, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = copy_from(data, *copy);
    place->address = (uint64_t) (uintptr_t) * copy;

  fn_fail:
    return mpi_errno;
}

/* The bytes of data one after the other: where they are, or a copy, which is to be freed. For what comes, without what is there. */
MPL_STATIC_INLINE_PREFIX int flatten(const data_t * data, bool with_data, char **flat, char **copy)
{
    int mpi_errno = MPI_SUCCESS;

    *copy = NULL;
    *flat = data->plain;
    if (data->plain)
        return MPI_SUCCESS;
    *flat = *copy = MPL_malloc(data->bytes, MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!*copy, mpi_errno, MPI_ERR_OTHER, "**nomem");
    if (with_data)
        mpi_errno = copy_from(data, *copy);

  fn_fail:
    return mpi_errno;
}

/* It is left where it is. */
MPL_STATIC_INLINE_PREFIX bool stays(const team_t * team, size_t bytes)
{
    return bytes > MPL_MIN(team->limit, PM_TEAM_PAGE);
}

/* Enters with it, or with where it is: then `*lent`, and `*copy` is to be freed when all have read. */
MPL_STATIC_INLINE_PREFIX int enter_with_whole(team_t * team, const data_t * data, bool * lent, char **copy)
{
    int mpi_errno;
    place_t place;

    *copy = NULL;
    *lent = stays(team, data->bytes);
    if (!*lent)
        return enter_with(team, data);
    mpi_errno = lend(data, &place, copy);
    return mpi_errno ? mpi_errno : enter_with_places(team, &place, 1);
}

/* What another rank entered with by enter_with_whole(). */
MPL_STATIC_INLINE_PREFIX int take_whole(team_t * team, int rank, const data_t * data)
{
    int mpi_errno;
    bool lent = stays(team, data->bytes);
    const char *said;
    place_t place;

    mpi_errno = hear(team, rank, lent ? PM_TEAM_ELSEWHERE : data->bytes, &said);
    MPIR_ERR_CHECK(mpi_errno);
    if (!lent)
        return copy_to(data, said);
    memcpy(&place, said, sizeof place);
    mpi_errno = read_data(team, rank, &place, data);

  fn_fail:
    return mpi_errno;
}

/* Enters with a part for each other rank: behind each other on a page, or where they are. `*copy` is to be freed when all have read. With
 * `equal` each knows where its part is; otherwise a table says so. */
MPL_STATIC_INLINE_PREFIX int enter_with_parts(team_t * team, const parts_t * parts, bool equal, bool in_place, bool * lent, char **copy)
{
    int mpi_errno = MPI_SUCCESS;
    size_t total = 0, table_bytes = equal ? 0 : sizeof(uint64_t) * (size_t) team->ranks, at;
    uint64_t table[PM_TEAM_RANKS_LIMIT];
    place_t places[PM_TEAM_RANKS_LIMIT];
    bool must_pack = in_place;
    char *place;

    *copy = NULL;
    for (int rank = 0; rank < team->ranks; rank++) {
        data_t part = part_of(parts, rank);
        if (!equal && rank == team->rank)
            continue;
        total += part.bytes;
        must_pack = must_pack || !part.plain;
    }
    *lent = stays(team, table_bytes + total);
    if (!*lent || must_pack) {
        if (*lent) {
            place = *copy = MPL_malloc(total, MPL_MEM_COLL);
            MPIR_ERR_CHKANDJUMP(!place, mpi_errno, MPI_ERR_OTHER, "**nomem");
            at = 0;
        } else {
            mpi_errno = MPIDI_COMPOSITE_team_room(team, table_bytes + total);
            MPIR_ERR_CHECK(mpi_errno);
            place = pm_team_place(team->team, table_bytes + total);
            at = table_bytes;
        }
        for (int rank = 0; rank < team->ranks; rank++) {
            data_t part = part_of(parts, rank);
            table[rank] = at;
            places[rank] = (place_t) { (uint64_t) (uintptr_t) (place + at), part.bytes };
            if (rank != team->rank) {
                mpi_errno = copy_from(&part, place + at);
                MPIR_ERR_CHECK(mpi_errno);
            }
            if (equal || rank != team->rank)
                at += part.bytes;
        }
        if (!*lent) {
            memcpy(place, table, table_bytes);
            pm_team_enter(team->team, table_bytes + total, team->collective);
            goto fn_exit;
        }
    } else {
        for (int rank = 0; rank < team->ranks; rank++) {
            data_t part = part_of(parts, rank);
            places[rank] = (place_t) { (uint64_t) (uintptr_t) part.plain, part.bytes };
        }
    }
    mpi_errno = enter_with_places(team, places, team->ranks);

  fn_exit:
  fn_fail:
    return mpi_errno;
}

/* Of what another rank entered with by enter_with_parts(): ours. */
MPL_STATIC_INLINE_PREFIX int take_part(team_t * team, int rank, bool equal, const data_t * part)
{
    int mpi_errno;
    const char *said;
    uint64_t size, at = part->bytes * (size_t) team->rank;

    mpi_errno = MPIDI_COMPOSITE_team_await(team, rank);
    MPIR_ERR_CHECK(mpi_errno);
    size = pm_team_size_said(team->team, rank);
    said = pm_team_said(team->team, rank);
    if (size == PM_TEAM_ELSEWHERE) {
        place_t place;
        memcpy(&place, said + sizeof place * (size_t) team->rank, sizeof place);
        return read_data(team, rank, &place, part);
    }
    if (!equal) {
        if (unlikely(size < sizeof at * (size_t) team->ranks))
            return mismatch(team, size, part->bytes);
        memcpy(&at, said + sizeof at * (size_t) team->rank, sizeof at);
    }
    /* No more than a page is looked at, whatever is said. */
    if (unlikely(size > PM_TEAM_PAGE || part->bytes > size || at > size - part->bytes || (equal && size != part->bytes * (size_t) team->ranks)))
        return mismatch(team, size, part->bytes);
    mpi_errno = copy_to(part, said + at);

  fn_fail:
    return mpi_errno;
}

#endif
