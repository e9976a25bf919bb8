/* What the user is told: the table of routes, and what each device carried. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_decode.h"
#include "composite_handlers.h"
#include "composite_report.h"
#include "composite_team.h"
#include "coll/progress.h"
#include "netmod/core/profiling.h"
#include "netmod/core/setup.h"

#define PIECE_SIZE 900

typedef MPIDI_COMPOSITE_piece_t piece_header_t;
/* What a rank tells of its devices and its collectives. */
typedef struct {
    pm_traffic traffic[PM_DEVICES_MAX];
    uint64_t collectives[MPIDI_COMPOSITE_COLLECTIVES][PM_WAYS];
} figures_t;
typedef char *(*render_t) (const void *descriptions, const size_t * sizes, int count, const pm_run * run, const char *format);

static MPIDI_COMPOSITE_gathering_t routes, devices;
static MPIDI_COMPOSITE_gathering_t *const gatherings[] = { &routes, &devices, &MPIDI_COMPOSITE_profiles };

static bool has_ending(const char *name, const char *ending)
{
    size_t length = strlen(name), end = strlen(ending);

    return length > end && strcmp(name + length - end, ending) == 0;
}

/* MPI_T_finalize() takes the texts of CVARs away. */
static char *routes_setting, *report_setting;
static struct timespec started_at;
static pm_run run;

void MPIDI_COMPOSITE_report_init(void)
{
    routes_setting = MPL_strdup(MPIR_CVAR_CH4_COMPOSITE_ROUTES);
    report_setting = MPL_strdup(MPIR_CVAR_CH4_COMPOSITE_REPORT);
    run.started = time(NULL);
    clock_gettime(CLOCK_MONOTONIC, &started_at);
}

bool MPIDI_COMPOSITE_routes_at_init(void)
{
    return strcmp(routes_setting, "init") == 0;
}

/* NULL when `setting` names none; `*file` is NULL for standard output. */
static const char *format_of(const char *setting, const char **file)
{
    *file = NULL;
    if (strcmp(setting, "text") == 0 || strcmp(setting, "json") == 0)
        return setting;
    *file = setting;
    return has_ending(setting, ".json") ? "json" : has_ending(setting, ".html") ? "html" : has_ending(setting, ".txt") ? "text" : NULL;
}

/* The values of a flag that MPICH knows, and profile: that has been checked. */
static bool wants_devices(void)
{
    return strchr("1yYtT", report_setting[0]) || strcmp(report_setting, "on") == 0 || strcmp(report_setting, "ON") == 0;
}

const char *MPIDI_COMPOSITE_profile_wanted(void)
{
    if (strncmp(report_setting, "profile", 7) != 0)
        return NULL;
    return report_setting[7] == ':' ? report_setting + 8 : "text";
}

static const pm_run *run_so_far(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    run.milliseconds = (now.tv_sec - started_at.tv_sec) * 1000 + (now.tv_nsec - started_at.tv_nsec) / 1000000;
    return &run;
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
    MPIDI_COMPOSITE_gathering_t *gathering = NULL;

    for (int i = 0; i < (int) (sizeof gatherings / sizeof gatherings[0]); i++)
        if (gatherings[i]->handler == envelope->tag)
            gathering = gatherings[i];
    if (MPIR_Process.rank != 0 || gathering == NULL ||
        !MPIDI_COMPOSITE_read_piece(envelope->header, envelope->header_size, MPIR_Process.size, &header) ||
        MPIDI_COMPOSITE_AV(&MPIDIU_get_av(0, header.rank)).peer != envelope->source)
        return false;
    if (gathering->told == NULL)        /* a rank may be done before we are */
        gathering->told = MPL_calloc(MPIR_Process.size, sizeof *gathering->told, MPL_MEM_OTHER);
    return gathering->told &&
        MPIDI_COMPOSITE_add_piece(&gathering->told[header.rank], &header, (char *) envelope->header + sizeof header);
}

void MPIDI_COMPOSITE_routes_init(void)
{
    static const char *const names[] = { "report", "devices", "profile" };

    for (int i = 0; i < (int) (sizeof gatherings / sizeof gatherings[0]); i++)
        gatherings[i]->handler = MPIDI_COMPOSITE_handle(names[i], report_arrived, sizeof(piece_header_t), false);
}

int MPIDI_COMPOSITE_tell(const MPIDI_COMPOSITE_gathering_t * gathering, const void *bytes, size_t size)
{
    int mpi_errno = MPI_SUCCESS;
    pm_peer *first = MPIDI_COMPOSITE_AV(&MPIDIU_get_av(0, 0)).peer;

    for (size_t sent = 0; sent < size;) {
        char message[sizeof(piece_header_t) + PIECE_SIZE];
        piece_header_t header = { MPIR_Process.rank, (int) size, (int) MPL_MIN(PIECE_SIZE, size - sent) };
        memcpy(message, &header, sizeof header);
        memcpy(message + sizeof header, (const char *) bytes + sent, header.size);
        if (pm_send(first, gathering->handler, message, sizeof header + header.size, NULL, 0, NULL) == PM_FAILED)
            MPIDI_COMPOSITE_FAIL(mpi_errno);
        sent += header.size;
    }

  fn_fail:
    return mpi_errno;
}

static int send_routes(void)
{
    int mpi_errno = MPI_SUCCESS;
    const char *file;
    pm_peer **peers = NULL;
    char *bytes = NULL;
    size_t size = 0;

    if (format_of(routes_setting, &file) == NULL)
        return MPI_SUCCESS;
    peers = MPL_malloc(MPIR_Process.size * sizeof *peers, MPL_MEM_OTHER);
    MPIR_ERR_CHKANDJUMP(peers == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (int rank = 0; rank < MPIR_Process.size; rank++)
        peers[rank] = MPIDI_COMPOSITE_AV(&MPIDIU_get_av(0, rank)).peer;
    bytes = pm_describe(MPIDI_COMPOSITE_global.core, peers, MPIR_Process.size, &size);
    MPIR_ERR_CHKANDJUMP(bytes == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    mpi_errno = MPIDI_COMPOSITE_tell(&routes, bytes, size);

  fn_fail:
    MPL_free(peers);
    free(bytes);
    return mpi_errno;
}

int MPIDI_COMPOSITE_send_routes(void)
{
    int mpi_errno = MPIDI_COMPOSITE_profile_tell();

    MPIR_ERR_CHECK(mpi_errno);
    if (wants_devices()) {
        figures_t mine;
        memset(&mine, 0, sizeof mine);
        pm_get_traffic(MPIDI_COMPOSITE_global.core, mine.traffic);
        memcpy(mine.collectives, MPIDI_COMPOSITE_coll_counts, sizeof mine.collectives);
        mpi_errno = MPIDI_COMPOSITE_tell(&devices, &mine, sizeof mine);
        MPIR_ERR_CHECK(mpi_errno);
    }
    mpi_errno = send_routes();

  fn_fail:
    return mpi_errno;
}

static int told_by(const MPIDI_COMPOSITE_gathering_t * gathering)
{
    int count = 0;

    for (int rank = 0; rank < MPIR_Process.size && gathering->told; rank++)
        count += gathering->told[rank].whole > 0 && gathering->told[rank].received == gathering->told[rank].whole;
    return count;
}

/* All has been sent, or will never be, as by a rank that has another setting: such a one is not waited for. */
#define PATIENCE 2              /* seconds without news */

/* What was told, one after the other, and how much by each; 0 by those who told nothing. */
static int gather_reports(MPIDI_COMPOSITE_gathering_t * gathering, char **bytes, size_t ** sizes)
{
    int mpi_errno = MPI_SUCCESS;
    size_t whole = 1;
    time_t news = time(NULL);
    char *next;

    *bytes = NULL;
    *sizes = MPL_calloc(MPIR_Process.size, sizeof **sizes, MPL_MEM_OTHER);
    while (told_by(gathering) < MPIR_Process.size && time(NULL) - news <= PATIENCE) {
        int before = told_by(gathering);
        pm_coll_poll();
        if (pm_progress(MPIDI_COMPOSITE_global.core) < 0)
            MPIDI_COMPOSITE_FAIL(mpi_errno);
        if (told_by(gathering) > before)
            news = time(NULL);
        else
            MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    for (int rank = 0; gathering->told && rank < MPIR_Process.size; rank++)
        whole += gathering->told[rank].whole;
    *bytes = next = MPL_malloc(whole, MPL_MEM_OTHER);
    MPIR_ERR_CHKANDJUMP(*sizes == NULL || *bytes == NULL, mpi_errno, MPI_ERR_OTHER, "**nomem");
    for (int rank = 0; gathering->told && rank < MPIR_Process.size; rank++) {
        MPIDI_COMPOSITE_description_t *told = &gathering->told[rank];
        if (told->whole > 0 && told->received == told->whole) {
            (*sizes)[rank] = told->whole;
            memcpy(next, told->bytes, told->whole);
            next += told->whole;
        }
        free(told->bytes);
    }

  fn_fail:
    MPL_free(gathering->told);
    gathering->told = NULL;
    return mpi_errno;
}

static void write_out(const char *text, const char *file, const char *what, const char *variable)
{
    FILE *stream = file ? fopen(file, "w") : stdout;
    int failed = stream == NULL || fputs(text, stream) < 0 || fflush(stream) != 0;

    if (file && stream && fclose(stream) != 0)
        failed = 1;
    if (failed)
        fprintf(stderr, "composite: the %s could not be written to %s (MPIR_CVAR_CH4_COMPOSITE_%s): %s\n", what,
                file ? file : "standard output", variable, strerror(errno));
}

/* What all ranks told becomes a text where `setting` says. */
static int write_report(MPIDI_COMPOSITE_gathering_t * gathering, render_t render, const char *setting, const char *what, const char *variable)
{
    int mpi_errno = MPI_SUCCESS;
    const char *file, *format = setting ? format_of(setting, &file) : NULL;
    size_t *sizes = NULL;
    char *bytes = NULL, *text = NULL;

    if (format == NULL || MPIR_Process.rank != 0)
        return MPI_SUCCESS;
    mpi_errno = gather_reports(gathering, &bytes, &sizes);
    MPIR_ERR_CHECK(mpi_errno);
    text = render(bytes, sizes, MPIR_Process.size, run_so_far(), format);
    if (text == NULL)
        MPIDI_COMPOSITE_FAIL(mpi_errno);
    write_out(text, file, what, variable);

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

static void print_collective(const char *name, const uint64_t * calls)
{
    if (calls[PM_BY_BOARD] + calls[PM_BY_MEMORY] + calls[PM_BY_MESSAGES] + calls[PM_BY_LEADERS] == 0)
        return;
    printf("composite: %s went %llu times on the board, %llu by memory, %llu by messages", name, (unsigned long long) calls[PM_BY_BOARD],
           (unsigned long long) calls[PM_BY_MEMORY], (unsigned long long) calls[PM_BY_MESSAGES]);
    if (calls[PM_BY_LEADERS] > 0)
        printf(", %llu by leaders of hosts", (unsigned long long) calls[PM_BY_LEADERS]);
    printf("\n");
}

static int print_devices(void)
{
    int mpi_errno = MPI_SUCCESS;
    pm_traffic sums[PM_DEVICES_MAX];
    uint64_t calls[MPIDI_COMPOSITE_COLLECTIVES][PM_WAYS] = { {0} };
    size_t *sizes = NULL;
    char *bytes = NULL, *next;
    int kinds = pm_get_traffic(MPIDI_COMPOSITE_global.core, sums);

    if (!wants_devices() || MPIR_Process.rank != 0)
        return MPI_SUCCESS;
    mpi_errno = gather_reports(&devices, &bytes, &sizes);
    MPIR_ERR_CHECK(mpi_errno);
    for (int kind = 0; kind < kinds; kind++) {
        char name[sizeof sums[kind].device];
        memcpy(name, sums[kind].device, sizeof name);
        memset(&sums[kind], 0, sizeof sums[kind]);
        memcpy(sums[kind].device, name, sizeof name);
    }
    next = bytes;
    for (int rank = 0; rank < MPIR_Process.size; next += sizes[rank++]) {
        figures_t its;
        if (sizes[rank] != sizeof its)
            continue;
        memcpy(&its, next, sizeof its);
        for (int kind = 0; kind < kinds; kind++) {
            sums[kind].messages_sent += its.traffic[kind].messages_sent;
            sums[kind].bytes_sent += its.traffic[kind].bytes_sent;
            sums[kind].pulls += its.traffic[kind].pulls;
            sums[kind].bytes_pulled += its.traffic[kind].bytes_pulled;
            sums[kind].memory += its.traffic[kind].memory;
            sums[kind].messages_dropped += its.traffic[kind].messages_dropped;
            sums[kind].packets += its.traffic[kind].packets;
            sums[kind].packets_again += its.traffic[kind].packets_again;
            sums[kind].packets_alien += its.traffic[kind].packets_alien;
        }
        for (int i = 0; i < MPIDI_COMPOSITE_COLLECTIVES; i++)
            for (int way = 0; way < PM_WAYS; way++)
                calls[i][way] += its.collectives[i][way];
    }
    printf("composite: %d ranks\n", MPIR_Process.size);
    for (int kind = 0; kind < kinds; kind++)
        if (sums[kind].messages_sent > 0)
            print_traffic(&sums[kind]);
    for (int i = 0; i < MPIDI_COMPOSITE_COLLECTIVES; i++)
        print_collective(MPIDI_COMPOSITE_collective_names[i], calls[i]);
    fflush(stdout);

  fn_fail:
    MPL_free(sizes);
    MPL_free(bytes);
    return mpi_errno;
}

int MPIDI_COMPOSITE_report(void)
{
    int mpi_errno = write_report(&routes, pm_render, routes_setting, "table of routes", "ROUTES");

    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = print_devices();
    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = write_report(&MPIDI_COMPOSITE_profiles, pm_profile_render, MPIDI_COMPOSITE_profile_wanted(), "profile", "REPORT");

  fn_fail:
    MPL_free(routes_setting);
    MPL_free(report_setting);
    routes_setting = report_setting = NULL;
    return mpi_errno;
}
