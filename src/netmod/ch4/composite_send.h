/* Sends. Eager and streamed messages go through MPICH's generic layer. A large one may instead be announced with its
 * address and pulled by the receiver: it then needs the sender's core for nothing but the announcement. */
#ifndef COMPOSITE_SEND_H_INCLUDED
#define COMPOSITE_SEND_H_INCLUDED

#include "composite_impl.h"

/* What follows the generic header in the announcement. */
typedef struct {
    MPIDIG_hdr_t generic;
    uint64_t address;
} MPIDI_COMPOSITE_pull_header_t;

/* Announces the message; `*announced` is false when it should go the generic way. */
MPL_STATIC_INLINE_PREFIX int MPIDI_COMPOSITE_announce(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank,
                                                      int tag, MPIR_Comm * comm, int context_offset,
                                                      MPIDI_av_entry_t * addr, int flags, MPIR_Errflag_t errflag,
                                                      MPIR_Request ** request, bool * announced)
{
    int mpi_errno = MPI_SUCCESS;
    int contiguous;
    MPI_Aint true_lb;
    size_t size;
    MPIR_Datatype *type ATTRIBUTE((unused));
    MPIR_Request *sreq;
    MPIDI_COMPOSITE_pull_header_t header;

    *announced = false;
    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    if (likely(size <= MPIDI_COMPOSITE_EAGER_LIMIT) || !contiguous || !pm_prefers_pull(MPIDI_COMPOSITE_AV(addr).peer))
        return MPI_SUCCESS;
    *announced = true;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    if (*request == NULL) {
        *request = MPIDIG_request_create(MPIR_REQUEST_KIND__SEND, 2, 0, 0);
        MPIR_ERR_CHKANDSTMT(*request == NULL, mpi_errno, MPIX_ERR_NOREQ, goto fn_fail, "**nomemreq");
    } else {
        MPIDIG_request_init(*request, MPIR_REQUEST_KIND__SEND);
    }
    sreq = *request;
    sreq->comm = comm;
    MPIR_Comm_add_ref(comm);

    memset(&header, 0, sizeof header);
    header.generic.src_rank = comm->rank;
    header.generic.tag = tag;
    header.generic.context_id = comm->context_id + context_offset;
    header.generic.error_bits = errflag;
    header.generic.flags = flags;
    header.generic.sreq_ptr = sreq;
    header.generic.data_sz = size;
    header.generic.rndv_hdr_sz = sizeof header.address;
    MPIDIG_AM_SEND_SET_RNDV(header.generic.flags, MPIDI_COMPOSITE_RNDV_PULL);
    header.address = (uint64_t) (uintptr_t) MPIR_get_contig_ptr(buf, true_lb);
    if (flags & MPIDIG_AM_SEND_FLAGS_SYNC)
        MPIR_cc_inc(sreq->cc_ptr);      /* the receiver acknowledges the match, too */

    /* Kept for the case that the receiver cannot pull after all and asks for the bytes. */
    MPIDIG_REQUEST(sreq, buffer) = (void *) buf;
    MPIDIG_REQUEST(sreq, count) = count;
    MPIDIG_REQUEST(sreq, datatype) = datatype;
    MPIDIG_REQUEST(sreq, u.send.dest) = rank;
    MPIR_Datatype_add_ref_if_not_builtin(datatype);

    mpi_errno = MPIDI_NM_am_send_hdr(rank, comm, MPIDIG_SEND, &header, sizeof header, 0, 0);

  fn_fail:
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return mpi_errno;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_isend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                                                MPIR_Comm * comm, int context_offset, MPIDI_av_entry_t * addr,
                                                MPIR_Request ** request)
{
    bool announced;
    int mpi_errno = MPIDI_COMPOSITE_announce(buf, count, datatype, rank, tag, comm, context_offset, addr,
                                             MPIDIG_AM_SEND_FLAGS_NONE, MPIR_ERR_NONE, request, &announced);
    return announced ? mpi_errno : MPIDIG_mpi_isend(buf, count, datatype, rank, tag, comm, context_offset, addr, 0, 0,
                                                    request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_issend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank,
                                                 int tag, MPIR_Comm * comm, int context_offset,
                                                 MPIDI_av_entry_t * addr, MPIR_Request ** request)
{
    bool announced;
    int mpi_errno = MPIDI_COMPOSITE_announce(buf, count, datatype, rank, tag, comm, context_offset, addr,
                                             MPIDIG_AM_SEND_FLAGS_SYNC, MPIR_ERR_NONE, request, &announced);
    return announced ? mpi_errno : MPIDIG_mpi_issend(buf, count, datatype, rank, tag, comm, context_offset, addr, 0, 0,
                                                     request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_isend_coll(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank,
                                                 int tag, MPIR_Comm * comm, int context_offset,
                                                 MPIDI_av_entry_t * addr, MPIR_Request ** request,
                                                 MPIR_Errflag_t * errflag)
{
    bool announced;
    int mpi_errno = MPIDI_COMPOSITE_announce(buf, count, datatype, rank, tag, comm, context_offset, addr,
                                             MPIDIG_AM_SEND_FLAGS_NONE, *errflag, request, &announced);
    return announced ? mpi_errno : MPIDIG_isend_coll(buf, count, datatype, rank, tag, comm, context_offset, addr, 0, 0,
                                                     request, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_cancel_send(MPIR_Request * sreq)
{
    return MPIDIG_mpi_cancel_send(sreq);
}

#endif
