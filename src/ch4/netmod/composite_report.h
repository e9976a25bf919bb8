#ifndef COMPOSITE_REPORT_H_INCLUDED
#define COMPOSITE_REPORT_H_INCLUDED

#include "composite_impl.h"

/* composite_report.c */
void MPIDI_COMPOSITE_report_init(void);
void MPIDI_COMPOSITE_routes_init(void);         /* after pm_open() */
bool MPIDI_COMPOSITE_routes_at_init(void);
int MPIDI_COMPOSITE_print_plan(const void *const *cards, const size_t * sizes);
/* Before the last barrier: every rank tells rank 0 about its routes, if the user wants to know. After it, it is written. */
int MPIDI_COMPOSITE_send_routes(void);
int MPIDI_COMPOSITE_report(void);
/* composite_pvars.c */
void MPIDI_COMPOSITE_register_pvars(void);

#endif
