/* What the engines of src/coll do besides answering messages. */
#ifndef PM_COLL_PROGRESS_H_INCLUDED
#define PM_COLL_PROGRESS_H_INCLUDED

#ifdef __cplusplus
extern "C" {
#endif

/* Called now and then: looks after those who do not answer. */
void pm_coll_attend(void);

/* What others do in shared memory comes with no message: to be called after pm_progress(). */
void pm_coll_poll(void);

#ifdef __cplusplus
}
#endif
#endif
