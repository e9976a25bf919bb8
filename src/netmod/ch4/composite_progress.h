#ifndef COMPOSITE_PROGRESS_H_INCLUDED
#define COMPOSITE_PROGRESS_H_INCLUDED

#include "composite_impl.h"

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_progress(int vci, int blocking)
{
    int mpi_errno = MPI_SUCCESS;

    if (unlikely(pm_progress() < 0))
        MPIDI_COMPOSITE_FAIL(mpi_errno);

  fn_fail:
    return mpi_errno;
}

#endif
