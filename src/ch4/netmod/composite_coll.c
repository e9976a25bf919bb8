/* Collectives on a host with more ranks than cores: does what coll/choice.h says. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll.h"
#include "composite_coll_life.h"
#include "base/tuning.h"
#include "coll/choice.h"
#include "coll/exchange/exchange.h"
#include "netmod/core/shared.h"

/* All ranks are of this job and on this host: then all of them answer the same here, and to pm_crowded(). */
static bool on_one_host(MPIR_Comm * comm)
{
    if (comm->comm_kind != MPIR_COMM_KIND__INTRACOMM || MPIDI_COMM(comm, map).mode == MPIDI_RANK_MAP_MLUT ||
        MPIDI_COMM(comm, map).avtid != 0)
        return false;
    return comm->hierarchy_kind == MPIR_COMM_HIERARCHY_KIND__NODE ||
        (comm->node_comm != NULL && comm->node_comm->local_size == comm->local_size);
}

static pm_call call_of(MPIR_Comm * comm, bool chosen, size_t bytes, bool plain)
{
    pm_call call = { chosen, on_one_host(comm), pm_crowded(MPIDI_COMPOSITE_global.core), comm->local_size, bytes, plain };

    return call;
}

/* Notes a failure and goes on, as MPICH's collectives do. */
static void note(int result, int *mpi_errno, MPIR_Errflag_t * errflag)
{
    if (result) {
        *errflag = MPIX_ERR_PROC_FAILED == MPIR_ERR_GET_CLASS(result) ? MPIR_ERR_PROC_FAILED : MPIR_ERR_OTHER;
        MPIR_ERR_ADD(*mpi_errno, result);
    }
}

static int tell_all_others(const void *data, MPI_Aint count, MPI_Datatype datatype, int tag, MPIR_Comm * comm,
                           MPIR_Errflag_t * errflag)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Request *requests[PM_FLAT_RANKS_LIMIT];
    int sent = 0;

    for (int i = 1; i < comm->local_size; i++)
        note(MPIC_Isend(data, count, datatype, (comm->rank + i) % comm->local_size, tag, comm, &requests[sent++], errflag),
             &mpi_errno, errflag);
    note(MPIC_Waitall(sent, requests, MPI_STATUSES_IGNORE, errflag), &mpi_errno, errflag);
    return mpi_errno;
}

/* A message of another size than expected is the user's error: the ranks called the collective with different sizes. */
static int hear(int from, void *data, MPI_Aint count, MPI_Datatype datatype, int tag, MPIR_Comm * comm,
                MPIR_Errflag_t * errflag)
{
    int mpi_errno;
    MPI_Status status;
    MPI_Aint type_size, received;

    mpi_errno = MPIC_Recv(data, count, datatype, from, tag, comm, &status, errflag);
    MPIR_ERR_CHECK(mpi_errno);
    MPIR_Datatype_get_size_macro(datatype, type_size);
    received = MPIR_STATUS_GET_COUNT(status);
    MPIR_ERR_CHKANDJUMP2(received != type_size * count, mpi_errno, MPI_ERR_OTHER, "**collective_size_mismatch",
                         "**collective_size_mismatch %d %d", (int) received, (int) (type_size * count));

  fn_fail:
    return mpi_errno;
}

/* A copy of what a root broadcast, in memory that the others can read: the root need not wait for them, and so for no further
 * turns. There is room for a few, since the others may be far behind. */
typedef struct kept {
    struct kept *next;
    void *data;
    size_t size;
    int sends;
    MPIR_Request *requests[PM_FLAT_RANKS_LIMIT];
} kept_t;

static kept_t *kept_copies;

/* Frees the copies that everybody has read. */
static void drop_copies(void)
{
    kept_t **link = &kept_copies;

    while (*link) {
        kept_t *copy = *link;
        while (copy->sends > 0 && MPIR_Request_is_complete(copy->requests[copy->sends - 1]))
            MPIR_Request_free(copy->requests[--copy->sends]);
        if (copy->sends > 0) {
            link = &copy->next;
            continue;
        }
        *link = copy->next;
        pm_shared_free(MPIDI_COMPOSITE_global.core, copy->data);
        MPL_free(copy);
    }
}

/* NULL when there is no room for one more. */
static kept_t *keep_copy(const void *data, size_t size)
{
    kept_t *copy = NULL;
    void *block;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    drop_copies();
    block = pm_shared_alloc(MPIDI_COMPOSITE_global.core, size);
    if (block) {
        copy = MPL_malloc(sizeof *copy, MPL_MEM_COLL);
        if (copy == NULL)
            pm_shared_free(MPIDI_COMPOSITE_global.core, block);
    }
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (copy) {
        copy->data = block;
        copy->size = size;
        copy->sends = 0;
        memcpy(copy->data, data, size);
    }
    return copy;
}

void MPIDI_COMPOSITE_coll_comm_free(MPIR_Comm * comm)
{
    if (comm->comm_kind != MPIR_COMM_KIND__INTRACOMM)
        return;                 /* the id of an intercommunicator is the other side's */
    /* A request that is freed may be the last to hold the communicator, and then the lock is held. */
    MPID_THREAD_CS_ENTER_REC_VCI(MPIDI_VCI(0).lock);
    pm_exchange_forget(comm->context_id);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

int MPIDI_COMPOSITE_coll_finalize(void)
{
    int mpi_errno = MPI_SUCCESS;

    while (drop_copies(), kept_copies != NULL && mpi_errno == MPI_SUCCESS) {
        mpi_errno = MPID_Progress_test(NULL);
        MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    return mpi_errno;
}

/* Tells all others where the copy is. */
static int offer_copy(kept_t * copy, int tag, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno = MPI_SUCCESS;

    for (int i = 1; i < comm->local_size; i++)
        note(MPIC_Isend(copy->data, copy->size, MPI_BYTE, (comm->rank + i) % comm->local_size, tag, comm,
                        &copy->requests[copy->sends++], errflag), &mpi_errno, errflag);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    copy->next = kept_copies;
    kept_copies = copy;
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return mpi_errno;
}

/* `root` sends the same to everybody. */
static int flat_bcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root, int tag, MPIR_Comm * comm,
                      MPIR_Errflag_t * errflag)
{
    int contiguous;
    MPI_Aint true_lb;
    size_t size;
    MPIR_Datatype *type ATTRIBUTE((unused));
    kept_t *copy = NULL;

    if (comm->rank != root)
        return hear(root, buffer, count, datatype, tag, comm, errflag);
    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    if (pm_bcast_leaves_copy(size, contiguous, MPIDI_COMPOSITE_EAGER_LIMIT))
        copy = keep_copy(MPIR_get_contig_ptr(buffer, true_lb), size);
    return copy ? offer_copy(copy, tag, comm, errflag) : tell_all_others(buffer, count, datatype, tag, comm, errflag);
}

static bool is_done(const pm_exchange * exchange)
{
    bool done;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    done = pm_exchange_is_done(exchange);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return done;
}

/* `*all` is what each rank gave, ours included; valid until our next exchange on this communicator. */
static int exchange_bytes(const void *bytes, size_t size, MPIR_Comm * comm, const char (**all)[PM_EXCHANGE_BYTES_LIMIT])
{
    int mpi_errno = MPI_SUCCESS;
    pm_group_setup group = MPIDI_COMPOSITE_group_setup(comm);
    pm_exchange *exchange;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    exchange = pm_exchange_start(&group, bytes, size);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (exchange == NULL)
        return MPIDI_COMPOSITE_lost();
    while (!is_done(exchange)) {
        mpi_errno = MPID_Progress_test(NULL);
        if (mpi_errno)
            return mpi_errno;
        if (!is_done(exchange))
            MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    *all = pm_exchange_end(exchange);
    return MPI_SUCCESS;
}

static int flat_barrier(MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno = MPI_SUCCESS;

    if (comm->rank != 0) {
        note(MPIC_Send(NULL, 0, MPI_BYTE, 0, MPIR_BARRIER_TAG, comm, errflag), &mpi_errno, errflag);
    } else {
        for (int from = 1; from < comm->local_size; from++)
            note(hear(from, NULL, 0, MPI_BYTE, MPIR_BARRIER_TAG, comm, errflag), &mpi_errno, errflag);
    }
    note(flat_bcast(NULL, 0, MPI_BYTE, 0, MPIR_BARRIER_TAG, comm, errflag), &mpi_errno, errflag);
    return mpi_errno;
}

int MPIDI_COMPOSITE_barrier(MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    const char (*all)[PM_EXCHANGE_BYTES_LIMIT];
    pm_call call = call_of(comm, MPIR_CVAR_BARRIER_INTRA_ALGORITHM != MPIR_CVAR_BARRIER_INTRA_ALGORITHM_auto, 0, true);

    switch (pm_barrier_way(&call)) {
        case PM_WAY_FLAT:
            return flat_barrier(comm, errflag);
        case PM_WAY_EXCHANGE:
            return exchange_bytes(NULL, 0, comm, &all);
        case PM_WAY_DISSEMINATION:
            return MPIR_Barrier_intra_dissemination(comm, errflag);
        default:
            return MPIR_Barrier_impl(comm, errflag);
    }
}

int MPIDI_COMPOSITE_bcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root, MPIR_Comm * comm,
                          MPIR_Errflag_t * errflag)
{
    MPI_Aint size;
    pm_call call;

    MPIR_Datatype_get_size_macro(datatype, size);
    call = call_of(comm, MPIR_CVAR_BCAST_INTRA_ALGORITHM != MPIR_CVAR_BCAST_INTRA_ALGORITHM_auto, size * count, true);
    if (pm_bcast_way(&call) == PM_WAY_GENERIC)
        return MPIR_Bcast_impl(buffer, count, datatype, root, comm, errflag);
    return flat_bcast(buffer, count, datatype, root, MPIR_BCAST_TAG, comm, errflag);
}

/* Whoever reduces does it in the order of the ranks, so that all have the same result, bit for bit. */
static int allreduce_by_exchange(const void *mine, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op, size_t bytes,
                                 MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno = MPI_SUCCESS, result;
    const char (*all)[PM_EXCHANGE_BYTES_LIMIT];

    result = exchange_bytes(mine, bytes, comm, &all);
    note(result, &mpi_errno, errflag);
    if (result)
        return mpi_errno;
    memcpy(recvbuf, all[0], bytes);
    for (int from = 1; from < comm->local_size; from++)
        note(MPIR_Reduce_local(all[from], recvbuf, count, datatype, op), &mpi_errno, errflag);
    return mpi_errno;
}

static int flat_allreduce(const void *mine, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op, size_t bytes,
                          MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno = MPI_SUCCESS;
    char others[PM_FLAT_REDUCE_LIMIT] ATTRIBUTE((aligned(16)));

    if (comm->rank != 0) {
        note(MPIC_Send(mine, count, datatype, 0, MPIR_ALLREDUCE_TAG, comm, errflag), &mpi_errno, errflag);
    } else {
        memcpy(recvbuf, mine, bytes);
        for (int from = 1; from < comm->local_size; from++) {
            note(hear(from, others, count, datatype, MPIR_ALLREDUCE_TAG, comm, errflag), &mpi_errno, errflag);
            note(MPIR_Reduce_local(others, recvbuf, count, datatype, op), &mpi_errno, errflag);
        }
    }
    note(flat_bcast(recvbuf, count, datatype, 0, MPIR_ALLREDUCE_TAG, comm, errflag), &mpi_errno, errflag);
    return mpi_errno;
}

int MPIDI_COMPOSITE_allreduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                              MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    MPI_Aint size, extent;
    char mine[PM_FLAT_REDUCE_LIMIT] ATTRIBUTE((aligned(16)));
    pm_call call;
    pm_way way;

    MPIR_Datatype_get_size_macro(datatype, size);
    MPIR_Datatype_get_extent_macro(datatype, extent);
    call = call_of(comm, MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM != MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM_auto, size * count,
                   HANDLE_IS_BUILTIN(datatype) && HANDLE_IS_BUILTIN(op) && size == extent);
    way = pm_allreduce_way(&call);
    if (way == PM_WAY_GENERIC)
        return MPIR_Allreduce_impl(sendbuf, recvbuf, count, datatype, op, comm, errflag);
    memcpy(mine, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, call.bytes);
    return way == PM_WAY_EXCHANGE ?
        allreduce_by_exchange(mine, recvbuf, count, datatype, op, call.bytes, comm, errflag) :
        flat_allreduce(mine, recvbuf, count, datatype, op, call.bytes, comm, errflag);
}
