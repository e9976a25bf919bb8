/* What this rank is doing, as lines of text (netmod/report/state.h reads them), for whoever asks: `mpicomposite why` on the page of
 * netmod/core/question.h; SIGUSR2 and MPIR_CVAR_CH4_COMPOSITE_WHY_AFTER have it said on standard error.
 *
 * A rank that waits comes by here every 100 ms at least, with the lock of the VCI: what is listed does not change meanwhile. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_calls.h"
#include "composite_matching.h"
#include "composite_why.h"
#include "coll/window/direct.h"
#include "coll/window/window.h"
#include "netmod/core/question.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum { COMMUNICATORS_MOST = 64, OPERATIONS_MOST = 32, REQUESTS_MOST = 64, NOBODY = -2, ELSEWHERE = -3, UNKNOWN_TAG = -2 };

/* Text that grows; when memory is short it ends early, at the end of a line. */
typedef struct {
    char *bytes;
    size_t size, room;
} lines_t;

static bool begin(lines_t * lines)
{
    lines->size = 0;
    lines->room = 4096;
    lines->bytes = malloc(lines->room);
    return lines->bytes != NULL;
}

static void say(lines_t * lines, const char *format, ...) __attribute__ ((format(printf, 2, 3)));

static void say(lines_t * lines, const char *format, ...)
{
    for (int tries = 0; tries < 2; tries++) {
        va_list arguments;
        va_start(arguments, format);
        int length = vsnprintf(lines->bytes + lines->size, lines->room - lines->size, format, arguments);
        va_end(arguments);
        if (length < 0)
            return;
        if ((size_t) length < lines->room - lines->size) {
            lines->size += length;
            return;
        }
        char *bytes = realloc(lines->bytes, 2 * lines->room + length);
        if (bytes == NULL)
            return;
        lines->bytes = bytes;
        lines->room = 2 * lines->room + length;
    }
}

/* A name that a program gave, on one line. */
static const char *plain(const char *name, char *copy, size_t size)
{
    size_t i = 0;

    for (; name[i] && i + 1 < size; i++)
        copy[i] = (unsigned char) name[i] < ' ' ? '?' : name[i];
    copy[i] = 0;
    return copy;
}

/* ---- ranks and communicators ---- */

static int world_rank(MPIR_Comm * comm, int rank)
{
    int index, table;

    if (rank == MPI_ANY_SOURCE)
        return -1;
    if (comm == NULL || rank < 0 || rank >= comm->remote_size)
        return NOBODY;
    MPIDIU_comm_rank_to_pid(comm, rank, &index, &table);
    return table == 0 ? index : ELSEWHERE;
}

static int compare_ints(const void *a, const void *b)
{
    return (*(const int *) a > *(const int *) b) - (*(const int *) a < *(const int *) b);
}

/* As "0-3,7"; negative ones are left out. */
static void say_ranks(lines_t * lines, int *ranks, int count)
{
    bool first = true;

    qsort(ranks, count, sizeof *ranks, compare_ints);
    for (int i = 0; i < count;) {
        int last = i;
        while (last + 1 < count && ranks[last + 1] <= ranks[last] + 1)
            last++;
        if (ranks[i] >= 0) {
            say(lines, "%s%d", first ? "" : ",", ranks[i]);
            if (ranks[last] > ranks[i])
                say(lines, "-%d", ranks[last]);
            first = false;
        }
        i = last + 1;
    }
}

static unsigned communicator_id(MPIR_Comm * comm)
{
    return comm->recvcontext_id & ~(unsigned) MPIR_CONTEXT_SUFFIX_MASK;
}

static void say_communicator(lines_t * lines, MPIR_Comm * comm)
{
    char name[MPI_MAX_OBJECT_NAME];
    int count = comm->remote_size, *ranks = malloc((count + 1) * sizeof *ranks);

    if (ranks == NULL)
        return;
    for (int rank = 0; rank < comm->remote_size; rank++)
        ranks[rank] = world_rank(comm, rank);
    if (comm->comm_kind == MPIR_COMM_KIND__INTERCOMM)
        ranks[count++] = MPIR_Process.rank;
    say(lines, "communicator\t%u\t%d\t%lu\t", communicator_id(comm), comm->remote_size, MPIDI_COMPOSITE_COMM(comm).collectives);
    say_ranks(lines, ranks, count);
    say(lines, "\t%s\n", plain(comm->name, name, sizeof name));
    free(ranks);
}

/* Calls `visit` with each communicator that there is, and returns the first for which it is true. */
static MPIR_Comm *find_communicator(bool(*visit) (MPIR_Comm *, void *), void *context)
{
    for (int i = 0; i < MPIR_COMM_N_BUILTIN; i++)
        if (MPIR_Object_get_ref(&MPIR_Comm_builtin[i]) > 0 && visit(&MPIR_Comm_builtin[i], context))
            return &MPIR_Comm_builtin[i];
    for (int i = 0; i < MPIR_Comm_mem.direct_size; i++)
        if (MPIR_Object_get_ref(&MPIR_Comm_direct[i]) > 0 && visit(&MPIR_Comm_direct[i], context))
            return &MPIR_Comm_direct[i];
    for (int block = 0; block < MPIR_Comm_mem.indirect_size; block++) {
        MPIR_Comm *comms = MPIR_Comm_mem.indirect[block];
        for (int i = 0; i < HANDLE_NUM_INDICES; i++)
            if (MPIR_Object_get_ref(&comms[i]) > 0 && visit(&comms[i], context))
                return &comms[i];
    }
    return NULL;
}

/* Not MPICH's own: parts of one for a host, or for a side of an intercommunicator. */
static bool is_of_program(MPIR_Comm * comm)
{
    return (comm->hierarchy_kind == MPIR_COMM_HIERARCHY_KIND__FLAT || comm->hierarchy_kind == MPIR_COMM_HIERARCHY_KIND__PARENT) &&
        comm->remote_size > 0 && MPIDI_COMM(comm, map).mode != MPIDI_RANK_MAP_NONE;
}

typedef struct {
    lines_t *lines;
    int count;
} listing_t;

static bool list_communicator(MPIR_Comm * comm, void *context)
{
    listing_t *listing = context;

    if (is_of_program(comm) && comm->remote_size > 1 && listing->count++ < COMMUNICATORS_MOST)
        say_communicator(listing->lines, comm);
    return false;
}

static bool has_context(MPIR_Comm * comm, void *context)
{
    return is_of_program(comm) && communicator_id(comm) == (*(MPIR_Context_id_t *) context & ~(unsigned) MPIR_CONTEXT_SUFFIX_MASK);
}

/* ---- requests ---- */

static void say_operation(lines_t * lines, const char *what, const char *kind, MPIR_Comm * comm, int rank, int tag, size_t bytes)
{
    say(lines, "%s\t%s\t%d\t%d\t", what, kind, comm ? world_rank(comm, rank) : NOBODY, tag == MPI_ANY_TAG ? -1 : tag);
    if (comm)
        say(lines, "%u", communicator_id(comm));
    say(lines, "\t%zu\n", bytes);
}

static void say_path(lines_t * lines, MPIR_Comm * comm, int rank)
{
    char path[100];
    int world = world_rank(comm, rank);

    if (world < 0 || world == MPIR_Process.rank || MPIDI_COMPOSITE_peer(comm, rank) == NULL)
        return;
    pm_path_in_words(MPIDI_COMPOSITE_peer(comm, rank), path, sizeof path);
    say(lines, "path\t%d\t%s\n", world, path);
}

static size_t bytes_of(long count, MPI_Datatype datatype)
{
    MPI_Aint size = 0;

    if (count < 0 || HANDLE_GET_MPI_KIND(datatype) != MPIR_DATATYPE || HANDLE_GET_KIND(datatype) == HANDLE_KIND_INVALID)
        return 0;
    MPIR_Datatype_get_size_macro(datatype, size);
    return (size_t) count * size;
}

static void say_request(lines_t * lines, MPIR_Request * request)
{
    if (MPIR_Request_is_complete(request))
        return;
    switch (request->kind) {
        case MPIR_REQUEST_KIND__PREQUEST_SEND:
        case MPIR_REQUEST_KIND__PREQUEST_RECV:
            if (request->u.persist.real_request == NULL)
                return;
            say_operation(lines, "pending", request->kind == MPIR_REQUEST_KIND__PREQUEST_SEND ? "send" : "receive", request->comm,
                          MPIDI_PREQUEST(request, rank), MPIDI_PREQUEST(request, tag), 0);
            say_path(lines, request->comm, MPIDI_PREQUEST(request, rank));
            break;
        case MPIR_REQUEST_KIND__PART_SEND:
            say_operation(lines, "pending", "send", request->comm, MPIDI_PART_REQUEST(request, u.send.dest), UNKNOWN_TAG, 0);
            break;
        case MPIR_REQUEST_KIND__PART_RECV:
            say_operation(lines, "pending", "receive", request->comm, MPIDI_PART_REQUEST(request, u.recv.source),
                          MPIDI_PART_REQUEST(request, u.recv.tag), 0);
            break;
        case MPIR_REQUEST_KIND__SEND:
            say_operation(lines, "pending", "send", request->comm, MPIDIG_REQUEST(request, u.send.dest), UNKNOWN_TAG, 0);
            say_path(lines, request->comm, MPIDIG_REQUEST(request, u.send.dest));
            break;
        case MPIR_REQUEST_KIND__RECV:
            say_operation(lines, "pending", "receive", request->comm, MPIDIG_REQUEST(request, u.recv.source), MPIDIG_REQUEST(request, u.recv.tag), 0);
            say_path(lines, request->comm, MPIDIG_REQUEST(request, u.recv.source));
            break;
        case MPIR_REQUEST_KIND__COLL:
        case MPIR_REQUEST_KIND__PREQUEST_COLL:
            say_operation(lines, "pending", "collective", request->comm, -3, UNKNOWN_TAG, 0);
            break;
        case MPIR_REQUEST_KIND__RMA:
            say_operation(lines, "pending", "one-sided", NULL, -3, UNKNOWN_TAG, 0);
            break;
        default:
            say_operation(lines, "pending", "other", NULL, -3, UNKNOWN_TAG, 0);
    }
}

typedef struct {
    lines_t *lines;
    const char *what;
    bool posted;
    int count;
    unsigned long more;
} queue_listing_t;

static void list_queued(const MPIDI_COMPOSITE_queued_t * queued, void *context)
{
    queue_listing_t *listing = context;
    MPIR_Context_id_t id = queued->context;
    bool collective = (id & MPIR_CONTEXT_SUFFIX_MASK) == MPIR_CONTEXT_INTRA_COLL;

    if (listing->count++ >= OPERATIONS_MOST) {
        listing->more++;
        return;
    }
    say_operation(listing->lines, listing->what, collective ? "collective" : listing->posted ? "receive" : "message",
                  find_communicator(has_context, &id), queued->source, collective ? UNKNOWN_TAG : queued->tag, queued->bytes);
}

/* How many more there are than are listed. */
static unsigned long say_queue(lines_t * lines, const char *what, bool posted)
{
    queue_listing_t listing = { lines, what, posted, 0, 0 };

    MPIDI_COMPOSITE_each_queued(posted, list_queued, &listing);
    return listing.more;
}

/* ---- windows ---- */

static unsigned long long window_id(MPIR_Win * win)
{
    return (unsigned long long) MPIDIG_WIN(win, win_id);
}

static void say_locks(lines_t * lines)
{
    MPIDIU_map_entry_t *entry, *next;

    HASH_ITER(hh, MPIDI_global.win_map->head, entry, next) {
        MPIR_Win *win = entry->value;
        pm_direct *direct = MPIDI_COMPOSITE_WIN(win).direct;
        for (int rank = 0; direct && rank < win->comm_ptr->local_size; rank++)
            if (direct->holds[rank] == PM_HOLDS_SHARED || direct->holds[rank] == PM_HOLDS_EXCLUSIVE)
                say(lines, "lock\t%llu\t%d\t%s\n", window_id(win), world_rank(win->comm_ptr, rank),
                    direct->holds[rank] == PM_HOLDS_EXCLUSIVE ? "exclusive" : "shared");
        if (direct)
            continue;
        MPIDIG_win_target_t *target, *after;
        HASH_ITER(hash_handle, MPIDIG_WIN(win, targets), target, after) {
            if (target->sync.lock.locked)
                say(lines, "lock\t%llu\t%d\texclusive\n", window_id(win), world_rank(win->comm_ptr, target->rank));
        }
    }
}

static void say_group(lines_t * lines, MPIR_Group * group)
{
    int *ranks = group ? malloc((group->size + 1) * sizeof *ranks) : NULL;

    if (ranks == NULL)
        return;
    for (int i = 0; i < group->size; i++) {
        uint64_t id = group->lrank_to_lpid[i].lpid;
        ranks[i] = MPIDIU_GPID_GET_AVTID(id) == 0 ? (int) MPIDIU_GPID_GET_LPID(id) : ELSEWHERE;
    }
    say(lines, "group\t");
    say_ranks(lines, ranks, group->size);
    say(lines, "\n");
    free(ranks);
}

/* ---- calls ---- */

/* When a call was first seen waiting; of the thread that makes progress. */
static __thread struct {
    unsigned long number;
    struct timespec since;
    bool told;                  /* by itself, because it takes long */
} waits;

static long milliseconds_since(const struct timespec *since)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

static void say_requests(lines_t * lines, const MPIDI_COMPOSITE_call * call)
{
    int handles[REQUESTS_MOST], count = MPL_MIN(call->requests_count, REQUESTS_MOST);

    if (call->requests == NULL || count <= 0)
        return;
    memcpy(handles, call->requests, count * sizeof *handles);
    for (int i = 0; i < count; i++) {
        MPIR_Request *request = NULL;
        if (handles[i] == MPI_REQUEST_NULL || HANDLE_GET_MPI_KIND(handles[i]) != MPIR_REQUEST)
            continue;
        MPIR_Request_get_ptr(handles[i], request);
        if (request)
            say_request(lines, request);
    }
}

static void say_call(lines_t * lines, MPIDI_COMPOSITE_thread * thread)
{
    bool own = thread == &MPIDI_COMPOSITE_this_thread;
    MPIDI_COMPOSITE_call call;
    size_t depth = MPIDI_COMPOSITE_look(thread, &call);
    MPIR_Comm *comm = NULL;
    MPIR_Win *win = NULL;

    if (depth == 0)
        return;
    if (own && call.number == waits.number)
        say(lines, "call\t%s\t%lu\t%ld\n", call.name, call.number, milliseconds_since(&waits.since));
    else
        say(lines, "call\t%s\t%lu\t-\n", call.name, call.number);
    /* Objects of another thread may go while they are looked at. */
    if (!own)
        return;
    MPIDI_COMPOSITE_own_call(depth, &call);
    if (call.object == 0)
        goto requests;
    if (HANDLE_GET_MPI_KIND(call.object) == MPIR_COMM) {
        MPIR_Comm_get_ptr(call.object, comm);
    } else if (HANDLE_GET_MPI_KIND(call.object) == MPIR_WIN) {
        MPIR_Win_get_ptr(call.object, win);
    }
    if (win)
        comm = win->comm_ptr;
    /* A call that frees it may be past that. */
    if (comm == NULL || MPIR_Object_get_ref(comm) <= 0)
        goto requests;
    say(lines, "on\t%u\t", communicator_id(comm));
    if (win)
        say(lines, "%llu", window_id(win));
    say(lines, "\n");
    if (call.peer != MPIDI_COMPOSITE_CALL_NONE)
        say(lines, "to\t%d\t%d\n", world_rank(comm, call.peer), call.tag == MPIDI_COMPOSITE_CALL_NONE ? UNKNOWN_TAG : call.tag);
    if (call.source != MPIDI_COMPOSITE_CALL_NONE)
        say(lines, "from\t%d\t%d\n", world_rank(comm, call.source), call.source_tag == MPI_ANY_TAG ? -1 : call.source_tag);
    if (call.count >= 0)
        say(lines, "bytes\t%zu\n", bytes_of(call.count, call.datatype));
    if (win && HANDLE_GET_MPI_KIND(call.group) == MPIR_GROUP) {
        MPIR_Group *group = NULL;
        MPIR_Group_get_ptr(call.group, group);
        say_group(lines, group);
    } else if (win && (strcmp(call.name, "MPI_Win_wait") == 0 || strcmp(call.name, "MPI_Win_complete") == 0)) {
        bool access = call.name[8] == 'c';
        say_group(lines, MPIDI_COMPOSITE_WIN(win).direct ? MPIDI_COMPOSITE_direct_group(win, access) :
                  access ? MPIDIG_WIN(win, sync).sc.group : MPIDIG_WIN(win, sync).pw.group);
    }
    if (call.peer != MPIDI_COMPOSITE_CALL_NONE)
        say_path(lines, comm, call.peer);
    if (call.source != MPIDI_COMPOSITE_CALL_NONE && call.source != call.peer)
        say_path(lines, comm, call.source);

  requests:
    say_requests(lines, &call);
}

static void say_thread(MPIDI_COMPOSITE_thread * thread, void *context)
{
    if (thread != &MPIDI_COMPOSITE_this_thread)
        say_call(context, thread);
}

static lines_t world_said;      /* of MPI_COMM_WORLD, once MPI_Finalize has freed it */

/* malloc'ed, in `lines`. */
static bool describe(lines_t * lines)
{
    listing_t listing = { lines, 0 };
    unsigned long more_unexpected, more_posted;
    char host[256] = "", name[256];

    if (!begin(lines))
        return false;
    gethostname(host, sizeof host - 1);
    say(lines, "rank\t0\t%d\t%d\t%d\t%s\n", MPIR_Process.rank, MPIR_Process.size, (int) getpid(), plain(host, name, sizeof name));
    say(lines, "doing\tcalls\t\n");
    (void) find_communicator(list_communicator, &listing);
    if (world_said.size > 0)
        say(lines, "%s", world_said.bytes);
    say_call(lines, &MPIDI_COMPOSITE_this_thread);
    (void) MPIDI_COMPOSITE_each_thread(say_thread, lines);
    more_unexpected = say_queue(lines, "unexpected", false);
    more_posted = say_queue(lines, "posted", true);
    say(lines, "more\t%lu\t%lu\n", more_unexpected, more_posted);
    say_locks(lines);
    return true;
}

/* ---- who asks ---- */

static volatile sig_atomic_t signalled;

static void answer(bool on_page, uint32_t question, const char *reason)
{
    lines_t lines;

    if (!describe(&lines))
        return;
    if (on_page)
        pm_question_answer(question, lines.bytes, lines.size);
    if (reason) {
        char *words = pm_state_in_words(lines.bytes, lines.size);
        if (words)
            fprintf(stderr, "composite: %s%s", reason, words);
        free(words);
    }
    free(lines.bytes);
}

void MPIDI_COMPOSITE_why_attend(void)
{
    MPIDI_COMPOSITE_thread *thread = &MPIDI_COMPOSITE_this_thread;
    uint32_t question = pm_question_asked();
    size_t depth = MPIDI_COMPOSITE_depth_of(thread->now);
    unsigned long number = depth > 0 ? MPIDI_COMPOSITE_number_of(MPIDI_COMPOSITE_kept_at(thread, depth - 1)->what) : waits.number;

    if (waits.number != number) {
        waits.number = number;
        clock_gettime(CLOCK_MONOTONIC, &waits.since);
        waits.told = false;
    }
    if (unlikely(question))
        answer(true, question, NULL);
    if (unlikely(signalled)) {
        signalled = 0;
        answer(false, 0, "");
    }
    if (MPIR_CVAR_CH4_COMPOSITE_WHY_AFTER > 0 && depth > 0 && !waits.told &&
        milliseconds_since(&waits.since) >= MPIR_CVAR_CH4_COMPOSITE_WHY_AFTER * 1000L) {
        waits.told = true;
        answer(false, 0, "waiting for long: ");
    }
}

/* Of what a signal handler may use there is no printf. */
static size_t put_text(char *line, size_t at, const char *text)
{
    while (*text && at < 200)
        line[at++] = *text++;
    return at;
}

static size_t put_number(char *line, size_t at, unsigned long number)
{
    char digits[24];
    int count = 0;

    do
        digits[count++] = (char) ('0' + number % 10);
    while ((number /= 10) && count < 24);
    while (count > 0)
        line[at++] = digits[--count];
    return at;
}

static void say_where(MPIDI_COMPOSITE_thread * thread, void *context)
{
    char line[300];
    MPIDI_COMPOSITE_call call;
    size_t depth = MPIDI_COMPOSITE_look(thread, &call);
    size_t at = put_text(line, 0, "composite: rank ");

    at = put_number(line, at, (unsigned long) MPIR_Process.rank);
    at = put_text(line, at, depth ? ": in " : ": computes; its last MPI call was ");
    at = put_text(line, at, call.name);
    at = put_text(line, at, " (call ");
    at = put_number(line, at, call.number);
    at = put_text(line, at, " of thread ");
    at = put_number(line, at, (unsigned long) thread->id);
    at = put_text(line, at, ")\n");
    if (write(STDERR_FILENO, line, at) < 0)
        return;
    *(bool *) context |= depth > 0;
}

/* What is known at once is said at once; one that waits says the rest when it comes by. */
static void on_signal(int number)
{
    int error = errno;
    bool within = false;

    (void) number;
    (void) MPIDI_COMPOSITE_each_thread(say_where, &within);
    if (within)
        signalled = 1;
    errno = error;
}

void MPIDI_COMPOSITE_why_init(void)
{
    struct sigaction action, before;

    (void) pm_question_open(MPIR_Process.rank, MPIR_Process.size);
    /* A program that has a use for it keeps it. */
    if (sigaction(SIGUSR2, NULL, &before) != 0 || (before.sa_flags & SA_SIGINFO) || before.sa_handler != SIG_DFL)
        return;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    (void) sigaction(SIGUSR2, &action, NULL);
}

void MPIDI_COMPOSITE_why_runs(void)
{
    pm_question_phase(PM_PHASE_RUNS);
}

/* Soon it waits in PMI, and may not answer: what it would say is said now. Nobody holds MPI_COMM_WORLD any more, but it is still there; who
 * asks later must hear as well which collectives this rank has called. */
void MPIDI_COMPOSITE_why_ends(MPIR_Comm * world)
{
    if (begin(&world_said))
        say_communicator(&world_said, world);
    answer(true, 0, NULL);
    pm_question_phase(PM_PHASE_FINALIZE);
}

void MPIDI_COMPOSITE_why_over(void)
{
    free(world_said.bytes);
    world_said = (lines_t) { NULL, 0, 0 };
    pm_question_phase(PM_PHASE_OVER);
}
