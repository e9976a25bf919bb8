/* Whether this process has loaded an MPI library beside the one that calls this. */
#ifndef PM_TWO_MPIS_H_INCLUDED
#define PM_TWO_MPIS_H_INCLUDED

#ifdef __cplusplus
extern "C" {
#endif

/* A sentence that names both files and says what to do, or NULL when there is no other one. It stays until the next call. Tools that
 * define MPI_ functions are no MPI, nor is our own file under another name. */
const char *pm_two_mpis(void);

#ifdef __cplusplus
}
#endif

#endif
