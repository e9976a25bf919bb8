/* Collectives of blocks of ranks on several hosts, by their leaders (composite_leaders.h). For composite_coll.c. */
#ifndef COMPOSITE_LEADERS_BLOCKS_H_INCLUDED
#define COMPOSITE_LEADERS_BLOCKS_H_INCLUDED

#include "composite_leaders.h"

/* On the stack of the caller, as what it is led by: all must know for whom there is something. */
#define LAY_OUT_BLOCKS(led, all, blocks) lay_out_blocks(led, all, blocks, (size_t *) alloca(layout_bytes(led)))

/* As make_room() and find_room(). */
static void get_room(led_t * led, blocks_t * blocks, int first, int end)
{
    (void) turns_poor(led, !make_room(blocks, first, end));
}

static void get_room_for_all(led_t * led, const parts_t * all, blocks_t * blocks)
{
    (void) turns_poor(led, !find_room(led, all, blocks));
}

/* At who speaks. False: there is no memory, and the host is told. */
static bool get_host_counts(led_t * led, const blocks_t * blocks, const parts_t * all, MPI_Aint ** counts, MPI_Aint ** places)
{
    *counts = *places = NULL;
    if (!led->speaks)
        return true;
    *counts = host_counts(led, blocks, all);
    if (turns_poor(led, !*counts))
        return false;
    *places = *counts + led->comm->node_comm->local_size;
    return true;
}

/* All of this host, at who speaks. */
static void host_gather(led_t * led, const data_t * mine, bool in_place, const blocks_t * blocks, const parts_t * all)
{
    MPIR_Comm *host = led->comm->node_comm;
    char *first = led->speaks ? blocks->flat + blocks->hosts[led->place] : NULL;
    bool is_there = in_place && !blocks->copy && led->speaks;
    const void *sendbuf = is_there ? MPI_IN_PLACE : mine->buffer;
    MPI_Aint *counts, *places;

    if (led->is_poor)
        return;
    if (!host) {
        if (mine->bytes != part_of(all, led->comm->rank).bytes)
            note_error(led, other_size(mine->bytes, part_of(all, led->comm->rank).bytes));
        else if (!is_there)
            note_error(led, copy_from(mine, first));
        return;
    }
    if (all->counts == NULL) {
        note_error(led, MPIDI_NM_mpi_gather(sendbuf, mine->count, mine->type, first, (MPI_Aint) part_of(all, 0).bytes, MPI_BYTE, led->root, host,
                                            led->errflag));
        return;
    }
    if (!get_host_counts(led, blocks, all, &counts, &places))
        return;
    note_error(led, MPIDI_NM_mpi_gatherv(sendbuf, mine->count, mine->type, first, counts, places, MPI_BYTE, led->root, host, led->errflag));
    MPL_free(counts);
}

/* As many bytes to each of this host. */
static void host_scatter_equal(led_t * led, const char *first, size_t bytes, void *recvbuf, MPI_Aint count, MPI_Datatype type)
{
    MPIR_Comm *host = led->comm->node_comm;

    if (unlikely(*led->errflag != MPIR_ERR_NONE) && led->speaks) {
        size_t ranks = (size_t) host->local_size;
        if (may_tell_by_size(led, PM_COLL_SCATTER, bytes * ranks, 2 * ranks)) {
            bytes = bytes == 1 ? 2 : 1;
            first = memset(alloca(bytes * ranks), 0, bytes * ranks);
            recvbuf = MPI_IN_PLACE;
        } else {
            tell_host_of_failure(led);
        }
    }
    note_error(led, MPIDI_NM_mpi_scatter(first, (MPI_Aint) bytes, MPI_BYTE, recvbuf, count, type, led->root, host, led->errflag));
}

/* From who speaks to all of this host, if there is anything for it. `mine` NULL: it is in its place. */
static void host_scatter(led_t * led, const data_t * mine, const blocks_t * blocks, const parts_t * all)
{
    MPIR_Comm *host = led->comm->node_comm;
    char *first = led->speaks ? blocks->flat + blocks->hosts[led->place] : NULL;
    void *recvbuf = mine ? mine->buffer : MPI_IN_PLACE;
    MPI_Aint count = mine ? mine->count : 0, *counts, *places;
    MPI_Datatype type = mine ? mine->type : MPI_BYTE;

    if (blocks->hosts[led->place] == blocks->hosts[led->place + 1] || led->is_poor)
        return;
    if (!host) {
        if (mine && mine->bytes != part_of(all, led->comm->rank).bytes)
            note_error(led, other_size(mine->bytes, part_of(all, led->comm->rank).bytes));
        else if (mine && *led->errflag == MPIR_ERR_NONE)
            note_error(led, copy_to(mine, first));
        return;
    }
    if (all->counts == NULL) {
        host_scatter_equal(led, first, part_of(all, 0).bytes, recvbuf, count, type);
        return;
    }
    tell_host_of_failure(led);
    if (!get_host_counts(led, blocks, all, &counts, &places))
        return;
    note_error(led, MPIDI_NM_mpi_scatterv(first, counts, places, MPI_BYTE, recvbuf, count, type, led->root, host, led->errflag));
    MPL_free(counts);
}

/* What is below us, and then ours and that, to who is above. */
static void gather_blocks(led_t * led, const blocks_t * blocks, int tag)
{
    MPIR_Request *requests[PM_BRANCHES_MAX];
    const pm_tree *tree = &led->tree;

    for (int i = 0; i < tree->branches; i++) {
        size_t from = blocks->hosts[tree->below[i].place], to = blocks->hosts[tree->below[i].end];
        begin_receive(led, blocks->flat + from, (MPI_Aint) (to - from), MPI_BYTE, tree->below[i].place, tag, &requests[i]);
    }
    for (int i = 0; i < tree->branches; i++)
        wait_for_bytes(led, &requests[i], (MPI_Aint) (blocks->hosts[tree->below[i].end] - blocks->hosts[tree->below[i].place]));
    if (!is_first(led))
        tell_above(led, blocks->flat + blocks->hosts[led->place], (MPI_Aint) (blocks->hosts[end_below(led)] - blocks->hosts[led->place]),
                   MPI_BYTE, tag);
}

/* The other way; wait_for_all() afterwards. All know for whom there is nothing. */
static void begin_scattering(led_t * led, const blocks_t * blocks, int tag, MPIR_Request ** requests)
{
    const pm_tree *tree = &led->tree;
    size_t from = blocks->hosts[led->place], to = blocks->hosts[end_below(led)];
    MPIR_Request *heard;

    if (!is_first(led) && from < to) {
        begin_receive(led, blocks->flat + from, (MPI_Aint) (to - from), MPI_BYTE, tree->parent, tag, &heard);
        wait_for_bytes(led, &heard, (MPI_Aint) (to - from));
    }
    for (int i = 0; i < tree->branches; i++) {
        from = blocks->hosts[tree->below[i].place];
        to = blocks->hosts[tree->below[i].end];
        requests[i] = NULL;
        if (from < to)
            begin_send(led, blocks->flat + from, (MPI_Aint) (to - from), MPI_BYTE, tree->below[i].place, tag, &requests[i]);
    }
}

/* Of two hosts: what each has to the other. Ours goes to our host meanwhile; but if the other has nothing, not before we know that all is well there: our
 * host hears of an error with what it is given. */
static void swap_blocks(led_t * led, const blocks_t * blocks, int tag)
{
    data_t part[2];
    swap_t swap;
    bool knows_later;

    for (int place = 0; place < 2; place++)
        part[place] = data_of(blocks->flat + blocks->hosts[place], (MPI_Aint) (blocks->hosts[place + 1] - blocks->hosts[place]), MPI_BYTE);
    knows_later = part[!led->place].bytes > 0;
    if (led->speaks)
        begin_swap(led, part[led->place], part[!led->place], tag, &swap);
    if (led->speaks && !knows_later)
        end_swap(led, &swap);
    if (part[led->place].bytes)
        host_bcast(led, part[led->place].buffer, part[led->place].count, MPI_BYTE);
    if (led->speaks && knows_later)
        end_swap(led, &swap);
    if (part[!led->place].bytes)
        host_bcast(led, part[!led->place].buffer, part[!led->place].count, MPI_BYTE);
}

/* All know what all have. All of it goes to one leader, and from there to all; or from each of two hosts to the other. `mine` NULL: it is in its place. */
static int leaders_allgather(const data_t * mine, const parts_t * all, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    led_t led;
    blocks_t blocks = { NULL };
    data_t own = part_of(all, comm->rank);

    LEAD(&led, comm, -1, pm_shape_of(total_of(all, comm), 0), errflag);
    LAY_OUT_BLOCKS(&led, all, &blocks);
    get_room_for_all(&led, all, &blocks);
    host_gather(&led, mine ? mine : &own, mine == NULL, &blocks, all);
    if (pair_up(&led)) {
        swap_blocks(&led, &blocks, MPIR_ALLGATHER_TAG);
    } else {
        if (led.speaks)
            gather_blocks(&led, &blocks, MPIR_ALLGATHER_TAG);
        spread(&led, blocks.flat, blocks.hosts[led.leaders.hosts], 0, MPIR_ALLGATHER_TAG);
    }
    take_blocks(&led, all, &blocks, mine ? -1 : comm->rank);
    give_back(&led, blocks.copy);
    return led_to(&led);
}

/* What all have, to the first one. */
static void gather_up(led_t * led, const data_t * mine, const parts_t * all, int tag)
{
    blocks_t blocks = { NULL };
    data_t own = part_of(all, led->comm->rank);
    bool is_root = is_first(led) && led->speaks;

    LAY_OUT_BLOCKS(led, all, &blocks);
    if (is_root && !led->is_poor)
        get_room_for_all(led, all, &blocks);
    else if (led->speaks && !led->is_poor)
        get_room(led, &blocks, led->place, end_below(led));
    host_gather(led, mine ? mine : &own, mine == NULL, &blocks, all);
    if (led->speaks)
        gather_blocks(led, &blocks, tag);
    if (is_root)
        take_blocks(led, all, &blocks, mine ? -1 : led->comm->rank);
    give_back(led, blocks.copy);
}

/* To the root, which speaks for its host. `all`: of the root, where they belong; of others, as many bytes. */
static int leaders_gather(const data_t * mine, const parts_t * all, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    led_t led;

    LEAD(&led, comm, root, pm_shape_of(total_of(all, comm), 0), errflag);
    gather_up(&led, mine, all, MPIR_GATHER_TAG);
    return led_to(&led);
}

/* What the first one has, on to all; `led` is over with it. */
static int scatter_down(led_t * led, const parts_t * all, const data_t * mine, int tag)
{
    blocks_t blocks = { NULL };
    MPIR_Request *requests[PM_BRANCHES_MAX];

    LAY_OUT_BLOCKS(led, all, &blocks);
    if (is_first(led) && led->speaks && !led->is_poor)
        get_room_for_all(led, all, &blocks);
    else if (led->speaks && !led->is_poor)
        get_room(led, &blocks, led->place, end_below(led));
    if (led->speaks) {
        for (int rank = 0; is_first(led) && blocks.copy && rank < led->comm->local_size; rank++) {
            data_t part = part_of(all, rank);
            note_error(led, copy_from(&part, blocks.flat + blocks.ranks[rank]));
        }
        begin_scattering(led, &blocks, tag, requests);
    }
    host_scatter(led, mine, &blocks, all);
    if (led->speaks)
        wait_for_all(led, requests);
    give_back(led, blocks.copy);
    return led_to(led);
}

/* From the root; `all` and `mine` as in a gather. */
static int leaders_scatter(const parts_t * all, const data_t * mine, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    led_t led;

    LEAD(&led, comm, root, pm_shape_of(total_of(all, comm), 0), errflag);
    return scatter_down(&led, all, mine, MPIR_SCATTER_TAG);
}

/* Reduced at the first leader, and parts of that on to all. The operation must commute. `all`: of how much each gets a part; where they are,
 * is of no account. */
static int leaders_reduce_scatter(const void *sendbuf, void *recvbuf, MPI_Aint count, parts_t all, MPI_Op op, MPIR_Comm * comm,
                                  MPIR_Errflag_t * errflag)
{
    led_t led;
    void *memory = NULL;
    char *room, *sum = NULL;
    const void *own = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    MPI_Datatype type = all.type;
    MPI_Aint span = 0;
    data_t mine = part_of(&all, comm->rank);
    int mpi_errno;

    LEAD(&led, comm, -1, shape_for(count, type), errflag);
    if (led.speaks) {
        room = get_vectors(&led, led.tree.branches + 1, count, type, &span, &memory);
        sum = room + led.tree.branches * span;
        host_reduce(&led, own, sum, count, type, op);
        hear_below(&led, room, span, sum, count, type, op, MPIR_REDUCE_SCATTER_TAG);
        if (!is_first(&led))
            tell_above(&led, sum, count, type, MPIR_REDUCE_SCATTER_TAG);
    } else {
        host_reduce(&led, own, NULL, count, type, op);
    }
    all.buffer = sum;
    mine = data_of(recvbuf, mine.count, type);
    mpi_errno = scatter_down(&led, &all, &mine, MPIR_REDUCE_SCATTER_TAG);
    give_back(&led, memory);
    return mpi_errno;
}

/* What all have put in goes to rank 0, which adds it up for each, in the order of the ranks: so the operation need not commute, and a host may have
 * any ranks. */
static int leaders_scan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op, bool inclusive, MPIR_Comm * comm,
                        MPIR_Errflag_t * errflag)
{
    led_t led;
    char *memory = NULL;
    data_t put_in = data_of(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, type), result = data_of(recvbuf, count, type);
    parts_t all = equal_parts(NULL, count, type);
    bool has_result = inclusive || comm->rank > 0;
    int mpi_errno;

    LEAD(&led, comm, 0, pm_shape_of(total_of(&all, comm), 0), errflag);
    if (comm->rank == 0) {
        memory = room_to_scan(&all, comm->local_size);
        (void) turns_poor(&led, !memory);
    }
    gather_up(&led, &put_in, &all, MPIR_SCAN_TAG);
    if (comm->rank == 0 && *errflag == MPIR_ERR_NONE)
        note_error(&led, scan_blocks(&all, comm->local_size, op, inclusive));
    mpi_errno = scatter_down(&led, &all, has_result ? &result : NULL, MPIR_SCAN_TAG);
    give_back(&led, memory);
    return mpi_errno;
}

/* The leaders have what their hosts send, at `out`, and want what is for them at `in`. `room` is for all messages of one direction, twice. */
static void exchange_blocks(led_t * led, size_t block, char *out, char *in, char *room, MPIR_Request ** requests)
{
    int hosts = led->leaders.hosts, ranks = led->comm->local_size, locals = led->comm->node_comm ? led->comm->node_comm->local_size : 1;
    size_t *begin = (size_t *) (requests + 2 * hosts), bytes = (size_t) locals * block;
    char *coming = room + (size_t) ranks * bytes;

    for (int host = 0; host <= hosts; host++)
        begin[host] = 0;
    for (int rank = 0; rank < ranks; rank++)
        begin[led->comm->internode_table[rank] + 1] += bytes;
    for (int host = 0; host < hosts; host++)
        begin[host + 1] += begin[host];
    for (int i = 1; i < hosts; i++) {
        int place = (led->place + hosts - i) % hosts, host = led->leaders.host[place];
        begin_receive(led, coming + begin[host], (MPI_Aint) (begin[host + 1] - begin[host]), MPI_BYTE, place, MPIR_ALLTOALL_TAG, &requests[place]);
    }
    for (int i = 1; i < hosts; i++) {
        int place = (led->place + i) % hosts, host = led->leaders.host[place];
        sort_blocks(led, host, block, out, room + begin[host], false);
        begin_send(led, room + begin[host], (MPI_Aint) (begin[host + 1] - begin[host]), MPI_BYTE, place, MPIR_ALLTOALL_TAG,
                   &requests[hosts + place]);
    }
    sort_blocks(led, led->host, block, out, room + begin[led->host], false);
    sort_blocks(led, led->host, block, in, room + begin[led->host], true);
    for (int i = 1; i < hosts; i++) {
        int place = (led->place + hosts - i) % hosts, host = led->leaders.host[place];
        wait_for_bytes(led, &requests[place], (MPI_Aint) (begin[host + 1] - begin[host]));
        sort_blocks(led, host, block, in, coming + begin[host], true);
    }
    for (int i = 1; i < hosts; i++)
        wait_for(led, &requests[hosts + (led->place + i) % hosts]);
}

/* Without memory. */
static void exchange_nothing(led_t * led)
{
    int hosts = led->leaders.hosts;

    for (int i = 1; i < hosts; i++)
        note_error(led, MPIC_Sendrecv(NULL, 0, MPI_BYTE, speaker_at(led, (led->place + i) % hosts), MPIR_ALLTOALL_TAG, NULL, 0, MPI_BYTE,
                                      speaker_at(led, (led->place + hosts - i) % hosts), MPIR_ALLTOALL_TAG, led->comm, MPI_STATUS_IGNORE,
                                      led->errflag));
}

/* What all of a host send is gathered, and what all of it get scattered, by its leader: so between two hosts goes one message each way. */
static int leaders_alltoall(const data_t * from, const data_t * to, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    led_t led;
    MPIR_Comm *host = comm->node_comm;
    size_t bytes = to->bytes * (size_t) (host ? host->local_size : 1), links;
    char *memory = NULL, *out = NULL, *in = NULL;

    LEAD(&led, comm, -1, PM_FLAT, errflag);
    if (led.speaks) {
        /* Requests, where messages begin, and four times the blocks. */
        links = 2 * (size_t) led.leaders.hosts * sizeof(MPIR_Request *) + ((size_t) led.leaders.hosts + 1) * sizeof(size_t);
        memory = MPL_malloc(links + 4 * bytes, MPL_MEM_COLL);
        if (turns_poor(&led, !memory)) {
            exchange_nothing(&led);
            return led_to(&led);
        }
        out = memory + links;
        in = out + bytes;
    }
    if (host)
        note_error(&led, MPIDI_NM_mpi_gather(from->buffer, from->count, from->type, out, (MPI_Aint) to->bytes, MPI_BYTE, 0, host, errflag));
    else
        note_error(&led, copy_from(from, out));
    if (led.speaks)
        exchange_blocks(&led, to->bytes / (size_t) comm->local_size, out, in, in + bytes, (MPIR_Request **) memory);
    if (host)
        host_scatter_equal(&led, in, to->bytes, to->buffer, to->count, to->type);
    else if (*errflag == MPIR_ERR_NONE)
        note_error(&led, copy_to(to, in));
    give_back(&led, memory);
    return led_to(&led);
}

#endif
