/* Partitioned communication.
 *
 * A send is matched with a receive once, in the order of the calls that made them: MPI_Psend_init tells the receiver, where two queues of
 * base/matching.h are for this alone. Then each round: MPI_Start of the receive tells the sender that its round is open, and what is ready leaves,
 * neighbours that became ready before that in one message. The partitions of the two sides need not be the same: the receiver counts the bytes that
 * each of its own lacks. Bytes go to their place at once where the receive is in one piece; otherwise they are gathered, and a partition is unpacked when
 * it is whole. Long pieces are pulled where long messages are.
 *
 * All with the lock of the VCI, but for looking whether a partition has arrived. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_decode.h"
#include "composite_handlers.h"
#include "composite_part.h"
#include "composite_vectors.h"
#include "base/matching.h"
#include "base/numbers.h"
#include "netmod/core/setup.h"

#define PARTITIONS(request) MPIDI_PART_REQUEST(request, netmod).composite.partitions
#define OWNER(entry, type, member) ((type *) ((char *) (entry) - offsetof(type, member)))

enum { WAITS, READY, SENT };    /* of a partition of a send */
enum { NO_MEMORY = -1 };        /* besides what pm_send() answers */

typedef struct MPIDI_COMPOSITE_partitions {
    pm_match_entry entry;       /* of a receive that no send has been matched with */
    MPIR_Request *request;
    pm_peer *peer;              /* NULL: MPI_PROC_NULL */
    uint64_t number, its_number;        /* what we are called, and what the other side is */
    size_t its_total;           /* of the other side, once it is known; a send is told when it is less */
    int count;                  /* of partitions: at least one, which may be of no bytes */
    size_t each, total;         /* bytes of data, in a partition and in all */
    char *buffer;
    MPI_Aint stride;            /* from a partition to the next */
    char *data;                 /* in one piece: that of the user, or where a receive gathers it; NULL: of a send that is not */
    bool gathers;
    bool started;               /* and has not come to its end */
    bool sends;
    bool freed;                 /* by its user: it only takes its turn in the queue, or has something on its way */

    /* Of a send. */
    bool open;                  /* its receiver has started a round, of which something has yet to leave */
    int unsent, in_flight;      /* partitions that have not left, and messages that have not quite */
    unsigned char *states;

    /* Of a receive. */
    size_t left;                /* bytes that lack */
    size_t *missing;            /* in each partition */
} partitions_t;

/* What MPI_Psend_init said, for a receive that is not there yet. */
typedef struct {
    pm_match_entry entry;
    uint64_t number;
    size_t total;
} init_t;

static pm_match_queue receives = {.of_receives = true };
static pm_match_queue inits;
static pm_numbers numbers;
static int tag_init, tag_open, tag_refused, tag_pulled, tag_data, tag_pull;

static bool is_send(const partitions_t * part)
{
    return part->sends;
}

/* ---- rounds end ---- */

static void end_round(partitions_t * part, int mpi_errno)
{
    int incomplete ATTRIBUTE((unused));

    part->started = false;
    part->request->status.MPI_ERROR = mpi_errno;
    MPIR_cc_decr(part->request->cc_ptr, &incomplete);
    /* As when a request is freed: whoever waits looks. */
    MPL_atomic_release_store_int(&MPIDI_VCI(0).progress_count, MPL_atomic_relaxed_load_int(&MPIDI_VCI(0).progress_count) + 1);
}

/* In a handler, which has nobody to tell. */
static void end_if_failed(partitions_t * part, int mpi_errno)
{
    if (unlikely(mpi_errno != MPI_SUCCESS) && part->started)
        end_round(part, mpi_errno);
}

/* There is less room than is sent: each round ends as it begins. Less that is sent is received, as with MPICH, which makes an error of it then. */
static bool is_refused(const partitions_t * part)
{
    return is_send(part) ? part->its_total < part->total : part->its_total > part->total;
}

static int sizes_differ(const partitions_t * part)
{
    long long ours = (long long) part->total, its = (long long) part->its_total;

    return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, __func__, __LINE__, MPI_ERR_OTHER, "**partition_sizes",
                                "**partition_sizes %L %L", is_send(part) ? ours : its, is_send(part) ? its : ours);
}

static int tell(const partitions_t * part, int tag, const void *header, size_t size)
{
    return pm_send(part->peer, tag, header, size, NULL, 0, NULL) == PM_FAILED ? MPIDI_COMPOSITE_lost() : MPI_SUCCESS;
}

/* ---- a send: what is ready leaves ---- */

/* Some partitions that are packed, on their way. Their cookie is told from a send by this bit. */
#define IS_PARCEL ((uintptr_t) 1)

typedef struct {
    partitions_t *part;
    char data[];
} parcel_t;

static void copy_partitions(const partitions_t * part, int first, int n, char *packed, bool packs)
{
    MPI_Datatype datatype = MPIDI_PART_REQUEST(part->request, datatype);
    MPI_Aint count = MPIDI_PART_REQUEST(part->request, count) * n, size = (MPI_Aint) (part->each * n), done;
    char *place = part->buffer + first * part->stride;
    MPIDI_COMPOSITE_regular_t regular;

    if (MPIDI_COMPOSITE_is_regular(datatype, &regular))
        MPIDI_COMPOSITE_copy_regular(&regular, place, 0, packed, size, packs);
    else if (packs)
        MPIR_Typerep_pack(place, count, datatype, 0, packed, size, &done);
    else
        MPIR_Typerep_unpack(packed, size, place, count, datatype, 0, &done);
}

static int send_packed(partitions_t * part, const MPIDI_COMPOSITE_part_data_t * header, int first, int n)
{
    const size_t size = n * part->each;
    parcel_t *parcel = MPL_malloc(sizeof *parcel + size, MPL_MEM_BUFFER);
    int sent;

    if (parcel == NULL)
        return NO_MEMORY;
    parcel->part = part;
    copy_partitions(part, first, n, parcel->data, true);
    sent = pm_send(part->peer, tag_data, header, sizeof *header, parcel->data, size, (void *) ((uintptr_t) parcel | IS_PARCEL));
    if (sent != PM_QUEUED)
        MPL_free(parcel);
    return sent;
}

/* The receiver is told where they are instead, and says when it has them. */
static int send_address(partitions_t * part, const MPIDI_COMPOSITE_part_data_t * data, size_t size)
{
    char *place = part->data + data->offset;
    MPIDI_COMPOSITE_part_pull_t header = { data->number, data->offset, size, 0 };

    if (pm_can_offer(part->peer))
        return pm_offer(part->peer, tag_pull, &header, sizeof header, place, size, part);
    header.address = (uint64_t) (uintptr_t) place;
    if (pm_send(part->peer, tag_pull, &header, sizeof header, NULL, 0, NULL) == PM_FAILED)
        return PM_FAILED;
    pm_count_announced(part->peer, size);
    return PM_QUEUED;
}

static int send_bytes(partitions_t * part, const MPIDI_COMPOSITE_part_data_t * header, size_t size)
{
    const char *data = part->data + header->offset;

    switch (pm_departure_of(part->peer, size, 0)) {
    case PM_DEPARTS_NOW:
        if (likely(pm_send_now(part->peer, tag_data, header, sizeof *header, data, size)))
            return PM_OK;
        break;
    case PM_DEPARTS_BY_PULL:
        return send_address(part, header, size);
    case PM_DEPARTS_LATER:
        break;
    }
    return pm_send(part->peer, tag_data, header, sizeof *header, data, size, part);
}

static void end_if_sent(partitions_t * part)
{
    if (part->unsent == 0 && part->in_flight == 0 && part->started)
        end_round(part, MPI_SUCCESS);
}

/* Partitions of no bytes are told of when all of them are ready. */
static int send_run(partitions_t * part, int first, int n)
{
    const MPIDI_COMPOSITE_part_data_t header = { part->its_number, first * part->each };
    int mpi_errno = MPI_SUCCESS, sent = PM_OK;

    part->unsent -= n;
    part->open = part->unsent > 0;
    if (part->data == NULL)
        sent = send_packed(part, &header, first, n);
    else if (part->total > 0 || part->unsent == 0)
        sent = send_bytes(part, &header, n * part->each);
    MPIR_ERR_CHKANDJUMP(sent == NO_MEMORY, mpi_errno, MPI_ERR_OTHER, "**nomem");
    if (unlikely(sent == PM_FAILED))
        return MPIDI_COMPOSITE_lost();
    part->in_flight += sent == PM_QUEUED;
    end_if_sent(part);

  fn_fail:
    return mpi_errno;
}

/* Of partitions [first, end) those that are ready. */
static int send_ready(partitions_t * part, int first, int end)
{
    int mpi_errno = MPI_SUCCESS;

    while (part->open && mpi_errno == MPI_SUCCESS) {
        int n = 0;
        while (first < end && part->states[first] != READY)
            first++;
        for (; first + n < end && part->states[first + n] == READY; n++)
            part->states[first + n] = SENT;
        if (n == 0)
            break;
        mpi_errno = send_run(part, first, n);
        first += n;
    }
    return mpi_errno;
}

static int start_send(partitions_t * part)
{
    const int partitions = part->request->u.part.partitions;

    memset(part->states, partitions > 0 ? WAITS : READY, part->count);
    part->unsent = part->count;
    if (unlikely(is_refused(part))) {
        end_round(part, sizes_differ(part));
        return MPI_SUCCESS;
    }
    return send_ready(part, 0, part->count);
}

/* ---- a receive: what arrives goes to its place ---- */

static int open_round(partitions_t * part)
{
    const MPIDI_COMPOSITE_part_open_t header = { part->its_number, part->number };

    if (unlikely(is_refused(part))) {
        end_round(part, sizes_differ(part));
        return MPI_SUCCESS;
    }
    part->left = part->its_total;
    MPIR_STATUS_SET_COUNT(part->request->status, part->its_total);
    if (likely(pm_send_now(part->peer, tag_open, &header, sizeof header, NULL, 0)))
        return MPI_SUCCESS;
    return tell(part, tag_open, &header, sizeof header);
}

static int start_receive(partitions_t * part)
{
    for (int i = 0; i < part->count; i++)
        part->missing[i] = part->each;
    return part->its_number ? open_round(part) : MPI_SUCCESS;
}

static int match(partitions_t * part, uint64_t number, size_t total)
{
    int mpi_errno = MPI_SUCCESS;

    part->its_number = number;
    part->its_total = total;
    if (unlikely(is_refused(part))) {
        const MPIDI_COMPOSITE_part_refused_t header = { number, part->total };
        mpi_errno = tell(part, tag_refused, &header, sizeof header);
    }
    if (part->started && mpi_errno == MPI_SUCCESS)
        mpi_errno = open_round(part);
    return mpi_errno;
}

/* All that comes is there, and is less than there is room for. */
static void end_short(partitions_t * part)
{
    const size_t whole = part->its_total / part->each, rest = part->its_total % part->each;
    MPI_Aint done;

    if (part->gathers && rest > 0)
        MPIR_Typerep_unpack(part->data + whole * part->each, rest, part->buffer + whole * part->stride, MPIDI_PART_REQUEST(part->request, count),
                            MPIDI_PART_REQUEST(part->request, datatype), 0, &done);
    end_round(part, sizes_differ(part));
}

static void received(partitions_t * part, size_t offset, size_t size)
{
    part->left -= MPL_MIN(size, part->left);
    for (size_t i = part->each ? offset / part->each : 0; size > 0; i++) {
        size_t here = MPL_MIN(size, (i + 1) * part->each - offset), lacks = part->missing[i] - MPL_MIN(here, part->missing[i]);
        if (lacks == 0 && part->gathers)
            copy_partitions(part, (int) i, 1, part->data + i * part->each, false);
        /* [L3] publishes its bytes; pairs with [L4]. */
        __atomic_store_n(&part->missing[i], lacks, __ATOMIC_RELEASE);
        offset += here;
        size -= here;
    }
    if (part->left == 0 && unlikely(part->its_total != part->total))
        end_short(part);
    else if (part->left == 0)
        end_round(part, MPI_SUCCESS);
}

/* A message that comes in pieces. */
typedef struct {
    partitions_t *part;
    size_t offset, size, arrived;
} arriving_t;

static void end_of_arriving(arriving_t * arriving)
{
    received(arriving->part, arriving->offset, arriving->size);
    MPL_free(arriving);
}

static void more(void *cookie, void *piece, size_t piece_size)
{
    arriving_t *arriving = cookie;

    memcpy(arriving->part->data + arriving->offset + arriving->arrived, piece, piece_size);
    arriving->arrived += piece_size;
    if (arriving->arrived == arriving->size)
        end_of_arriving(arriving);
}

static void *place(void *cookie)
{
    arriving_t *arriving = cookie;

    return arriving->part->data + arriving->offset;
}

static void placed(void *cookie)
{
    end_of_arriving(cookie);
}

static arriving_t *arriving_create(partitions_t * part, size_t offset, size_t size)
{
    arriving_t *arriving = MPL_malloc(sizeof *arriving, MPL_MEM_BUFFER);

    MPIR_Assertp(arriving);
    arriving->part = part;
    arriving->offset = offset;
    arriving->size = size;
    arriving->arrived = 0;
    return arriving;
}

/* ---- what a message is about; NULL: that cannot be ---- */

static partitions_t *find(const pm_envelope * envelope, uint64_t number, bool of_send)
{
    partitions_t *part = pm_number_find(&numbers, number);

    return part != NULL && is_send(part) == of_send && part->peer == envelope->source ? part : NULL;
}

static partitions_t *find_receive(const pm_envelope * envelope, uint64_t number, uint64_t offset, uint64_t size)
{
    partitions_t *part = find(envelope, number, false);

    return part != NULL && part->started && part->its_number && MPIDI_COMPOSITE_may_be_part(offset, size, part->its_total) ? part : NULL;
}

static void destroy(partitions_t * part)
{
    if (part->number != 0)
        pm_number_forget(&numbers, part->number);
    if (part->gathers)
        MPL_free(part->data);
    MPL_free(part);
}

/* ---- messages to a receiver ---- */

static bool init_arrived(const pm_envelope * envelope)
{
    MPIDI_COMPOSITE_part_init_t header;
    pm_match_entry *entry;

    memcpy(&header, envelope->header, sizeof header);
    if (!MPIDI_COMPOSITE_may_be_part_init(&header, MPIR_CONTEXT_ID_BITS))
        return false;
    entry = pm_match_receive_of(&receives, header.context, header.source, header.tag);
    if (entry != NULL) {
        partitions_t *part = OWNER(entry, partitions_t, entry);
        MPIR_Request *request = part->request;
        pm_match_remove(&receives, entry);
        if (part->freed)
            destroy(part);
        else
            end_if_failed(part, match(part, header.number, header.size));
        MPIR_Request_free_unsafe(request);      /* the queue's reference */
    } else {
        init_t *init = MPL_malloc(sizeof *init, MPL_MEM_BUFFER);
        MPIR_Assertp(init);
        init->entry.context = header.context;
        init->entry.source = header.source;
        init->entry.tag = header.tag;
        init->number = header.number;
        init->total = header.size;
        pm_match_add(&inits, &init->entry);
    }
    return true;
}

static void *data_arrived(pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total)
{
    MPIDI_COMPOSITE_part_data_t header;
    partitions_t *part;
    arriving_t *arriving;

    memcpy(&header, envelope->header, sizeof header);
    part = find_receive(envelope, header.number, header.offset, total);
    if (unlikely(part == NULL)) {
        pm_count_dropped(core, envelope->source);
        return NULL;
    }
    if (likely(piece_size == total)) {
        if (total > 0)
            memcpy(part->data + header.offset, piece, total);
        received(part, header.offset, total);
        return NULL;
    }
    arriving = arriving_create(part, header.offset, total);
    more(arriving, piece, piece_size);
    return arriving;
}

static void *pull_arrived(pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total)
{
    MPIDI_COMPOSITE_part_pull_t header;
    MPIDI_COMPOSITE_part_pulled_t answer;
    partitions_t *part;
    int mpi_errno;

    memcpy(&header, envelope->header, sizeof header);
    part = find_receive(envelope, header.number, header.offset, header.size);
    if (part == NULL || total != 0) {
        pm_count_dropped(core, envelope->source);
        return NULL;
    }
    answer = (MPIDI_COMPOSITE_part_pulled_t) { part->its_number, header.offset, header.size, 0, 0 };
    if (header.address != 0) {
        struct iovec here = { part->data + header.offset, header.size };
        answer.pulled = pm_pull(part->peer, header.address, &here, 1) == PM_OK;
    }
    mpi_errno = tell(part, tag_pulled, &answer, sizeof answer);
    if (answer.pulled)
        received(part, header.offset, header.size);
    end_if_failed(part, mpi_errno);
    return NULL;
}

static int offered(pm_core * core, const pm_envelope * envelope, void *offer, size_t total)
{
    MPIDI_COMPOSITE_part_pull_t header;
    partitions_t *part;

    memcpy(&header, envelope->header, sizeof header);
    part = header.size == total ? find_receive(envelope, header.number, header.offset, total) : NULL;
    if (part == NULL)
        return 0;
    pm_take(offer, part->data + header.offset, arriving_create(part, header.offset, total));
    return 1;
}

/* ---- messages to a sender ---- */

static bool open_arrived(const pm_envelope * envelope)
{
    MPIDI_COMPOSITE_part_open_t header;
    partitions_t *part;

    memcpy(&header, envelope->header, sizeof header);
    part = find(envelope, header.number, true);
    if (part == NULL || part->open || is_refused(part))
        return false;
    part->its_number = header.from;
    part->open = true;
    if (part->started)
        end_if_failed(part, send_ready(part, 0, part->count));
    return true;
}

/* Once: the receiver does not wait for the sender before its next round. */
static bool refused_arrived(const pm_envelope * envelope)
{
    MPIDI_COMPOSITE_part_refused_t header;
    partitions_t *part;

    memcpy(&header, envelope->header, sizeof header);
    part = find(envelope, header.number, true);
    if (part == NULL || part->open || is_refused(part) || header.size >= part->total)
        return false;
    part->its_total = header.size;
    if (part->started)
        end_round(part, sizes_differ(part));
    return true;
}

static void gone(partitions_t * part)
{
    part->in_flight--;
    if (likely(!part->freed))
        end_if_sent(part);
    else if (part->in_flight == 0)
        destroy(part);
}

static bool pulled_arrived(const pm_envelope * envelope)
{
    MPIDI_COMPOSITE_part_pulled_t header;
    partitions_t *part;
    int sent = PM_OK;

    memcpy(&header, envelope->header, sizeof header);
    part = find(envelope, header.number, true);
    if (part == NULL || part->in_flight == 0 || part->data == NULL || header.unused != 0 ||
        !MPIDI_COMPOSITE_may_be_part(header.offset, header.size, part->total))
        return false;
    if (!header.pulled && !part->freed) {
        const MPIDI_COMPOSITE_part_data_t data = { part->its_number, header.offset };
        sent = pm_send(part->peer, tag_data, &data, sizeof data, part->data + header.offset, header.size, part);
    }
    if (sent == PM_OK)
        gone(part);
    else if (sent == PM_FAILED)
        end_if_failed(part, MPIDI_COMPOSITE_lost());
    return true;
}

static void sent(void *cookie)
{
    partitions_t *part = cookie;

    if ((uintptr_t) cookie & IS_PARCEL) {
        parcel_t *parcel = (parcel_t *) ((uintptr_t) cookie - IS_PARCEL);
        part = parcel->part;
        MPL_free(parcel);
    }
    gone(part);
}

void MPIDI_COMPOSITE_partitions_register(void)
{
    pm_handler handler = {
        .name = "partitions",
        .smallest_header = sizeof(MPIDI_COMPOSITE_part_data_t),
        .arrived = data_arrived,
        .more = more,
        .place = place,
        .placed = placed,
        .sent = sent,
    };

    /* Numbers of MPICH's own, which nobody uses. */
    tag_data = MPIDIG_PART_SEND_DATA;
    pm_handle(MPIDI_COMPOSITE_global.core, tag_data, &handler);
    tag_pull = MPIDIG_PART_CTS;
    handler.name = "partitions to be pulled";
    handler.smallest_header = sizeof(MPIDI_COMPOSITE_part_pull_t);
    handler.arrived = pull_arrived;
    handler.offered = offered;
    pm_handle(MPIDI_COMPOSITE_global.core, tag_pull, &handler);
    /* A process may send over a new communicator before we are connected to it. */
    tag_init = MPIDI_COMPOSITE_handle("partitions init", init_arrived, sizeof(MPIDI_COMPOSITE_part_init_t), true);
    tag_open = MPIDI_COMPOSITE_handle("partitions open", open_arrived, sizeof(MPIDI_COMPOSITE_part_open_t), false);
    tag_refused = MPIDI_COMPOSITE_handle("partitions refused", refused_arrived, sizeof(MPIDI_COMPOSITE_part_refused_t), false);
    tag_pulled = MPIDI_COMPOSITE_handle("partitions pulled", pulled_arrived, sizeof(MPIDI_COMPOSITE_part_pulled_t), false);
}

/* ---- requests ---- */

/* Where the data is, or goes to. */
static bool lay_out(partitions_t * part, MPI_Aint count, MPI_Datatype datatype, bool receives_it)
{
    static char nothing;
    int contiguous;
    MPI_Aint true_lb, extent, element;
    MPIR_Datatype *type ATTRIBUTE((unused));

    /* Of nothing: what there is no buffer of is in one piece, too. */
    part->data = &nothing;
    if (count == 0 || part->request->u.part.partitions <= 0)
        return true;
    MPIDI_Datatype_get_info(count * part->count, datatype, contiguous, part->total, type, true_lb);
    MPIR_Datatype_get_extent_macro(datatype, extent);
    MPIR_Datatype_get_size_macro(datatype, element);
    part->each = element * count;
    part->stride = extent * count;
    if (part->total == 0)
        return true;
    part->data = NULL;
    if (contiguous) {
        part->data = (char *) MPIR_get_contig_ptr(part->buffer, true_lb);
    } else if (receives_it) {
        part->data = MPL_malloc(part->total, MPL_MEM_BUFFER);
        part->gathers = part->data != NULL;
        return part->gathers;
    }
    return true;
}

static int create(MPIR_Request_kind_t kind, void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                  MPIR_Comm * comm, MPIDI_av_entry_t * av, MPIR_Request ** request)
{
    int mpi_errno = MPI_SUCCESS;
    const bool receives_it = kind == MPIR_REQUEST_KIND__PART_RECV;
    const int most = MPL_MAX(partitions, 1);
    MPIR_Request *it = NULL;
    partitions_t *part = MPL_calloc(1, sizeof *part + most * (receives_it ? sizeof *part->missing : sizeof *part->states), MPL_MEM_BUFFER);

    MPIR_ERR_CHKANDJUMP(part == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    MPIDI_CH4_REQUEST_CREATE(it, kind, 0, 1);
    MPIR_ERR_CHKANDJUMP(it == NULL, mpi_errno, MPIX_ERR_NOREQ, "**nomemreq");
    it->u.part.partitions = partitions;
    part->request = it;
    part->sends = !receives_it;
    part->count = most;
    part->buffer = buf;
    if (receives_it)
        part->missing = (size_t *) (part + 1);
    else
        part->states = (unsigned char *) (part + 1);
    if (rank != MPI_PROC_NULL) {
        part->peer = MPIDI_COMPOSITE_AV(av).peer;
        part->number = pm_number_give(&numbers);
        MPIR_ERR_CHKANDJUMP(part->number == 0, mpi_errno, MPI_ERR_OTHER, "**nomem");
        pm_number_set(&numbers, part->number, part);
        MPIR_ERR_CHKANDJUMP(!lay_out(part, count, datatype, receives_it), mpi_errno, MPI_ERR_OTHER, "**nomem");
        part->its_total = part->total;
    }

    MPIR_Comm_add_ref(comm);
    it->comm = comm;
    MPIR_Datatype_add_ref_if_not_builtin(datatype);
    MPIDI_PART_REQUEST(it, buffer) = buf;
    MPIDI_PART_REQUEST(it, count) = count;
    MPIDI_PART_REQUEST(it, datatype) = datatype;
    if (receives_it) {
        MPIDI_PART_REQUEST(it, u.recv.source) = rank;
        MPIDI_PART_REQUEST(it, u.recv.tag) = tag;
        MPIDI_PART_REQUEST(it, u.recv.context_id) = comm->recvcontext_id;
    } else {
        MPIDI_PART_REQUEST(it, u.send.dest) = rank;
    }
    PARTITIONS(it) = part;
    MPIR_Part_request_inactivate(it);
    MPIR_cc_set(it->cc_ptr, 0);
    if (rank == MPI_PROC_NULL) {
        MPIR_Status_set_procnull(&it->status);
    } else {
        it->status.MPI_SOURCE = rank;
        it->status.MPI_TAG = tag;
    }
    it->status.MPI_ERROR = MPI_SUCCESS;
    *request = it;
    return MPI_SUCCESS;

  fn_fail:
    if (it != NULL)
        MPIR_Request_free_unsafe(it);
    if (part != NULL)
        destroy(part);
    return mpi_errno;
}

int MPIDI_COMPOSITE_mpi_psend_init(const void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                                   MPIR_Comm * comm, MPIR_Info * info, MPIDI_av_entry_t * av, MPIR_Request ** request)
{
    int mpi_errno;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    mpi_errno = create(MPIR_REQUEST_KIND__PART_SEND, (void *) buf, partitions, count, datatype, rank, tag, comm, av, request);
    if (mpi_errno == MPI_SUCCESS && rank != MPI_PROC_NULL) {
        const partitions_t *part = PARTITIONS(*request);
        const MPIDI_COMPOSITE_part_init_t header = { part->number, part->total, comm->rank, tag, comm->context_id, 0 };
        mpi_errno = tell(part, tag_init, &header, sizeof header);
    }
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return mpi_errno;
}

int MPIDI_COMPOSITE_mpi_precv_init(void *buf, int partitions, MPI_Aint count, MPI_Datatype datatype, int rank, int tag,
                                   MPIR_Comm * comm, MPIR_Info * info, MPIDI_av_entry_t * av, MPIR_Request ** request)
{
    int mpi_errno;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    mpi_errno = create(MPIR_REQUEST_KIND__PART_RECV, buf, partitions, count, datatype, rank, tag, comm, av, request);
    if (mpi_errno == MPI_SUCCESS && rank != MPI_PROC_NULL) {
        partitions_t *part = PARTITIONS(*request);
        pm_match_entry *entry = pm_match_message_of(&inits, comm->recvcontext_id, rank, tag);
        if (entry != NULL) {
            init_t *init = OWNER(entry, init_t, entry);
            pm_match_remove(&inits, entry);
            mpi_errno = match(part, init->number, init->total);
            MPL_free(init);
        } else {
            part->entry.context = comm->recvcontext_id;
            part->entry.source = rank;
            part->entry.tag = tag;
            pm_match_add(&receives, &part->entry);
            MPIR_Request_add_ref(*request);     /* it takes its turn, even if it is freed before */
        }
    }
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return mpi_errno;
}

void MPIDI_COMPOSITE_partitions_free(MPIR_Request * request)
{
    partitions_t *part = PARTITIONS(request);

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    part->freed = true;
    /* A round that failed may have left something on its way. */
    if (part->entry.number == 0 && part->in_flight == 0)
        destroy(part);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

void MPIDI_COMPOSITE_partitions_forget(void)
{
    static const pm_match_queue none;

    for (pm_match_entry * entry = inits.all.first, *next; entry; entry = next) {
        next = entry->all.next;
        MPL_free(OWNER(entry, init_t, entry));
    }
    for (unsigned kind = 0; kind < PM_MATCH_KINDS; kind++) {
        free(receives.indices[kind].lists);
        free(inits.indices[kind].lists);
    }
    receives = inits = none;
    receives.of_receives = true;
    pm_numbers_end(&numbers);
}

/* ---- what programs call each round ---- */

int MPIDI_COMPOSITE_partitions_start(MPIR_Request * request)
{
    int mpi_errno = MPI_SUCCESS;
    partitions_t *part = PARTITIONS(request);

    MPIR_ERR_CHKANDJUMP(MPIR_Part_request_is_active(request), mpi_errno, MPI_ERR_REQUEST, "**partition_active");
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    if (part->peer == NULL) {
        if (is_send(part))
            memset(part->states, WAITS, part->count);
    } else {
        request->status.MPI_ERROR = MPI_SUCCESS;
        MPIR_cc_set(request->cc_ptr, 1);
        part->started = true;
        mpi_errno = is_send(part) ? start_send(part) : start_receive(part);
        end_if_failed(part, mpi_errno);
    }
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);

  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_partitions_ready(MPIR_Request * request, int n, const int partitions[], int first)
{
    int mpi_errno = MPI_SUCCESS, done = 0, again = -1, low = INT_MAX, high = 0;
    partitions_t *part;

    MPIR_ERR_CHKANDJUMP(request->kind != MPIR_REQUEST_KIND__PART_SEND, mpi_errno, MPI_ERR_REQUEST, "**partition_no_send");
    MPIR_ERR_CHKANDJUMP(!MPIR_Part_request_is_active(request), mpi_errno, MPI_ERR_REQUEST, "**partition_inactive");
    for (int i = 0; i < n; i++) {
        int one = partitions ? partitions[i] : first + i;
        MPIR_ERR_CHKANDJUMP1(one < 0 || one >= request->u.part.partitions, mpi_errno, MPI_ERR_ARG, "**partition_range",
                             "**partition_range %d", one);
        low = MPL_MIN(low, one);
        high = MPL_MAX(high, one + 1);
    }
    part = PARTITIONS(request);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    for (; done < n && again < 0; done++) {
        unsigned char *state = &part->states[partitions ? partitions[done] : first + done];
        if (*state != WAITS)
            again = (int) (state - part->states);
        else
            *state = READY;
    }
    if (unlikely(again >= 0))
        for (int i = 0; i < done - 1; i++)
            part->states[partitions ? partitions[i] : first + i] = WAITS;
    else if (part->open && part->started)
        end_if_failed(part, mpi_errno = send_ready(part, low, high));
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    MPIR_ERR_CHKANDJUMP1(again >= 0, mpi_errno, MPI_ERR_ARG, "**partition_ready", "**partition_ready %d", again);

  fn_fail:
    return mpi_errno;
}

static bool has_arrived(MPIR_Request * request, const partitions_t * part, int partition)
{
    /* [L4] its bytes are visible; pairs with [L3]. */
    return MPIR_Request_is_complete(request) || (part->each > 0 && __atomic_load_n(&part->missing[partition], __ATOMIC_ACQUIRE) == 0);
}

int MPIDI_COMPOSITE_partition_arrived(MPIR_Request * request, int partition, int *flag)
{
    int mpi_errno = MPI_SUCCESS;
    partitions_t *part;

    MPIR_ERR_CHKANDJUMP(request->kind != MPIR_REQUEST_KIND__PART_RECV, mpi_errno, MPI_ERR_REQUEST, "**partition_no_receive");
    MPIR_ERR_CHKANDJUMP1(partition < 0 || partition >= request->u.part.partitions, mpi_errno, MPI_ERR_ARG, "**partition_range",
                         "**partition_range %d", partition);
    part = PARTITIONS(request);
    *flag = has_arrived(request, part, partition);
    if (!*flag) {
        mpi_errno = MPID_Progress_test(NULL);
        *flag = has_arrived(request, part, partition);
    }

  fn_fail:
    return mpi_errno;
}
