/* The last look at the boards before a sleep: nobody rings who finds us awake. Apart from barrier.h, which all of MPICH includes. */
#ifndef PM_BARRIER_NEWS_H_INCLUDED
#define PM_BARRIER_NEWS_H_INCLUDED

#ifdef __cplusplus
extern "C" {
#endif

int pm_barrier_has_news(void);  /* whether pm_barrier_poll() would complete one */

#ifdef __cplusplus
}
#endif
#endif
