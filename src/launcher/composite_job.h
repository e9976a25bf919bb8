/* How mpiexec ends a job, and what it says when a launcher or a proxy fails. Hydra's files of mpiexec call these (maint/graft-mpich). */
#ifndef COMPOSITE_JOB_H_INCLUDED
#define COMPOSITE_JOB_H_INCLUDED

#include "composite_ends.h"

struct HYD_proxy;

/* Whether the proxy has connected and not ended. */
int composite_connected(const struct HYD_proxy *proxy);

/* Ends all ranks, passes on what they have said so far, and ends mpiexec with this status. Takes seconds at most. Returns only
 * when mpiexec is ending already. */
void composite_end_job(int status);

/* Waits like Hydra's function for an event. While proxies are not connected it looks after their launchers, and ends the job
 * with a sentence when one has failed. */
HYD_status composite_wait_for_event(int seconds);

/* The connection to a proxy ended before the proxy said so: ends the job with a sentence, or only says it with
 * -disable-auto-cleanup. */
HYD_status composite_proxy_lost(struct HYD_proxy *proxy);

/* A rank was ended by a signal, which is told already: ends the others. For the status of mpiexec Hydra looks at the first process group
 * only. */
HYD_status composite_rank_died(struct HYD_proxy *proxy, int status);

/* Whether a new connection, which may have ended already, is of no use: it has, or a job that ends starts nothing more. */
int composite_unwanted(int closed);

/* Closes a connection of which it is not known which proxy it belongs to: maybe it was none. */
HYD_status composite_not_a_proxy(int fd);

/* The proxy of the rank that reads standard input has ended: what it read is all that is wanted. */
HYD_status composite_no_more_input(void);

/* A signal for the job, sent to mpiexec: passed on to a proxy if there is one. What is still being started does not survive a
 * signal that ends. */
HYD_status composite_pass_on(struct HYD_proxy *proxy, int signum);

/* All proxies of a group have ended: what is kept for it is given back, but how its ranks ended. */
void composite_group_ended(struct HYD_pg *pg);

/* After a command or the end of a proxy: a barrier that some have entered and others, who have ended, never will ends the job. */
void composite_barrier_possible(const struct HYD_proxy *proxy);

#endif
