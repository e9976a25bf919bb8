#ifndef COMPOSITE_REPORT_H_INCLUDED
#define COMPOSITE_REPORT_H_INCLUDED

#include "composite_impl.h"
#include "composite_decode.h"
#include "netmod/core/setup.h"

/* What every rank tells rank 0 before the last barrier, and what has come so far. */
typedef struct {
    int handler;                /* the same number in every process */
    MPIDI_COMPOSITE_description_t *told;        /* by rank; on rank 0, when there is something */
} MPIDI_COMPOSITE_gathering_t;

/* composite_report.c */
void MPIDI_COMPOSITE_report_init(void);
void MPIDI_COMPOSITE_routes_init(void);         /* after pm_open() */
bool MPIDI_COMPOSITE_routes_at_init(void);
int MPIDI_COMPOSITE_print_plan(const void *const *cards, const size_t * sizes);
/* Before the last barrier: every rank tells rank 0 about its routes, if the user wants to know. After it, it is written. */
int MPIDI_COMPOSITE_send_routes(void);
int MPIDI_COMPOSITE_report(void);
int MPIDI_COMPOSITE_tell(const MPIDI_COMPOSITE_gathering_t * gathering, const void *bytes, size_t size);
const char *MPIDI_COMPOSITE_profile_wanted(void);       /* how; NULL: it is not */
/* composite_profile.c */
extern MPIDI_COMPOSITE_gathering_t MPIDI_COMPOSITE_profiles;
void MPIDI_COMPOSITE_profile_start(void);
int MPIDI_COMPOSITE_profile_tell(void);
/* composite_pvars.c */
void MPIDI_COMPOSITE_register_pvars(void);

#endif
