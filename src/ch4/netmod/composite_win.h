#ifndef COMPOSITE_WIN_H_INCLUDED
#define COMPOSITE_WIN_H_INCLUDED

#include "composite_impl.h"

/* composite_win.c: collective, when a window is made and before it is freed. */
int MPIDI_COMPOSITE_share_window(MPIR_Win * win);
int MPIDI_COMPOSITE_share_counts(MPIR_Win * win, void *counts, size_t size);
void MPIDI_COMPOSITE_unshare_window(MPIR_Win * win);

bool MPIDI_COMPOSITE_writes_by_itself(MPIR_Win * win, int target_rank);
/* `*taken` is false when it should go another way. */
int MPIDI_COMPOSITE_put_and_count(MPIR_Win * win, int target_rank, uint64_t offset, const void *data, size_t size,
                                  uint64_t count, bool * taken);

/* ch4/mpix/composite_notify.c: the same, and until everything it wrote has happened. */
int MPIDI_COMPOSITE_notify_open(MPIR_Win * win);
void MPIDI_COMPOSITE_notify_close(MPIR_Win * win);
int MPIDI_COMPOSITE_notify_complete(MPIR_Win * win);

#endif
