/* Persistent collectives: MPI_Allreduce_init and its kin.
 *
 * Where the team of the communicator would do it, a request has a team of its own, on which a start is what MPI_Iallreduce is on that of the
 * communicator (composite_started.c). A request is in flight once at a time, so that its starts have the same order at all ranks, whatever that
 * of all requests is.
 *
 * All else goes by MPICH's schedules, which run once: some copy data while they are built, others count bytes in state that only building
 * them sets. So a start builds a schedule again, from what the call that made the request was given, and runs it as the nonblocking
 * collective does.
 *
 * Members may start requests in different orders, but make them in the same: the tags of a request's messages are those it got when
 * it was made, which is why a schedule is built then, too, and thrown away. Nobody's buffer is looked at for that. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_started.h"
#include "tsp_impl.h"

#define WHERE MPIR_Comm * comm, bool is_persistent, void **sched, enum MPIR_sched_type *type
#define HERE comm, is_persistent, sched, type

/* A collective. */
struct call;
typedef struct {
    int (*build) (const struct call * call, WHERE);
    int (*start) (const struct call * call, MPIR_Comm * comm, MPIR_Request ** request); /* on a team; NULL: no team does it */
    MPIDI_COMPOSITE_collective_t collective;
} kind_t;

/* Its arguments; arrays are our own. */
typedef struct call {
    const kind_t *kind;
    const void *sendbuf;
    void *recvbuf;
    MPI_Aint sendcount, recvcount;
    const MPI_Aint *sendcounts, *sdispls, *recvcounts, *rdispls;
    MPI_Datatype sendtype, recvtype;
    const MPI_Datatype *sendtypes, *recvtypes;
    MPI_Op op;
    int root;
    /* What of it counts on this rank: the others' may be anything. Lengths are those of arrays. */
    bool sends, receives, reduces;
    int sends_to, receives_from;
} call_t;

typedef struct {
    call_t call;
    MPIDI_COMPOSITE_kept_way_t way;
    MPIDI_COMPOSITE_of_request_t its;   /* if it does not go by schedules */
    int *tags;
    int tag_count;
    int tags_used;              /* of the schedule that is being built */
    bool first;                 /* it is the one that gets them */
} persistent_t;

/* What this thread is building. */
static _Thread_local persistent_t *building;

bool MPIDI_COMPOSITE_only_counting_tags(void)
{
    return building && building->first;
}

bool MPIDI_COMPOSITE_tag_again(int next, int *tag)
{
    persistent_t *it = building;

    *tag = next;
    if (it && it->first) {
        it->tags = MPL_realloc(it->tags, (it->tag_count + 1) * sizeof *it->tags, MPL_MEM_COMM);
        MPIR_Assert(it->tags);
        it->tags[it->tag_count++] = next;
    } else if (it) {
        MPIR_Assert(it->tags_used < it->tag_count);
        *tag = it->tags[it->tags_used++];
        return true;
    }
    return false;
}

static int build(persistent_t * it, WHERE)
{
    int mpi_errno;

    it->tags_used = 0;
    building = it;
    mpi_errno = it->call.kind->build(&it->call, HERE);
    building = NULL;
    return mpi_errno;
}

static void *copy(const void *array, size_t size, bool *done)
{
    void *mine = array ? MPL_malloc(size ? size : 1, MPL_MEM_COMM) : NULL;

    if (mine)
        memcpy(mine, array, size);
    else if (array)
        *done = false;
    return mine;
}

static bool keep_arrays(call_t * mine, const call_t * call)
{
    bool done = true;
    size_t out = call->sends ? call->sends_to : 0, in = call->receives ? call->receives_from : 0;

    mine->sendcounts = call->sends ? copy(call->sendcounts, out * sizeof(MPI_Aint), &done) : NULL;
    mine->sdispls = call->sends ? copy(call->sdispls, out * sizeof(MPI_Aint), &done) : NULL;
    mine->sendtypes = call->sends ? copy(call->sendtypes, out * sizeof(MPI_Datatype), &done) : NULL;
    mine->recvcounts = call->receives ? copy(call->recvcounts, in * sizeof(MPI_Aint), &done) : NULL;
    mine->rdispls = call->receives ? copy(call->rdispls, in * sizeof(MPI_Aint), &done) : NULL;
    mine->recvtypes = call->receives ? copy(call->recvtypes, in * sizeof(MPI_Datatype), &done) : NULL;
    return done;
}

/* Datatypes and the operation must outlive their being freed by the user. */
static void hold(const call_t * call, bool on)
{
    for (int side = 0; side < 2; side++) {
        bool counts = side ? call->receives : call->sends;
        const MPI_Datatype *types = side ? call->recvtypes : call->sendtypes;
        int n = !counts ? 0 : types ? (side ? call->receives_from : call->sends_to) : 1;

        for (int i = 0; i < n; i++) {
            MPI_Datatype type = types ? types[i] : side ? call->recvtype : call->sendtype;
            if (type == MPI_DATATYPE_NULL)
                continue;
            if (on)
                MPIR_Datatype_add_ref_if_not_builtin(type);
            else
                MPIR_Datatype_release_if_not_builtin(type);
        }
    }
    if (call->reduces && on)
        MPIR_Op_add_ref_if_not_builtin(call->op);
    else if (call->reduces)
        MPIR_Op_release_if_not_builtin(call->op);
}

static void forget(persistent_t * it)
{
    MPL_free((void *) it->call.sendcounts);
    MPL_free((void *) it->call.sdispls);
    MPL_free((void *) it->call.sendtypes);
    MPL_free((void *) it->call.recvcounts);
    MPL_free((void *) it->call.rdispls);
    MPL_free((void *) it->call.recvtypes);
    MPL_free(it->tags);
    MPL_free(it);
}

static MPI_Aint count_of(const call_t * call)
{
    MPI_Aint count = call->receives ? call->recvcount : call->sendcount;

    for (int i = 0; call->recvcounts && call->receives && i < call->receives_from; i++)
        count += call->recvcounts[i];
    return count;
}

/* What all know of how much there is decides, and it is enough that of the parts that are here one is asked for. */
static MPIDI_COMPOSITE_kept_way_t way_of(const call_t * call, MPIR_Comm * comm)
{
    if (!call->kind->start || MPIR_CVAR_DEVICE_COLLECTIVES == MPIR_CVAR_DEVICE_COLLECTIVES_none)
        return MPIDI_COMPOSITE_BY_SCHEDULES;
    return MPIDI_COMPOSITE_could_start(comm, call->kind->collective, count_of(call), call->receives ? call->recvtype : call->sendtype, call->op);
}

/* Of whom it will have a team of its own, or NULL. */
static MPIR_Comm *company_of(MPIDI_COMPOSITE_kept_way_t way, MPIR_Comm * comm)
{
    if (way == MPIDI_COMPOSITE_BY_TEAM)
        return comm;
    return way == MPIDI_COMPOSITE_BY_LEADERS && comm->node_comm && MPIDI_COMPOSITE_team_of(comm->node_comm) ? comm->node_comm : NULL;
}

static int get_team(persistent_t * it, MPIR_Comm * comm)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Comm *company = company_of(it->way, comm);

    if (it->way == MPIDI_COMPOSITE_BY_LEADERS) {
        mpi_errno = MPIR_Sched_next_tag(comm, &it->its.tag);
        MPIR_ERR_CHECK(mpi_errno);
    }
    if (company)
        mpi_errno = MPIDI_COMPOSITE_team_of_request(company, &it->its.team);
    if (it->way == MPIDI_COMPOSITE_BY_TEAM && !it->its.team)
        it->way = MPIDI_COMPOSITE_BY_SCHEDULES;

  fn_fail:
    return mpi_errno;
}

/* The tags of its schedules. */
static int get_tags(persistent_t * it, MPIR_Comm * comm)
{
    int mpi_errno;
    void *sample = NULL;
    enum MPIR_sched_type sample_type = MPIR_SCHED_INVALID;

    it->first = true;
    mpi_errno = build(it, comm, true, &sample, &sample_type);
    it->first = false;
    if (sample && sample_type == MPIR_SCHED_NORMAL)
        MPIR_Sched_free(sample);
    else if (sample && sample_type == MPIR_SCHED_GENTRAN)
        MPIR_TSP_sched_free(sample);
    return mpi_errno;
}

static int keep(call_t call, MPIR_Comm * comm, void **sched, enum MPIR_sched_type *type)
{
    int mpi_errno = MPI_SUCCESS;
    MPIDI_COMPOSITE_kept_way_t way = way_of(&call, comm);
    persistent_t *it = MPL_calloc(1, sizeof *it, MPL_MEM_COMM);

    if (it)
        it->call = call;
    if (!it || !keep_arrays(&it->call, &call)) {
        /* Others would wait for us where they agree on a team. */
        MPIR_Comm *company = company_of(way, comm);
        int tag;
        if (way == MPIDI_COMPOSITE_BY_LEADERS)
            (void) MPIR_Sched_next_tag(comm, &tag);     /* all ranks count them */
        if (company)
            MPIDI_COMPOSITE_team_give_up(MPIDI_COMPOSITE_COMM(company).team, company->rank);
        MPIR_ERR_SETANDJUMP(mpi_errno, MPI_ERR_OTHER, "**nomem");
    }
    it->way = way;
    mpi_errno = get_team(it, comm);
    if (mpi_errno == MPI_SUCCESS && it->way == MPIDI_COMPOSITE_BY_SCHEDULES)
        mpi_errno = get_tags(it, comm);
    MPIR_ERR_CHECK(mpi_errno);
    hold(&it->call, true);
    *type = MPIR_SCHED_NORMAL;
    *sched = it;

  fn_exit:
    return mpi_errno;
  fn_fail:
    if (it)
        forget(it);
    goto fn_exit;
}

static int start_it(const persistent_t * it, MPIR_Comm * comm, MPIR_Request ** real)
{
    int mpi_errno;

    MPIDI_COMPOSITE_start_on(&it->its);
    mpi_errno = it->call.kind->start(&it->call, comm, real);
    MPIDI_COMPOSITE_start_on(NULL);
    return mpi_errno;
}

static int start_schedule(persistent_t * it, MPIR_Comm * comm, MPIR_Request ** real)
{
    int mpi_errno;
    void *sched = NULL;
    enum MPIR_sched_type type = MPIR_SCHED_INVALID;

    if (it->call.kind->start && comm->local_size + comm->remote_size > 2)
        MPIDI_COMPOSITE_coll_counts[it->call.kind->collective][PM_BY_MESSAGES]++;
    mpi_errno = build(it, comm, false, &sched, &type);
    MPIR_ERR_CHECK(mpi_errno);
    MPII_SCHED_START(type, sched, comm, real);

  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_persistent_start(MPIR_Request * request)
{
    int mpi_errno;
    persistent_t *it = request->u.persist_coll.sched;
    MPIR_Request *real = NULL;

    mpi_errno = it->way == MPIDI_COMPOSITE_BY_SCHEDULES ? start_schedule(it, request->comm, &real) : start_it(it, request->comm, &real);
    MPIR_ERR_CHECK(mpi_errno);
    request->u.persist_coll.real_request = real;
    request->status.MPI_ERROR = MPI_SUCCESS;
    request->cc_ptr = &real->cc;

  fn_exit:
    return mpi_errno;
  fn_fail:
    /* Who waits for it gets the error. */
    request->u.persist_coll.real_request = NULL;
    request->status.MPI_ERROR = mpi_errno;
    request->cc_ptr = &request->cc;
    MPIR_cc_set(&request->cc, 0);
    goto fn_exit;
}

void MPIDI_COMPOSITE_persistent_free(MPIR_Request * request)
{
    persistent_t *it = request->u.persist_coll.sched;

    if (request->u.persist_coll.real_request)
        MPIR_Request_free(request->u.persist_coll.real_request);
    if (it->its.team)
        MPIDI_COMPOSITE_started_team_free(it->its.team);
    hold(&it->call, false);
    forget(it);
}

static bool is_root(MPIR_Comm * comm, int root)
{
    return comm->comm_kind == MPIR_COMM_KIND__INTERCOMM ? root == MPI_ROOT : root == comm->rank;
}

static bool has_part(MPIR_Comm * comm, int root)
{
    return comm->comm_kind == MPIR_COMM_KIND__INTERCOMM ? root >= 0 : true;
}

/* How many ranks a rank of `comm` sends to and receives from. */
static int others(MPIR_Comm * comm)
{
    return comm->comm_kind == MPIR_COMM_KIND__INTERCOMM ? comm->remote_size : comm->local_size;
}

static int neighbors(MPIR_Comm * comm, bool out)
{
    int indegree = 0, outdegree = 0, weighted;

    MPIR_Topo_canon_nhb_count(comm, &indegree, &outdegree, &weighted);
    return out ? outdegree : indegree;
}

/* Each collective: how it is built from its call, or started on a team, and what makes the call of its arguments. */
#define BUILD(name, ...)                                                                            \
    static int build_##name(const call_t * call, WHERE)                                             \
    {                                                                                               \
        return MPIR_I##name##_sched_impl(__VA_ARGS__ HERE);                                         \
    }
#define BY_TEAM(name, NAME, ...)                                                                    \
    BUILD(name, __VA_ARGS__)                                                                        \
    static int start_##name(const call_t * call, MPIR_Comm * comm, MPIR_Request ** request)         \
    {                                                                                               \
        return MPIDI_COMPOSITE_i##name(__VA_ARGS__ comm, request);                                  \
    }                                                                                               \
    static const kind_t kind_##name = {build_##name, start_##name, MPIDI_COMPOSITE_IN_##NAME};
#define BY_MESSAGES(name, ...)                                                                      \
    BUILD(name, __VA_ARGS__)                                                                        \
    static const kind_t kind_##name = {build_##name, NULL, MPIDI_COMPOSITE_IN_NONE};
#define OUT_BLOCK call->sendbuf, call->sendcount, call->sendtype,
#define IN_BLOCK call->recvbuf, call->recvcount, call->recvtype,
#define OUT_BLOCKS call->sendbuf, call->sendcounts, call->sdispls, call->sendtype,
#define IN_BLOCKS call->recvbuf, call->recvcounts, call->rdispls, call->recvtype,
#define REDUCED call->sendbuf, call->recvbuf, call->recvcount, call->recvtype, call->op,

BY_TEAM(barrier, BARRIER)
BY_TEAM(bcast, BCAST, call->recvbuf, call->recvcount, call->recvtype, call->root,)
BY_TEAM(gather, GATHER, OUT_BLOCK IN_BLOCK call->root,)
BY_TEAM(scatter, SCATTER, OUT_BLOCK IN_BLOCK call->root,)
BY_TEAM(gatherv, GATHERV, OUT_BLOCK IN_BLOCKS call->root,)
BY_TEAM(scatterv, SCATTERV, OUT_BLOCKS IN_BLOCK call->root,)
BY_TEAM(allgather, ALLGATHER, OUT_BLOCK IN_BLOCK)
BY_TEAM(alltoall, ALLTOALL, OUT_BLOCK IN_BLOCK)
BY_MESSAGES(neighbor_allgather, OUT_BLOCK IN_BLOCK)
BY_MESSAGES(neighbor_alltoall, OUT_BLOCK IN_BLOCK)
BY_TEAM(allgatherv, ALLGATHERV, OUT_BLOCK IN_BLOCKS)
BY_MESSAGES(neighbor_allgatherv, OUT_BLOCK IN_BLOCKS)
BY_TEAM(alltoallv, ALLTOALLV, OUT_BLOCKS IN_BLOCKS)
BY_MESSAGES(neighbor_alltoallv, OUT_BLOCKS IN_BLOCKS)
BY_TEAM(alltoallw, ALLTOALLW, call->sendbuf, call->sendcounts, call->sdispls, call->sendtypes,
        call->recvbuf, call->recvcounts, call->rdispls, call->recvtypes,)
BY_MESSAGES(neighbor_alltoallw, call->sendbuf, call->sendcounts, call->sdispls, call->sendtypes,
            call->recvbuf, call->recvcounts, call->rdispls, call->recvtypes,)
BY_TEAM(reduce, REDUCE, REDUCED call->root,)
BY_TEAM(allreduce, ALLREDUCE, REDUCED)
BY_TEAM(scan, SCAN, REDUCED)
BY_TEAM(exscan, EXSCAN, REDUCED)
BY_TEAM(reduce_scatter_block, REDUCE_SCATTER_BLOCK, REDUCED)
BY_TEAM(reduce_scatter, REDUCE_SCATTER, call->sendbuf, call->recvbuf, call->recvcounts, call->recvtype, call->op,)

#define SEND_BLOCK const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype
#define RECV_BLOCK void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype
#define SEND_BLOCKS const void *sendbuf, const MPI_Aint sendcounts[], const MPI_Aint sdispls[], MPI_Datatype sendtype
#define RECV_BLOCKS void *recvbuf, const MPI_Aint recvcounts[], const MPI_Aint rdispls[], MPI_Datatype recvtype
#define KEEP_SEND_BLOCK .sendbuf = sendbuf, .sendcount = sendcount, .sendtype = sendtype
#define KEEP_RECV_BLOCK .recvbuf = recvbuf, .recvcount = recvcount, .recvtype = recvtype
#define KEEP_SEND_BLOCKS .sendbuf = sendbuf, .sendcounts = sendcounts, .sdispls = sdispls, .sendtype = sendtype
#define KEEP_RECV_BLOCKS .recvbuf = recvbuf, .recvcounts = recvcounts, .rdispls = rdispls, .recvtype = recvtype

#define PERSISTENT(name, arguments, ...)                                         \
    int MPIDI_COMPOSITE_persistent_##name(arguments WHERE)                       \
    {                                                                            \
        return keep((call_t) {.kind = &kind_##name, __VA_ARGS__}, comm, sched, type);         \
    }
#define ARGUMENTS(...) __VA_ARGS__,

PERSISTENT(barrier,, .sendtype = MPI_BYTE)
PERSISTENT(bcast, ARGUMENTS(RECV_BLOCK, int root), KEEP_RECV_BLOCK, .root = root, .receives = is_root(comm, root) || has_part(comm, root))
PERSISTENT(gather, ARGUMENTS(SEND_BLOCK, RECV_BLOCK, int root), KEEP_SEND_BLOCK, KEEP_RECV_BLOCK, .root = root,
           .sends = has_part(comm, root) && sendbuf != MPI_IN_PLACE, .receives = is_root(comm, root))
PERSISTENT(scatter, ARGUMENTS(SEND_BLOCK, RECV_BLOCK, int root), KEEP_SEND_BLOCK, KEEP_RECV_BLOCK, .root = root,
           .sends = is_root(comm, root), .receives = has_part(comm, root) && recvbuf != MPI_IN_PLACE)
PERSISTENT(gatherv, ARGUMENTS(SEND_BLOCK, RECV_BLOCKS, int root), KEEP_SEND_BLOCK, KEEP_RECV_BLOCKS, .root = root,
           .sends = has_part(comm, root) && sendbuf != MPI_IN_PLACE, .receives = is_root(comm, root), .receives_from = others(comm))
PERSISTENT(scatterv, ARGUMENTS(SEND_BLOCKS, RECV_BLOCK, int root), KEEP_SEND_BLOCKS, KEEP_RECV_BLOCK, .root = root,
           .sends = is_root(comm, root), .receives = has_part(comm, root) && recvbuf != MPI_IN_PLACE, .sends_to = others(comm))

#define EVERYBODY(name)                                                                                             \
    PERSISTENT(name, ARGUMENTS(SEND_BLOCK, RECV_BLOCK), KEEP_SEND_BLOCK, KEEP_RECV_BLOCK,                           \
               .sends = sendbuf != MPI_IN_PLACE, .receives = true)
EVERYBODY(allgather)
EVERYBODY(alltoall)
EVERYBODY(neighbor_allgather)
EVERYBODY(neighbor_alltoall)

#define ANY_LENGTH_IN(name, from)                                                                                   \
    PERSISTENT(name, ARGUMENTS(SEND_BLOCK, RECV_BLOCKS), KEEP_SEND_BLOCK, KEEP_RECV_BLOCKS,                         \
               .sends = sendbuf != MPI_IN_PLACE, .receives = true, .receives_from = from)
ANY_LENGTH_IN(allgatherv, others(comm))
ANY_LENGTH_IN(neighbor_allgatherv, neighbors(comm, false))

#define ANY_LENGTH(name, to, from)                                                                                  \
    PERSISTENT(name, ARGUMENTS(SEND_BLOCKS, RECV_BLOCKS), KEEP_SEND_BLOCKS, KEEP_RECV_BLOCKS,                       \
               .sends = sendbuf != MPI_IN_PLACE, .receives = true, .sends_to = to, .receives_from = from)
ANY_LENGTH(alltoallv, others(comm), others(comm))
ANY_LENGTH(neighbor_alltoallv, neighbors(comm, true), neighbors(comm, false))

#define ANY_TYPES(name, to, from)                                                                                   \
    PERSISTENT(name, ARGUMENTS(const void *sendbuf, const MPI_Aint sendcounts[], const MPI_Aint sdispls[],          \
                               const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Aint recvcounts[],          \
                               const MPI_Aint rdispls[], const MPI_Datatype recvtypes[]),                           \
               .sendbuf = sendbuf, .sendcounts = sendcounts, .sdispls = sdispls, .sendtypes = sendtypes,            \
               .recvbuf = recvbuf, .recvcounts = recvcounts, .rdispls = rdispls, .recvtypes = recvtypes,            \
               .sends = sendbuf != MPI_IN_PLACE, .receives = true, .sends_to = to, .receives_from = from)
ANY_TYPES(alltoallw, others(comm), others(comm))
ANY_TYPES(neighbor_alltoallw, neighbors(comm, true), neighbors(comm, false))

#define REDUCTION_OF const void *sendbuf, RECV_BLOCK, MPI_Op op
PERSISTENT(reduce, ARGUMENTS(REDUCTION_OF, int root), .sendbuf = sendbuf, KEEP_RECV_BLOCK, .op = op, .root = root,
           .receives = is_root(comm, root) || has_part(comm, root), .reduces = is_root(comm, root) || has_part(comm, root))
#define REDUCTION(name)                                                                                             \
    PERSISTENT(name, ARGUMENTS(REDUCTION_OF), .sendbuf = sendbuf, KEEP_RECV_BLOCK, .op = op, .receives = true, .reduces = true)
REDUCTION(allreduce)
REDUCTION(scan)
REDUCTION(exscan)
REDUCTION(reduce_scatter_block)
PERSISTENT(reduce_scatter, ARGUMENTS(const void *sendbuf, void *recvbuf, const MPI_Aint recvcounts[], MPI_Datatype recvtype, MPI_Op op),
           .sendbuf = sendbuf, .recvbuf = recvbuf, .recvcounts = recvcounts, .recvtype = recvtype, .op = op,
           .receives = true, .reduces = true, .receives_from = comm->local_size)
