/* Active messages as MPICH's C code sees them. Called under the caller's lock, as the functions of core.h, but for pm_am_send_now().
 *
 * A message is for a handler, which is known by a number that is made from its name, the same at every rank of a group. What one rank
 * sends another in a group is handled there in the order it was sent. What comes for a handler that is not registered yet waits for it, and
 * what others say meanwhile passes it. */
#ifndef PM_AM_H_INCLUDED
#define PM_AM_H_INCLUDED

#include "coll/group.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PM_AM_LARGEST_HEADER 256

/* What a message is handled by; the functions are those of the user, which the caller knows the types of. `place` may be NULL. */
typedef struct pm_am_user {
    void (*arrived)(void);
    void (*place)(void);
    void *state;
} pm_am_user;

/* Views that end with the call. Header and data are aligned to 8 bytes. */
typedef struct pm_am_arrival {
    void *context;              /* of the group */
    int source;
    int handler;
    const void *header;
    size_t header_size;
    void *data;                 /* NULL when there is none, or not yet */
    size_t size;
} pm_am_arrival;

typedef struct pm_am_setup {
    /* Of a group that is not open: 1 when it may yet be, because this process is making it. */
    int (*may_open)(uint32_t group);
    /* Handles a message; one at a time. It may send, and call nothing else here. */
    void (*arrived)(const pm_am_arrival *arrival, const pm_am_user *user);
    /* Where its data goes, before that has come; NULL: it is not wanted. */
    void *(*place)(const pm_am_arrival *arrival, const pm_am_user *user);
    /* Data of the group is on its way to where `place` said, or is not any more: it must not be closed meanwhile. */
    void (*hold)(void *context);
    void (*let_go)(void *context);
    /* A message that was queued has left. */
    void (*ended)(void *cookie);
} pm_am_setup;

int pm_am_open(pm_core *core, const pm_am_setup *setup);        /* PM_OK or PM_FAILED */
void pm_am_close(void);

void pm_am_group_open(const pm_group_setup *setup);
void pm_am_group_close(uint32_t id);

/* Messages that have waited for it are handled before this returns, when `*number` is set. PM_FAILED: the name cannot be registered. */
int pm_am_register(uint32_t group, const char *name, const pm_am_user *user, int *number);
/* PM_QUEUED: data is still arriving where its `place` said; until pm_am_is_placing() answers 0 the user's memory is needed. PM_FAILED: it is
 * not registered. */
int pm_am_deregister(uint32_t group, int number);
int pm_am_is_placing(uint32_t group, int number);

typedef struct pm_am_post {
    uint32_t group;
    int rank;                   /* our own */
    int handler;
    const void *header;
    size_t header_size;         /* at most PM_AM_LARGEST_HEADER */
    const void *data;
    size_t size;
} pm_am_post;

/* To another rank, at most PM_SEND_NOW_LIMIT bytes of data, without a lock. 1 when the device took it at once, 0 when nothing happened. */
int pm_am_send_now(pm_peer *peer, const pm_am_post *post);

/* What happens when the data may be reused, if that is not at once. All zero: it is copied. */
typedef struct pm_am_end {
    volatile int *flag;         /* set to 1 */
    void *cookie;               /* ended(cookie) */
} pm_am_end;

/* PM_OK: the data may be reused. PM_QUEUED: see pm_am_end. A message to oneself is copied, and handled by pm_am_poll(). */
int pm_am_send(const pm_am_post *post, int to, const pm_am_end *end);
/* The same to all of a set; `members` has a bit for each rank. */
int pm_am_mcast(const pm_am_post *post, const uint64_t *members, const pm_am_end *end);
/* The flag is not there any more. */
void pm_am_forget(const volatile int *flag);

/* While it is not 0, pm_am_poll() must be called after pm_progress(). */
extern int pm_am_pending;
void pm_am_poll(void);

/* Called now and then: drops what waits in vain. */
void pm_am_attend(void);

#ifdef __cplusplus
}
#endif
#endif
