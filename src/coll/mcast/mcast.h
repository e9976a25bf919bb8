/* Multicast to sets of ranks as MPICH's C code sees it. Called under the caller's lock, as the functions of core.h.
 *
 * A group is a communicator: ranks, of which each may send to any set of them. What one master sends to sets that a rank is in
 * arrives at that rank in the order it was sent. The engine passes on what it receives whenever the device is polled, received
 * by the user or not. */
#ifndef PM_MCAST_H_INCLUDED
#define PM_MCAST_H_INCLUDED

#include "coll/group.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PM_ANY (-1)

typedef struct pm_mcast_setup {
    const char *algorithm;      /* auto or one of schedule.h */
    size_t tree_limit;          /* larger ones are cut into blocks for the members to exchange */
    size_t doubling_limit;
    size_t chain_limit;
    size_t shared_limit;        /* smaller ones are sent instead of written into shared memory */
    size_t piece;               /* the largest part that is passed on to another host by itself */
    int fanout;                 /* how many a member tells on its host */

    /* Of a group that is not open: 1 when it may yet be, because this process is making it. */
    int (*may_open)(uint32_t group);
    /* A multicast has left (of a delivered one: has arrived everywhere); `error` is a sentence or NULL. */
    void (*sent)(void *cookie, const char *error);
    /* A posted receive has ended. `size` may be larger than its room. */
    void (*received)(void *cookie, int source, int tag, size_t size);
} pm_mcast_setup;

/* PM_FAILED: a setting has no meaning. */
int pm_mcast_open(pm_core *core, const pm_mcast_setup *setup);
void pm_mcast_close(void);

typedef struct pm_group pm_group;
pm_group *pm_group_open(const pm_group_setup *setup);
void pm_group_close(pm_group *group);

/* PM_OK: the data may be reused. PM_QUEUED: it must stay until sent(cookie). `members` has a bit for each rank. Without a cookie it is
 * copied if need be: worth it where pm_mcast_is_short(). */
int pm_mcast_send(pm_group *group, const void *data, size_t size, const uint64_t *members, int tag, int delivered, void *cookie);

/* Ends in received(cookie), perhaps before it returns. `members` is filled then, if not NULL. */
void pm_mcast_receive(pm_group *group, void *buffer, size_t room, int source, int tag, uint64_t *members, void *cookie);

/* 1 and what it is when such a receive would find something. */
int pm_mcast_probe(pm_group *group, int source, int tag, int *found_source, int *found_tag, size_t *size);

int pm_mcast_is_short(size_t size);

/* Copies that wait. Those who are sent to more than they take hold up the master before its copies fill the memory: with some it makes a
 * round of progress, with many until there are fewer. */
typedef enum pm_backlog { PM_BACKLOG_NONE, PM_BACKLOG_SOME, PM_BACKLOG_MUCH } pm_backlog;
pm_backlog pm_mcast_backlog(void);

/* 1 while others wait for an acknowledgement that this process collects: call pm_progress() and what is to be called after it. */
int pm_mcast_owes(void);

/* While pm_mcast_watches, pm_mcast_poll() must be called after pm_progress(): others of this host post where it looks.
 * pm_mcast_has_news(): whether such a call would find something. */
extern int pm_mcast_watches;
void pm_mcast_poll(void);
int pm_mcast_has_news(void);

/* Called now and then: looks after those who do not answer. */
void pm_mcast_attend(void);

#ifdef __cplusplus
}
#endif
#endif
