/* Sends. A short contiguous message that the device takes at once needs no request of its own. A large one may be announced with
 * its address and pulled by the receiver: it then needs the sender's core for nothing but the announcement. All others go
 * through MPICH's generic layer. */
#ifndef COMPOSITE_SEND_H_INCLUDED
#define COMPOSITE_SEND_H_INCLUDED

#include "composite_impl.h"
#include "composite_decode.h"

typedef struct {
    MPIDIG_hdr_t generic;
    MPIDI_COMPOSITE_announced_t announced;
} MPIDI_COMPOSITE_pull_header_t;

/* composite_upcalls.c */
int MPIDI_COMPOSITE_announce(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm, int context_offset,
                             int flags, MPIR_Errflag_t errflag, const void *data, size_t size, MPIR_Request ** request, bool * taken);

/* MPI_Sendrecv, where what is sent leaves at once: then it is a receive. False: nothing has happened (composite_matching.c, for maint/graft-mpich). */
bool MPIDI_COMPOSITE_sendrecv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, MPI_Aint recvcount,
                              MPI_Datatype recvtype, int source, int recvtag, MPIR_Comm * comm, MPI_Status * status, int *mpi_errno);
/* MPID_Isend, in MPI_Sendrecv (composite_upcalls.c, for maint/graft-mpich). */
int MPIDI_COMPOSITE_isend_both_ways(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm,
                                    int context_offset, MPIR_Request ** request);

/* composite_matching.c */
int MPIDI_COMPOSITE_issend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm, int context_offset,
                           MPIDI_av_entry_t * addr, MPIR_Request ** request);

/* At most PM_SEND_NOW_LIMIT bytes; false when the device does not take them now. */
MPL_STATIC_INLINE_PREFIX bool MPIDI_COMPOSITE_send_short(pm_peer * peer, int source, int tag, int context, const void *data, size_t size)
{
    const MPIDI_COMPOSITE_short_header_t header = { source, tag, context, 0 };

    return pm_send_now(peer, MPIDI_COMPOSITE_global.handler_short, &header, sizeof header, data, size);
}

/* `*taken` is false when the message should go the generic way. */
MPL_STATIC_INLINE_PREFIX int MPIDI_COMPOSITE_send(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                                                  MPIR_Comm * comm, int context_offset, MPIDI_av_entry_t * addr,
                                                  int flags, MPIR_Errflag_t errflag, MPIR_Request ** request, bool * taken)
{
    int mpi_errno = MPI_SUCCESS;
    int contiguous;
    MPI_Aint true_lb;
    size_t size;
    MPIR_Datatype *type ATTRIBUTE((unused));
    pm_peer *peer = MPIDI_COMPOSITE_AV(addr).peer;
    const void *data;

    *taken = false;
    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    if (!contiguous)
        return MPI_SUCCESS;
    data = MPIR_get_contig_ptr(buf, true_lb);
    switch (pm_departure_of(peer, size, flags & MPIDIG_AM_SEND_FLAGS_SYNC)) {
    case PM_DEPARTS_NOW:
        if (unlikely(errflag != MPIR_ERR_NONE))
            break;
        /* Sending has a lock of its own in the core: another thread may be receiving. */
        *taken = MPIDI_COMPOSITE_send_short(peer, comm->rank, tag, comm->context_id + context_offset, data, size);
        if (likely(*taken)) {
            if (*request == NULL)
                *request = MPIR_Request_create_complete(MPIR_REQUEST_KIND__SEND);
            else
                MPIR_cc_set(&(*request)->cc, 0);
        }
        break;
    case PM_DEPARTS_BY_PULL:
        mpi_errno = MPIDI_COMPOSITE_announce(buf, count, datatype, rank, tag, comm, context_offset, flags, errflag, data, size, request, taken);
        break;
    case PM_DEPARTS_LATER:
        break;
    }
    return mpi_errno;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_isend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                                                MPIR_Comm * comm, int context_offset, MPIDI_av_entry_t * addr,
                                                MPIR_Request ** request)
{
    bool taken;
    int mpi_errno = MPIDI_COMPOSITE_send(buf, count, datatype, rank, tag, comm, context_offset, addr,
                                         MPIDIG_AM_SEND_FLAGS_NONE, MPIR_ERR_NONE, request, &taken);
    return taken ? mpi_errno : MPIDIG_mpi_isend(buf, count, datatype, rank, tag, comm, context_offset, addr, 0, 0, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_issend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank,
                                                 int tag, MPIR_Comm * comm, int context_offset,
                                                 MPIDI_av_entry_t * addr, MPIR_Request ** request)
{
    return MPIDI_COMPOSITE_issend(buf, count, datatype, rank, tag, comm, context_offset, addr, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_isend_coll(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank,
                                                 int tag, MPIR_Comm * comm, int context_offset,
                                                 MPIDI_av_entry_t * addr, MPIR_Request ** request,
                                                 MPIR_Errflag_t * errflag)
{
    bool taken;
    int mpi_errno = MPIDI_COMPOSITE_send(buf, count, datatype, rank, tag, comm, context_offset, addr,
                                         MPIDIG_AM_SEND_FLAGS_NONE, *errflag, request, &taken);
    return taken ? mpi_errno : MPIDIG_isend_coll(buf, count, datatype, rank, tag, comm, context_offset, addr, 0, 0, request,
                                                 errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_cancel_send(MPIR_Request * sreq)
{
    return MPIDIG_mpi_cancel_send(sreq);
}

#endif
