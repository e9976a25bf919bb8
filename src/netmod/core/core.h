/* The core as MPICH's C code sees it: a composite device, which pm_open() makes. A process may have several, which share nothing.
 *
 * setup.h beside it has what is needed at the start and the end.
 * Sending and receiving have locks of their own: pm_send_now() needs no lock, and others may receive meanwhile. pm_wait_*() need
 * none either; all other calls are made under one lock of the caller. Functions that can fail answer PM_FAILED (or NULL);
 * pm_error_text() is then a sentence for the user. */
#ifndef PM_CORE_H_INCLUDED
#define PM_CORE_H_INCLUDED

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

enum pm_status { PM_OK = 0, PM_QUEUED = 1, PM_FAILED = 2 };

typedef struct pm_core pm_core;
typedef struct pm_peer pm_peer;         /* of one core */

/* Produces bytes [offset, offset + size) of a payload. */
typedef void (*pm_pack)(void *context, size_t offset, void *destination, size_t size);

const char *pm_error_text(void);

size_t pm_largest_header(const pm_core *core);

/* PM_OK: header and payload may be reused. PM_QUEUED: the header is copied; the payload (or the pack context) must stay until
 * sent(cookie), which is not called for a NULL cookie. */
int pm_send(pm_peer *peer, int tag, const void *header, size_t header_size, const void *data, size_t size, void *cookie);
int pm_send_packed(pm_peer *peer, int tag, const void *header, size_t header_size, pm_pack pack, void *context, size_t size,
                   void *cookie);

/* A message of at most PM_SEND_NOW_LIMIT bytes: 1 when the device took it at once, 0 when nothing happened. */
#define PM_SEND_NOW_LIMIT 16384
int pm_send_now(pm_peer *peer, int tag, const void *header, size_t header_size, const void *data, size_t size);

/* How a contiguous message leaves. Inline: it is asked for each. Up to PM_SEND_NOW_LIMIT bytes it is sent without asking the receiver for a
 * place. `asks`: the sender wants to know when it is received. */
typedef enum pm_departure {
    PM_DEPARTS_NOW,             /* pm_send_now(); if that does nothing, as the next */
    PM_DEPARTS_LATER,           /* pm_send(), perhaps after the receiver has named a place */
    PM_DEPARTS_BY_PULL,         /* the receiver is told where it is, and pulls it */
} pm_departure;

/* Up to so many bytes nothing else is quicker. Longer ones are copied by the kernel in less time than through shared memory on x86, but where they follow
 * each other both cores copy at once: so they are pulled where the peer answers (pm_departure_of_longer()).
 * bench/run --only pingpong,rate,bibw,sendrecv --ranks 2 */
#if defined(__x86_64__)
#define PM_SURELY_NOW_LIMIT 8192
#else
#define PM_SURELY_NOW_LIMIT PM_SEND_NOW_LIMIT
#endif

int pm_prefers_pull(const pm_peer *peer);       /* of a large message */
pm_departure pm_departure_of_longer(pm_peer *peer, size_t size, int asks);
/* And where its sender receives another one meanwhile: with the pipeline each of the two would copy both. */
int pm_prefers_pull_both_ways(const pm_peer *peer, size_t size);

static inline pm_departure pm_departure_of(pm_peer *peer, size_t size, int asks)
{
    if (__builtin_expect(size <= PM_SURELY_NOW_LIMIT && !asks, 1))
        return PM_DEPARTS_NOW;
    return pm_departure_of_longer(peer, size, asks);
}

/* Of a longer message to be matched: 1 when it may leave by pm_send() before the receiver has named a place. No such message is longer than
 * PM_UNGRANTED_LIMIT. */
#define PM_UNGRANTED_LIMIT 262144
/* And of all of them to a peer that says nothing meanwhile: it keeps them until somebody asks for them. */
#define PM_UNGRANTED_ALL ((size_t) 16 << 20)
int pm_goes_ungranted(pm_peer *peer, size_t size);

/* Delivers what has arrived and sends what is queued. The number of things done, or -1 on failure. */
int pm_progress(pm_core *core);
int pm_sends_queued(pm_core *core);

/* The receiver reads the sender's memory. */
int pm_pull(pm_peer *peer, uint64_t address, const struct iovec *pieces, size_t count);

/* Waiting. After a pm_progress() that did nothing: pm_wait_step() polls again at once or yields and answers 0, or answers 1 when
 * it is time to sleep. Then: pm_wait_arm(); when it answers 1 and the caller still has nothing to do, pm_wait_sleep(); always
 * pm_wait_disarm(). With `nap` the sleep is short: for when something no sender rings for may end the wait, such as another
 * thread of this process. No lock needed. */
int pm_wait_step(pm_core *core);
int pm_wait_arm(pm_core *core);
void pm_wait_sleep(pm_core *core, int nap);
void pm_wait_disarm(pm_core *core);
/* After a poll outside of a wait, where several threads call: yields as such a poll does with one thread. Who yields with a lock held takes it
 * again before somebody who waits for it is awake. */
void pm_wait_unlocked(void);

/* True when there are more ranks on this host than cores for them. */
int pm_crowded(pm_core *core);

#ifdef __cplusplus
}
#endif
#endif
