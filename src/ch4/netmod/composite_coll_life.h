#ifndef COMPOSITE_COLL_LIFE_H_INCLUDED
#define COMPOSITE_COLL_LIFE_H_INCLUDED

#include "mpidimpl.h"
#include "coll/group.h"

/* The end of what composite_coll.c keeps. */
void MPIDI_COMPOSITE_coll_comm_free(MPIR_Comm * comm);
int MPIDI_COMPOSITE_coll_finalize(void);        /* waits until everybody has read what broadcasts left with us */

/* composite_group.c: what a communicator is to the engines of src/coll; and those that may have a group of the user's while they are. */
pm_group_setup MPIDI_COMPOSITE_group_setup(MPIR_Comm * comm);
void MPIDI_COMPOSITE_group_commit(MPIR_Comm * comm);
void MPIDI_COMPOSITE_group_free(MPIR_Comm * comm);

/* For ch4/mpix/composite_mcast.c. */
int MPIDI_COMPOSITE_mcast_init(void);           /* PM_OK or PM_FAILED */
void MPIDI_COMPOSITE_mcast_finalize(void);

/* For ch4/mpix/composite_fuzzy.c and composite_notify.c. */
void MPIDI_COMPOSITE_fuzzy_init(void);
void MPIDI_COMPOSITE_fuzzy_finalize(void);
/* Until one of their flags is set: by a message, or by somebody who rings. */
int MPIDI_COMPOSITE_wait_for_flag(const volatile int *flag);
int MPIDI_COMPOSITE_notify_init(void);          /* PM_OK or PM_FAILED */
void MPIDI_COMPOSITE_notify_finalize(void);

#endif
