/* Start, address exchange, end and report. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_coll_life.h"

int MPIDI_COMPOSITE_init_local(int *tag_bits)
{
    int mpi_errno = MPI_SUCCESS;
    pm_setup setup;

    memset(&setup, 0, sizeof setup);
    setup.devices = MPIR_CVAR_CH4_COMPOSITE_DEVICES;
    setup.wait = MPIR_CVAR_CH4_COMPOSITE_WAIT;
    setup.rendezvous = MPIR_CVAR_CH4_COMPOSITE_SHMEM_RNDV;
    setup.shmem_backing = MPIR_CVAR_CH4_COMPOSITE_SHMEM_BACKING;
    setup.ranks_on_host = MPIR_Process.local_size;
    setup.arrived = MPIDI_COMPOSITE_arrived;
    setup.more = MPIDI_COMPOSITE_more;
    setup.sent = MPIDI_COMPOSITE_sent;
    if (pm_open(&setup) != PM_OK)
        MPIDI_COMPOSITE_FAIL(mpi_errno);

    *tag_bits = MPIR_TAG_BITS_DEFAULT;
    MPIDIG_am_rndv_reg_cb(MPIDI_COMPOSITE_RNDV_PULL, MPIDI_COMPOSITE_pull_matched);
    MPIDI_COMPOSITE_global.handler_pulled = MPIDIG_am_reg_cb_dynamic(NULL, MPIDI_COMPOSITE_pulled);
    MPIDI_COMPOSITE_global.handler_dynamic = MPIDIG_am_reg_cb_dynamic(NULL, MPIDI_COMPOSITE_dynamic_arrived);
    MPIDI_COMPOSITE_coll_init();
    MPIR_Assert(MPIDI_COMPOSITE_global.handler_pulled >= 0 && MPIDI_COMPOSITE_global.handler_dynamic >= 0);

  fn_fail:
    return mpi_errno;
}

int MPIDI_COMPOSITE_init_world(void)
{
    int mpi_errno = MPI_SUCCESS;
    struct {
        int size;
        char bytes[PM_CARD_MAX];
    } card, *cards = NULL;

    memset(&card, 0, sizeof card);
    card.size = (int) pm_card(card.bytes);
    cards = MPL_calloc(MPIR_Process.size, sizeof card, MPL_MEM_ADDRESS);
    MPIR_ERR_CHKANDJUMP(cards == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    if (MPIR_Process.size == 1) {
        cards[0] = card;
    } else {
        mpi_errno = MPIR_pmi_allgather(&card, sizeof card, cards, sizeof card, MPIR_PMI_DOMAIN_ALL);
        MPIR_ERR_CHECK(mpi_errno);
    }
    for (int rank = 0; rank < MPIR_Process.size; rank++) {
        pm_peer *peer = pm_connect(cards[rank].bytes, cards[rank].size);
        if (peer == NULL)
            MPIDI_COMPOSITE_FAIL(mpi_errno);
        MPIDI_COMPOSITE_AV(&MPIDIU_get_av(0, rank)).peer = peer;
    }

  fn_exit:
    MPL_free(cards);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPIDI_COMPOSITE_post_init(void)
{
    return MPI_SUCCESS;
}

static int report(void)
{
    int mpi_errno = MPI_SUCCESS;
    pm_traffic mine, *all = NULL, sum;

    pm_get_traffic(&mine);
    all = MPL_calloc(MPIR_Process.size, sizeof mine, MPL_MEM_OTHER);
    MPIR_ERR_CHKANDJUMP(all == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    if (MPIR_Process.size == 1) {
        all[0] = mine;
    } else {
        mpi_errno = MPIR_pmi_allgather(&mine, sizeof mine, all, sizeof mine, MPIR_PMI_DOMAIN_ALL);
        MPIR_ERR_CHECK(mpi_errno);
    }
    if (MPIR_Process.rank != 0)
        goto fn_exit;
    memset(&sum, 0, sizeof sum);
    for (int rank = 0; rank < MPIR_Process.size; rank++) {
        sum.messages_sent += all[rank].messages_sent;
        sum.bytes_sent += all[rank].bytes_sent;
        sum.pulls += all[rank].pulls;
        sum.bytes_pulled += all[rank].bytes_pulled;
        sum.memory += all[rank].memory;
    }
    printf("composite: %d ranks; device %s carried %llu messages, %llu bytes streamed, %llu bytes pulled by CMA in %llu "
           "messages; %llu KiB of shared memory\n", MPIR_Process.size, mine.device,
           (unsigned long long) sum.messages_sent, (unsigned long long) sum.bytes_sent,
           (unsigned long long) sum.bytes_pulled, (unsigned long long) sum.pulls, (unsigned long long) sum.memory / 1024);
    fflush(stdout);

  fn_exit:
    MPL_free(all);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPIDI_COMPOSITE_mpi_finalize_hook(void)
{
    int mpi_errno = MPI_SUCCESS;

    mpi_errno = MPIDI_COMPOSITE_coll_finalize();
    MPIR_ERR_CHECK(mpi_errno);
    while (pm_sends_queued()) {
        if (pm_progress() < 0)
            MPIDI_COMPOSITE_FAIL(mpi_errno);
        MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    if (MPIR_CVAR_CH4_COMPOSITE_REPORT) {
        mpi_errno = report();
        MPIR_ERR_CHECK(mpi_errno);
    }
    /* Until everybody is here, somebody may still want to send its first message to us. */
    mpi_errno = MPIR_pmi_barrier();
    MPIR_ERR_CHECK(mpi_errno);
    MPIDI_COMPOSITE_dynamic_finalize();
    pm_close();

  fn_fail:
    return mpi_errno;
}
