/* The profile of a process (src/profile) as MPICH's C code sees it: which calls its threads make, told by the glue; sizes of messages and
 * waiting, noted by the core. Recording belongs to the process, and does not end once it has begun. */
#ifndef PM_PROFILING_H_INCLUDED
#define PM_PROFILING_H_INCLUDED

#include "netmod/core/setup.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PM_PROFILE_FUNCTIONS_MOST = 1024 };      /* MPI functions are known by numbers from 1 on */

enum { PM_LATE_NOBODY, PM_LATE_SENDER, PM_LATE_RECEIVER };

/* About the outermost call that the thread that asks is in. */
typedef struct pm_profile_questions {
    int (*of_all)(void);        /* whether all ranks of the job take part in this collective */
    int (*cause)(int *rank);    /* it begins to wait: who is late, and its rank in the job; -1: any */
    int (*open)(const char **name);     /* its function, whose end will be told; 0: there is no call */
} pm_profile_questions;

/* What is asked, and what is called when somebody begins to look at this process (mpicomposite top): it should start the recording. The
 * process shows itself from now on as this rank of a job of so many. Sizes are noted of messages that this core sends. */
void pm_profile_prepare(const pm_profile_questions *questions, void (*watched)(void), int rank, int ranks);
void pm_profile_start(pm_core *core);
/* Of this thread: by number of the function, how many more of its outermost calls need not be told. Whoever does not tell one counts that down,
 * and tells the one that finds 0. NULL when there is no memory. */
int *pm_profile_thread(void);
int pm_profile_begin(int function, const char *name);   /* whether the end is to be told, too */
void pm_profile_end(void);

/* What this process has to say, as bytes: malloc'ed, or NULL. */
void *pm_profile_describe(const pm_core *core, size_t *size);
/* The bytes of all ranks, one after the other, in `format` (text, json, html); a rank of size 0 told nothing. */
char *pm_profile_render(const void *descriptions, const size_t *sizes, int count, const pm_run *run, const char *format);

#ifdef __cplusplus
}
#endif
#endif
