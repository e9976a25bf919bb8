/* The active-message functions on which MPICH's generic layer builds everything else. */
#ifndef COMPOSITE_AM_H_INCLUDED
#define COMPOSITE_AM_H_INCLUDED

#include "composite_impl.h"

MPL_STATIC_INLINE_PREFIX void MPIDI_NM_am_request_init(MPIR_Request * req)
{
}

MPL_STATIC_INLINE_PREFIX void MPIDI_NM_am_request_finalize(MPIR_Request * req)
{
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_send_hdr(int rank, MPIR_Comm * comm, int handler_id, const void *am_hdr,
                                                  MPI_Aint am_hdr_sz, int src_vci, int dst_vci)
{
    int sent = pm_send(MPIDI_COMPOSITE_peer(comm, rank), handler_id, am_hdr, am_hdr_sz, NULL, 0, NULL);

    return unlikely(sent == PM_FAILED) ? MPIDI_COMPOSITE_lost() : MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_send_hdr_reply(MPIR_Comm * comm, int rank, int handler_id, const void *am_hdr,
                                                        MPI_Aint am_hdr_sz, int src_vci, int dst_vci)
{
    return MPIDI_NM_am_send_hdr(rank, comm, handler_id, am_hdr, am_hdr_sz, src_vci, dst_vci);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_isend(int rank, MPIR_Comm * comm, int handler_id, const void *am_hdr,
                                               MPI_Aint am_hdr_sz, const void *data, MPI_Aint count,
                                               MPI_Datatype datatype, int src_vci, int dst_vci, MPIR_Request * sreq)
{
    int contiguous, sent;
    MPI_Aint true_lb;
    size_t size;
    MPIR_Datatype *type ATTRIBUTE((unused));
    pm_peer *peer = MPIDI_COMPOSITE_peer(comm, rank);

    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    MPIDI_COMPOSITE_AM_REQUEST(sreq).handler_id = handler_id;
    if (likely(contiguous)) {
        MPIDI_COMPOSITE_AM_REQUEST(sreq).datatype = MPI_DATATYPE_NULL;
        sent = pm_send(peer, handler_id, am_hdr, am_hdr_sz, MPIR_get_contig_ptr(data, true_lb), size, sreq);
    } else {
        MPIDI_COMPOSITE_AM_REQUEST(sreq).buffer = data;
        MPIDI_COMPOSITE_AM_REQUEST(sreq).count = count;
        MPIDI_COMPOSITE_AM_REQUEST(sreq).datatype = datatype;
        sent = pm_send_packed(peer, handler_id, am_hdr, am_hdr_sz, MPIDI_COMPOSITE_pack, sreq, size, sreq);
        if (sent == PM_QUEUED)
            MPIR_Datatype_add_ref_if_not_builtin(datatype);     /* the user may free it meanwhile */
    }
    if (likely(sent == PM_OK))
        return MPIDIG_global.origin_cbs[handler_id] (sreq);
    return sent == PM_FAILED ? MPIDI_COMPOSITE_lost() : MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_am_isend_reply(MPIR_Comm * comm, int rank, int handler_id, const void *am_hdr,
                                                     MPI_Aint am_hdr_sz, const void *data, MPI_Aint count,
                                                     MPI_Datatype datatype, int src_vci, int dst_vci,
                                                     MPIR_Request * sreq)
{
    return MPIDI_NM_am_isend(rank, comm, handler_id, am_hdr, am_hdr_sz, data, count, datatype, src_vci, dst_vci, sreq);
}

MPL_STATIC_INLINE_PREFIX MPI_Aint MPIDI_NM_am_hdr_max_sz(void)
{
    return pm_largest_header(MPIDI_COMPOSITE_global.core);
}

MPL_STATIC_INLINE_PREFIX MPI_Aint MPIDI_NM_am_eager_limit(void)
{
    return MPIDI_COMPOSITE_EAGER_LIMIT;
}

MPL_STATIC_INLINE_PREFIX MPI_Aint MPIDI_NM_am_eager_buf_limit(void)
{
    return MPIDI_COMPOSITE_EAGER_LIMIT;
}

MPL_STATIC_INLINE_PREFIX bool MPIDI_NM_am_check_eager(MPI_Aint am_hdr_sz, MPI_Aint data_sz, const void *data,
                                                      MPI_Aint count, MPI_Datatype datatype, MPIR_Request * sreq)
{
    return data_sz <= MPIDI_COMPOSITE_EAGER_LIMIT ||
        pm_goes_ungranted(MPIDI_COMPOSITE_peer(sreq->comm, MPIDIG_REQUEST(sreq, u.send.dest)), data_sz);
}

MPL_STATIC_INLINE_PREFIX MPIDIG_recv_data_copy_cb MPIDI_NM_am_get_data_copy_cb(uint32_t attr)
{
    return NULL;
}

#endif
