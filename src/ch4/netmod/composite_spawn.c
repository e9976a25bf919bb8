/* Processes that meet at run time: their cards, and the greeting they exchange before a communicator exists. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_am.h"
#include "composite_decode.h"
#include "composite_handlers.h"
#include "netmod/core/setup.h"
#include <errno.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

typedef MPIDI_COMPOSITE_greeting_t greeting_header_t;

static MPIDI_COMPOSITE_greetings_t greetings;

/* What this thread has asked, and asks again as long as it is not answered: there may have been no room for it. */
static MPL_TLS struct {
    int table;                  /* of addresses: held while it is not answered; 0: none */
    pm_peer *peer;
    size_t size;
    char *message;
} asked;

/* The table goes with it, unless there was an answer: then a communicator will hold it. Where there are threads, another one may be about to use it:
 * then it stays. */
static void forget_asked(bool answered)
{
    int in_use;

    if (asked.table && (answered || MPIR_ThreadInfo.isThreaded))
        MPIR_Object_release_ref(MPIDIU_get_av_table(asked.table), &in_use);
    else if (asked.table)
        MPIDIU_avt_release_ref(asked.table);
    asked.table = 0;
    MPL_free(asked.message);
    asked.message = NULL;
    asked.size = 0;
}

static bool greeting_arrived(const pm_envelope * envelope)
{
    greeting_header_t header;

    return MPIDI_COMPOSITE_read_greeting(envelope->header, envelope->header_size, &header) &&
        MPIDI_COMPOSITE_add_greeting(&greetings, &header, (char *) envelope->header + sizeof header);
}

/* The first one of a process comes from a stranger. */
void MPIDI_COMPOSITE_dynamic_init(void)
{
    MPIDI_COMPOSITE_global.handler_dynamic = MPIDI_COMPOSITE_handle("greeting", greeting_arrived, sizeof(greeting_header_t), true);
}

void MPIDI_COMPOSITE_dynamic_finalize(void)
{
    MPIDI_COMPOSITE_forget_greetings(&greetings);
}

static int send_greeting(pm_peer * peer, const char *message, size_t size)
{
    int mpi_errno = MPI_SUCCESS, sent;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    sent = pm_send(peer, MPIDI_COMPOSITE_global.handler_dynamic, message, size, NULL, 0, NULL);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if (sent == PM_FAILED)
        MPIDI_COMPOSITE_FAIL(mpi_errno);

  fn_fail:
    return mpi_errno;
}

/* A context id alone is the answer to a greeting; what has a card besides is one. */
int MPIDI_COMPOSITE_dynamic_send(uint64_t remote_gpid, int tag, const void *buf, int size, int timeout)
{
    MPIDI_av_entry_t *av = &MPIDIU_get_av(MPIDIU_GPID_GET_AVTID(remote_gpid), MPIDIU_GPID_GET_LPID(remote_gpid));
    greeting_header_t header = { tag, size, 0 };
    bool is_answer = size == sizeof(MPIR_Context_id_t);
    int mpi_errno = MPI_SUCCESS;

    forget_asked(false);
    asked.table = (int) MPIDIU_GPID_GET_AVTID(remote_gpid);
    if (asked.table)
        MPIDIU_avt_add_ref(asked.table);
    asked.message = MPL_malloc(sizeof header + size, MPL_MEM_OTHER);
    MPIR_ERR_CHKANDJUMP(!asked.message, mpi_errno, MPI_ERR_OTHER, "**nomem");
    while (!is_answer && header.number == 0)
        if (getrandom(&header.number, sizeof header.number, 0) != sizeof header.number)
            break;
    memcpy(asked.message, &header, sizeof header);
    memcpy(asked.message + sizeof header, buf, size);
    asked.peer = MPIDI_COMPOSITE_AV(av).peer;
    asked.size = header.number != 0 ? sizeof header + size : 0;
    mpi_errno = send_greeting(asked.peer, asked.message, sizeof header + size);
    if (asked.size == 0 && mpi_errno == MPI_SUCCESS)
        forget_asked(true);

  fn_fail:
    if (mpi_errno)
        forget_asked(false);
    return mpi_errno;
}

int MPIDI_COMPOSITE_dynamic_recv(int tag, void *buf, int size, int timeout)
{
    int mpi_errno = MPI_SUCCESS;
    MPL_time_t start, now;
    double seconds = 0, again_at = 1;
    bool taken;

    MPL_wtime(&start);
    while (true) {
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
        taken = MPIDI_COMPOSITE_take_greeting(&greetings, tag, buf, size);
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
        if (taken)
            break;
        MPL_wtime(&now);
        MPL_wtime_diff(&start, &now, &seconds);
        MPIR_ERR_CHKANDJUMP(timeout > 0 && seconds > timeout, mpi_errno, MPI_ERR_PORT, "**composite_timeout");
        if (asked.size > 0 && seconds >= again_at) {
            again_at = seconds + 1;
            mpi_errno = send_greeting(asked.peer, asked.message, asked.size);
            MPIR_ERR_CHECK(mpi_errno);
        }
        mpi_errno = MPID_Progress_test(NULL);
        MPIR_ERR_CHECK(mpi_errno);
        MPIDI_COMPOSITE_WAIT_MESSAGE();
    }

  fn_fail:
    forget_asked(mpi_errno == MPI_SUCCESS);
    return mpi_errno;
}

int MPIDI_COMPOSITE_get_cards(MPIR_Comm * comm, int **sizes, char **cards)
{
    int mpi_errno = MPI_SUCCESS;
    char *next;

    *sizes = MPL_malloc(comm->local_size * sizeof(int), MPL_MEM_ADDRESS);
    *cards = next = MPL_malloc(comm->local_size * PM_CARD_MAX, MPL_MEM_ADDRESS);
    MPIR_ERR_CHKANDJUMP(*sizes == NULL || next == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (int rank = 0; rank < comm->local_size; rank++) {
        (*sizes)[rank] = (int) pm_peer_card(MPIDI_COMPOSITE_peer(comm, rank), next);
        next += (*sizes)[rank];
    }

  fn_exit:
    return mpi_errno;
  fn_fail:
    MPL_free(*sizes);
    MPL_free(*cards);
    *sizes = NULL;
    *cards = NULL;
    goto fn_exit;
}

/* MPICH asks for what is in the name of a port, which is short: our own. Groups that meet exchange whole cards (composite_mended.h). */
int MPIDI_COMPOSITE_get_local_upids(MPIR_Comm * comm, int **local_upid_size, char **local_upids)
{
    int mpi_errno = MPI_SUCCESS;

    MPIR_Assert(comm == MPIR_Process.comm_self);
    mpi_errno = MPIDI_COMPOSITE_get_cards(comm, local_upid_size, local_upids);
    if (mpi_errno == MPI_SUCCESS)
        **local_upid_size = (int) pm_short_card(MPIDI_COMPOSITE_global.core, *local_upids);
    return mpi_errno;
}

static bool find_gpid(const pm_peer * peer, uint64_t * gpid)
{
    for (int table = 0; table < MPIDIU_get_n_avts(); table++) {
        if (MPIDIU_get_av_table(table) == NULL)
            continue;
        for (int entry = 0; entry < MPIDIU_get_av_table(table)->size; entry++) {
            if (MPIDI_COMPOSITE_AV(&MPIDIU_get_av(table, entry)).peer == peer) {
                *gpid = MPIDIU_GPID_CREATE(table, entry);
                return true;
            }
        }
    }
    return false;
}

int MPIDI_COMPOSITE_upids_to_gpids(int size, int *remote_upid_size, char *remote_upids, uint64_t * remote_gpids)
{
    int mpi_errno = MPI_SUCCESS;
    int added = 0, table;
    int *ranks_added = MPL_malloc(size * sizeof(int), MPL_MEM_ADDRESS);
    pm_peer **peers = MPL_malloc(size * sizeof(pm_peer *), MPL_MEM_ADDRESS);

    MPIR_ERR_CHKANDJUMP(ranks_added == NULL || peers == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (int rank = 0; rank < size; rank++) {
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
        peers[rank] = pm_connect(MPIDI_COMPOSITE_global.core, remote_upids, remote_upid_size[rank]);
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
        if (peers[rank] == NULL)
            MPIDI_COMPOSITE_FAIL(mpi_errno);
        if (!find_gpid(peers[rank], &remote_gpids[rank])) {
            ranks_added[added++] = rank;
        } else {
            /* It is counted once for each table that it is in. */
            MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
            pm_release(peers[rank]);
            MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
        }
        remote_upids += remote_upid_size[rank];
    }
    if (added > 0) {
        mpi_errno = MPIDIU_new_avt(added, &table);
        MPIR_ERR_CHECK(mpi_errno);
        for (int entry = 0; entry < added; entry++) {
            MPIDI_COMPOSITE_AV(&MPIDIU_get_av(table, entry)).peer = peers[ranks_added[entry]];
            remote_gpids[ranks_added[entry]] = MPIDIU_GPID_CREATE(table, entry);
        }
    }

  fn_exit:
    MPL_free(ranks_added);
    MPL_free(peers);
    return mpi_errno;
  fn_fail:
    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    while (added > 0)
        pm_release(peers[ranks_added[--added]]);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    goto fn_exit;
}

/* A table of addresses is freed with the last communicator that uses it. That of MPI_COMM_WORLD stays until the end. */
void MPIDI_COMPOSITE_av_table_freed(int table)
{
    if (table == 0 || MPIDI_COMPOSITE_global.core == NULL)      /* a core that is closed has forgotten its peers */
        return;
    /* A request that is freed may be the last to hold the communicator, and then the lock is held. */
    MPID_THREAD_CS_ENTER_REC_VCI(MPIDI_VCI(0).lock);
    for (int entry = 0; entry < MPIDIU_get_av_table(table)->size; entry++)
        if (MPIDI_COMPOSITE_AV(&MPIDIU_get_av(table, entry)).peer)
            pm_release(MPIDI_COMPOSITE_AV(&MPIDIU_get_av(table, entry)).peer);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
}

/* What the process manager said about the last spawn that it refused; with \x1f for blanks. At least as long as PMI's lines. */
char MPIDI_COMPOSITE_spawn_said[1024];

/* Asked before the process manager is, about what would never be answered. Whether there is such a reason, which is kept. */
int MPIDI_COMPOSITE_cannot_spawn(void)
{
    char *said = MPIDI_COMPOSITE_spawn_said;

    said[0] = 0;
    if (!getenv("PMI_FD") && !getenv("PMI_PORT"))
        strcpy(said, "a program that was started without mpiexec has no process manager; start it with mpiexec -n 1");
    /* Slurm's own variable, and one that Hydra sets, which may itself run in a step. */
    else if (getenv("PMI_JOBID") && !getenv("MPI_LOCALNRANKS") && getenv("SLURM_STEP_ID") && !getenv("SLURM_OVERLAP"))
        strcpy(said, "with srun as the process manager, new processes are a step of the job that waits until this one gives its "
               "processors back; start the program with mpiexec in an allocation (salloc, sbatch), or set SLURM_OVERLAP=1 for srun");
    return said[0] != 0;
}

/* The answer comes when the new processes are through MPI_Init: others must not wait so long for what we owe them. */
void MPIDI_COMPOSITE_await_reply(int fd)
{
    struct pollfd reply = { fd, POLLIN, 0 };
    int ready;

    while ((ready = poll(&reply, 1, 1 /* ms */)) == 0 || (ready < 0 && errno == EINTR))
        MPID_Progress_test(NULL);
}

/* Called by all ranks when their root was refused: the same error on each of them, after which all goes on as before. */
int MPIDI_COMPOSITE_spawn_failed(int root, MPIR_Comm * comm, const char *port, int processes, int errcodes[])
{
    int mpi_errno = MPI_SUCCESS;
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;
    char *said = MPIDI_COMPOSITE_spawn_said;

    if (comm->rank == root) {
        for (char *c = said; *c; c++)
            if (*c == '\x1f')
                *c = ' ';
        if (said[0] == 0)
            strcpy(said, "the process manager refused it without a reason");
        if (port[0])
            MPID_Close_port(port);
    }
    if (errcodes != MPI_ERRCODES_IGNORE)
        for (int i = 0; i < processes; i++)
            errcodes[i] = MPI_ERR_SPAWN;
    mpi_errno = MPIR_Bcast(said, sizeof MPIDI_COMPOSITE_spawn_said, MPI_CHAR, root, comm, &errflag);
    MPIR_ERR_CHECK(mpi_errno);
    MPIR_ERR_SET1(mpi_errno, MPI_ERR_SPAWN, "**composite_spawn", "**composite_spawn %s", said);

  fn_fail:
    return mpi_errno;
}
