#ifndef COMPOSITE_COLL_LIFE_H_INCLUDED
#define COMPOSITE_COLL_LIFE_H_INCLUDED

#include "mpidimpl.h"
#include "coll/group.h"

/* composite_coll.c: what the user has chosen, and the end of what it keeps. */
int MPIDI_COMPOSITE_coll_init(void);            /* PM_OK or PM_FAILED */
void MPIDI_COMPOSITE_coll_finalize(void);
void MPIDI_COMPOSITE_coll_comm_free(MPIR_Comm * comm);
/* What a step of a collective has come to, `result`, beside what is known already. */
void MPIDI_COMPOSITE_note_error(int *mpi_errno, MPIR_Errflag_t * errflag, int result);

/* All ranks are of this job, so that hosts have the same numbers at all: other jobs number them in their own way. */
MPL_STATIC_INLINE_PREFIX bool MPIDI_COMPOSITE_knows_hosts(const MPIR_Comm * comm)
{
    return MPIDI_COMM(comm, map).mode != MPIDI_RANK_MAP_MLUT && MPIDI_COMM(comm, map).avtid == 0;
}

/* composite_group.c: what a communicator is to the engines of src/coll; and those that may have a group of the user's while they are. */
pm_group_setup MPIDI_COMPOSITE_group_setup(MPIR_Comm * comm);
void MPIDI_COMPOSITE_group_commit(MPIR_Comm * comm);
void MPIDI_COMPOSITE_group_free(MPIR_Comm * comm);

/* composite_hooks.c: until one of the engines' flags is set, by a message or by somebody who rings. */
int MPIDI_COMPOSITE_wait_for_flag(const volatile int *flag);

/* The only ones of ch4/mpix that are called from here, by composite_init.c: they give their engines what to call. */
int MPIDI_COMPOSITE_mcast_init(void);           /* PM_OK or PM_FAILED */
void MPIDI_COMPOSITE_fuzzy_init(void);
int MPIDI_COMPOSITE_active_init(void);          /* PM_OK or PM_FAILED */

#endif
