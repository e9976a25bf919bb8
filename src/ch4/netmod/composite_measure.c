/* Which network is the quickest: two ranks of each send a few messages to and fro, and all learn the outcome. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_handlers.h"
#include "composite_measure.h"
#include "netmod/core/setup.h"

#define ROUNDS 20
#define TIME_LIMIT 2.0          /* seconds for a network; one that takes longer is the slowest */
#define HIGHEST_PRIORITY 1000

typedef struct {
    uint64_t network;
    int number;
} ping_t;

/* The last one that arrived over each network: those of a later trial may come early. */
static ping_t last[PM_NETWORKS_MAX];

static ping_t *last_of(uint64_t network)
{
    int i = 0;

    while (i < PM_NETWORKS_MAX - 1 && last[i].number != 0 && last[i].network != network)
        i++;
    last[i].network = network;
    return &last[i];
}

static int ping_arrived(void *am_hdr, void *data, MPI_Aint data_sz, uint32_t attr, MPIR_Request ** req)
{
    ping_t ping;

    memcpy(&ping, am_hdr, sizeof ping);
    *last_of(ping.network) = ping;
    return MPI_SUCCESS;
}

/* Nobody is connected yet. */
void MPIDI_COMPOSITE_measure_init(void)
{
    MPIDI_COMPOSITE_global.handler_ping = MPIDI_COMPOSITE_register("ping", ping_arrived, sizeof(ping_t), true);
}

static bool out_of_time(MPL_time_t start)
{
    MPL_time_t now;
    double seconds;

    MPL_wtime(&now);
    MPL_wtime_diff(&start, &now, &seconds);
    return seconds > TIME_LIMIT;
}

static bool wait_for(uint64_t network, int number, MPL_time_t start)
{
    while (last_of(network)->number != number)
        if (pm_progress() < 0 || out_of_time(start))
            return false;
    return true;
}

static bool send_ping(pm_peer * peer, uint64_t network, int number)
{
    ping_t ping = { network, number };

    return pm_send(peer, MPIDI_COMPOSITE_global.handler_ping, &ping, sizeof ping, NULL, 0, NULL) != PM_FAILED;
}

/* The shortest round trip in seconds; TIME_LIMIT when there was none. The numbers of pings are odd, those of answers even. */
static double try_out(const pm_trial * trial, const void *const *cards, const size_t * sizes)
{
    bool first = MPIR_Process.rank == trial->first;
    int other = first ? trial->second : trial->first;
    pm_peer *peer = pm_connect_over(trial->network, cards[other], sizes[other]);
    double best = TIME_LIMIT;
    MPL_time_t start;

    if (peer == NULL)
        return best;
    MPL_wtime(&start);
    for (int round = 0; round < ROUNDS; round++) {
        MPL_time_t begin, end;
        double seconds;
        bool done;
        MPL_wtime(&begin);
        if (first)
            done = send_ping(peer, trial->network, 2 * round + 1) && wait_for(trial->network, 2 * round + 2, start);
        else
            done = wait_for(trial->network, 2 * round + 1, start) && send_ping(peer, trial->network, 2 * round + 2);
        if (!done)
            return TIME_LIMIT;
        MPL_wtime(&end);
        MPL_wtime_diff(&begin, &end, &seconds);
        best = MPL_MIN(best, seconds);
    }
    /* The last answer leaves by itself only when somebody cares for it. */
    while (pm_sends_queued() && !out_of_time(start) && pm_progress() >= 0);
    return best;
}

/* Networks by their time, the quickest first. */
static void set_priorities(const pm_trial * trials, const double *times, int count)
{
    for (int i = 0; i < count; i++) {
        int quicker = 0;
        for (int k = 0; k < count; k++)
            quicker += times[k] < times[i] || (times[k] == times[i] && k < i);
        pm_set_priority(trials[i].network, HIGHEST_PRIORITY - quicker);
    }
}

int MPIDI_COMPOSITE_measure(const void *const *cards, const size_t * sizes)
{
    int mpi_errno = MPI_SUCCESS;
    pm_trial trials[PM_NETWORKS_MAX];
    double mine[PM_NETWORKS_MAX], times[PM_NETWORKS_MAX], (*all)[PM_NETWORKS_MAX] = NULL;
    int count = pm_trials(cards, sizes, MPIR_Process.size, trials);

    if (count == 0)
        return MPI_SUCCESS;
    memset(mine, 0, sizeof mine);
    for (int i = 0; i < count; i++)
        if (MPIR_Process.rank == trials[i].first || MPIR_Process.rank == trials[i].second)
            mine[i] = try_out(&trials[i], cards, sizes);
    all = MPL_malloc(MPIR_Process.size * sizeof mine, MPL_MEM_OTHER);
    MPIR_ERR_CHKANDJUMP(all == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = MPIR_pmi_allgather(mine, count * sizeof *mine, all, sizeof mine, MPIR_PMI_DOMAIN_ALL);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 0; i < count; i++)
        times[i] = all[trials[i].first][i];
    set_priorities(trials, times, count);

  fn_exit:
    MPL_free(all);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
