/* MPIX_Mcast and its receiving side: MPI's datatypes and requests for the engine in coll/mcast. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll_life.h"
#include "ch4/mpix/composite_bitmap.h"
#include "coll/mcast/mcast.h"

/* What a request needs to know until its end. */
typedef struct {
    MPIR_Request *request;
    void *packed;               /* in place of the user's buffer when that is not contiguous; NULL otherwise */
    void *buffer;
    MPI_Aint count;
    MPI_Datatype datatype;
    size_t room;
} operation_t;

static void end(operation_t * operation)
{
    MPIR_Request *request = operation->request;

    MPIR_Datatype_release_if_not_builtin(operation->datatype);
    MPL_free(operation->packed);
    MPL_free(operation);
    MPID_Request_complete(request);
}

static void multicast_sent(void *cookie, const char *error)
{
    operation_t *operation = cookie;

    if (error)
        MPIR_ERR_SET1(operation->request->status.MPI_ERROR, MPIX_ERR_PROC_FAILED, "**composite", "**composite %s", error);
    end(operation);
}

static void multicast_received(void *cookie, int source, int tag, size_t size)
{
    operation_t *operation = cookie;
    MPI_Status *status = &operation->request->status;
    size_t taken = MPL_MIN(size, operation->room);
    MPI_Aint unpacked;

    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    MPIR_STATUS_SET_COUNT(*status, taken);
    if (operation->packed)
        MPIR_Typerep_unpack(operation->packed, taken, operation->buffer, operation->count, operation->datatype, 0, &unpacked);
    if (size > operation->room)
        MPIR_ERR_SET2(status->MPI_ERROR, MPI_ERR_TRUNCATE, "**mcast_truncate", "**mcast_truncate %L %L", (long long) size,
                      (long long) operation->room);
    end(operation);
}

int MPIDI_COMPOSITE_mcast_init(void)
{
    pm_mcast_setup setup;

    memset(&setup, 0, sizeof setup);
    setup.algorithm = MPIR_CVAR_CH4_COMPOSITE_MCAST_ALGORITHM;
    setup.tree_limit = MPL_MAX(MPIR_CVAR_CH4_COMPOSITE_MCAST_TREE_LIMIT, 0);
    setup.doubling_limit = MPL_MAX(MPIR_CVAR_CH4_COMPOSITE_MCAST_DOUBLING_LIMIT, 0);
    setup.chain_limit = MPL_MAX(MPIR_CVAR_CH4_COMPOSITE_MCAST_CHAIN_LIMIT, 0);
    setup.shared_limit = MPL_MAX(MPIR_CVAR_CH4_COMPOSITE_MCAST_SHARED_LIMIT, 0);
    setup.piece = MPL_MAX(MPIR_CVAR_CH4_COMPOSITE_MCAST_PIECE, 1024);
    setup.fanout = MPL_MAX(MPIR_CVAR_CH4_COMPOSITE_MCAST_FANOUT, 1);
    setup.may_open = MPIDI_COMPOSITE_may_have_id;
    setup.sent = multicast_sent;
    setup.received = multicast_received;
    return pm_mcast_open(MPIDI_COMPOSITE_global.core, &setup);
}

/* A request and what belongs to it; a buffer that is not contiguous gets a contiguous one beside it. */
static int make_operation(MPIR_Request_kind_t kind, void *buffer, MPI_Aint count, MPI_Datatype datatype, MPIR_Comm * comm,
                          operation_t ** made, char **data)
{
    int mpi_errno = MPI_SUCCESS;
    int contiguous;
    MPI_Aint true_lb;
    size_t size;
    MPIR_Datatype *type ATTRIBUTE((unused));
    operation_t *operation = MPL_calloc(1, sizeof *operation, MPL_MEM_COLL);

    MPIR_ERR_CHKANDJUMP(operation == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    if (contiguous) {
        *data = MPIR_get_contig_ptr(buffer, true_lb);
    } else {
        operation->packed = MPL_malloc(MPL_MAX(size, 1), MPL_MEM_BUFFER);
        MPIR_ERR_CHKANDJUMP(operation->packed == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
        *data = operation->packed;
    }
    operation->buffer = buffer;
    operation->count = count;
    operation->datatype = datatype;
    operation->room = size;
    operation->request = MPIR_Request_create(kind);
    MPIR_ERR_CHKANDJUMP(operation->request == NULL, mpi_errno, MPIX_ERR_NOREQ, "**nomemreq");
    MPIR_Request_add_ref(operation->request);   /* given back when it is complete */
    operation->request->comm = comm;
    MPIR_Comm_add_ref(comm);
    MPIR_Datatype_add_ref_if_not_builtin(datatype);
    *made = operation;
    return MPI_SUCCESS;

  fn_fail:
    if (operation)
        MPL_free(operation->packed);
    MPL_free(operation);
    return mpi_errno;
}

int MPIR_Imcast_impl(const void *buf, MPI_Count count, MPI_Datatype datatype, const MPIX_Bitmap members[], int tag,
                     MPIR_Comm * comm, int flags, MPIR_Request ** request)
{
    int mpi_errno, sent;
    operation_t *operation;
    char *data;
    MPI_Aint packed;

    mpi_errno = MPIDI_COMPOSITE_check_bitmap(members, comm);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = make_operation(MPIR_REQUEST_KIND__SEND, (void *) buf, count, datatype, comm, &operation, &data);
    MPIR_ERR_CHECK(mpi_errno);
    *request = operation->request;
    if (operation->packed)
        MPIR_Typerep_pack(buf, count, datatype, 0, operation->packed, operation->room, &packed);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    sent = pm_mcast_send(MPIDI_COMPOSITE_COMM(comm).group, data, operation->room, members, tag, flags & MPIX_MCAST_DELIVERED, operation);
    if (sent == PM_FAILED)
        mpi_errno = MPIDI_COMPOSITE_lost();
    if (sent != PM_QUEUED)
        end(operation);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (mpi_errno) {
        MPIR_Request_free(*request);
        *request = NULL;
    }

  fn_fail:
    return mpi_errno;
}

static int wait_and_free(MPIR_Request * request, MPI_Status * status)
{
    int mpi_errno = MPID_Wait(request, MPI_STATUS_IGNORE);

    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = request->status.MPI_ERROR;
    MPIR_Request_extract_status(request, status);
    MPIR_Request_free(request);

  fn_fail:
    return mpi_errno;
}

int MPIR_Mcast_impl(const void *buf, MPI_Count count, MPI_Datatype datatype, const MPIX_Bitmap members[], int tag,
                    MPIR_Comm * comm)
{
    int mpi_errno, contiguous, sent;
    MPI_Aint true_lb;
    size_t size;
    pm_backlog backlog;
    MPIR_Datatype *type ATTRIBUTE((unused));
    MPIR_Request *request = NULL;

    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    if (contiguous && pm_mcast_is_short(size)) {
        /* The engine keeps a copy if it cannot send it at once. */
        mpi_errno = MPIDI_COMPOSITE_check_bitmap(members, comm);
        MPIR_ERR_CHECK(mpi_errno);
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
        sent = pm_mcast_send(MPIDI_COMPOSITE_COMM(comm).group, MPIR_get_contig_ptr(buf, true_lb), size, members, tag, 0, NULL);
        backlog = pm_mcast_backlog();
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
        if (sent == PM_FAILED)
            return MPIDI_COMPOSITE_lost();
        while (backlog != PM_BACKLOG_NONE && mpi_errno == MPI_SUCCESS) {
            mpi_errno = MPID_Progress_test(NULL);
            MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
            backlog = pm_mcast_backlog();
            MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
            if (backlog != PM_BACKLOG_MUCH)
                break;
            MPIDI_COMPOSITE_WAIT_MESSAGE();
        }
        return mpi_errno;
    }
    mpi_errno = MPIR_Imcast_impl(buf, count, datatype, members, tag, comm, 0, &request);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = wait_and_free(request, MPI_STATUS_IGNORE);

  fn_fail:
    return mpi_errno;
}

int MPIR_Mcast_irecv_impl(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPIR_Comm * comm,
                          MPIX_Bitmap members[], MPIR_Request ** request)
{
    int mpi_errno;
    operation_t *operation;
    char *data;

    if (source == MPI_PROC_NULL) {
        if (members)
            MPIX_Bitmap_zero(members, comm->local_size);
        *request = MPIR_Request_create_null_recv();
        return MPI_SUCCESS;
    }
    /* Not a RECV: MPI_Cancel would look for it among those of MPICH. */
    mpi_errno = make_operation(MPIR_REQUEST_KIND__COLL, buf, count, datatype, comm, &operation, &data);
    MPIR_ERR_CHECK(mpi_errno);
    *request = operation->request;
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    pm_mcast_receive(MPIDI_COMPOSITE_COMM(comm).group, data, operation->room, source == MPI_ANY_SOURCE ? PM_ANY : source,
                     tag == MPI_ANY_TAG ? PM_ANY : tag, members, operation);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);

  fn_fail:
    return mpi_errno;
}

int MPIR_Mcast_recv_impl(void *buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPIR_Comm * comm,
                         MPIX_Bitmap members[], MPI_Status * status)
{
    int mpi_errno;
    MPIR_Request *request = NULL;

    mpi_errno = MPIR_Mcast_irecv_impl(buf, count, datatype, source, tag, comm, members, &request);
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = wait_and_free(request, status);

  fn_fail:
    return mpi_errno;
}

int MPIR_Mcast_iprobe_impl(int source, int tag, MPIR_Comm * comm, int *flag, MPI_Status * status)
{
    int mpi_errno, found_source, found_tag;
    size_t size;

    if (source == MPI_PROC_NULL) {
        MPIR_Status_set_procnull(status);
        *flag = true;
        return MPI_SUCCESS;
    }
    mpi_errno = MPID_Progress_test(NULL);
    MPIR_ERR_CHECK(mpi_errno);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    *flag = pm_mcast_probe(MPIDI_COMPOSITE_COMM(comm).group, source == MPI_ANY_SOURCE ? PM_ANY : source,
                           tag == MPI_ANY_TAG ? PM_ANY : tag, &found_source, &found_tag, &size);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (*flag && status != MPI_STATUS_IGNORE) {
        status->MPI_SOURCE = found_source;
        status->MPI_TAG = found_tag;
        status->MPI_ERROR = MPI_SUCCESS;
        MPIR_STATUS_SET_CANCEL_BIT(*status, FALSE);
        MPIR_STATUS_SET_COUNT(*status, size);
    }

  fn_fail:
    return mpi_errno;
}
