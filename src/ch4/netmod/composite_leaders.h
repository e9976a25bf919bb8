/* Collectives of a communicator of several hosts: inside a host by its team, between hosts by messages of the leaders (coll/team/leaders.h). For
 * composite_coll.c, which looks whether one goes this way.
 *
 * Each step is taken after an error, too, and tells the next one of it, as MPICH's collectives do: so nobody waits for what will not come. */
#ifndef COMPOSITE_LEADERS_H_INCLUDED
#define COMPOSITE_LEADERS_H_INCLUDED

#include <alloca.h>

#include "composite_led.h"

/* On the stack of the caller, a few words for each host: without them nobody could be told of an error. */
#define LEAD(led, comm, root, shape, errflag) lead(led, comm, root, shape, errflag, (int *) alloca(lead_bytes(comm)))

/* Once a rank has found no memory it only tells others: its host at once, and other leaders when it is its turn. */
static bool turns_poor(led_t * led, bool now)
{
    int mpi_errno = MPI_SUCCESS;
    MPIDI_COMPOSITE_team_t *team;

    if (likely(!now))
        return led->is_poor;
    led->is_poor = true;
    MPIR_ERR_SET(mpi_errno, MPI_ERR_OTHER, "**nomem");
    note_error(led, mpi_errno);
    team = led->comm->node_comm ? MPIDI_COMPOSITE_team_of(led->comm->node_comm) : NULL;
    if (team)
        MPIDI_COMPOSITE_team_give_up(team, team->rank);
    return true;
}

/* ---- between hosts ---- */

/* `errflag` becomes what comes with it. */
static void wait_for_message(led_t * led, MPIR_Request * request, MPIR_Errflag_t * errflag)
{
    note_error(led, MPIC_Wait(request, errflag));
    /* After an error nothing must come to memory that is about to be freed, nor be sent from there. */
    if (request->kind == MPIR_REQUEST_KIND__RECV && !MPIR_Request_is_complete(request))
        MPID_Cancel_recv(request);
    if (unlikely(!MPIR_Request_is_complete(request)))
        led->is_held = true;
}

static void give_back(const led_t * led, void *memory)
{
    if (likely(!led->is_held))
        MPL_free(memory);
}

/* `bytes`: of a receive, which must be as many; -1: as they come. */
static void wait_for_bytes(led_t * led, MPIR_Request ** request, MPI_Aint bytes)
{
    if (*request == NULL)
        return;
    wait_for_message(led, *request, led->errflag);
    if ((*request)->kind == MPIR_REQUEST_KIND__RECV && MPIR_Request_is_complete(*request))
        note_error(led, (*request)->status.MPI_ERROR);
    if (bytes >= 0 && *led->errflag == MPIR_ERR_NONE && MPIR_STATUS_GET_COUNT((*request)->status) != bytes)
        note_error(led, other_size((size_t) MPIR_STATUS_GET_COUNT((*request)->status), (size_t) bytes));
    MPIR_Request_free(*request);
    *request = NULL;
}

static void wait_for(led_t * led, MPIR_Request ** request)
{
    wait_for_bytes(led, request, -1);
}

static void wait_for_all(led_t * led, MPIR_Request ** requests)
{
    for (int i = 0; i < led->tree.branches; i++)
        wait_for(led, &requests[i]);
}

static void begin_receive(led_t * led, void *data, MPI_Aint count, MPI_Datatype type, int place, int tag, MPIR_Request ** request)
{
    *request = NULL;
    note_error(led, MPIC_Irecv(data, led->is_poor ? 0 : count, type, speaker_at(led, place), tag, led->comm, request));
}

static void begin_send(led_t * led, const void *data, MPI_Aint count, MPI_Datatype type, int place, int tag, MPIR_Request ** request)
{
    *request = NULL;
    note_error(led, MPIC_Isend(data, led->is_poor ? 0 : count, type, speaker_at(led, place), tag, led->comm, request, led->errflag));
}

/* To all below; wait_for_all() afterwards. */
static void begin_telling(led_t * led, const void *data, MPI_Aint count, MPI_Datatype type, int tag, MPIR_Request ** requests)
{
    for (int i = 0; i < led->tree.branches; i++)
        begin_send(led, data, count, type, led->tree.below[i].place, tag, &requests[i]);
}

static void tell_above(led_t * led, const void *data, MPI_Aint count, MPI_Datatype type, int tag)
{
    MPIR_Request *request;

    begin_send(led, data, count, type, led->tree.parent, tag, &request);
    wait_for(led, &request);
}

/* What all below have, in the order of the tree, whatever comes first: so the result is the same in every run. `room` has a place for each
 * of them, `span` bytes apart; without one, nothing is reduced. */
static void hear_below(led_t * led, char *room, MPI_Aint span, void *sum, MPI_Aint count, MPI_Datatype type, MPI_Op op, int tag)
{
    MPIR_Request *requests[PM_BRANCHES_MAX];
    const MPI_Aint bytes = (MPI_Aint) data_of(sum, count, type).bytes;

    for (int i = 0; i < led->tree.branches; i++)
        begin_receive(led, room ? room + i * span : NULL, count, type, led->tree.below[i].place, tag, &requests[i]);
    for (int i = 0; i < led->tree.branches; i++) {
        wait_for_bytes(led, &requests[i], bytes);
        if (room && *led->errflag == MPIR_ERR_NONE)
            note_error(led, MPIR_Reduce_local(room + i * span, sum, count, type, op));
    }
}

/* Of two hosts, what each has for the other. end_swap() afterwards. */
typedef struct {
    MPIR_Request *heard, *told;
    MPI_Aint bytes;
} swap_t;

static void begin_swap(led_t * led, data_t mine, data_t others, int tag, swap_t * swap)
{
    begin_receive(led, others.buffer, others.count, others.type, !led->place, tag, &swap->heard);
    begin_send(led, mine.buffer, mine.count, mine.type, !led->place, tag, &swap->told);
    swap->bytes = (MPI_Aint) others.bytes;
}

static void end_swap(led_t * led, swap_t * swap)
{
    wait_for_bytes(led, &swap->heard, swap->bytes);
    wait_for(led, &swap->told);
}

/* What two hosts have, added up in the same order at both: that of the second to that of the first. `sum` is for it, and has that of the first; whoever
 * is second has its own in `room`. */
static void add_two(led_t * led, data_t sum, char *room, MPI_Op op, int tag)
{
    data_t apart = data_of(room, sum.count, sum.type);
    swap_t swap;

    if (led->place == 0)
        begin_swap(led, sum, apart, tag, &swap);
    else
        begin_swap(led, apart, sum, tag, &swap);
    end_swap(led, &swap);
    if (*led->errflag == MPIR_ERR_NONE)
        note_error(led, MPIR_Reduce_local(room, sum.buffer, sum.count, sum.type, op));
}

/* ---- inside a host ---- */

/* Others of our host wait for what will not come: they are told. */
static void tell_host_of_failure(led_t * led)
{
    MPIDI_COMPOSITE_team_t *team;

    if (likely(*led->errflag == MPIR_ERR_NONE) || !led->comm->node_comm || !led->speaks)
        return;
    team = MPIDI_COMPOSITE_COMM(led->comm->node_comm).team;
    if (team)
        MPIDI_COMPOSITE_team_give_up(team, team->rank);
}

/* After an error that leaves all ranks where they are others may get as many bytes as they do not expect: that is an error there, too, and their team
 * goes on. But only where they look on the board in either case; or, where there is none yet, in MPICH's way for what is short, which is the same for
 * both in a bcast. */
static bool may_tell_by_size(const led_t * led, pm_collective operation, size_t bytes, size_t other)
{
    const MPIDI_COMPOSITE_team_t *team = MPIDI_COMPOSITE_COMM(led->comm->node_comm).team;

    if (*led->errflag == MPIR_ERR_PROC_FAILED)
        return false;
    if (!team)
        return operation == PM_COLL_BCAST && bytes <= PM_TEAM_CARD;
    return pm_way_of(&team->ways[operation], bytes) == PM_BY_BOARD && pm_way_of(&team->ways[operation], other) == PM_BY_BOARD;
}

static void host_bcast(led_t * led, void *data, MPI_Aint count, MPI_Datatype type)
{
    char other[2] = { 0 };

    if (!led->comm->node_comm || led->is_poor)
        return;
    if (unlikely(*led->errflag != MPIR_ERR_NONE) && led->speaks) {
        size_t bytes = data_of(data, count, type).bytes;
        if (may_tell_by_size(led, PM_COLL_BCAST, bytes, sizeof other)) {
            count = bytes == 1 ? 2 : 1;
            data = other;
            type = MPI_BYTE;
        } else {
            tell_host_of_failure(led);
        }
    }
    note_error(led, MPIDI_NM_mpi_bcast(data, count, type, led->root, led->comm->node_comm, led->errflag));
}

/* Into `result` of who speaks. */
static void host_reduce(led_t * led, const void *sendbuf, void *result, MPI_Aint count, MPI_Datatype type, MPI_Op op)
{
    if (led->is_poor)
        return;
    if (led->comm->node_comm)
        note_error(led, MPIDI_NM_mpi_reduce(sendbuf, result, count, type, op, led->root, led->comm->node_comm, led->errflag));
    else if (sendbuf != MPI_IN_PLACE)
        note_error(led, MPIR_Localcopy(sendbuf, count, type, result, count, type));
}

/* ---- collectives ---- */

/* Two steps on the board: who speaks waits for all in the first, and all wait for it in the second. */
static int leaders_barrier(MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    led_t led;
    MPIDI_COMPOSITE_team_t *team = comm->node_comm ? MPIDI_COMPOSITE_team_of(comm->node_comm) : NULL;
    MPIR_Request *requests[PM_BRANCHES_MAX];
    char nothing = 0;
    swap_t swap;
    bool two;

    LEAD(&led, comm, -1, PM_FLAT, errflag);
    two = pair_up(&led);
    if (team) {
        team->collective = MPIDI_COMPOSITE_IN_BARRIER;
        note_error(&led, enter_with_nothing(team));
        if (led.speaks && !led.mpi_errno)
            note_error(&led, MPIDI_COMPOSITE_team_await_all(team));
    } else if (comm->node_comm) {
        note_error(&led, MPIR_Barrier_impl(comm->node_comm, errflag));
    }
    if (led.speaks) {
        if (two) {
            begin_swap(&led, data_of(NULL, 0, MPI_BYTE), data_of(NULL, 0, MPI_BYTE), MPIR_BARRIER_TAG, &swap);
            end_swap(&led, &swap);
        }
        hear_below(&led, NULL, 0, NULL, 0, MPI_BYTE, MPI_OP_NULL, MPIR_BARRIER_TAG);
        if (!is_first(&led)) {
            tell_above(&led, NULL, 0, MPI_BYTE, MPIR_BARRIER_TAG);
            note_error(&led, MPIC_Recv(NULL, 0, MPI_BYTE, speaker_at(&led, led.tree.parent), MPIR_BARRIER_TAG, comm, MPI_STATUS_IGNORE, errflag));
        }
        begin_telling(&led, NULL, 0, MPI_BYTE, MPIR_BARRIER_TAG, requests);
    }
    if (team) {
        tell_host_of_failure(&led);
        note_error(&led, enter_with_nothing(team));
        if (!led.speaks && !led.mpi_errno)
            note_error(&led, MPIDI_COMPOSITE_team_await(team, led.root));
    } else if (comm->node_comm) {
        note_error(&led, MPIR_Bcast_impl(&nothing, 1, MPI_BYTE, led.root, comm->node_comm, errflag));
    }
    if (led.speaks)
        wait_for_all(&led, requests);
    return led_to(&led);
}

/* As vectors(). */
static char *get_vectors(led_t * led, int number, MPI_Aint count, MPI_Datatype type, MPI_Aint * span, void **memory)
{
    char *room = vectors(number, count, type, span, memory);

    (void) turns_poor(led, !room);
    return room;
}

/* The operation must commute. */
static int leaders_allreduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op, MPIR_Comm * comm,
                             MPIR_Errflag_t * errflag)
{
    led_t led;
    MPIR_Request *requests[PM_BRANCHES_MAX], *heard;
    void *memory = NULL;
    char *room = NULL;
    MPI_Aint span = 0;
    bool two, apart;

    LEAD(&led, comm, -1, shape_for(count, type), errflag);
    two = pair_up(&led);
    apart = two && led.place == 1;
    if (led.speaks) {
        room = get_vectors(&led, two + led.tree.branches, count, type, &span, &memory);
        host_reduce(&led, apart && sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, apart ? room : recvbuf, count, type, op);
        if (two)
            add_two(&led, data_of(recvbuf, count, type), room, op, MPIR_ALLREDUCE_TAG);
        hear_below(&led, room, span, recvbuf, count, type, op, MPIR_ALLREDUCE_TAG);
        if (!is_first(&led)) {
            tell_above(&led, recvbuf, count, type, MPIR_ALLREDUCE_TAG);
            begin_receive(&led, recvbuf, count, type, led.tree.parent, MPIR_ALLREDUCE_TAG, &heard);
            wait_for_bytes(&led, &heard, (MPI_Aint) data_of(recvbuf, count, type).bytes);
        }
        begin_telling(&led, recvbuf, count, type, MPIR_ALLREDUCE_TAG, requests);
    } else {
        host_reduce(&led, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, NULL, count, type, op);
    }
    host_bcast(&led, recvbuf, count, type);
    if (led.speaks)
        wait_for_all(&led, requests);
    give_back(&led, memory);
    return led_to(&led);
}

static int leaders_reduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op, int root, MPIR_Comm * comm,
                          MPIR_Errflag_t * errflag)
{
    led_t led;
    void *memory = NULL;
    char *room, *result = recvbuf;
    MPI_Aint span = 0;

    LEAD(&led, comm, root, shape_for(count, type), errflag);
    if (led.speaks) {
        room = get_vectors(&led, led.tree.branches + 1, count, type, &span, &memory);
        if (comm->rank != root)
            result = room + led.tree.branches * span;
        host_reduce(&led, sendbuf, result, count, type, op);
        hear_below(&led, room, span, result, count, type, op, MPIR_REDUCE_TAG);
        if (!is_first(&led))
            tell_above(&led, result, count, type, MPIR_REDUCE_TAG);
    } else {
        host_reduce(&led, sendbuf, NULL, count, type, op);
    }
    give_back(&led, memory);
    return led_to(&led);
}

static data_t piece_on_way(char *flat, size_t bytes, size_t piece)
{
    size_t from = piece > 0 ? pm_piece_end(bytes, piece - 1) : 0;

    return data_of(flat + from, (MPI_Aint) (pm_piece_end(bytes, piece) - from), MPI_BYTE);
}

/* Of who is first, to all. Piece by piece: while one is passed on, and read on the host, the next one arrives. `here`: so many have come. */
static void spread(led_t * led, char *flat, size_t bytes, size_t here, int tag)
{
    MPIR_Request *told[2][PM_BRANCHES_MAX], *next = NULL, *now;
    const bool hears = led->speaks && !is_first(led);
    const size_t pieces = pm_pieces(bytes);

    for (int i = 0; i < led->tree.branches; i++)
        told[0][i] = told[1][i] = NULL;
    if (hears && here < pieces) {
        data_t first = piece_on_way(flat, bytes, here);
        begin_receive(led, first.plain, first.count, MPI_BYTE, led->tree.parent, tag, &next);
    }
    for (size_t i = 0; i < pieces; i++) {
        data_t piece = piece_on_way(flat, bytes, i);
        now = NULL;
        if (hears && i >= here) {
            now = next;
            next = NULL;
        }
        if (hears && i >= here && i + 1 < pieces) {
            data_t behind = piece_on_way(flat, bytes, i + 1);
            begin_receive(led, behind.plain, behind.count, MPI_BYTE, led->tree.parent, tag, &next);
        }
        wait_for_bytes(led, &now, piece.count);
        if (led->speaks) {
            wait_for_all(led, told[i % 2]);
            begin_telling(led, piece.plain, piece.count, MPI_BYTE, tag, told[i % 2]);
        }
        host_bcast(led, piece.plain, piece.count, MPI_BYTE);
    }
    wait_for_all(led, told[0]);
    wait_for_all(led, told[1]);
}

/* What goes before a broadcast in pieces, by a tree that is the same for all longer ones: who has another size knows what is on its way. It is marked as
 * an error, so that nobody takes it for data. */
typedef struct {
    uint64_t mark, bytes;
} prelude_t;

static const uint64_t prelude_mark = 0x70696563657320u;

/* `bytes` 0: that there are none, but an error. */
static void begin_prelude(led_t * led, const pm_tree * tree, const prelude_t * prelude, int tag, MPIR_Request ** requests)
{
    MPIR_Errflag_t errflag = prelude->bytes == 0 && *led->errflag == MPIR_ERR_PROC_FAILED ? MPIR_ERR_PROC_FAILED : MPIR_ERR_OTHER;

    for (int i = 0; i < tree->branches; i++) {
        requests[i] = NULL;
        note_error(led, MPIC_Isend(prelude, sizeof *prelude, MPI_BYTE, speaker_at(led, tree->below[i].place), tag, led->comm, &requests[i], &errflag));
    }
}

/* What comes first: all of a broadcast of one piece, or what goes before several. Answers how much comes in pieces behind it: 0 if nothing does. */
static size_t hear_first(led_t * led, char *flat, size_t bytes, const pm_tree * tree, int tag)
{
    const bool is_long = pm_pieces(bytes) > 1, apart = is_long || led->is_poor || bytes < sizeof(prelude_t);
    prelude_t prelude = { 0 };
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    MPIR_Request *request = NULL;
    MPI_Aint count;
    int told;

    note_error(led, MPIC_Irecv(apart ? (char *) &prelude : flat, apart ? sizeof prelude : (MPI_Aint) bytes, MPI_BYTE, speaker_at(led, tree->parent), tag,
                               led->comm, &request));
    if (request == NULL)
        return 0;
    wait_for_message(led, request, &errflag);
    told = MPIR_Request_is_complete(request) ? request->status.MPI_ERROR : MPI_SUCCESS;
    count = MPIR_STATUS_GET_COUNT(request->status);
    MPIR_Request_free(request);
    if (!apart && told == MPI_ERR_OTHER && count == sizeof prelude)
        memcpy(&prelude, flat, sizeof prelude);
    if (told == MPI_ERR_OTHER && count == sizeof prelude && prelude.mark == prelude_mark) {
        if (prelude.bytes != bytes)
            note_error(led, other_size(prelude.bytes, bytes));
        return prelude.bytes;
    }
    if (*led->errflag == MPIR_ERR_NONE)
        *led->errflag = errflag;
    note_error(led, told);
    if (*led->errflag != MPIR_ERR_NONE)
        return 0;
    if (count != (MPI_Aint) bytes)
        note_error(led, other_size((size_t) count, bytes));
    else if (apart)
        memcpy(flat, &prelude, bytes);
    return 0;
}

/* What has another size than ours goes by: those below hear of an error in each of its pieces, if it has several, and our host in each of ours. */
static void let_pass(led_t * led, char *flat, size_t bytes, size_t coming, int tag)
{
    const bool is_poor = led->is_poor;

    pm_tree_of(&led->leaders, led->place, pm_shape_of(coming, 1), &led->tree);
    led->is_poor = true;
    spread(led, NULL, coming, 0, tag);
    led->is_poor = is_poor;
    for (size_t i = 0; i < pm_pieces(bytes); i++)
        host_bcast(led, piece_on_way(flat, bytes, i).plain, piece_on_way(flat, bytes, i).count, MPI_BYTE);
}

/* As spread(), of who may expect another size. */
static void spread_unsure(led_t * led, char *flat, size_t bytes, int tag)
{
    MPIR_Request *told[PM_BRANCHES_MAX];
    const bool is_long = pm_pieces(bytes) > 1, hears = !is_first(led);
    prelude_t prelude = { prelude_mark, bytes };
    pm_tree tree = led->tree;

    if (is_long)
        pm_tree_of(&led->leaders, led->place, PM_BINOMIAL, &tree);
    if (hears)
        prelude.bytes = hear_first(led, flat, bytes, &tree, tag);
    if (!is_long && (!hears || prelude.bytes == 0)) {
        spread(led, flat, bytes, hears, tag);
        return;
    }
    if (!is_long)
        pm_tree_of(&led->leaders, led->place, PM_BINOMIAL, &tree);
    begin_prelude(led, &tree, &prelude, tag, told);
    if (prelude.bytes == bytes)
        spread(led, flat, bytes, 0, tag);
    else
        let_pass(led, flat, bytes, prelude.bytes, tag);
    for (int i = 0; i < tree.branches; i++)
        wait_for(led, &told[i]);
}

static int leaders_bcast(void *buffer, MPI_Aint count, MPI_Datatype type, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    led_t led;
    data_t data = data_of(buffer, count, type);
    char *flat, *packed = NULL;

    LEAD(&led, comm, root, pm_shape_of(data.bytes, 1), errflag);
    (void) turns_poor(&led, flatten(&data, comm->rank == root, &flat, &packed) != MPI_SUCCESS);
    if (led.speaks && data.bytes)
        spread_unsure(&led, flat, data.bytes, MPIR_BCAST_TAG);
    else
        spread(&led, flat, data.bytes, 0, MPIR_BCAST_TAG);
    if (packed && comm->rank != root && !led.is_poor)
        note_error(&led, copy_to(&data, packed));
    give_back(&led, packed);
    return led_to(&led);
}

#endif
