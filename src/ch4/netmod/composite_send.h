/* Sends. A short contiguous message that the device takes at once needs no request of its own. A large one may be announced with
 * its address and pulled by the receiver: it then needs the sender's core for nothing but the announcement. All others go
 * through MPICH's generic layer. */
#ifndef COMPOSITE_SEND_H_INCLUDED
#define COMPOSITE_SEND_H_INCLUDED

#include "composite_impl.h"

/* What follows the generic header in the announcement: where the bytes are, and the number that the receiver says when it has them. */
typedef struct {
    uint64_t address;
    uint64_t number;
} MPIDI_COMPOSITE_announced_t;
typedef struct {
    MPIDIG_hdr_t generic;
    MPIDI_COMPOSITE_announced_t announced;
} MPIDI_COMPOSITE_pull_header_t;

/* composite_upcalls.c */
int MPIDI_COMPOSITE_announce(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, MPIR_Comm * comm,
                             MPIDI_COMPOSITE_pull_header_t * header, MPIR_Request ** request);

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
    MPIDI_COMPOSITE_pull_header_t header;
    const void *data;

    *taken = false;
    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    if (!contiguous)
        return MPI_SUCCESS;
    data = MPIR_get_contig_ptr(buf, true_lb);
    header.generic.src_rank = comm->rank;
    header.generic.tag = tag;
    header.generic.context_id = comm->context_id + context_offset;
    header.generic.error_bits = errflag;
    header.generic.flags = flags;
    header.generic.sreq_ptr = NULL;
    header.generic.data_sz = size;
    header.generic.rndv_hdr_sz = 0;
    switch (pm_departure_of(peer, size, flags & MPIDIG_AM_SEND_FLAGS_SYNC)) {
    case PM_DEPARTS_NOW:
        /* Sending has a lock of its own in the core: another thread may be receiving. */
        *taken = pm_send_now(peer, MPIDIG_SEND, &header.generic, sizeof header.generic, data, size);
        if (likely(*taken)) {
            if (*request == NULL)
                *request = MPIR_Request_create_complete(MPIR_REQUEST_KIND__SEND);
            else
                MPIR_cc_set(&(*request)->cc, 0);
        }
        break;
    case PM_DEPARTS_BY_PULL:
        *taken = true;
        header.announced.address = (uint64_t) (uintptr_t) data;
        mpi_errno = MPIDI_COMPOSITE_announce(buf, count, datatype, rank, comm, &header, request);
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
    bool taken;
    int mpi_errno = MPIDI_COMPOSITE_send(buf, count, datatype, rank, tag, comm, context_offset, addr,
                                         MPIDIG_AM_SEND_FLAGS_SYNC, MPIR_ERR_NONE, request, &taken);
    return taken ? mpi_errno : MPIDIG_mpi_issend(buf, count, datatype, rank, tag, comm, context_offset, addr, 0, 0, request);
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
