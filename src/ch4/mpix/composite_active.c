/* MPIX_Am_: MPI's communicators and requests for the engine in coll/am. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll_life.h"
#include "ch4/mpix/composite_bitmap.h"
#include "coll/am/am.h"

/* A handler runs under the lock of the VCI, so that there is one at a time. Which thread does is known by the place of a variable of it:
 * what a handler calls takes no lock and does not wait. */
static __thread char here;
static const char *handling;

static bool is_inside(void)
{
    return __atomic_load_n(&handling, __ATOMIC_RELAXED) == &here;
}

static void lock(void)
{
    if (!is_inside())
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
}

static void unlock(void)
{
    if (!is_inside())
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

static MPIX_Am_message message_of(const pm_am_arrival * arrival)
{
    MPIX_Am_message message;

    message.comm = ((MPIR_Comm *) arrival->context)->handle;
    message.source = arrival->source;
    message.handler = arrival->handler;
    message.header_size = (int) arrival->header_size;
    message.header = arrival->header;
    message.size = (MPI_Count) arrival->size;
    message.data = arrival->data;
    return message;
}

static void arrived(const pm_am_arrival * arrival, const pm_am_user * user)
{
    MPIX_Am_message message = message_of(arrival);

    __atomic_store_n(&handling, &here, __ATOMIC_RELAXED);
    ((MPIX_Am_function *) user->arrived) (&message, user->state);
    __atomic_store_n(&handling, NULL, __ATOMIC_RELAXED);
}

static void *place(const pm_am_arrival * arrival, const pm_am_user * user)
{
    MPIX_Am_message message = message_of(arrival);
    void *where;

    __atomic_store_n(&handling, &here, __ATOMIC_RELAXED);
    where = ((MPIX_Am_place_function *) user->place) (&message, user->state);
    __atomic_store_n(&handling, NULL, __ATOMIC_RELAXED);
    return where;
}

static void hold(void *comm)
{
    MPIR_Comm_add_ref((MPIR_Comm *) comm);
}

static void let_go(void *comm)
{
    MPIR_Comm_release((MPIR_Comm *) comm);
}

static void ended(void *request)
{
    MPID_Request_complete((MPIR_Request *) request);
}

int MPIDI_COMPOSITE_active_init(void)
{
    pm_am_setup setup = { MPIDI_COMPOSITE_may_have_id, arrived, place, hold, let_go, ended };

    return pm_am_open(MPIDI_COMPOSITE_global.core, &setup);
}

int MPIR_Am_register_impl(const char *name, MPIX_Am_function * function, MPIX_Am_place_function * place_function, void *state,
                          MPIR_Comm * comm, int *handler)
{
    int mpi_errno = MPI_SUCCESS;
    int added;
    size_t length = strlen(name);
    pm_am_user user = { (void (*)(void)) function, (void (*)(void)) place_function, state };

    MPIR_ERR_CHKANDJUMP(is_inside(), mpi_errno, MPI_ERR_OTHER, "**am_inside");
    MPIR_ERR_CHKANDJUMP1(length == 0 || length >= MPIX_AM_MAX_NAME, mpi_errno, MPI_ERR_ARG, "**am_name", "**am_name %s",
                         length == 0 ? "its name is empty" : "its name is longer than MPIX_AM_MAX_NAME allows");
    lock();
    added = pm_am_register(comm->context_id, name, &user, handler);
    unlock();
    MPIR_ERR_CHKANDJUMP1(added == PM_FAILED, mpi_errno, MPI_ERR_ARG, "**am_name", "**am_name %s", pm_error_text());

  fn_fail:
    return mpi_errno;
}

int MPIR_Am_deregister_impl(int handler, MPIR_Comm * comm)
{
    int mpi_errno = MPI_SUCCESS;
    int removed;
    bool placing;

    MPIR_ERR_CHKANDJUMP(is_inside(), mpi_errno, MPI_ERR_OTHER, "**am_inside");
    lock();
    removed = pm_am_deregister(comm->context_id, handler);
    unlock();
    MPIR_ERR_CHKANDJUMP1(removed == PM_FAILED, mpi_errno, MPI_ERR_ARG, "**am_unknown", "**am_unknown %d", handler);
    placing = removed == PM_QUEUED;
    while (placing && mpi_errno == MPI_SUCCESS) {
        mpi_errno = MPID_Progress_test(NULL);
        lock();
        placing = pm_am_is_placing(comm->context_id, handler);
        unlock();
        if (placing)
            MPIDI_COMPOSITE_WAIT_MESSAGE();
    }

  fn_fail:
    return mpi_errno;
}

static pm_am_post post_of(const void *header, int header_size, const void *data, MPI_Count size, int handler, MPIR_Comm * comm)
{
    pm_am_post post;

    post.group = comm->context_id;
    post.rank = comm->rank;
    post.handler = handler;
    post.header = header;
    post.header_size = header_size;
    post.data = data;
    post.size = size;
    return post;
}

/* Sending has a lock of its own in the core: another thread may be receiving. */
static bool is_sent_now(const pm_am_post * post, int rank, MPIR_Comm * comm)
{
    return rank == MPI_PROC_NULL || (post->size <= PM_SEND_NOW_LIMIT && rank != comm->rank &&
                                     pm_am_send_now(MPIDI_COMPOSITE_peer(comm, rank), post));
}

/* To a rank, or to members. A handler does not wait. */
static int send_and_wait(const pm_am_post * post, int rank, const MPIX_Bitmap members[])
{
    int mpi_errno = MPI_SUCCESS;
    int sent;
    volatile int flag = 0;
    pm_am_end end = { is_inside() ? NULL : &flag, NULL };

    lock();
    sent = members ? pm_am_mcast(post, members, &end) : pm_am_send(post, rank, &end);
    unlock();
    if (sent == PM_FAILED)
        return MPIDI_COMPOSITE_lost();
    if (sent == PM_QUEUED)
        mpi_errno = MPIDI_COMPOSITE_wait_for_flag(&flag);
    if (mpi_errno) {
        lock();
        pm_am_forget(&flag);
        unlock();
    }
    return mpi_errno;
}

int MPIR_Am_send_impl(const void *header, int header_size, const void *data, MPI_Count size, int rank, int handler, MPIR_Comm * comm)
{
    pm_am_post post = post_of(header, header_size, data, size, handler, comm);

    return likely(is_sent_now(&post, rank, comm)) ? MPI_SUCCESS : send_and_wait(&post, rank, NULL);
}

int MPIR_Am_mcast_impl(const void *header, int header_size, const void *data, MPI_Count size, const MPIX_Bitmap members[],
                       int handler, MPIR_Comm * comm)
{
    pm_am_post post = post_of(header, header_size, data, size, handler, comm);
    int mpi_errno = MPIDI_COMPOSITE_check_bitmap(members, comm);

    return mpi_errno ? mpi_errno : send_and_wait(&post, MPI_PROC_NULL, members);
}

int MPIR_Am_isend_impl(const void *header, int header_size, const void *data, MPI_Count size, int rank, int handler,
                       MPIR_Comm * comm, MPIR_Request ** request)
{
    int mpi_errno = MPI_SUCCESS;
    int sent = PM_OK;
    pm_am_post post = post_of(header, header_size, data, size, handler, comm);
    pm_am_end end = { NULL, NULL };

    if (likely(is_sent_now(&post, rank, comm))) {
        *request = MPIR_Request_create_complete(MPIR_REQUEST_KIND__SEND);
        return MPI_SUCCESS;
    }
    lock();
    *request = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__SEND, 0, 2);    /* one is given back when it is complete */
    if (*request) {
        (*request)->comm = comm;
        MPIR_Comm_add_ref(comm);
        end.cookie = *request;
        sent = pm_am_send(&post, rank, &end);
        if (sent != PM_QUEUED)
            MPID_Request_complete(*request);
    }
    unlock();
    MPIR_ERR_CHKANDJUMP(*request == NULL, mpi_errno, MPIX_ERR_NOREQ, "**nomemreq");
    if (sent == PM_FAILED) {
        mpi_errno = MPIDI_COMPOSITE_lost();
        MPIR_Request_free(*request);
        *request = NULL;
    }

  fn_fail:
    return mpi_errno;
}

int MPIR_Am_isend_flag_impl(const void *header, int header_size, const void *data, MPI_Count size, int rank, int handler,
                            MPIR_Comm * comm, volatile int *flag)
{
    int sent = PM_OK;
    pm_am_post post = post_of(header, header_size, data, size, handler, comm);
    pm_am_end end = { flag, NULL };

    __atomic_store_n(flag, 0, __ATOMIC_RELAXED);
    if (unlikely(!is_sent_now(&post, rank, comm))) {
        lock();
        sent = pm_am_send(&post, rank, &end);
        unlock();
    }
    if (sent == PM_OK)
        __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    return sent == PM_FAILED ? MPIDI_COMPOSITE_lost() : MPI_SUCCESS;
}

int MPIR_Am_reply_impl(const MPIX_Am_message * message, int handler, const void *header, int header_size, const void *data,
                       MPI_Count size)
{
    MPIR_Comm *comm;

    MPIR_Comm_get_ptr(message->comm, comm);
    return MPIR_Am_send_impl(header, header_size, data, size, message->source, handler, comm);
}

int MPIR_Am_progress_impl(MPIR_Comm * comm)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_CHKANDJUMP(is_inside(), mpi_errno, MPI_ERR_OTHER, "**am_inside");
    mpi_errno = MPID_Progress_test(NULL);

  fn_fail:
    return mpi_errno;
}

int MPIR_Am_wait_impl(volatile int *flag)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERR_CHKANDJUMP(is_inside(), mpi_errno, MPI_ERR_OTHER, "**am_inside");
    mpi_errno = MPIDI_COMPOSITE_wait_for_flag(flag);

  fn_fail:
    return mpi_errno;
}
