/* Collectives of a communicator of several hosts: inside a host by its team, between hosts by messages of the leaders (coll/team/leaders.h). For
 * composite_coll.c, which looks whether one goes this way.
 *
 * Each step is taken after an error, too, and tells the next one of it, as MPICH's collectives do: so nobody waits for what will not come. */
#ifndef COMPOSITE_LEADERS_H_INCLUDED
#define COMPOSITE_LEADERS_H_INCLUDED

#include "composite_impl.h"
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
    pm_tree tree;               /* if we speak */
    int *memory;
} led_t;

/* All of this job, and on more than one host; alike at all ranks. */
static bool has_hosts(const MPIR_Comm * comm)
{
    if (comm->comm_kind != MPIR_COMM_KIND__INTRACOMM || comm->internode_table == NULL || comm->local_size < 2 ||
        MPIDI_COMM(comm, map).mode == MPIDI_RANK_MAP_MLUT || MPIDI_COMM(comm, map).avtid != 0)
        return false;
    /* Where no two ranks are on the same host MPICH makes no other communicators of it. */
    return comm->hierarchy_kind == MPIR_COMM_HIERARCHY_KIND__PARENT ? comm->node_comm == NULL || comm->node_comm->local_size < comm->local_size :
        comm->hierarchy_kind == MPIR_COMM_HIERARCHY_KIND__FLAT && comm->internode_table[comm->local_size - 1] == comm->local_size - 1;
}

static int hosts_of(const MPIR_Comm * comm)
{
    int last = 0;

    for (int rank = 0; rank < comm->local_size; rank++)
        last = MPL_MAX(last, comm->internode_table[rank]);
    return last + 1;
}

/* Somewhere there are two on the same one. */
static bool share_hosts(const MPIR_Comm * comm)
{
    return has_hosts(comm) && hosts_of(comm) < comm->local_size;
}

/* NULL: there is one. */
static const uint32_t *clusters_of(MPIR_Comm * comm, const int *speakers, int hosts, uint32_t * clusters)
{
    const uint32_t *of_job = pm_clusters(MPIDI_COMPOSITE_global.core);

    for (int host = 0; of_job && host < hosts; host++) {
        int process, table;
        MPIDIU_comm_rank_to_pid(comm, speakers[host], &process, &table);
        clusters[host] = of_job[process];
    }
    return of_job ? clusters : NULL;
}

/* `root` -1: whoever comes first. */
static int lead(led_t * led, MPIR_Comm * comm, int root, pm_shape shape, MPIR_Errflag_t * errflag)
{
    int mpi_errno = MPI_SUCCESS, hosts = hosts_of(comm);
    const uint32_t *clusters;

    memset(led, 0, offsetof(led_t, tree));
    led->comm = comm;
    led->errflag = errflag;
    led->memory = MPL_malloc(sizeof(int) * (pm_leaders_ints(hosts) + 2 * (size_t) hosts), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!led->memory, mpi_errno, MPI_ERR_OTHER, "**nomem");
    led->host = comm->internode_table[comm->rank];
    led->speakers = led->memory + pm_leaders_ints(hosts);
    for (int rank = comm->local_size - 1; rank >= 0; rank--)
        led->speakers[comm->internode_table[rank]] = rank;
    clusters = clusters_of(comm, led->speakers, hosts, (uint32_t *) led->speakers + hosts);
    if (root < 0)
        root = 0;
    led->speakers[comm->internode_table[root]] = root;
    led->speaks = led->speakers[led->host] == comm->rank;
    led->root = comm->node_comm && comm->internode_table[root] == led->host ? comm->intranode_table[root] : 0;
    pm_leaders_order(&led->leaders, led->memory, hosts, clusters, comm->internode_table[root]);
    led->place = pm_leaders_place(&led->leaders, led->host);
    pm_tree_of(&led->leaders, led->place, shape, &led->tree);

  fn_fail:
    return mpi_errno;
}

static int speaker_at(const led_t * led, int place)
{
    return led->speakers[led->leaders.host[place]];
}

static bool is_first(const led_t * led)
{
    return led->tree.parent < 0;
}

static void note_error(led_t * led, int result)
{
    if (likely(result == MPI_SUCCESS))
        return;
    if (*led->errflag != MPIR_ERR_PROC_FAILED)
        *led->errflag = MPIX_ERR_PROC_FAILED == MPIR_ERR_GET_CLASS(result) ? MPIR_ERR_PROC_FAILED : MPIR_ERR_OTHER;
    MPIR_ERR_ADD(led->mpi_errno, result);
}

/* What came of it. */
static int led_to(led_t * led)
{
    MPIR_Errflag_t *errflag = led->errflag;     /* by this name MPICH's tool that reads sources for errors knows it */

    MPL_free(led->memory);
    if (led->mpi_errno == MPI_SUCCESS && unlikely(*errflag != MPIR_ERR_NONE))
        MPIR_ERR_SET(led->mpi_errno, *errflag, "**coll_fail");
    return led->mpi_errno;
}

/* ---- between hosts ---- */

/* `bytes`: of a receive, which must be as many; -1: as they come. */
static void wait_for_bytes(led_t * led, MPIR_Request ** request, MPI_Aint bytes)
{
    if (*request == NULL)
        return;
    note_error(led, MPIC_Wait(*request, led->errflag));
    /* After an error nothing must come to memory that is about to be freed. */
    if ((*request)->kind == MPIR_REQUEST_KIND__RECV && !MPIR_Request_is_complete(*request))
        MPID_Cancel_recv(*request);
    else if ((*request)->kind == MPIR_REQUEST_KIND__RECV)
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
    note_error(led, MPIC_Irecv(data, count, type, speaker_at(led, place), tag, led->comm, request));
}

static void begin_send(led_t * led, const void *data, MPI_Aint count, MPI_Datatype type, int place, int tag, MPIR_Request ** request)
{
    *request = NULL;
    note_error(led, MPIC_Isend(data, count, type, speaker_at(led, place), tag, led->comm, request, led->errflag));
}

/* To all below; wait_for_all() afterwards. */
static void begin_telling(led_t * led, const void *data, MPI_Aint count, MPI_Datatype type, int tag, MPIR_Request ** requests)
{
    for (int i = 0; i < led->tree.branches; i++)
        begin_send(led, data, count, type, led->tree.below[i].place, tag, &requests[i]);
}

static void tell_above(led_t * led, const void *data, MPI_Aint count, MPI_Datatype type, int tag)
{
    note_error(led, MPIC_Send(data, count, type, speaker_at(led, led->tree.parent), tag, led->comm, led->errflag));
}

/* What all below have, in the order of the tree, whatever comes first: so the result is the same in every run. `room` has a place for each
 * of them, `span` bytes apart; without one, nothing is reduced. */
static void hear_below(led_t * led, char *room, MPI_Aint span, void *sum, MPI_Aint count, MPI_Datatype type, MPI_Op op, int tag)
{
    MPIR_Request *requests[PM_BRANCHES_MAX];

    for (int i = 0; i < led->tree.branches; i++)
        begin_receive(led, room ? room + i * span : NULL, count, type, led->tree.below[i].place, tag, &requests[i]);
    for (int i = 0; i < led->tree.branches; i++) {
        wait_for(led, &requests[i]);
        if (room && *led->errflag == MPIR_ERR_NONE)
            note_error(led, MPIR_Reduce_local(room + i * span, sum, count, type, op));
    }
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

static void host_bcast(led_t * led, void *data, MPI_Aint count, MPI_Datatype type)
{
    char other[2] = { 0 };

    if (!led->comm->node_comm)
        return;
    if (*led->errflag == MPIR_ERR_PROC_FAILED) {
        tell_host_of_failure(led);
    } else if (unlikely(*led->errflag != MPIR_ERR_NONE) && led->speaks) {
        /* They get an error, since it is not as much as they expect, and their team goes on. */
        count = data_of(data, count, type).bytes == 1 ? 2 : 1;
        data = other;
        type = MPI_BYTE;
    }
    note_error(led, MPIDI_NM_mpi_bcast(data, count, type, led->root, led->comm->node_comm, led->errflag));
}

/* Into `result` of who speaks. */
static void host_reduce(led_t * led, const void *sendbuf, void *result, MPI_Aint count, MPI_Datatype type, MPI_Op op)
{
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
    int mpi_errno = lead(&led, comm, -1, PM_FLAT, errflag);

    MPIR_ERR_CHECK(mpi_errno);
    if (team) {
        team->collective = MPIDI_COMPOSITE_IN_BARRIER;
        note_error(&led, enter_with_nothing(team));
        if (led.speaks && !led.mpi_errno)
            note_error(&led, MPIDI_COMPOSITE_team_await_all(team));
    } else if (comm->node_comm) {
        note_error(&led, MPIR_Barrier_impl(comm->node_comm, errflag));
    }
    if (led.speaks) {
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
    mpi_errno = led_to(&led);

  fn_fail:
    return mpi_errno;
}

/* Memory for vectors of any datatype; `*span` apart. What is to be freed is at `*memory`. */
static char *vectors(int number, MPI_Aint count, MPI_Datatype type, MPI_Aint * span, void **memory)
{
    MPI_Aint extent, true_extent, true_lb;

    MPIR_Type_get_true_extent_impl(type, &true_lb, &true_extent);
    MPIR_Datatype_get_extent_macro(type, extent);
    *span = (count * MPL_MAX(extent, true_extent) + 63) / 64 * 64;
    *memory = MPL_malloc((size_t) MPL_MAX(*span * number, 1), MPL_MEM_COLL);
    return *memory ? (char *) *memory - true_lb : NULL;
}

static pm_shape shape_for(MPI_Aint count, MPI_Datatype type)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(type, size);
    return pm_shape_of((size_t) (count * size), 0);
}

/* The operation must commute. */
static int leaders_allreduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op, MPIR_Comm * comm,
                             MPIR_Errflag_t * errflag)
{
    led_t led;
    MPIR_Request *requests[PM_BRANCHES_MAX];
    void *memory = NULL;
    char *room = NULL;
    MPI_Aint span = 0;
    int mpi_errno = lead(&led, comm, -1, shape_for(count, type), errflag);

    MPIR_ERR_CHECK(mpi_errno);
    if (led.speaks) {
        room = vectors(led.tree.branches, count, type, &span, &memory);
        MPIR_ERR_CHKANDJUMP(!memory, mpi_errno, MPI_ERR_OTHER, "**nomem");
        host_reduce(&led, sendbuf, recvbuf, count, type, op);
        hear_below(&led, room, span, recvbuf, count, type, op, MPIR_ALLREDUCE_TAG);
        if (!is_first(&led)) {
            tell_above(&led, recvbuf, count, type, MPIR_ALLREDUCE_TAG);
            note_error(&led, MPIC_Recv(recvbuf, count, type, speaker_at(&led, led.tree.parent), MPIR_ALLREDUCE_TAG, comm, MPI_STATUS_IGNORE,
                                       errflag));
        }
        begin_telling(&led, recvbuf, count, type, MPIR_ALLREDUCE_TAG, requests);
    } else {
        host_reduce(&led, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, NULL, count, type, op);
    }
    host_bcast(&led, recvbuf, count, type);
    if (led.speaks)
        wait_for_all(&led, requests);

  fn_fail:
    MPL_free(memory);
    if (mpi_errno)
        MPL_free(led.memory);
    return mpi_errno ? mpi_errno : led_to(&led);
}

static int leaders_reduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op, int root, MPIR_Comm * comm,
                          MPIR_Errflag_t * errflag)
{
    led_t led;
    void *memory = NULL;
    char *room, *result = recvbuf;
    MPI_Aint span = 0;
    int mpi_errno = lead(&led, comm, root, shape_for(count, type), errflag);

    MPIR_ERR_CHECK(mpi_errno);
    if (led.speaks) {
        room = vectors(led.tree.branches + 1, count, type, &span, &memory);
        MPIR_ERR_CHKANDJUMP(!memory, mpi_errno, MPI_ERR_OTHER, "**nomem");
        if (comm->rank != root)
            result = room + led.tree.branches * span;
        host_reduce(&led, sendbuf, result, count, type, op);
        hear_below(&led, room, span, result, count, type, op, MPIR_REDUCE_TAG);
        if (!is_first(&led))
            tell_above(&led, result, count, type, MPIR_REDUCE_TAG);
    } else {
        host_reduce(&led, sendbuf, NULL, count, type, op);
    }

  fn_fail:
    MPL_free(memory);
    if (mpi_errno)
        MPL_free(led.memory);
    return mpi_errno ? mpi_errno : led_to(&led);
}

/* Of who is first, to all. Piece by piece: while one is passed on, and read on the host, the next one arrives. */
static void spread(led_t * led, char *flat, size_t bytes, int tag)
{
    MPIR_Request *told[2][PM_BRANCHES_MAX], *next = NULL, *now;
    const bool hears = led->speaks && !is_first(led);
    size_t length = MPL_MIN(bytes, PM_LEADERS_PIECE);
    int turn = 0;

    for (int i = 0; i < led->tree.branches; i++)
        told[0][i] = told[1][i] = NULL;
    if (hears && bytes)
        begin_receive(led, flat, (MPI_Aint) length, MPI_BYTE, led->tree.parent, tag, &next);
    for (size_t at = 0; at < bytes; at += PM_LEADERS_PIECE, turn = !turn) {
        size_t behind = at + length;
        data_t piece = piece_of(flat, bytes, at, length);
        now = next;
        next = NULL;
        if (hears && behind < bytes)
            begin_receive(led, flat + behind, (MPI_Aint) MPL_MIN(bytes - behind, length), MPI_BYTE, led->tree.parent, tag, &next);
        wait_for_bytes(led, &now, piece.count);
        if (led->speaks) {
            wait_for_all(led, told[turn]);
            begin_telling(led, piece.plain, piece.count, MPI_BYTE, tag, told[turn]);
        }
        host_bcast(led, piece.plain, piece.count, MPI_BYTE);
    }
    wait_for_all(led, told[0]);
    wait_for_all(led, told[1]);
}

static int leaders_bcast(void *buffer, MPI_Aint count, MPI_Datatype type, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    led_t led;
    data_t data = data_of(buffer, count, type);
    char *flat, *packed = NULL;
    int mpi_errno = lead(&led, comm, root, pm_shape_of(data.bytes, 1), errflag);

    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = flatten(&data, comm->rank == root, &flat, &packed);
    MPIR_ERR_CHECK(mpi_errno);
    spread(&led, flat, data.bytes, MPIR_BCAST_TAG);
    if (packed && comm->rank != root)
        note_error(&led, copy_to(&data, packed));

  fn_fail:
    MPL_free(packed);
    if (mpi_errno)
        MPL_free(led.memory);
    return mpi_errno ? mpi_errno : led_to(&led);
}

#endif
