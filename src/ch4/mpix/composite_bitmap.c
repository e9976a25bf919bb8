/* Collectives among the ranks in a bitmap: MPIX_Bitmap_barrier and its family.
 *
 * Called by the members alone: no communicator is made, and others neither send nor receive anything. Members are numbered from
 * 0 in the order of their ranks. Wrong arguments are told before anything is sent.
 *
 * Why calls do not mix. All messages have one tag of their own, in the communicator's context for collectives, where nobody
 * receives from MPI_ANY_SOURCE or with MPI_ANY_TAG. So what A sends to B is received in the order in which A sent it, by the
 * receives for A in the order in which B posted them. Within a call both follow the same schedule: which messages there are, and
 * in which order, depends only on the bitmap, the root, the number of bytes and, for reductions, on whether the operation is
 * commutative, and all members know these. Across calls, the order is right when any two processes call the collectives that
 * both are members of in the same order: what MPI asks for collectives on overlapping communicators, and here too it is what
 * keeps three groups from waiting for each other in a circle. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll_life.h"
#include "ch4/mpix/composite_bitmap.h"
#include "coll/choice.h"
#include "coll/team/places.h"

/* MPICH's blocking collectives use the tags below MPIR_FIRST_HCOLL_TAG, nonblocking ones those from MPIR_FIRST_NBC_TAG on. Between
 * them are tags of a library that is not part of this build. */
#define BITMAP_TAG MPIR_LAST_HCOLL_TAG
#ifdef HAVE_LIBHCOLL
#error "BITMAP_TAG is a tag of HCOLL"
#endif

/* Messages that one member has under way. */
#define WINDOW 64
/* So many elements a user's function is given at once: its count may be an int. */
#define COMBINE_AT_ONCE (1 << 30)

/* One call. After a failure it goes on, so that no other member waits in vain, and tells the others by `errflag`. */
typedef struct {
    MPIR_Comm *comm;
    int *ranks;
    int size, me, root;         /* numbers of members */
    MPIR_Request *posted[WINDOW];
    MPI_Aint expected[WINDOW];  /* bytes to receive; -1: it is a send */
    int posted_count;
    void *rooms[3];             /* a reduction needs two, a broadcast after it one more */
    int room_count;
    MPIR_Errflag_t errflag;
    int mpi_errno;
} group_t;

/* Memory with a block for each member, or the one block of a member. */
typedef struct {
    char *start;
    MPI_Aint count;
    MPI_Datatype datatype;
    MPI_Aint stride, bytes;     /* of a block */
} blocks_t;

static void note(group_t * group, int result)
{
    if (unlikely(result))
        MPIDI_COMPOSITE_note_error(&group->mpi_errno, &group->errflag, result);
}

static int check_members(const MPIX_Bitmap members[], int root, MPIR_Comm * comm)
{
    int mpi_errno = MPIDI_COMPOSITE_check_bitmap(members, comm);

    if (mpi_errno || MPIX_Bitmap_count(members, comm->local_size) == 0)
        goto fn_exit;
    MPIR_ERR_CHKANDJUMP1(!MPIX_Bitmap_test(members, comm->rank), mpi_errno, MPI_ERR_RANK, "**bitmap_member",
                         "**bitmap_member %d", comm->rank);
    MPIR_ERR_CHKANDJUMP1(!MPIX_Bitmap_test(members, root), mpi_errno, MPI_ERR_ROOT, "**bitmap_root", "**bitmap_root %d", root);

  fn_exit:
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* Whether there is something to do: not if the set is empty, and not if something is wrong. `root` is a rank; collectives without
 * a root give their own. */
static bool enter(group_t * group, const MPIX_Bitmap members[], int root, MPIR_Comm * comm)
{
    int ranks = comm->local_size;

    group->comm = comm;
    group->ranks = NULL;
    group->posted_count = 0;
    group->room_count = 0;
    group->errflag = MPIR_ERR_NONE;
    group->mpi_errno = check_members(members, root, comm);
    group->size = MPIX_Bitmap_count(members, ranks);
    if (group->mpi_errno || group->size == 0)
        return false;
    group->ranks = MPL_malloc(group->size * sizeof *group->ranks, MPL_MEM_COLL);
    if (group->ranks == NULL) {
        MPIR_ERR_SET(group->mpi_errno, MPI_ERR_OTHER, "**nomem");
        return false;
    }
    for (int rank = MPIX_Bitmap_next(members, ranks, -1), i = 0; rank >= 0; rank = MPIX_Bitmap_next(members, ranks, rank), i++) {
        group->ranks[i] = rank;
        if (rank == comm->rank)
            group->me = i;
        if (rank == root)
            group->root = i;
    }
    return true;
}

static int leave(group_t * group)
{
    while (group->room_count > 0)
        MPL_free(group->rooms[--group->room_count]);
    MPL_free(group->ranks);
    if (group->mpi_errno == MPI_SUCCESS && group->errflag != MPIR_ERR_NONE)
        MPIR_ERR_SET(group->mpi_errno, MPI_ERR_OTHER, "**coll_fail");
    return group->mpi_errno;
}

/* Of an argument that counts, and is not where MPI_IN_PLACE is allowed. */
static bool buffer_is_fine(group_t * group, const char *name, const void *buffer, MPI_Count count, MPI_Datatype datatype)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_ERRTEST_COUNT(count, mpi_errno);
    MPIR_ERRTEST_DATATYPE(datatype, "datatype", mpi_errno);
    if (!HANDLE_IS_BUILTIN(datatype)) {
        MPIR_Datatype *type = NULL;
        MPIR_Datatype_get_ptr(datatype, type);
        MPIR_Datatype_valid_ptr(type, mpi_errno);
        MPIR_Datatype_committed_ptr(type, mpi_errno);
        MPIR_ERR_CHECK(mpi_errno);
    }
    MPIR_ERRTEST_USERBUFFER(buffer, count, datatype, mpi_errno);
    MPIR_ERRTEST_NAMED_BUF_INPLACE(buffer, name, count, mpi_errno);

  fn_fail:
    note(group, mpi_errno);
    return mpi_errno == MPI_SUCCESS;
}

static bool buffers_differ(group_t * group, const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                           const void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype)
{
    int mpi_errno = MPI_SUCCESS;

    if (sendbuf != MPI_BOTTOM && sendcount > 0 && sendcount == recvcount && sendtype == recvtype)
        MPIR_ERRTEST_ALIAS_COLL(sendbuf, recvbuf, mpi_errno);

  fn_fail:
    note(group, mpi_errno);
    return mpi_errno == MPI_SUCCESS;
}

/* A predefined operation is for predefined types only. Types made for Fortran kinds stand for one of those. */
static bool operation_is_fine(group_t * group, MPI_Op op, MPI_Datatype * datatype)
{
    int mpi_errno;

    if (!HANDLE_IS_BUILTIN(op))
        return true;
    mpi_errno = MPIR_OP_HDL_TO_DTYPE_FN(op) (*datatype);
    if (mpi_errno) {
        MPI_Datatype basic = MPIR_Op_get_alt_datatype(op, *datatype);
        if (basic != MPI_DATATYPE_NULL) {
            *datatype = basic;
            return true;
        }
    }
    note(group, mpi_errno);
    return mpi_errno == MPI_SUCCESS;
}

static blocks_t blocks_at(const void *buffer, MPI_Aint count, MPI_Datatype datatype)
{
    blocks_t blocks = {.start = (char *) buffer,.count = count,.datatype = datatype };
    MPI_Aint size, extent;

    MPIR_Datatype_get_size_macro(datatype, size);
    MPIR_Datatype_get_extent_macro(datatype, extent);
    blocks.bytes = size * count;
    blocks.stride = extent * count;
    return blocks;
}

static char *block(const blocks_t * blocks, int member)
{
    return blocks->start + member * blocks->stride;
}

/* Memory until leave(); NULL, and noted, when there is none. */
static char *make_room(group_t * group, MPI_Aint bytes)
{
    int mpi_errno = MPI_SUCCESS;
    void *room = MPL_malloc(bytes, MPL_MEM_COLL);

    if (room == NULL) {
        MPIR_ERR_SET(mpi_errno, MPI_ERR_OTHER, "**nomem");
        note(group, mpi_errno);
        return NULL;
    }
    return group->rooms[group->room_count++] = room;
}

/* The same for elements of a type, at the address that stands for the first of them. */
static char *make_room_for(group_t * group, MPI_Aint count, MPI_Datatype datatype)
{
    MPI_Aint true_lb, true_extent, extent, last;
    char *room;

    MPIR_Type_get_true_extent_impl(datatype, &true_lb, &true_extent);
    MPIR_Datatype_get_extent_macro(datatype, extent);
    last = (count - 1) * extent;
    room = make_room(group, true_extent + MPL_MAX(last, -last));
    return room ? room - true_lb - MPL_MIN(last, 0) : NULL;
}

static void copy(group_t * group, const void *from, MPI_Aint from_count, MPI_Datatype from_type, void *to, MPI_Aint to_count,
                 MPI_Datatype to_type)
{
    note(group, MPIR_Localcopy(from, from_count, from_type, to, to_count, to_type));
}

/* A message of another size than expected is the user's error: the members called with different sizes. */
static int result_of(MPIR_Request * request, MPI_Aint expected)
{
    int mpi_errno = request->status.MPI_ERROR;
    MPI_Aint received = MPIR_STATUS_GET_COUNT(request->status);

    MPIR_ERR_CHECK(mpi_errno);
    MPIR_ERR_CHKANDJUMP2(expected >= 0 && received != expected, mpi_errno, MPI_ERR_OTHER, "**bitmap_size", "**bitmap_size %L %L",
                         (long long) received, (long long) expected);

  fn_fail:
    return mpi_errno;
}

static void wait_posted(group_t * group)
{
    for (int i = 0; i < group->posted_count; i++) {
        int mpi_errno = MPIC_Wait(group->posted[i], &group->errflag);
        note(group, mpi_errno ? mpi_errno : result_of(group->posted[i], group->expected[i]));
        MPIR_Request_free(group->posted[i]);
    }
    group->posted_count = 0;
}

static void post_send(group_t * group, int to, const void *data, MPI_Aint count, MPI_Datatype datatype)
{
    MPIR_Request *request = NULL;

    if (group->posted_count == WINDOW)
        wait_posted(group);
    note(group, MPIC_Isend(data, count, datatype, group->ranks[to], BITMAP_TAG, group->comm, &request, &group->errflag));
    if (request) {
        group->posted[group->posted_count] = request;
        group->expected[group->posted_count++] = -1;
    }
}

static void post_receive(group_t * group, int from, void *data, MPI_Aint count, MPI_Datatype datatype)
{
    MPIR_Request *request = NULL;
    MPI_Aint size;

    if (group->posted_count == WINDOW)
        wait_posted(group);
    note(group, MPIC_Irecv(data, count, datatype, group->ranks[from], BITMAP_TAG, group->comm, &request));
    if (request) {
        MPIR_Datatype_get_size_macro(datatype, size);
        group->posted[group->posted_count] = request;
        group->expected[group->posted_count++] = size * count;
    }
}

static void send_to(group_t * group, int to, const void *data, MPI_Aint count, MPI_Datatype datatype)
{
    post_send(group, to, data, count, datatype);
    wait_posted(group);
}

static void receive_from(group_t * group, int from, void *data, MPI_Aint count, MPI_Datatype datatype)
{
    post_receive(group, from, data, count, datatype);
    wait_posted(group);
}

/* The binomial tree. Members count from its top, `top`: member r of it has the parent r - lowest_bit(r), and children r + 1,
 * r + 2, r + 4 ... as long as that is in its span, the members r ... r + span - 1 that are reached through it. */
static int in_tree(const group_t * group, int top)
{
    return (group->me - top + group->size) % group->size;
}

static int member_of(const group_t * group, int top, int r)
{
    return (top + r) % group->size;
}

static int lowest_bit(int r)
{
    return r & -r;
}

static int span_of(const group_t * group, int r)
{
    return r == 0 ? group->size : MPL_MIN(lowest_bit(r), group->size - r);
}

static int largest_step(int span)
{
    int step = 1;

    while (step < span)
        step *= 2;
    return step / 2;
}

/* Gives the children their shares of `bytes` that begin with our own block. */
static void pass_down(group_t * group, const char *mine, MPI_Aint size, MPI_Aint bytes)
{
    int r = in_tree(group, group->root);

    for (int step = largest_step(span_of(group, r)); step > 0; step /= 2) {
        MPI_Aint share = MPL_MIN(bytes - step * size, span_of(group, r + step) * size);
        if (share > 0)
            post_send(group, member_of(group, group->root, r + step), mine + step * size, share, MPI_BYTE);
    }
    wait_posted(group);
}

static int host_of_member(void *context, int member)
{
    const group_t *group = context;
    int host;

    MPIDIU_get_node_id(group->comm, group->ranks[member], &host);
    return host;
}

/* All members answer the same; those of several jobs count as on several. */
static bool on_one_host(group_t * group)
{
    if (!MPIDI_COMPOSITE_knows_hosts(group->comm))
        return false;
    for (int i = 1; i < group->size; i++)
        if (host_of_member(group, i) != host_of_member(group, 0))
            return false;
    return true;
}

/* Whole messages along the tree. Within a host that is the best for long ones too: a ring moves as many bytes through the same
 * memory, in more rounds. */
static void broadcast_short(group_t * group, void *data, MPI_Aint count, MPI_Datatype datatype)
{
    int r = in_tree(group, group->root);

    if (r != 0)
        receive_from(group, member_of(group, group->root, r - lowest_bit(r)), data, count, datatype);
    for (int step = largest_step(span_of(group, r)); step > 0; step /= 2)
        post_send(group, member_of(group, group->root, r + step), data, count, datatype);
    wait_posted(group);
}

/* A block to each along the tree, and the blocks around a ring: no member sends more than twice the data, however many they are. */
static void broadcast_long(group_t * group, char *data, MPI_Aint bytes)
{
    int n = group->size, r = in_tree(group, group->root);
    int next = member_of(group, group->root, (r + 1) % n), previous = member_of(group, group->root, (r - 1 + n) % n);
    MPI_Aint size = (bytes + n - 1) / n, rest = bytes - MPL_MIN(r * size, bytes), share = MPL_MIN(rest, span_of(group, r) * size);

    if (r != 0 && share > 0)
        receive_from(group, member_of(group, group->root, r - lowest_bit(r)), data + r * size, share, MPI_BYTE);
    pass_down(group, data + r * size, size, share);
    for (int i = 0; i < n - 1; i++) {
        MPI_Aint ours = MPL_MIN((r - i + n) % n * size, bytes), theirs = MPL_MIN((r - i - 1 + n) % n * size, bytes);
        post_receive(group, previous, data + theirs, MPL_MIN(size, bytes - theirs), MPI_BYTE);
        post_send(group, next, data + ours, MPL_MIN(size, bytes - ours), MPI_BYTE);
        wait_posted(group);
    }
}

static void broadcast(group_t * group, void *data, MPI_Aint count, MPI_Datatype datatype)
{
    MPI_Aint bytes = blocks_at(data, count, datatype).bytes, true_lb, true_extent;
    int contiguous;
    char *packed;

    if (pm_some_in_whole(bytes) || pm_some_bcast_in_whole(bytes, group->size, on_one_host(group))) {
        broadcast_short(group, data, count, datatype);
        return;
    }
    MPIR_Datatype_is_contig(datatype, &contiguous);
    if (contiguous) {
        MPIR_Type_get_true_extent_impl(datatype, &true_lb, &true_extent);
        broadcast_long(group, (char *) data + true_lb, bytes);
        return;
    }
    packed = make_room(group, bytes);
    if (packed == NULL)
        return;
    if (group->me == group->root)
        copy(group, data, count, datatype, packed, bytes, MPI_BYTE);
    broadcast_long(group, packed, bytes);
    if (group->me != group->root)
        copy(group, packed, bytes, MPI_BYTE, data, count, datatype);
}

/* right = left op right */
static void combine(group_t * group, const char *left, char *right, MPI_Aint count, MPI_Datatype datatype, MPI_Op op)
{
    MPI_Aint extent;

    MPIR_Datatype_get_extent_macro(datatype, extent);
    for (MPI_Aint done = 0; done < count; done += COMBINE_AT_ONCE)
        note(group, MPIR_Reduce_local(left + done * extent, right + done * extent, MPL_MIN(count - done, COMBINE_AT_ONCE),
                                      datatype, op));
}

/* Along the tree. A parent has the members before those of its child, so that the order is right if the top is member 0; an
 * operation that does not mind the order has its top at the root. */
static void reduce(group_t * group, const void *own, void *result, MPI_Aint count, MPI_Datatype datatype, MPI_Op op)
{
    int top = MPIR_Op_is_commutative(op) ? group->root : 0;
    int r = in_tree(group, top), span = span_of(group, r), spare = 0;
    const char *mine = own;
    char *theirs[2] = { NULL, NULL };

    for (int step = 1; step < span; step *= 2) {
        if (theirs[spare] == NULL)
            theirs[spare] = make_room_for(group, count, datatype);
        if (theirs[spare] == NULL)
            return;
        receive_from(group, member_of(group, top, r + step), theirs[spare], count, datatype);
        combine(group, mine, theirs[spare], count, datatype, op);
        mine = theirs[spare];
        spare = !spare;
    }
    if (r != 0)
        send_to(group, member_of(group, top, r - lowest_bit(r)), mine, count, datatype);
    else if (top != group->root)
        send_to(group, group->root, mine, count, datatype);
    else if (mine != result)
        copy(group, mine, count, datatype, result, count, datatype);
    if (group->me == group->root && top != group->root)
        receive_from(group, top, result, count, datatype);
}

/* Recursive doubling among as many members as the largest power of two; each of the rest is represented by its right neighbour.
 * Both of a pair compute the same, the lower one on the left: all have the same bits, and the order is right for any operation. */
static void allreduce_short(group_t * group, char *result, MPI_Aint count, MPI_Datatype datatype, MPI_Op op)
{
    int power = largest_step(group->size + 1), rest = group->size - power, me = group->me;
    int delegate = me < 2 * rest ? me / 2 : me - rest;
    bool represented = me < 2 * rest && me % 2 == 0;
    char *mine = result, *theirs = make_room_for(group, count, datatype);

    if (theirs == NULL)
        return;
    if (represented) {
        send_to(group, me + 1, mine, count, datatype);
        receive_from(group, me + 1, result, count, datatype);
        return;
    }
    if (me < 2 * rest) {
        receive_from(group, me - 1, theirs, count, datatype);
        combine(group, theirs, mine, count, datatype, op);
    }
    for (int bit = 1; bit < power; bit *= 2) {
        int other = delegate ^ bit, peer = other < rest ? 2 * other + 1 : other + rest;
        post_receive(group, peer, theirs, count, datatype);
        post_send(group, peer, mine, count, datatype);
        wait_posted(group);
        if (peer < me) {
            combine(group, theirs, mine, count, datatype, op);
        } else {
            char *free_now = mine;
            combine(group, mine, theirs, count, datatype, op);
            mine = theirs;
            theirs = free_now;
        }
    }
    if (me < 2 * rest)
        send_to(group, me - 1, mine, count, datatype);
    if (mine != result)
        copy(group, mine, count, datatype, result, count, datatype);
}

/* Gather and scatter: `all` is the root's, `own` a block of one of the others. The root's own block is in its place already. */
enum direction { TO_ROOT, FROM_ROOT };

/* Between the root and each. */
static void move_flat(group_t * group, enum direction direction, const blocks_t * own, const blocks_t * all)
{
    bool is_root = group->me == group->root, sends = is_root == (direction == FROM_ROOT);
    int first = is_root ? 0 : group->root, end = is_root ? group->size : group->root + 1;

    for (int i = first; i < end; i++) {
        char *data = is_root ? block(all, i) : own->start;
        const blocks_t *like = is_root ? all : own;
        if (i == group->me)
            continue;
        if (sends)
            post_send(group, i, data, like->count, like->datatype);
        else
            post_receive(group, i, data, like->count, like->datatype);
    }
    wait_posted(group);
}

/* Each collects the blocks of its span, in the order of the tree. */
static void gather_tree(group_t * group, const blocks_t * own, const blocks_t * all)
{
    int r = in_tree(group, group->root), span = span_of(group, r);
    MPI_Aint size = r == 0 ? all->bytes : own->bytes;
    char *room;

    if (span == 1) {
        send_to(group, member_of(group, group->root, r - lowest_bit(r)), own->start, own->count, own->datatype);
        return;
    }
    room = make_room(group, span * size);
    if (room == NULL)
        return;
    for (int step = 1; step < span; step *= 2)
        post_receive(group, member_of(group, group->root, r + step), room + step * size, span_of(group, r + step) * size,
                     MPI_BYTE);
    wait_posted(group);
    if (r != 0) {
        copy(group, own->start, own->count, own->datatype, room, size, MPI_BYTE);
        send_to(group, member_of(group, group->root, r - lowest_bit(r)), room, span * size, MPI_BYTE);
        return;
    }
    for (int i = 1; i < span; i++)
        copy(group, room + i * size, size, MPI_BYTE, block(all, member_of(group, group->root, i)), all->count, all->datatype);
}

static void gather(group_t * group, const blocks_t * own, const blocks_t * all)
{
    MPI_Aint bytes = group->me == group->root ? all->bytes : own->bytes;

    if (bytes > 0 && pm_some_by_tree(bytes, group->size))
        gather_tree(group, own, all);
    else if (bytes > 0)
        move_flat(group, TO_ROOT, own, all);
}

static void scatter_tree(group_t * group, const blocks_t * all, const blocks_t * own)
{
    int r = in_tree(group, group->root), span = span_of(group, r);
    int parent = member_of(group, group->root, r - lowest_bit(r));
    MPI_Aint size = r == 0 ? all->bytes : own->bytes;
    char *room;

    if (span == 1) {
        receive_from(group, parent, own->start, own->count, own->datatype);
        return;
    }
    room = make_room(group, span * size);
    if (room == NULL)
        return;
    if (r != 0) {
        receive_from(group, parent, room, span * size, MPI_BYTE);
        copy(group, room, size, MPI_BYTE, own->start, own->count, own->datatype);
    } else {
        for (int i = 1; i < span; i++)
            copy(group, block(all, member_of(group, group->root, i)), all->count, all->datatype, room + i * size, size, MPI_BYTE);
    }
    pass_down(group, room, size, span * size);
}

static void scatter(group_t * group, const blocks_t * all, const blocks_t * own)
{
    MPI_Aint bytes = group->me == group->root ? all->bytes : own->bytes;

    if (bytes > 0 && pm_some_by_tree(bytes, group->size))
        scatter_tree(group, all, own);
    else if (bytes > 0)
        move_flat(group, FROM_ROOT, own, all);
}

/* Bruck's algorithm: member m gathers the blocks of m, m + 1, ... and doubles their number in every round. Our own block is in
 * its place already. */
static void allgather_short(group_t * group, const blocks_t * all)
{
    int n = group->size, me = group->me;
    MPI_Aint size = all->bytes;
    char *room = make_room(group, n * size);

    if (room == NULL)
        return;
    copy(group, block(all, me), all->count, all->datatype, room, size, MPI_BYTE);
    for (int have = 1; have < n; have *= 2) {
        MPI_Aint bytes = MPL_MIN(have, n - have) * size;
        post_receive(group, (me + have) % n, room + have * size, bytes, MPI_BYTE);
        post_send(group, (me - have + n) % n, room, bytes, MPI_BYTE);
        wait_posted(group);
    }
    for (int i = 1; i < n; i++)
        copy(group, room + i * size, size, MPI_BYTE, block(all, (me + i) % n), all->count, all->datatype);
}

static void allgather_ring(group_t * group, const blocks_t * all)
{
    int n = group->size, me = group->me;

    for (int i = 0; i < n - 1; i++) {
        post_receive(group, (me - 1 + n) % n, block(all, (me - i - 1 + n) % n), all->count, all->datatype);
        post_send(group, (me + 1) % n, block(all, (me - i + n) % n), all->count, all->datatype);
        wait_posted(group);
    }
}

/* Everybody sends to the one i places further and receives from the one i places back, for a window of i at once: the windows are
 * the same for all, so that each is complete without the next. */
static void alltoall(group_t * group, const blocks_t * out, const blocks_t * in)
{
    int n = group->size, me = group->me;

    for (int i = 1; i < n; i++) {
        int from = (me - i + n) % n, to = (me + i) % n;
        post_receive(group, from, block(in, from), in->count, in->datatype);
        post_send(group, to, block(out, to), out->count, out->datatype);
    }
    wait_posted(group);
}

/* What arrives takes the place of what is still to be sent. */
static void alltoall_in_place(group_t * group, const blocks_t * in)
{
    char *room = in->bytes > 0 ? make_room(group, in->bytes * group->size) : NULL;
    blocks_t out = blocks_at(room, in->bytes, MPI_BYTE);

    if (room == NULL)
        return;
    for (int i = 0; i < group->size; i++)
        copy(group, block(in, i), in->count, in->datatype, block(&out, i), out.count, out.datatype);
    alltoall(group, &out, in);
}

static void post_receive_nothing(group_t * group, int from)
{
    post_receive(group, from, NULL, 0, MPI_BYTE);
}

static void post_send_nothing(group_t * group, int to)
{
    post_send(group, to, NULL, 0, MPI_BYTE);
}

/* In each round everybody hears of twice as many. Of COUNT members we are the one at PLACE; `members` are all if it is NULL. */
static void barrier_by_rounds(group_t * group, const int *members, int count, int place)
{
    for (int step = 1; step < count; step *= 2) {
        int from = (place - step + count) % count, to = (place + step) % count;
        post_receive_nothing(group, members ? members[from] : from);
        post_send_nothing(group, members ? members[to] : to);
        wait_posted(group);
    }
}

/* The first member of each host hears its others, and tells them when all hosts have been heard: each of those waits once. But those of one host, with
 * cores of their own, take rounds. */
static void barrier_by_hosts(group_t * group)
{
    int *memory = MPL_malloc(sizeof *memory * pm_places_ints(group->size), MPL_MEM_COLL);
    int mpi_errno = MPI_SUCCESS;
    pm_places places;

    MPIR_ERR_CHKANDJUMP(memory == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    pm_places_of(&places, memory, group->size, group->me, host_of_member, group);
    if (places.hosts == 1 && !pm_crowded(MPIDI_COMPOSITE_global.core)) {
        barrier_by_rounds(group, NULL, group->size, group->me);
    } else if (places.first[places.ours] == group->me) {
        for (int i = 0; i < places.mates; i++)
            post_receive_nothing(group, places.mate[i]);
        wait_posted(group);
        barrier_by_rounds(group, places.first, places.hosts, places.ours);
        for (int i = 0; i < places.mates; i++)
            post_send_nothing(group, places.mate[i]);
    } else {
        send_to(group, places.first[places.ours], NULL, 0, MPI_BYTE);
        post_receive_nothing(group, places.first[places.ours]);
    }
    wait_posted(group);

  fn_exit:
    MPL_free(memory);
    return;
  fn_fail:
    note(group, mpi_errno);
    goto fn_exit;
}

int MPIR_Bitmap_barrier_impl(const MPIX_Bitmap members[], MPIR_Comm * comm_ptr)
{
    group_t group;

    /* Without a list of them. */
    if (members && comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM && MPIX_Bitmap_count(members, comm_ptr->local_size) == comm_ptr->local_size &&
        check_members(members, comm_ptr->rank, comm_ptr) == MPI_SUCCESS) {
        MPIR_Errflag_t errflag = MPIR_ERR_NONE;
        return MPIR_Barrier(comm_ptr, &errflag);
    }
    if (enter(&group, members, comm_ptr->rank, comm_ptr)) {
        if (MPIDI_COMPOSITE_knows_hosts(comm_ptr))
            barrier_by_hosts(&group);
        else
            barrier_by_rounds(&group, NULL, group.size, group.me);
    }
    return leave(&group);
}

int MPIR_Bitmap_bcast_impl(void *buf, MPI_Count count, MPI_Datatype datatype, int root, const MPIX_Bitmap members[],
                           MPIR_Comm * comm_ptr)
{
    group_t group;

    if (enter(&group, members, root, comm_ptr) && buffer_is_fine(&group, "buf", buf, count, datatype) &&
        blocks_at(buf, count, datatype).bytes > 0)
        broadcast(&group, buf, count, datatype);
    return leave(&group);
}

/* What a member contributes to a reduction. If something is wrong with the arguments, that is noted. */
static const void *operand(group_t * group, const void *sendbuf, void *recvbuf, bool has_result, MPI_Count count,
                           MPI_Datatype * datatype, MPI_Op op)
{
    bool in_place = has_result && sendbuf == MPI_IN_PLACE;

    if ((has_result && !buffer_is_fine(group, "recvbuf", recvbuf, count, *datatype)) ||
        (!in_place && !buffer_is_fine(group, "sendbuf", sendbuf, count, *datatype)) ||
        (has_result && !in_place && !buffers_differ(group, sendbuf, count, *datatype, recvbuf, count, *datatype)) ||
        !operation_is_fine(group, op, datatype))
        return NULL;
    return in_place ? recvbuf : sendbuf;
}

int MPIR_Bitmap_reduce_impl(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op, int root,
                            const MPIX_Bitmap members[], MPIR_Comm * comm_ptr)
{
    group_t group;

    if (enter(&group, members, root, comm_ptr)) {
        const void *own = operand(&group, sendbuf, recvbuf, group.me == group.root, count, &datatype, op);
        if (group.mpi_errno == MPI_SUCCESS && blocks_at(own, count, datatype).bytes > 0)
            reduce(&group, own, recvbuf, count, datatype, op);
    }
    return leave(&group);
}

int MPIR_Bitmap_allreduce_impl(const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                               const MPIX_Bitmap members[], MPIR_Comm * comm_ptr)
{
    group_t group;

    if (enter(&group, members, comm_ptr->rank, comm_ptr)) {
        const void *own = operand(&group, sendbuf, recvbuf, true, count, &datatype, op);
        MPI_Aint bytes = group.mpi_errno == MPI_SUCCESS ? blocks_at(own, count, datatype).bytes : 0;
        if (!pm_some_in_whole(bytes)) {
            group.root = 0;
            reduce(&group, own, recvbuf, count, datatype, op);
            broadcast(&group, recvbuf, count, datatype);
        } else if (bytes > 0) {
            if (own != recvbuf)
                copy(&group, own, count, datatype, recvbuf, count, datatype);
            allreduce_short(&group, recvbuf, count, datatype, op);
        }
    }
    return leave(&group);
}

int MPIR_Bitmap_gather_impl(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                            MPI_Count recvcount, MPI_Datatype recvtype, int root, const MPIX_Bitmap members[],
                            MPIR_Comm * comm_ptr)
{
    group_t group;
    bool at_root = comm_ptr->rank == root, in_place = at_root && sendbuf == MPI_IN_PLACE;

    if (enter(&group, members, root, comm_ptr) && (in_place || buffer_is_fine(&group, "sendbuf", sendbuf, sendcount, sendtype)) &&
        (!at_root || buffer_is_fine(&group, "recvbuf", recvbuf, recvcount, recvtype)) &&
        (!at_root || in_place || buffers_differ(&group, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype))) {
        blocks_t own = { 0 }, all = { 0 };
        if (!in_place)
            own = blocks_at(sendbuf, sendcount, sendtype);
        if (at_root)
            all = blocks_at(recvbuf, recvcount, recvtype);
        if (at_root && !in_place)
            copy(&group, own.start, own.count, own.datatype, block(&all, group.me), all.count, all.datatype);
        gather(&group, &own, &all);
    }
    return leave(&group);
}

int MPIR_Bitmap_scatter_impl(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                             MPI_Count recvcount, MPI_Datatype recvtype, int root, const MPIX_Bitmap members[],
                             MPIR_Comm * comm_ptr)
{
    group_t group;
    bool at_root = comm_ptr->rank == root, in_place = at_root && recvbuf == MPI_IN_PLACE;

    if (enter(&group, members, root, comm_ptr) && (!at_root || buffer_is_fine(&group, "sendbuf", sendbuf, sendcount, sendtype)) &&
        (in_place || buffer_is_fine(&group, "recvbuf", recvbuf, recvcount, recvtype)) &&
        (!at_root || in_place || buffers_differ(&group, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype))) {
        blocks_t own = { 0 }, all = { 0 };
        if (!in_place)
            own = blocks_at(recvbuf, recvcount, recvtype);
        if (at_root)
            all = blocks_at(sendbuf, sendcount, sendtype);
        if (at_root && !in_place)
            copy(&group, block(&all, group.me), all.count, all.datatype, own.start, own.count, own.datatype);
        scatter(&group, &all, &own);
    }
    return leave(&group);
}

int MPIR_Bitmap_allgather_impl(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                               MPI_Count recvcount, MPI_Datatype recvtype, const MPIX_Bitmap members[], MPIR_Comm * comm_ptr)
{
    group_t group;
    bool in_place = sendbuf == MPI_IN_PLACE;

    if (enter(&group, members, comm_ptr->rank, comm_ptr) && buffer_is_fine(&group, "recvbuf", recvbuf, recvcount, recvtype) &&
        (in_place || (buffer_is_fine(&group, "sendbuf", sendbuf, sendcount, sendtype) &&
                      buffers_differ(&group, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)))) {
        blocks_t all = blocks_at(recvbuf, recvcount, recvtype);
        if (!in_place)
            copy(&group, sendbuf, sendcount, sendtype, block(&all, group.me), all.count, all.datatype);
        if (!pm_some_in_whole(all.bytes * group.size))
            allgather_ring(&group, &all);
        else if (all.bytes > 0)
            allgather_short(&group, &all);
    }
    return leave(&group);
}

int MPIR_Bitmap_alltoall_impl(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, void *recvbuf,
                              MPI_Count recvcount, MPI_Datatype recvtype, const MPIX_Bitmap members[], MPIR_Comm * comm_ptr)
{
    group_t group;
    bool in_place = sendbuf == MPI_IN_PLACE;

    if (enter(&group, members, comm_ptr->rank, comm_ptr) && buffer_is_fine(&group, "recvbuf", recvbuf, recvcount, recvtype) &&
        (in_place || (buffer_is_fine(&group, "sendbuf", sendbuf, sendcount, sendtype) &&
                      buffers_differ(&group, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)))) {
        blocks_t in = blocks_at(recvbuf, recvcount, recvtype);
        if (in_place) {
            alltoall_in_place(&group, &in);
        } else {
            blocks_t out = blocks_at(sendbuf, sendcount, sendtype);
            copy(&group, block(&out, group.me), out.count, out.datatype, block(&in, group.me), in.count, in.datatype);
            if (in.bytes > 0)
                alltoall(&group, &out, &in);
        }
    }
    return leave(&group);
}
