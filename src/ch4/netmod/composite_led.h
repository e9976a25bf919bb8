/* What collectives by leaders are made of (coll/team/leaders.h): who speaks to whom, and where data is on its way. For those that are waited for
 * (composite_leaders.h) and those that end later (composite_started_leaders.h). */
#ifndef COMPOSITE_LED_H_INCLUDED
#define COMPOSITE_LED_H_INCLUDED

#include "composite_impl.h"
#include "composite_coll_life.h"
#include "composite_combine.h"
#include "composite_team.h"
#include "composite_team_data.h"
#include "coll/team/leaders.h"
#include "netmod/core/setup.h"

/* Of one call: made anew, which takes far less time than a message, so that nothing is kept for each communicator. */
typedef struct {
    MPIR_Comm *comm;
    MPIR_Errflag_t *errflag;
    int mpi_errno;
    int host;                   /* ours */
    int place;                  /* of our host */
    int *speakers;              /* by host: its first rank; of the root's, the root */
    bool speaks;                /* we do, for our host */
    int root;                   /* on our host: the rank of who speaks, in its communicator */
    pm_leaders leaders;
    bool is_poor;               /* there is no memory for our part: messages are empty, and the team of our host is given up */
    bool is_held;               /* after an error a device may still have memory of ours: none is given back */
    pm_tree tree;               /* if we speak */
} led_t;

/* All of this job, and on more than one host; alike at all ranks. */
MPL_STATIC_INLINE_PREFIX bool has_hosts(const MPIR_Comm * comm)
{
    if (comm->comm_kind != MPIR_COMM_KIND__INTRACOMM || comm->internode_table == NULL || comm->local_size < 2 || !MPIDI_COMPOSITE_knows_hosts(comm))
        return false;
    /* Where no two ranks are on the same host MPICH makes no other communicators of it. */
    return comm->hierarchy_kind == MPIR_COMM_HIERARCHY_KIND__PARENT ? comm->node_comm == NULL || comm->node_comm->local_size < comm->local_size :
        comm->hierarchy_kind == MPIR_COMM_HIERARCHY_KIND__FLAT && comm->internode_table[comm->local_size - 1] == comm->local_size - 1;
}

MPL_STATIC_INLINE_PREFIX int hosts_of(const MPIR_Comm * comm)
{
    int last = 0;

    for (int rank = 0; rank < comm->local_size; rank++)
        last = MPL_MAX(last, comm->internode_table[rank]);
    return last + 1;
}

/* Somewhere there are two on the same one. */
MPL_STATIC_INLINE_PREFIX bool share_hosts(const MPIR_Comm * comm)
{
    return has_hosts(comm) && hosts_of(comm) < comm->local_size;
}

/* Where each host has one rank, what all tell all goes better by messages of all; but an allgather only if no network is slower than another. */
MPL_STATIC_INLINE_PREFIX bool have_use_of_leaders(const MPIR_Comm * comm, pm_collective operation)
{
    if (operation == PM_COLL_ALLGATHER && pm_clusters(MPIDI_COMPOSITE_global.core))
        return true;
    return (operation != PM_COLL_ALLGATHER && operation != PM_COLL_ALLTOALL && operation != PM_COLL_REDUCE_SCATTER && operation != PM_COLL_SCAN) ||
        share_hosts(comm);
}

/* NULL: there is one. */
MPL_STATIC_INLINE_PREFIX const uint32_t *clusters_of(MPIR_Comm * comm, const int *speakers, int hosts, uint32_t * clusters)
{
    const uint32_t *of_job = pm_clusters(MPIDI_COMPOSITE_global.core);

    for (int host = 0; of_job && host < hosts; host++) {
        int process, table;
        MPIDIU_comm_rank_to_pid(comm, speakers[host], &process, &table);
        clusters[host] = of_job[process];
    }
    return of_job ? clusters : NULL;
}

MPL_STATIC_INLINE_PREFIX size_t lead_bytes(const MPIR_Comm * comm)
{
    int hosts = hosts_of(comm);

    return sizeof(int) * (pm_leaders_ints(hosts) + 2 * (size_t) hosts);
}

/* `root` -1: whoever comes first. `memory`, of lead_bytes(), stays the caller's. */
MPL_STATIC_INLINE_PREFIX void lead(led_t * led, MPIR_Comm * comm, int root, pm_shape shape, MPIR_Errflag_t * errflag, int *memory)
{
    int hosts = hosts_of(comm);
    const uint32_t *clusters;

    memset(led, 0, offsetof(led_t, tree));
    led->comm = comm;
    led->errflag = errflag;
    led->host = comm->internode_table[comm->rank];
    led->speakers = memory + pm_leaders_ints(hosts);
    for (int rank = comm->local_size - 1; rank >= 0; rank--)
        led->speakers[comm->internode_table[rank]] = rank;
    clusters = clusters_of(comm, led->speakers, hosts, (uint32_t *) led->speakers + hosts);
    if (root < 0)
        root = 0;
    led->speakers[comm->internode_table[root]] = root;
    led->speaks = led->speakers[led->host] == comm->rank;
    led->root = comm->node_comm && comm->internode_table[root] == led->host ? comm->intranode_table[root] : 0;
    pm_leaders_order(&led->leaders, memory, hosts, clusters, comm->internode_table[root]);
    led->place = pm_leaders_place(&led->leaders, led->host);
    pm_tree_of(&led->leaders, led->place, shape, &led->tree);
}

MPL_STATIC_INLINE_PREFIX int speaker_at(const led_t * led, int place)
{
    return led->speakers[led->leaders.host[place]];
}

MPL_STATIC_INLINE_PREFIX bool is_first(const led_t * led)
{
    return led->tree.parent < 0;
}

MPL_STATIC_INLINE_PREFIX void note_error(led_t * led, int result)
{
    if (unlikely(result))
        MPIDI_COMPOSITE_note_error(&led->mpi_errno, led->errflag, result);
}

/* What came of it. */
MPL_STATIC_INLINE_PREFIX int led_to(led_t * led)
{
    MPIR_Errflag_t *errflag = led->errflag;     /* by this name MPICH's tool that reads sources for errors knows it */

    if (led->mpi_errno == MPI_SUCCESS && unlikely(*errflag != MPIR_ERR_NONE))
        MPIR_ERR_SET(led->mpi_errno, *errflag, "**coll_fail");
    return led->mpi_errno;
}

/* What all tell all: if there are two hosts they tell each other at once, and from then on nobody is above or below. All ranks answer the same. */
MPL_STATIC_INLINE_PREFIX bool pair_up(led_t * led)
{
    if (led->leaders.hosts != 2)
        return false;
    led->tree.parent = -1;
    led->tree.branches = 0;
    return true;
}

/* ---- data ---- */

/* Memory for vectors of any datatype; `*span` apart. What is to be freed is at `*memory`. NULL: there is none. */
MPL_STATIC_INLINE_PREFIX char *vectors(int number, MPI_Aint count, MPI_Datatype type, MPI_Aint * span, void **memory)
{
    MPI_Aint extent, true_extent, true_lb;

    MPIR_Type_get_true_extent_impl(type, &true_lb, &true_extent);
    MPIR_Datatype_get_extent_macro(type, extent);
    *span = (count * MPL_MAX(extent, true_extent) + 63) / 64 * 64;
    *memory = MPL_malloc((size_t) MPL_MAX(*span * number, 1), MPL_MEM_COLL);
    return *memory ? (char *) *memory - true_lb : NULL;
}

MPL_STATIC_INLINE_PREFIX pm_shape shape_for(MPI_Aint count, MPI_Datatype type)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(type, size);
    return pm_shape_of((size_t) (count * size), 0);
}

/* Where parts of so much begin that follow each other, and how much all of them are. NULL: there is no memory. */
MPL_STATIC_INLINE_PREFIX MPI_Aint *places_of_counts(const MPI_Aint * counts, int ranks, MPI_Aint * all)
{
    MPI_Aint *places = MPL_malloc(sizeof *places * (size_t) ranks, MPL_MEM_COLL);

    *all = 0;
    for (int rank = 0; places && rank < ranks; *all += counts[rank++])
        places[rank] = *all;
    return places;
}

/* Where blocks are on their way: in the order of the places of their hosts. */
typedef struct {
    size_t *hosts;              /* by place: where its first one begins; and the end */
    size_t *ranks;              /* by rank */
    char *flat;
    char *copy;                 /* NULL: they are where the user has them, or wants them */
} blocks_t;

MPL_STATIC_INLINE_PREFIX size_t layout_bytes(const led_t * led)
{
    return sizeof(size_t) * (2 * (size_t) led->leaders.hosts + 1 + (size_t) led->comm->local_size);
}

/* `memory`, of layout_bytes(), stays the caller's. */
MPL_STATIC_INLINE_PREFIX void lay_out_blocks(const led_t * led, const parts_t * all, blocks_t * blocks, size_t * memory)
{
    int hosts = led->leaders.hosts, ranks = led->comm->local_size;
    const int *host_of = led->comm->internode_table;
    size_t *next, at = 0;

    memset(blocks, 0, sizeof *blocks);
    blocks->hosts = memset(memory, 0, layout_bytes(led));
    next = blocks->hosts + hosts + 1;
    blocks->ranks = next + hosts;
    for (int rank = 0; rank < ranks; rank++)
        next[host_of[rank]] += part_of(all, rank).bytes;
    for (int place = 0; place < hosts; place++) {
        size_t bytes = next[led->leaders.host[place]];
        blocks->hosts[place] = next[led->leaders.host[place]] = at;
        at += bytes;
    }
    blocks->hosts[hosts] = at;
    for (int rank = 0; rank < ranks; rank++) {
        blocks->ranks[rank] = next[host_of[rank]];
        next[host_of[rank]] += part_of(all, rank).bytes;
    }
}

/* Room for those of the places from `first` to `end`. False: there is no memory. */
MPL_STATIC_INLINE_PREFIX bool make_room(blocks_t * blocks, int first, int end)
{
    blocks->copy = MPL_malloc(MPL_MAX(blocks->hosts[end] - blocks->hosts[first], 1), MPL_MEM_COLL);
    blocks->flat = blocks->copy ? blocks->copy - blocks->hosts[first] : NULL;
    return blocks->copy != NULL;
}

/* All of them: in the user's memory where they follow each other there in the same order. */
MPL_STATIC_INLINE_PREFIX bool find_room(const led_t * led, const parts_t * all, blocks_t * blocks)
{
    for (int rank = 0; rank < led->comm->local_size; rank++) {
        data_t part = part_of(all, rank);
        if (part.bytes == 0)
            continue;
        if (!blocks->flat && part.plain)
            blocks->flat = part.plain - blocks->ranks[rank];
        if (part.plain == NULL || part.plain - blocks->ranks[rank] != blocks->flat)
            return make_room(blocks, 0, led->leaders.hosts);
    }
    return true;
}

/* The places of who speaks, and of all below it. */
MPL_STATIC_INLINE_PREFIX int end_below(const led_t * led)
{
    int end = led->place + 1;

    for (int i = 0; i < led->tree.branches; i++)
        end = MPL_MAX(end, led->tree.below[i].end);
    return end;
}

/* Of each rank of our host: how much, and behind that where, from the first of them on. NULL: there is no memory. */
MPL_STATIC_INLINE_PREFIX MPI_Aint *host_counts(const led_t * led, const blocks_t * blocks, const parts_t * all)
{
    int ranks = led->comm->node_comm->local_size;
    MPI_Aint *counts = MPL_malloc(2 * sizeof *counts * (size_t) ranks, MPL_MEM_COLL);

    for (int rank = 0, local = 0; counts && local < ranks; rank++) {
        if (led->comm->internode_table[rank] != led->host)
            continue;
        counts[local] = (MPI_Aint) part_of(all, rank).bytes;
        counts[ranks + local++] = (MPI_Aint) (blocks->ranks[rank] - blocks->hosts[led->place]);
    }
    return counts;
}

MPL_STATIC_INLINE_PREFIX size_t total_of(const parts_t * all, const MPIR_Comm * comm)
{
    size_t total = 0;

    for (int rank = 0; rank < comm->local_size; rank++)
        total += part_of(all, rank).bytes;
    return total;
}

/* From the copy, if there is one; `except` is there already. */
MPL_STATIC_INLINE_PREFIX void take_blocks(led_t * led, const parts_t * all, const blocks_t * blocks, int except)
{
    for (int rank = 0; blocks->copy && rank < led->comm->local_size; rank++) {
        data_t part = part_of(all, rank);
        if (rank != except)
            note_error(led, copy_to(&part, blocks->flat + blocks->ranks[rank]));
    }
}

/* Of a scan, at rank 0: room for a block of each rank, and one before them. Answers it, or NULL; it is to be freed. */
MPL_STATIC_INLINE_PREFIX char *room_to_scan(parts_t * all, int ranks)
{
    size_t block = part_of(all, 0).bytes;
    char *room = MPL_calloc((size_t) ranks + 1, block, MPL_MEM_COLL);

    all->buffer = room ? room + block : NULL;
    return room;
}

/* What each has put in becomes what it gets; where that is without its own, its block is the one before. */
MPL_STATIC_INLINE_PREFIX int scan_blocks(parts_t * all, int ranks, MPI_Op op, bool inclusive)
{
    int mpi_errno = MPI_SUCCESS;

    for (int rank = 1; mpi_errno == MPI_SUCCESS && rank < ranks; rank++) {
        char *to = part_of(all, rank).plain;
        mpi_errno = MPIDI_COMPOSITE_combine(part_of(all, rank - 1).plain, to, to, all->count, all->type, op);
    }
    if (!inclusive)
        all->buffer -= part_of(all, 0).bytes;
    return mpi_errno;
}

/* All ranks say the same of what they add up: numbers without gaps. */
MPL_STATIC_INLINE_PREFIX bool may_scan_blocks(MPI_Aint count, MPI_Datatype type)
{
    MPI_Aint size, extent;

    MPIR_Datatype_get_size_macro(type, size);
    MPIR_Datatype_get_extent_macro(type, extent);
    return HANDLE_IS_BUILTIN(type) && size == extent && count > 0;
}

/* Blocks between our host and another one, as they travel: those for each rank there together, in the order of the ranks here. `flat` has all
 * blocks of our first rank, then all of the next. */
MPL_STATIC_INLINE_PREFIX void sort_blocks(const led_t * led, int other, size_t block, char *flat, char *message, bool comes)
{
    int ranks = led->comm->local_size, locals = led->comm->node_comm ? led->comm->node_comm->local_size : 1, others = 0;

    for (int rank = 0; rank < ranks; rank++)
        others += led->comm->internode_table[rank] == other;
    for (int rank = 0, at = 0; at < others; rank++) {
        if (led->comm->internode_table[rank] != other)
            continue;
        for (int local = 0; local < locals; local++) {
            char *here = flat + ((size_t) local * (size_t) ranks + (size_t) rank) * block;
            if (comes)
                memcpy(here, message + ((size_t) local * (size_t) others + (size_t) at) * block, block);
            else
                memcpy(message + ((size_t) at * (size_t) locals + (size_t) local) * block, here, block);
        }
        at++;
    }
}

#endif
