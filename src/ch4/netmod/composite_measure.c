/* Which network is the quickest: the core tries them out (core/measuring.cc), and all ranks are told what came of it. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_measure.h"
#include "netmod/core/setup.h"

int MPIDI_COMPOSITE_measure(const void *const *cards, const size_t * sizes)
{
    int mpi_errno = MPI_SUCCESS;
    pm_trial trials[PM_NETWORKS_MAX];
    double mine[PM_NETWORKS_MAX], times[PM_NETWORKS_MAX], (*all)[PM_NETWORKS_MAX] = NULL;
    int count = pm_trials(MPIDI_COMPOSITE_global.core, cards, sizes, MPIR_Process.size, trials);

    if (count == 0)
        return MPI_SUCCESS;
    memset(mine, 0, sizeof mine);
    for (int i = 0; i < count; i++)
        mine[i] = pm_try_out(MPIDI_COMPOSITE_global.core, trials, i, MPIR_Process.rank, cards, sizes);
    all = MPL_malloc(MPIR_Process.size * sizeof mine, MPL_MEM_OTHER);
    MPIR_ERR_CHKANDJUMP(all == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = MPIR_pmi_allgather(mine, count * sizeof *mine, all, sizeof mine, MPIR_PMI_DOMAIN_ALL);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 0; i < count; i++)
        times[i] = all[trials[i].first][i];
    pm_set_priorities(MPIDI_COMPOSITE_global.core, trials, times, count);

  fn_exit:
    MPL_free(all);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}
