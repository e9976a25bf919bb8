/* Collectives of a team. The caller has looked whether the team does one of this size (coll/choice.h). */
#ifndef COMPOSITE_TEAM_COLL_H_INCLUDED
#define COMPOSITE_TEAM_COLL_H_INCLUDED

#include "composite_team.h"

int MPIDI_COMPOSITE_team_barrier(MPIDI_COMPOSITE_team_t * team);
int MPIDI_COMPOSITE_team_bcast(MPIDI_COMPOSITE_team_t * team, void *buffer, MPI_Aint count, MPI_Datatype type, int root);
int MPIDI_COMPOSITE_team_gather(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                MPI_Aint recvcount, MPI_Datatype recvtype, int root);
int MPIDI_COMPOSITE_team_gatherv(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                 const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype, int root);
int MPIDI_COMPOSITE_team_scatter(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                 MPI_Aint recvcount, MPI_Datatype recvtype, int root);
int MPIDI_COMPOSITE_team_scatterv(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * displs,
                                  MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype, int root);
int MPIDI_COMPOSITE_team_allgather(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                   MPI_Aint recvcount, MPI_Datatype recvtype);
int MPIDI_COMPOSITE_team_allgatherv(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                    const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype);
int MPIDI_COMPOSITE_team_alltoall(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                  MPI_Aint recvcount, MPI_Datatype recvtype);
int MPIDI_COMPOSITE_team_alltoallv(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                                   MPI_Datatype sendtype, void *recvbuf, const MPI_Aint * recvcounts, const MPI_Aint * rdispls,
                                   MPI_Datatype recvtype);
int MPIDI_COMPOSITE_team_alltoallw(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, const MPI_Aint sendcounts[], const MPI_Aint sdispls[],
                                   const MPI_Datatype sendtypes[], void *recvbuf, const MPI_Aint recvcounts[],
                                   const MPI_Aint rdispls[], const MPI_Datatype recvtypes[]);
int MPIDI_COMPOSITE_team_reduce(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op,
                                int root);
int MPIDI_COMPOSITE_team_allreduce(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op);
int MPIDI_COMPOSITE_team_reduce_scatter(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, void *recvbuf, const MPI_Aint recvcounts[],
                                        MPI_Datatype type, MPI_Op op);
int MPIDI_COMPOSITE_team_reduce_scatter_block(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, void *recvbuf, MPI_Aint recvcount,
                                              MPI_Datatype type, MPI_Op op);
int MPIDI_COMPOSITE_team_scan(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op);
int MPIDI_COMPOSITE_team_exscan(MPIDI_COMPOSITE_team_t * team, const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype type, MPI_Op op);

#endif
