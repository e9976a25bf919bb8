#ifndef COMPOSITE_OFFER_H_INCLUDED
#define COMPOSITE_OFFER_H_INCLUDED

/* composite_upcalls.c. Apart from composite_impl.h, which all of MPICH includes. */
void MPIDI_COMPOSITE_offered(int tag, void *header, void *offer);

#endif
