/* Start, address exchange and end. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll_life.h"
#include "composite_measure.h"
#include "composite_handlers.h"
#include "composite_matching.h"
#include "composite_report.h"
#include "composite_why.h"
#include "composite_win.h"
#include "base/two_mpis.h"
#include "composite_progress.h"
#include "composite_started.h"
#include "composite_team.h"
#include "coll/am/am.h"
#include "coll/barrier/barrier.h"
#include "coll/barrier/news.h"
#include "coll/mcast/mcast.h"
#include "coll/progress.h"
#include "coll/window/window.h"
#include "netmod/core/setup.h"
#include "netmod/core/shared.h"
#include <pthread.h>
#include <unistd.h>

int MPIDI_COMPOSITE_has_threads;        /* composite_counts.h */

/* Why this process cannot start, if it cannot. It says so in init_world, in the place of its card, when all processes are in the same place:
 * one that ends while another one talks to the process manager takes Hydra's proxy along, and with it what was said. */
static char *trouble = NULL;

/* The file that the ranks of this host share. Without it (a container for each rank, for one) all goes over the process manager, and
 * each rank has a file of its own. */
static pm_host *host = NULL;

static int is_node_root(void)
{
    return MPIR_Process.node_root_map[MPIR_Process.node_map[MPIR_Process.rank]] == MPIR_Process.rank;
}

/* Hydra numbers the hosts of a spawned job as it goes round; those in front of the first one have numbers, too, but no ranks. MPICH
 * compares numbers of hosts and of ranks, and asks the first rank of each host: so hosts without ranks are not counted. */
static void number_hosts(void)
{
    for (int node = MPIR_Process.num_nodes - 1; node >= 0; node--) {
        if (MPIR_Process.node_root_map[node] >= 0)
            continue;
        MPIR_Process.num_nodes--;
        for (int i = node; i < MPIR_Process.num_nodes; i++)
            MPIR_Process.node_root_map[i] = MPIR_Process.node_root_map[i + 1];
        for (int rank = 0; rank < MPIR_Process.size; rank++)
            MPIR_Process.node_map[rank] -= MPIR_Process.node_map[rank] > node;
    }
}

static int join_host(void)
{
    int mpi_errno = MPI_SUCCESS;
    pm_host_name name = { 0, 0, -1 };

    number_hosts();
    if (MPIR_Process.num_nodes == MPIR_Process.size)
        return MPI_SUCCESS;
    if (is_node_root())
        host = pm_host_create(MPIR_CVAR_CH4_COMPOSITE_SHMEM_BACKING, MPIR_Process.local_size, MPIR_Process.size, &name);
    mpi_errno = MPIR_pmi_bcast(&name, sizeof name, MPIR_PMI_DOMAIN_LOCAL);
    MPIR_ERR_CHECK(mpi_errno);
    if (!is_node_root() && name.process != 0)
        host = pm_host_join(&name);

  fn_fail:
    return mpi_errno;
}

static int has_news(void)
{
    return pm_mcast_has_news() || pm_barrier_has_news() || MPIDI_COMPOSITE_started_have_news();
}

static void attend(void)
{
    pm_coll_attend();
    MPIDI_COMPOSITE_attend_started();
    MPIDI_COMPOSITE_why_attend();
}

/* MPICH makes them before it calls us. With fewer in a block, one is as large as MPICH's own would be. */
void MPIDI_COMPOSITE_size_buffers(void)
{
    enum { BUFFERS = 4 };

    if (getenv("MPIR_CVAR_CH4_AM_PACK_BUFFER_SIZE") == NULL)
        MPIR_CVAR_CH4_AM_PACK_BUFFER_SIZE = PM_UNGRANTED_LIMIT;
    if (getenv("MPIR_CVAR_CH4_NUM_AM_PACK_BUFFERS_PER_CHUNK") == NULL)
        MPIR_CVAR_CH4_NUM_AM_PACK_BUFFERS_PER_CHUNK = BUFFERS;
}

static char *too_small(int size)
{
    char sentence[120];

    snprintf(sentence, sizeof sentence, "MPIR_CVAR_CH4_AM_PACK_BUFFER_SIZE is %d, and must be %d or more", size, PM_UNGRANTED_LIMIT);
    return MPL_strdup(sentence);
}

int MPIDI_COMPOSITE_init_local(int *tag_bits)
{
    int mpi_errno = MPI_SUCCESS;
    pm_setup setup;
    const char *two_mpis = MPIR_Process.rank == 0 ? pm_two_mpis() : NULL;

    if (two_mpis != NULL)
        fprintf(stderr, "composite: %s\n", two_mpis);
    MPIDI_COMPOSITE_warn_if_alone();
    pm_make_room();
    MPIDI_COMPOSITE_why_init();
    mpi_errno = join_host();
    MPIR_ERR_CHECK(mpi_errno);
    memset(&setup, 0, sizeof setup);
    setup.devices = MPIR_CVAR_CH4_COMPOSITE_DEVICES;
    setup.networks = MPIR_CVAR_CH4_COMPOSITE_NETWORKS;
    setup.priority = MPIR_CVAR_CH4_COMPOSITE_PRIORITY;
    setup.routes = MPIR_CVAR_CH4_COMPOSITE_ROUTES;
    setup.report = MPIR_CVAR_CH4_COMPOSITE_REPORT;
    setup.wait = MPIR_CVAR_CH4_COMPOSITE_WAIT;
    setup.background_wait = MPIR_CVAR_CH4_COMPOSITE_PROGRESS_WAIT;
    setup.rendezvous = MPIR_CVAR_CH4_COMPOSITE_SHMEM_RNDV;
    setup.shmem_backing = MPIR_CVAR_CH4_COMPOSITE_SHMEM_BACKING;
    setup.udp_interfaces = MPIR_CVAR_CH4_COMPOSITE_UDP_INTERFACES;
    setup.udp_ports = MPIR_CVAR_CH4_COMPOSITE_UDP_PORTS;
    setup.udp_guard = MPIR_CVAR_CH4_COMPOSITE_UDP_GUARD;
    setup.udp_recovery = MPIR_CVAR_CH4_COMPOSITE_UDP_RECOVERY;
    setup.udp_segmentation = MPIR_CVAR_CH4_COMPOSITE_UDP_SEGMENTATION;
    setup.udp_silence_limit = MPIR_CVAR_CH4_COMPOSITE_UDP_SILENCE_LIMIT;
    setup.ranks_on_host = MPIR_Process.local_size;
    setup.process = MPIR_Process.local_rank;
    setup.host = host;
    setup.idle = attend;
    setup.owes = pm_mcast_owes;
    setup.has_news = has_news;
    MPIDI_COMPOSITE_report_init();
    /* A communicator costs one allreduce while there are no more than 32 for each of these, and two from then on; half of them stay for
     * threads that make some at the same time. */
    if (getenv("MPIR_CVAR_CTXID_EAGER_SIZE") == NULL)
        MPIR_CVAR_CTXID_EAGER_SIZE = MPIR_MAX_CONTEXT_MASK / 2;
    MPIDI_COMPOSITE_global.core = pm_make_room() == PM_OK ? pm_open(&setup) : NULL;
    if (MPIDI_COMPOSITE_global.core == NULL || MPIDI_COMPOSITE_coll_init() != PM_OK || MPIDI_COMPOSITE_mcast_init() != PM_OK ||
        MPIDI_COMPOSITE_windows_init() != PM_OK ||
        MPIDI_COMPOSITE_active_init() != PM_OK || pm_measure_open(MPIDI_COMPOSITE_global.core) != PM_OK)
        trouble = MPL_strdup(pm_error_text());
    /* What leaves at once must find a buffer where nobody expects it. */
    else if (MPIR_CVAR_CH4_AM_PACK_BUFFER_SIZE < PM_UNGRANTED_LIMIT)
        trouble = too_small(MPIR_CVAR_CH4_AM_PACK_BUFFER_SIZE);
    MPIDI_COMPOSITE_fuzzy_init();

    *tag_bits = MPIR_TAG_BITS_DEFAULT;
    MPIDIG_am_rndv_reg_cb(MPIDI_COMPOSITE_RNDV_PULL, MPIDI_COMPOSITE_pull_matched);
    MPIDI_COMPOSITE_register_own();
    MPIDI_COMPOSITE_dynamic_init();
    MPIDI_COMPOSITE_routes_init();

  fn_fail:
    return mpi_errno;
}

/* A card on its way, or a complaint. */
typedef struct {
    int size;
    char bytes[PM_CARD_MAX];
} card_t;

/* The cards of a host on their way: one after the other, sizes before bytes. */
typedef struct {
    int complete;
    char cards[];
} batch_t;

/* Each rank asks the process manager for each card: for when the ranks of a host share no file. */
static int exchange_by_all(const card_t * mine, card_t ** all, const void **cards, size_t * sizes)
{
    int mpi_errno = MPI_SUCCESS;

    *all = MPL_calloc(MPIR_Process.size, sizeof **all, MPL_MEM_ADDRESS);
    MPIR_ERR_CHKANDJUMP(*all == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    /* Cards are much shorter than they may be. */
    mpi_errno = MPIR_pmi_allgather(mine, (int) sizeof mine->size + mine->size, *all, sizeof **all, MPIR_PMI_DOMAIN_ALL);
    MPIR_ERR_CHECK(mpi_errno);
    for (int rank = 0; rank < MPIR_Process.size; rank++) {
        cards[rank] = (*all)[rank].bytes;
        sizes[rank] = (*all)[rank].size;
    }

  fn_fail:
    return mpi_errno;
}

/* What is in the file of this host, and whether it is all of the ranks of `node`, or of all nodes (-1). */
static int read_host(int node, const void **cards, size_t * sizes, int *complete)
{
    int mpi_errno = MPI_SUCCESS;

    *complete = host != NULL;
    if (host == NULL)
        return MPI_SUCCESS;
    if (pm_host_cards(host, cards, sizes) != PM_OK)
        MPIDI_COMPOSITE_FAIL(mpi_errno);
    for (int rank = 0; rank < MPIR_Process.size; rank++)
        if ((node < 0 || MPIR_Process.node_map[rank] == node) && cards[rank] == NULL)
            *complete = 0;

  fn_fail:
    return mpi_errno;
}

/* One rank of each host tells the others of its kind the cards of its host, and its host those of the others. A host whose ranks share
 * no file says so; nobody's file is complete then. */
static int exchange_by_hosts(const void **cards, size_t * sizes)
{
    int mpi_errno = MPI_SUCCESS;
    int node = MPIR_Process.node_map[MPIR_Process.rank], size = sizeof(batch_t), most = 0, complete;
    int *ranks = MPL_calloc(MPIR_Process.num_nodes, sizeof *ranks, MPL_MEM_ADDRESS);
    char **next = MPL_calloc(MPIR_Process.num_nodes, sizeof *next, MPL_MEM_ADDRESS);
    batch_t *mine = NULL;
    char *all = NULL;

    if (!is_node_root()) {
        mpi_errno = MPIR_pmi_allgather(NULL, 0, NULL, 0, MPIR_PMI_DOMAIN_NODE_ROOTS);
        goto fn_exit;
    }
    MPIR_ERR_CHKANDJUMP(ranks == NULL || next == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (int rank = 0; rank < MPIR_Process.size; rank++)
        most = MPL_MAX(most, ++ranks[MPIR_Process.node_map[rank]]);
    size_t room = sizeof *mine + most * sizeof(card_t);
    mine = MPL_malloc(room, MPL_MEM_ADDRESS);
    all = MPL_malloc(room * MPIR_Process.num_nodes, MPL_MEM_ADDRESS);
    MPIR_ERR_CHKANDJUMP(mine == NULL || all == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = read_host(node, cards, sizes, &mine->complete);
    MPIR_ERR_CHECK(mpi_errno);
    for (int rank = 0; mine->complete && rank < MPIR_Process.size; rank++)
        if (MPIR_Process.node_map[rank] == node) {
            int bytes = (int) sizes[rank];
            memcpy((char *) mine + size, &bytes, sizeof bytes);
            memcpy((char *) mine + size + sizeof bytes, cards[rank], bytes);
            size += (int) sizeof bytes + bytes;
        }
    mpi_errno = MPIR_pmi_allgather(mine, size, all, (int) room, MPIR_PMI_DOMAIN_NODE_ROOTS);
    MPIR_ERR_CHECK(mpi_errno);
    complete = 1;
    for (int i = 0; i < MPIR_Process.num_nodes; i++) {
        batch_t *batch = (batch_t *) (all + i * room);
        complete &= batch->complete;
        next[i] = batch->cards;
    }
    for (int rank = 0; complete && rank < MPIR_Process.size; rank++) {
        int bytes, from = MPIR_Process.node_map[rank];
        memcpy(&bytes, next[from], sizeof bytes);
        if (from != node && pm_host_put(host, rank, next[from] + sizeof bytes, bytes) != PM_OK)
            MPIDI_COMPOSITE_FAIL(mpi_errno);
        next[from] += sizeof bytes + bytes;
    }

  fn_exit:
    MPL_free(ranks);
    MPL_free(next);
    MPL_free(mine);
    MPL_free(all);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* All cards of the job, by rank. They are in *all, or in the file of the host. The process manager is asked n times by n ranks only
 * where there is no other way. */
static int exchange_cards(card_t ** all, const void **cards, size_t * sizes)
{
    int mpi_errno = MPI_SUCCESS, complete;
    card_t *mine = MPL_malloc(sizeof *mine, MPL_MEM_ADDRESS);

    MPIR_ERR_CHKANDJUMP(mine == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mine->size = (int) (trouble == NULL ? pm_card(MPIDI_COMPOSITE_global.core, mine->bytes) : pm_complaint(trouble, mine->bytes));
    if (MPIR_Process.size == 1) {
        *all = mine;
        cards[0] = mine->bytes;
        sizes[0] = mine->size;
        return MPI_SUCCESS;
    }
    if (MPIR_Process.num_nodes == MPIR_Process.size) {
        mpi_errno = exchange_by_all(mine, all, cards, sizes);
        goto fn_exit;
    }
    /* A card that is not there says that this rank shares no file, or could not write. */
    if (host != NULL)
        pm_host_put(host, MPIR_Process.rank, mine->bytes, mine->size);
    mpi_errno = MPIR_pmi_barrier();
    MPIR_ERR_CHECK(mpi_errno);
    if (MPIR_Process.num_nodes > 1) {
        mpi_errno = exchange_by_hosts(cards, sizes);
        MPIR_ERR_CHECK(mpi_errno);
        mpi_errno = MPIR_pmi_barrier();
        MPIR_ERR_CHECK(mpi_errno);
    }
    mpi_errno = read_host(-1, cards, sizes, &complete);
    MPIR_ERR_CHECK(mpi_errno);
    if (!complete)
        mpi_errno = exchange_by_all(mine, all, cards, sizes);

  fn_exit:
    MPL_free(mine);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

/* No rank can start, as all of them know: rank 0 says why, and the job ends. Not as an error, which MPICH would have every rank tell with all its
 * places; within MPI_Init there is no handler of errors that a program could have set. */
static void end_job(const char *lines)
{
    if (MPIR_Process.rank == 0)
        fputs(lines, stderr);
    fflush(stdout);
    fflush(stderr);
    MPIR_pmi_barrier();         /* nobody leaves before it is said */
    if (MPIR_Process.size > 1)  /* one that was started by itself has nobody to tell */
        MPIR_pmi_abort(MPI_ERR_OTHER, "a job that cannot start");
    MPL_exit(MPI_ERR_OTHER);
}

/* Goes on only where all ranks have a card, and those give every two of them a route. */
static void check_job(const void **cards, const size_t * sizes)
{
    char *complaints = pm_complaints(cards, sizes, MPIR_Process.size);
    char line[2000];

    if (complaints != NULL)
        end_job(complaints);
    if (pm_check_job(MPIDI_COMPOSITE_global.core, cards, sizes, MPIR_Process.size) == PM_OK)
        return;
    snprintf(line, sizeof line, "composite: the job cannot start: %s\n", pm_error_text());
    end_job(line);
}

int MPIDI_COMPOSITE_init_world(void)
{
    int mpi_errno = MPI_SUCCESS;
    card_t *all = NULL;
    const void **cards = MPL_malloc(MPIR_Process.size * sizeof *cards, MPL_MEM_ADDRESS);
    size_t *sizes = MPL_malloc(MPIR_Process.size * sizeof *sizes, MPL_MEM_ADDRESS);

    MPIR_ERR_CHKANDJUMP(cards == NULL || sizes == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = exchange_cards(&all, cards, sizes);
    MPIR_ERR_CHECK(mpi_errno);
    check_job(cards, sizes);
    if (strcmp(MPIR_CVAR_CH4_COMPOSITE_PRIORITY, "measure") == 0) {
        mpi_errno = MPIDI_COMPOSITE_measure(cards, sizes);
        MPIR_ERR_CHECK(mpi_errno);
    }
    for (int rank = 0; rank < MPIR_Process.size; rank++) {
        pm_peer *peer = pm_connect(MPIDI_COMPOSITE_global.core, cards[rank], sizes[rank]);
        if (peer == NULL)
            MPIDI_COMPOSITE_FAIL(mpi_errno);
        MPIDI_COMPOSITE_AV(&MPIDIU_get_av(0, rank)).peer = peer;
    }
    /* What follows from the number of ranks and cores is found out now, while nobody else is connected; and
     * which hosts are a cluster, while there is one thread. */
    pm_crowded(MPIDI_COMPOSITE_global.core);
    pm_clusters(MPIDI_COMPOSITE_global.core);
    if (MPIDI_COMPOSITE_routes_at_init() && MPIR_Process.rank == 0) {
        mpi_errno = MPIDI_COMPOSITE_print_plan(cards, sizes);
        MPIR_ERR_CHECK(mpi_errno);
    }

  fn_exit:
    pm_host_leave(host);
    host = NULL;
    MPL_free(all);
    MPL_free(cards);
    MPL_free(sizes);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPIDI_COMPOSITE_post_init(void)
{
    if (MPIR_ThreadInfo.thread_provided == MPI_THREAD_MULTIPLE)
        pm_allow_threads(MPIDI_COMPOSITE_global.core);
    MPIDI_COMPOSITE_register_pvars();
    MPIDI_COMPOSITE_profile_start();
    MPIDI_COMPOSITE_why_runs();
    return MPI_SUCCESS;
}

/* Somebody may not have heard that we got its last message, and ask again: while we wait for all others in PMI, which blocks, our
 * answers must go on. So a thread waits. */
typedef struct {
    MPL_atomic_int_t done;
    int mpi_errno;
} linger_t;
#define FAREWELL_STEP 1000      /* microseconds */
#define FAREWELL_STEPS 5000

static void *wait_for_all(void *context)
{
    linger_t *linger = context;

    linger->mpi_errno = MPIR_pmi_barrier();
    MPL_atomic_release_store_int(&linger->done, 1);
    return NULL;
}

static int barrier_with_progress(void)
{
    static linger_t linger;
    pthread_t thread;
    int created, naps = 0;

    /* Others may also wait for what a multicast owes them. */
    if (!pm_must_linger(MPIDI_COMPOSITE_global.core) && !pm_mcast_owes())
        return MPIR_pmi_barrier();
    MPL_atomic_store_int(&linger.done, 0);
    linger.mpi_errno = MPI_SUCCESS;
    created = pthread_create(&thread, NULL, wait_for_all, &linger);
    if (created != 0)
        return MPIR_pmi_barrier();
    while (!MPL_atomic_acquire_load_int(&linger.done)) {
        pm_coll_poll();
        if (pm_progress(MPIDI_COMPOSITE_global.core) < 0) {
            /* Whoever has heard first that all are here has left. */
            usleep(FAREWELL_STEP);
            if (++naps > FAREWELL_STEPS) {
                pthread_detach(thread);
                return MPIDI_COMPOSITE_lost();
            }
        } else if (pm_wait_step(MPIDI_COMPOSITE_global.core)) {
            if (pm_wait_arm(MPIDI_COMPOSITE_global.core))
                pm_wait_sleep(MPIDI_COMPOSITE_global.core, 1);
            pm_wait_disarm(MPIDI_COMPOSITE_global.core);
        }
    }
    pthread_join(thread, NULL);
    return linger.mpi_errno;
}

/* All that this rank owes others, and others owe it. */
static int part_from_others(void)
{
    int mpi_errno = MPI_SUCCESS;

    mpi_errno = MPIDI_COMPOSITE_send_routes();
    MPIR_ERR_CHECK(mpi_errno);
    while (pm_sends_queued(MPIDI_COMPOSITE_global.core)) {
        pm_coll_poll();
        if (pm_progress(MPIDI_COMPOSITE_global.core) < 0)
            MPIDI_COMPOSITE_FAIL(mpi_errno);
        if (pm_sends_queued(MPIDI_COMPOSITE_global.core))
            MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    /* Until everybody is here, somebody may still want to send to us. */
    mpi_errno = barrier_with_progress();
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIDI_COMPOSITE_report();
    MPIR_ERR_CHECK(mpi_errno);

  fn_fail:
    return mpi_errno;
}

/* Of this job, on this host, without MPI_Finalize: a call has failed for it. One that does not answer may still come. */
static bool one_has_died(void)
{
    bool died = false;

    for (int rank = 0; MPIDI_COMPOSITE_has_lost() && rank < MPIR_Process.size && !died; rank++)
        died = rank != MPIR_Process.rank && pm_has_ended(MPIDI_COMPOSITE_AV(&MPIDIU_get_av(0, rank)).peer);
    return died;
}

int MPIDI_COMPOSITE_mpi_finalize_hook(void)
{
    int mpi_errno = MPI_SUCCESS;

    /* A program that goes on after a peer has died may end, too: that one never comes to where all wait for each other. */
    if (!one_has_died()) {
        mpi_errno = part_from_others();
        MPIR_ERR_CHECK(mpi_errno);
    }
    MPIDI_COMPOSITE_dynamic_finalize();
    pm_mcast_close();
    pm_barrier_close();
    pm_windows_close();
    pm_am_close();
    MPIDI_COMPOSITE_started_finalize();
    MPIDI_COMPOSITE_team_finalize();
    MPIDI_COMPOSITE_coll_finalize();
    pm_close(MPIDI_COMPOSITE_global.core);
    MPIDI_COMPOSITE_global.core = NULL;
    MPIDI_COMPOSITE_forget_queued();
    MPIDI_COMPOSITE_partitions_forget();
    MPIDI_COMPOSITE_why_over();

  fn_fail:
    return mpi_errno;
}
