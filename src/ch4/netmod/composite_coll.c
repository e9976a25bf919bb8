/* Which way each collective goes: what coll/choice.h says. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_calls.h"
#include "composite_coll.h"
#include "composite_coll_life.h"
#include "composite_combine.h"
#include "composite_started.h"
#include "composite_team.h"
#include "composite_team_coll.h"
#include "composite_leaders_blocks.h"
#include "composite_team_data.h"
#include "coll/choice.h"

static size_t bytes_of(MPI_Aint count, MPI_Datatype datatype)
{
    MPI_Aint size;

    MPIR_Datatype_get_size_macro(datatype, size);
    return (size_t) (count * size);
}

static size_t most_bytes(const MPI_Aint * counts, MPI_Datatype datatype, int ranks)
{
    MPI_Aint most = 0;

    for (int rank = 0; rank < ranks; rank++)
        most = MPL_MAX(most, counts[rank]);
    return bytes_of(most, datatype);
}

static MPI_Aint sum_of(const MPI_Aint * counts, int ranks)
{
    MPI_Aint sum = 0;

    for (int rank = 0; rank < ranks; rank++)
        sum += counts[rank];
    return sum;
}

/* ---- the choice ---- */

static const pm_collective operations[] = {
    [MPIDI_COMPOSITE_IN_BARRIER] = PM_COLL_BARRIER,
    [MPIDI_COMPOSITE_IN_BCAST] = PM_COLL_BCAST,
    [MPIDI_COMPOSITE_IN_GATHER] = PM_COLL_GATHER,
    [MPIDI_COMPOSITE_IN_GATHERV] = PM_COLL_GATHER,
    [MPIDI_COMPOSITE_IN_SCATTER] = PM_COLL_SCATTER,
    [MPIDI_COMPOSITE_IN_SCATTERV] = PM_COLL_SCATTER,
    [MPIDI_COMPOSITE_IN_ALLGATHER] = PM_COLL_ALLGATHER,
    [MPIDI_COMPOSITE_IN_ALLGATHERV] = PM_COLL_ALLGATHER,
    [MPIDI_COMPOSITE_IN_ALLTOALL] = PM_COLL_ALLTOALL,
    [MPIDI_COMPOSITE_IN_ALLTOALLV] = PM_COLL_ALLTOALL,
    [MPIDI_COMPOSITE_IN_ALLTOALLW] = PM_COLL_ALLTOALL,
    [MPIDI_COMPOSITE_IN_REDUCE] = PM_COLL_REDUCE,
    [MPIDI_COMPOSITE_IN_ALLREDUCE] = PM_COLL_ALLREDUCE,
    [MPIDI_COMPOSITE_IN_REDUCE_SCATTER] = PM_COLL_REDUCE_SCATTER,
    [MPIDI_COMPOSITE_IN_REDUCE_SCATTER_BLOCK] = PM_COLL_REDUCE_SCATTER,
    [MPIDI_COMPOSITE_IN_SCAN] = PM_COLL_SCAN,
    [MPIDI_COMPOSITE_IN_EXSCAN] = PM_COLL_SCAN
};

static pm_choices *choices;

int MPIDI_COMPOSITE_coll_init(void)
{
    const char *words[PM_COLLECTIVES] = {
        [PM_COLL_BARRIER] = MPIR_CVAR_CH4_COMPOSITE_COLL_BARRIER,
        [PM_COLL_BCAST] = MPIR_CVAR_CH4_COMPOSITE_COLL_BCAST,
        [PM_COLL_REDUCE] = MPIR_CVAR_CH4_COMPOSITE_COLL_REDUCE,
        [PM_COLL_ALLREDUCE] = MPIR_CVAR_CH4_COMPOSITE_COLL_ALLREDUCE,
        [PM_COLL_GATHER] = MPIR_CVAR_CH4_COMPOSITE_COLL_GATHER,
        [PM_COLL_SCATTER] = MPIR_CVAR_CH4_COMPOSITE_COLL_SCATTER,
        [PM_COLL_ALLGATHER] = MPIR_CVAR_CH4_COMPOSITE_COLL_ALLGATHER,
        [PM_COLL_ALLTOALL] = MPIR_CVAR_CH4_COMPOSITE_COLL_ALLTOALL,
        [PM_COLL_REDUCE_SCATTER] = MPIR_CVAR_CH4_COMPOSITE_COLL_REDUCE_SCATTER,
        [PM_COLL_SCAN] = MPIR_CVAR_CH4_COMPOSITE_COLL_SCAN
    };

    MPIDI_COMPOSITE_combine_init();
    choices = pm_choices_open(words, MPIR_CVAR_CH4_COMPOSITE_COLL_TABLE);
    return choices ? MPIDI_COMPOSITE_started_init() : PM_FAILED;
}

void MPIDI_COMPOSITE_coll_finalize(void)
{
    pm_choices_close(choices);
    choices = NULL;
    MPIDI_COMPOSITE_combine_finalize();
}

void MPIDI_COMPOSITE_choose(MPIDI_COMPOSITE_team_t * team)
{
    for (int operation = 0; operation < PM_COLLECTIVES; operation++)
        team->ways[operation] = pm_switch_of(choices, operation, team->ranks, team->reads, pm_crowded(MPIDI_COMPOSITE_global.core));
}

/* ---- how often ---- */

uint64_t MPIDI_COMPOSITE_coll_counts[MPIDI_COMPOSITE_COLLECTIVES][PM_WAYS];

/* What goes by messages comes here again when MPICH has put it together of parts: it is counted once for each call of the user's. */
bool MPIDI_COMPOSITE_coll_by_messages(const MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective)
{
    static __thread uint64_t counted;
    uint64_t call = MPIDI_COMPOSITE_number_of(MPIDI_COMPOSITE_this_thread.now);

    if (call != counted && comm->local_size + comm->remote_size > 2)
        MPIDI_COMPOSITE_coll_counts[collective][PM_BY_MESSAGES]++;
    counted = call;
    return false;
}

/* Whether the team does it, which is told what stays where it is. */
MPL_STATIC_INLINE_PREFIX bool goes(MPIDI_COMPOSITE_team_t * team, MPIDI_COMPOSITE_collective_t collective, pm_way way)
{
    if (way == PM_BY_MESSAGES)
        return false;
    MPIDI_COMPOSITE_coll_counts[collective][way]++;
    team->collective = collective;
    team->limit = team->ways[operations[collective]].board;
    return true;
}

/* What moves data, and what reduces it. Where no rank knows how much all have, but the board takes it all, of 0 bytes. */
MPL_STATIC_INLINE_PREFIX bool moves(MPIDI_COMPOSITE_team_t * team, MPIDI_COMPOSITE_collective_t collective, bool chosen, size_t bytes)
{
    return !chosen && goes(team, collective, pm_way_of(&team->ways[operations[collective]], bytes));
}

/* What no rank knows of all. */
MPL_STATIC_INLINE_PREFIX bool moves_unknown(MPIDI_COMPOSITE_team_t * team, MPIDI_COMPOSITE_collective_t collective, bool chosen)
{
    return !chosen && goes(team, collective, pm_way_of_unknown(&team->ways[operations[collective]]));
}

MPL_STATIC_INLINE_PREFIX bool reduces(MPIDI_COMPOSITE_team_t * team, MPIDI_COMPOSITE_collective_t collective, bool chosen, MPI_Aint count,
                                      MPI_Datatype datatype, MPI_Op op)
{
    MPI_Aint size, extent;

    MPIR_Datatype_get_size_macro(datatype, size);
    MPIR_Datatype_get_extent_macro(datatype, extent);
    return HANDLE_IS_BUILTIN(datatype) && HANDLE_IS_BUILTIN(op) && size == extent &&
        moves(team, collective, chosen, (size_t) (size * count));
}

bool MPIDI_COMPOSITE_by_leaders(MPIDI_COMPOSITE_collective_t collective, size_t bytes)
{
    return pm_by_leaders(choices, operations[collective], bytes);
}

/* Whether the leaders of its hosts do it. */
static bool leads(MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective, bool chosen, size_t bytes)
{
    if (chosen || !has_hosts(comm) || !pm_by_leaders(choices, operations[collective], bytes) || !have_use_of_leaders(comm, operations[collective]))
        return false;
    MPIDI_COMPOSITE_coll_counts[collective][PM_BY_LEADERS]++;
    return true;
}

/* The order of the hosts is not that of the ranks. */
static bool leads_reducing(MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective, bool chosen, MPI_Aint count, MPI_Datatype datatype,
                           MPI_Op op)
{
    return has_hosts(comm) && MPIR_Op_is_commutative(op) && leads(comm, collective, chosen, bytes_of(count, datatype));
}

/* In the order of the ranks, whatever the order of the hosts. */
static bool leads_scanning(MPIR_Comm * comm, MPIDI_COMPOSITE_collective_t collective, bool chosen, MPI_Aint count, MPI_Datatype datatype)
{
    return may_scan_blocks(count, datatype) && leads(comm, collective, chosen, bytes_of(count, datatype) * (size_t) comm->local_size);
}

/* Of nothing: a rank whose count is 0 does not come here, so there is no step. What is not of one group is not ours. */
static bool is_nothing(const MPIR_Comm * comm, MPI_Aint count, MPI_Datatype datatype)
{
    return comm->comm_kind == MPIR_COMM_KIND__INTRACOMM && bytes_of(count, datatype) == 0;
}

/* The first error stays, unless a later one says that a process has failed: codes of two classes that MPICH combines it takes for damaged later. What
 * another rank tells is a class without a text. */
void MPIDI_COMPOSITE_note_error(int *mpi_errno, MPIR_Errflag_t * errflag, int result)
{
    const int errclass = MPIR_ERR_GET_CLASS(result);   /* by this name MPICH's tool that reads sources for errors knows it */
    const bool process = errclass == MPIX_ERR_PROC_FAILED;

    if (*errflag != MPIR_ERR_PROC_FAILED)
        *errflag = process ? MPIR_ERR_PROC_FAILED : MPIR_ERR_OTHER;
    if (*mpi_errno != MPI_SUCCESS && (!process || MPIR_ERR_GET_CLASS(*mpi_errno) == errclass))
        return;
    *mpi_errno = result != errclass ? result :
        MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__, errclass, "**composite", "**composite %s",
                             process ? "a rank has ended, or this collective has failed there" :
                             errclass == MPI_ERR_OTHER ? "another rank tells of an error in this collective, of which it knows more" :
                             "a message of this collective cannot be taken as it came");
}

/* A rank that fails in the middle does not take the steps that others wait for; `once`: there is one step, and it has taken it. */
static bool done(MPIDI_COMPOSITE_team_t * team, bool once, int result, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    *mpi_errno = result;
    if (unlikely(result)) {
        *errflag = MPIX_ERR_PROC_FAILED == MPIR_ERR_GET_CLASS(result) ? MPIR_ERR_PROC_FAILED : MPIR_ERR_OTHER;
        if (!once || !team->harmless)
            MPIDI_COMPOSITE_team_give_up(team, team->rank);
        team->harmless = false;
    }
    return true;
}

#define CHOSEN(OPERATION) (MPIR_CVAR_##OPERATION##_INTRA_ALGORITHM != MPIR_CVAR_##OPERATION##_INTRA_ALGORITHM_auto)

void MPIDI_COMPOSITE_coll_comm_free(MPIR_Comm * comm)
{
    /* A request that is freed may be the last to hold the communicator, and then the lock is held. */
    MPID_THREAD_CS_ENTER_REC_VCI(MPIDI_VCI(0).lock);
    MPIDI_COMPOSITE_team_comm_free(comm);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

bool MPIDI_COMPOSITE_barrier(MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && leads(comm, MPIDI_COMPOSITE_IN_BARRIER, CHOSEN(BARRIER), 0)) {
        *mpi_errno = leaders_barrier(comm, errflag);
        return true;
    }
    if (!team || !moves(team, MPIDI_COMPOSITE_IN_BARRIER, CHOSEN(BARRIER), 0))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_BARRIER);
    return done(team, true, MPIDI_COMPOSITE_team_barrier(team), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_bcast(void *buffer, MPI_Aint count, MPI_Datatype datatype, int root, MPIR_Comm * comm,
                           MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && leads(comm, MPIDI_COMPOSITE_IN_BCAST, CHOSEN(BCAST), bytes_of(count, datatype))) {
        *mpi_errno = leaders_bcast(buffer, count, datatype, root, comm, errflag);
        return true;
    }
    if (!team || !moves(team, MPIDI_COMPOSITE_IN_BCAST, CHOSEN(BCAST), bytes_of(count, datatype)))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_BCAST);
    return done(team, true, MPIDI_COMPOSITE_team_bcast(team, buffer, count, datatype, root), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_gather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                            MPI_Datatype recvtype, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    if (is_nothing(comm, comm->rank == root ? recvcount : sendcount, comm->rank == root ? recvtype : sendtype)) {
        *mpi_errno = MPI_SUCCESS;
        return true;
    }
    /* Between two groups it is not all of them that know. */
    size_t bytes = comm->comm_kind != MPIR_COMM_KIND__INTRACOMM ? 0 :
        comm->rank == root ? bytes_of(recvcount, recvtype) : bytes_of(sendcount, sendtype);
    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && leads(comm, MPIDI_COMPOSITE_IN_GATHER, CHOSEN(GATHER), bytes * (size_t) comm->local_size)) {
        parts_t all = comm->rank == root ? equal_parts(recvbuf, recvcount, recvtype) : equal_parts(NULL, (MPI_Aint) bytes, MPI_BYTE);
        data_t mine = data_or_none(sendbuf, sendcount, sendtype);
        *mpi_errno = leaders_gather(sendbuf == MPI_IN_PLACE ? NULL : &mine, &all, root, comm, errflag);
        return true;
    }
    if (!team || !moves(team, MPIDI_COMPOSITE_IN_GATHER, CHOSEN(GATHER), bytes))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_GATHER);
    return done(team, true, MPIDI_COMPOSITE_team_gather(team, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                                        root), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_gatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                             const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype, int root,
                             MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team || !moves_unknown(team, MPIDI_COMPOSITE_IN_GATHERV, CHOSEN(GATHERV)))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_GATHERV);
    return done(team, false, MPIDI_COMPOSITE_team_gatherv(team, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                                                          recvtype, root), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_scatter(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                             MPI_Datatype recvtype, int root, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    if (is_nothing(comm, comm->rank == root ? sendcount : recvcount, comm->rank == root ? sendtype : recvtype)) {
        *mpi_errno = MPI_SUCCESS;
        return true;
    }
    size_t bytes = comm->comm_kind != MPIR_COMM_KIND__INTRACOMM ? 0 :
        comm->rank == root ? bytes_of(sendcount, sendtype) : bytes_of(recvcount, recvtype);
    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && leads(comm, MPIDI_COMPOSITE_IN_SCATTER, CHOSEN(SCATTER), bytes * (size_t) comm->local_size)) {
        parts_t all = comm->rank == root ? equal_parts(sendbuf, sendcount, sendtype) : equal_parts(NULL, (MPI_Aint) bytes, MPI_BYTE);
        data_t mine = data_or_none(recvbuf, recvcount, recvtype);
        *mpi_errno = leaders_scatter(&all, recvbuf == MPI_IN_PLACE ? NULL : &mine, root, comm, errflag);
        return true;
    }
    if (!team || !moves(team, MPIDI_COMPOSITE_IN_SCATTER, CHOSEN(SCATTER), bytes * (size_t) comm->local_size))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_SCATTER);
    return done(team, true, MPIDI_COMPOSITE_team_scatter(team, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype,
                                                         root), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_scatterv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * displs, MPI_Datatype sendtype,
                              void *recvbuf, MPI_Aint recvcount, MPI_Datatype recvtype, int root, MPIR_Comm * comm,
                              MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team || !moves_unknown(team, MPIDI_COMPOSITE_IN_SCATTERV, CHOSEN(SCATTERV)))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_SCATTERV);
    return done(team, false, MPIDI_COMPOSITE_team_scatterv(team, sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount,
                                                           recvtype, root), errflag, mpi_errno);
}

static int gather_by_leaders(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, const parts_t * all, MPIR_Comm * comm,
                             MPIR_Errflag_t * errflag)
{
    data_t mine = data_or_none(sendbuf, sendcount, sendtype);

    return leaders_allgather(sendbuf == MPI_IN_PLACE ? NULL : &mine, all, comm, errflag);
}

bool MPIDI_COMPOSITE_allgather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                               MPI_Aint recvcount, MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Errflag_t * errflag,
                               int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    if (is_nothing(comm, recvcount, recvtype)) {
        *mpi_errno = MPI_SUCCESS;
        return true;
    }
    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && leads(comm, MPIDI_COMPOSITE_IN_ALLGATHER, CHOSEN(ALLGATHER), bytes_of(recvcount, recvtype) * (size_t) comm->local_size)) {
        parts_t all = equal_parts(recvbuf, recvcount, recvtype);
        *mpi_errno = gather_by_leaders(sendbuf, sendcount, sendtype, &all, comm, errflag);
        return true;
    }
    if (!team || !moves(team, MPIDI_COMPOSITE_IN_ALLGATHER, CHOSEN(ALLGATHER), bytes_of(recvcount, recvtype)))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_ALLGATHER);
    return done(team, true, MPIDI_COMPOSITE_team_allgather(team, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                                           recvtype), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_allgatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype, MPIR_Comm * comm,
                                MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && comm->comm_kind == MPIR_COMM_KIND__INTRACOMM &&
        leads(comm, MPIDI_COMPOSITE_IN_ALLGATHERV, CHOSEN(ALLGATHERV), bytes_of(sum_of(recvcounts, comm->local_size), recvtype))) {
        parts_t all = parts_of(recvbuf, recvcounts, displs, recvtype);
        *mpi_errno = gather_by_leaders(sendbuf, sendcount, sendtype, &all, comm, errflag);
        return true;
    }
    if (!team || !moves(team, MPIDI_COMPOSITE_IN_ALLGATHERV, CHOSEN(ALLGATHERV), most_bytes(recvcounts, recvtype, comm->local_size)))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_ALLGATHERV);
    return done(team, true, MPIDI_COMPOSITE_team_allgatherv(team, sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs,
                                                            recvtype), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_alltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                              MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    if (is_nothing(comm, recvcount, recvtype)) {
        *mpi_errno = MPI_SUCCESS;
        return true;
    }
    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && leads(comm, MPIDI_COMPOSITE_IN_ALLTOALL, CHOSEN(ALLTOALL), bytes_of(recvcount, recvtype) * (size_t) comm->local_size)) {
        data_t to = data_of(recvbuf, recvcount * comm->local_size, recvtype);
        data_t from = sendbuf == MPI_IN_PLACE ? to : data_of(sendbuf, sendcount * comm->local_size, sendtype);
        *mpi_errno = leaders_alltoall(&from, &to, comm, errflag);
        return true;
    }
    if (!team || !moves(team, MPIDI_COMPOSITE_IN_ALLTOALL, CHOSEN(ALLTOALL), bytes_of(recvcount, recvtype) * (size_t) comm->local_size))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_ALLTOALL);
    return done(team, true, MPIDI_COMPOSITE_team_alltoall(team, sendbuf, sendcount, sendtype, recvbuf, recvcount,
                                                          recvtype), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_alltoallv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                               MPI_Datatype sendtype, void *recvbuf, const MPI_Aint * recvcounts, const MPI_Aint * rdispls,
                               MPI_Datatype recvtype, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team || !moves(team, MPIDI_COMPOSITE_IN_ALLTOALLV, CHOSEN(ALLTOALLV), 0))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_ALLTOALLV);
    return done(team, false, MPIDI_COMPOSITE_team_alltoallv(team, sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts,
                                                            rdispls, recvtype), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_alltoallw(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                               const MPI_Datatype * sendtypes, void *recvbuf, const MPI_Aint * recvcounts,
                               const MPI_Aint * rdispls, const MPI_Datatype * recvtypes, MPIR_Comm * comm,
                               MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team || !moves(team, MPIDI_COMPOSITE_IN_ALLTOALLW, CHOSEN(ALLTOALLW), 0))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_ALLTOALLW);
    return done(team, false, MPIDI_COMPOSITE_team_alltoallw(team, sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts,
                                                            rdispls, recvtypes), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_reduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op, int root,
                            MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && leads_reducing(comm, MPIDI_COMPOSITE_IN_REDUCE, CHOSEN(REDUCE), count, datatype, op)) {
        *mpi_errno = leaders_reduce(sendbuf, recvbuf, count, datatype, op, root, comm, errflag);
        return true;
    }
    if (!team || !reduces(team, MPIDI_COMPOSITE_IN_REDUCE, CHOSEN(REDUCE), count, datatype, op))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_REDUCE);
    return done(team, true, MPIDI_COMPOSITE_team_reduce(team, sendbuf, recvbuf, count, datatype, op, root), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_allreduce(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                               MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && leads_reducing(comm, MPIDI_COMPOSITE_IN_ALLREDUCE, CHOSEN(ALLREDUCE), count, datatype, op)) {
        *mpi_errno = leaders_allreduce(sendbuf, recvbuf, count, datatype, op, comm, errflag);
        return true;
    }
    if (!team || !reduces(team, MPIDI_COMPOSITE_IN_ALLREDUCE, CHOSEN(ALLREDUCE), count, datatype, op))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_ALLREDUCE);
    return done(team, true, MPIDI_COMPOSITE_team_allreduce(team, sendbuf, recvbuf, count, datatype, op), errflag, mpi_errno);
}

static int reduce_scatter_by_leaders(const void *sendbuf, void *recvbuf, const MPI_Aint * recvcounts, MPI_Datatype datatype, MPI_Op op,
                                     MPIR_Comm * comm, MPIR_Errflag_t * errflag)
{
    int mpi_errno = MPI_SUCCESS;
    MPI_Aint all, *displs = places_of_counts(recvcounts, comm->local_size, &all);

    MPIR_ERR_CHKANDJUMP(!displs, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = leaders_reduce_scatter(sendbuf, recvbuf, all, parts_of(NULL, recvcounts, displs, datatype), op, comm, errflag);
    MPL_free(displs);

  fn_fail:
    return mpi_errno;
}

bool MPIDI_COMPOSITE_reduce_scatter(const void *sendbuf, void *recvbuf, const MPI_Aint * recvcounts, MPI_Datatype datatype,
                                    MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && sum_of(recvcounts, comm->local_size) > 0 &&
        leads_reducing(comm, MPIDI_COMPOSITE_IN_REDUCE_SCATTER, CHOSEN(REDUCE_SCATTER), sum_of(recvcounts, comm->local_size), datatype, op)) {
        *mpi_errno = reduce_scatter_by_leaders(sendbuf, recvbuf, recvcounts, datatype, op, comm, errflag);
        return true;
    }
    if (!team || !reduces(team, MPIDI_COMPOSITE_IN_REDUCE_SCATTER, CHOSEN(REDUCE_SCATTER), sum_of(recvcounts, comm->local_size), datatype, op))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_REDUCE_SCATTER);
    return done(team, true, MPIDI_COMPOSITE_team_reduce_scatter(team, sendbuf, recvbuf, recvcounts, datatype,
                                                                op), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_reduce_scatter_block(const void *sendbuf, void *recvbuf, MPI_Aint recvcount, MPI_Datatype datatype,
                                          MPI_Op op, MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && recvcount > 0 && leads_reducing(comm, MPIDI_COMPOSITE_IN_REDUCE_SCATTER_BLOCK, CHOSEN(REDUCE_SCATTER_BLOCK),
                                                 recvcount * comm->local_size, datatype, op)) {
        *mpi_errno = leaders_reduce_scatter(sendbuf, recvbuf, recvcount * comm->local_size, equal_parts(NULL, recvcount, datatype), op, comm,
                                            errflag);
        return true;
    }
    if (!team || !reduces(team, MPIDI_COMPOSITE_IN_REDUCE_SCATTER_BLOCK, CHOSEN(REDUCE_SCATTER_BLOCK), recvcount * comm->local_size, datatype, op))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_REDUCE_SCATTER_BLOCK);
    return done(team, true, MPIDI_COMPOSITE_team_reduce_scatter_block(team, sendbuf, recvbuf, recvcount, datatype,
                                                                      op), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_scan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                          MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && leads_scanning(comm, MPIDI_COMPOSITE_IN_SCAN, CHOSEN(SCAN), count, datatype)) {
        *mpi_errno = leaders_scan(sendbuf, recvbuf, count, datatype, op, true, comm, errflag);
        return true;
    }
    if (!team || !reduces(team, MPIDI_COMPOSITE_IN_SCAN, CHOSEN(SCAN), count, datatype, op))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_SCAN);
    return done(team, true, MPIDI_COMPOSITE_team_scan(team, sendbuf, recvbuf, count, datatype, op), errflag, mpi_errno);
}

bool MPIDI_COMPOSITE_exscan(const void *sendbuf, void *recvbuf, MPI_Aint count, MPI_Datatype datatype, MPI_Op op,
                            MPIR_Comm * comm, MPIR_Errflag_t * errflag, int *mpi_errno)
{
    MPIDI_COMPOSITE_team_t *team;

    team = MPIDI_COMPOSITE_team_of(comm);
    if (!team && leads_scanning(comm, MPIDI_COMPOSITE_IN_EXSCAN, CHOSEN(EXSCAN), count, datatype)) {
        *mpi_errno = leaders_scan(sendbuf, recvbuf, count, datatype, op, false, comm, errflag);
        return true;
    }
    if (!team || !reduces(team, MPIDI_COMPOSITE_IN_EXSCAN, CHOSEN(EXSCAN), count, datatype, op))
        return MPIDI_COMPOSITE_coll_by_messages(comm, MPIDI_COMPOSITE_IN_EXSCAN);
    return done(team, true, MPIDI_COMPOSITE_team_exscan(team, sendbuf, recvbuf, count, datatype, op), errflag, mpi_errno);
}

/* ---- neighbours ---- */

/* A message to each and from each: `from` and `to` have a part for each neighbour. MPICH would make a schedule of it, which takes longer than
 * short messages do. In a ring of one rank or two both neighbours of a dimension are the same one: what it sent to the first of them comes from the
 * second. */
static int with_neighbors(const parts_t * from, const parts_t * to, MPIR_Comm * comm)
{
    int mpi_errno, in, out, weighted, count = 0, failed = MPI_SUCCESS; /* one that fails does not keep others waiting */
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    MPIR_Request **requests = NULL;
    int *ranks = NULL;
    bool crosswise;

    mpi_errno = MPIR_Topo_canon_nhb_count(comm, &in, &out, &weighted);
    MPIR_ERR_CHECK(mpi_errno);
    ranks = MPL_malloc(sizeof *ranks * (size_t) (in + out + 1), MPL_MEM_COLL);
    requests = MPL_malloc(sizeof *requests * (size_t) (in + out + 1), MPL_MEM_COLL);
    MPIR_ERR_CHKANDJUMP(!ranks || !requests, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = MPIR_Topo_canon_nhb(comm, in, ranks, MPI_UNWEIGHTED, out, ranks + in, MPI_UNWEIGHTED);
    MPIR_ERR_CHECK(mpi_errno);
    crosswise = MPIR_Topology_get(comm)->kind == MPI_CART;
    for (int i = 0; i < in; i++) {
        int source = crosswise ? i ^ 1 : i;
        data_t part = part_of(to, source);
        if (ranks[source] == MPI_PROC_NULL)
            continue;
        mpi_errno = MPIC_Irecv(part.buffer, part.count, part.type, ranks[source], MPIR_ALLTOALLW_TAG, comm, &requests[count]);
        if (mpi_errno == MPI_SUCCESS)
            count++;
        else
            failed = failed ? failed : mpi_errno;
    }
    for (int i = 0; i < out; i++) {
        data_t part = part_of(from, i);
        if (ranks[in + i] == MPI_PROC_NULL)
            continue;
        mpi_errno = MPIC_Isend(part.buffer, part.count, part.type, ranks[in + i], MPIR_ALLTOALLW_TAG, comm, &requests[count], &errflag);
        if (mpi_errno == MPI_SUCCESS)
            count++;
        else
            failed = failed ? failed : mpi_errno;
    }
    for (int i = 0; i < count; i++) {
        mpi_errno = MPIC_Wait(requests[i], &errflag);
        if (mpi_errno == MPI_SUCCESS && requests[i]->kind == MPIR_REQUEST_KIND__RECV)
            mpi_errno = requests[i]->status.MPI_ERROR;
        failed = failed ? failed : mpi_errno;
        MPIR_Request_free(requests[i]);
    }
    mpi_errno = failed;

  fn_fail:
    MPL_free(requests);
    MPL_free(ranks);
    return mpi_errno;
}

int MPIDI_COMPOSITE_neighbor_allgather(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                                       MPI_Datatype recvtype, MPIR_Comm * comm)
{
    parts_t from, to;

    if (CHOSEN(NEIGHBOR_ALLGATHER))
        return MPIR_Neighbor_allgather_impl(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    from = equal_parts(sendbuf, sendcount, sendtype);
    from.extent = 0;            /* the same for all */
    to = equal_parts(recvbuf, recvcount, recvtype);
    return with_neighbors(&from, &to, comm);
}

int MPIDI_COMPOSITE_neighbor_allgatherv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf,
                                        const MPI_Aint * recvcounts, const MPI_Aint * displs, MPI_Datatype recvtype, MPIR_Comm * comm)
{
    parts_t from, to;

    if (CHOSEN(NEIGHBOR_ALLGATHERV))
        return MPIR_Neighbor_allgatherv_impl(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm);
    from = equal_parts(sendbuf, sendcount, sendtype);
    from.extent = 0;
    to = parts_of(recvbuf, recvcounts, displs, recvtype);
    return with_neighbors(&from, &to, comm);
}

int MPIDI_COMPOSITE_neighbor_alltoall(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, void *recvbuf, MPI_Aint recvcount,
                                      MPI_Datatype recvtype, MPIR_Comm * comm)
{
    parts_t from, to;

    if (CHOSEN(NEIGHBOR_ALLTOALL))
        return MPIR_Neighbor_alltoall_impl(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
    from = equal_parts(sendbuf, sendcount, sendtype);
    to = equal_parts(recvbuf, recvcount, recvtype);
    return with_neighbors(&from, &to, comm);
}

int MPIDI_COMPOSITE_neighbor_alltoallv(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls, MPI_Datatype sendtype,
                                       void *recvbuf, const MPI_Aint * recvcounts, const MPI_Aint * rdispls, MPI_Datatype recvtype,
                                       MPIR_Comm * comm)
{
    parts_t from, to;

    if (CHOSEN(NEIGHBOR_ALLTOALLV))
        return MPIR_Neighbor_alltoallv_impl(sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm);
    from = parts_of(sendbuf, sendcounts, sdispls, sendtype);
    to = parts_of(recvbuf, recvcounts, rdispls, recvtype);
    return with_neighbors(&from, &to, comm);
}

int MPIDI_COMPOSITE_neighbor_alltoallw(const void *sendbuf, const MPI_Aint * sendcounts, const MPI_Aint * sdispls,
                                       const MPI_Datatype * sendtypes, void *recvbuf, const MPI_Aint * recvcounts,
                                       const MPI_Aint * rdispls, const MPI_Datatype * recvtypes, MPIR_Comm * comm)
{
    parts_t from, to;

    if (CHOSEN(NEIGHBOR_ALLTOALLW))
        return MPIR_Neighbor_alltoallw_impl(sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm);
    from = typed_parts(sendbuf, sendcounts, sdispls, sendtypes);
    to = typed_parts(recvbuf, recvcounts, rdispls, recvtypes);
    return with_neighbors(&from, &to, comm);
}
