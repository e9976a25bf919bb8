/* Which messages enter MPICH (composite_upcalls.c). Apart from composite_impl.h, which all of MPICH includes. */
#ifndef COMPOSITE_HANDLERS_H_INCLUDED
#define COMPOSITE_HANDLERS_H_INCLUDED

#include "mpidimpl.h"
#include "netmod/core/handlers.h"

/* MPICH's own active messages. After pm_open(). */
void MPIDI_COMPOSITE_register_own(void);

/* One of ours, besides: answers its number, which is the same in every process if all register them in the same order. For strangers: it
 * may come from a process that this one has not connected to yet. */
int MPIDI_COMPOSITE_register(const char *name, MPIDIG_am_target_msg_cb arrived, size_t smallest_header, bool for_strangers);

/* The same for messages that are all header, by a function that sees the envelope: how long the header is, and who sent it. It checks
 * what it reads, and answers false when that cannot be: the message is then counted as dropped. */
typedef bool (*MPIDI_COMPOSITE_arrived_t) (const pm_envelope * envelope);
int MPIDI_COMPOSITE_handle(const char *name, MPIDI_COMPOSITE_arrived_t arrived, size_t smallest_header, bool for_strangers);

/* Messages about partitions (composite_partitioned.c), and the end of what is kept about them. */
void MPIDI_COMPOSITE_partitions_register(void);
void MPIDI_COMPOSITE_partitions_forget(void);

/* Whether a call of this process has failed because a peer of its job is lost (MPIDI_COMPOSITE_lost()). */
bool MPIDI_COMPOSITE_has_lost(void);

#endif
