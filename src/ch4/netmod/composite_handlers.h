/* Which messages enter MPICH (composite_upcalls.c). Apart from composite_impl.h, which all of MPICH includes. */
#ifndef COMPOSITE_HANDLERS_H_INCLUDED
#define COMPOSITE_HANDLERS_H_INCLUDED

#include "mpidimpl.h"

/* MPICH's own active messages. After pm_open(). */
void MPIDI_COMPOSITE_register_own(void);

/* One of ours, besides: answers its number, which is the same in every process if all register them in the same order. For strangers: it
 * may come from a process that this one has not connected to yet. */
int MPIDI_COMPOSITE_register(const char *name, MPIDIG_am_target_msg_cb arrived, size_t smallest_header, bool for_strangers);

#endif
