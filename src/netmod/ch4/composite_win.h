#ifndef COMPOSITE_WIN_H_INCLUDED
#define COMPOSITE_WIN_H_INCLUDED

#include "composite_impl.h"

/* composite_win.c: collective, when a window is made and before it is freed. */
int MPIDI_COMPOSITE_share_window(MPIR_Win * win);
void MPIDI_COMPOSITE_unshare_window(MPIR_Win * win);

#endif
