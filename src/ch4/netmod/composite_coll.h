/* Collectives: MPICH's generic ones, but for those of which a host with more ranks than cores has a better one. */
#ifndef COMPOSITE_COLL_H_INCLUDED
#define COMPOSITE_COLL_H_INCLUDED

#include "composite_impl.h"

/* composite_coll.c */
int MPIDI_COMPOSITE_barrier(MPIR_Comm * comm, MPIR_Errflag_t * errflag);
int MPIDI_COMPOSITE_bcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root, MPIR_Comm * comm,
                          MPIR_Errflag_t * errflag);
int MPIDI_COMPOSITE_allreduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                              MPIR_Comm * comm, MPIR_Errflag_t * errflag);

/* The generic header defines all of them: ours take the names afterwards. */
#define MPIDI_NM_mpi_barrier MPIDI_COMPOSITE_unused_barrier
#define MPIDI_NM_mpi_bcast MPIDI_COMPOSITE_unused_bcast
#define MPIDI_NM_mpi_allreduce MPIDI_COMPOSITE_unused_allreduce
#include "netmod_am_fallback_coll.h"
#undef MPIDI_NM_mpi_barrier
#undef MPIDI_NM_mpi_bcast
#undef MPIDI_NM_mpi_allreduce

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_barrier(MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    return MPIDI_COMPOSITE_barrier(comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_bcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root,
                                                MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    return MPIDI_COMPOSITE_bcast(buffer, count, datatype, root, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_allreduce(const void *sendbuf, void *recvbuf, MPI_Aint count,
                                                    MPI_Datatype datatype, MPI_Op op, MPIR_Comm * comm,
                                                    MPIR_Errflag_t * errflag)
{
    return MPIDI_COMPOSITE_allreduce(sendbuf, recvbuf, count, datatype, op, comm, errflag);
}

#endif
