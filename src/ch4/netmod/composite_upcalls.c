/* Where messages of the core enter MPICH, and the receiver's side of the pull rendezvous. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_handlers.h"
#include "composite_matching.h"
#include "composite_send.h"
#include "composite_vectors.h"
#include "base/numbers.h"
#include "netmod/core/handlers.h"
#include "netmod/core/setup.h"
#include "netmod/core/shared.h"
#include "mpidig_pt2pt_callbacks.h"

static bool is_lost;             /* one of this job */

/* A message, or a peer, is lost: an MPI error, for the error handler of whoever called. It stays: everything that needs progress
 * fails from now on, because MPICH's collectives note an error and go on, and would wait for ever for what was lost. */
int MPIDI_COMPOSITE_lost(void)
{
    int mpi_errno = MPI_SUCCESS;

    /* Another job, which this one is connected with, takes nobody along who goes on without it. */
    if (MPIDIU_get_n_avts() == 1)
        is_lost = true;
    MPIR_ERR_SET1(mpi_errno, MPIX_ERR_PROC_FAILED, "**composite", "**composite %s", pm_error_text());
    return mpi_errno;
}

bool MPIDI_COMPOSITE_has_lost(void)
{
    return is_lost;
}

/* Datatypes in pieces. MPICH's engine reaches the middle of a type by walking there from its beginning: to pack or unpack each piece
 * by itself would take the square of the time, and it loses its way when a piece ends within nested types. So a message that leaves
 * in pieces is packed as a whole before the first, and one that arrives in pieces is gathered before it is unpacked. Those that are
 * regular need neither: they go from their places to the device and back. */
typedef struct {
    MPIDI_COMPOSITE_am_request_t original;
    size_t begin;               /* of the bytes in `data` */
    size_t end;
    char data[];
} packed_t;

#define PACKED (-1)             /* a count no send has: `buffer` is a packed_t */

static void pack_rest(MPIDI_COMPOSITE_am_request_t * send, size_t begin)
{
    MPI_Aint type_size, packed_bytes;
    packed_t *packed;
    size_t end;

    MPIR_Datatype_get_size_macro(send->datatype, type_size);
    end = type_size * send->count;
    packed = MPL_malloc(sizeof *packed + end - begin, MPL_MEM_BUFFER);
    if (packed == NULL)
        return;                 /* slowly, then */
    packed->original = *send;
    packed->begin = begin;
    packed->end = end;
    MPIR_Typerep_pack(send->buffer, send->count, send->datatype, begin, packed->data, end - begin, &packed_bytes);
    MPIR_Assert(packed_bytes == (MPI_Aint) (end - begin));
    send->buffer = packed;
    send->count = PACKED;
}

static bool is_whole(const MPIDI_COMPOSITE_am_request_t * send, size_t offset, size_t size)
{
    MPI_Aint type_size;

    MPIR_Datatype_get_size_macro(send->datatype, type_size);
    return offset == 0 && size == (size_t) (type_size * send->count);
}

/* Each byte is asked for once, in order. */
void MPIDI_COMPOSITE_pack(void *request, size_t offset, void *destination, size_t size)
{
    MPIDI_COMPOSITE_am_request_t *send = &MPIDI_COMPOSITE_AM_REQUEST((MPIR_Request *) request);
    MPIDI_COMPOSITE_regular_t regular;

    if (send->count != PACKED && MPIDI_COMPOSITE_is_regular(send->datatype, &regular)) {
        MPIDI_COMPOSITE_copy_regular(&regular, (char *) send->buffer, offset, destination, size, true);
        return;
    }
    if (send->count != PACKED && !is_whole(send, offset, size))
        pack_rest(send, offset);
    if (send->count == PACKED) {
        packed_t *packed = (packed_t *) send->buffer;
        memcpy(destination, packed->data + offset - packed->begin, size);
        if (offset + size == packed->end) {
            *send = packed->original;
            MPL_free(packed);
        }
    } else {
        MPI_Aint packed_bytes;
        MPIR_Typerep_pack(send->buffer, send->count, send->datatype, offset, destination, size, &packed_bytes);
        MPIR_Assert(packed_bytes == (MPI_Aint) size);
    }
}

/* Where the pieces of an incoming message are gathered; NULL when they can go to their place one by one. */
static void *gather_buffer(MPIR_Request * rreq, size_t total)
{
    int contiguous;

    if (MPIDIG_REQUEST(rreq, req->recv_async).recv_type != MPIDIG_RECV_DATATYPE || rreq->status.MPI_ERROR)
        return NULL;
    MPIR_Datatype_is_contig(MPIDIG_REQUEST(rreq, datatype), &contiguous);
    return contiguous ? NULL : MPL_malloc(total, MPL_MEM_BUFFER);
}

#define IN_PLACE (-1)           /* a count nothing gathered has: each piece goes to its places */

/* Before the first piece. Where the message does not fit, or ends within an element, it is the engine that says so. */
static bool goes_in_place(MPIR_Request * rreq, size_t total)
{
    MPIDI_COMPOSITE_regular_t regular;
    MPIDIG_rreq_async_t *incoming = &MPIDIG_REQUEST(rreq, req->recv_async);
    MPI_Datatype datatype = MPIDIG_REQUEST(rreq, datatype);
    MPIR_Datatype *type;

    if (incoming->recv_type != MPIDIG_RECV_DATATYPE || (size_t) incoming->in_data_sz != total || rreq->status.MPI_ERROR ||
        HANDLE_IS_BUILTIN(datatype))
        return false;
    incoming->offset = 0;
    MPIR_Datatype_get_ptr(datatype, type);
    return !type->is_contig && type->builtin_element_size > 0 && total % type->builtin_element_size == 0 &&
        MPIDI_COMPOSITE_is_regular(datatype, &regular);
}

/* True when this was the last piece. */
static bool put_in_place(MPIR_Request * rreq, void *piece, size_t piece_size)
{
    MPIDIG_rreq_async_t *incoming = &MPIDIG_REQUEST(rreq, req->recv_async);
    MPIDI_COMPOSITE_regular_t regular;

    MPIDI_COMPOSITE_is_regular(MPIDIG_REQUEST(rreq, datatype), &regular);
    MPIDI_COMPOSITE_copy_regular(&regular, MPIDIG_REQUEST(rreq, buffer), incoming->offset, piece, piece_size, false);
    incoming->offset += piece_size;
    incoming->in_data_sz -= piece_size;
    if (incoming->in_data_sz != 0)
        return false;
    MPIR_STATUS_SET_COUNT(rreq->status, incoming->offset);
    return true;
}

/* As MPICH's handlers do it, but for those that are regular. */
static void received_whole(int tag, void *header, void *data, size_t total)
{
    MPIR_Request *rreq = NULL;

    MPIDIG_global.target_msg_cbs[tag] (header, NULL, total, MPIDIG_AM_ATTR__IS_ASYNC, &rreq);
    if (rreq == NULL)
        return;
    if (goes_in_place(rreq, total))
        put_in_place(rreq, data, total);
    else
        MPIDIG_recv_copy(data, rreq);
    MPIDIG_REQUEST(rreq, req->target_cmpl_cb) (rreq);
}

static void end_of_gathered(MPIR_Request * rreq)
{
    MPIDIG_rreq_async_t *incoming = &MPIDIG_REQUEST(rreq, req->recv_async);
    char *buffer = (char *) MPIDI_COMPOSITE_AM_REQUEST(rreq).buffer;

    if (MPIDI_COMPOSITE_AM_REQUEST(rreq).count == IN_PLACE)
        put_in_place(rreq, buffer + incoming->offset, incoming->in_data_sz);
    else
        MPIDIG_recv_copy(buffer, rreq);
    MPL_free(buffer);
    MPIDIG_REQUEST(rreq, req->target_cmpl_cb) (rreq);
}

/* A message to be matched that comes in pieces, and that nobody has asked for yet, is kept until it is whole: MPICH would lose the source
 * of one that is received while its pieces are still arriving. Its cookie is told from a request by this bit. */
#define IS_KEPT ((uintptr_t) 1)

typedef struct {
    MPIDIG_hdr_t header;
    size_t total;
    size_t arrived;
    char data[];
} kept_t;

static kept_t *kept_of(void *cookie)
{
    return (uintptr_t) cookie & IS_KEPT ? (kept_t *) ((uintptr_t) cookie - IS_KEPT) : NULL;
}

/* NULL when there is no memory for it. */
static void *keep(const MPIDIG_hdr_t * header, const void *piece, size_t piece_size, size_t total)
{
    kept_t *kept = MPL_malloc(sizeof *kept + total, MPL_MEM_BUFFER);

    if (kept == NULL)
        return NULL;
    kept->header = *header;
    kept->total = total;
    kept->arrived = piece_size;
    memcpy(kept->data, piece, piece_size);
    return (void *) ((uintptr_t) kept | IS_KEPT);
}

static void end_of_kept(kept_t * kept)
{
    received_whole(MPIDIG_SEND, &kept->header, kept->data, kept->total);
    MPL_free(kept);
}

static void more_of_kept(kept_t * kept, const void *piece, size_t piece_size)
{
    memcpy(kept->data + kept->arrived, piece, piece_size);
    kept->arrived += piece_size;
    if (kept->arrived == kept->total)
        end_of_kept(kept);
}

static void more(void *request, void *piece, size_t piece_size)
{
    MPIR_Request *rreq = request;
    MPIDI_COMPOSITE_am_request_t *gathered;

    if (kept_of(request)) {
        more_of_kept(kept_of(request), piece, piece_size);
        return;
    }
    gathered = &MPIDI_COMPOSITE_AM_REQUEST(rreq);
    if (gathered->buffer == NULL) {
        if (gathered->count == IN_PLACE ? put_in_place(rreq, piece, piece_size) : MPIDIG_recv_copy_seg(piece, piece_size, rreq))
            MPIDIG_REQUEST(rreq, req->target_cmpl_cb) (rreq);
        return;
    }
    memcpy((char *) gathered->buffer + gathered->count, piece, piece_size);
    gathered->count += piece_size;
    if (gathered->count == MPIDIG_recv_in_data_sz(rreq))
        end_of_gathered(rreq);
}

/* Messages that were announced and that nobody has pulled yet. */
static pm_numbers announced;

/* NULL: there is none with this number, or not any more. */
static MPIR_Request *take_announced(uint64_t number)
{
    MPIR_Request *sreq = pm_number_find(&announced, number);

    if (sreq)
        pm_number_forget(&announced, number);
    return sreq;
}

/* The receiver asks for the bytes instead: it will not say that it has pulled them. */
static void will_not_be_pulled(const MPIR_Request * sreq)
{
    for (uint32_t place = 0; place < announced.room; place++)
        if (announced.places[place].it == sreq)
            pm_number_forget(&announced, place);
}

/* Whether MPICH can make something of a message to be matched. It asserts that or believes it: an unexpected message must fit its buffer,
 * a rendezvous be one that there is, and ours announce no offer. */
static bool is_in_order(const pm_envelope * envelope, size_t total)
{
    const MPIDIG_hdr_t *header = envelope->header;
    const int rendezvous = MPIDIG_AM_SEND_GET_RNDV_ID(header->flags);
    const MPIDI_COMPOSITE_generic_t generic = {
        .is_announced = header->flags & MPIDIG_AM_SEND_FLAGS_RTS,
        .is_generic = rendezvous == MPIDIG_RNDV_GENERIC,
        .is_pulled = rendezvous == MPIDI_COMPOSITE_RNDV_PULL,
        .data_size = header->data_sz,
        .behind_size = header->rndv_hdr_sz
    };

    return MPIDI_COMPOSITE_may_be_generic(&generic, total, (size_t) MPIR_CVAR_CH4_AM_PACK_BUFFER_SIZE, header + 1, envelope->header_size - sizeof *header);
}

/* Of a message more is to come than this piece. Apart: those that are whole, which are most, do not pay for it with registers. */
ATTRIBUTE((noinline))
static void *arrived_in_part(const pm_envelope * envelope, void *piece, size_t piece_size, size_t total)
{
    MPIR_Request *rreq = NULL;

    if (envelope->tag == MPIDIG_SEND && !MPIDI_COMPOSITE_is_awaited(envelope->header)) {
        void *kept = keep(envelope->header, piece, piece_size, total);
        if (kept)
            return kept;
    }
    MPIDIG_global.target_msg_cbs[envelope->tag] (envelope->header, NULL, total, MPIDIG_AM_ATTR__IS_ASYNC, &rreq);
    if (rreq == NULL)
        return NULL;
    MPIDIG_recv_setup(rreq);
    MPIDI_COMPOSITE_AM_REQUEST(rreq).count = goes_in_place(rreq, total) ? IN_PLACE : 0;
    MPIDI_COMPOSITE_AM_REQUEST(rreq).buffer =
        MPIDI_COMPOSITE_AM_REQUEST(rreq).count == IN_PLACE ? NULL : gather_buffer(rreq, total);
    more(rreq, piece, piece_size);
    return rreq;
}

void *MPIDI_COMPOSITE_generic_arrived(pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total)
{
    if (likely(envelope->tag == MPIDIG_SEND)) {
        if (unlikely(!is_in_order(envelope, total))) {
            pm_count_dropped(core, envelope->source);
            return NULL;
        }
    } else if (envelope->tag == MPIDIG_SEND_CTS) {
        will_not_be_pulled(((MPIDIG_send_cts_msg_t *) envelope->header)->sreq_ptr);
    }
    if (likely(piece_size == total)) {
        if (total > 0 && (envelope->tag == MPIDIG_SEND || envelope->tag == MPIDIG_SEND_DATA))
            received_whole(envelope->tag, envelope->header, piece, total);
        else
            MPIDIG_global.target_msg_cbs[envelope->tag] (envelope->header, piece, total, 0, NULL);
        return NULL;
    }
    return arrived_in_part(envelope, piece, piece_size, total);
}

/* Of a message of which some has arrived. */
static size_t whole_size(MPIR_Request * rreq)
{
    MPIDIG_rreq_async_t *incoming = &MPIDIG_REQUEST(rreq, req->recv_async);

    return incoming->offset + incoming->in_data_sz;
}

/* NULL when the receive is not in one piece, or the message does not fit it: the generic way knows what to say then. */
static void *contiguous_place(MPIR_Request * rreq)
{
    int contiguous;
    MPI_Aint true_lb, element;
    size_t room, size = whole_size(rreq);
    MPIR_Datatype *type ATTRIBUTE((unused));

    MPIDI_Datatype_get_info(MPIDIG_REQUEST(rreq, count), MPIDIG_REQUEST(rreq, datatype), contiguous, room, type, true_lb);
    MPIR_Datatype_get_size_macro(MPIDIG_REQUEST(rreq, datatype), element);
    if (!contiguous || size > room || size % element != 0)
        return NULL;
    return MPIR_get_contig_ptr(MPIDIG_REQUEST(rreq, buffer), true_lb);
}

/* Where the payload of a message belongs whose first piece has just arrived: the user's buffer, if it is in one piece. */
static void *place(void *request)
{
    MPIR_Request *rreq = request;
    MPIDIG_rreq_async_t *incoming;

    if (kept_of(request))
        return kept_of(request)->data;
    /* A device that asks puts more at one place than it would hand over piece by piece. */
    if (MPIDI_COMPOSITE_AM_REQUEST(rreq).count == IN_PLACE && MPIDI_COMPOSITE_AM_REQUEST(rreq).buffer == NULL)
        MPIDI_COMPOSITE_AM_REQUEST(rreq).buffer = MPL_malloc(whole_size(rreq), MPL_MEM_BUFFER);
    if (MPIDI_COMPOSITE_AM_REQUEST(rreq).buffer)
        return (void *) MPIDI_COMPOSITE_AM_REQUEST(rreq).buffer;
    incoming = &MPIDIG_REQUEST(rreq, req->recv_async);
    if (rreq->status.MPI_ERROR)
        return NULL;
    if (incoming->recv_type == MPIDIG_RECV_CONTIG)
        return (char *) incoming->iov_one.iov_base - incoming->offset;
    return incoming->recv_type == MPIDIG_RECV_DATATYPE ? contiguous_place(rreq) : NULL;
}

static void placed(void *request)
{
    MPIR_Request *rreq = request;

    if (kept_of(request)) {
        end_of_kept(kept_of(request));
        return;
    }
    if (MPIDI_COMPOSITE_AM_REQUEST(rreq).buffer) {
        end_of_gathered(rreq);
        return;
    }
    if (MPIDIG_REQUEST(rreq, req->recv_async).recv_type == MPIDIG_RECV_DATATYPE)
        MPIR_STATUS_SET_COUNT(rreq->status, whole_size(rreq));
    MPIDIG_REQUEST(rreq, req->target_cmpl_cb) (rreq);
}

static void sent(void *request)
{
    MPIR_Request *sreq = request;
    MPI_Datatype datatype = MPIDI_COMPOSITE_AM_REQUEST(sreq).datatype;

    if (datatype != MPI_DATATYPE_NULL)
        MPIR_Datatype_release_if_not_builtin(datatype);
    MPIDIG_global.origin_cbs[MPIDI_COMPOSITE_AM_REQUEST(sreq).handler_id] (sreq);
}

/* Sends the message, which stays here until the receiver takes it. */
static int offer(MPIR_Request * sreq, const MPIDI_COMPOSITE_pull_header_t * header, const void *data)
{
    MPIDI_COMPOSITE_am_request_t *send = &MPIDI_COMPOSITE_AM_REQUEST(sreq);
    int status;

    send->handler_id = MPIDIG_SEND;
    send->datatype = MPIDIG_REQUEST(sreq, datatype);    /* released when it is sent */
    status = pm_offer(MPIDI_COMPOSITE_peer(sreq->comm, MPIDIG_REQUEST(sreq, u.send.dest)), MPIDIG_SEND, header, sizeof *header, data,
                      header->generic.data_sz, sreq);
    return status == PM_FAILED ? MPIDI_COMPOSITE_lost() : MPI_SUCCESS;
}

static int offered(pm_core * core, const pm_envelope * envelope, void *offer, size_t total)
{
    MPIDI_COMPOSITE_pull_header_t *header = envelope->header;

    if (!(header->generic.flags & MPIDIG_AM_SEND_FLAGS_RTS) || !is_in_order(envelope, 0) ||
        envelope->header_size != sizeof *header || header->generic.data_sz != (MPI_Aint) total)
        return 0;
    header->announced.address = (uint64_t) (uintptr_t) offer | MPIDI_COMPOSITE_IS_OFFER;
    MPIDIG_global.target_msg_cbs[envelope->tag] (header, NULL, 0, 0, NULL);
    return 1;
}

/* The receive for an offered message is known: to its place, or to a buffer if that is not in one piece or too small. */
static int take_matched(MPIR_Request * rreq, void *offer)
{
    int mpi_errno = MPI_SUCCESS;
    MPIDIG_rreq_async_t *incoming = &MPIDIG_REQUEST(rreq, req->recv_async);
    void *destination;

    MPIDI_COMPOSITE_AM_REQUEST(rreq).buffer = NULL;
    incoming->offset = 0;
    destination = contiguous_place(rreq);
    if (destination) {
        MPIR_STATUS_SET_COUNT(rreq->status, incoming->in_data_sz);
    } else {
        destination = MPL_malloc(incoming->in_data_sz, MPL_MEM_BUFFER);
        MPIR_ERR_CHKANDJUMP(destination == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
        MPIDI_COMPOSITE_AM_REQUEST(rreq).buffer = destination;
        MPIDI_COMPOSITE_AM_REQUEST(rreq).count = goes_in_place(rreq, incoming->in_data_sz) ? IN_PLACE : 0;
    }
    pm_take(offer, destination, rreq);

  fn_fail:
    return mpi_errno;
}

/* Sends the address of a message instead of the message. `*taken` is false when there is no memory to note that: then it goes the generic way. */
int MPIDI_COMPOSITE_announce(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm, int context_offset,
                             int flags, MPIR_Errflag_t errflag, const void *data, size_t size, MPIR_Request ** request, bool * taken)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Request *sreq;
    pm_peer *peer = MPIDI_COMPOSITE_peer(comm, rank);
    const bool offers = pm_can_offer(peer);
    MPIDI_COMPOSITE_pull_header_t header = {
        .generic = {
                    .src_rank = comm->rank,
                    .tag = tag,
                    .context_id = comm->context_id + context_offset,
                    .error_bits = errflag,
                    .flags = flags,
                    .data_sz = size,
                    .rndv_hdr_sz = sizeof header.announced},
        .announced = {.address = (uint64_t) (uintptr_t) data}
    };

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    if (!offers)
        header.announced.number = pm_number_give(&announced);
    *taken = offers || header.announced.number != 0;
    if (unlikely(!*taken))
        goto fn_fail;
    if (*request == NULL) {
        *request = MPIDIG_request_create(MPIR_REQUEST_KIND__SEND, 2, 0, 0);
        if (*request == NULL && !offers)
            pm_number_forget(&announced, header.announced.number);
        MPIR_ERR_CHKANDSTMT(*request == NULL, mpi_errno, MPIX_ERR_NOREQ, goto fn_fail, "**nomemreq");
    } else {
        MPIDIG_request_init(*request, MPIR_REQUEST_KIND__SEND);
    }
    sreq = *request;
    sreq->comm = comm;
    MPIR_Comm_add_ref(comm);
    if (flags & MPIDIG_AM_SEND_FLAGS_SYNC)
        MPIR_cc_inc(sreq->cc_ptr);      /* the receiver acknowledges the match, too */

    /* Kept for the case that the receiver cannot pull after all and asks for the bytes. */
    MPIDIG_REQUEST(sreq, buffer) = (void *) buf;
    MPIDIG_REQUEST(sreq, count) = count;
    MPIDIG_REQUEST(sreq, datatype) = datatype;
    MPIDIG_REQUEST(sreq, u.send.dest) = rank;
    MPIR_Datatype_add_ref_if_not_builtin(datatype);

    header.generic.sreq_ptr = sreq;
    MPIDIG_AM_SEND_SET_RNDV(header.generic.flags, MPIDI_COMPOSITE_RNDV_PULL);
    if (offers) {
        mpi_errno = offer(sreq, &header, data);
    } else {
        pm_number_set(&announced, header.announced.number, sreq);
        mpi_errno = MPIDI_NM_am_send_hdr(rank, comm, MPIDIG_SEND, &header, sizeof header, 0, 0);
        if (unlikely(mpi_errno))
            pm_number_forget(&announced, header.announced.number);
        else
            pm_count_announced(peer, header.generic.data_sz);
    }

  fn_fail:
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return mpi_errno;
}

int MPIDI_COMPOSITE_isend_both_ways(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm,
                                    int context_offset, MPIR_Request ** request)
{
    int contiguous;
    MPI_Aint true_lb;
    size_t size;
    MPIR_Datatype *type ATTRIBUTE((unused));

    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    if (contiguous && !MPIDI_is_self_comm(comm) && pm_prefers_pull_both_ways(MPIDI_COMPOSITE_peer(comm, rank), size)) {
        bool taken;
        int mpi_errno = MPIDI_COMPOSITE_announce(buf, count, datatype, rank, tag, comm, context_offset, MPIDIG_AM_SEND_FLAGS_NONE,
                                                 MPIR_ERR_NONE, MPIR_get_contig_ptr(buf, true_lb), size, request, &taken);
        if (taken)
            return mpi_errno;
    }
    return MPID_Isend(buf, count, datatype, rank, tag, comm, context_offset, request);
}

/* Copies `size` bytes of an announced message, with its sender where that is quicker. */
static int pull(MPIR_Request * rreq, const MPIDI_COMPOSITE_announced_t * there, void *place, size_t size)
{
    int source = MPIDIG_REQUEST(rreq, u.recv.source);
    pm_peer *peer = MPIDI_COMPOSITE_peer(rreq->comm, source);
    uint32_t joint = pm_joint_open(peer, size, announced.used != 0);
    struct iovec piece = { place, size };

    if (joint) {
        const MPIDI_COMPOSITE_help_t help = { there->number, (uint64_t) (uintptr_t) place, size, joint, 0 };
        if (MPIDI_NM_am_send_hdr_reply(rreq->comm, source, MPIDI_COMPOSITE_global.handler_help, &help, sizeof help, 0, 0) == MPI_SUCCESS)
            return pm_joint_pull(peer, joint, there->address, place, size);
    }
    return pm_pull(peer, there->address, &piece, 1);
}

/* The receive for an announced message is known: copy it from the sender's memory, or ask for it when that fails. */
int MPIDI_COMPOSITE_pull_matched(MPIR_Request * rreq)
{
    int mpi_errno = MPI_SUCCESS;
    int contiguous, pulled;
    MPI_Aint true_lb;
    size_t room;
    MPIR_Datatype *type ATTRIBUTE((unused));
    MPIDI_COMPOSITE_announced_t there = *(MPIDI_COMPOSITE_announced_t *) MPIDIG_REQUEST(rreq, rndv_hdr);
    uint64_t address = there.address;
    MPIDIG_rreq_async_t *incoming = &MPIDIG_REQUEST(rreq, req->recv_async);
    size_t size = incoming->in_data_sz;
    int source = MPIDIG_REQUEST(rreq, u.recv.source);
    MPIR_Comm *comm = rreq->comm;

    if (address & MPIDI_COMPOSITE_IS_OFFER)
        return take_matched(rreq, (void *) (uintptr_t) (address & ~MPIDI_COMPOSITE_IS_OFFER));
    MPIDI_Datatype_get_info(MPIDIG_REQUEST(rreq, count), MPIDIG_REQUEST(rreq, datatype), contiguous, room, type, true_lb);
    if (contiguous) {
        void *place = MPIR_get_contig_ptr(MPIDIG_REQUEST(rreq, buffer), true_lb);
        size_t fits = MPL_MIN(size, room);
        pulled = pull(rreq, &there, place, fits);
        if (pulled == PM_OK)
            MPIR_STATUS_SET_COUNT(rreq->status, fits);
    } else {
        void *all = MPL_malloc(size, MPL_MEM_BUFFER);
        pulled = all ? pull(rreq, &there, all, size) : PM_FAILED;
        if (pulled == PM_OK)
            MPIDIG_recv_copy(all, rreq);
        MPL_free(all);
    }
    if (pulled != PM_OK)
        return MPIDIG_do_cts(rreq);

    mpi_errno = MPIDI_NM_am_send_hdr_reply(comm, source, MPIDI_COMPOSITE_global.handler_pulled, &there.number, sizeof there.number, 0, 0);
    MPIR_ERR_CHECK(mpi_errno);
    MPIDIG_REQUEST(rreq, req->target_cmpl_cb) (rreq);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* The receiver copies our bytes, and we may, too. */
static bool help(const pm_envelope * envelope)
{
    MPIDI_COMPOSITE_help_t header;
    MPIR_Request *sreq;
    int contiguous;
    MPI_Aint true_lb;
    size_t size;
    MPIR_Datatype *type ATTRIBUTE((unused));

    memcpy(&header, envelope->header, sizeof header);
    sreq = pm_number_find(&announced, header.number);
    if (sreq == NULL || MPIDI_COMPOSITE_peer(sreq->comm, MPIDIG_REQUEST(sreq, u.send.dest)) != envelope->source)
        return false;
    MPIDI_Datatype_get_info(MPIDIG_REQUEST(sreq, count), MPIDIG_REQUEST(sreq, datatype), contiguous, size, type, true_lb);
    if (!MPIDI_COMPOSITE_may_be_helped(&header, size))
        return false;
    pm_joint_help(envelope->source, header.joint, MPIR_get_contig_ptr(MPIDIG_REQUEST(sreq, buffer), true_lb), header.place, header.size);
    return true;
}

/* The receiver has our bytes. */
static bool pulled(const pm_envelope * envelope)
{
    uint64_t number;
    MPIR_Request *sreq;

    memcpy(&number, envelope->header, sizeof number);
    sreq = take_announced(number);
    if (sreq == NULL)
        return false;
    MPIR_Datatype_release_if_not_builtin(MPIDIG_REQUEST(sreq, datatype));
    MPID_Request_complete(sreq);
    return true;
}

/* ---- which messages enter MPICH ---- */

int MPIDI_COMPOSITE_handler_asking;

typedef void *(*arrived_t) (pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total);

static arrived_t arrived_of(int tag)
{
    if (tag == MPIDI_COMPOSITE_global.handler_short)
        return MPIDI_COMPOSITE_short_arrived;
    if (tag == MPIDI_COMPOSITE_handler_asking)
        return MPIDI_COMPOSITE_asking_arrived;
    return tag == MPIDIG_SSEND_ACK ? MPIDI_COMPOSITE_answer_arrived : MPIDI_COMPOSITE_generic_arrived;
}

static void register_tag(int tag, const char *name, size_t smallest_header, bool for_strangers)
{
    const pm_handler handler = {
        .name = name,
        .smallest_header = (uint32_t) smallest_header,
        .for_strangers = for_strangers,
        .arrived = arrived_of(tag),
        .more = more,
        .place = place,
        .placed = placed,
        .offered = tag == MPIDIG_SEND ? offered : NULL,
        .sent = sent,
    };

    pm_handle(MPIDI_COMPOSITE_global.core, tag, &handler); /* without a device there is nobody to register with, and MPI_Init fails */
}

int MPIDI_COMPOSITE_register(const char *name, MPIDIG_am_target_msg_cb msg_cb, size_t smallest_header, bool for_strangers)
{
    int tag = MPIDIG_am_reg_cb_dynamic(NULL, msg_cb);

    MPIR_Assert(tag >= 0);
    register_tag(tag, name, smallest_header, for_strangers);
    return tag;
}

static MPIDI_COMPOSITE_arrived_t own_arrived[MPIDI_AM_HANDLERS_MAX];    /* by tag */

static void *all_header_arrived(pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total)
{
    if (total != 0 || !own_arrived[envelope->tag] (envelope))
        pm_count_dropped(core, envelope->source);
    return NULL;
}

int MPIDI_COMPOSITE_handle(const char *name, MPIDI_COMPOSITE_arrived_t arrived, size_t smallest_header, bool for_strangers)
{
    int tag = MPIDIG_am_reg_cb_dynamic(NULL, NULL);     /* so that MPICH gives the number to nobody else */
    const pm_handler handler = {
        .name = name,
        .smallest_header = (uint32_t) smallest_header,
        .for_strangers = for_strangers,
        .arrived = all_header_arrived,
    };

    MPIR_Assert(tag >= 0);
    own_arrived[tag] = arrived;
    pm_handle(MPIDI_COMPOSITE_global.core, tag, &handler);
    return tag;
}

void MPIDI_COMPOSITE_register_own(void)
{
    /* A process that is done with MPI_Comm_accept or the like may send over the new communicator, or abort, before we are connected to
     * it: those messages are for strangers, too. All others answer one of ours, or need a communicator of all or a window. */
    static const struct {
        int tag;
        const char *name;
        size_t smallest_header;
        bool for_strangers;
    } own[] = {
        { MPIDIG_SEND, "send", sizeof(MPIDIG_hdr_t), true },
        { MPIDIG_SEND_CTS, "send cts", sizeof(MPIDIG_send_cts_msg_t), false },
        { MPIDIG_SEND_DATA, "send data", sizeof(MPIDIG_send_data_msg_t), false },
        { MPIDIG_SSEND_ACK, "ssend ack", sizeof(MPIDIG_ssend_ack_msg_t), false },
        { MPIDIG_PUT_REQ, "put", sizeof(MPIDIG_put_msg_t), false },
        { MPIDIG_PUT_ACK, "put ack", sizeof(MPIDIG_put_ack_msg_t), false },
        { MPIDIG_PUT_DT_REQ, "put type", sizeof(MPIDIG_put_msg_t), false },
        { MPIDIG_PUT_DAT_REQ, "put data", sizeof(MPIDIG_put_dat_msg_t), false },
        { MPIDIG_PUT_DT_ACK, "put type ack", sizeof(MPIDIG_put_dt_ack_msg_t), false },
        { MPIDIG_GET_REQ, "get", sizeof(MPIDIG_get_msg_t), false },
        { MPIDIG_GET_ACK, "get ack", sizeof(MPIDIG_get_ack_msg_t), false },
        { MPIDIG_ACC_REQ, "accumulate", sizeof(MPIDIG_acc_req_msg_t), false },
        { MPIDIG_ACC_ACK, "accumulate ack", sizeof(MPIDIG_acc_ack_msg_t), false },
        { MPIDIG_ACC_DT_REQ, "accumulate type", sizeof(MPIDIG_acc_req_msg_t), false },
        { MPIDIG_ACC_DAT_REQ, "accumulate data", sizeof(MPIDIG_acc_dat_msg_t), false },
        { MPIDIG_ACC_DT_ACK, "accumulate type ack", sizeof(MPIDIG_acc_dt_ack_msg_t), false },
        { MPIDIG_GET_ACC_REQ, "get accumulate", sizeof(MPIDIG_get_acc_req_msg_t), false },
        { MPIDIG_GET_ACC_ACK, "get accumulate ack", sizeof(MPIDIG_get_acc_ack_msg_t), false },
        { MPIDIG_GET_ACC_DT_REQ, "get accumulate type", sizeof(MPIDIG_get_acc_req_msg_t), false },
        { MPIDIG_GET_ACC_DAT_REQ, "get accumulate data", sizeof(MPIDIG_get_acc_dat_msg_t), false },
        { MPIDIG_GET_ACC_DT_ACK, "get accumulate type ack", sizeof(MPIDIG_get_acc_dt_ack_msg_t), false },
        { MPIDIG_CSWAP_REQ, "compare and swap", sizeof(MPIDIG_cswap_req_msg_t), false },
        { MPIDIG_CSWAP_ACK, "compare and swap ack", sizeof(MPIDIG_cswap_ack_msg_t), false },
        { MPIDIG_WIN_COMPLETE, "complete", sizeof(MPIDIG_win_cntrl_msg_t), false },
        { MPIDIG_WIN_POST, "post", sizeof(MPIDIG_win_cntrl_msg_t), false },
        { MPIDIG_WIN_LOCK, "lock", sizeof(MPIDIG_win_cntrl_msg_t), false },
        { MPIDIG_WIN_LOCK_ACK, "lock ack", sizeof(MPIDIG_win_cntrl_msg_t), false },
        { MPIDIG_WIN_UNLOCK, "unlock", sizeof(MPIDIG_win_cntrl_msg_t), false },
        { MPIDIG_WIN_UNLOCK_ACK, "unlock ack", sizeof(MPIDIG_win_cntrl_msg_t), false },
        { MPIDIG_WIN_LOCKALL, "lock all", sizeof(MPIDIG_win_cntrl_msg_t), false },
        { MPIDIG_WIN_LOCKALL_ACK, "lock all ack", sizeof(MPIDIG_win_cntrl_msg_t), false },
        { MPIDIG_WIN_UNLOCKALL, "unlock all", sizeof(MPIDIG_win_cntrl_msg_t), false },
        { MPIDIG_WIN_UNLOCKALL_ACK, "unlock all ack", sizeof(MPIDIG_win_cntrl_msg_t), false },
        { MPIDIG_COMM_ABORT, "abort", sizeof(int), true },
    };

    MPIDI_COMPOSITE_global.handler_short = MPIDIG_am_reg_cb_dynamic(NULL, NULL);
    register_tag(MPIDI_COMPOSITE_global.handler_short, "short send", sizeof(MPIDI_COMPOSITE_short_header_t), true);
    MPIDI_COMPOSITE_handler_asking = MPIDIG_am_reg_cb_dynamic(NULL, NULL);
    register_tag(MPIDI_COMPOSITE_handler_asking, "short synchronous send", sizeof(MPIDI_COMPOSITE_asking_header_t), true);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        register_tag(own[i].tag, own[i].name, own[i].smallest_header, own[i].for_strangers);
    MPIDI_COMPOSITE_partitions_register();
    MPIDI_COMPOSITE_global.handler_pulled = MPIDI_COMPOSITE_handle("pulled", pulled, sizeof(uint64_t), false);
    MPIDI_COMPOSITE_global.handler_help = MPIDI_COMPOSITE_handle("help", help, sizeof(MPIDI_COMPOSITE_help_t), false);
}
