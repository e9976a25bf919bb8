/* composite_win.c */
#ifndef COMPOSITE_WIN_H_INCLUDED
#define COMPOSITE_WIN_H_INCLUDED

#include "composite_impl.h"

int MPIDI_COMPOSITE_windows_init(void); /* PM_OK or PM_FAILED */

/* Collective, when a window is made and before it is freed. `registers`: devices may reach its memory by themselves. */
int MPIDI_COMPOSITE_window_open(MPIR_Win * win, bool registers);
void MPIDI_COMPOSITE_window_close(MPIR_Win * win);

/* `*flag` is set when what was written before, and notifies, has happened everywhere. */
int MPIDI_COMPOSITE_start_sync(MPIR_Win * win, volatile int *flag);
/* Until everything that devices do alone has happened. */
int MPIDI_COMPOSITE_complete_alone(MPIR_Win * win);

#endif
