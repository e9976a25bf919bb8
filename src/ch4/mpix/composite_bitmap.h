#ifndef COMPOSITE_BITMAP_H_INCLUDED
#define COMPOSITE_BITMAP_H_INCLUDED

#include "mpidimpl.h"

/* An error when a rank of the set is beyond the communicator's last one. */
static inline int MPIDI_COMPOSITE_check_bitmap(const MPIX_Bitmap members[], MPIR_Comm * comm)
{
    int mpi_errno = MPI_SUCCESS;
    int ranks = comm->local_size, beyond = MPIX_Bitmap_next(members, MPIX_BITMAP_WORDS(ranks) * 64, ranks - 1);

    MPIR_ERR_CHKANDJUMP2(beyond >= 0, mpi_errno, MPI_ERR_RANK, "**rank", "**rank %d %d", beyond, ranks);

  fn_fail:
    return mpi_errno;
}

#endif
