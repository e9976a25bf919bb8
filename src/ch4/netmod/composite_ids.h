/* At the end of MPICH's contextid.c (maint/graft-mpich), whose masks it looks at. */
#include <stdint.h>

/* Others have an id before we do when all have said which ones are free and we have not heard what came of that: meanwhile it may be any. */
int MPIDI_COMPOSITE_may_have_id(uint32_t id)
{
    uint32_t number = id >> MPIR_CONTEXT_PREFIX_SHIFT;
    int may;

    MPID_THREAD_CS_ENTER(VCI, MPIR_THREAD_VCI_CTX_MUTEX);
    may = eager_in_use || mask_in_use || next_gcn != NULL ||
        (number < MPIR_MAX_CONTEXT_MASK * MPIR_CONTEXT_INT_BITS &&
         !(context_mask[number / MPIR_CONTEXT_INT_BITS] >> number % MPIR_CONTEXT_INT_BITS & 1));
    MPID_THREAD_CS_EXIT(VCI, MPIR_THREAD_VCI_CTX_MUTEX);
    return may;
}
