/* What this rank waits for, told to those who ask (mpicomposite-why(1)). */
#ifndef COMPOSITE_WHY_H_INCLUDED
#define COMPOSITE_WHY_H_INCLUDED

/* From MPI_Init on questions are answered. */
void MPIDI_COMPOSITE_why_init(void);
/* All ranks are connected; MPI_Finalize frees MPI_COMM_WORLD; it is over. */
void MPIDI_COMPOSITE_why_runs(void);
void MPIDI_COMPOSITE_why_ends(MPIR_Comm * world);
void MPIDI_COMPOSITE_why_over(void);

/* Now and then, between polls, with the lock held. */
void MPIDI_COMPOSITE_why_attend(void);

/* composite_direct.c: the last group of MPI_Win_start or MPI_Win_post on a direct window, or NULL. */
MPIR_Group *MPIDI_COMPOSITE_direct_group(MPIR_Win * win, bool access);

#endif
