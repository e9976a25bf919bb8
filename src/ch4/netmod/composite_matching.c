/* Where messages and receives meet: the two queues of base/matching.h, and the way of a short message that avoids MPICH's generic layer.
 *
 * A short message is whole and contiguous; most are. It goes from the ring to its place in one copy when its receive is
 * posted, in memory in one piece, and large enough. One that comes too early is kept here, without a request. MPI_Recv posts a
 * receive on its stack. One that is synchronous has a number behind its header, which comes back when it is matched. For everything else (rendezvous, datatypes with gaps, messages that are too long, MPI_Mprobe)
 * receives and messages become requests as the generic layer makes them, and go on there: it finds the same ones, because its
 * queues are these (maint/graft-mpich).
 *
 * All with the lock of the VCI, but for waiting. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_matching.h"
#include "composite_send.h"
#include "base/matching.h"
#include "base/numbers.h"
#include "mpidig_pt2pt_callbacks.h"

#include <stdlib.h>

_Static_assert((int) PM_ANY_SOURCE == MPI_ANY_SOURCE && (int) PM_ANY_TAG == MPI_ANY_TAG, "wildcards are MPI's");

static pm_match_queue receives = {.of_receives = true };
static pm_match_queue messages;

/* What an entry is inside of. */
enum { OF_REQUEST, OF_BLOCKED, OF_KEPT, OF_ASKING };     /* the last: kept, of a synchronous send */

#define OWNER(entry, type, member) ((type *) ((char *) (entry) - offsetof(type, member)))

static MPIR_Request *request_around(pm_match_entry * entry)
{
    return OWNER(entry, MPIR_Request, dev.ch4.am.netmod_am.composite.entry);
}

static void name_entry(pm_match_entry * entry, int owner, MPIR_Context_id_t context, int source, int tag)
{
    entry->owner = owner;
    entry->context = context;
    entry->source = source;
    entry->tag = tag;
}

/* ---- synchronous sends ---- */

static pm_numbers unmatched;    /* sends whose receiver has not answered */

/* Where the generic layer has the address of a request, which is even: a receiver that it answers for says the same. */
static uint64_t asking_by(uint64_t number)
{
    return number >> 32 << 32 | (uint32_t) number << 1 | 1;
}

static uint64_t number_of(uint64_t asked)
{
    return asked >> 32 << 32 | (uint32_t) asked >> 1;
}

/* A receive has been found for it. */
ATTRIBUTE((noinline))
static void answer(MPIR_Comm * comm, int source, uint64_t asked)
{
    const uint64_t header[2] = { asked, 0 };    /* as long as there is a short way for */
    pm_peer *peer = MPIDI_COMPOSITE_peer(comm, source);

    if (!pm_send_now(peer, MPIDIG_SSEND_ACK, header, sizeof header, NULL, 0) &&
        pm_send(peer, MPIDIG_SSEND_ACK, header, sizeof header, NULL, 0, NULL) == PM_FAILED)
        (void) MPIDI_COMPOSITE_lost();
}

void *MPIDI_COMPOSITE_answer_arrived(pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total)
{
    uint64_t asked;
    MPIR_Request *sreq;

    memcpy(&asked, envelope->header, sizeof asked);
    if ((asked & 1) == 0)
        return MPIDI_COMPOSITE_generic_arrived(core, envelope, piece, piece_size, total);
    sreq = pm_number_find(&unmatched, number_of(asked));
    if (unlikely(sreq == NULL || MPIDI_COMPOSITE_peer(sreq->comm, MPIDIG_REQUEST(sreq, u.send.dest)) != envelope->source)) {
        pm_count_dropped(core, envelope->source);
        return NULL;
    }
    pm_number_forget(&unmatched, number_of(asked));
    MPID_Request_complete(sreq);
    return NULL;
}

/* False: nothing has happened. */
static bool send_asking(pm_peer * peer, int rank, int tag, MPIR_Comm * comm, int context_offset, const void *data, size_t size,
                        MPIR_Request ** request)
{
    const uint64_t number = pm_number_give(&unmatched);
    const MPIDI_COMPOSITE_asking_header_t header = { { comm->rank, tag, comm->context_id + context_offset, 0 }, asking_by(number) };
    MPIR_Request *sreq;

    if (number == 0)
        return false;
    MPIDI_CH4_REQUEST_CREATE(sreq, MPIR_REQUEST_KIND__SEND, 0, 2);
    if (sreq == NULL || !pm_send_now(peer, MPIDI_COMPOSITE_handler_asking, &header, sizeof header, data, size)) {
        if (sreq != NULL) {
            MPIR_Request_free_unsafe(sreq);
            MPIR_Request_free_unsafe(sreq);
        }
        pm_number_forget(&unmatched, number);
        return false;
    }
    sreq->comm = comm;
    MPIR_Comm_add_ref(comm);
    MPIDIG_REQUEST(sreq, u.send.dest) = rank;
    pm_number_set(&unmatched, number, sreq);
    *request = sreq;
    return true;
}

int MPIDI_COMPOSITE_issend(const void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm, int context_offset,
                           MPIDI_av_entry_t * addr, MPIR_Request ** request)
{
    bool taken = false;
    int mpi_errno, contiguous;
    MPI_Aint true_lb;
    size_t size;
    MPIR_Datatype *type ATTRIBUTE((unused));

    MPIDI_Datatype_get_info(count, datatype, contiguous, size, type, true_lb);
    if (contiguous && size <= MPIDI_COMPOSITE_ASKING_LIMIT && *request == NULL) {
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
        taken = send_asking(MPIDI_COMPOSITE_AV(addr).peer, rank, tag, comm, context_offset, MPIR_get_contig_ptr(buf, true_lb), size, request);
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    }
    if (taken)
        return MPI_SUCCESS;
    mpi_errno = MPIDI_COMPOSITE_send(buf, count, datatype, rank, tag, comm, context_offset, addr,
                                     MPIDIG_AM_SEND_FLAGS_SYNC, MPIR_ERR_NONE, request, &taken);
    return taken ? mpi_errno : MPIDIG_mpi_issend(buf, count, datatype, rank, tag, comm, context_offset, addr, 0, 0, request);
}

/* ---- receives ---- */

/* Where messages for a receive go that need nothing but a copy. */
typedef struct {
    char *start;                /* NULL: not in one piece */
    size_t room;
    unsigned in_element;        /* bits that the size of a message may not have: it would end within an element */
} place_t;

static place_t place_of(void *buf, MPI_Aint count, MPI_Datatype datatype)
{
    static char nothing;
    place_t place;
    int contiguous;
    MPI_Aint true_lb, element;
    MPIR_Datatype *type ATTRIBUTE((unused));

    MPIDI_Datatype_get_info(count, datatype, contiguous, place.room, type, true_lb);
    MPIR_Datatype_get_size_macro(datatype, element);
    place.in_element = (unsigned) element - 1;
    if (unlikely(!contiguous || element == 0 || (element & (element - 1)) != 0 || element > INT_MAX))
        place.start = NULL;
    else
        place.start = place.room == 0 ? &nothing : (char *) MPIR_get_contig_ptr(buf, true_lb);
    return place;
}

static bool fits(const place_t * place, size_t size)
{
    return place->start != NULL && size <= place->room && (size & place->in_element) == 0;
}

static place_t place_of_posted(MPIR_Request * rreq)
{
    const MPIDI_COMPOSITE_am_request_t *receive = &MPIDI_COMPOSITE_AM_REQUEST(rreq);
    place_t place = { receive->place, receive->room, receive->in_element };

    return place;
}

/* MPI_Recv that waits: on its stack, until it is taken from the queue. */
typedef struct {
    pm_match_entry entry;
    place_t place;
    void *buf;
    MPI_Aint count;
    MPI_Datatype datatype;
    MPIR_Comm *comm;
    enum { WAITS, HAS_RECEIVED, IS_REQUEST } state;     /* the last thing that is written */
    int source, tag;            /* of what it has received */
    size_t size;
    MPIR_Request *request;      /* what the generic layer receives by */
} blocked_t;

/* Fences, and only where there are other threads: on ARM an acquiring load waits until a releasing store before it has left the core, and the
 * only thread of a process would wait for its own. */
static int state_of(blocked_t * blocked)
{
    int state = __atomic_load_n((int *) &blocked->state, __ATOMIC_RELAXED);

    /* [L2] what it has received is visible, when another thread has put it there; pairs with [L1]. */
    if (unlikely(MPIR_ThreadInfo.isThreaded))
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return state;
}

static void end_blocking(blocked_t * blocked, int state)
{
    /* [L1] publishes what it has received; pairs with [L2]. Nothing of it is touched after this. */
    if (unlikely(MPIR_ThreadInfo.isThreaded))
        __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n((int *) &blocked->state, state, __ATOMIC_RELAXED);
}

/* ---- messages that nobody has asked for yet ---- */

/* Begins with a cache line. The next one of its slab that is free is in `entry.all`. */
typedef struct {
    pm_match_entry entry;
    uint32_t size;
    char data[];
} kept_t;

enum { KEPT_ALIGNMENT = 64, KEPT_SLAB = 64 << 10, KEPT_LASTING_SLABS = 256 };

static const size_t kept_rooms[] = { 16, 80, 528, 4112, MPIDI_COMPOSITE_EAGER_LIMIT };
enum { KEPT_CLASSES = sizeof kept_rooms / sizeof kept_rooms[0] };

/* Room for many of one class, aligned to its size, so that each finds its slab. In the list of its class as long as something is free. */
typedef struct slab {
    struct slab *next, *previous;
    pm_match_entry *free;
    uint32_t used, class;
} slab_t;

_Static_assert(sizeof(slab_t) <= KEPT_ALIGNMENT, "a slab begins with one line of its own");
_Static_assert(sizeof(kept_t) + MPIDI_COMPOSITE_EAGER_LIMIT + 2 * KEPT_ALIGNMENT <= KEPT_SLAB, "the largest fits in a slab");

static slab_t *kept_slabs[KEPT_CLASSES];
static size_t kept_slabs_count;         /* of all classes, full ones too */

static kept_t *kept_around(pm_match_entry * entry)
{
    return OWNER(entry, kept_t, entry);
}

static slab_t *slab_around(kept_t * kept)
{
    return (slab_t *) ((uintptr_t) kept / KEPT_SLAB * KEPT_SLAB);
}

static void slab_link(slab_t * slab)
{
    slab->previous = NULL;
    slab->next = kept_slabs[slab->class];
    if (slab->next != NULL)
        slab->next->previous = slab;
    kept_slabs[slab->class] = slab;
}

static void slab_unlink(slab_t * slab)
{
    if (slab->previous != NULL)
        slab->previous->next = slab->next;
    else
        kept_slabs[slab->class] = slab->next;
    if (slab->next != NULL)
        slab->next->previous = slab->previous;
}

static void slab_free(slab_t * slab)
{
    slab_unlink(slab);
    kept_slabs_count--;
    free(slab);
}

ATTRIBUTE((noinline))
static slab_t *slab_create(uint32_t class)
{
    const size_t each = (sizeof(kept_t) + kept_rooms[class] + KEPT_ALIGNMENT - 1) / KEPT_ALIGNMENT * KEPT_ALIGNMENT;
    slab_t *slab = aligned_alloc(KEPT_SLAB, KEPT_SLAB);

    if (slab == NULL)
        return NULL;
    slab->free = NULL;
    slab->used = 0;
    slab->class = class;
    for (size_t at = (KEPT_SLAB - KEPT_ALIGNMENT) / each; at-- > 0;) {
        kept_t *kept = (kept_t *) ((char *) slab + KEPT_ALIGNMENT + at * each);
        kept->entry.all.next = slab->free;
        slab->free = &kept->entry;
    }
    slab_link(slab);
    kept_slabs_count++;
    return slab;
}

static kept_t *kept_create(size_t size)
{
    uint32_t class = 0;
    slab_t *slab;
    kept_t *kept;

    while (kept_rooms[class] < size)
        class++;
    slab = kept_slabs[class];
    if (unlikely(slab == NULL))
        slab = slab_create(class);
    if (unlikely(slab == NULL))
        return NULL;
    kept = kept_around(slab->free);
    slab->free = kept->entry.all.next;
    slab->used++;
    if (unlikely(slab->free == NULL))
        slab_unlink(slab);
    kept->size = (uint32_t) size;
    return kept;
}

/* An empty slab stays for the next ones, unless there are very many, and another one of its class has room. */
static void kept_free(kept_t * kept)
{
    slab_t *slab = slab_around(kept);

    if (unlikely(slab->free == NULL))
        slab_link(slab);
    kept->entry.all.next = slab->free;
    slab->free = &kept->entry;
    if (unlikely(--slab->used == 0 && kept_slabs_count > KEPT_LASTING_SLABS && (slab->next != NULL || slab->previous != NULL)))
        slab_free(slab);
}

static void set_status(MPI_Status * status, int source, int tag, size_t size)
{
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    MPIR_STATUS_SET_COUNT(*status, size);
    MPIR_STATUS_SET_CANCEL_BIT(*status, FALSE);
}

static bool is_kept(const pm_match_entry * entry)
{
    return entry->owner >= OF_KEPT;
}

/* What its sender asks for, which comes before its bytes. 0: nothing. */
static uint64_t asked_by(const kept_t * kept)
{
    uint64_t asked = 0;

    if (unlikely(kept->entry.owner == OF_ASKING))
        memcpy(&asked, kept->data, sizeof asked);
    return asked;
}

static char *bytes_of(kept_t * kept)
{
    return kept->data + (kept->entry.owner == OF_ASKING ? sizeof(uint64_t) : 0);
}

/* A receive takes it. */
static void take_kept(kept_t * kept, const place_t * place, MPI_Status * status, MPIR_Comm * comm)
{
    memcpy(place->start, bytes_of(kept), kept->size);
    if (unlikely(kept->entry.owner == OF_ASKING))
        answer(comm, kept->entry.source, asked_by(kept));
    if (status != MPI_STATUS_IGNORE)
        set_status(status, kept->entry.source, kept->entry.tag, kept->size);
    pm_match_remove(&messages, &kept->entry);
    kept_free(kept);
}

/* ---- what the generic layer does with these queues ---- */

static MPIDIG_hdr_t generic_header(MPIR_Context_id_t context, int source, int tag, size_t size, uint64_t asked)
{
    const MPIDIG_hdr_t header = {
        .src_rank = source,
        .tag = tag,
        .context_id = context,
        .error_bits = MPIR_ERR_NONE,
        .flags = asked ? MPIDIG_AM_SEND_FLAGS_SYNC : MPIDIG_AM_SEND_FLAGS_NONE,
        .sreq_ptr = (MPIR_Request *) (uintptr_t) asked,
        .data_sz = size
    };

    return header;
}

/* What the generic layer keeps of a request, for one that was posted without. */
static void make_generic(MPIR_Request * rreq)
{
    MPIDU_genq_private_pool_alloc_cell(MPIDI_global.per_vci[0].request_pool, (void **) &MPIDIG_REQUEST(rreq, req));
    MPIR_Assertp(MPIDIG_REQUEST(rreq, req));
    MPIDIG_REQUEST(rreq, req->local_vci) = 0;
    MPIDIG_REQUEST(rreq, req->remote_vci) = 0;
    MPIDIG_REQUEST(rreq, req->status) = 0;
    MPIDIG_REQUEST(rreq, req->recv_async).data_copy_cb = NULL;
    MPIDIG_REQUEST(rreq, req->recv_async).recv_type = MPIDIG_RECV_NONE;
}

static MPIR_Request *new_receive(void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm,
                                 MPIR_Context_id_t context)
{
    MPIR_Request *rreq;

    MPIDI_CH4_REQUEST_CREATE(rreq, MPIR_REQUEST_KIND__RECV, 0, 2);
    if (unlikely(rreq == NULL))
        return NULL;
    rreq->comm = comm;
    MPIR_Comm_add_ref(comm);
    MPIR_Datatype_add_ref_if_not_builtin(datatype);
    MPIDIG_prepare_recv_req(rank, tag, context, buf, count, datatype, rreq);
    return rreq;
}

/* MPI_Recv goes on with a request. */
static MPIR_Request *request_of_blocked(blocked_t * blocked)
{
    MPIR_Request *rreq = new_receive(blocked->buf, blocked->count, blocked->datatype, blocked->entry.source, blocked->entry.tag,
                                     blocked->comm, blocked->entry.context);

    MPIR_Assertp(rreq);
    MPIDI_COMPOSITE_AM_REQUEST(rreq).entry.number = 0;
    make_generic(rreq);
    blocked->request = rreq;
    end_blocking(blocked, IS_REQUEST);
    return rreq;
}

bool MPIDI_COMPOSITE_is_awaited(const MPIDIG_hdr_t * header)
{
    return pm_match_receive_of(&receives, header->context_id, header->src_rank, header->tag) != NULL;
}

MPIR_Request *MPIDI_COMPOSITE_match_posted(int source, int tag, int context)
{
    pm_match_entry *entry = pm_match_receive_of(&receives, context, source, tag);
    MPIR_Request *rreq;

    if (entry == NULL)
        return NULL;
    pm_match_remove(&receives, entry);
    if (entry->owner == OF_BLOCKED)
        return request_of_blocked(OWNER(entry, blocked_t, entry));
    rreq = request_around(entry);
    if (MPIDIG_REQUEST(rreq, req) == NULL)
        make_generic(rreq);
    return rreq;
}

/* A message that was kept comes once more, to the generic layer, which makes a request of it. No receive is posted that it fits, and it
 * is not last in its queue: the request is caught on its way there. */
static bool catching;
static MPIR_Request *caught;

static MPIR_Request *request_of_kept(kept_t * kept)
{
    MPIDIG_hdr_t header = generic_header(kept->entry.context, kept->entry.source, kept->entry.tag, kept->size, asked_by(kept));
    MPIR_Request *rreq;

    catching = true;
    caught = NULL;
    MPIDIG_global.target_msg_cbs[MPIDIG_SEND] (&header, bytes_of(kept), kept->size, 0, NULL);
    catching = false;
    rreq = caught;
    MPIR_Assertp(rreq);
    pm_match_remove(&messages, &kept->entry);
    kept_free(kept);
    return rreq;
}

MPIR_Request *MPIDI_COMPOSITE_match_unexpected(int source, int tag, int context)
{
    pm_match_entry *entry = pm_match_message_of(&messages, context, source, tag);

    if (entry == NULL)
        return NULL;
    if (is_kept(entry))
        return request_of_kept(kept_around(entry));
    pm_match_remove(&messages, entry);
    return request_around(entry);
}

void MPIDI_COMPOSITE_queue(MPIR_Request * request, bool posted)
{
    MPIDI_COMPOSITE_am_request_t *queued = &MPIDI_COMPOSITE_AM_REQUEST(request);
    int tag = MPIDIG_REQUEST(request, u.recv.tag);

    if (tag != MPI_ANY_TAG)
        tag = MPIR_TAG_MASK_ERROR_BITS(tag);
    name_entry(&queued->entry, OF_REQUEST, MPIDIG_REQUEST(request, u.recv.context_id), MPIDIG_REQUEST(request, u.recv.source), tag);
    queued->place = NULL;
    if (unlikely(catching)) {
        queued->entry.number = 0;
        caught = request;
    } else {
        pm_match_add(posted ? &receives : &messages, &queued->entry);
    }
}

bool MPIDI_COMPOSITE_unpost(MPIR_Request * request)
{
    pm_match_entry *entry = &MPIDI_COMPOSITE_AM_REQUEST(request).entry;

    if (entry->number == 0)
        return false;
    pm_match_remove(&receives, entry);
    return true;
}

int MPIDI_COMPOSITE_cancel_recv(MPIR_Request * rreq)
{
    if (!MPIR_Request_is_complete(rreq) && MPIDIG_REQUEST(rreq, req) == NULL)
        make_generic(rreq);
    return MPIDIG_mpi_cancel_recv(rreq);
}

/* ---- a short message arrives ---- */

/* `asked` is 0 when its sender asks for no answer. */
MPL_STATIC_INLINE_PREFIX bool keep(const MPIDI_COMPOSITE_short_header_t * header, uint64_t asked, const void *data, size_t size)
{
    kept_t *kept = kept_create(asked ? size + sizeof asked : size);

    if (kept == NULL)
        return false;
    name_entry(&kept->entry, asked ? OF_ASKING : OF_KEPT, header->context, header->source, header->tag);
    if (asked) {
        memcpy(kept->data, &asked, sizeof asked);
        kept->size = (uint32_t) size;
    }
    memcpy(kept->data + (asked ? sizeof asked : 0), data, size);
    pm_match_add(&messages, &kept->entry);
    return true;
}

MPL_STATIC_INLINE_PREFIX bool receive_blocked(blocked_t * blocked, const MPIDI_COMPOSITE_short_header_t * header, uint64_t asked,
                                              const void *data, size_t size)
{
    if (unlikely(!fits(&blocked->place, size)))
        return false;
    if (asked)
        answer(blocked->comm, header->source, asked);
    memcpy(blocked->place.start, data, size);
    blocked->source = header->source;
    blocked->tag = header->tag;
    blocked->size = size;
    pm_match_remove(&receives, &blocked->entry);
    end_blocking(blocked, HAS_RECEIVED);
    return true;
}

MPL_STATIC_INLINE_PREFIX bool receive_posted(MPIR_Request * rreq, const MPIDI_COMPOSITE_short_header_t * header, uint64_t asked,
                                             const void *data, size_t size)
{
    place_t place = place_of_posted(rreq);

    if (unlikely(!fits(&place, size)))
        return false;
    if (asked)
        answer(rreq->comm, header->source, asked);
    memcpy(place.start, data, size);
    rreq->status.MPI_SOURCE = header->source;
    rreq->status.MPI_TAG = header->tag;
    MPIR_STATUS_SET_COUNT(rreq->status, size);
    pm_match_remove(&receives, &MPIDI_COMPOSITE_AM_REQUEST(rreq).entry);
    MPIR_Datatype_release_if_not_builtin(MPIDIG_REQUEST(rreq, datatype));
    MPID_Request_complete(rreq);
    return true;
}

ATTRIBUTE((noinline))
static void *arrived_generically(pm_core * core, const pm_envelope * envelope, uint64_t asked, void *piece, size_t piece_size, size_t total)
{
    const MPIDI_COMPOSITE_short_header_t *header = envelope->header;
    MPIDIG_hdr_t generic = generic_header(header->context, header->source, header->tag, total, asked);
    pm_envelope like_others = *envelope;

    like_others.tag = MPIDIG_SEND;
    like_others.header = &generic;
    like_others.header_size = sizeof generic;
    return MPIDI_COMPOSITE_generic_arrived(core, &like_others, piece, piece_size, total);
}

MPL_STATIC_INLINE_PREFIX void *arrived(pm_core * core, const pm_envelope * envelope, uint64_t asked, size_t limit, void *piece, size_t piece_size,
                                       size_t total)
{
    const MPIDI_COMPOSITE_short_header_t *header = envelope->header;
    pm_match_entry *entry;
    bool received;

    if (unlikely(!MPIDI_COMPOSITE_may_be_short(header, total, limit, MPIR_CONTEXT_ID_BITS))) {
        pm_count_dropped(core, envelope->source);
        return NULL;
    }
    if (unlikely(piece_size != total))
        return arrived_generically(core, envelope, asked, piece, piece_size, total);
    entry = pm_match_receive_of(&receives, header->context, header->source, header->tag);
    if (entry == NULL)
        received = keep(header, asked, piece, total);
    else if (entry->owner == OF_BLOCKED)
        received = receive_blocked(OWNER(entry, blocked_t, entry), header, asked, piece, total);
    else
        received = receive_posted(request_around(entry), header, asked, piece, total);
    return likely(received) ? NULL : arrived_generically(core, envelope, asked, piece, piece_size, total);
}

void *MPIDI_COMPOSITE_short_arrived(pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total)
{
    return arrived(core, envelope, 0, MPIDI_COMPOSITE_EAGER_LIMIT, piece, piece_size, total);
}

void *MPIDI_COMPOSITE_asking_arrived(pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total)
{
    const MPIDI_COMPOSITE_asking_header_t *header = envelope->header;

    if (unlikely((header->asked & 1) == 0)) {
        pm_count_dropped(core, envelope->source);
        return NULL;
    }
    return arrived(core, envelope, header->asked, MPIDI_COMPOSITE_ASKING_LIMIT, piece, piece_size, total);
}

/* ---- a receive comes ---- */

static int post(void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm, MPIR_Context_id_t context,
                const place_t * place, MPIR_Request ** request)
{
    int mpi_errno = MPI_SUCCESS;
    MPIDI_COMPOSITE_am_request_t *receive;
    MPIR_Request *rreq = new_receive(buf, count, datatype, rank, tag, comm, context);

    MPIR_ERR_CHKANDJUMP(rreq == NULL, mpi_errno, MPIX_ERR_NOREQ, "**nomemreq");
    receive = &MPIDI_COMPOSITE_AM_REQUEST(rreq);
    receive->place = place->start;
    receive->room = place->room;
    receive->in_element = place->in_element;
    name_entry(&receive->entry, OF_REQUEST, context, rank, tag);
    pm_match_add(&receives, &receive->entry);
    *request = rreq;

  fn_fail:
    return mpi_errno;
}

/* The request of a receive whose message is here already. */
static MPIR_Request *received_at_once(kept_t * kept, const place_t * place, MPIR_Comm * comm)
{
    MPIR_Request *rreq;

    MPIDI_CH4_REQUEST_CREATE(rreq, MPIR_REQUEST_KIND__RECV, 0, 1);
    if (unlikely(rreq == NULL))
        return NULL;
    take_kept(kept, place, &rreq->status, comm);
    MPIR_cc_set(&rreq->cc, 0);
    return rreq;
}

int MPIDI_COMPOSITE_irecv(void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm, int context_offset,
                          MPIR_Request ** request)
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Context_id_t context = comm->recvcontext_id + context_offset;
    place_t place = place_of(buf, count, datatype);
    pm_match_entry *entry;

    MPID_THREAD_CS_ENTER_REC_VCI(MPIDI_VCI(0).lock);
    entry = pm_match_message_of(&messages, context, rank, tag);
    if (entry == NULL) {
        mpi_errno = post(buf, count, datatype, rank, tag, comm, context, &place, request);
    } else if (is_kept(entry) && fits(&place, kept_around(entry)->size)) {
        *request = received_at_once(kept_around(entry), &place, comm);
        MPIR_ERR_CHKANDJUMP(*request == NULL, mpi_errno, MPIX_ERR_NOREQ, "**nomemreq");
    } else {
        mpi_errno = MPIDIG_do_irecv(buf, count, datatype, rank, tag, comm, context_offset, 0, request, 1, 0ULL);
    }

  fn_fail:
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return mpi_errno;
}

/* A round of progress by somebody who waits for nothing but a message. */
static int look_for_message(void)
{
    int mpi_errno;

    if (MPIDI_COMPOSITE_HAS_HOOKS() || unlikely(MPIDI_global.sigusr1_count > MPIDI_global.my_sigusr1_count))
        return MPID_Progress_test(NULL);
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    mpi_errno = MPIDI_NM_progress(0, 0);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return mpi_errno;
}

/* Something is lost: nobody waits for the message any more, unless it has just come. */
static void stop_waiting(blocked_t * blocked)
{
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    if (blocked->state == WAITS)
        pm_match_remove(&receives, &blocked->entry);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

static void rest(blocked_t * blocked)
{
    pm_core *core = MPIDI_COMPOSITE_global.core;

    if (!pm_wait_step(core))
        return;
    if (pm_wait_arm(core) && state_of(blocked) == WAITS)
        pm_wait_sleep(core, MPIR_ThreadInfo.isThreaded);
    pm_wait_disarm(core);
}

static int wait_blocked(blocked_t * blocked)
{
    for (;;) {
        int mpi_errno = look_for_message();
        if (state_of(blocked) != WAITS)
            return MPI_SUCCESS;
        if (unlikely(mpi_errno != MPI_SUCCESS)) {
            stop_waiting(blocked);
            return state_of(blocked) == WAITS ? mpi_errno : MPI_SUCCESS;
        }
        rest(blocked);
    }
}

/* True when the message is there, or the receive is in the queue; false when the generic layer has to look. */
static bool take_or_post(blocked_t * blocked, MPI_Status * status)
{
    pm_match_entry *entry = pm_match_message_of(&messages, blocked->entry.context, blocked->entry.source, blocked->entry.tag);

    if (entry == NULL) {
        pm_match_add(&receives, &blocked->entry);
        return true;
    }
    if (!is_kept(entry) || !fits(&blocked->place, kept_around(entry)->size))
        return false;
    take_kept(kept_around(entry), &blocked->place, status, blocked->comm);
    blocked->state = HAS_RECEIVED;
    return true;
}

int MPIDI_COMPOSITE_recv(void *buf, MPI_Aint count, MPI_Datatype datatype, int rank, int tag, MPIR_Comm * comm, int context_offset,
                         MPI_Status * status, MPIR_Request ** request)
{
    int mpi_errno = MPI_SUCCESS;
    bool here, at_once, has_threads = MPIR_ThreadInfo.isThreaded;
    blocked_t blocked;

    /* Collectives of MPICH read it; a program's is left alone. */
    if (context_offset != MPIR_CONTEXT_INTRA_PT2PT && status != MPI_STATUS_IGNORE)
        status->MPI_ERROR = MPI_SUCCESS;
    blocked.place = place_of(buf, count, datatype);
    if (unlikely(blocked.place.start == NULL || !HANDLE_IS_BUILTIN(datatype)))
        return MPID_Irecv(buf, count, datatype, rank, tag, comm, context_offset, request);
    blocked.buf = buf;
    blocked.count = count;
    blocked.datatype = datatype;
    blocked.comm = comm;
    blocked.state = WAITS;
    name_entry(&blocked.entry, OF_BLOCKED, comm->recvcontext_id + context_offset, rank, tag);

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    here = take_or_post(&blocked, status);
    at_once = blocked.state == HAS_RECEIVED;
    /* Another thread may free it meanwhile. */
    if (unlikely(has_threads && here && !at_once))
        MPIR_Comm_add_ref(comm);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (unlikely(!here))
        return MPID_Irecv(buf, count, datatype, rank, tag, comm, context_offset, request);
    *request = NULL;
    if (at_once)
        return MPI_SUCCESS;
    mpi_errno = wait_blocked(&blocked);
    if (unlikely(has_threads))
        MPIR_Comm_release(comm);
    if (blocked.state == IS_REQUEST)
        *request = blocked.request;
    else if (status != MPI_STATUS_IGNORE && mpi_errno == MPI_SUCCESS)
        set_status(status, blocked.source, blocked.tag, blocked.size);
    return mpi_errno;
}

bool MPIDI_COMPOSITE_sendrecv(const void *sendbuf, MPI_Aint sendcount, MPI_Datatype sendtype, int dest, int sendtag, void *recvbuf, MPI_Aint recvcount,
                              MPI_Datatype recvtype, int source, int recvtag, MPIR_Comm * comm, MPI_Status * status, int *mpi_errno)
{
    int contiguous;
    MPI_Aint true_lb;
    size_t size;
    MPIR_Datatype *type ATTRIBUTE((unused));
    MPIR_Request *request = NULL;

    if (dest == MPI_PROC_NULL || source == MPI_PROC_NULL || MPIDI_is_self_comm(comm))
        return false;
    MPIDI_Datatype_get_info(sendcount, sendtype, contiguous, size, type, true_lb);
    if (!contiguous || size > PM_SURELY_NOW_LIMIT ||
        !MPIDI_COMPOSITE_send_short(MPIDI_COMPOSITE_peer(comm, dest), comm->rank, sendtag, comm->context_id + MPIR_CONTEXT_INTRA_PT2PT,
                                    MPIR_get_contig_ptr(sendbuf, true_lb), size))
        return false;
    *mpi_errno = MPID_Recv(recvbuf, recvcount, recvtype, source, recvtag, comm, MPIR_CONTEXT_INTRA_PT2PT, status, &request);
    if (*mpi_errno == MPI_SUCCESS && request) {
        *mpi_errno = MPID_Wait(request, MPI_STATUS_IGNORE);
        if (*mpi_errno == MPI_SUCCESS)
            *mpi_errno = request->status.MPI_ERROR;
        MPIR_Request_extract_status(request, status);
        MPIR_Request_free(request);
    }
    return true;
}

/* ---- who looks at the queues ---- */

static size_t size_of_message(pm_match_entry * entry)
{
    return is_kept(entry) ? kept_around(entry)->size : (size_t) MPIDIG_REQUEST(request_around(entry), count);
}

int MPIDI_COMPOSITE_iprobe(int source, int tag, MPIR_Comm * comm, int context_offset, int *flag, MPI_Status * status)
{
    pm_match_entry *entry;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    entry = pm_match_message_of(&messages, comm->recvcontext_id + context_offset, source, tag);
    *flag = entry != NULL;
    if (entry != NULL && status != MPI_STATUS_IGNORE)
        set_status(status, entry->source, entry->tag, size_of_message(entry));
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    return MPI_SUCCESS;
}

void MPIDI_COMPOSITE_each_queued(bool posted, void (*visit) (const MPIDI_COMPOSITE_queued_t *, void *), void *context)
{
    for (pm_match_entry * entry = (posted ? &receives : &messages)->all.first; entry; entry = entry->all.next) {
        const MPIDI_COMPOSITE_queued_t queued = {
            .context = entry->context,
            .source = entry->source,
            .tag = entry->tag,
            .bytes = posted ? 0 : size_of_message(entry)
        };
        visit(&queued, context);
    }
}

void MPIDI_COMPOSITE_forget_queued(void)
{
    static const pm_match_queue none;

    for (pm_match_entry * entry = messages.all.first, *next; entry; entry = next) {
        next = entry->all.next;
        if (is_kept(entry))
            kept_free(kept_around(entry));
    }
    for (unsigned kind = 0; kind < PM_MATCH_KINDS; kind++) {
        free(receives.indices[kind].lists);
        free(messages.indices[kind].lists);
    }
    pm_numbers_end(&unmatched);
    receives = messages = none;
    receives.of_receives = true;
    for (int class = 0; class < KEPT_CLASSES; class++)
        while (kept_slabs[class] != NULL)
            slab_free(kept_slabs[class]);
}
