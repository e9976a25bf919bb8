/* Start and end of the core, peers, and what it tells about itself. Apart from core.h, which all of MPICH includes: a change here
 * recompiles little. Called under the caller's lock, as the functions of core.h. */
#ifndef PM_SETUP_H_INCLUDED
#define PM_SETUP_H_INCLUDED

#include "netmod/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PM_CARD_MAX 4096
#define PM_SHORT_CARD_MAX 112

/* Raises the soft limit on open files as far as start-up needs and the hard one allows, no further: a program may use select(),
 * which cannot have descriptors above 1023. PM_FAILED when there is no room to start with. */
int pm_make_room(void);

/* The file that the processes of a job share on a host (shmmod/host_file.h): one makes it, the others open it by its name. NULL
 * where that is not possible; such a process has a file of its own. A card that was put by one process, an empty one too, is read
 * by all when each has passed a barrier; cards[rank] is NULL where none was put, and valid until pm_host_leave(). */
typedef struct pm_host pm_host;
typedef struct pm_host_name {
    uint64_t token;
    int32_t process, file;      /* process 0: there is none */
} pm_host_name;
pm_host *pm_host_create(const char *backing, int processes, int ranks, pm_host_name *name);
pm_host *pm_host_join(const pm_host_name *name);
int pm_host_put(pm_host *host, int rank, const void *card, size_t size);
int pm_host_cards(pm_host *host, const void **cards, size_t *sizes);
void pm_host_leave(pm_host *host);      /* devices that use the file keep it */

/* Settings are the texts of the CVARs; where messages arrive is said by pm_handle(). */
typedef struct pm_setup {
    const char *devices;        /* "auto" or a list, best first */
    const char *networks;       /* auto, a description or the file that holds it: networks.h */
    const char *priority;       /* given, measure; only checked here */
    const char *routes;         /* off, init, text, json, or a file; only checked here */
    const char *report;         /* a flag, or profile and how; only checked here */
    const char *wait;           /* auto, spin, yield, sleep */
    const char *background_wait;        /* the same, of a thread that calls pm_wait_in_background() */
    const char *rendezvous;     /* auto, pipeline, cma */
    const char *shmem_backing;  /* auto, memfd, devshm */
    const char *udp_interfaces; /* auto, names and subnets, or ^ and those to leave out */
    const char *udp_ports;      /* auto, N, N-M */
    const char *udp_guard;      /* token, mac */
    const char *udp_recovery;   /* selective, go_back_n */
    const char *udp_segmentation;       /* auto, off */
    double udp_silence_limit;   /* seconds */
    int ranks_on_host;
    int process;                /* our number among them */
    pm_host *host;              /* or NULL */

    /* Now and then, between polls. */
    void (*idle)(void);
    /* Whether a peer that nobody uses may be needed yet, for what is on its way through this process. */
    int (*owes)(void);
    /* By the only thread, before it sleeps: whether it would miss something that others have changed without a message. */
    int (*has_news)(void);
} pm_setup;

/* A large message of which the receiver says where it belongs before it moves, where the device can do that; others may overtake
 * it. PM_QUEUED, and sent(cookie) when it has moved. If the device turns out not to lead there, the header goes without the payload,
 * and sent() is not called: the receiver will ask for it. pm_take() ends in placed(cookie). */
int pm_can_offer(const pm_peer *peer);
int pm_offer(pm_peer *peer, int tag, const void *header, size_t header_size, const void *data, size_t size, void *cookie);
void pm_take(void *offer, void *place, void *cookie);

/* Before MPICH reads the environment: a setting of ours that is misspelt or whose value makes no sense. pm_open() then says so and
 * fails; the variable is taken away, or MPICH, which says less, would fail first. */
void pm_check_environment(void);

pm_core *pm_open(const pm_setup *setup);         /* NULL on failure */
void pm_allow_threads(pm_core *core);            /* several may call from now on */
void pm_close(pm_core *core);

size_t pm_card(const pm_core *core, void *card);        /* into PM_CARD_MAX bytes; answers its size */
/* Instead of a card, of a process that cannot start: why, behind a byte that no card begins with. */
size_t pm_complaint(const char *text, void *card);
/* What ranks complain of, as lines for a user; NULL when each has a card. The caller frees it. */
char *pm_complaints(const void *const *cards, const size_t *sizes, int count);
size_t pm_short_card(const pm_core *core, void *card);  /* into PM_SHORT_CARD_MAX bytes; see card.h */
/* The same peer again for the same process, which is counted. pm_release() gives one back. After the last one, once what was sent is
 * with the device, all that the device has for the peer is given back, and it is no more; pm_close() ends all of them. */
pm_peer *pm_connect(pm_core *core, const void *card, size_t size);
void pm_release(pm_peer *peer);
size_t pm_peer_card(const pm_peer *peer, void *card);

/* Whether the cards of a job, by rank, give every two processes a route; all processes come to the same answer. */
int pm_check_job(pm_core *core, const void *const *cards, const size_t *sizes, int count);

/* The cluster of each rank of the job, which are hosts on one network that no other they are on is better than: all processes come to the same
 * answer. NULL: there is one. After pm_check_job() and pm_set_priorities(). */
const uint32_t *pm_clusters(pm_core *core);

/* Measuring networks, before peers are connected: for each network that there is a choice about, two ranks on different hosts that
 * try it. All ranks call pm_try_out() for all trials, in this order; it answers the shortest round trip in seconds at the two,
 * PM_TRIAL_LIMIT when that took longer, and 0 at others. What the first of each found is given to pm_set_priorities() by
 * all processes. */
typedef struct pm_trial {
    uint64_t network;
    int first, second;                                  /* ranks */
} pm_trial;
#define PM_NETWORKS_MAX 64
/* Into PM_NETWORKS_MAX; how many. */
int pm_trials(const pm_core *core, const void *const *cards, const size_t *sizes, int count, pm_trial *trials);
#define PM_TRIAL_LIMIT 2.0
int pm_measure_open(pm_core *core);      /* after pm_open(): PM_OK or PM_FAILED */
double pm_try_out(pm_core *core, const pm_trial *trials, int which, int rank, const void *const *cards, const size_t *sizes);
void pm_set_priorities(pm_core *core, const pm_trial *trials, const double *times, int count);

/* What that is made of: the connection over just one network, which pm_connect() goes on to use if it chooses it, and the outcome. */
pm_peer *pm_connect_over(pm_core *core, uint64_t network, const void *card, size_t size);
void pm_set_priority(pm_core *core, uint64_t network, int priority);

/* This thread makes progress for others' sake. While they do it themselves it stays away, and answers 1 after a nap; otherwise it should
 * wait. Who sleeps on the doorbell costs every sender a system call. */
int pm_wait_in_background(pm_core *core);

/* What this thread waited for has come without a message: its next wait begins with polling, as after one. How long it has waited is the
 * thread's own, whatever core it was for. */
void pm_wait_restart(void);
/* What this thread will wait for takes others long: where ranks share cores it yields a few times only before it sleeps. */
void pm_wait_long(pm_core *core);

/* From now on pm_progress() fails with this. */
void pm_give_up(pm_core *core, const char *text);

/* Somebody may still need an answer from us when we have got all of ours: then others are waited for in pm_progress(). */
int pm_must_linger(const pm_core *core);

/* Counters by kind of device, for reports. */
typedef struct pm_traffic {
    char device[8];
    uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
    uint64_t messages_dropped;          /* arrived for no handler: see handlers.h */
    uint64_t pulls, bytes_pulled;       /* read by the receiver from the sender's memory */
    uint64_t memory;                    /* shared memory that others fill for this process, in bytes */
    uint64_t packets, packets_again, packets_alien;     /* sent; of these, for the second time; received and not believed */
} pm_traffic;
#define PM_DEVICES_MAX 3
int pm_get_traffic(const pm_core *core, pm_traffic *traffic);  /* into PM_DEVICES_MAX; answers how many, of NULL 0 */

/* A peer will pull so much from us: as good as sent. */
void pm_count_announced(pm_peer *peer, size_t size);

/* The routes of a whole job as they follow from its cards, in `format` (text, json, html): malloc'ed, or NULL. */
char *pm_plan(const pm_core *core, const void *const *cards, const size_t *sizes, int count, const char *format);
/* What this process can say about its routes to these peers, in the order of ranks, as bytes (report.h): malloc'ed. */
void *pm_describe(const pm_core *core, pm_peer *const *peers, int count, size_t *size);
/* When the job started, in seconds since 1970, and how long it ran. */
typedef struct pm_run {
    int64_t started;
    uint64_t milliseconds;
} pm_run;
/* The descriptions of all ranks at the end, one after the other, as a table in `format`: malloc'ed, or NULL. One of size 0 told nothing. `run` may be NULL; its command is
 * what MPICOMPOSITE_COMMAND says, or that of this process. */
char *pm_render(const void *descriptions, const size_t *sizes, int count, const pm_run *run, const char *format);

#ifdef __cplusplus
}
#endif
#endif
