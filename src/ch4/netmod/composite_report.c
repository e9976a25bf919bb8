/* What the user is told: the table of routes, and what each device carried. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_decode.h"
#include "composite_handlers.h"
#include "composite_report.h"
#include "coll/progress.h"
#include "netmod/core/setup.h"

#define PIECE_SIZE 900

typedef MPIDI_COMPOSITE_piece_t piece_header_t;

/* What ranks have told so far; on rank 0, when there is something to tell. */
static MPIDI_COMPOSITE_description_t *descriptions;

static bool has_ending(const char *name, const char *ending)
{
    size_t length = strlen(name), end = strlen(ending);

    return length > end && strcmp(name + length - end, ending) == 0;
}

/* MPI_T_finalize() takes the texts of CVARs away. */
static char *routes_setting;
static struct timespec started_at;
static pm_run run;

void MPIDI_COMPOSITE_report_init(void)
{
    routes_setting = MPL_strdup(MPIR_CVAR_CH4_COMPOSITE_ROUTES);
    run.started = time(NULL);
    clock_gettime(CLOCK_MONOTONIC, &started_at);
}

bool MPIDI_COMPOSITE_routes_at_init(void)
{
    return strcmp(routes_setting, "init") == 0;
}

/* NULL when nothing is wanted at the end; `*file` is NULL for standard output. */
static const char *format_at_end(const char **file)
{
    const char *setting = routes_setting;

    *file = NULL;
    if (strcmp(setting, "text") == 0 || strcmp(setting, "json") == 0)
        return setting;
    *file = setting;
    return has_ending(setting, ".json") ? "json" : has_ending(setting, ".html") ? "html" : has_ending(setting, ".txt") ? "text" : NULL;
}

int MPIDI_COMPOSITE_print_plan(const void *const *cards, const size_t * sizes)
{
    int mpi_errno = MPI_SUCCESS;
    char *text = pm_plan(MPIDI_COMPOSITE_global.core, cards, sizes, MPIR_Process.size, "text");

    if (text == NULL)
        MPIDI_COMPOSITE_FAIL(mpi_errno);
    fputs(text, stdout);
    fflush(stdout);
    free(text);

  fn_fail:
    return mpi_errno;
}

static bool report_arrived(const pm_envelope * envelope)
{
    piece_header_t header;

    if (MPIR_Process.rank != 0 ||
        !MPIDI_COMPOSITE_read_piece(envelope->header, envelope->header_size, MPIR_Process.size, &header) ||
        MPIDI_COMPOSITE_AV(&MPIDIU_get_av(0, header.rank)).peer != envelope->source)
        return false;
    if (descriptions == NULL)   /* a rank may be done before we are */
        descriptions = MPL_calloc(MPIR_Process.size, sizeof *descriptions, MPL_MEM_OTHER);
    return descriptions &&
        MPIDI_COMPOSITE_add_piece(&descriptions[header.rank], &header, (char *) envelope->header + sizeof header);
}

void MPIDI_COMPOSITE_routes_init(void)
{
    MPIDI_COMPOSITE_global.handler_report = MPIDI_COMPOSITE_handle("report", report_arrived, sizeof(piece_header_t), false);
}

int MPIDI_COMPOSITE_send_routes(void)
{
    int mpi_errno = MPI_SUCCESS;
    const char *file;
    pm_peer **peers = NULL;
    char *bytes = NULL;
    size_t size = 0;

    if (format_at_end(&file) == NULL)
        return MPI_SUCCESS;
    peers = MPL_malloc(MPIR_Process.size * sizeof *peers, MPL_MEM_OTHER);
    MPIR_ERR_CHKANDJUMP(peers == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (int rank = 0; rank < MPIR_Process.size; rank++)
        peers[rank] = MPIDI_COMPOSITE_AV(&MPIDIU_get_av(0, rank)).peer;
    bytes = pm_describe(MPIDI_COMPOSITE_global.core, peers, MPIR_Process.size, &size);
    MPIR_ERR_CHKANDJUMP(bytes == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (size_t sent = 0; sent < size;) {
        char message[sizeof(piece_header_t) + PIECE_SIZE];
        piece_header_t header = { MPIR_Process.rank, (int) size, (int) MPL_MIN(PIECE_SIZE, size - sent) };
        memcpy(message, &header, sizeof header);
        memcpy(message + sizeof header, bytes + sent, header.size);
        if (pm_send(peers[0], MPIDI_COMPOSITE_global.handler_report, message, sizeof header + header.size, NULL, 0, NULL) == PM_FAILED)
            MPIDI_COMPOSITE_FAIL(mpi_errno);
        sent += header.size;
    }

  fn_fail:
    MPL_free(peers);
    free(bytes);
    return mpi_errno;
}

static bool all_told(void)
{
    for (int rank = 0; rank < MPIR_Process.size; rank++)
        if (descriptions == NULL || descriptions[rank].whole == 0 || descriptions[rank].received < descriptions[rank].whole)
            return false;
    return true;
}

static int write_out(const char *text, const char *file)
{
    int mpi_errno = MPI_SUCCESS;
    FILE *stream = file ? fopen(file, "w") : stdout;
    int failed = stream == NULL || fputs(text, stream) < 0 || fflush(stream) != 0;

    if (file && stream && fclose(stream) != 0)
        failed = 1;
    if (failed)
        fprintf(stderr, "composite: the table of routes could not be written to %s (MPIR_CVAR_CH4_COMPOSITE_ROUTES): %s\n",
                file ? file : "standard output", strerror(errno));
    return mpi_errno;
}

static int write_routes(void)
{
    int mpi_errno = MPI_SUCCESS;
    const char *file, *format = format_at_end(&file);
    size_t *sizes = NULL, whole = 0;
    struct timespec now;
    char *bytes = NULL, *text = NULL, *next;

    if (format == NULL || MPIR_Process.rank != 0)
        return MPI_SUCCESS;
    while (!all_told()) {
        pm_coll_poll();
        if (pm_progress(MPIDI_COMPOSITE_global.core) < 0)
            MPIDI_COMPOSITE_FAIL(mpi_errno);
        if (!all_told())
            MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    sizes = MPL_malloc(MPIR_Process.size * sizeof *sizes, MPL_MEM_OTHER);
    for (int rank = 0; rank < MPIR_Process.size; rank++)
        whole += descriptions[rank].whole;
    bytes = next = MPL_malloc(whole, MPL_MEM_OTHER);
    MPIR_ERR_CHKANDJUMP(sizes == NULL || bytes == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (int rank = 0; rank < MPIR_Process.size; rank++) {
        sizes[rank] = descriptions[rank].whole;
        memcpy(next, descriptions[rank].bytes, sizes[rank]);
        next += sizes[rank];
        free(descriptions[rank].bytes);
    }
    MPL_free(descriptions);
    descriptions = NULL;
    clock_gettime(CLOCK_MONOTONIC, &now);
    run.milliseconds = (now.tv_sec - started_at.tv_sec) * 1000 + (now.tv_nsec - started_at.tv_nsec) / 1000000;
    text = pm_render(bytes, sizes, MPIR_Process.size, &run, format);
    if (text == NULL)
        MPIDI_COMPOSITE_FAIL(mpi_errno);
    mpi_errno = write_out(text, file);

  fn_fail:
    MPL_free(sizes);
    MPL_free(bytes);
    free(text);
    return mpi_errno;
}

static void print_traffic(const pm_traffic * sum)
{
    printf("composite: device %s carried %llu messages, %llu bytes streamed", sum->device,
           (unsigned long long) sum->messages_sent, (unsigned long long) sum->bytes_sent);
    if (sum->memory > 0)
        printf(", %llu bytes pulled by CMA in %llu messages; %llu KiB of shared memory",
               (unsigned long long) sum->bytes_pulled, (unsigned long long) sum->pulls,
               (unsigned long long) sum->memory / 1024);
    else if (sum->packets > 0)
        printf("; %llu packets, %llu of them sent again, %llu alien ones dropped", (unsigned long long) sum->packets,
               (unsigned long long) sum->packets_again, (unsigned long long) sum->packets_alien);
    if (sum->messages_dropped > 0)
        printf("; %llu messages for nobody dropped", (unsigned long long) sum->messages_dropped);
    printf("\n");
}

static int print_devices(void)
{
    int mpi_errno = MPI_SUCCESS;
    pm_traffic mine[PM_DEVICES_MAX], (*all)[PM_DEVICES_MAX] = NULL;
    int devices;

    memset(mine, 0, sizeof mine);
    devices = pm_get_traffic(MPIDI_COMPOSITE_global.core, mine);
    all = MPL_calloc(MPIR_Process.size, sizeof mine, MPL_MEM_OTHER);
    MPIR_ERR_CHKANDJUMP(all == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    if (MPIR_Process.size == 1) {
        memcpy(all[0], mine, sizeof mine);
    } else {
        mpi_errno = MPIR_pmi_allgather(mine, sizeof mine, all, sizeof mine, MPIR_PMI_DOMAIN_ALL);
        MPIR_ERR_CHECK(mpi_errno);
    }
    if (MPIR_Process.rank != 0)
        goto fn_exit;
    printf("composite: %d ranks\n", MPIR_Process.size);
    for (int device = 0; device < devices; device++) {
        pm_traffic sum = mine[device];
        for (int rank = 1; rank < MPIR_Process.size; rank++) {
            sum.messages_sent += all[rank][device].messages_sent;
            sum.bytes_sent += all[rank][device].bytes_sent;
            sum.pulls += all[rank][device].pulls;
            sum.bytes_pulled += all[rank][device].bytes_pulled;
            sum.memory += all[rank][device].memory;
            sum.messages_dropped += all[rank][device].messages_dropped;
            sum.packets += all[rank][device].packets;
            sum.packets_again += all[rank][device].packets_again;
            sum.packets_alien += all[rank][device].packets_alien;
        }
        if (sum.messages_sent > 0)
            print_traffic(&sum);
    }
    fflush(stdout);

  fn_exit:
    MPL_free(all);
    return mpi_errno;
  fn_fail:
    goto fn_exit;
}

int MPIDI_COMPOSITE_report(void)
{
    int mpi_errno = write_routes();

    MPIR_ERR_CHECK(mpi_errno);
    if (MPIR_CVAR_CH4_COMPOSITE_REPORT)
        mpi_errno = print_devices();

  fn_fail:
    MPL_free(routes_setting);
    routes_setting = NULL;
    return mpi_errno;
}
