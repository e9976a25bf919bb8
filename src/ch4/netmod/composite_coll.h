/* Collectives: those of a team where there is one (composite_team_coll.c), otherwise MPICH's generic ones. */
#ifndef COMPOSITE_COLL_H_INCLUDED
#define COMPOSITE_COLL_H_INCLUDED

#include "composite_impl.h"

/* composite_coll.c: whether a team does it, and what came of it. */
bool MPIDI_COMPOSITE_barrier(MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_bcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root, MPIR_Comm * comm,
                           MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_gather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                            MPI_Datatype recvtype, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_gatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                             const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype, int root,
                             MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_scatter(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                             MPI_Datatype recvtype, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_scatterv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * displs, MPI_Datatype sendtype,
                              void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype, int root, MPIR_Comm * comm,
                              MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_allgather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                               MPI_Aint recvcount, MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Errflag_t * errflag,
                               int *mpi_errno);
bool MPIDI_COMPOSITE_allgatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype, MPIR_Comm * comm,
                                MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_alltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                              MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_alltoallv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                               MPI_Datatype sendtype, void *recvbuf, const MPI_Aint * recvcounts, const MPI_Aint * rdispls,
                               MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_alltoallw(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                               const MPI_Datatype * sendtypes, void *recvbuf, const MPI_Aint * recvcounts,
                               const MPI_Aint * rdispls, const MPI_Datatype * recvtypes, MPIR_Comm * comm,
                               MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_reduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op, int root,
                            MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_allreduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                               MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_reduce_scatter(const void *sendbuf, void *recvbuf, const MPI_Aint * recvcounts, MPI_Datatype datatype,
                                    MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_reduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Aint recvcount, MPI_Datatype datatype,
                                          MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_scan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                          MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);
bool MPIDI_COMPOSITE_exscan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                            MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno);

/* composite_started.c: those that end later. */
int MPIDI_COMPOSITE_ibarrier(MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_ibcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root, MPIR_Comm * comm,
                           MPIR_Request ** request);
int MPIDI_COMPOSITE_iallreduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                               MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_ialltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                              MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_ialltoallv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls, MPI_Datatype sendtype,
                               void *recvbuf, const MPI_Aint * recvcounts, const MPI_Aint * rdispls, MPI_Datatype recvtype,
                               MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_ialltoallw(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                               const MPI_Datatype * sendtypes, void *recvbuf, const MPI_Aint * recvcounts,
                               const MPI_Aint * rdispls, const MPI_Datatype * recvtypes, MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_igather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                            MPI_Datatype recvtype, int root, MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_igatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                             const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype, int root,
                             MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_iscatter(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                             MPI_Datatype recvtype, int root, MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_iscatterv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * displs, MPI_Datatype sendtype,
                              void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype, int root, MPIR_Comm * comm,
                              MPIR_Request ** request);
int MPIDI_COMPOSITE_iallgather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                               MPI_Aint recvcount, MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_iallgatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype, MPIR_Comm * comm,
                                MPIR_Request ** request);
int MPIDI_COMPOSITE_ireduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op, int root,
                            MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_ireduce_scatter(const void *sendbuf, void *recvbuf, const MPI_Aint * recvcounts, MPI_Datatype datatype,
                                    MPI_Op op, MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_ireduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Aint recvcount, MPI_Datatype datatype,
                                          MPI_Op op, MPIR_Comm * comm, MPIR_Request ** request);
int MPIDI_COMPOSITE_iscan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op, MPIR_Comm * comm,
                          MPIR_Request ** request);
int MPIDI_COMPOSITE_iexscan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                            MPIR_Comm * comm, MPIR_Request ** request);

/* composite_coll.c: by messages, without a schedule. */
int MPIDI_COMPOSITE_neighbor_allgather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                       MPI_Aint recvcount, MPI_Datatype recvtype, MPIR_Comm * comm);
int MPIDI_COMPOSITE_neighbor_allgatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                        const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype,
                                        MPIR_Comm * comm);
int MPIDI_COMPOSITE_neighbor_alltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                      MPI_Aint recvcount, MPI_Datatype recvtype, MPIR_Comm * comm);
int MPIDI_COMPOSITE_neighbor_alltoallv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                                       MPI_Datatype sendtype, void *recvbuf, const MPI_Aint * recvcounts,
                                       const MPI_Aint * rdispls, MPI_Datatype recvtype, MPIR_Comm * comm);
int MPIDI_COMPOSITE_neighbor_alltoallw(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                                       const MPI_Datatype * sendtypes, void *recvbuf, const MPI_Aint * recvcounts,
                                       const MPI_Aint * rdispls, const MPI_Datatype * recvtypes, MPIR_Comm * comm);

/* The generic header defines all of them: ours take the names afterwards. */
#define MPIDI_NM_mpi_barrier MPIDI_COMPOSITE_unused_barrier
#define MPIDI_NM_mpi_bcast MPIDI_COMPOSITE_unused_bcast
#define MPIDI_NM_mpi_gather MPIDI_COMPOSITE_unused_gather
#define MPIDI_NM_mpi_gatherv MPIDI_COMPOSITE_unused_gatherv
#define MPIDI_NM_mpi_scatter MPIDI_COMPOSITE_unused_scatter
#define MPIDI_NM_mpi_scatterv MPIDI_COMPOSITE_unused_scatterv
#define MPIDI_NM_mpi_allgather MPIDI_COMPOSITE_unused_allgather
#define MPIDI_NM_mpi_allgatherv MPIDI_COMPOSITE_unused_allgatherv
#define MPIDI_NM_mpi_alltoall MPIDI_COMPOSITE_unused_alltoall
#define MPIDI_NM_mpi_alltoallv MPIDI_COMPOSITE_unused_alltoallv
#define MPIDI_NM_mpi_alltoallw MPIDI_COMPOSITE_unused_alltoallw
#define MPIDI_NM_mpi_reduce MPIDI_COMPOSITE_unused_reduce
#define MPIDI_NM_mpi_allreduce MPIDI_COMPOSITE_unused_allreduce
#define MPIDI_NM_mpi_reduce_scatter MPIDI_COMPOSITE_unused_reduce_scatter
#define MPIDI_NM_mpi_reduce_scatter_block MPIDI_COMPOSITE_unused_reduce_scatter_block
#define MPIDI_NM_mpi_scan MPIDI_COMPOSITE_unused_scan
#define MPIDI_NM_mpi_exscan MPIDI_COMPOSITE_unused_exscan
#define MPIDI_NM_mpi_ibarrier MPIDI_COMPOSITE_unused_ibarrier
#define MPIDI_NM_mpi_ibcast MPIDI_COMPOSITE_unused_ibcast
#define MPIDI_NM_mpi_iallreduce MPIDI_COMPOSITE_unused_iallreduce
#define MPIDI_NM_mpi_ialltoall MPIDI_COMPOSITE_unused_ialltoall
#define MPIDI_NM_mpi_ialltoallv MPIDI_COMPOSITE_unused_ialltoallv
#define MPIDI_NM_mpi_ialltoallw MPIDI_COMPOSITE_unused_ialltoallw
#define MPIDI_NM_mpi_igather MPIDI_COMPOSITE_unused_igather
#define MPIDI_NM_mpi_igatherv MPIDI_COMPOSITE_unused_igatherv
#define MPIDI_NM_mpi_iscatter MPIDI_COMPOSITE_unused_iscatter
#define MPIDI_NM_mpi_iscatterv MPIDI_COMPOSITE_unused_iscatterv
#define MPIDI_NM_mpi_iallgather MPIDI_COMPOSITE_unused_iallgather
#define MPIDI_NM_mpi_iallgatherv MPIDI_COMPOSITE_unused_iallgatherv
#define MPIDI_NM_mpi_ireduce MPIDI_COMPOSITE_unused_ireduce
#define MPIDI_NM_mpi_ireduce_scatter MPIDI_COMPOSITE_unused_ireduce_scatter
#define MPIDI_NM_mpi_ireduce_scatter_block MPIDI_COMPOSITE_unused_ireduce_scatter_block
#define MPIDI_NM_mpi_iscan MPIDI_COMPOSITE_unused_iscan
#define MPIDI_NM_mpi_iexscan MPIDI_COMPOSITE_unused_iexscan
#define MPIDI_NM_mpi_neighbor_allgather MPIDI_COMPOSITE_unused_neighbor_allgather
#define MPIDI_NM_mpi_neighbor_allgatherv MPIDI_COMPOSITE_unused_neighbor_allgatherv
#define MPIDI_NM_mpi_neighbor_alltoall MPIDI_COMPOSITE_unused_neighbor_alltoall
#define MPIDI_NM_mpi_neighbor_alltoallv MPIDI_COMPOSITE_unused_neighbor_alltoallv
#define MPIDI_NM_mpi_neighbor_alltoallw MPIDI_COMPOSITE_unused_neighbor_alltoallw
#include "netmod_am_fallback_coll.h"
#undef MPIDI_NM_mpi_barrier
#undef MPIDI_NM_mpi_bcast
#undef MPIDI_NM_mpi_gather
#undef MPIDI_NM_mpi_gatherv
#undef MPIDI_NM_mpi_scatter
#undef MPIDI_NM_mpi_scatterv
#undef MPIDI_NM_mpi_allgather
#undef MPIDI_NM_mpi_allgatherv
#undef MPIDI_NM_mpi_alltoall
#undef MPIDI_NM_mpi_alltoallv
#undef MPIDI_NM_mpi_alltoallw
#undef MPIDI_NM_mpi_reduce
#undef MPIDI_NM_mpi_allreduce
#undef MPIDI_NM_mpi_reduce_scatter
#undef MPIDI_NM_mpi_reduce_scatter_block
#undef MPIDI_NM_mpi_scan
#undef MPIDI_NM_mpi_exscan
#undef MPIDI_NM_mpi_ibarrier
#undef MPIDI_NM_mpi_ibcast
#undef MPIDI_NM_mpi_iallreduce
#undef MPIDI_NM_mpi_ialltoall
#undef MPIDI_NM_mpi_ialltoallv
#undef MPIDI_NM_mpi_ialltoallw
#undef MPIDI_NM_mpi_igather
#undef MPIDI_NM_mpi_igatherv
#undef MPIDI_NM_mpi_iscatter
#undef MPIDI_NM_mpi_iscatterv
#undef MPIDI_NM_mpi_iallgather
#undef MPIDI_NM_mpi_iallgatherv
#undef MPIDI_NM_mpi_ireduce
#undef MPIDI_NM_mpi_ireduce_scatter
#undef MPIDI_NM_mpi_ireduce_scatter_block
#undef MPIDI_NM_mpi_iscan
#undef MPIDI_NM_mpi_iexscan
#undef MPIDI_NM_mpi_neighbor_allgather
#undef MPIDI_NM_mpi_neighbor_allgatherv
#undef MPIDI_NM_mpi_neighbor_alltoall
#undef MPIDI_NM_mpi_neighbor_alltoallv
#undef MPIDI_NM_mpi_neighbor_alltoallw
#define MPIDI_NM_mpi_ibarrier MPIDI_COMPOSITE_ibarrier
#define MPIDI_NM_mpi_ibcast MPIDI_COMPOSITE_ibcast
#define MPIDI_NM_mpi_iallreduce MPIDI_COMPOSITE_iallreduce
#define MPIDI_NM_mpi_ialltoall MPIDI_COMPOSITE_ialltoall
#define MPIDI_NM_mpi_ialltoallv MPIDI_COMPOSITE_ialltoallv
#define MPIDI_NM_mpi_ialltoallw MPIDI_COMPOSITE_ialltoallw
#define MPIDI_NM_mpi_igather MPIDI_COMPOSITE_igather
#define MPIDI_NM_mpi_igatherv MPIDI_COMPOSITE_igatherv
#define MPIDI_NM_mpi_iscatter MPIDI_COMPOSITE_iscatter
#define MPIDI_NM_mpi_iscatterv MPIDI_COMPOSITE_iscatterv
#define MPIDI_NM_mpi_iallgather MPIDI_COMPOSITE_iallgather
#define MPIDI_NM_mpi_iallgatherv MPIDI_COMPOSITE_iallgatherv
#define MPIDI_NM_mpi_ireduce MPIDI_COMPOSITE_ireduce
#define MPIDI_NM_mpi_ireduce_scatter MPIDI_COMPOSITE_ireduce_scatter
#define MPIDI_NM_mpi_ireduce_scatter_block MPIDI_COMPOSITE_ireduce_scatter_block
#define MPIDI_NM_mpi_iscan MPIDI_COMPOSITE_iscan
#define MPIDI_NM_mpi_iexscan MPIDI_COMPOSITE_iexscan
#define MPIDI_NM_mpi_neighbor_allgather MPIDI_COMPOSITE_neighbor_allgather
#define MPIDI_NM_mpi_neighbor_allgatherv MPIDI_COMPOSITE_neighbor_allgatherv
#define MPIDI_NM_mpi_neighbor_alltoall MPIDI_COMPOSITE_neighbor_alltoall
#define MPIDI_NM_mpi_neighbor_alltoallv MPIDI_COMPOSITE_neighbor_alltoallv
#define MPIDI_NM_mpi_neighbor_alltoallw MPIDI_COMPOSITE_neighbor_alltoallw

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_barrier(MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_barrier(comm, errflag, &mpi_errno) ?
        mpi_errno : MPIR_Barrier_impl(comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_bcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root, MPIR_Comm * comm,
                                                MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_bcast(buffer, count, datatype, root, comm, errflag, &mpi_errno) ?
        mpi_errno : MPIR_Bcast_impl(buffer, count, datatype, root, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_gather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                                 MPI_Aint recvcount, MPI_Datatype recvtype, int root, MPIR_Comm * comm,
                                                 MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, errflag, &mpi_errno) ?
        mpi_errno : MPIR_Gather_impl(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_gatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                                  const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype,
                                                  int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_gatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm, errflag,
                                   &mpi_errno) ?
        mpi_errno : MPIR_Gatherv_impl(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_scatter(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                                  MPI_Aint recvcount, MPI_Datatype recvtype, int root, MPIR_Comm * comm,
                                                  MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_scatter(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, errflag,
                                   &mpi_errno) ?
        mpi_errno : MPIR_Scatter_impl(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_scatterv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * displs,
                                                   MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                                                   MPI_Datatype recvtype, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_scatterv(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm, errflag,
                                    &mpi_errno) ?
        mpi_errno : MPIR_Scatterv_impl(sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,
                                       errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_allgather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                                    void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype, MPIR_Comm * comm,
                                                    MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, errflag, &mpi_errno) ?
        mpi_errno : MPIR_Allgather_impl(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_allgatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                                     void *recvbuf, const MPI_Aint * recvcounts, const MPI_Aint * displs,
                                                     MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_allgatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, errflag,
                                      &mpi_errno) ?
        mpi_errno : MPIR_Allgatherv_impl(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_alltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype,
                                                   void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype, MPIR_Comm * comm,
                                                   MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, errflag, &mpi_errno) ?
        mpi_errno : MPIR_Alltoall_impl(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_alltoallv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                                                    MPI_Datatype sendtype, void *recvbuf, const MPI_Aint * recvcounts,
                                                    const MPI_Aint * rdispls, MPI_Datatype recvtype, MPIR_Comm * comm,
                                                    MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_alltoallv(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
                                     errflag, &mpi_errno) ?
        mpi_errno : MPIR_Alltoallv_impl(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
                                        errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_alltoallw(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                                                    const MPI_Datatype * sendtypes, void *recvbuf, const MPI_Aint * recvcounts,
                                                    const MPI_Aint * rdispls, const MPI_Datatype * recvtypes, MPIR_Comm * comm,
                                                    MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_alltoallw(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm,
                                     errflag, &mpi_errno) ?
        mpi_errno : MPIR_Alltoallw_impl(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm,
                                        errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_reduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype,
                                                 MPI_Op op, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_reduce(sendbuf, recvbuf, count, datatype, op, root, comm, errflag, &mpi_errno) ?
        mpi_errno : MPIR_Reduce_impl(sendbuf, recvbuf, count, datatype, op, root, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_allreduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype,
                                                    MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_allreduce(sendbuf, recvbuf, count, datatype, op, comm, errflag, &mpi_errno) ?
        mpi_errno : MPIR_Allreduce_impl(sendbuf, recvbuf, count, datatype, op, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_reduce_scatter(const void *sendbuf, void *recvbuf, const MPI_Aint * recvcounts,
                                                         MPI_Datatype datatype, MPI_Op op, MPIR_Comm * comm,
                                                         MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm, errflag, &mpi_errno) ?
        mpi_errno : MPIR_Reduce_scatter_impl(sendbuf, recvbuf, recvcounts, datatype, op, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_reduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Aint recvcount,
                                                               MPI_Datatype datatype, MPI_Op op, MPIR_Comm * comm,
                                                               MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm, errflag, &mpi_errno) ?
        mpi_errno : MPIR_Reduce_scatter_block_impl(sendbuf, recvbuf, recvcount, datatype, op, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_scan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype,
                                               MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_scan(sendbuf, recvbuf, count, datatype, op, comm, errflag, &mpi_errno) ?
        mpi_errno : MPIR_Scan_impl(sendbuf, recvbuf, count, datatype, op, comm, errflag);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_exscan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype,
                                                 MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno;

    return MPIDI_COMPOSITE_exscan(sendbuf, recvbuf, count, datatype, op, comm, errflag, &mpi_errno) ?
        mpi_errno : MPIR_Exscan_impl(sendbuf, recvbuf, count, datatype, op, comm, errflag);
}

#endif
