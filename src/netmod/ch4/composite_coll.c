/* Collectives on a host with more ranks than cores.
 *
 * There a message costs little and a turn on a core costs much: while a rank waits, every other rank of its core has a turn. A tree
 * or butterfly of log2(n) rounds needs as many turns of everybody; a flat one, in which all talk to one rank, needs two.
 * Where every rank has a core, and for communicators over several hosts, MPICH's own algorithms are better and are used. So
 * they are when the user chose an algorithm. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll.h"

/* The largest vector that one rank reduces for all. */
#define FLAT_REDUCE_LIMIT 4096
/* More ranks than this make the one rank the bottleneck. */
#define FLAT_RANKS_LIMIT 64

/* All ranks are of this job and on this host: then all of them answer the same here, and to pm_crowded(). */
static bool on_one_host(MPIR_Comm * comm)
{
    if (comm->comm_kind != MPIR_COMM_KIND__INTRACOMM || MPIDI_COMM(comm, map).mode == MPIDI_RANK_MAP_MLUT ||
        MPIDI_COMM(comm, map).avtid != 0)
        return false;
    return comm->hierarchy_kind == MPIR_COMM_HIERARCHY_KIND__NODE ||
        (comm->node_comm != NULL && comm->node_comm->local_size == comm->local_size);
}

static bool flat_is_better(MPIR_Comm * comm)
{
    return pm_crowded() && comm->local_size > 1 && comm->local_size <= FLAT_RANKS_LIMIT && on_one_host(comm);
}

/* Notes a failure and goes on, as MPICH's collectives do. */
static void note(int result, int *mpi_errno, MPIR_Errflag_t * errflag)
{
    if (result) {
        *errflag = MPIX_ERR_PROC_FAILED == MPIR_ERR_GET_CLASS(result) ? MPIR_ERR_PROC_FAILED : MPIR_ERR_OTHER;
        MPIR_ERR_ADD(*mpi_errno, result);
    }
}

/* `root` sends the same to everybody. */
static int flat_bcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root, int tag, MPIR_Comm * comm,
                      MPIR_Errflag_t * errflag)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Request *requests[FLAT_RANKS_LIMIT];
    int sent = 0;

    if (comm->rank != root) {
        MPI_Status status;
        note(MPIC_Recv(buffer, count, datatype, root, tag, comm, &status, errflag), &mpi_errno, errflag);
        return mpi_errno;
    }
    for (int i = 1; i < comm->local_size; i++)
        note(MPIC_Isend(buffer, count, datatype, (root + i) % comm->local_size, tag, comm, &requests[sent++], errflag),
             &mpi_errno, errflag);
    note(MPIC_Waitall(sent, requests, MPI_STATUSES_IGNORE, errflag), &mpi_errno, errflag);
    return mpi_errno;
}

int MPIDI_COMPOSITE_barrier(MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Status status;

    if (MPIR_CVAR_BARRIER_INTRA_ALGORITHM != MPIR_CVAR_BARRIER_INTRA_ALGORITHM_auto || !on_one_host(comm))
        return MPIR_Barrier_impl(comm, errflag);
    if (!flat_is_better(comm))
        return MPIR_Barrier_intra_dissemination(comm, errflag);
    if (comm->rank != 0) {
        note(MPIC_Send(NULL, 0, MPI_BYTE, 0, MPIR_BARRIER_TAG, comm, errflag), &mpi_errno, errflag);
    } else {
        for (int from = 1; from < comm->local_size; from++)
            note(MPIC_Recv(NULL, 0, MPI_BYTE, from, MPIR_BARRIER_TAG, comm, &status, errflag), &mpi_errno, errflag);
    }
    note(flat_bcast(NULL, 0, MPI_BYTE, 0, MPIR_BARRIER_TAG, comm, errflag), &mpi_errno, errflag);
    return mpi_errno;
}

int MPIDI_COMPOSITE_bcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root, MPIR_Comm * comm,
                          MPIR_Errflag_t * errflag)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(datatype, size);
    if (MPIR_CVAR_BCAST_INTRA_ALGORITHM != MPIR_CVAR_BCAST_INTRA_ALGORITHM_auto || !flat_is_better(comm) || size * count == 0)
        return MPIR_Bcast_impl(buffer, count, datatype, root, comm, errflag);
    return flat_bcast(buffer, count, datatype, root, MPIR_BCAST_TAG, comm, errflag);
}

int MPIDI_COMPOSITE_allreduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                              MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint size, extent;
    char others[FLAT_REDUCE_LIMIT] ATTRIBUTE((aligned(16)));

    MPIR_Datatype_get_size_macro(datatype, size);
    MPIR_Datatype_get_extent_macro(datatype, extent);
    if (MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM != MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM_auto || !flat_is_better(comm) ||
        !HANDLE_IS_BUILTIN(datatype) || !HANDLE_IS_BUILTIN(op) || size != extent || size * count == 0 ||
        size * count > FLAT_REDUCE_LIMIT)
        return MPIR_Allreduce_impl(sendbuf, recvbuf, count, datatype, op, comm, errflag);

    const void *mine = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    if (comm->rank != 0) {
        note(MPIC_Send(mine, count, datatype, 0, MPIR_ALLREDUCE_TAG, comm, errflag), &mpi_errno, errflag);
    } else {
        if (mine != recvbuf)
            memcpy(recvbuf, mine, size * count);
        for (int from = 1; from < comm->local_size; from++) {
            MPI_Status status;
            note(MPIC_Recv(others, count, datatype, from, MPIR_ALLREDUCE_TAG, comm, &status, errflag), &mpi_errno, errflag);
            note(MPIR_Reduce_local(others, recvbuf, count, datatype, op), &mpi_errno, errflag);
        }
    }
    note(flat_bcast(recvbuf, count, datatype, 0, MPIR_ALLREDUCE_TAG, comm, errflag), &mpi_errno, errflag);
    return mpi_errno;
}
