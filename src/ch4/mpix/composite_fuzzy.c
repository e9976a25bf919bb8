/* Fuzzy barriers: MPI's communicators and requests for the engine in coll/barrier. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll_life.h"
#include "coll/barrier/barrier.h"

/* A barrier in flight holds its communicator; one that ends with a request is known by that, marked by the lowest bit, and the
 * request holds it. */
static void ended(void *cookie)
{
    uintptr_t word = (uintptr_t) cookie;

    if (word & 1)
        MPID_Request_complete((MPIR_Request *) (word - 1));
    else
        MPIR_Comm_release((MPIR_Comm *) cookie);
}

void MPIDI_COMPOSITE_fuzzy_init(void)
{
    pm_barrier_open(MPIDI_COMPOSITE_global.core, ended);
}

static int load(const volatile int *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

int MPIR_Barrier_start_impl(MPIR_Comm * comm, volatile int *flag)
{
    int mpi_errno = MPI_SUCCESS;
    bool in_flight;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    in_flight = pm_barrier_is_in_flight(comm->context_id, flag);
    if (!in_flight) {
        MPIR_Comm_add_ref(comm);
        pm_barrier_start(comm->context_id, flag, comm);
    }
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    MPIR_ERR_CHKANDJUMP(in_flight, mpi_errno, MPI_ERR_ARG, "**barrier_in_flight");

  fn_fail:
    return mpi_errno;
}

int MPIR_Barrier_istart_impl(MPIR_Comm * comm, MPIR_Request ** request)
{
    int mpi_errno = MPI_SUCCESS;

    *request = MPIR_Request_create(MPIR_REQUEST_KIND__COLL);
    MPIR_ERR_CHKANDJUMP(*request == NULL, mpi_errno, MPIX_ERR_NOREQ, "**nomemreq");
    MPIR_Request_add_ref(*request);     /* given back when it is complete */
    (*request)->comm = comm;
    MPIR_Comm_add_ref(comm);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    pm_barrier_start(comm->context_id, NULL, (void *) ((uintptr_t) *request + 1));
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);

  fn_fail:
    return mpi_errno;
}

/* A flag that is 0 belongs to a barrier in flight: nothing else would ever set it. */
static int check_started(MPIR_Comm * comm, const volatile int *flag)
{
    int mpi_errno = MPI_SUCCESS;
    bool started;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    started = load(flag) || pm_barrier_is_in_flight(comm->context_id, flag);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    MPIR_ERR_CHKANDJUMP(!started, mpi_errno, MPI_ERR_ARG, "**barrier_not_started");

  fn_fail:
    return mpi_errno;
}

int MPIR_Barrier_test_impl(MPIR_Comm * comm, volatile int *flag, int *done)
{
    int mpi_errno = MPI_SUCCESS;

    if (!load(flag)) {
        mpi_errno = check_started(comm, flag);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = MPID_Progress_test(NULL);
        MPIR_ERR_CHECK(mpi_errno);
    }
    *done = load(flag) != 0;

  fn_fail:
    return mpi_errno;
}

int MPIR_Barrier_wait_impl(MPIR_Comm * comm, volatile int *flag)
{
    int mpi_errno = MPI_SUCCESS;

    if (load(flag))
        return MPI_SUCCESS;
    mpi_errno = check_started(comm, flag);
    return mpi_errno ? mpi_errno : MPIDI_COMPOSITE_wait_for_flag(flag);
}
