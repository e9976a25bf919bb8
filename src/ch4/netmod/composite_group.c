/* MPI's communicators for the engines in src/coll that know them as groups. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll_life.h"
#include "coll/am/am.h"
#include "coll/barrier/barrier.h"
#include "coll/mcast/mcast.h"

static pm_peer *peer_of(void *context, int rank)
{
    return MPIDI_COMPOSITE_peer(context, rank);
}

static int host_of(void *context, int rank)
{
    int host = -1;

    (void) MPIDIU_get_node_id(context, rank, &host);
    return host;
}

/* MPICH's own communicators of a host and of one rank of each host are not the user's. */
static bool may_have_group(MPIR_Comm * comm)
{
    return comm->comm_kind == MPIR_COMM_KIND__INTRACOMM && comm->hierarchy_kind != MPIR_COMM_HIERARCHY_KIND__NODE &&
        comm->hierarchy_kind != MPIR_COMM_HIERARCHY_KIND__NODE_ROOTS;
}

pm_group_setup MPIDI_COMPOSITE_group_setup(MPIR_Comm * comm)
{
    pm_group_setup setup;

    setup.id = comm->context_id;
    setup.size = comm->local_size;
    setup.rank = comm->rank;
    setup.context = comm;
    setup.peer = peer_of;
    setup.host = MPIDI_COMPOSITE_knows_hosts(comm) ? host_of : NULL;
    return setup;
}

/* Everybody has the communicator's id from now on, and may send to us. */
void MPIDI_COMPOSITE_group_commit(MPIR_Comm * comm)
{
    pm_group_setup setup;

    if (!may_have_group(comm))
        return;
    setup = MPIDI_COMPOSITE_group_setup(comm);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    MPIDI_COMPOSITE_COMM(comm).group = pm_group_open(&setup);
    pm_barrier_group_open(&setup);
    pm_am_group_open(&setup);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

void MPIDI_COMPOSITE_group_free(MPIR_Comm * comm)
{
    if (MPIDI_COMPOSITE_COMM(comm).group == NULL)
        return;
    /* A request that is freed may be the last to hold the communicator, and then the lock is held. */
    MPID_THREAD_CS_ENTER_REC_VCI(MPIDI_VCI(0).lock);
    pm_group_close(MPIDI_COMPOSITE_COMM(comm).group);
    pm_barrier_group_close(comm->context_id);
    pm_am_group_close(comm->context_id);
    MPIDI_COMPOSITE_COMM(comm).group = NULL;
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}
