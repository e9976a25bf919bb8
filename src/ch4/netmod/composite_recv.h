/* Receives and probes: composite_matching.c, where messages and receives meet. */
#ifndef COMPOSITE_RECV_H_INCLUDED
#define COMPOSITE_RECV_H_INCLUDED

#include "composite_impl.h"

int MPIDI_COMPOSITE_irecv(void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm, int context_offset,
                          MPIR_Request ** request);
int MPIDI_COMPOSITE_cancel_recv(MPIR_Request * rreq);
int MPIDI_COMPOSITE_iprobe(int source, int tag, MPIR_Comm * comm, int context_offset, int *flag, MPI_Status * status);

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_irecv(void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm,
                                                int context_offset, MPIDI_av_entry_t * addr, MPIR_Request ** request, MPIR_Request * partner)
{
    return MPIDI_COMPOSITE_irecv(buf, count, datatype, rank, tag, comm, context_offset, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_imrecv(void *buf, MPI_Aint count, MPI_Datatype datatype, MPIR_Request * message)
{
    return MPIDIG_mpi_imrecv(buf, count, datatype, message);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_cancel_recv(MPIR_Request * rreq)
{
    return MPIDI_COMPOSITE_cancel_recv(rreq);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_iprobe(int source, int tag, MPIR_Comm * comm, int context_offset, MPIDI_av_entry_t * addr,
                                                 int *flag, MPI_Status * status)
{
    return MPIDI_COMPOSITE_iprobe(source, tag, comm, context_offset, flag, status);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_improbe(int source, int tag, MPIR_Comm * comm, int context_offset, MPIDI_av_entry_t * addr,
                                                  int *flag, MPIR_Request ** message, MPI_Status * status)
{
    return MPIDIG_mpi_improbe(source, tag, comm, context_offset, 0, flag, message, status);
}

#endif
