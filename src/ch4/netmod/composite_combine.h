/* Numbers and operations of MPI that are ours (coll/element.h), for one-sided operations and collectives; and reductions of them, for collectives of ours
 * and wherever MPICH reduces. */
#ifndef COMPOSITE_COMBINE_H_INCLUDED
#define COMPOSITE_COMBINE_H_INCLUDED

#include "coll/element.h"

/* By the lowest byte of the handle of a predefined datatype or operation: a pm_element, and a pm_operation. */
extern unsigned char MPIDI_COMPOSITE_elements[256], MPIDI_COMPOSITE_operations[256];

/* Once, before anything is reduced; and back. */
void MPIDI_COMPOSITE_combine_init(void);
void MPIDI_COMPOSITE_combine_finalize(void);

/* out = left op right, of a datatype without gaps. `out` may be `right`; otherwise it overlaps neither. */
int MPIDI_COMPOSITE_combine(const void *left, const void *right, void *out, MPI_Aint count, MPI_Datatype type, MPI_Op op);

#endif
