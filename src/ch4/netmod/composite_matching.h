/* Where messages and receives meet (composite_matching.c), for the glue alone: all of MPICH includes composite_recv.h. */
#ifndef COMPOSITE_MATCHING_H_INCLUDED
#define COMPOSITE_MATCHING_H_INCLUDED

#include "composite_impl.h"
#include "composite_decode.h"
#include "netmod/core/handlers.h"

/* A message with a short header begins; the rest is as with MPICH's own (composite_upcalls.c). */
void *MPIDI_COMPOSITE_short_arrived(pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total);
void *MPIDI_COMPOSITE_generic_arrived(pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total);

/* The same, of a synchronous send, and its answer. No longer than that its number can be kept with it. */
typedef struct {
    MPIDI_COMPOSITE_short_header_t header;
    uint64_t asked;             /* what the receiver says when it is matched: odd */
} MPIDI_COMPOSITE_asking_header_t;
#define MPIDI_COMPOSITE_ASKING_LIMIT (PM_SURELY_NOW_LIMIT - sizeof(uint64_t))
extern int MPIDI_COMPOSITE_handler_asking;      /* composite_upcalls.c */
void *MPIDI_COMPOSITE_asking_arrived(pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total);
void *MPIDI_COMPOSITE_answer_arrived(pm_core * core, const pm_envelope * envelope, void *piece, size_t piece_size, size_t total);

/* Whether a receive is posted that this message fits. */
bool MPIDI_COMPOSITE_is_awaited(const MPIDIG_hdr_t * header);

/* Calls `visit` with each receive that is posted, or each message that nobody has asked for, in order. With the lock of the VCI. */
typedef struct {
    MPIR_Context_id_t context;
    int source, tag;
    size_t bytes;               /* of a message */
} MPIDI_COMPOSITE_queued_t;
void MPIDI_COMPOSITE_each_queued(bool posted, void (*visit) (const MPIDI_COMPOSITE_queued_t *, void *), void *context);

/* At the end: what nobody has received, and what is kept for later. Requests are MPICH's. */
void MPIDI_COMPOSITE_forget_queued(void);

#endif
