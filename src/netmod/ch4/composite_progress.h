#ifndef COMPOSITE_PROGRESS_H_INCLUDED
#define COMPOSITE_PROGRESS_H_INCLUDED

#include "composite_impl.h"

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_progress(int vci, int blocking)
{
    return unlikely(pm_progress() < 0) ? MPIDI_COMPOSITE_lost() : MPI_SUCCESS;
}

#endif
