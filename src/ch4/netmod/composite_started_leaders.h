/* Collectives of several hosts that end later, by leaders (composite_led.h). For composite_started.c.
 *
 * There is one machine for all of them. Who speaks for a host hears its ranks and the leaders below, tells the one above, hears what comes back,
 * and tells the leaders below and its ranks. Each of these stages is a few requests, and the next one begins, in whatever makes progress, when all
 * of them are complete. Other ranks have their part on their host alone.
 *
 * Inside a host it goes by two boards of its team, one up and one down, on each in the order of starting: what is said down has its turn from the
 * beginning, and is held until there is something to say. Without a team it goes by messages, to who speaks and from there.
 *
 * Each stage is taken after an error, too, and tells others of it: so nobody waits for what will not come. */
#ifndef COMPOSITE_STARTED_LEADERS_H_INCLUDED
#define COMPOSITE_STARTED_LEADERS_H_INCLUDED

#include "composite_led.h"
#include "utlist.h"

/* What goes up, or down. */
typedef enum {
    NOT_AT_ALL,
    NOTHING,                    /* but that all are here */
    ONE,                        /* the sum of all, or the same for all */
    BLOCKS                      /* each has its own */
} cargo_t;

typedef struct {
    MPIR_Request *request;
    MPI_Aint bytes;             /* that must come; -1: none do */
} pending_t;

/* Of an alltoall: what goes to other hosts and comes from them. */
typedef struct {
    char *memory;
    char *going, *coming;
    size_t *begin;              /* by host, in both */
} between_t;

typedef enum { HEARING, ABOVE, TELLING, ENDING, ENDED } stage_t;

typedef struct later {
    struct later *prev, *next;
    MPIR_Request *request;
    led_t led;
    int *led_memory;
    MPIR_Errflag_t errflag;
    int tag;
    stage_t stage;              /* that comes next */
    cargo_t up, down;
    team_t *up_team, *down_team;        /* NULL: messages inside the host */
    op_t *held;                 /* what is said to the host; gone when `told` is complete */
    MPIR_Request *told;
    pending_t *pending;
    int pendings;

    data_t own;                 /* what we put in, */
    bool in_place;              /* which is where it belongs */
    data_t one;
    MPI_Op op;
    char *room;                 /* for what is heard and added: of ranks of the host without a team, and of leaders below */
    MPI_Aint span;
    void *memory;
    parts_t all;
    void *kept;                 /* its counts and displacements */
    blocks_t blocks;
    char *up_flat, *down_flat;  /* where they are on their way */
    bool takes;                 /* all of them */
    data_t result;              /* where our block goes, */
    bool has_result;            /* unless it is there; or what is packed on its way */
    char *packed;
    between_t between;
    bool exchanges;
    bool meets;                 /* of two hosts: each tells the other */
    bool scans, inclusive;      /* rank 0 adds up what all have put in, for each */
} later_t;

/* For a rank that finds no memory: enough to tell others. It is one: who finds it taken tells its own host only. */
static struct {
    later_t *later;
    int *led_memory;
    pending_t *pending;
    bool is_taken;
} reserve;

static later_t *laters;         /* in the order of starting; changes under the lock */
static int hook;

/* ---- requests ---- */

static void await(later_t * it, MPIR_Request * request, MPI_Aint bytes)
{
    if (request)
        it->pending[it->pendings++] = (pending_t) { request, bytes };
}

static void await_message(later_t * it, data_t data, int rank)
{
    MPIR_Request *request = NULL;

    note_error(&it->led, MPIC_Irecv(data.buffer, data.count, data.type, rank, it->tag, it->led.comm, &request));
    await(it, request, (MPI_Aint) data.bytes);
}

static void send_message(later_t * it, data_t data, int rank)
{
    MPIR_Request *request = NULL;

    note_error(&it->led, MPIC_Isend(data.buffer, data.count, data.type, rank, it->tag, it->led.comm, &request, &it->errflag));
    await(it, request, -1);
}

static bool are_complete(const later_t * it)
{
    for (int i = 0; i < it->pendings; i++)
        if (!MPIR_Request_is_complete(it->pending[i].request))
            return false;
    return true;
}

static void take_results(later_t * it)
{
    for (int i = 0; i < it->pendings; i++) {
        MPIR_Request *request = it->pending[i].request;
        MPI_Aint bytes = it->pending[i].bytes;
        if (request->kind == MPIR_REQUEST_KIND__RECV)
            MPIR_Process_status(&request->status, &it->errflag);
        if (request->kind != MPIR_REQUEST_KIND__SEND)
            note_error(&it->led, request->status.MPI_ERROR);
        if (bytes >= 0 && it->errflag == MPIR_ERR_NONE && MPIR_STATUS_GET_COUNT(request->status) != bytes)
            note_error(&it->led, other_size((size_t) MPIR_STATUS_GET_COUNT(request->status), (size_t) bytes));
        MPIR_Request_free(request);
    }
    it->pendings = 0;
}

/* ---- what is on its way ---- */

static data_t bytes_at(char *flat, size_t from, size_t to)
{
    return data_of(flat + from, (MPI_Aint) (to - from), MPI_BYTE);
}

/* Of the hosts at these places. */
static data_t of_places(const later_t * it, cargo_t cargo, int first, int end)
{
    const blocks_t *blocks = &it->blocks;

    if (cargo == NOTHING)
        return data_of(NULL, 0, MPI_BYTE);
    return cargo == ONE ? it->one : bytes_at(blocks->flat, blocks->hosts[first], blocks->hosts[end]);
}

static data_t of_rank(const later_t * it, cargo_t cargo, char *flat, int rank)
{
    if (cargo != BLOCKS)
        return of_places(it, cargo, 0, 0);
    return bytes_at(flat, it->blocks.ranks[rank], it->blocks.ranks[rank] + part_of(&it->all, rank).bytes);
}

/* What is added is heard apart. */
static data_t room_at(const later_t * it, int index, data_t otherwise)
{
    return it->up == ONE ? data_of(it->room + index * it->span, it->one.count, it->one.type) : otherwise;
}

/* ---- inside a host ---- */

/* The next other rank of our host behind this one; -1: there is none. */
static int next_local(const later_t * it, int rank)
{
    const MPIR_Comm *comm = it->led.comm;

    while (++rank < comm->local_size)
        if (comm->internode_table[rank] == it->led.host && rank != comm->rank)
            return rank;
    return -1;
}

static int locals(const MPIR_Comm * comm)
{
    return comm->node_comm ? comm->node_comm->local_size - 1 : 0;
}

static MPIDI_COMPOSITE_collective_t collective_of_host(const later_t * it, bool up)
{
    if ((up ? it->up : it->down) == BLOCKS)
        return up ? (it->all.counts ? MPIDI_COMPOSITE_IN_GATHERV : MPIDI_COMPOSITE_IN_GATHER) :
            it->all.counts ? MPIDI_COMPOSITE_IN_SCATTERV : MPIDI_COMPOSITE_IN_SCATTER;
    return !up ? MPIDI_COMPOSITE_IN_BCAST : it->up == ONE ? MPIDI_COMPOSITE_IN_REDUCE : MPIDI_COMPOSITE_IN_GATHER;
}

/* The board of a host for what goes up; behind it is the one for what goes down. A persistent request has one for both. */
static team_t *first_team(MPIR_Comm * host)
{
    team_t *team = host && MPIDI_COMPOSITE_COMM(host).team_is_known ? MPIDI_COMPOSITE_COMM(host).team : NULL;

    return of_request ? of_request->team : team ? team->second : NULL;
}

/* That goes up or down, if it does it; all ranks of the host answer the same. */
static team_t *team_of_host(const later_t * it, bool up)
{
    cargo_t cargo = up ? it->up : it->down;
    MPIR_Comm *host = it->led.comm->node_comm;
    MPIDI_COMPOSITE_collective_t collective = collective_of_host(it, up);
    team_t *team;
    data_t part = cargo == ONE ? it->one : data_of(NULL, 0, MPI_BYTE);
    pm_way way;

    if (cargo == NOT_AT_ALL || !host)
        return NULL;
    team = first_team(host);
    if (!team)
        return NULL;
    if (!up && !of_request)
        team = team->second;
    if (cargo == BLOCKS)
        part = part_of(&it->all, it->led.comm->rank);
    if (!up && cargo == ONE && it->one.bytes && !it->one.plain)
        return NULL;            /* would be packed before it is there */
    way = way_for(team, collective, part.count, part.type, it->op);
    if (way == PM_BY_MESSAGES)
        return NULL;
    MPIDI_COMPOSITE_coll_counts[collective][way]++;
    return team;
}

/* On the board of the team. Answers the request, which is ours. */
static op_t *make_op_of_host(later_t * it, bool up, MPIR_Request ** request)
{
    team_t *team = up ? it->up_team : it->down_team;
    op_t *op = make_op(it->led.comm->node_comm, team, collective_of_host(it, up), it->led.root, request);

    if (!op)
        note_error(&it->led, cannot_start(team));
    return op;
}

/* Blocks of the host, at who speaks. NULL in `*counts`: they are equal. */
static parts_t host_blocks(later_t * it, char *flat, MPI_Aint ** counts)
{
    char *first = flat + it->blocks.hosts[it->led.place];
    MPI_Aint *places;

    *counts = NULL;
    if (!it->all.counts)
        return equal_parts(first, (MPI_Aint) part_of(&it->all, 0).bytes, MPI_BYTE);
    *counts = host_counts(&it->led, &it->blocks, &it->all);
    if (!*counts) {
        note_error(&it->led, no_memory());
        return equal_parts(first, 0, MPI_BYTE);
    }
    places = *counts + it->led.comm->node_comm->local_size;
    return parts_of(first, *counts, places, MPI_BYTE);
}

static void gather_on_board(later_t * it, op_t * op)
{
    bool is_there = it->in_place && it->led.speaks && !it->blocks.copy && it->up == BLOCKS;
    MPI_Aint *counts = NULL;
    parts_t to = equal_parts(NULL, 0, MPI_BYTE);

    if (it->up == BLOCKS && it->led.speaks)
        to = host_blocks(it, it->up_flat, &counts);
    note_error(&it->led, start_to_gather(it->up_team, op, is_there ? MPI_IN_PLACE : it->own.buffer, it->own.count, it->own.type,
                                         it->led.speaks ? &to : NULL));
    MPL_free(counts);
}

static void say_on_board(later_t * it)
{
    MPIR_Request *request = NULL;
    op_t *op;

    if (it->led.is_poor)
        return;                 /* the team is given up */
    op = make_op_of_host(it, true, &request);
    if (op && it->up == ONE)
        note_error(&it->led, start_to_add(it->up_team, op, it->led.speaks && it->in_place ? MPI_IN_PLACE : it->own.buffer,
                                          it->led.speaks ? it->one.buffer : NULL, it->one.count, it->one.type, it->op, it->up_team->ranks - 1));
    else if (op)
        gather_on_board(it, op);
    await(it, request, -1);
}

/* Each rank: what it is told is held. */
static void hear_on_board(later_t * it)
{
    op_t *op = it->led.is_poor ? NULL : make_op_of_host(it, false, &it->told);
    MPI_Aint *counts = NULL;
    parts_t from = equal_parts(NULL, 0, MPI_BYTE);

    if (!op)
        return;
    it->held = op;
    op->held = it->led.speaks;
    if (it->down != BLOCKS) {
        note_error(&it->led, start_bcast(it->down_team, op, it->down == ONE ? it->one : data_of(NULL, 0, MPI_BYTE)));
        return;
    }
    if (it->led.speaks)
        from = host_blocks(it, it->down_flat, &counts);
    note_error(&it->led, start_to_scatter(it->down_team, op, it->led.speaks ? &from : NULL, it->has_result ? it->result.buffer : MPI_IN_PLACE,
                                          it->result.count, it->result.type));
    MPL_free(counts);
}

/* Who speaks has what it holds, or tells that it will not have it. */
static void tell_on_board(later_t * it)
{
    if (!it->told)
        return;
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    if (MPIR_Request_is_complete(it->told)) {
        /* It has failed, and its team may be gone. */
    } else if (it->errflag != MPIR_ERR_NONE) {
        MPIDI_COMPOSITE_team_give_up(it->down_team, it->down_team->rank);
        MPIDI_COMPOSITE_attend_started();
    } else {
        it->held->held = false;
        (void) MPIDI_COMPOSITE_advance_started();
    }
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    await(it, it->told, -1);
}

/* What we put in, for ourselves. */
static void put_in_own(later_t * it)
{
    data_t to = of_rank(it, it->up, it->up_flat, it->led.comm->rank);

    if (it->up == ONE && !it->in_place)
        note_error(&it->led, copy_between(&it->own, &it->one));
    else if (it->up == BLOCKS && it->own.bytes != to.bytes)
        note_error(&it->led, other_size(it->own.bytes, to.bytes));
    else if (it->up == BLOCKS && !(it->in_place && !it->blocks.copy))
        note_error(&it->led, copy_from(&it->own, to.plain));
}

/* ---- an alltoall ---- */

static void begin_between(later_t * it)
{
    const led_t *led = &it->led;
    const between_t *between = &it->between;
    int hosts = led->leaders.hosts;
    char *out = it->up_flat + it->blocks.hosts[led->place];
    size_t block = it->result.bytes / (size_t) led->comm->local_size;

    for (int i = 1; i < hosts; i++) {
        int place = (led->place + hosts - i) % hosts, host = led->leaders.host[place];
        await_message(it, bytes_at(between->coming, between->begin[host], between->begin[host + 1]), speaker_at(led, place));
    }
    for (int i = 1; i < hosts; i++) {
        int place = (led->place + i) % hosts, host = led->leaders.host[place];
        sort_blocks(led, host, block, out, between->going + between->begin[host], false);
        send_message(it, bytes_at(between->going, between->begin[host], between->begin[host + 1]), speaker_at(led, place));
    }
    sort_blocks(led, led->host, block, out, between->coming + between->begin[led->host], false);
}

static void exchange_errors(later_t * it)
{
    const led_t *led = &it->led;

    for (int place = 0; place < led->leaders.hosts; place++)
        if (place != led->place) {
            await_message(it, data_of(NULL, 0, MPI_BYTE), speaker_at(led, place));
            send_message(it, data_of(NULL, 0, MPI_BYTE), speaker_at(led, place));
        }
}

static void end_between(later_t * it)
{
    const led_t *led = &it->led;
    char *in = it->down_flat + it->blocks.hosts[led->place];
    size_t block = it->result.bytes / (size_t) led->comm->local_size;

    for (int host = 0; host < led->leaders.hosts; host++)
        sort_blocks(led, host, block, in, it->between.coming + it->between.begin[host], true);
}

/* ---- stages of who speaks ---- */

static void hear_all(later_t * it)
{
    const pm_tree *tree = &it->led.tree;
    int index = 0;

    if (it->up != NOT_AT_ALL) {
        if (it->up_team)
            say_on_board(it);
        else
            put_in_own(it);
        for (int rank = it->up_team ? -1 : next_local(it, -1); rank >= 0; rank = next_local(it, rank), index++)
            await_message(it, room_at(it, index, of_rank(it, it->up, it->up_flat, rank)), rank);
        for (int i = 0; i < (it->exchanges ? 0 : tree->branches); i++, index++)
            await_message(it, room_at(it, index, of_places(it, it->up, tree->below[i].place, tree->below[i].end)),
                          speaker_at(&it->led, tree->below[i].place));
    }
    if (it->down_team)
        hear_on_board(it);
}

/* Rooms of what is heard below, and of the host without a team; behind them, that of another host. */
static int last_room(const later_t * it)
{
    return it->led.tree.branches + (it->up_team ? 0 : locals(it->led.comm));
}

/* In the order of the tree, whoever came first: so the result is the same in every run. */
static void add_all(later_t * it)
{
    int rooms = last_room(it);

    for (int i = 0; it->up == ONE && i < rooms && it->errflag == MPIR_ERR_NONE; i++)
        note_error(&it->led, MPIR_Reduce_local(it->room + i * it->span, it->one.buffer, it->one.count, it->one.type, it->op));
}

/* Of two hosts: each tells the other what it has. What is added is apart from the sum, which has that of the first, as in add_two(). */
static void meet(later_t * it)
{
    const int place = it->led.place, other = speaker_at(&it->led, !place);
    data_t mine = of_places(it, it->up, place, place + 1), others = of_places(it, it->up, !place, !place + 1);

    if (it->up == ONE) {
        data_t *apart = place == 0 ? &others : &mine;
        *apart = data_of(it->room + last_room(it) * it->span, it->one.count, it->one.type);
        if (place == 1)
            note_error(&it->led, copy_between(&it->one, apart));
    }
    await_message(it, others, other);
    send_message(it, mine, other);
}

static void speak_above(later_t * it)
{
    const led_t *led = &it->led;

    add_all(it);
    if (it->meets) {
        meet(it);
        return;
    }
    if (it->exchanges) {
        (it->led.is_poor ? exchange_errors : begin_between) (it);
        return;
    }
    if (is_first(led))
        return;
    if (it->up != NOT_AT_ALL)
        send_message(it, of_places(it, it->up, led->place, end_below(led)), speaker_at(led, led->tree.parent));
    if (it->down != NOT_AT_ALL)
        await_message(it, of_places(it, it->down, led->place, end_below(led)), speaker_at(led, led->tree.parent));
}

/* From where they have come to where they are sorted, and there. */
static void scan_all(later_t * it)
{
    take_blocks(&it->led, &it->all, &it->blocks, -1);
    if (it->errflag == MPIR_ERR_NONE)
        note_error(&it->led, scan_blocks(&it->all, it->led.comm->local_size, it->op, it->inclusive));
}

static void tell_all(later_t * it)
{
    const led_t *led = &it->led;
    const pm_tree *tree = &led->tree;

    if (it->down == NOT_AT_ALL)
        return;
    if (it->exchanges && !it->led.is_poor)
        end_between(it);
    if (it->meets && it->up == ONE && it->errflag == MPIR_ERR_NONE)
        note_error(&it->led, MPIR_Reduce_local(it->room + last_room(it) * it->span, it->one.buffer, it->one.count, it->one.type, it->op));
    if (it->scans && is_first(led))
        scan_all(it);
    for (int rank = 0; it->down == BLOCKS && !it->exchanges && is_first(led) && it->blocks.copy && rank < led->comm->local_size; rank++) {
        data_t part = part_of(&it->all, rank);
        note_error(&it->led, copy_from(&part, it->blocks.flat + it->blocks.ranks[rank]));
    }
    for (int i = 0; i < (it->exchanges ? 0 : tree->branches); i++)
        send_message(it, of_places(it, it->down, tree->below[i].place, tree->below[i].end), speaker_at(led, tree->below[i].place));
    if (it->down_team) {
        tell_on_board(it);
        return;
    }
    for (int rank = next_local(it, -1); rank >= 0; rank = next_local(it, rank))
        send_message(it, of_rank(it, it->down, it->down_flat, rank), rank);
    if (it->down == BLOCKS && it->has_result && it->errflag == MPIR_ERR_NONE) {
        data_t mine = of_rank(it, BLOCKS, it->down_flat, led->comm->rank);
        if (mine.bytes != it->result.bytes)
            note_error(&it->led, other_size(it->result.bytes, mine.bytes));
        else
            note_error(&it->led, copy_to(&it->result, mine.plain));
    }
}

/* ---- of all ranks ---- */

static void say_to_host(later_t * it)
{
    if (it->up_team)
        say_on_board(it);
    else if (it->up != NOT_AT_ALL)
        send_message(it, it->up == NOTHING ? data_of(NULL, 0, MPI_BYTE) : it->own, it->led.speakers[it->led.host]);
    if (it->down_team) {
        hear_on_board(it);
        await(it, it->told, -1);
    }
}

static void hear_from_host(later_t * it)
{
    if (it->down != NOT_AT_ALL && !it->down_team)
        await_message(it, it->down == BLOCKS ? it->result : of_places(it, it->down, 0, 0), it->led.speakers[it->led.host]);
}

static void finish(later_t * it)
{
    if (it->errflag != MPIR_ERR_NONE)
        return;
    if (it->takes)
        take_blocks(&it->led, &it->all, &it->blocks, it->in_place ? it->led.comm->rank : -1);
    if (it->packed && it->has_result)
        note_error(&it->led, copy_to(&it->result, it->packed));
}

/* As far as it goes. */
static bool has_ended(later_t * it)
{
    while (it->stage != ENDED && are_complete(it)) {
        take_results(it);
        switch (it->stage++) {
            case HEARING:
                (it->led.speaks ? hear_all : say_to_host) (it);
                break;
            case ABOVE:
                (it->led.speaks ? speak_above : hear_from_host) (it);
                break;
            case TELLING:
                if (it->led.speaks)
                    tell_all(it);
                break;
            default:
                finish(it);
        }
    }
    return it->stage == ENDED;
}

static void free_later(later_t * it)
{
    bool give_back = false;

    MPIR_Datatype_release_if_not_builtin(it->own.type);
    MPIR_Datatype_release_if_not_builtin(it->one.type);
    MPIR_Datatype_release_if_not_builtin(it->result.type);
    MPIR_Datatype_release_if_not_builtin(it->all.type);
    if (it->op != MPI_OP_NULL)
        MPIR_Op_release_if_not_builtin(it->op);
    MPL_free(it->blocks.copy);
    MPL_free(it->blocks.hosts);
    MPL_free(it->between.memory);
    MPL_free(it->memory);
    MPL_free(it->kept);
    MPL_free(it->packed);
    if (it->pending && it->pending == reserve.pending)
        give_back = true;
    else
        MPL_free(it->pending);
    if (it->led_memory != reserve.led_memory)
        MPL_free(it->led_memory);
    if (it != reserve.later)
        MPL_free(it);
    if (give_back)
        __atomic_clear(&reserve.is_taken, __ATOMIC_RELEASE);
}

static void end_later(later_t * it)
{
    MPIR_Request *request = it->request;
    MPIR_Comm *comm = it->led.comm;

    if (request)
        request->status.MPI_ERROR = led_to(&it->led);
    free_later(it);
    if (!request) {
        (void) MPIR_Comm_release(comm);
        return;
    }
    /* Who sees it complete sees what came with it. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
    MPIR_Request_complete(request);
}

static later_t *next_of(later_t * it)
{
    later_t *next;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    next = it ? it->next : laters;
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return next;
}

static void remove_later(later_t * it)
{
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    DL_DELETE(laters, it);
    if (!laters)
        MPIR_Progress_hook_deactivate(hook);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

/* Whoever makes progress; one thread at a time, and others need not wait for it. But it may wait for the lock that they take again and again:
 * who finds it busy for long stays away for a while. */
static int advance_laters(int *made_progress)
{
    static bool is_busy;
    static __thread int found_busy;

    if (__atomic_test_and_set(&is_busy, __ATOMIC_ACQUIRE)) {
        if (++found_busy % PM_FOUND_BUSY == 0)
            nanosleep(&(struct timespec) { .tv_nsec = 50000 }, NULL);
        return MPI_SUCCESS;
    }
    found_busy = 0;
    for (later_t * it = next_of(NULL), *next; it; it = next) {
        bool ended = has_ended(it);
        next = next_of(it);
        if (!ended)
            continue;
        remove_later(it);
        end_later(it);
        *made_progress = 1;
    }
    __atomic_clear(&is_busy, __ATOMIC_RELEASE);
    return MPI_SUCCESS;
}

static bool laters_have_news(void)
{
    for (later_t * it = laters; it; it = it->next)
        if (are_complete(it))
            return true;
    return false;
}

/* ---- starting ---- */

/* Whether leaders do it, which all ranks answer the same. `count` of each rank, or of all where they differ. */
static bool is_led(MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective, MPI_Aint count, MPI_Datatype type, MPI_Op op)
{
    const plan_t *plan = &plans[collective];
    bool is_of_each = collective == MPIDI_COMPOSITE_IN_GATHER || collective == MPIDI_COMPOSITE_IN_SCATTER ||
        collective == MPIDI_COMPOSITE_IN_ALLGATHER || collective == MPIDI_COMPOSITE_IN_ALLTOALL ||
        collective == MPIDI_COMPOSITE_IN_REDUCE_SCATTER_BLOCK || plan->operation == PM_COLL_SCAN;
    size_t bytes;

    if (MPIDI_COMPOSITE_COMM(comm).team || !has_hosts(comm))
        return false;
    if (of_request)
        return true;            /* was asked when it was made */
    bytes = bytes_of(count, type) * (size_t) (is_of_each ? comm->local_size : 1);
    if (plan->unknown || *algorithms[collective].chosen != algorithms[collective].none || (plan->adds && plan->operation != PM_COLL_SCAN && !MPIR_Op_is_commutative(op)))
        return false;
    if (plan->operation == PM_COLL_SCAN && !may_scan_blocks(count, type))
        return false;
    /* As those that are waited for. */
    if (!have_use_of_leaders(comm, plan->operation) || ((plan->operation == PM_COLL_ALLTOALL || plan->operation == PM_COLL_REDUCE_SCATTER) && bytes == 0))
        return false;
    return MPIDI_COMPOSITE_by_leaders(collective, bytes) && (plan->operation != PM_COLL_BCAST || bytes < PM_LEADERS_CHAIN);
}

static int get_reserve(void)
{
    int hosts = MPIR_Process.num_nodes;

    if (hosts < 2)
        return PM_OK;
    reserve.later = MPL_malloc(sizeof *reserve.later, MPL_MEM_COLL);
    reserve.led_memory = MPL_malloc(sizeof(int) * (pm_leaders_ints(hosts) + 2 * (size_t) hosts), MPL_MEM_COLL);
    reserve.pending = MPL_malloc(sizeof *reserve.pending * (size_t) (PM_BRANCHES_MAX + MPIR_Process.size + 2 * hosts + 4), MPL_MEM_COLL);
    return reserve.later && reserve.led_memory && reserve.pending ? PM_OK : PM_FAILED;
}

static void free_reserve(void)
{
    MPL_free(reserve.later);
    MPL_free(reserve.led_memory);
    MPL_free(reserve.pending);
}

static bool take_reserve(void)
{
    return reserve.later && !__atomic_test_and_set(&reserve.is_taken, __ATOMIC_ACQUIRE);
}

/* There is no memory: our host is told, on the boards where we would have our turn. */
static int cannot_be_led(MPIR_Comm * comm)
{
    for (team_t * team = first_team(comm->node_comm); team; team = of_request ? NULL : team->second)
        (void) cannot_start(team);
    return no_memory();
}

/* The tag comes first: all ranks count them. */
static later_t *make_later(MPIR_Comm * comm, int root, pm_shape shape, cargo_t up, cargo_t down, int *mpi_errno)
{
    int tag = 0;
    later_t *it;

    *mpi_errno = of_request ? MPI_SUCCESS : MPIR_Sched_next_tag(comm, &tag);
    if (*mpi_errno)
        return NULL;
    it = MPL_calloc(1, sizeof *it, MPL_MEM_COLL);
    if (it)
        it->led_memory = MPL_malloc(lead_bytes(comm), MPL_MEM_COLL);
    if (!it || !it->led_memory) {
        MPL_free(it);
        it = take_reserve() ? memset(reserve.later, 0, sizeof *it) : NULL;
        *mpi_errno = it ? no_memory() : cannot_be_led(comm);
        if (!it)
            return NULL;
        it->led_memory = reserve.led_memory;
        it->pending = reserve.pending;
    }
    it->tag = of_request ? of_request->tag : tag;
    it->up = up;
    it->down = down;
    it->op = MPI_OP_NULL;
    it->own = it->one = it->result = data_of(NULL, 0, MPI_BYTE);
    it->all.type = MPI_BYTE;
    lead(&it->led, comm, root, shape, &it->errflag, it->led_memory);
    return it;
}

/* The user may free them meanwhile. */
static void hold_what_it_needs(const later_t * it)
{
    MPIR_Datatype_add_ref_if_not_builtin(it->own.type);
    MPIR_Datatype_add_ref_if_not_builtin(it->one.type);
    MPIR_Datatype_add_ref_if_not_builtin(it->result.type);
    MPIR_Datatype_add_ref_if_not_builtin(it->all.type);
    if (it->op != MPI_OP_NULL)
        MPIR_Op_add_ref_if_not_builtin(it->op);
}

/* Of what is reduced at who speaks: room for what it hears, and for the sum if that has no place. */
static int make_room_to_add(later_t * it, bool has_place)
{
    int rooms = last_room(it) + it->meets;

    if (it->up != ONE || !it->led.speaks)
        return MPI_SUCCESS;
    it->room = vectors(rooms + !has_place, it->one.count, it->one.type, &it->span, &it->memory);
    if (!it->memory)
        return no_memory();
    if (!has_place)
        it->one = data_of(it->room + rooms * it->span, it->one.count, it->one.type);
    return MPI_SUCCESS;
}

static int get_pending(later_t * it)
{
    if (!it->pending)
        it->pending = MPL_malloc(sizeof *it->pending * (size_t) (it->led.tree.branches + locals(it->led.comm) + 2 * it->led.leaders.hosts + 4),
                                 MPL_MEM_COLL);
    return it->pending ? MPI_SUCCESS : no_memory();
}

static void advance_it(later_t * it)
{
    if (has_ended(it)) {
        end_later(it);
        return;
    }
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    DL_APPEND(laters, it);
    MPIR_Progress_hook_activate(hook);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

/* What cannot be started here goes through all stages without anything but the error. */
static void tell_without_memory(later_t * it, int mpi_errno)
{
    if (get_pending(it) != MPI_SUCCESS) {
        if (!take_reserve()) {
            free_later(it);
            return;
        }
        it->pending = reserve.pending;
    }
    it->led.is_poor = true;
    note_error(&it->led, mpi_errno);
    it->up = it->up == NOT_AT_ALL ? NOT_AT_ALL : NOTHING;
    it->down = it->down == NOT_AT_ALL ? NOT_AT_ALL : NOTHING;
    it->scans = it->takes = it->has_result = false;
    MPIR_Comm_add_ref(it->led.comm);
    advance_it(it);
}

/* Whatever `mpi_errno` says went wrong before; then it is not started. */
static int start_later(later_t * it, MPIDI_COMPOSITE_collective_t collective, int mpi_errno, MPIR_Request ** request)
{
    MPIR_Comm *comm;

    if (!it)
        return mpi_errno;
    comm = it->led.comm;
    hold_what_it_needs(it);
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = get_pending(it);
    if (mpi_errno == MPI_SUCCESS) {
        it->request = MPIR_Request_create(MPIR_REQUEST_KIND__COLL);
        mpi_errno = it->request ? MPI_SUCCESS : no_memory();
    }
    if (mpi_errno) {
        tell_without_memory(it, mpi_errno);
        (void) cannot_be_led(comm);
        return mpi_errno;
    }
    *request = it->request;
    MPIR_Request_add_ref(*request);     /* given back when it is complete */
    (*request)->comm = comm;
    MPIR_Comm_add_ref(comm);
    MPIDI_COMPOSITE_coll_counts[collective][PM_BY_LEADERS]++;
    advance_it(it);
    return MPI_SUCCESS;
}

static void choose_teams(later_t * it)
{
    it->up_team = team_of_host(it, true);
    it->down_team = team_of_host(it, false);
}

/* ---- the calls ---- */

static int led_ibarrier(MPIR_Comm * comm, MPIR_Request ** request)
{
    int mpi_errno;
    later_t *it = make_later(comm, -1, PM_FLAT, NOTHING, NOTHING, &mpi_errno);

    if (it) {
        it->meets = pair_up(&it->led);
        choose_teams(it);
    }
    return start_later(it, MPIDI_COMPOSITE_IN_BARRIER, mpi_errno, request);
}

static int led_ibcast(void *buffer, MPI_Aint count, MPI_Datatype type, int root, MPIR_Comm * comm, MPIR_Request ** request)
{
    int mpi_errno;
    data_t data = data_of(buffer, count, type);
    char *flat;
    later_t *it = make_later(comm, root, pm_shape_of(data.bytes, 0), NOT_AT_ALL, ONE, &mpi_errno);

    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = flatten(&data, comm->rank == root, &flat, &it->packed);
    if (it) {
        it->one = bytes_at(mpi_errno ? (char *) it : flat, 0, data.bytes);      /* it is plain, in either case */
        it->result = data;
        it->has_result = comm->rank != root;
        choose_teams(it);
    }
    return start_later(it, MPIDI_COMPOSITE_IN_BCAST, mpi_errno, request);
}

/* To the root, which speaks for its host; to all if there is none. */
static int led_ireduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op, int root, MPIR_Comm * comm,
                       MPIR_Request ** request)
{
    int mpi_errno;
    bool to_all = root < 0, has_place = to_all || comm->rank == root;
    later_t *it = make_later(comm, root, shape_for(count, type), ONE, to_all ? ONE : NOT_AT_ALL, &mpi_errno);

    if (it) {
        it->in_place = sendbuf == MPI_IN_PLACE;
        it->own = data_of(it->in_place ? recvbuf : sendbuf, count, type);
        it->one = data_of(has_place ? recvbuf : NULL, count, type);
        it->op = op;
        it->meets = to_all && pair_up(&it->led);
        choose_teams(it);
    }
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = make_room_to_add(it, has_place);
    return start_later(it, to_all ? MPIDI_COMPOSITE_IN_ALLREDUCE : MPIDI_COMPOSITE_IN_REDUCE, mpi_errno, request);
}

static int lay_out(later_t * it)
{
    size_t *memory = MPL_malloc(layout_bytes(&it->led), MPL_MEM_COLL);

    if (!memory)
        return no_memory();
    lay_out_blocks(&it->led, &it->all, &it->blocks, memory);
    return MPI_SUCCESS;
}

/* Where blocks are on their way; `has_all`: here all of them are. */
static int make_way(later_t * it, bool has_all)
{
    int mpi_errno = lay_out(it);

    if (mpi_errno != MPI_SUCCESS)
        return mpi_errno;
    if (!(has_all ? find_room(&it->led, &it->all, &it->blocks) : !it->led.speaks || make_room(&it->blocks, it->led.place, end_below(&it->led))))
        return no_memory();
    it->up_flat = it->down_flat = it->blocks.flat;
    return MPI_SUCCESS;
}

static int keep_all(later_t * it, const parts_t * all)
{
    it->all = *all;
    return all->counts ? keep(&it->all, it->led.comm->local_size, &it->kept) : MPI_SUCCESS;
}

/* `mine` NULL: it is in its place. */
static int led_iallgather(const data_t * mine, const parts_t * all, MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective,
                          MPIR_Request ** request)
{
    int mpi_errno;
    later_t *it = make_later(comm, -1, pm_shape_of(total_of(all, comm), 0), BLOCKS, ONE, &mpi_errno);

    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = keep_all(it, all);
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = make_way(it, true);
    if (it) {
        if (mpi_errno)
            it->all = *all;
        it->in_place = mine == NULL;
        it->own = mine ? *mine : part_of(&it->all, comm->rank);
        it->one = bytes_at(mpi_errno ? (char *) it : it->blocks.flat, 0, total_of(all, comm));
        it->takes = true;
        it->meets = pair_up(&it->led);
        choose_teams(it);
    }
    return start_later(it, collective, mpi_errno, request);
}

/* `all`: of the root, where they belong; of others, as many bytes. */
static int led_igather(const data_t * mine, const parts_t * all, int root, MPIR_Comm * comm, MPIR_Request ** request)
{
    int mpi_errno;
    later_t *it = make_later(comm, root, pm_shape_of(total_of(all, comm), 0), BLOCKS, NOT_AT_ALL, &mpi_errno);

    if (it)
        it->all = *all;
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = make_way(it, comm->rank == root);
    if (it) {
        it->in_place = mine == NULL;
        it->own = mine ? *mine : part_of(all, comm->rank);
        it->takes = comm->rank == root;
        choose_teams(it);
    }
    return start_later(it, MPIDI_COMPOSITE_IN_GATHER, mpi_errno, request);
}

static int led_iscatter(const parts_t * all, const data_t * mine, int root, MPIR_Comm * comm, MPIR_Request ** request)
{
    int mpi_errno;
    later_t *it = make_later(comm, root, pm_shape_of(total_of(all, comm), 0), NOT_AT_ALL, BLOCKS, &mpi_errno);

    if (it)
        it->all = *all;
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = make_way(it, comm->rank == root);
    if (it) {
        it->has_result = mine != NULL;
        if (mine)
            it->result = *mine;
        choose_teams(it);
    }
    return start_later(it, MPIDI_COMPOSITE_IN_SCATTER, mpi_errno, request);
}

/* Reduced at the first leader, and parts of that on to all. `all`: of how much each gets a part. */
static int led_ireduce_scatter(const void *sendbuf, void *recvbuf, MPI_Aint count, const parts_t * all, MPI_Op op, MPIR_Comm * comm,
                               MPIDI_COMPOSITE_collective_t collective, MPIR_Request ** request)
{
    int mpi_errno;
    MPI_Datatype type = all->type;
    later_t *it = make_later(comm, -1, shape_for(count, type), ONE, BLOCKS, &mpi_errno);

    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = keep_all(it, all);
    if (it) {
        if (mpi_errno)
            it->all = *all;
        it->own = data_of(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, type);
        it->one = data_of(NULL, count, type);
        it->op = op;
        choose_teams(it);
    }
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = make_room_to_add(it, false);
    if (mpi_errno == MPI_SUCCESS) {
        it->all.buffer = it->one.buffer;
        mpi_errno = make_way(it, it->led.speaks && is_first(&it->led));
        it->result = data_of(recvbuf, part_of(&it->all, comm->rank).count, type);
        it->has_result = true;
    }
    return start_later(it, collective, mpi_errno, request);
}

static int led_ireduce_scatter_counts(const void *sendbuf, void *recvbuf, const MPI_Aint * recvcounts, MPI_Datatype type, MPI_Op op,
                                      MPIR_Comm * comm, MPIR_Request ** request)
{
    int mpi_errno;
    MPI_Aint count, *displs = places_of_counts(recvcounts, comm->local_size, &count);
    parts_t all = parts_of(NULL, recvcounts, displs, type);

    if (!displs)
        return no_memory();
    mpi_errno = led_ireduce_scatter(sendbuf, recvbuf, count, &all, op, comm, MPIDI_COMPOSITE_IN_REDUCE_SCATTER, request);
    MPL_free(displs);
    return mpi_errno;
}

static int led_iscan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op, bool inclusive, MPIR_Comm * comm,
                     MPIR_Request ** request)
{
    int mpi_errno;
    parts_t all = equal_parts(NULL, count, type);
    later_t *it = make_later(comm, 0, pm_shape_of(total_of(&all, comm), 0), BLOCKS, BLOCKS, &mpi_errno);

    if (it) {
        it->scans = true;
        it->inclusive = inclusive;
        it->op = op;
        it->own = data_of(sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, count, type);
        it->result = data_of(recvbuf, count, type);
        it->has_result = inclusive || comm->rank > 0;
        if (mpi_errno == MPI_SUCCESS && comm->rank == 0 && !(it->memory = room_to_scan(&all, comm->local_size)))
            mpi_errno = no_memory();
        it->all = all;
    }
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = lay_out(it);
    /* Apart from where they are added up, since those who are told may get other blocks than they gave. */
    if (mpi_errno == MPI_SUCCESS && it->led.speaks && !make_room(&it->blocks, it->led.place, end_below(&it->led)))
        mpi_errno = no_memory();
    if (it) {
        it->up_flat = it->down_flat = it->blocks.flat;
        choose_teams(it);
    }
    return start_later(it, inclusive ? MPIDI_COMPOSITE_IN_SCAN : MPIDI_COMPOSITE_IN_EXSCAN, mpi_errno, request);
}

static int make_between(later_t * it, size_t bytes)
{
    int hosts = it->led.leaders.hosts, ranks = it->led.comm->local_size, here = locals(it->led.comm) + 1;
    size_t begin_bytes = sizeof *it->between.begin * ((size_t) hosts + 1), all = bytes * (size_t) here;
    between_t *between = &it->between;

    between->memory = MPL_calloc(1, begin_bytes + 4 * all, MPL_MEM_COLL);
    if (!between->memory)
        return no_memory();
    between->begin = (size_t *) between->memory;
    for (int rank = 0; rank < ranks; rank++)
        between->begin[it->led.comm->internode_table[rank] + 1] += all / (size_t) ranks;
    for (int host = 0; host < hosts; host++)
        between->begin[host + 1] += between->begin[host];
    it->up_flat = between->memory + begin_bytes - it->blocks.hosts[it->led.place];
    it->down_flat = it->up_flat + all;
    between->going = between->memory + begin_bytes + 2 * all;
    between->coming = between->going + all;
    return MPI_SUCCESS;
}

/* What all of a host send is gathered, and what all of it get scattered, by its leader: so between two hosts goes one message each way. */
static int led_ialltoall(const data_t * from, const data_t * to, MPIR_Comm * comm, MPIR_Request ** request)
{
    int mpi_errno;
    later_t *it = make_later(comm, -1, PM_FLAT, BLOCKS, BLOCKS, &mpi_errno);

    if (it) {
        it->exchanges = true;
        it->all = equal_parts(NULL, (MPI_Aint) to->bytes, MPI_BYTE);
        it->own = *from;
        it->result = *to;
        it->has_result = true;
        choose_teams(it);
    }
    if (mpi_errno == MPI_SUCCESS)
        mpi_errno = lay_out(it);
    if (mpi_errno == MPI_SUCCESS && it->led.speaks)
        mpi_errno = make_between(it, to->bytes);
    return start_later(it, MPIDI_COMPOSITE_IN_ALLTOALL, mpi_errno, request);
}

#endif
