/* Partitioned communication: composite_partitioned.c. */
#ifndef COMPOSITE_PART_H_INCLUDED
#define COMPOSITE_PART_H_INCLUDED

#include "composite_impl.h"

int MPIDI_COMPOSITE_partitions_start(MPIR_Request * request);
/* Partitions `first` and following when `partitions` is NULL. All or none of them become ready. */
int MPIDI_COMPOSITE_partitions_ready(MPIR_Request * request, int n, const int partitions[], int first);
int MPIDI_COMPOSITE_partition_arrived(MPIR_Request * request, int partition, int *flag);

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_part_start(MPIR_Request * request)
{
    return MPIDI_COMPOSITE_partitions_start(request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_pready_range(int partition_low, int partition_high, MPIR_Request * request)
{
    return MPIDI_COMPOSITE_partitions_ready(request, partition_high - partition_low + 1, NULL, partition_low);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_pready_list(int length, int array_of_partitions[], MPIR_Request * request)
{
    return MPIDI_COMPOSITE_partitions_ready(request, length, array_of_partitions, 0);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_parrived(MPIR_Request * request, int partition, int *flag)
{
    return MPIDI_COMPOSITE_partition_arrived(request, partition, flag);
}

#endif
