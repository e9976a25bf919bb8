#ifndef COMPOSITE_PROC_H_INCLUDED
#define COMPOSITE_PROC_H_INCLUDED

#include "composite_impl.h"

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rank_is_local(int rank, MPIR_Comm * comm)
{
    return MPIDIU_rank_is_local(rank, comm);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_av_is_local(MPIDI_av_entry_t * av)
{
    return MPIDIU_av_is_local(av);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_comm_get_gpid(MPIR_Comm * comm_ptr, int idx, uint64_t * gpid_ptr, bool is_remote)
{
    int table = 0, entry = 0;

    if (comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM || is_remote)
        MPIDIU_comm_rank_to_pid(comm_ptr, idx, &entry, &table);
    else
        MPIDIU_comm_rank_to_pid_local(comm_ptr, idx, &entry, &table);
    *gpid_ptr = MPIDIU_GPID_CREATE(table, entry);
    return MPI_SUCCESS;
}

#endif
