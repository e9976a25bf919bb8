#ifndef COMPOSITE_IMPL_H_INCLUDED
#define COMPOSITE_IMPL_H_INCLUDED

#include <mpidimpl.h>
#include "mpidch4r.h"
#include "ch4_impl.h"

#define MPIDI_COMPOSITE_AV(av) ((av)->netmod.composite)
#define MPIDI_COMPOSITE_COMM(comm) ((comm)->dev.ch4.netmod.composite)
#define MPIDI_COMPOSITE_WIN(win) ((win)->dev.netmod.composite)
#define MPIDI_COMPOSITE_AM_REQUEST(req) ((req)->dev.ch4.am.netmod_am.composite)
/* In place of memory from malloc, for maint/graft-mpich: what is announced says MPIDI_COMPOSITE_announced_t, whose size was looked at. */
#define MPIDI_COMPOSITE_room_for_announced(req, size) ((void) (size), (void *) MPIDI_COMPOSITE_AM_REQUEST(req).announced)

/* Our rendezvous. */
#define MPIDI_COMPOSITE_RNDV_PULL MPIDIG_RNDV_STATIC_MAX

/* Where the core's words become an MPI error: for calls that may fail and leave everything else as it was. */
#define MPIDI_COMPOSITE_FAIL(mpi_errno) \
    MPIR_ERR_SETANDJUMP1(mpi_errno, MPI_ERR_OTHER, "**composite", "**composite %s", pm_error_text())

/* A message up to this size is sent without asking, and up to PM_UNGRANTED_LIMIT where the device has room at the receiver: an unexpected one
 * is kept in a buffer of MPICH's, which is as large (MPI_Init sees to that). */
#define MPIDI_COMPOSITE_EAGER_LIMIT PM_SEND_NOW_LIMIT

MPL_STATIC_INLINE_PREFIX pm_peer *MPIDI_COMPOSITE_peer(MPIR_Comm * comm, int rank)
{
    return MPIDI_COMPOSITE_AV(MPIDIU_comm_rank_to_av(comm, rank)).peer;
}

/* composite_init.c */
void MPIDI_COMPOSITE_size_buffers(void);
/* composite_upcalls.c */
int MPIDI_COMPOSITE_lost(void);
void MPIDI_COMPOSITE_pack(void *request, size_t offset, void *destination, size_t size);
int MPIDI_COMPOSITE_pull_matched(MPIR_Request * rreq);
/* composite_spawn.c */
void MPIDI_COMPOSITE_dynamic_init(void);
void MPIDI_COMPOSITE_dynamic_finalize(void);
int MPIDI_COMPOSITE_spawn_failed(int root, MPIR_Comm * comm, const char *port, int processes, int errcodes[]);
/* composite_alone.c */
void MPIDI_COMPOSITE_warn_if_alone(void);

#endif
