/* The profile: which calls threads make, and whom they wait for, told to the core (netmod/core/profiling.h). */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_calls.h"
#include "composite_report.h"
#include "netmod/core/profiling.h"

_Static_assert((int) MPIDI_COMPOSITE_FUNCTIONS_MOST == (int) PM_PROFILE_FUNCTIONS_MOST, "a number for each function");

MPIDI_COMPOSITE_gathering_t MPIDI_COMPOSITE_profiles;

int *MPIDI_COMPOSITE_profile_thread(void)
{
    return pm_profile_thread();
}

int MPIDI_COMPOSITE_profile_begins(uint64_t what)
{
    const MPIDI_COMPOSITE_function *function = MPIDI_COMPOSITE_function_of(what);

    return pm_profile_begin(function->number, function->name);
}

void MPIDI_COMPOSITE_profile_ends(void)
{
    pm_profile_end();
}

static MPIR_Comm *communicator_of(const MPIDI_COMPOSITE_call * call)
{
    MPIR_Comm *comm = NULL;

    if (HANDLE_GET_MPI_KIND(call->object) == MPIR_COMM && HANDLE_GET_KIND(call->object) != HANDLE_KIND_INVALID)
        MPIR_Comm_get_ptr(call->object, comm);
    return comm;
}

/* The outermost call of this thread, which it is in. */
static int of_all(void)
{
    MPIDI_COMPOSITE_call call;
    MPIR_Comm *comm;

    MPIDI_COMPOSITE_own_call(1, &call);
    comm = communicator_of(&call);
    return comm && comm->comm_kind == MPIR_COMM_KIND__INTRACOMM && comm->local_size == MPIR_Process.size;
}

static int rank_in_job(MPIR_Comm * comm, int rank)
{
    int index, table;

    if (comm == NULL || rank < 0 || rank >= comm->remote_size)
        return -1;
    MPIDIU_comm_rank_to_pid(comm, rank, &index, &table);
    return table == 0 ? index : -1;
}

/* Of the requests that a call waits for, the first that is not complete. */
static int cause_of_request(MPI_Request handle, int *rank)
{
    MPIR_Request *request = NULL;

    if (handle == MPI_REQUEST_NULL || HANDLE_GET_MPI_KIND(handle) != MPIR_REQUEST)
        return PM_LATE_NOBODY;
    MPIR_Request_get_ptr(handle, request);
    if (request && (request->kind == MPIR_REQUEST_KIND__PREQUEST_SEND || request->kind == MPIR_REQUEST_KIND__PREQUEST_RECV))
        request = request->u.persist.real_request;
    if (request == NULL || MPIR_Request_is_complete(request))
        return PM_LATE_NOBODY;
    if (request->kind == MPIR_REQUEST_KIND__RECV) {
        *rank = rank_in_job(request->comm, MPIDIG_REQUEST(request, u.recv.source));
        return PM_LATE_SENDER;
    }
    if (request->kind == MPIR_REQUEST_KIND__SEND) {
        *rank = rank_in_job(request->comm, MPIDIG_REQUEST(request, u.send.dest));
        return PM_LATE_RECEIVER;
    }
    return PM_LATE_NOBODY;
}

static int cause(int *rank)
{
    MPIDI_COMPOSITE_call call;

    MPIDI_COMPOSITE_own_call(1, &call);
    *rank = -1;
    for (int i = 0; i < call.requests_count; i++) {
        int late = cause_of_request(call.requests[i], rank);
        if (late != PM_LATE_NOBODY)
            return late;
    }
    *rank = rank_in_job(communicator_of(&call), call.source != MPIDI_COMPOSITE_CALL_NONE ? call.source : call.peer);
    return PM_LATE_NOBODY;
}

static int open_call(const char **name)
{
    MPIDI_COMPOSITE_thread *thread = &MPIDI_COMPOSITE_this_thread;
    const MPIDI_COMPOSITE_function *function = MPIDI_COMPOSITE_function_of(thread->call[0].what);

    if (MPIDI_COMPOSITE_depth_of(thread->now) == 0)
        return 0;
    thread->now |= MPIDI_COMPOSITE_END_IS_TOLD;
    *name = function->name;
    return function->number;
}

/* Perhaps in the middle of a call. */
static void start(void)
{
    pm_profile_start(MPIDI_COMPOSITE_global.core);
    MPIDI_COMPOSITE_tell_calls(1);
    if (MPIDI_COMPOSITE_depth_of(MPIDI_COMPOSITE_this_thread.now) > 0 && pm_profile_thread() != NULL &&
        MPIDI_COMPOSITE_profile_begins(MPIDI_COMPOSITE_this_thread.call[0].what))
        MPIDI_COMPOSITE_this_thread.now |= MPIDI_COMPOSITE_END_IS_TOLD;
}

void MPIDI_COMPOSITE_profile_start(void)
{
    static const pm_profile_questions questions = { of_all, cause, open_call };

    pm_profile_prepare(&questions, start, MPIR_Process.rank, MPIR_Process.size);
    if (MPIDI_COMPOSITE_profile_wanted()) {
        pm_profile_start(MPIDI_COMPOSITE_global.core);
        MPIDI_COMPOSITE_tell_calls(1);
    }
}

int MPIDI_COMPOSITE_profile_tell(void)
{
    int mpi_errno = MPI_SUCCESS;
    size_t size = 0;
    void *bytes;

    MPIDI_COMPOSITE_tell_calls(0);
    if (MPIDI_COMPOSITE_profile_wanted() == NULL)
        return MPI_SUCCESS;
    bytes = pm_profile_describe(MPIDI_COMPOSITE_global.core, &size);
    MPIR_ERR_CHKANDJUMP(bytes == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = MPIDI_COMPOSITE_tell(&MPIDI_COMPOSITE_profiles, bytes, size);

  fn_fail:
    free(bytes);
    return mpi_errno;
}
