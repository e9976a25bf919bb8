#ifndef COMPOSITE_KEEP_H_INCLUDED
#define COMPOSITE_KEEP_H_INCLUDED

/* Waits until everybody has read what broadcasts left with us to be read (composite_coll.c). */
int MPIDI_COMPOSITE_coll_finalize(void);

#endif
